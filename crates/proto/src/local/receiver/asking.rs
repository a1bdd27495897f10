//! A receiver's search for what is missing, and its choice of the member that it asks for it.

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::FileId,
    message::{
        BeginOfFile, ChunkHashesRequest, GroupId, Local, LocalRequest, MAX_LOCAL_REQUESTED, MAX_PAGES,
        Message,
    },
};

use super::{
    super::{
        Mode,
        control::ABOVE,
        wants::{MAX_WANTS, Wait},
    },
    Receiver,
    listening::IN_VAIN,
};
use crate::{
    Instant, Step,
    object::{Address, Channel, ReceiverInput, ReceiverTransmit},
};

/// The time for which a packet may be late because others have overtaken it.
const REORDERING: Duration = Duration::from_millis(2);

/// The time that an announcement may take, and the time from an object's beginning in which its hash may be computed.
const ANNOUNCING: Duration = Duration::from_millis(30);
const HASHING: Duration = Duration::from_millis(800);

/// The round trip to the controller above that is assumed before one is measured.
const ASSUMED: Duration = Duration::from_millis(200);

/// The blocks of others that wait in front of a repair, and the longest time that one is taken to need.
const OTHERS: u64 = 3;
const LONGEST_SENDING: Duration = Duration::from_secs(2);

/// The blocks that may wait in front of an answer. What takes longer was lost, or asked of somebody who has died.
const WAITING_BLOCKS: u32 = 24;

/// The time without an answer to any request after which a receiver considers its controller wrong, if the receiver
/// loses nothing.
const STARVED: Duration = Duration::from_secs(4);

/// The number of times [`STARVED`] without an answer after which a receiver asks the sender itself.
const FORSAKEN: u32 = 3;

/// A request waits for at most this part of the time after which an object is given up.
const TRIES_IN_TIME: u32 = 8;

/// EndOfFile is believed where no more than so many blocks of the object were not seen.
const MAX_UNSEEN_BLOCKS: u64 = 64;

/// The most objects whose announcements are asked for at once.
const MAX_ANNOUNCEMENTS: usize = 16;

impl Receiver {
    /// Takes note of how far the session is.
    pub(super) fn advance(&mut self, now: Instant, object: u32, position: u64) {
        let before = self.shelf.frontier;
        self.shelf.advance(object, position);
        if self.shelf.frontier > before {
            self.times.advanced = now;
        }
    }

    /// Notes how far the sender has sent an object.
    pub(super) fn reach(&mut self, now: Instant, object: u32, position: u64) {
        // Everything before it is out, too, whether anything of it has been heard or not.
        let first = self.shelf.done.max(self.shelf.released);
        for before in first..object.min(first.saturating_add(64)) {
            self.note_end(now, before);
        }
        if position > 0
            && let Some(known) = self.shelf.note(now, object)
        {
            let size = known.begin.as_ref().map_or(u64::MAX, |begin| begin.file_size);
            known.seen = known.seen.max(position.min(size));
            if known.begin.is_none() {
                known.ask_at.get_or_insert(now + ANNOUNCING);
            }
        }
    }

    pub(super) fn note_begin(&mut self, now: Instant, file: FileId, begin: &BeginOfFile) {
        if let Some(known) = self.shelf.note(now, file.index()) {
            if known.begin.is_none() {
                // The digest comes later, and is asked for as if nothing had been.
                (known.ask_at, known.asked) = (None, 0);
            }
            let begin = known.begin.get_or_insert_with(|| begin.clone());
            known.seen = known.seen.min(begin.file_size);
            if known.digest.is_none() {
                // This member has nothing to add.
                self.shelf.is_said(file.index());
            }
        }
        if file.index() < self.shelf.frontier.0 {
            self.note_end(now, file.index());
        }
    }

    /// Whether hardly more of an object is to come than was seen. Anybody may say that an object has ended, and nobody is to ask for what
    /// was never sent: how far the session is, the sender's own state says.
    pub(super) fn is_near_end(&self, object: u32) -> bool {
        let size = |begin: &BeginOfFile| begin.file_size;
        let known = self.shelf.get(object);
        known.is_none_or(|known| {
            let left = known.begin.as_ref().map_or(0, size).saturating_sub(known.seen);
            left <= MAX_UNSEEN_BLOCKS * self.shelf.block_len
        })
    }

