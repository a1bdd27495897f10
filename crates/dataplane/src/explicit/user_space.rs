//! The router without eBPF: the model itself, for hosts that let nobody load programs. Slow, and the same packets out.
//!
//! Packets are copied off the interfaces (`packet(7)`) and sent by a raw socket. Behind that, what has MEADcast's or Xcast's
//! routing header is dropped ([`Blocking`]), so that the kernel does not forward it too. Super-packets are divided into their
//! datagrams. What is too long for a link is not sent, and nobody is told. What has no route, or a hop limit of 1, the kernel
//! gets by the loopback, and answers it.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use socket2::{SockAddr, Socket};
use treecast_host::{
    interface::Interface,
    packet::{self, Addressee},
    user,
};
use treecast_proto::explicit::{
    mead::router::{CopyLimiter, Dropped, Outcome, OutgoingKind, Refused, Router},
    xcast::router as xcast,
};
use treecast_wire::{
    ipv6::{self, is_forwardable, next_header, updated_checksum, upper_layer_checksum},
    mead::{Header, Kind},
    xcast::is_all_xcast_routers,
};

use super::{
    blocking::Blocking,
    left::Left,
    routes::Routes,
    shared::{COUNTERS, Counter, FIRST_REFUSED, FIRST_XCAST_REASON, FIRST_XCAST_REFUSED},
    taps::Taps,
};
use crate::{clock::Clock, raw_output::RawOutput};

/// Packets taken off an interface before anything else is looked at.
const BATCH: usize = 64;

const ETHERNET_LEN: usize = 14;
const IPV6_ETHERTYPE: [u8; 2] = [0x86, 0xdd];

/// struct virtio_net_hdr, before each frame.
const OFFLOAD_LEN: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_UDP_L4: u8 = 5;

type Failure = Box<dyn std::error::Error>;

pub struct UserSpace {
    router: Router,
    /// Names of the interfaces, by number.
    names: BTreeMap<u32, String>,
    taps: Taps,
    out: RawOutput,
    /// The socket to this host's own forwarding, by the loopback, for packets that the kernel has an answer to.
    kernel: (Socket, SockAddr),
    routes: Routes,
    blocking: Blocking,
    clock: Clock,
    limiter: CopyLimiter,
    counters: [u64; COUNTERS],
}

impl UserSpace {
    pub fn start(router: Router) -> Result<Self, Failure> {
        if !user::may_administer_networks()? {
            return Err(io::Error::from_raw_os_error(libc::EPERM).into());
        }
        let (out, taps) = (RawOutput::open()?, Taps::new()?);
        let (names, counters) = (BTreeMap::new(), [0; COUNTERS]);
        let (routes, blocking, kernel) = (Routes::open()?, Blocking::new(), packet::open_loopback()?);
        let (clock, limiter) = (Clock::start(), CopyLimiter::default());
        Ok(Self { router, names, taps, out, kernel, routes, blocking, clock, limiter, counters })
    }

    pub fn configure(&mut self, router: &Router) {
        self.router = router.clone();
    }

    pub fn attach(&mut self, interface: &Interface) -> Result<(), Failure> {
        let socket = packet::open_for_forwarding(interface.index)?;
        let mut left = Left::at(interface);
        let _ = left.leave_first_place(interface);
        let _ = left.leave_filters(interface);
        self.blocking.block(&interface.name)?;
        self.taps.add(interface.index, socket)?;
        self.names.insert(interface.index, interface.name.clone());
        Ok(())
    }

    pub fn detach(&mut self, interface: u32) {
        self.taps.remove(interface);
        if let Some(name) = self.names.remove(&interface) {
            self.blocking.unblock(&name);
        }
    }

    pub fn counters(&self) -> [u64; COUNTERS] {
        self.counters
    }

    /// Forgets what it knows of routes, because some have changed.
    pub fn forget_routes(&mut self) {
        self.routes.forget();
    }

    /// Forwards the packets that have come, and returns the discovery requests that are to be answered.
    pub fn work(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut requests = Vec::new();
        for interface in self.taps.ready()? {
            for _ in 0..BATCH {
                let Some((frame, to)) = self.taps.next(interface) else { break };
                let is_for_all = to == Addressee::Group;
                if !is_for_all && to != Addressee::ThisHost {
                    continue;
                }
                let frame = frame.to_vec();
                let arrival = xcast::Arrival { interface, is_for_all };
                // What came to a group's Ethernet address is for all Xcast routers, or not for this host as a router.
                for packet in datagrams(&frame).into_iter().filter(|one| !is_for_all || is_to_all(one)) {
                    requests.extend(self.forward(packet, arrival));
                }
            }
        }
        Ok(requests)
    }

