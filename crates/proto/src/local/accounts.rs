//! Accounts of how much each member that asks for repairs may be sent at once.
//!
//! A member that asks for no more than a share of the session's rate is served at once. What it asks for beyond that is
//! served when there is nothing else to do. So a member that floods its group with requests holds up nobody, and a
//! member that came late gets everything in the end.

use std::{net::IpAddr, ops::Range, time::Duration};

use treecast_wire::message::Member;

use super::sorted::SortedMap;
use crate::Instant;

/// The time in which an empty account grows to its full size. It does not grow further.
const SAVED: Duration = Duration::from_secs(1);

/// The longest time in which all requests for the losses of one burst come.
const BURST: Duration = Duration::from_millis(500);

/// The longest time of asking for too much that is remembered, and the divisor of the speed at which rests
/// shorten it: a member that floods, rests and floods again is not taken for one with a single burst of
/// losses.
const MOST_BEYOND: Duration = Duration::from_secs(4);
const RESTS: u32 = 8;

/// The blocks that every account allows at least, however slow the session is. A new account has no more, so a member
/// that floods from the start gets only its share.
const LEAST_BLOCKS: u64 = 8;

/// The most accounts that are kept. When all are used, a member without one is served last.
const MAX_ACCOUNTS: usize = 4_096;

/// The bytes that the members at each address may still be sent at once. What they ask for beyond that is sent last.
/// There is one account for each address, because ports cost nothing.
#[derive(Debug)]
pub(super) struct Accounts {
    block_len: u64,
    by_host: SortedMap<IpAddr, (Instant, u64)>,
    beyond: SortedMap<IpAddr, Beyond>,
}

/// The account of a host that has asked for more than its share: for how long, and when it did so last.
#[derive(Debug)]
struct Beyond {
    time: Duration,
    last: Instant,
}

impl Beyond {
    /// The time that is left when the host has rested until now.
    fn rested(&self, now: Instant) -> Duration {
        self.time.saturating_sub((now - self.last) / RESTS)
    }

    fn note(&mut self, now: Instant) {
        let since = now - self.last;
        let time = if since < SAVED { self.time + since } else { self.rested(now) };
        (self.time, self.last) = (time.min(MOST_BEYOND), now);
    }
}

impl Accounts {
    pub fn new(block_len: u16) -> Self {
        let (by_host, beyond) = (SortedMap::default(), SortedMap::default());
        Self { block_len: block_len.max(1).into(), by_host, beyond }
    }

    /// Splits the ranges that a member asks for into a part to send at once and a part to send last. The ranges are
    /// ascending and consist of whole blocks. The member's account grows by `rate_bps` bits a second.
    pub fn split(
        &mut self,
        now: Instant,
        by: Member,
        asked: Vec<Range<u64>>,
        rate_bps: u64,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let host = by.0.ip();
        let bytes = |time: Duration| (rate_bps as f64 / 8.0 * time.as_secs_f64()) as u64;
        let least = LEAST_BLOCKS * self.block_len;
        let most = bytes(SAVED).max(least);
        if self.by_host.len() >= MAX_ACCOUNTS && !self.by_host.contains_key(&host) {
            self.by_host.retain(|_, (since, left)| left.saturating_add(bytes(now - *since)) < most);
            if self.by_host.len() >= MAX_ACCOUNTS {
                return (Vec::new(), asked);
            }
        }
        let (since, left) = self.by_host.get_or_insert_with(host, || (now, least));
        let grown = bytes(now - *since);
        // Less than a byte is not thrown away.
        if grown > 0 {
            (*since, *left) = (now, left.saturating_add(grown).min(most));
        }
        let (mut at_once, mut last) = (Vec::new(), Vec::new());
        for range in asked {
            let blocks = *left / self.block_len * self.block_len;
            let end = range.end.min(range.start.saturating_add(blocks));
            *left -= end - range.start;
            at_once.extend(Some(range.start..end).filter(|range| !range.is_empty()));
            last.extend(Some(end..range.end).filter(|range| !range.is_empty()));
        }
        if !last.is_empty() {
            self.beyond.retain(|_, beyond| now < beyond.last + SAVED || !beyond.rested(now).is_zero());
            self.beyond.get_or_insert_with(host, || Beyond { time: Duration::ZERO, last: now }).note(now);
        }
        (at_once, last)
    }

    /// Whether somebody asks for more than its share again and again. One burst of losses is no flood.
    pub fn is_beyond(&self, now: Instant, member: Member) -> bool {
        let is_flood = |beyond: &Beyond| beyond.time >= BURST && now < beyond.last + SAVED;
        self.beyond.get(&member.0.ip()).is_some_and(is_flood)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_more_than_its_share_is_served_last() {
        let mut accounts = Accounts::new(10);
        let member = |number: u8| Member(([192, 0, 2, number], u16::from(number)).into());
        let mut split = |millis: u64, by: u8, asked: &[Range<u64>]| {
            accounts.split(at(millis), member(by), asked.to_vec(), 8_000)
        };
        assert_eq!(split(0, 1, &[0..50, 200..300]), (vec![0..50, 200..230], vec![230..300]));
        assert_eq!(split(105, 1, &[0..300]), (vec![0..100], vec![100..300]), "whole blocks");
        assert_eq!(split(110, 2, &[0..80]), (vec![0..80], vec![]), "another one has an account of its own");
        assert_eq!(split(9_000, 1, &[0..5_000]), (vec![0..1_000], vec![1_000..5_000]), "a second is saved");
        assert!(!accounts.is_beyond(at(9_000), member(1)), "one burst");
        accounts.split(at(9_500), member(1), vec![0..5_000], 8_000);
        assert!(accounts.is_beyond(at(9_500), member(1)) && !accounts.is_beyond(at(10_500), member(1)));
        let other_port = Member(([192, 0, 2, 1], 7_777).into());
        assert_eq!(accounts.split(at(9_501), other_port, vec![0..300], 8_000), (vec![], vec![0..300]));
    }

    #[test]
    fn who_rests_between_floods_is_beyond_its_share() {
        let (mut accounts, member) = (Accounts::new(10), Member(([192, 0, 2, 1], 1).into()));
        let mut flood = |from: u64| {
            (0..=4)
                .for_each(|part| _ = accounts.split(at(from + part * 100), member, vec![0..50_000], 8_000));
            accounts.is_beyond(at(from + 400), member)
        };
        assert_eq!([0, 1_500, 3_000].map(&mut flood), [false, true, true]);
        assert_eq!([60_000, 120_000].map(&mut flood), [false, false], "single bursts of losses");
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }
}
