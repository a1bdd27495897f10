//! UDP sockets with everything that makes them fast: super-packets (`UDP_SEGMENT` for sending, `UDP_GRO` for
//! receiving), batches (`sendmmsg`, `recvmmsg`) and single datagrams, group membership, socket buffers and the
//! kernel's drop counter.
//!
//! [`Transmitter`] sends runs of blocks, [`Collector`] receives them into a [`Batch`]. Both begin with the best
//! wanted [`Offload`], and use a simpler one when the kernel or the device refuses it.
//!
//! This code uses `libc`, and not quinn-udp, for one reason. quinn-udp returns each message in one buffer:
//! header, block, header, block. Here the kernel scatters the 32-byte headers into one array, and the blocks
//! without gaps into one large buffer. So received bytes can be hashed and written without copying them.

mod arrivals;
mod batch;
mod collector;
mod datagrams;
mod known_groups;
mod narrow;
mod open;
mod outage;
mod transmitter;

pub use arrivals::Stamp;
pub(crate) use batch::{AtHand, are_zeros};
pub use batch::{BATCH_LEN, Batch, Item};
pub use collector::{Collector, Spare};
pub use datagrams::DatagramReceiver;
pub use known_groups::check_group;
pub(crate) use narrow::NarrowWay;
pub use open::{
    DEFAULT_MULTICAST_HOPS, GroupAddress, ReceiveBuffer, UdpError, open_group_receiver, open_group_sender,
    open_member, open_slower_sender, open_slower_unicast_sender, open_unicast_client, open_unicast_receiver,
    open_unicast_sender, open_unicast_server, share_port_with_group,
};
pub use outage::Outage;
pub(crate) use transmitter::headers;
pub use transmitter::{Transmitter, blocks_in_super_packet, frames_in_super_packet};

/// The way in which datagrams are handed to and from the kernel, the best one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Super-packets: up to 64 KiB of datagrams in one, split and joined by the kernel or the device.
    SuperPackets,
    /// Several datagrams in one call.
    Batches,
    /// One datagram a call.
    Single,
}

impl Offload {
    /// The kind of offload that the environment variable `TREECAST_OFFLOAD` names (`super`, `batch` or
    /// `single`). If it is not set, super-packets. It is for measuring the cost of each kind, and for kernels
    /// whose offload is faulty.
    ///
    /// # Errors
    /// One line if it has another value.
    pub fn from_environment() -> Result<Self, String> {
        match std::env::var("TREECAST_OFFLOAD").as_deref() {
            Err(_) | Ok("super") => Ok(Self::SuperPackets),
            Ok("batch") => Ok(Self::Batches),
            Ok("single") => Ok(Self::Single),
            Ok(other) => Err(format!("TREECAST_OFFLOAD is {other:?}: set it to super, batch or single")),
        }
    }

    /// The next simpler way, if there is one.
    fn step_down(self) -> Option<Self> {
        match self {
            Self::SuperPackets => Some(Self::Batches),
            Self::Batches => Some(Self::Single),
            Self::Single => None,
        }
    }
}
