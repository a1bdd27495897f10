//! The members that report to a controller or to the sender, and the controllers of the groups below.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use treecast_wire::message::{GroupId, LocalJoin, LocalObject, LocalReport, Member};

use super::{REPORT, share_of, states};
use crate::Instant;

/// The most members of a local group besides its controller.
pub const MAX_MEMBERS: usize = 24;

/// The most groups directly below a controller; the sender has room for twice as many.
pub const MAX_CHILDREN: usize = 8;

/// The shortest and the longest time without a report after which a client counts as gone. Between them, it depends on how many of the
/// client's reports have arrived. A group that loses its controller has another one long before.
const SILENCE: Duration = Duration::from_secs(3);
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The chance by which a client may count as gone because all its reports were lost in a row.
const GONE_BY_CHANCE: f64 = 1e-6;

/// The most receivers of one group, its controller among them.
const GROUP: u32 = MAX_MEMBERS as u32 + 1;

/// The time without a report after which nobody waits for a client any more. It may have left, and its message of
/// that may be lost.
const QUIET: Duration = Duration::from_millis(1_500);

/// The most receivers for which a controller may speak.
const MAX_BELOW: u32 = 1 << 20;

/// The most objects that one report lists.
const MAX_REPORTED: u32 = 16;

/// The time for which a member, or a group, may report CONGESTION at the sender's lowest rate before it is not heeded
/// any more. An honest receiver leaves after 5 s. A group has this time for each level below it, because each of its members has
/// to be dealt with first.
const PATIENCE: Duration = Duration::from_secs(8);

/// No round trip is believed to be longer, in microseconds.
const LONGEST_TRIP_US: u32 = 2_000_000;

/// Longer round trips count only up to so many times the median of a group's.
const SHORT_TRIP_US: u32 = 20_000;
const MOST_MEDIANS: u32 = 4;

/// The divisor of the speed at which the time is forgotten for which a client was heeded: one that sets CONGESTION off and on is
/// not heeded for ever.
const FORGETS: u32 = 8;

/// The most controllers that a group can have had without others knowing. What claims more is not believed.
pub(super) const MAX_EPOCHS: u32 = 1_000;

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
    /// The time at which the client was admitted, and the number of its reports since. Nothing is known of it before the first.
    since: Instant,
    reports: u32,
    /// Whether the client has been silent for [`SILENCE`], or has left although its group is not done. It counts for what is done, and for
    /// nothing else.
    is_silent: bool,
    /// The time for which the client has reported CONGESTION at the sender's lowest rate. Other times shorten it slowly.
    congested: Duration,
}

impl Client {
    /// Whether all receivers that the client speaks for have ended `objects` objects.
    fn is_done(&self, objects: u32) -> bool {
        self.report.done >= objects && !self.report.is_partial
    }

    /// The silence after which the client counts as gone.
    fn longest_silence(&self) -> Duration {
        gone_after(self.reports, self.heard - self.since, REPORT)
    }

    /// The number of levels of receivers that the client speaks for: 1 for a member. It is not believed to speak for more than `most`
    /// receivers.
    fn levels(&self, most: u32) -> u32 {
        let receivers = self.report.receivers.min(most);
        let more = std::iter::successors(Some(GROUP), |group| group.checked_mul(MAX_CHILDREN as u32));
        let levels = more.take_while(|group| *group < receivers).count() as u32;
        if self.group.is_some() { levels + 2 } else { 1 }
    }
}

