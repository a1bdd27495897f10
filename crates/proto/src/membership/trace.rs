//! A router's answers to Mtrace2 (RFC 8487). It turns a client's query into a request, adds a block about
//! itself to each request, and passes it on to the router that the source's packets come from. The last
//! router replies to the client.
//!
//! The machine remembers nothing of a trace but the numbers of recent queries. What it says comes from
//! [`Surroundings`]: the routes, the router's machine and the kernel's counts.
//!
//! # Who may ask
//!
//! A reply is longer than a query, and goes to the address that the query names. So the machine follows RFC 8487,
//! sections 4.1.1, 4.2.1 and 9.2:
//!
//! - A query counts only if its source is the client's address, and that is an address of the link where it came.
//! - A query or request to this router's own address must have a hop limit of 255, so no router has forwarded it
//!   (RFC 5082).
//! - A request must come from an address of its link, and have the block of another router.
//! - There are at most [`LIMITS`] answers for one client, for its network, and for all.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use treecast_wire::{
    igmp, mld,
    mtrace2::{Block, ForwardingCode, Header, Interfaces, Kind, Message, StandardBlock},
};

use super::{LinkId, Passing, is_routable_group};
use crate::{
    Instant,
    limiter::{Limiter, Limits, Rate},
};

/// The number of replies and requests that a router sends because of others' messages.
pub const LIMITS: Limits = Limits {
    in_all: Rate { per_second: 100, at_once: 200 },
    of_network: Rate { per_second: 50, at_once: 100 },
    of_sender: Rate { per_second: 20, at_once: 60 },
    remembered: 256,
};

/// The length of the longest message in bytes. It fits into the smallest MTU of IPv6, so no reply is a fragment.
pub const MAX_LEN: usize = 1280 - 48;

/// The hop limit of messages to neighbours, which shows that no router has forwarded them.
pub const HOP_LIMIT: u8 = 255;

/// The time for which a repeated query is ignored.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The largest number of queries that are remembered. Beyond it, the oldest is forgotten.
const MAX_REMEMBERED: usize = 256;

/// IANAipRouteProtocol (RFC 2932): a route that the machine does not know the origin of, and one to a neighbour.
const OTHER_PROTOCOL: u16 = 1;
const LOCAL_PROTOCOL: u16 = 2;

/// IANAipMRouteProtocol: IGMP or MLD only.
const IGMP_ONLY: u16 = 10;

/// The surroundings of the machine: the host's links and routes, and the router's forwarding.
pub trait Surroundings {
    /// Whether a neighbour on the link can have this address.
    fn is_neighbour(&self, link: LinkId, address: IpAddr) -> bool;

    /// The address by which others reach this router on the link; for IPv6 a global one, if it has one.
    fn address(&self, link: LinkId) -> Option<IpAddr>;

    /// The way that packets come from `source`. Without a source: the way of any-source groups.
    fn upstream(&mut self, source: Option<IpAddr>) -> Upstream;

    /// The treatment of packets to `group` at `link`; see [`super::Router::passing`].
    fn passing(&self, link: LinkId, source: Option<IpAddr>, group: Option<IpAddr>) -> Passing;

    /// The numbers of multicast packets that came in by a link, and that left by it.
    fn packets(&self, link: LinkId) -> Option<(u64, u64)>;

    /// The number of packets from `source` to `group` that were forwarded.
    fn packets_of(&self, source: IpAddr, group: IpAddr) -> Option<u64>;
}

/// The way that packets come from a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// The source is a neighbour on this link.
    Neighbour(LinkId),
    /// The source's packets come from this router on the link.
    Router(LinkId, IpAddr),
    /// The packets come by this link, from a router that is not known.
    Link(LinkId),
    /// The source is this host itself.
    Here,
    /// The route leads to an interface that the router does not route to or from.
    NotRouted,
    /// There is no route.
    Unknown,
}

impl Upstream {
    fn link(self) -> Option<LinkId> {
        match self {
            Self::Neighbour(link) | Self::Router(link, _) | Self::Link(link) => Some(link),
            Self::Here | Self::NotRouted | Self::Unknown => None,
        }
    }
}

/// The circumstances in which a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The link where it came in.
    pub link: LinkId,
    pub from: IpAddr,
    /// The address that it was sent to: one of this router's own, or a group.
    pub to: IpAddr,
    pub hop_limit: u8,
    /// The time in the form of blocks: seconds of NTP modulo 2^16, and 16 bits of their fraction.
    pub time: u32,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transmit {
    /// Send this request by the link, with [`HOP_LIMIT`]. `to`: a neighbour, or `None` for all routers there.
    Request { link: LinkId, to: Option<IpAddr>, message: Message },
    /// Send this reply to the client. `from`: the router's address towards the client, if it has one.
    Reply { from: Option<IpAddr>, to: SocketAddr, message: Message },
}

