//! Sizes, rates and times as an experiment file writes them.

use std::{fmt, str::FromStr, time::Duration};

use serde::Deserialize;

/// A size in bytes, written with its unit: `512B`, `64M`. The suffixes K, M and G are powers of 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// A rate in bits a second: `100M`; the suffixes k, M and G are powers of 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

/// A length of time: `500ms`, `60s`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

/// Why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("size `{0}` has no unit: write {0}M, {0}K or {0}B")]
    NoUnit(String),
    #[error("size `{0}`: expected 1B to 1024G, such as `500K`, `64M` or `2G`")]
    Size(String),
    #[error("rate `{0}`: expected bits a second, at least 1k, such as `100M` or `1G`")]
    Rate(String),
    #[error("time `{0}`: expected up to a day, such as `500ms`, `60s` or `10m`")]
    Time(String),
}

/// The largest object of an experiment: 1 TiB.
const MAX_SIZE_BYTES: u64 = 1 << 40;
/// The longest time of an experiment's file: a day.
const MAX_SECONDS: u64 = 86_400;

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(QuantityError::NoUnit(text.to_owned()));
        }
        scaled(text, &[('B', 1), ('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)])
            .filter(|bytes| (1..=MAX_SIZE_BYTES).contains(bytes))
            .map(Size)
            .ok_or_else(|| QuantityError::Size(text.to_owned()))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        scaled(text, &[('k', 1_000), ('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)])
            .filter(|rate_bps| *rate_bps >= 1_000)
            .map(Rate)
            .ok_or_else(|| QuantityError::Rate(text.to_owned()))
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let expected = || QuantityError::Time(text.to_owned());
        let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let number: u64 = text[..at].parse().map_err(|_| expected())?;
        let milliseconds = match &text[at..] {
            "ms" => Some(number),
            "s" => number.checked_mul(1_000),
            "m" => number.checked_mul(60_000),
            _ => None,
        };
        milliseconds
            .filter(|ms| *ms <= MAX_SECONDS * 1_000)
            .map(|ms| Time(Duration::from_millis(ms)))
            .ok_or_else(expected)
    }
}

/// A whole number with at most one suffix of `scale`.
fn scaled(text: &str, scale: &[(char, u64)]) -> Option<u64> {
    let suffix = scale.iter().find(|(suffix, _)| text.ends_with(*suffix));
    let (digits, factor) = match suffix {
        Some((_, factor)) => (&text[..text.len() - 1], *factor),
        None => (text, 1),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
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
    fn sizes_are_binary_and_rates_decimal() {
        assert_eq!("32M".parse(), Ok(Size(32 << 20)));
        assert_eq!("2G".parse(), Ok(Size(2 << 30)));
        assert_eq!("1500B".parse(), Ok(Size(1500)));
        assert_eq!("100M".parse(), Ok(Rate(100_000_000)));
        assert_eq!("1G".parse(), Ok(Rate(1_000_000_000)));
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_was_expected() {
        for text in ["0B", "-1M", "1.5G", "12X", "", "M", "2000G", "99999999999999999999B"] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert_eq!(error, format!("size `{text}`: expected 1B to 1024G, such as `500K`, `64M` or `2G`"));
        }
    }

    #[test]
    fn a_size_without_a_unit_is_refused() {
        let error = "4".parse::<Size>().unwrap_err().to_string();
        assert_eq!(error, "size `4` has no unit: write 4M, 4K or 4B");
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!("500ms".parse(), Ok(Time(Duration::from_millis(500))));
        assert_eq!("10m".parse(), Ok(Time(Duration::from_secs(600))));
        assert!("60".parse::<Time>().is_err());
        assert!("2000000s".parse::<Time>().is_err());
    }

    #[test]
    fn sizes_are_shown_in_the_largest_fitting_unit() {
        let shown: Vec<String> = [999, 1536, 32 << 20, (32 << 20) + (1 << 19), 2 << 30]
            .map(|bytes| Size(bytes).to_string())
            .into();
        assert_eq!(shown, ["999B", "1.5K", "32M", "32.5M", "2G"]);
    }
}
