//! The choice of fanouts: the way by which each receiver is served, as the machine of `treecast_proto::fanout`
//! decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    sync::Arc,
};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{
    Instant, Step,
    fanout::{Config, Event, Fanout, Heard, Input, Way},
    object::ReceiverId,
    policy,
};
use treecast_wire::{header::lane_of, ticket};

use super::super::{
    super::{Plan, Rate, lane::Target},
    ROUTERS,
};
use crate::{fanout::Discovery, remedies::Advised, udp::NarrowWay};

/// The machines, and where routers are found for them.
#[derive(Debug)]
pub(in super::super) struct Ways {
    /// A machine for each of the session's groups, which knows the receivers in it, fastest first.
    machines: Vec<Fanout>,
    /// Finds routers. `None` where packets with lists cannot be sent.
    discovery: Option<Discovery>,
    /// Receivers that both the machine and discovery have been told of.
    known: BTreeSet<ReceiverId>,
    /// The addresses of receivers that are named and have no connection, by number.
    named: BTreeMap<u32, SocketAddr>,
    fanout: ticket::Fanout,
}

/// The wishes of the machines.
#[derive(Debug, Default)]
pub(in super::super) struct WaysTurn {
    /// The time at which they want to be asked again.
    pub deadline: Option<Instant>,
    /// Whether packets go other ways from now on.
    pub is_changed: bool,
    /// Receivers that are served by another way, and why.
    pub moved: Vec<(ReceiverId, Way, String)>,
    /// Receivers that hear nothing of what was sent.
    pub unheard: Vec<ReceiverId>,
    /// Lines for the user.
    pub warnings: Vec<Advised>,
}

impl Ways {
    /// Begins to look for routers. `None` where the user has chosen the one way by which all are served. `source_port` is the UDP port
    /// that copies leave from.
    pub fn open(
        plan: &mut Plan,
        source_port: u16,
        now: Instant,
        poller: &Poller,
    ) -> io::Result<Option<Self>> {
        let fanout = plan.options.fanout;
        if !fanout.chooses() {
            return Ok(None);
        }
        let heeds_marks = matches!(plan.options.rate(), Rate::Auto { .. });
        let datagram_len = plan.datagram_len();
        let lists = plan.lists.take();
        let mut discovery = lists.map(|lists| Discovery::new(lists, datagram_len, source_port, heeds_marks));
        if let Some(discovery) = &mut discovery {
            discovery.expect(now, plan.ticket(Vec::new()).own_port())?;
            if let Some(responses) = discovery.responses() {
                poller.add(&responses, ROUTERS, Interest::Read)?;
            }
        }
        let by_lists = discovery.as_ref().map_or(Way::Mead, Discovery::way);
        let machine = |_| {
            Fanout::new(Config {
                has_group: fanout.has_group(),
                by_lists,
                patience: policy::UNHEARD_LIMIT,
                has_reports: plan.options.kind.carousel().is_none(),
            })
        };
        Ok(Some(Self {
            machines: (0..plan.groups).map(machine).collect(),
            discovery,
            known: BTreeSet::new(),
            named: BTreeMap::new(),
            fanout,
        }))
    }

    /// Whether to begin only when it is known where routers are: what the user has asked for is not to be had before.
    pub fn awaits_routers(&self) -> bool {
        self.fanout == ticket::Fanout::Mead && self.discovery.as_ref().is_some_and(Discovery::is_first)
    }

