//! Figures for people: bytes, rates, shares and times, short and of about the same width.

use treecast_driver::status::Holder;

/// "58.3 MiB".
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// "94.1 Mbit/s", or that it is not known yet.
pub(crate) fn rate(bits_per_second: Option<u64>) -> String {
    let units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    bits_per_second.map_or_else(|| "- bit/s".to_owned(), |rate| scaled(rate as f64, 1000.0, &units))
}

/// "1.2 %" of a share of 0 to 1; small shares show that they are not nothing.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent > 0.0 && percent < 0.05 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// The part of a whole in whole percent, 100 only when it is the whole.
pub(crate) fn part(of: u64, whole: u64) -> u64 {
    match whole {
        0 => 100,
        _ => (u128::from(of.min(whole)) * 100 / u128::from(whole)) as u64,
    }
}

/// "0:12", "1:02:03"; as honest as whole seconds can be.
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds.ceil().clamp(0.0, 1e9) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// "0:12 left".
pub(crate) fn left(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "time left unknown".to_owned(), |seconds| format!("{} left", time(seconds)))
}

/// "waits for client7: silent for 12 s".
pub(crate) fn held_by(holder: &Holder) -> String {
    format!("waits for {}: {}", holder.receiver, holder.why)
}

/// "3 done, 1 failed, 1 gone": receivers by where they stand, behind how many are done.
pub(crate) fn standings(done: String, failed: u32, gone: u32) -> String {
    let others = [(failed, "failed"), (gone, "gone")].into_iter().filter(|(count, _)| *count > 0);
    others.fold(done, |text, (count, word)| format!("{text}, {count} {word}"))
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(1 << 20), bytes(61_131_264)].join(", "),
            "0 B, 999 B, 1.0 MiB, 58.3 MiB"
        );
        assert_eq!(rate(Some(94_123_456)), "94.1 Mbit/s");
        assert_eq!(rate(Some(1_000_000_000)), "1.0 Gbit/s");
        assert_eq!(
            [percent(0.0), percent(0.0001), percent(0.012), percent(0.5)].join(", "),
            "0.0 %, <0.1 %, 1.2 %, 50 %"
        );
        assert_eq!([time(0.2), time(61.0), time(3723.0)].join(", "), "0:01, 1:01, 1:02:03");
        assert_eq!((left(None), left(Some(12.0))), ("time left unknown".to_owned(), "0:12 left".to_owned()));
        assert_eq!((part(999, 1000), part(1000, 1000), part(0, 0)), (99, 100, 100));
    }
}
