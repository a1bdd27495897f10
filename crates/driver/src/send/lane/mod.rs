//! The group's lane: how a packet for all receivers leaves, with each fanout.
//!
//! A packet is sealed once. Then it leaves at once as multicast ([`MulticastLane`]), or as a row of copies,
//! each of which waits for the rate ([`CopiesLane`]).

mod copies;
mod multicast;
mod turns;

use std::{borrow::Cow, net::SocketAddr};

use treecast_host::option;
use treecast_proto::{Instant, policy};
use treecast_wire::{
    header::{HEADER_LEN, Header},
    message::GroupKey,
    seal::SEAL_LEN,
    ticket::Fanout,
};

pub(super) use copies::{CopiesLane, Target};
pub(super) use multicast::MulticastLane;

use super::{Plan, SendError};
use crate::{seal::Sealer, udp::Transmitter};

/// Sends one packet to many.
#[derive(Debug)]
pub(super) struct GroupLane {
    pub way: Way,
    /// The sealer of packets. `None` in a plain session. All groups of a session share one key, and so its counter.
    sealer: Option<Sealer>,
    sealed: Vec<u8>,
    /// Bytes of an object in each packet of blocks.
    block_len: usize,
    /// Whether packets are dropped, because nobody hears them and the rate has no room.
    drops: bool,
}

/// The way by which packets leave.
#[derive(Debug)]
pub(super) enum Way {
    /// Packets leave at once.
    Multicast(MulticastLane),
    /// The copies of each of the session's groups, fastest first. No group waits for another one's copies.
    Copies(Vec<CopiesLane>),
}

/// Packets as they leave.
#[derive(Debug)]
pub(super) enum Packets<'a> {
    Message(Cow<'a, [u8]>),
    /// A run of blocks, a packet each, with the headers that follow from the first one.
    Blocks {
        first: Header,
        block_len: usize,
        run: Cow<'a, [u8]>,
    },
    /// Packets of `segment_len` bytes, and a last one that may be shorter.
    Segments {
        segment_len: usize,
        bytes: Cow<'a, [u8]>,
    },
}

impl GroupLane {
    /// Opens the lane that seals packets with the group key, or with the secret of the ticket where no
    /// connection tells receivers a key.
    pub fn open(plan: &Plan, key: Option<&GroupKey>) -> Result<Self, SendError> {
        let way = match plan.options.fanout {
            Fanout::Multicast => Way::Multicast(MulticastLane::open(plan)?),
            Fanout::Unicast | Fanout::Mead | Fanout::Xcast | Fanout::Auto => Way::Copies(
                (0..plan.groups).map(|group| CopiesLane::open(plan, group)).collect::<Result<_, _>>()?,
            ),
        };
        let sealer = match (key, &plan.secret) {
            (Some(key), _) => Some(Sealer::for_group(key)),
            (None, Some(secret)) => Some(Sealer::from_secret(secret.clone())?),
            (None, None) => None,
        };
        let block_len = plan.block_len.into();
        Ok(Self { way, sealer, sealed: Vec::new(), block_len, drops: false })
    }

    /// Drops all packets from now on, or no more.
    pub fn set_drops(&mut self, drops: bool) {
        self.drops = drops;
    }

    pub fn drops(&self) -> bool {
        self.drops
    }

    /// Seals packets with another key from now on.
    pub fn replace_key(&mut self, key: &GroupKey) {
        if let Some(sealer) = &mut self.sealer {
            sealer.replace(key);
        }
    }

    /// Sends one control message to the group of this number. Returns the bytes of IP packets that left. These
    /// are none for copies, which leave one by one ([`CopiesLane::send_due`]).
    pub fn send_message(&mut self, now: Instant, group: u8, packet: &[u8]) -> Result<u64, SendError> {
        if self.drops && group == 0 {
            return Ok(0);
        }
        let packets = match &mut self.sealer {
            None => Packets::Message(packet.into()),
            Some(sealer) => {
                self.sealed.clear();
                sealer.seal_packet(packet, &mut self.sealed)?;
                Packets::Message(Cow::Borrowed(&self.sealed))
            }
        };
        self.way.send(now, group, packets)
    }

