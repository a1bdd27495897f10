//! The treatment of a packet by a MEADcast router (meadcast-thesis-2024, 2.1.4, 4.2 and 5.2.4).
//!
//! [`Router::forward`] is one packet in and packets out, with nothing remembered between two of them. It is the whole of
//! the router where eBPF may not be loaded, and the model that `bpf/mead.bpf.c` is tested against.
//!
//! The rules, for a data packet:
//! - A router that is named in the list and not delivered yet is *own* or not. What is behind an own one, or behind one with
//!   fewer receivers than `min_dsts`, becomes unicast: one packet each, without routing header. The others get a replica in
//!   which theirs is the only bit of the delivery map. Replicas go first, each kind in the order of the list.
//! - A replica is addressed to the first receiver behind its router; when the packet came addressed to a router, to its
//!   router (5.2.4: a router that fails to act then shows no receiver's address to another).
//! - While the don't-replicate counter is more than 0, there are no replicas: what is not own leaves in one packet, with one
//!   taken off. It keeps its destination unless that was this router or behind it.
//! - A router named without receivers is *designated*: when the packet names a group, it sends one packet to that on each
//!   of its links with listeners, but not back to the link that the packet came from. Those go before the unicast ones.
//! - What has another routing header behind its own is malformed: routers would copy the copies again. So is a list with an
//!   address twice.
//! - Copies are made for senders that the [`Guard`] admits. What comes by a wrong way ends here; all else that it refuses goes on as if
//!   there were no router.
//! - Each copy has counted one more hop, at most 63, and has one less of hop limit. The checksum of UDP, TCP or ICMPv6
//!   is right for the destination that it has.
//!
//! Where this differs from the thesis: a data packet in which nothing is left to deliver is dropped rather than passed
//! on to a receiver that has had it, and the reserved octet of the header leaves as 0.
#![warn(missing_docs)]

mod departure;
mod discovery;
mod guard;
mod rewrite;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_wire::{
    ipv6::{self, is_forwardable, next_header},
    mead::{Dialect, FIXED_LEN, Header, Kind, MAX_HOPS, MAX_OPTIONS_LEN, Malformed, Map, Options, Reason},
};

pub use self::{
    departure::{Act, Departure},
    discovery::{LIMITS, Request},
    guard::{CopyLimiter, Guard, NextHop, NoPrefix, Prefix, Refused, ReversePath, Routes},
};
use self::{guard::Admitted, rewrite::Packet};
use crate::explicit::list_proof::{self, Listed};

/// The length of the longest discovery request that a router answers: headers, one address, options. The kernel
/// forwards a longer one as any packet, without an answer.
pub const MAX_REQUEST_LEN: usize = ipv6::HEADER_LEN + FIXED_LEN + 16 + MAX_OPTIONS_LEN;

/// The settings of a router, and what it knows of its links. The default router does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Router {
    /// Whether the router acts on packets at all.
    pub is_enabled: bool,
    /// Whether the router acts on data only, and treats discovery as if it did not know it, so that senders
    /// find other routers.
    pub is_leaving: bool,
    /// The number of receivers below which the packet for a router becomes unicast here already (premature
    /// unicast). 0 and 1: this never happens.
    pub min_dsts: u8,
    /// The dialect in which the router reads and writes headers.
    pub dialect: Dialect,
    /// All addresses of the router, on all interfaces.
    pub own: BTreeSet<Ipv6Addr>,
    /// The groups that hosts on the router's links listen to, each with the numbers of these links' interfaces.
    pub groups: BTreeMap<Ipv6Addr, BTreeSet<u32>>,
    /// The rules that say for which senders the router makes copies.
    pub guard: Guard,
}

/// The treatment of a packet by the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel forwards the packet unchanged. The packet is not MEADcast, or it is a response, or the kernel
    /// has an answer to it (hop limit).
    Pass,
    /// These packets leave instead, in this order. There are none when the routers named have no receivers.
    Forward(Vec<Outgoing>),
    /// The packet is a discovery request. The kernel forwards it with one more hop counted, and the router
    /// answers it.
    Request {
        /// The packet with one more hop; its hop limit is the kernel's business.
        passed_on: Vec<u8>,
        /// The request that was answered.
        request: Request,
    },
    /// The router drops the packet.
    Drop(Dropped),
    /// The router makes no copies of the packet. It drops it or leaves it to the kernel unchanged
    /// ([`Refused::ends_here`]).
    Refuse(Refused),
}

/// A packet that leaves in place of one that arrived. `Kind` is MEADcast's or another protocol's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing<Kind = OutgoingKind> {
    /// The kind of the packet, for the counters.
    pub kind: Kind,
    /// The bytes of the packet, from its IPv6 header on.
    pub packet: Vec<u8>,
    /// The interface by which the packet has to leave. None: it leaves where routes lead.
    pub interface: Option<u32>,
}

