//! The sender (meadcast-thesis-2024, 4.3.1): it asks for routers again and again, groups the receivers by what they
//! answer, and tells when there is a new transmission group.
//!
//! The timers are the thesis' (figure 4.4): a delay before the first discovery, which may wait for traffic; a timeout, for
//! which responses are gathered; and an interval, here from the beginning of one discovery to that of the next.
//! Where this differs from the thesis:
//! - Requests do not leave in one burst: they are spread over a quarter of the timeout, or over more, so that no more than a
//!   given number leave in a second. The timeout is longer by that.
//! - A receiver for which a router is missing that has answered before, or that others have met, is asked about a second
//!   time when half of the timeout is over, so that a lost packet changes no group.
//! - Receivers join and leave at any time. A receiver that joins gets unicast until a discovery is over that asks about nobody else, and
//!   begins at once; or with the others, where these are just being asked about.
//! - It hears what ICMPv6 says about its packets ([`Lost`]).
//! - A router that leaves says so by a response with 0 hops. The next discovery then begins at once, and finds other ways while that
//!   router still acts. Such a response proves itself as others do. Forged ones have no more effect than that discoveries begin four
//!   times as often.

mod paths;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    net::Ipv6Addr,
    time::Duration,
};

use treecast_wire::{
    icmpv6::{Cause, Unreachable},
    mead::{Header, Kind, NONCE_LEN, Proof},
};

pub use self::paths::Lost;
pub(crate) use self::paths::Paths;
use self::paths::is_of_the_packet;
use super::{
    cost::{self, Model},
    designated,
    grouping::{self, Parameters},
    tree::{Anomaly, Answers, Tree},
};
use crate::explicit::{
    authentication::{DomainKey, Said},
    lists::TransmissionGroup,
};
use crate::{Instant, Step};

/// The number of requests by which the sender may fall behind its pace and still catch up.
const CATCH_UP: u32 = 8;

/// A router that leaves may have been asked last in any of so many discoveries: those about receivers that join are short.
const REMEMBERED_DISCOVERIES: u64 = 8;

/// The algorithm that decides which receivers share a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// The algorithm of the thesis ([`grouping`]).
    Thesis,
    /// The algorithm that looks for the fewest bytes on all links ([`cost`]).
    Cost(Model),
}

/// The settings of a MEADcast sender.
#[derive(Debug, Clone)]
pub struct Config {
    /// The sender's address.
    pub source: Ipv6Addr,
    /// The algorithm by which receivers are grouped.
    pub algorithm: Algorithm,
    /// The limits of address lists.
    pub parameters: Parameters,
    /// The time for which the sender waits before its first discovery.
    pub delay: Duration,
    /// The time from the beginning of one discovery to that of the next; at least the timeout.
    pub interval: Duration,
    /// The time for which the sender gathers responses in a discovery.
    pub timeout: Duration,
    /// Whether the delay before the first discovery begins with the first traffic.
    pub waits_for_traffic: bool,
    /// The most requests that leave in a second. A discovery takes longer where that is too few for the
    /// timeout.
    pub requests_per_second: u32,
    /// A multicast group by which routers may serve receivers on their own links, and its UDP port. Receivers
    /// with other ports are not served by it.
    pub designated: Option<(Ipv6Addr, u16)>,
    /// The domain's key. With a key, only responses that were made with it count.
    pub key: Option<DomainKey>,
    /// The seed from which nonces are made. Nobody else may be able to guess it.
    pub seed: [u8; 32],
}

/// Something that has happened at the sender.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A program has something to send.
    Traffic,
    /// A receiver joins; its address and its UDP port.
    Join(Ipv6Addr, u16),
    /// A receiver leaves.
    Leave(Ipv6Addr),
    /// A discovery response has arrived.
    Response {
        /// The router, by the packet's source.
        router: Ipv6Addr,
        /// Its routing header.
        header: &'a Header,
        /// The proof that its options carry.
        proof: Option<Proof>,
        /// The group that its options offer.
        group: Option<Ipv6Addr>,
    },
    /// An ICMPv6 error says that a packet of this sender did not arrive.
    Lost(Lost<'a>, Cause),
}

/// A discovery request that the sender asks its caller to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The receiver: the destination of the request, and the address in its list.
    pub receiver: Ipv6Addr,
    /// The nonce that the options of the request carry.
    pub nonce: Option<[u8; NONCE_LEN]>,
    /// The group that routers may offer, which the options of the request carry, too.
    pub group: Option<Ipv6Addr>,
}