    /// Returns the packet, if it is a request that is to be answered.
    fn forward(&mut self, packet: Vec<u8>, arrival: xcast::Arrival) -> Option<Vec<u8>> {
        let routes = &mut |destination| self.routes.towards(destination);
        match xcast::forward(&self.router, &packet, arrival, routes) {
            // What Xcast is not, MEADcast may be.
            xcast::Outcome::Pass => return self.forward_mead(packet, arrival.interface),
            xcast::Outcome::Drop(xcast::Dropped::Malformed(reason)) => {
                self.counters[FIRST_XCAST_REASON + reason as usize] += 1;
            }
            xcast::Outcome::Drop(xcast::Dropped::HopLimit) => self.count(Counter::XcastHopLimit, 1),
            xcast::Outcome::Drop(xcast::Dropped::NoListener) => {
                self.count(Counter::XcastData, 1);
                self.count(Counter::XcastNoListener, 1);
            }
            xcast::Outcome::Drop(xcast::Dropped::ForOthers) => {
                self.count(Counter::XcastData, 1);
                self.count(Counter::XcastForOthers, 1);
            }
            xcast::Outcome::Refuse(refused) => self.turn_away(FIRST_XCAST_REFUSED, refused, packet),
            xcast::Outcome::Forward(copies) if !self.may_copy(&packet, copies.len()) => {
                self.turn_away(FIRST_XCAST_REFUSED, Refused::Limited, packet);
            }
            xcast::Outcome::Forward(copies) => {
                self.count(Counter::XcastData, 1);
                for copy in copies {
                    match copy.kind {
                        xcast::OutgoingKind::Unrouted => {
                            self.hand_to_kernel(Counter::XcastUnrouted, &copy.packet)
                        }
                        kind => self.send_copy(xcast_counter(kind), &copy.packet, copy.interface),
                    }
                }
            }
        }
        None
    }

    fn forward_mead(&mut self, packet: Vec<u8>, interface: u32) -> Option<Vec<u8>> {
        let routes = &mut |destination| self.routes.towards(destination);
        match self.router.forward(&packet, interface, routes) {
            Outcome::Pass => {
                self.count(Counter::Responses, u64::from(self.is_response(&packet)));
                self.pass_on(packet);
            }
            Outcome::Drop(Dropped::Malformed(reason)) => {
                self.counters[reason as usize] += 1;
                let is_of_other_dialect = self.router.is_of_other_dialect(&packet);
                self.count(Counter::OtherDialect, is_of_other_dialect.into());
            }
            Outcome::Drop(Dropped::HopLimit) => self.count(Counter::HopLimit, 1),
            Outcome::Drop(Dropped::NothingToDeliver) => self.count(Counter::NothingToDeliver, 1),
            Outcome::Drop(Dropped::NoListener) => {
                self.count(Counter::Data, 1);
                self.count(Counter::NoListener, 1);
            }
            Outcome::Request { passed_on, .. } => {
                self.count(Counter::Requests, 1);
                self.pass_on(passed_on);
                return Some(packet);
            }
            Outcome::Refuse(refused) => self.turn_away(FIRST_REFUSED, refused, packet),
            Outcome::Forward(copies) if !self.may_copy(&packet, copies.len()) => {
                self.turn_away(FIRST_REFUSED, Refused::Limited, packet);
            }
            Outcome::Forward(copies) => {
                self.count(Counter::Data, 1);
                for copy in copies {
                    self.send_copy(counter(copy.kind), &copy.packet, copy.interface);
                }
            }
        }
        None
    }

    /// Counts a packet of which no copies are made, and passes it on, if it does not end here.
    fn turn_away(&mut self, first_counter: usize, refused: Refused, packet: Vec<u8>) {
        self.counters[first_counter + refused as usize] += 1;
        if !refused.ends_here() {
            self.pass_on(packet);
        }
    }

    /// Whether so many more copies may be made for a packet's source.
    fn may_copy(&mut self, packet: &[u8], copies: usize) -> bool {
        let per_second = self.router.guard.copies_per_second;
        let source = ipv6::Header::parse_start(packet).map(|(ip, _)| ip.source);
        source.is_ok_and(|source| self.limiter.admits(self.clock.now(), source, copies, per_second))
    }

    fn send_copy(&mut self, counter: Counter, packet: &[u8], interface: Option<u32>) {
        self.count(counter, 1);
        self.send(packet, interface);
    }

    /// Hands the kernel a packet that it cannot forward, and so answers.
    fn hand_to_kernel(&mut self, counter: Counter, packet: &[u8]) {
        self.count(counter, 1);
        let (kernel, loopback) = &self.kernel;
        if kernel.send_to(packet, loopback).is_err() {
            self.count(Counter::NotSent, 1);
        }
    }

    fn is_response(&self, packet: &[u8]) -> bool {
        let header = packet.get(ipv6::HEADER_LEN..).map(|header| Header::parse(header, self.router.dialect));
        matches!(header, Some(Ok((header, _))) if header.kind == Kind::Response)
    }

