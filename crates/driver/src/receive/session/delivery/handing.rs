//! Files that are here, and are handed on before the sender hears of them.

use std::time::Duration;

use treecast_proto::{Instant, object::ReceiverInput};
use treecast_wire::{header::FileId, message::ObjectKind};

use super::{
    super::super::{Complete, Taken, Taker},
    Delivery,
};

/// The time after which the taker of a file is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Files on their way to the taker.
pub(in super::super) struct Handing {
    /// `None`: files are where they are to be.
    taker: Option<Taker>,
    /// Files that the taker has not taken yet.
    waiting: Vec<FileId>,
}

impl Handing {
    pub fn new(taker: Option<Taker>) -> Self {
        Self { taker, waiting: Vec::new() }
    }

    /// Queues a file that has its name for the taker. Returns whether there is a taker.
    pub fn add(&mut self, file: FileId) -> bool {
        if self.taker.is_some() {
            self.waiting.push(file);
        }
        self.taker.is_some()
    }

    /// The time at which the taker is to be asked again.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(now + ASK_AGAIN)
    }
}

impl Delivery<'_> {
    /// Offers files to the taker. The sender hears of those that it has taken, or could not take.
    pub fn hand_on(&mut self) {
        for file in std::mem::take(&mut self.store.handing.waiting) {
            match self.taken(file) {
                None => self.store.handing.waiting.push(file),
                Some(Ok(())) => self.handle(ReceiverInput::Committed { file }, None),
                Some(Err(reason)) => self.handle(ReceiverInput::StoreFailed { file, reason }, None),
            }
        }
    }

    fn taken(&self, file: FileId) -> Taken {
        // Over an earlier connection, it was taken.
        let has_ended = self.carried.ended.get(&file.index()) == Some(&true);
        let begins = &self.store.begins;
        let begin = begins.get(&file).filter(|begin| begin.kind() == ObjectKind::File && !has_ended);
        let (Some(taker), Some(begin)) = (&self.store.handing.taker, begin) else { return Some(Ok(())) };
        let is_other = |other: &FileId, kind| *other != file && kind == ObjectKind::File;
        let others = begins.iter().filter(|(other, begin)| is_other(other, begin.kind())).count();
        let stored = self.stored(begin);
        taker.take(Complete { name: stored.as_ref().unwrap_or(begin).file_name(), others })
    }
}
