//! A file that is sent: checked when it is opened, and watched for changes while it is read.

use std::{
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Why a file cannot be sent, or not any longer.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error("cannot read {path}: {source}; check the name and the permissions", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is neither a file nor a folder: name regular files or folders of them", path = path.display())]
    NotRegular { path: PathBuf },
    #[error("{path} changed while it was sent: send it again when nothing writes to it", path = path.display())]
    Changed { path: PathBuf },
    #[error("{path} became shorter while it was sent: send it again when nothing writes to it", path = path.display())]
    Shrunk { path: PathBuf },
    #[error("{path} and {other} would both be called {name}: rename one or send them apart", path = path.display(), other = other.display())]
    SameName { path: PathBuf, other: PathBuf, name: String },
    #[error("the name of {path} cannot be sent ({why}): rename it", path = path.display())]
    Name { path: PathBuf, why: String },
    #[error("nothing to send: {path} holds no regular file", path = path.display())]
    Nothing { path: PathBuf },
}

/// What must stay the same while a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// A regular file that is read by several objects' worth of positions at once. Open only while it is read.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    identity: Identity,
    file: Option<File>,
}

impl Source {
    /// Opens the file once, to see that it can be read, and takes down its size and time.
    ///
    /// # Errors
    /// When it is missing, unreadable or no regular file.
    pub fn new(path: &Path) -> Result<Self, SourceError> {
        let (_, identity) = open(path)?;
        Ok(Self { path: path.to_owned(), identity, file: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Fills `into` with the file's bytes from `position` on.
    ///
    /// # Errors
    /// When the file is not the one it was, ends too early or cannot be read.
    pub fn read(&mut self, position: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(reopen(&self.path, self.identity)?),
        };
        file.read_exact_at(into, position).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => SourceError::Shrunk { path: self.path.clone() },
            _ => SourceError::Unreadable { path: self.path.clone(), source },
        })
    }

    /// Whether the file is still what it was when it was opened.
    ///
    /// # Errors
    /// When its size, its time of change, or the file behind its name is another.
    pub fn check_unchanged(&self) -> Result<(), SourceError> {
        let unreadable = |source| SourceError::Unreadable { path: self.path.clone(), source };
        let now = match &self.file {
            Some(file) => identity(file).map_err(unreadable)?,
            None => open(&self.path)?.1,
        };
        compare(&self.path, self.identity, now)
    }

    /// Closes the file until it is read again.
    pub fn close(&mut self) {
        self.file = None;
    }
}

fn open(path: &Path) -> Result<(File, Identity), SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
    // Opening a pipe would wait for its other end, so look before.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(SourceError::NotRegular { path: path.to_owned() });
    }
    let file = File::open(path).map_err(unreadable)?;
    let identity = identity(&file).map_err(unreadable)?;
    Ok((file, identity))
}

fn reopen(path: &Path, expected: Identity) -> Result<File, SourceError> {
    let (file, now) = open(path)?;
    compare(path, expected, now)?;
    // SAFETY: a plain call on an open file; the advice only makes the kernel read further ahead.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_SEQUENTIAL) };
    Ok(file)
}

fn compare(path: &Path, expected: Identity, now: Identity) -> Result<(), SourceError> {
    let path = path.to_owned();
    if now.size < expected.size {
        return Err(SourceError::Shrunk { path });
    }
    if now != expected { Err(SourceError::Changed { path }) } else { Ok(()) }
}

fn identity(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::walk::tests::scratch;

    #[test]
    fn shrinking_and_changing_are_noticed() {
        let folder = scratch("source");
        let path = folder.join("file");
        std::fs::write(&path, [1; 1000]).unwrap();
        let mut source = Source::new(&path).unwrap();
        let mut bytes = [0; 600];
        source.read(400, &mut bytes).unwrap();
        source.check_unchanged().unwrap();

        File::options().write(true).open(&path).unwrap().set_len(900).unwrap();
        let error = source.read(400, &mut bytes).unwrap_err();
        assert!(matches!(error, SourceError::Shrunk { .. }), "{error}");
        assert!(matches!(source.check_unchanged(), Err(SourceError::Shrunk { .. })));

        std::fs::write(&path, [2; 2000]).unwrap();
        assert!(matches!(source.check_unchanged(), Err(SourceError::Changed { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_file_is_refused_in_one_line() {
        let missing = Source::new(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file") && !missing.contains('\n'), "{missing}");
        assert!(matches!(Source::new(Path::new("/dev/null")), Err(SourceError::NotRegular { .. })));
    }
}