    /// Notes that the sender has sent all of an object.
    pub(super) fn note_end(&mut self, now: Instant, object: u32) {
        let Some(known) = self.shelf.note(now, object).filter(|known| known.end.is_none()) else { return };
        match &known.begin {
            Some(begin) => known.seen = begin.file_size,
            None => {
                known.ask_at.get_or_insert(now + ANNOUNCING);
            }
        }
        if known.digest.is_none() {
            // The hash of a stream's unit is known when it begins. That of a file is computed from its beginning on.
            let is_stream = self.config.tuning.deadline.is_some();
            let hashed = if is_stream { now } else { known.since + HASHING };
            known.ask_at.get_or_insert(hashed.max(now + ANNOUNCING));
        }
    }

    /// Takes in blocks, from the sender or from a member that sends them again.
    pub(super) fn blocks(&mut self, now: Instant, from: Channel, file: FileId, range: Range<u64>) {
        if matches!(from, Channel::Member(member) if self.put_out.contains(&member)) || range.is_empty() {
            return;
        }
        let (object, block_len) = (file.index(), self.shelf.block_len);
        let count = |range: &Range<u64>| (range.end - range.start).div_ceil(block_len);
        let missing: u64 = self.shelf.gaps(&self.objects, object, &range).iter().map(count).sum();
        self.figures.duplicate_blocks += count(&range).saturating_sub(missing);
        let Some(known) = self.shelf.note(now, object) else { return };
        if known.begin.is_none() {
            known.ask_at.get_or_insert(now + ANNOUNCING);
        }
        let seen = known.seen;
        known.seen = known.begin.as_ref().map_or(u64::MAX, |begin| begin.file_size).min(seen.max(range.end));
        match from {
            Channel::Group => {
                // A receiver that comes late has not lost what was sent before.
                let lost = if self.figures.data_blocks == 0 { 0 } else { range.start.saturating_sub(seen) };
                self.figures.data_blocks += count(&range);
                self.sender_speaks(now);
                self.times.data = now;
                if range.start >= seen {
                    self.loss.note(now, count(&range), lost.div_ceil(block_len));
                    self.advance(now, object, range.end);
                }
                self.repairs.heard(now, Address::Session, object, &range);
            }
            _ => {
                self.figures.repair_blocks += count(&range);
                self.note_answer(now, from, object, &range);
                if let Some(group) = self.group().filter(|_| self.listening.is_none()) {
                    self.repairs.heard(now, Address::Group(group), object, &range);
                }
            }
        }
        self.objects.handle(now, ReceiverInput::Blocks { from, file, range: range.clone() });
        if missing > 0 {
            self.times.progress = now;
            self.repairs.came(now, object, &range);
        }
    }

    /// Measures how long a request of the group waits for its answer. Repairs from above are no answers of the group.
    fn note_answer(&mut self, now: Instant, from: Channel, object: u32, range: &Range<u64>) {
        let is_above = matches!(from, Channel::Member(member) if self.control.above() == Some(member));
        if is_above || self.listening.is_some() {
            return;
        }
        if let Some(taken) = self.wants.asked_since(now, object, range) {
            let block = self.shelf.block_len as f64 * 8.0 / self.pace.highest_bps().max(1) as f64;
            let longest = self.control.timing().hold()
                + Duration::from_secs_f64(block).min(LONGEST_SENDING) * WAITING_BLOCKS;
            self.times.answer = (self.times.answer * 7 + taken.min(longest)) / 8;
        }
    }

    /// The time after which the group was asked in vain: longer than any member waits before it sends again, and than answers have
    /// taken of late. While there is much to send again, repairs queue.
    pub(super) fn hold(&self) -> Duration {
        self.control.timing().hold().max(self.times.answer)
    }

    /// Notes the gaps in everything that the sender has sent so far.
    pub(super) fn notice(&mut self, now: Instant) {
        let open: Vec<(u32, Range<u64>)> = self
            .shelf
            .open()
            .filter(|(_, known)| known.noticed < known.seen)
            .map(|(object, known)| (object, known.noticed..known.seen))
            .collect();
        if open.is_empty() {
            return;
        }
        let timing = self.control.timing();
        let distance = self.control.round_trip() / 2;
        for (object, unseen) in open {
            let gaps = self.shelf.gaps(&self.objects, object, &unseen);
            let mut noticed = unseen.end;
            for gap in gaps {
                let (len, end) = (gap.end - gap.start, gap.end);
                let random = &mut self.random;
                let at = || now + REORDERING + timing.ask_wait(distance, random);
                let taken = self.wants.notice(now, object, gap, self.shelf.block_len, 0, at);
                self.figures.lost_blocks += len.div_ceil(self.shelf.block_len);
                if taken < end {
                    noticed = taken;
                    break;
                }
            }
            if let Some(known) = self.shelf.get_mut(object) {
                known.noticed = noticed;
            }
        }
    }

