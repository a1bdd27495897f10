//! The rate, in phases (draft-ietf-ccwg-bbr, 4.3 and 5.3).
//!
//! | phase | rate | ends |
//! |---|---|---|
//! | Start | 2.77 times what arrives | when it does not grow by a quarter in three round trips, or a queue, or congestion shows |
//! | Drain, Down | less than what is delivered | when the queue is gone, or turns out to be others' |
//! | Cruise | what is delivered, or the window of [`Contest`] | after eight round trips |
//! | Up | 1.25 times what is delivered | when it does not grow, or a queue or congestion shows |

use std::time::Duration;

use treecast_wire::message::Phase;

use super::{contest::Contest, loss, path::queue_that_counts, windowed::Least};
use crate::{Instant, random::SplitMix64, usage::Usage};

/// The highest rate that is ever allowed, whatever receivers report.
pub const MOST_BPS: f64 = 1e12;

/// No rate is lower than so many packets a second: nobody could tell that things are better.
const LEAST_PACKETS: f64 = 5.0;

/// The rate at the start, in packets a round trip (RFC 6928).
const FIRST_PACKETS: f64 = 10.0;

/// 4 ln 2: what arrives doubles in each round trip (`BBR.StartupPacingGain`).
const START_GAIN: f64 = 2.77;
/// The growth that shows that the path is not full, and the round trips for which it may be missing (5.3.1.2).
const START_GROWTH: f64 = 1.25;
const START_ROUNDS: u32 = 3;

const UP_GAIN: f64 = 1.25;
/// The growth with which Up goes on.
const UP_GROWTH: f64 = 1.05;
const DOWN_GAIN: f64 = 0.75;
/// The gain of Drain, and of Down when the queue is longer than half of the round trip.
const DRAIN_GAIN: f64 = 0.5;

/// Round trips between two phases Up, and the least time.
const CRUISE_ROUNDS: u32 = 8;
const SHORTEST_CRUISE: Duration = Duration::from_millis(100);

/// A loss above this share in one round trip, with a queue, says that the path delivers what arrives and not more.
const HEAVY_LOSS: f64 = 0.05;
/// What arrives is less than this share of what was delivered before: the path has become narrower, or others have come.
const NARROWED: f64 = 0.7;

/// A sender that shares a queue with others gets less when it sends less. One that is alone gets at least this share.
const ALONE_SHARE: f64 = 0.93;

/// The most data under way when nobody contends, in bandwidth-delay products (`BBR.CwndGain`).
const MOST_UNDER_WAY: f64 = 2.0;

/// In a contest, the rate is at most so many times what arrives.
const MOST_ABOVE_LATEST: f64 = 1.25;

/// Round trips are no shorter where something is divided by them.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_millis(1);

/// The part of a report that the rate depends on. Rates are in bits a second, shares from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    pub delivered_bps: f64,
    pub latest_bps: f64,
    pub queue: Duration,
    pub lost: f64,
    pub lost_longer: f64,
    pub marked: f64,
    pub round_trip: Duration,
}

/// What the reports of the receiver that the sender follows say about its path. Rates are of all that is sent.
#[derive(Debug, Default)]
struct Model {
    delivered_bps: f64,
    latest_bps: f64,
    queue: Duration,
    /// The last round trip.
    round_trip: Duration,
    shortest: Least,
}

#[derive(Debug)]
pub struct Steering {
    packet_bits: f64,
    least_bps: f64,
    bps: f64,
    phase: Phase,
    /// When the phase began, and what was delivered then.
    since: Instant,
    before_bps: f64,
    model: Model,
    /// What the path delivers for certain since the last heavy loss. Infinite: no bound.
    hold_bps: f64,
    contest: Contest,
    /// The rate before the last yielding, and when.
    yielded: Option<(f64, Instant)>,
    usage: Usage,
    /// The rate that Start has last seen grow, and when.
    grown: (f64, Instant),
    cruise_ends: Instant,
    /// Losses before this time are answered already.
    heeded_until: Instant,
    longer_heeded_until: Instant,
    random: SplitMix64,
}

/// # What happens
impl Steering {
    pub fn new(packet_bytes: u32, floor_bps: Option<u64>) -> Self {
        let packet_bits = f64::from(packet_bytes.max(1)) * 8.0;
        let least_bps = floor_bps.map_or(packet_bits * LEAST_PACKETS, |floor| floor as f64).min(MOST_BPS);
        Self {
            packet_bits,
            least_bps,
            bps: least_bps,
            phase: Phase::Start,
            since: Instant::ZERO,
            before_bps: 0.0,
            model: Model::default(),
            hold_bps: f64::INFINITY,
            contest: Contest::default(),
            yielded: None,
            usage: Usage::default(),
            grown: (0.0, Instant::ZERO),
            cruise_ends: Instant::ZERO,
            heeded_until: Instant::ZERO,
            longer_heeded_until: Instant::ZERO,
            random: SplitMix64(packet_bytes.into()),
        }
    }

