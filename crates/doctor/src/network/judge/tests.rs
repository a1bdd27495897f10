//! Judgements of runs that are made up: first a sound one, then with one thing wrong.

use super::{
    super::{
        groups::Groups,
        message::{Ear, Host, Visited},
    },
    *,
};
use crate::host::Querier;

/// Hosts a, b and c on LAN x, and d and e on LAN y, with one router between them.
const LANS: [&str; 5] = ["x", "x", "x", "y", "y"];

/// The groups of the run: with some that it has drawn.
fn groups() -> Groups {
    Groups::of_run(7, &[])
}

/// The network's treatment of a packet of a test from one host to another: the packets that arrive, how often each,
/// and the hop limit.
type Network<'a> = &'a dyn Fn(&Test, Pair) -> (u32, u32, u8);

fn sound(test: &Test, (from, to): Pair) -> (u32, u32, u8) {
    let is_far = LANS[from] != LANS[to];
    let hop_limit = plan::HOP_LIMIT - u8::from(is_far);
    let sent = sent(test);
    match test.what {
        What::Scope(place) if is_far && groups()[place].is_link_local => (0, 0, 0),
        // The first host of each LAN joins.
        What::JoinedBySome if !matches!(to, 0 | 3) => (0, 0, 0),
        _ => (sent, 1, hop_limit),
    }
}

fn sent(test: &Test) -> u32 {
    plan::FEW.max(test.what.enough())
}

fn host(index: usize) -> Host {
    let name = ["a", "b", "c", "d", "e"][index].to_owned();
    let addresses = vec![
        format!("10.0.0.{}", index + 1).parse().unwrap(),
        format!("fd00::{}", index + 1).parse().unwrap(),
    ];
    Host { name, is_root: true, addresses, lan: LANS[index].to_owned(), mtu: 1500, ..Host::default() }
}

/// The observation of this network. Programs get what arrives.
fn seen(network: Network) -> Observation {
    let hosts: Vec<_> = (0..LANS.len()).map(host).collect();
    let tests = plan::tests(&hosts, &groups());
    let ears = (0..hosts.len()).map(|to| {
        let heard = |from: usize| {
            let tests = tests.iter().enumerate();
            let is_counted = |test: &Test| test.what != What::Visit;
            let tests = tests.filter(move |(_, test)| is_counted(test));
            tests.filter(move |(_, test)| from != to && has_sent(test, (from, to))).filter_map(
                move |(number, test)| {
                    let (packets, copies, hop_limit) = network(test, (from, to));
                    let heard = Heard {
                        sender: from as u16,
                        test: number as u16,
                        packets,
                        copies,
                        hop_limit,
                        ..Heard::default()
                    };
                    (packets > 0).then_some(Heard { least_hop_limit: hop_limit, ..heard })
                },
            )
        };
        let arrived: Vec<_> = (0..hosts.len()).flat_map(heard).collect();
        let own = tests.iter().enumerate().map(|(number, test)| Heard {
            sender: to as u16,
            test: number as u16,
            packets: sent(test),
            copies: 1,
            hop_limit: plan::HOP_LIMIT,
            least_hop_limit: plan::HOP_LIMIT,
            is_own: true,
            ..Heard::default()
        });
        Ear {
            captured: Some(arrived.iter().cloned().chain(own).collect()),
            delivered: arrived,
            visits: visits(&tests, to),
            ..Ear::default()
        }
    });
    let router =
        |address: &str| Querier { interface: "if1".into(), address: address.parse().unwrap(), version: 3 };
    let queriers = vec![router("10.0.0.99"), router("fe80::99")];
    Observation {
        ears: ears.collect(),
        examined: vec![(Vec::new(), queriers); hosts.len()],
        hosts,
        groups: groups(),
        tests,
        ..Observation::default()
    }
}

/// The visits that a host has seen of the others' packets: they came 40 ms after its join, and until 2 s after its
/// leave.
fn visits(tests: &[Test], to: usize) -> Vec<Visited> {
    let numbers = (0..tests.len()).filter(|number| tests[*number].what == What::Visit);
    let all = numbers.flat_map(|test| (0..LANS.len()).map(move |from| (from, test)));
    let visited = |(from, test): (usize, usize)| Visited {
        sender: from as u16,
        test: test as u16,
        is_flooded: false,
        join_ms: Some(40),
        leave_ms: Some(2000),
    };
    all.filter(|(from, _)| *from != to).map(visited).collect()
}

