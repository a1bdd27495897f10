//! The MEADcast sender on a host, which can send Xcast, too: what any program sends to a TUN device goes to a group.
//!
//! Two threads, as in meadcast-thesis-2024, 4.3.1: one reads the device and sends, by a transmission group that it finds
//! whole whenever it looks; the other discovers routers and replaces that group.

mod discovery;
pub mod event;
mod machine;
mod neighbours;
mod raw;
mod registrations;
mod session;
mod sharing;
mod super_socket;
mod transmitter;

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    time::Duration,
};

use thiserror::Error;
use treecast_host::interface::InterfaceError;
use treecast_proto::explicit::mead::grouping::NoMax;

pub(crate) use self::discovery::{Hearing, News, carry_out};
pub(crate) use self::machine::Machine;
pub(crate) use self::raw::{PacketSocket, epoch};
pub(crate) use self::session::check_receivers;
pub(crate) use self::sharing::{KeyWatch, NO_ROUTER_HAS_KEY};
pub(crate) use self::super_socket::SuperSocket;
pub use self::{session::run, sharing::Sharing};
pub use treecast_host::tun::TunError;

/// What the sender is to do. Names are those of listing A.3 where it has one.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Each with its UDP port.
    pub receivers: Vec<(IpAddr, u16)>,
    /// More of them, an address a line with a port of its own or without; read again when it changes.
    pub members: Option<PathBuf>,
    /// The UDP port of those that have none of their own.
    pub port: u16,
    /// The sender's address; none: that of the route to the first receiver.
    pub address: Option<Ipv6Addr>,
    /// Where packets leave; none: where routes lead.
    pub interface: Option<String>,
    /// The UDP port that packets come from; none: the program's own.
    pub source_port: Option<u16>,
    /// Where programs send to.
    pub tun_address: Ipv6Addr,
    /// The device's name; none: one that is free.
    pub tun: Option<String>,
    /// Before the first discovery.
    pub delay: Duration,
    /// Between two discoveries.
    pub interval: Duration,
    /// For how long responses are gathered.
    pub timeout: Duration,
    /// The most requests in a second.
    pub requests_per_second: u32,
    /// Whether to discover only when there is traffic.
    pub wait: bool,
    /// How receivers share packets.
    pub sharing: Sharing,
    /// For grouping by cost: packets carry so many bytes behind their IPv6 header.
    pub payload_bytes: usize,
    /// Whether ports stand in packets.
    pub has_ports: bool,
    /// The group by which routers may serve receivers on their own links that have joined it.
    pub group: Option<Ipv6Addr>,
    /// Whether to send Xcast, without discovery. `group` is Xcast+'s then, whose routers register.
    pub xcast: Option<Xcast>,
    /// Whether super-packets of programs leave divided, the kernel's own way, where a firewall sees them.
    pub divides: bool,
    /// How often to tell what has been counted; none: at the end only.
    pub statistics: Option<Duration>,
}

/// How Xcast is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xcast {
    /// Whether routers overwrite the addresses of those that a copy is not for.
    pub is_anonymous: bool,
}

/// Why the sender cannot begin, or go on.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{0} is an IPv4 address, and MEADcast is IPv6 only: name the receiver's IPv6 address")]
    Ipv4(IpAddr),
    #[error("{0} is no receiver's address: name a global or unique local one")]
    NoReceiver(Ipv6Addr),
    #[error("the receiver {0} has the address of the TUN device")]
    Device(Ipv6Addr),
    #[error("the receiver {0} is named twice: name each once")]
    Twice(Ipv6Addr),
    #[error("{0} is no group to be served by: name a multicast address that leaves a link, like ff15::4242")]
    NoGroup(Ipv6Addr),
    #[error("there is no receiver")]
    Nobody,
    #[error("cannot hear registrations at UDP port {port} of {address}: {error}")]
    Registrations { address: Ipv6Addr, port: u16, error: io::Error },
    #[error("the receiver {receiver} cannot be reached: {error}; add a route, or leave it out")]
    NoRoute { receiver: Ipv6Addr, error: io::Error },
    #[error("{0} has no global or unique local IPv6 address to send from")]
    NoAddress(String),
    #[error("{0} is no address to send from: name a global or unique local one of this host")]
    NoSource(Ipv6Addr),
    #[error("cannot use the address {0}: {1}; name one of this host")]
    Source(Ipv6Addr, io::Error),
    #[error(
        "the MTU of {interface} is {mtu} bytes, too small for a single receiver: a header for it leaves less than the 1280 \
         that IPv6 needs; raise it to {needed}"
    )]
    Mtu { interface: String, mtu: u32, needed: u32 },
    #[error("cannot send packets of our own making: {0}; be root, or have the right CAP_NET_RAW")]
    Socket(io::Error),
    #[error("cannot read the members in {}: {why}", path.display())]
    Members { path: PathBuf, why: String },
    #[error("{0}")]
    Max(#[from] NoMax),
    #[error("{ok} addresses are never good for a packet that has at most {max}")]
    Ok { ok: usize, max: usize },
    #[error("{0}")]
    Interface(#[from] InterfaceError),
    #[error("{0}")]
    Tun(#[from] TunError),
    #[error("the sender cannot go on: {0}")]
    System(#[from] io::Error),
}
