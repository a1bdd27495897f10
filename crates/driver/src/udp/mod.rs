//! Every UDP trick that treecast uses, in one place: super-packets (`UDP_SEGMENT` out, `UDP_GRO`
//! in), batches (`sendmmsg`, `recvmmsg`) and single datagrams, group membership, socket buffers and
//! the kernel's drop counter.
//!
//! [`Transmitter`] sends runs of blocks, [`Collector`] receives them into a [`Batch`]. Both start
//! with the best [`Offload`] asked for and step down at run time when the kernel or the device
//! refuses it.
//!
//! Why `libc` and not quinn-udp: quinn-udp hands each message over in one buffer, header, block,
//! header, block. Here the kernel scatters the 32-byte headers into one array and the blocks, without
//! a gap, into one large buffer, so that what arrives is hashed and written as it lies.

mod arrivals;
mod batch;
mod collector;
mod datagrams;
mod narrow;
mod open;
mod outage;
mod transmitter;

pub use batch::{BATCH_LEN, Batch, Item};
pub use collector::{Collector, Spare};
pub use datagrams::DatagramReceiver;
pub(crate) use narrow::NarrowWay;
pub use open::{
    DEFAULT_MULTICAST_HOPS, GroupAddress, ReceiveBuffer, UdpError, open_group_receiver, open_group_sender,
    open_unicast_client, open_unicast_receiver, open_unicast_sender, open_unicast_server,
    share_port_with_group,
};
pub use outage::Outage;
pub(crate) use transmitter::headers;
pub use transmitter::{Transmitter, blocks_in_super_packet, frames_in_super_packet};

/// How datagrams cross the border to the kernel, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Up to 64 KiB of datagrams in one, split and joined by the kernel or the device.
    SuperPackets,
    /// Many datagrams in one call.
    Batches,
    /// One datagram a call.
    Single,
}

impl Offload {
    /// What the environment variable `TREECAST_OFFLOAD` names (`super`, `batch` or `single`); super-packets
    /// when it is unset. For measuring what each path costs and for kernels that offload wrongly.
    ///
    /// # Errors
    /// One line when it holds anything else.
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