    /// Sets the first rate, before anything was sent. `round_trip` is the longest one.
    pub fn start(&mut self, round_trip: Duration, known_bps: Option<u64>) {
        self.set(known_bps.map_or(self.first_bps(round_trip), |bps| bps as f64));
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.usage.sent(now, self.bps, group_bytes, repair_bytes);
        if self.contest.window(now, self.model.round_trip).is_some() && self.phase == Phase::Cruise {
            self.apply(now);
        }
    }

    /// Takes in a report of the receiver that the sender follows.
    pub fn follow(&mut self, now: Instant, sample: Sample) {
        let round_trip = sample.round_trip.max(SHORTEST_ROUND_TRIP);
        self.usage.look(now, self.bps, round_trip);
        let share = self.usage.share();
        self.model.delivered_bps = sample.delivered_bps * share;
        self.model.latest_bps = sample.latest_bps * share;
        self.model.queue = sample.queue;
        self.model.round_trip = round_trip;
        self.model.shortest.add(now, round_trip.as_micros() as f64);
        if self.hold_bps >= self.model.delivered_bps {
            self.hold_bps = f64::INFINITY;
        }
        if self.usage.is_unused() {
            return;
        }
        if !self.heed(now, &sample) {
            self.advance(now);
        }
        self.apply(now);
    }

    /// Answers congestion, once a round trip. Returns whether there was any.
    fn heed(&mut self, now: Instant, sample: &Sample) -> bool {
        let packets = self.base_bps() / self.packet_bits * self.round().as_secs_f64();
        let is_queued = self.is_queued();
        if now >= self.longer_heeded_until && loss::is_excessive(sample.lost_longer, packets * 8.0) {
            self.narrow(now);
            return true;
        }
        if now < self.heeded_until || self.phase == Phase::Start {
            return false;
        }
        let is_lossy = is_queued && sample.lost > 0.0;
        let is_narrower = is_queued
            && matches!(self.phase, Phase::Cruise | Phase::Up)
            && self.contest.window(now, self.model.round_trip).is_none()
            && self.model.latest_bps < self.base_bps() * NARROWED;
        if is_narrower || (is_lossy && sample.lost > HEAVY_LOSS.max(3.0 / packets)) {
            self.narrow(now);
            return true;
        }
        if is_lossy || sample.marked > 0.0 {
            self.give_way(now);
            return true;
        }
        false
    }

    /// The path delivers what arrives now, and not more.
    fn narrow(&mut self, now: Instant) {
        self.hold_bps = self.model.latest_bps.max(self.least_bps);
        self.longer_heeded_until = now + self.round() * 16 + self.model.round_trip;
        self.give_way(now);
        if self.contest.window(now, self.model.round_trip).is_none() {
            self.enter(now, Phase::Down);
        }
    }

    /// Yields as CUBIC would.
    fn give_way(&mut self, now: Instant) {
        self.heeded_until = now + self.model.round_trip;
        let rate = self.bps.min(self.base_bps());
        if self.yielded.is_none() {
            self.yielded = Some((rate, now));
        }
        self.contest.lose(now, rate / self.packet_bits * self.model.round_trip.as_secs_f64());
        if self.phase != Phase::Cruise {
            self.enter(now, Phase::Cruise);
        }
    }

    /// Goes on to the next phase when it is time.
    fn advance(&mut self, now: Instant) {
        let elapsed = now - self.since;
        let feedback = self.round() + self.model.round_trip;
        match self.phase {
            Phase::Start => self.grow(now),
            Phase::Drain | Phase::Down => self.drain(now, elapsed, feedback),
            Phase::Up => {
                let is_growing = self.model.delivered_bps > self.before_bps * UP_GROWTH;
                if self.model.queue > (self.shortest() / 4).max(self.noise()) {
                    self.enter(now, Phase::Down);
                } else if is_growing {
                    self.since = now;
                    self.before_bps = self.model.delivered_bps;
                } else if elapsed > feedback {
                    self.enter(now, Phase::Down);
                }
            }
            Phase::Cruise | Phase::Tfmcc => self.cruise(now),
        }
    }

    fn cruise(&mut self, now: Instant) {
        if self.contest.window(now, self.model.round_trip).is_none() {
            if now >= self.cruise_ends {
                self.enter(now, Phase::Up);
            }
            return;
        }
        if !self.is_queued() {
            return self.end_contest(now, Phase::Cruise);
        }
        let Some((before, at)) = self.yielded else { return };
        if now - at > self.round() + self.model.round_trip {
            self.yielded = None;
            let is_lower = self.bps < before * 0.85;
            if is_lower && self.model.latest_bps > before * ALONE_SHARE {
                self.end_contest(now, Phase::Down);
            }
        }
    }

    fn end_contest(&mut self, now: Instant, phase: Phase) {
        self.contest.end();
        self.yielded = None;
        self.enter(now, phase);
    }

    fn grow(&mut self, now: Instant) {
        let (best, at) = self.grown;
        if self.model.delivered_bps >= best * START_GROWTH {
            self.grown = (self.model.delivered_bps, now);
        } else if now - at > self.model.round_trip * START_ROUNDS {
            return self.end_start(now);
        }
        if self.model.queue > (self.shortest() / 4).max(self.noise()) {
            self.end_start(now);
        }
    }

