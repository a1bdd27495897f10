//! Real time, in the form that machines need.

use treecast_proto::Instant;

/// A clock that counts from its creation.
#[derive(Debug, Clone, Copy)]
pub struct Clock(std::time::Instant);

impl Clock {
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The host's clock, in seconds since 1970. 0 if it is set to an earlier time.
pub fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Formats a duration in words: "40 s", "5 minutes", "3 hours", "2 days".
pub(crate) fn duration_in_words(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..120 => return format!("{seconds} s"),
        120..7_200 => (seconds / 60, "minutes"),
        7_200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit}")
}

/// A number that differs between the processes of a group, as a seed.
pub fn seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)
}

/// A moment for tests.
#[cfg(test)]
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + std::time::Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_their_largest_unit() {
        let words = [119, 120, 7_199, 7_200, 172_799, 172_800].map(duration_in_words);
        assert_eq!(words, ["119 s", "2 minutes", "119 minutes", "2 hours", "47 hours", "2 days"]);
    }
}