/// All clients of a controller.
#[derive(Debug, Default)]
pub(super) struct Clients {
    by_member: BTreeMap<Member, Client>,
    /// Whether the sender is at its lowest rate, if there is one.
    is_lowest: bool,
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
        self.iter().filter(|(_, client)| client.group.is_none() && !client.is_silent)
    }

    /// Whether there is any member, also a silent one.
    pub fn has_members(&self) -> bool {
        self.by_member.values().any(|client| client.group.is_none())
    }

    /// The controllers of the groups below, with their groups.
    pub fn children(&self) -> impl Iterator<Item = (Member, GroupId)> {
        let present = self.iter().filter(|(_, client)| !client.is_silent);
        present.filter_map(|(member, client)| Some((member, client.group?)))
    }

    /// Admits a client. The new controller of a known group takes the old one's place.
    pub fn admit(&mut self, now: Instant, member: Member, join: &LocalJoin) {
        let group = (join.group != GroupId::SESSION).then_some(join.group);
        if group.is_some() {
            self.by_member.retain(|other, client| *other == member || client.group != group);
        }
        let known = self.by_member.get_mut(&member).filter(|client| client.group == group);
        if let Some(client) = known {
            client.epoch = client.epoch.max(join.epoch);
            client.is_silent = false;
        } else {
            let report = LocalReport::new(join.group, group.is_some());
            let epoch = join.epoch;
            let client = Client {
                group,
                epoch,
                heard: now,
                report,
                since: now,
                reports: 0,
                is_silent: false,
                congested: Duration::ZERO,
            };
            self.by_member.insert(member, client);
        }
    }

    /// Whether a controller may speak for a group below. The one that does keeps the group as long as it is heard, unless it has named the
    /// other one as its successor: any member can claim a group with any epoch. An epoch far beyond the known one is not believed.
    pub fn may_lead(&self, now: Instant, member: Member, join: &LocalJoin) -> Lead {
        let mut all = self.iter();
        let Some((leads, client)) = all.find(|(_, client)| client.group == Some(join.group)) else {
            return Lead::Unknown;
        };
        let later = join.epoch.checked_sub(client.epoch);
        let Some(later) = later.filter(|later| *later < MAX_EPOCHS) else { return Lead::No };
        let is_free = client.is_silent || now >= client.heard + QUIET;
        let is_named = later > 0 && client.report.successor == Some(member);
        if member == leads || is_free || is_named { Lead::Yes } else { Lead::NotYet }
    }

    /// Takes note of whether the sender sends at its lowest rate.
    pub fn set_lowest(&mut self, is_lowest: bool) {
        self.is_lowest = is_lowest;
    }

    /// Takes in a client's report. Returns false if the client is not known.
    pub fn report(&mut self, now: Instant, member: Member, report: &LocalReport) -> bool {
        let most = self.most_receivers(member);
        let Some(client) = self.by_member.get_mut(&member) else { return false };
        let since = (now - client.heard).min(SILENCE);
        client.heard = now;
        client.reports += 1;
        client.is_silent = false;
        client.report = report.clone();
        client.report.round_trip_us = report.round_trip_us.min(LONGEST_TRIP_US);
        // A member speaks for itself alone.
        let most_below = if client.group.is_some() { MAX_BELOW } else { 1 };
        client.report.receivers = report.receivers.min(most_below);
        client.congested = match report.is_congested && self.is_lowest {
            true => client.congested + since,
            false => client.congested.saturating_sub(since / FORGETS),
        };
        let should_have_left = client.congested >= PATIENCE * client.levels(most);
        if !report.is_congested && client.congested.is_zero() {
            self.unheeded.remove(&member);
        } else if should_have_left && self.unheeded.len() < MAX_UNHEEDED {
            self.unheeded.insert(member);
        }
        client.report.is_congested &= !should_have_left && !self.unheeded.contains(&member);
        true
    }

    /// The most receivers that a client may have below it, judged by the others: one level of groups more than any of them has.
    fn most_receivers(&self, member: Member) -> u32 {
        let others = self.iter().filter(|(other, client)| *other != member && client.group.is_some());
        let most = others.map(|(_, client)| client.report.receivers).fold(GROUP, u32::max);
        most.saturating_mul(MAX_CHILDREN as u32)
    }

    /// Whether a client that is heeded is congested.
    pub fn are_congested(&self) -> bool {
        self.by_member.values().any(|client| client.report.is_congested)
    }

    pub fn remove(&mut self, member: Member) -> Option<Client> {
        self.by_member.remove(&member)
    }

    /// Handles that a client leaves. The controller of a group in which others still lack some of `objects` objects makes room for another
    /// controller, and its group is not forgotten. Returns whether the client was known.
    pub fn leave(&mut self, member: Member, objects: u32) -> bool {
        let Some(client) = self.by_member.get_mut(&member) else { return false };
        let has_others = client.reports == 0 || client.report.receivers > 1 || client.report.is_partial;
        client.is_silent = client.group.is_some() && has_others && !client.is_done(objects);
        if !client.is_silent {
            self.by_member.remove(&member);
        }
        true
    }

    pub fn clear(&mut self) {
        self.by_member.clear();
    }

    /// Removes clients that have been silent for so long that they are gone. One that lacks nothing of the session's `objects` objects is
    /// not waited for that long.
    pub fn expire(&mut self, now: Instant, objects: u32) {
        self.by_member.retain(|_, client| {
            client.is_silent |= now >= client.heard + SILENCE;
            client.report.is_congested &= !client.is_silent;
            !client.is_silent || (!client.is_done(objects) && now < client.heard + client.longest_silence())
        });
    }

    /// Whether every receiver below is known to have ended `objects` objects.
    pub fn are_done(&self, objects: u32) -> bool {
        self.by_member.values().all(|client| client.is_done(objects))
    }

    /// The member that would be the best controller: the one that loses least, and among equals the one that is farthest.
    pub fn best(&self) -> Option<(Member, &Client)> {
        let reported = self.members().filter(|(_, client)| client.reports > 0);
        reported.min_by_key(|(member, client)| {
            let received = client.report.objects().first().map_or(u64::MAX, |object| object.received);
            (client.report.loss, u64::MAX - u64::from(client.report.done), u64::MAX - received, *member)
        })
    }

    /// Members whose reports have come lately.
    pub fn present(&self, now: Instant) -> impl Iterator<Item = (Member, &Client)> {
        self.iter().filter(move |(_, client)| now < client.heard + QUIET)
    }

    /// The number of objects that have ended at every client. `own` is that number at the controller itself. 0 while receivers below
    /// are known that have not reported.
    pub fn done(&self, own: u32) -> u32 {
        let is_partial = self.by_member.values().any(|client| client.report.is_partial);
        if is_partial { 0 } else { self.reported_done(own) }
    }

    /// The number of objects that have ended at every receiver that has reported.
    fn reported_done(&self, own: u32) -> u32 {
        self.by_member.values().map(|client| client.report.done).fold(own, u32::min)
    }

    /// The longest round trip to a member, in microseconds; 0 when none is known. In a group, a round trip
    /// counts only up to a few times the median, or 20 ms: a member that says that it is far away would stop
    /// all others' requests.
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
        let done = self.reported_done(own.done);
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
        report.is_partial = reports().any(|report| report.is_partial);
        report.successor = self.best().map(|(member, _)| member);
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

