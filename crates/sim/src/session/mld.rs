//! IP multicast as hosts, switches and routers make it with MLD. The machines of `proto::membership` run here as they do on
//! hosts and in `treecast mroute`; this module takes the place of the kernel's forwarding table and of a switch that snoops.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
    rc::Rc,
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    membership::{
        Filter, Forwarding, Host, Input, LinkId, Message, Query, Record, Route, Router, RouterConfig, Timers,
        Transmit,
    },
};
use treecast_wire::{membership::RecordKind, message::Member};

use super::{
    local,
    placed::{Multicast, Routing},
};
use crate::graph::{Change, Graph, To};

/// The time between two complaints of a kernel that packets of an entry come by the wrong link (Linux: 3 s).
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(3);

/// The time without packets after which a router removes an entry, as in `treecast mroute`.
const ENTRY_IDLE: Duration = Duration::from_secs(60);

/// The IPv6 header, its option Router Alert, and the fixed part of an MLD message, in bytes (RFC 9777, 5).
const LOWER_HEADERS: usize = 40 + 8 + 8;

/// The shortest time until a machine is polled again.
const SOON: Duration = Duration::from_micros(1);

/// All machines of a network that decide where packets to groups go.
#[derive(Debug)]
pub(super) struct Mld {
    nodes: Vec<Node>,
    /// The time of each node's next poll, if one is planned.
    wakes: Vec<Option<Instant>>,
    timers: Timers,
    /// The polls that the caller has still to plan: time and node.
    pub(super) due: Vec<(Instant, usize)>,
    /// The messages that the caller has still to put on a cable.
    pub(super) out: Vec<(usize, Said)>,
}

/// A message of MLD on a cable, and the address that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Said {
    from: IpAddr,
    message: Rc<Message>,
}

#[derive(Debug)]
enum Node {
    Host(Box<HostNode>),
    Router(Box<RouterNode>),
    Switch(Switch),
}

/// A host. It listens and sends at its first interface.
#[derive(Debug)]
struct HostNode {
    host: Host,
    cable: Option<usize>,
}

/// A router, and the entries of its kernel by source and group.
#[derive(Debug)]
struct RouterNode {
    router: Router,
    entries: BTreeMap<(IpAddr, IpAddr), Entry>,
}

#[derive(Debug)]
struct Entry {
    forwarding: Forwarding,
    packets: u64,
    complained_at: Option<Instant>,
}

/// A switch that snoops (RFC 4541): it sends packets to the ports where routers or listeners were heard.
/// A port is the number of the cable that leaves by it. The times say until when the port counts.
#[derive(Debug, Default)]
struct Switch {
    routers: BTreeMap<usize, Instant>,
    listeners: BTreeMap<(IpAddr, usize), Instant>,
}

impl Said {
    /// The length of the message's packet, in bytes of IP.
    pub(super) fn len(&self) -> usize {
        let record = |record: &Record| 20 + 16 * record.sources.len();
        LOWER_HEADERS
            + match &*self.message {
                Message::Report(records) => records.iter().map(record).sum(),
                Message::Query(query) => 20 + 16 * query.sources.len(),
                _ => 16,
            }
    }
}

/// The address of a group.
fn address(group: u32) -> IpAddr {
    Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, (group >> 16) as u16, group as u16).into()
}

/// The address of a node on all its links.
fn address_of(node: usize) -> IpAddr {
    local::member(node).0.ip()
}

/// The cable in the other direction.
fn back(cable: usize) -> usize {
    cable ^ 1
}

fn link(cable: usize) -> LinkId {
    LinkId(cable as u32)
}

impl Mld {
    /// Creates the machines of all nodes. `None` where packets follow trees that nobody has to make.
    pub(super) fn new(multicast: Multicast, forwards: &[bool], graph: &Graph) -> Option<Self> {
        let Multicast::Mld(Routing { first_switch, source_trees }) = multicast else { return None };
        let config = RouterConfig { source_trees, entry_idle: ENTRY_IDLE, ..RouterConfig::default() };
        let node = |(node, forwards): (usize, &bool)| match forwards {
            false => {
                let cable = graph.leaving(node).first().copied();
                Node::Host(Box::new(HostNode { host: Host::default(), cable }))
            }
            true if node >= first_switch => Node::Switch(Switch::default()),
            true => {
                let mut router = Router::new(config);
                for cable in graph.leaving(node) {
                    let address = address_of(node);
                    router.handle(Instant::ZERO, Input::Up { link: link(*cable), address });
                }
                Node::Router(Box::new(RouterNode { router, entries: BTreeMap::new() }))
            }
        };
        let nodes: Vec<Node> = forwards.iter().enumerate().map(node).collect();
        let is_router = |number: &usize| matches!(nodes[*number], Node::Router(_));
        let due: Vec<_> = (0..nodes.len()).filter(is_router).map(|number| (Instant::ZERO, number)).collect();
        let mut wakes = vec![None; nodes.len()];
        due.iter().for_each(|(at, number)| wakes[*number] = Some(*at));
        Some(Self { nodes, wakes, timers: config.timers, due, out: Vec::new() })
    }

