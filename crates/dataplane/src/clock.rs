//! Real time in the form that the protocol machines take.

use std::time::{Duration, Instant as SystemInstant};

use treecast_proto::Instant;

/// A clock that counts from the moment when it was made.
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

/// Returns the time from `now` until `deadline`, in the form that a poller takes; none when there is no
/// deadline.
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
