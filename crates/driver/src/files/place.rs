//! The places of what is sent.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, fs::FileTypeExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use treecast_host::{
    device::{self, Use},
    root::{Root, open_named},
};

use super::{Change, SourceError};

/// The place of a file, folder or link to send. An entry that a user has named is opened by its path. An entry that
/// was found in a folder is opened below that folder's descriptor. So nobody who may rename things there can lead the
/// sender elsewhere.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    below: Option<Below>,
}

#[derive(Debug, Clone)]
struct Below {
    root: Arc<Root>,
    /// The position in the whole path at which the path below the root begins.
    start: usize,
}

impl Place {
    /// A place that a user has named. Symbolic links are followed there.
    pub fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), below: None }
    }

    /// The place `name` below a folder that is open. An empty name is the folder itself.
    pub fn below(root: &Arc<Root>, path_of_root: &Path, name: &Path) -> Self {
        let has_name = !name.as_os_str().is_empty();
        let path = if has_name { path_of_root.join(name) } else { path_of_root.to_owned() };
        let start = path.as_os_str().len() - name.as_os_str().len();
        Self { path, below: Some(Below { root: root.clone(), start }) }
    }

    /// The path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder around it, and its path there. `None` for a place that a user has named.
    pub(super) fn root(&self) -> Option<(&Root, &Path)> {
        let Below { root, start } = self.below.as_ref()?;
        let below = self.path.as_os_str().as_bytes().get(*start..).unwrap_or_default();
        Some((root, Path::new(OsStr::from_bytes(below))))
    }

    /// Opens the file, or the block device that a user has named.
    ///
    /// # Errors
    /// If it is missing, unreadable, something else, or a device that may change while it is sent.
    pub(super) fn open(&self) -> Result<File, SourceError> {
        // What is below a folder has been listed as a file.
        if self.below.is_some() {
            return self.open_again();
        }
        let failed = |source| self.unreadable(source);
        let opened = self.open_if_file().map_err(failed)?;
        let file = opened.ok_or_else(|| SourceError::NotRegular { path: self.path.clone() })?;
        if file.metadata().map_err(failed)?.file_type().is_block_device() {
            self.check_unused()?;
        }
        Ok(file)
    }

    /// Opens what has been a file.
    ///
    /// # Errors
    /// If it is gone, something else is there, or it cannot be read.
    pub(super) fn open_again(&self) -> Result<File, SourceError> {
        match self.open_if_file() {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(self.changed(Change::Replaced)),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn open_if_file(&self) -> io::Result<Option<File>> {
        match self.root() {
            Some((root, below)) => root.file(below),
            None => open_named(&self.path),
        }
    }

    /// Refuses a device that changes while it is sent: receivers would get an image that never was.
    pub(super) fn check_unused(&self) -> Result<(), SourceError> {
        let changes = |its: &Use| !matches!(its, Use::Mounted { is_writable: false, .. } | Use::Held { .. });
        match device::uses(&self.path).into_iter().find(changes) {
            Some(its) => Err(SourceError::InUse { path: self.path.clone(), its }),
            None => Ok(()),
        }
    }

    /// The error for something that was there and cannot be opened now.
    pub(super) fn lost(&self, error: io::Error) -> SourceError {
        match error.raw_os_error() {
            Some(libc::ENOENT) => self.changed(Change::Removed),
            Some(libc::ELOOP | libc::ENOTDIR | libc::EINVAL) => self.changed(Change::Replaced),
            _ => self.unreadable(error),
        }
    }

    pub(super) fn unreadable(&self, source: io::Error) -> SourceError {
        SourceError::Unreadable { path: self.path.clone(), source }
    }

    pub(super) fn changed(&self, how: Change) -> SourceError {
        SourceError::Changed { path: self.path.clone(), how }
    }
}