/// An event of which the sender's user is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The sender is to use this transmission group from now on.
    Group(TransmissionGroup),
    /// A discovery has ended, and [`Sender::tree`] is new.
    Discovered,
    /// Packets of at most this many bytes reach these receivers for now.
    Narrow(Vec<Ipv6Addr>, usize),
    /// ICMPv6 says that these receivers cannot be reached. The sender still sends to them.
    Unreachable(Vec<Ipv6Addr>, Unreachable),
}

/// The reason why the sender waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The sender waits for the first packet of a program.
    Traffic,
    /// The sender waits until the next discovery begins.
    Interval,
    /// The sender waits for responses to its requests.
    Responses,
}

/// Counts of what a sender has sent and received since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// The number of discoveries that have ended.
    pub discoveries: u64,
    /// The number of requests sent.
    pub requests: u64,
    /// The number of responses that were used.
    pub responses: u64,
    /// The number of messages by which routers say that they leave, repeated ones included.
    pub farewells: u64,
    /// The number of responses that came while no discovery was under way.
    pub late: u64,
    /// The number of responses that cannot be right ([`Anomaly`]) or contradict another one.
    pub anomalous: u64,
    /// The number of responses without the proof that they need.
    pub unproved: u64,
    /// The number of responses whose proof is for another request.
    pub replayed: u64,
    /// The number of responses whose proof is wrong.
    pub forged: u64,
    /// The number of ICMPv6 errors that cannot be right, or that are not about a packet of this sender.
    pub stray: u64,
}

enum Phase {
    /// The sender is idle until this time or, without a time, until there is traffic.
    Idle(Option<Instant>),
    Asking(Discovery),
}

struct Discovery {
    /// Still to be asked about.
    queue: VecDeque<Ipv6Addr>,
    asked: BTreeSet<Ipv6Addr>,
    /// The time until which a receiver that joins is asked about as well.
    closes: Instant,
    next_request: Instant,
    spacing: Duration,
    /// The end of this part: the first requests', or all of it once some have been repeated.
    end: Instant,
    has_repeated: bool,
}

/// The machine. [`crate`] says in which order to call it.
pub struct Sender {
    config: Config,
    phase: Phase,
    /// The time when all receivers are asked about again.
    next_discovery: Instant,
    /// Whether a router has said that it leaves, so that everybody is to be asked about soon.
    hurries: bool,
    /// The time when a discovery last began for that.
    hurried: Option<Instant>,
    /// Answers to the last discovery of everybody, and to all later ones.
    answers: Answers,
    /// Have joined since, and are to be asked about.
    joined: BTreeSet<Ipv6Addr>,
    tree: Tree,
    group: TransmissionGroup,
    counters: Counters,
    paths: Paths,
    events: VecDeque<Event>,
}

impl Sender {
    /// Creates a sender without receivers. Receivers join later.
    pub fn new(now: Instant, config: Config) -> Self {
        let answers = Answers::new(config.source, []);
        let first = (!config.waits_for_traffic).then(|| now + config.delay);
        Self {
            config,
            phase: Phase::Idle(first),
            next_discovery: now,
            hurries: false,
            hurried: None,
            tree: Tree::new(&answers),
            answers,
            joined: BTreeSet::new(),
            group: TransmissionGroup::default(),
            counters: Counters::default(),
            paths: Paths::default(),
            events: VecDeque::new(),
        }
    }

