//! One run: senders, sinks, traffic, and what all have counted.

use std::{
    io,
    net::{Ipv6Addr, SocketAddrV6, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use treecast_measure::db::{DiscoveryCost, EventOfRun, Latency};

use super::{
    delivery::{self, Kind},
    measure::milliseconds,
    plan::Planned,
    sender::{MeadSender, TUN_ADDRESS},
    stage::Stage,
    traffic::{self, Flow, Membership, PORT, Pace, Sent, Sinks, Tally, Where},
};
use treecast_lab::{
    Lab, LabNode,
    events::{Event, Player, Step},
    mead_plan::{self, Group},
};

/// The group of source-specific multicast (RFC 4607, and listing A.7).
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x4321, 0x1234);

/// What multicast packets may cross.
const HOP_LIMIT: u32 = 32;

/// How long multicast routers may take to have heard of all receivers.
const JOINING: Duration = Duration::from_secs(2);

/// What is on its way comes within this time after the last that came.
const DRAIN: Duration = Duration::from_millis(700);

/// Bytes of both headers.
const IP_AND_UDP_LEN: u64 = 48;

/// Senders that look for their routers at the same time. Routers answer 5,000 requests a second of a network, and those of a
/// testbed are all of one; who is not answered in time has a worse group.
const AT_ONCE: usize = 16;

/// In which a sender that has told of its routers has its group by them.
const REPLACING: Duration = Duration::from_millis(100);

/// A run that is about to begin: receivers listen, and senders have found their routers.
pub struct Scene<'a> {
    stage: &'a Stage,
    planned: &'a Planned<'a>,
    pub receivers: Vec<String>,
    sinks: Sinks,
    flows: Vec<Flow>,
    senders: Vec<MeadSender>,
    pace: Pace,
}

/// What a run has shown, the bytes on links aside.
pub struct Played {
    pub sent: Sent,
    /// By receiver.
    pub tallies: Vec<Tally>,
    pub sender_cpu: Duration,
    /// What went wrong, and was mended.
    pub events: Vec<EventOfRun>,
    pub discovery: Option<DiscoveryCost>,
}

impl<'a> Scene<'a> {
    pub fn set(stage: &'a Stage, planned: &'a Planned, run: u32, payload_bytes: usize) -> io::Result<Self> {
        let mut receivers: Vec<String> =
            planned.groups.iter().flat_map(|group| group.receivers.clone()).collect();
        receivers.sort_unstable();
        receivers.dedup();
        let packets = planned.packets;
        let at = receivers.iter().map(|node| place(stage, planned, node)).collect::<io::Result<Vec<_>>>()?;
        let sinks = Sinks::open(stage.lab(), &at, run, planned.groups.len(), packets)?;
        let mut scene = Self {
            stage,
            planned,
            receivers,
            sinks,
            flows: Vec::new(),
            senders: Vec::new(),
            pace: Pace { run, payload_bytes, packets, interval: planned.interval },
        };
        match planned.delivery.kind {
            Kind::Unicast | Kind::Send => {}
            Kind::Multicast => thread::sleep(JOINING),
            Kind::Mead | Kind::Xcast | Kind::XcastPlus => {
                if planned.delivery.designated {
                    // Routers are to know who listens before they are asked.
                    thread::sleep(JOINING);
                }
                scene.start_senders()?;
                scene.wait_for_groups()?;
            }
        }
        scene.flows = scene.flows()?;
        Ok(scene)
    }

    fn start_senders(&mut self) -> io::Result<()> {
        for group in &self.planned.groups {
            let mut command = self.stage.treecast("mead");
            command.args(self.arguments(group)?);
            let sender = MeadSender::start(command, |command| self.stage.spawn(&group.sender, command))?;
            // Else each datagram is two packets.
            if let Some(room) = sender.mtu_bytes.checked_sub(IP_AND_UDP_LEN)
                && room < self.pace.payload_bytes as u64
            {
                let payload = self.pace.payload_bytes;
                return Err(io::Error::other(format!(
                    "a payload of {payload} bytes does not fit beside a whole list of addresses: take {room}, or a smaller max"
                )));
            }
            self.senders.push(sender);
            if let Some(earlier) = self.senders.len().checked_sub(AT_ONCE)
                && self.awaits_discovery()
            {
                self.senders[earlier].wait_discovered()?;
            }
        }
        Ok(())
    }

