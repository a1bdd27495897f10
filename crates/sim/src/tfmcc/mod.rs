//! Congestion control on a shared link: flows of `--rate auto` and TCP connections behind one drop-tail queue.
//!
//! Of the retransmissions of `auto` only those are modelled that leave when nothing is due for the group, and not what TCP makes of
//! them (the lab has that). Nor are queues on the way back.

mod auto;
mod cubic;
mod link;
mod slow_start;
mod world;

use std::{ops::Range, time::Duration};

pub use world::run;

/// Length of every full packet, in bytes of IP.
pub const PACKET_BYTES: u32 = 1500;

/// What shares the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// A sender with so many receivers behind the link, of which the first may be a liar.
    Auto { receivers: usize, has_liar: bool },
    /// A TCP connection that always has something to send, with CUBIC (RFC 9438).
    Cubic,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    /// Each flow and when it starts.
    pub flows: Vec<(Flow, Duration)>,
    /// The link's rate from each time on; 0 is a cut cable. In order, the first at 0.
    pub rates_bps: Vec<(Duration, u64)>,
    pub queue_bytes: u64,
    /// Without the queue.
    pub round_trip: Duration,
    pub length: Duration,
    /// `auto` does not follow receivers that can bear less.
    pub floor_bps: Option<u64>,
    /// Meanwhile `auto` has nothing for the group and fills its rate with retransmissions.
    pub retransmits: Option<Range<Duration>>,
}

/// What became of a flow, in spans of [`SPAN`].
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub spans: Vec<Span>,
    /// The most reports that came in one feedback round from receivers that the sender did not follow.
    pub most_reports_a_round: u32,
    /// The highest rate that the sender allowed itself, in bits a second.
    pub highest_bps: u64,
    /// The lowest while it had nothing for the group.
    pub alone_bps: Option<u64>,
}

pub const SPAN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    pub sent_bytes: u64,
    pub delivered_bytes: u64,
}

impl Figures {
    /// Bits a second that got through the link between two times.
    pub fn delivered_bps(&self, from: Duration, until: Duration) -> f64 {
        self.between(from, until).map(|span| span.delivered_bytes).sum::<u64>() as f64 * 8.0
            / (until - from).as_secs_f64()
    }

    /// The share of what was sent between two times that the queue lost.
    pub fn lost(&self, from: Duration, until: Duration) -> f64 {
        let sum = |bytes: fn(&Span) -> u64| self.between(from, until).map(bytes).sum::<u64>() as f64;
        let sent = sum(|span| span.sent_bytes);
        if sent > 0.0 { 1.0 - sum(|span| span.delivered_bytes) / sent } else { 0.0 }
    }

    fn between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Span> {
        let index = |time: Duration| (time.as_nanos() / SPAN.as_nanos()) as usize;
        self.spans.iter().take(index(until)).skip(index(from))
    }
}
