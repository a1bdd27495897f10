//! The reports that the sender hears from the controllers at the top, or from all receivers where it alone
//! mends.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    ops::Range,
    time::Duration,
};

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
        clients::{Client, Lead, MAX_CHILDREN},
        repairs::Job,
        share_of, states,
    },
    object::{Address, Destination, SenderEvent, SenderTransmit},
    tfmcc::equation,
};

/// The most groups directly below the sender. Groups that have lost the controller above may exceed it by some.
const MAX_TOP: usize = 2 * MAX_CHILDREN;
const MAX_ORPHANS: usize = 64;

/// The most groups directly below the sender whose controllers are at one IP address, because ports cost nothing.
const MAX_OF_HOST: usize = MAX_CHILDREN;

/// The most receivers of a session in which the sender alone mends.
const MAX_ALONE: usize = 65_536;

/// The time for which a sender stays after its Goodbye when a receiver lacks something, and the number of times that
/// it does.
const STAY: Duration = Duration::from_millis(500);
const MAX_STAYS: u32 = 60;

/// Time after which an announcement is said again in any case. Members say themselves how far away they are.
const LONGEST_ECHO: Duration = Duration::from_secs(1);

/// The round trip to a client before it is measured.
const ASSUMED_TRIP: Duration = Duration::from_millis(100);

