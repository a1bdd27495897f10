//! The members that report to a controller or to the sender, and the controllers of the groups below.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use treecast_wire::message::{GroupId, LocalJoin, LocalObject, LocalReport, Member};

use super::{share_of, states};
use crate::Instant;

/// The most members of a local group besides its controller.
pub const MAX_MEMBERS: usize = 24;

/// The most groups directly below a controller; the sender has room for twice as many.
pub const MAX_CHILDREN: usize = 8;

/// The time without a report after which a client counts as gone. A group that loses its controller has another one
/// long before.
const SILENCE: Duration = Duration::from_secs(3);

/// The time without a report after which nobody waits for a client any more. It may have left, and its message of
/// that may be lost.
const QUIET: Duration = Duration::from_millis(1_500);

/// The most receivers for which a controller may speak.
const MAX_BELOW: u32 = 1 << 20;

/// The most objects that one report lists.
const MAX_REPORTED: u32 = 16;

/// The time for which a member, or a group, may report CONGESTION at the sender's lowest rate before it is not heeded
/// any more. An honest receiver leaves after 5 s. A group has longer, because each of its own members has to be dealt
/// with first.
const MEMBER_PATIENCE: Duration = Duration::from_secs(8);
const GROUP_PATIENCE: Duration = Duration::from_secs(16);

/// No round trip is believed to be longer, in microseconds.
const LONGEST_TRIP_US: u32 = 2_000_000;

/// Longer round trips count only up to so many times the median of a group's.
const SHORT_TRIP_US: u32 = 20_000;
const MOST_MEDIANS: u32 = 4;

/// The most members that are remembered as not heeded.
const MAX_UNHEEDED: usize = 64;

/// A client of a controller: a member of its group, or the controller of a group below.
#[derive(Debug)]
pub(super) struct Client {
    /// The group that the client is the controller of. `None` for a member.
    pub group: Option<GroupId>,
    pub epoch: u32,
    pub heard: Instant,
    /// The client's last report.
    pub report: LocalReport,
    /// Whether the client has reported since it was admitted. Until then, nothing is known of it.
    has_reported: bool,
    /// The time since which each report of the client has set CONGESTION. `None` if the last one did not.
    congested: Option<Instant>,
}

/// All clients of a controller.
#[derive(Debug, Default)]
pub(super) struct Clients {
    by_member: BTreeMap<Member, Client>,
    /// The time since which the sender has been at its lowest rate. `None` while it sends faster, or if there is no
    /// lowest rate.
    lowest: Option<Instant>,
    /// Members whose CONGESTION does not count: they should have left.
    unheeded: BTreeSet<Member>,
}

impl Clients {
    pub fn len(&self) -> usize {
        self.by_member.len()
    }

    pub fn get(&self, member: Member) -> Option<&Client> {
        self.by_member.get(&member)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Member, &Client)> {
        self.by_member.iter().map(|(member, client)| (*member, client))
    }

    pub fn members(&self) -> impl Iterator<Item = (Member, &Client)> {
        self.iter().filter(|(_, client)| client.group.is_none())
    }

    /// The controllers of the groups below, with their groups.
    pub fn children(&self) -> impl Iterator<Item = (Member, GroupId)> {
        self.iter().filter_map(|(member, client)| Some((member, client.group?)))
    }

    /// Admits a client. The new controller of a known group takes the old one's place.
    pub fn admit(&mut self, now: Instant, member: Member, join: &LocalJoin) {
        let group = (join.group != GroupId::SESSION).then_some(join.group);
        if group.is_some() {
            self.by_member.retain(|other, client| *other == member || client.group != group);
        }
        let known = self.by_member.get(&member).is_some_and(|client| client.group == group);
        if !known {
            let report = LocalReport::new(join.group, group.is_some());
            let epoch = join.epoch;
            let client = Client { group, epoch, heard: now, report, has_reported: false, congested: None };
            self.by_member.insert(member, client);
        }
    }