    fn end_start(&mut self, now: Instant) {
        self.longer_heeded_until = now + self.round() * 32;
        self.heeded_until = now + self.model.round_trip * 2;
        self.enter(now, Phase::Drain);
    }

    /// Sends less until the queue is gone. If it does not go, and less arrives, then others keep it up.
    fn drain(&mut self, now: Instant, elapsed: Duration, feedback: Duration) {
        let gone = self.round().mul_f64(1.0 - self.down_gain());
        if self.model.queue.saturating_sub(gone) <= self.noise() / 2 {
            return self.enter(now, Phase::Cruise);
        }
        if elapsed > feedback * 2 {
            if self.model.latest_bps < self.before_bps * 0.9 {
                let window = self.before_bps / self.packet_bits * self.model.round_trip.as_secs_f64();
                self.contest.lose(now, window);
                self.enter(now, Phase::Cruise);
            } else if elapsed > feedback * 10 {
                self.enter(now, Phase::Cruise);
            }
        }
    }

    fn enter(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.since = now;
        self.before_bps = self.base_bps();
        if phase == Phase::Cruise {
            let length = (self.round() * CRUISE_ROUNDS).max(SHORTEST_CRUISE);
            self.cruise_ends = now + length.mul_f64(0.75 + self.random.unit() / 2.0);
        }
    }

    /// Sets the rate that the phase asks for.
    fn apply(&mut self, now: Instant) {
        let base = self.base_bps();
        let round_trip = self.model.round_trip;
        let window = self.contest.window(now, round_trip).filter(|_| self.phase == Phase::Cruise);
        let bps = match (self.phase, window) {
            (_, Some(window)) => {
                let asked = window * self.packet_bits / round_trip.as_secs_f64();
                asked.min(self.model.latest_bps * MOST_ABOVE_LATEST + self.packet_bits / round_trip.as_secs_f64())
            }
            (Phase::Start, _) => (self.model.latest_bps.max(self.model.delivered_bps) * START_GAIN).max(self.bps),
            (Phase::Up, _) => base * UP_GAIN,
            (Phase::Drain | Phase::Down, _) => base * self.down_gain(),
            _ => {
                let stretched = self.shortest() + self.model.queue;
                let most = base * MOST_UNDER_WAY * self.shortest().as_secs_f64()
                    / stretched.max(SHORTEST_ROUND_TRIP).as_secs_f64();
                base.min(most)
            }
        };
        self.set(bps.max(self.packet_bits / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64()));
    }

    fn down_gain(&self) -> f64 {
        if self.model.queue > self.shortest() / 2 { DRAIN_GAIN } else { DOWN_GAIN }
    }
}

/// # Silence and pauses
impl Steering {
    /// Halves the rate because nobody has reported for long.
    pub fn halve(&mut self) {
        self.set(self.bps / 2.0);
    }

    /// Sending goes on after a pause. The model still holds, but the rate starts from what is safe on an empty path.
    pub fn pause(&mut self, now: Instant) {
        self.usage = Usage::default();
        self.contest.end();
        self.heeded_until = now;
        if self.phase != Phase::Start {
            self.enter(now, Phase::Cruise);
        } else {
            self.grown.1 = now;
        }
    }

    /// The sender follows another receiver, whose path is another.
    pub fn follow_another(&mut self, now: Instant) {
        self.model.shortest.forget();
        self.hold_bps = f64::INFINITY;
        self.contest.end();
        if self.phase != Phase::Start {
            self.enter(now, Phase::Cruise);
        }
    }

    pub fn fall_to_least(&mut self) {
        self.set(self.least_bps);
    }
}

/// # What is known
impl Steering {
    pub fn bps(&self) -> f64 {
        self.bps
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn is_unused(&self) -> bool {
        self.usage.is_unused()
    }

    pub fn queue(&self) -> Duration {
        self.model.queue
    }

    /// What the path delivers.
    fn base_bps(&self) -> f64 {
        self.model.delivered_bps.min(self.hold_bps).max(self.least_bps)
    }

    fn shortest(&self) -> Duration {
        let least = self.model.shortest.least().map(|micros| Duration::from_micros(micros as u64));
        least.unwrap_or(self.model.round_trip).max(SHORTEST_ROUND_TRIP)
    }

    /// The time over which a receiver measures.
    fn round(&self) -> Duration {
        self.shortest().max(Duration::from_millis(10))
    }

    fn noise(&self) -> Duration {
        let packet = Duration::try_from_secs_f64(self.packet_bits / self.bps.max(1.0)).unwrap_or_default();
        queue_that_counts(self.shortest(), packet)
    }

    fn is_queued(&self) -> bool {
        self.model.queue > self.noise()
    }

    fn first_bps(&self, round_trip: Duration) -> f64 {
        FIRST_PACKETS * self.packet_bits / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64()
    }

    fn set(&mut self, bps: f64) {
        self.bps = bps.clamp(self.least_bps, MOST_BPS);
    }
}
