//! How the rate yields where others share a queue.
//!
//! A loss that comes with a queue says that somebody else may be filling it. TCP's CUBIC then gives up three tenths of its window, and
//! gets them back within a time K that its window decides (RFC 9438, 4.1 to 4.6). The rate does the same, so that both get the same.
//!
//! Others do not yield, such as BBR's first version. Losses then come again long before K. So the shorter the peace was
//! before a loss, the less the rate gives up: all of CUBIC's share if the peace lasted half of K.

use std::time::Duration;

use crate::Instant;

/// Constants of RFC 9438, sections 4.1, 4.6 and 4.3.
const C: f64 = 0.4;
const GIVEN_UP: f64 = 0.3;
const RENO_PACKETS: f64 = 3.0 * GIVEN_UP / (2.0 - GIVEN_UP);

/// The share of K for which peace must last before a loss counts whole.
const WHOLE_PEACE: f64 = 0.5;

/// The rate's window, in packets, since it has yielded.
#[derive(Debug, Default)]
pub struct Contest {
    epoch: Option<Epoch>,
    /// The time of the last loss event.
    event: Option<Instant>,
}

/// The time since the rate has yielded last.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    began: Instant,
    /// The window to which it grows back, and that with which it began.
    peak: f64,
    bottom: f64,
    /// Seconds until it is at the peak.
    k: f64,
}

impl Contest {
    /// Yields because a loss event has come. `window` is the number of packets under way.
    pub fn lose(&mut self, now: Instant, window: f64) {
        let whole = k(window * GIVEN_UP);
        let peace = self.event.map_or(f64::INFINITY, |event| (now - event).as_secs_f64());
        let depth = GIVEN_UP * (peace / (whole * WHOLE_PEACE).max(1e-3)).min(1.0);
        let is_lower = self.epoch.is_some_and(|epoch| window < epoch.peak);
        let peak = if is_lower { window * (2.0 - depth) / 2.0 } else { window };
        let bottom = (window * (1.0 - depth)).max(2.0);
        self.event = Some(now);
        self.epoch = Some(Epoch { began: now, peak: peak.max(bottom), bottom, k: k((peak - bottom).max(0.0)) });
    }

    /// Returns the window in packets; none when nobody contends.
    pub fn window(&self, now: Instant, round_trip: Duration) -> Option<f64> {
        let Epoch { began, peak, bottom, k } = self.epoch?;
        let elapsed = (now - began).as_secs_f64();
        let cubic = peak + C * (elapsed - k).powi(3);
        let reno = bottom + RENO_PACKETS * elapsed / round_trip.as_secs_f64().max(1e-4);
        Some(cubic.max(reno))
    }

    /// Nobody contends any more.
    pub fn end(&mut self) {
        self.epoch = None;
    }
}

/// Seconds in which CUBIC's window grows by so many packets to its plateau.
fn k(packets: f64) -> f64 {
    (packets / C).cbrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[test]
    fn the_window_falls_as_cubics_and_is_back_after_k() {
        let mut contest = Contest::default();
        assert_eq!(contest.window(at(0), ROUND_TRIP), None);
        contest.lose(at(0), 400.0);
        let window = |millis| contest.window(at(millis), ROUND_TRIP).unwrap();
        assert!((279.0..281.0).contains(&window(0)), "{}", window(0));
        // RFC 9438, 4.2: K is the cube root of 400 x 0.3 / 0.4, in seconds.
        assert!((399.0..401.0).contains(&window(6_694)), "{}", window(6_694));
        assert!(window(12_000) > 450.0);
    }

    #[test]
    fn the_shorter_the_peace_the_less_is_given_up() {
        let left = |millis| {
            let mut contest = Contest::default();
            contest.lose(at(0), 400.0);
            contest.lose(at(millis), 400.0);
            contest.window(at(millis), ROUND_TRIP).unwrap()
        };
        assert!((279.0..281.0).contains(&left(10_000)), "{}", left(10_000));
        assert!(left(100) > 390.0 && left(1_000) < left(100), "{} {}", left(100), left(1_000));
    }

    #[test]
    fn small_windows_grow_as_renos() {
        let mut contest = Contest::default();
        contest.lose(at(0), 10.0);
        let window = contest.window(at(1_000), ROUND_TRIP).unwrap();
        assert!((17.0..18.5).contains(&window), "7 and 0.53 in each of 20 round trips: {window}");
        contest.end();
        assert_eq!(contest.window(at(1_000), ROUND_TRIP), None);
    }
}
