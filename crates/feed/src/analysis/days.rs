//! Volume by day and minute (figures 2.1 and 2.3).

use std::collections::BTreeMap;

use serde::Serialize;
use treecast_measure::{Summary, date};

use super::too_many;
use crate::line::LineError;

const MINUTE_US: i64 = 60_000_000;
pub(super) const DAY_MINUTES: i64 = 1440;

/// The largest number of minutes with products that are kept of a feed: a year.
const MAX_MINUTES: usize = 366 * DAY_MINUTES as usize;

/// Half of the minutes over which volume is averaged to find periods of peak load.
const SMOOTH_MINUTES: i64 = 7;

/// Two periods of peak load that are closer than this, in minutes, are one.
const APART_MINUTES: i64 = 60;

/// What came in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Minute {
    pub bytes: u64,
    pub products: u64,
    /// Whether a silence of more than a minute begins or ends here.
    pub is_interrupted: bool,
}

/// A day of a feed, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Day {
    pub day: String,
    pub bytes: u64,
    pub products: u64,
    pub mean_product_bytes: f64,
    pub peak_minute_bytes: u64,
    pub peak_minute_products: u64,
    /// The lowest volume of a minute between the first and the last product of the day.
    pub lowest_minute_bytes: u64,
    /// The lowest volume of a minute in which products came and no silence of more than a minute began or ended.
    pub lowest_active_minute_bytes: u64,
    /// The middles of the periods in which the volume is above half of its peak, as hours and minutes.
    pub peaks: Vec<String>,
}

/// The days of a feed, and their statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Days {
    pub days: Vec<Day>,
    /// Statistics over days. `None` if there is no day.
    pub bytes: Option<Summary>,
    pub products: Option<Summary>,
    pub mean_product_bytes: Option<Summary>,
    pub peak_minute_bytes: Option<Summary>,
    pub peak_minute_products: Option<Summary>,
}

impl Days {
    /// The mean over days of the largest volume of a minute, in bytes.
    pub fn peak_minute_bytes(&self) -> f64 {
        self.peak_minute_bytes.map_or(0.0, |peak| peak.mean)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter {
    /// Minutes with products, by their number since 1970.
    pub minutes: BTreeMap<i64, Minute>,
}

impl Counter {
    pub fn add(&mut self, at_us: i64, bytes: u64) -> Result<(), LineError> {
        let number = at_us.div_euclid(MINUTE_US);
        if self.minutes.len() == MAX_MINUTES && !self.minutes.contains_key(&number) {
            let time = date::time(at_us.div_euclid(1_000_000));
            return Err(too_many("the time", &time, "no more than a year of minutes"));
        }
        let minute = self.minutes.entry(number).or_default();
        minute.bytes = minute.bytes.saturating_add(bytes);
        minute.products += 1;
        Ok(())
    }

    /// Notes a silence of more than a minute.
    pub fn interrupt(&mut self, from_us: i64, to_us: i64) {
        for at_us in [from_us, to_us] {
            if let Some(minute) = self.minutes.get_mut(&at_us.div_euclid(MINUTE_US)) {
                minute.is_interrupted = true;
            }
        }
    }

    pub fn finish(&self) -> Days {
        let mut days = Vec::new();
        let mut next = self.minutes.keys().next().copied();
        while let Some(number) = next {
            let start = number - number.rem_euclid(DAY_MINUTES);
            days.push(self.day(start));
            next = self.minutes.range(start + DAY_MINUTES..).next().map(|(number, _)| *number);
        }
        let over = |value: fn(&Day) -> f64| Summary::of(&days.iter().map(value).collect::<Vec<_>>());
        Days {
            bytes: over(|day| day.bytes as f64),
            products: over(|day| day.products as f64),
            mean_product_bytes: over(|day| day.mean_product_bytes),
            peak_minute_bytes: over(|day| day.peak_minute_bytes as f64),
            peak_minute_products: over(|day| day.peak_minute_products as f64),
            days,
        }
    }

    /// The day that starts at this minute, in which something came.
    fn day(&self, start: i64) -> Day {
        let minutes = || self.minutes.range(start..start + DAY_MINUTES);
        let (mut bytes, mut products, mut active) = (0u64, 0, u64::MAX);
        for (_, minute) in minutes() {
            bytes = bytes.saturating_add(minute.bytes);
            products += minute.products;
            if !minute.is_interrupted {
                active = active.min(minute.bytes);
            }
        }
        let span = minutes().last().map_or(0, |(last, _)| last + 1)
            - minutes().next().map_or(0, |(first, _)| *first);
        let has_gap = (minutes().count() as i64) < span;
        let lowest = minutes().map(|(_, minute)| minute.bytes).min().unwrap_or(0);
        Day {
            day: date::day(start * 60),
            bytes,
            products,
            mean_product_bytes: bytes as f64 / (products as f64).max(1.0),
            peak_minute_bytes: minutes().map(|(_, minute)| minute.bytes).max().unwrap_or(0),
            peak_minute_products: minutes().map(|(_, minute)| minute.products).max().unwrap_or(0),
            lowest_minute_bytes: if has_gap { 0 } else { lowest },
            lowest_active_minute_bytes: if active == u64::MAX { 0 } else { active },
            peaks: self.peaks(start),
        }
    }

    fn peaks(&self, start: i64) -> Vec<String> {
        let volume: Vec<f64> = (0..DAY_MINUTES)
            .map(|minute| self.minutes.get(&(start + minute)).map_or(0.0, |minute| minute.bytes as f64))
            .collect();
        let smooth = |minute: i64| {
            let (from, to) =
                ((minute - SMOOTH_MINUTES).max(0), (minute + SMOOTH_MINUTES).min(DAY_MINUTES - 1));
            volume[from as usize..=to as usize].iter().sum::<f64>() / (to - from + 1) as f64
        };
        let smoothed: Vec<f64> = (0..DAY_MINUTES).map(smooth).collect();
        let half = smoothed.iter().copied().fold(0.0, f64::max) / 2.0;
        let mut periods: Vec<(i64, i64)> = Vec::new();
        for minute in (0..DAY_MINUTES).filter(|minute| smoothed[*minute as usize] > half) {
            match periods.last_mut() {
                Some((_, end)) if minute - *end < APART_MINUTES => *end = minute,
                _ => periods.push((minute, minute)),
            }
        }
        periods.into_iter().map(|(from, to)| clock_time((from + to) / 2)).collect()
    }
}

/// A minute of the day, as hours and minutes.
pub fn clock_time(minute: i64) -> String {
    format!("{:02}:{:02}", minute.rem_euclid(DAY_MINUTES) / 60, minute.rem_euclid(60))
}