    /// The epoch of a known group below. It grows with each new controller.
    pub fn epoch(&self, group: GroupId) -> Option<u32> {
        self.iter().find(|(_, client)| client.group == Some(group)).map(|(_, client)| client.epoch)
    }

    /// Takes note of whether the sender sends at its lowest rate.
    pub fn set_lowest(&mut self, now: Instant, is_lowest: bool) {
        self.lowest = is_lowest.then(|| self.lowest.unwrap_or(now));
    }

    /// Takes in a client's report. Returns false if the client is not known.
    pub fn report(&mut self, now: Instant, member: Member, report: &LocalReport) -> bool {
        let Some(client) = self.by_member.get_mut(&member) else { return false };
        client.heard = now;
        client.has_reported = true;
        client.report = report.clone();
        client.report.round_trip_us = report.round_trip_us.min(LONGEST_TRIP_US);
        // A member speaks for itself alone.
        let most = if client.group.is_some() { MAX_BELOW } else { 1 };
        client.report.receivers = report.receivers.min(most);
        client.congested = report.is_congested.then(|| client.congested.unwrap_or(now));
        let patience = if client.group.is_some() { GROUP_PATIENCE } else { MEMBER_PATIENCE };
        let should_have_left = self
            .lowest
            .zip(client.congested)
            .is_some_and(|(lowest, congested)| now >= lowest.max(congested) + patience);
        if should_have_left && self.unheeded.len() < MAX_UNHEEDED {
            self.unheeded.insert(member);
        }
        client.report.is_congested &= !self.unheeded.contains(&member);
        true
    }

    /// Whether anybody is congested who is heeded.
    pub fn are_congested(&self) -> bool {
        self.by_member.values().any(|client| client.report.is_congested)
    }

    pub fn remove(&mut self, member: Member) -> Option<Client> {
        self.by_member.remove(&member)
    }

    pub fn clear(&mut self) {
        self.by_member.clear();
    }

    /// Removes clients that have been silent for [`SILENCE`].
    pub fn expire(&mut self, now: Instant) {
        self.by_member.retain(|_, client| now < client.heard + SILENCE);
    }

    /// The member that would be the best controller: the one that loses least, and among equals the one that is farthest.
    pub fn best(&self) -> Option<(Member, &Client)> {
        let reported = self.members().filter(|(_, client)| client.has_reported);
        reported.min_by_key(|(member, client)| {
            let received = client.report.objects().first().map_or(u64::MAX, |object| object.received);
            (client.report.loss, u64::MAX - u64::from(client.report.done), u64::MAX - received, *member)
        })
    }

    /// Members whose reports have come lately.
    pub fn present(&self, now: Instant) -> impl Iterator<Item = (Member, &Client)> {
        self.iter().filter(move |(_, client)| now < client.heard + QUIET)
    }

    /// The number of objects that have ended at every client. `own` is that number at the controller itself.
    pub fn done(&self, own: u32) -> u32 {
        self.by_member.values().map(|client| client.report.done).fold(own, u32::min)
    }

    /// The longest round trip to a member, in microseconds; 0 when none is known. In a group, a round trip counts only up to a few times the
    /// median, or 20 ms: a member that says that it is far away would stop all others' requests.
    pub fn diameter_us(&self) -> u32 {
        let trips = || self.members().map(|(_, client)| client.report.round_trip_us);
        let longest = trips().max().unwrap_or_default();
        if longest <= SHORT_TRIP_US || self.by_member.len() > 2 * (MAX_MEMBERS + MAX_CHILDREN) {
            return longest;
        }
        let mut trips: Vec<u32> = trips().collect();
        let middle = (trips.len() - 1) / 2;
        let (_, median, _) = trips.select_nth_unstable(middle);
        longest.min(median.saturating_mul(MOST_MEDIANS).max(SHORT_TRIP_US))
    }

