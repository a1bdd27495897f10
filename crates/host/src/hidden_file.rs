//! Files that are written under a hidden name beside their place, and take that place when they are complete.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Makes an empty file under a hidden name beside `place`, with this mode. Returns it with its path. What a process with the same
/// number has left there is removed.
///
/// # Errors
/// If the path names no file, or the folder cannot be written to.
pub fn create(place: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let name = place.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let hidden = place.with_file_name(hidden);
    _ = fs::remove_file(&hidden);
    let file = File::options().write(true).create_new(true).mode(mode).open(&hidden)?;
    Ok((file, hidden))
}