/// Changes all visits of which this holds, by the sender and the host that makes the visit.
fn visited(seen: &mut Observation, is_it: impl Fn(usize, usize) -> bool, change: impl Fn(&mut Visited)) {
    for (to, ear) in seen.ears.iter_mut().enumerate() {
        ear.visits.iter_mut().filter(|visit| is_it(visit.sender.into(), to)).for_each(&change);
    }
}

/// Unicast goes from and to the first host only.
fn has_sent(test: &Test, (from, to): Pair) -> bool {
    let is_unicast = matches!(
        test.what,
        What::Unicast
            | What::Header(_)
            | What::Length { is_group: false, .. }
            | What::Rate { is_group: false, .. }
    );
    !is_unicast || from == 0 || to == 0
}

fn is_group(test: &Test) -> bool {
    matches!(
        test.what,
        What::Scope(_)
            | What::JoinedBySome
            | What::SuperPacket
            | What::Length { is_group: true, .. }
            | What::Rate { is_group: true, .. }
    )
}

fn judged(seen: &Observation) -> Vec<(Kind, Blame)> {
    findings(seen).into_iter().map(|finding| (finding.kind, finding.blame)).collect()
}

fn lan(prefix: &str) -> Blame {
    Blame::Lan { prefix: prefix.into() }
}

fn of_host(name: &str) -> Blame {
    Blame::Host { name: name.into() }
}

fn routers() -> Blame {
    Blame::Routers { from: "x".into(), to: "y".into() }
}

fn is_crossing((from, to): Pair) -> bool {
    LANS[from] != LANS[to]
}

#[test]
fn a_sound_network_has_no_finding() {
    let seen = seen(&sound);
    assert_eq!(judged(&seen), []);
    let matrix = Matrix::of(&seen);
    assert_eq!((matrix.len(), matrix[0].ipv4, matrix[0].hops), (20, Some((13, 13)), Some(0)));
    assert_eq!((matrix[3].to.as_str(), matrix[3].ipv4, matrix[3].hops), ("e", Some((12, 12)), Some(1)));
}

#[test]
fn routers_that_drop_groups_are_told_from_those_that_route_none() {
    let drops =
        |test: &Test, pair| if is_group(test) && is_crossing(pair) { (0, 0, 0) } else { sound(test, pair) };
    let mut seen = seen(&drops);
    assert_eq!(judged(&seen), [(Kind::RouterFilter, routers())]);
    // On one LAN a switch asks, as 0.0.0.0 and by its link-local address. The other LAN has a router, to a third one.
    let mut by_switch = seen.clone();
    for host in (0..LANS.len()).filter(|host| LANS[*host] == LANS[0]) {
        by_switch.examined[host].1[0].address = std::net::Ipv4Addr::UNSPECIFIED.into();
    }
    assert_eq!(judged(&by_switch), [(Kind::NoMulticastRouting, routers())]);
    // Without root on that LAN, nobody knows who asks there.
    for host in (0..LANS.len()).filter(|host| LANS[*host] == LANS[0]) {
        by_switch.hosts[host].is_root = false;
        by_switch.examined[host].1.clear();
    }
    assert_eq!(judged(&by_switch), [(Kind::RouterFilter, routers())]);
    seen.examined.iter_mut().for_each(|(_, queriers)| queriers.clear());
    assert_eq!(judged(&seen), [(Kind::NoMulticastRouting, routers())]);
}

#[test]
fn a_host_that_gets_packets_and_hands_none_on_is_to_blame() {
    let mut seen = seen(&sound);
    let groups: Vec<_> = seen.tests.iter().map(is_group).collect();
    seen.ears[1].delivered.retain(|heard| !groups[usize::from(heard.test)]);
    assert_eq!(judged(&seen), [(Kind::HostDrops, of_host("b"))]);
    seen.ears[1].filtered = vec![0, 2, 3, 4]
        .into_iter()
        .map(|from| (seen.hosts[from].addresses[0], "other".to_owned()))
        .collect();
    assert_eq!(judged(&seen)[0], (Kind::RpFilter, of_host("b")));
    let rule = Finding::problem(Kind::HostFirewall, of_host("b"), "a rule");
    seen.ears[1].filtered.clear();
    seen.examined[1].0.push(rule);
    assert_eq!(judged(&seen), [(Kind::HostFirewall, of_host("b"))]);
}

