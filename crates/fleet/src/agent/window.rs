//! The times at which a host activates releases: `window` below `[roll_out]` of its configuration, by the host's local time.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use treecast_host::clock::WallTime;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MINUTES_A_DAY: u16 = 24 * 60;
/// The most minutes ahead that are looked at for an opening: a window of one day a week, which a change of the clocks may skip once.
const AHEAD: u64 = 15 * MINUTES_A_DAY as u64;
/// The most windows of a host.
const MOST: usize = 100;

/// The windows of a host. Without any, it activates at any time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

/// A time of day, on some days of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    /// The window as it is written in the configuration.
    text: String,
    /// Whether it begins on each day, Monday first.
    days: [bool; 7],
    /// The first minute of the day.
    begin: u16,
    /// The first minute that is not in the window. If it is not above `begin`, it is one of the next day.
    end: u16,
}

impl Windows {
    /// Whether the host may activate now, so many seconds after 1970 began.
    fn is_open(&self, unix_seconds: u64) -> bool {
        self.0.is_empty()
            || WallTime::local(unix_seconds).is_some_and(|time| self.0.iter().any(|of| of.has(time)))
    }

    /// Returns when the next window opens, in seconds since 1970. `None` while one is open.
    pub fn opens(&self, unix_seconds: u64) -> Option<u64> {
        if self.is_open(unix_seconds) {
            return None;
        }
        let into_minute = WallTime::local(unix_seconds).map_or(0, |time| u64::from(time.second));
        let next_minute = unix_seconds + 60 - into_minute.min(59);
        let mut minutes = (0..AHEAD).map(|minute| next_minute + minute * 60);
        // A clock that shows no such time within two weeks is asked again then.
        Some(minutes.find(|at| self.is_open(*at)).unwrap_or(next_minute + AHEAD * 60))
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let texts: Vec<&str> = self.0.iter().map(|window| window.text.as_str()).collect();
        f.write_str(&texts.join("; "))
    }
}

impl Window {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "window {text:?}: {why}; write HH:MM-HH:MM, with days before it if it is not for all, such as \
                 \"02:00-04:30\" or \"mon-fri,sun 22:00-02:00\""
            )
        };
        let (days, times) = text.trim().rsplit_once(' ').unwrap_or(("", text.trim()));
        let days = days_of(days).ok_or_else(|| wrong("no day of the week has this name"))?;
        let (begin, end) = times.split_once('-').ok_or_else(|| wrong("it has no beginning and end"))?;
        let minute = |text: &str| minute_of(text).ok_or_else(|| wrong("no day has this time"));
        let (begin, end) = (minute(begin)?, minute(end)?);
        match begin == MINUTES_A_DAY || begin == end {
            true => Err(wrong("it is never open")),
            false => Ok(Self { text: text.trim().to_owned(), days, begin, end }),
        }
    }

    fn has(&self, time: WallTime) -> bool {
        let minute = u16::from(time.hour) * 60 + u16::from(time.minute);
        let today = weekday(time);
        let yesterday = (today + 6) % 7;
        match self.begin < self.end {
            true => self.days[today] && (self.begin..self.end).contains(&minute),
            false => {
                (self.days[today] && minute >= self.begin) || (self.days[yesterday] && minute < self.end)
            }
        }
    }
}

/// Reads days, such as `mon-fri,sun`. No text is all days.
fn days_of(text: &str) -> Option<[bool; 7]> {
    if text.trim().is_empty() {
        return Some([true; 7]);
    }
    let number = |name: &str| DAYS.iter().position(|day| name.trim().eq_ignore_ascii_case(day));
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        // From Saturday to Monday is three days.
        (0..=(last + 7 - first) % 7).for_each(|more| days[(first + more) % 7] = true);
    }
    Some(days)
}

/// Reads a time of day, from 00:00 to 24:00. Returns the minute of the day.
fn minute_of(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.len() <= 2);
    let (hour, minute) = (number(hour)?, number(minute)?);
    Some(hour * 60 + minute).filter(|of| hour <= 24 && minute < 60 && *of <= MINUTES_A_DAY)
}

