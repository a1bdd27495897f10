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

/// `deadline` as milliseconds from `now`, rounded up, as `epoll_wait` wants it; -1 for none.
pub fn timeout_millis(now: Instant, deadline: Option<Instant>) -> i32 {
    let Some(deadline) = deadline else { return -1 };
    let wait = (deadline - now) + Duration::from_nanos(999_999);
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_never_ends_early() {
        let now = Instant::from_nanos(5_000_000);
        assert_eq!(timeout_millis(now, None), -1);
        assert_eq!(timeout_millis(now, Some(Instant::ZERO)), 0);
        assert_eq!(timeout_millis(now, Some(now)), 0);
        assert_eq!(timeout_millis(now, Some(Instant::from_nanos(5_000_001))), 1);
        assert_eq!(timeout_millis(now, Some(Instant::from_nanos(u64::MAX))), i32::MAX);
    }
}
