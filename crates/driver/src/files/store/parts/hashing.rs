//! Hashes what is stored, and compares it with hashes of chunks.

use std::io;

use treecast_proto::object::{ReceiverInput, chunks::Chunks};
use treecast_wire::{header::FileId, message::ChunkHashes};

use super::{super::Report, Object, Parts, read_back};
use crate::files::{chunk_check::wrong_chunks, stored::Stored};

impl Parts {
    /// Hashes one piece of what was stored out of order; false when no object has one.
    pub fn catch_up(&mut self, buffer: &mut [u8]) -> bool {
        let mut done = false;
        let behind: Vec<FileId> = self
            .objects
            .iter()
            .filter(|(_, object)| object.as_ref().is_some_and(Object::is_behind))
            .map(|(file, _)| *file)
            .collect();
        for file in behind {
            done = true;
            self.attempt(file, &[], |stored, _, folder| {
                stored.catch_up(buffer).map(drop).map_err(|source| read_back(folder, source))
            });
        }
        done
    }

    pub fn hash(&mut self, file: FileId, buffer: &mut [u8]) {
        if let Some(Some(Object::Whole { begin, hashes, is_trusted })) = self.objects.get_mut(&file) {
            *is_trusted = *is_trusted || hashes.are_of(&self.folder, begin.file_name());
            // What cannot be read or is another has no hash that anything has, and comes again.
            let hash = if *is_trusted { hashes.sent } else { [0; 32] };
            self.reports.add(Report::Input(ReceiverInput::Hashed { file, hash }));
        }
        self.attempt_hash(file, |stored| stored.hash(buffer));
    }

    pub fn attempt_hash(
        &mut self,
        file: FileId,
        mut compute: impl FnMut(&mut Stored) -> io::Result<[u8; 32]>,
    ) {
        let mut hash = None;
        self.attempt(file, &[], |stored, _, folder| {
            hash = Some(compute(stored).map_err(|source| read_back(folder, source))?);
            Ok(())
        });
        if let Some(hash) = hash {
            self.reports.add(Report::Input(ReceiverInput::Hashed { file, hash }));
        }
    }

    pub fn check_chunks(&mut self, file: FileId, hash: &[u8; 32], page: &ChunkHashes, buffer: &mut [u8]) {
        let mut wrong = None;
        if let Some(Some(Object::Whole { begin, .. })) = self.objects.get(&file) {
            // It has its name already, and changed under it: all of it comes again.
            let bytes = Chunks::new(begin.file_size).map(|chunks| chunks.page_bytes(page.page()));
            wrong = Some(Some(Vec::from_iter(bytes)));
        }
        self.attempt(file, &[], |stored, begin, folder| {
            let compared = wrong_chunks(stored, begin.file_size, hash, page, buffer);
            let compared = compared.map_err(|source| read_back(folder, source))?;
            compared.iter().flatten().for_each(|range| stored.forget(range.clone()));
            wrong = Some(compared);
            Ok(())
        });
        if let Some(wrong) = wrong {
            self.reports.add(Report::Input(ReceiverInput::Checked { file, page: page.page(), wrong }));
        }
    }
}
