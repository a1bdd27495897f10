//! Judges what was seen between hosts, and returns findings. Touches no machine.

mod again;
mod limits;
mod visits;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    groups::main,
    message::{Header, Heard},
    place::{Fault, Pair, Places},
    plan::{self, Test, What},
    seen::{Observation, Trace},
};
use crate::finding::{Advice, Blame, Finding, Kind, Level, joined};
pub(super) use again::{doubtful, merge, replace};

/// The faults of the hosts of a run and the network between them.
pub fn findings(seen: &Observation) -> Vec<Finding> {
    let mut all: Vec<_> = of_hosts(seen);
    all.extend(seen.unreachable.iter().map(|(host, why, todo)| {
        let from = seen.hosts.first().map(|host| host.name.clone()).unwrap_or_default();
        let usual = Finding::problem(Kind::Unreachable, Blame::Path { from, to: host.clone() }, why.clone());
        Finding { todo: todo.map_or_else(|| usual.todo.clone(), str::to_owned), ..usual }
    }));
    if seen.ears.len() == seen.hosts.len() {
        Judge { seen, known: &all.clone() }.all(&mut all);
    }
    joined(all)
}

/// The findings of each host about itself. That nobody asks on a LAN must be said by every host there that can
/// listen.
fn of_hosts(seen: &Observation) -> Vec<Finding> {
    let says = |host: usize, finding: &Finding| {
        let (findings, _) = &seen.examined[host];
        findings.iter().any(|other| other.kind == finding.kind && other.blame == finding.blame)
    };
    let is_agreed = |finding: &Finding| match &finding.blame {
        Blame::Lan { prefix } if finding.kind == Kind::NoQuerier => (0..seen.examined.len())
            .filter(|host| {
                seen.hosts[*host].lan == *prefix && seen.hosts[*host].is_root && !seen.gone.contains(host)
            })
            .all(|host| says(host, finding)),
        _ => true,
    };
    seen.examined
        .iter()
        .flat_map(|(findings, _)| findings.iter().filter(|finding| is_agreed(finding)))
        .cloned()
        .collect()
}

/// A row of the table that tells people which hosts hear which: a pair, with the number of scopes that arrived and
/// that were tried, by family.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Matrix {
    pub from: String,
    pub to: String,
    /// Scopes that arrived and that were tried, in IPv4. `None` if not both hosts have it.
    pub ipv4: Option<(usize, usize)>,
    pub ipv6: Option<(usize, usize)>,
    /// The routers on the way, by the hop limit of what arrived.
    pub hops: Option<u8>,
    /// The time from a join to the first packet, in milliseconds. `None` if it is not known.
    pub join_ms_ipv4: Option<u32>,
    pub join_ms_ipv6: Option<u32>,
    /// The time from a leave to the last packet, in milliseconds. `None` if it is not known.
    pub leave_ms_ipv4: Option<u32>,
    pub leave_ms_ipv6: Option<u32>,
}

impl Matrix {
    /// The rows of a run.
    pub fn of(seen: &Observation) -> Vec<Self> {
        if seen.ears.len() != seen.hosts.len() {
            return Vec::new();
        }
        let judge = Judge { seen, known: &[] };
        judge
            .pairs()
            .map(|pair| {
                let of_family = |is_ipv4| {
                    let tried: Vec<_> =
                        judge.scopes(is_ipv4).filter(|(_, place)| judge.concerns(pair, *place)).collect();
                    let arrived = tried.iter().filter(|(test, _)| judge.got(pair, *test) > 0).count();
                    judge
                        .have(pair, is_ipv4)
                        .then_some((arrived, tried.len()))
                        .filter(|(_, tried)| *tried > 0)
                };
                let heard =
                    (0..seen.tests.len()).filter(|test| matches!(seen.tests[*test].what, What::Scope(_)));
                let hop_limit = heard
                    .filter_map(|test| seen.delivered(pair.1, pair.0, test))
                    .map(|heard| heard.hop_limit)
                    .max();
                let name = |host: usize| seen.hosts[host].name.clone();
                let visit = |is_ipv4| seen.visit(pair, is_ipv4).filter(|visit| !visit.is_flooded);
                let join_ms = |is_ipv4| visit(is_ipv4).and_then(|visit| visit.join_ms);
                let leave_ms = |is_ipv4| visit(is_ipv4).and_then(|visit| visit.leave_ms);
                Self {
                    from: name(pair.0),
                    to: name(pair.1),
                    ipv4: of_family(true),
                    ipv6: of_family(false),
                    hops: hop_limit.map(|left| plan::HOP_LIMIT.saturating_sub(left)),
                    join_ms_ipv4: join_ms(true),
                    join_ms_ipv6: join_ms(false),
                    leave_ms_ipv4: leave_ms(true),
                    leave_ms_ipv6: leave_ms(false),
                }
            })
            .collect()
    }
}

