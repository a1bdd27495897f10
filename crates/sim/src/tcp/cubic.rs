//! CUBIC (RFC 9438) as in Linux.
//!
//! The path keeps packets in order, so a packet is lost when a later one is acknowledged.

use std::{collections::VecDeque, time::Duration};

use treecast_proto::Instant;

use super::{Congestion, slow_start::SlowStart};

/// Packets in the window at the start (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// Constants of RFC 9438, sections 4.1, 4.6 and 4.3.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Before the first loss, Linux adds at least one packet for this many acknowledged ones, and never more than
/// one for two.
const UNPROVEN_PACKETS: f64 = 20.0;
const LEAST_PACKETS: f64 = 2.0;

/// The smallest retransmission timeout. RFC 6298, section 2.4, asks for a second. Linux waits at least this
/// long beyond the round trip.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last reduction; 0 before the first.
    peak: f64,
    epoch: Option<Epoch>,
    slow_start: SlowStart,
    recovery: Option<Recovery>,
    round_trip: Option<Duration>,
    shortest: Duration,
    next: u64,
    /// Packets that were sent and not acknowledged, with the times of sending.
    under_way: VecDeque<(u64, Instant)>,
    last_heard: Instant,
}

/// The congestion avoidance phase since a reduction.
#[derive(Debug)]
struct Epoch {
    began: Instant,
    origin: f64,
    /// Seconds until the window is at the origin of the cubic function.
    k: f64,
    /// The window that Reno would have by now, in packets (RFC 9438, section 4.3).
    friendly: f64,
}

/// A reduction in progress. The window shrinks in step with acknowledgements (RFC 6937), until all packets that
/// were sent before it are acknowledged.
#[derive(Debug)]
struct Recovery {
    until: u64,
    under_way: f64,
    acknowledged: f64,
    sent: f64,
}

impl Cubic {
    pub fn new(now: Instant) -> Self {
        Self {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            peak: 0.0,
            epoch: None,
            slow_start: SlowStart::new(now),
            recovery: None,
            round_trip: None,
            shortest: Duration::MAX,
            next: 0,
            under_way: VecDeque::new(),
            last_heard: now,
        }
    }

    fn measure(&mut self, sample: Duration) {
        self.shortest = self.shortest.min(sample);
        self.round_trip = Some(self.round_trip.map_or(sample, |old| (old * 7 + sample) / 8));
        self.slow_start.measured(sample);
    }

    /// Reacts to a loss (RFC 9438, sections 4.6 and 4.7).
    fn lose(&mut self) {
        if self.recovery.is_some() {
            return;
        }
        let under_way = self.under_way.len() as f64 + 1.0;
        self.reduce();
        self.recovery = Some(Recovery { until: self.next, under_way, acknowledged: 0.0, sent: 0.0 });
    }

    fn reduce(&mut self) {
        let is_lower = self.window < self.peak;
        self.peak = if is_lower { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.window * BETA).max(2.0);
        self.epoch = None;
    }

    /// Sets the window during a recovery (RFC 6937, section 3.1).
    fn recover(&mut self, count: f64) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.acknowledged += count;
        let under_way = self.under_way.len() as f64;
        let due = if under_way > self.threshold {
            (recovery.acknowledged * self.threshold / recovery.under_way).ceil() - recovery.sent
        } else {
            (self.threshold - under_way).min((recovery.acknowledged - recovery.sent).max(count) + 1.0)
        };
        self.window = under_way + due.max(0.0);
    }

    /// Grows the window (RFC 9438, sections 4.2 to 4.5 and 4.10).
    fn grow(&mut self, now: Instant, last: u64, count: f64) {
        if self.window < self.threshold {
            self.window += count;
            if self.slow_start.is_over(now, last, self.next, self.window, self.shortest) {
                self.threshold = self.window;
            }
            return;
        }
        let (window, peak) = (self.window, self.peak);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            origin: window.max(peak),
            k: ((peak - window).max(0.0) / C).cbrt(),
            friendly: window,
        });
        let elapsed = (now.saturating_duration_since(epoch.began) + self.shortest).as_secs_f64();
        let target = epoch.origin + C * (elapsed - epoch.k).powi(3);
        epoch.friendly += ALPHA * count / window;
        let mut gained = ((target - window) / window).max(0.01 / window);
        if peak == 0.0 {
            gained = gained.max(1.0 / UNPROVEN_PACKETS);
        }
        gained = gained.max((epoch.friendly - window) / window).min(1.0 / LEAST_PACKETS);
        self.window += gained * count;
    }
}

