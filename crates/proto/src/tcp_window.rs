//! The window that a TCP connection on a path would have, emulated here as TEAR does it (Rhee, Ozdemir and Yi,
//! 2000): it falls when a loss event begins and grows with the time since.
//!
//! Between loss events it grows so fast that it is on average as large as CUBIC's (RFC 9438, 5.1), but evenly: CUBIC's own
//! growth leads back to the window before the loss, so that flows which share a link keep the shares they have for long.
//! What grows alike for all halves the difference between them at every loss event (Chiu and Jain, 1989).

use std::time::Duration;

use crate::Instant;

/// The share of the window that a loss event leaves, 0 to 1. The less it is, the sooner two flows have equal
/// shares, and the longer the queue must be with which one alone fills a link: with this a bandwidth-delay
/// product, with half of that nine tenths.
const BETA: f64 = 0.5;

/// The share that the first one leaves. Slow start has doubled the window within the last round trip, and
/// filled the queue.
const FIRST_BETA: f64 = 0.35;

/// Packets a round trip with which the window is on average Reno's (RFC 9438, 4.3).
const RENO_PACKETS: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The growth that gives CUBIC's average window. Where loss events are T seconds apart, CUBIC's window is C
/// T³ (3 + β) / (4 (1 - β)) on average, with its C of 0.4 and β of 0.7; one that grows by a packets a second
/// is a T (1 + β) / (2 (1 - β)). With an a of so many T² they are equal.
const CUBIC_PACKETS: f64 = 0.4 * (3.0 + 0.7) / (4.0 * (1.0 - 0.7)) * 2.0 * (1.0 - BETA) / (1.0 + BETA);

/// Seconds between loss events with which CUBIC has about 200 packets under way on average. Flows grow as if
/// this were the interval where that is right to within a factor: a flow that has not yet seen the same loss
/// events is to grow alike, too.
const COMMON_INTERVAL: f64 = 5.5;
const COMMON_PACKETS: f64 = CUBIC_PACKETS * COMMON_INTERVAL * COMMON_INTERVAL;

/// The factor: with short intervals and common round trips, where Reno's growth is higher than CUBIC's.
const MOST_ABOVE_CUBIC: f64 = 3.0;

/// The least that a new interval between loss events counts in their average.
const INTERVAL_WEIGHT: f64 = 0.25;

/// The largest window where the sender follows another receiver, as a multiple of what is under way.
const MOST_GROWTH: f64 = 2.0;

/// The largest window with which a loss event begins, as a multiple of what is under way. The idea is RFC
/// 7661's: a window that is not used is no evidence of what the path bears, and is reduced by what was really
/// in flight (4.4.1). The two numbers are ours.
const MOST_REDUCED: f64 = 1.25;

/// No window is larger, however much somebody says is under way: a path of 100 Gbit/s and ten seconds has a tenth of that.
const MOST_PACKETS: f64 = 1e9;

/// A window is no smaller (RFC 9438, 4.6).
const LEAST_PACKETS: f64 = 2.0;

/// Round trips are no shorter where something is divided by them.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_micros(50);

/// The emulated window, in packets; none before the first loss.
#[derive(Debug, Default)]
pub struct Window {
    packets: Option<f64>,
    /// The time when the last loss event began.
    event: Instant,
    /// The time until which the growth since is in.
    grown: Instant,
    /// Seconds between loss events on average, and of how many.
    apart: f64,
    events: u32,
}

impl Window {
    /// Creates the window of a connection that has so many packets under way and has lost none.
    pub fn of(packets: f64) -> Self {
        Self { packets: Some(packets), ..Self::default() }
    }

    pub fn packets(&self) -> Option<f64> {
        self.packets
    }

    /// Shrinks the window because a loss event has begun. `under_way` is the number of packets that arrive in a
    /// round trip.
    pub fn lose(&mut self, now: Instant, under_way: f64) {
        let (before, beta) = match self.packets {
            Some(packets) => (packets.min(under_way * MOST_REDUCED), BETA),
            None => (under_way, FIRST_BETA),
        };
        self.packets = Some((before * beta).clamp(LEAST_PACKETS, MOST_PACKETS));
        self.apart = match self.events {
            0 => interval_of(under_way),
            _ => self.average_with(now.saturating_duration_since(self.event)),
        };
        self.events = self.events.saturating_add(1);
        (self.event, self.grown) = (now, now);
    }