/// The kinds of packets that a router makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutgoingKind {
    /// A MEADcast packet for one router.
    Replica,
    /// A MEADcast packet for all routers that are left, which is not replicated yet.
    Whole,
    /// A unicast packet for one receiver behind this router (M2U).
    Unicast,
    /// A unicast packet for one receiver behind another router, which has too few receivers for a copy of its
    /// own.
    Premature,
    /// A multicast packet for all listeners on one of this router's links, in place of a unicast packet for each.
    Multicast,
}

/// The reason why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The packet breaks a rule of the header.
    Malformed(Reason),
    /// The packet was addressed to this router with a hop limit of 1 or less, so it cannot be forwarded.
    HopLimit,
    /// No router in the packet's list is left to be served.
    NothingToDeliver,
    /// The packet was for the listeners on this router's links alone, and there are none.
    NoListener,
}

impl Router {
    /// Decides what to do with a packet that came by an interface. `packet` begins with the IPv6 header; bytes
    /// after its payload are the padding of a frame. `routes` are the host's routes.
    pub fn forward(&self, packet: &[u8], interface: u32, routes: &mut Routes<'_>) -> Outcome {
        let Some((ip, payload)) = self.is_enabled.then(|| routing_header(packet, self.dialect)).flatten()
        else {
            return Outcome::Pass;
        };
        match self.read(ip, payload) {
            Ok(packet) if packet.header.kind == Kind::Response => Outcome::Pass,
            Ok(packet) => self.act(packet, interface, routes),
            Err(malformed) => Outcome::Drop(Dropped::Malformed(malformed.reason())),
        }
    }

    /// Whether a packet that is malformed here would be right in the other dialect, so that its sender seems to
    /// speak that one.
    pub fn is_of_other_dialect(&self, packet: &[u8]) -> bool {
        let other = self.dialect.other();
        let payload = routing_header(packet, other).map(|(_, payload)| payload);
        payload.is_some_and(|payload| {
            Header::parse(payload, self.dialect).is_err() && Header::parse(payload, other).is_ok()
        })
    }

    /// Returns the discovery request in a packet that [`Router::forward`] has passed on as one. None: the
    /// packet is no longer a request to this router.
    pub fn request_in(&self, packet: &[u8]) -> Option<Request> {
        let (ip, payload) = routing_header(packet, self.dialect)?;
        let packet = self.read(ip, payload).ok().filter(|packet| packet.header.kind == Kind::Request)?;
        match self.request(packet) {
            Outcome::Request { request, .. } if self.is_enabled => Some(request),
            _ => None,
        }
    }

