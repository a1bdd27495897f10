//! Makes one run of a stream: senders, receivers, the traffic, and their counts.

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::mead_plan;

use super::{
    ends::{Elsewhere, Ends, Here, Where},
    plan::{HEADERS_LEN, PlannedStream},
    sender::{MeadSender, TUN_ADDRESS},
    traffic::{Expected, FlowPlan, Membership, PORT, Pace, Sent, Tally},
};
use crate::{
    document::delivery::Fanout,
    engine::runner::Stage,
    plan::{Group, Planned},
    programs, receivers,
    site::{Happening, Need, Site, while_they_happen},
};

/// The group of source-specific multicast (RFC 4607, and listing A.7 of the thesis).
const SOURCE_GROUP: Ipv6Addr = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x4321, 0x1234);

/// The group that receivers join for designated routers.
const DESIGNATED_GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x4242);

/// The time that multicast routers may take to have heard of all receivers.
const JOINING: Duration = Duration::from_secs(2);

/// The time after the last packet that came within which all that is on its way comes.
const DRAIN: Duration = Duration::from_millis(700);

/// Senders that look for their routers at the same time. Routers answer 5,000 requests a second of a network, and
/// those of a testbed are all of one. A sender that is not answered in time has a worse group.
const AT_ONCE: usize = 16;

/// The time in which a sender that has told of its routers has its group by them.
const REPLACING: Duration = Duration::from_millis(100);

/// A run that is about to begin: the receivers listen, and the senders have found their routers.
pub struct Scene<'a> {
    site: &'a dyn Site,
    planned: &'a Planned<'a>,
    stream: &'a PlannedStream,
    treecast: &'a Path,
    /// The file with the domain's key, where senders and routers prove what they say.
    key: Option<&'a Path>,
    pub receivers: Vec<String>,
    ends: Box<dyn Ends + 'a>,
    senders: Vec<MeadSender>,
    pace: Pace,
}

/// The result of a run, except for the bytes on links.
pub struct Played {
    pub sent: Sent,
    /// The counts of each receiver.
    pub tallies: Vec<Tally>,
    /// The processor time of the senders. `None` in a simulated run.
    pub sender_cpu: Option<Duration>,
    pub happened: Vec<Happening>,
    pub discovery: Option<Discovery>,
}

/// The cost of discovery for all senders together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discovery {
    pub groups: u64,
    pub discoveries: u64,
    pub bytes: u64,
    /// The number of responses that were not believed.
    pub refused: u64,
    /// The time at which the last sender's first discovery was over, counted from the beginning of the traffic.
    pub first_over: Duration,
}

