//! Simulates a link: a queue in front of its narrow part, its delay, and its losses.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::Instant;

use super::{Loss, Losses, happens, transmission_time};

/// What a link does to packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    pub loss: Loss,
    /// The time that every packet takes.
    pub delay: Duration,
    /// The variation of the delay in a network of cables: each packet's delay lies between `delay` - `jitter`
    /// and `delay` + `jitter`, evenly spread. Packets stay in order.
    pub jitter: Duration,
    /// The probability that a packet is held up by a random time of at most `hold`, so that others
    /// overtake it.
    pub reordered: f64,
    pub hold: Duration,
    /// The probability that a packet arrives twice.
    pub duplicated: f64,
    /// The time of the run from which on nothing arrives.
    pub cut_at: Option<Duration>,
    /// The probability that TCP has to send a control message to this receiver again, after its timeout.
    pub control_loss: f64,
    /// The length of the longest packet that gets through, in bytes of IP. Longer ones vanish, and nobody is told.
    /// `None`: no limit.
    pub longest: Option<usize>,
}

impl Path {
    /// Returns a path that only delays packets, and loses none.
    pub const fn clean(delay: Duration) -> Self {
        Self {
            loss: Loss::Uniform(0.0),
            delay,
            jitter: Duration::ZERO,
            reordered: 0.0,
            hold: Duration::ZERO,
            duplicated: 0.0,
            cut_at: None,
            control_loss: 0.0,
            longest: None,
        }
    }
}

/// An unreliable path from one node to another: a cable, or UDP.
#[derive(Debug)]
pub struct Link {
    path: Path,
    losses: Losses,
    random: ChaCha8Rng,
    narrow: Option<Narrow>,
    policer: Option<Bucket>,
    /// The time at which everything has passed the narrow part that waits in front of it now.
    free_at: Instant,
    /// The time at which the last packet arrives that keeps its order.
    arrived_at: Instant,
    /// The average length of the queue, in seconds (RED).
    average: f64,
    /// The time at which the next packet of other senders comes to the queue.
    others_at: Instant,
}

/// The arrival of a packet at the end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub at: Instant,
    /// Whether the packet arrives after those that were sent before it. If not, it was held up.
    pub is_in_order: bool,
}

/// The arrivals of one packet: none if it is lost, and two if the path repeats it.
pub type Arrivals = [Option<Arrival>; 2];

/// The narrowest part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrow {
    /// With 0 the path is cut: nothing passes.
    pub rate_bps: u64,
    /// The room in front of the narrow part, in bytes. A packet that does not fit beside what waits there is dropped.
    pub queue_bytes: u64,
    pub discipline: Discipline,
    /// The rate at which other senders' packets come to the same queue. 0 means that there are none.
    pub background_bps: u64,
}

/// The rule by which a queue drops packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discipline {
    /// The queue drops packets that come when it is full.
    #[default]
    DropTail,
    /// The queue drops some packets before it is full, and more of them the longer it is on average (Floyd and
    /// Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993).
    Red,
}

impl Narrow {
    /// Creates a narrow part whose queue drops what comes when it is full, and which has no packets of other
    /// senders. `queue` is the time in which a full queue leaves.
    pub fn new(rate_bps: u64, queue: Duration) -> Self {
        let queue_bytes = (queue.as_secs_f64() * rate_bps as f64 / 8.0) as u64;
        Self { rate_bps, queue_bytes, discipline: Discipline::DropTail, background_bps: 0 }
    }

    /// The bytes that wait when everything has left after this time.
    fn bytes_in(self, waits: Duration) -> u64 {
        (waits.as_secs_f64() * self.rate_bps as f64 / 8.0) as u64
    }
}

/// A limit without a queue: a bucket of tokens, which drops what it has no tokens for.
#[derive(Debug, Clone, Copy)]
pub struct Policer {
    pub rate_bps: u64,
    pub burst_bytes: u64,
}

/// A policer's tokens.
#[derive(Debug)]
struct Bucket {
    policer: Policer,
    bytes: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant, bytes: u64) -> bool {
        let new = (now - self.filled).as_secs_f64() * self.policer.rate_bps as f64 / 8.0;
        (self.bytes, self.filled) = ((self.bytes + new).min(self.policer.burst_bytes as f64), now);
        let has_enough = self.bytes >= bytes as f64;
        self.bytes -= if has_enough { bytes as f64 } else { 0.0 };
        has_enough
    }
}

/// The length of other senders' packets, in bytes with their headers: the middle of the sizes that networks carry
/// most.
const OTHERS_BYTES: usize = 576;

/// RED's weight of each packet in the average, its thresholds as shares of the queue, and the share that is dropped at the
/// upper one: what the paper takes in its section 4.
const RED_WEIGHT: f64 = 0.002;
const RED_THRESHOLDS: (f64, f64) = (0.25, 0.75);
const RED_DROPPED: f64 = 0.1;

