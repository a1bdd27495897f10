//! Formats numbers.

/// Formats seconds as in the paper's tables: `7.572`, and from a minute on `1:15.397`.
pub fn seconds(seconds: f64) -> String {
    let ms = (seconds * 1000.0).round() as u64;
    match ms / 60_000 {
        0 => format!("{}.{:03}", ms / 1000, ms % 1000),
        minutes => format!("{minutes}:{:02}.{:03}", ms / 1000 % 60, ms % 1000),
    }
}

/// Formats a size in MiB, which the paper calls MB: `32 MiB`, `6.97 MiB`. A size below 0.1 MiB is in bytes.
pub fn bytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        whole if whole % MIB == 0 && whole > 0 => format!("{} MiB", whole / MIB),
        small if small < MIB / 10 => format!("{small} B"),
        other => format!("{:.2} MiB", other as f64 / MIB as f64),
    }
}

/// Formats a rate in bits a second: `1 Gbit/s`, `100 Mbit/s`.
pub fn rate(bps: u64) -> String {
    let (value, unit) = match bps {
        0..1_000_000 => (bps as f64 / 1e3, "kbit/s"),
        1_000_000..1_000_000_000 => (bps as f64 / 1e6, "Mbit/s"),
        _ => (bps as f64 / 1e9, "Gbit/s"),
    };
    let digits = format!("{value:.2}");
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_as_in_the_paper() {
        let of = [0.449, 7.0, 59.9994, 59.9996, 75.397, 1593.926].map(seconds);
        assert_eq!(of, ["0.449", "7.000", "59.999", "1:00.000", "1:15.397", "26:33.926"]);
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!([0, 100, 32 << 20, 7_310_000].map(bytes), ["0 B", "100 B", "32 MiB", "6.97 MiB"]);
        let rates = [1_000_000_000, 100_000_000, 2_500_000_000, 64_000].map(rate);
        assert_eq!(rates, ["1 Gbit/s", "100 Mbit/s", "2.5 Gbit/s", "64 kbit/s"]);
    }
}