/// The reason why a message was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Malformed,
    /// A router has forwarded the message, or the sender is not a neighbour, or not the client of its query.
    NotFromNeighbour,
    /// Another router serves the client.
    NotLastHop,
    /// The same query came a short time ago.
    Repeated,
    /// A request that has passed as many routers as it may.
    TooFar,
    /// More messages came than [`LIMITS`] allow.
    TooMany,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "trace: malformed",
            Self::NotFromNeighbour => "trace: not from a neighbour",
            Self::NotLastHop => "trace: for another router",
            Self::Repeated => "trace: repeated",
            Self::TooFar => "trace: too many hops",
            Self::TooMany => "trace: too many",
        })
    }
}

/// A router's answers to Mtrace2, of one address family.
#[derive(Debug)]
pub struct Tracer {
    /// Whether the router tells nothing but that traces are prohibited.
    is_prohibited: bool,
    limiter: Limiter,
    /// The queries of the last seconds, the oldest first.
    recent: VecDeque<(Instant, IpAddr, u16)>,
}

impl Tracer {
    /// Creates the machine. With `is_prohibited`, its only answer is that traces are not allowed.
    pub fn new(is_prohibited: bool) -> Self {
        Self { is_prohibited, limiter: Limiter::new(LIMITS), recent: VecDeque::new() }
    }

    /// Takes a datagram that came to Mtrace2's port. Returns what is to be sent: one message, or two if the first
    /// one has become too long.
    ///
    /// # Errors
    /// If nothing is to be sent.
    pub fn handle(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        bytes: &[u8],
        around: &mut impl Surroundings,
    ) -> Result<Vec<Transmit>, Refusal> {
        let message = Message::parse(bytes).map_err(|_| Refusal::Malformed)?;
        if !has_room(&message) {
            return Err(Refusal::Malformed);
        }
        match message.kind {
            Kind::Query => self.query(now, arrival, message, around),
            Kind::Request => self.request(now, arrival, message, around),
            Kind::Reply => Err(Refusal::Malformed),
        }
    }

    /// RFC 8487, section 4.1: a query becomes a request if this is the router that serves the client.
    fn query(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        message: Message,
        around: &mut impl Surroundings,
    ) -> Result<Vec<Transmit>, Refusal> {
        let header = message.header;
        let is_queries_only = message.blocks.iter().all(|block| matches!(block, Block::ExtendedQuery { .. }));
        if !is_queries_only {
            return Err(Refusal::Malformed);
        }
        if arrival.from != header.client() || !came_from_neighbour(arrival, around) {
            return Err(Refusal::NotFromNeighbour);
        }
        self.forget(now);
        let key = (header.client(), header.query_id);
        if self.recent.iter().any(|(_, client, id)| (*client, *id) == key) {
            return Err(Refusal::Repeated);
        }
        // Before the routes are looked up, which costs more than all else.
        self.admit(now, header.client())?;
        let is_last_hop = serves(arrival.link, &header, around);
        if !is_last_hop && arrival.to.is_multicast() {
            return Err(Refusal::NotLastHop);
        }
        self.recent.push_back((now, key.0, key.1));
        if !is_last_hop {
            let block = StandardBlock::only(ForwardingCode::WrongLastHop, header.client().is_ipv4());
            return Ok(vec![reply(message, Some(block), arrival, around)]);
        }
        Ok(self.answer(Message { kind: Kind::Request, ..message }, arrival, around))
    }

    /// RFC 8487, section 4.2.1. A request to all routers of a link is for the one that would serve hosts there.
    fn request(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        message: Message,
        around: &mut impl Surroundings,
    ) -> Result<Vec<Transmit>, Refusal> {
        let passed = message.standard().count() + message.returned();
        if !came_from_neighbour(arrival, around) || arrival.hop_limit != HOP_LIMIT || passed == 0 {
            return Err(Refusal::NotFromNeighbour);
        }
        if passed >= usize::from(message.header.hops) {
            return Err(Refusal::TooFar);
        }
        self.admit(now, message.header.client())?;
        if arrival.to.is_multicast() && !serves(arrival.link, &message.header, around) {
            return Err(Refusal::NotLastHop);
        }
        Ok(self.answer(message, arrival, around))
    }

