//! The configuration of a host's part in a run.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::{packet::Format, schedule::Schedule};

/// The paper's window: the number of packets that may overtake a packet before it is late.
pub const PAPER_WINDOW: u64 = 32;

/// The largest window, in packets.
pub const MAX_WINDOW: u64 = 16_384;

/// The number of streams (sessions of senders) that a receiver keeps counts of, unless told otherwise.
pub const DEFAULT_STREAMS: usize = 1024;

/// One host's part in a run.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// The host's name in results.
    pub host: String,
    /// The group and the UDP port.
    pub group: SocketAddr,
    /// The name of the interface.
    pub interface: String,
    /// The sources to join (source-specific multicast). Empty: any source.
    pub sources: Vec<IpAddr>,
    pub packet: Format,
    /// UDP payload of each packet, in bytes.
    pub size_bytes: usize,
    /// TTL or hop limit of the packets.
    pub hops: u8,
    /// Whether the packets of this host's senders come back to receivers on the same host.
    pub loops_back: bool,
    /// The time from the start until the first packet, in which others get ready.
    pub lead: Duration,
    /// The host's part as a sender. `None`: it sends nothing.
    pub sending: Option<Sending>,
    /// The host's part as a receiver. `None`: it receives nothing.
    pub receiving: Option<Receiving>,
}

/// A host's part as a sender.
#[derive(Debug, Clone)]
pub struct Sending {
    pub schedule: Schedule,
    /// Number of senders, each with a socket, an identity and the whole rate.
    pub senders: u32,
    /// Identity of the first sender; each further one has the next address. `None`: the interface's IPv4 address, or a
    /// number drawn from 240.0.0.0/4 if it has none.
    pub first_identity: Option<Ipv4Addr>,
    /// Number of threads that the senders are spread over. 0: one for each processor, at most one for each sender.
    pub threads: usize,
    /// The time before each deadline that is waited for by spinning. Zero: only sleep.
    pub spin: Duration,
    /// Whether packets of one sender that are due together leave as one super-packet (`UDP_SEGMENT`).
    pub super_packets: bool,
}

impl Sending {
    /// One sender with this schedule.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            senders: 1,
            first_identity: None,
            threads: 0,
            spin: Duration::ZERO,
            super_packets: false,
        }
    }
}

/// A host's part as a receiver.
#[derive(Debug, Clone)]
pub struct Receiving {
    /// The time for which the host listens after its lead. `None`: until it is stopped.
    pub time: Option<Duration>,
    /// The time that it listens longer, for packets that are still on their way.
    pub linger: Duration,
    /// The number of packets that may overtake a packet before it is late: 0 to [`MAX_WINDOW`].
    pub window: u64,
    /// Largest number of streams that counts are kept of.
    pub max_streams: usize,
    /// The rates by the packets' numbers, for the paper's packet, which does not say its rate.
    pub schedule: Option<Schedule>,
}

impl Receiving {
    /// Receiving for this time, with the paper's window.
    pub fn new(time: Duration) -> Self {
        let linger = Duration::from_secs(1);
        Self { time: Some(time), linger, window: PAPER_WINDOW, max_streams: DEFAULT_STREAMS, schedule: None }
    }
}
