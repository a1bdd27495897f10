//! Counters over time, and the rates between their samples.

use std::{collections::BTreeMap, time::Duration};

/// A counter, or the sum of several that were sampled together, over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    by_time: BTreeMap<Duration, i64>,
}

/// The growth of a counter between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub from: Duration,
    pub to: Duration,
    /// Growth in one second. It is never negative.
    pub per_second: f64,
}

impl Rate {
    /// The middle of the interval.
    pub fn middle(&self) -> Duration {
        (self.from + self.to) / 2
    }
}

impl Counted {
    /// Adds another series, sampled at the same times.
    pub fn add(&mut self, samples: &[(Duration, i64)]) {
        for &(at, value) in samples {
            *self.by_time.entry(at).or_default() += value;
        }
    }

    /// The values as they were sampled.
    pub fn values(&self) -> Vec<(Duration, i64)> {
        self.by_time.iter().map(|(at, value)| (*at, *value)).collect()
    }

    /// The growth from the first to the last sample.
    pub fn growth(&self) -> i64 {
        self.rates_raw().map(|(_, _, growth)| growth).sum()
    }

    /// The rates between neighbouring samples.
    pub fn rates(&self) -> Vec<Rate> {
        self.rates_raw()
            .map(|(from, to, growth)| Rate {
                from,
                to,
                per_second: growth as f64 / (to - from).as_secs_f64(),
            })
            .collect()
    }

    /// The growth between neighbouring samples. A counter that went backwards was restarted (for example
    /// because its link was created anew): it grew by its present value.
    fn rates_raw(&self) -> impl Iterator<Item = (Duration, Duration, i64)> {
        self.by_time.iter().zip(self.by_time.iter().skip(1)).map(|((&from, &before), (&to, &after))| {
            let growth = if after >= before { after - before } else { after };
            (from, to, growth)
        })
    }
}

/// A counter's growth between two times. Each rate counts as constant within its interval.
pub fn growth_within(rates: &[Rate], from: Duration, to: Duration) -> f64 {
    let within = |rate: &Rate| rate.to.min(to).saturating_sub(rate.from.max(from)).as_secs_f64();
    rates.iter().map(|rate| rate.per_second * within(rate)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(values: &[(u64, i64)]) -> Vec<(Duration, i64)> {
        values.iter().map(|&(s, v)| (Duration::from_secs(s), v)).collect()
    }

    #[test]
    fn rates_are_differences_over_time_and_series_add_up() {
        let mut counted = Counted::default();
        counted.add(&seconds(&[(0, 100), (2, 300), (3, 300)]));
        counted.add(&seconds(&[(0, 1), (2, 11), (3, 12)]));
        let rates: Vec<f64> = counted.rates().iter().map(|r| r.per_second).collect();
        assert_eq!(rates, [105.0, 1.0]);
        assert_eq!(counted.growth(), 211);
        assert_eq!(counted.rates()[0].middle(), Duration::from_secs(1));
    }

    #[test]
    fn a_counter_that_started_again_is_no_negative_rate() {
        let mut counted = Counted::default();
        counted.add(&seconds(&[(0, 1000), (1, 10), (2, 30)]));
        assert_eq!(counted.growth(), 30);
        assert!(Counted::default().rates().is_empty() && Counted::default().growth() == 0);
    }

    #[test]
    fn a_part_of_an_interval_has_its_part_of_the_growth() {
        let mut counted = Counted::default();
        counted.add(&seconds(&[(0, 0), (2, 20), (3, 60)]));
        let within = |from: f64, to: f64| {
            growth_within(&counted.rates(), Duration::from_secs_f64(from), Duration::from_secs_f64(to))
        };
        assert_eq!(
            [within(0.0, 9.0), within(1.0, 2.5), within(3.0, 9.0), within(2.0, 1.0)],
            [60.0, 30.0, 0.0, 0.0]
        );
    }
}
