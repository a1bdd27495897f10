//! The group's lane: how a packet for everyone leaves, in every fanout.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use treecast_proto::{Instant, fanout};
use treecast_wire::{
    header::{HEADER_LEN, Header},
    message::GroupKey,
    seal::SEAL_LEN,
    ticket::Fanout,
};

use super::{Plan, Rate, SendError, copies::Copies};
use crate::{
    fanout::SharedList,
    pacer::{self, Pacer},
    seal::Sealer,
    udp::{NarrowWay, Outage, Transmitter, UdpError, open_group_sender, open_unicast_sender, option},
};

/// Sends one packet to many.
#[derive(Debug)]
pub(super) struct GroupLane {
    way: Way,
    /// None in a plain session. One for all groups of a session: they share its key, and so its counter.
    sealer: Option<Sealer>,
    sealed: Vec<u8>,
}

#[derive(Debug)]
enum Way {
    Multicast {
        transmitter: Transmitter,
        /// The addresses of the session's groups, the fastest first.
        to: Vec<SocketAddr>,
        outage: Outage,
    },
    /// Copies to receivers, lists of receivers and the group. All copies of a packet are sealed as one: two sockets must not
    /// seal with one key.
    Copies(CopiesWay),
}

/// A socket for each family that the host has, and for the group where there is one.
#[derive(Debug)]
struct CopiesWay {
    v4: Option<Transmitter>,
    v6: Option<Transmitter>,
    group: Option<(Transmitter, SocketAddr)>,
    waiting: Option<Copies<Packets, Target>>,
    left: LeftBytes,
}

/// Where a copy goes.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Receiver(SocketAddr),
    /// One packet for all receivers in it.
    List(Arc<SharedList>),
    Group,
}

/// Bytes of IP packets that have left, by the way that they took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftBytes {
    pub unicast: u64,
    pub mead: u64,
    pub xcast: u64,
    pub multicast: u64,
}

/// Packets as they leave.
#[derive(Debug)]
pub(super) enum Packets {
    Message(Vec<u8>),
    Blocks {
        first: Header,
        block_len: usize,
        run: Vec<u8>,
    },
    /// Packets of `segment_len` bytes, and a last one that may be shorter.
    Sealed {
        segment_len: usize,
        bytes: Vec<u8>,
    },
}

impl GroupLane {
    /// Seals with `key`, if there is one.
    pub fn open(plan: &Plan, key: Option<&GroupKey>) -> Result<Self, SendError> {
        let way = if plan.options.fanout == Fanout::Multicast {
            let transmitter = open_group(plan)?;
            Way::Multicast { transmitter, to: plan.group_addresses(), outage: Outage::default() }
        } else {
            Way::Copies(open_copies(plan)?)
        };
        Ok(Self { way, sealer: key.map(Sealer::for_group), sealed: Vec::new() })
    }

    /// Seals with another key from now on.
    pub fn replace_key(&mut self, key: &GroupKey) {
        if let Some(sealer) = &mut self.sealer {
            sealer.replace(key);
        }
    }

    /// Sends one control message to the group of this number. Returns the bytes of IP packets that left; copies leave with
    /// [`GroupLane::send_copies`].
    pub fn send_message(
        &mut self,
        now: Instant,
        group: u8,
        targets: &Arc<[Target]>,
        packet: &[u8],
    ) -> Result<u64, SendError> {
        let packet = match &mut self.sealer {
            None => packet,
            Some(sealer) => {
                self.sealed.clear();
                sealer.seal_packet(packet, &mut self.sealed)?;
                &self.sealed
            }
        };
        match &mut self.way {
            Way::Multicast { transmitter, to, outage } => {
                let to = to[usize::from(group)];
                let attempt = transmitter.send_datagram(to, packet);
                outage.note(now, attempt).map_err(|source| SendError::Send { to, source })?;
                Ok(message_bytes(to, packet))
            }
            Way::Copies(way) => {
                let (message, bytes) = (Packets::Message(packet.to_vec()), packet.len() as u64);
                way.waiting = Some(Copies::urgent(message, Arc::clone(targets), bytes));
                Ok(0)
            }
        }
    }

