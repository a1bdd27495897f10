//! Dates of the calendar, in UTC, and the dates in names of files.

/// A day of the calendar, from its number of seconds since 1970: year, month and day.
pub fn civil(seconds: i64) -> (i64, u8, u8) {
    // The calendar repeats every 400 years of 146,097 days. Years begin in March here, so that a leap day is the last.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

/// The seconds from 1970 to the start of a day. `None` if there is no such day.
pub fn seconds(year: i64, month: u8, day: u8) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (of, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of) = (of.div_euclid(400), of.rem_euclid(400));
    let days = (153 * i64::from(month_from_march) + 2) / 5 + i64::from(day) - 1;
    let days = era * 146_097 + of * 365 + of / 4 - of / 100 + days - 719_468;
    (civil(days * 86_400) == (year, month, day)).then_some(days * 86_400)
}

/// The day, as `2015-09-22`.
pub fn day(seconds: i64) -> String {
    let (year, month, day) = civil(seconds);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The time, as `2015-09-22T12:00:00Z`.
pub fn time(seconds: i64) -> String {
    let of_day = seconds.rem_euclid(86_400);
    format!("{}T{:02}:{:02}:{:02}Z", day(seconds), of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Parses a day such as `2015-09-22` or `20150922` into seconds since 1970.
pub fn parse(text: &str) -> Option<i64> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    if digits.len() != 8 || !digits.is_ascii() {
        return None;
    }
    seconds(digits[..4].parse().ok()?, digits[4..6].parse().ok()?, digits[6..].parse().ok()?)
}

/// The day in a file's name, such as `rib.20121201.0000.bz2` or `as-relationships-2015-02-01.txt`. A name with a month
/// only, such as `delegated-apnic-2015-03`, has the first day of it.
pub fn of_name(name: &str) -> Option<i64> {
    let runs = name.split(|letter: char| !letter.is_ascii_digit() && letter != '-');
    let runs: Vec<&str> = runs.map(|run| run.trim_matches('-')).filter(|run| !run.is_empty()).collect();
    let month = |run: &str| parse(&format!("{run}-01"));
    runs.iter().find_map(|run| parse(run)).or_else(|| runs.iter().find_map(|run| month(run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_seconds_agree() {
        assert_eq!(time(1_442_923_200), "2015-09-22T12:00:00Z");
        assert_eq!(parse("2012-12-01"), Some(1_354_320_000));
        assert_eq!(parse("20000229").map(day).as_deref(), Some("2000-02-29"));
        assert_eq!(
            (parse("2001-02-29"), parse("2012-13-01"), parse("x"), parse("2012-1é")),
            (None, None, None, None)
        );
        for days in (-800_000..800_000).step_by(37) {
            let (year, month, day) = civil(days * 86_400);
            if year >= 0 {
                assert_eq!(seconds(year, month, day), Some(days * 86_400));
            }
        }
    }

    #[test]
    fn a_day_is_found_in_a_name() {
        let day_of = |name: &str| of_name(name).map(day);
        assert_eq!(day_of("as-relationships-2015-02-01.txt.xz").as_deref(), Some("2015-02-01"));
        assert_eq!(day_of("20041101.as-rel.txt").as_deref(), Some("2004-11-01"));
        assert_eq!(day_of("delegated-apnic-2015-03.txt").as_deref(), Some("2015-03-01"));
        assert_eq!(day_of("relations.txt"), None);
    }
}
