//! Carries the packets of a session in a network: datagrams and TCP segments on their way through a [`Graph`].

use std::{collections::BTreeMap, net::Ipv6Addr, ops::Range, rc::Rc, time::Duration};

use treecast_proto::{Instant, explicit::mead::router::NextHop, fanout, object::Address};
use treecast_wire::{
    header::HEADER_LEN,
    ipv6,
    message::{GroupId, Member},
};

use super::{
    local,
    mld::{self, Mld},
    placed::{Explicit, Fanout, Placed},
    receiver_node::Heard,
    sender_node::{LOWER_HEADERS, Packet, Sizes},
    ways::{Act, Search, Speaker, Wants, Ways},
};
use crate::{
    graph::{Change, Graph, To},
    tcp::{self, Acknowledgement, Cubic, Segment, Tcp},
};

/// An end of a connection, or the direction that begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Sender = 0,
    Receiver = 1,
}

impl End {
    pub(super) fn other(self) -> Self {
        if self == Self::Sender { Self::Receiver } else { Self::Sender }
    }
}

/// An item written on a connection.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Packet(Packet),
    /// The end of the connection.
    Close,
}

/// An arrival at its destination. The number is the receiver's.
#[derive(Debug)]
pub(super) enum Arrival {
    Heard(usize, Heard),
    Said {
        at: End,
        of: usize,
        said: Said,
    },
    /// A datagram from a member, at the sender.
    Told(Member, Packet),
    /// A connection to a receiver has room again.
    Room(usize),
    /// Nothing of what was sent to a receiver has reached it.
    Unheard(usize),
}

