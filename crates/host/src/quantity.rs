//! Rates, sizes, times and shares as people write them: one grammar for options and for files.
//!
//! A quantity is a number without a sign, with or without decimals, and its unit: `100M`, `1.5G`, `90s`. A number without a unit counts
//! bits a second, bytes or seconds.
//!
//! | quantity | units |
//! |---|---|
//! | rate | k, M, G, T: powers of 1,000, in bits a second, also written Mbit, Mb, Mbit/s or Mbps; MB/s and MiB/s: bytes a second |
//! | size | k, M, G, T: powers of 1,024, also written KiB, MiB; kB, MB: powers of 1,000; B: bytes |
//! | time | us, ms, s, m or min, h, d; several in a row: 1h30m |
//! | share | % |
//!
//! Sizes follow `dd` and `truncate` of the GNU core utilities: M is 1,048,576 bytes, and MB is 1,000,000.

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

use serde::Deserialize;

/// Why a text is no quantity, or not one that may stand here. Its text goes on after "invalid value: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}{hint}")]
pub struct QuantityError {
    expected: String,
    /// What the writer may have meant, with the separator before it. Often empty.
    hint: String,
}

impl QuantityError {
    /// Names words that may stand here as well.
    #[must_use]
    pub fn or(mut self, words: &str) -> Self {
        self.expected += &format!(", or {words}");
        self
    }
}

/// The highest rate that a link of our time carries, in bits a second.
pub const HIGHEST_RATE_BPS: u64 = 400_000_000_000;

/// A number as it is written. Decimals are kept as digits, so that 0.1M is exactly 100,000.
#[derive(Debug, Clone, Copy)]
struct Number {
    whole: u128,
    decimals: u128,
    /// The power of ten below the decimals.
    scale: u128,
}

/// More digits than this are a mistake. Any number of so many digits times any unit fits.
const MOST_DIGITS: usize = 18;

impl Number {
    /// Splits a text into the number that it begins with, and the rest.
    fn first(text: &str) -> Option<(Self, &str)> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = text.split_at(digits(text));
        let (decimals, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("0", rest),
        };
        let is_number = |digits: &str| (1..=MOST_DIGITS).contains(&digits.len());
        if !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let scale = 10_u128.pow(decimals.len() as u32);
        Some((Self { whole: whole.parse().ok()?, decimals: decimals.parse().ok()?, scale }, rest))
    }

    /// This many of a unit, rounded down.
    fn of(self, unit: u64) -> u128 {
        let unit = u128::from(unit);
        self.whole * unit + self.decimals * unit / self.scale
    }
}

/// Splits a text into one number and its unit, which may be empty. A space may stand between them.
fn number_and_unit(text: &str) -> Option<(Number, &str)> {
    let (number, rest) = Number::first(text.trim())?;
    let unit = rest.strip_prefix(' ').unwrap_or(rest);
    Some((number, unit))
}

/// Splits a unit into its prefix as a power and what follows: `Mbit` is (2, "bit").
fn power_of(unit: &str) -> (u32, &str) {
    let power = match unit.bytes().next() {
        Some(b'k' | b'K') => 1,
        Some(b'm' | b'M') => 2,
        Some(b'g' | b'G') => 3,
        Some(b't' | b'T') => 4,
        _ => return (0, unit),
    };
    (power, &unit[1..])
}

fn rate_unit(unit: &str) -> Option<u64> {
    let (power, rest) = power_of(unit);
    let bits = 1000_u64.pow(power);
    match rest {
        "" | "b" | "b/s" | "bps" => Some(bits),
        "B/s" => Some(8 * bits),
        "iB/s" if power > 0 => Some(8 << (10 * power)),
        _ => ["bit", "bits", "bit/s", "bits/s"]
            .iter()
            .any(|word| rest.eq_ignore_ascii_case(word))
            .then_some(bits),
    }
}