    /// Sends a run of blocks. Returns as [`GroupLane::send_message`].
    pub fn send_blocks(
        &mut self,
        now: Instant,
        group: u8,
        targets: &Arc<[Target]>,
        first: Header,
        block_len: u16,
        run: &[u8],
    ) -> Result<u64, SendError> {
        let block_len = usize::from(block_len);
        let segment_len = Sealer::segment_len(block_len);
        if let Some(sealer) = &mut self.sealer {
            self.sealed.clear();
            sealer.seal_blocks(first, block_len, run, &mut self.sealed)?;
        }
        let is_sealed = self.sealer.is_some();
        match &mut self.way {
            Way::Multicast { transmitter, to, outage } => {
                let to = to[usize::from(group)];
                let attempt = match is_sealed {
                    true => transmitter.send_segments(to, segment_len, &self.sealed),
                    false => transmitter.send_blocks(to, first, block_len, run),
                };
                outage.note(now, attempt).map_err(|source| SendError::Send { to, source })?;
                Ok(match is_sealed {
                    true => segments_bytes(to, segment_len, &self.sealed),
                    false => run_bytes(to, block_len, run),
                })
            }
            Way::Copies(way) => {
                let what = match is_sealed {
                    true => Packets::Sealed { segment_len, bytes: self.sealed.clone() },
                    false => Packets::Blocks { first, block_len, run: run.to_vec() },
                };
                way.waiting = Some(Copies::new(what, Arc::clone(targets)));
                Ok(0)
            }
        }
    }

    /// Whether messages and blocks of several objects may share a datagram here. Copies leave one by one.
    pub fn gathers(&self) -> bool {
        matches!(self.way, Way::Multicast { .. })
    }

    /// Sends the first group datagrams of `datagram_len` bytes (the last one may be shorter) that lie one behind the other. Returns as
    /// [`GroupLane::send_message`].
    pub fn send_gathered(
        &mut self,
        now: Instant,
        datagram_len: usize,
        datagrams: &[u8],
    ) -> Result<u64, SendError> {
        let (mut segments, mut segment_len) = (datagrams, datagram_len);
        if let Some(sealer) = &mut self.sealer {
            self.sealed.clear();
            for datagram in datagrams.chunks(datagram_len) {
                sealer.seal_packet(datagram, &mut self.sealed)?;
            }
            (segments, segment_len) = (&self.sealed, datagram_len + SEAL_LEN);
        }
        let Way::Multicast { transmitter, to, outage } = &mut self.way else { return Ok(0) };
        let to = to[0];
        let attempt = transmitter.send_segments(to, segment_len, segments);
        outage.note(now, attempt).map_err(|source| SendError::Send { to, source })?;
        Ok(segments_bytes(to, segment_len, segments))
    }

    /// Whether copies are left to be sent. They go before anything else.
    pub fn has_copies(&self) -> bool {
        matches!(&self.way, Way::Copies(CopiesWay { waiting: Some(_), .. }))
    }

    /// Whether what is left to be sent is blocks, and not a message.
    pub fn copies_blocks(&self) -> bool {
        let Way::Copies(CopiesWay { waiting: Some(copies), .. }) = &self.way else { return false };
        !matches!(copies.what(), Packets::Message(_))
    }