    /// Returns the tree that the last completed discovery has found.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes note of what has happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Traffic => {
                if let Phase::Idle(until @ None) = &mut self.phase {
                    *until = Some(now + self.config.delay);
                }
            }
            Input::Join(receiver, port) => self.join(now, receiver, port),
            Input::Leave(receiver) => self.leave(receiver),
            Input::Response { router, header, proof, group } => {
                self.respond(now, router, header, proof, group);
            }
            Input::Lost(packet, cause) => self.lose(now, &packet, cause),
        }
    }

    /// Returns what the caller is to do next.
    pub fn poll(&mut self, now: Instant) -> Step<Request, Event, Reason> {
        let expiry = self.paths.next_expiry();
        if expiry.is_some_and(|expiry| now >= expiry) {
            self.paths.expire(now);
            self.change(|_| {});
        }
        match self.step(now) {
            Step::Wait(deadline, reason) => {
                Step::Wait(deadline.into_iter().chain(self.paths.next_expiry()).min(), reason)
            }
            step => step,
        }
    }

    fn step(&mut self, now: Instant) -> Step<Request, Event, Reason> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Step::Event(event);
            }
            match &mut self.phase {
                Phase::Idle(None) => return Step::Wait(None, Reason::Traffic),
                Phase::Idle(Some(until)) if now < *until => {
                    let is_first = self.counters.discoveries == 0;
                    if is_first || self.joined.is_empty() {
                        return Step::Wait(Some(*until), Reason::Interval);
                    }
                    self.begin_about_joined(now);
                }
                Phase::Idle(Some(_)) => self.begin(now),
                Phase::Asking(_) => {
                    if let Some(step) = self.ask(now) {
                        return step;
                    }
                }
            }
        }
    }

    fn join(&mut self, now: Instant, receiver: Ipv6Addr, port: u16) {
        if !self.group.ports.contains_key(&receiver) {
            self.answers.expect(receiver);
            match &mut self.phase {
                Phase::Asking(discovery) if now < discovery.closes => {
                    discovery.queue.push_back(receiver);
                    discovery.spread(now, &self.config);
                }
                _ => _ = self.joined.insert(receiver),
            }
        }
        self.change(|group| group.add(receiver, port));
    }

    fn leave(&mut self, receiver: Ipv6Addr) {
        self.paths.forget(receiver);
        self.answers.forget(receiver);
        self.joined.remove(&receiver);
        if let Phase::Asking(discovery) = &mut self.phase {
            discovery.queue.retain(|other| *other != receiver);
            discovery.asked.remove(&receiver);
        }
        self.change(|group| group.remove(receiver));
    }

    fn change(&mut self, act: impl FnOnce(&mut TransmissionGroup)) {
        let mut group = self.group.clone();
        act(&mut group);
        self.replace(group);
    }

    fn replace(&mut self, mut group: TransmissionGroup) {
        group.path_mtus = self.paths.mtus();
        replace(&mut self.group, group, &mut self.events);
    }

    /// Asks about everybody.
    fn begin(&mut self, now: Instant) {
        let receivers: VecDeque<_> = self.group.ports.keys().copied().collect();
        self.answers = Answers::new(self.config.source, receivers.iter().copied());
        self.joined.clear();
        if std::mem::take(&mut self.hurries) {
            self.hurried = Some(now);
        }
        self.next_discovery = now + self.config.interval.max(self.config.timeout);
        self.phase = Phase::Asking(Discovery::new(now, receivers, &self.config));
    }

    /// Asks about those who have joined; of the others is known what it was.
    fn begin_about_joined(&mut self, now: Instant) {
        let receivers = std::mem::take(&mut self.joined).into_iter().collect();
        self.phase = Phase::Asking(Discovery::new(now, receivers, &self.config));
    }

    /// One step of a discovery; none when it is over.
    fn ask(&mut self, now: Instant) -> Option<Step<Request, Event, Reason>> {
        let port_of_group = self.config.designated.map(|(_, port)| port);
        let may_join = |receiver| self.group.ports.get(&receiver).copied() == port_of_group;
        let Phase::Asking(discovery) = &mut self.phase else { return None };
        if now >= discovery.end {
            if discovery.has_repeated {
                self.finish(now);
                return None;
            }
            let lacking = lacking(&self.answers, &self.tree, may_join);
            discovery.repeat(now, lacking, &self.config);
        }
        let Some(receiver) = discovery.queue.front().copied() else {
            return Some(Step::Wait(Some(discovery.end), Reason::Responses));
        };
        if now < discovery.next_request {
            return Some(Step::Wait(Some(discovery.next_request.min(discovery.end)), Reason::Responses));
        }
        discovery.queue.pop_front();
        discovery.asked.insert(receiver);
        let behind = (now - discovery.next_request).min(discovery.spacing * CATCH_UP);
        let planned = discovery.spacing.saturating_sub(behind);
        discovery.next_request = now + planned;
        self.counters.requests += 1;
        let nonce = self.config.key.is_some().then(|| self.nonce(self.counters.discoveries, receiver));
        let group = self.config.designated.map(|(group, _)| group).filter(|_| may_join(receiver));
        Some(Step::Transmit(Request { receiver, nonce, group }))
    }

    fn finish(&mut self, now: Instant) {
        self.phase = Phase::Idle(Some(self.next_beginning(now)));
        self.counters.discoveries += 1;
        self.tree = Tree::new(&self.answers);
        let parameters = &self.config.parameters;
        let grouping = match &self.config.algorithm {
            Algorithm::Thesis => grouping::group(&self.tree, parameters),
            Algorithm::Cost(model) => cost::group(&self.tree, parameters, model),
        };
        self.events.push_back(Event::Discovered);
        let grouping = designated::gather(&self.tree, grouping);
        let mut group = TransmissionGroup::new(&self.tree, &grouping, &self.group.ports);
        self.paths.avoided(now).into_iter().for_each(|receiver| group.use_unicast(receiver));
        self.replace(group);
    }

    /// Decides what to do about a packet that did not arrive.
    fn lose(&mut self, now: Instant, packet: &Lost<'_>, cause: Cause) {
        let is_member = |receiver: &Ipv6Addr| self.group.ports.contains_key(receiver);
        let of_designated = self.group.designated(&packet.alone());
        let receivers = packet.receivers().into_iter().chain(of_designated);
        let receivers: Vec<_> = receivers.filter(is_member).collect();
        let ports = receivers.iter().map(|receiver| self.group.ports.get(receiver).copied());
        let can_be = packet.can_be(cause, ports);
        if receivers.is_empty() || !can_be {
            self.counters.stray += 1;
            return;
        }
        let is_by_mead = packet.is_by_mead();
        if matches!(cause, Cause::Unreachable(why) if is_by_mead && is_of_the_packet(why)) {
            self.change(|group| receivers.iter().for_each(|receiver| group.use_unicast(*receiver)));
        }
        let event = self.paths.lose(now, receivers, cause, is_by_mead);
        let is_narrower = matches!(event, Some(Event::Narrow(..)));
        self.events.extend(event);
        if is_narrower {
            self.change(|_| {});
        }
    }

    fn respond(
        &mut self,
        now: Instant,
        router: Ipv6Addr,
        header: &Header,
        proof: Option<Proof>,
        group: Option<Ipv6Addr>,
    ) {
        let (Kind::Response, Some(receiver)) = (header.kind, header.addresses.first().copied()) else {
            self.counters.anomalous += 1;
            return;
        };
        let said = Said { router, receiver, hops: header.hops, group };
        if header.hops == 0 {
            return self.hear_farewell(now, &said, proof);
        }
        let Phase::Asking(_) = self.phase else {
            self.counters.late += 1;
            return;
        };
        if !self.is_believed(&said, proof, 0) {
            return;
        }
        let is_offered = group.is_some() && group == self.config.designated.map(|(group, _)| group);
        let add = if is_offered { Answers::add_offer } else { Answers::add };
        let counted: Result<(), Anomaly> = add(&mut self.answers, router, receiver, header.hops);
        match counted {
            Ok(()) => self.counters.responses += 1,
            Err(_) => self.counters.anomalous += 1,
        }
    }

    /// A router leaves that is on the way to a receiver: looks for routers soon.
    fn hear_farewell(&mut self, now: Instant, said: &Said, proof: Option<Proof>) {
        let Said { router, receiver, .. } = *said;
        let has_answered = self.answers.way(receiver).iter().any(|(_, answered)| *answered == router);
        if !self.tree.is_on_way(router, receiver) && !has_answered {
            self.counters.anomalous += 1;
            return;
        }
        if !self.is_believed(said, proof, REMEMBERED_DISCOVERIES) {
            return;
        }
        self.counters.farewells += 1;
        let is_asking = matches!(self.phase, Phase::Asking(_));
        // The discovery under way finds other ways, where the router has not answered in it.
        self.hurries |= has_answered || !is_asking;
        if !is_asking && self.counters.discoveries > 0 {
            self.phase = Phase::Idle(Some(self.next_beginning(now)));
        }
    }

    /// The time when all receivers are asked about again. Forged farewells bring that about four times in an
    /// interval at most.
    fn next_beginning(&self, now: Instant) -> Instant {
        let least = (self.config.interval / 4).max(self.config.timeout * 2);
        let soon = self.hurried.map_or(now, |hurried| now.max(hurried + least));
        if self.hurries { soon.min(self.next_discovery) } else { self.next_discovery }
    }

    /// Whether a response proves what it says, as far as it has to, for this discovery or one of so many before. Counts it, if not.
    fn is_believed(&mut self, said: &Said, proof: Option<Proof>, before: u64) -> bool {
        let Some(key) = &self.config.key else { return true };
        let Some(proof) = proof else {
            self.counters.unproved += 1;
            return false;
        };
        if !key.verifies(&proof, said) {
            self.counters.forged += 1;
            return false;
        }
        // A holder of the key made it, but for which request?
        let last = self.counters.discoveries;
        let is_recent = (last.saturating_sub(before)..=last)
            .any(|discovery| proof.nonce == self.nonce(discovery, said.receiver));
        self.counters.replayed += u64::from(!is_recent);
        is_recent
    }

    /// The nonce by which a receiver is asked about in this discovery. It need not be kept: it is made again
    /// when a response comes.
    fn nonce(&self, discovery: u64, receiver: Ipv6Addr) -> [u8; NONCE_LEN] {
        let message = [&discovery.to_be_bytes()[..], &receiver.octets()].concat();
        let hash = blake3::keyed_hash(&self.config.seed, &message);
        *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
    }
}