/// An event inside the network.
#[derive(Debug)]
pub(super) enum Due {
    /// A packet is at the end of a cable.
    Hop(usize, Box<Flight>),
    /// The oldest segment of a direction may be overdue.
    Timer(usize, End),
    /// A delayed acknowledgement is due for what came from this end.
    Acknowledge(usize, End),
    /// The machines that choose fanouts want to be polled.
    Turn,
    /// A node's machine for memberships wants to be polled.
    Membership(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Flight {
    to: To,
    payload: Payload,
}

#[derive(Debug, Clone)]
enum Payload {
    Datagram(Heard),
    /// An IPv6 packet in its form on the wire, and the datagram to the group that it carries, if any.
    Raw(Rc<[u8]>, Option<Heard>),
    /// A segment of the direction that begins at this end of a receiver's connection.
    Segment(usize, End, Segment<Said>),
    Acknowledgement(usize, End, Acknowledgement),
    /// A message of MLD to the next node.
    Membership(mld::Said),
}

#[derive(Debug)]
pub(super) struct Transport {
    pub(super) graph: Graph,
    sizes: Sizes,
    fanout: Fanout,
    sender: usize,
    receivers: Vec<usize>,
    /// The number of the receiver at each node. `None` at other nodes.
    receiver_at: Vec<Option<usize>>,
    /// Whether each receiver is served by copies.
    present: Vec<bool>,
    /// The connections between the sender and each receiver, the sender's direction first.
    connections: Vec<Option<Box<[Tcp<Said>; 2]>>>,
    names: Names,
    /// The routers that speak MEADcast and Xcast, by node.
    speakers: BTreeMap<usize, Speaker>,
    ways: Option<Box<Ways>>,
    /// The machines that decide where packets to groups go. `None`: they follow the graph's trees.
    mld: Option<Box<Mld>>,
    /// The events that the world has still to take over.
    pub(super) due: Vec<(Instant, Due)>,
    pub(super) arrivals: Vec<Arrival>,
}

/// The addresses of nodes.
#[derive(Debug, Default)]
struct Names {
    nodes: BTreeMap<Ipv6Addr, usize>,
    /// The address of each router.
    routers: BTreeMap<usize, Ipv6Addr>,
}

impl Transport {
    pub(super) fn new(placed: &Placed, sizes: Sizes, is_carousel: bool, seed: u64) -> Self {
        let mut receiver_at = vec![None; placed.graph.forwards.len()];
        placed.receivers.iter().enumerate().for_each(|(number, node)| receiver_at[*node] = Some(number));
        let graph = Graph::new(&placed.graph, seed);
        let mld = Mld::new(placed.multicast, &placed.graph.forwards, &graph).map(Box::new);
        let mut transport = Self {
            graph,
            sizes,
            fanout: placed.fanout,
            sender: placed.sender,
            receivers: placed.receivers.clone(),
            receiver_at,
            present: vec![false; placed.receivers.len()],
            connections: placed.receivers.iter().map(|_| None).collect(),
            names: placed.explicit.as_ref().map(|explicit| names(explicit, placed)).unwrap_or_default(),
            speakers: placed.explicit.as_ref().map(speakers).unwrap_or_default(),
            ways: placed.explicit.as_ref().map(|explicit| {
                let datagram_len = usize::from(sizes.block_len) + sizes.headers - LOWER_HEADERS;
                Box::new(Ways::new(placed.fanout, explicit, is_carousel, datagram_len, seed))
            }),
            mld,
            due: Vec::new(),
            arrivals: Vec::new(),
        };
        transport.let_mld_speak(Instant::ZERO);
        transport
    }

    /// Adds a receiver that is there now: it listens to the first group, or gets copies.
    pub(super) fn join(&mut self, now: Instant, of: usize) {
        if std::mem::replace(&mut self.present[of], true) {
            return;
        }
        if matches!(self.fanout, Fanout::Multicast | Fanout::Auto) {
            self.listen(now, self.receivers[of], 0, true);
        }
        if let Some(ways) = &mut self.ways {
            ways.join(now, of);
            self.turn(now);
        }
    }

    pub(super) fn leave(&mut self, now: Instant, of: usize, group: u8) {
        self.present[of] = false;
        self.listen(now, self.receivers[of], group.into(), false);
        if let Some(ways) = &mut self.ways {
            ways.leave(now, of);
            self.turn(now);
        }
    }

    /// Takes in a receiver's report of what it has heard.
    pub(super) fn heard(&mut self, now: Instant, of: usize, heard: fanout::Heard) {
        if let Some(ways) = &mut self.ways {
            ways.heard(now, of, heard);
            self.turn(now);
        }
    }

    /// A program at the sender's node has something to send.
    pub(super) fn traffic(&mut self, now: Instant) {
        if let Some(ways) = &mut self.ways {
            ways.traffic(now);
        }
    }

    /// What looking for routers has cost so far. `None` where nobody looks for routers.
    pub(super) fn search(&self) -> Option<Search> {
        self.ways.as_ref()?.search()
    }

    /// Whether the session begins only when the routers are known.
    pub(super) fn awaits_routers(&self) -> bool {
        self.ways.as_ref().is_some_and(|ways| ways.awaits_routers())
    }

    /// Whether the rate holds for each copy, and not for all together.
    pub(super) fn paces_each(&self) -> bool {
        self.ways.is_some()
    }

    /// Carries out what the machines that choose fanouts want.
    pub(super) fn turn(&mut self, now: Instant) {
        let Some(ways) = &mut self.ways else { return };
        let Wants { requests, unheard, deadline } = ways.turn(now);
        if let Some(deadline) = deadline.map(|deadline| deadline.max(now + Duration::from_micros(1)))
            && ways.turn_at.is_none_or(|at| deadline < at)
        {
            ways.turn_at = Some(deadline);
            self.due.push((deadline, Due::Turn));
        }
        self.arrivals.extend(unheard.into_iter().map(|of| Arrival::Unheard(of as usize)));
        requests.into_iter().for_each(|(_, packet)| self.launch(now, self.sender, packet, None));
    }

    /// Lets a receiver listen to a group of the sender or not, if it does not do so already.
    pub(super) fn listen_if(&mut self, now: Instant, of: usize, group: u8, is_in: bool) {
        let node = self.receivers[of];
        if self.graph.is_member(group.into(), node) != is_in {
            self.listen(now, node, group.into(), is_in);
        }
    }

    /// Sends a packet that is not the sender's to all receivers, whatever they listen to.
    pub(super) fn forge(&mut self, now: Instant, packet: Packet) {
        let heard = Heard { group: None, number: 0, packet, is_own: false, from: None };
        for of in 0..self.receivers.len() {
            let payload = Payload::Datagram(heard.clone());
            self.forward(now, self.sender, None, &Flight { to: To::Node(self.receivers[of]), payload });
        }
    }

    /// Lets a node listen to a group, or no longer.
    pub(super) fn listen(&mut self, now: Instant, node: usize, group: u32, is_in: bool) {
        match is_in {
            true => self.graph.join(group, node),
            false => self.graph.leave(group, node),
        }
        if let Some(mld) = &mut self.mld {
            mld.listen(now, &mut self.graph, node, group, is_in);
            self.let_mld_speak(now);
        }
    }

    /// Changes one direction of a cable.
    pub(super) fn change(&mut self, now: Instant, cable: usize, change: Change) {
        self.graph.change(cable, change);
        if let Some(mld) = &mut self.mld {
            mld.changed(now, &mut self.graph, cable, change);
            self.let_mld_speak(now);
        }
    }

    /// Sends what the machines for memberships have to say, and plans their next polls.
    fn let_mld_speak(&mut self, now: Instant) {
        let Some(mld) = &mut self.mld else { return };
        self.due.extend(mld.due.drain(..).map(|(at, node)| (at, Due::Membership(node))));
        for (cable, said) in std::mem::take(&mut mld.out) {
            let flight = Flight { to: To::Node(self.graph.end(cable)), payload: Payload::Membership(said) };
            self.put_on(now, cable, &flight);
        }
    }

    /// Returns the cables by which a packet leaves a node, to which it came by `came_by`.
    fn next(&mut self, now: Instant, node: usize, came_by: Option<usize>, to: To) -> Vec<usize> {
        let (Some(mld), To::Group { group, source }) = (&mut self.mld, to) else {
            return self.graph.next(node, to);
        };
        let cables = mld.next(now, &mut self.graph, (node, came_by), (group, source));
        self.let_mld_speak(now);
        cables
    }

    /// The number of copies of a packet to the group that leave the sender.
    pub(super) fn copies(&self) -> usize {
        match self.fanout {
            Fanout::Multicast => 1,
            Fanout::Unicast => self.present.iter().filter(|present| **present).count(),
            _ => self.ways.as_ref().map_or(1, |ways| ways.copies()),
        }
    }

    pub(super) fn connect(&mut self, now: Instant, of: usize) {
        let (there, back) = (self.receivers[of], self.sender);
        let round_trip = self.graph.delay(there, back) + self.graph.delay(back, there);
        let way = || Tcp::new(Box::new(Cubic::new(now)), round_trip);
        self.connections[of] = Some(Box::new([way(), way()]));
    }

    /// Sends a packet to a group.
    pub(super) fn send(&mut self, now: Instant, group: u8, number: u32, packet: &Packet) {
        let heard = Heard { group: Some(group), number, packet: packet.clone(), is_own: false, from: None };
        let Some(ways) = &self.ways else {
            let copies = (0..self.receivers.len()).filter(|of| self.present[*of]).collect();
            let (is_multicast, none) = (self.fanout == Fanout::Multicast, Vec::new());
            return self.send_copies(now, &heard, is_multicast, if is_multicast { none } else { copies });
        };
        let plan = ways.plan();
        let (to_group, copies) = (plan.group, plan.unicast.iter().map(|of| *of as usize).collect());
        self.send_copies(now, &heard, to_group, copies);
        for heard in self.datagrams(heard) {
            let len = heard.packet.len(self.sizes) - LOWER_HEADERS;
            let listed = self.ways.as_mut().map(|ways| ways.listed(len)).unwrap_or_default();
            listed
                .into_iter()
                .for_each(|(_, bytes)| self.launch(now, self.sender, bytes, Some(heard.clone())));
        }
        let next = number.wrapping_add(packet.count(self.sizes.block_len) as u32);
        if let Some(ways) = &mut self.ways {
            ways.sent(now, next);
            self.turn(now);
        }
    }

    /// Sends a datagram from a node to a group, to a member or to the sender.
    pub(super) fn tell(&mut self, now: Instant, source: usize, to: Address, packet: Packet) {
        let to = match (local::group(to), to) {
            (Some(group), _) => To::Group { group: group.0, source },
            (None, Address::Member(member)) => match local::node(member) {
                Some(node) => To::Node(node),
                None => return,
            },
            (None, _) => return,
        };
        let from = Some(local::member(source));
        let payload = Payload::Datagram(Heard { group: None, number: 0, packet, is_own: false, from });
        self.forward(now, source, None, &Flight { to, payload });
    }

    /// The receiver whose address this is.
    pub(super) fn number_at(&self, member: Member) -> Option<usize> {
        *self.receiver_at.get(local::node(member)?)?
    }

    /// The receivers that listen to a local group.
    pub(super) fn listeners(&self, group: GroupId) -> impl Iterator<Item = usize> + '_ {
        self.graph.members(group.0).filter_map(|node| self.receiver_at[node])
    }

    /// The time at which the sender's host takes more for the group.
    pub(super) fn has_room_at(&self) -> Instant {
        self.graph.has_room_at(self.sender)
    }

    fn send_copies(&mut self, now: Instant, heard: &Heard, to_group: bool, copies: Vec<usize>) {
        let source = self.sender;
        if to_group {
            let group = heard.group.unwrap_or_default().into();
            let payload = Payload::Datagram(heard.clone());
            self.forward(now, source, None, &Flight { to: To::Group { group, source }, payload });
        }
        for of in copies {
            let payload = Payload::Datagram(Heard { is_own: true, ..heard.clone() });
            self.forward(now, source, None, &Flight { to: To::Node(self.receivers[of]), payload });
        }
    }

    /// The datagrams that a run is made of.
    fn datagrams(&self, heard: Heard) -> Vec<Heard> {
        let block_len = self.sizes.block_len;
        let run = match &heard.packet {
            Packet::Message(_) | Packet::Page(..) => return vec![heard],
            Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } => range.clone(),
        };
        let alone = |(block, number): (Range<u64>, u32)| {
            let mut one = Heard { number, is_own: true, ..heard.clone() };
            if let Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } = &mut one.packet {
                *range = block;
            }
            one
        };
        each(&run, block_len).zip(heard.number..).map(alone).collect()
    }

    /// Sends an IPv6 packet from a node to where its header says.
    fn launch(&mut self, now: Instant, node: usize, packet: Rc<[u8]>, heard: Option<Heard>) {
        let destination = ipv6::Header::parse(&packet).map(|(header, _)| header.destination);
        let Some(there) = destination.ok().and_then(|to| self.names.nodes.get(&to).copied()) else { return };
        let payload = Payload::Raw(packet, heard);
        match there == node {
            true => self.deliver(now, node, payload),
            false => self.forward(now, node, None, &Flight { to: To::Node(there), payload }),
        }
    }

    /// Writes on a connection. Blocks become a segment each.
    pub(super) fn write(&mut self, now: Instant, of: usize, from: End, said: Said) {
        let Some(connection) = self.connections[of].as_mut() else { return };
        let way = &mut connection[from as usize];
        match said {
            Said::Packet(Packet::Blocks { file, range, content }) => {
                let blocks = each(&range, self.sizes.block_len);
                blocks.for_each(|range| {
                    way.write(Said::Packet(Packet::Blocks { file, range, content: Rc::clone(&content) }));
                });
            }
            Said::Packet(Packet::Symbols { file, positions, content }) => {
                let symbols = each(&positions, self.sizes.block_len);
                symbols.for_each(|positions| {
                    way.write(Said::Packet(Packet::Symbols {
                        file,
                        positions,
                        content: Rc::clone(&content),
                    }));
                });
            }
            said => way.write(said),
        }
        self.poll(now, of, from);
    }

    /// The number of segments from the sender to a receiver that wait for the network.
    pub(super) fn backlog(&self, of: usize) -> usize {
        self.connections[of].as_ref().map_or(0, |connection| connection[0].backlog())
    }

    pub(super) fn handle(&mut self, now: Instant, due: Due) {
        match due {
            Due::Hop(cable, flight) => self.hop(now, cable, *flight),
            Due::Turn => {
                if let Some(ways) = self.ways.as_mut().filter(|ways| ways.turn_at == Some(now)) {
                    ways.turn_at = None;
                    self.turn(now);
                }
            }
            Due::Membership(node) => {
                if let Some(mld) = &mut self.mld {
                    mld.wake(now, &mut self.graph, node);
                    self.let_mld_speak(now);
                }
            }
            Due::Timer(of, from) => {
                let Some(connection) = self.connections[of].as_mut() else { return };
                connection[from as usize].handle_timer(now);
                self.poll(now, of, from);
            }
            Due::Acknowledge(of, from) => {
                let way = self.connections[of].as_mut().map(|connection| &mut connection[from as usize]);
                if let Some(acknowledgement) = way.and_then(Tcp::acknowledge) {
                    self.acknowledge(now, of, from, acknowledgement);
                }
            }
        }
    }

    /// Sends what a direction's window lets out.
    fn poll(&mut self, now: Instant, of: usize, from: End) {
        let (node, to) = self.ends(of, from);
        while let Some(connection) = self.connections[of].as_mut() {
            let way = &mut connection[from as usize];
            let Some(segment) = way.poll(now) else {
                self.due.extend(way.set_timer(now).map(|at| (at, Due::Timer(of, from))));
                break;
            };
            self.forward(now, node, None, &Flight { to, payload: Payload::Segment(of, from, segment) });
        }
        if from == End::Sender {
            self.arrivals.push(Arrival::Room(of));
        }
    }

    /// The node where a direction begins, and where it leads.
    fn ends(&self, of: usize, from: End) -> (usize, To) {
        match from {
            End::Sender => (self.sender, To::Node(self.receivers[of])),
            End::Receiver => (self.receivers[of], To::Node(self.sender)),
        }
    }

    fn acknowledge(&mut self, now: Instant, of: usize, from: End, acknowledgement: Acknowledgement) {
        let (node, to) = self.ends(of, from.other());
        self.forward(
            now,
            node,
            None,
            &Flight { to, payload: Payload::Acknowledgement(of, from, acknowledgement) },
        );
    }

    fn hop(&mut self, now: Instant, cable: usize, flight: Flight) {
        let node = self.graph.end(cable);
        if let (Payload::Membership(said), Some(mld)) = (&flight.payload, &mut self.mld) {
            mld.hear(now, &mut self.graph, node, cable, said);
            return self.let_mld_speak(now);
        }
        if let (Payload::Raw(packet, heard), Some(speaker)) = (&flight.payload, self.speakers.get(&node)) {
            let (graph, names) = (&mut self.graph, &self.names);
            let act = speaker.act(packet, cable, &mut |to| names.next_hop(graph, node, to));
            if let Act::Instead(packets) = act {
                let heard = heard.clone();
                return packets.into_iter().for_each(|packet| self.launch(now, node, packet, heard.clone()));
            }
        }
        match flight.to {
            To::Node(there) if there == node => return self.deliver(now, node, flight.payload),
            To::Group { group, .. } if self.graph.is_member(group, node) => {
                self.deliver(now, node, flight.payload.clone());
            }
            _ => {}
        }
        self.forward(now, node, Some(cable), &flight);
    }

    fn deliver(&mut self, now: Instant, node: usize, payload: Payload) {
        match payload {
            Payload::Datagram(Heard { from: Some(member), packet, .. }) if node == self.sender => {
                self.arrivals.push(Arrival::Told(member, packet));
            }
            Payload::Datagram(heard) | Payload::Raw(_, Some(heard)) => {
                if let Some(of) = self.receiver_at[node] {
                    self.arrivals.push(Arrival::Heard(of, heard));
                }
            }
            Payload::Raw(packet, None) => {
                if let Some(ways) = self.ways.as_mut().filter(|_| node == self.sender) {
                    ways.respond(now, &packet);
                    self.turn(now);
                }
            }
            Payload::Membership(_) => {}
            Payload::Segment(of, from, segment) => self.read(now, of, from, segment),
            Payload::Acknowledgement(of, from, acknowledgement) => {
                if let Some(connection) = self.connections[of].as_mut() {
                    connection[from as usize].acknowledged(now, acknowledgement);
                    self.poll(now, of, from);
                }
            }
        }
    }

    fn read(&mut self, now: Instant, of: usize, from: End, segment: Segment<Said>) {
        let Some(connection) = self.connections[of].as_mut() else { return };
        let way = &mut connection[from as usize];
        let had_some = way.has_unacknowledged();
        let (read, acknowledgement) = way.receive(segment);
        if way.has_unacknowledged() && !had_some {
            self.due.push((now + tcp::DELAYED, Due::Acknowledge(of, from)));
        }
        let at = from.other();
        self.arrivals.extend(read.into_iter().map(|said| Arrival::Said { at, of, said }));
        if let Some(acknowledgement) = acknowledgement {
            self.acknowledge(now, of, from, acknowledgement);
        }
    }

    /// Forwards a packet from a node. Each block of a run may be lost alone. Blocks that arrive stay together as long
    /// as there is no gap between them.
    fn forward(&mut self, now: Instant, node: usize, came_by: Option<usize>, flight: &Flight) {
        for cable in self.next(now, node, came_by, flight.to) {
            match &flight.payload {
                Payload::Datagram(Heard { packet: Packet::Blocks { range, .. }, .. })
                | Payload::Datagram(Heard { packet: Packet::Symbols { positions: range, .. }, .. }) => {
                    self.carry_run(now, cable, flight, range.clone());
                }
                _ => self.put_on(now, cable, flight),
            }
        }
    }

    /// Puts one packet on a cable.
    fn put_on(&mut self, now: Instant, cable: usize, flight: &Flight) {
        self.graph.begin_super_packet(cable);
        for arrival in self.graph.carry(now, cable, self.len(&flight.payload)).into_iter().flatten() {
            self.due.push((arrival.at, Due::Hop(cable, Box::new(flight.clone()))));
        }
    }

    /// Puts the packets of a run on a cable. Those that arrive one after the other arrive together, with the last of them.
    fn carry_run(&mut self, now: Instant, cable: usize, flight: &Flight, run: Range<u64>) {
        self.graph.begin_super_packet(cable);
        let mut open: Option<(Instant, Range<u64>)> = None;
        for block in each(&run, self.sizes.block_len) {
            let len = (block.end - block.start) as usize + self.sizes.headers;
            let [first, again] = self.graph.carry(now, cable, len);
            open = match (first, open) {
                (Some(one), Some((_, piece))) if one.is_in_order => Some((one.at, piece.start..block.end)),
                (Some(one), None) if one.is_in_order => Some((one.at, block.clone())),
                (one, piece) => {
                    self.arrive_in_part(cable, flight, &run, piece);
                    self.arrive_in_part(cable, flight, &run, one.map(|one| (one.at, block.clone())));
                    None
                }
            };
            if let Some(again) = again {
                // What came before it still does.
                self.arrive_in_part(cable, flight, &run, open.take());
                self.arrive_in_part(cable, flight, &run, Some((again.at, block)));
            }
        }
        self.arrive_in_part(cable, flight, &run, open);
    }

    fn arrive_in_part(
        &mut self,
        cable: usize,
        flight: &Flight,
        run: &Range<u64>,
        piece: Option<(Instant, Range<u64>)>,
    ) {
        let Some((arrival, piece)) = piece else { return };
        let mut flight = flight.clone();
        if let Payload::Datagram(heard) = &mut flight.payload {
            heard.number += ((piece.start - run.start) / u64::from(self.sizes.block_len)) as u32;
            if let Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } = &mut heard.packet
            {
                *range = piece;
            }
        }
        self.due.push((arrival, Due::Hop(cable, Box::new(flight))));
    }

    /// The length of a packet that is no run, in bytes of IP.
    fn len(&self, payload: &Payload) -> usize {
        match payload {
            Payload::Datagram(heard) => heard.packet.len(self.sizes),
            Payload::Raw(packet, _) => packet.len(),
            Payload::Membership(said) => said.len(),
            Payload::Acknowledgement(..) => tcp::ACKNOWLEDGEMENT_BYTES,
            Payload::Segment(_, _, segment) => {
                tcp::HEADERS
                    + match &segment.data {
                        Said::Close => 0,
                        Said::Packet(Packet::Message(bytes)) => bytes.len(),
                        // No connection carries pages.
                        Said::Packet(Packet::Page(..)) => 0,
                        Said::Packet(
                            Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. },
                        ) => (range.end - range.start) as usize + HEADER_LEN,
                    }
            }
        }
    }
}

