//! What a member, or the sender, is to send again, and when.
//!
//! A repair for the local group waits for a random time, and does not leave when another member was first. What has just
//! been sent again is not sent once more for requests that were under way. Repairs for groups below may wait for blocks
//! that are not there yet.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_wire::message::Member;

use super::states::without;
use crate::{Instant, object::Address};

/// The most repairs that wait, and the most of one who asks.
const MAX_JOBS: usize = 2_048;
const MAX_JOBS_OF_ONE: usize = 256;

/// The most repairs that are remembered, and for how long at least.
const MAX_RECENT: usize = 1_024;
const REMEMBERED: Duration = Duration::from_millis(250);

/// One who asks may be so far ahead of what it may ask for.
const AHEAD: Duration = Duration::from_secs(2);

/// A repair that waits so long for blocks is forgotten: whoever lacks them asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// A repair that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub to: Address,
    pub object: u32,
    pub range: Range<u64>,
    /// When it leaves.
    pub at: Instant,
    /// Who has asked for it.
    pub by: Member,
    asked_at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    jobs: BTreeMap<(u32, u64, Address), Job>,
    jobs_of: BTreeMap<Member, usize>,
    /// Bytes a second that one member may ask for, and when what it has asked for so far will be within that.
    asking_bytes: u64,
    paid_at: BTreeMap<Member, Instant>,
    recent: VecDeque<(Instant, Address, u32, Range<u64>)>,
    /// The longest time for which it was asked what was sent.
    longest_echo: Duration,
}

impl Repairs {
    /// Repairs of which one who asks may have so many bytes a second.
    pub fn new(asking_bytes: u64) -> Self {
        Self { asking_bytes: asking_bytes.max(1), ..Self::default() }
    }

    /// Whether somebody may ask for so many bytes more now: all that was asked for in the last seconds counts.
    pub fn allows(&mut self, now: Instant, by: Member, bytes: u64) -> bool {
        self.paid_at.retain(|_, paid_at| *paid_at > now);
        let paid_at = self.paid_at.get(&by).copied().unwrap_or(now).max(now);
        if paid_at > now + AHEAD {
            return false;
        }
        let time = Duration::from_secs_f64(bytes as f64 / self.asking_bytes as f64);
        self.paid_at.insert(by, paid_at + time);
        true
    }

    /// Somebody lacks `range` and is to be sent it at `at`. What was sent there within `echo` is not sent again.
    pub fn add(
        &mut self,
        now: Instant,
        (to, object, range): (Address, u32, Range<u64>),
        by: Member,
        at: Instant,
        echo: Duration,
    ) {
        self.longest_echo = self.longest_echo.max(echo);
        let recent = self.recent.iter().filter(|(sent, address, of, _)| {
            *of == object && (*address == to || *address == Address::Session) && *sent + echo > now
        });
        let mut sent: Vec<Range<u64>> = recent.map(|(.., range)| range.clone()).collect();
        sent.sort_unstable_by_key(|range| range.start);
        for range in without(&range, &sent) {
            let of_one = self.jobs_of.get(&by).copied().unwrap_or_default();
            if self.jobs.len() >= MAX_JOBS || of_one >= MAX_JOBS_OF_ONE {
                return;
            }
            self.insert(Job { to, object, range, at, by, asked_at: now });
        }
    }

    fn insert(&mut self, job: Job) {
        let key = (job.object, job.range.start, job.to);
        match self.jobs.get_mut(&key) {
            Some(known) if known.range.end >= job.range.end => {}
            Some(known) => known.range.end = job.range.end,
            None => {
                *self.jobs_of.entry(job.by).or_default() += 1;
                self.jobs.insert(key, job);
            }
        }
    }

    fn take(&mut self, key: (u32, u64, Address)) -> Option<Job> {
        let job = self.jobs.remove(&key)?;
        if self.jobs.is_empty() {
            // An empty map keeps its memory, of which a simulation of many receivers has none to spare.
            self.jobs = BTreeMap::new();
        }
        if let Some(count) = self.jobs_of.get_mut(&job.by) {
            *count -= 1;
            if *count == 0 {
                self.jobs_of.remove(&job.by);
            }
        }
        Some(job)
    }

    /// Somebody has sent `range` to an address: it is not sent there again.
    pub fn heard(&mut self, now: Instant, to: Address, object: u32, range: &Range<u64>) {
        self.remember(now, to, object, range.clone());
        let keys = self.jobs.range((object, 0, Address::Session)..(object, range.end, Address::Session));
        let is_meant = |job: &Job| (job.to == to || to == Address::Session) && job.range.end > range.start;
        let keys: Vec<_> = keys.filter(|(_, job)| is_meant(job)).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(job) = self.take(key) else { continue };
            for left in without(&job.range, &[range.clone()]) {
                self.insert(Job { range: left, ..job.clone() });
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
            _ => self.recent.push_back((now, to, object, range)),
        }
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
    }