/// The member that stands for all that ask without having reported.
const STRANGERS: Member = Member(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));

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
                    Local::Probe(stamp_us) => self.answer(from, stamp_us, false),
                    Local::Join(join) => self.join(now, from, &join),
                    Local::Leave(_) => _ = self.clients.leave(from, self.objects.len() as u32),
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

    /// Answers a probe, or a request to be admitted. `is_to_wait` has a controller ask again, because another
    /// one still speaks for its group.
    fn answer(&mut self, to: Member, stamp_us: u64, is_to_wait: bool) {
        let mut state = self.state(stamp_us);
        state.flags = state.flags.with(LocalFlags::TAKES_GROUPS, is_to_wait);
        state.flags = state.flags.with(LocalFlags::ADMITTED, self.clients.get(to).is_some());
        let message = Message::Local(Local::State(Box::new(state)));
        let (to, file) = (Destination::Local(Address::Member(to)), self.file(0));
        self.transmit(SenderTransmit::Message { to, file, message });
    }

    /// Handles a group's request to be directly below the sender.
    fn join(&mut self, now: Instant, from: Member, join: &LocalJoin) {
        let top = self.clients.children().count();
        let lead = self.clients.may_lead(now, from, join);
        let admits = join.group != GroupId::SESSION
            && match lead {
                Lead::Unknown if self.is_crowded(from) => false,
                Lead::Unknown if join.epoch > 1 => top < MAX_ORPHANS,
                Lead::Unknown => top < MAX_TOP,
                lead => lead == Lead::Yes,
            };
        if admits {
            self.admit(now, from, join);
            // Receivers that look for a group hear of it at once.
            self.times.next_state = self.times.next_state.min(now + super::STATE / 10);
        }
        self.answer(from, join.stamp_us, lead == Lead::NotYet);
    }

    fn is_crowded(&self, from: Member) -> bool {
        let of_host = self.clients.children().filter(|(member, _)| member.0.ip() == from.0.ip());
        of_host.count() >= MAX_OF_HOST
    }

    fn admit(&mut self, now: Instant, from: Member, join: &LocalJoin) {
        self.clients.admit(now, from, join);
        if self.times.start.is_none() {
            self.times.start = Some(now + self.config.settling);
            self.out.push_back(Step::Event(SenderEvent::Started));
        }
        // A receiver that comes late holds up nobody: it counts from here on.
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
                self.answer(from, 0, false);
            }
            return;
        }
        self.heed_congestion(now, from);
        let held = self.held_by(report);
        let group = if report.is_controller { report.group } else { GroupId::SESSION };
        self.window.holds(now, Holder::new(group, from), held);
    }

    /// Cuts the rate if a client is congested. A sender that shares links goes no lower than a TCP connection that loses as much:
    /// not all loss comes from full queues.
    fn heed_congestion(&mut self, now: Instant, from: Member) {
        let Some(client) = self.clients.get(from).filter(|client| client.report.is_congested) else { return };
        let loss = share_of(client.report.loss);
        let least_bps = match (self.config.shares_link, client.report.round_trip_us) {
            (false, _) => 0.0,
            (true, 0) => equation::rate_bps(self.config.block_len.into(), ASSUMED_TRIP, loss),
            (true, trip_us) => {
                let trip = Duration::from_micros(trip_us.into());
                equation::rate_bps(self.config.block_len.into(), trip, loss)
            }
        };
        self.pace.cut(now, self.packets_a_second(), loss, least_bps);
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

    /// Whether the sender may send up to this position. It waits for clients whose reports come and that do not ask
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
            // A receiver that no report has counted has heard the Goodbye, and lacks something.
            None if self.stays() => (Address::Member(from), 0, 0),
            None => return self.requested_by_stranger(now, from, file, request),
            Some((_, round_trip_us, loss)) if self.listeners.is_some() => {
                (Address::Member(from), round_trip_us, loss)
            }
            Some((Some(group), round_trip_us, loss)) => (Address::Group(group), round_trip_us, loss),
            // Everybody hears the repair, so it counts for all who ask at that time.
            Some((None, _, loss)) => (Address::Session, self.clients.diameter_us(), loss),
        };
        let echo = Duration::from_micros(u64::from(echo) + u64::from(echo) / 2);
        let share_bps = self.pace.meant_bps() as f64 * (ASKING_SHARE + share_of(loss).min(MOST_LOSS));
        let index = file.index();
        if self.config.tuning.is_feed && index < self.told_done {
            // All receivers had it, and one that has come since gets what begins later.
            return;
        }
        let asked = self.asked(index, request);
        let (at_once, last) = self.accounts.split(now, from, asked, share_bps as u64);
        for (is_last, ranges) in [(false, at_once), (true, last)] {
            for range in ranges {
                let job = Job { to, object: index, range, by: from, is_last };
                self.repairs.add(now, &job, now + GATHERING, echo);
            }
        }
        if request.wants_announcement && self.is_begun(index) {
            self.announce_again(now, to, index, echo.max(GATHERING));
        }
    }

    /// Handles a request of somebody whose reports reach nobody. All such receivers share one account, and are sent what they lack when
    /// nothing else leaves. It goes to the session's group: their addresses may be made up.
    fn requested_by_stranger(&mut self, now: Instant, from: Member, file: FileId, request: &LocalRequest) {
        let (index, begun) = (file.index(), self.is_begun(file.index()));
        let is_known = self.listeners.as_ref().is_some_and(|listeners| listeners.has(from));
        let to = match self.listeners {
            Some(_) if !is_known => return,
            Some(_) => Address::Member(from),
            None => Address::Session,
        };
        if !begun || (self.config.tuning.is_feed && index < self.told_done) {
            return;
        }
        if self.times.done.is_some() && self.times.stays < MAX_STAYS {
            self.times.stays += 1;
            self.times.done = Some(now);
        }
        let share_bps = self.pace.meant_bps() as f64 * ASKING_SHARE;
        let asked = self.asked(index, request);
        let (ranges, _) = self.accounts.split(now, STRANGERS, asked, share_bps as u64);
        for range in ranges {
            let job = Job { to, object: index, range, by: STRANGERS, is_last: true };
            self.repairs.add(now, &job, now + GATHERING, LONGEST_ECHO);
        }
        if request.wants_announcement {
            self.announce_again(now, to, index, LONGEST_ECHO);
        }
    }

    /// The parts of an object that a request asks for and that have been sent, in whole blocks.
    fn asked(&self, index: u32, request: &LocalRequest) -> Vec<Range<u64>> {
        let (sent, block_len) = (self.sent_of(index), u64::from(self.config.block_len));
        let mut room = MAX_ASKED_BLOCKS * block_len;
        let mut asked = Vec::new();
        for range in request.ranges() {
            let first = range.start - range.start % block_len;
            let range = first..range.end.min(sent).min(first.saturating_add(room));
            if !range.is_empty() {
                room -= range.end - range.start;
                asked.push(range);
            }
        }
        asked
    }

    /// Says once more what an object is, unless those who ask were told within `echo`: many ask together.
    fn announce_again(&mut self, now: Instant, to: Address, index: u32, echo: Duration) {
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

    /// The number of announcements that leave up to a time.
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
            shares_link: false,
            minimum_rate_bps: 0,
            window_bytes: 1_000_000,
            settling: Duration::ZERO,
            wait_for: None,
            named: None,
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
