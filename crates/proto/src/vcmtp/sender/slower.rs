//! Slower groups: the same objects at lower rates, for receivers whose links do not take the first group's.
//!
//! A slower group is sent only what its members have not got, which the sender knows exactly: when a receiver moves there,
//! what it has asked for and not been sent, and what it has not heard yet ([`Message::Lacking`]); of objects that begin
//! later, everything. Blocks go in order, again from the front when the end is reached, each once for all who await it.
//! Losses there are mended as everywhere, but when a member has had its pass through an object: only then is it told that
//! the object is out, asks for what is missing, and its time for retransmissions begins.

use std::{collections::BTreeMap, ops::Range};

use treecast_wire::{
    header::PacketType,
    message::{Message, Move},
};

use super::{
    Destination, ReceiverId, Sender, SenderEvent, SenderTransmit, SenderWait,
    awaited::Awaited,
    coordinator::State,
    objects::Objects,
    retransmitter::{Due, Retransmitter},
};
use crate::{Instant, Step};

/// The most objects that only receivers of slower groups are still at; above it the first group waits for them, too.
const MAX_AT_SLOWER: usize = 61_440;

/// More moves than this of one receiver, to where it is or may not be, are not even answered.
pub(super) const MAX_MOVES: u32 = 64;

/// One slower group.
#[derive(Debug)]
pub(super) struct SlowerGroup {
    max_run_len: u32,
    /// Objects whose BOF it has had, and when.
    begun: BTreeMap<u32, Instant>,
    /// The object and the block of it where it goes on.
    at: (u32, u64),
    sent_bytes: u64,
}

impl SlowerGroup {
    pub(super) fn new(max_run_len: u32) -> Self {
        Self { max_run_len, begun: BTreeMap::new(), at: (0, 0), sent_bytes: 0 }
    }

    pub(super) fn set_max_run_len(&mut self, max_run_len: u32) {
        self.max_run_len = max_run_len;
    }

    /// Forgets an object of which nothing more goes to the group.
    pub(super) fn forget(&mut self, index: u32) {
        self.begun.remove(&index);
    }
}

