//! Figures as people read them: bytes, rates, shares and times, short and of about the same width.

pub(crate) use treecast::unstable::watch::bytes;
use treecast::unstable::watch::{Hindrance, Holder, scaled};

/// Formats a rate: "94.1 Mbit/s", or "rate unknown" while it has not been measured.
pub(crate) fn rate(bits_per_second: Option<u64>) -> String {
    let units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    bits_per_second.map_or_else(|| "rate unknown".to_owned(), |rate| scaled(rate as f64, 1000.0, &units))
}

/// Formats a share between 0 and 1 as "1.2 %". A small share that is not 0 never shows as 0.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent > 0.0 && percent < 0.05 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// Part of a whole in whole percent. The result is 100 only if `of` equals `whole`.
pub(crate) fn part(of: u64, whole: u64) -> u64 {
    match whole {
        0 => 100,
        _ => (u128::from(of.min(whole)) * 100 / u128::from(whole)) as u64,
    }
}

/// Formats seconds as "0:12" or "1:02:03".
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds.ceil().clamp(0.0, 1e9) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats the time left: "0:12 left".
pub(crate) fn left(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "time left unknown".to_owned(), |seconds| format!("{} left", time(seconds)))
}

/// Says which receiver the session waits for and why: "waits for client7: silent for 12 s".
pub(crate) fn held_by(holder: &Holder) -> String {
    match holder.why {
        Hindrance::Gone => format!("waits for {} to come back: its connection broke", holder.receiver),
        _ => format!("waits for {}: {}", holder.receiver, holder.text),
    }
}

/// How much of a whole there is: "3.8 MiB of 4.3 MiB", and never more than all.
pub(crate) fn of_whole(part: u64, whole: u64) -> String {
    format!("{} of {}", bytes(part.min(whole)), bytes(whole))
}

/// Names the slowest receivers, at most `named`: "; slowest: client7 25 %, client8 50 %". `receivers` must be sorted, the
/// slowest first, and gives names with whole percents. The result is empty if all receivers have the same
/// percentage, or if there is only one.
pub(crate) fn slowest<'a>(receivers: impl Iterator<Item = (&'a str, u64)>, named: usize) -> String {
    let receivers: Vec<_> = receivers.collect();
    let least = receivers.first().map_or(0, |(_, percent)| *percent);
    if receivers.iter().all(|(_, percent)| *percent == least) {
        return String::new();
    }
    let named = receivers.iter().take(named).map(|(name, percent)| format!("{name} {percent} %"));
    format!("; slowest: {}", named.collect::<Vec<_>>().join(", "))
}

/// Counts receivers by their state: "3 done, 1 failed, 1 gone". `done` is the beginning of the text.
pub(crate) fn standings(done: String, failed: u32, gone: u32) -> String {
    let others = [(failed, "failed"), (gone, "gone")].into_iter().filter(|(count, _)| *count > 0);
    others.fold(done, |text, (count, word)| format!("{text}, {count} {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_slowest_where_all_are_equally_fast() {
        assert_eq!(slowest([("a", 3), ("b", 5)].into_iter(), 3), "; slowest: a 3 %, b 5 %");
        assert_eq!(
            slowest([("a", 1), ("b", 1), ("c", 1), ("d", 2)].into_iter(), 3),
            "; slowest: a 1 %, b 1 %, c 1 %"
        );
        for equal in [&[("a", 5), ("b", 5)][..], &[("a", 5)], &[]] {
            assert_eq!(slowest(equal.iter().copied(), 3), "");
        }
    }

    #[test]
    fn no_more_is_there_than_all() {
        assert_eq!(of_whole(4_500_000, 4_000_000), "3.8 MiB of 3.8 MiB");
        let gone = Holder::new("la3b".to_owned(), Hindrance::Gone);
        assert_eq!(held_by(&gone), "waits for la3b to come back: its connection broke");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(1 << 20), bytes(61_131_264)].join(", "),
            "0 B, 999 B, 1.0 MiB, 58.3 MiB"
        );
        assert_eq!(rate(Some(94_123_456)), "94.1 Mbit/s");
        assert_eq!(rate(Some(1_000_000_000)), "1.0 Gbit/s");
        assert_eq!(rate(None), "rate unknown");
        assert_eq!(
            [percent(0.0), percent(0.0001), percent(0.012), percent(0.5)].join(", "),
            "0.0 %, <0.1 %, 1.2 %, 50 %"
        );
        assert_eq!([time(0.2), time(61.0), time(3723.0)].join(", "), "0:01, 1:01, 1:02:03");
        assert_eq!((left(None), left(Some(12.0))), ("time left unknown".to_owned(), "0:12 left".to_owned()));
        assert_eq!((part(999, 1000), part(1000, 1000), part(0, 0)), (99, 100, 100));
    }
}
