//! The file with a key that several hosts share: the routers and senders of a MEADcast domain, or beacons.

use std::{fs, io, path::Path};

use treecast::unstable::options::DomainKey;
use treecast_host::text;

/// The largest file that is read, in bytes. A key is shorter.
const MAX_LEN: u64 = 4096;

const MAKES_ONE: &str = "`(umask 077; openssl rand -hex 32 > FILE)`";

/// Reads the key file of a domain. The error is one line.
pub fn read(path: &Path) -> Result<DomainKey, String> {
    read_with(path, DomainKey::from_hex)
}

/// Reads a key file whose text `parse` understands. The error is one line.
pub fn read_with<K, E: std::fmt::Display>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<K, E>,
) -> Result<K, String> {
    let wrong = |why: String| format!("cannot use the key in {}: {why}", path.display());
    let unreadable = |error: &io::Error| {
        wrong(format!(
            "{error}; name the file that the other hosts have, or make one for all of them: {MAKES_ONE}"
        ))
    };
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return Err(wrong("it is a folder; name the file".to_owned()));
    }
    text::check_private(&metadata)
        .map_err(|why| wrong(format!("{why}; make it yours with `chown` and `chmod 600`")))?;
    let text = text::read_private(path, MAX_LEN).map_err(|error| unreadable(&error))?;
    parse(&text).map_err(|error| wrong(error.to_string()))
}