    /// Lets a host listen to a group, or no longer.
    pub(super) fn listen(&mut self, now: Instant, graph: &mut Graph, node: usize, group: u32, is_in: bool) {
        if let Node::Host(host) = &mut self.nodes[node] {
            let filter = if is_in { Filter::EVERYTHING } else { Filter::NOTHING };
            host.host.want(now, address(group), filter, &self.timers);
        }
        self.poll(now, graph, node);
    }

    /// Takes in a message that has come to a node by a cable.
    pub(super) fn hear(&mut self, now: Instant, graph: &mut Graph, node: usize, cable: usize, said: &Said) {
        let (port, from) = (back(cable), said.from);
        match &mut self.nodes[node] {
            Node::Host(host) => host.host.heard(now, address_of(node), &said.message, &self.timers),
            Node::Router(node) => {
                let message = Message::clone(&said.message);
                node.router.handle(now, Input::Message { link: link(port), from, message });
            }
            Node::Switch(switch) => {
                switch.learn(now, port, &said.message, &self.timers);
                let is_report = matches!(*said.message, Message::Report(_));
                let ports = graph.leaving(node).iter().copied().filter(|out| *out != port);
                let ports = ports.filter(|out| !is_report || switch.is_towards_router(now, *out));
                self.out.extend(ports.map(|out| (out, said.clone())));
            }
        }
        self.poll(now, graph, node);
    }

    /// Handles the time for which a node's poll was planned.
    pub(super) fn wake(&mut self, now: Instant, graph: &mut Graph, node: usize) {
        if self.wakes[node].take_if(|at| *at <= now).is_some() {
            self.poll(now, graph, node);
        }
    }

    /// Tells the routers of a change of one direction of a cable.
    pub(super) fn changed(&mut self, now: Instant, graph: &mut Graph, cable: usize, change: Change) {
        let input = |node: usize| match change {
            Change::Down(true) => Some(Input::Down { link: link(cable) }),
            Change::Down(false) => Some(Input::Up { link: link(cable), address: address_of(node) }),
            Change::Avoided(_) => Some(Input::RoutesChanged),
            Change::Cut(_) | Change::Loss(_) => None,
        };
        for node in 0..self.nodes.len() {
            let is_at = graph.leaving(node).contains(&cable) || matches!(change, Change::Avoided(_));
            if let (Node::Router(router), true, Some(input)) = (&mut self.nodes[node], is_at, input(node)) {
                router.router.handle(now, input);
                self.poll(now, graph, node);
            }
        }
    }

    /// Returns the cables by which a packet to a group leaves a node. `came_by` is the cable that it came by, and
    /// `None` at its source.
    pub(super) fn next(
        &mut self,
        now: Instant,
        graph: &mut Graph,
        (node, came_by): (usize, Option<usize>),
        (group, source): (u32, usize),
    ) -> Vec<usize> {
        let group = address(group);
        match (&mut self.nodes[node], came_by) {
            (Node::Host(host), None) => host.cable.into_iter().collect(),
            (Node::Host(_), Some(_)) | (_, None) => Vec::new(),
            (Node::Switch(switch), Some(cable)) => {
                let ports = graph.leaving(node).iter().copied().filter(|port| *port != back(cable));
                ports.filter(|port| switch.sends_to(now, group, *port)).collect()
            }
            (Node::Router(_), Some(cable)) => {
                self.route(now, graph, node, link(back(cable)), (address_of(source), group))
            }
        }
    }

    /// Forwards a packet as the router's kernel does. Returns the cables by which the packet leaves.
    fn route(
        &mut self,
        now: Instant,
        graph: &mut Graph,
        number: usize,
        link: LinkId,
        (source, group): (IpAddr, IpAddr),
    ) -> Vec<usize> {
        let Node::Router(node) = &mut self.nodes[number] else { return Vec::new() };
        match node.entries.get_mut(&(source, group)) {
            None => {
                node.router.handle(now, Input::NoEntry { link, source, group });
                self.poll(now, graph, number);
            }
            Some(entry) if entry.forwarding.from != link => {
                if entry.complained_at.is_none_or(|at| at + COMPLAINT_INTERVAL <= now) {
                    entry.complained_at = Some(now);
                    node.router.handle(now, Input::WrongLink { link, source, group });
                    self.poll(now, graph, number);
                }
            }
            Some(_) => {}
        }
        let Node::Router(node) = &mut self.nodes[number] else { return Vec::new() };
        let entry = node.entries.get_mut(&(source, group)).filter(|entry| entry.forwarding.from == link);
        let Some(entry) = entry else { return Vec::new() };
        entry.packets += 1;
        entry.forwarding.to.iter().map(|link| link.0 as usize).collect()
    }

