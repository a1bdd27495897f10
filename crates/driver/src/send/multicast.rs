//! The group's lane: how a packet for everyone leaves, in both fanouts.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use treecast_proto::Instant;
use treecast_wire::{
    header::{HEADER_LEN, Header},
    ticket::Fanout,
};

use super::{Plan, SendError, copies::Copies};
use crate::{
    pacer::{self, Pacer},
    udp::{Outage, Transmitter, UdpError, open_group_sender, open_unicast_sender},
};

/// Sends one packet to many.
#[derive(Debug)]
pub(super) enum GroupLane {
    Multicast {
        transmitter: Transmitter,
        to: SocketAddr,
        outage: Outage,
    },
    /// One copy for each receiver; a socket for each family that the host has.
    Unicast {
        v4: Option<Transmitter>,
        v6: Option<Transmitter>,
        copies: Option<Copies<Packets>>,
    },
}

/// What a copy is of.
#[derive(Debug)]
pub(super) enum Packets {
    Message(Vec<u8>),
    Blocks { first: Header, block_len: usize, run: Vec<u8> },
}

impl GroupLane {
    pub fn open(plan: &Plan) -> Result<Self, SendError> {
        let offload = plan.options.offload;
        if plan.options.fanout == Fanout::Multicast {
            let socket = open_group_sender(&plan.group, plan.options.hops)?;
            let (transmitter, to) = (Transmitter::new(socket, offload), plan.group.scoped());
            return Ok(Self::Multicast { transmitter, to, outage: Outage::default() });
        }
        let open = |family: IpAddr| -> Result<Transmitter, UdpError> {
            Ok(Transmitter::new(open_unicast_sender(family)?, offload))
        };
        let v4 = open(Ipv4Addr::UNSPECIFIED.into());
        let v6 = open(Ipv6Addr::UNSPECIFIED.into());
        match (v4, v6) {
            (Err(error), Err(_)) => Err(error.into()),
            (v4, v6) => Ok(Self::Unicast { v4: v4.ok(), v6: v6.ok(), copies: None }),
        }
    }

    /// Sends one control message. Returns the bytes of IP packets that left; copies leave with
    /// [`GroupLane::send_copies`].
    pub fn send_message(
        &mut self,
        now: Instant,
        receivers: &Arc<[SocketAddr]>,
        packet: &[u8],
    ) -> Result<u64, SendError> {
        match self {
            Self::Multicast { transmitter, to, outage } => {
                let attempt = transmitter.send_datagram(*to, packet);
                outage.note(now, attempt).map_err(|source| SendError::Send { to: *to, source })?;
                Ok(message_bytes(*to, packet))
            }
            Self::Unicast { copies, .. } => {
                *copies = Some(Copies::new(Packets::Message(packet.to_vec()), Arc::clone(receivers)));
                Ok(0)
            }
        }
    }

    /// Sends a run of blocks. Returns as [`GroupLane::send_message`].
    pub fn send_blocks(
        &mut self,
        now: Instant,
        receivers: &Arc<[SocketAddr]>,
        first: Header,
        block_len: u16,
        run: &[u8],
    ) -> Result<u64, SendError> {
        let block_len = usize::from(block_len);
        match self {
            Self::Multicast { transmitter, to, outage } => {
                let attempt = transmitter.send_blocks(*to, first, block_len, run);
                outage.note(now, attempt).map_err(|source| SendError::Send { to: *to, source })?;
                Ok(run_bytes(*to, block_len, run))
            }
            Self::Unicast { copies, .. } => {
                let what = Packets::Blocks { first, block_len, run: run.to_vec() };
                *copies = Some(Copies::new(what, Arc::clone(receivers)));
                Ok(0)
            }
        }
    }

    /// Whether copies are left to be sent. They go before anything else.
    pub fn has_copies(&self) -> bool {
        matches!(self, Self::Unicast { copies: Some(_), .. })
    }

    /// Sends the copies that may leave now. Returns the bytes of IP packets that left, and how long the next copy has to
    /// wait.
    pub fn send_copies(&mut self, pacer: &mut Pacer, now: Instant) -> (u64, Option<Duration>) {
        let Self::Unicast { v4, v6, copies: waiting } = self else { return (0, None) };
        let Some(copies) = waiting else { return (0, None) };
        let (sent, delay) = copies.send_due(pacer, now, Packets::bytes_to, |packets, to| {
            let transmitter = if to.is_ipv4() { v4.as_mut() } else { v6.as_mut() };
            // A receiver that cannot be reached here loses the packet, and asks for it over its connection.
            if let Some(transmitter) = transmitter {
                let _ = packets.send(transmitter, to);
            }
        });
        if delay.is_none() {
            *waiting = None;
        }
        (sent, delay)
    }

    /// Until when nothing can be sent.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Multicast { outage, .. } => outage.rests_until(now),
            Self::Unicast { .. } => None,
        }
    }

    /// A line about the first packet that could not be sent, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let Self::Multicast { to, outage, .. } = self else { return None };
        let reason = outage.take_untold()?;
        Some(format!("cannot send to {to} for now: {reason}; what does not leave counts as lost"))
    }
}

impl Packets {
    fn bytes_to(&self, to: SocketAddr) -> u64 {
        match self {
            Self::Message(packet) => message_bytes(to, packet),
            Self::Blocks { block_len, run, .. } => run_bytes(to, *block_len, run),
        }
    }

    fn send(&self, transmitter: &mut Transmitter, to: SocketAddr) -> std::io::Result<()> {
        match self {
            Self::Message(packet) => transmitter.send_datagram(to, packet),
            Self::Blocks { first, block_len, run } => transmitter.send_blocks(to, *first, *block_len, run),
        }
    }
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