    fn arguments(&self, group: &Group) -> io::Result<Vec<String>> {
        let Self { stage, planned, .. } = self;
        let mut arguments = planned.delivery.arguments(planned.max, self.pace.payload_bytes);
        if planned.delivery.key {
            arguments.extend(["--key".to_owned(), stage.key().display().to_string()]);
        }
        if planned.delivery.kind == Kind::XcastPlus {
            let own = address(stage, &group.sender)?.to_string();
            arguments.extend(["--group".to_owned(), GROUP.to_string(), "--address".to_owned(), own]);
        } else {
            for receiver in &group.receivers {
                arguments.push(address(stage, receiver)?.to_string());
            }
        }
        arguments.push(PORT.to_string());
        Ok(arguments)
    }

    /// Whether the first discovery is to be over before anything is measured.
    fn awaits_discovery(&self) -> bool {
        self.planned.delivery.kind == Kind::Mead && self.planned.delivery.discovery.is_none()
    }

    /// Waits until all senders know by whom they serve their receivers.
    fn wait_for_groups(&mut self) -> io::Result<()> {
        let awaits_discovery = self.awaits_discovery();
        let Self { stage, planned, senders, .. } = self;
        match planned.delivery.kind {
            Kind::Mead if awaits_discovery => {
                let last = senders.len().saturating_sub(AT_ONCE - 1);
                senders[last..].iter_mut().try_for_each(MeadSender::wait_discovered)?;
            }
            Kind::Xcast => senders.iter_mut().try_for_each(|sender| sender.wait_registered(0))?,
            Kind::XcastPlus => {
                for (sender, group) in senders.iter_mut().zip(&planned.groups) {
                    let routers =
                        mead_plan::last_routers(&stage.topology, group).map_err(io::Error::other)?;
                    sender.wait_registered(routers.len())?;
                }
            }
            Kind::Mead | Kind::Unicast | Kind::Multicast | Kind::Send => return Ok(()),
        }
        thread::sleep(REPLACING);
        Ok(())
    }

    fn flows(&self) -> io::Result<Vec<Flow>> {
        let to = |receivers: &[String]| -> io::Result<Vec<Ipv6Addr>> {
            Ok(match self.planned.delivery.kind {
                Kind::Unicast | Kind::Send => receivers
                    .iter()
                    .map(|receiver| address(self.stage, receiver))
                    .collect::<io::Result<_>>()?,
                Kind::Multicast => vec![GROUP],
                Kind::Mead | Kind::Xcast | Kind::XcastPlus => TUN_ADDRESS.parse().into_iter().collect(),
            })
        };
        let flow = |group: &Group| {
            let socket = self.stage.lab().enter(&group.sender, || open(node(self.stage, &group.sender)?));
            let socket = socket.map_err(io::Error::other)??;
            let to = to(&group.receivers)?.into_iter().map(|address| SocketAddrV6::new(address, PORT, 0, 0));
            Ok(Flow { socket, to: to.collect() })
        };
        self.planned.groups.iter().map(flow).collect()
    }

