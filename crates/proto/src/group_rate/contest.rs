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

    /// Returns the time since the last loss event.
    pub fn peace(&self, now: Instant) -> Option<Duration> {
        self.event.map(|event| now - event)
    }
}

/// Seconds in which CUBIC's window grows by so many packets to its plateau.
fn k(packets: f64) -> f64 {
    (packets / C).cbrt()
}