/// Whether a controller may speak for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// No controller speaks for the group.
    Unknown,
    Yes,
    /// Another controller does, and is still heard.
    NotYet,
    No,
}

/// The silence after which the sender of a message every `interval` counts as gone: `arrived` of the messages have come in `time`. That so
/// many are lost in a row has a chance of [`GONE_BY_CHANCE`]. The share that is lost follows from Laplace's rule of succession.
pub(super) fn gone_after(arrived: u32, time: Duration, interval: Duration) -> Duration {
    let sent = 1.0 + time.div_duration_f64(interval);
    let lost = (1.0 - (f64::from(arrived) + 1.0) / (sent + 2.0)).clamp(0.01, 0.99);
    interval.mul_f64(GONE_BY_CHANCE.ln() / lost.ln()).clamp(SILENCE, LONGEST_SILENCE)
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
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        clients.admit(at(0), member, &join);
        let mut reports = |clients: &mut Clients, seconds: std::ops::Range<u64>, is_congested: bool| {
            report.is_congested = is_congested;
            seconds.for_each(|second| assert!(clients.report(at(second), member, &report)));
            clients.are_congested()
        };
        assert!(reports(&mut clients, 0..60, true), "the sender can still send more slowly");
        clients.set_lowest(true);
        assert!(reports(&mut clients, 60..67, true));
        assert!(!reports(&mut clients, 67..68, true));
        assert!(!reports(&mut clients, 68..69, false));
        assert!(!reports(&mut clients, 69..71, true), "one report in between changes nothing");
        clients.remove(member);
        clients.admit(at(71), member, &join);
        assert!(!reports(&mut clients, 71..72, true), "it is the same one");
        assert!(!reports(&mut clients, 72..140, false));
        assert!(reports(&mut clients, 140..141, true), "a minute later, it is believed again");
    }

    #[test]
    fn who_claims_many_levels_is_not_heeded_for_longer() {
        let (mut clients, member, group) =
            (Clients::default(), Member(([192, 0, 2, 1], 1).into()), GroupId(7));
        let mut report = LocalReport::new(group, true);
        (report.receivers, report.is_congested) = (u32::MAX, true);
        clients.admit(Instant::ZERO, member, &LocalJoin { group, epoch: 1, stamp_us: 0, loss: 0 });
        clients.set_lowest(true);
        let mut heeded = 0;
        for second in 0..70 {
            assert!(clients.report(Instant::ZERO + Duration::from_secs(second), member, &report));
            heeded += u32::from(clients.are_congested());
        }
        assert_eq!(heeded, 24, "three levels");
    }

    #[test]
    fn nobody_takes_a_group_from_a_controller_that_is_heard() {
        let (mut clients, group) = (Clients::default(), GroupId(7));
        let member = |number: u16| Member(([192, 0, 2, 1], number).into());
        let join = |epoch: u32| LocalJoin { group, epoch, stamp_us: 0, loss: 0 };
        assert_eq!(clients.may_lead(Instant::ZERO, member(2), &join(1)), Lead::Unknown);
        clients.admit(Instant::ZERO, member(2), &join(3));
        let mut report = LocalReport::new(group, true);
        report.successor = Some(member(3));
        assert!(clients.report(Instant::ZERO, member(2), &report));
        let may = |now: Instant, number, epoch| clients.may_lead(now, member(number), &join(epoch));
        assert_eq!(
            [2, 3, 4, 1_002, 1_003, u32::MAX].map(|epoch| may(Instant::ZERO, 1, epoch)),
            [Lead::No, Lead::NotYet, Lead::NotYet, Lead::NotYet, Lead::No, Lead::No]
        );
        assert_eq!(
            [3, 4].map(|epoch| may(Instant::ZERO, 3, epoch)),
            [Lead::NotYet, Lead::Yes],
            "it is named"
        );
        assert_eq!(may(Instant::ZERO, 2, 3), Lead::Yes);
        let later = Instant::ZERO + QUIET;
        assert_eq!([3, 4, 1_003].map(|epoch| may(later, 1, epoch)), [Lead::Yes, Lead::Yes, Lead::No]);
    }

    #[test]
    fn who_is_seldom_heard_is_waited_for_longer() {
        let after =
            |arrived, seconds| gone_after(arrived, Duration::from_secs(seconds), REPORT).as_secs_f64();
        assert_eq!(after(100, 50), 3.0);
        assert!((6.0..8.0).contains(&after(1, 0)), "{}", after(1, 0));
        assert!((9.0..12.0).contains(&after(50, 50)), "{}", after(50, 50));
        assert_eq!((after(4, 50), after(u32::MAX, 0)), (60.0, 3.0));
    }

    #[test]
    fn a_group_that_is_not_done_is_not_forgotten_with_its_controller() {
        let (mut clients, now, objects) = (Clients::default(), Instant::ZERO, 2);
        let leader = |number: u16| Member(([192, 0, 2, 1], number).into());
        let mut add = |number: u16, receivers, done| {
            let group = GroupId(number.into());
            let mut report = LocalReport::new(group, true);
            (report.receivers, report.done) = (receivers, done);
            clients.admit(now, leader(number), &LocalJoin { group, epoch: 1, stamp_us: 0, loss: 0 });
            assert!(clients.report(now, leader(number), &report));
            assert!(clients.leave(leader(number), objects));
            (clients.are_done(objects), clients.children().count(), clients.len())
        };
        assert_eq!(add(1, 1, 0), (true, 0, 0), "nobody is left in the group");
        assert_eq!(add(2, 3, 2), (true, 0, 0), "nobody lacks anything");
        assert_eq!(add(3, 3, 1), (false, 0, 1));
        let join = LocalJoin { group: GroupId(3), epoch: 2, stamp_us: 0, loss: 0 };
        assert_eq!(clients.may_lead(now, leader(7), &join), Lead::Yes);
        clients.admit(now, leader(7), &join);
        assert_eq!((clients.children().count(), clients.len()), (1, 1));
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