    /// Sends all, and returns when what was sent has come, or nothing comes any more.
    pub fn play(self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Played> {
        let expected = self.expected(self.pace.packets);
        let origin = Instant::now();
        self.sinks.begin(traffic::now());
        let (sent, tallies, events) = thread::scope(|scope| {
            let listening = scope.spawn(|| self.sinks.run());
            let (lab, events) = (self.stage.lab(), &self.planned.delivery.events);
            let (sent, events) = while_they_happen(lab, events, origin, || {
                let sending = scope.spawn(|| traffic::send(&self.flows, &self.pace, stop));
                let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                self.drain(expected);
                self.sinks.end();
                sent
            });
            let tallies = listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (sent, tallies, events)
        });
        let (tallies, events) = (tallies?, events?);
        let mut played = Played { sent, tallies, sender_cpu: sent.cpu, events, discovery: None };
        for sender in self.senders {
            let done = sender.end()?;
            played.sender_cpu += done.cpu;
            let counted = |name: &str| done.counted[name].as_u64().unwrap_or(0);
            let discovery = played.discovery.get_or_insert_default();
            discovery.groups += done.groups;
            discovery.discoveries += counted("discoveries");
            discovery.bytes += counted("discovery_bytes");
            discovery.refused +=
                ["anomalous", "unproved", "replayed", "forged"].into_iter().map(counted).sum::<u64>();
            let over = done.discovered.map_or(Duration::ZERO, |at| at.saturating_duration_since(origin));
            discovery.first_over_s = discovery.first_over_s.max(over.as_secs_f64());
        }
        Ok(played)
    }

    /// Copies that come when nothing is lost.
    fn expected(&self, packets: u32) -> u64 {
        let receivers: usize = self.planned.groups.iter().map(|group| group.receivers.len()).sum();
        receivers as u64 * u64::from(packets)
    }

    fn drain(&self, expected: u64) {
        let (mut before, mut since) = (self.sinks.has_come(), Instant::now());
        while before < expected && since.elapsed() < DRAIN {
            thread::sleep(Duration::from_millis(20));
            let now = self.sinks.has_come();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }
}

impl Played {
    /// What each receiver has got, as one.
    pub fn together(&self) -> Tally {
        let mut sum = Tally::new(0);
        self.tallies.iter().for_each(|tally| sum.add(tally));
        sum
    }

    /// From 0 to 1, of the datagrams that were sent in one second of the run, those that never came.
    pub fn loss_in(&self, planned: &Planned, second: usize) -> f64 {
        let number = |second: usize| (second as f64 / planned.interval.as_secs_f64()).ceil() as u32;
        let numbers = number(second).min(self.sent.packets)..number(second + 1).min(self.sent.packets);
        let receivers: usize = planned.groups.iter().map(|group| group.receivers.len()).sum();
        let expected = receivers as u64 * numbers.len() as u64;
        let came: u64 = self.tallies.iter().map(|tally| tally.came_of(numbers.clone())).sum();
        if expected == 0 { 0.0 } else { 1.0 - came as f64 / expected as f64 }
    }
}

/// Has events happen until `run` is over, and undoes them. Returns what that returns, and which have happened.
pub fn while_they_happen<T>(
    lab: &Lab,
    events: &[Event],
    origin: Instant,
    run: impl FnOnce() -> T,
) -> (T, io::Result<Vec<EventOfRun>>) {
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let happening = scope.spawn(move || happen(lab, events, origin, is_over));
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        (result, happening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn happen(lab: &Lab, events: &[Event], origin: Instant, is_over: &AtomicBool) -> io::Result<Vec<EventOfRun>> {
    const LOOK: Duration = Duration::from_millis(5);
    let mut player = Player::new(lab, events);
    let mut happened = Vec::new();
    let mut outcome = Ok(());
    while outcome.is_ok() && !is_over.load(Ordering::Relaxed) {
        let told = &mut |step: &Step| {
            let at_s = origin.elapsed().as_secs_f64();
            happened.push(EventOfRun { at_s, what: step.to_string() });
        };
        outcome = player.act(origin.elapsed(), told).map(drop);
        thread::sleep(LOOK);
    }
    let ended = player.end();
    outcome.and(ended).map_err(io::Error::other)?;
    Ok(happened)
}

/// What a tally says of latencies.
pub fn latency(tally: &Tally) -> Latency {
    if tally.packets == 0 {
        return Latency::default();
    }
    Latency {
        mean_ms: milliseconds(tally.latency_sum) / tally.packets as f64,
        min_ms: milliseconds(tally.latency_min),
        median_ms: milliseconds(tally.latency_at(0.5)),
        p99_ms: milliseconds(tally.latency_at(0.99)),
        max_ms: milliseconds(tally.latency_max),
        jitter_ms: milliseconds(tally.jitter_sum) / tally.jitter_count.max(1) as f64,
    }
}

pub fn node<'a>(stage: &'a Stage, name: &str) -> io::Result<&'a LabNode> {
    stage.lab().node(name).map_err(io::Error::other)
}

pub fn address(stage: &Stage, name: &str) -> io::Result<Ipv6Addr> {
    let address = node(stage, name)?.v6();
    address.ok_or_else(|| io::Error::other(format!("{name} is on no network")))
}

/// A sink's node, and what it has to join for multicast. With several senders it would have to join each.
fn place(stage: &Stage, planned: &Planned, receiver: &str) -> io::Result<Where> {
    let at = node(stage, receiver)?;
    let group = match (planned.delivery.kind, &planned.groups[..], at.interfaces.first()) {
        (kind, [group], Some(interface)) if kind.is_source_specific() => {
            let source = Some(address(stage, &group.sender)?);
            Some(Membership { group: GROUP, source, interface: interface.index })
        }
        (Kind::Mead, _, Some(interface)) if planned.delivery.designated => {
            Some(Membership { group: delivery::GROUP, source: None, interface: interface.index })
        }
        (kind, ..) if kind.is_source_specific() => {
            return Err(io::Error::other("a group is for one sender"));
        }
        _ => None,
    };
    Ok(Where { node: receiver.to_owned(), group })
}

/// A sender's socket, in the namespace of the calling thread.
fn open(node: &LabNode) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    let options = socket2::SockRef::from(&socket);
    options.set_multicast_hops_v6(HOP_LIMIT)?;
    options.set_send_buffer_size(1 << 20)?;
    if let Some(interface) = node.interfaces.first() {
        options.set_multicast_if_v6(interface.index)?;
    }
    Ok(socket)
}
