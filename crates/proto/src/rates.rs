//! The choice of the group that a receiver listens to, where the same objects go to several groups at
//! different rates. The receiver moves itself by the loss that it measures (the IoT updater's flow control:
//! "if packet loss is due to congestion, the client can join fewer groups"; librecast-updates-2022, chapter
//! 6).
//!
//! A rate that is too high for a receiver's link loses packets for as long as it lasts. So a receiver moves
//! down when loss stays high, one group at a time. A loss that has ended may have been somebody else's
//! traffic: after a while without any, it tries the faster group again, each time after twice as long, so
//! that a slow link is not overrun again and again.

use std::time::Duration;

use crate::{Instant, tfmcc::Arrived};

/// Loss is measured over so long, or over [`LEAST_PACKETS`] if they take longer.
const INTERVAL: Duration = Duration::from_millis(250);
const LEAST_PACKETS: u32 = 20;

/// An interval this long says nothing: the group was silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Loss above this, in so many intervals one behind the other, is too much: VCMTP mends what is below.
const HIGH_LOSS: f64 = 0.1;
const HIGH_INTERVALS: u32 = 3;

/// Loss up to this is none for a receiver that wants to move up.
const LOW_LOSS: f64 = 0.01;

/// The time after a move in which nothing is measured. Routers and switches bring the group that was left for
/// up to two seconds more (RFC 3376, 8.8; RFC 3810, 9.8), and queues are full of it.
const SETTLING: Duration = Duration::from_secs(3);

/// The first attempt to move up comes after so long without loss; each further one after twice as long as the one before.
const FIRST_ATTEMPT: Duration = Duration::from_secs(20);
const LAST_ATTEMPT: Duration = Duration::from_secs(640);

/// A sender that finds the groups' rates says so several times a second while it sends.
const LED: Duration = Duration::from_secs(5);

/// A step in packet numbers this large is no loss: somebody else numbers, or the sender has begun anew.
const MAX_STEP: u32 = 1 << 24;

/// Chooses the group that a receiver listens to. Group 0 is the fastest, and the receiver begins there.
#[derive(Debug, Default)]
pub struct Mover {
    group: u8,
    /// The fastest and the slowest that it may choose.
    fastest: u8,
    slowest: u8,
    /// The time before which nothing is measured.
    settled: Instant,
    interval: Option<Interval>,
    /// Intervals with high loss, one behind the other.
    high: u32,
    /// The time since which there has been no loss.
    clean_since: Option<Instant>,
    attempt_after: Duration,
    /// The sender decides until then where the receiver is to be.
    is_led_until: Instant,
}

/// The packets that have arrived since a moment.
#[derive(Debug)]
struct Interval {
    since: Instant,
    first: u32,
    /// Behind the highest number.
    next: u32,
    received: u32,
}

impl Mover {
    /// Creates the choice for a session with this many groups.
    pub fn new(groups: u8) -> Self {
        Self { slowest: groups.saturating_sub(1), attempt_after: FIRST_ATTEMPT, ..Self::default() }
    }

    /// Returns the group that the receiver listens to, or is moving to.
    pub fn group(&self) -> u8 {
        self.group
    }

    /// Takes note that packets of the group have arrived. Returns the group that the receiver is to move to, if
    /// it is to move.
    pub fn arrived(&mut self, now: Instant, packets: Arrived) -> Option<u8> {
        if self.slowest == 0 || now < self.settled.max(self.is_led_until) {
            return None;
        }
        let interval = self.interval.get_or_insert_with(|| Interval::new(now, packets.first));
        interval.add(packets);
        let (lasts, expected) = (now.saturating_duration_since(interval.since), interval.expected());
        if lasts > SILENCE {
            // Or somebody has feigned numbers far ahead, and the sender's all seem to be old ones.
            *interval = Interval::new(now, packets.first.wrapping_add(packets.count));
            self.clean_since = None;
            return None;
        }
        if lasts < INTERVAL || expected < LEAST_PACKETS {
            return None;
        }
        let loss = interval.loss();
        self.interval = Some(Interval::new(now, interval.next));
        self.judge(now, loss)
    }

