//! Sizes of products. A feed has millions of them, so only how many have about a size is kept.

use std::collections::BTreeMap;

use serde::Serialize;
use treecast_measure::statistics::Running;

/// The classes of sizes in a power of two. So a percentile is at most 9 % too high.
const CLASSES: f64 = 8.0;

/// The sizes of products, in bytes. All are 0 if there is no product.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sizes {
    pub mean: f64,
    pub standard_deviation: f64,
    pub smallest: f64,
    pub largest: f64,
    /// Percentiles, at most 9 % too high.
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

#[derive(Debug, Default)]
pub(super) struct Counter {
    all: Running,
    classes: BTreeMap<u32, u64>,
}

impl Counter {
    pub fn add(&mut self, bytes: u64) {
        self.all.add(bytes as f64);
        let class = ((bytes.max(1) as f64).log2() * CLASSES).ceil() as u32;
        *self.classes.entry(class).or_default() += 1;
    }

    pub fn finish(&self) -> Sizes {
        Sizes {
            mean: self.all.mean,
            standard_deviation: self.all.standard_deviation(),
            smallest: self.all.min,
            largest: self.all.max,
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
        }
    }

    fn percentile(&self, share: f64) -> f64 {
        let wanted = self.all.count as f64 * share;
        let mut count = 0;
        let class = self.classes.iter().find(|(_, products)| {
            count += **products;
            count as f64 >= wanted
        });
        class.map_or(0.0, |(class, _)| (f64::from(*class) / CLASSES).exp2().min(self.all.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_9_percent_too_high() {
        let mut counter = Counter::default();
        (1..=1000).for_each(|bytes| counter.add(bytes * 100));
        let sizes = counter.finish();
        assert_eq!((sizes.mean, sizes.smallest, sizes.largest), (50_050.0, 100.0, 100_000.0));
        for (found, exact) in [(sizes.p50, 50_000.0), (sizes.p90, 90_000.0), (sizes.p99, 99_000.0)] {
            assert!((exact..exact * 1.0906).contains(&found), "{found} for {exact}");
        }
    }
}
