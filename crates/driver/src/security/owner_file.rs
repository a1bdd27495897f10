//! Files that only their owner may read, because they contain keys.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

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
