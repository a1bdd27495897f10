//! The part of a receiver that serves others: it hears what they lack, and sends it again when nobody else
//! does.

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::FileId,
    message::{LocalRequest, Member, Message},
};

use super::{
    super::{Mode, repairs::Job, states::without},
    ASKING_SHARE, IDLE, Receiver,
    listening::IN_VAIN,
};
use crate::{
    Instant, Step,
    object::{Address, ReceiverTransmit},
};

/// The most blocks of a repair that leave together. Repairs that can wait leave in shorter runs.
const RUN_BLOCKS: u64 = 16;
const LAST_RUN_BLOCKS: u64 = 4;

/// The multiple of the time for requests in vain by which repairs wait that a member that floods the group has asked for.
const FLOODS_WAIT: u32 = 2;

/// The most blocks of one request that are looked at.
const MAX_ASKED_BLOCKS: u64 = 2_048;

impl Receiver {
    /// Handles a request of another member.
    pub(super) fn requested(&mut self, now: Instant, by: Member, file: FileId, request: &LocalRequest) {
        let object = file.index();
        if self.put_out.contains(&by) || by == self.config.me {
            return;
        }
        let is_below = self.control.clients.get(by).is_some_and(|client| client.group == Some(request.group));
        let is_for_us = match request.is_from_below {
            true => is_below && self.control.is_controller(),
            false => self.group() == Some(request.group),
        };
        if !is_for_us {
            return;
        }
        let asked = self.bounded(object, request.ranges());
        // Where this member loses more than that share itself, a neighbour may have lost as much.
        let share = self.loss.share().max(ASKING_SHARE);
        let share_bps = self.session_bps().min(self.pace.highest_bps()) as f64 * share;
        let (at_once, last) = self.accounts.split(now, by, asked, share_bps as u64);
        self.figures.requests_beyond += u64::from(!last.is_empty());
        if request.is_from_below {
            self.requested_from_below(now, by, object, request, [&at_once, &last]);
        } else {
            // A member that asks for everything asks for nobody else.
            if self.listening.is_none() && !self.accounts.is_beyond(now, by) {
                self.suppress(now, object, request, &at_once);
            }
            self.requested_here(now, by, object, request, [&at_once, &last]);
        }
    }

    /// Holds back this receiver's own requests for what another member has just asked for.
    fn suppress(&mut self, now: Instant, object: u32, request: &LocalRequest, asked: &[Range<u64>]) {
        let is_controller = self.control.is_controller();
        let is_asked = |gap: &Range<u64>| without(gap, asked).is_empty();
        let overlaps = |want: &Range<u64>| {
            let first = asked.partition_point(|asked| asked.end <= want.start);
            asked.get(first).is_some_and(|asked| asked.start < want.end)
        };
        // After a burst of losses there are many wants and requests: gaps are looked up for few.
        let wants = self.wants.of(object).filter(|want| overlaps(&want.range)).filter(|want| {
            let gaps = self.shelf.gaps(&self.objects, object, &want.range);
            // What the group was asked for in vain, its controller asks for above, whichever member asks the group again.
            let is_for_above = is_controller && want.tries > 0;
            !is_for_above && !gaps.is_empty() && gaps.iter().all(is_asked)
        });
        let ranges: Vec<Range<u64>> = wants.map(|want| want.range.clone()).collect();
        for range in ranges {
            let wait = self.wait_for(false, &range);
            self.wants.suppress(now, object, range.start, wait);
        }
        let hold = self.wait(false).hold;
        if request.wants_announcement
            && let Some(known) = self.shelf.get_mut(object)
            && let Some(ask_at) = &mut known.ask_at
        {
            *ask_at = (*ask_at).max(now + hold);
            known.asked = known.asked.max(1);
        }
    }