    /// Sends the copies that may leave now. Returns the bytes of IP packets that left, and how long the next copy has to
    /// wait.
    pub fn send_copies(&mut self, pacer: &mut Pacer, now: Instant) -> (u64, Option<Duration>) {
        let Way::Copies(CopiesWay { v4, v6, group, waiting, left }) = &mut self.way else { return (0, None) };
        let Some(copies) = waiting else { return (0, None) };
        let group_address = group.as_ref().map(|(_, address)| *address);
        let bytes_of = |packets: &Packets, to: &Target| packets.bytes_to(to, group_address);
        let (sent, delay) = copies.send_due(pacer, now, bytes_of, |packets, to| {
            let bytes = bytes_of(packets, to);
            // Who cannot be reached by it loses the packet, and asks for it over its connection.
            let _ = match to {
                Target::Receiver(to) => {
                    left.unicast += bytes;
                    let transmitter = if to.is_ipv4() { v4.as_mut() } else { v6.as_mut() };
                    transmitter.map(|transmitter| packets.send(transmitter, *to))
                }
                Target::Group => {
                    left.multicast += bytes;
                    group.as_mut().map(|(transmitter, to)| packets.send(transmitter, *to))
                }
                Target::List(list) => {
                    let left_so =
                        if list.way() == fanout::Way::Xcast { &mut left.xcast } else { &mut left.mead };
                    *left_so += bytes;
                    Some(packets.send_to_list(list))
                }
            };
        });
        if delay.is_none() {
            *waiting = None;
        }
        (sent, delay)
    }

    /// What has left in copies so far; none where there are no copies.
    pub fn left_bytes(&self) -> Option<LeftBytes> {
        match &self.way {
            Way::Multicast { .. } => None,
            Way::Copies(way) => Some(way.left),
        }
    }

    /// The UDP port that IPv6 copies come from; 0 where there are none.
    pub fn source_port(&self) -> u16 {
        let Way::Copies(CopiesWay { v6: Some(transmitter), .. }) = &self.way else { return 0 };
        transmitter.socket().local_addr().map_or(0, |address| address.port())
    }

    /// Until when nothing can be sent.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        match &self.way {
            Way::Multicast { outage, .. } => outage.rests_until(now),
            Way::Copies(_) => None,
        }
    }

    /// Hosts, lately found, on the way to which less fits than was to be sent.
    pub fn take_narrow(&mut self) -> Vec<NarrowWay> {
        let Way::Copies(CopiesWay { v4, v6, .. }) = &mut self.way else { return Vec::new() };
        [v4, v6].into_iter().flatten().flat_map(Transmitter::take_narrow).collect()
    }

    /// A line about the first packet that could not be sent, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let Way::Multicast { to, outage, .. } = &mut self.way else { return None };
        let reason = outage.take_untold()?;
        let to = to.first()?;
        Some(format!("cannot send to {to} for now: {reason}; what does not leave counts as lost"))
    }
}

impl Packets {
    /// `group` is the group's address.
    fn bytes_to(&self, to: &Target, group: Option<SocketAddr>) -> u64 {
        let to = match to {
            Target::Receiver(to) => *to,
            Target::Group => match group {
                Some(to) => to,
                None => return 0,
            },
            Target::List(list) => return self.datagram_lens().map(|len| list.packet_bytes(len)).sum(),
        };
        match self {
            Self::Message(packet) => message_bytes(to, packet),
            Self::Blocks { block_len, run, .. } => run_bytes(to, *block_len, run),
            Self::Sealed { segment_len, bytes } => segments_bytes(to, *segment_len, bytes),
        }
    }

    /// How long each datagram is.
    fn datagram_lens(&self) -> impl Iterator<Item = usize> {
        let (len, piece_len, before) = match self {
            Self::Message(packet) => (packet.len(), packet.len(), 0),
            Self::Blocks { block_len, run, .. } => (run.len(), *block_len, HEADER_LEN),
            Self::Sealed { segment_len, bytes } => (bytes.len(), *segment_len, 0),
        };
        let piece_len = piece_len.max(1);
        (0..len.div_ceil(piece_len)).map(move |piece| before + piece_len.min(len - piece * piece_len))
    }

    fn send_to_list(&self, list: &SharedList) -> std::io::Result<()> {
        match self {
            Self::Message(packet) => list.send(packet.len(), packet),
            Self::Sealed { segment_len, bytes } => list.send(*segment_len, bytes),
            Self::Blocks { first, block_len, run } => {
                list.send(HEADER_LEN + block_len, &with_headers(*first, *block_len, run))
            }
        }
    }

