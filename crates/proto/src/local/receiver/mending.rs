//! What a receiver does for others: it hears what they lack, and sends it again when nobody else does.

use std::ops::Range;

use treecast_wire::{
    header::FileId,
    message::{LocalRequest, Member, Message},
};

use super::{super::Mode, Receiver};
use crate::{
    Instant, Step,
    object::{Address, ReceiverTransmit},
};

/// A repair is sent in runs of at most so many blocks.
const RUN_BLOCKS: u64 = 16;

/// The most blocks that one request is taken to ask for.
const MAX_ASKED_BLOCKS: u64 = 2_048;

impl Receiver {
    /// Somebody lacks something.
    pub(super) fn requested(&mut self, now: Instant, by: Member, file: FileId, request: &LocalRequest) {
        let object = file.index();
        if self.put_out.contains(&by) || by == self.config.me {
            return;
        }
        if request.is_from_below {
            let is_below =
                self.control.clients.get(by).is_some_and(|client| client.group == Some(request.group));
            if is_below && self.control.is_controller() {
                self.requested_from_below(now, by, object, request);
            }
        } else if self.group() == Some(request.group) {
            self.suppress(now, object, request);
            self.requested_here(now, by, object, request);
        }
    }

    /// Another member of the group has asked for what is missing here, too: that need not be asked for again.
    fn suppress(&mut self, now: Instant, object: u32, request: &LocalRequest) {
        let hold = self.hold(false);
        let is_controller = self.control.is_controller();
        let is_asked = |gap: &Range<u64>| super::super::states::without(gap, request.ranges()).is_empty();
        let wants = self.wants.of(object).filter(|want| {
            let gaps = self.shelf.gaps(&self.objects, object, &want.range);
            // What the group was asked for in vain, its controller asks for above, whoever asks the group again.
            let is_for_above = is_controller && want.tries > 0;
            !is_for_above && !gaps.is_empty() && gaps.iter().all(is_asked)
        });
        let starts: Vec<u64> = wants.map(|want| want.range.start).collect();
        for start in starts {
            let spread = self.spread();
            self.wants.suppress(now, object, start, (hold, spread));
        }
        if request.wants_announcement
            && let Some(known) = self.shelf.get_mut(object)
            && let Some(ask_at) = &mut known.ask_at
        {
            *ask_at = (*ask_at).max(now + hold);
            known.asked = known.asked.max(1);
        }
    }

    /// A member of the own group lacks something.
    fn requested_here(&mut self, now: Instant, by: Member, object: u32, request: &LocalRequest) {
        let (Some(group), timing) = (self.group(), self.control.timing()) else { return };
        let is_controller = self.control.is_controller();
        let mends = match self.config.mode {
            Mode::Local => true,
            Mode::Hierarchical => is_controller,
            Mode::Sender => false,
        };
        let distance = self.control.round_trip() / 2;
        let wait = match self.config.mode {
            Mode::Local => timing.mend_wait(distance, &mut self.random),
            _ => std::time::Duration::ZERO,
        };
        let asked = self.bounded(object, request.ranges());
        let bytes = asked.iter().map(|range| range.end - range.start).sum();
        if !self.repairs.allows(now, by, bytes) {
            self.figures.requests_refused += 1;
            return;
        }
        for range in asked {
            for held in self.shelf.held(&self.objects, object, &range).into_iter().filter(|_| mends) {
                let to = (Address::Group(group), object, held);
                self.repairs.add(now, to, by, now + wait, timing.echo());
            }
            if is_controller {
                let at = if self.config.mode == Mode::Local { now + timing.hold() } else { now };
                self.want_for_others(now, object, &range, at);
            }
        }
        if request.wants_announcement && mends {
            self.shelf.say(object, now + wait, Address::Group(group));
        }
    }

    /// The controller of a group below lacks something, and nobody in its group has it.
    fn requested_from_below(&mut self, now: Instant, by: Member, object: u32, request: &LocalRequest) {
        let to = Address::Group(request.group);
        let echo = self.control.clients.get(by).map_or(0, |client| client.report.round_trip_us);
        let echo = std::time::Duration::from_micros(u64::from(echo));
        for range in self.bounded(object, request.ranges()) {
            self.repairs.add(now, (to, object, range.clone()), by, now, echo);
            self.want_for_others(now, object, &range, now);
        }
        if request.wants_announcement {
            self.shelf.say(object, now, to);
            if let Some(known) = self.shelf.note(now, object).filter(|known| known.begin.is_none()) {
                known.ask_at.get_or_insert(now);
            }
        }
    }

    /// What a controller lacks itself of what others ask for, it asks for above.
    fn want_for_others(&mut self, now: Instant, object: u32, range: &Range<u64>, at: Instant) {
        let Some(known) = self.shelf.note(now, object).filter(|known| known.end.is_none()) else { return };
        known.seen = known.seen.max(range.end);
        for gap in self.shelf.gaps(&self.objects, object, range) {
            self.wants.notice(now, object, gap, self.shelf.block_len, 1, || at);
        }
    }

    /// The part of what is asked for that can be there, and that one request may ask for.
    fn bounded(&self, object: u32, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let begin = self.shelf.get(object).and_then(|known| known.begin.as_ref());
        let seen = self.shelf.get(object).map_or(0, |known| known.seen);
        let size = begin.map_or(seen, |begin| begin.file_size);
        let mut room = MAX_ASKED_BLOCKS * self.shelf.block_len;
        let mut bounded = Vec::new();
        for range in ranges {
            let first = range.start - range.start % self.shelf.block_len;
            let range = first..range.end.min(size).min(first.saturating_add(room));
            if !range.is_empty() {
                room -= range.end - range.start;
                bounded.push(range);
            }
        }
        bounded
    }

    /// Sends again what it is time for.
    pub(super) fn mend(&mut self, now: Instant) {
        self.announce_again(now);
        if now < self.pace.next() {
            return;
        }
        let block_len = self.shelf.block_len;
        let held = |object: u32, range: &Range<u64>| self.shelf.held(&self.objects, object, range);
        let Some(job) = self.repairs.next(now, RUN_BLOCKS * block_len, held) else { return };
        let len = job.range.end - job.range.start;
        self.pace.spend(now, len);
        self.figures.sent_blocks += len.div_ceil(block_len);
        self.repairs.heard(now, job.to, job.object, &job.range);
        let file = FileId::new(self.config.session, job.object);
        let send = ReceiverTransmit::Send { to: job.to, file, range: job.range };
        self.out.push_back(Step::Transmit(send));
    }

    fn announce_again(&mut self, now: Instant) {
        for (object, to) in self.shelf.take_due_announcements(now) {
            let file = FileId::new(self.config.session, object);
            let Some(known) = self.shelf.get(object) else { continue };
            let begin = known.begin.clone().map(Message::BeginOfFile);
            let digest = known.digest.clone().map(Message::Digest);
            for message in begin.into_iter().chain(digest) {
                self.out.push_back(Step::Transmit(ReceiverTransmit::Tell { to, file, message }));
            }
        }
    }
}
