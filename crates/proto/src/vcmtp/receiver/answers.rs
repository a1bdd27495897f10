//! The receiver's treatment of answers from the application and from the storage (interdomain-2013, 4.4,
//! table 4.7, API_BOF_Response and API_File_Received).

use std::ops::Range;

use treecast_wire::{header::FileId, message::BeginOfFile};

use super::{
    super::Repair,
    Receiver, ReceiverEvent, ReceiverTransmit, Response, State,
    actions::undecided,
    data_receiver::MAX_CHUNKS,
    object::{Decision, Stage},
    requester::Request,
};
use crate::{Instant, Step};

impl Receiver {
    /// API_BOF_Response(i), or INL_EOF_Only_Response(i).
    pub(super) fn respond(&mut self, now: Instant, file: FileId, response: Response) {
        let index = file.index();
        let Some(object) = self.ledger.of_session(file, self.config.session) else { return };
        if object.decision != Decision::Pending {
            return;
        }
        match response {
            // Only the end was heard: the BOF is asked for, and when it comes, the application is asked again.
            Response::Accept if object.begin.is_none() => self.request_begin_of_file(index),
            Response::Accept => {
                object.decision = Decision::Accepted;
                if let Some(begin) = object.begin.clone() {
                    self.transmit(ReceiverTransmit::Announce { file, begin });
                }
            }
            Response::Ignore => {
                object.decision = Decision::Ignored;
                self.chunks -= object.chunks();
                self.reporter.progress.received_bytes -= object.received_bytes;
                object.forget();
                self.transmit(ReceiverTransmit::Discard { file });
                self.refuse_early(now, index);
            }
        }
        self.settle(now, index);
    }

    /// The hash of an object that is whole. A wrong one: what is wrong is asked for once more.
    pub(super) fn hashed(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        let (index, connected) = (file.index(), self.state == State::ReceivingData);
        let Some(object) = self.ledger.get_mut(index) else { return };
        if object.stale_hashes > 0 {
            object.stale_hashes -= 1;
            return;
        }
        if object.stage != Stage::Hashing {
            return;
        }
        if object.digest == Some(hash) {
            object.stage = Stage::Committing;
            return self.transmit(ReceiverTransmit::Commit { file });
        }
        if object.mismatched || self.config.repair == Repair::None || !connected {
            return self.fail(index, "its content does not have the hash that the sender gave", true);
        }
        self.check_chunks(now, index);
    }

    /// Takes in which parts of an announced object are there from before. The missing ones are asked for from
    /// now on.
    pub(super) fn have(&mut self, now: Instant, file: FileId, ranges: &[Range<u64>]) {
        let index = file.index();
        let object = self.ledger.of_session(file, self.config.session);
        let Some(object) = object.filter(|object| object.is_final()) else { return };
        object.awaits_kept = false;
        for range in ranges {
            let mut rest = object.whole_blocks(range);
            while !rest.is_empty()
                && self.chunks < MAX_CHUNKS
                && let Some(new) = object.stored.first_new(&rest)
            {
                let chunks = object.chunks();
                object.take(&new);
                self.chunks = self.chunks + object.chunks() - chunks;
                self.reporter.progress.received_bytes += new.end - new.start;
                rest.start = new.end;
            }
        }
        self.report_lacks(index);
        self.settle(now, index);
    }

    /// Tells the sender what is missing of an object that it sends by difference. What has gone by is asked for like any loss.
    fn report_lacks(&mut self, index: u32) {
        let Some(object) = self.ledger.get(index) else { return };
        let Some(begin) = object.begin.as_ref().filter(|begin| begin.has_index()) else { return };
        let size = begin.file_size;
        for gap in object.unheard_gaps() {
            self.request(index, Request::Lacking(gap));
        }
        self.request(index, Request::EndOfReport(size));
    }

    /// The object cannot be stored as `begin` says. What only the group has said may be wrong, and the sender
    /// is asked; what it has said itself is final.
    pub(super) fn announcement_refused(
        &mut self,
        now: Instant,
        file: FileId,
        begin: &BeginOfFile,
        reason: &str,
    ) {
        let index = file.index();
        let asks = self.config.repair != Repair::None && self.state == State::ReceivingData;
        let Some(object) = self.ledger.of_session(file, self.config.session) else { return };
        let is_outdated = object.begin.as_ref() != Some(begin);
        if !is_outdated && (object.begin_is_sure || !asks) {
            return self.store_failed(file, reason);
        }
        self.chunks -= object.chunks();
        self.reporter.progress.received_bytes -= object.received_bytes;
        object.start_again();
        object.mismatched = false;
        object.asked_in_vain = u64::MAX;
        if !is_outdated {
            object.forget_announcement();
            object.decision = undecided(self.config.notification);
        }
        let begin = object.begin.clone().filter(|_| object.is_final());
        self.discard(index);
        self.plan_symbols(now, index);
        if let Some(begin) = begin {
            self.transmit(ReceiverTransmit::Announce { file, begin });
        }
        self.doubt_announcement(index);
        self.settle(now, index);
    }

    /// Takes in which parts of an announced object could not be stored. They are asked for again.
    pub(super) fn lost(&mut self, now: Instant, file: FileId, ranges: &[Range<u64>]) {
        let index = file.index();
        let object = self.ledger.of_session(file, self.config.session);
        let Some(object) = object.filter(|object| object.is_final()) else { return };
        let (before, had_symbols) = (object.chunks(), object.lacking.is_some());
        let forgotten: u64 = ranges.iter().map(|range| object.forget_bytes(range)).sum();
        object.check = None;
        object.stage = Stage::Receiving;
        // Symbols were lost as well, and which is not known.
        object.lacking = None;
        self.reporter.progress.received_bytes -= forgotten;
        self.account(index, before);
        if had_symbols {
            self.transmit(ReceiverTransmit::ForgetSymbols { file });
        }
        for range in ranges {
            self.request(index, Request::Retransmission(range.clone()));
        }
        self.settle(now, index);
    }

    pub(super) fn store_failed(&mut self, file: FileId, reason: &str) {
        let index = file.index();
        let Some(object) = self.ledger.of_session(file, self.config.session) else { return };
        object.doom = Some(reason.to_owned());
        if self.ledger.is_confirmed(index) {
            return self.fail_doomed(index);
        }
        // The sender may not have begun it, and would not hear of its end.
        self.discard(index);
        self.doubt_announcement(index);
    }

    /// Whether the object has failed, which the sender is to be told with its next word on it.
    pub(super) fn is_doomed(&self, index: u32) -> bool {
        self.ledger.get(index).is_some_and(|object| object.doom.is_some())
    }

    pub(super) fn fail_doomed(&mut self, index: u32) {
        if let Some(reason) = self.ledger.get_mut(index).and_then(|object| object.doom.take()) {
            self.fail(index, &reason, true);
        }
    }

    /// API_File(i)_Received: the caller has carried out the commit.
    pub(super) fn committed(&mut self, file: FileId) {
        let index = file.index();
        let object = self.ledger.get(index).filter(|_| file.session() == self.config.session);
        if object.is_none_or(|object| object.stage != Stage::Committing) {
            return;
        }
        let Some(begin) = self.end(index).and_then(|object| object.begin) else { return };
        self.out.push_back(Step::Event(ReceiverEvent::Received { file, begin }));
        self.request(index, Request::End);
    }
}
