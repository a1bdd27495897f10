//! The repairs that a member, or the sender, is to send, and their times.
//!
//! A repair for the local group waits for a random time, and does not leave when another member was first. A
//! repair that has just been sent is not sent once more for requests that were under way. Repairs for groups
//! below may wait for blocks that are not there yet. Repairs beyond what somebody may ask for
//! ([`super::accounts`]) leave when nothing else does.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_wire::message::Member;

use super::{sorted::SortedMap, states::without};
use crate::{Instant, object::Address};

/// The most repairs that wait in all, and for one member that asks.
const MAX_JOBS: usize = 2_048;
const MAX_JOBS_OF_ONE: usize = 256;

/// The most sent repairs that are remembered, and the least time for which they are.
const MAX_RECENT: usize = 1_024;
const REMEMBERED: Duration = Duration::from_millis(250);

/// The time after which a waiting repair is forgotten. A member that lacks it asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The identity of a repair: object, position and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    object: u32,
    start: u64,
    to: Address,
    is_last: bool,
}

/// A request for bytes of an object, which are sent to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub to: Address,
    pub object: u32,
    pub range: Range<u64>,
    /// The member that has asked.
    pub by: Member,
    /// Whether the repair leaves only when nothing else does.
    pub is_last: bool,
}

impl Job {
    fn key(&self) -> Key {
        Key { object: self.object, start: self.range.start, to: self.to, is_last: self.is_last }
    }
}

/// A repair that waits.
#[derive(Debug, Clone)]
struct Waiting {
    job: Job,
    /// The time at which the repair leaves. `None`: nothing of it is stored yet.
    at: Option<Instant>,
    asked_at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    jobs: SortedMap<Key, Box<Waiting>>,
    /// Repairs of which something is stored. Those that leave last are at the end.
    due: SortedMap<(bool, Instant, Key), ()>,
    jobs_of: SortedMap<Member, usize>,
    recent: VecDeque<(Instant, Address, u32, Range<u64>)>,
    /// The longest `echo` that [`Self::add`] was given.
    longest_echo: Duration,
    next_expiry: Instant,
}

/// The keys of an object's repairs that begin before `end`.
fn keys(object: u32, end: u64) -> std::ops::Range<Key> {
    let key = |start| Key { object, start, to: Address::Session, is_last: false };
    key(0)..key(end)
}

impl Repairs {
    /// Plans a job for the time `at`, unless it was sent to that address within `echo`.
    pub fn add(&mut self, now: Instant, job: &Job, at: Instant, echo: Duration) {
        self.expire(now);
        self.longest_echo = self.longest_echo.max(echo);
        let recent = self.recent.iter().filter(|(sent, address, of, _)| {
            *of == job.object && (*address == job.to || *address == Address::Session) && *sent + echo > now
        });
        let mut sent: Vec<Range<u64>> = recent.map(|(.., range)| range.clone()).collect();
        sent.sort_unstable_by_key(|range| range.start);
        for range in without(&job.range, &sent) {
            let of_one = self.jobs_of.get(&job.by).copied().unwrap_or_default();
            if self.jobs.len() >= MAX_JOBS || of_one >= MAX_JOBS_OF_ONE {
                return;
            }
            let job = Job { range, ..job.clone() };
            self.insert(Waiting { job, at: Some(at), asked_at: now });
        }
    }

    /// Drops repairs that have waited too long, at intervals.
    fn expire(&mut self, now: Instant) {
        if now < self.next_expiry {
            return;
        }
        self.next_expiry = now + PATIENCE / 10;
        let old = self.jobs.iter().filter(|(_, waiting)| now >= waiting.asked_at + PATIENCE);
        let old: Vec<Key> = old.map(|(key, _)| *key).collect();
        for key in old {
            self.take(key);
        }
    }

    fn insert(&mut self, waiting: Waiting) {
        let key = waiting.job.key();
        match self.jobs.get_mut(&key) {
            Some(known) => known.job.range.end = known.job.range.end.max(waiting.job.range.end),
            None => {
                *self.jobs_of.get_or_insert_with(waiting.job.by, usize::default) += 1;
                waiting.at.iter().for_each(|at| self.due.insert((key.is_last, *at, key), ()));
                self.jobs.insert(key, waiting.into());
            }
        }
    }

    fn take(&mut self, key: Key) -> Option<Waiting> {
        let waiting = *self.jobs.remove(&key)?;
        if let Some(at) = waiting.at {
            self.due.remove(&(key.is_last, at, key));
        }
        if let Some(count) = self.jobs_of.get_mut(&waiting.job.by) {
            *count -= 1;
            if *count == 0 {
                self.jobs_of.remove(&waiting.job.by);
            }
        }
        Some(waiting)
    }

