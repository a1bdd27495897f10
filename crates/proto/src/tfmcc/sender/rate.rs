//! The rate (RFC 4654, 3.3 and 3.6; RFC 5348, 4.3 and 4.4): how reports, silence and pauses change it.

use std::time::Duration;

use crate::{
    Instant,
    group_rate::Sample,
    rate_bounds::{Bounds, MOST_BPS, SHORTEST_ROUND_TRIP},
    usage::Usage,
};

/// The round trip with which a queue stands, as a multiple of the shortest.
const QUEUEING: f64 = 1.25;
/// The highest rate in slow start while a queue stands, as a multiple of what arrives.
const CAREFUL_GROWTH: f64 = 1.25;

/// The highest rate later while a queue stands, as a multiple of what arrives, besides a packet a round trip. It counts up to what
/// arrived when something was lost last.
const CLOCKED_GROWTH: f64 = 1.03;

/// The rate grows by no more than this share of itself a round trip, whatever a receiver says that it can bear: so much
/// faster does it become when a queue is over.
const MOST_GROWTH: f64 = 0.25;

/// The part of a report that the rate depends on.
#[derive(Debug, Clone, Copy)]
pub struct Finding {
    /// The rate that TCP would get, in bits a second. None: no packet was lost yet.
    pub calculated_bps: Option<f64>,
    /// The rate at which packets of the group arrive, in bits a second.
    pub received_bps: f64,
    /// Whether packets were lost since the report before.
    pub is_lossy: bool,
    pub round_trip: Duration,
    /// The findings that a rate depends on if it models the path.
    pub sample: Sample,
}

#[derive(Debug)]
pub struct Rate {
    bps: f64,
    bounds: Bounds,
    is_slow_start: bool,
    /// The rate up to which the rate doubles after silence or a pause, in bits a second.
    recover_bps: f64,
    /// The time until which it has been raised.
    raised: Instant,
    usage: Usage,
    /// The shortest round trip that was seen.
    shortest: Duration,
    /// The rate of arrival when something was lost last, in bits a second.
    borne_bps: f64,
}

impl Rate {
    /// Creates the rate of a sender, which never falls below `floor_bps`.
    pub fn new(packet_bytes: u32, floor_bps: Option<u64>) -> Self {
        let bounds = Bounds::new(packet_bytes, floor_bps);
        Self {
            bps: bounds.least_bps,
            bounds,
            is_slow_start: true,
            recover_bps: 0.0,
            raised: Instant::ZERO,
            usage: Usage::default(),
            shortest: Duration::MAX,
            borne_bps: 0.0,
        }
    }

    pub fn bps(&self) -> f64 {
        self.bps
    }

    pub fn is_slow_start(&self) -> bool {
        self.is_slow_start
    }

    /// Whether the sender sent less than the rate allows. It had no more to send, or a disk or a receiver's
    /// buffer held it up.
    pub fn is_unused(&self) -> bool {
        self.usage.is_unused()
    }

    /// Sets the first rate, before anything was sent. `round_trip` is the longest one.
    pub fn start(&mut self, round_trip: Duration) {
        self.set(self.bounds.first_bps(round_trip));
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.usage.sent(now, self.bps, group_bytes, repair_bytes);
    }

    /// Takes in a report of the receiver that the sender follows.
    pub fn follow(&mut self, now: Instant, finding: Finding) {
        let round_trip = finding.round_trip.max(SHORTEST_ROUND_TRIP);
        self.shortest = self.shortest.min(round_trip);
        self.usage.look(now, self.bps, round_trip);
        let received = finding.received_bps * self.usage.share();
        match finding.calculated_bps {
            None if self.is_slow_start => self.double(now, received, round_trip),
            calculated => {
                self.is_slow_start = false;
                self.steer(now, calculated, received, finding.is_lossy, round_trip);
            }
        }
        self.raised = now;
    }

    /// Slow start (RFC 4654, 3.6): twice what arrives; less when a queue builds up (as RFC 9406 does it for TCP).
    fn double(&mut self, now: Instant, received: f64, round_trip: Duration) {
        if self.usage.is_unused() {
            return;
        }
        let least = (self.bps / 2.0).max(self.bounds.first_bps(round_trip)).min(self.bps);
        let growth = self.bps * 2_f64.powf(self.round_trips_since_raised(now, round_trip));
        let factor = if self.is_queueing(round_trip) { CAREFUL_GROWTH } else { 2.0 };
        self.set((factor * received).clamp(least, growth.max(least)));
    }