    /// The way with lists of receivers that the user has asked for. `None`: another one will do.
    pub fn lists(&self) -> Option<&'static str> {
        match self.fanout {
            ticket::Fanout::Mead => Some("MEADcast"),
            ticket::Fanout::Xcast => Some("Xcast"),
            _ => None,
        }
    }

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

    /// Serves these receivers, each in its group, and no others. Returns those that lists cannot reach, of those that are new.
    pub fn serve(&mut self, now: Instant, there: &BTreeMap<ReceiverId, (u8, SocketAddr)>) -> Vec<ReceiverId> {
        let mut unreachable = Vec::new();
        for (receiver, (group, address)) in there {
            if self.known.insert(*receiver) {
                self.handle(now, *group, Input::Joined(receiver.0));
                if let Some(discovery) = &mut self.discovery
                    && !discovery.join(now, receiver.0, *address).unwrap_or(false)
                {
                    unreachable.push(*receiver);
                }
            }
        }
        let gone: Vec<_> = self.known.iter().filter(|known| !there.contains_key(known)).copied().collect();
        for receiver in gone {
            self.known.remove(&receiver);
            self.machines.iter_mut().for_each(|machine| machine.handle(now, Input::Left(receiver.0)));
            if let Some(discovery) = &mut self.discovery {
                discovery.leave(now, receiver.0);
            }
        }
        unreachable
    }

    /// Notes whether anybody listens to the group, in a session whose receivers report nothing.
    pub fn note_listeners(&mut self, now: Instant, present: bool) {
        self.handle(now, 0, Input::Listeners(present));
    }

    /// Takes the report of a receiver of this group. Returns whether it is of use: a receiver that has just moved may speak of the group
    /// before.
    pub fn heard(&mut self, now: Instant, group: u8, from: ReceiverId, heard: Heard) -> bool {
        let is_of_group = self.machines.len() == 1 || lane_of(heard.last) == group;
        if is_of_group {
            self.handle(now, group, Input::Heard(from.0, heard));
        }
        is_of_group
    }

    /// Notes that packets of a group have got their numbers; the next one gets `next`.
    pub fn numbered(&mut self, now: Instant, group: u8, next: u32) {
        self.handle(now, group, Input::Sent { next });
    }

    /// Notes that a receiver is in another group from now on. What reaches it there is found out anew. Returns whether it is served.
    pub fn moved(&mut self, now: Instant, receiver: ReceiverId, (before, group): (u8, u8)) -> bool {
        let is_known = self.known.contains(&receiver);
        if is_known {
            self.handle(now, before, Input::Left(receiver.0));
            self.handle(now, group, Input::Joined(receiver.0));
        }
        is_known
    }

    /// Reads what routers have answered.
    pub fn hear_routers(&mut self, now: Instant) -> io::Result<()> {
        self.discovery.as_mut().map_or(Ok(()), |discovery| discovery.hear(now))
    }

    /// Asks the machines what is to be done.
    pub fn turn(&mut self, now: Instant) -> WaysTurn {
        let mut turn = WaysTurn::default();
        if let Some(discovery) = &mut self.discovery {
            turn.deadline = discovery.carry_out(now);
            if let Some(lists) = discovery.take_lists() {
                for machine in &mut self.machines {
                    machine.handle(now, Input::Lists(lists.clone()));
                }
                // The same receivers may be behind other routers.
                turn.is_changed = true;
            }
            turn.warnings = discovery.take_warnings();
        }
        for machine in &mut self.machines {
            turn.deadline = loop {
                match machine.poll(now) {
                    Step::Event(Event::Plan) => turn.is_changed = true,
                    Step::Event(Event::Moved { receiver, way, why }) => {
                        turn.moved.push((ReceiverId(receiver), way, why.to_string()))
                    }
                    Step::Event(Event::Unheard { receiver }) => turn.unheard.push(ReceiverId(receiver)),
                    Step::Wait(look, _) => break [turn.deadline, look].into_iter().flatten().min(),
                }
            };
        }
        turn
    }

    /// The destinations of a group's packets by its machine's plan. `address` knows those receivers that are not
    /// named.
    pub fn targets(
        &self,
        group: u8,
        address: impl Fn(ReceiverId) -> Option<SocketAddr>,
    ) -> Option<Arc<[Target]>> {
        let plan = self.machines.get(usize::from(group)).map(Fanout::plan)?;
        let group = plan.group.then_some(Target::Group);
        let lists = self.discovery.as_ref().map(|discovery| discovery.planned(plan)).unwrap_or_default();
        let address =
            |receiver: &u32| self.named.get(receiver).copied().or_else(|| address(ReceiverId(*receiver)));
        let unicast = plan.unicast.iter().filter_map(address).map(Target::Receiver);
        Some(group.into_iter().chain(lists.into_iter().map(Target::List)).chain(unicast).collect())
    }

    /// The way by which a receiver of the first group is served.
    pub fn first_way(&self, receiver: ReceiverId) -> Option<Way> {
        self.machines.first()?.way(receiver.0)
    }

    /// Takes hosts that were lately found by routers to have a path too narrow for the packets.
    pub fn take_narrow(&mut self) -> Vec<NarrowWay> {
        self.discovery.as_mut().map(Discovery::take_narrow).unwrap_or_default()
    }

    fn handle(&mut self, now: Instant, group: u8, input: Input) {
        if let Some(machine) = self.machines.get_mut(usize::from(group)) {
            machine.handle(now, input);
        }
    }
}
