//! The counts of one session of one sender.

use std::{net::SocketAddr, time::Duration};

use super::{
    Times,
    delay::Delays,
    history::{HISTORY, History, Known},
    order::Order,
    paper_log::PaperLog,
    runs::Runs,
};
use crate::{
    packet::Packet,
    report::{self, Ending, PairReport},
};

/// The largest number that is believed. A sender of a million packets per second reaches it after 12 days.
pub const MAX_NUMBER: u64 = 1 << 40;

/// A number is believed at once if it is at most so far above the highest one, or if a sender of [`FASTEST_PPS`] can have reached it
/// since. Otherwise the next packet must confirm it.
const MAX_STEP: u64 = 1000;
const FASTEST_PPS: f64 = 1e6;

/// The number of its intervals, beside [`SILENCE`], for which a sender must be silent to have vanished.
const SILENT_INTERVALS: u32 = 5;
const SILENCE: Duration = Duration::from_secs(1);

/// The fate of a packet.
#[derive(Debug)]
pub enum Verdict {
    Counted,
    /// The number cannot be right. The packet is not counted.
    Implausible,
    /// The sender has started again. This is its new stream, which has counted the packet.
    Restarted(Box<Stream>),
}

#[derive(Debug, Clone)]
pub struct Stream {
    listens_since: Option<Duration>,
    first_at: Duration,
    last_at: Duration,
    window: u64,
    history: History,
    runs: Runs,
    order: Order,
    delays: Delays,
    paper_log: PaperLog,
    counts: Counts,
    /// The number of the last packet of the session, once the end packet has told it.
    end: Option<u64>,
    /// A packet that may be the first of a restarted sender, held back from the counts.
    suspect: Option<Suspect>,
    /// A packet whose number is far ahead, held back until the next one confirms it.
    ahead: Option<Suspect>,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    /// Packets that arrived at least once, late ones included.
    distinct: u64,
    late: u64,
    duplicates: u64,
    stale: u64,
    bytes: u64,
    /// The number of the packet that arrived first. 0: none yet.
    first: u64,
    /// Packets sent before the receiver listened. Their numbers are the lowest ones.
    missed: u64,
    /// Packets with numbers below `first` that arrived all the same.
    below_first: u64,
    rate_pps: f64,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    packet: Packet,
    rate_pps: f64,
    bytes: usize,
    at: Times,
}

impl Stream {
    pub fn new(window: u64, listens_since: Option<Duration>, at: Times) -> Self {
        Self {
            listens_since,
            first_at: at.steady,
            last_at: at.steady,
            window,
            history: History::new(),
            runs: Runs::default(),
            order: Order::new(window),
            delays: Delays::default(),
            paper_log: PaperLog::default(),
            counts: Counts::default(),
            end: None,
            suspect: None,
            ahead: None,
        }
    }

    /// Counts a packet. A packet without session may be the first of a sender that has started again.
    pub fn take(&mut self, packet: &Packet, rate_pps: f64, bytes: usize, at: Times) -> Verdict {
        if packet.number > MAX_NUMBER {
            return Verdict::Implausible;
        }
        let arrived = Suspect { packet: *packet, rate_pps, bytes, at };
        if self.is_far_ahead(packet.number, at) {
            let confirmed = self.ahead.filter(|ahead| {
                let is_end = |packet: &Packet| packet.stamp.is_some_and(|stamp| stamp.is_end);
                let least = if is_end(packet) && is_end(&ahead.packet) { 0 } else { 1 };
                packet
                    .number
                    .checked_sub(ahead.packet.number)
                    .is_some_and(|step| (least..=MAX_STEP).contains(&step))
            });
            let Some(confirmed) = confirmed else {
                let is_refused = self.ahead.replace(arrived).is_some();
                return if is_refused { Verdict::Implausible } else { Verdict::Counted };
            };
            self.ahead = None;
            self.count(&confirmed);
        }
        if packet.stamp.is_none() && self.falls_back(packet.number) {
            if let Some(next) = self.restart(&arrived) {
                return Verdict::Restarted(Box::new(next));
            }
            self.suspect = Some(arrived);
            return Verdict::Counted;
        }
        self.count_suspect();
        self.count(&arrived);
        Verdict::Counted
    }

    /// Whether a number is so high that no sender can have reached it since the last packet.
    fn is_far_ahead(&self, number: u64, at: Times) -> bool {
        let seconds = at.steady.saturating_sub(self.last_at).as_secs_f64();
        number > self.history.highest() + MAX_STEP + (seconds * FASTEST_PPS) as u64
    }

    /// The number of packets that are held back because their numbers are far ahead.
    pub fn held_back(&self) -> u64 {
        u64::from(self.ahead.is_some())
    }

    /// Whether a number has been received before, is one of a session's first, and was overtaken by more than a window.
    fn falls_back(&self, number: u64) -> bool {
        let is_first = number <= self.window.max(1);
        is_first && self.history.highest() > number + self.window && self.history.look(number) != Known::New
    }