/// Returns the day of the week, Monday as 0 (Sakamoto's method for the Gregorian calendar).
fn weekday(time: WallTime) -> usize {
    const OFFSETS: [i32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let month = usize::from(time.month).clamp(1, 12);
    let year = time.year - i32::from(month < 3);
    let from_sunday = year + year / 4 - year / 100 + year / 400 + OFFSETS[month - 1] + i32::from(time.day);
    (from_sunday + 6).rem_euclid(7) as usize
}

impl<'de> Deserialize<'de> for Windows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            Many(Vec<String>),
        }
        let written = Written::deserialize(from).map_err(|_| {
            de::Error::custom("window: write a text such as \"02:00-04:30\", or a list of texts")
        })?;
        let texts = match written {
            Written::One(text) => vec![text],
            Written::Many(texts) => texts,
        };
        if texts.is_empty() || texts.len() > MOST {
            return Err(de::Error::custom(format!(
                "window: write 1 to {MOST} times, such as \"02:00-04:30\"; leave it out to activate at any time"
            )));
        }
        let windows: Result<Vec<Window>, String> = texts.iter().map(|text| Window::parse(text)).collect();
        windows.map(Self).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(texts: &[&str]) -> Windows {
        Windows(texts.iter().map(|text| Window::parse(text).unwrap()).collect())
    }

    fn at(day: u8, hour: u8, minute: u8) -> WallTime {
        // 30 November 2026 is a Monday.
        let (month, day) = if day == 0 { (11, 30) } else { (12, day) };
        WallTime { year: 2026, month, day, hour, minute, second: 7 }
    }

    #[test]
    fn a_window_is_open_on_its_days_from_its_beginning_to_its_end() {
        assert_eq!((weekday(at(0, 0, 0)), weekday(at(6, 0, 0)), weekday(at(7, 0, 0))), (0, 6, 0));
        let night = windows(&["mon-fri 22:00-02:30"]);
        let is_open = |time: WallTime| night.is_open(time.unix_seconds(false).unwrap());
        assert!(!is_open(at(0, 2, 0)), "Sunday's night is none of it");
        assert!(is_open(at(0, 22, 0)) && is_open(at(1, 2, 29)) && !is_open(at(1, 2, 30)));
        assert!(is_open(at(5, 1, 0)), "Friday's night ends on Saturday");
        assert!(!is_open(at(5, 22, 0)) && !is_open(at(6, 23, 0)));
        assert!(windows(&[]).is_open(0));
        let all = windows(&["sat-mon 00:00-24:00"]);
        let days = (0..7).map(|day| all.is_open(at(day, 12, 0).unix_seconds(false).unwrap()));
        assert_eq!(days.collect::<Vec<_>>(), [true, false, false, false, false, true, true]);
    }

    #[test]
    fn the_next_opening_is_the_first_minute_of_a_window() {
        let some = windows(&["02:00-04:30", "wed 12:15-12:20"]);
        let opens = |time: WallTime| {
            some.opens(time.unix_seconds(false).unwrap()).map(|at| WallTime::local(at).unwrap())
        };
        assert_eq!(opens(at(0, 4, 29)), None);
        assert_eq!(opens(at(0, 4, 30)), Some(WallTime { second: 0, ..at(1, 2, 0) }));
        assert_eq!(opens(at(2, 4, 30)), Some(WallTime { second: 0, ..at(2, 12, 15) }));
        assert_eq!(some.to_string(), "02:00-04:30; wed 12:15-12:20");
    }

    #[test]
    fn a_window_that_no_day_has_is_refused_with_what_to_write() {
        for text in
            ["25:00-26:00", "02:00", "2:60-3:00", "moon 02:00-03:00", "03:00-03:00", "24:00-01:00", "", "mon"]
        {
            let refused = Window::parse(text).unwrap_err();
            assert!(refused.contains("write HH:MM-HH:MM"), "{text}: {refused}");
        }
    }
}
