//! The blocks that a receiver lacks, and the times when it asks for them.
//!
//! A want is a run of blocks that were noticed together. When its time comes, what is still missing of it is asked for. Then
//! it waits for longer than any repair takes. A want that another member asks for meanwhile waits as if it had been asked
//! for by this one.

use std::{ops::Range, time::Duration};

use super::sorted::SortedMap;
use crate::Instant;

/// The most blocks of one want.
const WANT_BLOCKS: u64 = 64;

/// The most wants. Gaps beyond that wait until there is room.
pub(super) const MAX_WANTS: usize = 2_048;

/// The number of times that the wait for an answer is doubled at most. It doubles with each request in vain.
const MAX_DOUBLINGS: u32 = 2;

/// The parts of the wait for an answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// The longest time that a repair takes.
    pub hold: Duration,
    /// A random time that is added, so that members that have heard the same request do not ask together.
    pub spread: Duration,
    /// The longest wait, without `spread`.
    pub most: Duration,
}

impl Wait {
    /// The wait after so many requests.
    pub fn after(self, tries: u32) -> Duration {
        (self.hold * (1 << tries.min(MAX_DOUBLINGS))).min(self.most) + self.spread
    }
}

/// A run of blocks that were missing when they were noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    pub object: u32,
    pub range: Range<u64>,
    /// The time at which the want is next asked for.
    pub at: Instant,
    /// The number of requests for the want so far, by this member or another.
    pub tries: u32,
    /// The number of the last of these requests since which nothing of the want has come, and the bytes that were missing then.
    in_vain: u32,
    left: u64,
    /// The time at which the gap was noticed.
    pub since: Instant,
    /// The time of the last of these requests. `None` before the first.
    asked_at: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Wants {
    by_place: SortedMap<(u32, u64), Want>,
    by_time: SortedMap<(Instant, u32, u64), ()>,
}

impl Wants {
    /// Adds wants for gaps. `at` gives the time of a want's first request. Returns the position up to which gaps were
    /// noted.
    pub fn notice(
        &mut self,
        now: Instant,
        object: u32,
        gap: Range<u64>,
        block_len: u64,
        tries: u32,
        mut at: impl FnMut() -> Instant,
    ) -> u64 {
        let mut from = gap.start;
        let at = at();
        while from < gap.end && self.by_place.len() < MAX_WANTS {
            let to = gap.end.min(from.saturating_add(WANT_BLOCKS * block_len));
            let range = from..to;
            let want =
                Want { object, range, at, tries, in_vain: tries, left: u64::MAX, since: now, asked_at: None };
            if !self.by_place.contains_key(&(object, from)) {
                self.by_time.insert((at, object, from), ());
                self.by_place.insert((object, from), want);
            }
            from = to;
        }
        from
    }

    /// Returns wants of one object that are due before `until`. The caller must say what is left of each, because
    /// nothing else ends a want.
    pub fn due(&self, until: Instant) -> Option<(u32, Vec<Range<u64>>)> {
        let ((_, object, _), ()) = *self.by_time.first().filter(|((at, ..), ())| *at <= until)?;
        let of_object = self.of(object).filter(|want| want.at <= until);
        Some((object, of_object.map(|want| want.range.clone()).collect()))
    }

    pub fn get(&self, object: u32, start: u64) -> Option<&Want> {
        self.by_place.get(&(object, start))
    }

    pub fn remove(&mut self, object: u32, start: u64) {
        if let Some(want) = self.by_place.remove(&(object, start)) {
            self.by_time.remove(&(want.at, object, start));
        }
    }

    /// Notes that a want, of which so many bytes are missing, was asked for. It waits until it is asked for again. The wait
    /// grows only while nothing comes: what is lost of a long answer was not asked for in vain.
    pub fn asked(&mut self, now: Instant, object: u32, start: u64, wait: Wait, left: u64) {
        if let Some(want) = self.by_place.get_mut(&(object, start)) {
            self.by_time.remove(&(want.at, object, start));
            if left < want.left && want.left != u64::MAX {
                want.in_vain = 0;
            }
            (want.left, want.asked_at) = (left, Some(now));
            want.at = want.at.max(now + wait.after(want.in_vain));
            (want.tries, want.in_vain) = (want.tries + 1, want.in_vain + 1);
            self.by_time.insert((want.at, object, start), ());
        }
    }

