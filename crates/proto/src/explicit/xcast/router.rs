//! The treatment of a packet by an Xcast router (RFC 5058, 9, 10.1 and 11.2).
//!
//! [`forward`] is one packet in and packets out, with nothing remembered between two of them. It is the whole of the router where
//! eBPF may not be loaded, and the model that `bpf/mead.bpf.c` is tested against. The router is MEADcast's, with the same
//! settings; Xcast is known to it in our own dialect only, for the other one uses both routing types.
//!
//! The rules:
//! - Destinations whose bit is set are *valid*. Each next hop gets one copy with the valid destinations
//!   behind it; the others' bits are cleared, and with the A bit their addresses, too. Copies leave first, in
//!   the order of their first destinations, then what is for listeners, and then what is unicast, in the
//!   order of the list.
//! - A copy for one destination becomes unicast (X2U), with its own port where the packet has a list; with
//!   the X bit it stays Xcast. A copy for fewer than `min_dsts` becomes unicast for each (premature X2U,
//!   11.2), but not with the X bit.
//! - What came to the Ethernet group of all Xcast routers on a link has come to each of them. A router then
//!   serves the destinations that it would forward to from there by another link, and itself. A destination
//!   with a route back to the link, or none, is left to another router or to the sender, and no ICMPv6
//!   answers for them (RFC 4443, 2.4).
//! - What has no route goes the kernel's own way as unicast, which answers it. What is for the router itself
//!   has arrived: it becomes unicast, whatever the X bit says; or, when the channel is a multicast group
//!   (Xcast+), one packet to the group on each link with listeners (X2M), but not back to the link that the
//!   packet came from.
//! - What has another routing header behind its own is malformed: routers would copy the copies again. So is
//!   a list with a valid destination twice, whatever its ports.
//! - Copies are made for senders that the router's guard admits, as with MEADcast. A packet whose
//!   source's route does not lead to where it came from does not become multicast, unless nothing of the kind
//!   is asked.
//! - Each copy has one less of hop limit. The checksum of UDP, TCP or ICMPv6 is right for the destination
//!   that it has.
#![warn(missing_docs)]

use std::{collections::BTreeMap, net::Ipv6Addr};

pub use crate::explicit::mead::router::NextHop;

use treecast_wire::{
    ipv6::{self, has_routing_header, is_forwardable, next_header},
    list_proof::OPTION_LEN,
    mead::{Dialect, Map},
    xcast::{Header, MAX_DESTINATIONS, Malformed, Options, ROUTING_TYPE, Reason, is_all_xcast_routers},
};

use crate::{
    explicit::{
        list_proof::{Kind, ListKey, Listed},
        mead::router::{self, Refused, Router, Routes},
    },
    membership::is_routable_group,
    payload::Payload,
};

/// The way by which a packet has reached the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The interface by which the packet came.
    pub interface: u32,
    /// Whether the packet's Ethernet frame was addressed to all Xcast routers on the link, and not to this one
    /// alone.
    pub is_for_all: bool,
}

/// The treatment of a packet by the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel forwards the packet unchanged. The packet is not Xcast, or the kernel has an answer to it
    /// (hop limit).
    Pass,
    /// These packets leave instead, in this order.
    Forward(Vec<Outgoing>),
    /// The router drops the packet.
    Drop(Dropped),
    /// The router makes no copies of the packet. It drops it or leaves it to the kernel unchanged
    /// ([`Refused::ends_here`]).
    Refuse(Refused),
}

/// A packet that leaves in place of the one that arrived.
pub type Outgoing = router::Outgoing<OutgoingKind>;

/// The kinds of packets that an Xcast router makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutgoingKind {
    /// An Xcast packet.
    Copy,
    /// A unicast packet for the one destination that was left (X2U).
    Unicast,
    /// A unicast packet for one of the destinations that were left, which were too few for an Xcast packet.
    Premature,
    /// A unicast packet for this router itself.
    Local,
    /// A unicast packet for a destination to which there is no route.
    Unrouted,
    /// A multicast packet for all listeners on a link (X2M).
    Multicast,
}

/// The reason why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The packet breaks a rule of the header.
    Malformed(Reason),
    /// The packet was addressed to this router with a hop limit of 1 or less, so it cannot be forwarded.
    HopLimit,
    /// The packet was for the listeners on this router's links alone, and there are none.
    NoListener,
    /// The packet came to all Xcast routers on a link, and this router serves none of its destinations.
    ForOthers,
}