    /// Puts back what is left of a repair without these bytes.
    fn put_back(&mut self, waiting: &Waiting, sent: &Range<u64>) {
        for range in without(&waiting.job.range, [sent]) {
            let job = Job { range, ..waiting.job.clone() };
            self.insert(Waiting { job, ..*waiting });
        }
    }

    /// Notes that another member has sent `range` to an address. It is not sent there again.
    pub fn heard(&mut self, now: Instant, to: Address, object: u32, range: &Range<u64>) {
        self.remember(now, to, object, range.clone());
        let is_meant = |job: &Job| (job.to == to || to == Address::Session) && job.range.end > range.start;
        let near = self.jobs.range(keys(object, range.end));
        let meant: Vec<Key> =
            near.filter(|(_, waiting)| is_meant(&waiting.job)).map(|(key, _)| *key).collect();
        for key in meant {
            if let Some(waiting) = self.take(key) {
                self.put_back(&waiting, range);
            }
        }
    }

    /// Notes that bytes are stored now. Repairs that wait for them can leave.
    pub fn came(&mut self, now: Instant, object: u32, range: &Range<u64>) {
        for (key, waiting) in self.jobs.range_mut(keys(object, range.end)) {
            if waiting.at.is_none() && waiting.job.range.end > range.start {
                waiting.at = Some(now);
                self.due.insert((key.is_last, now, *key), ());
            }
        }
    }

    fn remember(&mut self, now: Instant, to: Address, object: u32, range: Range<u64>) {
        let remembered = self.longest_echo.max(REMEMBERED);
        while self.recent.front().is_some_and(|(sent, ..)| *sent + remembered < now) {
            self.recent.pop_front();
        }
        match self.recent.back_mut() {
            Some((sent, address, of, last))
                if *address == to && *of == object && last.end == range.start && *sent == now =>
            {
                last.end = range.end;
            }
            _ => {
                if self.recent.len() == self.recent.capacity() {
                    // A simulation of many receivers has no memory for the double.
                    self.recent.reserve_exact(4 + self.recent.len() / 8);
                }
                self.recent.push_back((now, to, object, range));
            }
        }
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
    }

    /// Takes the next repair whose time has come and of which something is there; `with_last` says whether those may leave that leave
    /// last. `held` says what is there of a range of an object, in order. At most `most` bytes of it are taken; the rest waits.
    pub fn next(
        &mut self,
        now: Instant,
        most: u64,
        with_last: bool,
        held: impl Fn(u32, &Range<u64>) -> Vec<Range<u64>>,
    ) -> Option<Job> {
        while let Some(key) = self.first(with_last).filter(|(at, _)| *at <= now).map(|(_, key)| key) {
            let mut waiting = self.take(key)?;
            let there = held(waiting.job.object, &waiting.job.range).into_iter().next();
            let Some(there) = there else {
                waiting.at = None;
                self.insert(waiting);
                continue;
            };
            let range = there.start..there.end.min(there.start.saturating_add(most));
            self.put_back(&waiting, &range);
            return Some(Job { range, ..waiting.job });
        }
        None
    }

    /// The next repair, and its time.
    fn first(&self, with_last: bool) -> Option<(Instant, Key)> {
        let of = |is_last: bool| {
            let least = Key { object: 0, start: 0, to: Address::Session, is_last: false };
            let mut these = self.due.from((is_last, Instant::ZERO, least));
            these.next().filter(|((last, ..), ())| *last == is_last).map(|((_, at, key), ())| (*at, *key))
        };
        match (of(false), with_last.then(|| of(true)).flatten()) {
            // Those that leave last wait until no other is left.
            (None, last) => last,
            (first, _) => first,
        }
    }

    /// The time at which the next repair can leave. `None` if none can.
    pub fn deadline(&self, with_last: bool) -> Option<Instant> {
        self.first(with_last).map(|(at, _)| at)
    }

    /// The number of different addresses that a range is to be sent to, without repairs that can wait.
    pub fn addresses(&self, object: u32, range: &Range<u64>) -> usize {
        let near = self.jobs.range(keys(object, range.end));
        let near = near.filter(|(key, waiting)| !key.is_last && waiting.job.range.end > range.start);
        let to: BTreeSet<Address> = near.map(|(key, _)| key.to).collect();
        to.len()
    }

    /// Forgets all repairs of an object that has ended.
    pub fn forget(&mut self, object: u32) {
        self.forget_those(|key| key.object == object);
    }

    /// Forgets all repairs.
    pub fn clear(&mut self) {
        if self.jobs.first().is_some() {
            *self = Self::default();
        }
    }

    /// Forgets all repairs for an address.
    pub fn forget_address(&mut self, to: Address) {
        self.forget_those(|key| key.to == to);
    }