impl Link {
    pub fn new(path: Path, random: ChaCha8Rng) -> Self {
        let start = Instant::ZERO;
        Self {
            losses: Losses::new(path.loss),
            path,
            random,
            narrow: None,
            policer: None,
            free_at: start,
            arrived_at: start,
            average: 0.0,
            others_at: start,
        }
    }

    /// Gives the link a narrow part.
    pub fn with_narrow(self, narrow: Option<Narrow>) -> Self {
        Self { narrow, ..self }
    }

    /// Puts a policer in front of the link.
    pub fn with_policer(self, policer: Option<Policer>) -> Self {
        let full =
            |policer: Policer| Bucket { policer, bytes: policer.burst_bytes as f64, filled: Instant::ZERO };
        Self { policer: policer.map(full), ..self }
    }

    /// Returns the time that a packet takes when it waits in no queue.
    pub fn delay(&self) -> Duration {
        self.path.delay
    }

    /// Returns when half of the queue in front of the narrow part is free, as far as is known now.
    pub fn has_room_at(&self) -> Instant {
        let half = self.narrow.map_or(Duration::ZERO, |narrow| {
            transmission_time(narrow.queue_bytes as usize / 2, narrow.rate_bps)
        });
        Instant::ZERO + (self.free_at - Instant::ZERO).saturating_sub(half)
    }

    /// Returns the share of the queue that is full, from 0 to 1.
    pub fn fullness(&self, now: Instant) -> f64 {
        let waits = self.free_at.saturating_duration_since(now);
        self.narrow.map_or(0.0, |narrow| narrow.bytes_in(waits) as f64 / narrow.queue_bytes.max(1) as f64)
    }

    /// Sets the loss from now on. `None`: the loss of the link's path.
    pub fn lose(&mut self, loss: Option<Loss>) {
        self.losses.set(loss.unwrap_or(self.path.loss));
    }

    /// Changes the rate of the narrow part. What waits still leaves at the old rate.
    pub fn set_rate(&mut self, rate_bps: u64) {
        self.narrow.iter_mut().for_each(|narrow| narrow.rate_bps = rate_bps);
    }

    /// Whether the narrow part lets nothing through.
    pub fn is_cut(&self) -> bool {
        self.narrow.is_some_and(|narrow| narrow.rate_bps == 0)
    }

    /// Takes note that a super-packet comes, or a packet by itself. Its packets follow.
    pub fn begin_super_packet(&mut self) {
        self.losses.begin_super_packet();
    }

    /// Whether a packet of `len` bytes of IP is short enough for the link.
    pub fn fits(&self, len: usize) -> bool {
        self.path.longest.is_none_or(|longest| len <= longest)
    }

    /// Returns when a packet of `len` bytes that is sent now has passed the narrow part. None: too much waits
    /// there, and the packet is lost.
    pub fn squeeze(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(narrow) = self.narrow else { return Some(now) };
        if self.is_cut() || self.policer.as_mut().is_some_and(|policer| !policer.take(now, len as u64)) {
            return None;
        }
        if narrow.background_bps > 0 {
            self.let_others_in(now, narrow);
        }
        self.enqueue(now, len, narrow)
    }

    /// Adds other senders' packets to the queue that have come since the last time, at random times.
    fn let_others_in(&mut self, now: Instant, narrow: Narrow) {
        let mean = transmission_time(OTHERS_BYTES, narrow.background_bps).as_secs_f64();
        while self.others_at <= now {
            _ = self.enqueue(self.others_at, OTHERS_BYTES, narrow);
            let share: f64 = self.random.random_range(f64::MIN_POSITIVE..1.0);
            self.others_at += Duration::from_secs_f64(-share.ln() * mean).max(Duration::from_nanos(1));
        }
    }

    fn enqueue(&mut self, now: Instant, len: usize, narrow: Narrow) -> Option<Instant> {
        let begin = self.free_at.max(now);
        let waits = begin - now;
        if narrow.bytes_in(waits) + len as u64 > narrow.queue_bytes
            || narrow.discipline == Discipline::Red && self.is_dropped_early(waits, narrow)
        {
            return None;
        }
        self.free_at = begin + transmission_time(len, narrow.rate_bps);
        Some(self.free_at)
    }

    fn is_dropped_early(&mut self, waits: Duration, narrow: Narrow) -> bool {
        self.average += RED_WEIGHT * (waits.as_secs_f64() - self.average);
        let full = transmission_time(narrow.queue_bytes as usize, narrow.rate_bps);
        let share = self.average / full.as_secs_f64().max(f64::MIN_POSITIVE);
        let (least, most) = RED_THRESHOLDS;
        match share {
            share if share < least => false,
            share if share >= most => true,
            share => self.random.random_bool(RED_DROPPED * (share - least) / (most - least)),
        }
    }

    /// Returns when a packet arrives that has passed the narrow part now.
    pub fn pass(&mut self, now: Instant) -> Arrivals {
        let is_lost = self.losses.loses(&mut self.random);
        if is_lost || self.path.cut_at.is_some_and(|cut_at| now >= Instant::ZERO + cut_at) {
            return [None, None];
        }
        let is_repeated = happens(&mut self.random, self.path.duplicated);
        [Some(self.arrival(now)), is_repeated.then(|| self.arrival(now))]
    }

