//! Files that only their owner may read, because they contain keys.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use treecast_host::text::check_private;
use zeroize::Zeroizing;

/// Why a file that contains a key cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    System(io::Error),
    /// Somebody else may read it or has made it, in words.
    Exposed(String),
    /// It is no such file, in words.
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
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(hidden);
    // A link never takes the place of a file that is there.
    let result = write_whole(&temporary, text).and_then(|()| fs::hard_link(&temporary, path));
    // Where nothing could be written, there is nothing to remove.
    _ = fs::remove_file(&temporary);
    result
}

fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    // Left there by a process of the same number that was killed.
    _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
