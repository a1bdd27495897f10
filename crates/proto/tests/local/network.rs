//! A network for tests: hosts on a tree of links that lose and delay, multicast on it, and virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    rc::Rc,
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    local::{Mode, Place, Receiver, ReceiverConfig, Seat, Sender, SenderConfig, Tuning},
    object::{
        Address, Channel, CutShort, Destination, Lane, ReceiverEvent, ReceiverInput, ReceiverTransmit,
        SenderEvent, SenderInput, SenderTransmit,
    },
    random::SplitMix64,
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, SessionId},
    message::{
        BeginOfFile, GroupId, Local, LocalFlags, LocalJoin, LocalReport, LocalRequest, LocalState, Member,
        Message, TransferType,
    },
};

pub const SESSION: SessionId = SessionId(7);
pub const BLOCK_LEN: u16 = 1_000;

/// A packet that would wait longer at a link is dropped.
const QUEUE: Duration = Duration::from_millis(100);

/// The link from a node of the tree to the one above. Node 0 is the root, where the sender is.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub above: usize,
    pub delay: Duration,
    pub loss: f64,
    /// Bits a second in each direction. 0: no packet waits for another one.
    pub rate_bps: u64,
}

/// What a member does that harms others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// What it sends again is not what the sender has signed.
    Forges,
    /// It asks its group, its controller and the sender for all of the first object, a hundred times a second.
    Floods,
    /// It says that it has everything, and loses nothing.
    Claims,
    /// It says that it lacks everything, and as a controller, that its group does.
    Lacks,
    /// It sets CONGESTION in all reports but one in 8 s, and claims very many receivers.
    Congested,
    /// It asks the sender and the controller above to be its group's controller, and says there that the group has everything.
    Usurps,
    /// It says to its group that it leads it, and that all have everything.
    Crowns,
    /// It never sends again what it has.
    Hoards,
    /// It asks the sender to admit it as the controller of another new group, a hundred times a second.
    Founds,
    /// It says to the whole session that the session sends at its lowest rate and has ended, and so has the first object.
    Reigns,
}

/// What a run is.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub mode: Mode,
    /// The links of nodes 1 and up.
    pub links: Vec<Link>,
    /// The node of each receiver.
    pub receivers: Vec<usize>,
    /// Sizes of the objects.
    pub sizes: Vec<u64>,
    pub rate_bps: u64,
    pub seats: Vec<Option<Seat>>,
    pub tuning: Tuning,
    /// The time between two objects of a feed. `None`: the session begins with all objects.
    pub feed: Option<Duration>,
    /// When the hashes of all objects are known.
    pub hashed: Duration,
    /// How long the sender waits for more receivers.
    pub settling: Duration,
    /// Receivers that start later, and when.
    pub starts: BTreeMap<usize, Duration>,
    /// Links that change: when, whose, and how.
    pub changes: Vec<(Duration, usize, Link)>,
    /// Each controller that has anybody below it when the data begins dies once, at a random time while the data leaves.
    pub controllers_die: bool,
    pub harm: BTreeMap<usize, Harm>,
    /// Receivers whose clocks jump: when, and how far ahead.
    pub jumps: BTreeMap<usize, (Duration, Duration)>,
    /// When the sender is gone, without a word. `None`: it ends by itself.
    pub sender_dies: Option<Duration>,
    pub limit: Duration,
}

impl Plan {
    pub fn new(seed: u64, links: Vec<Link>, receivers: Vec<usize>) -> Self {
        let seats = vec![None; receivers.len()];
        Self {
            seed,
            mode: Mode::Local,
            links,
            receivers,
            sizes: vec![200_000],
            rate_bps: 1_600_000,
            seats,
            tuning: Tuning::default(),
            feed: None,
            hashed: Duration::from_secs(5),
            settling: Duration::from_secs(4),
            starts: BTreeMap::new(),
            changes: Vec::new(),
            controllers_die: false,
            harm: BTreeMap::new(),
            jumps: BTreeMap::new(),
            sender_dies: None,
            limit: Duration::from_secs(120),
        }
    }
}

