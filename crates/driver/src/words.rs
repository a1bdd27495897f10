//! Formats lists, names and amounts for people.

use std::fmt::Display;

/// Makes a text fit for one line of a terminal or a log. It escapes characters that would break the line,
/// control the terminal, or make the text misleading: control characters, characters that change the direction
/// of writing, and invisible ones. Names and reasons come from the other side, so everything that shows them to
/// a person uses this.
pub fn in_one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if misleads(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Formats an amount of data in units of 1024: "999 B", "58.3 MiB".
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Formats a value with the smallest of `units` in which it has at most three digits before the point, or with
/// the largest unit. Each unit is `step` times the one before it.
pub fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

/// Formats a count: "1 file", "2 files".
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Lists the first `most` items: "a", "a, b", "a, b and 3 more". Empty if there are none.
pub fn some_of<T: Display>(all: &[T], most: usize) -> String {
    let named: Vec<String> = all.iter().take(most).map(T::to_string).collect();
    match all.len() - named.len() {
        0 => named.join(", "),
        others => format!("{} and {others} more", named.join(", ")),
    }
}

/// The name that differs least from another one, if one is near enough to be meant. Upper and lower case are one.
pub fn nearest<'a>(name: &str, others: &[&'a str]) -> Option<&'a str> {
    /// The least likeness, from 0 to 1.
    const LIKE: f64 = 0.6;
    let likeness = |other: &&str| {
        let like = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
        (like >= LIKE).then_some(like)
    };
    let near = others.iter().filter_map(|other| Some((*other, likeness(other)?)));
    near.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(other, _)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_has_a_nearest_one() {
        let there = ["devices", "lab1", "lab2", "printer"];
        let cases = [
            ("devcies", Some("devices")),
            ("Lab1", Some("lab1")),
            ("camera", None),
            ("pritner", Some("printer")),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, &there), expected, "{name}");
        }
        assert_eq!(nearest("lab1", &[]), None);
    }

    #[test]
    fn what_would_break_a_line_or_turn_it_round_is_escaped() {
        assert_eq!(
            in_one_line("a\nb\u{1b}[2J\u{9b}\u{202e}gpj.exe"),
            "a\\nb\\u{1b}[2J\\u{9b}\\u{202e}gpj.exe"
        );
        assert_eq!(
            in_one_line("b\u{2066}x\u{2069}\u{200b}\u{feff}"),
            "b\\u{2066}x\\u{2069}\\u{200b}\\u{feff}"
        );
        let plain = "é 日本 עברית العربية 'a' \"b\" \\n";
        assert_eq!(in_one_line(plain), plain);
    }

    #[test]
    fn the_first_are_named_and_the_others_counted() {
        let some = |all: &[&str]| some_of(all, 2);
        assert_eq!(some(&[]), "");
        assert_eq!(some(&["a"]), "a");
        assert_eq!(some(&["a", "b"]), "a, b");
        assert_eq!(some(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}
