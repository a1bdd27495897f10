//! The choice of receivers for slower groups, so that nobody waits for a slower receiver (`--rate auto` over
//! multicast).
//!
//! Each group of the session has a rate of its own, which its slowest receiver sets. Nothing tells beforehand what the others
//! would bear without that receiver, so a call to a slower group is a *trial*. The slowest ones are called down when all that
//! limit the group have shown themselves, and are few. If the faster group's rate does not grow clearly then, those that limit it
//! now are called down, too, as long as all are few together. Otherwise all are called back, and the next trial waits twice as
//! long. So equal receivers, which all limit the rate in turn, stay together, and nothing is sent twice for them.
//!
//! Receivers come up again when their group is nearly as fast as the next one, or when others of their group
//! limit it and they do not. A receiver that claims to bear little gets that rate in a slower group, and goes
//! back there when it comes again.

use std::{collections::BTreeMap, time::Duration};

use crate::Instant;

/// Number of slower groups in a session, at most. The two highest bits of a packet number are the group, so
/// twice as many do not fit.
pub const MOST_SLOWER: u8 = 3;

/// Time for which a report says that its receiver limits the group. A receiver that has reported keeps silent
/// for a while, so a shorter time forgets receivers that still limit it. Doubled, a receiver that no longer
/// limits the group may delay calls for 20 s more.
const REMEMBERED: Duration = Duration::from_secs(20);
/// Least such time, in round trips. It counts where the round trip is above 67 ms. Doubled, it counts from
/// 33 ms on.
const REMEMBERED_ROUNDS: u32 = 300;

/// Time for which the same receivers must have been the only ones to limit the group before they are called
/// down. None of 100 simulated sessions of equal receivers was split with it. Doubled, the others wait 1 s
/// more for a slow receiver.
const ALL_HEARD: Duration = Duration::from_secs(1);
/// Least such time, in round trips. It counts where the round trip is above 83 ms. Doubled, it counts from
/// 42 ms on.
const ALL_HEARD_ROUNDS: u32 = 12;
/// Number of other receivers that must have said that nothing limits them before any is called down. In a
/// smaller group, all others must have. With fewer, equal receivers were split on a busy host, because one of
/// them alone had been heard. Doubled, calls take longer, because three more must answer.
const ENOUGH_UNLIMITED: usize = 3;
/// Factor within which receivers count as equally slow, and a receiver's report as one about the present
/// rate. Doubled, a receiver that bears nearly four times as much shares the slowest one's group.
const SAME: f64 = 2.0;
/// Weight of a new report in what a receiver is taken to bear, 0 to 1. Higher values believe single reports.
/// Doubled, a receiver that changes is followed in half as many reports, and one wrong report counts twice.
const SMOOTHING: f64 = 0.125;
/// Size of a group for which one receiver may be called down: one in three, and at least one. It bounds what
/// receivers that lie can move. Doubled, slow receivers that are more than a sixth of the group hold up all
/// others.
const FEW: usize = 3;

/// Time after which a trial is judged. The faster group needs it to find its rate. Doubled, a call by mistake
/// is taken back 3 s later.
const TRIAL: Duration = Duration::from_secs(3);
/// Least such time, in round trips. It counts where the round trip is above 150 ms. Doubled, it counts from
/// 75 ms on.
const TRIAL_ROUNDS: u32 = 20;
/// Growth of the faster group's rate that makes a trial worth it, as a factor. Where the sender's link is the
/// limit, three receivers or more gain less than half by it, and are called back. Doubled, a receiver holds
/// the others at a third of what they bear.
const WORTH: f64 = 1.5;
/// Time from a trial that was not worth it to the next one. It doubles each time, up to [`LONGEST_WAIT`].
/// Doubled, trials in vain cost half as much, and a receiver that becomes slow in this time holds up the
/// others for 10 s more.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Longest time between two trials. It bounds both what trials in vain cost a long session and how long a
/// slow receiver holds up the others after many of them. Doubled, each changes by a factor of two.
const LONGEST_WAIT: Duration = Duration::from_secs(640);