fn size_unit(unit: &str) -> Option<u64> {
    let (power, rest) = power_of(unit);
    match rest {
        "" => Some(1 << (10 * power)),
        "iB" if power > 0 => Some(1 << (10 * power)),
        "B" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// The nanoseconds of a unit of time.
fn time_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

fn error(expected: String, hint: Option<String>) -> QuantityError {
    QuantityError { expected, hint: hint.map(|hint| format!(": {hint}")).unwrap_or_default() }
}

/// What a number with a comma may have meant. Three digits behind it may be thousands or a fraction.
fn point(text: &str) -> Option<String> {
    let text = text.trim();
    let (with_point, without) = (text.replacen(',', ".", 1), text.replace(',', ""));
    let digits = text.split_once(',')?.1.bytes().take_while(u8::is_ascii_digit).count();
    let is_number = |text: &str| number_and_unit(text).is_some_and(|(_, unit)| !unit.contains([',', '.']));
    match (is_number(&with_point), digits == 3 && is_number(&without)) {
        (true, true) => Some(format!("write {without}, or {with_point} for a fraction")),
        (true, false) => Some(format!("write {with_point}")),
        (false, true) => Some(format!("write {without}")),
        (false, false) => None,
    }
}

/// Parses a rate, in bits a second.
///
/// # Errors
/// If the text is no rate, or the rate is not within `range`.
pub fn rate_bps(text: &str, range: RangeInclusive<u64>) -> Result<u64, QuantityError> {
    let parsed = number_and_unit(text);
    let bps = parsed.and_then(|(number, unit)| Some(number.of(rate_unit(unit)?)));
    let bps = bps.and_then(|bps| u64::try_from(bps).ok()).filter(|bps| range.contains(bps));
    bps.ok_or_else(|| {
        let hint = parsed.and_then(|(_, unit)| {
            let (power, rest) = power_of(unit);
            let prefix = &unit[..usize::from(power > 0)];
            let number = text.trim().strip_suffix(unit)?.trim_end();
            match rest {
                "B" | "iB" => Some(format!("{number}{unit} is a size; write {number}{prefix} for bits a second, or {number}{unit}/s for bytes a second")),
                "Bps" | "iBps" => Some(format!("write {number}{}/s for bytes a second", unit.strip_suffix("ps")?)),
                _ => None,
            }
        });
        let [least, most] = [range.start(), range.end()].map(|bps| RateText(*bps).to_string());
        error(format!("a rate from {least} to {most} bits a second, like 500k, 100M or 2.5G"), hint.or_else(|| point(text)))
    })
}

/// Parses a size, in bytes.
///
/// # Errors
/// If the text is no size, or the size is not within `range`.
pub fn size_bytes(text: &str, range: RangeInclusive<u64>) -> Result<u64, QuantityError> {
    let parsed = number_and_unit(text);
    let bytes = parsed.and_then(|(number, unit)| Some(number.of(size_unit(unit)?)));
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| range.contains(bytes));
    bytes.ok_or_else(|| {
        let is_rate = parsed.is_some_and(|(_, unit)| !unit.is_empty() && rate_unit(unit).is_some());
        let hint = (is_rate && size_unit(parsed.map_or("", |parsed| parsed.1)).is_none())
            .then(|| format!("{text} is a rate; sizes count bytes"));
        let limits = match (range.start(), range.end()) {
            (least, &u64::MAX) => format!("{} on", SizeText(*least)),
            (least, most) => format!("{} to {}", SizeText(*least), SizeText(*most)),
        };
        error(
            format!("a size from {limits}, like 500k, 20M or 4G (powers of 1024)"),
            hint.or_else(|| point(text)),
        )
    })
}

/// Parses a whole number without a unit.
///
/// # Errors
/// If the text is no such number, or the number is not within `range`.
pub fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, QuantityError> {
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| error(format!("a number from {} to {}", range.start(), range.end()), None))
}

