//! The progress of an experiment, from the runs that are done and from the time that has passed.

use std::time::{Duration, Instant};

/// The progress of an experiment and of its current run.
#[derive(Debug, Default)]
pub struct Pace {
    start: Option<Instant>,
    /// The plan's estimate for all runs.
    estimate: Duration,
    /// The part of the estimate that belongs to runs that are over.
    over: Duration,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    start: Instant,
    /// The part of the estimate that belongs to the current run.
    expected: Duration,
    clients: usize,
    done: usize,
}

impl Pace {
    pub fn new(start: Instant, estimate: Duration) -> Self {
        Self { start: Some(start), estimate, ..Self::default() }
    }

    pub fn begin_run(&mut self, start: Instant, expected: Duration, clients: usize) {
        self.run = Some(Run { start, expected, clients, done: 0 });
    }

    pub fn client_done(&mut self) {
        if let Some(run) = &mut self.run {
            run.done += 1;
        }
    }

    pub fn end_run(&mut self) {
        self.over += self.run.take().map_or(Duration::ZERO, |run| run.expected);
    }

    /// The share of the current run that is over, from 0 to 1. It is 0 between two runs.
    pub fn run_share(&self, now: Instant) -> f64 {
        self.run.as_ref().map_or(0.0, |run| run.share(now))
    }

    /// The share of all runs that is over, from 0 to 1.
    pub fn all_share(&self, now: Instant) -> f64 {
        let current = self.run.as_ref().map_or(Duration::ZERO, |run| run.expected.mul_f64(run.share(now)));
        let estimate = self.estimate.as_secs_f64().max(f64::MIN_POSITIVE);
        ((self.over + current).as_secs_f64() / estimate).min(1.0)
    }

    /// The estimated time left. It follows from the duration of the first runs, and from the plan's estimate
    /// while too few runs are over.
    pub fn left(&self, now: Instant) -> Duration {
        let elapsed = self.start.map_or(Duration::ZERO, |start| now.saturating_duration_since(start));
        let share = self.all_share(now);
        let by_pace = elapsed.mul_f64((1.0 - share) / share.max(0.001));
        let by_estimate = self.estimate.mul_f64(1.0 - share);
        by_pace.mul_f64(share.sqrt()) + by_estimate.mul_f64(1.0 - share.sqrt())
    }
}

impl Run {
    /// Combines the share of clients that are done with the time that has passed, because all clients may
    /// finish at the end of a run. The share of a run that takes longer than expected approaches 1 ever more
    /// slowly.
    fn share(&self, now: Instant) -> f64 {
        const EVEN: f64 = 0.9;
        let passed = now.saturating_duration_since(self.start).as_secs_f64();
        let by_time = passed / self.expected.as_secs_f64().max(f64::MIN_POSITIVE);
        let by_time = if by_time <= EVEN { by_time } else { 1.0 - (1.0 - EVEN) * EVEN / by_time };
        by_time.max(self.done as f64 / self.clients.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_moves_on_while_no_client_is_done() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(start, Duration::from_secs(100));
        pace.begin_run(start, Duration::from_secs(40), 20);
        let shares = [0, 10, 30, 36, 80, 4000].map(|seconds| pace.run_share(at(seconds)));
        assert_eq!(shares[..3], [0.0, 0.25, 0.75]);
        assert!(shares.is_sorted_by(|earlier, later| earlier < later) && shares[5] < 1.0, "{shares:?}");
        assert_eq!(pace.all_share(at(10)), 0.1);
        (0..18).for_each(|_| pace.client_done());
        assert_eq!(pace.run_share(at(10)), 0.9);
        pace.end_run();
        assert_eq!((pace.run_share(at(50)), pace.all_share(at(50))), (0.0, 0.4));
    }

    #[test]
    fn the_time_left_goes_from_the_estimate_to_the_pace() {
        let start = Instant::now();
        let now = start + Duration::from_secs(90);
        let mut pace = Pace::new(start, Duration::from_secs(1000));
        let runs = |pace: &mut Pace, count| {
            for _ in 0..count {
                pace.begin_run(start, Duration::from_secs(10), 1);
                pace.end_run();
            }
        };
        runs(&mut pace, 1);
        assert!(pace.left(now) > Duration::from_secs(900));
        runs(&mut pace, 89);
        assert!(pace.left(now) < Duration::from_secs(20));
        runs(&mut pace, 10);
        assert_eq!(pace.left(now), Duration::ZERO);
    }
}