/// Share of the faster group's rate, 0 to 1, from which a slower group joins it. Lower values slow down the
/// faster group. Twice as much is above 1, so no group would join a faster one for its rate.
const NEARLY: f64 = 0.9;
/// Time for which a group must have that share. A rate that was reached for a moment is no reason to move.
/// Doubled, receivers that have recovered wait 2 s more.
const NEARLY_FOR: Duration = Duration::from_secs(2);

/// Time after which a receiver that does not limit its slower group tries the faster one. It doubles with
/// each way back. Doubled, a receiver that was called by mistake stays in the slower group for 20 s more.
const FIRST_RETURN: Duration = Duration::from_secs(20);
/// Number of ways back to a faster group for each receiver. The sender's machine refuses more than
/// `MAX_WAYS_BACK`. Doubled, it would refuse some of them.
const MOST_RETURNS: u32 = 7;

/// Time after which a call that is not followed counts as ignored. A receiver that is called down does not
/// hold up the others meanwhile. Doubled, no other receiver is called for 10 s more.
const IGNORED: Duration = Duration::from_secs(10);

/// Number of receivers that have left and are remembered. It bounds memory. Doubled, they take twice as much.
const MOST_KNOWN: usize = 4_096;
/// Time without a limit after which a receiver that limits its group is news, in times of a report's memory.
/// News make the others be asked again. Doubled, the sender waits less often for others, and may call one
/// receiver of several equal ones.
const NEWS_AFTER: u32 = 3;

/// Least time to the end of what is to be sent for which a move is worth it. A move costs some seconds.
/// Doubled, slow receivers hold up the others in the last 10 s.
const SHORTEST_REST: Duration = Duration::from_secs(5);

/// A group as its congestion control sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupView {
    pub rate_bps: u64,
    /// Whether the rate has been found, and is used.
    pub is_found: bool,
    /// The longest round trip to one of its receivers.
    pub round_trip: Duration,
    /// The time for which the group will still have something to send.
    pub rest: Duration,
    /// The receiver whose path limits the rate, as far as it says so.
    pub limited_by: Option<u32>,
}

/// A change of a receiver's group, or of its say in the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The receiver is to be told that it belongs into this group.
    Call { receiver: u32, group: u8 },
    /// The receiver is not to limit the rate of its group any more: it is called to a slower one, or ignores calls.
    LeaveOut { receiver: u32 },
}

/// Decides which receiver belongs into which group.
#[derive(Debug, Default)]
pub struct SlowerGroups {
    members: BTreeMap<u32, Member>,
    /// The records of receivers that have left, by their identities.
    known: BTreeMap<u64, Known>,
    /// The groups at the last look.
    seen: Vec<GroupView>,
    trial: Option<Trial>,
    /// The time for which a report counts.
    memory: Duration,
    /// The time when the next trial may begin, and the wait after it if it fails.
    next_trial: Instant,
    wait: Duration,
    /// The time since which the same few limit a group, and the others are asked whether something limits
    /// them, too. One for each group.
    asks_since: [Option<Instant>; MOST_SLOWER as usize + 1],
    /// The time since which a group is nearly as fast as the one before. One for each group.
    nearly: [Option<Instant>; MOST_SLOWER as usize + 1],
}

/// The part of a receiver's record that outlives its connection.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    group: u8,
    returns: u32,
    is_deaf: bool,
}

#[derive(Debug, Default)]
struct Member {
    who: u64,
    group: u8,
    since: Instant,
    /// The time when the receiver was last heard to limit its group, and the rate that it bears, in bits a
    /// second.
    limits: Option<(Instant, f64)>,
    /// The time when the receiver last said that nothing limits it, or that it bears clearly more than the
    /// rate.
    unlimited: Option<Instant>,
    /// The group that the receiver is called to, and the time of the call.
    called: Option<(u8, Instant)>,
    /// Whether the receiver ignores calls, and whether it is left out.
    is_deaf: bool,
    is_left_out: bool,
    returns: u32,
    /// The group in which the receiver was when it left.
    belongs: u8,
}

/// Receivers that were called down, to see what the others bear without them.
#[derive(Debug)]
struct Trial {
    from: u8,
    receivers: Vec<u32>,
    before_bps: f64,
    /// The time when the last of them has moved.
    moved: Option<Instant>,
}