    fn steer(
        &mut self,
        now: Instant,
        calculated: Option<f64>,
        received: f64,
        is_lossy: bool,
        round_trip: Duration,
    ) {
        let mut target = calculated.unwrap_or(MOST_BPS);
        if !self.usage.is_unused() {
            target = target.min(self.bearable_bps(received, is_lossy, round_trip));
        }
        if target <= self.bps {
            return self.set(target.max(self.bounds.packet_bits / round_trip.as_secs_f64()).min(self.bps));
        }
        if !self.usage.is_unused() {
            let raised = self.raised_bps(now, round_trip);
            self.set(target.min(raised));
            if self.bps >= self.recover_bps {
                self.recover_bps = 0.0;
            }
        }
    }

    /// The rate with at least a packet a round trip more for each round trip (RFC 4654, 3.3), and twice the
    /// rate where that is known to be good.
    fn raised_bps(&self, now: Instant, round_trip: Duration) -> f64 {
        let round_trips = self.round_trips_since_raised(now, round_trip);
        if self.bps < self.recover_bps {
            return (self.bps * 2_f64.powf(round_trips)).min(self.recover_bps);
        }
        let step = (self.bounds.packet_bits / round_trip.as_secs_f64()).max(self.bps * MOST_GROWTH);
        self.bps + round_trips * step
    }

    /// The rate that may leave, where so much arrives. Where a queue stands, it is hardly more than goes
    /// through it: what a window lets out is bound to that by its acknowledgements, and a rate would not hear
    /// of its excess before that has queued, too. A queue of 0.4 s on a link of 5 Mbit/s took a quarter more
    /// until the news of its overflow came, a tenth of that second's packets.
    fn bearable_bps(&mut self, received: f64, is_lossy: bool, round_trip: Duration) -> f64 {
        if is_lossy {
            self.borne_bps = received;
            return received;
        }
        if !self.is_queueing(round_trip) {
            return received * 2.0;
        }
        (received * CLOCKED_GROWTH).max(self.borne_bps) + self.bounds.packet_bits / round_trip.as_secs_f64()
    }

    fn is_queueing(&self, round_trip: Duration) -> bool {
        round_trip > self.shortest.mul_f64(QUEUEING) + SHORTEST_ROUND_TRIP
    }

    fn round_trips_since_raised(&self, now: Instant, round_trip: Duration) -> f64 {
        let elapsed = now.saturating_duration_since(self.raised);
        (elapsed.as_secs_f64() / round_trip.as_secs_f64()).min(2.0)
    }

    /// Halves the rate because nobody has reported for long (RFC 5348, 4.4).
    pub fn halve(&mut self) {
        self.recover_bps = self.recover_bps.max(self.bps / 2.0);
        self.set(self.bps / 2.0);
    }

    /// Lowers the rate after a pause in which nothing was sent, because the path may have changed (RFC 5348,
    /// 4.4).
    pub fn pause(&mut self, paused: Duration, round_trip: Duration) {
        let round_trip = round_trip.max(SHORTEST_ROUND_TRIP);
        let halvings = (paused.as_secs_f64() / (4.0 * round_trip.as_secs_f64())).min(60.0);
        self.recover_bps = self.recover_bps.max(self.bps);
        let decayed = self.bps / 2_f64.powf(halvings);
        self.set(decayed.max(self.bounds.first_bps(round_trip)).min(self.bps));
        self.usage = Usage::default();
    }

    /// Lowers the rate to the least one, because the receiver that was followed has left and the sender knows
    /// no other to follow.
    pub fn fall_to_least(&mut self) {
        self.is_slow_start = false;
        self.set(self.bounds.least_bps);
    }

    /// Ends the recovery from loss, because the sender no longer follows the receiver that had the loss and the
    /// others can bear more.
    pub fn forget_recovery(&mut self) {
        self.recover_bps = 0.0;
    }

