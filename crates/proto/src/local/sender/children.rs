//! What the sender hears from the controllers at the top, or from everybody where it alone mends.

use treecast_wire::{
    header::FileId,
    message::{
        GroupId, Local, LocalFlags, LocalJoin, LocalReport, LocalRequest, LocalState, MAX_LOCAL_CHILDREN,
        Member, Message,
    },
};

use super::{ASKING_SHARE, At, GATHERING, MOST_LOSS, Sender, window::Holder};
use crate::{
    Instant, Step,
    local::{
        Mode,
        clients::{Client, MAX_CHILDREN},
        repairs::Job,
        share_of, states,
    },
    object::{Address, Destination, SenderEvent, SenderTransmit},
};

/// The most groups directly below the sender. Groups that have lost the controller above may exceed it by some.
const MAX_TOP: usize = 2 * MAX_CHILDREN;
const MAX_ORPHANS: usize = 64;

/// The most receivers of a session in which the sender alone mends.
const MAX_ALONE: usize = 65_536;

/// The time for which a sender stays after its Goodbye when a receiver lacks something, and the number of times that
/// it does.
const STAY: std::time::Duration = std::time::Duration::from_millis(500);
const MAX_STAYS: u32 = 60;

/// Time after which an announcement is said again in any case. Members say themselves how far away they are.
const LONGEST_ECHO: std::time::Duration = std::time::Duration::from_secs(1);

/// The most blocks of one request that are looked at.
const MAX_ASKED_BLOCKS: u64 = 2_048;

impl Sender {
    pub(super) fn local(&mut self, now: Instant, from: Member, file: FileId, local: Local) {
        match local {
            Local::Report(report) => {
                self.figures.reports += 1;
                self.report(now, from, &report);
            }
            Local::Request(request) => {
                self.figures.requests += 1;
                self.requested(now, from, file, &request);
            }
            other => {
                self.figures.others += 1;
                match other {
                    Local::Probe(stamp_us) => self.answer(from, stamp_us),
                    Local::Join(join) => self.join(now, from, &join),
                    Local::Leave(_) => drop(self.clients.remove(from)),
                    Local::Listen { token, port } => self.listened(now, from, (token, port)),
                    _ => {}
                }
            }
        }
    }

    /// The session's state, as the sender tells it.
    pub(super) fn state(&self, echo_us: u64) -> LocalState {
        let children: Vec<Member> = self.clients.children().map(|(member, _)| member).collect();
        let frontier = match self.at {
            At::Begin(index) => (index, 0),
            At::Blocks(index, position) => (index, position),
            At::End => (self.objects.len() as u32, 0),
        };
        let flags = LocalFlags::default()
            .with(LocalFlags::TAKES_GROUPS, children.len() < MAX_TOP)
            .with(LocalFlags::LOWEST, self.is_lowest());
        LocalState {
            echo_us,
            flags,
            members: self.clients.members().count().min(usize::from(u16::MAX)) as u16,
            diameter_us: self.clients.diameter_us(),
            frontier,
            done: self.clients.done(self.objects.len() as u32),
            children: children.into_iter().take(MAX_LOCAL_CHILDREN).collect(),
            ..LocalState::new(GroupId::SESSION, self.config.me)
        }
    }

    /// Whether the sender is at the lowest rate that is set.
    pub(super) fn is_lowest(&self) -> bool {
        self.config.minimum_rate_bps > 0 && self.pace.is_lowest()
    }

    fn answer(&mut self, to: Member, stamp_us: u64) {
        let mut state = self.state(stamp_us);
        state.flags = state.flags.with(LocalFlags::ADMITTED, self.clients.get(to).is_some());
        let message = Message::Local(Local::State(Box::new(state)));
        let (to, file) = (Destination::Local(Address::Member(to)), self.file(0));
        self.transmit(SenderTransmit::Message { to, file, message });
    }

    /// Handles a group's request to be directly below the sender.
    fn join(&mut self, now: Instant, from: Member, join: &LocalJoin) {
        let top = self.clients.children().count();
        let admits = join.group != GroupId::SESSION
            && match self.clients.epoch(join.group) {
                Some(epoch) => join.epoch >= epoch,
                None if join.epoch > 1 => top < MAX_ORPHANS,
                None => top < MAX_TOP,
            };
        if admits {
            self.admit(now, from, join);
            // Those who look for a group hear of it at once.
            self.times.next_state = self.times.next_state.min(now + super::STATE / 10);
        }
        self.answer(from, join.stamp_us);
    }

