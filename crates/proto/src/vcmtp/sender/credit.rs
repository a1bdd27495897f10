//! The distance by which the multicast may run ahead of the slowest attentive receiver.
//!
//! VCMTP itself has no flow control in the data plane (4.3.2): it plans rates beforehand. Where no rate
//! is planned, receivers' Progress reports say what they have taken from their socket buffers, and the
//! sender keeps no more bytes beyond that under way than the smallest of the buffers holds, and the paths ([`Path`]).
//!
//! Reports are the receivers' own words, so what one of them can hold up is bounded. It is left behind when it reports
//! nothing new for a while, or takes less than the least rate while it holds the multicast up, and is followed again when it
//! has caught up, but not before a time that doubles when it soon has to be left behind again. A receiver that comes anew is not
//! followed at once while others have come and held the multicast up.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::Duration,
};

use super::{ReceiverId, path::Path};
use crate::Instant;

/// The share of a receive buffer that blocks may fill: the kernel counts each packet's own
/// bookkeeping against the buffer, too, which is nearly as much as a block is long.
const BUFFER_SHARE: u64 = 2;

/// The most runs that the log holds; older ones can no longer be reported.
const MAX_LOG: usize = 65_536;

/// A receiver that has gone well for so many times as long as it was not followed begins with the shortest such time
/// again. The others lose no more than a tenth of their time to one that only feigns it.
const FORGIVEN_AFTER: u32 = 8;

/// No receiver is left behind for longer.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// The bounds on waiting for a receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// [`super::SenderConfig::patience`].
    pub(super) patience: Duration,
    /// [`super::SenderConfig::floor_bytes_a_second`].
    pub(super) floor: Option<u64>,
    /// The number of bytes that are multicast at once. A receiver has to take at least that many in that
    /// time, floor or not.
    pub(super) run_len: u64,
}

#[derive(Debug, Default)]
pub(super) struct Credit {
    /// Bytes multicast so far: the scale on which all receivers are placed.
    total: u64,
    /// The runs that were multicast, with their places on that scale, oldest first. Adjacent runs are one.
    log: VecDeque<Sent>,
    receivers: BTreeMap<ReceiverId, Followed>,
    /// The rest of receivers that come while something is multicast.
    newcomers: Rest,
}

#[derive(Debug)]
struct Sent {
    index: u32,
    bytes: Range<u64>,
    /// The end of `bytes` on the scale.
    end: u64,
}

/// A receiver's report that it has taken the object's multicast bytes up to `position`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub index: u32,
    pub position: u64,
    /// The time at which it says so, on its own clock.
    pub made: Duration,
}

#[derive(Debug)]
struct Followed {
    window: u64,
    path: Path,
    /// The place that the receiver has reached, on the scale.
    taken: u64,
    /// The time since which it holds the multicast up, and has reported nothing new. `None` while it does
    /// not.
    holding_since: Option<Instant>,
    /// The time for which it has held the multicast up before that, since it was at `judged_at` on the scale.
    held: Duration,
    judged_at: u64,
    /// False after it has held the multicast up for too long.
    followed: bool,
    /// Whether it listens to a slower group.
    is_elsewhere: bool,
    /// Whether it came when something had been multicast, and has not been found attentive yet.
    is_new: bool,
    rest: Rest,
}

/// The time until which a receiver that has held the multicast up for too long is not followed.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    until: Instant,
    length: Duration,
}

impl Rest {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    fn begin(&mut self, now: Instant, patience: Duration) {
        let went_well = now.saturating_duration_since(self.until);
        let is_forgiven = went_well >= self.length.saturating_mul(FORGIVEN_AFTER);
        let before = if is_forgiven { patience } else { self.length };
        self.length = before.saturating_mul(2).min(LONGEST_REST);
        self.until = now + self.length;
    }
}

impl Followed {
    /// The number of bytes that may be under way.
    fn room(&self, now: Instant) -> u64 {
        self.window + self.path.bytes(now)
    }