#[test]
fn a_hop_limit_that_is_rewritten_explains_why_no_router_is_passed() {
    let mut seen = seen(&|test, pair| match is_group(test) && pair.0 == 0 {
        true if is_crossing(pair) => (0, 0, 0),
        true => (sound(test, pair).0, 1, 1),
        false => sound(test, pair),
    });
    for heard in seen.ears[0].captured.iter_mut().flatten().filter(|heard| heard.is_own) {
        heard.hop_limit = 1;
    }
    assert_eq!(judged(&seen), [(Kind::HopLimit, of_host("a"))]);
    // Without root at the sender, its neighbours tell.
    seen.ears[0].captured = None;
    assert_eq!(judged(&seen), [(Kind::HopLimit, of_host("a"))]);
}

#[test]
fn a_cable_that_carries_groups_one_way_is_to_blame() {
    let cut =
        |test: &Test, pair: Pair| if is_group(test) && pair.0 == 1 { (0, 0, 0) } else { sound(test, pair) };
    assert_eq!(judged(&seen(&cut)), [(Kind::OneWay, Blame::LinkOf { host: "b".into() })]);
}

#[test]
fn copies_with_fewer_hops_are_a_loop_on_the_lan_where_they_come_back() {
    let mut seen = seen(&sound);
    let scopes: Vec<_> = seen.tests.iter().map(|test| matches!(test.what, What::Scope(_))).collect();
    for (to, ear) in seen.ears.iter_mut().enumerate() {
        // What goes round on x is handed on to y.
        for heard in ear.captured.iter_mut().flatten().filter(|heard| scopes[usize::from(heard.test)]) {
            if heard.sender < 3 && !heard.is_own {
                (heard.copies, heard.least_hop_limit) = (30 - u32::from(to > 2), 1);
            }
        }
    }
    assert_eq!(judged(&seen), [(Kind::Loop, lan("x"))]);
    for heard in seen.ears.iter_mut().flat_map(|ear| ear.captured.iter_mut().flatten()) {
        heard.least_hop_limit = heard.hop_limit;
    }
    assert_eq!(judged(&seen), [(Kind::Duplicates, lan("x"))]);
}

#[test]
fn a_group_that_a_host_has_not_joined_is_flooded_or_nobody_asks() {
    let floods = |test: &Test, pair: Pair| match test.what {
        What::JoinedBySome if pair.1 == 1 => (plan::FEW, 1, plan::HOP_LIMIT),
        _ => sound(test, pair),
    };
    let mut seen = seen(&floods);
    assert_eq!(judged(&seen), [(Kind::Flooding, lan("x"))]);
    let silent = Finding::problem(Kind::NoQuerier, lan("x"), "no query");
    // All hosts of the LAN must say so.
    seen.examined[0].0.push(silent.clone());
    assert_eq!(judged(&seen), [(Kind::Flooding, lan("x"))]);
    seen.examined[1].0.push(silent.clone());
    seen.examined[2].0.push(silent);
    assert_eq!(judged(&seen), [(Kind::NoQuerier, lan("x"))]);
}

#[test]
fn storm_control_spares_unicast_and_a_narrow_link_does_not() {
    let limits = |spares_unicast: bool| {
        move |test: &Test, pair: Pair| match test.what {
            What::Rate { mbit, is_group }
                if mbit > 1 && is_crossing(pair) && (is_group || !spares_unicast) =>
            {
                (17, 1, 31)
            }
            _ => sound(test, pair),
        }
    };
    assert_eq!(judged(&seen(&limits(true))), [(Kind::StormControl, routers())]);
    assert_eq!(judged(&seen(&limits(false))), [(Kind::NarrowLink, routers())]);
}

