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

use super::{
    contest::Contest,
    loss::{self, RandomLoss},
    path::{NARROWED, queue_that_counts},
};
use crate::{Instant, random::SplitMix64, usage::Usage};

/// The highest rate that is ever allowed, whatever receivers report.
pub const MOST_BPS: f64 = 1e12;

/// No rate is lower than so many packets a second: nobody could tell that things are better.
const LEAST_PACKETS: f64 = 5.0;

/// No silence of the receivers takes the rate below so many packets a second.
const SILENT_PACKETS: f64 = 20.0;

/// The rate at the start, in packets a round trip (RFC 6928).
const FIRST_PACKETS: f64 = 10.0;

/// 4 ln 2: what arrives doubles in each round trip (`BBR.StartupPacingGain`).
const START_GAIN: f64 = 2.77;
/// The growth that shows that the path is not full, and the round trips for which it may be missing (5.3.1.2).
const START_GROWTH: f64 = 1.25;
const START_ROUNDS: u32 = 3;
/// The share of lost packets that ends Start when nothing has grown for a round trip.
const START_LOSS: f64 = 0.1;

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

/// The share of losses that counts even where others do not yield.
const EXTREME_LOSS: f64 = 0.15;

/// Round trips after which losses over several of them show what a rate has done.
const LONGER_ROUNDS: u32 = 16;

/// A sender that shares a queue with others gets less when it sends less. One that is alone gets at least this share.
const ALONE_SHARE: f64 = 0.93;

/// What is delivered to a sender that sends less, if others fill the queue meanwhile, as a share of what was delivered before.
const SHARED_SHARE: f64 = 0.9;
/// The longest time that Down lasts, in times that it takes to see its effect.
const MOST_DRAIN: u32 = 10;

/// Cruises in a row after which a queue that Down has not removed is others'.
const QUEUED_CRUISES: u32 = 2;

/// The time of a contest after which Down tests whether there is one.
const CONTEST_TEST: Duration = Duration::from_secs(4);

/// A contest is over when the queue has been gone for so many round trips.
const EMPTY_ROUNDS: u32 = 12;

/// In a contest, the rate is at most so many times what arrives.
const MOST_ABOVE_LATEST: f64 = 1.5;

/// What is left of the highest rate with each report. Receivers remember theirs for ten round trips.
const PEAK_DECAY: f64 = 0.99;

/// A share of marked packets that means all.
const ALL_MARKED: f64 = 0.9;

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
    /// The shortest round trip to this receiver lately.
    pub shortest: Duration,
}

