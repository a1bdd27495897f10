//! Reading short texts that people write.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{OFlags, fcntl_setfl};

/// Reads a regular file of at most `max_bytes`.
///
/// # Errors
/// What the system says, or `InvalidData` if it is no regular file, no text, or longer.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<String> {
    // To open a pipe would wait for a writer.
    match path.metadata()? {
        found if found.is_dir() => Err(invalid("it is a folder")),
        found if !found.is_file() => Err(invalid("it is no regular file")),
        _ => read_any(path, max_bytes),
    }
}

/// Reads a text of at most `max_bytes` from a file or pipe. Waits for a pipe's writer.
///
/// # Errors
/// What the system says, or `InvalidData` for what is no text, or is longer.
pub fn read_any(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_whole(File::open(path)?, max_bytes)
}

/// Reads a text of at most `max_bytes` from a file, or from a pipe that somebody writes into, such as a shell's `<(..)`.
///
/// # Errors
/// As [`read_any`], and `InvalidData` if nobody has opened the pipe to write.
pub fn read_written(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut start = [0; 1024];
    let len = match file.read(&mut start) {
        Ok(0) if file.metadata()?.file_type().is_fifo() => {
            return Err(invalid("nobody writes into the pipe"));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        read => read?,
    };
    fcntl_setfl(&file, OFlags::empty())?;
    read_whole(start[..len].chain(file), max_bytes)
}

fn read_whole(file: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // A device has no length to look at first.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let limit = match max_bytes {
            0..0x400 => format!("{max_bytes} bytes"),
            0x400..0x10_0000 => format!("{} KiB", max_bytes >> 10),
            _ => format!("{} MiB", max_bytes >> 20),
        };
        return Err(invalid(&format!("it is longer than {limit}")));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it holds no text"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsRawFd, thread, time::Duration};

    use super::*;

    #[test]
    fn a_text_that_never_ends_or_is_none_is_refused() {
        let refused = |path: &str, max_bytes| read_any(Path::new(path), max_bytes).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero", 1000), "it is longer than 1000 bytes");
        assert_eq!(refused("/dev/zero", 64 << 10), "it is longer than 64 KiB");
        assert_eq!(refused("/dev/zero", 2 << 20), "it is longer than 2 MiB");
        assert_eq!(refused("/proc/self/exe", 1 << 30), "it holds no text");
        assert!(refused("/no/such", 1000).contains("No such file"));
        let no_file = |path: &str| read(Path::new(path), 1000).unwrap_err().to_string();
        assert_eq!([no_file("/dev/zero"), no_file("/proc")], ["it is no regular file", "it is a folder"]);
    }

    #[test]
    fn a_pipe_is_read_to_its_end_if_somebody_writes() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let read = |max_bytes| read_written(Path::new(&path), max_bytes);
        writer.write_all(b"one\n").unwrap();
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            writer.write_all(&[b'x'; 5000]).unwrap();
            thread::sleep(Duration::from_millis(100));
        });
        assert_eq!(read(1 << 20).unwrap(), format!("one\n{}", "x".repeat(5000)));
        late.join().unwrap();
        assert_eq!(read(1 << 20).unwrap_err().to_string(), "nobody writes into the pipe");
        assert_eq!(
            read_written(Path::new("/dev/zero"), 1000).unwrap_err().to_string(),
            "it is longer than 1000 bytes"
        );
        assert_eq!(read_written(Path::new("/dev/null"), 1000).unwrap(), "");
    }
}
