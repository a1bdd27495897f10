//! The outcomes of inputs of all kinds: an object is opened, asked for, given up or ended. Nothing here calls
//! the files that take the inputs.

use treecast_wire::header::FileId;

use super::{
    Notification, Receiver, ReceiverEvent, ReceiverTransmit,
    ledger::Word,
    object::{Decision, Object},
    requester::Request,
};
use crate::{Instant, Step};

impl Receiver {
    pub(super) fn open(&mut self, word: Word, index: u32) -> Option<&mut Object> {
        let (block_len, decision) = (self.config.block_len, undecided(self.config.notification));
        let awaits_kept = self.config.resumes;
        let object = self.ledger.open(index, word, || {
            let mut object = Object::new(block_len, decision);
            object.awaits_kept = awaits_kept;
            object
        });
        if object.is_none() {
            self.counters.refused += 1;
        }
        object
    }

    pub(super) fn is_foreign(&mut self, file: FileId) -> bool {
        let foreign = file.session() != self.config.session;
        self.counters.foreign += u64::from(foreign);
        foreign
    }

    pub(super) fn is_late(&mut self, index: u32) -> bool {
        let late = self.ledger.has_ended(index);
        self.counters.late += u64::from(late);
        late
    }

    pub(super) fn be_quiet_at(&mut self, index: u32, time: Option<Instant>) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        if let Some(before) = std::mem::replace(&mut object.quiet_at, time) {
            self.quiet.remove(&(before, index));
        }
        self.quiet.extend(time.map(|time| (time, index)));
    }

    /// Sets the time at which the sender is told what an object lacks.
    pub(super) fn say_lacks_at(&mut self, index: u32, time: Option<Instant>) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let Some(lacking) = &mut object.lacking else { return };
        if let Some(before) = std::mem::replace(&mut lacking.at, time) {
            self.lacks.remove(&(before, index));
        }
        self.lacks.extend(time.map(|time| (time, index)));
    }

    /// The group's announcement may be wrong: the sender is asked for its own, once.
    pub(super) fn doubt_announcement(&mut self, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        if !object.begin_is_sure && !object.doubts_group {
            object.doubt_group();
            object.bof_requested = true;
            self.request(index, Request::BeginOfFile);
        }
    }

    /// INL_BOF_Req(i), once, for an object of which more is known than its end, or that is wanted.
    pub(super) fn request_begin_of_file(&mut self, index: u32) {
        let Some(object) = self.ledger.get_mut(index) else { return };
        let is_known = object.begin_is_sure || object.begin.is_some() && !object.doubts_group;
        if !is_known && object.decision != Decision::Ignored && !object.bof_requested {
            object.bof_requested = true;
            self.request(index, Request::BeginOfFile);
        }
    }

    /// API_File(i)_Receive_Failed. `tell`: whether the sender does not know.
    pub(super) fn fail(&mut self, index: u32, reason: &str, tell: bool) {
        let file = self.file_id(index);
        let discarded_bytes = self.drop_object(index);
        let failed = ReceiverEvent::Failed { file, reason: reason.to_owned(), discarded_bytes };
        self.out.push_back(Step::Event(failed));
        if tell {
            self.request(index, Request::Failed(reason.to_owned()));
        }
    }

    /// An object ends of which nothing is kept, and nothing is to be said.
    /// Returns the number of bytes that had come of it and are discarded.
    pub(super) fn drop_object(&mut self, index: u32) -> u64 {
        // When the session is cut short, a later receiver may go on with what has come.
        let object = self.end(index).filter(|_| self.close_reason.is_none());
        let discarded_bytes = object.map_or(0, |object| object.received_bytes);
        self.reporter.progress.received_bytes -= discarded_bytes;
        self.discard(index);
        discarded_bytes
    }

    /// Has the caller throw away what it keeps of an object.
    pub(super) fn discard(&mut self, index: u32) {
        let file = self.file_id(index);
        self.out.retain(|step| !is_storage_of(step, file));
        self.transmit(ReceiverTransmit::Discard { file });
    }

    pub(super) fn end(&mut self, index: u32) -> Option<Object> {
        self.be_quiet_at(index, None);
        self.say_lacks_at(index, None);
        let object = self.ledger.end(index)?;
        self.chunks -= object.chunks();
        Some(object)
    }

    pub(super) fn request(&mut self, index: u32, request: Request) {
        let file = self.file_id(index);
        if let Some(message) = self.requester.message(request) {
            self.transmit(ReceiverTransmit::Message { file, message });
        }
    }

    pub(super) fn transmit(&mut self, transmit: ReceiverTransmit) {
        self.out.push_back(Step::Transmit(transmit));
    }

    pub(super) fn file_id(&self, index: u32) -> FileId {
        FileId::new(self.config.session, index)
    }
}

/// The decision on an object before the application has said anything.
pub(super) fn undecided(notification: Notification) -> Decision {
    match notification {
        Notification::PerFile => Decision::Pending,
        Notification::Batched => Decision::Accepted,
    }
}

/// Whether a step that has not been taken would touch what is stored of a failed object.
fn is_storage_of<W>(step: &Step<ReceiverTransmit, ReceiverEvent, W>, failed: FileId) -> bool {
    use ReceiverTransmit::{Announce, CheckChunks, Commit, Decode, ForgetSymbols, Hash, KeepSymbols, Store};
    match step {
        Step::Transmit(Announce { file, .. } | Store { file, .. } | Hash { file } | Commit { file }) => {
            *file == failed
        }
        Step::Transmit(
            KeepSymbols { file, .. }
            | Decode { file, .. }
            | ForgetSymbols { file }
            | CheckChunks { file, .. },
        ) => *file == failed,
        _ => false,
    }
}