    fn admit(&mut self, now: Instant, from: Member, join: &LocalJoin) {
        self.clients.admit(now, from, join);
        if self.times.start.is_none() {
            self.times.start = Some(now + self.config.settling);
            self.out.push_back(Step::Event(SenderEvent::Started));
        }
        // Who comes late holds up nobody: it counts from here on.
        let sent = self.sent();
        self.window.admit(now, Holder::new(join.group, from), sent);
    }

    /// The bytes of all objects that have been sent, without repairs.
    fn sent(&self) -> u64 {
        match self.at {
            At::Begin(index) => self.offset(index.min(self.objects.len() as u32)),
            At::Blocks(index, position) => self.offset(index) + position,
            At::End => self.offset(self.objects.len() as u32),
        }
    }

    fn report(&mut self, now: Instant, from: Member, report: &LocalReport) {
        if self.config.mode == Mode::Sender
            && !report.is_controller
            && self.clients.get(from).is_none()
            && self.clients.len() < MAX_ALONE
        {
            let group = GroupId::SESSION;
            let join = LocalJoin { group, epoch: 0, stamp_us: 0, loss: report.loss };
            self.admit(now, from, &join);
        }
        if !self.clients.report(now, from, report) {
            if report.is_controller {
                // It hears that its group is not known here.
                self.answer(from, 0);
            }
            return;
        }
        if self.clients.get(from).is_some_and(|client| client.report.is_congested) {
            self.pace.cut(now, self.packets_a_second());
        }
        let held = self.held_by(report);
        let group = if report.is_controller { report.group } else { GroupId::SESSION };
        self.window.holds(now, Holder::new(group, from), held);
    }

    /// The bytes of all objects, without a gap, that a group has or can obtain.
    fn held_by(&self, report: &LocalReport) -> u64 {
        let done = report.done.min(self.objects.len() as u32);
        let mut held = self.offset(done);
        for (index, object) in (done..).zip(&self.objects[done as usize..]) {
            let size = object.begin.file_size;
            let part = match states::word(report, index) {
                states::Word::Done => size,
                states::Word::Listed(listed) => states::obtainable(listed).min(size),
                states::Word::Unknown => 0,
            };
            held += part;
            if part < size {
                break;
            }
        }
        held
    }

    /// Whether the sender may send up to this position. It waits for clients whose reports come and who do not ask
    /// for more than they can have lost.
    pub(super) fn is_in_window(&mut self, now: Instant, end: u64) -> bool {
        let (sent, accounts) = (self.sent(), &self.accounts);
        let waited_for = self.clients.present(now).filter(|(member, _)| !accounts.is_beyond(now, *member));
        let holder = |(member, client): (Member, &Client)| {
            Holder::new(client.group.unwrap_or(GroupId::SESSION), member)
        };
        self.window.allows(now, (sent, end), waited_for.map(holder))
    }

    /// Handles a request: of a group in which nobody has the blocks, or of a receiver where the sender alone mends.
    fn requested(&mut self, now: Instant, from: Member, file: FileId, request: &LocalRequest) {
        let known = self.clients.get(from);
        let known = known.map(|client| (client.group, client.report.round_trip_us, client.report.loss));
        let (to, echo, loss) = match known {
            // Somebody whom no report has counted has heard the Goodbye, and lacks something.
            None if self.stays() => (Address::Member(from), 0, 0),
            None => return,
            Some((_, round_trip_us, loss)) if self.listeners.is_some() => {
                (Address::Member(from), round_trip_us, loss)
            }
            Some((Some(group), round_trip_us, loss)) => (Address::Group(group), round_trip_us, loss),
            // Everybody hears the repair, so it counts for all who ask at that time.
            Some((None, _, loss)) => (Address::Session, self.clients.diameter_us(), loss),
        };
        let echo = std::time::Duration::from_micros(u64::from(echo) + u64::from(echo) / 2);
        let share_bps = self.config.rate_bps as f64 * (ASKING_SHARE + share_of(loss).min(MOST_LOSS));
        let index = file.index();
        let sent = self.sent_of(index);
        let mut room = MAX_ASKED_BLOCKS * u64::from(self.config.block_len);
        let mut asked = Vec::new();
        for range in request.ranges() {
            let first = range.start - range.start % u64::from(self.config.block_len);
            let range = first..range.end.min(sent).min(first.saturating_add(room));
            if !range.is_empty() {
                room -= range.end - range.start;
                asked.push(range);
            }
        }
        let (at_once, last) = self.accounts.split(now, from, asked, share_bps as u64);
        for (is_last, ranges) in [(false, at_once), (true, last)] {
            for range in ranges {
                let job = Job { to, object: index, range, by: from, is_last };
                self.repairs.add(now, &job, now + GATHERING, echo);
            }
        }
        if request.wants_announcement && (sent > 0 || self.is_begun(index)) {
            self.announce_again(now, to, index, echo.max(GATHERING));
        }
    }