/// Decides what to do with a packet, and asks `routes` for the paths to its destinations. `packet` begins with
/// the IPv6 header; bytes after its payload are the padding of a frame.
pub fn forward(router: &Router, packet: &[u8], arrival: Arrival, routes: &mut Routes<'_>) -> Outcome {
    let acts = router.is_enabled && router.dialect == Dialect::Rfc;
    let Some((ip, payload)) = acts.then(|| routing_header(packet)).flatten() else {
        return Outcome::Pass;
    };
    match Packet::parse(ip, payload) {
        Ok(packet) => act(router, &packet, arrival, routes),
        Err(malformed) => Outcome::Drop(Dropped::Malformed(malformed.reason())),
    }
}

fn act(router: &Router, packet: &Packet<'_>, arrival: Arrival, routes: &mut Routes<'_>) -> Outcome {
    let proof = packet.options.list_proof.as_ref();
    let admitted = router.guard.admit(&packet.listed(), proof, arrival.interface, routes);
    let may_multicast = match admitted {
        Ok(admitted) => admitted.may_multicast,
        Err(refused) => return Outcome::Refuse(refused),
    };
    let destination = packet.ip.destination;
    if packet.ip.hop_limit <= 1 {
        let is_here = router.own.contains(&destination) || is_all_xcast_routers(destination);
        return if is_here { Outcome::Drop(Dropped::HopLimit) } else { Outcome::Pass };
    }
    let Shares { copies, group, unicast } = Shares::of(router, &packet.header, arrival, routes);
    let copies = copies.into_iter().map(|places| packet.copy(places));
    let multicast = group
        .filter(|_| may_multicast)
        .into_iter()
        .flat_map(|own| packet.multicast(router, own, arrival.interface));
    let unicast = unicast.into_iter().map(|(place, kind)| packet.unicast(kind, place));
    let leaving: Vec<_> = copies.chain(multicast).chain(unicast).collect();
    match (leaving.is_empty(), group) {
        (false, _) => Outcome::Forward(leaving),
        (true, Some(_)) => Outcome::Drop(Dropped::NoListener),
        (true, None) => Outcome::Drop(Dropped::ForOthers),
    }
}

/// The valid destinations that are served together, and the way in which they are.
#[derive(Default)]
struct Shares {
    /// Destinations of each copy that stays Xcast.
    copies: Vec<Map>,
    /// The router's own place, if that stands for the group's listeners.
    group: Option<usize>,
    /// Unicast copies, by the destination's place in the list.
    unicast: BTreeMap<usize, OutgoingKind>,
}

impl Shares {
    fn of(router: &Router, header: &Header, arrival: Arrival, routes: &mut Routes<'_>) -> Self {
        let mut shares = Self::default();
        let mut behind: Vec<(NextHop, Map)> = Vec::new();
        for place in header.valid.iter() {
            let destination = header.destinations[place];
            let is_own = router.own.contains(&destination);
            let hop = (!is_own).then(|| routes(destination)).flatten();
            let leads_on = hop.is_some_and(|hop| hop.interface != arrival.interface);
            if arrival.is_for_all && !is_own && !leads_on {
                continue;
            }
            match hop {
                None if is_own && header.channel.is_multicast() => _ = shares.group.get_or_insert(place),
                None if is_own => _ = shares.unicast.insert(place, OutgoingKind::Local),
                None => _ = shares.unicast.insert(place, OutgoingKind::Unrouted),
                Some(hop) => match behind.iter_mut().find(|(other, _)| *other == hop) {
                    Some((_, places)) if hop.gateway.is_some() => *places = places.with(place),
                    _ => behind.push((hop, Map::of(place))),
                },
            }
        }
        for (_, places) in behind {
            let kind = match places.len() {
                _ if header.stays_xcast => None,
                1 => Some(OutgoingKind::Unicast),
                count if count < router.min_dsts.into() => Some(OutgoingKind::Premature),
                _ => None,
            };
            match kind {
                Some(kind) => shares.unicast.extend(places.iter().map(|place| (place, kind))),
                None => shares.copies.push(places),
            }
        }
        shares
    }
}

/// Returns the packets that a sender's multicast packet becomes at the router on its link, when these routers
/// have registered for its channel (M2X). They go to these routers, have at most `mtu` bytes where that can
/// be, and name the group as channel identifier. With the X bit they stay Xcast until they are where the
/// listeners are. None, when it is no IPv6 packet to a group that is to leave its link, or has a routing
/// header already. With a key and an epoch the lists carry proofs.
pub fn encapsulate(
    packet: &[u8],
    routers: &[Ipv6Addr],
    mtu: usize,
    lists: Option<(ListKey, u64)>,
) -> Vec<Vec<u8>> {
    let Ok((ip, payload)) = ipv6::Header::parse(packet) else { return Vec::new() };
    let is_ours = is_routable_group(ip.destination.into()) && ip.hop_limit > 1;
    if !is_ours || has_routing_header(ip.next_header, payload) {
        return Vec::new();
    }
    let room = mtu.saturating_sub(ipv6::HEADER_LEN + payload.len());
    let options_len = if lists.is_some() { PROOF_HEADER_LEN } else { 0 };
    let fits = |count: &usize| treecast_wire::xcast::len(*count) + options_len <= room;
    let most = (1..=MAX_DESTINATIONS).rev().find(fits).unwrap_or(1);
    let is_short = payload.len() + treecast_wire::xcast::len(most) + options_len <= u16::MAX.into();
    let rest = Payload::new(ip.next_header, payload, None);
    let packet = |routers: &[Ipv6Addr]| {
        let header = Header::new(ip.next_header, ip.destination, routers.to_vec()).ok()?;
        let header = Header { stays_xcast: true, ..header };
        let bytes = with_options(header, Options::default(), lists.map(|lists| (lists, ip.source)));
        Some(rest.wrapped(&bytes, &ip, routers[0]))
    };
    routers.chunks(most).filter(|_| is_short).filter_map(packet).collect()
}