    /// The sender has just told that it finds the groups' rates: it calls the receiver to where it is to be. For a while, the
    /// receiver goes nowhere by itself. Somebody else may have feigned the message.
    pub fn follow_sender(&mut self, now: Instant) {
        self.is_led_until = now + LED;
    }

    /// Takes note that the sender wants the receiver in this group. Returns the group to move to, if the receiver is to
    /// move. A receiver that moves by itself stays on this side of where the sender wants it: the faster groups have nothing more
    /// for it, or there is no slower one.
    pub fn called(&mut self, now: Instant, group: u8) -> Option<u8> {
        if group == self.group || group > self.slowest {
            return None;
        }
        if now >= self.is_led_until {
            (self.fastest, self.slowest) =
                if group > self.group { (group, self.slowest) } else { (self.fastest.min(group), group) };
        }
        self.move_to(now, group)
    }

    fn judge(&mut self, now: Instant, loss: f64) -> Option<u8> {
        self.high = if loss > HIGH_LOSS { self.high + 1 } else { 0 };
        if loss > LOW_LOSS {
            self.clean_since = None;
        }
        if self.high >= HIGH_INTERVALS && self.group < self.slowest {
            return self.move_to(now, self.group + 1);
        }
        let clean_since = *self.clean_since.get_or_insert(now);
        let is_clean = loss <= LOW_LOSS && now.saturating_duration_since(clean_since) >= self.attempt_after;
        if is_clean && self.group > self.fastest {
            self.attempt_after = (self.attempt_after * 2).min(LAST_ATTEMPT);
            return self.move_to(now, self.group - 1);
        }
        None
    }

    fn move_to(&mut self, now: Instant, group: u8) -> Option<u8> {
        self.group = group;
        self.settled = now + SETTLING;
        self.interval = None;
        self.high = 0;
        self.clean_since = None;
        Some(group)
    }
}

impl Interval {
    fn new(since: Instant, first: u32) -> Self {
        Self { since, first, next: first, received: 0 }
    }

    fn add(&mut self, packets: Arrived) {
        let end = packets.first.wrapping_add(packets.count);
        let step = end.wrapping_sub(self.next);
        if step.min(step.wrapping_neg()) > MAX_STEP {
            *self = Self::new(self.since, packets.first);
        }
        self.received = self.received.saturating_add(packets.count);
        if end.wrapping_sub(self.next) <= MAX_STEP {
            self.next = end;
        }
    }