    /// Says once more what an object is, unless those who ask were told within `echo`: many ask together.
    fn announce_again(&mut self, now: Instant, to: Address, index: u32, echo: std::time::Duration) {
        let Some(object) = self.objects.get_mut(index as usize) else { return };
        object.said.retain(|(_, said)| now < *said + LONGEST_ECHO);
        let echo = echo.min(LONGEST_ECHO);
        if object.said.iter().any(|(address, said)| *address == to && now < *said + echo) {
            return;
        }
        object.said.push((to, now));
        let to = match to {
            Address::Session => Destination::Group,
            to => Destination::Local(to),
        };
        self.announce(to, index, true);
    }

    /// Whether a sender that says Goodbye puts off its end for a receiver that lacks something. It does so a limited
    /// number of times.
    fn stays(&mut self) -> bool {
        let stays = self.times.goodbyes > 0 && self.times.stays < MAX_STAYS;
        if stays && self.times.goodbyes > 1 {
            self.times.stays += 1;
            (self.times.goodbyes, self.times.next_goodbye) = (1, self.times.next_goodbye + STAY);
        }
        stays
    }

    fn is_begun(&self, index: u32) -> bool {
        match self.at {
            At::Begin(at) => index < at,
            At::Blocks(at, _) => index <= at,
            At::End => true,
        }
    }

    /// The bytes of an object that have been sent.
    fn sent_of(&self, index: u32) -> u64 {
        let Some(object) = self.objects.get(index as usize).filter(|object| object.withdrawn.is_none())
        else {
            return 0;
        };
        match self.at {
            At::Blocks(at, position) if at == index => position,
            _ if self.is_begun(index) => object.begin.file_size,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treecast_wire::{
        header::SessionId,
        message::{BeginOfFile, TransferType},
    };

    use super::*;
    use crate::{
        local::{SenderConfig, Tuning},
        object::{Lane, SenderInput},
    };

    const SESSION: SessionId = SessionId(7);

    fn member(number: u16) -> Member {
        Member(([192, 0, 2, 1], number).into())
    }

    /// How many announcements leave up to a time.
    fn announced(sender: &mut Sender, until: Instant) -> usize {
        let (mut now, mut count) = (until, 0);
        loop {
            match sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { message: Message::BeginOfFile(_), .. }) => {
                    count += 1
                }
                Step::Wait(Some(deadline), _) if deadline <= until => now = deadline,
                Step::Wait(..) => return count,
                _ => {}
            }
        }
    }

    #[test]
    fn many_who_ask_for_an_announcement_together_are_told_once() {
        let config = SenderConfig {
            session: SESSION,
            block_len: 1_000,
            me: member(1),
            mode: Mode::Sender,
            max_run_len: 1_000,
            rate_bps: 1_000_000,
            minimum_rate_bps: 0,
            window_bytes: 1_000_000,
            settling: Duration::ZERO,
            wait_for: None,
            tuning: Tuning::default(),
            copies: None,
        };
        let begin = BeginOfFile::new(TransferType::DiskToDisk, 5_000, "a").unwrap();
        let mut sender = Sender::new(config, vec![begin]);
        let file = FileId::new(SESSION, 0);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let say = |sender: &mut Sender, now, number, local| {
            let message = Message::Local(local);
            sender.handle(now, SenderInput::Local { from: member(number), file, message });
        };
        for number in 2..27 {
            let mut report = LocalReport::new(GroupId::SESSION, false);
            report.round_trip_us = 20_000;
            say(&mut sender, at(0), number, Local::Report(report));
        }
        assert_eq!(announced(&mut sender, at(100)), 1, "the first time");
        let ask = || {
            let mut request = LocalRequest::new(GroupId::SESSION, 10_000, Vec::new()).unwrap();
            request.wants_announcement = true;
            Local::Request(request)
        };
        (2..27).for_each(|number| say(&mut sender, at(100 + u64::from(number)), number, ask()));
        assert_eq!(announced(&mut sender, at(140)), 1, "of 25 requests");
        say(&mut sender, at(150), 2, ask());
        assert_eq!(announced(&mut sender, at(160)), 1, "the answer was lost");
    }
}