    /// The stream of a sender that has started again: two of a session's first packets have come once more, in order. One alone is a
    /// copy.
    fn restart(&mut self, arrived: &Suspect) -> Option<Self> {
        let Some(first) = self.suspect.filter(|before| before.packet.number + 1 == arrived.packet.number)
        else {
            self.count_suspect();
            return None;
        };
        self.suspect = None;
        let mut next = Self::new(self.window, self.listens_since, first.at);
        next.count(&first);
        next.count(arrived);
        Some(next)
    }

    /// Counts the packet that was held back: it was a copy, after all.
    fn count_suspect(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.count(&suspect);
        }
    }

    fn count(&mut self, Suspect { packet, rate_pps, bytes, at }: &Suspect) {
        let number = packet.number;
        self.last_at = self.last_at.max(at.steady);
        if packet.stamp.is_some_and(|stamp| stamp.is_end) {
            self.end = self.end.max(Some(number));
            return;
        }
        self.counts.bytes += *bytes as u64;
        self.counts.rate_pps = *rate_pps;
        match self.history.look(number) {
            Known::Received => self.counts.duplicates += 1,
            Known::Forgotten => self.counts.stale += 1,
            Known::New => {
                let late = self.counts.late;
                self.count_first_copy(number, *rate_pps, at.steady);
                let is_highest = self.history.highest() == number;
                if let Some(stamp) = packet.stamp.filter(|_| self.counts.late == late) {
                    self.delays.take(number, is_highest, &stamp, *at);
                }
            }
        }
    }

    fn count_first_copy(&mut self, number: u64, rate_pps: f64, at: Duration) {
        self.counts.distinct += 1;
        if self.counts.first == 0 {
            self.counts.first = number;
            self.counts.missed = self.missed_before(number, rate_pps, at);
            self.history.begin_behind(self.counts.missed);
        }
        self.counts.below_first += u64::from(number < self.counts.first);
        if number > self.history.highest() {
            self.runs.note_rate(number, rate_pps);
            self.order.take_highest(number, at);
            let runs = &mut self.runs;
            self.history.advance(number, &mut |numbers| runs.settle(numbers));
        } else if self.history.count_above(number) > self.window {
            self.counts.late += 1;
            self.order.take_late(number);
        } else {
            self.order.take_reordered(number, at);
        }
        self.history.mark(number);
    }

    /// The number of packets that were sent before the receiver listened, given the first packet that it heard. Since then, the sender
    /// has sent as many as the rate says. All before these are missed, and the rest is lost. No other clock is needed.
    fn missed_before(&self, first: u64, rate_pps: f64, at: Duration) -> u64 {
        let Some(since) = self.listens_since.filter(|_| rate_pps > 0.0) else { return 0 };
        let listened = at.saturating_sub(since).as_secs_f64();
        (first - 1).saturating_sub((listened * rate_pps) as u64)
    }

    /// The paper's line about an invalid packet, if one is complete.
    pub fn log(&mut self, packet: &Packet) -> Option<String> {
        self.paper_log.take(packet.sender, packet.number)
    }

    pub fn first_at(&self) -> Duration {
        self.first_at
    }

    pub fn last_at(&self) -> Duration {
        self.last_at
    }

    /// Whether only one packet was heard.
    pub fn is_single(&self) -> bool {
        self.counts.distinct + self.counts.duplicates <= 1
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.distinct == 0 && self.end.is_none()
    }

    /// The counts until now, without what only the names of streams tell.
    pub fn report(&self, source: SocketAddr, now: Duration) -> PairReport {
        let mut settled = self.clone();
        settled.count_suspect();
        let Self { history, mut runs, order, delays, counts, .. } = settled;
        let last = history.highest().max(self.end.unwrap_or(0));
        let expected = last - counts.missed;
        history.drain(last, |numbers| runs.settle(numbers));
        runs.close();
        let lost = expected - counts.distinct;
        let before_first = if counts.first == 0 { expected } else { counts.first - 1 - counts.missed };
        PairReport {
            ending: self.ending(now),
            counts: report::Counts {
                missed: counts.missed,
                expected,
                received: counts.distinct - counts.late,
                lost,
                lost_before_first: before_first - counts.below_first,
                late: counts.late,
                duplicates: counts.duplicates,
                reordered: order.count(),
                invalid: lost + counts.late + order.count(),
                stale: counts.stale,
                bytes: counts.bytes,
            },
            rates: runs.rates,
            lost_ranges: runs.ranges,
            lost_ranges_cut: runs.is_cut,
            reordering: order.report(),
            delay: delays.report(),
            ..PairReport::unheard(source)
        }
    }

    fn ending(&self, now: Duration) -> Ending {
        let heard = self.last_at.saturating_sub(self.first_at);
        let interval = match self.counts.distinct {
            0 | 1 if self.counts.rate_pps > 0.0 => {
                Duration::try_from_secs_f64(1.0 / self.counts.rate_pps).unwrap_or(Duration::MAX)
            }
            0 | 1 => Duration::MAX,
            many => heard.div_f64((many - 1) as f64),
        };
        let patience = interval.saturating_mul(SILENT_INTERVALS).max(SILENCE);
        match self.end {
            Some(_) => Ending::Announced,
            None if now.saturating_sub(self.last_at) > patience => Ending::Vanished,
            None => Ending::Open,
        }
    }
}

const _: () =
    assert!(HISTORY >= 2 * crate::config::MAX_WINDOW, "a late packet must be told from a forgotten one");