/// What the reports of the receiver that the sender follows say about its path. Rates are of all that is sent.
#[derive(Debug, Default)]
struct Model {
    delivered_bps: f64,
    latest_bps: f64,
    queue: Duration,
    /// The last round trip.
    round_trip: Duration,
    shortest: Duration,
    lost: f64,
    marked: f64,
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
    /// The highest rate lately.
    peak_bps: f64,
    /// Losses that come without a queue.
    random: RandomLoss,
    dice: SplitMix64,
    /// Cruises in a row at whose end there was a queue.
    queued_cruises: u32,
    /// Since when the queue of a contest is gone.
    empty_since: Option<Instant>,
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
            peak_bps: 0.0,
            random: RandomLoss::default(),
            dice: SplitMix64(packet_bytes.into()),
            queued_cruises: 0,
            empty_since: None,
        }
    }

    /// Sets the first rate, before anything was sent. `round_trip` is the longest one.
    pub fn start(&mut self, round_trip: Duration, known_bps: Option<u64>) {
        self.set(known_bps.map_or(self.first_bps(round_trip), |bps| bps as f64));
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.usage.sent(now, self.bps, group_bytes, repair_bytes);
        if self.is_contested() && self.phase == Phase::Cruise {
            self.contest.grow(now, self.model.round_trip, self.window_of(self.model.latest_bps));
            self.apply();
        }
    }

    /// Takes in a report of the receiver that the sender follows.
    pub fn follow(&mut self, now: Instant, sample: Sample) {
        let round_trip = sample.round_trip.max(SHORTEST_ROUND_TRIP);
        self.usage.look(now, self.bps, round_trip);
        let share = self.usage.share();
        // Nothing delivers more than was sent, whatever a receiver says.
        self.peak_bps = self.bps.max(self.peak_bps * PEAK_DECAY);
        self.model = Model {
            delivered_bps: (sample.delivered_bps * share).min(self.peak_bps),
            latest_bps: (sample.latest_bps * share).min(self.peak_bps),
            queue: sample.queue,
            round_trip,
            shortest: sample.shortest,
            lost: sample.lost,
            // Who marks all packets of an empty queue marks them for another reason.
            marked: if sample.marked > ALL_MARKED && !self.is_queued() { 0.0 } else { sample.marked },
        };
        if !self.is_queued() {
            self.random.add(sample.lost);
        }
        if self.hold_bps >= self.model.delivered_bps {
            self.hold_bps = f64::INFINITY;
        }
        if self.usage.is_unused() {
            return;
        }
        if !self.heed(now, &sample) {
            self.advance(now);
        }
        self.apply();
    }

    /// Answers congestion, once a round trip. Returns whether there was any.
    fn heed(&mut self, now: Instant, sample: &Sample) -> bool {
        let packets = self.base_bps() / self.packet_bits * self.round().as_secs_f64();
        let is_queued = self.is_queued();
        if now < self.heeded_until || matches!(self.phase, Phase::Start | Phase::Drain) {
            return false;
        }
        if self.contest.holds(now) {
            return self.endure(now, sample);
        }
        if now >= self.longer_heeded_until && loss::is_excessive(sample.lost_longer, packets * 8.0) {
            self.take_less(now, self.base_bps() * (1.0 - sample.lost_longer));
            return true;
        }
        let is_lossy = is_queued && self.random.is_exceeded(sample.lost, packets);
        let is_settled = self.phase == Phase::Cruise && now - self.since > self.feedback();
        let is_narrower = is_queued
            && is_settled
            && !self.is_contested()
            && self.model.latest_bps < self.base_bps() * NARROWED;
        let is_heavy = is_lossy && sample.lost > HEAVY_LOSS.max(3.0 / packets);
        match self.phase {
            // The queue is the probe's own: it began without one.
            Phase::Up if is_lossy => {
                self.enter(now, Phase::Down);
                return false;
            }
            Phase::Down if is_heavy && self.model.latest_bps < self.bps * NARROWED => {
                self.take_less(now, self.model.latest_bps.min(self.hold_bps));
                return false;
            }
            Phase::Up | Phase::Down => return false,
            _ if is_narrower || (is_heavy && !self.is_contested()) => self.narrow(now),
            // What is left of an own queue is no contest.
            _ if is_lossy && (is_settled || self.is_contested()) => self.give_way(now),
            _ if self.model.marked > 0.0 => self.give_way(now),
            _ => return false,
        }
        true
    }

    /// While others do not yield, only extreme losses count.
    fn endure(&mut self, now: Instant, sample: &Sample) -> bool {
        let packets = self.base_bps() / self.packet_bits * self.round().as_secs_f64();
        if self.is_queued() && self.random.is_exceeded(sample.lost, packets) {
            self.heeded_until = now + self.feedback();
            self.contest.lose(now, self.window_of(self.model.latest_bps), self.model.round_trip);
        }
        let is_extreme = sample.lost > EXTREME_LOSS && self.is_queued();
        if is_extreme {
            self.narrow(now);
        }
        is_extreme
    }

    /// The path delivers what arrives now, and not more.
    fn narrow(&mut self, now: Instant) {
        self.take_less(now, self.model.latest_bps);
        if !self.contest.holds(now) {
            self.enter(now, Phase::Down);
        }
    }

    /// The path delivers no more than this.
    fn take_less(&mut self, now: Instant, bps: f64) {
        self.hold_bps = bps.max(self.least_bps);
        self.heeded_until = now + self.feedback();
        self.longer_heeded_until = now + self.round() * LONGER_ROUNDS + self.model.round_trip;
    }

    /// Yields as CUBIC would.
    fn give_way(&mut self, now: Instant) {
        let rate = self.bps.min(self.base_bps());
        self.yield_from(now);
        self.contest.lose(now, self.window_of(rate), self.model.round_trip);
    }

    fn yield_from(&mut self, now: Instant) {
        self.heeded_until = now + self.feedback();
        if self.yielded.is_none() {
            self.yielded = Some((self.bps.min(self.base_bps()), now));
        }
        if self.phase != Phase::Cruise {
            self.enter(now, Phase::Cruise);
        }
    }

    /// Goes on to the next phase when it is time.
    fn advance(&mut self, now: Instant) {
        let elapsed = now - self.since;
        match self.phase {
            Phase::Start => self.grow(now),
            Phase::Drain | Phase::Down => self.drain(now, elapsed),
            Phase::Up => {
                let is_growing = self.model.delivered_bps > self.before_bps * UP_GROWTH;
                let is_own = !self.contest.holds(now);
                if is_own && self.model.queue > (self.shortest() / 4).max(self.noise()) {
                    self.enter(now, Phase::Down);
                } else if is_growing {
                    self.since = now;
                    self.before_bps = self.model.delivered_bps;
                } else if elapsed > self.feedback() {
                    self.enter(now, Phase::Down);
                }
            }
            Phase::Cruise | Phase::Tfmcc => self.cruise(now),
        }
    }

    fn cruise(&mut self, now: Instant) {
        if !self.is_contested() {
            if now >= self.cruise_ends && !self.contest.listens(now) {
                // A queue that stands is ours, or others': Down tells.
                let is_unclear = self.is_queued() && !self.contest.holds(now);
                self.queued_cruises = if is_unclear { self.queued_cruises + 1 } else { 0 };
                if self.queued_cruises > QUEUED_CRUISES {
                    self.queued_cruises = 0;
                    self.contest.begin(now, self.window_of(self.base_bps()));
                    return self.enter(now, Phase::Cruise);
                }
                self.enter(now, if is_unclear { Phase::Down } else { Phase::Up });
            }
            return;
        }
        if self.is_queued() || self.model.marked > 0.0 {
            self.empty_since = None;
        } else if now - *self.empty_since.get_or_insert(now) > self.round() * EMPTY_ROUNDS {
            return self.end_contest(now, Phase::Cruise);
        }
        if now - self.since > CONTEST_TEST {
            return self.enter(now, Phase::Down);
        }
        let Some((before, at)) = self.yielded else { return };
        if now - at > self.feedback() {
            self.yielded = None;
            let is_lower = self.bps < before * 0.85;
            if is_lower && self.model.latest_bps > before * ALONE_SHARE {
                self.end_contest(now, Phase::Down);
            }
        }
    }

    fn end_contest(&mut self, now: Instant, phase: Phase) {
        self.contest.end();
        (self.yielded, self.empty_since) = (None, None);
        self.enter(now, phase);
    }

    fn grow(&mut self, now: Instant) {
        let (best, at) = self.grown;
        if self.model.delivered_bps >= best * START_GROWTH {
            self.grown = (self.model.delivered_bps, now);
        } else if now - at > self.model.round_trip * START_ROUNDS {
            return self.end_start(now);
        }
        let is_lossy = self.model.lost > START_LOSS && now - at > self.model.round_trip;
        if is_lossy || self.model.queue > (self.shortest() / 4).max(self.noise()) {
            self.end_start(now);
        }
    }

    fn end_start(&mut self, now: Instant) {
        self.longer_heeded_until = now + self.round() * LONGER_ROUNDS;
        self.heeded_until = now + self.model.round_trip * 2;
        self.enter(now, Phase::Drain);
    }

    /// Sends less until the queue is gone. If it does not go, and less arrives, then others keep it up.
    fn drain(&mut self, now: Instant, elapsed: Duration) {
        // What has left the queue since the report was made.
        let gone = elapsed.min(self.round()).mul_f64(1.0 - self.down_gain());
        // Reports before tell of the phase before.
        let is_known = self.phase == Phase::Drain || elapsed > self.model.round_trip;
        if is_known && self.model.queue.saturating_sub(gone) <= self.noise() / 2 {
            return self.enter(now, Phase::Cruise);
        }
        if self.contest.holds(now) {
            if elapsed > self.round() {
                self.enter(now, Phase::Cruise);
            }
            return;
        }
        let is_alone = self.model.latest_bps > self.before_bps * ALONE_SHARE;
        if self.is_contested() && elapsed > self.feedback() {
            if is_alone {
                return self.end_contest(now, Phase::Down);
            }
            return self.enter(now, Phase::Cruise);
        }
        if elapsed > self.feedback() * 2 && self.model.latest_bps < self.before_bps * SHARED_SHARE {
            self.contest.begin(now, self.window_of(self.before_bps));
            self.enter(now, Phase::Cruise);
        } else if elapsed > self.feedback() * MOST_DRAIN {
            self.enter(now, Phase::Cruise);
        }
    }

    fn enter(&mut self, now: Instant, phase: Phase) {
        self.before_bps = if self.is_contested() { self.model.latest_bps } else { self.base_bps() };
        self.phase = phase;
        self.since = now;
        if phase == Phase::Cruise {
            let length = (self.round() * CRUISE_ROUNDS).max(SHORTEST_CRUISE);
            self.cruise_ends = now + length.mul_f64(0.75 + self.dice.unit() / 2.0);
        }
    }

    /// Sets the rate that the phase asks for.
    fn apply(&mut self) {
        let base = self.base_bps();
        let round_trip = self.model.round_trip;
        let window = self.contest.packets().filter(|_| self.phase == Phase::Cruise);
        let bps = match (self.phase, window) {
            (_, Some(window)) => {
                let asked = window * self.packet_bits / round_trip.as_secs_f64();
                asked.min(
                    self.model.latest_bps * MOST_ABOVE_LATEST + self.packet_bits / round_trip.as_secs_f64(),
                )
            }
            (Phase::Start, _) => (self.model.latest_bps * START_GAIN).max(self.bps),
            (Phase::Up, _) => base * UP_GAIN,
            (Phase::Drain | Phase::Down, _) if self.is_contested() => self.before_bps * DOWN_GAIN,
            (Phase::Drain | Phase::Down, _) => base * self.down_gain(),
            _ => base,
        };
        self.set(bps.max(self.packet_bits / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64()));
    }

    fn down_gain(&self) -> f64 {
        if self.model.queue > self.shortest() / 2 { DRAIN_GAIN } else { DOWN_GAIN }
    }
}