impl Names {
    /// The next hop of packets that leave a node for an address.
    fn next_hop(&self, graph: &mut Graph, node: usize, to: Ipv6Addr) -> Option<NextHop> {
        let there = *self.nodes.get(&to)?;
        let first = *graph.next(node, To::Node(there)).first()?;
        let mut at = graph.end(first);
        // A switch has no address.
        while at != there && !self.routers.contains_key(&at) {
            let next = *graph.next(at, To::Node(there)).first()?;
            at = graph.end(next);
        }
        let gateway = if at == there { None } else { self.routers.get(&at).copied() };
        Some(NextHop { interface: first as u32, gateway })
    }
}

fn names(explicit: &Explicit, placed: &Placed) -> Names {
    let mut nodes = BTreeMap::from([(explicit.sender, placed.sender)]);
    nodes.extend(explicit.receivers.iter().copied().zip(placed.receivers.iter().copied()));
    let mut routers = BTreeMap::new();
    for router in &explicit.routers {
        nodes.extend(router.addresses.iter().map(|address| (*address, router.node)));
        routers.extend(router.addresses.first().map(|address| (router.node, *address)));
    }
    Names { nodes, routers }
}

fn speakers(explicit: &Explicit) -> BTreeMap<usize, Speaker> {
    let speaking = explicit.routers.iter().filter(|router| router.speaks);
    speaking.filter_map(|router| Some((router.node, Speaker::new(&router.addresses)?))).collect()
}

/// The blocks of a run.
fn each(run: &Range<u64>, block_len: u16) -> impl Iterator<Item = Range<u64>> + use<> {
    let (end, block_len) = (run.end, u64::from(block_len));
    run.clone().step_by(block_len as usize).map(move |start| start..end.min(start + block_len))
}
