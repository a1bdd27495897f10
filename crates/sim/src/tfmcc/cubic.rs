//! A TCP connection with CUBIC (RFC 9438), of which only the window matters: it always has something to send, its
//! receiver acknowledges each packet, and the way keeps packets in order, so that a packet is lost when a later one is
//! acknowledged.

use std::{collections::VecDeque, time::Duration};

use treecast_proto::Instant;

/// Packets in the window at the start (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// RFC 9438, 4.1, 4.6 and 4.3.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 6298, 2.4 asks for a second; Linux waits no longer than this beyond the round trip.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last reduction.
    peak: f64,
    /// When congestion avoidance began after it, and the window then.
    epoch: Option<(Instant, f64)>,
    /// What Reno would have by now.
    friendly: f64,
    round_trip: Option<Duration>,
    next: u64,
    /// Sent and not acknowledged, with the time.
    under_way: VecDeque<(u64, Instant)>,
    /// What was sent before the last reduction is no reason for another.
    recovers_until: u64,
    last_heard: Instant,
}

impl Cubic {
    pub fn new(now: Instant) -> Self {
        Self {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            peak: 0.0,
            epoch: None,
            friendly: 0.0,
            round_trip: None,
            next: 0,
            under_way: VecDeque::new(),
            recovers_until: 0,
            last_heard: now,
        }
    }

    /// The number of the packet to send now, if the window has room.
    pub fn send(&mut self, now: Instant) -> Option<u64> {
        if self.under_way.len() as f64 >= self.window {
            return None;
        }
        self.under_way.push_back((self.next, now));
        self.next += 1;
        Some(self.next - 1)
    }

    pub fn acknowledged(&mut self, now: Instant, number: u64) {
        self.last_heard = now;
        while let Some((first, sent)) = self.under_way.front().copied().filter(|(first, _)| *first <= number)
        {
            self.under_way.pop_front();
            if first < number {
                self.lose(first);
                continue;
            }
            let sample = now.saturating_duration_since(sent);
            self.round_trip = Some(self.round_trip.map_or(sample, |old| (old * 7 + sample) / 8));
            self.grow(now);
        }
    }

    /// When nothing was acknowledged for too long.
    pub fn deadline(&self) -> Instant {
        self.last_heard + LEAST_TIMEOUT + self.round_trip.unwrap_or(Duration::from_secs(1)) * 2
    }

    /// RFC 9438, 4.8.
    pub fn time_out(&mut self, now: Instant) {
        self.last_heard = now;
        self.threshold = (self.window * BETA).max(2.0);
        self.peak = self.window;
        self.window = 1.0;
        self.epoch = None;
        self.under_way.clear();
        self.recovers_until = self.next;
    }

    /// RFC 9438, 4.6 and 4.7.
    fn lose(&mut self, number: u64) {
        if number < self.recovers_until {
            return;
        }
        let is_lower = self.window < self.peak;
        self.peak = if is_lower { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(2.0);
        self.threshold = self.window;
        self.epoch = None;
        self.recovers_until = self.next;
    }

    /// RFC 9438, 4.2 to 4.5 and 4.10.
    fn grow(&mut self, now: Instant) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let (began, from) = *self.epoch.get_or_insert_with(|| {
            self.friendly = self.window;
            (now, self.window)
        });
        self.peak = self.peak.max(from);
        let k = ((self.peak - from) / C).cbrt();
        let curve = |time: Duration| C * (time.as_secs_f64() - k).powi(3) + self.peak;
        let elapsed = now.saturating_duration_since(began);
        self.friendly += (if self.friendly < self.peak { ALPHA } else { 1.0 }) / self.window;
        if curve(elapsed) < self.friendly {
            self.window = self.window.max(self.friendly);
            return;
        }
        let target = curve(elapsed + self.round_trip.unwrap_or_default());
        let target = target.clamp(self.window, self.window * 1.5);
        self.window += (target - self.window) / self.window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows at each of so many round trips of 100 ms in which nothing is lost, after one loss at 100 packets.
    fn windows_after_a_loss(round_trips: u32) -> Vec<f64> {
        let mut cubic = Cubic::new(Instant::ZERO);
        (cubic.window, cubic.threshold) = (100.0, 100.0);
        cubic.lose(0);
        assert!((cubic.window - 70.0).abs() < 1e-9);
        let round = |step: u32| {
            let now = Instant::ZERO + Duration::from_millis(100) * step;
            let numbers: Vec<u64> = std::iter::from_fn(|| cubic.send(now)).collect();
            let then = now + Duration::from_millis(100);
            numbers.into_iter().for_each(|number| cubic.acknowledged(then, number));
            cubic.window
        };
        (0..round_trips).map(round).collect()
    }

    #[test]
    fn the_window_follows_the_cubic_curve() {
        let windows = windows_after_a_loss(60);
        // K is the cube root of 30 / 0.4: 4.2 s.
        assert!((98.0..102.0).contains(&windows[42]), "{windows:?}");
        assert!(windows[20] > 90.0 && windows[59] > 101.0, "{windows:?}");
    }

    #[test]
    fn one_reduction_a_round_trip_and_a_timeout_starts_over() {
        let mut cubic = Cubic::new(Instant::ZERO);
        while cubic.send(Instant::ZERO).is_some() {}
        cubic.acknowledged(Instant::ZERO + Duration::from_millis(50), 5);
        assert!((7.0..7.1).contains(&cubic.window), "five lost, one reduction, one acknowledged");
        cubic.time_out(Instant::ZERO + Duration::from_secs(1));
        assert_eq!((cubic.window, cubic.under_way.len()), (1.0, 0));
    }
}
