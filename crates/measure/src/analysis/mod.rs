//! Converts samples to numbers: the growth of counters between two samples, and whether the machine limited a
//! run.

mod rates;
mod saturation;

pub use rates::{Counted, Rate, RateList};
pub use saturation::saturation;