/// Parses a time.
///
/// # Errors
/// If the text is no time, or the time is not within `range`.
pub fn time(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, QuantityError> {
    let time =
        nanoseconds(text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).map(Duration::from_nanos);
    time.filter(|time| range.contains(time)).ok_or_else(|| {
        let [least, most] = [range.start(), range.end()].map(|time| TimeText(*time).to_string());
        let example = if *range.start() < Duration::from_secs(1) { "500ms, 90s, 15m" } else { "90s, 15m" };
        error(format!("a time from {least} to {most}, like {example} or 2h"), point(text))
    })
}

/// A parser of rates within `range`, in bits a second, for an option.
pub fn rates_bps(range: RangeInclusive<u64>) -> impl Parser<u64> {
    move |text: &str| rate_bps(text, range.clone())
}

/// A parser of sizes within `range`, in bytes, for an option.
pub fn sizes_bytes(range: RangeInclusive<u64>) -> impl Parser<u64> {
    move |text: &str| size_bytes(text, range.clone())
}

/// A parser of times within `range`, for an option.
pub fn times(range: RangeInclusive<Duration>) -> impl Parser<Duration> {
    move |text: &str| time(text, range.clone())
}

/// A parser of shares within `range`, for an option.
pub fn shares(range: RangeInclusive<f64>) -> impl Parser<f64> {
    move |text: &str| share(text, range.clone())
}

/// A parser of the value of an option.
pub trait Parser<T>: Fn(&str) -> Result<T, QuantityError> + Clone + Send + Sync {}

impl<T, P: Fn(&str) -> Result<T, QuantityError> + Clone + Send + Sync> Parser<T> for P {}

/// Several numbers with units in a row, or one number.
fn nanoseconds(text: &str) -> Option<u128> {
    let (mut rest, mut sum, mut last) = (text.trim(), 0, u64::MAX);
    while !rest.is_empty() {
        let (number, behind) = Number::first(rest)?;
        let behind = behind.strip_prefix(' ').unwrap_or(behind);
        let (unit, behind) =
            behind.split_at(behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len()));
        let nanoseconds = time_unit(unit.trim_end())?;
        // 90m1h is a slip, and in 1h30 the unit of the second number is open.
        if nanoseconds >= last || (unit.is_empty() && sum > 0) {
            return None;
        }
        (rest, sum, last) = (behind, sum + number.of(nanoseconds), nanoseconds);
    }
    (last < u64::MAX).then_some(sum)
}

/// Parses a share as a fraction: 2.5% is 0.025. 0 needs no unit.
///
/// # Errors
/// If the text is no percentage, or the share is not within `range`.
pub fn share(text: &str, range: RangeInclusive<f64>) -> Result<f64, QuantityError> {
    let number = |text: &str| {
        let (number, rest) = Number::first(text.trim())?;
        rest.trim().is_empty().then(|| number.whole as f64 + number.decimals as f64 / number.scale as f64)
    };
    let percent = match text.trim().strip_suffix('%') {
        Some(text) => number(text),
        None => number(text).filter(|percent| *percent == 0.0),
    };
    // Rounded, so that 7% is 0.07 and not a hair more.
    let share = percent.map(|percent| (percent * 1e10).round() / 1e12).filter(|share| range.contains(share));
    share.ok_or_else(|| {
        let hint = number(text).map(|_| format!("write {}%", text.trim())).or_else(|| point(text));
        let [least, most] = [range.start(), range.end()].map(|share| (share * 100.0).round());
        error(format!("a share from {least}% to {most}%, like 10%"), hint)
    })
}

/// A size in bytes, as [`size_bytes`] reads it, up to 1 TiB: `512B`, `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// A rate in bits a second, as [`rate_bps`] reads it, from 1k on: `100M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

/// A length of time, as [`time`] reads it, up to a day: `500ms`, `60s`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

/// A share of a whole, as [`share`] reads it: `40%` is 0.4.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub struct Share(pub f64);

/// The largest object of a file: 1 TiB.
const MAX_SIZE_BYTES: u64 = 1 << 40;

/// The longest time of a file.
const LONGEST_TIME: Duration = Duration::from_secs(86_400);

macro_rules! read_by {
    ($($quantity:ident: $read:expr;)*) => {$(
        impl FromStr for $quantity {
            type Err = QuantityError;

            fn from_str(text: &str) -> Result<Self, QuantityError> {
                $read(text).map(Self)
            }
        }

        impl TryFrom<String> for $quantity {
            type Error = QuantityError;

            fn try_from(text: String) -> Result<Self, QuantityError> {
                text.parse()
            }
        }
    )*};
}

read_by! {
    Size: |text| size_bytes(text, 1..=MAX_SIZE_BYTES);
    Rate: |text| rate_bps(text, 1_000..=HIGHEST_RATE_BPS);
    Time: |text| time(text, Duration::ZERO..=LONGEST_TIME);
    Share: |text| share(text, 0.0..=1.0);
}