    fn set(&mut self, bps: f64) {
        self.bps = self.bounds.clamp(bps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// Sends all that the rate allows for a number of round trips; each report is what `find` makes of the rate.
    fn run(rate: &mut Rate, from: u64, round_trips: u64, find: impl Fn(f64) -> Finding) {
        for step in from..from + round_trips * 10 {
            let now = Instant::ZERO + ROUND_TRIP / 10 * step as u32;
            rate.sent(now, (rate.bps() / 8.0 * 0.004) as u64, 0);
            if step % 10 == 9 {
                rate.follow(now, find(rate.bps()));
            }
        }
    }

    fn lossless(received_bps: f64) -> Finding {
        Finding {
            calculated_bps: None,
            received_bps,
            is_lossy: false,
            round_trip: ROUND_TRIP,
            sample: Sample::default(),
        }
    }

    fn calculated(bps: f64, received_bps: f64) -> Finding {
        Finding { calculated_bps: Some(bps), ..lossless(received_bps) }
    }

    fn started() -> Rate {
        let mut rate = Rate::new(1500, None);
        rate.start(ROUND_TRIP);
        rate
    }

    #[test]
    fn slow_start_doubles_each_round_trip_and_is_bound_to_what_arrives() {
        let mut rate = started();
        assert_eq!(rate.bps(), 3_000_000.0);
        run(&mut rate, 0, 5, lossless);
        assert!((40e6..100e6).contains(&rate.bps()), "{}", rate.bps());
        run(&mut rate, 50, 20, |bps| lossless(bps.min(50e6)));
        assert!((99e6..101e6).contains(&rate.bps()) && rate.is_slow_start(), "{}", rate.bps());
    }

    #[test]
    fn the_first_loss_ends_slow_start_for_good() {
        let mut rate = started();
        run(&mut rate, 0, 5, lossless);
        run(&mut rate, 50, 1, |_| calculated(20e6, 40e6));
        assert_eq!((rate.bps(), rate.is_slow_start()), (20e6, false));
        run(&mut rate, 60, 2, |bps| calculated(50e6, bps));
        assert!((28e6..34e6).contains(&rate.bps()), "a part of the way each round trip: {}", rate.bps());
    }

    #[test]
    fn where_packets_are_lost_the_rate_is_at_most_what_arrives() {
        let mut rate = started();
        run(&mut rate, 0, 5, lossless);
        run(&mut rate, 50, 1, |_| Finding { is_lossy: true, ..calculated(40e6, 5e6) });
        assert_eq!(rate.bps(), 5e6);
    }

    #[test]
    fn where_a_queue_stands_the_rate_is_hardly_more_than_what_goes_through_it() {
        let mut rate = started();
        run(&mut rate, 0, 5, lossless);
        run(&mut rate, 50, 1, |_| Finding { is_lossy: true, ..calculated(40e6, 20e6) });
        let queued = |received| Finding { round_trip: ROUND_TRIP * 2, ..calculated(40e6, received) };
        run(&mut rate, 60, 20, |bps| queued(bps.min(10e6)));
        assert_eq!(rate.bps(), 20e6 + 150e3, "what was borne before, and a packet a round trip");
        run(&mut rate, 260, 1, |_| queued(25e6));
        assert!((20.2e6..=25.9e6).contains(&rate.bps()), "{}", rate.bps());
        run(&mut rate, 270, 20, |_| queued(25e6));
        assert_eq!(rate.bps(), 25e6 * CLOCKED_GROWTH + 150e3);
        run(&mut rate, 470, 20, |bps| calculated(40e6, bps));
        assert_eq!(rate.bps(), 40e6, "no queue, no bound");
    }

    #[test]
    fn an_unused_rate_neither_grows_nor_falls_with_what_arrives() {
        let mut rate = started();
        run(&mut rate, 0, 4, lossless);
        let before = rate.bps();
        for round_trip in 2..20 {
            let now = Instant::ZERO + ROUND_TRIP * round_trip * 3;
            rate.sent(now, 1000, 0);
            rate.follow(now, lossless(200_000.0));
        }
        assert!(rate.is_unused());
        assert_eq!(rate.bps(), before);
    }

    #[test]
    fn after_silence_the_rate_comes_back_by_doubling() {
        let mut rate = started();
        run(&mut rate, 0, 5, lossless);
        run(&mut rate, 50, 1, |bps| calculated(40e6, bps));
        (0..30).for_each(|_| rate.halve());
        assert_eq!(rate.bps(), 60_000.0);
        run(&mut rate, 200, 10, |bps| calculated(40e6, bps));
        assert!((15e6..35e6).contains(&rate.bps()), "{}", rate.bps());
    }

    #[test]
    fn a_pause_takes_the_rate_down_to_that_of_the_start() {
        let mut rate = started();
        run(&mut rate, 0, 5, lossless);
        let before = rate.bps();
        rate.pause(ROUND_TRIP * 4, ROUND_TRIP);
        assert_eq!(rate.bps(), before / 2.0);
        rate.pause(Duration::MAX, ROUND_TRIP);
        assert_eq!(rate.bps(), 3_000_000.0);
    }

    #[test]
    fn nonsense_stays_within_the_bounds() {
        let mut rate = Rate::new(1500, Some(1_000_000));
        for number in [0.0, -5.0, 1e300, f64::INFINITY] {
            for round_trip in [Duration::ZERO, Duration::from_secs(1 << 40)] {
                rate.start(round_trip);
                for is_lossy in [true, false] {
                    let finding = Finding { is_lossy, round_trip, ..calculated(number, number) };
                    rate.follow(Instant::ZERO + Duration::from_secs(9), finding);
                    assert!((1e6..=MOST_BPS).contains(&rate.bps()), "{number} {round_trip:?} {}", rate.bps());
                }
            }
        }
    }
}
