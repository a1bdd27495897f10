//! A file of /proc that stays open and is read repeatedly.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use super::SampleError;

/// The largest number of bytes that is read. The longest file here, /proc/stat of a large machine, has the
/// relevant values in its first line.
const MAX_LEN: usize = 64 * 1024;

pub struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SampleError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| SampleError::File { path: path.to_owned(), source })?;
        Ok(Self { file, buffer: vec![0; 4096] })
    }

    /// Reads the file. Fails if the process that it describes is gone.
    pub fn read(&mut self) -> io::Result<&str> {
        let mut len = 0;
        loop {
            match self.file.read_at(&mut self.buffer[len..], len as u64)? {
                0 => break,
                n => len += n,
            }
            if len == self.buffer.len() {
                if len >= MAX_LEN {
                    break;
                }
                self.buffer.resize(len * 2, 0);
            }
        }
        std::str::from_utf8(&self.buffer[..len]).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_from_its_start_and_a_long_one_whole() {
        let mut file = ProcFile::open("/proc/self/stat").unwrap();
        assert!(file.read().unwrap().starts_with(&std::process::id().to_string()));
        assert!(file.read().unwrap().starts_with(&std::process::id().to_string()));

        let long = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(long.path(), "x".repeat(10_000)).unwrap();
        assert_eq!(ProcFile::open(long.path()).unwrap().read().unwrap().len(), 10_000);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = ProcFile::open("/proc/no such file").err().unwrap();
        assert!(error.to_string().contains("/proc/no such file"));
    }
}