    fn send(&self, transmitter: &mut Transmitter, to: SocketAddr) -> std::io::Result<()> {
        match self {
            Self::Message(packet) => transmitter.send_datagram(to, packet),
            Self::Blocks { first, block_len, run } => transmitter.send_blocks(to, *first, *block_len, run),
            Self::Sealed { segment_len, bytes } => transmitter.send_segments(to, *segment_len, bytes),
        }
    }
}

fn open_group(plan: &Plan) -> Result<Transmitter, SendError> {
    let socket = open_group_sender(&plan.group, plan.options.hops)?;
    heed_marks(plan, &socket);
    Ok(Transmitter::new(socket, plan.options.offload))
}

fn open_copies(plan: &Plan) -> Result<CopiesWay, SendError> {
    let open = |family: IpAddr| -> Result<Transmitter, UdpError> {
        let socket = open_unicast_sender(family)?;
        heed_marks(plan, &socket);
        Ok(Transmitter::new(socket, plan.options.offload))
    };
    let v4 = open(Ipv4Addr::UNSPECIFIED.into());
    let v6 = open(Ipv6Addr::UNSPECIFIED.into());
    let group = match plan.options.fanout {
        Fanout::Auto => Some((open_group(plan)?, plan.group.scoped())),
        Fanout::Multicast | Fanout::Unicast | Fanout::Mead | Fanout::Xcast => None,
    };
    match (v4, v6) {
        (Err(error), Err(_)) => Err(error.into()),
        (v4, v6) => {
            Ok(CopiesWay { v4: v4.ok(), v6: v6.ok(), group, waiting: None, left: LeftBytes::default() })
        }
    }
}

/// Says in each packet that routers may mark it instead of losing it (RFC 3168, 5), where the rate follows marks.
fn heed_marks(plan: &Plan, socket: &UdpSocket) {
    const CAPABLE_TRANSPORT: i32 = 2;
    if matches!(plan.options.rate, Rate::Auto { .. }) {
        // A socket of one family refuses the other's. Without it, routers lose packets.
        let _ = option::set(socket, libc::IPPROTO_IP, libc::IP_TOS, CAPABLE_TRANSPORT);
        let _ = option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, CAPABLE_TRANSPORT);
    }
}

/// A run of blocks as datagrams one behind the other. `first` is as for [`Transmitter::send_blocks`].
fn with_headers(first: Header, block_len: usize, run: &[u8]) -> Vec<u8> {
    let mut datagrams = Vec::with_capacity(run.len() + run.len().div_ceil(block_len) * HEADER_LEN);
    let mut header = first;
    for block in run.chunks(block_len) {
        header.payload_len = block.len() as u32;
        datagrams.extend_from_slice(&header.to_bytes());
        datagrams.extend_from_slice(block);
        header.sequence += block.len() as u64;
        header.number = header.number.wrapping_add(1);
    }
    datagrams
}

/// Bytes of the IP packet that carries a message.
fn message_bytes(to: SocketAddr, packet: &[u8]) -> u64 {
    pacer::ip_overhead(to.is_ipv4()) + packet.len() as u64
}

/// Bytes of the IP packets that carry a run of blocks.
fn run_bytes(to: SocketAddr, block_len: usize, run: &[u8]) -> u64 {
    let packets = run.len().div_ceil(block_len) as u64;
    packets * (pacer::ip_overhead(to.is_ipv4()) + HEADER_LEN as u64) + run.len() as u64
}

/// Bytes of the IP packets that carry sealed packets.
fn segments_bytes(to: SocketAddr, segment_len: usize, segments: &[u8]) -> u64 {
    segments.len().div_ceil(segment_len) as u64 * pacer::ip_overhead(to.is_ipv4()) + segments.len() as u64
}
