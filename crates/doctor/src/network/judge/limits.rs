//! Finds the lengths and rates at which groups get lost, and whether super-packets are cut into packets.

use std::collections::BTreeSet;

use super::{Fault, Finding, Judge, Kind, Pair, Test, What, plan};

impl Judge<'_> {
    /// Rates at which packets get lost. Nothing is said of pairs between which no group arrives.
    pub(super) fn rates(&self, dead: &BTreeSet<(Pair, bool)>, found: &mut Vec<Finding>) {
        let is_lossy = |pair: Pair, test: usize| self.got(pair, test) < self.seen.tests[test].what.enough();
        for mbit in plan::RATES {
            let number = |is_group: bool| {
                self.seen.tests.iter().position(|test| test.what == What::Rate { mbit, is_group })
            };
            let Some((group, unicast)) = number(true).zip(number(false)) else { continue };
            let is_ipv4 = self.seen.tests[group].is_ipv4;
            let tried: BTreeSet<_> = self
                .pairs()
                .filter(|pair| self.have(*pair, is_ipv4) && !dead.contains(&(*pair, is_ipv4)))
                .collect();
            // What gets lost at this rate and not at a higher one was an accident.
            let higher: Vec<_> = self.groups_where(
                is_ipv4,
                |what| matches!(what, What::Rate { mbit: other, is_group: true } if other >= mbit),
            );
            let is_limited = |pair: &Pair| higher.iter().all(|test| is_lossy(*pair, *test));
            let lost: BTreeSet<_> = tried.iter().copied().filter(is_limited).collect();
            let has_unicast =
                |pair: &Pair| (pair.0 == 0 || pair.1 == 0) && !self.lacks_unicast(*pair, is_ipv4);
            let is_narrow = lost.iter().any(|pair| has_unicast(pair) && is_lossy(*pair, unicast));
            for fault in self.places().faults(&lost, &tried) {
                let packets: Vec<_> = fault
                    .pairs
                    .iter()
                    .filter(|pair| lost.contains(pair))
                    .map(|pair| self.got(*pair, group))
                    .collect();
                let (least, kind) = (
                    packets.iter().min().copied().unwrap_or(0),
                    if is_narrow { Kind::NarrowLink } else { Kind::StormControl },
                );
                let unicast = if is_narrow { ", and unicast gets lost, too" } else { ", and unicast passes" };
                let seen = format!(
                    "at {mbit} Mbit/s, {least} of {} packets to a group arrive {}{unicast}",
                    plan::BURST,
                    self.between(&fault)
                );
                found.push(Finding::problem(kind, fault.blame, seen));
            }
            if !lost.is_empty() {
                // Higher rates only say the same again.
                return;
            }
        }
    }

    /// The numbers of the tests of a family that are such.
    fn groups_where(&self, is_ipv4: bool, is_such: impl Fn(What) -> bool) -> Vec<usize> {
        let tests = self.seen.tests.iter().enumerate();
        tests
            .filter(|(_, test)| test.is_ipv4 == is_ipv4 && is_such(test.what))
            .map(|(number, _)| number)
            .collect()
    }

    /// Lengths from which on packets do not arrive.
    pub(super) fn lengths(&self, dead: &BTreeSet<(Pair, bool)>, found: &mut Vec<Finding>) {
        let tests = self.seen.tests.iter().filter_map(|test| match test.what {
            What::Length { bytes, is_group: true } => Some((bytes, test.is_ipv4)),
            _ => None,
        });
        let mut known = BTreeSet::new();
        for (bytes, is_ipv4) in tests {
            let tried: BTreeSet<_> = self
                .pairs()
                .filter(|pair| self.have(*pair, is_ipv4) && !dead.contains(&(*pair, is_ipv4)))
                .collect();
            // What gets lost while something longer arrives was an accident.
            let longer: Vec<_> = self.groups_where(
                is_ipv4,
                |what| matches!(what, What::Length { bytes: other, is_group: true } if other >= bytes),
            );
            // The later fragments of a packet have no ports, so rules that let ports pass drop them.
            let is_explained =
                |pair: &Pair| self.firewall_of(*pair).is_some() && bytes > self.seen.hosts[pair.0].mtu;
            let is_limited =
                |pair: &Pair| !is_explained(pair) && longer.iter().all(|test| self.got(*pair, *test) == 0);
            let lost: BTreeSet<_> = tried.iter().copied().filter(is_limited).collect();
            for fault in self.places().faults(&lost, &tried) {
                if !known.insert((fault.blame.clone(), is_ipv4)) {
                    continue;
                }
                // Packets up to the MTU are in one piece, and these have arrived.
                let is_in_fragments = fault.pairs.iter().all(|pair| bytes > self.seen.hosts[pair.0].mtu);
                let (kind, what) = match is_in_fragments {
                    true => (Kind::Fragments, "packets in fragments"),
                    false => (Kind::SizeLimit, "packets"),
                };
                let family = if is_ipv4 { "IPv4" } else { "IPv6" };
                let seen = format!(
                    "{family} {what} of {bytes} bytes to a group do not arrive {}, and shorter ones do",
                    self.between(&fault)
                );
                found.push(Finding::problem(kind, fault.blame, seen));
            }
        }
    }

    /// Super-packets that nobody cuts into packets, where single packets arrive at every rate.
    pub(super) fn super_packets(&self, found: &mut Vec<Finding>) {
        for is_ipv4 in [true, false] {
            let test = Test { what: What::SuperPacket, is_ipv4 };
            let Some(number) = self.seen.tests.iter().position(|other| *other == test) else { continue };
            let is_limited = |finding: &Finding| {
                matches!(
                    finding.kind,
                    Kind::NarrowLink | Kind::StormControl | Kind::SizeLimit | Kind::NotSent
                )
            };
            if found.iter().any(is_limited) {
                return;
            }
            let is_tried = |pair: &Pair| self.have(*pair, is_ipv4) && self.hears(*pair, is_ipv4);
            let tried: BTreeSet<_> = self.pairs().filter(is_tried).collect();
            let is_lost = |pair: &Pair| self.got(*pair, number) < test.what.enough();
            let lost: BTreeSet<_> = tried.iter().copied().filter(is_lost).collect();
            for fault in self.of_senders(&lost, &tried) {
                let seen = format!(
                    "of the packets that the kernel or the network card cuts out of super-packets, most do not arrive {}",
                    self.between(&fault)
                );
                found.push(Finding::problem(Kind::SuperPackets, fault.blame, seen));
            }
        }
    }

    /// The faults of hosts whose packets nobody gets, and the other faults.
    fn of_senders(&self, lost: &BTreeSet<Pair>, tried: &BTreeSet<Pair>) -> Vec<Fault> {
        let mut left = lost.clone();
        let mut faults = Vec::new();
        for host in 0..self.seen.hosts.len() {
            let pairs: Vec<_> = tried.iter().copied().filter(|pair| pair.0 == host).collect();
            if !pairs.is_empty() && pairs.iter().all(|pair| lost.contains(pair)) {
                left.retain(|pair| pair.0 != host);
                faults.push(Fault { blame: self.host(host), pairs, is_one_way: true });
            }
        }
        faults.extend(self.places().faults(&left, tried));
        faults
    }
}