    /// Ends the time for which it has held the multicast up. It does not do so now, or is about to be looked
    /// at anew.
    fn let_go(&mut self, now: Instant) {
        let held = self.holding_since.take().map(|since| now.saturating_duration_since(since));
        self.held = self.held.saturating_add(held.unwrap_or_default());
    }

    /// Whether it has taken enough for the time in which it has held the multicast up, where that is long enough to say.
    fn is_attentive(&mut self, bounds: Bounds) -> bool {
        if self.held < bounds.patience {
            return true;
        }
        let at_floor = u128::from(bounds.floor.unwrap_or(0)) * self.held.as_millis() / 1000;
        let is_enough = u128::from(self.taken - self.judged_at) >= at_floor.max(bounds.run_len.into());
        (self.held, self.judged_at) = (Duration::ZERO, self.taken);
        self.is_new &= !is_enough;
        is_enough
    }

    /// Leaves the receiver behind until it has caught up and its rest is over. Returns whether it is one that
    /// came anew.
    fn leave_behind(&mut self, now: Instant, patience: Duration) -> bool {
        (self.followed, self.holding_since) = (false, None);
        self.rest.begin(now, patience);
        std::mem::take(&mut self.is_new)
    }

    fn follow(&mut self) {
        (self.followed, self.held, self.judged_at) = (true, Duration::ZERO, self.taken);
    }
}

impl Credit {
    pub(super) fn join(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        receive_buffer_bytes: u32,
        round_trip: Duration,
    ) {
        let followed = Followed {
            window: u64::from(receive_buffer_bytes) / BUFFER_SHARE,
            path: Path::new(round_trip),
            taken: self.total,
            holding_since: None,
            held: Duration::ZERO,
            judged_at: self.total,
            followed: self.newcomers.is_over(now),
            is_elsewhere: false,
            is_new: self.total > 0,
            rest: self.newcomers,
        };
        self.receivers.insert(receiver, followed);
    }

    pub(super) fn leave(&mut self, now: Instant, receiver: ReceiverId, bounds: Bounds) {
        let Some(mut gone) = self.receivers.remove(&receiver) else { return };
        gone.let_go(now);
        if gone.is_new && !gone.held.is_zero() {
            self.newcomers.begin(now, bounds.patience);
        }
    }