/// # Silence and pauses
impl Steering {
    /// Halves the rate because nobody has reported for long. When reports come again, the rate is found anew, as at the start.
    pub fn halve(&mut self) {
        self.set((self.bps / 2.0).max(self.packet_bits * SILENT_PACKETS));
        if self.bps < self.base_bps() / 4.0 {
            (self.phase, self.grown) = (Phase::Start, (0.0, Instant::ZERO));
            self.hold_bps = f64::INFINITY;
            self.contest.end();
        }
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
    pub fn follow_another(&mut self, now: Instant, bears_bps: Option<f64>) {
        self.hold_bps = bears_bps.unwrap_or(f64::INFINITY);
        self.contest.end();
        if self.phase != Phase::Start {
            self.enter(now, Phase::Cruise);
        }
    }

    /// The slowest receiver does not count any more. The path to the others is tried at once.
    pub fn release(&mut self, now: Instant) {
        self.follow_another(now, None);
        if self.phase != Phase::Start {
            self.enter(now, Phase::Up);
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
        self.model.shortest.max(SHORTEST_ROUND_TRIP)
    }

    /// The time after which reports show what a rate has done.
    fn feedback(&self) -> Duration {
        self.round() + self.model.round_trip
    }

    fn is_contested(&self) -> bool {
        self.contest.packets().is_some()
    }

    /// The packets that are under way at a rate.
    fn window_of(&self, bps: f64) -> f64 {
        bps / self.packet_bits * self.model.round_trip.as_secs_f64()
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const PACKET_BYTES: u32 = 1500;
    const ROUND_TRIP: Duration = Duration::from_millis(40);
    const STEP: Duration = Duration::from_millis(2);

    /// A link as a fluid: what is above its capacity queues, and what does not fit into the queue is lost. Reports come each
    /// half of a round trip, and tell of the round trip before.
    struct Link {
        steering: Steering,
        now: Instant,
        capacity_bps: f64,
        queue_bits: f64,
        most_bits: f64,
        /// What leaves at random.
        loss: f64,
        marked: f64,
        /// Delivered and sent bits, and the queue, of the last steps.
        steps: VecDeque<(f64, f64, f64)>,
        best: VecDeque<f64>,
    }

    impl Link {
        fn new(capacity_bps: f64, products: f64) -> Self {
            let mut steering = Steering::new(PACKET_BYTES, None);
            steering.start(ROUND_TRIP, None);
            let most_bits = capacity_bps * ROUND_TRIP.as_secs_f64() * products;
            let (steps, best) = (VecDeque::new(), VecDeque::new());
            let now = Instant::ZERO + STEP;
            Self {
                steering,
                now,
                capacity_bps,
                queue_bits: 0.0,
                most_bits,
                loss: 0.0,
                marked: 0.0,
                steps,
                best,
            }
        }

        /// Returns the share of the capacity that is used, and the mean queue in round trips.
        fn run(&mut self, length: Duration, share_sent: f64) -> (f64, f64) {
            let end = self.now + length;
            let (mut delivered, mut queued, mut steps) = (0.0, 0.0, 0.0);
            while self.now < end {
                let sent = self.steering.bps() * STEP.as_secs_f64() * share_sent;
                self.steering.sent(self.now, (sent / 8.0) as u64, 0);
                let fits =
                    (self.queue_bits + sent).min(self.most_bits + self.capacity_bps * STEP.as_secs_f64());
                let out = fits.min(self.capacity_bps * STEP.as_secs_f64());
                let lost = self.queue_bits + sent - fits;
                self.queue_bits = fits - out;
                self.steps.push_back((out, sent - lost, self.queue_bits / self.capacity_bps.max(1.0)));
                if self.steps.len() > 40 {
                    self.steps.pop_front();
                }
                (delivered, queued, steps) = (delivered + out, queued + self.queue_bits, steps + 1.0);
                self.now += STEP;
                if self.now.as_nanos() % (ROUND_TRIP.as_nanos() as u64 / 2) < STEP.as_nanos() as u64 {
                    self.report();
                }
            }
            let most = self.capacity_bps * length.as_secs_f64();
            (delivered / most, queued / steps / self.capacity_bps / ROUND_TRIP.as_secs_f64())
        }

        /// What the receiver has seen in the round trip before the last one.
        fn report(&mut self) {
            if self.steps.len() < 40 {
                return;
            }
            let seen: Vec<_> = self.steps.iter().take(20).copied().collect();
            let latest_bps = seen.iter().map(|(out, ..)| out).sum::<f64>() / ROUND_TRIP.as_secs_f64();
            let queue = Duration::from_secs_f64(seen[19].2);
            self.best.push_back(latest_bps);
            if self.best.len() > 20 {
                self.best.pop_front();
            }
            let sample = Sample {
                delivered_bps: self.best.iter().copied().fold(0.0, f64::max),
                latest_bps: latest_bps * (1.0 - self.loss),
                queue,
                lost: self.loss,
                lost_longer: self.loss,
                marked: self.marked,
                round_trip: ROUND_TRIP + queue,
                shortest: ROUND_TRIP,
            };
            self.steering.follow(self.now, sample);
        }
    }

    const SECONDS: Duration = Duration::from_secs(10);

    #[test]
    fn it_fills_a_link_and_leaves_no_queue() {
        for capacity_bps in [10e6, 50e6, 1e9] {
            let mut link = Link::new(capacity_bps, 2.0);
            link.run(SECONDS, 1.0);
            let (used, queue) = link.run(SECONDS, 1.0);
            assert!(used > 0.95 && queue < 0.5, "{capacity_bps}: {used} {queue}");
        }
    }

    #[test]
    fn random_losses_are_no_congestion() {
        let mut link = Link::new(50e6, 1.0);
        link.loss = 0.02;
        link.run(SECONDS, 1.0);
        let (used, _) = link.run(SECONDS, 1.0);
        assert!(used > 0.93, "{used}");
    }

    #[test]
    fn a_link_that_gets_narrower_is_not_flooded() {
        let mut link = Link::new(50e6, 4.0);
        link.run(SECONDS, 1.0);
        link.capacity_bps = 5e6;
        link.run(Duration::from_secs(1), 1.0);
        assert!(link.steering.bps() < 7e6, "{}", link.steering.bps());
        link.run(SECONDS, 1.0);
        let (used, _) = link.run(SECONDS, 1.0);
        assert!(used > 0.9, "{used}");
    }

    #[test]
    fn what_is_not_used_does_not_lower_the_model() {
        let mut link = Link::new(50e6, 1.0);
        link.run(SECONDS, 1.0);
        link.run(Duration::from_millis(150), 0.05);
        assert!(link.steering.bps() > 24e6, "{}", link.steering.bps());
        assert!(link.steering.is_unused());
    }

    #[test]
    fn marks_on_all_packets_do_not_stop_it() {
        let mut link = Link::new(50e6, 1.0);
        link.marked = 1.0;
        link.run(SECONDS, 1.0);
        let (used, _) = link.run(SECONDS, 1.0);
        assert!(used > 0.5, "{used}");
    }

    #[test]
    fn whatever_is_reported_the_rate_is_a_number_within_bounds() {
        let mut steering = Steering::new(0, Some(100_000));
        steering.start(Duration::ZERO, Some(u64::MAX));
        for step in 0..1_000_u64 {
            let now = Instant::ZERO + Duration::from_millis(step * 7);
            let extreme = [0.0, 1.0, 1e12, f64::MAX][step as usize % 4];
            let time = [Duration::ZERO, Duration::from_secs(5), Duration::from_micros(1)][step as usize % 3];
            steering.sent(now, u64::MAX / 2, step);
            steering.follow(
                now,
                Sample {
                    delivered_bps: extreme,
                    latest_bps: 1e12 - extreme,
                    queue: time,
                    lost: (step % 3) as f64 / 2.0,
                    lost_longer: (step % 5) as f64 / 4.0,
                    marked: (step % 2) as f64,
                    round_trip: time,
                    shortest: time,
                },
            );
            assert!((100_000.0..=MOST_BPS).contains(&steering.bps()), "{}", steering.bps());
            if step % 100 == 99 {
                steering.halve();
                steering.pause(now);
                steering.follow_another(now, Some(extreme));
            }
        }
    }
}