impl Sender {
    /// Returns the next thing that a slower group is to be sent.
    pub(super) fn poll_slower(
        &mut self,
        now: Instant,
        number: u8,
    ) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        let Some((index, run)) = self.next_awaited(number) else {
            return Step::Wait(None, SenderWait::Objects);
        };
        let (to, file) = (Destination::Slower(number), self.objects.file_id(index));
        let Some(group) = slower(&mut self.slower, number) else {
            return Step::Wait(None, SenderWait::Closed);
        };
        let Some(object) = self.objects.get(index) else { return Step::Wait(None, SenderWait::Objects) };
        let Some(begun) = group.begun.get(&index).copied() else {
            group.begun.insert(index, now);
            let message = Message::BeginOfFile(object.begin.clone());
            return Step::Transmit(SenderTransmit::Message { to, file, message });
        };
        let most = self.objects.blocks_per_run(group.max_run_len);
        let run = run.start..run.end.min(run.start + most);
        let range = self.objects.bytes(object, run.clone());
        group.at = (index, run.end);
        group.sent_bytes += range.end - range.start;
        let members = self.retransmitters.iter_mut().filter(|(_, one)| one.group == number);
        let through = members.filter_map(|(id, one)| one.awaited.remove(index, &run).then_some(*id));
        let through: Vec<_> = through.collect();
        if !through.is_empty() {
            self.passed(now, index, begun, &through);
        }
        Step::Transmit(SenderTransmit::Blocks { to, kind: PacketType::Data, file, range })
    }

    /// The next run that a member of the group awaits, from where the group is, and from the front when there is none.
    fn next_awaited(&self, number: u8) -> Option<(u32, Range<u64>)> {
        let at = self.slower.get(usize::from(number).checked_sub(1)?)?.at;
        let first = |at: (u32, u64)| {
            let members = self.retransmitters.values().filter(|one| one.group == number);
            members.filter_map(|one| one.awaited.next(at)).min_by_key(|(index, run)| (*index, run.start))
        };
        first(at).or_else(|| first((0, 0)))
    }

    /// Members of a slower group have had their pass through an object.
    fn passed(&mut self, now: Instant, index: u32, begun: Instant, members: &[ReceiverId]) {
        let Some(object) = self.objects.get_mut(index) else { return };
        if object.out.is_none() || object.hash.is_none() {
            return;
        }
        // As long as the pass: the one of somebody who has come back began when it came.
        let came = members.iter().filter_map(|id| Some(self.retransmitters.get(id)?.moves.again));
        let came = came.map(|again| again.map_or(begun, |again| again.max(begun))).min();
        let pass = now - came.unwrap_or(begun);
        if !self.config.slower_groups_mend {
            self.coordinator.give_time(now, index, object, pass);
        }
        self.tell_end(index, members);
    }

    /// Tells receivers that nothing more of an object will come from their group, when that is so.
    pub(super) fn tell_end(&mut self, index: u32, receivers: &[ReceiverId]) {
        let object = self.objects.get(index).filter(|object| object.out.is_some());
        if let Some(hash) = object.and_then(|object| object.hash) {
            self.tell(index, receivers, Due::Digest(hash));
        }
    }

    /// A receiver has moved to another group. Each move is answered with the group where it is now, which is not the first
    /// when nothing more will be multicast there, or the receiver has gone to and fro too often.
    pub(super) fn move_to(&mut self, now: Instant, from: ReceiverId, to: Move) {
        let number = to.group();
        let Some(one) = self.retransmitters.get_mut(&from).filter(|one| one.moves.count < MAX_MOVES) else {
            self.refused_moves += 1;
            return;
        };
        one.moves.count += 1;
        let is_over = self.multicast.is_idle() && self.coordinator.state != State::Active;
        let pending = self.pending_at(from);
        let Some(one) = self.retransmitters.get_mut(&from) else { return };
        one.moves.unanswered = one.moves.unanswered.saturating_add(1);
        let lacks = std::mem::take(&mut one.moves.lacks);
        let is_other = one.group != number;
        if is_other
            && (usize::from(number) > self.slower.len()
                || number == 0 && is_over
                || !one.moves.allow(now, one.group, number))
        {
            self.refused_moves += 1;
            return;
        }
        let before = std::mem::replace(&mut one.group, number);
        if number == 0 {
            one.awaited = Awaited::default();
        } else if number > before {
            one.awaited.add(lacks);
            one.requests.move_to(&mut one.awaited);
        }
        if number > 0 && before == 0 {
            one.symbols.clear();
            self.symbols.leave(from);
        } else if number == 0 && before > 0 {
            self.symbols.join(from);
            let asked = self.asks_from_now();
            if let Some(one) = self.retransmitters.get_mut(&from) {
                one.asked = asked;
            }
        }
        if is_other {
            // A slower group goes on without the reports of its members.
            if number == 0 {
                self.credit.wait_for(now, from)
            } else {
                self.credit.wait_no_more(now, from)
            }
            self.coordinator.events.push_back(SenderEvent::Moved { receiver: from, group: number });
        }
        for index in pending {
            if self.awaits(from, index) {
                continue;
            }
            // Its time may have been up for all others before it had its pass.
            if let Some(object) = self.objects.get_mut(index) {
                self.coordinator.handle_completion(now, index, object);
            }
            self.tell_end(index, &[from]);
        }
    }

    /// Calls a receiver to a group, where it then moves. One that has gone to and fro too often is called in vain.
    pub fn call(&mut self, receiver: ReceiverId, group: u8) {
        if let Some(one) = self.retransmitters.get_mut(&receiver) {
            one.moves.called = Some(group);
        }
    }

    /// A receiver, which is about to move, has not heard these bytes of an object: they count when it does, and only then. Where the
    /// object is sent by difference, it lacks them in any case.
    pub(super) fn lacking(&mut self, from: ReceiverId, index: u32, bytes: Range<u64>) {
        let Some(object) = self.objects.get(index).filter(|object| object.is_pending_at(from)) else {
            return self.tell(index, &[from], Due::Reject);
        };
        if object.lacks.is_some() {
            return self.report_lacks(from, index, &bytes);
        }
        let blocks = self.objects.blocks(bytes.start..bytes.end.min(object.begin.file_size));
        if !self.slower.is_empty()
            && let Some(one) = self.retransmitters.get_mut(&from)
        {
            one.moves.lacks.insert(index, blocks);
        }
    }

    /// Whether a receiver's slower group has yet to bring it something of an object.
    pub(super) fn awaits(&self, receiver: ReceiverId, index: u32) -> bool {
        let one = self.retransmitters.get(&receiver);
        one.is_some_and(|one| one.group > 0 && one.awaited.contains(index))
    }

    /// The number of objects that have begun, wait for receivers of slower groups alone, and hold up nobody
    /// else.
    pub(super) fn only_at_slower(&self) -> usize {
        if self.slower.is_empty() {
            return 0;
        }
        let started = self.objects.len().saturating_sub(self.multicast.queued());
        let first = self.retransmitters.iter().filter(|(_, one)| one.group == 0);
        let most = first.map(|(id, _)| self.coordinator.objects_at(*id)).max().unwrap_or_default();
        started.saturating_sub(most).min(MAX_AT_SLOWER)
    }

    /// Returns the group that a receiver is in; 0 is the first.
    pub fn group_of(&self, receiver: ReceiverId) -> Option<u8> {
        self.retransmitters.get(&receiver).map(|one| one.group)
    }

    /// Returns how many bytes of objects a slower group has been sent so far.
    pub fn slower_bytes(&self, group: u8) -> u64 {
        let at = usize::from(group).checked_sub(1);
        at.and_then(|at| self.slower.get(at)).map_or(0, |group| group.sent_bytes)
    }
}

/// Notes the blocks that a receiver of a slower group is to have of an object that begins.
pub(super) fn begin_at(one: &mut Retransmitter, objects: &Objects, index: u32) {
    let Some(size) = objects.get(index).map(|object| object.begin.file_size) else { return };
    match size {
        // Its group has no blocks to bring, and does not announce it.
        0 => one.tell(index, Due::BeginOfFile),
        size => one.awaited.insert(index, objects.blocks(0..size)),
    }
}

fn slower(groups: &mut [SlowerGroup], number: u8) -> Option<&mut SlowerGroup> {
    groups.get_mut(usize::from(number).checked_sub(1)?)
}