#[derive(Debug, Clone)]
enum Body {
    Message(FileId, Message),
    Block(FileId, Range<u64>),
}

/// A packet on its way.
#[derive(Debug)]
struct Packet {
    from: usize,
    to: Address,
    body: Body,
    bytes: u64,
}

#[derive(Debug)]
enum Event {
    /// At a node: a packet for these hosts.
    Hop {
        node: usize,
        hosts: Vec<usize>,
        packet: Rc<Packet>,
    },
    Wake(usize),
    Start(usize),
    Die(usize),
    DoomControllers,
    Change(usize, Link),
    Flood(usize),
    Jump(usize),
    Hashed(FileId),
    /// An object of this size comes by the feed.
    Fed(u64),
    Close,
}

/// Host 0 is the sender, host `n` receiver `n - 1`.
pub struct World {
    plan: Plan,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    number: u64,
    random: SplitMix64,
    pub sender: Sender,
    pub receivers: Vec<Node>,
    pub ended: bool,
    pub counts: Counts,
    pub killed: BTreeSet<usize>,
    /// Groups whose controller has died: which, and when.
    orphans: BTreeMap<GroupId, (Member, Instant)>,
    /// How long each group was without a controller.
    pub takeovers: Vec<Duration>,
    /// Who was told by whom that it is admitted, where it usurps a group: from, and to.
    pub admitted: BTreeSet<(usize, usize)>,
    /// How far each object has been sent.
    frontiers: BTreeMap<u32, u64>,
    /// The most blocks of one request by somebody honest that had not been sent.
    pub most_ahead: u64,
    /// When each link is free again, in each direction.
    busy: BTreeMap<(usize, bool), Instant>,
    wakes: Vec<Option<Instant>>,
    verbose: bool,
}

/// What was sent, of each kind.
#[derive(Debug, Default)]
pub struct Counts {
    pub requests: u64,
    pub repairs: u64,
    /// Repairs by members that were no controllers then.
    pub regular_repairs: u64,
    pub splits: u64,
    pub merges: u64,
    pub events: u64,
}

pub struct Node {
    pub machine: Receiver,
    groups: BTreeSet<GroupId>,
    stored: BTreeMap<u32, BTreeSet<u64>>,
    pub received: BTreeMap<u32, Instant>,
    pub failed: Vec<String>,
    /// When each object was first heard of.
    pub begun: BTreeMap<u32, Instant>,
    pub released: BTreeSet<u32>,
    pub closed: bool,
    pub closed_early: Option<CutShort>,
    /// Its place when the sender ended.
    pub place: Option<Place>,
    pub is_dead: bool,
    is_on: bool,
    current: Option<(FileId, Range<u64>)>,
}

pub fn member(host: usize) -> Member {
    Member((std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1), 5_000).into())
}

pub fn host_of(member: Member) -> usize {
    match member.0.ip() {
        std::net::IpAddr::V6(address) => usize::from(address.segments()[7]) - 1,
        std::net::IpAddr::V4(_) => unreachable!("members have IPv6 addresses here"),
    }
}

fn hash(file: FileId) -> [u8; 32] {
    let mut hash = [1; 32];
    hash[..4].copy_from_slice(&file.index().to_be_bytes());
    hash
}

fn begin(size: u64) -> BeginOfFile {
    BeginOfFile::new(TransferType::DiskToDisk, size, "a").unwrap()
}

fn sender_of(plan: &Plan) -> Sender {
    let at_once = if plan.feed.is_some() { 0 } else { plan.sizes.len() };
    let begins = plan.sizes.iter().take(at_once).map(|size| begin(*size));
    let config = SenderConfig {
        session: SESSION,
        block_len: BLOCK_LEN,
        me: member(0),
        mode: plan.mode,
        max_run_len: 4 * u32::from(BLOCK_LEN),
        rate_bps: plan.rate_bps,
        shares_link: false,
        minimum_rate_bps: plan.rate_bps / 8,
        window_bytes: 400_000,
        settling: plan.settling,
        wait_for: None,
        named: plan.seats.iter().all(Option::is_some).then_some(plan.seats.len() as u32),
        copies: None,
        tuning: plan.tuning.clone(),
    };
    Sender::new(config, begins.collect())
}

