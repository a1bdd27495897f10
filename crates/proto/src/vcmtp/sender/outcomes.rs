//! The outcomes of inputs of all kinds: receivers are told, and end with an object. Nothing here calls the
//! files that take the inputs.

use super::{Bounds, Due, Outcome, ReceiverId, Retransmitter, Sender, SenderConfig, asked::Asked};
use crate::Instant;

impl Sender {
    pub(super) fn tell(&mut self, index: u32, receivers: &[ReceiverId], due: Due) {
        for receiver in receivers {
            if let Some(retransmitter) = self.retransmitters.get_mut(receiver) {
                retransmitter.tell(index, due);
            }
        }
    }

    pub(super) fn done_at(&mut self, index: u32, receiver: ReceiverId, outcome: Outcome) {
        self.may_release = true;
        if let Some(retransmitter) = self.retransmitters.get_mut(&receiver) {
            retransmitter.forget(index);
        }
        if self.coordinator.done_at(&mut self.objects, index, receiver, outcome) {
            self.file_done(index);
        }
    }

    /// API_File_Done(i). An object that nobody is left to have is not multicast to its end.
    pub(super) fn file_done(&mut self, index: u32) {
        self.may_release = true;
        self.multicast.forget(index);
        self.symbols.forget(index);
        self.forget_at_slower(index);
        self.coordinator.file_done(&mut self.objects, index);
    }

    pub(super) fn fail_at(&mut self, index: u32, receivers: &[ReceiverId], reason: &str) {
        for receiver in receivers {
            if let Some(retransmitter) = self.retransmitters.get_mut(receiver) {
                retransmitter.closed(index);
            }
            let outcome = Outcome::Failed(reason.to_owned());
            self.coordinator.done_at(&mut self.objects, index, *receiver, outcome);
        }
        self.may_release = true;
        if self.objects.get(index).is_none_or(|object| object.unfinished == 0) {
            self.file_done(index);
        }
    }

    pub(super) fn pending_at(&mut self, receiver: ReceiverId) -> Vec<u32> {
        let started = self.objects.started();
        started.filter(|(_, object)| object.is_pending_at(receiver)).map(|(index, _)| index).collect()
    }

    pub(super) fn forget_receiver(&mut self, now: Instant, receiver: ReceiverId, gone: &Retransmitter) {
        self.retransmitted_before_bytes += gone.retransmitted_bytes;
        let bounds = self.bounds();
        self.credit.leave(now, receiver, bounds);
        self.symbols.leave(receiver);
    }

    /// The count of what a receiver asks for that begins to listen to the first group now.
    pub(super) fn asks_from_now(&mut self) -> Asked {
        let first = self.objects.next_to_begin();
        Asked::begin(self.objects.started().map(|(index, object)| (index, object.sent)), first)
    }

    fn forget_at_slower(&mut self, index: u32) {
        if !self.slower.is_empty() {
            self.slower.iter_mut().for_each(|group| group.forget(index));
            self.retransmitters.values_mut().for_each(|one| {
                one.awaited.forget(index);
                one.moves.forget(index);
            });
        }
    }

    /// The bounds on waiting for a receiver's buffer.
    pub(super) fn bounds(&self) -> Bounds {
        let SenderConfig { patience, floor_bytes_a_second: floor, max_run_len, .. } = self.config;
        Bounds { patience, floor, run_len: max_run_len.into() }
    }

    /// Whether no receiver is there to hear what is sent, and one may come again.
    pub(super) fn is_paused(&self) -> bool {
        self.retransmitters.is_empty() && self.is_held() && !self.config.is_feed
    }

    pub(super) fn is_held(&self) -> bool {
        self.linger.time.is_some()
    }
}
