//! Reads stored bytes back for other members of a local group that lack them.

use std::{collections::BTreeMap, io, ops::Range, os::unix::fs::FileExt};

use treecast_proto::object::Address;
use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{super::Report, Object, Parts};
use crate::files::{
    TargetFolder,
    sys::{self, Status},
};

/// Objects that have their names. A file that has changed since then is not read.
#[derive(Debug, Default)]
pub(super) struct Served(BTreeMap<FileId, (String, Status)>);

impl Served {
    pub fn forget(&mut self, file: FileId) {
        self.0.remove(&file);
    }

    fn read(&self, folder: &TargetFolder, file: FileId, position: u64, into: &mut [u8]) -> io::Result<()> {
        let (name, before) = self.0.get(&file).ok_or(io::ErrorKind::NotFound)?;
        let file = folder.open_file(name)?;
        let now = sys::status_at(&file, c"")?;
        let is_same = |status: &Status| (status.inode, status.size, status.modified);
        if is_same(&now) != is_same(before) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        file.read_exact_at(into, position)
    }
}

impl Parts {
    /// Keeps in mind from now on what has its name, to read it back.
    pub fn serve(&mut self) {
        self.served = Some(Served::default());
    }

    /// Forgets an object that is read back no more.
    pub fn release(&mut self, file: FileId) {
        self.served.iter_mut().for_each(|served| served.forget(file));
    }

    pub fn note_served(&mut self, file: FileId, begin: &BeginOfFile, status: Status) {
        // A compressed file is not what was sent.
        if let Some(Served(served)) = self.served.as_mut().filter(|_| !begin.is_compressed()) {
            served.insert(file, (begin.file_name().to_owned(), status));
        }
    }

    /// Reports bytes for another member. What cannot be read, somebody else may have.
    pub fn read(&mut self, file: FileId, range: Range<u64>, to: Address) {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if self.reopen(file).is_err() {
            return;
        }
        let read = match (self.objects.get(&file), &self.served) {
            (Some(Some(Object::Announced { stored, .. })), _) if stored.missing(range.clone()).is_empty() => {
                stored.read(range.start, &mut bytes)
            }
            (_, Some(served)) => served.read(&self.folder, file, range.start, &mut bytes),
            (_, None) => return,
        };
        if read.is_ok() {
            self.reports.add(Report::Read { file, position: range.start, bytes, to });
        }
    }
}