/// # What happens
impl SlowerGroups {
    /// A receiver has joined, in the first group. `who` is the same when it comes again.
    pub fn joined(&mut self, now: Instant, receiver: u32, who: u64) {
        let Known { group: belongs, returns, is_deaf } = self.known.get(&who).copied().unwrap_or_default();
        self.members
            .insert(receiver, Member { who, since: now, belongs, returns, is_deaf, ..Member::default() });
    }

    pub fn left(&mut self, receiver: u32) {
        let Some(Member { who, group, returns, is_deaf, .. }) = self.members.remove(&receiver) else {
            return;
        };
        let is_worth_it = group > 0 || returns > 0 || is_deaf;
        if is_worth_it && (self.known.len() < MOST_KNOWN || self.known.contains_key(&who)) {
            self.known.insert(who, Known { group, returns, is_deaf });
        }
    }

    /// A receiver is in another group.
    pub fn moved(&mut self, now: Instant, receiver: u32, group: u8) {
        let Some(member) = self.members.get_mut(&receiver) else { return };
        member.returns += u32::from(group < member.group);
        (member.group, member.since) = (group, now);
        (member.limits, member.unlimited, member.called) = (None, None, None);
        (member.belongs, member.is_deaf, member.is_left_out) = (0, false, false);
    }

    /// A receiver says what it bears, in bits a second, or that nothing has limited it lately.
    pub fn reported(&mut self, now: Instant, receiver: u32, bears_bps: Option<f64>) {
        let Some(member) = self.members.get_mut(&receiver) else { return };
        let Some(bears_bps) = bears_bps else {
            member.unlimited = Some(now);
            return;
        };
        let view = self.seen.get(usize::from(member.group));
        // At the start, each receiver bears what has arrived so far.
        if view.is_some_and(|view| !view.is_found) {
            return;
        }
        let before = member.limits(now, self.memory);
        let is_new = member.limits(now, self.memory * NEWS_AFTER).is_none();
        let bears_bps = before.map_or(bears_bps, |before| before + (bears_bps - before) * SMOOTHING);
        // A receiver that bears clearly more than the rate does not limit it, and one that bears clearly less would have lowered it.
        let rate_bps = view.map_or(f64::INFINITY, |view| view.rate_bps as f64);
        let is_above = bears_bps > rate_bps * SAME;
        (member.limits, member.unlimited) = (Some((now, bears_bps)), is_above.then_some(now));
        let is_about_it = bears_bps * SAME >= rate_bps && bears_bps <= rate_bps * SAME;
        if is_new
            && is_about_it
            && let Some(since) = self.asks_since.get_mut(usize::from(member.group))
        {
            *since = None;
        }
    }

    /// Whether all members of a group are to say what limits them.
    pub fn asks(&self, group: u8) -> bool {
        self.asks_since.get(usize::from(group)).is_some_and(Option::is_some)
    }
}

/// # What is to be done
impl SlowerGroups {
    /// Looks at the groups, fastest first.
    pub fn look(&mut self, now: Instant, groups: &[GroupView]) -> Vec<Order> {
        // Of a group without members, no round trip is known.
        let used = (0..).zip(groups).filter(|(group, _)| self.of(*group).next().is_some());
        let longest = used.map(|(_, view)| view.round_trip).max().unwrap_or_default();
        self.memory = REMEMBERED.max(longest * REMEMBERED_ROUNDS);
        self.seen = groups.to_vec();
        let mut orders = self.leave_out_deaf(now);
        if self.members.values().any(|member| member.called.is_some()) {
            return orders;
        }
        let mut calls = self.call_known(groups);
        if calls.is_empty() {
            calls = self.judge(now, groups);
        }
        if calls.is_empty() && self.trial.is_none() {
            calls = self.call_up(now, groups);
            if calls.is_empty() && now >= self.next_trial {
                let faster = (0..groups.len().saturating_sub(1) as u8).rev();
                calls = faster
                    .map(|from| self.begin_trial(now, groups, from))
                    .find(|calls| !calls.is_empty())
                    .unwrap_or_default();
            }
        }
        for (receiver, group) in calls {
            orders.push(Order::Call { receiver, group });
            let Some(member) = self.members.get_mut(&receiver) else { continue };
            member.called = Some((group, now));
            // The others need not wait until it has moved.
            if group > member.group && !std::mem::replace(&mut member.is_left_out, true) {
                orders.push(Order::LeaveOut { receiver });
            }
        }
        orders
    }