    /// Sends a run of blocks. Returns the same as [`GroupLane::send_message`].
    pub fn send_blocks(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        run: &[u8],
    ) -> Result<u64, SendError> {
        if self.drops && group == 0 {
            return Ok(0);
        }
        let block_len = self.block_len;
        let packets = match &mut self.sealer {
            None => Packets::Blocks { first, block_len, run: run.into() },
            Some(sealer) => {
                self.sealed.clear();
                sealer.seal_blocks(first, block_len, run, &mut self.sealed)?;
                let segment_len = Sealer::segment_len(block_len);
                Packets::Segments { segment_len, bytes: Cow::Borrowed(&self.sealed) }
            }
        };
        self.way.send(now, group, packets)
    }

    /// Sends datagrams of `datagram_len` bytes (the last one may be shorter), which are stored one after the
    /// other, to the first group. Returns the same as [`GroupLane::send_message`].
    pub fn send_gathered(
        &mut self,
        now: Instant,
        datagram_len: usize,
        datagrams: &[u8],
    ) -> Result<u64, SendError> {
        if self.drops {
            return Ok(0);
        }
        let packets = match &mut self.sealer {
            None => Packets::Segments { segment_len: datagram_len, bytes: datagrams.into() },
            Some(sealer) => {
                self.sealed.clear();
                for datagram in datagrams.chunks(datagram_len) {
                    sealer.seal_packet(datagram, &mut self.sealed)?;
                }
                let segment_len = datagram_len + SEAL_LEN;
                Packets::Segments { segment_len, bytes: Cow::Borrowed(&self.sealed) }
            }
        };
        self.way.send(now, 0, packets)
    }
}

impl Way {
    /// The lanes of the session's groups, fastest first. Empty if packets leave as multicast.
    pub fn copies(&self) -> &[CopiesLane] {
        if let Self::Copies(lanes) = self { lanes } else { &[] }
    }

    /// Returns the same as [`Self::copies`], to be changed.
    pub fn copies_mut(&mut self) -> &mut [CopiesLane] {
        if let Self::Copies(lanes) = self { lanes } else { &mut [] }
    }

    fn send(&mut self, now: Instant, group: u8, packets: Packets<'_>) -> Result<u64, SendError> {
        match self {
            Self::Multicast(lane) => lane.send(now, group, &packets),
            Self::Copies(lanes) => {
                if let Some(lane) = lanes.get_mut(usize::from(group)) {
                    lane.begin(packets);
                }
                Ok(0)
            }
        }
    }
}

impl Packets<'_> {
    fn into_owned(self) -> Packets<'static> {
        let owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            Self::Message(packet) => Packets::Message(owned(packet)),
            Self::Blocks { first, block_len, run } => Packets::Blocks { first, block_len, run: owned(run) },
            Self::Segments { segment_len, bytes } => Packets::Segments { segment_len, bytes: owned(bytes) },
        }
    }

    fn is_message(&self) -> bool {
        matches!(self, Self::Message(_))
    }

    /// Bytes of the IP packets that carry them to this address.
    fn ip_bytes(&self, to: SocketAddr) -> u64 {
        let overhead = policy::ip_overhead(to.is_ipv4());
        self.datagram_lens().map(|len| overhead + len as u64).sum()
    }

    /// The length of each datagram, in bytes.
    fn datagram_lens(&self) -> impl Iterator<Item = usize> {
        let (len, piece_len, before) = match self {
            Self::Message(packet) => (packet.len(), packet.len(), 0),
            Self::Blocks { block_len, run, .. } => (run.len(), *block_len, HEADER_LEN),
            Self::Segments { segment_len, bytes } => (bytes.len(), *segment_len, 0),
        };
        let piece_len = piece_len.max(1);
        (0..len.div_ceil(piece_len)).map(move |piece| before + piece_len.min(len - piece * piece_len))
    }

    fn send(&self, transmitter: &mut Transmitter, to: SocketAddr) -> std::io::Result<()> {
        match self {
            Self::Message(packet) => transmitter.send_datagram(to, packet),
            Self::Blocks { first, block_len, run } => transmitter.send_blocks(to, *first, *block_len, run),
            Self::Segments { segment_len, bytes } => transmitter.send_segments(to, *segment_len, bytes),
        }
    }
}

/// Says in each packet that routers may mark it instead of losing it (RFC 3168, 5), where the rate follows marks.
fn heed_marks(plan: &Plan, socket: &std::net::UdpSocket) {
    const CAPABLE_TRANSPORT: i32 = 2;
    if plan.options.rate().is_auto() {
        // A socket of one family refuses the other's. Without it, routers lose packets.
        let _ = option::set(socket, libc::IPPROTO_IP, libc::IP_TOS, CAPABLE_TRANSPORT);
        let _ = option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, CAPABLE_TRANSPORT);
    }
}
