//! A block device in place of a folder: the one object of a session is written to it as it comes.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use thiserror::Error;
use treecast_host::device::{self, Use};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ObjectKind},
};

use crate::words::bytes;

/// The reason why a device is not written to.
#[derive(Debug, Error)]
pub enum DeviceError {
    #[error("cannot write to {}: {its}; unmount it, or choose another device", path.display())]
    InUse { path: PathBuf, its: Use },
    #[error("cannot write to {}: it is in use; unmount it and its partitions, or choose another device", path.display())]
    Busy { path: PathBuf },
    #[error("cannot write to {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error(
        "{} has {}, and {name} needs {} more: nothing is written; take a larger device",
        path.display(), bytes(*has), bytes(needs.saturating_sub(*has))
    )]
    TooSmall { path: PathBuf, has: u64, name: String, needs: u64 },
    #[error("the session has more than one file, and {} takes one: choose it by its name", path.display())]
    OneFile { path: PathBuf },
}

/// An open device that nobody else can mount.
#[derive(Debug, Clone)]
pub struct Device {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
    /// Whether what was written is read back from the device before it counts.
    reads_back: bool,
    /// The object that it is for.
    object: Arc<Mutex<Option<FileId>>>,
}

impl Device {
    /// Opens a device that neither is in use nor has a partition that is.
    ///
    /// # Errors
    /// The reason why the device is not written to.
    pub fn open(path: &Path, reads_back: bool) -> Result<Self, DeviceError> {
        if let Some(its) = device::uses(path).into_iter().next() {
            return Err(DeviceError::InUse { path: path.to_owned(), its });
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::ResourceBusy => DeviceError::Busy { path: path.to_owned() },
            _ => DeviceError::Open { path: path.to_owned(), source },
        };
        let file = device::open_to_write(path).map_err(failed)?;
        let size = device::size(&file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file), size, reads_back, object: Arc::default() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what was written is read back from the device before it counts.
    pub fn reads_back(&self) -> bool {
        self.reads_back
    }

    /// Lets another object have the device: this one is not stored any more, and may have been somebody else's word.
    pub(super) fn release(&self, file: FileId) {
        let mut object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        object.take_if(|its| *its == file);
    }

    /// Takes the device for an object.
    ///
    /// # Errors
    /// If it is too small, or another object has it.
    pub(super) fn take(&self, file: FileId, begin: &BeginOfFile) -> Result<File, DeviceError> {
        let path = || self.path.clone();
        let mut object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        if begin.kind() != ObjectKind::File || object.is_some_and(|other| other != file) {
            return Err(DeviceError::OneFile { path: path() });
        }
        let (has, needs) = (self.size, begin.file_size);
        if has < needs {
            return Err(DeviceError::TooSmall {
                path: path(),
                has,
                name: begin.file_name().to_owned(),
                needs,
            });
        }
        *object = Some(file);
        self.file.try_clone().map_err(|source| DeviceError::Open { path: path(), source })
    }
}