impl<'a> Scene<'a> {
    /// Prepares a run. `run` is its number, by which late packets of an earlier run are told apart.
    pub fn set(
        stage: &'a Stage<'a>,
        stream: &'a PlannedStream,
        treecast: &'a Path,
        run: u32,
    ) -> io::Result<Self> {
        let Stage { site, planned, key } = stage;
        let (site, planned, key) = (*site, *planned, key.as_deref());
        let receivers = receivers(&planned.groups);
        let packets = stream.packets;
        let at = receivers.iter().map(|node| place(site, planned, node)).collect::<io::Result<Vec<_>>>()?;
        let flows = planned.groups.len();
        let expected = Expected { run, flows, packets };
        let ends: Box<dyn Ends + 'a> = match site.can(Need::Sockets) {
            true => Box::new(Here::open(site, &at, expected)?),
            false => Box::new(Elsewhere::open(site, treecast, &at, expected)?),
        };
        let (payload_bytes, interval) = (stream.payload_bytes, stream.interval);
        let pace = Pace { run, flows: flows as u32, payload_bytes, packets, interval };
        let senders = Vec::new();
        let mut scene = Self { site, planned, stream, treecast, key, receivers, ends, senders, pace };
        match planned.delivery.fanout {
            Fanout::Unicast | Fanout::Auto => {}
            Fanout::Multicast => thread::sleep(JOINING),
            Fanout::Mead | Fanout::Xcast | Fanout::XcastPlus => {
                if planned.delivery.options.designated {
                    // Routers are to know who listens before they are asked.
                    thread::sleep(JOINING);
                }
                scene.start_senders()?;
                scene.wait_for_groups()?;
            }
        }
        let flows = scene.flows()?;
        scene.ends.add_flows(site, flows, pace)?;
        Ok(scene)
    }

    fn start_senders(&mut self) -> io::Result<()> {
        for group in &self.planned.groups {
            let mut command = programs::treecast(self.treecast, "mead");
            command.args(self.arguments(group)?);
            let sender = MeadSender::new(self.site.start(&group.sender, command)?)?;
            // Else each datagram is two packets.
            if let Some(room) = u64::from(sender.mtu_bytes).checked_sub(HEADERS_LEN)
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
        let Self { planned, stream, .. } = self;
        let delivery = planned.delivery;
        let mut arguments = delivery.options.words(delivery.fanout, stream.max, stream.payload_bytes);
        if delivery.options.designated {
            arguments.extend(["--designated".to_owned(), DESIGNATED_GROUP.to_string()]);
        }
        if let Some(key) = self.key {
            arguments.extend(["--key".to_owned(), key.display().to_string()]);
        }
        arguments.extend(delivery.arguments.iter().cloned());
        if delivery.fanout == Fanout::XcastPlus {
            let own = address(self.site, &group.sender)?.to_string();
            arguments.extend(["--group".to_owned(), SOURCE_GROUP.to_string(), "--address".to_owned(), own]);
        } else {
            for receiver in &group.receivers {
                arguments.push(address(self.site, receiver)?.to_string());
            }
        }
        arguments.push(PORT.to_string());
        Ok(arguments)
    }

    /// Whether the first discovery is to be over before anything is measured.
    fn awaits_discovery(&self) -> bool {
        let delivery = self.planned.delivery;
        delivery.fanout == Fanout::Mead && delivery.options.discovery.is_none()
    }

    /// Waits until all senders know the routers by which they serve their receivers.
    fn wait_for_groups(&mut self) -> io::Result<()> {
        let awaits_discovery = self.awaits_discovery();
        let Self { site, planned, senders, .. } = self;
        match planned.delivery.fanout {
            Fanout::Mead if awaits_discovery => {
                let last = senders.len().saturating_sub(AT_ONCE - 1);
                senders[last..].iter_mut().try_for_each(MeadSender::wait_discovered)?;
            }
            Fanout::Xcast => senders.iter_mut().try_for_each(|sender| sender.wait_registered(0))?,
            Fanout::XcastPlus => {
                for (sender, group) in senders.iter_mut().zip(&planned.groups) {
                    let routers =
                        mead_plan::last_routers(site.topology(), group).map_err(io::Error::other)?;
                    sender.wait_registered(routers.len())?;
                }
            }
            Fanout::Mead | Fanout::Unicast | Fanout::Multicast | Fanout::Auto => return Ok(()),
        }
        thread::sleep(REPLACING);
        Ok(())
    }

    /// Returns each flow with the node at which it is sent.
    fn flows(&self) -> io::Result<Vec<(String, FlowPlan)>> {
        let to = |receivers: &[String]| -> io::Result<Vec<Ipv6Addr>> {
            Ok(match self.planned.delivery.fanout {
                Fanout::Unicast | Fanout::Auto => receivers
                    .iter()
                    .map(|receiver| address(self.site, receiver))
                    .collect::<io::Result<_>>()?,
                Fanout::Multicast => vec![SOURCE_GROUP],
                Fanout::Mead | Fanout::Xcast | Fanout::XcastPlus => TUN_ADDRESS.parse().into_iter().collect(),
            })
        };
        let flow = |(group, number): (&Group, u32)| {
            let interface = self.site.attachment(&group.sender)?.interface;
            Ok((group.sender.clone(), FlowPlan { number, interface, to: to(&group.receivers)? }))
        };
        self.planned.groups.iter().zip(0..).map(flow).collect()
    }

    /// Sends the whole traffic. Returns when all that was sent has arrived, or when nothing arrives any more.
    pub fn play(self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Played> {
        let expected = self.planned.clients() as u64 * u64::from(self.pace.packets);
        let origin = Instant::now();
        let ends = &*self.ends;
        let (sent, tallies, happened) = thread::scope(|scope| {
            let listening = scope.spawn(|| ends.listen());
            let events = &self.planned.delivery.events;
            let (sent, happened) = while_they_happen(self.site, events, origin, || {
                let sending = scope.spawn(|| ends.send(stop));
                let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if sent.is_ok() {
                    self.drain(expected);
                }
                ends.end();
                sent
            });
            let tallies = listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (sent, tallies, happened)
        });
        let (sent, mut happened) = (sent?, happened?);
        let (tallies, missing): (_, Vec<_>) = tallies?.into_iter().unzip();
        // Whoever has vanished is marked, and the rest counts.
        happened.extend(missing.into_iter().flatten().map(|what| Happening { at: origin.elapsed(), what }));
        let mut played = Played { sent, tallies, sender_cpu: None, happened, discovery: None };
        let mut cpu = sent.cpu;
        for sender in self.senders {
            let done = sender.end()?;
            cpu += done.cpu;
            let counted = done.counted;
            let discovery = played.discovery.get_or_insert_default();
            discovery.groups += done.groups;
            discovery.discoveries += counted.discoveries;
            discovery.bytes += counted.discovery_bytes;
            discovery.refused += counted.anomalous + counted.unproved + counted.replayed + counted.forged;
            let over = done.discovered.map_or(Duration::ZERO, |at| at.saturating_duration_since(origin));
            discovery.first_over = discovery.first_over.max(over);
        }
        played.sender_cpu = Some(cpu);
        Ok(played)
    }

    fn drain(&self, expected: u64) {
        let (mut before, mut since) = (self.ends.has_come(), Instant::now());
        while before < expected && since.elapsed() < DRAIN {
            thread::sleep(Duration::from_millis(20));
            let now = self.ends.has_come();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }
}

impl Played {
    /// Returns the counts of all receivers together.
    pub fn together(&self) -> Tally {
        let mut sum = Tally::new(0);
        self.tallies.iter().for_each(|tally| sum.add(tally));
        sum
    }

    /// Returns the share, from 0 to 1, of the datagrams sent in one second of the run that never arrived.
    pub fn loss_in(&self, copies: usize, interval: Duration, second: usize) -> f64 {
        let number = |second: usize| (second as f64 / interval.as_secs_f64()).ceil() as u32;
        let numbers = number(second).min(self.sent.packets)..number(second + 1).min(self.sent.packets);
        let expected = copies as u64 * numbers.len() as u64;
        let came: u64 = self.tallies.iter().map(|tally| tally.came_of(numbers.clone())).sum();
        if expected == 0 { 0.0 } else { 1.0 - came as f64 / expected as f64 }
    }
}

fn address(site: &dyn Site, name: &str) -> io::Result<Ipv6Addr> {
    match site.attachment(name)?.address {
        IpAddr::V6(address) => Ok(address),
        IpAddr::V4(_) => Err(io::Error::other(format!("{name} has no IPv6 address"))),
    }
}

/// A sink's node, and what it has to join for multicast. The experiment's file has no such group with several senders.
fn place(site: &dyn Site, planned: &Planned, receiver: &str) -> io::Result<Where> {
    let delivery = planned.delivery;
    let is_source_specific = matches!(delivery.fanout, Fanout::Multicast | Fanout::XcastPlus);
    let interface = || site.attachment(receiver).map(|at| at.interface);
    let group = match (is_source_specific, &planned.groups[..]) {
        (true, [group]) => {
            let source = Some(address(site, &group.sender)?);
            Some(Membership { group: SOURCE_GROUP, source, interface: interface()? })
        }
        (true, _) => return Err(io::Error::other("a group is for one sender")),
        _ if delivery.fanout == Fanout::Mead && delivery.options.designated => {
            Some(Membership { group: DESIGNATED_GROUP, source: None, interface: interface()? })
        }
        _ => None,
    };
    Ok(Where { node: receiver.to_owned(), group })
}
