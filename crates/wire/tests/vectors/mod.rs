//! The golden packets in `vectors/`. Each protocol has a folder there, named by the first word of its files.
#![allow(clippy::disallowed_methods, reason = "the vectors are files")]

use std::{collections::BTreeSet, fs, path::PathBuf};

pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors"))
}

/// Asserts that the files of this name hold these bytes, and what they say to a person. With `TREECAST_WRITE_VECTORS=1`, both files
/// are written first.
#[track_caller]
pub fn must_hold(name: &str, bytes: &[u8], text: &str) {
    let (packet, snapshot) = (path(name, "bin"), path(name, "txt"));
    if std::env::var_os("TREECAST_WRITE_VECTORS").is_some() {
        fs::create_dir_all(packet.parent().expect("a protocol's folder")).expect("vectors/ can be written");
        fs::write(&packet, bytes).expect("vectors/ can be written");
        fs::write(&snapshot, text).expect("vectors/ can be written");
    }
    assert_eq!(fs::read(packet).expect("a vector"), bytes, "{name}");
    assert_eq!(fs::read_to_string(snapshot).expect("a snapshot"), text, "{name}");
}

/// The file of a vector: `bin` holds its bytes, `txt` what they say to a person.
pub fn path(name: &str, ending: &str) -> PathBuf {
    folder().join(protocol(name)).join(format!("{name}.{ending}"))
}

/// The protocol of a vector, which is the folder that it is in.
pub fn protocol(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// The names of all vectors with bytes, those of every protocol.
pub fn names() -> BTreeSet<String> {
    let folders =
        fs::read_dir(folder()).expect("vectors/ is there").map(|entry| entry.expect("readable").path());
    let entries = folders.flat_map(|path| fs::read_dir(path).expect("a protocol's folder"));
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    names.filter_map(|name| name.strip_suffix(".bin").map(str::to_owned)).collect()
}