impl Congestion for Cubic {
    fn send(&mut self, now: Instant) -> Option<u64> {
        if self.under_way.len() as f64 + 1.0 > self.window {
            return None;
        }
        self.under_way.push_back((self.next, now));
        self.next += 1;
        if let Some(recovery) = &mut self.recovery {
            recovery.sent += 1.0;
        }
        Some(self.next - 1)
    }

    fn acknowledged(&mut self, now: Instant, last: u64, has_come: &dyn Fn(u64) -> bool) {
        self.last_heard = now;
        let mut count = 0.0;
        while let Some((number, sent)) = self.under_way.front().copied().filter(|(number, _)| *number <= last)
        {
            self.under_way.pop_front();
            if !has_come(number) {
                self.lose();
                continue;
            }
            self.measure(now.saturating_duration_since(sent));
            count += 1.0;
        }
        self.recovery.take_if(|recovery| recovery.until <= last);
        if count > 0.0 {
            match &mut self.recovery {
                Some(_) => self.recover(count),
                None => self.grow(now, last, count),
            }
        }
    }

    fn know(&mut self, round_trip: Duration) {
        self.measure(round_trip);
    }

    fn resume(&mut self, now: Instant) {
        self.last_heard = now;
    }

    fn deadline(&self) -> Instant {
        self.last_heard + LEAST_TIMEOUT + self.round_trip.unwrap_or(Duration::from_secs(1)) * 2
    }

    /// Reacts to the retransmission timeout (RFC 9438, section 4.8).
    fn time_out(&mut self, now: Instant) {
        self.last_heard = now;
        self.reduce();
        self.window = 1.0;
        self.recovery = None;
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn grown(window: f64) -> Cubic {
        let mut cubic = Cubic::new(Instant::ZERO);
        (cubic.window, cubic.threshold) = (window, window);
        cubic
    }

    fn acknowledge(cubic: &mut Cubic, now: Instant, number: u64) {
        cubic.acknowledged(now, number, &|one| one == number);
    }

    fn send_all(cubic: &mut Cubic, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| cubic.send(now)).collect()
    }

    /// Windows at each of so many round trips in which nothing is lost, after one loss at 100 packets.
    fn windows_after_a_loss(round_trips: u32) -> Vec<f64> {
        let mut cubic = grown(100.0);
        send_all(&mut cubic, Instant::ZERO);
        (1..100).for_each(|number| acknowledge(&mut cubic, Instant::ZERO + ROUND_TRIP, number));
        let round = |step: u32| {
            let now = Instant::ZERO + ROUND_TRIP * step;
            let first = send_all(&mut cubic, now)[0];
            let last = cubic.under_way.back().expect("something was sent").0;
            (first..=last).for_each(|number| acknowledge(&mut cubic, now + ROUND_TRIP, number));
            cubic.window
        };
        (1..=round_trips).map(round).collect()
    }

    #[test]
    fn the_window_follows_the_cubic_curve() {
        let windows = windows_after_a_loss(60);
        assert!((69.0..74.0).contains(&windows[1]), "{windows:?}");
        // K is the cube root of 30 / 0.4: 4.2 s.
        assert!((97.0..102.0).contains(&windows[42]), "{windows:?}");
        assert!(windows[20] > 90.0 && windows[59] > 101.0, "{windows:?}");
    }

    #[test]
    fn a_reduction_goes_in_step_with_what_is_acknowledged() {
        let mut cubic = grown(100.0);
        send_all(&mut cubic, Instant::ZERO);
        let mut sent = 0;
        for number in 5..100 {
            acknowledge(&mut cubic, Instant::ZERO + ROUND_TRIP, number);
            sent += send_all(&mut cubic, Instant::ZERO + ROUND_TRIP).len();
        }
        assert!((66..=71).contains(&sent), "0.7 of what was under way: {sent}");
        assert!((69.0..72.0).contains(&cubic.window), "{}", cubic.window);
    }

    #[test]
    fn a_timeout_starts_over() {
        let mut cubic = grown(50.0);
        send_all(&mut cubic, Instant::ZERO);
        cubic.time_out(Instant::ZERO + Duration::from_secs(1));
        assert_eq!((cubic.window, cubic.threshold, cubic.under_way.len()), (1.0, 35.0, 0));
    }
}
