//! Measures how fast counters grow, over the last seconds.

use std::{collections::VecDeque, time::Duration};

use treecast_proto::Instant;

/// The time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(5);

/// The shortest time between two samples that are kept.
const SPACING: Duration = Duration::from_millis(500);

/// The shortest time over which a rate is measured before it is told.
const LEAST_SPAN: Duration = Duration::from_secs(1);

/// Samples of `N` counters, at most a dozen.
#[derive(Debug, Clone)]
pub(crate) struct Meter<const N: usize> {
    samples: VecDeque<(Instant, [u64; N])>,
}

impl<const N: usize> Default for Meter<N> {
    fn default() -> Self {
        Self { samples: VecDeque::new() }
    }
}

impl<const N: usize> Meter<N> {
    /// Notes the present values of the counters.
    pub fn note(&mut self, now: Instant, counters: [u64; N]) {
        if self.samples.back().is_some_and(|(last, _)| now < *last + SPACING) {
            return;
        }
        self.samples.push_back((now, counters));
        while self.samples.get(1).is_some_and(|(second, _)| *second + WINDOW <= now) {
            self.samples.pop_front();
        }
    }

    /// The recent growth of each counter in a second. `None` while it is not known. A counter that went back
    /// counts as not growing.
    pub fn rates(&self, now: Instant, counters: [u64; N]) -> Option<[f64; N]> {
        let (first, before) = self.samples.front()?;
        let span = now.saturating_duration_since(*first);
        if span < LEAST_SPAN {
            return None;
        }
        let grown = |index: usize| counters[index].saturating_sub(before[index]) as f64 / span.as_secs_f64();
        Some(std::array::from_fn(grown))
    }
}

/// Bits a second of a rate in bytes.
pub(crate) fn bits(bytes_per_second: f64) -> u64 {
    (bytes_per_second * 8.0) as u64
}

/// The seconds that so many bytes take. `None` when the rate is not known.
pub(crate) fn time_for(bytes: u64, bytes_a_second: Option<f64>) -> Option<f64> {
    match (bytes, bytes_a_second) {
        (0, _) => Some(0.0),
        (_, Some(rate)) if rate >= 1.0 => Some(bytes as f64 / rate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::at;

    #[test]
    fn only_the_last_seconds_count() {
        let mut meter = Meter::default();
        for step in 0..200 {
            meter.note(at(step * 100), [step.min(100) * 1000]);
        }
        assert_eq!(meter.rates(at(20_000), [100_000]), Some([0.0]), "it has stood still for ten seconds");
        assert!(meter.samples.len() <= 12, "{}", meter.samples.len());
    }

    #[test]
    fn a_rate_is_the_growth_a_second() {
        let mut meter = Meter::default();
        assert_eq!(meter.rates(at(0), [0]), None);
        meter.note(at(0), [0]);
        meter.note(at(900), [900]);
        assert_eq!(meter.rates(at(999), [999]), None, "not yet");
        assert_eq!(meter.rates(at(2_000), [4_000]), Some([2_000.0]));
        assert_eq!(meter.rates(at(2_000), [0]), Some([0.0]));
    }

    #[test]
    fn what_cannot_be_known_is_not_told() {
        assert_eq!(time_for(0, None), Some(0.0));
        assert_eq!(time_for(100, Some(50.0)), Some(2.0));
        assert_eq!((time_for(100, None), time_for(100, Some(0.0))), (None, None));
    }
}
