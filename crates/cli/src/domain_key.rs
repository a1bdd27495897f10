//! The file with the key that a domain's MEADcast routers and senders share.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use treecast_lab::read_text;
use treecast_proto::mead::authentication::DomainKey;

/// More than a key has.
const MAX_LEN: u64 = 4096;

/// For groups and others.
const OTHERS: u32 = 0o077;

/// Reads it; the error is one line.
pub fn read(path: &Path) -> Result<DomainKey, String> {
    let wrong = |why: String| format!("cannot use the domain key in {}: {why}", path.display());
    let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
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
    let text = read_text(path, MAX_LEN).map_err(|error| wrong(error.to_string()))?;
    DomainKey::from_hex(&text).map_err(|error| wrong(error.to_string()))
}
