//! The golden packets in `vectors/`.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::{fs, path::PathBuf};

pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors"))
}

/// Asserts that the files of this name hold these bytes, and what they say to a person. With `TREECAST_WRITE_VECTORS=1`, both files
/// are written first.
#[track_caller]
pub fn must_hold(name: &str, bytes: &[u8], text: &str) {
    let path = |ending| folder().join(format!("{name}.{ending}"));
    if std::env::var_os("TREECAST_WRITE_VECTORS").is_some() {
        fs::write(path("bin"), bytes).expect("vectors/ can be written");
        fs::write(path("txt"), text).expect("vectors/ can be written");
    }
    assert_eq!(fs::read(path("bin")).expect("a vector"), bytes, "{name}");
    assert_eq!(fs::read_to_string(path("txt")).expect("a snapshot"), text, "{name}");
}