    /// Carries out what the machine of a node wants, and plans its next poll.
    fn poll(&mut self, now: Instant, graph: &mut Graph, number: usize) {
        let from = address_of(number);
        let mut messages = Vec::new();
        let deadline = match &mut self.nodes[number] {
            Node::Switch(_) => None,
            Node::Host(node) => {
                messages.extend(node.host.due(now).into_iter().map(|one| (node.cable, one)));
                node.host.deadline()
            }
            Node::Router(node) => loop {
                match node.router.poll(now) {
                    Step::Transmit(Transmit::Send { link, message }) => {
                        messages.push((Some(link.0 as usize), message));
                    }
                    Step::Transmit(transmit) => node.execute(now, transmit, graph, number),
                    Step::Event(_) => {}
                    Step::Wait(deadline, _) => break deadline,
                }
            },
        };
        let said = |message| Said { from, message: Rc::new(message) };
        self.out.extend(messages.into_iter().filter_map(|(cable, message)| Some((cable?, said(message)))));
        if let Some(at) = deadline.map(|at| at.max(now + SOON))
            && self.wakes[number].is_none_or(|planned| at < planned)
        {
            self.wakes[number] = Some(at);
            self.due.push((at, number));
        }
    }
}

impl RouterNode {
    /// Carries out what the machine wants of the router's kernel.
    fn execute(&mut self, now: Instant, transmit: Transmit, graph: &mut Graph, node: usize) {
        match transmit {
            Transmit::Install { source, group, forwarding } => {
                let entry = Entry { forwarding, packets: 0, complained_at: None };
                self.entries.insert((source, group), entry);
            }
            Transmit::Remove { source, group } => {
                self.entries.remove(&(source, group));
            }
            Transmit::FindRoute { source } => {
                let to = local::node(Member((source, local::PORT).into()));
                let cable = to.and_then(|to| graph.next(node, To::Node(to)).first().copied());
                let route = cable.map_or(Route::None, |cable| Route::Via(link(cable)));
                self.router.handle(now, Input::Route { source, route });
            }
            Transmit::Count { source, group } => {
                let packets = self.entries.get(&(source, group)).map_or(0, |entry| entry.packets);
                self.router.handle(now, Input::Counted { source, group, packets });
            }
            Transmit::Send { .. } => {}
        }
    }
}

impl Switch {
    /// Learns from a message that has come in by a port.
    fn learn(&mut self, now: Instant, port: usize, message: &Message, timers: &Timers) {
        match message {
            Message::Query(Query { group, .. }) => {
                self.routers.insert(port, now + timers.other_querier_present_interval());
                let until = now + timers.last_listener_query_time();
                let asked = self.listeners.iter_mut().filter(|((of, _), _)| Some(*of) == *group);
                asked.for_each(|(_, at)| *at = until.min(*at));
            }
            Message::RouterAdvertisement(_) => {
                self.routers.insert(port, now + timers.other_querier_present_interval());
            }
            Message::RouterTermination => {
                self.routers.remove(&port);
            }
            Message::Report(records) => {
                let wanted: BTreeSet<IpAddr> =
                    records.iter().filter(|one| is_wish(one)).map(|one| one.group).collect();
                let until = now + timers.listening_interval();
                self.listeners.extend(wanted.into_iter().map(|group| ((group, port), until)));
            }
            _ => {}
        }
    }

    /// Whether packets to a group leave by a port. Without a router nobody asks who listens, and all ports get everything.
    fn sends_to(&self, now: Instant, group: IpAddr, port: usize) -> bool {
        let listens = self.listeners.get(&(group, port)).is_some_and(|until| *until > now);
        listens || self.is_towards_router(now, port)
    }

    fn is_towards_router(&self, now: Instant, port: usize) -> bool {
        self.routers.get(&port).is_some_and(|until| *until > now)
            || self.routers.values().all(|until| *until <= now)
    }
}

/// Whether a record says that its host wants the group.
fn is_wish(record: &Record) -> bool {
    match record.kind {
        RecordKind::IsExclude | RecordKind::ToExclude => true,
        RecordKind::IsInclude | RecordKind::ToInclude | RecordKind::Allow => !record.sources.is_empty(),
        _ => false,
    }
}