struct Judge<'a> {
    seen: &'a Observation,
    /// The findings of the hosts about themselves.
    known: &'a [Finding],
}

impl Judge<'_> {
    fn all(&self, all: &mut Vec<Finding>) {
        let mut found = Vec::new();
        for (host, ear) in self.seen.ears.iter().enumerate() {
            let refused = ear.refused.iter().map(|why| format!("{} cannot join {why}", self.name(host)));
            found.extend(refused.map(|seen| Finding::problem(Kind::SmallLimit, self.host(host), seen)));
        }
        self.hop_limits(&mut found);
        let dead = self.scopes_lost(&mut found);
        self.copies(&mut found);
        self.flooding(&mut found);
        let is_looping = found.iter().any(|finding| finding.kind == Kind::Loop);
        if !is_looping {
            self.rates(&dead, &mut found);
            self.lengths(&dead, &mut found);
            self.super_packets(&mut found);
            self.slow_joins(&mut found);
            self.slow_leaves(&mut found);
        }
        self.headers(&mut found);
        self.unicast(&mut found);
        all.extend(found);
    }

    fn name(&self, host: usize) -> String {
        self.seen.hosts[host].name.clone()
    }

    fn host(&self, host: usize) -> Blame {
        Blame::Host { name: self.name(host) }
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> + use<> {
        let count = self.seen.hosts.len();
        let gone = self.seen.gone.clone();
        let all = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
        all.filter(move |(from, to)| from != to && !gone.contains(from) && !gone.contains(to))
    }

    fn places(&self) -> Places<'_> {
        Places {
            names: self.seen.hosts.iter().map(|host| host.name.as_str()).collect(),
            lans: self.seen.hosts.iter().map(|host| host.lan.as_str()).collect(),
            routers: self.routers(),
        }
    }

    /// The number of routers between LANs, by the hop limit of what arrived.
    fn routers(&self) -> BTreeMap<(&str, &str), u8> {
        let mut routers = BTreeMap::new();
        for (from, to) in self.pairs() {
            let is_usual = |test: &Test| matches!(test.what, What::Scope(_) | What::Unicast);
            let tests = self.seen.tests.iter().enumerate().filter(|(_, test)| is_usual(test));
            let heard = tests.filter_map(|(number, _)| self.seen.delivered(to, from, number));
            if let Some(hop_limit) = heard.map(|heard| heard.hop_limit).max() {
                let lans = [from, to].map(|host| self.seen.hosts[host].lan.as_str());
                for lans in [(lans[0], lans[1]), (lans[1], lans[0])] {
                    let number = plan::HOP_LIMIT.saturating_sub(hop_limit);
                    routers
                        .entry(lans)
                        .and_modify(|known: &mut u8| *known = number.min(*known))
                        .or_insert(number);
                }
            }
        }
        routers
    }

    fn is_same_lan(&self, pair: Pair) -> bool {
        self.seen.hosts[pair.0].lan == self.seen.hosts[pair.1].lan
    }

    fn have(&self, pair: Pair, is_ipv4: bool) -> bool {
        [pair.0, pair.1].iter().all(|host| self.seen.hosts[*host].address(is_ipv4).is_some())
    }

    fn is_known(&self, kind: Kind, blame: &Blame) -> bool {
        self.known.iter().any(|finding| finding.kind == kind && finding.blame == *blame)
    }

    /// The host of a pair whose rules are known to drop packets of groups, the receiver first.
    fn firewall_of(&self, (from, to): Pair) -> Option<usize> {
        [to, from].into_iter().find(|host| self.is_known(Kind::HostFirewall, &self.host(*host)))
    }

    /// The tests of scopes, each with the place of its group.
    fn scopes(&self, is_ipv4: bool) -> impl Iterator<Item = (usize, usize)> {
        self.seen.tests.iter().enumerate().filter_map(move |(number, test)| match test.what {
            What::Scope(place) if test.is_ipv4 == is_ipv4 => Some((number, place)),
            _ => None,
        })
    }

    /// Whether a group should arrive: link-local ones do not cross routers.
    fn concerns(&self, pair: Pair, place: usize) -> bool {
        self.have(pair, self.seen.groups[place].address.is_ipv4())
            && (self.is_same_lan(pair) || !self.seen.groups[place].is_link_local)
            && (plan::is_named(pair.0, pair.1) || !self.seen.groups[place].is_source_specific)
    }

    fn got(&self, (from, to): Pair, test: usize) -> u32 {
        self.seen.delivered(to, from, test).map_or(0, |heard| heard.packets)
    }

    /// Packets that leave with another hop limit than the doctor has set.
    fn hop_limits(&self, found: &mut Vec<Finding>) {
        for from in 0..self.seen.hosts.len() {
            for (test, place) in self.scopes(true).chain(self.scopes(false)) {
                let left =
                    self.seen.left(from, test).filter(|left| left.packets > 0).map(|left| left.hop_limit);
                let neighbours = self.pairs().filter(|pair| pair.0 == from && self.is_same_lan(*pair));
                let heard = neighbours
                    .filter_map(|(from, to)| self.seen.delivered(to, from, test))
                    .map(|heard| heard.hop_limit)
                    .max();
                let hop_limit = left.or(heard).filter(|hop_limit| *hop_limit < plan::HOP_LIMIT);
                if let Some(hop_limit) = hop_limit {
                    let family = if self.seen.groups[place].address.is_ipv4() { "IPv4" } else { "IPv6" };
                    let seen = format!(
                        "{family} packets to groups leave {} with hop limit {hop_limit}, and the program set {}",
                        self.name(from),
                        plan::HOP_LIMIT
                    );
                    found.push(Finding::problem(Kind::HopLimit, self.host(from), seen));
                }
            }
        }
    }

    /// Groups that do not arrive. Returns the pairs between which the group of the further tests does not arrive, by family (IPv4:
    /// true): losses of those tests are no limit of lengths or rates.
    fn scopes_lost(&self, found: &mut Vec<Finding>) -> BTreeSet<(Pair, bool)> {
        let mut dead = BTreeSet::new();
        for is_ipv4 in [true, false] {
            let (mut lost, mut tried) = (BTreeSet::new(), BTreeSet::new());
            let mut partly: BTreeMap<usize, BTreeSet<Pair>> = BTreeMap::new();
            for pair in self.pairs().filter(|pair| self.have(*pair, is_ipv4)) {
                let concerned: Vec<_> =
                    self.scopes(is_ipv4).filter(|(_, place)| self.concerns(pair, *place)).collect();
                let missing: Vec<_> =
                    concerned.iter().copied().filter(|(test, _)| self.got(pair, *test) == 0).collect();
                if concerned.is_empty() {
                    continue;
                }
                let is_main = |(_, place): &(usize, usize)| *place == main(is_ipv4);
                if missing.len() == concerned.len() || missing.iter().any(is_main) {
                    dead.insert((pair, is_ipv4));
                }
                let unexplained: Vec<_> = missing
                    .iter()
                    .filter(|(test, place)| !self.explains(pair, *test, *place, found))
                    .collect();
                tried.insert(pair);
                let routable = |list: &[(usize, usize)]| {
                    list.iter().filter(|(_, place)| !self.seen.groups[*place].is_source_specific).count()
                };
                if !unexplained.is_empty() && routable(&missing) == routable(&concerned) {
                    lost.insert(pair);
                } else {
                    unexplained
                        .iter()
                        .for_each(|(_, place)| _ = partly.entry(*place).or_default().insert(pair));
                }
            }
            self.lost(&lost, &tried, is_ipv4, found);
            self.lost_partly(&partly, &tried, found);
        }
        dead
    }

    /// Whether it is known why this group did not arrive. If the cause is at one of the hosts, adds it.
    fn explains(&self, (from, to): Pair, test: usize, place: usize, found: &mut Vec<Finding>) -> bool {
        let group = &self.seen.groups[place];
        let says = |finding: &mut Vec<Finding>, kind, host, text: String| {
            finding.push(Finding::problem(kind, self.host(host), text));
            true
        };
        // A host that rewrites hop limits to 1 reaches no other LAN.
        let rewrites =
            found.iter().any(|finding| finding.kind == Kind::HopLimit && finding.blame == self.host(from));
        if rewrites && !self.is_same_lan((from, to)) {
            return true;
        }
        if self.seen.left(from, test).is_some_and(|left| left.packets == 0) {
            let kind = if self.is_known(Kind::HostFirewall, &self.host(from)) {
                Kind::HostFirewall
            } else {
                Kind::NotSent
            };
            return says(
                found,
                kind,
                from,
                format!("what its program sends to {} ({}) does not leave it", group.address, group.name),
            );
        }
        if self.seen.arrived(to, from, test).is_some_and(|arrived| arrived > 0) {
            let sender = self.seen.hosts[from].address(group.address.is_ipv4());
            let filtered = self.seen.ears[to].filtered.iter().find(|(address, _)| Some(*address) == sender);
            let name = self.name(from);
            return match filtered {
                Some((address, by)) => says(
                    found,
                    Kind::RpFilter,
                    to,
                    format!(
                        "packets of {name} ({address}) arrive at {}, but the route to it is by {by}, and rp_filter is strict",
                        self.seen.hosts[to].interface
                    ),
                ),
                None if self.is_known(Kind::HostFirewall, &self.host(to)) => says(
                    found,
                    Kind::HostFirewall,
                    to,
                    format!("packets of {name} to groups arrive, and its program does not get them"),
                ),
                None => says(
                    found,
                    Kind::HostDrops,
                    to,
                    format!(
                        "packets of {name} to {} arrive at {}, and its program does not get them",
                        group.address, self.seen.hosts[to].interface
                    ),
                ),
            };
        }
        if self.seen.ears[to].refused.iter().any(|why| why.starts_with(&format!("{}:", group.address))) {
            return true;
        }
        // An old querier has hosts speak a version without sources.
        group.is_source_specific
            && self.known.iter().any(|finding| matches!(finding.kind, Kind::OldQuerier | Kind::OldVersion))
    }

    /// Pairs between which nothing arrives, for a reason that is in the network.
    fn lost(&self, lost: &BTreeSet<Pair>, tried: &BTreeSet<Pair>, is_ipv4: bool, found: &mut Vec<Finding>) {
        let family = if is_ipv4 { "IPv4" } else { "IPv6" };
        for fault in self.places().faults(lost, tried) {
            let kind = match &fault.blame {
                _ if fault.is_one_way => Kind::OneWay,
                Blame::Routers { from, to } => {
                    // IPv4 comes first, and tells routers from switches where IPv6 cannot.
                    let is_same = |other: &&Finding| {
                        let is_of_routers =
                            [Kind::RouterFilter, Kind::NoMulticastRouting].contains(&other.kind);
                        is_of_routers && other.blame == fault.blame
                    };
                    let by_ipv4 = found.iter().find(is_same).map(|other| other.kind);
                    by_ipv4.unwrap_or_else(|| self.of_routers([from, to], is_ipv4))
                }
                _ => Kind::Lost,
            };
            found.push(Finding::problem(
                kind,
                fault.blame.clone(),
                format!("no {family} group arrives {}", self.between(&fault)),
            ));
        }
    }

    /// The reason why groups do not cross the routers between two LANs. A router that routes groups asks on both; a
    /// querier on one of them may be a router to a third. A LAN where no host could listen says nothing.
    fn of_routers(&self, lans: [&String; 2], is_ipv4: bool) -> Kind {
        let listened = |lan: &&String| self.seen.hosts.iter().any(|host| host.is_root && host.lan == **lan);
        let mut known = lans.into_iter().filter(listened).peekable();
        match known.peek().is_some() && known.all(|lan| self.asks(lan, is_ipv4)) {
            true => Kind::RouterFilter,
            false => Kind::NoMulticastRouting,
        }
    }

    /// Whether a router asks for listeners on a LAN: some querier there has an address, and is none of the hosts.
    fn asks(&self, lan: &str, is_ipv4: bool) -> bool {
        let on_lan = (0..self.seen.hosts.len()).filter(|host| self.seen.hosts[*host].lan == lan);
        let mut queriers = on_lan.flat_map(|host| &self.seen.examined[host].1);
        // A bridge that has no address asks as 0.0.0.0. Its IPv6 queries have a link-local address, so only IPv4 tells them apart;
        // without it, any querier may be a router.
        queriers.any(|querier| querier.address.is_ipv4() == is_ipv4 && !querier.address.is_unspecified())
    }

    fn between(&self, fault: &Fault) -> String {
        self.among(&fault.pairs)
    }

    fn among(&self, all: &[Pair]) -> String {
        let pairs: Vec<_> = all
            .iter()
            .take(3)
            .map(|(from, to)| format!("from {} at {}", self.name(*from), self.name(*to)))
            .collect();
        let more = all.len().saturating_sub(pairs.len());
        if more > 0 { format!("{}, and {more} more", pairs.join(", ")) } else { pairs.join(", ") }
    }

    /// Groups of some scopes, or some groups of a scope, that do not arrive, while others do.
    fn lost_partly(
        &self,
        partly: &BTreeMap<usize, BTreeSet<Pair>>,
        tried: &BTreeSet<Pair>,
        found: &mut Vec<Finding>,
    ) {
        let first_of = |place: usize| self.seen.groups.siblings(place).next().unwrap_or(place);
        let scopes: BTreeSet<_> = partly.keys().map(|place| first_of(*place)).collect();
        for first in scopes {
            let places: Vec<_> = self.seen.groups.siblings(first).collect();
            let misses =
                |pair: Pair, place: &usize| partly.get(place).is_some_and(|lost| lost.contains(&pair));
            let concerned = |pair: &Pair| places.iter().any(|place| self.concerns(*pair, *place));
            let tried: BTreeSet<_> = tried.iter().copied().filter(concerned).collect();
            let lossy = tried.iter().copied().filter(|pair| places.iter().any(|place| misses(*pair, place)));
            let (whole, some): (BTreeSet<_>, BTreeSet<_>) =
                lossy.partition(|pair| places.iter().all(|place| misses(*pair, place)));
            self.scope_lost(first, places.len(), (&whole, &tried), found);
            for fault in self.places().faults(&some, &tried) {
                let is_lost = |place: &usize| fault.pairs.iter().any(|pair| misses(*pair, place));
                let (lost, passed): (Vec<usize>, Vec<usize>) = places.iter().copied().partition(is_lost);
                let seen = format!(
                    "of the groups {}, {} {} not arrive {}, and {} {}",
                    self.seen.groups[first].name,
                    self.addresses(&lost),
                    does(&lost),
                    self.between(&fault),
                    self.addresses(&passed),
                    does(&passed)
                );
                found.push(Finding::problem(Kind::SomeGroups, fault.blame, seen));
            }
        }
    }

    /// Pairs between which no group of a scope arrives. `place`: the scope's first group; `count`: how many were tried.
    fn scope_lost(
        &self,
        place: usize,
        count: usize,
        (lost, tried): (&BTreeSet<Pair>, &BTreeSet<Pair>),
        found: &mut Vec<Finding>,
    ) {
        let group = &self.seen.groups[place];
        let more = if count > 1 { format!(" and {} more of its scope", count - 1) } else { String::new() };
        let verb = if count > 1 { "do" } else { "does" };
        for fault in self.places().faults(lost, tried) {
            let seen = format!(
                "{} ({}){more} {verb} not arrive {}, and other groups do",
                group.address,
                group.name,
                self.between(&fault)
            );
            let advice = if group.is_source_specific { Advice::AnySource } else { Advice::Any };
            found.push(Finding { advice, ..Finding::problem(Kind::Scope, fault.blame, seen) });
        }
    }

    fn addresses(&self, places: &[usize]) -> String {
        places
            .iter()
            .map(|place| self.seen.groups[*place].address.to_string())
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// Packets that come several times, or come back to their sender's LAN.
    fn copies(&self, found: &mut Vec<Finding>) {
        let count = self.seen.hosts.len();
        let all = self.pairs().chain((0..count).map(|host| (host, host)));
        let all: Vec<_> = all.filter_map(|pair| Some((pair, self.copies_of(pair)?))).collect();
        let lans = |pair: Pair| [pair.0, pair.1].map(|host| self.seen.hosts[host].lan.as_str());
        let is_at_home = |lan: &str| all.iter().any(|(pair, _)| lans(*pair) == [lan, lan]);
        for (pair, copies) in &all {
            let [from, to] = lans(*pair);
            // Routers hand on what a LAN with a loop has several times. So such a LAN is to blame, and else the nearest one.
            let is_handed_on =
                from != to && all.iter().any(|(other, _)| lans(*other).iter().any(|lan| is_at_home(lan)));
            let nearest =
                all.iter().filter(|(other, _)| other.0 == pair.0).map(|(_, copies)| copies.hop_limit).max();
            if is_handed_on || (from != to && nearest > Some(copies.hop_limit)) {
                continue;
            }
            let blame = match from == to {
                true => Blame::Lan { prefix: from.to_owned() },
                false => Blame::Routers { from: from.min(to).to_owned(), to: from.max(to).to_owned() },
            };
            let (number, most, least) = (copies.copies, copies.hop_limit, copies.least_hop_limit);
            let text =
                format!("a packet of {} comes {number} times at {}", self.name(pair.0), self.name(pair.1));
            found.push(match most != least || pair.0 == pair.1 {
                true => {
                    Finding::problem(Kind::Loop, blame, format!("{text}, with hop limits {most} to {least}"))
                }
                false => Finding::problem(Kind::Duplicates, blame, text),
            });
        }
    }

    /// The worst that was seen of copies between two hosts, or of a host's own packets that come back to it.
    fn copies_of(&self, (from, to): Pair) -> Option<&Heard> {
        let usual = if from == to { 0 } else { 1 };
        let tests = self.scopes(true).chain(self.scopes(false));
        let heard = tests
            .flat_map(|(test, _)| [self.seen.delivered(to, from, test), self.seen.captured(to, from, test)]);
        heard.flatten().filter(|heard| heard.copies > usual).max_by_key(|heard| heard.copies)
    }

    /// Hosts that get a group that they have not joined.
    fn flooding(&self, found: &mut Vec<Finding>) {
        for (number, test) in
            self.seen.tests.iter().enumerate().filter(|(_, test)| test.what == What::JoinedBySome)
        {
            for (from, to) in self.pairs().filter(|(_, to)| !plan::is_joiner(&self.seen.hosts, *to)) {
                let lan = Blame::Lan { prefix: self.seen.hosts[to].lan.clone() };
                let is_asked = self.seen.examined[to]
                    .1
                    .iter()
                    .all(|querier| !self.seen.hosts[to].addresses.contains(&querier.address));
                let arrived = self.seen.arrived(to, from, number).unwrap_or(0);
                if arrived == 0 || !is_asked {
                    continue;
                }
                let family = if test.is_ipv4 { "an IPv4" } else { "an IPv6" };
                let seen = format!(
                    "{} gets {family} group that it has not joined, from {}",
                    self.name(to),
                    self.name(from)
                );
                let kind =
                    if self.is_known(Kind::NoQuerier, &lan) { Kind::NoQuerier } else { Kind::Flooding };
                found.push(Finding::problem(kind, lan, seen));
            }
        }
    }

    fn lacks_unicast(&self, pair: Pair, is_ipv4: bool) -> bool {
        self.seen
            .no_unicast
            .iter()
            .any(|(host, family, _)| *family == is_ipv4 && (*host == pair.0 || *host == pair.1))
    }

    /// IPv6 extension headers that do not arrive, where plain unicast does.
    fn headers(&self, found: &mut Vec<Finding>) {
        let plain =
            self.seen.tests.iter().position(|test| *test == Test { what: What::Unicast, is_ipv4: false });
        for (number, test) in self.seen.tests.iter().enumerate() {
            let What::Header(header) = test.what else { continue };
            for from in (0..self.seen.hosts.len()).filter(|from| self.seen.hosts[*from].is_root) {
                for to in plan::unicast_peers(&self.seen.hosts, from) {
                    let pair = (from, to);
                    let is_tried = self.have(pair, false)
                        && !self.lacks_unicast(pair, false)
                        && plain.is_some_and(|plain| self.got(pair, plain) > 0);
                    if is_tried && self.got(pair, number) == 0 {
                        found.push(self.header(pair, number, header));
                    }
                }
            }
        }
    }

    fn header(&self, (from, to): Pair, test: usize, header: Header) -> Finding {
        let what = match header {
            Header::Routing => "a routing header (type 253)",
            Header::DestinationOptions => "destination options",
            Header::Fragment | Header::None => "a fragment header",
        };
        let seen = format!(
            "IPv6 packets with {what} do not arrive from {} at {}, and others do",
            self.name(from),
            self.name(to)
        );
        let (kind, advice) = match header {
            Header::Routing => (Kind::HeaderFilter, Advice::NotMead),
            Header::Fragment => (Kind::Fragments, Advice::Any),
            Header::DestinationOptions | Header::None => (Kind::HeaderFilter, Advice::Any),
        };
        let trace = self.seen.traces.iter().find(|trace| (trace.from, trace.to) == (from, to));
        if let Some(host) = self.firewall_of((from, to)) {
            return Finding { advice, ..Finding::problem(Kind::HostFirewall, self.host(host), seen) };
        }
        let blame = if self.seen.arrived(to, from, test).is_some_and(|arrived| arrived > 0) {
            self.host(to)
        } else if self.seen.left(from, test).is_some_and(|left| left.packets == 0) {
            self.host(from)
        } else {
            trace.map_or_else(|| self.path((from, to)), |trace| self.dropped(trace))
        };
        Finding { advice, ..Finding::problem(kind, blame, seen) }
    }

    /// The path between two hosts, the same in both directions.
    fn path(&self, (from, to): Pair) -> Blame {
        Blame::Path { from: self.name(from.min(to)), to: self.name(from.max(to)) }
    }

    /// The hops between which packets with the header get lost. A router may drop a packet as it comes in, before it counts the
    /// hop, or as it leaves. So the last router that is heard of may be to blame, or the next one (RFC 7872, section 2).
    fn dropped(&self, trace: &Trace) -> Blame {
        let passed = trace.with_header.iter().rposition(Option::is_some);
        let next = trace.plain.get(passed.map_or(0, |at| at + 1)).copied().flatten();
        match (passed.and_then(|at| trace.with_header[at]), next) {
            (None, Some(address)) => Blame::Router { address },
            (Some(after), next) => Blame::Hops {
                after: after.to_string(),
                before: next.map_or_else(|| self.name(trace.to), |router| router.to_string()),
            },
            (None, None) => self.path((trace.from, trace.to)),
        }
    }

    /// Hosts that are reached in one family only.
    fn unicast(&self, found: &mut Vec<Finding>) {
        for (host, is_ipv4, why) in &self.seen.no_unicast {
            let is_filtered = found
                .iter()
                .any(|finding| finding.kind == Kind::RpFilter && finding.blame == self.host(*host));
            if !is_filtered {
                let family = if *is_ipv4 { "IPv4" } else { "IPv6" };
                let blame = Blame::Path { from: self.name(0), to: self.name(*host) };
                found.push(Finding {
                    level: Level::Problem,
                    advice: Advice::Any,
                    ..Finding::problem(Kind::Unreachable, blame, format!("no {family} unicast: {why}"))
                });
            }
        }
    }
}

fn does(places: &[usize]) -> &'static str {
    if places.len() == 1 { "does" } else { "do" }
}

#[cfg(test)]
mod tests;
