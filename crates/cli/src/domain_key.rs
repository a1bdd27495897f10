//! The file with the key that a domain's MEADcast routers and senders share.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use treecast_lab::read_text;
use treecast_proto::explicit::authentication::DomainKey;

/// More than a key has.
const MAX_LEN: u64 = 4096;

/// For groups and others.
const OTHERS: u32 = 0o077;

const MAKES_ONE: &str = "`(umask 077; openssl rand -hex 32 > FILE)`";

/// Reads it; the error is one line.
pub fn read(path: &Path) -> Result<DomainKey, String> {
    let wrong = |why: String| format!("cannot use the domain key in {}: {why}", path.display());
    let unreadable = |error: &io::Error| {
        wrong(format!(
            "{error}; name the file that the domain's routers have, or make one for all of them: {MAKES_ONE}"
        ))
    };
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return Err(wrong("it is a folder; name the file".to_owned()));
    }
    let mode = metadata.mode();
    if mode & OTHERS != 0 {
        return Err(wrong(format!(
            "others than its owner may read it (mode {:04o}); `chmod 600` it",
            mode & 0o7777
        )));
    }
    let text = read_text(path, MAX_LEN).map_err(|error| unreadable(&error))?;
    DomainKey::from_hex(&text).map_err(|error| wrong(error.to_string()))
}
