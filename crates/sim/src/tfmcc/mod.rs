//! Congestion control on a shared link: flows of `--rate auto` and TCP connections behind one drop-tail queue.
//!
//! Two things are not modelled. Retransmissions of `auto` are modelled only while the sender has nothing for
//! the group, and without TCP's own behaviour (the lab has that). And there are no queues on the way back.

mod auto;
mod cubic;
mod link;
mod local;
mod slow_start;
mod world;

use std::{ops::Range, time::Duration};

pub(crate) use cubic::Cubic;
pub use world::run;

/// Length of every full packet in bytes, with its IP header.
pub const PACKET_BYTES: u32 = 1500;

/// A flow that shares the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// An `auto` sender with this many receivers behind the link. The first receiver may be a liar.
    Auto { receivers: usize, has_liar: bool },
    /// A session with local groups, with this many receivers behind the link.
    Local { receivers: usize },
    /// A TCP connection that always has something to send, with CUBIC (RFC 9438).
    Cubic,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    /// The flows, each with the time when it starts.
    pub flows: Vec<(Flow, Duration)>,
    /// The link's rate in bits a second, with the time from which it holds. Times ascend from 0. A rate of 0 is
    /// a cut cable.
    pub rates_bps: Vec<(Duration, u64)>,
    pub queue_bytes: u64,
    /// Round-trip time of the link without any queue.
    pub round_trip: Duration,
    pub length: Duration,
    /// The floor of `auto` in bits a second: receivers that can take less do not limit the rate. `None`: no
    /// floor.
    pub floor_bps: Option<u64>,
    /// The time in which `auto` has nothing for the group, and fills its rate with retransmissions. `None`:
    /// never.
    pub retransmits: Option<Range<Duration>>,
}

/// The results of one flow, in spans of [`SPAN`].
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub spans: Vec<Span>,
    /// The largest number of reports that came in one feedback round from receivers that did not limit the
    /// rate.
    pub most_reports_a_round: u32,
    /// The highest rate that the sender allowed itself, in bits a second.
    pub highest_bps: u64,
    /// The lowest rate in bits a second while the sender had nothing for the group. `None` if there was no such
    /// time.
    pub alone_bps: Option<u64>,
}

pub const SPAN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    pub sent_bytes: u64,
    pub delivered_bytes: u64,
}

impl Figures {
    /// Bits a second that passed the link between two times.
    pub fn delivered_bps(&self, from: Duration, until: Duration) -> f64 {
        self.between(from, until).map(|span| span.delivered_bytes).sum::<u64>() as f64 * 8.0
            / (until - from).as_secs_f64()
    }

    /// The share of the packets sent between two times that the queue dropped, 0 to 1.
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
