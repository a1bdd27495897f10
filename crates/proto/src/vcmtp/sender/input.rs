//! The sender's treatment of each input.

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::FileId,
    message::{Message, SymbolRequest},
};

use super::{
    super::Repair,
    Outcome, ReceiverId, Sender,
    coordinator::State,
    credit::Taken,
    objects::RetransmissionTime,
    retransmitter::{Due, Retransmitter},
    symbols::Answer,
};
use crate::{Instant, object::ranges::BlockSet};

impl Sender {
    /// INL_Unicast_Connection_Created(j). What went to the group before the receiver was there goes to
    /// it over its connection.
    pub(super) fn join(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        receive_buffer_bytes: u32,
        round_trip: Option<Duration>,
    ) {
        self.leave(now, receiver, "it has joined again");
        let mut owes = self.coordinator.state == State::ClosingRetransmitters;
        let mut retransmitter = Retransmitter::new(now, receiver, self.missed());
        retransmitter.asked = self.asks_from_now();
        retransmitter.first = Some(self.objects.next_to_begin());
        for (index, object) in self.objects.started() {
            object.add_receiver(receiver);
            self.coordinator.begins_at(receiver);
            owes |= object.told.is_some();
            retransmitter.tell(index, Due::BeginOfFile);
            if object.out.is_some() {
                retransmitter.tell(index, object.hash.map_or(Due::EndOfFile, Due::Digest));
            }
        }
        if self.coordinator.state == State::ClosingRetransmitters {
            retransmitter.close();
        }
        self.retransmitters.insert(receiver, retransmitter);
        self.may_release = true;
        self.stall.greet(now + self.config.keepalive / 2);
        if owes {
            self.watch(now);
        }
        self.credit.join(now, receiver, receive_buffer_bytes, round_trip.unwrap_or_default());
        self.symbols.join(receiver);
    }

    /// INL_Unicast_Connection_Closed, INL_Retxmitter(j)_Exited.
    pub(super) fn leave(&mut self, now: Instant, receiver: ReceiverId, reason: &str) {
        let Some(gone) = self.retransmitters.remove(&receiver) else { return };
        self.forget_receiver(now, receiver, &gone);
        for index in self.pending_at(receiver) {
            if gone.takes_part {
                self.done_at(index, receiver, Outcome::Failed(format!("the receiver left: {reason}")));
            } else if self.objects.get_mut(index).is_some_and(|object| object.forget_receiver(receiver)) {
                self.file_done(index);
            }
        }
        self.coordinator.leaves(receiver);
        self.forget_late(receiver);
    }

    /// The objects that are over, for somebody who comes now.
    fn missed(&self) -> BlockSet {
        if self.config.is_feed { self.objects.kept() } else { self.objects.done() }
    }

    pub(super) fn message(&mut self, now: Instant, from: ReceiverId, file: FileId, message: Message) {
        let Some(retransmitter) = self.retransmitters.get_mut(&from) else { return };
        retransmitter.heard = now;
        retransmitter.takes_part = true;
        if let Message::Move(to) = message {
            return self.move_to(now, from, to);
        }
        if message == Message::NamesRequest {
            return self.names_request(from);
        }
        let Some(index) = self.objects.begun(file) else {
            if let (Message::NotWanted, Some(index)) = (&message, self.objects.index(file)) {
                return self.not_wanted_ahead(from, index);
            }
            if matches!(
                message,
                Message::BeginOfFileRequest
                    | Message::RetransmissionRequest(_)
                    | Message::SymbolRequest(_)
                    | Message::ChunkHashesRequest(_)
            ) {
                retransmitter.mislead(file);
            }
            return;
        };
        // It is told soon of what was over before it came.
        if retransmitter.is_to_be_told(index) {
            return;
        }
        match message {
            Message::BeginOfFileRequest => self.begin_of_file_request(from, index),
            Message::RetransmissionRequest(request) => {
                self.retransmission_request(from, index, request.range())
            }
            Message::SymbolRequest(request) => self.symbol_request(from, index, &request),
            Message::ChunkHashesRequest(request) => self.chunk_hashes_request(from, index, request.pages()),
            Message::Lacking(lacking) => {
                lacking.ranges().for_each(|bytes| self.lacking(from, index, bytes));
            }
            Message::EndOfRetransmissionRequests => self.done_at(index, from, Outcome::Complete),
            Message::NotWanted => self.done_at(index, from, Outcome::NotWanted),
            Message::Failed(reason) => self.done_at(index, from, Outcome::Failed(reason.as_str().to_owned())),
            Message::Progress(progress) => {
                let bounds = self.bounds();
                let made = Duration::from_micros(progress.at_us);
                self.credit.report(now, from, Taken { index, position: progress.position, made }, bounds);
            }
            _ => {}
        }
    }

    /// BOF-Request(i), table 4.5.
    fn begin_of_file_request(&mut self, from: ReceiverId, index: u32) {
        let due = if self.serves(from, index) { Due::BeginOfFile } else { Due::Reject };
        self.tell(index, &[from], due);
    }

    /// Retx-Request(i,B), table 4.5. Of B, what has been multicast before is sent again.
    fn retransmission_request(&mut self, from: ReceiverId, index: u32, bytes: Range<u64>) {
        if !self.serves(from, index) || self.config.repair == Repair::None {
            return self.tell(index, &[from], Due::Reject);
        }
        let Some(retransmitter) = self.retransmitters.get_mut(&from) else { return };
        let Some(object) = self.objects.get(index) else { return };
        let there = bytes.start..bytes.end.min(object.sent);
        // It asks for what is not there: somebody else has told it of another size, or that all is out.
        if bytes.end > object.sent {
            retransmitter.correct(index);
        }
        if !there.is_empty() {
            let blocks = self.objects.blocks(there.clone());
            retransmitter.requests.insert(index, blocks.clone());
            if retransmitter.group == 0 {
                retransmitter.asked.ask(index, there);
                self.note_named(from, index, blocks);
            }
        }
    }