    /// RFC 8487, sections 4.2.2 to 4.4: adds the block of this router, and passes the request on or replies.
    fn answer(&self, message: Message, arrival: &Arrival, around: &mut impl Surroundings) -> Vec<Transmit> {
        let header = message.header;
        let way = around.upstream(header.source());
        let unknown_query = message
            .blocks
            .iter()
            .any(|block| matches!(block, Block::ExtendedQuery { is_transitive: false, .. }));
        let block = match (self.is_prohibited, unknown_query) {
            (true, _) => StandardBlock::only(ForwardingCode::Prohibited, header.client().is_ipv4()),
            (_, true) => StandardBlock::only(ForwardingCode::UnknownQuery, header.client().is_ipv4()),
            _ => describe(&header, way, arrival, around),
        };
        let block = match message.standard().any(|other| is_same_place(other, &block)) {
            // The routes to the source lead in a circle.
            true => StandardBlock { code: ForwardingCode::FatalError, ..block },
            false => block,
        };
        let (mut message, mut out) = (message, Vec::new());
        if message.len() + block.tlv_len() > MAX_LEN {
            let next = continuation(&message);
            mark_full(&mut message);
            out.push(reply(message, None, arrival, around));
            message = next;
        }
        let passed = message.standard().count() + message.returned() + 1;
        let upstream = match way {
            Upstream::Router(link, router) => Some((link, Some(router))),
            Upstream::Link(link) => Some((link, None)),
            Upstream::Neighbour(_) | Upstream::Here | Upstream::NotRouted | Upstream::Unknown => None,
        };
        let goes_on = passed < usize::from(header.hops) && goes_on(block.code);
        out.push(match upstream.filter(|_| goes_on) {
            Some((link, to)) => {
                message.blocks.push(Block::Standard(block));
                Transmit::Request { link, to, message }
            }
            None => reply(message, Some(block), arrival, around),
        });
        out
    }

    fn admit(&mut self, now: Instant, client: IpAddr) -> Result<(), Refusal> {
        if self.limiter.admits(now, client) { Ok(()) } else { Err(Refusal::TooMany) }
    }

    fn forget(&mut self, now: Instant) {
        let is_over = |(at, ..): &(Instant, IpAddr, u16)| now - *at >= REMEMBERED;
        while self.recent.front().is_some_and(is_over) || self.recent.len() >= MAX_REMEMBERED {
            self.recent.pop_front();
        }
    }
}

/// Whether a message has room for one standard block, if it had none yet.
fn has_room(message: &Message) -> bool {
    let empty = continuation(message);
    empty.len() + StandardBlock::only(ForwardingCode::NoError, message.header.client().is_ipv4()).tlv_len()
        <= MAX_LEN
}

/// Whether a neighbour on the link has sent the message to this router. What comes to a group of the link's scope
/// was not forwarded.
fn came_from_neighbour(arrival: &Arrival, around: &impl Surroundings) -> bool {
    let is_not_forwarded = match arrival.to.is_multicast() {
        true => !is_routable_group(arrival.to),
        false => arrival.hop_limit == HOP_LIMIT,
    };
    is_not_forwarded && around.is_neighbour(arrival.link, arrival.from)
}

/// Whether this router brings the packets of a trace to a link (RFC 8487, section 4.1.1). A router that expects
/// them from there does not.
fn serves(link: LinkId, header: &Header, around: &mut impl Surroundings) -> bool {
    let comes_by = around.upstream(header.source()).link();
    comes_by != Some(link)
        && !matches!(around.passing(link, header.source(), header.group()), Passing::NotServed)
}

/// The block of this router (RFC 8487, section 4.2.2, steps 3 to 11).
fn describe(header: &Header, way: Upstream, arrival: &Arrival, around: &impl Surroundings) -> StandardBlock {
    let is_ipv4 = header.client().is_ipv4();
    let mut block = StandardBlock::only(ForwardingCode::NoError, is_ipv4);
    block.arrival = arrival.time;
    block.packets_out = around.packets(arrival.link).map(|(_, packets_out)| packets_out);
    block.interfaces = interfaces(way, arrival.link, is_ipv4, around);
    block.code = code(header, way, arrival.link, around);
    if matches!(way, Upstream::Unknown | Upstream::NotRouted) {
        return block;
    }
    block.packets_in = way.link().and_then(|link| around.packets(link)).map(|(packets_in, _)| packets_in);
    block.packets = header.source().zip(header.group()).and_then(|(from, to)| around.packets_of(from, to));
    block.unicast_protocol = match way {
        Upstream::Router(..) | Upstream::Link(_) => OTHER_PROTOCOL,
        Upstream::Neighbour(_) | Upstream::Here | Upstream::NotRouted | Upstream::Unknown => LOCAL_PROTOCOL,
    };
    block.multicast_protocol = IGMP_ONLY;
    block.prefix_len = match (header.source(), is_ipv4) {
        (Some(_), true) => 32,
        (Some(_), false) => 128,
        (None, true) => 127,
        (None, false) => 255,
    };
    block
}

