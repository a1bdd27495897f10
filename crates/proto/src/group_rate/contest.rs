//! How the rate yields where others share a queue.
//!
//! A loss that comes with a queue says that somebody else may be filling it. The rate is then that of the TCP window which `tfmcc`
//! emulates, too ([`Window`]): it halves, and grows as CUBIC's does on average. Only losses that come with a queue, and marks, count.
//!
//! Some rivals do not yield, such as BBR's first version. They take what the rate gives up within a few round trips: the queue stays full,
//! and losses are there again. When that has happened three times, the rate *holds* what it has for some seconds, as BBR does. Before the
//! end it does not grow for a while. If losses still come then, it holds on. Otherwise it yields to the next one.

use std::time::Duration;

use crate::{Instant, tcp_window::Window};

/// A loss is early when it comes within so many round trips after the one before.
const EARLY_ROUND_TRIPS: u32 = 5;

/// This number of early losses in a row shows that others do not yield.
const EARLY_LOSSES: u32 = 3;

/// A queue has stayed full if it was never shorter than this share of what it is when packets get lost.
const FULL: f64 = 0.75;

/// The time for which the rate then holds.
const HOLD: Duration = Duration::from_secs(10);

/// Who fills the queue beside the sender, and what that leaves.
#[derive(Debug, Default)]
pub struct Contest {
    /// The window of a TCP connection in the sender's place. None while nobody contends.
    window: Option<Window>,
    /// The time of the last loss event, and the number of early ones in a row.
    event: Option<Instant>,
    early: u32,
    /// The shortest queue since.
    shortest_queue: Duration,
    /// The rate yields to nobody until then, and does not grow after the first of the two times.
    listens_from: Instant,
    holds_until: Instant,
}

impl Contest {
    /// Yields because a loss event has come, unless others do not. `under_way` is the number of packets that arrive in a round trip.
    pub fn lose(&mut self, now: Instant, under_way: f64, round_trip: Duration, queue: Duration) {
        let is_soon = self.event.is_some_and(|event| now - event < round_trip * EARLY_ROUND_TRIPS);
        let is_early = is_soon && self.shortest_queue > queue.mul_f64(FULL);
        (self.event, self.shortest_queue) = (Some(now), queue);
        self.early = if is_early { self.early + 1 } else { 0 };
        if self.holds(now) {
            return;
        }
        if self.early >= EARLY_LOSSES {
            self.window = None;
            self.listens_from = now + HOLD;
            self.holds_until = self.listens_from + round_trip * EARLY_ROUND_TRIPS;
        } else if !is_soon || self.window.is_none() {
            self.halve(now, under_way);
        }
    }

    fn halve(&mut self, now: Instant, under_way: f64) {
        self.window.get_or_insert_with(|| Window::of(under_way)).lose(now, under_way);
    }

    /// Others fill the queue, but nothing was lost yet.
    pub fn begin(&mut self, now: Instant, under_way: f64) {
        if self.window.is_none() && !self.holds(now) {
            let mut window = Window::of(under_way * 2.0);
            window.lose(now, under_way * 2.0);
            self.window = Some(window);
        }
    }

    /// Lets the window grow until now.
    pub fn grow(&mut self, now: Instant, round_trip: Duration, under_way: f64, queue: Duration) {
        self.shortest_queue = self.shortest_queue.min(queue);
        if let Some(window) = &mut self.window {
            window.grow(now, round_trip, under_way);
        }
    }

    /// Returns the window in packets; none while nobody contends.
    pub fn packets(&self) -> Option<f64> {
        self.window.as_ref().and_then(Window::packets)
    }

    /// Whether the rate yields to nobody.
    pub fn holds(&self, now: Instant) -> bool {
        now < self.holds_until
    }

    /// Whether the rate is not to grow, so that losses show whether others still do not yield.
    pub fn listens(&self, now: Instant) -> bool {
        self.holds(now) && now >= self.listens_from
    }

    /// Nobody contends any more.
    pub fn end(&mut self) {
        self.window = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(50);
    const QUEUE: Duration = Duration::from_millis(20);

    #[test]
    fn it_yields_and_grows_again() {
        let mut contest = Contest::default();
        assert_eq!(contest.packets(), None);
        contest.lose(at(0), 400.0, ROUND_TRIP, QUEUE);
        assert_eq!(contest.packets(), Some(200.0));
        contest.grow(at(3_000), ROUND_TRIP, 200.0, QUEUE);
        assert!(contest.packets().is_some_and(|packets| packets > 220.0), "{contest:?}");
        contest.end();
        assert_eq!(contest.packets(), None);
        contest.begin(at(3_000), 400.0);
        assert_eq!(contest.packets(), Some(400.0), "nothing was lost");
    }

    #[test]
    fn who_meets_others_that_do_not_yield_holds_for_a_while() {
        let mut contest = Contest::default();
        contest.lose(at(0), 400.0, ROUND_TRIP, QUEUE);
        [100, 200].into_iter().for_each(|millis| contest.lose(at(millis), 200.0, ROUND_TRIP, QUEUE));
        assert!(contest.packets() == Some(200.0) && !contest.holds(at(200)), "two early ones are let pass");
        contest.lose(at(300), 200.0, ROUND_TRIP, QUEUE);
        assert!(contest.holds(at(300)) && contest.packets().is_none());
        (400..10_400).step_by(100).for_each(|millis| contest.lose(at(millis), 200.0, ROUND_TRIP, QUEUE));
        assert!(contest.packets().is_none() && !contest.listens(at(10_200)) && contest.listens(at(10_400)));
        contest.lose(at(10_500), 200.0, ROUND_TRIP, QUEUE);
        assert!(!contest.holds(at(10_600)));
        contest.lose(at(10_600), 200.0, ROUND_TRIP, QUEUE);
        assert!(contest.holds(at(10_600)), "they still do not yield");
        contest.lose(at(23_000), 400.0, ROUND_TRIP, QUEUE);
        assert_eq!(contest.packets(), Some(200.0), "it yields after peace");
    }

    #[test]
    fn a_queue_that_shrinks_meanwhile_shows_that_others_yield() {
        let mut contest = Contest::default();
        for millis in (0..1_000).step_by(100) {
            contest.lose(at(millis), 400.0, ROUND_TRIP, QUEUE);
            contest.grow(at(millis + 50), ROUND_TRIP, 200.0, QUEUE / 2);
        }
        assert!(!contest.holds(at(1_000)) && contest.packets().is_some());
    }
}
