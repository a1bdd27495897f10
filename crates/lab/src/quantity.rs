//! Sizes, rates and times as an experiment file writes them.

use std::{fmt, str::FromStr, time::Duration};

use serde::Deserialize;
pub use treecast_host::quantity::QuantityError;
use treecast_host::quantity::{self, HIGHEST_RATE_BPS};

/// A size in bytes, as [`quantity::size_bytes`] reads it: `512B`, `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// A rate in bits a second, as [`quantity::rate_bps`] reads it: `100M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

/// A length of time, as [`quantity::time`] reads it: `500ms`, `60s`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

/// The largest object of an experiment: 1 TiB.
const MAX_SIZE_BYTES: u64 = 1 << 40;

/// The longest time of an experiment's file.
const LONGEST_TIME: Duration = Duration::from_secs(86_400);

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity::size_bytes(text, 1..=MAX_SIZE_BYTES).map(Size)
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity::rate_bps(text, 1_000..=HIGHEST_RATE_BPS).map(Rate)
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity::time(text, Duration::ZERO..=LONGEST_TIME).map(Time)
    }
}

macro_rules! from_string {
    ($($quantity:ty),*) => {$(
        impl TryFrom<String> for $quantity {
            type Error = QuantityError;

            fn try_from(text: String) -> Result<Self, QuantityError> {
                text.parse()
            }
        }
    )*};
}

from_string!(Size, Rate, Time);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 30 && bytes % (1 << 30) == 0 => write!(f, "{}G", bytes >> 30),
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{}M", bytes >> 20),
            bytes if bytes >= 1 << 20 => write!(f, "{:.1}M", bytes as f64 / (1 << 20) as f64),
            bytes if bytes >= 1 << 10 => write!(f, "{:.1}K", bytes as f64 / (1 << 10) as f64),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_files_are_those_of_options() {
        assert_eq!(("32M".parse(), "1500B".parse()), (Ok(Size(32 << 20)), Ok(Size(1500))));
        assert_eq!("100Mbit".parse(), Ok(Rate(100_000_000)));
        assert_eq!(
            ("500ms".parse(), "1h".parse()),
            (Ok(Time(Duration::from_millis(500))), Ok(Time(Duration::from_secs(3600))))
        );
        assert!("2000G".parse::<Size>().unwrap_err().to_string().contains("a size from 1B to 1T"));
        assert!("25h".parse::<Time>().unwrap_err().to_string().contains("a time from 0s to 1d"));
    }

    #[test]
    fn sizes_are_shown_in_the_largest_fitting_unit() {
        let shown: Vec<String> = [999, 1536, 32 << 20, (32 << 20) + (1 << 19), 2 << 30]
            .map(|bytes| Size(bytes).to_string())
            .into();
        assert_eq!(shown, ["999B", "1.5K", "32M", "32.5M", "2G"]);
    }
}