/// The size with one decimal where the unit does not divide it: 1.5K.
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

/// A rate in bits a second, as short as it can be written: 100M.
#[derive(Debug, Clone, Copy)]
pub struct RateText(pub u64);

impl fmt::Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_largest(f, self.0, 1000, &["", "k", "M", "G", "T"])
    }
}

/// A size in bytes, as short as it can be written: 64M.
#[derive(Debug, Clone, Copy)]
pub struct SizeText(pub u64);

impl fmt::Display for SizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_largest(f, self.0, 1024, &["B", "k", "M", "G", "T"])
    }
}

fn in_largest(f: &mut fmt::Formatter<'_>, mut number: u64, step: u64, units: &[&str]) -> fmt::Result {
    let mut unit = 0;
    while number >= step && number.is_multiple_of(step) && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    write!(f, "{number}{}", units[unit])
}

/// A time in the largest unit that divides it: 15m.
#[derive(Debug, Clone, Copy)]
pub struct TimeText(pub Duration);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let units = [
            ("d", 86_400_000_000_000),
            ("h", 3_600_000_000_000),
            ("m", 60_000_000_000),
            ("s", 1_000_000_000),
        ];
        let units = units.into_iter().chain([("ms", 1_000_000), ("us", 1_000)]);
        match units.into_iter().find(|(_, unit)| nanoseconds >= *unit && nanoseconds.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", nanoseconds / unit),
            None if nanoseconds == 0 => f.write_str("0s"),
            None => write!(f, "{}s", self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: RangeInclusive<u64> = 1_000..=HIGHEST_RATE_BPS;
    const SIZES: RangeInclusive<u64> = 1..=u64::MAX;
    const DAY: Duration = Duration::from_secs(86_400);

    fn rate(text: &str) -> Result<u64, String> {
        rate_bps(text, RATES).map_err(|error| error.to_string())
    }

    fn size(text: &str) -> Result<u64, String> {
        size_bytes(text, SIZES).map_err(|error| error.to_string())
    }

    fn of_time(text: &str) -> Result<u128, String> {
        time(text, Duration::ZERO..=366 * DAY).map(|time| time.as_millis()).map_err(|error| error.to_string())
    }

    #[test]
    fn rates_are_bits_a_second_in_powers_of_1000() {
        for text in [
            "100M",
            "100m",
            "100Mbit",
            "100mbit",
            "100 Mbit/s",
            "100Mbps",
            "100Mb/s",
            "0.1G",
            "12.5MB/s",
            "100000000",
        ] {
            assert_eq!(rate(text), Ok(100_000_000), "{text}");
        }
        assert_eq!((rate("2.5G"), rate("64k"), rate("1MiB/s")), (Ok(2_500_000_000), Ok(64_000), Ok(8 << 20)));
        for wrong in [
            "",
            "M",
            "-1M",
            "+1M",
            "nan",
            "inf",
            "0",
            "999",
            "401G",
            "1P",
            "1e6",
            "1.M",
            ".5M",
            "1,5",
            "5Mü",
            "0.0000000000000000001G",
        ] {
            let line = rate(wrong).unwrap_err();
            assert!(line.contains("from 1k to 400G bits a second"), "{wrong}: {line}");
        }
    }

    #[test]
    fn sizes_are_bytes_in_powers_of_1024_and_with_a_b_in_powers_of_1000() {
        for text in ["20M", "20m", "20MiB", "20 M", "20971520", "20971520B"] {
            assert_eq!(size(text), Ok(20 << 20), "{text}");
        }
        assert_eq!((size("1.5K"), size("100MB"), size("3T")), (Ok(1536), Ok(100_000_000), Ok(3 << 40)));
        for wrong in ["", "k", "0", "-1", "+1k", "99999999999T", "5ü", "1 2"] {
            assert!(size(wrong).unwrap_err().contains("from 1B on, like 500k"), "{wrong}");
        }
    }

    #[test]
    fn times_have_units_and_may_be_put_together() {
        for text in ["90", "90s", "1m30s", "1.5m", "1.5min", "90000ms", "90 s", "1m 30s"] {
            assert_eq!(of_time(text), Ok(90_000), "{text}");
        }
        assert_eq!((of_time("1d2h"), of_time("0"), of_time("250ms")), (Ok(93_600_000), Ok(0), Ok(250)));
        for wrong in [
            "",
            "m",
            "-1h",
            "+1h",
            "367d",
            "99999999999999999999d",
            "30s1m",
            "1h30",
            "1m1m",
            "5ü",
            "1y",
            "1M",
        ] {
            assert!(of_time(wrong).unwrap_err().contains("a time from 0s to 366d, like 500ms"), "{wrong}");
        }
    }

    #[test]
    fn an_option_says_the_range_of_its_values() {
        let line = |error: QuantityError| error.to_string();
        assert!(line(times(10 * DAY..=20 * DAY)("9d").unwrap_err()).contains("from 10d to 20d"));
        assert!(line(sizes_bytes(1 << 20..=1 << 40)("256").unwrap_err()).contains("from 1M to 1T"));
        assert_eq!((number("7", 1..=9), shares(0.0..=1.0)("7%")), (Ok(7), Ok(0.07)));
        for wrong in ["", "0", "10", "-1", "1k"] {
            assert_eq!(line(number(wrong, 1..=9).unwrap_err()), "expected a number from 1 to 9", "{wrong}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        let of = |text: &str| share(text, 0.0..=1.0).map_err(|error| error.to_string());
        assert_eq!((of("7%"), of("2.5 %"), of("0"), of("100%")), (Ok(0.07), Ok(0.025), Ok(0.0), Ok(1.0)));
        for wrong in ["", "%", "-1%", "101%", "NaN%", "0.5"] {
            assert!(of(wrong).unwrap_err().starts_with("expected a share from 0% to 100%"), "{wrong}");
        }
        assert!(share("9000%", 0.0..=100.0).is_ok());
    }

    #[test]
    fn a_slip_is_told_with_what_may_be_meant() {
        assert!(
            rate("100MB")
                .unwrap_err()
                .ends_with(": 100MB is a size; write 100M for bits a second, or 100MB/s for bytes a second")
        );
        assert!(rate("2,5G").unwrap_err().ends_with(": write 2.5G"));
        assert!(size("100Mbit").unwrap_err().ends_with(": 100Mbit is a rate; sizes count bytes"));
        assert!(share("10", 0.0..=1.0).unwrap_err().to_string().ends_with(": write 10%"));
        assert!(of_time("1,5h").unwrap_err().ends_with(": write 1.5h"));
        assert!(rate("1,000k").unwrap_err().ends_with(": write 1000k, or 1.000k for a fraction"));
        assert!(rate("1,000,000").unwrap_err().ends_with(": write 1000000"));
        assert!(rate("100MBps").unwrap_err().ends_with(": write 100MB/s for bytes a second"));
        let error = share("10", 0.0..=1.0).unwrap_err().or("none").to_string();
        assert!(error.ends_with("like 10%, or none: write 10%"), "{error}");
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for bps in [1_000, 64_000, 2_500_000, 1_000_000_000, 1_234_567] {
            assert_eq!(rate(&RateText(bps).to_string()), Ok(bps));
        }
        for bytes in [1, 1000, 1024, 3 << 30, 1025] {
            assert_eq!(size(&SizeText(bytes).to_string()), Ok(bytes));
        }
        for millis in [0, 1, 1500, 90_000, 3_600_000, 172_800_000] {
            assert_eq!(of_time(&TimeText(Duration::from_millis(millis)).to_string()), Ok(millis.into()));
        }
    }
    #[test]
    fn quantities_of_files_are_those_of_options() {
        assert_eq!(("32M".parse(), "1500B".parse()), (Ok(Size(32 << 20)), Ok(Size(1500))));
        assert_eq!("100Mbit".parse(), Ok(Rate(100_000_000)));
        assert_eq!(
            ("500ms".parse(), "1h".parse()),
            (Ok(Time(Duration::from_millis(500))), Ok(Time(Duration::from_secs(3600))))
        );
        assert_eq!("40%".parse(), Ok(Share(0.4)));
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
