//! From samples to numbers: what counters did between two samples, and whether the machine was the limit of a run.

mod rates;
mod saturation;

pub use rates::{Counted, Rate, RateList};
pub use saturation::saturation;
