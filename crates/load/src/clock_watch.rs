//! Notices that this host's clock jumps.

use std::time::Duration;

use treecast_host::clock;

/// The change of a clock against the steady one, between two looks, above which it has jumped.
const JUMP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct ClockWatch {
    /// The steady clock and the host's clock, when it was last looked at.
    last: (Duration, Duration),
    pub jumps: u32,
}

impl ClockWatch {
    pub fn begin() -> Self {
        Self { last: (clock::monotonic(), clock::since_1970()), jumps: 0 }
    }

    pub fn look(&mut self) {
        self.compare((clock::monotonic(), clock::since_1970()));
    }

    fn compare(&mut self, now: (Duration, Duration)) {
        let steady = now.0.saturating_sub(self.last.0);
        let expected = self.last.1 + steady;
        self.jumps += u32::from(now.1.abs_diff(expected) > JUMP);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_has_jumped() {
        let mut watch = ClockWatch::begin();
        watch.look();
        assert_eq!(watch.jumps, 0);
        let (steady, clock) = watch.last;
        let second = Duration::from_secs(1);
        watch.compare((steady + second, clock + second + Duration::from_millis(20)));
        assert_eq!(watch.jumps, 0, "steering is no jump");
        watch.compare((steady + 2 * second, clock));
        watch.compare((steady + 3 * second, clock + second));
        assert_eq!(watch.jumps, 1);
    }
}