    fn forget_those(&mut self, is_meant: impl Fn(&Key) -> bool) {
        let meant: Vec<Key> = self.jobs.iter().map(|(key, _)| *key).filter(|key| is_meant(key)).collect();
        for key in meant {
            self.take(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::GroupId;

    use super::*;

    const HERE: Address = Address::Group(GroupId(1));
    const BELOW: Address = Address::Group(GroupId(2));
    const ECHO: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn member(number: u16) -> Member {
        Member(([192, 0, 2, 1], number).into())
    }

    fn all(_: u32, range: &Range<u64>) -> Vec<Range<u64>> {
        vec![range.clone()]
    }

    fn next(repairs: &mut Repairs, now: Instant) -> Option<(Address, Range<u64>)> {
        repairs.next(now, 1_000, true, all).map(|job| (job.to, job.range))
    }

    fn add(repairs: &mut Repairs, now: u64, (to, range): (Address, Range<u64>), at_millis: u64) {
        let job = Job { to, object: 1, range, by: member(1), is_last: false };
        repairs.add(at(now), &job, at(at_millis), ECHO);
    }

    #[test]
    fn a_repair_that_another_sends_first_does_not_leave() {
        let mut repairs = Repairs::default();
        add(&mut repairs, 0, (HERE, 0..300), 5);
        assert_eq!(next(&mut repairs, at(4)), None);
        repairs.heard(at(4), HERE, 1, &(100..200));
        assert_eq!(next(&mut repairs, at(5)), Some((HERE, 0..100)));
        assert_eq!(next(&mut repairs, at(5)), Some((HERE, 200..300)));
        assert_eq!(next(&mut repairs, at(9)), None);
    }

    #[test]
    fn requests_that_crossed_the_repair_are_passed_over() {
        let mut repairs = Repairs::default();
        repairs.heard(at(0), HERE, 1, &(0..100));
        add(&mut repairs, 9, (HERE, 0..150), 9);
        assert_eq!(next(&mut repairs, at(9)), Some((HERE, 100..150)));
        add(&mut repairs, 10, (HERE, 0..100), 10);
        assert_eq!(next(&mut repairs, at(10)), Some((HERE, 0..100)));
    }

    #[test]
    fn a_group_below_is_sent_what_comes_later() {
        let mut repairs = Repairs::default();
        add(&mut repairs, 0, (BELOW, 0..100), 0);
        assert_eq!(repairs.next(at(1), 1_000, true, |_, _| vec![]), None);
        assert_eq!(repairs.deadline(true), None);
        repairs.came(at(2), 1, &(100..200));
        assert_eq!(repairs.deadline(true), None);
        repairs.came(at(2), 1, &(90..200));
        assert_eq!(repairs.deadline(true), Some(at(2)));
        let job =
            repairs.next(at(2), 30, true, |_, _| std::iter::once(50..100).collect()).map(|job| job.range);
        assert_eq!(job, Some(50..80));
        assert_eq!(next(&mut repairs, at(2)), Some((BELOW, 0..50)));
        assert_eq!(next(&mut repairs, at(2)), Some((BELOW, 80..100)));
    }

    #[test]
    fn what_can_wait_leaves_when_nothing_else_does() {
        let mut repairs = Repairs::default();
        let last = Job { to: HERE, object: 1, range: 0..300, by: member(2), is_last: true };
        repairs.add(at(0), &last, at(0), ECHO);
        add(&mut repairs, 0, (HERE, 100..200), 5);
        assert_eq!(repairs.next(at(4), 1_000, true, all), None, "another one is to leave soon");
        assert_eq!(next(&mut repairs, at(5)), Some((HERE, 100..200)));
        assert_eq!((repairs.next(at(5), 1_000, false, all), repairs.deadline(false)), (None, None));
        repairs.heard(at(5), HERE, 1, &(100..200));
        assert_eq!(next(&mut repairs, at(5)), Some((HERE, 0..100)));
        assert_eq!(next(&mut repairs, at(5)), Some((HERE, 200..300)));
    }

    #[test]
    fn who_asks_for_very_much_gets_a_part_of_it() {
        let mut repairs = Repairs::default();
        (0..10_000).for_each(|block| add(&mut repairs, 0, (HERE, block * 20..block * 20 + 10), 0));
        assert_eq!(repairs.jobs.len(), MAX_JOBS_OF_ONE);
        let job = Job { to: HERE, object: 2, range: 0..10, by: member(2), is_last: false };
        repairs.add(at(0), &job, at(0), ECHO);
        assert_eq!(repairs.jobs.len(), MAX_JOBS_OF_ONE + 1);
        repairs.forget(1);
        assert_eq!((repairs.jobs.len(), repairs.jobs_of.len(), repairs.due.len()), (1, 1, 1));
        repairs.add(at(10_000), &job, at(10_000), ECHO);
        assert_eq!(repairs.jobs.len(), 1, "the old one was forgotten");
    }
}
