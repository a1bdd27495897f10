//! Gives objects their names, when they are verified.

use std::slice;

use treecast_proto::object::ReceiverInput;
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ObjectKind},
};

use super::{super::Report, Object, Parts, read_back, write};
use crate::files::{Hashes, Journal, Kept, TargetError, Whole, stored::Stored, sys::Status};

impl Parts {
    pub fn commit(&mut self, file: FileId) {
        self.forget_symbols(file);
        self.seeding.forget(file);
        let report = match self.take_or_name(file) {
            Ok(()) => {
                self.full.note_progress(file);
                Report::Input(ReceiverInput::Committed { file })
            }
            Err(reason) => Report::Input(ReceiverInput::StoreFailed { file, reason }),
        };
        self.reports.add(report);
    }

    pub fn make(&mut self, file: FileId, whole: &Whole) {
        let made = self.held.clone().with_room(|| {
            // What a device gets, and what is compressed, goes the long way.
            let reads_back = self.reads_back(&whole.begin);
            let is_plain = self.folder.device().is_none() && !whole.begin.is_compressed() && !reads_back;
            match is_plain.then(|| self.names.make(&whole.begin, &whole.content)).flatten() {
                Some(status) => Ok((status, Hashes::plain(whole.hash))),
                None => self.make_by_part(file, whole),
            }
        });
        let report = match made {
            Ok((status, hashes)) => {
                self.full.note_progress(file);
                self.note_served(file, &whole.begin, status);
                if let Some(journal) = &mut self.journal {
                    journal.done_as(file, &whole.begin, whole.announced, hashes, status);
                }
                Report::Input(ReceiverInput::Committed { file })
            }
            Err(error) => {
                let all = 0..whole.begin.file_size;
                if self.waits_for_room(file, &whole.begin, &Kept::Nothing, slice::from_ref(&all), &error) {
                    return;
                }
                Report::Input(ReceiverInput::StoreFailed { file, reason: error.to_string() })
            }
        };
        self.reports.add(report);
    }

    /// Makes a file under a temporary name first: something has its name, or the file system makes no files without one.
    fn make_by_part(&mut self, file: FileId, whole: &Whole) -> Result<(Status, Hashes), TargetError> {
        let Whole { begin, content, .. } = whole;
        let mut stored = self.stored(file, begin, &Kept::Nothing)?;
        write(&mut stored, &self.folder, begin.file_name(), 0, content)?;
        self.open_parts.files.retain(|open| *open != file);
        self.name(stored, begin, Some(whole.hash))
    }

    /// Whether an object is read back from the disk before it has its name.
    fn reads_back(&self, begin: &BeginOfFile) -> bool {
        match self.folder.device() {
            Some(device) => device.reads_back(),
            None => self.folder.rules().reads_back && begin.kind() == ObjectKind::File,
        }
    }

    /// Gives a verified object its name, decompressed. One on a device has it, and is forced to the disk. Returns its hashes, too: its
    /// own is known only where it will be compared.
    fn name(
        &mut self,
        stored: Stored,
        begin: &BeginOfFile,
        hash: Option<[u8; 32]>,
    ) -> Result<(Status, Hashes), TargetError> {
        let mut hashes = Hashes::plain(hash.unwrap_or_default());
        let reads_back = self.reads_back(begin) && hash.is_some();
        if begin.is_compressed() {
            let is_noted = self.journal.as_ref().is_some_and(Journal::resumes);
            let expanded = stored.expand(begin.file_size, reads_back || is_noted);
            let expanded = expanded.map_err(|source| {
                let doing = format!("decompress {}", begin.file_name());
                self.folder.content_error(doing, source)
            })?;
            hashes.own = expanded.unwrap_or(hashes.own);
        }
        let expected = reads_back.then_some(&hashes.own);
        let status = match self.folder.device() {
            None => {
                if expected.is_some() {
                    let doing = || format!("verify {} on the disk", begin.file_name());
                    let read = stored.force_to_disk(expected);
                    read.map_err(|source| self.folder.content_error(doing(), source))?;
                }
                self.names.commit(stored.into_part(), begin)?
            }
            Some(device) => stored.force_to_disk(expected).map_err(|source| {
                let doing = format!("verify {}", begin.file_name());
                TargetError::Device { doing, device: device.path().to_owned(), source }
            })?,
        };
        Ok((status, hashes))
    }

    /// An index is read and gone. Every other object gets its name.
    fn take_or_name(&mut self, file: FileId) -> Result<(), String> {
        let is_index = |begin: &BeginOfFile| begin.kind() == ObjectKind::Index;
        match self.objects.get(&file) {
            Some(Some(Object::Announced { begin, .. })) if is_index(begin) => self.read_index(file),
            _ => self.give_name(file),
        }
    }

    fn read_index(&mut self, file: FileId) -> Result<(), String> {
        self.reopen(file).map_err(|error| error.to_string())?;
        let Some(Some(Object::Announced { stored, begin })) = self.objects.get(&file) else { return Ok(()) };
        // No longer than an index may be, or it would not have been announced.
        let mut index = vec![0; begin.file_size as usize];
        let read = stored.read(0, &mut index);
        read.map_err(|source| read_back(&self.folder, source).to_string())?;
        self.discard(file);
        self.take_index(FileId::new(file.session(), file.index().wrapping_add(1)), Some(&index));
        Ok(())
    }

    /// Gives the object its name. Nothing of it is kept when it cannot have that name.
    fn give_name(&mut self, file: FileId) -> Result<(), String> {
        self.reopen(file).map_err(|error| error.to_string())?;
        self.open_parts.files.retain(|open| *open != file);
        match self.objects.remove(&file).flatten() {
            Some(Object::Announced { stored, begin }) => {
                let hash = stored.last_hash();
                let named = self.name(*stored, &begin, hash);
                let (status, hashes) = named.map_err(|error| error.to_string())?;
                self.note_served(file, &begin, status);
                if let (Some(journal), Some(_)) = (&mut self.journal, hash) {
                    journal.done(file, &begin, hashes, status);
                }
                Ok(())
            }
            Some(Object::Whole { begin, hashes, is_trusted }) => {
                if let Ok(status) = self.folder.status_of(begin.file_name()) {
                    self.names.note_kept(&begin, status);
                    self.note_served(file, &begin, status);
                    if let (Some(journal), true) = (&mut self.journal, is_trusted) {
                        journal.done(file, &begin, hashes, status);
                    }
                }
                Ok(())
            }
            _ => Err("nothing is stored of it".into()),
        }
    }
}