fn interfaces(way: Upstream, out: LinkId, is_ipv4: bool, around: &impl Surroundings) -> Interfaces {
    let upstream = match way {
        Upstream::Router(_, router) => Some(router),
        // RFC 8487, section 3.2.4: a group of all routers, where the router is not known.
        Upstream::Link(_) if is_ipv4 => Some(igmp::ALL_ROUTERS.into()),
        Upstream::Link(_) => Some(mld::ALL_ROUTERS.into()),
        Upstream::Neighbour(_) | Upstream::Here | Upstream::NotRouted | Upstream::Unknown => None,
    };
    let in_address = way.link().and_then(|link| around.address(link));
    let mut interfaces = Interfaces::unknown(is_ipv4);
    match &mut interfaces {
        Interfaces::V4 { incoming, outgoing, upstream: router, hop_limit } => {
            let v4 = |address: Option<IpAddr>| match address {
                Some(IpAddr::V4(address)) => Some(address),
                _ => None,
            };
            *incoming = v4(in_address).unwrap_or(*incoming);
            *outgoing = v4(around.address(out)).unwrap_or(*outgoing);
            *router = v4(upstream).unwrap_or(*router);
            *hop_limit = 1;
        }
        Interfaces::V6 { incoming, outgoing, local, upstream: router } => {
            let v6 = |address: Option<IpAddr>| match address {
                Some(IpAddr::V6(address)) => Some(address),
                _ => None,
            };
            (*incoming, *outgoing) = (way.link().map_or(0, |link| link.0), out.0);
            *local = v6(around.address(out)).or(v6(in_address)).unwrap_or(*local);
            *router = v6(upstream).unwrap_or(*router);
        }
    }
    interfaces
}

fn code(header: &Header, way: Upstream, out: LinkId, around: &impl Surroundings) -> ForwardingCode {
    match way {
        Upstream::Unknown => return ForwardingCode::NoRoute,
        Upstream::NotRouted => return ForwardingCode::NoMulticast,
        Upstream::Neighbour(_) | Upstream::Router(..) | Upstream::Link(_) | Upstream::Here => {}
    }
    if way.link() == Some(out) {
        return ForwardingCode::ReversePathInterface;
    }
    match around.passing(out, header.source(), header.group()) {
        Passing::Forwarded => ForwardingCode::NoError,
        Passing::NotWanted => ForwardingCode::NotForwarding,
        Passing::NotServed => ForwardingCode::WrongInterface,
        Passing::OutOfScope => ForwardingCode::Scoped,
    }
}

/// Whether two blocks are of the same router and its same interface towards the client.
fn is_same_place(one: &StandardBlock, other: &StandardBlock) -> bool {
    let outgoing = |block: &StandardBlock| match block.interfaces {
        Interfaces::V4 { .. } => 0,
        Interfaces::V6 { outgoing, .. } => outgoing,
    };
    let router = one.interfaces.router();
    router.is_some() && router == other.interfaces.router() && outgoing(one) == outgoing(other)
}

/// Whether a request goes on behind a router that says this. A router that does not forward now may still know the
/// way (RFC 8487, section 4.2.2).
fn goes_on(code: ForwardingCode) -> bool {
    matches!(code, ForwardingCode::NoError | ForwardingCode::NotForwarding)
}

fn reply(
    mut message: Message,
    block: Option<StandardBlock>,
    arrival: &Arrival,
    around: &impl Surroundings,
) -> Transmit {
    message.kind = Kind::Reply;
    message.blocks.extend(block.map(Block::Standard));
    let to = SocketAddr::new(message.header.client(), message.header.client_port);
    Transmit::Reply { from: around.address(arrival.link), to, message }
}

/// The request that goes on where a message has no more room (RFC 8487, section 3.2.6): the same without its
/// standard blocks, and with their number.
fn continuation(full: &Message) -> Message {
    let returned = full.standard().count() + full.returned();
    let kept = full.blocks.iter().filter(|block| !matches!(block, Block::Standard(_) | Block::Returned(_)));
    // No trace passes more than 255 routers.
    let returned = Block::Returned(u16::try_from(returned).unwrap_or(u16::MAX));
    Message { kind: Kind::Request, header: full.header, blocks: kept.cloned().chain([returned]).collect() }
}

/// Has the last block of a message say that there was no more room (RFC 8487, section 3.2.4).
fn mark_full(message: &mut Message) {
    let last = message.blocks.iter_mut().rev().find_map(|block| match block {
        Block::Standard(block) => Some(block),
        _ => None,
    });
    if let Some(block) = last {
        block.code = ForwardingCode::NoSpace;
    }
}