    /// The report on the controller and all its clients. `own` is the controller's own report. `states` gives its own
    /// state of an object.
    pub fn aggregated(
        &self,
        own: LocalReport,
        states: impl Fn(u32) -> LocalObject,
        most: u32,
    ) -> LocalReport {
        let done = self.done(own.done);
        let last = most.min(done.saturating_add(MAX_REPORTED));
        let objects = (done..last).map(|object| {
            let mut states = states(object);
            for client in self.by_member.values() {
                match client.group {
                    None => states::add_member(&mut states, &client.report),
                    Some(_) => states::add_group(&mut states, &client.report),
                }
            }
            states
        });
        let reports = || self.by_member.values().map(|client| &client.report);
        let mut report = LocalReport::new(own.group, true).with_objects(objects);
        report.done = done;
        report.is_congested = own.is_congested || reports().any(|report| report.is_congested);
        report.loss = reports().map(|report| report.loss).fold(own.loss, u16::max);
        report.given_up = reports().map(|report| report.given_up).fold(own.given_up, u32::saturating_add);
        report.receivers = reports().map(|report| report.receivers).fold(own.receivers, u32::saturating_add);
        report
    }

    /// The share of packets that the best member loses, from 0 to 1. `None` without members.
    pub fn best_loss(&self) -> Option<f64> {
        self.best().map(|(_, client)| share_of(client.report.loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_that_it_is_far_away_does_not_make_a_group_longer() {
        let mut clients = Clients::default();
        let join = LocalJoin { group: GroupId::SESSION, epoch: 0, stamp_us: 0, loss: 0 };
        for (port, trip_us) in [(1, 6_000), (2, 4_000), (3, u32::MAX)] {
            let member = Member(([192, 0, 2, 1], port).into());
            clients.admit(Instant::ZERO, member, &join);
            let mut report = LocalReport::new(GroupId(1), false);
            report.round_trip_us = trip_us;
            assert!(clients.report(Instant::ZERO, member, &report));
        }
        assert_eq!(clients.diameter_us(), 4 * 6_000);
    }

    #[test]
    fn who_stays_congested_at_the_lowest_rate_is_not_heeded() {
        let (mut clients, member) = (Clients::default(), Member(([192, 0, 2, 1], 1).into()));
        let join = LocalJoin { group: GroupId::SESSION, epoch: 0, stamp_us: 0, loss: 0 };
        let mut report = LocalReport::new(GroupId(1), false);
        report.is_congested = true;
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        clients.admit(at(0), member, &join);
        let reports = |clients: &mut Clients, seconds: std::ops::Range<u64>| {
            seconds.for_each(|second| assert!(clients.report(at(second), member, &report)));
            clients.are_congested()
        };
        assert!(reports(&mut clients, 0..60), "the sender can still send more slowly");
        clients.set_lowest(at(60), true);
        assert!(reports(&mut clients, 60..68));
        assert!(!reports(&mut clients, 68..69));
        clients.set_lowest(at(70), false);
        clients.remove(member);
        clients.admit(at(71), member, &join);
        assert!(!reports(&mut clients, 71..72), "it is the same one");
    }

    #[test]
    fn a_member_speaks_for_one_receiver() {
        let (mut clients, now) = (Clients::default(), Instant::ZERO);
        let mut counted = |group: GroupId| {
            let member = Member(([192, 0, 2, 1], 1 + group.0 as u16).into());
            let mut report = LocalReport::new(group, group != GroupId::SESSION);
            report.receivers = u32::MAX;
            clients.admit(now, member, &LocalJoin { group, epoch: 0, stamp_us: 0, loss: 0 });
            assert!(clients.report(now, member, &report));
            clients.get(member).map(|client| client.report.receivers)
        };
        assert_eq!([GroupId::SESSION, GroupId(7)].map(&mut counted), [Some(1), Some(MAX_BELOW)]);
    }
}