    /// Takes the next repair whose time has come and of which something is there. `held` says what is there of a range of an
    /// object, in order. At most `most` bytes of it are taken; the rest waits.
    pub fn next(
        &mut self,
        now: Instant,
        most: u64,
        held: impl Fn(u32, &Range<u64>) -> Vec<Range<u64>>,
    ) -> Option<Job> {
        let old: Vec<_> = self.jobs.iter().filter(|(_, job)| now >= job.asked_at + PATIENCE).collect();
        let old: Vec<_> = old.into_iter().map(|(key, _)| *key).collect();
        old.into_iter().for_each(|key| drop(self.take(key)));
        let due = self.jobs.iter().filter(|(_, job)| job.at <= now);
        let mut due: Vec<_> = due.map(|(key, job)| (job.at, *key)).collect();
        due.sort_unstable();
        for (_, key) in due {
            let job = self.jobs.get(&key)?;
            let Some(there) = held(job.object, &job.range).into_iter().next() else { continue };
            let there = there.start..there.end.min(there.start.saturating_add(most));
            let job = self.take(key)?;
            for left in without(&job.range, &[there.clone()]) {
                self.insert(Job { range: left, ..job.clone() });
            }
            return Some(Job { range: there, ..job });
        }
        None
    }

    /// How many different addresses a range is to be sent to.
    pub fn addresses(&self, object: u32, range: &Range<u64>) -> usize {
        let near = self.jobs.range((object, 0, Address::Session)..(object, range.end, Address::Session));
        let mut to: Vec<_> =
            near.filter(|(_, job)| job.range.end > range.start).map(|(_, job)| job.to).collect();
        to.sort_unstable();
        to.dedup();
        to.len()
    }

    /// When the next repair is due that can leave.
    pub fn deadline(&self, held: impl Fn(u32, &Range<u64>) -> Vec<Range<u64>>) -> Option<Instant> {
        let mut by_time: Vec<&Job> = self.jobs.values().collect();
        by_time.sort_unstable_by_key(|job| job.at);
        by_time.into_iter().find(|job| !held(job.object, &job.range).is_empty()).map(|job| job.at)
    }

    /// The object is over.
    pub fn forget(&mut self, object: u32) {
        let keys: Vec<_> = self.jobs.keys().filter(|(of, ..)| *of == object).copied().collect();
        keys.into_iter().for_each(|key| drop(self.take(key)));
    }

    /// Nothing is for this address any more.
    pub fn forget_address(&mut self, to: Address) {
        let keys: Vec<_> = self.jobs.keys().filter(|(.., address)| *address == to).copied().collect();
        keys.into_iter().for_each(|key| drop(self.take(key)));
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
        repairs.next(now, 1_000, all).map(|job| (job.to, job.range))
    }

    #[test]
    fn a_repair_that_another_sends_first_does_not_leave() {
        let mut repairs = Repairs::default();
        repairs.add(at(0), (HERE, 1, 0..300), member(1), at(5), ECHO);
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
        repairs.add(at(9), (HERE, 1, 0..150), member(1), at(9), ECHO);
        assert_eq!(next(&mut repairs, at(9)), Some((HERE, 100..150)));
        repairs.add(at(10), (HERE, 1, 0..100), member(1), at(10), ECHO);
        assert_eq!(next(&mut repairs, at(10)), Some((HERE, 0..100)));
    }

    #[test]
    fn a_group_below_is_sent_what_comes_later() {
        let mut repairs = Repairs::default();
        repairs.add(at(0), (BELOW, 1, 0..100), member(1), at(0), ECHO);
        assert_eq!(repairs.next(at(1), 1_000, |_, _| vec![]), None);
        assert_eq!(repairs.deadline(|_, _| vec![]), None);
        let job = repairs.next(at(2), 30, |_, _| vec![50..100]).map(|job| job.range);
        assert_eq!(job, Some(50..80));
        assert_eq!(next(&mut repairs, at(2)), Some((BELOW, 0..50)));
        assert_eq!(next(&mut repairs, at(2)), Some((BELOW, 80..100)));
    }

    #[test]
    fn who_asks_for_very_much_gets_a_part_of_it() {
        let mut repairs = Repairs::new(1_000);
        assert!(repairs.allows(at(0), member(1), 3_000) && !repairs.allows(at(0), member(1), 1));
        assert!(repairs.allows(at(0), member(2), 1) && repairs.allows(at(1_000), member(1), 1));
        for block in 0..10_000 {
            repairs.add(at(0), (HERE, 1, block * 20..block * 20 + 10), member(1), at(0), ECHO);
        }
        assert_eq!(repairs.jobs.len(), MAX_JOBS_OF_ONE);
        repairs.add(at(0), (HERE, 2, 0..10), member(2), at(0), ECHO);
        assert_eq!(repairs.jobs.len(), MAX_JOBS_OF_ONE + 1);
        repairs.forget(1);
        assert_eq!((repairs.jobs.len(), repairs.jobs_of.len()), (1, 1));
    }
}