    /// Handles a request from this receiver's own group. The second list of ranges can wait.
    fn requested_here(
        &mut self,
        now: Instant,
        by: Member,
        object: u32,
        request: &LocalRequest,
        lists: [&[Range<u64>]; 2],
    ) {
        let (Some(group), timing) = (self.group(), self.control.timing()) else { return };
        let is_controller = self.control.is_controller();
        let (mends, wait) = match self.config.mode {
            Mode::Local => (true, timing.mend_wait(self.control.round_trip() / 2, &mut self.random)),
            Mode::Hierarchical => (is_controller, Duration::ZERO),
            Mode::Sender => (false, Duration::ZERO),
        };
        // A member that asks for more than its share for a while is served behind all others, as long as the sender goes on.
        let is_flood = self.accounts.is_beyond(now, by) && now < self.times.data + IDLE;
        let wait = if is_flood { wait + self.hold() * FLOODS_WAIT } else { wait };
        let is_alone = self.listening.is_some();
        let to = if is_alone { Address::Member(by) } else { Address::Group(group) };
        for (is_last, asked) in [false, true].into_iter().zip(lists) {
            for range in asked {
                let there = match is_controller && is_alone {
                    // What lacks here, too, goes to this member when it comes from above.
                    true => vec![range.clone()],
                    false => self.shelf.held(&self.objects, object, range),
                };
                for range in there.into_iter().filter(|_| mends) {
                    let job = Job { to, object, range, by, is_last };
                    self.repairs.add(now, &job, now + wait, timing.echo());
                }
                if is_controller && !is_last {
                    let waits = self.config.mode == Mode::Local && !is_alone;
                    let hold = self.hold() + self.sending_time(range);
                    let at = if waits { now + hold } else { now };
                    self.want_for_others(now, object, range, at);
                }
            }
        }
        if request.wants_announcement && mends {
            self.shelf.say(object, now + wait, to);
        }
    }

    /// Handles a request from the controller of a group below, in which nobody has the blocks. The second list of
    /// ranges can wait.
    fn requested_from_below(
        &mut self,
        now: Instant,
        by: Member,
        object: u32,
        request: &LocalRequest,
        lists: [&[Range<u64>]; 2],
    ) {
        let to = match self.listening {
            Some(_) => Address::Member(by),
            None => Address::Group(request.group),
        };
        let echo = self.control.clients.get(by).map_or(0, |client| client.report.round_trip_us);
        let echo = Duration::from_micros(u64::from(echo));
        for (is_last, asked) in [false, true].into_iter().zip(lists) {
            for range in asked {
                let job = Job { to, object, range: range.clone(), by, is_last };
                self.repairs.add(now, &job, now, echo);
                self.want_for_others(now, object, range, now);
            }
        }
        if request.wants_announcement {
            self.shelf.say(object, now, to);
            if let Some(known) = self.shelf.note(now, object).filter(|known| known.begin.is_none()) {
                known.ask_at.get_or_insert(now);
            }
        }
    }

    /// Has a controller ask above for blocks that others request and that it lacks itself.
    fn want_for_others(&mut self, now: Instant, object: u32, range: &Range<u64>, at: Instant) {
        let Some(known) = self.shelf.note(now, object).filter(|known| known.end.is_none()) else { return };
        known.seen = known.seen.max(range.end);
        // Members that ask have asked other members before, where they ask one by one.
        let tries = if self.listening.is_some() { IN_VAIN } else { 1 };
        for gap in self.shelf.gaps(&self.objects, object, range) {
            self.wants.notice(now, object, gap, self.shelf.block_len, tries, || at);
        }
    }

    /// The part of the requested ranges that can exist, and that one request may ask for.
    fn bounded(&self, object: u32, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let out = self.shelf.out(object);
        let mut room = MAX_ASKED_BLOCKS * self.shelf.block_len;
        let mut bounded = Vec::new();
        for range in ranges {
            let first = range.start - range.start % self.shelf.block_len;
            let range = first..range.end.min(out).min(first.saturating_add(room));
            if !range.is_empty() {
                room -= range.end - range.start;
                bounded.push(range);
            }
        }
        bounded
    }

    /// Sends the repairs that are due.
    pub(super) fn mend(&mut self, now: Instant) {
        self.announce_again(now);
        if self.config.mode == Mode::Hierarchical && !self.control.is_controller() {
            // What it was asked for as the controller, the next one is asked for.
            self.repairs.clear();
        }
        if now < self.pace.next() {
            return;
        }
        let block_len = self.shelf.block_len;
        let held = |object: u32, range: &Range<u64>| self.shelf.held(&self.objects, object, range);
        let with_last = now >= self.times.data + IDLE;
        let most = if self.repairs.deadline(false).is_none() { LAST_RUN_BLOCKS } else { RUN_BLOCKS };
        let Some(job) = self.repairs.next(now, most * block_len, with_last, held) else { return };
        let len = job.range.end - job.range.start;
        // What can wait takes half of the rate.
        self.pace.spend(now, len * if job.is_last { 2 } else { 1 });
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
