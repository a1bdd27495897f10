//! Temporary folders that do not outlive their process for long, even if it is killed.
//!
//! The owner of a folder keeps a lock on it, which the kernel releases however the process ends. Whoever makes the next folder with
//! the same prefix, in the same place and as the same user, removes the ones without a lock.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{
    folder::{Lock, lock, status_at},
    root::Root,
};

/// The most names that are tried for a folder. Others may have some of them.
const TRIES: u32 = 1000;

/// An empty folder for this user alone. It is removed with its content when the process that has made it drops this. A child that
/// was forked has a copy of this value, and its end changes nothing.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// The number of the process that has made it.
    process: u32,
    /// Holds the lock. Without it, where the file system has no locks, nobody removes the folder of a killed process.
    root: Arc<Root>,
}

impl TemporaryFolder {
    /// Makes a folder in `parent`, whose name begins with `prefix`. Removes those of processes that were killed.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        /// Tells the folders of a process apart.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_left(parent, prefix);
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{prefix}{}-{number}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            if let Some((_, root)) = take(&path)? {
                return Ok(Self { path, process: process::id(), root: Arc::new(root) });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder. It stays the same if another takes its path.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if process::id() == self.process {
            remove(&self.root, &self.path);
        }
    }
}

/// Locks a folder, where the file system has locks. `None` if another process has locked it, or removed it meanwhile: it may have taken
/// a new folder for one that was left.
fn take(path: &Path) -> io::Result<Option<(Lock, Root)>> {
    let folder = match Root::open_itself(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let lock = lock(&folder);
    if lock == Lock::Taken {
        return Ok(None);
    }
    let (ours, there) = (status_at(&folder, c"")?, fs::symlink_metadata(path));
    let is_there = there.is_ok_and(|there| (there.dev(), there.ino()) == ours.inode);
    Ok(is_there.then_some((lock, folder)))
}

/// Removes an open folder with its content. What has taken its path meanwhile stays, unless that is an empty folder.
fn remove(folder: &Root, path: &Path) {
    _ = folder.clear();
    _ = fs::remove_dir(path);
}

/// Removes this user's folders with the prefix that nobody has locked.
fn remove_left(parent: &Path, prefix: &str) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        let path = entry.path();
        let is_ours = |folder: &Root| status_at(folder, c"").is_ok_and(|folder| folder.is_ours());
        // The lock is kept until the folder is gone: its maker may be about to take it.
        if let Ok(Some((Lock::Ours, folder))) = take(&path)
            && is_ours(&folder)
        {
            remove(&folder, &path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_without_an_owner_are_removed_and_others_stay() {
        let parent = TemporaryFolder::new(&std::env::temp_dir(), "treecast-temporary-").unwrap();
        let first = TemporaryFolder::new(parent.path(), "a-").unwrap();
        for left in ["a-left", "b-left"] {
            fs::create_dir(parent.path().join(left)).unwrap();
            fs::write(parent.path().join(left).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(parent.path().join("b-left"), parent.path().join("a-link")).unwrap();
        let second = TemporaryFolder::new(parent.path(), "a-").unwrap();
        let is_there = |name: &str| parent.path().join(name).symlink_metadata().is_ok();
        assert!(first.path().is_dir() && second.path().is_dir() && first.path() != second.path());
        assert_eq!(["a-left", "a-link", "b-left"].map(is_there), [false, true, true]);
        assert_eq!(fs::metadata(second.path()).unwrap().mode() & 0o777, 0o700);
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn folders_that_are_made_at_the_same_time_do_not_remove_each_other() {
        let parent = TemporaryFolder::new(&std::env::temp_dir(), "treecast-together-").unwrap();
        let make = || {
            let folder = TemporaryFolder::new(parent.path(), "a-").unwrap();
            std::thread::yield_now();
            fs::write(folder.path().join("file"), "x").unwrap();
        };
        std::thread::scope(|scope| {
            (0..8).for_each(|_| _ = scope.spawn(|| (0..500).for_each(|_| make())));
        });
    }
}
