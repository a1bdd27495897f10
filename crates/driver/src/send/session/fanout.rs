//! Carries out the choice of fanouts: sends copies as the machine of `treecast_proto::fanout` decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use treecast_host::poller::Interest;
use treecast_proto::{
    Instant, Step,
    fanout::{Config, Event, Fanout, Heard, Input, Way},
    object::{ReceiverId, SenderInput},
};
use treecast_wire::{header::lane_of, ticket};

use super::{
    super::{
        FanoutProgress, Rate, SendEvent, WayProgress,
        lane::{CopiesLane, Target},
        peer::Peer,
    },
    ROUTERS, Session, Turn,
    open::spread,
};
use crate::fanout::{Discovery, too_narrow};

/// A receiver that has heard nothing of what left for so long, and a round trip, is back at unicast. Reports come every
/// 100 ms, and some late.
const PATIENCE: Duration = Duration::from_millis(300);

/// The machine, and where routers are found for it.
#[derive(Debug)]
pub(super) struct Ways {
    /// A machine for each of the session's groups, which knows the receivers in it, fastest first.
    machines: Vec<Fanout>,
    /// None where packets with lists cannot be sent.
    discovery: Option<Discovery>,
    /// Receivers that both the machine and discovery have been told of.
    known: BTreeSet<ReceiverId>,
    /// The addresses of receivers that are named and have no connection, by number.
    named: BTreeMap<u32, SocketAddr>,
    /// Whether the start waits for the first discovery.
    waits_for_routers: bool,
}

impl Ways {
    /// Serves a receiver that has no connection: one that the user has named, or a member of local groups. Returns whether lists can
    /// reach it.
    pub fn join_named(&mut self, now: Instant, receiver: u32, address: SocketAddr) -> io::Result<bool> {
        self.named.insert(receiver, address);
        self.handle(now, 0, Input::Joined(receiver));
        self.discovery.as_mut().map_or(Ok(true), |discovery| discovery.join(now, receiver, address))
    }

    /// Ceases to serve such a receiver.
    pub fn leave_named(&mut self, now: Instant, receiver: u32) {
        self.named.remove(&receiver);
        self.handle(now, 0, Input::Left(receiver));
        if let Some(discovery) = &mut self.discovery {
            discovery.leave(now, receiver);
        }
    }

    /// Notes whether anybody listens to the group, in a session whose receivers report nothing.
    pub fn note_listeners(&mut self, now: Instant, present: bool) {
        self.handle(now, 0, Input::Listeners(present));
    }

    fn handle(&mut self, now: Instant, group: u8, input: Input) {
        if let Some(machine) = self.machines.get_mut(usize::from(group)) {
            machine.handle(now, input);
        }
    }

    /// The way by which a receiver of the first group is served.
    fn first_way(&self, receiver: u32) -> Option<Way> {
        self.machines.first()?.way(receiver)
    }
}

