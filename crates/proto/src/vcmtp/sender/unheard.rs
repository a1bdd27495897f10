//! A group that no receiver hears. Its rate is low then, and must not hold back what receivers get over their own connections.
//!
//! Objects pass as if they were multicast: the caller reads and hashes their blocks, of which the group gets as few as its rate lets
//! through. Each receiver in the group is sent the blocks at once, as if it had asked for them. It is told that the object
//! is out when it has been sent all of these. The receiver that takes them fastest sets the pace, so that the rest is still
//! multicast if the group is heard again.

use std::{ops::Range, time::Duration};

use super::{super::Repair, ReceiverId, Sender, retransmitter::Due};
use crate::{Instant, rate_bounds::SILENT_PACKETS};

/// Number of bytes that pass at once.
const RUN_BYTES: u32 = 65_536;

impl Sender {
    /// Sets whether no receiver hears the group. Without repair this changes nothing.
    pub fn set_unheard(&mut self, is_unheard: bool) {
        self.is_unheard = is_unheard && self.config.repair != Repair::None;
    }

    /// The most bytes of an object that leave or pass at once.
    pub(super) fn run_len(&self) -> u32 {
        if self.is_unheard { self.config.max_run_len.max(RUN_BYTES) } else { self.config.max_run_len }
    }

    /// Whether the next blocks may pass: a receiver has been sent all that it has asked for. With [`Repair::After`] nobody is sent
    /// anything before the object is out.
    pub(super) fn may_pass(&self) -> bool {
        let mut listening = self.retransmitters.values().filter(|one| one.group == 0).peekable();
        self.config.repair == Repair::After
            || listening.peek().is_none()
            || listening.any(|one| one.is_answered())
    }

    /// An object begins, which the group is not told.
    pub(super) fn begin_unheard(&mut self, index: u32) {
        let pending = self.pending_unheard(index);
        self.tell(index, &pending, Due::BeginOfFile);
    }

    /// Blocks pass. What receivers lack of an object that is sent by difference they know best.
    pub(super) fn pass(&mut self, now: Instant, index: u32, range: Range<u64>) {
        if self.objects.get(index).is_none_or(|object| object.lacks.is_some()) {
            return;
        }
        let (blocks, repair) = (self.objects.blocks(range), self.config.repair);
        for receiver in self.pending_unheard(index) {
            if let Some(one) = self.retransmitters.get_mut(&receiver) {
                // Nothing has kept it waiting so far.
                if one.is_answered() || repair == Repair::After {
                    one.moved = now;
                }
                one.requests.pass(index, blocks.clone());
            }
        }
        self.watch(now);
    }

    /// Whether a receiver has yet to be sent something that has passed.
    pub(super) fn is_passed_to(&self, receiver: ReceiverId, index: u32) -> bool {
        self.retransmitters.get(&receiver).is_some_and(|one| one.requests.has_passed(index))
    }

    /// A receiver has been sent all that has passed of an object. Its time for retransmissions begins, as long as that took.
    pub(super) fn through(&mut self, now: Instant, receiver: ReceiverId, index: u32) {
        let is_passing = self.pending_unheard(index).iter().any(|other| self.is_passed_to(*other, index));
        // Its group tells the end when that has brought the rest.
        let is_told = !self.awaits(receiver, index);
        let Some(object) = self.objects.get_mut(index).filter(|object| is_told && object.told.is_some())
        else {
            return;
        };
        if !is_passing {
            self.coordinator.take_time(index, object);
        }
        let pass = object.started.map(|started| now - started).unwrap_or_default();
        self.coordinator.give_time(now, index, object, pass);
        self.tell_end(index, &[receiver]);
    }

    /// The time when a receiver's time is up whose connection has not taken what has passed of an object.
    /// `None` if there is no such receiver.
    pub(super) fn passes_until(&self, index: u32) -> Option<Instant> {
        let object = self.objects.get(index)?;
        if !self.retransmitters.values().any(|one| one.requests.has_passed(index)) {
            return None;
        }
        // Such a group is still sent to at this rate. A connection that takes less gives its receiver no more time.
        let rate = SILENT_PACKETS * f64::from(self.config.block_len);
        let rate = rate.max(self.config.floor_bytes_a_second.unwrap_or(0) as f64);
        let longest = Duration::try_from_secs_f64(object.begin.file_size as f64 / rate);
        Some(object.started? + longest.unwrap_or(Duration::MAX))
    }

    fn pending_unheard(&self, index: u32) -> Vec<ReceiverId> {
        let in_group = |id: &ReceiverId| self.retransmitters.get(id).is_some_and(|one| one.group == 0);
        let mut pending = self.objects.get(index).map_or_else(Vec::new, |object| object.pending_receivers());
        pending.retain(in_group);
        pending
    }
}
