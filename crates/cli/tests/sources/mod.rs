//! The workspace's own source files, for tests that read them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The Rust files below a path, which may be a file itself.
pub fn rust_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return Vec::from_iter(
            path.extension().is_some_and(|extension| extension == "rs").then(|| path.to_owned()),
        );
    }
    let entries = fs::read_dir(path).expect("a source folder is readable").flatten();
    entries.flat_map(|entry| rust_files(&entry.path())).collect()
}

/// A source file without the tests at its end.
pub fn before_tests(code: &str) -> &str {
    code.split_once("\n#[cfg(test)]\nmod ").map_or(code, |(code, _)| code)
}
