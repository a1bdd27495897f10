//! `--start-at`: a moment, as people write one.

use std::time::Duration;

use treecast_host::clock::{self, WallTime};

use crate::{arguments, figures};

/// A day, in seconds.
const DAY: u64 = 24 * 3600;

/// The value of `--start-at`, as the time since 1970.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    parse_at(text, clock::since_1970())
}

/// Says when the session starts.
pub(super) fn remark(at: Duration) -> String {
    let shown = WallTime::local(at.as_secs())
        .map_or_else(|| format!("second {}", at.as_secs()), |time| time.to_string());
    match at.checked_sub(clock::since_1970()) {
        Some(left) => {
            let left = figures::time(left.as_secs_f64());
            format!("the session starts at {shown}, in {left}; receivers can come now")
        }
        None => format!("{shown} (--start-at) is over: the session starts at once"),
    }
}

fn parse_at(text: &str, now: Duration) -> Result<Duration, String> {
    let moment = match text.strip_prefix('+') {
        Some(time) => arguments::duration(time).ok().map(|time| now + time),
        None => absolute(text, now.as_secs()).map(Duration::from_secs),
    };
    let expected =
        || "expected a time like 22:00, \"2026-11-30 22:00\", 2026-11-30T22:00:00Z or +30m".to_owned();
    let latest = now + Duration::from_secs(arguments::LONGEST_SECONDS);
    moment.ok_or_else(expected).and_then(|moment| match moment <= latest {
        true => Ok(moment),
        false => Err("expected a time within a year".to_owned()),
    })
}

/// A time of day, or a day and a time of day. In seconds since 1970.
fn absolute(text: &str, now: u64) -> Option<u64> {
    let (text, is_utc) = text.strip_suffix('Z').map_or((text, false), |text| (text, true));
    if let Some((day, time)) = text.split_once(['T', ' ']) {
        let (hour, minute, second) = time_of_day(time)?;
        let mut day = day.split('-');
        let (year, month, of_month) = (day.next()?, day.next()?, day.next()?);
        let (year, month, of_month) = (number(year, 4)? as i32, number(month, 2)?, number(of_month, 2)?);
        let (month, of_month) = (u8::try_from(month).ok()?, u8::try_from(of_month).ok()?);
        let time = WallTime { year, month, day: of_month, hour, minute, second };
        return day.next().is_none().then(|| time.unix_seconds(is_utc)).flatten();
    }
    let (hour, minute, second) = time_of_day(text)?;
    // The next such time is today's or tomorrow's, also where tomorrow has 23 or 25 hours.
    let of_day = |seconds: u64| {
        let day = WallTime::local(seconds)?;
        WallTime { hour, minute, second, ..day }.unix_seconds(false)
    };
    let is_next = |moment: &u64| !is_utc && *moment > now;
    of_day(now).filter(is_next).or_else(|| of_day(now + DAY).filter(is_next))
}

/// Hours, minutes and seconds of a text like 22:00 or 22:00:30.
fn time_of_day(text: &str) -> Option<(u8, u8, u8)> {
    let mut parts = text.split(':').map(|part| number(part, 2).and_then(|number| u8::try_from(number).ok()));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let is_time = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    is_time.then_some((hour, minute, second))
}

/// A number of so many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-29 22:30:01 in UTC.
    const NOW: Duration = Duration::from_secs(1_709_245_801);

    #[test]
    fn a_time_is_a_day_and_a_time_or_one_from_now() {
        for text in ["2024-02-29T22:30:02Z", "2024-02-29 22:30:02Z", "+1s"] {
            assert_eq!(parse_at(text, NOW), Ok(NOW + Duration::from_secs(1)), "{text}");
        }
        assert_eq!(parse_at("2024-02-29T22:30:00Z", NOW), Ok(NOW - Duration::from_secs(1)), "it may be over");
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let shown = |at: Duration| WallTime::local(at.as_secs()).unwrap().to_string();
        let today = shown(NOW);
        for second in [0, 1, 2, 59] {
            let text = format!("{}:{second:02}", &today[11..16]);
            let at = parse_at(&text, NOW).unwrap();
            assert!(at > NOW && at <= NOW + Duration::from_secs(DAY), "{text}");
            assert_eq!(shown(at)[11..], text);
        }
        assert!(parse_at("22:00", NOW).unwrap() > NOW);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "22",
            "24:00",
            "22:60",
            "22:00:60",
            "1:00",
            "22:00Z",
            "2024-02-30 22:00",
            "2024-2-1 22:00",
            "-5m",
            "now",
        ] {
            assert!(parse_at(text, NOW).unwrap_err().contains("22:00"), "{text}");
        }
        assert!(parse_at("2026-01-01 00:00", NOW).unwrap_err().contains("within a year"));
    }
}
