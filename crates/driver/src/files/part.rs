//! Files that are not complete yet.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::fd::OwnedFd,
    path::PathBuf,
};

use super::{
    TargetFolder,
    sys::{self, Inode, Status, c_string},
};

/// A file under its temporary name. Dropping this removes the file, unless it was renamed or is kept.
#[derive(Debug)]
pub struct PartFile {
    folder: TargetFolder,
    name: CString,
    /// The open file. `None` while it is closed.
    file: Option<File>,
    inode: Inode,
    stays: bool,
    /// The path of the block device that it is. `None` for a file.
    device: Option<PathBuf>,
}

impl PartFile {
    /// An open file with this status.
    pub(super) fn new(folder: TargetFolder, name: CString, file: OwnedFd, status: Status) -> Self {
        Self { folder, name, file: Some(file.into()), inode: status.inode, stays: false, device: None }
    }

    /// A block device, which has its name and keeps it.
    pub(super) fn of_device(folder: TargetFolder, file: File, path: PathBuf) -> io::Result<Self> {
        let status = sys::status_at(&file, c"")?;
        let mut part = Self::new(folder, c"".into(), file.into(), status);
        (part.stays, part.device) = (true, Some(path));
        Ok(part)
    }

    /// Whether this is a block device.
    pub(super) fn is_device(&self) -> bool {
        self.device.is_some()
    }

    /// The open file.
    ///
    /// # Errors
    /// If it is closed.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("it is closed"))
    }

    /// The path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.device.clone().unwrap_or_else(|| self.folder.path().join(self.name.to_string_lossy().as_ref()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file until [`PartFile::reopen`].
    pub(super) fn close(&mut self) {
        // Somebody else could mount a device meanwhile.
        if self.device.is_none() {
            self.file = None;
        }
    }

    /// Opens the file again after [`PartFile::close`].
    ///
    /// # Errors
    /// The kernel's error, and one if another file has its name.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = sys::open_at(self.folder.root(), &self.name, flags, 0)?;
        if sys::status_at(&file, c"")?.inode != self.inode {
            self.stays = true;
            return Err(exchanged());
        }
        self.file = Some(file.into());
        Ok(())
    }

    /// Gives the file its final name in `parent`, and replaces what had that name if the folder's rules let it. Returns its
    /// status under that name.
    ///
    /// # Errors
    /// If the kernel refuses, or if another file than this one has the temporary name: whoever may write to the folder
    /// can put one there.
    pub(super) fn rename(&mut self, parent: &OwnedFd, name: &CStr) -> io::Result<Status> {
        if sys::status_at(self.folder.root(), &self.name)?.inode != self.inode {
            self.stays = true;
            return Err(exchanged());
        }
        let rename = if self.folder.rules().keep_existing { sys::rename_new_at } else { sys::rename_at };
        rename((self.folder.root(), &self.name), (parent, name))?;
        self.stays = true;
        let status = sys::status_at(parent, name)?;
        if status.inode != self.inode {
            // Exchanged in the last instant: what has the name now has not been verified.
            _ = sys::remove_at(parent, name);
            return Err(exchanged());
        }
        Ok(status)
    }

    /// The name of a symbolic link on its way to its final name.
    pub(super) fn link_name(&self) -> io::Result<CString> {
        c_string(format!("{}.link", self.name.to_string_lossy()))
    }

    /// Leaves the file for a later receiver of the session.
    pub(super) fn keep(&mut self) {
        self.stays = true;
    }
}

fn exchanged() -> io::Error {
    io::Error::other("somebody else has put another file in its place meanwhile")
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.stays {
            // A failure leaves a hidden file, which a later receiver removes.
            _ = sys::remove_at(self.folder.root(), &self.name);
        }
    }
}
