//! What the daemon wants of a kernel's multicast router, alike for both address families.

use std::{fmt, io, net::IpAddr, os::fd::AsFd};

use treecast_proto::membership::Message;

use super::{Slot, inherited::Inherited};

/// What an entry has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub packets: u64,
    pub bytes: u64,
    /// Packets among them that came in elsewhere than the entry says, and were dropped.
    pub wrong_interface: u64,
}

/// Something that has come out of the kernel's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A packet without an entry.
    NoEntry { slot: Slot, source: IpAddr, group: IpAddr },
    /// A packet on another interface than its entry's, which the entry forwards to.
    WrongInterface { slot: Slot, source: IpAddr, group: IpAddr },
    /// A neighbour's message.
    Message { interface: u32, from: IpAddr, message: Message },
    /// Nothing to go by.
    Refused(Refusal),
}

/// Why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Malformed,
    /// It may come from beyond the link: hop limit above 1, or no link-local (IPv6) or local (IPv4) source.
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
    /// Groups of the link's own scope that a router has to hear on every interface.
    fn router_groups(&self) -> [IpAddr; 3];
    fn add_interface(&self, slot: Slot, interface: u32) -> io::Result<()>;
    fn remove_interface(&self, slot: Slot) -> io::Result<()>;
    fn install(&self, source: IpAddr, group: IpAddr, from: Slot, to: &[Slot]) -> io::Result<()>;
    fn remove(&self, source: IpAddr, group: IpAddr) -> io::Result<()>;
    fn count(&self, source: IpAddr, group: IpAddr) -> io::Result<Counters>;
    /// Sends a message to whom it concerns on this interface.
    fn send(&self, interface: u32, source: IpAddr, message: &Message) -> io::Result<()>;
    /// The next thing that has come, without waiting for it.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming>;
    /// The interfaces and entries that it has.
    fn inherited(&self) -> io::Result<Inherited>;
    /// Ends routing. Dropping does it, too, where nobody else holds the socket.
    fn close(&self) -> io::Result<()>;
}