    /// Sends symbols of each source block that lacks some: to the group or to this receiver alone, whichever takes fewer bytes.
    fn symbol_request(&mut self, from: ReceiverId, index: u32, request: &SymbolRequest) {
        if !self.serves(from, index) || self.config.repair == Repair::None {
            return self.tell(index, &[from], Due::Reject);
        }
        let Some(retransmitter) = self.retransmitters.get_mut(&from) else { return };
        // It has named everything when it moved to a slower group.
        if retransmitter.group > 0 {
            return;
        }
        let Some(object) = self.objects.get_mut(index) else { return };
        for lack in request.lacks().iter().filter(|lack| lack.lacking > 0) {
            retransmitter.lack(index);
            retransmitter.asked.lack(index, *lack, self.config.block_len.into());
            self.symbols.note(from, index, object, *lack);
        }
        for lack in request.lacks() {
            // How much it lacks takes the place of what it has named.
            if let Some(schedule) =
                object.schedule.as_ref().filter(|schedule| schedule.next(lack.source_block).is_some())
            {
                retransmitter.requests.remove(index, schedule.layout().blocks(lack.source_block));
            }
            // It is whole.
            if lack.lacking == 0 {
                continue;
            }
            let answer = match self.symbols.lack(from, index, object, *lack) {
                Answer::Group | Answer::Out if self.is_unheard => Answer::Apart(lack.lacking),
                answer => answer,
            };
            match answer {
                Answer::Group => {}
                Answer::Out => retransmitter.symbols.note_unheard((index, lack.source_block)),
                Answer::Apart(count) => {
                    let of = (index, lack.source_block);
                    retransmitter.symbols.request(of, count, request.arrived());
                }
                Answer::Blocks(blocks) => retransmitter.requests.insert(index, blocks),
                // It is of another size than somebody else has told it.
                Answer::Correction => retransmitter.correct(index),
            }
        }
    }

    /// Answers a receiver whose hash of an object is wrong with the hashes that the object's chunks should
    /// have.
    fn chunk_hashes_request(&mut self, from: ReceiverId, index: u32, pages: Range<u32>) {
        if !self.serves(from, index) || self.config.repair == Repair::None {
            return self.tell(index, &[from], Due::Reject);
        }
        self.symbols.take_blocks_only(from, index);
        if let Some(retransmitter) = self.retransmitters.get_mut(&from) {
            retransmitter.request_chunk_hashes(index, pages);
        }
    }

    /// Whether the receiver is still at the object: it has neither ended with it nor has its time run out.
    fn serves(&self, receiver: ReceiverId, index: u32) -> bool {
        self.objects.get(index).is_some_and(|object| object.is_pending_at(receiver))
    }

    pub(super) fn withdraw(&mut self, file: FileId, reason: &str) {
        let Some(index) = self.objects.index(file) else { return };
        let Some(object) = self.objects.get(index) else {
            if self.config.is_feed {
                self.objects.take_over(index);
            }
            return;
        };
        let has_begun = object.started.is_some();
        if let Some(object) = self.objects.get_mut(index) {
            object.withdrawn = Some(reason.to_owned());
        }
        // When its turn comes, receivers hear of it and that they lack it. Of a feed, they need not.
        if has_begun || self.config.is_feed {
            self.withdraw_begun(index, reason);
        }
    }

    /// Tells every receiver that still waits for an object what it is, and why it is not sent.
    pub(super) fn withdraw_begun(&mut self, index: u32, reason: &str) {
        let Some(object) = self.objects.get(index) else { return };
        let pending = object.pending_receivers();
        for receiver in &pending {
            if let Some(retransmitter) = self.retransmitters.get_mut(receiver) {
                retransmitter.withdraw(index, Some(&object.begin), reason.to_owned());
            }
        }
        self.fail_at(index, &pending, reason);
    }

    /// INL_Retx(i)_Timeout, table 4.6. Every receiver that still waits for something of the object is told.
    pub(super) fn expire(&mut self, now: Instant) {
        self.put_out_stalled(now);
        while let Some(index) = self.coordinator.expired(now) {
            let Some(object) = self.objects.get(index) else { return };
            let mut pending = object.pending_receivers();
            // A receiver that has not had its pass yet gets its own time then.
            let passes_until = self.passes_until(index).filter(|until| *until > now);
            let is_passing = |receiver| passes_until.is_some() && self.is_passed_to(receiver, index);
            let is_served = |receiver| !self.config.slower_groups_mend && self.awaits(receiver, index);
            pending.retain(|receiver| !is_served(*receiver) && !is_passing(*receiver));
            for receiver in &pending {
                if let Some(retransmitter) = self.retransmitters.get_mut(receiver) {
                    retransmitter.time_out(index);
                }
            }
            if let Some(object) = self.objects.get_mut(index) {
                self.coordinator.take_time(index, object);
                if let Some(expires) = passes_until {
                    let time = RetransmissionTime { urgent_at: now, expires };
                    self.coordinator.set_time(index, object, time);
                }
            }
            self.fail_at(index, &pending, "its time for retransmissions was up");
        }
    }
}