    fn expected(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// The share of packets that were lost, 0 to 1. Packets that came late from before make up for those that
    /// come late behind.
    fn loss(&self) -> f64 {
        (1.0 - f64::from(self.received) / f64::from(self.expected().max(1))).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a second of 1,000 packets a second, of which every `keep`-th of ten is kept; returns the moves.
    fn second(mover: &mut Mover, second: u64, kept_of_ten: u32) -> Vec<u8> {
        let packets = (0..1_000_u32).filter(|number| number % 10 < kept_of_ten);
        let moves = packets.filter_map(|number| {
            let now = Instant::ZERO + Duration::from_micros(second * 1_000_000 + u64::from(number) * 1_000);
            let first = (second as u32 * 1_000 + number).wrapping_sub(5_000);
            mover.arrived(now, Arrived { first, count: 1, marked: false })
        });
        moves.collect()
    }

    #[test]
    fn high_loss_that_lasts_moves_down_one_group_at_a_time() {
        let mut mover = Mover::new(3);
        assert_eq!(second(&mut mover, 0, 10), []);
        assert_eq!(second(&mut mover, 1, 5), [1], "in less than a second");
        let moves: Vec<_> = (2..4).flat_map(|at| second(&mut mover, at, 2)).collect();
        assert_eq!(moves, [], "what the old group still brings does not count");
        let moves: Vec<_> = (4..20).flat_map(|at| second(&mut mover, at, 5)).collect();
        assert_eq!((moves, mover.group()), (vec![2], 2), "there is no slower one");
    }

    #[test]
    fn little_loss_and_one_bad_moment_are_left_to_retransmissions() {
        let mut mover = Mover::new(2);
        assert!((0..100).all(|at| second(&mut mover, at, 9).is_empty()));
        let now = Instant::ZERO + Duration::from_secs(101);
        assert_eq!(mover.arrived(now, Arrived { first: 110_000, count: 10, marked: false }), None);
        assert!((110..120).all(|at| second(&mut mover, at, 10).is_empty()));
        assert_eq!(Mover::new(1).group(), 0);
        assert!((0..10).all(|at| second(&mut Mover::new(1), at, 1).is_empty()), "one group: nowhere to go");
    }

    #[test]
    fn a_loss_that_has_ended_is_forgotten_and_one_that_has_not_ever_more_slowly() {
        let mut mover = Mover::new(2);
        let mut moves = Vec::new();
        for at in 0..200 {
            let kept = if mover.group() == 0 { 5 } else { 10 };
            moves.extend(second(&mut mover, at, kept).into_iter().map(|group| (at, group)));
        }
        let ups: Vec<_> = moves.iter().filter(|(_, group)| *group == 0).map(|(at, _)| *at).collect();
        let waits: Vec<_> = ups.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((20..30).contains(&ups[0]) && waits[0] > 40 && waits[1] > 80, "{moves:?}");
        let mut mover = Mover::new(2);
        second(&mut mover, 0, 5);
        (1..60).for_each(|at| _ = second(&mut mover, at, 10));
        assert_eq!(mover.group(), 0, "it goes on as before");
    }

    #[test]
    fn the_sender_may_call_it_back_for_good() {
        let mut mover = Mover::new(3);
        assert_eq!(mover.called(Instant::ZERO, 0), None);
        assert_eq!(mover.called(Instant::ZERO, 7), None, "there is none");
        assert_eq!(mover.called(Instant::ZERO, 1), Some(1));
        assert!((0..300).all(|at| second(&mut mover, at, 10).is_empty()));
    }

    #[test]
    fn who_is_sent_back_to_a_faster_group_has_no_slower_one() {
        let mut mover = Mover::new(3);
        assert_eq!(second(&mut mover, 0, 5), [1]);
        assert_eq!(mover.called(at_second(1), 0), Some(0), "the sender has one group only");
        assert!((1..60).all(|at| second(&mut mover, at, 2).is_empty()));
    }

    #[test]
    fn a_sender_that_leads_is_followed_up_and_down() {
        let mut mover = Mover::new(4);
        mover.follow_sender(at_second(8));
        assert!((0..10).all(|at| second(&mut mover, at, 2).is_empty()), "not by itself");
        assert_eq!(
            [2, 0, 3, 4, 3].map(|group| mover.called(at_second(10), group)),
            [Some(2), Some(0), Some(3), None, None]
        );
    }

    fn at_second(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    /// Any host that can write to the group can feign loss: numbers that jump, among those of the sender.
    #[test]
    fn feigned_loss_moves_down_no_faster_than_a_group_in_three_seconds_and_not_for_good() {
        let (mut mover, mut moves) = (Mover::new(4), Vec::new());
        let mut feign = |seconds: std::ops::Range<u32>, is_forged: bool| {
            for millis in seconds.start * 1_000..seconds.end * 1_000 {
                let now = Instant::ZERO + Duration::from_millis(u64::from(millis));
                let ahead = if is_forged && millis % 10 == 0 { millis * 100 } else { 0 };
                let packets = Arrived { first: millis + ahead, count: 1, marked: false };
                moves.extend(mover.arrived(now, packets).map(|group| (millis, group)));
            }
        };
        feign(0..60, true);
        feign(60..300, false);
        let down: Vec<_> = moves.iter().take(3).map(|(_, group)| *group).collect();
        assert_eq!(down, [1, 2, 3], "{moves:?}");
        let lowest = SETTLING + INTERVAL * HIGH_INTERVALS;
        assert!(
            moves.windows(2).all(|pair| u128::from(pair[1].0 - pair[0].0) >= lowest.as_millis()),
            "{moves:?}"
        );
        assert_eq!(moves.last().map(|(_, group)| *group), Some(0), "{moves:?}");
    }

    #[test]
    fn numbers_that_make_no_sense_are_no_loss() {
        let mut mover = Mover::new(2);
        for at in 0..10_000_u32 {
            let now = Instant::ZERO + Duration::from_millis(u64::from(at));
            let first = at.wrapping_mul(0x9e37_79b9);
            assert_eq!(mover.arrived(now, Arrived { first, count: 1, marked: false }), None);
        }
    }
}