    fn leave_out_deaf(&mut self, now: Instant) -> Vec<Order> {
        let mut orders = Vec::new();
        for (receiver, member) in &mut self.members {
            if member.called.is_some_and(|(_, since)| now - since >= IGNORED) {
                (member.called, member.is_deaf) = (None, true);
            }
            if member.is_deaf && !std::mem::replace(&mut member.is_left_out, true) {
                orders.push(Order::LeaveOut { receiver: *receiver });
            }
        }
        orders
    }

    /// The receivers that have come again, and were in a slower group before.
    fn call_known(&mut self, groups: &[GroupView]) -> Vec<(u32, u8)> {
        let most = groups.len().saturating_sub(1) as u8;
        let first = groups.first().filter(|view| view.rest >= SHORTEST_REST);
        let known = self.members.iter_mut().filter(|(_, member)| member.belongs > 0 && first.is_some());
        known.map(|(receiver, member)| (*receiver, std::mem::take(&mut member.belongs).min(most))).collect()
    }

    /// Ends a trial when it is time. Returns the receivers that go back, because it was not worth it.
    fn judge(&mut self, now: Instant, groups: &[GroupView]) -> Vec<(u32, u8)> {
        let Some(mut trial) = self.trial.take() else { return Vec::new() };
        let Some(view) = groups.get(usize::from(trial.from)) else { return Vec::new() };
        let moved = *trial.moved.get_or_insert(now);
        if now - moved < TRIAL.max(view.round_trip * TRIAL_ROUNDS) {
            self.trial = Some(trial);
            return Vec::new();
        }
        let is_worth = view.rate_bps as f64 >= trial.before_bps * WORTH;
        self.asks_since[usize::from(trial.from)] = None;
        if is_worth || view.rest < SHORTEST_REST {
            (self.wait, self.next_trial) = (FIRST_WAIT, now);
            return Vec::new();
        }
        // Receivers that limit the group now may do so in the place of those that were called.
        let is_there = |one: &u32| self.members.get(one).is_some_and(|member| member.group > trial.from);
        trial.receivers.retain(is_there);
        let most = Self::few(self.of(trial.from).count() + trial.receivers.len());
        let more = self.slowest(now, trial.from, view);
        if !more.is_empty() && more.len() + trial.receivers.len() <= most {
            let calls = more.iter().map(|receiver| (*receiver, trial.from + 1)).collect();
            trial.receivers.extend(more);
            self.trial = Some(Trial { moved: None, ..trial });
            return calls;
        }
        self.next_trial = now + self.wait.max(FIRST_WAIT);
        self.wait = (self.wait.max(FIRST_WAIT) * 2).min(LONGEST_WAIT);
        trial.receivers.into_iter().map(|receiver| (receiver, trial.from)).collect()
    }

    /// Returns the receivers that belong into a faster group again.
    fn call_up(&mut self, now: Instant, groups: &[GroupView]) -> Vec<(u32, u8)> {
        for group in 1..groups.len() {
            let (view, faster) = (groups[group], groups[group - 1]);
            let is_empty = self.of(group as u8 - 1).next().is_none();
            let is_nearly =
                is_empty || view.is_found && view.rate_bps as f64 >= faster.rate_bps as f64 * NEARLY;
            let since = &mut self.nearly[group];
            *since = if is_nearly { Some(since.unwrap_or(now)) } else { None };
            let all = since.is_some_and(|since| now - since >= NEARLY_FOR);
            let limited = self.of(group as u8).any(|(_, member)| member.limits(now, self.memory).is_some());
            if faster.rest < SHORTEST_REST {
                continue;
            }
            let may_return = |member: &Member| {
                let wait = FIRST_RETURN.saturating_mul(1 << member.returns.min(MOST_RETURNS));
                let has_waited = now - member.since >= wait;
                let is_first = member.returns == 0;
                all && (is_first || has_waited)
                    || limited && member.limits(now, self.memory).is_none() && has_waited
            };
            let returning = self
                .of(group as u8)
                .filter(|(_, member)| member.returns < MOST_RETURNS && may_return(member));
            let calls: Vec<_> = returning.map(|(receiver, _)| (receiver, group as u8 - 1)).collect();
            let most = if all { calls.len() } else { 1 };
            if !calls.is_empty() {
                self.nearly[group] = None;
                return calls.into_iter().take(most).collect();
            }
        }
        Vec::new()
    }