    /// Sends the requests that are due.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.control.place().is_none() {
            return;
        }
        for _ in 0..MAX_WANTS {
            let Some((object, ranges)) = self.wants.due(now) else { break };
            self.ask_for(now, object, &ranges);
        }
        self.ask_for_announcements(now);
        self.ask_for_pages(now);
        self.notice(now);
        // Of its requests and of what they bring, it loses so much, too.
        let arrive = (1.0 - self.loss.share()).max(0.1).powi(2);
        let starved = STARVED.div_f64(arrive);
        let since = self.wants.oldest().map(|since| since.max(self.times.progress));
        if since.is_some_and(|since| now >= since.max(self.times.starved) + starved) {
            self.times.starved = now;
            self.control.starves(now);
            self.carry_out_orders(now);
        }
        let forsaken = starved * FORSAKEN;
        if since.is_some_and(|since| now >= since.max(self.times.asked_sender) + forsaken) {
            self.times.asked_sender = now;
            self.ask_sender();
        }
    }

    /// Requests these wants from the group. Wants that the group was asked for in vain go to the controller above.
    fn ask_for(&mut self, now: Instant, object: u32, wanted: &[Range<u64>]) {
        let (mut here, mut above) = (Vec::new(), Vec::new());
        let mut asked = 0;
        for want in wanted {
            let gaps = self.shelf.gaps(&self.objects, object, want);
            if gaps.is_empty() {
                self.wants.remove(object, want.start);
                continue;
            }
            let tries = self.wants.get(object, want.start).map_or(0, |want| want.tries);
            let is_above = self.asks_above(tries);
            let list = if is_above { &mut above } else { &mut here };
            if list.len() + gaps.len() > MAX_LOCAL_REQUESTED && !list.is_empty() {
                break;
            }
            let left = gaps.iter().map(|gap| gap.end - gap.start).sum();
            list.extend(gaps.into_iter().take(MAX_LOCAL_REQUESTED));
            let wait = self.wait_for(is_above, want);
            self.wants.asked(now, object, want.start, wait, left);
            asked += 1;
        }
        if asked > 0 {
            self.send_request(object, here, false, false);
            self.send_request(object, above, true, false);
        }
    }

    /// Whether a want goes to the controller above after so many tries. With local recovery, it does when the group
    /// was asked in vain. With strict hierarchical recovery, it does whenever the controller lacks it. Without
    /// multicast, the controller is above a member, and single members are asked before.
    fn asks_above(&self, tries: u32) -> bool {
        let is_controller = self.control.is_controller();
        match self.config.mode {
            Mode::Sender => true,
            Mode::Hierarchical => is_controller || self.listening.is_some(),
            Mode::Local if self.listening.is_some() => tries % (2 * IN_VAIN) >= IN_VAIN,
            Mode::Local => {
                let is_alone = self.control.clients.members().next().is_none();
                is_controller && (is_alone || !tries.is_multiple_of(4))
            }
        }
    }

    /// The time to wait for the answer to a request. What a member asks its group for may have to come from above.
    /// Where late objects are given up, a member asks several times before that.
    pub(super) fn wait(&mut self, is_above: bool) -> Wait {
        let (timing, trip) = (self.control.timing(), self.control.round_trip());
        let spread = timing.ask_wait(trip / 2, &mut self.random);
        let trip = if trip.is_zero() { ASSUMED } else { trip };
        let (shortest, hold) = match (is_above, self.listening.is_some()) {
            (true, false) => (trip + trip / 2, trip * 2 + ABOVE),
            (true, true) => (trip + trip / 2, trip * 2 + ABOVE + self.control.way_up()),
            (false, false) => (self.hold(), self.hold() + self.control.way_up()),
            // Another member answers at once, if it has the block.
            (false, true) => (timing.one_way * 4, timing.one_way * 4 + REORDERING * 2),
        };
        let most = match self.config.tuning.deadline {
            Some(deadline) => shortest.max(deadline / TRIES_IN_TIME),
            None => Duration::MAX,
        };
        Wait { hold: hold.min(most), spread, most }
    }

    /// The time to wait for the answer to a request for a range: [`Self::wait`], and until the range is sent.
    pub(super) fn wait_for(&mut self, is_above: bool, range: &Range<u64>) -> Wait {
        let wait = self.wait(is_above);
        Wait { hold: (wait.hold + self.sending_time(range)).min(wait.most), ..wait }
    }

    /// The time that it takes to send a range again, at the session's rate and behind what else is sent
    /// again. A request whose answer is still waiting to leave was not in vain.
    pub(super) fn sending_time(&self, range: &Range<u64>) -> Duration {
        let bytes = range.end - range.start + OTHERS * self.shelf.block_len;
        let time = bytes as f64 * 8.0 / self.pace.highest_bps().max(1) as f64;
        Duration::from_secs_f64(time).min(LONGEST_SENDING)
    }

    fn send_request(&mut self, object: u32, ranges: Vec<Range<u64>>, is_above: bool, announcement: bool) {
        if ranges.is_empty() && !announcement {
            return;
        }
        let (Some(group), Some(above)) = (self.group(), self.control.above()) else { return };
        let distance_us = (self.control.round_trip() / 2).as_micros() as u32;
        let Ok(mut request) = LocalRequest::new(group, distance_us, ranges) else { return };
        request.wants_announcement = announcement;
        let to = match (is_above, self.listening.is_some()) {
            (true, _) => Address::Member(above),
            (false, false) => Address::Group(group),
            (false, true) => Address::Member(self.helper().unwrap_or(above)),
        };
        request.is_from_below = to == Address::Member(above) && self.control.is_controller();
        let sent = if is_above { &mut self.figures.requests_above } else { &mut self.figures.requests_sent };
        *sent += 1;
        let file = FileId::new(self.config.session, object);
        let message = Message::Local(Local::Request(request));
        self.out.push_back(Step::Transmit(ReceiverTransmit::Tell { to, file, message }));
    }

    /// Asks the sender itself for what is missing, after its Goodbye or when nobody else answers. The sender
    /// does not know of this receiver, whose controller may have died.
    pub(super) fn ask_sender(&mut self) {
        let Some(sender) = self.control.sender() else { return };
        let open: Vec<(u32, u64, bool)> = self
            .shelf
            .open()
            .take(MAX_ANNOUNCEMENTS)
            .map(|(object, known)| {
                let size = known.begin.as_ref().map_or(0, |begin| begin.file_size);
                (object, size, known.begin.is_none() || known.digest.is_none())
            })
            .collect();
        for (object, size, lacks_announcement) in open {
            let mut missing = self.shelf.gaps(&self.objects, object, &(0..size));
            missing.truncate(MAX_LOCAL_REQUESTED);
            let group = self.group().unwrap_or(GroupId::SESSION);
            let Ok(mut request) = LocalRequest::new(group, 0, missing) else { continue };
            request.wants_announcement = lacks_announcement;
            self.figures.requests_above += 1;
            let file = FileId::new(self.config.session, object);
            let message = Message::Local(Local::Request(request));
            let to = Address::Member(sender);
            self.out.push_back(Step::Transmit(ReceiverTransmit::Tell { to, file, message }));
        }
    }

    fn ask_for_announcements(&mut self, now: Instant) {
        let due = self.shelf.open().filter(|(_, known)| known.ask_at.is_some_and(|at| at <= now));
        let due: Vec<u32> = due.map(|(object, _)| object).take(MAX_ANNOUNCEMENTS).collect();
        for object in due {
            let Some(known) = self.shelf.get_mut(object) else { continue };
            if known.begin.is_some() && known.digest.is_some() {
                known.ask_at = None;
                continue;
            }
            let asked = known.asked;
            known.asked += 1;
            let is_above = self.asks_above(asked);
            let wait = self.wait(is_above).after(asked).max(ANNOUNCING);
            if let Some(known) = self.shelf.get_mut(object) {
                known.ask_at = Some(now + wait);
            }
            self.send_request(object, Vec::new(), is_above, true);
        }
    }

    /// Asks the sender for the hashes of an object's chunks, because the object is complete but wrong.
    fn ask_for_pages(&mut self, now: Instant) {
        let Some(sender) = self.control.sender() else { return };
        let open: Vec<u32> = self.shelf.open().map(|(object, _)| object).collect();
        for object in open {
            let Some(page) = self.objects.unchecked_page(object) else { continue };
            let Some(known) = self.shelf.get_mut(object) else { continue };
            if known.ask_at.is_some_and(|at| now < at) {
                continue;
            }
            known.ask_at = Some(now + ASSUMED * 2);
            let Ok(request) = ChunkHashesRequest::new(page..page.saturating_add(MAX_PAGES)) else { continue };
            let file = FileId::new(self.config.session, object);
            let message = Message::ChunkHashesRequest(request);
            let tell = ReceiverTransmit::Tell { to: Address::Member(sender), file, message };
            self.out.push_back(Step::Transmit(tell));
        }
    }
}