/// A Destination Options header with a proof and nothing else, in bytes.
const PROOF_HEADER_LEN: usize = (2 + OPTION_LEN).next_multiple_of(8);

/// A routing header with the options behind it, and with a proof of its list, if there are a key, an epoch and a source.
pub(crate) fn with_options(
    header: Header,
    options: Options,
    lists: Option<((ListKey, u64), Ipv6Addr)>,
) -> Vec<u8> {
    let list_proof = lists.map(|((key, epoch), source)| key.prove(epoch, &listed(&header, source)));
    let options = Options { list_proof, ..options }.to_bytes(header.next_header);
    let next_header = if options.is_empty() { header.next_header } else { next_header::DESTINATION_OPTIONS };
    [Header { next_header, ..header }.to_bytes(), options].concat()
}

/// The part of a packet that the proof of its list covers.
fn listed(header: &Header, source: Ipv6Addr) -> Listed<'_> {
    let (group, routers) = (header.channel, Map::EMPTY);
    Listed { kind: Kind::Xcast, source, group, routers, addresses: &header.destinations }
}

/// A packet in its parts.
struct Packet<'a> {
    ip: ipv6::Header,
    header: Header,
    options: Options,
    payload: Payload<'a>,
}

impl<'a> Packet<'a> {
    fn parse(ip: ipv6::Header, payload: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(payload)?;
        let (mut options, mut ours) = (Options::default(), None);
        if header.next_header == next_header::DESTINATION_OPTIONS {
            // Those that say nothing to us belong to the payload.
            let (said, next, len) = Options::parse(rest, header.destinations.len())?;
            ours = (!said.is_empty()).then_some((next, len));
            options = said;
        }
        header.check_rest(rest)?;
        let payload = Payload::new(header.next_header, rest, ours);
        Ok(Self { ip, header, options, payload })
    }

    fn listed(&self) -> Listed<'_> {
        listed(&self.header, self.ip.source)
    }

    /// The copy for these destinations, which are behind one next hop.
    fn copy(&self, places: Map) -> Outgoing {
        let header = self.header.only(places);
        let destination = header.valid_destinations().next().expect("a share has one");
        let packet = self.payload.behind(&header.to_bytes(), &self.ip, destination);
        Outgoing { kind: OutgoingKind::Copy, packet, interface: None }
    }

    fn unicast(&self, kind: OutgoingKind, place: usize) -> Outgoing {
        let packet = self.addressed(self.header.destinations[place], place);
        Outgoing { kind, packet, interface: None }
    }

    /// A packet to the group for each link with listeners, with the port of the router's place.
    fn multicast(&self, router: &Router, own: usize, arrived: u32) -> Vec<Outgoing> {
        let group = self.header.channel;
        let interfaces = router.groups.get(&group).into_iter().flatten();
        let copy = |interface: &u32| Outgoing {
            kind: OutgoingKind::Multicast,
            packet: self.addressed(group, own),
            interface: Some(*interface),
        };
        interfaces.filter(|interface| **interface != arrived).map(copy).collect()
    }

    fn addressed(&self, destination: Ipv6Addr, place: usize) -> Vec<u8> {
        let port = self.options.ports.as_ref().map(|ports| ports[place]);
        self.payload.unwrapped(&self.ip, destination, port)
    }
}

/// The header and payload of a packet that has Xcast's routing header and can be forwarded.
fn routing_header(packet: &[u8]) -> Option<(ipv6::Header, &[u8])> {
    let (ip, payload) = ipv6::Header::parse(packet).ok()?;
    let is_ours = ip.next_header == next_header::ROUTING
        && payload.get(2) == Some(&ROUTING_TYPE)
        && is_forwardable(ip.source)
        && (is_forwardable(ip.destination) || is_all_xcast_routers(ip.destination));
    is_ours.then_some((ip, payload))
}
