//! The MEADcast and Xcast sender on a host: datagrams that any program sends to a TUN device go to a group of
//! receivers.
//!
//! There are two threads, as in meadcast-thesis-2024, 4.3.1. One reads the device and sends, always by a
//! complete transmission group. The other discovers routers and replaces that group.

mod discovery;
pub mod event;
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
pub(crate) use self::raw::{PacketSocket, epoch};
pub(crate) use self::session::check_receivers;
pub(crate) use self::sharing::{KeyWatch, no_router_has_key};
pub(crate) use self::super_socket::SuperSocket;
pub use self::{session::run, sharing::Sharing};
pub use treecast_host::tun::TunError;

/// The settings of the sender. Names are those of listing A.3, if it has one.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The receivers, each with its UDP port.
    pub receivers: Vec<(IpAddr, u16)>,
    /// A file with more receivers: an address a line, with or without a port. It is read again when it changes.
    pub members: Option<PathBuf>,
    /// The UDP port of receivers that have no port of their own.
    pub port: u16,
    /// The sender's address. `None`: that of the route to the first receiver.
    pub address: Option<Ipv6Addr>,
    /// The interface by which packets leave. `None`: the one that routes name.
    pub interface: Option<String>,
    /// The UDP source port of packets. `None`: the program's own.
    pub source_port: Option<u16>,
    /// The address that programs send to.
    pub tun_address: Ipv6Addr,
    /// The device's name. `None`: a free name.
    pub tun: Option<String>,
    /// The time before the first discovery.
    pub delay: Duration,
    /// The time from the begin of one discovery to the next.
    pub interval: Duration,
    /// The time for which a discovery gathers responses.
    pub timeout: Duration,
    /// The largest number of requests in a second.
    pub requests_per_second: u32,
    /// Whether to discover only when there is traffic.
    pub wait: bool,
    /// The way in which receivers share packets.
    pub sharing: Sharing,
    /// The bytes behind the IPv6 header of a packet, for grouping by cost.
    pub payload_bytes: usize,
    /// Whether a packet's list has a UDP port for each receiver. If not, all receivers use the port in the UDP
    /// header.
    pub has_ports: bool,
    /// The multicast group by which routers may serve receivers on their own links.
    pub group: Option<Ipv6Addr>,
    /// The settings of Xcast, if it is sent instead of MEADcast. There is no discovery then, and `group` is
    /// Xcast+'s group, whose routers register.
    pub xcast: Option<Xcast>,
    /// Whether the kernel sends all packets, divided, so that a firewall sees them.
    pub divides: bool,
    /// The interval between statistics. `None`: they are only reported at the end.
    pub statistics: Option<Duration>,
}

/// The settings of Xcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xcast {
    /// Whether routers overwrite the addresses of those that a copy is not for.
    pub is_anonymous: bool,
}

/// The reason why the sender cannot begin, or go on.
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
