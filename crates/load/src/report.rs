//! The report of a host on its part in a run. `treecast load run --json` prints a [`HostReport`].

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use crate::packet::Format;

/// The version of the JSON documents of `treecast load`.
pub const VERSION: u32 = 1;

/// One host's part in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// The group and the UDP port.
    pub group: SocketAddr,
    pub interface: String,
    pub packet: Format,
    /// UDP payload of each packet, in bytes.
    pub size_bytes: usize,
    /// The host's clock at the beginning, in seconds since 1970.
    pub began_unix_seconds: f64,
    /// Whether this host hears its own senders.
    pub loops_back: bool,
    /// One entry for each sender of this host.
    pub senders: Vec<SenderReport>,
    /// Number of data packets that left by the interface, counted by a packet socket. `None` if it could not be counted.
    pub on_wire: Option<u64>,
    /// The packets that the host received. `None` if it only sent.
    pub receiver: Option<ReceiverReport>,
    /// Packets that the interface dropped during the run.
    pub interface_drops: InterfaceDrops,
    /// The number of times that this host's clock jumped by more than 50 ms.
    pub clock_jumps: u32,
    /// Sentences for a person about what restricts the results.
    pub warnings: Vec<String>,
}

impl HostReport {
    /// Whether the host sent all that was asked for, and all of it left.
    pub fn is_met(&self) -> bool {
        let sent: u64 = self.senders.iter().map(|sender| sender.sent).sum();
        self.senders.iter().all(SenderReport::is_met) && self.on_wire.is_none_or(|left| left == sent)
    }
}

/// Packets that an interface dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceDrops {
    pub received: u64,
    pub sent: u64,
}

/// One sender of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SenderReport {
    /// The sender's identity.
    pub sender: Ipv4Addr,
    /// The session. `None` with the paper's packet.
    pub session: Option<u32>,
    /// The address and port that the packets come from.
    pub source: SocketAddr,
    /// Number of packets asked for.
    pub asked: u64,
    /// Number of packets handed to the kernel. Packets are numbered 1 to `sent` without gaps.
    pub sent: u64,
    /// Number of packets that the kernel refused. They have no number.
    pub refused: u64,
    pub steps: Vec<StepReport>,
    /// The lateness of packets, after their deadlines. `None` if none was sent.
    pub deadline_error: Option<Spread>,
}

impl SenderReport {
    /// Whether all was sent that was asked for.
    pub fn is_met(&self) -> bool {
        self.sent == self.asked
    }
}

/// A step of the schedule, as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The rate asked for, in packets per second.
    pub asked_pps: f64,
    /// The rate between the step's first and last packet. The rate asked for if fewer than two packets were sent.
    pub real_pps: f64,
    pub asked: u64,
    pub sent: u64,
}

/// The packets that a host received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// One entry for each session of each sender that was heard.
    pub pairs: Vec<PairReport>,
    /// Size of the late window, in packets.
    pub window: u64,
    /// Packets that the kernel dropped because the socket's buffer was full (`SO_RXQ_OVFL`). They are lost, but not by
    /// the network. They may be of any sender.
    pub kernel_dropped: u64,
    /// Datagrams that are no packets of this format.
    pub foreign: u64,
    /// Packets whose number is so far ahead that no sender can have sent so many.
    pub implausible: u64,
    /// Packets of streams for which there was no room.
    pub unaccounted: u64,
    /// Streams with a single packet that were forgotten to make room for others.
    pub forgotten_streams: u64,
}

/// The packets that one receiver heard of one session of one sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    pub sender: Ipv4Addr,
    /// The session. `None` with the paper's packet.
    pub session: Option<u32>,
    /// The number of the session among this sender's, from 0. Above 0, the sender has restarted.
    pub restart: u32,
    /// The address and port that the packets came from.
    pub source: SocketAddr,
    /// The end of the session, as far as this receiver knows.
    pub ending: Ending,
    /// Whether another sender with the same identity sent at the same time.
    pub shares_identity: bool,
    #[serde(flatten)]
    pub counts: Counts,
    /// Losses by the rate asked for, in the order in which the rates were heard.
    pub rates: Vec<RateLosses>,
    /// First and last number of each run of lost packets, in order.
    pub lost_ranges: Vec<(u64, u64)>,
    /// Whether there were more runs than `lost_ranges` holds.
    pub lost_ranges_cut: bool,
    pub reordering: Reordering,
    pub delay: Delay,
}

