//! Congestion control on a shared link: flows of `--rate auto` or `--rate tfmcc`, and TCP connections behind one drop-tail queue.
//!
//! Two things are not modelled. Retransmissions of `auto` are modelled only while the sender has nothing for
//! the group, and without TCP's own behaviour (the lab has that). And there are no queues on the way back.

mod auto;
mod clock;
pub mod groups;
mod lie;
mod local;
mod shared_link;

use std::{collections::BTreeMap, ops::Range, time::Duration};

use treecast_proto::{
    Instant,
    tfmcc::{Cause, Control},
};

use crate::network::{Link, Loss, Narrow, Path, generator};
pub use crate::{network::Policer, tcp::PACKET_BYTES};

pub use lie::{Forgery, Lie};
pub use shared_link::run;

/// A flow that shares the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// A sender of [`Scenario::control`] with this many receivers behind the link.
    Auto { receivers: usize },
    /// A sender with [`Control::Model`], whatever the others have.
    Model { receivers: usize },
    /// A TCP connection that always has something to send, with BBR's first version.
    Bbr,
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
    /// The control of senders that are [`Flow::Auto`].
    pub control: Control,
    /// The round trip of each flow without any queue. Empty: `round_trip` for all.
    pub round_trips: Vec<Duration>,
    pub faults: Faults,
}

/// What goes wrong on the link and at hosts.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Packets that get lost behind the queue, for all receivers alike. TCP's too.
    pub loss: Loss,
    /// The share of packets that each receiver loses for itself.
    pub own_loss: f64,
    /// A limit without a queue: packets above it are dropped.
    pub policer: Option<Policer>,
    /// Whether each packet is marked.
    pub marks_all: bool,
    /// A queue longer than this share of its length marks packets (RFC 3168).
    pub marks_above: Option<f64>,
    /// What the receivers' clocks gain, in seconds a second.
    pub drift: f64,
    /// How far the receivers' clocks jump, and when.
    pub jump: Option<(Duration, Duration)>,
    /// The receivers' hosts handle packets only each so long. Zero: at once.
    pub lateness: Duration,
    /// The time in which a sender has something to send, and then the time in which it has not. Zero: it always has.
    pub busy: Duration,
    pub idle: Duration,
    /// What the first receivers of each flow say in place of the truth.
    pub lies: Vec<Lie>,
    /// As many of them never ask for what they lack.
    pub mute: usize,
    /// What liars show of probes.
    pub forgery: Forgery,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: Loss::Uniform(0.0),
            own_loss: 0.0,
            policer: None,
            marks_all: false,
            marks_above: None,
            drift: 0.0,
            jump: None,
            lateness: Duration::ZERO,
            busy: Duration::ZERO,
            idle: Duration::ZERO,
            lies: Vec::new(),
            mute: 0,
            forgery: Forgery::None,
        }
    }
}

/// The last moment of a run of this length.
fn end_after(length: Duration) -> Instant {
    Instant::ZERO + length.saturating_sub(Duration::from_nanos(1))
}

/// Creates a link with a queue of so many bytes, without delay or loss, whose rate is still to be set.
fn queue(queue_bytes: u64) -> Link {
    let narrow = Narrow { queue_bytes, ..Narrow::new(0, Duration::ZERO) };
    Link::new(Path::clean(Duration::ZERO), generator(0, 0)).with_narrow(Some(narrow))
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
    /// The number of packets that passed the queue.
    pub packets: u64,
    /// All reports that reached the sender, whoever sent them.
    pub reports: u64,
    /// The lowest rate in bits a second while the sender had nothing for the group. `None` if there was no such
    /// time.
    pub alone_bps: Option<u64>,
    /// How far the sender has doubted each receiver at most, once it has reported: 0 not at all, 1 not believed.
    pub doubts: BTreeMap<usize, f64>,
}

pub const SPAN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    pub sent_bytes: u64,
    /// What the queue took of the bytes sent in this span.
    pub delivered_bytes: u64,
    /// Bytes that had passed the link in this span, whenever they were sent.
    pub passed_bytes: u64,
    /// The sum of the delays in the queue of the packets sent in this span, in nanoseconds.
    pub queued_ns: u64,
    /// The last rate of a sender of ours in this span, in bits a second, what limited it, and the queue as it knew it.
    pub rate_bps: u64,
    pub cause: Option<Cause>,
    pub queue: Duration,
}

impl Scenario {
    /// One flow alone on a link, without faults.
    pub fn alone(seed: u64, flow: Flow, rate_bps: u64, round_trip: Duration, queue_bytes: u64) -> Self {
        Self {
            seed,
            flows: vec![(flow, Duration::ZERO)],
            rates_bps: vec![(Duration::ZERO, rate_bps)],
            queue_bytes,
            round_trip,
            length: Duration::from_secs(30),
            floor_bps: None,
            retransmits: None,
            control: Control::Model,
            round_trips: Vec::new(),
            faults: Faults::default(),
        }
    }

    /// The round trip of a flow without any queue.
    fn round_trip_of(&self, flow: usize) -> Duration {
        self.round_trips.get(flow).copied().unwrap_or(self.round_trip)
    }
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

    /// The mean time that packets of this flow waited in the queue.
    pub fn queue(&self) -> Duration {
        let queued_ns: u64 = self.spans.iter().map(|span| span.queued_ns).sum();
        Duration::from_nanos(queued_ns / self.packets.max(1))
    }

    fn between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Span> {
        let index = |time: Duration| (time.as_nanos() / SPAN.as_nanos()) as usize;
        self.spans.iter().take(index(until)).skip(index(from))
    }
}
