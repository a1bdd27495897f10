//! The group's lane: how a packet for everyone leaves, in both fanouts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use treecast_wire::{
    header::{HEADER_LEN, Header},
    ticket::Fanout,
};

use super::{Plan, SendError};
use crate::{
    pacer,
    udp::{Transmitter, UdpError, open_group_sender, open_unicast_sender},
};

/// Sends one packet to many.
#[derive(Debug)]
pub(super) enum GroupLane {
    Multicast {
        transmitter: Transmitter,
        to: SocketAddr,
    },
    /// One copy for each receiver; a socket for each family that the host has.
    Unicast {
        v4: Option<Transmitter>,
        v6: Option<Transmitter>,
    },
}

impl GroupLane {
    pub fn open(plan: &Plan) -> Result<Self, SendError> {
        let offload = plan.options.offload;
        if plan.options.fanout == Fanout::Multicast {
            let socket = open_group_sender(&plan.group, plan.options.hops)?;
            let to = plan.group.scoped();
            return Ok(Self::Multicast { transmitter: Transmitter::new(socket, offload), to });
        }
        let open = |family: IpAddr| -> Result<Transmitter, UdpError> {
            Ok(Transmitter::new(open_unicast_sender(family)?, offload))
        };
        let v4 = open(Ipv4Addr::UNSPECIFIED.into());
        let v6 = open(Ipv6Addr::UNSPECIFIED.into());
        match (v4, v6) {
            (Err(error), Err(_)) => Err(error.into()),
            (v4, v6) => Ok(Self::Unicast { v4: v4.ok(), v6: v6.ok() }),
        }
    }

    /// Sends one control message. Returns the bytes of IP packets that left.
    pub fn send_message(&mut self, receivers: &[SocketAddr], packet: &[u8]) -> Result<u64, SendError> {
        self.send(receivers, |transmitter, to| {
            transmitter.send_datagram(to, packet)?;
            Ok(pacer::ip_overhead(to.is_ipv4()) + packet.len() as u64)
        })
    }

    /// Sends a run of blocks. Returns the bytes of IP packets that left.
    pub fn send_blocks(
        &mut self,
        receivers: &[SocketAddr],
        first: Header,
        block_len: u16,
        run: &[u8],
    ) -> Result<u64, SendError> {
        let block_len = usize::from(block_len);
        self.send(receivers, |transmitter, to| {
            transmitter.send_blocks(to, first, block_len, run)?;
            let packets = run.len().div_ceil(block_len) as u64;
            let overhead = pacer::ip_overhead(to.is_ipv4()) + HEADER_LEN as u64;
            Ok(packets * overhead + run.len() as u64)
        })
    }

    fn send(
        &mut self,
        receivers: &[SocketAddr],
        mut send: impl FnMut(&mut Transmitter, SocketAddr) -> std::io::Result<u64>,
    ) -> Result<u64, SendError> {
        match self {
            Self::Multicast { transmitter, to } => {
                send(transmitter, *to).map_err(|source| SendError::Send { to: *to, source })
            }
            // A receiver that cannot be reached here loses the packet, and asks for it over its connection.
            Self::Unicast { v4, v6 } => Ok(receivers
                .iter()
                .filter_map(|to| {
                    let transmitter = if to.is_ipv4() { v4.as_mut() } else { v6.as_mut() };
                    send(transmitter?, *to).ok()
                })
                .sum()),
        }
    }
}
