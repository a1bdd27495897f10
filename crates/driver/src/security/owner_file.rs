//! Files that only their owner may read, because they contain keys.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use treecast_host::{hidden_file, text::check_private};
use zeroize::Zeroizing;

/// The reason why a file that contains a key cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    System(io::Error),
    /// Somebody else may read it or has made it, in words.
    Exposed(String),
    /// The file is no such file, in words.
    Foreign(&'static str),
}

/// Reads a text of at most `max_len` bytes, of a regular file that only its owner may read.
///
/// # Errors
/// The reason why it is no such file, or cannot be read.
pub(crate) fn read(path: &Path, max_len: u64) -> Result<Zeroizing<String>, Unusable> {
    // A named pipe would keep it waiting for ever.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(Unusable::System)?;
    let metadata = file.metadata().map_err(Unusable::System)?;
    if !metadata.is_file() {
        return Err(Unusable::Foreign("it is no regular file"));
    }
    check_private(&metadata).map_err(Unusable::Exposed)?;
    if metadata.len() > max_len {
        return Err(Unusable::Foreign("it is too long"));
    }
    // As long as it can get, so that no copy is left behind where it grew.
    let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
    match file.take(metadata.len()).read_to_string(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Unusable::Foreign("it is no text")),
        Err(error) => Err(Unusable::System(error)),
        Ok(_) => Ok(text),
    }
}

/// Writes a file that must not be there yet. It is there whole or not at all.
///
/// # Errors
/// `AlreadyExists` when something has the name; others when it cannot be written.
pub(crate) fn create(path: &Path, text: &[u8]) -> io::Result<()> {
    let (mut file, temporary) = hidden_file::create(path, 0o600)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    // A link never takes the place of a file that is there.
    let result = written.and_then(|()| fs::hard_link(&temporary, path));
    _ = fs::remove_file(&temporary);
    result
}
