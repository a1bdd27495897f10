//! The lane of a multicast session: a packet leaves at once. Slower groups share a socket of their own: what still waits for a
//! slow link on this host, as in a lab, does not hold up the first group.

use std::net::{SocketAddr, UdpSocket};

use treecast_proto::Instant;

use super::{
    super::{Plan, SendError},
    Packets, heed_marks,
};
use crate::{
    carousel::FrameSender,
    udp::{Outage, Transmitter, open_group_sender, open_slower_sender},
};

#[derive(Debug)]
pub(in super::super) struct MulticastLane {
    /// The first group's socket, and that of all slower ones.
    first: Transmitter,
    slower: Option<Transmitter>,
    /// The addresses of the session's groups, the fastest first.
    to: Vec<SocketAddr>,
    outage: Outage,
}

impl MulticastLane {
    pub fn open(plan: &Plan) -> Result<Self, SendError> {
        let first = open_group(plan)?;
        let slower = (plan.groups > 1).then(|| open_slower(plan)).transpose()?;
        Ok(Self { first, slower, to: plan.group_addresses(), outage: Outage::default() })
    }

    fn transmitter(&mut self, group: u8) -> &mut Transmitter {
        self.slower.as_mut().filter(|_| group > 0).unwrap_or(&mut self.first)
    }

    /// Sends packets to the group of this number. Returns the bytes of IP packets that left.
    pub fn send(&mut self, now: Instant, group: u8, packets: &Packets<'_>) -> Result<u64, SendError> {
        let to = self.to[usize::from(group)];
        let attempt = packets.send(self.transmitter(group), to);
        self.outage.note(now, attempt).map_err(|source| SendError::Send { to, source })?;
        Ok(packets.ip_bytes(to))
    }

    /// Sends bytes of the IoT updater's file, which begin at `offset`, in frames of `block_len` bytes.
    pub fn send_frames(
        &mut self,
        now: Instant,
        group: u8,
        frames: &mut FrameSender,
        (offset, block_len): (u64, u16),
        run: &[u8],
    ) -> Result<(), SendError> {
        let to = self.to[usize::from(group)];
        let attempt = frames.send(self.transmitter(group), to, offset, block_len, run);
        self.outage.note(now, attempt).map_err(|source| SendError::Send { to, source })
    }

    /// Returns the time until which nothing is sent, because the kernel has just refused packets. None: packets may be sent.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        self.outage.rests_until(now)
    }

    /// A line about the first packet that could not be sent, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let reason = self.outage.take_untold()?;
        let to = self.to.first()?;
        Some(format!("cannot send to {to} for now: {reason}; what does not leave counts as lost"))
    }
}

/// A socket that sends to the session's slower groups.
pub(super) fn open_slower(plan: &Plan) -> Result<Transmitter, SendError> {
    transmitter(plan, open_slower_sender(&plan.group, plan.options.network.hops)?)
}

/// A socket that sends to the session's first group.
pub(super) fn open_group(plan: &Plan) -> Result<Transmitter, SendError> {
    transmitter(plan, open_group_sender(&plan.group, plan.options.network.hops)?)
}

fn transmitter(plan: &Plan, socket: UdpSocket) -> Result<Transmitter, SendError> {
    heed_marks(plan, &socket);
    Ok(Transmitter::new(socket, plan.options.network.offload))
}