    /// Forwards a packet as the kernel would, if the filter let it.
    fn pass_on(&mut self, mut packet: Vec<u8>) {
        let Ok((ip, _)) = ipv6::Header::parse(&packet) else { return };
        let is_here = self.router.own.contains(&ip.destination);
        if is_here || !is_forwardable(ip.source) || !is_forwardable(ip.destination) {
            return;
        }
        if ip.hop_limit <= 1 {
            // Its sender is to hear of that.
            let (kernel, loopback) = &self.kernel;
            let _ = kernel.send_to(&packet, loopback);
        } else {
            packet[7] -= 1;
            self.send(&packet, None);
        }
    }

    fn send(&mut self, packet: &[u8], interface: Option<u32>) {
        if self.out.send(packet, interface).is_err() {
            self.count(Counter::NotSent, 1);
        }
    }

    fn count(&mut self, counter: Counter, more: u64) {
        self.counters[counter as usize] += more;
    }
}

impl AsFd for UserSpace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.taps.as_fd()
    }
}

pub fn counter(kind: OutgoingKind) -> Counter {
    match kind {
        OutgoingKind::Replica => Counter::Replicas,
        OutgoingKind::Whole => Counter::Whole,
        OutgoingKind::Unicast => Counter::Unicast,
        OutgoingKind::Premature => Counter::Premature,
        OutgoingKind::Multicast => Counter::Multicast,
    }
}

pub fn xcast_counter(kind: xcast::OutgoingKind) -> Counter {
    match kind {
        xcast::OutgoingKind::Copy => Counter::XcastCopies,
        xcast::OutgoingKind::Unicast => Counter::XcastUnicast,
        xcast::OutgoingKind::Premature => Counter::XcastPremature,
        xcast::OutgoingKind::Local => Counter::XcastLocal,
        xcast::OutgoingKind::Unrouted => Counter::XcastUnrouted,
        xcast::OutgoingKind::Multicast => Counter::XcastMulticast,
    }
}

/// Whether a packet is for all Xcast routers on the link.
fn is_to_all(packet: &[u8]) -> bool {
    ipv6::Header::parse_start(packet).is_ok_and(|(ip, _)| is_all_xcast_routers(ip.destination))
}

/// The packets with a routing header in a frame that has a struct virtio_net_hdr before it, with their checksums.
fn datagrams(frame: &[u8]) -> Vec<Vec<u8>> {
    if let Some(&next_header::ROUTING) = frame.get(OFFLOAD_LEN + 20) { packets(frame) } else { Vec::new() }
}

/// Returns the IPv6 packets in a frame that begins with a struct virtio_net_hdr, with complete checksums.
pub fn packets(frame: &[u8]) -> Vec<Vec<u8>> {
    let Some((offload, frame)) = frame.split_at_checked(OFFLOAD_LEN) else { return Vec::new() };
    if frame.get(12..14) != Some(&IPV6_ETHERTYPE) {
        return Vec::new();
    }
    let mut packet = frame[ETHERNET_LEN..].to_vec();
    let word = |at: usize| usize::from(u16::from_ne_bytes([offload[at], offload[at + 1]]));
    let (size, start, offset) = (word(4), word(6).saturating_sub(ETHERNET_LEN), word(8));
    let is_there = start >= ipv6::HEADER_LEN && start + offset + 2 <= packet.len();
    match offload[1] {
        GSO_NONE if offload[0] & NEEDS_CHECKSUM == 0 => vec![packet],
        GSO_NONE if is_there => {
            finish_checksum(&mut packet[start..], offset);
            vec![packet]
        }
        GSO_UDP_L4 if is_there && size > 0 && start + 8 <= packet.len() => divide(&packet, start, size),
        _ => Vec::new(),
    }
}

/// The field holds the sum of what is not in the segment: the checksum is that of the segment with it.
fn finish_checksum(segment: &mut [u8], offset: usize) {
    // A checksum of 0xffff over nothing, to which the whole segment comes.
    let padded = [&*segment, &[0][..segment.len() % 2]].concat();
    let checksum = match updated_checksum(0xffff, &[0, 0], &padded) {
        0 => 0xffff,
        checksum => checksum,
    };
    segment[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A super-packet's datagrams of `size` bytes, whose UDP header begins at `start`.
fn divide(packet: &[u8], start: usize, size: usize) -> Vec<Vec<u8>> {
    let Ok((ip, _)) = ipv6::Header::parse(packet) else { return Vec::new() };
    let (head, payload) = packet.split_at(start + 8);
    let datagram = |payload: &[u8]| {
        let mut datagram = [head, payload].concat();
        let payload_len = (datagram.len() - ipv6::HEADER_LEN) as u16;
        datagram[4..6].copy_from_slice(&payload_len.to_be_bytes());
        let segment = &mut datagram[start..];
        let len = segment.len() as u16;
        segment[4..6].copy_from_slice(&len.to_be_bytes());
        segment[6..8].fill(0);
        let checksum = upper_layer_checksum(ip.source, ip.destination, next_header::UDP, segment);
        let checksum = if checksum == 0 { 0xffff } else { checksum };
        segment[6..8].copy_from_slice(&checksum.to_be_bytes());
        datagram
    };
    payload.chunks(size).map(datagram).collect()
}