/// Numbers of packets of one session at one receiver. `expected = received + late + lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets sent before this receiver listened, computed from the number and the rate of the first packet that it heard. They
    /// are part of no other count.
    #[serde(default)]
    pub missed: u64,
    /// Number of packets sent while this receiver listened, as far as it knows: by the end packet, or the highest number heard.
    pub expected: u64,
    /// Packets that arrived at least once, and within the window.
    pub received: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// The lost packets before the first one that arrived.
    pub lost_before_first: u64,
    /// Packets that arrived after more than a window of others had overtaken them.
    pub late: u64,
    /// Further copies of packets.
    pub duplicates: u64,
    /// Packets of `received` that arrived after one with a higher number (RFC 4737, section 3).
    pub reordered: u64,
    /// The paper's invalid packets: `lost + late + reordered`.
    pub invalid: u64,
    /// Packets so old that it is not known whether they were late or copies.
    pub stale: u64,
    /// Received UDP payload, in bytes, copies included.
    pub bytes: u64,
}

/// The end of a session, as far as a receiver knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The receiver heard the end packet.
    Announced,
    /// The sender was heard until the receiver stopped, or a moment before.
    #[default]
    Open,
    /// The sender fell silent, without an end packet.
    Vanished,
    /// The sender started again.
    Restarted,
}

/// Losses at one rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RateLosses {
    /// The rate asked for, in packets per second. 0 if it is not known.
    pub rate_pps: f64,
    pub expected: u64,
    pub lost: u64,
    /// Number of runs of consecutive losses, by their length. Lengths above 64 are rounded down to a power of two.
    pub runs: BTreeMap<u64, u64>,
}

/// The extent of reordering (RFC 4737, sections 4.2, 4.3 and 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reordering {
    /// Mean number of places by which a reordered packet came too late (section 4.2).
    pub mean_extent: f64,
    pub max_extent: u64,
    /// Longest time by which a reordered packet came too late, in microseconds (section 4.3).
    pub max_late_us: f64,
    /// Reordered packets before which at least three packets with higher numbers arrived in a row (section 5, n = 3): TCP would
    /// send again.
    pub by_three: u64,
}

/// Latency and jitter, for packets that say when they were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// One-way latency (RFC 7679). It is right only as far as both clocks agree.
    pub latency: Option<Spread>,
    /// Absolute difference of the latencies of packets with consecutive numbers (RFC 3393, section 4), which needs no common time.
    pub jitter: Option<Spread>,
    /// Packets that arrived before they were sent, by the two clocks.
    pub negative: u64,
    /// The number of times that one of the clocks jumped by more than a second.
    pub clock_jumps: u64,
}

/// The distribution of a time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub count: u64,
    pub mean_us: f64,
    pub min_us: f64,
    pub max_us: f64,
    /// Standard deviation of the sample.
    pub sd_us: f64,
    /// Median, at most 3 % too high.
    pub p50_us: f64,
    /// The 99th percentile, at most 3 % too high.
    pub p99_us: f64,
}

/// The largest length of a run of losses that is counted as it is.
const MAX_EXACT_RUN: u64 = 64;

impl RateLosses {
    /// Counts a run of lost packets.
    pub fn add_run(&mut self, length: u64) {
        *self.runs.entry(counted_length(length)).or_default() += 1;
    }

    /// Counts a run that has become longer.
    pub fn move_run(&mut self, from: u64, to: u64) {
        let from = counted_length(from);
        if let Some(count) = self.runs.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.runs.remove(&from);
            }
        }
        self.add_run(to);
    }
}

fn counted_length(length: u64) -> u64 {
    if length <= MAX_EXACT_RUN { length } else { 1 << length.ilog2() }
}

impl PairReport {
    /// The counts before anything was heard from `source`.
    pub fn unheard(source: std::net::SocketAddr) -> Self {
        Self {
            sender: Ipv4Addr::UNSPECIFIED,
            session: None,
            restart: 0,
            source,
            ending: Ending::Open,
            shares_identity: false,
            counts: Counts::default(),
            rates: Vec::new(),
            lost_ranges: Vec::new(),
            lost_ranges_cut: false,
            reordering: Default::default(),
            delay: Default::default(),
        }
    }

    /// The highest number that the session had, as far as is known.
    pub fn last_number(&self) -> u64 {
        self.counts.missed.saturating_add(self.counts.expected)
    }

    /// The share of packets that did not arrive in time, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        let Counts { lost, late, expected, .. } = self.counts;
        (lost + late) as f64 / expected.max(1) as f64
    }
}
