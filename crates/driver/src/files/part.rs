//! A file that is not whole.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::fd::OwnedFd,
};

use super::{
    TargetFolder,
    sys::{self, c_string},
};

/// A file under its temporary name; removed when dropped, unless it has been renamed or is to be kept.
#[derive(Debug)]
pub struct PartFile {
    folder: TargetFolder,
    name: CString,
    file: File,
    stays: bool,
}

impl PartFile {
    pub(super) fn new(folder: TargetFolder, name: CString, file: OwnedFd) -> Self {
        Self { folder, name, file: file.into(), stays: false }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name in `parent`, replacing what had it.
    pub(super) fn rename(&mut self, parent: &OwnedFd, name: &CStr) -> io::Result<()> {
        sys::rename_at((self.folder.root(), &self.name), (parent, name))?;
        self.stays = true;
        Ok(())
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

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.stays {
            // A failure leaves a hidden file, which a later receiver removes.
            _ = sys::remove_at(self.folder.root(), &self.name);
        }
    }
}
