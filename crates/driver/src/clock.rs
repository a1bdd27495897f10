//! Real time as machines want it.

use std::time::Duration;

use treecast_proto::Instant;

/// Counts from when it was made.
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

/// How long the kernel's timer ticks are apart: 1 to 10 ms.
pub fn tick() -> Duration {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // SAFETY: `resolution` is a valid place for the answer; where there is none, it stays as it is.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    Duration::from_nanos(resolution.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_one_to_ten_milliseconds() {
        assert!((1..=10).contains(&tick().as_millis()), "{:?}", tick());
    }
}