impl Discovery {
    fn new(now: Instant, queue: VecDeque<Ipv6Addr>, config: &Config) -> Self {
        let (spacing, part) = config.spread(queue.len());
        Self {
            queue,
            asked: BTreeSet::new(),
            closes: now + config.timeout / 4,
            next_request: now,
            spacing,
            end: now + part,
            has_repeated: false,
        }
    }

    /// Has the requests that have become more leave closer together.
    fn spread(&mut self, now: Instant, config: &Config) {
        let (spacing, part) = config.spread(self.queue.len());
        self.spacing = spacing;
        self.next_request = self.next_request.min(now + spacing);
        self.end = self.end.max(now + part);
    }

    /// Begins the second part: asks again about those of the first for whom something is lacking.
    fn repeat(&mut self, now: Instant, mut lacking: Vec<Ipv6Addr>, config: &Config) {
        lacking.retain(|receiver| self.asked.contains(receiver));
        let (spacing, part) = config.spread(lacking.len());
        (self.spacing, self.end) = (spacing, self.end + part);
        self.next_request = self.next_request.max(now);
        self.has_repeated = true;
        self.queue.extend(lacking);
    }
}

impl Config {
    /// The time between two of so many requests, and for how long they and their responses are waited for: the half of
    /// the timeout, longer by what the requests take beyond a quarter of it.
    fn spread(&self, requests: usize) -> (Duration, Duration) {
        let requests = u32::try_from(requests.max(1)).unwrap_or(u32::MAX);
        let least = Duration::from_secs(1) / self.requests_per_second.max(1);
        let spacing = (self.timeout / 4 / requests).max(least);
        let all = spacing.saturating_mul(requests).max(self.timeout / 4);
        (spacing, all + self.timeout / 4)
    }
}