#[test]
fn lengths_and_scopes_that_do_not_pass_are_named() {
    let short = |test: &Test, pair: Pair| match test.what {
        What::Length { bytes, is_group: true } if bytes > 1280 && is_crossing(pair) => (0, 0, 0),
        _ => sound(test, pair),
    };
    assert_eq!(judged(&seen(&short)), [(Kind::SizeLimit, routers())]);
    let local = |test: &Test, pair: Pair| match test.what {
        What::Scope(place) if groups()[place].name == groups()[0].name && is_crossing(pair) => (0, 0, 0),
        _ => sound(test, pair),
    };
    assert_eq!(judged(&seen(&local)), [(Kind::Scope, routers())]);
    // Lengths and rates are tested with a group of the scope that is filtered here.
    let filtered = |test: &Test, pair: Pair| match test.what {
        What::Scope(place)
            if groups()[place].name == groups()[main(test.is_ipv4)].name && is_crossing(pair) =>
        {
            (0, 0, 0)
        }
        What::Length { is_group: true, .. } | What::Rate { is_group: true, .. } if is_crossing(pair) => {
            (0, 0, 0)
        }
        _ => sound(test, pair),
    };
    let kinds: BTreeSet<_> = judged(&seen(&filtered)).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [Kind::Scope]);
}

#[test]
fn a_filter_of_headers_is_between_the_last_hop_that_answers_and_the_next() {
    let filters = |test: &Test, pair: Pair| match test.what {
        What::Header(Header::Routing) if is_crossing(pair) => (0, 0, 0),
        _ => sound(test, pair),
    };
    let mut seen = seen(&filters);
    let path = |from: &str, to: &str| Blame::Path { from: from.into(), to: to.into() };
    assert!(judged(&seen).contains(&(Kind::HeaderFilter, path("a", "d"))), "nothing was traced");
    let router = |last: u16| Some(std::net::IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]));
    let trace = |with_header: &[Option<std::net::IpAddr>]| Trace {
        from: 0,
        to: 3,
        plain: vec![router(1), router(2)],
        with_header: with_header.to_vec(),
    };
    for (with_header, blame) in [
        (vec![], Blame::Router { address: router(1).unwrap() }),
        (vec![router(1)], Blame::Hops { after: "fd00::1".into(), before: "fd00::2".into() }),
        (vec![router(1), router(2)], Blame::Hops { after: "fd00::2".into(), before: "d".into() }),
    ] {
        seen.traces = vec![trace(&with_header)];
        assert!(judged(&seen).contains(&(Kind::HeaderFilter, blame.clone())), "{blame}");
    }
}

#[test]
fn an_old_querier_explains_that_source_specific_groups_do_not_arrive() {
    let without = |test: &Test, pair: Pair| match test.what {
        What::Scope(place) if groups()[place].is_source_specific && test.is_ipv4 && is_crossing(pair) => {
            (0, 0, 0)
        }
        _ => sound(test, pair),
    };
    let mut seen = seen(&without);
    assert_eq!(judged(&seen), [(Kind::Scope, routers())]);
    let querier = Blame::Querier { address: [10, 0, 0, 9].into() };
    seen.examined[0].0.push(Finding::problem(Kind::OldQuerier, querier.clone(), "IGMPv1"));
    assert_eq!(judged(&seen), [(Kind::OldQuerier, querier)]);
}

#[test]
fn some_groups_of_a_scope_that_do_not_arrive_are_told_apart_from_the_scope() {
    let drawn = groups().siblings(0).nth(1).unwrap();
    let some = |test: &Test, pair: Pair| match test.what {
        What::Scope(place) if place == drawn && is_crossing(pair) => (0, 0, 0),
        _ => sound(test, pair),
    };
    let found = findings(&seen(&some));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].kind, &found[0].blame), (Kind::SomeGroups, &routers()));
    let (lost, passed) = found[0].seen.split_once(" not arrive ").unwrap();
    assert!(lost.contains(&format!("{} does", groups()[drawn].address)), "{lost}");
    assert!(passed.contains("239.255.77.84 and "), "{passed}");
}