    /// Calls the slowest of a group down, when all that limit it are known and these are few.
    fn begin_trial(&mut self, now: Instant, groups: &[GroupView], from: u8) -> Vec<(u32, u8)> {
        let view = groups[usize::from(from)];
        if !view.is_found || view.rest < SHORTEST_REST {
            return Vec::new();
        }
        let rate_bps = view.rate_bps as f64;
        let slow = self.slowest(now, from, &view);
        let all = self.of(from).count();
        if slow.is_empty() || slow.len() >= all || slow.len() > Self::few(all) {
            self.asks_since[usize::from(from)] = None;
            return Vec::new();
        }
        let since = *self.asks_since[usize::from(from)].get_or_insert(now);
        let unlimited = self.of(from).filter(|(_, member)| member.unlimited.is_some_and(|at| at >= since));
        let is_enough = unlimited.count() >= (all - slow.len()).min(ENOUGH_UNLIMITED);
        if !is_enough || now - since < ALL_HEARD.max(view.round_trip * ALL_HEARD_ROUNDS) {
            return Vec::new();
        }
        self.asks_since[usize::from(from)] = None;
        let calls = slow.iter().map(|receiver| (*receiver, from + 1)).collect();
        self.trial = Some(Trial { from, receivers: slow, before_bps: rate_bps, moved: None });
        calls
    }

    /// The receivers that limit a group's rate, and those that bear hardly more.
    fn slowest(&self, now: Instant, group: u8, view: &GroupView) -> Vec<u32> {
        // A receiver that has said to bear much less than the present rate bears more now, or the rate would
        // not be so high. Unless it cannot be lower.
        let counts =
            |(id, bps): &(u32, f64)| bps * SAME >= view.rate_bps as f64 || view.limited_by == Some(*id);
        let limits = || {
            let known =
                self.of(group).filter_map(|(id, member)| Some((id, member.limits(now, self.memory)?)));
            known.filter(counts)
        };
        let least = limits().map(|(_, bps)| bps).min_by(f64::total_cmp).unwrap_or_default();
        limits().filter(|(_, bps)| *bps <= least * SAME).map(|(receiver, _)| receiver).collect()
    }

    fn few(all: usize) -> usize {
        (all / FEW).max(1)
    }

    /// The members of a group that count for its rate.
    fn of(&self, group: u8) -> impl Iterator<Item = (u32, &Member)> {
        let members =
            self.members.iter().filter(move |(_, member)| member.group == group && !member.is_left_out);
        members.map(|(receiver, member)| (*receiver, member))
    }
}

