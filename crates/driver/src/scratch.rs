//! Folders for tests.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

/// A folder for one test, which is removed when this is dropped.
pub struct Scratch(PathBuf);

/// Makes an empty folder. The name tells it from those of other tests.
pub fn scratch(name: &str) -> Scratch {
    scratch_in(&std::env::temp_dir(), name)
}

/// Makes an empty folder on the disk of the code, where space is reserved for files. A folder in memory has none to reserve.
pub fn scratch_on_disk(name: &str) -> Scratch {
    scratch_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), name)
}

fn scratch_in(parent: &Path, name: &str) -> Scratch {
    let folder = parent.join(format!("treecast-test-{name}-{}", std::process::id()));
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    Scratch(folder)
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test may have removed it.
        _ = fs::remove_dir_all(&self.0);
    }
}