impl Node {
    fn new(plan: &Plan, host: usize) -> Self {
        Self {
            machine: Receiver::new(ReceiverConfig {
                session: SESSION,
                block_len: BLOCK_LEN,
                me: member(host),
                mode: plan.mode,
                seat: plan.seats[host - 1],
                seed: plan.seed * 1_000 + host as u64,
                tuning: plan.tuning.clone(),
                patience: Some(Duration::from_secs(30)),
                stall_limit: Some(Duration::from_secs(15)),
                hash_attempts: 3,
                copies: None,
            }),
            groups: BTreeSet::new(),
            stored: BTreeMap::new(),
            received: BTreeMap::new(),
            failed: Vec::new(),
            begun: BTreeMap::new(),
            released: BTreeSet::new(),
            closed: false,
            closed_early: None,
            place: None,
            is_dead: false,
            is_on: !plan.starts.contains_key(&(host - 1)),
            current: None,
        }
    }
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let receivers: Vec<Node> = (1..=plan.receivers.len()).map(|host| Node::new(&plan, host)).collect();
        let hosts = receivers.len() + 1;
        let mut world = Self {
            now: Instant::ZERO,
            events: BTreeMap::new(),
            number: 0,
            random: SplitMix64(plan.seed),
            sender: sender_of(&plan),
            receivers,
            ended: false,
            counts: Counts::default(),
            killed: BTreeSet::new(),
            orphans: BTreeMap::new(),
            takeovers: Vec::new(),
            admitted: BTreeSet::new(),
            frontiers: BTreeMap::new(),
            most_ahead: 0,
            busy: BTreeMap::new(),
            wakes: vec![None; hosts],
            verbose: std::env::var_os("TREECAST_TRACE").is_some(),
            plan,
        };
        (0..hosts).for_each(|host| world.wake(host, Instant::ZERO));
        world.schedule();
        world
    }

    /// What happens by the plan.
    fn schedule(&mut self) {
        let plan = self.plan.clone();
        for index in 0..plan.sizes.len() as u32 {
            if let Some(apart) = plan.feed {
                self.at(
                    Instant::ZERO + plan.settling + apart * index,
                    Event::Fed(plan.sizes[index as usize]),
                );
                continue;
            }
            self.at(Instant::ZERO + plan.hashed, Event::Hashed(FileId::new(SESSION, index)));
        }
        if let Some(apart) = plan.feed {
            let end = apart * plan.sizes.len() as u32;
            self.at(Instant::ZERO + plan.settling + end, Event::Close);
        }
        for (receiver, (time, _)) in &plan.jumps {
            // Its deadlines may be over at once.
            self.at(Instant::ZERO + *time, Event::Jump(receiver + 1));
        }
        for (receiver, time) in plan.starts {
            self.at(Instant::ZERO + time, Event::Start(receiver + 1));
        }
        for (time, node, link) in plan.changes {
            self.at(Instant::ZERO + time, Event::Change(node, link));
        }
        let is_busy = |harm: &Harm| {
            matches!(harm, Harm::Floods | Harm::Reigns | Harm::Usurps | Harm::Crowns | Harm::Founds)
        };
        for (receiver, _) in plan.harm.into_iter().filter(|(_, harm)| is_busy(harm)) {
            self.at(Instant::ZERO + Duration::from_secs(1), Event::Flood(receiver + 1));
        }
    }

    fn at(&mut self, time: Instant, event: Event) {
        self.number += 1;
        self.events.insert((time.max(self.now), self.number), event);
    }

    fn wake(&mut self, host: usize, time: Instant) {
        let time = time.max(self.now);
        if self.wakes[host].is_none_or(|before| time < before) {
            self.wakes[host] = Some(time);
            self.at(time, Event::Wake(host));
        }
    }

    /// Runs to the end. Returns what is wrong.
    pub fn run(&mut self) -> Vec<String> {
        let limit = Instant::ZERO + self.plan.limit;
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.counts.events += 1;
            if time > limit || self.counts.events > 20_000_000 {
                break;
            }
            self.now = time;
            self.happen(event);
            if self.ended && self.receivers.iter().all(|node| node.closed || node.is_dead) {
                break;
            }
        }
        self.judge()
    }

    fn judge(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let counts = |number: usize, node: &Node| !node.is_dead && !self.plan.harm.contains_key(&number);
        for (number, node) in self.receivers.iter().enumerate().filter(|(number, node)| counts(*number, node))
        {
            if node.received.len() != self.plan.sizes.len() {
                let place = node.machine.place().map(|place| (place.group, place.controller));
                let (got, wanted) = (node.received.len(), self.plan.sizes.len());
                faults.push(format!(
                    "receiver {number} has {got} of {wanted} objects, {} bytes, at {place:?}, failed {:?}",
                    node.machine.received_bytes(),
                    node.failed
                ));
            }
        }
        if !self.ended {
            faults.push(format!("the sender has not ended at {}", self.now));
        }
        faults
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(host) => {
                if self.wakes[host] != Some(self.now) {
                    return;
                }
                self.wakes[host] = None;
                self.poll(host);
            }
            Event::Hop { node, hosts, packet } => self.hop(node, hosts, &packet),
            Event::Hashed(file) => {
                self.sender.handle(self.now, SenderInput::Hashed { file, hash: hash(file) });
                self.poll(0);
            }
            Event::Fed(size) => {
                let file = self.sender.send(begin(size)).expect("there is room");
                self.sender.handle(self.now, SenderInput::Hashed { file, hash: hash(file) });
                self.poll(0);
            }
            Event::Close => {
                self.sender.handle(self.now, SenderInput::Close);
                self.poll(0);
            }
            Event::Start(host) => {
                self.receivers[host - 1].is_on = true;
                self.poll(host);
            }
            Event::Die(host) => self.die(host),
            Event::DoomControllers => self.doom_controllers(),
            Event::Change(node, link) => self.plan.links[node - 1] = link,
            Event::Flood(host) => self.flood(host),
            Event::Jump(host) => self.poll(host),
        }
    }

    /// Returns the time by which the clock of a receiver's host is ahead.
    fn ahead(&self, host: usize) -> Duration {
        let jump = self.plan.jumps.get(&(host - 1)).filter(|(time, _)| Instant::ZERO + *time <= self.now);
        jump.map_or(Duration::ZERO, |(_, by)| *by)
    }

    fn die(&mut self, host: usize) {
        let node = &mut self.receivers[host - 1];
        node.is_dead = true;
        self.killed.insert(host - 1);
        if let Some(place) = node.machine.place().filter(|_| node.machine.is_controller()) {
            self.orphans.insert(place.group, (member(host), self.now));
        }
    }

    fn doom_controllers(&mut self) {
        let serves = |node: &Node| node.machine.is_controller() && node.machine.clients() > 0;
        let doomed = self.receivers.iter().enumerate().filter(|(_, node)| serves(node));
        let doomed: Vec<usize> = doomed.map(|(number, _)| number + 1).collect();
        let seconds = self.plan.sizes.iter().sum::<u64>() as f64 * 8.0 / self.plan.rate_bps as f64;
        for host in doomed {
            let time = self.now + Duration::from_secs_f64(self.random.unit() * seconds);
            self.at(time, Event::Die(host));
        }
    }

    /// Asks everybody for everything.
    fn flood(&mut self, host: usize) {
        let place = self.receivers[host - 1].machine.place().cloned();
        if self.plan.harm.get(&(host - 1)) == Some(&Harm::Reigns) {
            self.reign(host);
        } else if self.plan.harm.get(&(host - 1)) == Some(&Harm::Usurps) {
            place.into_iter().for_each(|place| self.usurp(host, &place));
        } else if self.plan.harm.get(&(host - 1)) == Some(&Harm::Founds) {
            self.found(host);
        } else if self.plan.harm.get(&(host - 1)) == Some(&Harm::Crowns) {
            place.into_iter().for_each(|place| self.crown(host, &place));
        } else if let Some(place) = place {
            let size = self.plan.sizes[0];
            let to = [
                (Address::Group(place.group), false),
                (Address::Member(place.controller), true),
                (Address::Member(place.parent), true),
                (Address::Member(member(0)), true),
            ];
            for (to, is_from_below) in to {
                let mut request =
                    LocalRequest::new(place.group, 500, std::iter::once(0..size).collect()).unwrap();
                request.is_from_below = is_from_below;
                let message = Message::Local(Local::Request(request));
                self.send(host, to, Body::Message(FileId::new(SESSION, 0), message));
            }
        }
        if !self.ended && !self.receivers[host - 1].closed {
            self.at(self.now + Duration::from_millis(10), Event::Flood(host));
        }
    }

    /// Claims a group with a later epoch than its controller's.
    fn usurp(&mut self, host: usize, place: &Place) {
        let mut report = LocalReport::new(place.group, true);
        (report.done, report.receivers) = (self.plan.sizes.len() as u32, 5);
        let join = LocalJoin { group: place.group, epoch: 500, stamp_us: 1, loss: 0 };
        for to in [member(0), place.parent] {
            for local in [Local::Join(join), Local::Report(report.clone())] {
                let body = Body::Message(FileId::new(SESSION, 0), Message::Local(local));
                self.send(host, Address::Member(to), body);
            }
        }
    }

    /// Founds a group that nobody is in.
    fn found(&mut self, host: usize) {
        let group = GroupId(1_000_000 + (self.now.as_nanos() / 10_000_000) as u32);
        let join = LocalJoin { group, epoch: 1, stamp_us: 1, loss: 0 };
        let body = Body::Message(FileId::new(SESSION, 0), Message::Local(Local::Join(join)));
        self.send(host, Address::Member(member(0)), body);
    }

    /// Tells its group that it leads it, with a later epoch than its controller's, and that all have everything.
    fn crown(&mut self, host: usize, place: &Place) {
        let mut state = LocalState::new(place.group, member(host));
        (state.parent, state.epoch, state.done) = (place.parent, 500, self.plan.sizes.len() as u32);
        let body = Body::Message(FileId::new(SESSION, 0), Message::Local(Local::State(Box::new(state))));
        self.send(host, Address::Group(place.group), body);
    }

    /// Speaks to the whole session, as the sender alone may.
    fn reign(&mut self, host: usize) {
        let mut state = LocalState::new(GroupId(1), member(host));
        (state.flags, state.frontier) = (LocalFlags::LOWEST, (u32::MAX, u64::MAX));
        let file = FileId::new(SESSION, 0);
        self.send(host, Address::Session, Body::Message(file, Message::Local(Local::State(Box::new(state)))));
        self.send(host, Address::Session, Body::Message(file, Message::EndOfFile));
    }

    /// What somebody who lies says in place of the truth.
    fn lie(&self, harm: Harm, message: &mut Message) {
        let done = if harm == Harm::Claims { self.plan.sizes.len() as u32 } else { 0 };
        match (harm, message) {
            (Harm::Claims | Harm::Lacks, Message::Local(Local::Report(report))) => {
                let mut lie = LocalReport::new(report.group, report.is_controller);
                (lie.receivers, lie.round_trip_us, lie.done) = (report.receivers, report.round_trip_us, done);
                *report = lie;
            }
            (Harm::Claims, Message::Local(Local::State(state))) => (state.loss, state.done) = (0, done),
            // Who loses much is not named as the controller's successor.
            (Harm::Usurps, Message::Local(Local::Report(report))) => report.loss = u16::MAX / 2,
            (Harm::Congested, Message::Local(Local::Report(report))) => {
                report.is_congested = !(self.now.as_nanos() / 500_000_000).is_multiple_of(16);
                report.receivers = if report.is_controller { u32::MAX } else { 1 };
            }
            _ => {}
        }
    }

    /// Prints what happens, where the environment asks for it.
    fn trace(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{} {}", self.now, text());
        }
    }

    fn arrive(&mut self, at: usize, packet: &Packet) {
        let Packet { from, to, body, .. } = packet;
        let (from, to) = (*from, *to);
        if at == 0 {
            if let Body::Message(file, message) = body.clone() {
                self.sender.handle(self.now, SenderInput::Local { from: member(from), file, message });
                self.poll(0);
            }
            return;
        }
        let now = self.now + self.ahead(at);
        let is_forged = self.plan.harm.get(&from.wrapping_sub(1)) == Some(&Harm::Forges);
        let node = &mut self.receivers[at - 1];
        let is_heard = match to {
            Address::Group(group) => node.groups.contains(&group),
            _ => true,
        };
        if node.is_dead || !node.is_on || !is_heard {
            return;
        }
        let channel = if to == Address::Session { Channel::Group } else { Channel::Member(member(from)) };
        let (Body::Message(file, _) | Body::Block(file, _)) = body;
        if matches!(body, Body::Block(..) | Body::Message(_, Message::BeginOfFile(_))) {
            node.begun.entry(file.index()).or_insert(self.now);
        }
        let input = match body.clone() {
            Body::Message(file, message) => ReceiverInput::Message { from: channel, file, message },
            Body::Block(file, range) if is_forged => {
                ReceiverInput::Refused { from: Some(member(from)), file, range }
            }
            Body::Block(file, range) => {
                node.current = Some((file, range.clone()));
                ReceiverInput::Blocks { from: channel, file, range }
            }
        };
        node.machine.handle(now, input);
        self.poll(at);
        self.receivers[at - 1].current = None;
    }

    fn poll(&mut self, host: usize) {
        if host == 0 {
            return self.poll_sender();
        }
        for _ in 0..100_000 {
            if self.receivers[host - 1].is_dead || !self.receivers[host - 1].is_on {
                return;
            }
            let ahead = self.ahead(host);
            match self.receivers[host - 1].machine.poll(self.now + ahead) {
                Step::Transmit(transmit) => self.carry_out(host, transmit),
                Step::Event(event) => self.note(host, event),
                Step::Wait(Some(deadline), _) => {
                    let left = deadline.saturating_duration_since(self.now + ahead);
                    return self.wake(host, self.now + left);
                }
                Step::Wait(None, _) => return,
            }
        }
        panic!("receiver {} goes round in circles at {}", host - 1, self.now);
    }

    fn note(&mut self, host: usize, event: ReceiverEvent) {
        let node = &mut self.receivers[host - 1];
        match event {
            ReceiverEvent::Received { file, .. } => {
                node.received.insert(file.index(), self.now);
            }
            ReceiverEvent::Failed { reason, .. } => node.failed.push(reason),
            ReceiverEvent::Closed { reason } => (node.closed, node.closed_early) = (true, reason),
            _ => {}
        }
    }

    fn carry_out(&mut self, host: usize, transmit: ReceiverTransmit) {
        let now = self.now + self.ahead(host);
        let node = &mut self.receivers[host - 1];
        match transmit {
            ReceiverTransmit::Tell { to, file, mut message } => {
                self.count(host, to, &message);
                match self.plan.harm.get(&(host - 1)) {
                    Some(harm) => self.lie(*harm, &mut message),
                    None => self.note_ahead(file, &message),
                }
                // What is sent can be read.
                let packet = message.to_packet(file);
                let header = Header::parse(&packet).unwrap();
                let read = Message::parse(&header, &packet[HEADER_LEN..]);
                assert_eq!(read.as_ref(), Ok(&message));
                self.send(host, to, Body::Message(file, message));
            }
            ReceiverTransmit::Send { .. } if self.plan.harm.get(&(host - 1)) == Some(&Harm::Hoards) => {}
            ReceiverTransmit::Send { to, file, range } => {
                let blocks = node.stored.entry(file.index()).or_default();
                let is_there = |start: &u64| blocks.contains(start);
                assert!(range.clone().step_by(BLOCK_LEN.into()).all(|start| is_there(&start)), "{range:?}");
                let is_regular = !node.machine.is_controller();
                self.counts.regular_repairs +=
                    u64::from(is_regular) * (range.end - range.start).div_ceil(BLOCK_LEN.into());
                self.send_blocks(host, to, file, range);
            }
            ReceiverTransmit::JoinGroup { group } => {
                node.groups.insert(group);
            }
            ReceiverTransmit::LeaveGroup { group } => {
                node.groups.remove(&group);
            }
            ReceiverTransmit::Store { file, range } | ReceiverTransmit::Overwrite { file, range } => {
                let (of, came) = node.current.clone().expect("a packet is at hand");
                assert!(of == file && came.start <= range.start && range.end <= came.end);
                let blocks = node.stored.entry(file.index()).or_default();
                range.step_by(BLOCK_LEN.into()).for_each(|start| assert!(blocks.insert(start)));
            }
            ReceiverTransmit::Announce { file, .. } => {
                node.machine.handle(now, ReceiverInput::Have { file, ranges: vec![] });
            }
            ReceiverTransmit::Hash { file } => {
                node.machine.handle(now, ReceiverInput::Hashed { file, hash: hash(file) });
            }
            ReceiverTransmit::Commit { file } => node.machine.handle(now, ReceiverInput::Committed { file }),
            ReceiverTransmit::Discard { file } => {
                node.stored.remove(&file.index());
            }
            ReceiverTransmit::Release { file } => assert!(node.released.insert(file.index())),
            other => panic!("{other:?}"),
        }
    }

    /// Takes note of how much is asked for that was not sent yet.
    fn note_ahead(&mut self, file: FileId, message: &Message) {
        let Message::Local(Local::Request(request)) = message else { return };
        let frontier = self.frontiers.get(&file.index()).copied().unwrap_or(0);
        let ahead = request.ranges().iter().map(|range| range.end.saturating_sub(range.start.max(frontier)));
        self.most_ahead = self.most_ahead.max(ahead.sum::<u64>().div_ceil(BLOCK_LEN.into()));
    }

    fn count(&mut self, host: usize, to: Address, message: &Message) {
        let Message::Local(local) = message else { return };
        match local {
            Local::Request(_) => self.counts.requests += 1,
            Local::Split(_) => self.counts.splits += u64::from(matches!(to, Address::Group(_))),
            Local::State(state) => {
                self.counts.merges += u64::from(state.flags.has(LocalFlags::MERGES));
                let orphan = self.orphans.get(&state.group).filter(|(dead, _)| *dead != member(host));
                if let Some((_, since)) = orphan
                    && state.controller == member(host)
                {
                    self.takeovers.push(self.now - *since);
                    self.orphans.remove(&state.group);
                }
            }
            _ => {}
        }
    }

    fn poll_sender(&mut self) {
        if self.plan.sender_dies.is_some_and(|time| self.now >= Instant::ZERO + time) {
            self.ended = true;
            return;
        }
        for _ in 0..100_000 {
            match self.sender.poll(self.now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { to, file, message }) => {
                    self.send(0, address(to), Body::Message(file, message));
                }
                Step::Transmit(SenderTransmit::Blocks { to, file, range, .. }) => {
                    let frontier = self.frontiers.entry(file.index()).or_default();
                    *frontier = range.end.max(*frontier);
                    self.send_blocks(0, address(to), file, range);
                }
                Step::Transmit(other) => panic!("{other:?}"),
                Step::Event(SenderEvent::Closed) => {
                    self.ended = true;
                    self.receivers.iter_mut().for_each(|node| node.place = node.machine.place().cloned());
                }
                Step::Event(SenderEvent::Started) if self.plan.controllers_die => {
                    self.at(self.now + self.plan.settling, Event::DoomControllers);
                }
                Step::Event(_) => {}
                Step::Wait(Some(deadline), _) => {
                    assert!(deadline > self.now, "the sender waits for the past at {}", self.now);
                    return self.wake(0, deadline);
                }
                Step::Wait(None, _) => return,
            }
        }
        panic!("the sender goes round in circles at {}", self.now);
    }

    fn send_blocks(&mut self, from: usize, to: Address, file: FileId, range: Range<u64>) {
        let size = self.plan.sizes[file.index() as usize];
        for start in range.clone().step_by(BLOCK_LEN.into()) {
            let end = size.min(start + u64::from(BLOCK_LEN));
            if from != 0 || to != Address::Session {
                self.counts.repairs += 1;
            }
            self.send(from, to, Body::Block(file, start..end));
        }
    }

    fn node_of(&self, host: usize) -> usize {
        if host == 0 { 0 } else { self.plan.receivers[host - 1] }
    }

    /// The nodes from one to the root, and the root.
    fn way_up(&self, mut node: usize) -> Vec<usize> {
        let mut way = vec![node];
        while node != 0 {
            node = self.plan.links[node - 1].above;
            way.push(node);
        }
        way
    }

    fn send(&mut self, from: usize, to: Address, body: Body) {
        self.trace(|| match &body {
            Body::Message(file, message) => format!("{from} -> {to:?}: {} {message}", file.index()),
            Body::Block(file, range) => format!("{from} -> {to:?}: {} block {range:?}", file.index()),
        });
        if let (Address::Member(to), Body::Message(_, Message::Local(Local::State(state)))) = (to, &body)
            && self.plan.harm.get(&host_of(to).wrapping_sub(1)) == Some(&Harm::Usurps)
            && state.flags.has(LocalFlags::ADMITTED)
        {
            self.admitted.insert((from, host_of(to)));
        }
        let hosts: Vec<usize> = match to {
            Address::Member(member) => vec![host_of(member)],
            Address::Session => (1..=self.receivers.len()).collect(),
            Address::Group(group) => {
                let is_in = |host: &usize| self.receivers[*host - 1].groups.contains(&group);
                (1..=self.receivers.len()).filter(is_in).collect()
            }
        };
        let len = match &body {
            Body::Message(file, message) => message.to_packet(*file).len() as u64,
            Body::Block(_, range) => HEADER_LEN as u64 + range.end - range.start,
        };
        let hosts = hosts.into_iter().filter(|host| *host != from).collect();
        let packet = Packet { from, to, body, bytes: len + 48 };
        self.hop(self.node_of(from), hosts, &Rc::new(packet));
    }

    /// A packet goes over each link once, and is lost there for all behind it.
    fn hop(&mut self, node: usize, hosts: Vec<usize>, packet: &Rc<Packet>) {
        let mut ways: BTreeMap<(usize, bool), Vec<usize>> = BTreeMap::new();
        for host in hosts {
            let way = self.way_up(self.node_of(host));
            match way.iter().position(|above| *above == node) {
                Some(0) => self.arrive(host, packet),
                Some(place) => ways.entry((way[place - 1], false)).or_default().push(host),
                None => ways.entry((node, true)).or_default().push(host),
            }
        }
        for (edge, hosts) in ways {
            if let Some(time) = self.cross(edge, self.now, packet.bytes) {
                let node = if edge.1 { self.plan.links[edge.0 - 1].above } else { edge.0 };
                self.at(time, Event::Hop { node, hosts, packet: Rc::clone(packet) });
            }
        }
    }

    /// When a packet is at the other end of a link that it reaches at this time. `None`: it is lost.
    fn cross(&mut self, edge: (usize, bool), time: Instant, bytes: u64) -> Option<Instant> {
        let link = self.plan.links[edge.0 - 1];
        if self.random.unit() < link.loss {
            return None;
        }
        if link.rate_bps == 0 {
            return Some(time + link.delay);
        }
        let free = self.busy.get(&edge).copied().unwrap_or(time).max(time);
        if free - time > QUEUE {
            return None;
        }
        let sent = free + Duration::from_secs_f64(bytes as f64 * 8.0 / link.rate_bps as f64);
        self.busy.insert(edge, sent);
        Some(sent + link.delay)
    }

    /// When the last surviving receiver had everything.
    pub fn time(&self) -> Option<Duration> {
        let counts = |(number, node): &(usize, &Node)| !node.is_dead && !self.plan.harm.contains_key(number);
        let honest = self.receivers.iter().enumerate().filter(counts);
        let times = honest.flat_map(|(_, node)| node.received.values());
        times.max().map(|time| *time - Instant::ZERO)
    }
}

fn address(to: Destination) -> Address {
    match to {
        Destination::Group => Address::Session,
        Destination::Local(address) => address,
        other => panic!("{other:?}"),
    }
}
