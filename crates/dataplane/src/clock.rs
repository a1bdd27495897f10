//! Real time as machines want it.

use std::time::{Duration, Instant as SystemInstant};

use treecast_proto::Instant;

/// Counts from when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: SystemInstant,
}

impl Clock {
    pub fn start() -> Self {
        Self { origin: SystemInstant::now() }
    }

    pub fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

/// The time from `now` until `deadline`, as a poller wants it; none for no deadline.
pub fn until(now: Instant, deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline - now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_has_passed_is_now() {
        let now = Instant::from_nanos(5_000_000);
        assert_eq!(until(now, None), None);
        assert_eq!(until(now, Some(Instant::ZERO)), Some(Duration::ZERO));
        assert_eq!(until(now, Some(Instant::from_nanos(5_000_001))), Some(Duration::from_nanos(1)));
    }
}
