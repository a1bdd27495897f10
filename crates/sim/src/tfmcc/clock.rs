//! The clock of a receiver's host, which drifts and jumps.

use std::time::Duration;

use treecast_proto::Instant;

use super::Faults;

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    drift: f64,
    jump: Option<(Duration, Duration)>,
}

impl Clock {
    pub fn new(faults: &Faults) -> Self {
        Self { drift: faults.drift, jump: faults.jump }
    }

    /// Returns what the clock shows at a moment of the simulated time.
    pub fn shows(&self, now: Instant) -> Instant {
        let gained = (now.as_nanos() as f64 * self.drift) as i64;
        let drifted = now.as_nanos().saturating_add_signed(gained);
        let jumped =
            self.jump.filter(|(_, at)| Instant::ZERO + *at <= now).map_or(Duration::ZERO, |(by, _)| by);
        Instant::from_nanos(drifted) + jumped
    }

    /// Returns the time from `now` until the clock shows `moment`.
    pub fn until(&self, now: Instant, moment: Instant) -> Duration {
        let left = moment.saturating_duration_since(self.shows(now));
        if self.drift == 0.0 {
            return left;
        }
        // Never a nanosecond too early, however it is rounded.
        left.div_f64(1.0 + self.drift) + Duration::from_nanos(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_gains_is_ahead_and_its_timers_are_early() {
        let jump = Some((Duration::from_secs(1), Duration::from_secs(10)));
        let clock = Clock::new(&Faults { drift: 0.5, jump, ..Faults::default() });
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!((clock.shows(at(4)), clock.shows(at(10))), (at(6), at(16)));
        assert_eq!(clock.until(at(4), at(9)), Duration::from_secs(2) + Duration::from_nanos(1));
    }
}
