//! Waits until the machine is as quiet as before the last run (librecast-updates-2022, 2.1: a run must not
//! affect the measurements of the next one).
//!
//! The paper waits a minute for the 1-minute load average. This module looks at the busy time of the processors
//! over half a second instead, which tells the same sooner.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

const WINDOW: Duration = Duration::from_millis(500);
/// The share by which a quiet machine may be busier than the baseline.
const TOLERANCE: f64 = 0.05;

/// The share of this machine's processors that is busy when nothing runs, from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Baseline(f64);

impl Baseline {
    /// Measures the busy share twice, and takes the lower one.
    pub fn measure() -> io::Result<Self> {
        Ok(Self(busy_over(WINDOW)?.min(busy_over(WINDOW)?)))
    }

    /// Waits until the machine is back at the baseline, at most `longest`; `stop` ends the wait. Returns
    /// whether it is back.
    pub fn settle(self, longest: Duration, stop: &dyn Fn() -> bool) -> io::Result<bool> {
        let end = Instant::now() + longest;
        while !stop() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if busy_over(WINDOW.min(left))? <= self.0 + TOLERANCE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The busy share of all processors' time over a window.
fn busy_over(window: Duration) -> io::Result<f64> {
    let before = Jiffies::now()?;
    thread::sleep(window);
    let after = Jiffies::now()?;
    let total = after.total.saturating_sub(before.total).max(1);
    Ok(after.busy.saturating_sub(before.busy) as f64 / total as f64)
}

/// All processors' time since the machine started, in ticks.
struct Jiffies {
    busy: u64,
    total: u64,
}

impl Jiffies {
    fn now() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        Self::parse(&text).ok_or_else(|| io::Error::other("/proc/stat has no processor line"))
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let total = ticks.iter().sum();
        Some(Self { busy: total - idle, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_for_disks_is_not_busy() {
        let jiffies = Jiffies::parse("cpu  10 1 5 100 20 2 3 4 0 0\ncpu0 1\n").unwrap();
        assert_eq!((jiffies.busy, jiffies.total), (25, 145));
        assert!(Jiffies::parse("intr 1 2").is_none());
    }

    #[test]
    fn a_machine_that_stays_busy_is_waited_for_only_so_long() {
        let never = Baseline(-1.0);
        let start = Instant::now();
        assert!(!never.settle(Duration::from_millis(600), &|| false).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(600));
        assert!(Baseline(1.0).settle(Duration::from_secs(60), &|| false).unwrap());
    }
}