#[test]
fn rules_of_a_host_that_drop_groups_explain_its_fragments() {
    let no_fragments = |test: &Test, pair: Pair| match test.what {
        What::Length { bytes, is_group: true } if bytes > 1500 && pair.1 == 1 => (0, 0, 0),
        What::Header(Header::Fragment) if pair.1 == 1 => (0, 0, 0),
        _ => sound(test, pair),
    };
    let mut seen = seen(&no_fragments);
    assert!(judged(&seen).iter().all(|(kind, _)| *kind == Kind::Fragments));
    seen.examined[1].0.push(Finding::problem(Kind::HostFirewall, of_host("b"), "the rule x drops UDP"));
    assert_eq!(judged(&seen), [(Kind::HostFirewall, of_host("b"))]);
}

#[test]
fn hosts_that_share_no_family_have_tested_nothing() {
    let mut seen = seen(&sound);
    assert!(seen.has_tested());
    for (number, host) in seen.hosts.iter_mut().enumerate() {
        host.addresses.retain(|address| address.is_ipv4() == (number == 0));
    }
    seen.gone.extend([2, 3, 4]);
    assert!(!seen.has_tested());
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let mut seen = seen(&sound);
    seen.unreachable.push(("192.0.2.9".into(), "connection refused".into(), Some("start it")));
    assert_eq!(
        judged(&seen),
        [(Kind::Unreachable, Blame::Path { from: "a".into(), to: "192.0.2.9".into() })]
    );
}

#[test]
fn a_host_that_goes_away_is_marked_and_the_rest_counts() {
    let mut seen = seen(&sound);
    seen.ears[2] = Ear::default();
    seen.gone.insert(2);
    seen.unreachable.push(("c".into(), "went away".into(), None));
    assert_eq!(judged(&seen), [(Kind::Unreachable, Blame::Path { from: "a".into(), to: "c".into() })]);
    assert_eq!(Matrix::of(&seen).len(), 12);
}

#[test]
fn a_group_that_a_host_could_not_join_is_its_own_fault() {
    let not_joined = |test: &Test, pair: Pair| match test.what {
        What::Scope(4) if pair.1 == 1 => (0, 0, 0),
        _ => sound(test, pair),
    };
    let mut seen = seen(&not_joined);
    seen.ears[1].refused.push(format!("{}: No buffer space available", groups()[4].address));
    assert_eq!(judged(&seen), [(Kind::SmallLimit, of_host("b"))]);
}

#[test]
fn a_few_packets_that_get_lost_by_accident_are_no_limit() {
    let accident = |test: &Test, pair: Pair| match test.what {
        What::Length { bytes: 1280, is_group: true } if pair == (1, 3) => (0, 0, 0),
        What::Rate { mbit: 8, is_group: true } if pair == (1, 3) => (17, 1, 31),
        _ => sound(test, pair),
    };
    assert_eq!(judged(&seen(&accident)), []);
}

#[test]
fn a_sound_network_is_worth_no_second_look() {
    assert!(doubtful(&seen(&sound)).is_empty());
}

#[test]
fn what_is_lost_once_is_tested_again_and_counts_if_it_is_lost_twice() {
    let gap = |test: &Test, pair: Pair| match test.what {
        What::Length { is_group: true, bytes } if test.is_ipv4 && pair.0 == 1 && bytes >= 1280 => (0, 0, 0),
        _ => sound(test, pair),
    };
    let mut first = seen(&gap);
    assert!(judged(&first).iter().any(|(kind, _)| *kind == Kind::SizeLimit));
    let again = doubtful(&first);
    let whats: BTreeSet<_> = again.iter().map(|number| format!("{:?}", first.tests[*number])).collect();
    // 1280, 1500 and 3000 bytes, each to a group and by unicast.
    assert_eq!(whats.len(), 6, "{whats:?}");
    let second = seen(&sound);
    let is_wanted = |heard: &Heard| again.contains(&usize::from(heard.test));
    for (known, ear) in first.ears.iter_mut().zip(&second.ears) {
        let wanted = |all: &[Heard]| all.iter().filter(|heard| is_wanted(heard)).cloned().collect();
        merge(&mut known.delivered, wanted(&ear.delivered), |_| false);
        merge(known.captured.as_mut().unwrap(), wanted(ear.captured.as_ref().unwrap()), |_| false);
    }
    assert_eq!(judged(&first), []);
}

