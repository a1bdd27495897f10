//! The operations of a kernel's multicast router that the daemon needs. They are the same for both address
//! families.

use std::{fmt, io, net::IpAddr, os::fd::AsFd};

use treecast_proto::membership::Message;

use super::{
    Slot,
    counts::{self, Counters},
    inherited::Inherited,
};

/// Something that the daemon has read from the kernel's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A packet has arrived for which there is no entry.
    NoEntry { slot: Slot, source: IpAddr, group: IpAddr },
    /// A packet has arrived at another interface than its entry names, one to which the entry forwards.
    WrongInterface { slot: Slot, source: IpAddr, group: IpAddr },
    /// A neighbour's message has arrived.
    Message { interface: u32, from: IpAddr, message: Message },
    /// A message has arrived that was dropped, for this reason.
    Refused(Refusal),
}

/// The reason why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Malformed,
    /// The message may come from beyond the link: its hop limit is above 1, or its source is not link-local
    /// (IPv6) or local (IPv4).
    NotFromLink,
    NoRouterAlert,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed",
            Self::NotFromLink => "not from the link",
            Self::NoRouterAlert => "without router alert",
        })
    }
}

/// A kernel's multicast router for one address family, from when it is opened until it is dropped.
pub trait Kernel: AsFd {
    /// Returns the groups of link scope that a router has to hear on every interface.
    fn router_groups(&self) -> [IpAddr; 3];
    fn add_interface(&self, slot: Slot, interface: u32) -> io::Result<()>;
    fn remove_interface(&self, slot: Slot) -> io::Result<()>;
    fn install(&self, source: IpAddr, group: IpAddr, from: Slot, to: &[Slot]) -> io::Result<()>;
    fn remove(&self, source: IpAddr, group: IpAddr) -> io::Result<()>;
    fn count(&self, source: IpAddr, group: IpAddr) -> io::Result<Counters>;
    /// The number of multicast packets that came in by an interface and were routed, and that were routed out by it.
    fn interface_count(&self, slot: Slot) -> io::Result<(u64, u64)> {
        counts::of_interface(&self.as_fd(), slot)
    }
    /// Sends a message on this interface to the group that it is for.
    fn send(&self, interface: u32, source: IpAddr, message: &Message) -> io::Result<()>;
    /// Reads what has come next, without waiting.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming>;
    /// Returns the interfaces and entries that the kernel has already.
    fn inherited(&self) -> io::Result<Inherited>;
    /// Ends routing. Dropping this value does it, too, where nobody else holds the socket.
    fn close(&self) -> io::Result<()>;
}