/// Puts another group in the place of `current`, and has `events` tell of it; leaves one alone that is the same.
pub(crate) fn replace(
    current: &mut TransmissionGroup,
    mut group: TransmissionGroup,
    events: &mut VecDeque<Event>,
) {
    if group.is_as(current) {
        return;
    }
    // A side that has not looked yet needs only the newest, and it has the other's number.
    let waiting = events.len();
    events.retain(|event| !matches!(event, Event::Group(_)));
    group.number = current.number + u64::from(events.len() == waiting);
    *current = group;
    events.push_back(Event::Group(current.clone()));
}

/// The receivers for which a response seems to be lost: a router has answered before, or is passed over by the
/// count of hops, or there is none at all where others have one. And those that may join a group and are not said to have,
/// where their last router serves others by it: it may not have known where they are until it passed on the request.
fn lacking(answers: &Answers, before: &Tree, may_join: impl Fn(Ipv6Addr) -> bool) -> Vec<Ipv6Addr> {
    let ways: BTreeMap<_, _> =
        answers.receivers().map(|receiver| (receiver, answers.way(receiver))).collect();
    let last = |way: &Vec<(u8, Ipv6Addr)>| way.last().map(|(_, router)| *router);
    let offered = ways.iter().filter(|(receiver, _)| answers.is_offered(**receiver));
    let offering: BTreeSet<_> = offered.filter_map(|(_, way)| last(way)).collect();
    let is_answered = ways.values().any(|way| !way.is_empty());
    let is_lacking = |(receiver, way): &(Ipv6Addr, Vec<(u8, Ipv6Addr)>)| {
        let is_gone = |router: &Ipv6Addr| !way.iter().any(|(_, there)| there == router);
        let has_gap = way.last().is_some_and(|(hops, _)| usize::from(*hops) > way.len());
        let could_join = || last(way).is_some_and(|router| offering.contains(&router)) && may_join(*receiver);
        has_gap
            || could_join() && !answers.is_offered(*receiver)
            || way.is_empty() && is_answered
            || before.way(*receiver).iter().any(is_gone)
    };
    ways.into_iter().filter(is_lacking).map(|(receiver, _)| receiver).collect()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traffic => "something to send",
            Self::Interval => "the next discovery",
            Self::Responses => "responses",
        })
    }
}

#[cfg(test)]
mod tests;