impl Member {
    /// The rate that it bears, if it has limited its group lately.
    fn limits(&self, now: Instant, memory: Duration) -> Option<f64> {
        self.limits.filter(|(at, _)| now - *at < memory).map(|(_, bps)| bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(40);
    const LONG: Duration = Duration::from_secs(1_000);

    /// Receivers with paths of their own, in groups whose rates follow the slowest of each within a second. Receivers that the rate
    /// reaches report in turn, two a tenth of a second.
    struct World {
        groups: SlowerGroups,
        now: u64,
        /// For each receiver: the rate that its path bears, in Mbit/s, its group, and whether it follows
        /// calls.
        paths: Vec<(f64, u8, bool)>,
        rates: [f64; 4],
        /// The rate that all paths together bear, in Mbit/s, because they share a link.
        shared: f64,
        turn: usize,
        orders: Vec<(u64, Order)>,
        /// Receivers of which always one, the first in the fastest group, says that it bears hardly anything.
        liars: Vec<usize>,
    }

    impl World {
        fn new(paths: &[f64]) -> Self {
            let mut groups = SlowerGroups::default();
            (0..paths.len()).for_each(|receiver| groups.joined(at(0), receiver as u32, receiver as u64));
            let paths = paths.iter().map(|path| (*path, 0, true)).collect();
            Self {
                groups,
                now: 0,
                paths,
                rates: [1.0; 4],
                shared: f64::INFINITY,
                turn: 0,
                orders: Vec::new(),
                liars: Vec::new(),
            }
        }

        fn bears(&self, receiver: usize) -> f64 {
            let (path, group, _) = self.paths[receiver];
            if self.liars.iter().find(|liar| self.paths[**liar].1 == 0) == Some(&receiver) {
                return 1.0;
            }
            let others: f64 = (0..4)
                .filter(|other| *other != group && self.there(*other) > 0)
                .map(|other| self.rates[usize::from(other)])
                .sum();
            path.min((self.shared - others).max(self.shared / 4.0))
        }

        fn there(&self, group: u8) -> usize {
            self.paths.iter().filter(|(_, other, _)| *other == group).count()
        }

        fn run(&mut self, seconds: u64) {
            for _ in 0..seconds * 10 {
                self.now += 100;
                for group in 0..4_u8 {
                    let members = (0..self.paths.len()).filter(|one| self.paths[*one].1 == group);
                    let bears = members.map(|one| self.bears(one)).min_by(f64::total_cmp);
                    let rate = &mut self.rates[usize::from(group)];
                    *rate = bears.map_or(1.0, |bears| bears.min(*rate * 1.3));
                }
                let limited: Vec<_> = (0..self.paths.len())
                    .filter(|one| self.bears(*one) <= self.rates[usize::from(self.paths[*one].1)])
                    .collect();
                for _ in 0..limited.len().min(2) {
                    self.turn += 1;
                    let receiver = limited[self.turn % limited.len()];
                    self.groups.reported(at(self.now), receiver as u32, Some(self.bears(receiver) * 1e6));
                }
                for receiver in (0..self.paths.len()).filter(|one| !limited.contains(one)) {
                    if self.groups.asks(self.paths[receiver].1)
                        && (self.now / 100 + receiver as u64).is_multiple_of(4)
                    {
                        self.groups.reported(at(self.now), receiver as u32, None);
                    }
                }
                let view = |rate: &f64| GroupView {
                    rate_bps: (rate * 1e6) as u64,
                    is_found: true,
                    round_trip: ROUND_TRIP,
                    rest: LONG,
                    limited_by: None,
                };
                let views: Vec<_> = self.rates.iter().map(view).collect();
                for order in self.groups.look(at(self.now), &views) {
                    self.orders.push((self.now, order));
                    if let Order::Call { receiver, group } = order
                        && self.paths[receiver as usize].2
                    {
                        self.paths[receiver as usize].1 = group;
                        self.groups.moved(at(self.now), receiver, group);
                    }
                }
            }
        }

        /// The calls so far, each with its time and its group.
        fn calls(&self) -> Vec<(u64, u8)> {
            let call = |(when, order): &(u64, Order)| match order {
                Order::Call { group, .. } => Some((*when, *group)),
                Order::LeaveOut { .. } => None,
            };
            self.orders.iter().filter_map(call).collect()
        }

        fn groups(&self) -> Vec<u8> {
            self.paths.iter().map(|(_, group, _)| *group).collect()
        }
    }

    #[test]
    fn a_slow_receiver_is_served_apart_and_comes_back_when_it_recovers() {
        let mut world = World::new(&[100.0, 100.0, 100.0, 100.0, 10.0]);
        world.run(30);
        assert_eq!(world.groups(), [0, 0, 0, 0, 1], "{:?}", world.orders);
        assert_eq!(world.calls().len(), 1);
        world.paths[4].0 = 100.0;
        world.run(30);
        assert_eq!(world.groups(), [0; 5], "{:?}", world.orders);
    }

    #[test]
    fn equal_receivers_stay_together() {
        for count in [1, 2, 3, 10, 300] {
            let mut world = World::new(&vec![20.0; count]);
            world.run(300);
            assert_eq!(world.orders, [], "{count}");
        }
    }

    #[test]
    fn each_kind_has_a_group_of_its_own_and_the_last_holds_the_rest() {
        let mut paths = vec![200.0; 8];
        paths.extend([60.0, 60.0, 15.0, 4.0, 1.0]);
        let mut world = World::new(&paths);
        world.run(120);
        assert_eq!(world.rates[0], 200.0, "{:?}", world.orders);
        assert_eq!(world.groups()[8..], [1, 1, 2, 3, 3], "{:?}", world.orders);
    }

    /// The link that all share is the limit: without the slower one, the others get no more.
    #[test]
    fn a_trial_that_is_not_worth_it_is_taken_back_and_is_rare() {
        let mut world = World::new(&[100.0, 100.0, 100.0, 18.0]);
        world.shared = 20.0;
        world.run(600);
        assert!(world.calls().len() <= 16, "{:?}", world.orders);
        let downs = world.calls().into_iter().filter(|(_, group)| *group == 1).count();
        assert!((3..=8).contains(&downs), "{:?}", world.orders);
    }

    #[test]
    fn most_of_a_group_are_not_called_away_from_the_rest() {
        let mut world = World::new(&[10.0, 10.0, 10.0, 100.0]);
        world.run(60);
        assert_eq!(world.orders, [], "three of four are no exception");
    }

    #[test]
    fn who_ignores_a_call_is_left_out() {
        let mut world = World::new(&[100.0, 100.0, 10.0]);
        world.paths[2].2 = false;
        world.run(40);
        let left_out = world.orders.iter().find(|(_, order)| *order == Order::LeaveOut { receiver: 2 });
        assert!(left_out.is_some_and(|(when, _)| *when < 20_000), "{:?}", world.orders);
        world.groups.left(2);
        world.groups.joined(at(world.now), 2, 2);
        world.orders.clear();
        world.run(1);
        let again = world.orders.iter().map(|(_, order)| *order).collect::<Vec<_>>();
        assert_eq!(again, [Order::LeaveOut { receiver: 2 }], "it comes again, and is known");
    }

    #[test]
    fn a_slow_receiver_that_comes_again_goes_where_it_was() {
        let mut world = World::new(&[100.0, 100.0, 10.0]);
        world.run(30);
        world.groups.left(2);
        world.groups.joined(at(world.now), 2, 2);
        world.paths[2].1 = 0;
        world.run(1);
        assert_eq!(world.groups(), [0, 0, 1]);
    }

    /// Always one of them lies, so that the others gain nothing when it is called away.
    #[test]
    fn liars_that_take_turns_do_not_hold_the_others_up() {
        let mut world = World::new(&[100.0; 12]);
        world.liars = vec![3, 5, 9];
        let mut fast = |seconds: u32| -> u32 {
            (0..seconds)
                .map(|_| {
                    world.run(1);
                    u32::from(world.rates[0] > 50.0)
                })
                .sum()
        };
        let (first, later) = (fast(300), fast(1_000));
        assert!(first > 240 && later > 970, "{first} of 300 s, {later} of 1,000 s: {:?}", world.orders);
    }

    #[test]
    fn near_the_end_nobody_moves() {
        let mut world = World::new(&[100.0, 100.0, 10.0]);
        world.run(1);
        let view = GroupView {
            rate_bps: 10_000_000,
            is_found: true,
            round_trip: ROUND_TRIP,
            rest: SHORTEST_REST / 2,
            limited_by: None,
        };
        let later = at(world.now + 5_000);
        world.groups.reported(at(world.now), 2, Some(1e7));
        let views = [GroupView { rest: SHORTEST_REST, ..view }; 4];
        assert_eq!(world.groups.look(at(world.now), &views), []);
        (0..2).for_each(|other| world.groups.reported(later, other, None));
        assert_eq!(world.groups.look(later, &[view; 4]), []);
        let orders = [Order::Call { receiver: 2, group: 1 }, Order::LeaveOut { receiver: 2 }];
        assert_eq!(world.groups.look(later, &views), orders);
    }

    /// One that goes to and fro is called back no more than the sender's machine allows.
    #[test]
    fn ways_back_are_few() {
        let mut world = World::new(&[100.0, 100.0, 100.0, 10.0]);
        for turn in 0..200 {
            world.paths[3].0 = if turn % 2 == 0 { 10.0 } else { 100.0 };
            world.run(30);
        }
        let ups =
            world.orders.iter().filter(|(_, order)| matches!(order, Order::Call { group: 0, .. })).count();
        assert_eq!(ups, MOST_RETURNS as usize, "{:?}", world.orders);
    }
}