#[test]
fn of_a_group_that_was_not_joined_the_second_look_counts() {
    let heard = |test, packets| Heard { sender: 1, test, packets, copies: 1, ..Heard::default() };
    let mut known = vec![heard(1, 3), heard(2, 3)];
    merge(&mut known, vec![heard(2, 1), Heard { copies: 2, ..heard(1, 1) }], |heard| heard.test == 1);
    assert_eq!(known, [heard(2, 3), Heard { copies: 2, ..heard(1, 1) }]);
}

#[test]
fn super_packets_that_are_not_cut_are_their_senders_fault() {
    let whole = |test: &Test, pair: Pair| match test.what {
        What::SuperPacket if pair.0 == 1 => (2, 1, sound(test, pair).2),
        _ => sound(test, pair),
    };
    assert_eq!(judged(&seen(&whole)), [(Kind::SuperPackets, of_host("b"))]);
    // Where single packets get lost at a rate, too, nothing is said of super-packets.
    let narrow = |test: &Test, pair: Pair| match test.what {
        What::Rate { mbit, .. } if mbit > 1 && is_crossing(pair) => (17, 1, 31),
        _ => whole(test, pair),
    };
    assert_eq!(judged(&seen(&narrow)), [(Kind::NarrowLink, routers())]);
}

#[test]
fn fragments_are_told_from_long_packets() {
    let filters = |test: &Test, pair: Pair| match test.what {
        What::Length { bytes: 3000, is_group: true } if is_crossing(pair) => (0, 0, 0),
        _ => sound(test, pair),
    };
    assert_eq!(judged(&seen(&filters)), [(Kind::Fragments, routers())]);
}

#[test]
fn slow_joins_are_the_lans_or_the_routers_fault() {
    let mut far = seen(&sound);
    visited(&mut far, |from, to| is_crossing((from, to)), |visit| visit.join_ms = Some(1400));
    assert!(!doubtful(&far).is_empty());
    assert_eq!(judged(&far), [(Kind::SlowJoin, routers())]);
    let mut near = seen(&sound);
    visited(&mut near, |_, to| to > 2, |visit| visit.join_ms = None);
    assert_eq!(judged(&near), [(Kind::SlowJoin, lan("y"))]);
    // Whoever hears nothing of a host at all does not wait for it.
    let mut cut = seen(&|test, pair| if pair.0 == 1 { (0, 0, 0) } else { sound(test, pair) });
    visited(&mut cut, |from, _| from == 1, |visit| visit.join_ms = None);
    assert!(judged(&cut).iter().all(|(kind, _)| *kind != Kind::SlowJoin));
}

#[test]
fn slow_leaves_are_the_lans_fault_unless_it_floods_anyway() {
    let mut slow = seen(&sound);
    visited(&mut slow, |_, to| to == 3, |visit| visit.leave_ms = Some(9_400));
    assert!(!doubtful(&slow).is_empty());
    assert_eq!(judged(&slow), [], "it may have ended a little later");
    visited(&mut slow, |_, to| to == 3, |visit| visit.leave_ms = Some(9_960));
    assert_eq!(judged(&slow), [(Kind::SlowLeave, lan("y"))]);
    let silent = Finding::problem(Kind::NoQuerier, lan("y"), "no query");
    (3..5).for_each(|host| slow.examined[host].0.push(silent.clone()));
    assert_eq!(judged(&slow), [(Kind::NoQuerier, lan("y"))]);
    visited(&mut slow, |_, _| true, |visit| visit.is_flooded = true);
    slow.examined.iter_mut().for_each(|(findings, _)| findings.clear());
    assert_eq!(judged(&slow), []);
}

#[test]
fn a_later_visit_replaces_the_first_one_and_the_shorter_wait_counts() {
    let visit = |join_ms, leave_ms| Visited { sender: 1, test: 2, is_flooded: false, join_ms, leave_ms };
    let mut known = vec![visit(Some(1400), Some(3500)), Visited { sender: 2, ..visit(None, None) }];
    replace(&mut known, vec![visit(Some(40), Some(4100)), Visited { sender: 2, ..visit(Some(9), None) }]);
    assert_eq!(known, [visit(Some(40), Some(4100)), Visited { sender: 2, ..visit(Some(9), None) }]);
}