    /// A response's options are nobody's business here.
    fn read<'a>(&self, ip: ipv6::Header, payload: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let (header, rest) = Header::parse(payload, self.dialect)?;
        let is_read = header.kind != Kind::Response;
        let has_options = is_read && header.next_header == next_header::DESTINATION_OPTIONS;
        let options = if has_options { Some(Options::parse(rest)?) } else { None };
        if is_read {
            header.check_rest(rest)?;
        }
        Ok(Packet::new(ip, header, rest, options, self.dialect))
    }

    fn act(&self, packet: Packet<'_>, interface: u32, routes: &mut Routes<'_>) -> Outcome {
        let proof = packet.options.list_proof.as_ref();
        match (self.guard.admit(&listed(&packet), proof, interface, routes), packet.header.kind) {
            (Err(refused), _) => Outcome::Refuse(refused),
            (Ok(_), Kind::Request) => self.request(packet),
            (Ok(admitted), _) => self.data(&packet, interface, admitted),
        }
    }

    fn request(&self, packet: Packet<'_>) -> Outcome {
        // A router at the 64th hop has no number, and one that is the receiver is on no way to it.
        let is_short = packet.len() <= MAX_REQUEST_LEN;
        if self.is_leaving
            || packet.header.hops >= MAX_HOPS
            || !is_short
            || self.own.contains(&packet.ip.destination)
        {
            return Outcome::Pass;
        }
        let (request, passed_on) = Request::of(packet);
        Outcome::Request { passed_on, request }
    }

    fn data(&self, packet: &Packet<'_>, interface: u32, admitted: Admitted) -> Outcome {
        let Packet { ip, header, .. } = packet;
        let is_here = self.own.contains(&ip.destination);
        let undelivered = header.delivery;
        if undelivered.is_empty() {
            return Outcome::Drop(Dropped::NothingToDeliver);
        }
        if ip.hop_limit <= 1 {
            return if is_here { Outcome::Drop(Dropped::HopLimit) } else { Outcome::Pass };
        }
        let own: Map =
            undelivered.iter().filter(|router| self.own.contains(&header.addresses[*router])).collect();
        let others: Map = undelivered.iter().filter(|router| !own.contains(*router)).collect();
        let (mut copies, premature) = match header.dont_replicate {
            0 => self.replicas(packet, others, is_here),
            _ => (self.whole(packet, others, is_here || !own.is_empty()).into_iter().collect(), Map::EMPTY),
        };
        let is_designated =
            |router: &usize| packet.options.group.is_some() && header.receivers_of(*router).is_empty();
        let designated = own.iter().find(is_designated);
        if admitted.may_multicast {
            copies.extend(designated.iter().flat_map(|router| self.multicast(packet, *router, interface)));
        }
        for router in premature.iter().fold(own, Map::with).iter() {
            let kind = if own.contains(router) { OutgoingKind::Unicast } else { OutgoingKind::Premature };
            let receivers = header.receivers_of(router);
            let unicast = |receiver| Outgoing { kind, packet: packet.unicast(receiver), interface: None };
            copies.extend(receivers.map(unicast));
        }
        match designated {
            Some(_) if copies.is_empty() => Outcome::Drop(Dropped::NoListener),
            _ => Outcome::Forward(copies),
        }
    }

    /// A packet for each router but those that are done without, and which those are.
    fn replicas(&self, packet: &Packet<'_>, others: Map, is_here: bool) -> (Vec<Outgoing>, Map) {
        let Packet { ip, header, options, .. } = packet;
        let by_router = is_here || names_router(header, ip.destination);
        let receivers = |router: &usize| header.receivers_of(*router).len();
        let is_premature = |router: &usize| (1..self.min_dsts.into()).contains(&receivers(router));
        let (premature, replicas): (Vec<_>, Vec<_>) = others
            .iter()
            .filter(|router| options.group.is_some() || receivers(router) > 0)
            .partition(is_premature);
        let replica = |router| Outgoing {
            kind: OutgoingKind::Replica,
            packet: packet.replica(Map::of(router), 0, target(header, router, by_router)),
            interface: None,
        };
        (replicas.into_iter().map(replica).collect(), premature.into_iter().collect())
    }

    /// A packet to the group for each link with listeners, with the port of the designated router's place.
    fn multicast(&self, packet: &Packet<'_>, designated: usize, arrived: u32) -> Vec<Outgoing> {
        let group = packet.options.group.and_then(|group| self.groups.get_key_value(&group));
        let Some((group, interfaces)) = group else { return Vec::new() };
        let copy = |interface: &u32| Outgoing {
            kind: OutgoingKind::Multicast,
            packet: packet.addressed(*group, designated),
            interface: Some(*interface),
        };
        interfaces.iter().filter(|interface| **interface != arrived).map(copy).collect()
    }

    /// One packet for all that is left; to another destination when its own is served or reached.
    fn whole(&self, packet: &Packet<'_>, others: Map, is_moved: bool) -> Option<Outgoing> {
        let Packet { ip, header, .. } = packet;
        let first = others.iter().next()?;
        let by_router = self.own.contains(&ip.destination) || names_router(header, ip.destination);
        let destination = if is_moved { target(header, first, by_router) } else { ip.destination };
        let packet = packet.replica(others, header.dont_replicate - 1, destination);
        Some(Outgoing { kind: OutgoingKind::Whole, packet, interface: None })
    }
}

/// The header and payload of a packet that has one of MEADcast's routing headers and can be forwarded.
fn routing_header(packet: &[u8], dialect: Dialect) -> Option<(ipv6::Header, &[u8])> {
    let (ip, payload) = ipv6::Header::parse(packet).ok()?;
    let is_ours = ip.next_header == next_header::ROUTING
        && payload.get(2).is_some_and(|kind| Header::is_routing_type(*kind, dialect))
        && is_forwardable(ip.source)
        && is_forwardable(ip.destination);
    is_ours.then_some((ip, payload))
}

/// The part of a packet that the proof of its list covers.
fn listed<'a>(packet: &'a Packet<'_>) -> Listed<'a> {
    let is_request = packet.header.kind == Kind::Request;
    Listed {
        kind: if is_request { list_proof::Kind::Request } else { list_proof::Kind::Mead },
        source: packet.ip.source,
        group: packet.options.group.unwrap_or(Ipv6Addr::UNSPECIFIED),
        routers: if is_request { Map::EMPTY } else { packet.header.routers },
        addresses: &packet.header.addresses,
    }
}

fn names_router(header: &Header, address: Ipv6Addr) -> bool {
    header.routers.iter().any(|router| header.addresses[router] == address)
}

/// The address to which a copy for the router at this place goes.
fn target(header: &Header, router: usize, by_router: bool) -> Ipv6Addr {
    let first = header.receivers_of(router).next().filter(|_| !by_router);
    header.addresses[first.unwrap_or(router)]
}