    /// Blocks have been multicast.
    pub(super) fn sent(&mut self, index: u32, bytes: Range<u64>) {
        self.total += bytes.end - bytes.start;
        match self.log.back_mut() {
            Some(last) if last.index == index && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
                last.end = self.total;
            }
            _ => self.log.push_back(Sent { index, bytes, end: self.total }),
        }
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
        }
    }

    /// A receiver reports what it has taken.
    pub(super) fn report(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        Taken { index, position, made }: Taken,
        bounds: Bounds,
    ) {
        let Some(followed) = self.receivers.get_mut(&receiver) else { return };
        let newer = self.log.iter().rev().take_while(|sent| sent.end > followed.taken);
        let place = newer
            .filter(|sent| sent.index == index && sent.bytes.start < position)
            .map(|sent| sent.end - sent.bytes.end.saturating_sub(position))
            .next();
        let Some(place) = place.filter(|place| *place > followed.taken) else { return };
        followed.taken = place;
        followed.path.report(now, made, place);
        followed.let_go(now);
        if !followed.followed {
            let has_caught_up = self.total - place <= followed.room(now);
            if has_caught_up && followed.rest.is_over(now) && !followed.is_elsewhere {
                followed.follow();
            }
        } else if !followed.is_attentive(bounds) && followed.leave_behind(now, bounds.patience) {
            self.newcomers.begin(now, bounds.patience);
        }
    }

    /// The receiver listens to a slower group: the first one does not wait for it.
    pub(super) fn wait_no_more(&mut self, now: Instant, receiver: ReceiverId) {
        if let Some(followed) = self.receivers.get_mut(&receiver) {
            followed.let_go(now);
            (followed.followed, followed.is_elsewhere) = (false, true);
        }
    }

    /// The receiver listens to the first group again.
    pub(super) fn wait_for(&mut self, now: Instant, receiver: ReceiverId) {
        if let Some(followed) = self.receivers.get_mut(&receiver) {
            (followed.is_elsewhere, followed.taken) = (false, self.total);
            if followed.rest.is_over(now) {
                followed.follow();
            }
        }
    }

    /// Notes that nothing of the multicast lies in this receiver's buffer, because none of it has come.
    pub(super) fn unheard(&mut self, receiver: ReceiverId) {
        if let Some(followed) = self.receivers.get_mut(&receiver) {
            (followed.taken, followed.holding_since) = (self.total, None);
        }
    }

    /// The receiver that has taken least of those that hold the multicast up.
    pub(super) fn held_up_by(&self) -> Option<ReceiverId> {
        let holding = self
            .receivers
            .iter()
            .filter(|(_, receiver)| receiver.followed && receiver.holding_since.is_some());
        holding.min_by_key(|(_, receiver)| receiver.taken).map(|(receiver, _)| *receiver)
    }

    /// Whether another run may be multicast now; if not, when a silent receiver is left behind.
    pub(super) fn check(&mut self, now: Instant, bounds: Bounds) -> Result<(), Instant> {
        let mut wait_until = None;
        for receiver in self.receivers.values_mut().filter(|receiver| receiver.followed) {
            let under_way = self.total - receiver.taken;
            if under_way == 0 {
                receiver.path.rest(now);
            }
            if under_way == 0 || under_way + bounds.run_len <= receiver.room(now) {
                receiver.let_go(now);
                continue;
            }
            let deadline = *receiver.holding_since.get_or_insert(now) + bounds.patience;
            if deadline <= now {
                if receiver.leave_behind(now, bounds.patience) {
                    self.newcomers.begin(now, bounds.patience);
                }
                continue;
            }
            wait_until = Some(wait_until.map_or(deadline, |other: Instant| other.min(deadline)));
        }
        wait_until.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const PATIENCE: Duration = Duration::from_millis(100);
    const A: ReceiverId = ReceiverId(1);
    const B: ReceiverId = ReceiverId(2);

    fn credit() -> Credit {
        let mut credit = Credit::default();
        credit.join(at(0), A, 2_000, Duration::ZERO);
        credit.join(at(0), B, 4_000, Duration::ZERO);
        credit
    }

    fn bounds(run_len: u64) -> Bounds {
        Bounds { patience: PATIENCE, floor: None, run_len }
    }

    fn check(credit: &mut Credit, now: Instant, run_len: u64) -> Result<(), Instant> {
        credit.check(now, bounds(run_len))
    }

    /// A report that comes when it is made.
    fn taken(now: Instant, index: u32, position: u64) -> Taken {
        Taken { index, position, made: now - Instant::ZERO }
    }

    /// Reports at a time when no receiver has held the multicast up for long.
    fn report(credit: &mut Credit, receiver: ReceiverId, index: u32, position: u64) {
        credit.report(at(0), receiver, taken(at(0), index, position), bounds(0));
    }

    /// The number of bytes that are multicast in a minute, in runs of 1,000 bytes, one a millisecond at most.
    /// Receiver A acts every 10 ms: it is told what is multicast so far.
    fn in_a_minute(bounds: Bounds, mut act: impl FnMut(&mut Credit, Instant, u64)) -> u64 {
        let mut credit = Credit::default();
        credit.join(at(0), A, 40_000, Duration::ZERO);
        let mut total = 0;
        for millis in 0..60_000 {
            if credit.check(at(millis), bounds).is_ok() {
                credit.sent(0, total..total + bounds.run_len);
                total += bounds.run_len;
            }
            if millis % 10 == 9 {
                act(&mut credit, at(millis), total);
            }
        }
        total
    }

    const RUNS: Bounds = Bounds { patience: PATIENCE, floor: None, run_len: 1_000 };

    #[test]
    fn a_receiver_that_creeps_costs_the_others_hardly_anything() {
        let mut position = 0;
        let total = in_a_minute(RUNS, |credit, now, _| {
            position += 1;
            credit.report(now, A, taken(now, 0, position), RUNS);
        });
        assert!(total > 59_000_000, "{total}");
    }

    #[test]
    fn a_receiver_that_feigns_to_catch_up_after_each_halt_costs_a_tenth_at_most() {
        let mut halts = 0;
        let total = in_a_minute(RUNS, |credit, now, total| {
            if credit.receivers[&A].followed && credit.receivers[&A].rest.is_over(now) {
                halts += 1;
            } else {
                credit.report(now, A, taken(now, 0, total), RUNS);
            }
        });
        assert!(halts > 0 && total > 54_000_000, "{total}");
    }

    #[test]
    fn who_come_and_go_cost_the_others_hardly_anything() {
        let mut number = 10;
        let total = in_a_minute(RUNS, |credit, now, total| {
            credit.report(now, A, taken(now, 0, total), RUNS);
            credit.leave(now, ReceiverId(number), RUNS);
            number += 1;
            credit.join(now, ReceiverId(number), 0, Duration::ZERO);
        });
        assert!(total > 50_000_000, "{total}");
    }

    #[test]
    fn who_takes_less_than_the_floor_is_not_waited_for_and_who_takes_more_is() {
        let rate = |floor| {
            let bounds = Bounds { floor: Some(floor), ..RUNS };
            let mut position = 0;
            // 100 kB a second.
            let creep = |credit: &mut Credit, now: Instant, _| {
                position += 1_000;
                credit.report(now, A, taken(now, 0, position), bounds);
            };
            in_a_minute(bounds, creep) / 60
        };
        assert!((99_000..102_000).contains(&rate(90_000)), "{}", rate(90_000));
        assert!(rate(130_000) > 990_000, "{}", rate(130_000));
    }

    #[test]
    fn who_has_heard_nothing_does_not_hold_the_multicast_up() {
        let mut credit = credit();
        credit.sent(0, 0..1_000);
        assert_eq!(check(&mut credit, at(0), 101), Err(at(100)));
        credit.unheard(A);
        assert_eq!(check(&mut credit, at(0), 101), Ok(()));
        report(&mut credit, B, 0, 1_000);
        credit.sent(0, 1_000..2_000);
        assert_eq!(check(&mut credit, at(0), 101), Err(at(100)), "it is followed as before");
        assert_eq!(credit.held_up_by(), Some(A));
    }

    #[test]
    fn half_of_the_smallest_buffer_may_be_under_way() {
        let mut credit = credit();
        credit.sent(0, 0..900);
        assert_eq!(check(&mut credit, at(0), 100), Ok(()));
        assert_eq!(credit.held_up_by(), None);
        assert_eq!(check(&mut credit, at(0), 101), Err(at(100)));
        assert_eq!(credit.held_up_by(), Some(A));
        report(&mut credit, A, 0, 500);
        assert_eq!(check(&mut credit, at(1), 101), Ok(()));
    }

    /// The most bytes that are under way to a receiver with a buffer of which 100 kB count, and a round trip of 200 ms. It takes what
    /// has come and reports each 10 ms, but for some time.
    fn most_under_way(bytes_a_milli: u64, stands_still: Range<u64>) -> u64 {
        let bounds = Bounds { patience: Duration::from_secs(60), floor: None, run_len: bytes_a_milli };
        let mut credit = Credit::default();
        credit.join(at(0), A, 200_000, Duration::from_millis(200));
        let (mut totals, mut most) = (vec![0; 200], 0);
        for millis in 0..4_000 {
            let total = totals.last().copied().unwrap_or_default();
            let may_send = credit.check(at(millis), bounds).is_ok();
            if may_send {
                credit.sent(0, total..total + bytes_a_milli);
            }
            totals.push(total + if may_send { bytes_a_milli } else { 0 });
            if millis % 10 == 9 && !stands_still.contains(&millis) {
                credit.report(at(millis), A, taken(at(millis), 0, totals[millis as usize]), bounds);
            }
            most = most.max(credit.total - credit.receivers[&A].taken);
        }
        most
    }

    /// The last report tells of what was taken half a round trip before. One and a half more are waited for, and what leaves in the
    /// half until then.
    #[test]
    fn a_receiver_that_stands_still_gets_no_more_soon() {
        for bytes_a_milli in [200, 400, 1_000] {
            let most = most_under_way(bytes_a_milli, 1_000..4_000);
            assert!(most <= bytes_a_milli * 510, "{most} at {bytes_a_milli} a millisecond");
        }
    }

    /// TCP sends a lost report again after one round trip and a quarter. The receiver has gone on meanwhile.
    #[test]
    fn a_report_that_comes_late_stops_nothing() {
        let most = most_under_way(400, 1_000..1_250);
        assert!(most >= 400 * (250 + 200), "{most}");
    }

    #[test]
    fn a_run_larger_than_the_window_goes_when_nothing_is_under_way() {
        let mut credit = credit();
        assert_eq!(check(&mut credit, at(0), 5_000), Ok(()));
    }

    #[test]
    fn a_receiver_that_is_slow_and_takes_a_run_in_time_holds_the_others_back() {
        let total = {
            let mut position = 0;
            in_a_minute(RUNS, |credit, now, _| {
                position += 110;
                credit.report(now, A, taken(now, 0, position), RUNS);
            })
        };
        assert!((600_000..700_000).contains(&total), "{total}");
    }

    #[test]
    fn a_silent_receiver_is_left_behind_and_followed_again_when_it_has_caught_up() {
        let mut credit = credit();
        credit.sent(0, 0..1_000);
        report(&mut credit, B, 0, 1_000);
        assert_eq!(check(&mut credit, at(10), 500), Err(at(110)));
        assert_eq!(check(&mut credit, at(110), 500), Ok(()));
        credit.sent(0, 1_000..1_500);
        assert_eq!(check(&mut credit, at(111), 500), Ok(()), "it stalls the rest once");
        for (millis, position, expected) in [
            (112, 1_200, Ok(())),
            (309, 1_300, Ok(())),
            // Twice its patience after it was left behind, and within its buffer.
            (310, 1_400, Ok(())),
            (311, 1_400, Ok(())),
        ] {
            credit.report(at(millis), A, taken(at(millis), 0, position), bounds(500));
            assert_eq!(check(&mut credit, at(millis), 500), expected);
        }
        credit.sent(0, 1_500..2_200);
        report(&mut credit, B, 0, 2_200);
        assert_eq!(check(&mut credit, at(312), 500), Err(at(412)), "it is followed again");
    }

    #[test]
    fn reports_about_interleaved_objects_find_their_place() {
        let mut credit = credit();
        credit.sent(0, 0..400);
        credit.sent(1, 0..300);
        credit.sent(0, 400..800);
        report(&mut credit, B, 0, 800);
        report(&mut credit, A, 1, 150);
        assert_eq!(check(&mut credit, at(0), 450), Ok(()), "1100 - 550 are under way");
        assert_eq!(check(&mut credit, at(0), 451), Err(at(100)));
        report(&mut credit, A, 0, 400);
        assert_eq!(check(&mut credit, at(0), 451), Err(at(100)), "an older place changes nothing");
    }

    #[test]
    fn a_report_beyond_what_was_sent_counts_as_all() {
        let mut credit = credit();
        credit.sent(0, 0..900);
        report(&mut credit, A, 0, u64::MAX);
        report(&mut credit, B, 7, u64::MAX);
        assert_eq!(check(&mut credit, at(0), 1_000), Ok(()));
    }
}
