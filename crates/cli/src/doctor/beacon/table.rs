//! The matrix as text: one row for each beacon that hears, one column for each that is heard.

use std::fmt::Write;

use treecast_beacon::{Matrix, Seen, State};

/// The largest number of beacons with a row and a column each.
const MOST: usize = 40;

/// The matrix, and what this beacon hears itself.
pub fn text(matrix: &Matrix) -> String {
    let count = matrix.beacons.len().min(MOST);
    let width = matrix.beacons[..count].iter().map(|known| known.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:>3} {:width$} hears", "", "");
    // Writing to a string does not fail.
    (0..count).for_each(|from| _ = write!(text, "{:>5}", from + 1));
    for (to, known) in matrix.beacons[..count].iter().enumerate() {
        _ = write!(text, "\n{:>3} {:width$}      ", to + 1, known.name);
        for from in 0..count {
            _ = write!(text, "{:>5}", if from == to { "-".to_owned() } else { cell(matrix.of(from, to)) });
        }
    }
    if matrix.beacons.len() > count {
        _ = write!(text, "\nand {} more beacons", matrix.beacons.len() - count);
    }
    _ = write!(
        text,
        "\n{:>3} {:width$} {:>9} {:>9} {:>5} {:>6} {:>10}",
        "", "heard here", "ms", "one way", "hops", "twice", "lost"
    );
    for (from, known) in matrix.beacons.iter().enumerate().take(count).skip(1) {
        let Some(seen) = matrix.of(from, 0) else { continue };
        let millis = |time: Option<f64>| time.map_or("-".to_owned(), |us| format!("{:.2}", us / 1000.0));
        let latency = millis(seen.latency_us.map(|time| time as f64));
        let one_way = millis(seen.one_way_us.map(f64::from));
        let hops = seen.hops.map_or("-".to_owned(), |hops| hops.to_string());
        let twice = seen.duplicates_permille.map_or("-".to_owned(), percent);
        _ = write!(
            text,
            "\n{:>3} {:width$} {latency:>9} {one_way:>9} {hops:>5} {twice:>6} {:>10}",
            from + 1,
            known.name,
            known.lost
        );
    }
    let refused: u64 = matrix.refused.values().sum();
    if refused > 0 {
        let reasons: Vec<_> =
            matrix.refused.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        _ = write!(text, "\npackets that do not count: {}", reasons.join(", "));
    }
    text
}

fn cell(seen: Option<&Seen>) -> String {
    match seen.map(|seen| (seen.state, seen.loss_permille.unwrap_or(0))) {
        None | Some((State::Unknown, _)) => "?".to_owned(),
        Some((State::Silent, _)) => "x".to_owned(),
        Some((_, 0)) => ".".to_owned(),
        Some((_, loss)) => percent(loss),
    }
}

fn percent(permille: u16) -> String {
    match permille {
        0 => "0%".to_owned(),
        1..100 => format!("{}.{}%", permille / 10, permille % 10),
        _ => format!("{}%", permille / 10),
    }
}