    /// The time since a want was last asked for of which this range has a part. `None` if nobody has asked for any.
    pub fn asked_since(&self, now: Instant, object: u32, range: &Range<u64>) -> Option<Duration> {
        let wants = self.of(object).take_while(|want| want.range.start < range.end);
        let meant = wants.filter(|want| want.range.end > range.start);
        meant.filter_map(|want| want.asked_at).max().map(|at| now - at)
    }

    /// Notes that another member has asked for a want. A want that waits already is not put off again.
    pub fn suppress(&mut self, now: Instant, object: u32, start: u64, wait: Wait) {
        if let Some(want) = self.get(object, start).filter(|want| want.at <= now + wait.hold / 2) {
            self.asked(now, object, start, wait, want.left);
        }
    }

    /// The wants of an object, in order.
    pub fn of(&self, object: u32) -> impl Iterator<Item = &Want> {
        self.by_place.from((object, 0)).take_while(move |((of, _), _)| *of == object).map(|(_, want)| want)
    }

    /// Forgets the wants of an object that has ended or begins anew.
    pub fn forget(&mut self, object: u32) {
        self.by_place.retain(|(of, _), _| *of != object);
        self.by_time.retain(|(_, of, _), ()| *of != object);
    }

    /// Plans new requests for all wants, at these times. The member that they were requested from is gone.
    pub fn hurry(&mut self, mut at: impl FnMut() -> Instant) {
        self.by_time = SortedMap::default();
        for ((object, start), want) in self.by_place.values_mut() {
            (want.at, want.tries, want.in_vain) = (at(), want.tries.min(1), want.in_vain.min(1));
            self.by_time.insert((want.at, *object, *start), ());
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.by_time.first().map(|((at, ..), ())| *at)
    }

    /// The time at which the oldest want was noticed. `None` without wants.
    pub fn oldest(&self) -> Option<Instant> {
        self.by_place.iter().map(|(_, want)| want.since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_long_gap_is_several_wants_and_their_number_is_bounded() {
        let mut wants = Wants::default();
        let taken = wants.notice(at(0), 1, 100..100 + 130 * 10, 10, 0, || at(5));
        assert_eq!((taken, wants.of(1).count()), (1_400, 3));
        let taken = wants.notice(at(0), 2, 0..u64::MAX, 10, 0, || at(3));
        assert_eq!(taken, (MAX_WANTS as u64 - 3) * 640);
        assert_eq!(wants.deadline(), Some(at(3)));
    }

    #[test]
    fn what_was_asked_for_waits_longer_each_time() {
        let mut wants = Wants::default();
        wants.notice(at(0), 1, 0..10, 10, 0, || at(5));
        assert_eq!(wants.due(at(4)), None);
        assert_eq!(wants.due(at(5)).map(|(object, ranges)| (object, ranges.len())), Some((1, 1)));
        let most = Duration::from_millis(300);
        let wait = Wait { hold: Duration::from_millis(100), spread: Duration::ZERO, most };
        wants.asked(at(5), 1, 0, wait, 10);
        assert_eq!(wants.deadline(), Some(at(105)));
        (10..20).for_each(|time| wants.suppress(at(time), 1, 0, wait));
        assert_eq!(wants.deadline(), Some(at(105)), "it waits already");
        wants.suppress(at(105), 1, 0, wait);
        assert_eq!(wants.deadline(), Some(at(305)));
        wants.asked(at(305), 1, 0, wait, 10);
        assert_eq!(wants.deadline(), Some(at(605)), "no longer than that");
        wants.hurry(|| at(160));
        assert_eq!((wants.deadline(), wants.get(1, 0).map(|want| want.tries)), (Some(at(160)), Some(1)));
        wants.asked(at(605), 1, 0, wait, 4);
        assert_eq!(wants.deadline(), Some(at(705)), "some of it has come");
        wants.forget(1);
        assert_eq!(wants.deadline(), None);
    }
}
