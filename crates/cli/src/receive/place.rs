//! `receive --to`: the one file of a session goes to a block device, or gets a path of its own.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use treecast_host::{device, temporary::TemporaryFolder};

/// Where the one file of a session goes.
pub(super) struct Place {
    path: PathBuf,
    folder: TemporaryFolder,
    is_device: bool,
    is_taken: bool,
}

impl Place {
    /// Prepares for a device, or makes a temporary folder beside `path`, where the file is until it is complete. What is kept beside a
    /// device goes to a temporary folder in `into`.
    ///
    /// # Errors
    /// If the path is for neither, or no folder can be made, in words.
    pub fn new(path: &Path, into: Option<&Path>) -> Result<Self, String> {
        let is_device = device::is_device(path);
        match is_device {
            true => {}
            false if path.is_dir() => {
                return Err(format!("{} is a folder: files go there with --into", path.display()));
            }
            false if path.file_name().is_none() || (path.exists() && !path.is_file()) => {
                return Err(format!(
                    "{} is neither a file nor a block device: name one of these",
                    path.display()
                ));
            }
            false if is_among_devices(path) => {
                return Err(format!("there is no such device: {}", path.display()));
            }
            false => {}
        }
        let parent = match (is_device, into) {
            // A file gets its name by a rename, which needs one file system.
            (false, _) => beside(path).to_owned(),
            (true, Some(into)) => into.to_owned(),
            (true, None) => std::env::temp_dir(),
        };
        let make = || {
            fs::create_dir_all(&parent)?;
            TemporaryFolder::new(&parent, ".treecast-to-")
        };
        let folder =
            make().map_err(|error| format!("cannot make a folder in {}: {error}", parent.display()))?;
        Ok(Self { path: path.to_owned(), folder, is_device, is_taken: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for the session's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Whether the file has come.
    pub fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Takes a complete and verified file of this name.
    ///
    /// # Errors
    /// If it is the second one, or cannot have its path, in words.
    pub fn take(&mut self, name: &str) -> Result<(), String> {
        if std::mem::replace(&mut self.is_taken, true) {
            return Err(ONE_FILE.to_owned());
        }
        if self.is_device {
            return Ok(());
        }
        fs::rename(self.folder.path().join(name), &self.path)
            .map_err(|error| format!("cannot give {name} the path {}: {error}", self.path.display()))
    }
}

/// The folder of a path.
fn beside(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a path is below `/dev`. Other file systems there, such as `/dev/shm`, are for files.
fn is_among_devices(path: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    match beside(path).canonicalize() {
        Ok(parent) => parent.starts_with("/dev") && device(&parent) == device(Path::new("/dev")),
        Err(_) => path.starts_with("/dev"),
    }
}

/// The error for a session of several files.
const ONE_FILE: &str = "the session has several files, and --to takes one: choose it with --only";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_device_does_not_become_a_file() {
        for path in ["/dev/treecast-none", "/dev/treecast-none/1", "/dev/../dev/treecast-none"] {
            let line = Place::new(Path::new(path), None).err().unwrap();
            assert_eq!(line, format!("there is no such device: {path}"));
        }
        assert!(!is_among_devices(&std::env::temp_dir().join("dev")) && !is_among_devices(Path::new("dev")));
    }
}