    pub fn grow(&mut self, now: Instant, round_trip: Duration, under_way: f64) {
        let Some(packets) = self.packets else { return };
        let elapsed = now.saturating_duration_since(self.grown).as_secs_f64();
        let open = self.average_with(now.saturating_duration_since(self.event));
        let cubic = CUBIC_PACKETS * self.apart.max(open).powi(2);
        let reno = RENO_PACKETS / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64();
        let gained = elapsed * COMMON_PACKETS.clamp(cubic, cubic * MOST_ABOVE_CUBIC).max(reno);
        let most = (under_way * MOST_GROWTH).max(packets).min(MOST_PACKETS);
        self.packets = Some((packets + gained).min(most));
        self.grown = now.max(self.grown);
    }

    /// The average, in seconds, were the present interval as long as this. The first counts whole: what it was taken to be
    /// before was a guess.
    fn average_with(&self, interval: Duration) -> f64 {
        let weight = INTERVAL_WEIGHT.max(1.0 / f64::from(self.events.max(1)));
        self.apart + (interval.as_secs_f64() - self.apart) * weight
    }
}

/// Seconds between loss events with which CUBIC has so many packets under way on average. What slow start has got is no
/// reason to grow faster than others.
fn interval_of(under_way: f64) -> f64 {
    (under_way * 4.0 * (1.0 - 0.7) / (0.4 * (3.0 + 0.7))).cbrt().min(COMMON_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// The window each ten milliseconds, in packets, where loss events are so far apart; all that it allows arrives.
    fn windows(first: f64, apart_millis: u64, events: u64) -> Vec<f64> {
        let mut window = Window::of(first);
        let step = |millis: u64| {
            let packets = window.packets().expect("it has lost");
            match millis % apart_millis {
                0 => window.lose(at(millis), packets),
                _ => window.grow(at(millis), ROUND_TRIP, packets),
            }
            window.packets().expect("it has lost")
        };
        (0..apart_millis * events).step_by(10).map(step).collect()
    }

    fn mean(windows: &[f64]) -> f64 {
        windows.iter().sum::<f64>() / windows.len() as f64
    }

    #[test]
    fn it_is_on_average_as_large_as_those_of_tcp() {
        for apart_millis in [1_000, 8_000] {
            let windows = windows(100.0, apart_millis, 20);
            let found = mean(&windows[windows.len() / 2..]);
            let apart = apart_millis as f64 / 1000.0;
            let reno = 1.5 * apart / ROUND_TRIP.as_secs_f64();
            let cubic = 0.4 * apart.powi(3) * 3.7 / 1.2;
            let of = found / reno.max(cubic);
            assert!((0.95..1.2).contains(&of), "{apart_millis} ms: {found}, Reno {reno}, CUBIC {cubic}");
        }
    }

    #[test]
    fn a_loss_event_halves_the_difference_between_two() {
        let (high, low) = (windows(800.0, 5_000, 4), windows(20.0, 5_000, 4));
        let difference = |event: usize| high[event * 500] - low[event * 500];
        assert_eq!(difference(0), 390.0);
        assert!((195.0..215.0).contains(&difference(1)), "{}", difference(1));
        assert!((48.0..54.0).contains(&difference(3)), "{}", difference(3));
    }

    #[test]
    fn it_goes_no_further_than_what_arrives_bears_out() {
        let mut window = Window::default();
        window.grow(at(0), ROUND_TRIP, 50.0);
        assert_eq!(window.packets(), None);
        window.lose(at(0), 100.0);
        assert_eq!(window.packets(), Some(35.0));
        (1..60_000).step_by(10).for_each(|millis| window.grow(at(millis), ROUND_TRIP, 30.0));
        assert_eq!(window.packets(), Some(60.0), "twice of it");
        window.lose(at(60_000), 10.0);
        assert_eq!(window.packets(), Some(6.25));
    }

    #[test]
    fn nonsense_gives_numbers() {
        let mut window = Window::default();
        for under_way in [0.0, 1e300, f64::INFINITY] {
            for now in [at(5), Instant::ZERO + Duration::MAX, Instant::ZERO] {
                window.lose(now, under_way);
                window.grow(Instant::ZERO + Duration::MAX, Duration::ZERO, under_way);
                window.grow(now, Duration::MAX, under_way);
                let found = window.packets();
                assert!(
                    found.is_some_and(|packets| packets.is_finite() && packets >= LEAST_PACKETS),
                    "{under_way} packets under way at {now:?}: {found:?}"
                );
            }
        }
    }
}