impl Session<'_> {
    pub(super) fn open_ways(&mut self) -> io::Result<()> {
        let fanout = self.plan.options.fanout;
        if !fanout.chooses() {
            return Ok(());
        }
        let heeds_marks = matches!(self.plan.options.rate, Rate::Auto { .. });
        let (datagram_len, port) =
            (self.plan.datagram_len(), self.lanes.group.as_copies().map_or(0, CopiesLane::source_port));
        let mut discovery =
            self.plan.lists.take().map(|lists| Discovery::new(lists, datagram_len, port, heeds_marks));
        if let Some(discovery) = &mut discovery {
            discovery.expect(self.clock.now(), self.plan.ticket(Vec::new()).own_port())?;
            if let Some(responses) = discovery.responses() {
                self.poller.add(&responses, ROUTERS, Interest::Read)?;
            }
        }
        let by_lists = discovery.as_ref().map_or(Way::Mead, Discovery::way);
        let machine = |_| {
            Fanout::new(Config {
                has_group: fanout.has_group(),
                by_lists,
                patience: PATIENCE,
                has_reports: self.plan.options.repair.carousel().is_none(),
            })
        };
        self.lanes.ways = Some(Ways {
            machines: (0..self.plan.groups).map(machine).collect(),
            discovery,
            known: BTreeSet::new(),
            named: BTreeMap::new(),
            waits_for_routers: fanout == ticket::Fanout::Mead,
        });
        Ok(())
    }

    /// Whether to begin only when it is known where routers are: what the user has asked for is not to be had before.
    pub(super) fn awaits_routers(&self) -> bool {
        let ways = self.lanes.ways.as_ref().filter(|ways| ways.waits_for_routers);
        ways.and_then(|ways| ways.discovery.as_ref()).is_some_and(Discovery::is_first)
    }

    /// Receivers have come or gone.
    pub(super) fn update_destinations(&mut self) {
        // Who is served by a carousel is named before it begins.
        if self.ring.is_some() {
            return;
        }
        let Some(ways) = &mut self.lanes.ways else {
            return self.address_groups();
        };
        let now = self.clock.now();
        let there = |(id, peer): (&ReceiverId, &Peer)| {
            peer.link.connection.as_ref().and(peer.udp).map(|address| (*id, address))
        };
        let there: Vec<(ReceiverId, SocketAddr)> = self.peers.iter().filter_map(there).collect();
        let mut unreachable = Vec::new();
        for (receiver, address) in &there {
            if ways.known.insert(*receiver) {
                let group = self.peers.get(receiver).map_or(0, |peer| peer.group);
                ways.handle(now, group, Input::Joined(receiver.0));
                if let Some(discovery) = &mut ways.discovery
                    && !discovery.join(now, receiver.0, *address).unwrap_or(false)
                {
                    unreachable.push(*receiver);
                }
            }
        }
        let there: BTreeSet<ReceiverId> = there.into_iter().map(|(receiver, _)| receiver).collect();
        let gone: Vec<_> = ways.known.difference(&there).copied().collect();
        for receiver in gone {
            ways.known.remove(&receiver);
            ways.machines.iter_mut().for_each(|machine| machine.handle(now, Input::Left(receiver.0)));
            if let Some(discovery) = &mut ways.discovery {
                discovery.leave(now, receiver.0);
            }
        }
        let unreachable = unreachable.iter().filter_map(|receiver| {
            let peer = self.peers.get(receiver)?;
            Some((peer.name.clone(), peer.udp.map_or(peer.address.ip(), |address| address.ip())))
        });
        let unreachable: Vec<(String, IpAddr)> = unreachable.collect();
        unreachable.iter().for_each(|(name, address)| self.warn_of_unreachable(name, *address));
        self.follow_plan(now);
    }

    /// Has each group's packets leave for its own receivers.
    fn address_groups(&mut self) {
        let now = self.clock.now();
        for group in 0..=self.lanes.slower.len() as u8 {
            let peers = self.peers.values().filter(|peer| peer.group == group);
            let connected = peers.filter(|peer| peer.link.connection.is_some());
            let targets = connected.filter_map(|peer| peer.udp).map(Target::Receiver).collect();
            self.lanes.group.set_targets(group, targets);
            self.apply_rate(now, group);
        }
    }

    /// Says that a receiver cannot be served as the user wants it.
    fn warn_of_unreachable(&mut self, name: &str, address: IpAddr) {
        let way = match self.plan.options.fanout {
            ticket::Fanout::Mead => "MEADcast",
            ticket::Fanout::Xcast => "Xcast",
            _ => return,
        };
        let line = format!(
            "{name} has come from {address}, and {way} reaches only global and unique local IPv6 addresses: it gets unicast; give \
             it one, and the sender as well"
        );
        (self.on_event)(SendEvent::Warning(line));
    }

    /// A member of local groups wants copies at an address, or none any more.
    pub(super) fn send_copies(&mut self, now: Instant, receiver: ReceiverId, at: Option<SocketAddr>) {
        let Some(local) = &mut self.local else { return };
        let at = at.map(|at| local.scoped(at));
        let before = match at {
            Some(at) => local.listeners.insert(receiver, at),
            None => local.listeners.remove(&receiver),
        };
        match (&mut self.lanes.ways, at) {
            (None, _) => {
                let listeners = local.listeners.values().copied();
                self.lanes.group.set_targets(0, listeners.map(Target::Receiver).collect());
            }
            (Some(ways), None) => ways.leave_named(now, receiver.0),
            (Some(ways), Some(at)) => {
                if before.is_some() {
                    ways.leave_named(now, receiver.0);
                }
                if !ways.join_named(now, receiver.0, at).unwrap_or(false) && before.is_none() {
                    self.warn_of_unreachable(&at.to_string(), at.ip());
                }
            }
        }
        self.follow_plan(now);
    }

    /// Takes note of a receiver's way. Returns its name, if it is there.
    fn note_way(&mut self, receiver: ReceiverId, way: Way) -> Option<String> {
        if let Some(local) = &self.local {
            return local.listeners.get(&receiver).map(SocketAddr::to_string);
        }
        let peer = self.peers.get_mut(&receiver).filter(|peer| !peer.link.closes)?;
        peer.way = Some(way);
        Some(peer.name.clone())
    }

    /// Says of each receiver once that full packets go there in fragments: the kernel knows it of copies, and routers say it
    /// of lists.
    pub(super) fn warn_of_narrow_ways(&mut self) {
        let mut found = self.lanes.group.take_narrow();
        let discovery = self.lanes.ways.as_mut().and_then(|ways| ways.discovery.as_mut());
        found.extend(discovery.map(Discovery::take_narrow).unwrap_or_default());
        let mut ways: BTreeMap<_, Vec<IpAddr>> = BTreeMap::new();
        for way in found.into_iter().filter(|way| self.lanes.told_narrow.insert(way.to)) {
            ways.entry((way.mtu_bytes, way.packet_bytes)).or_default().push(way.to);
        }
        for ((mtu_bytes, packet_bytes), receivers) in ways {
            let line = too_narrow(&receivers, mtu_bytes, packet_bytes, self.plan.block_len);
            (self.on_event)(SendEvent::Warning(line));
        }
    }

    /// A receiver's report.
    pub(super) fn heard(&mut self, now: Instant, from: ReceiverId, heard: Heard) {
        let group = self.group_of(from);
        // One that has just moved may speak of the group before.
        let is_of_group = self.plan.groups == 1 || lane_of(heard.last) == group;
        if let Some(ways) = &mut self.lanes.ways
            && is_of_group
        {
            ways.handle(now, group, Input::Heard(from.0, heard));
            self.has_news = true;
        }
    }

    /// Packets of a group have got their numbers; the next one gets `next`.
    pub(super) fn note_numbers(&mut self, now: Instant, group: u8, next: u32) {
        if let Some(ways) = &mut self.lanes.ways {
            ways.handle(now, group, Input::Sent { next });
        }
    }

    /// A receiver is in another group from now on. What reaches it there is found out anew.
    pub(super) fn move_ways(&mut self, now: Instant, receiver: ReceiverId, (before, group): (u8, u8)) {
        if let Some(ways) = self.lanes.ways.as_mut().filter(|ways| ways.known.contains(&receiver)) {
            ways.handle(now, before, Input::Left(receiver.0));
            ways.handle(now, group, Input::Joined(receiver.0));
            self.note_way(receiver, Way::Unicast);
        }
    }

    pub(super) fn hear_routers(&mut self) -> io::Result<()> {
        let discovery = self.lanes.ways.as_mut().and_then(|ways| ways.discovery.as_mut());
        discovery.map_or(Ok(()), |discovery| discovery.hear(self.clock.now()))
    }

    /// Carries out what the machines want.
    pub(super) fn turn_ways(&mut self, now: Instant) -> Turn {
        let Some(ways) = &mut self.lanes.ways else { return Turn::Until(None) };
        let (mut deadline, mut is_changed) = (None, false);
        if let Some(discovery) = &mut ways.discovery {
            deadline = discovery.carry_out(now);
            if let Some(lists) = discovery.take_lists() {
                for machine in &mut ways.machines {
                    machine.handle(now, Input::Lists(lists.clone()));
                }
                // The same receivers may be behind other routers.
                is_changed = true;
            }
            for line in discovery.take_warnings() {
                (self.on_event)(SendEvent::Warning(line));
            }
        }
        let (mut moved, mut unheard) = (Vec::new(), Vec::new());
        for machine in &mut ways.machines {
            deadline = loop {
                match machine.poll(now) {
                    Step::Event(Event::Plan) => is_changed = true,
                    Step::Event(Event::Moved { receiver, way, why }) => {
                        moved.push((ReceiverId(receiver), way, why))
                    }
                    Step::Event(Event::Unheard { receiver }) => unheard.push(ReceiverId(receiver)),
                    Step::Wait(look, _) => break [deadline, look].into_iter().flatten().min(),
                }
            };
        }
        for receiver in unheard {
            self.handle(now, SenderInput::Unheard { receiver });
        }
        for (receiver, way, why) in moved {
            if let Some(receiver) = self.note_way(receiver, way) {
                (self.on_event)(SendEvent::Way { receiver, way, why: why.to_string() });
            }
        }
        if is_changed {
            self.follow_plan(now);
        }
        Turn::Until(deadline)
    }

    /// Sends by the machines' plans from now on; what has been begun goes where it was to go.
    pub(super) fn follow_plan(&mut self, now: Instant) {
        for group in 0..self.plan.groups {
            self.follow_plan_of(now, group);
        }
        self.has_news = true;
    }

    fn follow_plan_of(&mut self, now: Instant, number: u8) {
        let Some(ways) = &self.lanes.ways else { return };
        let Some(plan) = ways.machines.get(usize::from(number)).map(Fanout::plan) else { return };
        let group = plan.group.then_some(Target::Group);
        let lists = ways.discovery.as_ref().map(|discovery| discovery.planned(plan)).unwrap_or_default();
        let address = |receiver: &u32| {
            if let Some(address) = ways.named.get(receiver) {
                return Some(*address);
            }
            let peer = self.peers.get(&ReceiverId(*receiver))?;
            peer.link.connection.as_ref().and(peer.udp)
        };
        let unicast = plan.unicast.iter().filter_map(address).map(Target::Receiver);
        let targets = group.into_iter().chain(lists.into_iter().map(Target::List)).chain(unicast).collect();
        self.lanes.group.set_targets(number, targets);
        match self.plan.options.rate {
            Rate::Fixed(rate) => {
                let rate = if self.local.is_some() { spread(rate) } else { rate };
                let rate = rate.saturating_mul(self.copies(number));
                let run_bytes = self.slower_lane(number).map(|lane| lane.run_bytes);
                let run_bytes = run_bytes.unwrap_or(self.lanes.run_bytes);
                self.pacer_of(number).set_rate(now, rate, run_bytes);
            }
            Rate::Auto { .. } => self.apply_rate(now, number),
            Rate::Max => {}
        }
    }

    /// The number of members of local groups that a way serves.
    fn members_served_by(&self, way: Way) -> usize {
        let Some(local) = &self.local else { return 0 };
        let of = |receiver: &ReceiverId| {
            self.lanes.ways.as_ref().map_or(Some(Way::Unicast), |ways| ways.first_way(receiver.0))
        };
        local.listeners.keys().filter(|receiver| of(receiver) == Some(way)).count()
    }

    /// What has left by which way; none where there is one.
    pub(super) fn fanout_progress(&self) -> Option<FanoutProgress> {
        let left = self.lanes.group.left_bytes()?;
        let by = |way: Way| {
            let receivers = self.peers.values().filter(|peer| peer.way == Some(way)).count();
            let receivers = (receivers + self.members_served_by(way)) as u32;
            (way.to_string(), WayProgress { receivers, left_bytes: left[way as usize] })
        };
        Some([Way::Unicast, Way::Mead, Way::Xcast, Way::Multicast].map(by).into())
    }
}