    fn arrival(&mut self, now: Instant) -> Arrival {
        let Path { delay, jitter, reordered, hold, .. } = self.path;
        if happens(&mut self.random, reordered) {
            let held = self.random.random_range(0..=hold.as_nanos() as u64);
            return Arrival { at: now + delay + Duration::from_nanos(held), is_in_order: false };
        }
        let mut at = now + delay;
        if !jitter.is_zero() {
            let early = delay.saturating_sub(jitter);
            let drawn = self.random.random_range(0..=(delay + jitter - early).as_nanos() as u64);
            at = now + early + Duration::from_nanos(drawn);
        }
        self.arrived_at = self.arrived_at.max(at);
        Arrival { at: self.arrived_at, is_in_order: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::generator;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn packets_that_are_too_long_do_not_fit() {
        let link = Link::new(Path { longest: Some(1_500), ..Path::clean(Duration::ZERO) }, generator(1, 0));
        assert!(link.fits(1_500) && !link.fits(1_501));
        assert!(Link::new(Path::clean(Duration::ZERO), generator(1, 0)).fits(usize::MAX));
    }

    #[test]
    fn packets_are_delayed_reordered_and_duplicated() {
        let (delay, hold) = (Duration::from_millis(5), Duration::from_millis(3));
        let path = Path { reordered: 0.5, hold, duplicated: 0.5, ..Path::clean(delay) };
        let mut link = Link::new(path, generator(1, 0));
        let arrivals: Vec<Arrivals> = (0..1_000).map(|_| link.pass(at(0))).collect();
        let all = || arrivals.iter().flatten().flatten();
        assert!(all().all(|one| (at(5)..=at(8)).contains(&one.at) && (one.is_in_order == (one.at == at(5)))));
        let twice = arrivals.iter().filter(|[_, second]| second.is_some()).count();
        let held = arrivals.iter().flat_map(|[first, _]| first).filter(|first| !first.is_in_order).count();
        assert!((400..600).contains(&twice) && (400..600).contains(&held), "{twice} {held}");
    }

    /// Packets that come every millisecond to a link that takes 0.8 ms for one: how many of 20,000 are lost, and the mean wait of the others.
    fn congested(narrow: Narrow) -> (usize, Duration) {
        let mut link = Link::new(Path::clean(Duration::ZERO), generator(1, 0)).with_narrow(Some(narrow));
        let waits: Vec<Option<Duration>> = (0..20_000)
            .map(|millis| link.squeeze(at(millis), 1000).map(|through| through - at(millis)))
            .collect();
        let carried: Vec<Duration> = waits.iter().flatten().copied().collect();
        (waits.len() - carried.len(), carried.iter().sum::<Duration>() / carried.len() as u32)
    }

    /// The others take 30 % of the link, and 20 % are free: one of ten must go.
    #[test]
    fn what_others_send_fills_the_queue_and_early_drops_keep_it_short() {
        let alone = Narrow::new(10_000_000, Duration::from_millis(50));
        assert_eq!(congested(alone), (0, Duration::from_micros(800)));
        let narrow = Narrow { background_bps: 3_000_000, ..alone };
        let (lost, long) = congested(narrow);
        assert!((500..3_500).contains(&lost) && long > Duration::from_millis(25), "{lost} {long:?}");
        let (lost, short) = congested(Narrow { discipline: Discipline::Red, ..narrow });
        assert!((500..3_500).contains(&lost) && short < long * 4 / 5, "{lost} {short:?} {long:?}");
    }

    #[test]
    fn jitter_keeps_packets_in_order() {
        let path = Path { jitter: Duration::from_millis(4), ..Path::clean(Duration::from_millis(5)) };
        let mut link = Link::new(path, generator(1, 0));
        let arrivals: Vec<Instant> =
            (0..1_000).flat_map(|millis| link.pass(at(millis))).flatten().map(|one| one.at).collect();
        assert!(arrivals.is_sorted() && arrivals.len() == 1_000);
        let delays = (0..).zip(&arrivals).map(|(millis, arrival)| *arrival - at(millis));
        assert!(delays.clone().all(|delay| delay >= Duration::from_millis(1)));
        assert!(delays.max() <= Some(Duration::from_millis(9)));
    }

    #[test]
    fn a_full_queue_loses_and_a_cut_link_carries_nothing() {
        let narrow = Narrow { queue_bytes: 3_000, ..Narrow::new(0, Duration::ZERO) };
        let mut link = Link::new(Path::clean(Duration::ZERO), generator(1, 0)).with_narrow(Some(narrow));
        assert_eq!(link.squeeze(at(0), 1000), None);
        link.set_rate(8_000_000);
        let leave: Vec<_> = (0..4).map(|_| link.squeeze(at(0), 1000)).collect();
        assert_eq!(leave, [Some(at(1)), Some(at(2)), Some(at(3)), None]);
        assert_eq!(link.squeeze(at(1), 1000), Some(at(4)));
    }
}
