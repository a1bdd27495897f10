//! The way in which the rate yields where others share a queue.
//!
//! A loss that comes with a queue says that somebody else may be filling it. The rate is then that of the TCP window which `tfmcc`
//! emulates, too ([`Window`]): it halves, and grows as CUBIC's does on average. Only losses that come with a queue, and marks, count.
//!
//! Some rivals do not yield, such as BBR's first version. They take what the rate gives up within a few round trips, so the queue stays
//! full from one loss event to the next. When it has stayed full for four events and some time, the rate takes back what it had when this
//! began, and *holds* it for some seconds, as BBR does. Before the end it does not grow for a while. If the queue is still full then, it
//! holds on. Otherwise it yields to the next one.

use std::time::Duration;

use crate::{Instant, tcp_window::Window};

/// Number of loss events for which others may keep the queue full and still count as yielding. Four flows
/// that start within two seconds keep a queue full, too, and must not take each other for flows that do not
/// yield. Doubled, BBR's first version keeps what it has taken over three loss events more.
const LOSSES_OF_FULL: u32 = 3;
/// Number of round trips for which a queue must stay full, besides [`LOSSES_OF_FULL`]. A rival that has just
/// started, and sends too much, finds its rate sooner. Doubled, the rate is taken back later where the round
/// trip is above 75 ms.
const ROUND_TRIPS_OF_FULL: u32 = 10;
/// Least time for which a queue must stay full, for the same reason. Doubled, each contest with a rival that
/// does not yield costs 1.5 s more.
const SHORTEST_FULL: Duration = Duration::from_millis(1500);

/// Share of its length at a loss, 0 to 1, above which a queue has stayed full until the next loss. Beside
/// BBR's first version, a queue shrinks to half by what the rate yields and by BBR's phase Drain. With 0.66,
/// the count of loss events began anew each time. The price of 0.4 is that `auto` gets 0.39 in place of 0.42
/// of a link beside CUBIC with a queue of four products. Doubled, the rate is hardly ever taken back.
const FULL: f64 = 0.4;

/// Number of round trips before the end of a hold in which the rate does not grow, so that losses show
/// whether others still do not yield. Doubled, the rate finds no spare capacity for five round trips more.
const LISTENING: u32 = 5;

/// Time for which the rate first holds. It doubles each time that others still do not yield, up to
/// [`LONGEST_HOLD`]. A hold is unfair to a rival that does yield by now. Doubled, such a rival waits 10 s
/// more.
const HOLD: Duration = Duration::from_secs(10);
/// Longest time for which the rate holds. Doubled, a rival that yields after a long contest waits up to 80 s.
const LONGEST_HOLD: Duration = Duration::from_secs(40);

/// Loss events in a row between which the queue has stayed full.
#[derive(Debug, Default)]
struct Full {
    losses: u32,
    /// The first one, and the packets that arrived in a round trip then.
    since: Instant,
    under_way: f64,
}

/// The sender's contest with others that fill the same queue, and the rate that it leaves.
#[derive(Debug, Default)]
pub struct Contest {
    /// The window of a TCP connection in the sender's place. None while nobody contends.
    window: Option<Window>,
    full: Full,
    /// The shortest queue since the last loss event.
    shortest_queue: Duration,
    /// The rate yields to nobody until then, and does not grow after the first of the two times.
    listens_from: Instant,
    holds_until: Instant,
    /// The time for which it holds.
    hold: Duration,
}

impl Contest {
    /// Yields because a loss event has come. `under_way` is the number of packets that arrive in a round trip. Returns the number from
    /// before if others do not yield.
    pub fn lose(
        &mut self,
        now: Instant,
        under_way: f64,
        round_trip: Duration,
        queue: Duration,
    ) -> Option<f64> {
        let has_drained = self.shortest_queue < queue.mul_f64(FULL);
        self.shortest_queue = queue;
        if has_drained || self.full.losses == 0 {
            self.full = Full { losses: 0, since: now, under_way };
        }
        self.full.losses += 1;
        if self.holds(now) {
            return None;
        }
        let long = (round_trip * ROUND_TRIPS_OF_FULL).max(SHORTEST_FULL);
        if self.full.losses <= LOSSES_OF_FULL || now - self.full.since < long {
            self.window.get_or_insert_with(|| Window::of(under_way)).lose(now, under_way);
            return None;
        }
        self.window = None;
        let still = self.holds_until > Instant::ZERO && now - self.holds_until < HOLD;
        self.hold = if still { (self.hold * 2).min(LONGEST_HOLD) } else { HOLD };
        self.listens_from = now + self.hold;
        self.holds_until = self.listens_from + round_trip * LISTENING;
        Some(self.full.under_way)
    }

    /// Begins a contest, because others fill the queue, although nothing was lost yet.
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

    /// Ends the contest, because nobody contends any more.
    pub fn end(&mut self) {
        self.window = None;
        self.holds_until = Instant::ZERO;
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

    /// Loss events while the queue stays full. Returns what is restored by the last one.
    fn lose_each(contest: &mut Contest, millis: impl IntoIterator<Item = u64>) -> Option<f64> {
        let lose = |milli| contest.lose(at(milli), 200.0, ROUND_TRIP, QUEUE);
        millis.into_iter().map(lose).last().flatten()
    }

    #[test]
    fn who_meets_others_that_do_not_yield_holds_for_a_while() {
        let mut contest = Contest::default();
        contest.lose(at(0), 400.0, ROUND_TRIP, QUEUE);
        assert_eq!(lose_each(&mut contest, (100..1_500).step_by(100)), None);
        assert!(contest.packets().is_some() && !contest.holds(at(1_400)), "a start is over sooner");
        assert_eq!(lose_each(&mut contest, [1_500]), Some(400.0), "what it had");
        assert!(contest.holds(at(1_500)) && contest.packets().is_none());
        lose_each(&mut contest, (1_600..11_600).step_by(100));
        assert!(contest.packets().is_none() && !contest.listens(at(11_400)) && contest.listens(at(11_600)));
        assert!(!contest.holds(at(11_800)));
        lose_each(&mut contest, [11_800]);
        assert!(contest.holds(at(31_800)) && !contest.holds(at(32_100)), "they still do not yield");
        contest.grow(at(32_200), ROUND_TRIP, 200.0, QUEUE / 3);
        lose_each(&mut contest, [33_000]);
        assert!(contest.packets().is_some() && !contest.holds(at(33_000)), "the next one does");
    }

    #[test]
    fn a_queue_that_shrinks_meanwhile_shows_that_others_yield() {
        let mut contest = Contest::default();
        for millis in (0..3_000).step_by(100) {
            contest.lose(at(millis), 400.0, ROUND_TRIP, QUEUE);
            contest.grow(at(millis + 50), ROUND_TRIP, 200.0, QUEUE / 3);
        }
        assert!(!contest.holds(at(3_000)) && contest.packets().is_some());
    }

    #[test]
    fn nobody_is_left_to_hold_against_after_the_end() {
        let mut contest = Contest::default();
        lose_each(&mut contest, (0..2_000).step_by(100));
        assert!(contest.holds(at(2_000)));
        contest.end();
        assert!(!contest.holds(at(2_000)));
    }
}
