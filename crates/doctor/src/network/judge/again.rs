//! The second look. Packets get lost by chance, and a switch floods groups for a while after a new querier. So what looks wrong
//! is tested again before it is told, and only what is wrong both times counts.

use std::collections::BTreeSet;

use super::{
    super::{message::Visited, seen::USUAL_LEAVE},
    Heard, Judge, Observation, Pair, What, plan,
};

/// The numbers of the tests that are worth a second look: something was lost, or a host got a group that it had not joined. The
/// unicast tests of the same lengths and rates are among them. They tell whether only groups are concerned.
pub fn doubtful(seen: &Observation) -> BTreeSet<usize> {
    let judge = Judge { seen, known: &[] };
    let is_doubtful = |what: What, number: usize| match what {
        What::JoinedBySome => judge.is_flooded(number),
        What::Visit => judge.pairs().any(|pair| judge.is_slow(pair, seen.tests[number].is_ipv4)),
        _ => judge.pairs().any(|pair| judge.loses(pair, number)),
    };
    let tests = || seen.tests.iter().enumerate();
    let mut numbers: BTreeSet<usize> = tests()
        .filter(|(number, test)| !test.what.is_comparison() && is_doubtful(test.what, *number))
        .map(|(number, _)| number)
        .collect();
    let compared = |number: &usize| seen.tests[*number].compared_with();
    let comparisons: Vec<_> = numbers.iter().filter_map(compared).collect();
    numbers.extend(tests().filter(|(_, test)| comparisons.contains(test)).map(|(number, _)| number));
    numbers
}

/// Adds what a host heard at the second look. Whatever arrived at one of both looks has arrived. A group that was not joined
/// counts by the second look alone.
pub fn merge(known: &mut Vec<Heard>, again: Vec<Heard>, is_of_some: impl Fn(&Heard) -> bool) {
    known.retain(|heard| !is_of_some(heard));
    for heard in again {
        let same = |other: &&mut Heard| {
            (other.sender, other.test, other.is_own) == (heard.sender, heard.test, heard.is_own)
        };
        match known.iter_mut().find(same) {
            Some(other) => {
                other.packets = other.packets.max(heard.packets);
                other.copies = other.copies.max(heard.copies);
                other.hop_limit = other.hop_limit.max(heard.hop_limit);
                other.least_hop_limit = other.least_hop_limit.min(heard.least_hop_limit);
            }
            None => known.push(heard),
        }
    }
}

/// Replaces visits by later ones of the same senders. The shorter wait after a join counts.
pub fn replace(known: &mut Vec<Visited>, again: Vec<Visited>) {
    for visit in again {
        let is_same = |other: &Visited| (other.sender, other.test) == (visit.sender, visit.test);
        let join_ms = known.iter().find(|other| is_same(other)).and_then(|other| other.join_ms);
        known.retain(|other| !is_same(other));
        let join_ms = join_ms.into_iter().chain(visit.join_ms).min();
        known.push(Visited { join_ms, ..visit });
    }
}

impl Judge<'_> {
    /// Whether a test that concerns two hosts lost packets between them, as far as that is ever judged.
    fn loses(&self, pair: Pair, number: usize) -> bool {
        let test = self.seen.tests[number];
        let is_concerned = match test.what {
            What::Scope(place) => self.concerns(pair, place),
            What::Unicast => (pair.0 == 0 || pair.1 == 0) && !self.lacks_unicast(pair, test.is_ipv4),
            What::Header(_) => {
                (pair.0 == 0 || pair.1 == 0)
                    && !self.lacks_unicast(pair, test.is_ipv4)
                    && self.seen.hosts[pair.0].is_root
            }
            What::Length { .. } | What::Rate { .. } | What::SuperPacket => self.hears(pair, test.is_ipv4),
            What::JoinedBySome | What::Visit => false,
        };
        is_concerned && self.have(pair, test.is_ipv4) && self.got(pair, number) < test.what.enough()
    }

    /// Whether a group came late after a join, or still comes after a leave for longer than usual.
    fn is_slow(&self, pair: Pair, is_ipv4: bool) -> bool {
        self.is_slow_to_join(pair, is_ipv4) == Some(true)
            || self.is_slow_to_leave(pair, is_ipv4, USUAL_LEAVE) == Some(true)
    }

    /// Whether any group of a family arrives from one host at another.
    pub(super) fn hears(&self, pair: Pair, is_ipv4: bool) -> bool {
        self.scopes(is_ipv4).any(|(test, _)| self.got(pair, test) > 0)
    }

    /// Whether a host got the group of some that it had not joined.
    fn is_flooded(&self, number: usize) -> bool {
        let others = self.pairs().filter(|(_, to)| !plan::is_joiner(&self.seen.hosts, *to));
        let mut arrived = others.map(|(from, to)| self.seen.arrived(to, from, number).unwrap_or(0));
        arrived.any(|packets| packets > 0)
    }
}
