//! The distribution of a time, in bounded memory.

use std::time::Duration;

use treecast_measure::statistics::Running;

use crate::report::Spread;

/// The number of classes for each doubling of the time. So a percentile is at most 1/32 too high.
const CLASSES: u64 = 32;

/// A distribution whose values are not kept: mean and spread are exact, percentiles nearly.
#[derive(Debug, Clone, Default)]
pub struct SpreadCounter {
    running: Running,
    /// The number of values in each class ([`class`]), up to the highest one.
    counts: Vec<u32>,
}

impl SpreadCounter {
    pub fn add(&mut self, time: Duration) {
        let ns = time.as_nanos().min(u128::from(u64::MAX >> 1)) as u64;
        self.running.add(ns as f64);
        let class = class(ns);
        if class >= self.counts.len() {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] = self.counts[class].saturating_add(1);
    }

    /// The distribution. `None` if it has no value.
    pub fn report(&self) -> Option<Spread> {
        let us = |ns: f64| ns / 1000.0;
        (self.running.count > 0).then(|| Spread {
            count: self.running.count,
            mean_us: us(self.running.mean),
            min_us: us(self.running.min),
            max_us: us(self.running.max),
            sd_us: us(self.running.standard_deviation()),
            p50_us: us(self.percentile(50)),
            p99_us: us(self.percentile(99)),
        })
    }

    fn percentile(&self, percent: u64) -> f64 {
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let class = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        class.map_or(0.0, |class| (lowest(class + 1) as f64).min(self.running.max))
    }
}

/// The class of a time: below [`CLASSES`] nanoseconds the time itself, above it the exponent and the five bits after the highest.
fn class(ns: u64) -> usize {
    if ns < CLASSES {
        return ns as usize;
    }
    let exponent = u64::from(ns.ilog2());
    let first = u64::from(CLASSES.ilog2());
    ((exponent - first + 1) * CLASSES + ((ns >> (exponent - first)) - CLASSES)) as usize
}

/// The shortest time of a class.
fn lowest(class: usize) -> u64 {
    let class = class as u64;
    if class < CLASSES {
        return class;
    }
    (CLASSES + class % CLASSES) << (class / CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_class_that_is_narrow() {
        for ns in (0..5000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX >> 1]) {
            let class = class(ns);
            let (low, high) = (lowest(class), lowest(class + 1));
            assert!(low <= ns && ns < high && high - low <= (ns / CLASSES).max(1), "{ns}: {low} to {high}");
        }
    }

    #[test]
    fn percentiles_are_near() {
        let mut spread = SpreadCounter::default();
        assert_eq!(spread.report(), None);
        (1..=1000).for_each(|us| spread.add(Duration::from_micros(us)));
        let report = spread.report().unwrap();
        assert_eq!((report.count, report.min_us, report.max_us, report.mean_us), (1000, 1.0, 1000.0, 500.5));
        assert!((500.0..=516.0).contains(&report.p50_us), "{}", report.p50_us);
        assert!((990.0..=1000.0).contains(&report.p99_us), "{}", report.p99_us);
    }
}
