//! Finds the place where packets get lost, by which pairs of hosts lose them and which do not.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Blame;

/// A sender and a receiver.
pub type Pair = (usize, usize);

/// The places of hosts.
pub struct Places<'a> {
    pub names: Vec<&'a str>,
    /// The prefix of each host's LAN.
    pub lans: Vec<&'a str>,
    /// The number of routers between two LANs, where something that arrived has told it. Both orders are there.
    pub routers: BTreeMap<(&'a str, &'a str), u8>,
}

/// A place at fault, and the pairs that this explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub blame: Blame,
    pub pairs: Vec<Pair>,
    /// Whether packets pass in the other direction.
    pub is_one_way: bool,
}

impl Places<'_> {
    /// The places at fault when the packets of the pairs `lost` get lost, among all pairs that were `tried`.
    ///
    /// One host whose packets nobody gets, or that gets nothing, has a faulty cable, if hosts on its own LAN say so. Then come
    /// LANs on which nobody hears anybody, routers that nothing crosses, and single pairs.
    pub fn faults(&self, lost: &BTreeSet<Pair>, tried: &BTreeSet<Pair>) -> Vec<Fault> {
        let mut left = lost.clone();
        let mut faults = Vec::new();
        for host in 0..self.names.len() {
            faults.extend(self.cable(host, &mut left, lost, tried));
        }
        faults.extend(self.lans(&mut left, tried));
        faults.extend(self.routers(&mut left, tried));
        for (from, to) in left.iter().copied() {
            let is_back = left.contains(&(to, from));
            // A path that loses packets both ways is one fault.
            if is_back && from > to {
                continue;
            }
            let blame = Blame::Path { from: self.names[from].to_owned(), to: self.names[to].to_owned() };
            let is_one_way = tried.contains(&(to, from)) && !lost.contains(&(to, from));
            let pairs = [(from, to)].into_iter().chain(is_back.then_some((to, from))).collect();
            faults.push(Fault { blame, pairs, is_one_way });
        }
        faults
    }

    fn is_same_lan(&self, pair: &Pair) -> bool {
        self.lans[pair.0] == self.lans[pair.1]
    }

    /// The cable of one host: all that it sends, or all that is sent to it, gets lost, also on its own LAN, and at least two others
    /// are concerned.
    fn cable(
        &self,
        host: usize,
        left: &mut BTreeSet<Pair>,
        lost: &BTreeSet<Pair>,
        tried: &BTreeSet<Pair>,
    ) -> Option<Fault> {
        let of = |is_sender: bool| -> Vec<Pair> {
            tried
                .iter()
                .copied()
                .filter(|pair| if is_sender { pair.0 == host } else { pair.1 == host })
                .collect()
        };
        let is_dead = |pairs: &[Pair]| {
            let others_are_well = tried.iter().any(|pair| {
                pair.0 != host && pair.1 != host && self.is_same_lan(pair) && !lost.contains(pair)
            });
            pairs.len() > 1
                && pairs.iter().all(|pair| lost.contains(pair))
                && pairs.iter().any(|pair| left.contains(pair) && self.is_same_lan(pair))
                && (others_are_well || pairs.iter().any(|pair| !lost.contains(&(pair.1, pair.0))))
        };
        let (out, into) = (of(true), of(false));
        let (no_out, no_in) = (is_dead(&out), is_dead(&into));
        let pairs: Vec<_> = [(no_out, out), (no_in, into)]
            .into_iter()
            .filter(|(is_dead, _)| *is_dead)
            .flat_map(|(_, pairs)| pairs)
            .collect();
        pairs.iter().for_each(|pair| _ = left.remove(pair));
        let blame = Blame::LinkOf { host: self.names[host].to_owned() };
        (!pairs.is_empty()).then_some(Fault { blame, pairs, is_one_way: no_out != no_in })
    }

    /// LANs on which nobody hears anybody.
    fn lans(&self, left: &mut BTreeSet<Pair>, tried: &BTreeSet<Pair>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for lan in self.lans.iter().collect::<BTreeSet<_>>() {
            let pairs: Vec<_> = tried
                .iter()
                .copied()
                .filter(|pair| self.is_same_lan(pair) && self.lans[pair.0] == *lan)
                .collect();
            if pairs.len() > 1 && pairs.iter().all(|pair| left.contains(pair)) {
                // What others lose on the way through this LAN is explained, too.
                left.retain(|pair| self.lans[pair.0] != *lan && self.lans[pair.1] != *lan);
                faults.push(Fault {
                    blame: Blame::Lan { prefix: (*lan).to_string() },
                    pairs,
                    is_one_way: false,
                });
            }
        }
        faults
    }

    /// The distance between two LANs: the least number of routers between them that their distances to others allow,
    /// and whether it is only such an estimate.
    fn distance(&self, from: &str, to: &str) -> (u8, bool) {
        let known = |from: &str, to: &str| self.routers.get(&(from, to)).copied();
        if let Some(routers) = known(from, to) {
            return (routers, false);
        }
        let by = self.lans.iter().filter_map(|via| Some(known(from, via)?.abs_diff(known(via, to)?)));
        (by.max().unwrap_or(1).max(1), true)
    }

    /// Routers between two LANs that nothing crosses. Where a third LAN lies between, to which packets pass from one of them and
    /// from which they do not reach the other, the routers between the nearer two are to blame.
    fn routers(&self, left: &mut BTreeSet<Pair>, tried: &BTreeSet<Pair>) -> Vec<Fault> {
        let crossing = |from: &str, to: &str| -> Vec<Pair> {
            tried
                .iter()
                .copied()
                .filter(|pair| self.lans[pair.0] == from && self.lans[pair.1] == to && from != to)
                .collect()
        };
        let lans: BTreeSet<&str> = self.lans.iter().copied().collect();
        let is_dead = |from: &str, to: &str| {
            let pairs = crossing(from, to);
            !pairs.is_empty() && pairs.iter().all(|pair| left.contains(pair))
        };
        let is_well = |from: &str, to: &str| crossing(from, to).iter().any(|pair| !left.contains(pair));
        let mut found: Vec<(&str, &str, bool)> = Vec::new();
        for from in &lans {
            for to in lans.iter().filter(|to| is_dead(from, to)) {
                let far = self.distance(from, to);
                let is_nearer = |via: &str| {
                    (is_well(from, via) && is_dead(via, to) && self.distance(via, to) < far)
                        || (is_dead(from, via) && is_well(via, to) && self.distance(from, via) < far)
                };
                let explained =
                    lans.iter().filter(|via| *via != from && *via != to).any(|via| is_nearer(via));
                let is_back = is_dead(to, from);
                if !explained && (from < to || !is_back) {
                    found.push((from, to, is_back));
                }
            }
        }
        let mut faults = Vec::new();
        for (from, to, is_back) in found {
            let mut pairs = crossing(from, to);
            if is_back {
                pairs.extend(crossing(to, from));
            }
            let blame = Blame::Routers { from: from.to_owned(), to: to.to_owned() };
            faults.push(Fault { blame, pairs, is_one_way: !is_back });
        }
        if !faults.is_empty() {
            let dead: Vec<_> =
                left.iter().copied().filter(|pair| is_dead(self.lans[pair.0], self.lans[pair.1])).collect();
            dead.iter().for_each(|pair| _ = left.remove(pair));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts a, b, c on LAN x, d and e on y, f on z. The doctor is on this LAN: from there distances to all are known, and so
    /// is that between x and y, which hear each other.
    fn places(doctor: &str) -> Places<'static> {
        let lans = ["x", "y", "z"];
        let mut routers = BTreeMap::new();
        for (from, one) in lans.iter().enumerate() {
            for (to, other) in lans.iter().enumerate().filter(|(to, _)| *to != from) {
                if [*one, *other].contains(&doctor) || from + to == 1 {
                    routers.insert((*one, *other), from.abs_diff(to) as u8);
                }
            }
        }
        Places {
            names: vec!["a", "b", "c", "d", "e", "f"],
            lans: vec!["x", "x", "x", "y", "y", "z"],
            routers,
        }
    }

    fn all(hosts: usize) -> BTreeSet<Pair> {
        (0..hosts)
            .flat_map(|from| (0..hosts).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect()
    }

    fn blamed(hosts: usize, is_lost: impl Fn(&Pair) -> bool) -> Vec<(Blame, bool)> {
        blamed_by("x", hosts, is_lost)
    }

    fn blamed_by(doctor: &str, hosts: usize, is_lost: impl Fn(&Pair) -> bool) -> Vec<(Blame, bool)> {
        let tried = all(hosts);
        let lost = tried.iter().copied().filter(is_lost).collect();
        let places = places(doctor);
        let places =
            Places { names: places.names[..hosts].to_vec(), lans: places.lans[..hosts].to_vec(), ..places };
        places.faults(&lost, &tried).into_iter().map(|fault| (fault.blame, fault.is_one_way)).collect()
    }

    fn cable(host: &str) -> Blame {
        Blame::LinkOf { host: host.into() }
    }

    fn routers(from: &str, to: &str) -> Blame {
        Blame::Routers { from: from.into(), to: to.into() }
    }

    #[test]
    fn a_cable_is_blamed_for_what_one_host_loses() {
        assert_eq!(blamed(6, |_| false), []);
        assert_eq!(blamed(6, |pair| pair.0 == 1), [(cable("b"), true)]);
        assert_eq!(blamed(6, |pair| pair.1 == 3), [(cable("d"), true)]);
        assert_eq!(blamed(6, |pair| pair.0 == 1 || pair.1 == 1), [(cable("b"), false)]);
        assert_eq!(blamed(3, |pair| pair.0 == 2), [(cable("c"), true)]);
    }

    #[test]
    fn routers_are_blamed_for_what_does_not_leave_a_lan() {
        let lan = |host: usize| places("x").lans[host];
        assert_eq!(blamed(5, |pair| lan(pair.0) != lan(pair.1)), [(routers("x", "y"), false)]);
        assert_eq!(blamed(5, |pair| lan(pair.0) == "x" && lan(pair.1) == "y"), [(routers("x", "y"), true)]);
        // x - y - z: the router between y and z drops all, wherever the doctor is.
        for doctor in ["x", "y", "z"] {
            let found = blamed_by(doctor, 6, |pair| (lan(pair.0) == "z") != (lan(pair.1) == "z"));
            assert_eq!(found, [(routers("y", "z"), false)], "{doctor}");
        }
    }

    #[test]
    fn what_two_hosts_alone_lose_is_on_their_path() {
        let path = |from: &str, to: &str| Blame::Path { from: from.into(), to: to.into() };
        assert_eq!(blamed(2, |pair| *pair == (0, 1)), [(path("a", "b"), true)]);
        assert_eq!(blamed(2, |_| true), [(Blame::Lan { prefix: "x".into() }, false)]);
        assert_eq!(blamed(6, |pair| *pair == (0, 4)), [(path("a", "e"), true)]);
        assert_eq!(blamed(6, |pair| [(0, 4), (4, 0)].contains(pair)), [(path("a", "e"), false)]);
    }
}
