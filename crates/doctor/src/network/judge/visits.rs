//! Judges the time from a join until groups come, and the time after a leave for which they still come.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{
    super::{message::Visited, seen::STILL, visit},
    Blame, Finding, Judge, Kind, Observation, Pair, Test, What,
};

/// The time, in milliseconds, before the end of a visit in which packets must come to be still coming at its end.
const LAST_MS: u32 = 500;
/// A join that takes longer is slow, in milliseconds. Reports are sent at once, and each router passes them on at once.
const SLOW_JOIN_MS: u32 = 1000;

impl Observation {
    /// The visit in which the second host of a pair joined and left a group that the first one sends to.
    pub(in super::super) fn visit(&self, (from, to): Pair, is_ipv4: bool) -> Option<&Visited> {
        let test = Test { what: What::Visit, is_ipv4 };
        let number = self.tests.iter().position(|other| *other == test)?;
        let is_it = |visit: &&Visited| usize::from(visit.sender) == from && usize::from(visit.test) == number;
        self.ears[to].visits.iter().find(is_it)
    }
}

impl Judge<'_> {
    /// Whether packets came late after a join, or not at all while the host was a member. `None`: it is not known.
    pub(super) fn is_slow_to_join(&self, pair: Pair, is_ipv4: bool) -> Option<bool> {
        if !self.have(pair, is_ipv4) || !self.hears(pair, is_ipv4) {
            return None;
        }
        let visit = self.seen.visit(pair, is_ipv4);
        // Whoever has not made its visit to the end says nothing of anybody.
        let has_made_it = !self.seen.ears[pair.1].visits.is_empty();
        if visit.is_some_and(|visit| visit.is_flooded) || !has_made_it || self.has_refused(pair.1, is_ipv4) {
            return None;
        }
        let join_ms = visit.and_then(|visit| visit.join_ms);
        Some(join_ms.is_none_or(|join_ms| join_ms > SLOW_JOIN_MS))
    }

    /// Whether a host's kernel let it join no more groups of a family.
    fn has_refused(&self, host: usize, is_ipv4: bool) -> bool {
        let family = |why: &String| why.split_once(": ").and_then(|(group, _)| group.parse::<IpAddr>().ok());
        self.seen.ears[host].refused.iter().filter_map(family).any(|group| group.is_ipv4() == is_ipv4)
    }

    /// Whether packets still come when the host has left the group for a time. `None`: it is not known.
    pub(super) fn is_slow_to_leave(&self, pair: Pair, is_ipv4: bool, after: Duration) -> Option<bool> {
        let visit = self.seen.visit(pair, is_ipv4).filter(|visit| !visit.is_flooded)?;
        visit.join_ms?;
        Some(Duration::from_millis((visit.leave_ms? + LAST_MS).into()) >= after)
    }

    /// Whether it is known why a LAN is slow: it floods groups, nobody asks for listeners, or hosts speak an old version, which has
    /// no leaves.
    fn is_odd(&self, lan: &str, found: &[Finding]) -> bool {
        let is_of_lan = |finding: &Finding| match finding.kind {
            Kind::NoQuerier | Kind::Flooding => finding.blame == Blame::Lan { prefix: lan.to_owned() },
            Kind::OldQuerier | Kind::OldVersion | Kind::Loop => true,
            _ => false,
        };
        self.known.iter().chain(found).any(is_of_lan)
    }

    /// Hosts that get a group a second or more after their join. If hosts on one LAN wait for each other, the LAN is slow, and
    /// otherwise the routers between two LANs are.
    pub(super) fn slow_joins(&self, found: &mut Vec<Finding>) {
        for is_ipv4 in [true, false] {
            let tried: BTreeSet<_> =
                self.pairs().filter(|pair| self.is_slow_to_join(*pair, is_ipv4).is_some()).collect();
            let is_slow = |pair: &Pair| self.is_slow_to_join(*pair, is_ipv4) == Some(true);
            let slow: BTreeSet<_> = tried.iter().copied().filter(is_slow).collect();
            let lan = |host: usize| self.seen.hosts[host].lan.as_str();
            let near: BTreeSet<_> =
                slow.iter().filter(|pair| self.is_same_lan(**pair)).map(|pair| lan(pair.1)).collect();
            let is_far = |pair: &Pair| !self.is_same_lan(*pair) && !near.contains(lan(pair.1));
            let far = |pairs: &BTreeSet<Pair>| pairs.iter().copied().filter(is_far).collect();
            let of_lans = near.iter().map(|prefix| {
                let pairs = slow.iter().copied().filter(|pair| lan(pair.1) == *prefix).collect();
                (Blame::Lan { prefix: (*prefix).to_owned() }, pairs)
            });
            let of_routers = self.places().faults(&far(&slow), &far(&tried));
            let of_routers = of_routers.into_iter().map(|fault| (fault.blame, fault.pairs));
            for (blame, pairs) in of_lans.chain(of_routers) {
                let is_explained = pairs.iter().all(|pair| self.is_odd(lan(pair.1), found));
                if !is_explained {
                    let waits: Option<Vec<u32>> =
                        pairs.iter().map(|pair| self.seen.visit(*pair, is_ipv4)?.join_ms).collect();
                    let wait = waits.and_then(|waits| waits.into_iter().max());
                    let how = wait.map_or_else(
                        || format!("not within {:.1} s", visit::STAY.as_secs_f64()),
                        |wait| format!("only {:.1} s", f64::from(wait) / 1000.0),
                    );
                    let seen =
                        format!("{} group comes {how} after a join {}", a(is_ipv4), self.among(&pairs));
                    found.push(Finding::problem(Kind::SlowJoin, blame, seen));
                }
            }
        }
    }

    /// LANs on which a group still comes long after hosts have left it.
    pub(super) fn slow_leaves(&self, found: &mut Vec<Finding>) {
        for is_ipv4 in [true, false] {
            for (from, to) in self.pairs() {
                let lan = &self.seen.hosts[to].lan;
                let is_slow = self.is_slow_to_leave((from, to), is_ipv4, STILL) == Some(true);
                if is_slow && !self.is_odd(lan, found) {
                    let seen = format!(
                        "{} group of {} still comes to {} {} s after it has left it",
                        a(is_ipv4),
                        self.name(from),
                        self.name(to),
                        STILL.as_secs()
                    );
                    let blame = Blame::Lan { prefix: lan.clone() };
                    found.push(Finding::problem(Kind::SlowLeave, blame, seen));
                }
            }
        }
    }
}

fn a(is_ipv4: bool) -> &'static str {
    if is_ipv4 { "an IPv4" } else { "an IPv6" }
}
