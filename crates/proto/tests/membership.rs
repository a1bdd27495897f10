//! Multicast routers in networks without loops, against a model: a packet has to reach every LAN on the
//! way to somebody who wants it, once, and no other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use proptest::prelude::*;
use treecast_proto::{
    Instant, Step,
    membership::{
        Event, Filter, Forwarding, Input, Limits, LinkId, Message, Mode, Query, Record, Route, Router,
        RouterConfig, Timers, Transmit,
    },
};
use treecast_wire::membership::RecordKind;

const GROUPS: [[u8; 4]; 2] = [[239, 0, 0, 1], [232, 0, 0, 1]];
const ENTRY_IDLE: Duration = Duration::from_secs(60);

/// Long enough for the last listener of a group to be asked for, 2 s on each of six LANs one behind the
/// other; too short for a group to be forgotten because nobody reports it any more (22.5 s).
const SETTLE: Duration = Duration::from_secs(15);

#[test]
fn a_packet_of_a_silent_source_is_forgotten_and_one_of_a_busy_source_is_not() {
    let mut network = Network::chain();
    network.join(2);
    assert_eq!(network.packet(0, group(0)), BTreeSet::from([0, 1, 2]));
    for _ in 0..10 {
        network.count_packets(1);
        network.advance(ENTRY_IDLE / 2);
    }
    assert_eq!(network.entries(), 2);
    network.advance(ENTRY_IDLE * 2);
    assert_eq!(network.entries(), 0);
}

#[test]
fn with_an_upstream_configured_only_that_is_joined_and_gets_everything() {
    let mut network = Network::chain();
    for (index, upstream) in [(0, 0), (1, 1)] {
        let config = RouterConfig { upstream: Some(LinkId(upstream)), ..config() };
        network.routers[index].router = Router::new(config);
        network.start(index);
    }
    network.advance(SETTLE);
    network.join(1);
    let listening = |network: &Network, index: usize| -> Vec<LinkId> {
        network.listening(index).into_keys().map(|(link, _)| link).collect()
    };
    assert_eq!((listening(&network, 0), listening(&network, 1)), (vec![LinkId(0)], vec![]));
    assert_eq!(network.packet(0, group(0)), BTreeSet::from([0, 1]));
    assert_eq!(network.packet(2, group(0)), BTreeSet::from([0, 1, 2]), "up to the root, unasked");
}

/// LAN 0 - routers 0 and 1 - LAN 1: the querier of LAN 1 forwards to it, and when it falls silent the other.
#[test]
fn of_two_routers_with_the_same_upstream_one_forwards() {
    let mut network = Network::from_routers(vec![vec![0, 1], vec![0, 1]]);
    for index in 0..2 {
        let config = RouterConfig { upstream: Some(LinkId(0)), ..config() };
        network.routers[index].router = Router::new(config);
        network.start(index);
    }
    network.advance(SETTLE);
    network.join(1);
    // The model counts packets that come to a LAN twice as a failure.
    assert_eq!(network.packet(0, group(0)), BTreeSet::from([0, 1]));
    assert!(network.routers[1].installed[&(source(0), group(0))].to.is_empty());
    assert_eq!(network.packet(1, group(0)), BTreeSet::from([0, 1]), "to the upstream, by one of them");

    network.routers[0] = Node::new(vec![]);
    network.advance(config().timers.other_querier_present_interval());
    assert_eq!(network.packet(0, group(0)), BTreeSet::from([0, 1]));
    assert_eq!(network.routers[1].installed[&(source(0), group(0))].to.len(), 1);
    network.change(1, group(0), Filter::NOTHING);
    network.advance(SETTLE);
    assert_eq!(network.listening(1), BTreeMap::new());
}

/// LAN 0 - router 0 - LANs 1 and 3, LAN 2 between routers 1 and 2, of which router 2 has the listener's LAN 4.
#[test]
fn around_a_loop_joins_end_when_the_last_listener_has_left_a_known_source() {
    for is_sending in [true, false] {
        let mut network = Network::from_routers(vec![vec![0, 3, 1], vec![1, 2], vec![3, 2, 4]]);
        network.join(4);
        assert!((0..3).all(|index| !network.listening(index).is_empty()), "the source may be anywhere");
        for _ in 0..10 {
            assert!(network.flood(0, group(0)).contains(&4));
            network.advance(Duration::from_secs(3));
        }
        assert_eq!(network.flood(0, group(0)), [0, 3, 4]);
        network.change(4, group(0), Filter::NOTHING);
        for _ in 0..5 {
            if is_sending {
                network.flood(0, group(0));
            }
            network.advance(Duration::from_secs(3));
        }
        for index in 0..network.routers.len() {
            assert_eq!(network.listening(index), BTreeMap::new());
        }
        // The next listener is found a source again, wherever that is.
        network.join(0);
        assert!(network.flood(4, group(0)).contains(&0));
    }
}

/// LAN 1, between two routers, loses a message in five. With the two reports of RFC 9777, six of these joins fail until the
/// next general query. In a lab whose link lost 5 %, 15 receivers heard nothing of their sender for a minute.
#[test]
fn a_router_joins_over_a_link_that_loses_messages() {
    const JOINS: u8 = 200;
    let mut network = Network::chain();
    network.loss = Some((1, 5, 0x9e37_79b9_7f4a_7c15));
    let reached = |network: &mut Network, last: u8| {
        let group = IpAddr::from([239, 0, 1, last]);
        network.change(2, group, Filter::EVERYTHING);
        network.advance(Duration::from_secs(8));
        let reached = network.packet(0, group).contains(&2);
        network.change(2, group, Filter::NOTHING);
        reached
    };
    let failed = (0..JOINS).filter(|last| !reached(&mut network, *last)).count();
    assert!(failed <= 2, "{failed} of {JOINS} joins");
}

/// LANs 0, 1 and 2, each with a router, and links 3, 4 and 5 between the three routers.
fn triangle_with_source_trees() -> Network {
    let mut network = Network::from_routers(vec![vec![0, 3, 4], vec![1, 3, 5], vec![2, 4, 5]]);
    for index in 0..3 {
        let config = RouterConfig { source_trees: true, ..config() };
        network.routers[index].router = Router::new(config);
        network.start(index);
    }
    network.advance(SETTLE);
    network
}

#[test]
fn with_source_trees_each_source_in_a_loop_has_the_shortest_way_to_all() {
    let mut network = triangle_with_source_trees();
    (0..3).for_each(|lan| network.join(lan));
    // Sources begin one after the other, when the routers know the earlier ones.
    for source in 0..3 {
        let first: BTreeSet<usize> = network.flood(source, group(0)).into_iter().collect();
        assert!(first.is_superset(&BTreeSet::from([0, 1, 2])), "{first:?}");
        network.advance(SETTLE);
    }
    for (source, links) in [(0, [0, 1, 2, 3, 4]), (1, [0, 1, 2, 3, 5]), (2, [0, 1, 2, 4, 5])] {
        assert_eq!(network.flood(source, group(0)), links);
    }
    // A listener that leaves is not served any more, and one that comes again is.
    network.change(2, group(0), Filter::NOTHING);
    network.advance(SETTLE);
    assert!(!network.flood(0, group(0)).contains(&2));
    network.join(2);
    assert_eq!(network.flood(0, group(0)).iter().filter(|lan| **lan == 2).count(), 1);
}

/// LAN 2 has no listener. Found with a
/// router that forgot a source which it did not serve any more, and so asked for it again by another link.
#[test]
fn with_source_trees_a_router_that_serves_nobody_does_not_ask_again() {
    let mut network = triangle_with_source_trees();
    (0..2).for_each(|lan| network.join(lan));
    network.flood(0, group(0));
    // Between two routers, a round trip is enough.
    network.advance(Duration::from_millis(10));
    network.flood(0, group(0));
    for _ in 0..30 {
        network.advance(Duration::from_millis(100));
        assert_eq!(network.flood(0, group(0)), [0, 1, 3]);
    }
}

/// A snooping bridge would keep hosts of MLDv1 and IGMPv2 from the sources that a router excludes.
#[test]
fn a_router_does_not_exclude_what_it_forwards() {
    let mut network = Network::chain();
    network.change(0, group(0), Filter::EVERYTHING);
    network.change(2, group(0), Filter::EVERYTHING);
    for _ in 0..10 {
        assert_eq!(network.packet(0, group(0)), BTreeSet::from([0, 1, 2]));
        assert_eq!(network.packet(2, group(0)), BTreeSet::from([0, 1, 2]));
        network.advance(SETTLE);
    }
    for node in &network.routers {
        assert_eq!(node.unwanted, BTreeSet::new());
    }
}

#[test]
fn a_listener_of_a_named_source_is_joined_where_the_route_leads_also_after_it_has_changed() {
    let mut network = Network::chain();
    let wanted = Filter::include([source(0)]);
    network.change(2, group(1), wanted.clone());
    network.advance(SETTLE);
    let expected = |link| BTreeMap::from([((LinkId(link), group(1)), wanted.clone())]);
    assert_eq!(network.listening(0), expected(0));
    assert_eq!(network.listening(1), expected(1));
    // Router 0 now hears that the source is reached by LAN 1, where its listener is, too.
    network.input(0, Input::Route { source: source(0), route: Route::Via(LinkId(1)) });
    assert_eq!(network.listening(0), BTreeMap::new());
}

#[test]
fn a_source_without_a_route_comes_from_where_it_comes() {
    let mut network = Network::chain();
    network.join(2);
    let stranger = IpAddr::from([203, 0, 113, 1]);
    network.input(1, Input::NoEntry { link: LinkId(1), source: stranger, group: group(0) });
    let forwarding = |network: &Network| network.routers[1].installed.get(&(stranger, group(0))).cloned();
    let expected = Forwarding { from: LinkId(1), to: BTreeSet::from([LinkId(2)]) };
    assert_eq!(forwarding(&network), Some(expected));
    network.input(1, Input::WrongLink { link: LinkId(2), source: stranger, group: group(0) });
    assert_eq!(forwarding(&network), None, "it has moved to where its only listener is");
}

#[test]
fn packets_of_a_link_stay_there() {
    let mut network = Network::chain();
    network.join(2);
    let link_local = IpAddr::from([169, 254, 0, 1]);
    for (source, group) in [(link_local, group(0)), (source(0), IpAddr::from([224, 0, 0, 251]))] {
        network.input(1, Input::NoEntry { link: LinkId(1), source, group });
        let forwarding = network.routers[1].installed.get(&(source, group));
        assert!(forwarding.is_none_or(|forwarding| forwarding.to.is_empty()), "{source} {group}");
    }
}

#[test]
fn a_flood_of_sources_is_bounded() {
    let limits = Limits { entries: 10, routes: 15, ..Limits::default() };
    let mut network = Network::chain();
    network.routers[1].router = Router::new(RouterConfig { limits, ..config() });
    network.start(1);
    for last in 0..100 {
        let source = IpAddr::from([203, 0, 113, last]);
        network.input(1, Input::NoEntry { link: LinkId(1), source, group: group(0) });
    }
    assert_eq!(network.routers[1].installed.len(), 10);
    assert_eq!(network.routers[1].router.snapshot(network.now).refused, 90);
    network.advance(ENTRY_IDLE * 2);
    assert_eq!(network.entries(), 0, "and is forgotten");
}

/// A restarted router inherits its kernel's entries: none changes until listeners have had time to answer two queries.
#[test]
fn what_a_restarted_router_inherits_is_forwarded_without_a_gap() {
    for stays in [true, false] {
        let mut network = Network::chain();
        network.join(2);
        network.packet(0, group(0));
        let before = network.routers[1].installed.clone();
        assert_eq!(before[&(source(0), group(0))].to, BTreeSet::from([LinkId(2)]));
        network.routers[1].router = Router::new(config());
        if !stays {
            network.hosts.clear();
        }
        network.restart(1);
        let presumed = config().timers.startup_query_interval();
        for _ in 0..presumed.as_millis() / 10 {
            network.advance(Duration::from_millis(10));
            assert_eq!(network.routers[1].installed, before);
        }
        network.advance(SETTLE);
        let expected = if stays { before } else { BTreeMap::new() };
        assert_eq!(network.routers[1].installed, expected, "{stays}");
        assert_eq!(network.listening(1).is_empty(), !stays);
    }
}

#[test]
fn a_link_that_goes_down_takes_its_entries_with_it() {
    let mut network = Network::chain();
    network.change(2, group(0), Filter::EVERYTHING);
    network.join(1);
    network.packet(0, group(0));
    assert_eq!(network.entries(), 2);
    network.input(1, Input::Down { link: LinkId(2) });
    assert_eq!(network.routers[1].installed.len(), 0);
    assert_eq!(network.listening(1), BTreeMap::new());
    network.input(0, Input::Down { link: LinkId(0) });
    assert_eq!(network.routers[0].installed.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_reach_those_who_want_them_and_no_others(
        tree in tree(), changes in prop::collection::vec(change(), 1..12), restarted: prop::sample::Index,
    ) {
        exercise(Network::new(&tree), &changes, restarted, SETTLE)?;
    }

    /// When the last one who wants all sources leaves, the RFCs' tables keep those that the others have
    /// excluded until their timers run off: nobody is asked about them.
    #[test]
    fn also_where_sources_are_excluded_if_later(
        tree in tree(), changes in prop::collection::vec(change_with_exclusions(), 1..12),
        restarted: prop::sample::Index,
    ) {
        let settle = config().timers.listening_interval() + SETTLE;
        exercise(Network::new(&tree), &changes, restarted, settle)?;
    }
}

proptest! {
    /// Whatever comes from whomever at whatever time: state stays within its limits.
    #[test]
    fn nothing_that_a_network_says_breaks_the_bounds(
        inputs in prop::collection::vec((input(), 0..20u64), 1..300),
    ) {
        let limits = Limits {
            groups_per_link: 3, sources_per_group: 4, sources_per_link: 6, entries: 5, routes: 8,
        };
        let mut router = Router::new(RouterConfig { limits, ..config() });
        let mut now = Instant::from_nanos(1);
        for (input, seconds) in inputs {
            now += Duration::from_secs(seconds);
            router.handle(now, input);
            let mut steps = 0;
            while !matches!(router.poll(now), Step::Wait(..)) {
                steps += 1;
                prop_assert!(steps < 1000, "it comes to rest");
            }
            let snapshot = router.snapshot(now);
            prop_assert!(snapshot.entries.len() <= limits.entries);
            for link in snapshot.links {
                prop_assert!(link.groups.len() <= limits.groups_per_link);
                let sources = link.groups.iter().map(|group| match group.filter.mode {
                    Mode::Include => group.requested.len(),
                    Mode::Exclude => group.requested.len() + group.filter.sources.len(),
                });
                prop_assert!(sources.clone().all(|count| count <= limits.sources_per_group));
                prop_assert!(sources.sum::<usize>() <= limits.sources_per_link);
            }
        }
    }
}

/// Anything that can happen to a router, of few links, groups and sources, so that much of it meets.
fn input() -> impl Strategy<Value = Input> {
    let link = || (0..4u32).prop_map(LinkId);
    let address = || (0..4u8, 0..12u8).prop_map(|(lan, last)| IpAddr::from([10, lan, 0, last]));
    let group = || (0..5u8).prop_map(|last| IpAddr::from([if last == 4 { 232 } else { 239 }, 0, 0, last]));
    let route = prop_oneof![Just(Route::None), link().prop_map(Route::Via)];
    let message = (link(), address(), message(address(), group()));
    prop_oneof![
        2 => (link(), address()).prop_map(|(link, address)| Input::Up { link, address }),
        1 => link().prop_map(|link| Input::Down { link }),
        1 => prop::option::of(link()).prop_map(Input::Upstream),
        20 => message.prop_map(|(link, from, message)| Input::Message { link, from, message }),
        5 => (link(), address(), group())
            .prop_map(|(link, source, group)| Input::NoEntry { link, source, group }),
        2 => (link(), address(), group())
            .prop_map(|(link, source, group)| Input::WrongLink { link, source, group }),
        1 => (link(), link(), address(), group()).prop_map(|(from, to, source, group)| {
            let forwarding = Forwarding { from, to: BTreeSet::from([to]) };
            Input::Inherited { source, group, forwarding }
        }),
        5 => (address(), route).prop_map(|(source, route)| Input::Route { source, route }),
        1 => Just(Input::RoutesChanged),
        2 => (address(), group(), 0..3u64)
            .prop_map(|(source, group, packets)| Input::Counted { source, group, packets }),
    ]
}

fn message(
    address: impl Strategy<Value = IpAddr> + Clone + 'static,
    group: impl Strategy<Value = IpAddr> + Clone + 'static,
) -> impl Strategy<Value = Message> {
    let sources = prop::collection::vec(address, 0..6);
    let record = (prop::sample::select(RecordKind::ALL.to_vec()), group.clone(), sources.clone())
        .prop_map(|(kind, group, sources)| Record { kind, group, sources });
    let query = (prop::option::of(group.clone()), sources, any::<bool>(), 0..8u8, 0..300u64).prop_map(
        |(group, sources, suppress_router_processing, robustness, seconds)| {
            Message::Query(Query {
                max_response: Duration::from_secs(seconds % 11),
                group,
                suppress_router_processing,
                robustness,
                query_interval: Duration::from_secs(seconds),
                sources,
            })
        },
    );
    prop_oneof![
        5 => prop::collection::vec(record, 0..4).prop_map(Message::Report),
        2 => query,
        1 => group.clone().prop_map(Message::OldReport),
        1 => group.clone().prop_map(Message::IgmpV1Report),
        1 => group.prop_map(Message::OldLeave),
        1 => Just(Message::OldQuery { group: None, max_response: Duration::ZERO }),
        1 => Just(Message::RouterSolicitation),
    ]
}

/// Lets listeners come and go, restarts a router, sends everybody home, and compares with the model.
fn exercise(
    mut network: Network,
    changes: &[Change],
    restarted: prop::sample::Index,
    settle: Duration,
) -> Result<(), TestCaseError> {
    for change in changes {
        let lan = change.lan.index(network.lans);
        let sources = change.sources.iter().map(|lan| source(lan.index(network.lans)));
        let sources = sources.collect();
        network.change(lan, group(change.group), Filter { mode: change.mode, sources });
        network.advance(settle);
        network.check()?;
    }
    let restarted = restarted.index(network.routers.len());
    network.routers[restarted].router = Router::new(config());
    network.start(restarted);
    network.advance(Duration::from_secs(2));
    network.check()?;
    // What it had listened to, and now does not, the others forget only when nobody reports it.
    network.advance(config().timers.listening_interval());

    for lan in 0..network.lans {
        for index in 0..GROUPS.len() {
            network.change(lan, group(index), Filter::NOTHING);
        }
    }
    network.advance(settle);
    for (index, node) in network.routers.iter().enumerate() {
        prop_assert_eq!(network.listening(index), BTreeMap::new());
        prop_assert!(node.installed.values().all(|forwarding| forwarding.to.is_empty()));
        let links = node.router.snapshot(network.now).links;
        prop_assert!(links.iter().all(|link| link.groups.is_empty()), "{:#?}", links);
    }
    Ok(())
}

/// The host on a LAN wants something else of a group.
#[derive(Debug, Clone)]
struct Change {
    lan: prop::sample::Index,
    group: usize,
    mode: Mode,
    /// The LANs of the sources.
    sources: Vec<prop::sample::Index>,
}

fn tree() -> impl Strategy<Value = Vec<(bool, prop::sample::Index)>> {
    prop::collection::vec(any::<(bool, prop::sample::Index)>(), 1..7)
}

/// Everything, some sources, or nothing; all sources only of the group that allows it.
fn change() -> impl Strategy<Value = Change> {
    change_with_exclusions().prop_map(|change| match change.mode {
        Mode::Exclude => Change { sources: Vec::new(), ..change },
        Mode::Include => change,
    })
}

fn change_with_exclusions() -> impl Strategy<Value = Change> {
    let any_source = Just((0, Mode::Exclude));
    let named = (0..GROUPS.len()).prop_map(|group| (group, Mode::Include));
    let index = any::<prop::sample::Index>;
    (index(), prop_oneof![any_source, named], prop::collection::vec(index(), 0..3))
        .prop_map(|(lan, (group, mode), sources)| Change { lan, group, mode, sources })
}

fn config() -> RouterConfig {
    RouterConfig {
        timers: Timers::with_query_interval(Duration::from_secs(10)),
        limits: Limits::default(),
        upstream: None,
        source_trees: false,
        entry_idle: ENTRY_IDLE,
    }
}

fn group(index: usize) -> IpAddr {
    GROUPS[index].into()
}

/// The address of the source on a LAN.
fn source(lan: usize) -> IpAddr {
    IpAddr::from([10, lan as u8, 2, 1])
}

/// LANs, routers between them, and one listening host on each LAN.
struct Network {
    now: Instant,
    lans: usize,
    routers: Vec<Node>,
    /// What the host on a LAN wants of a group.
    hosts: BTreeMap<(usize, IpAddr), Filter>,
    /// Messages on their way: LAN, from whom.
    messages: VecDeque<(usize, IpAddr, Message)>,
    /// A LAN that loses one message in so many, and the state of a generator (xorshift) that draws them.
    loss: Option<(usize, u64, u64)>,
}

struct Node {
    router: Router,
    lans: Vec<usize>,
    installed: BTreeMap<(IpAddr, IpAddr), Forwarding>,
    /// The sources that its reports have said it does not want.
    unwanted: BTreeSet<IpAddr>,
    /// What each entry is said to have counted.
    packets: u64,
}

impl Node {
    fn new(lans: Vec<usize>) -> Self {
        let router = Router::new(config());
        Self { router, lans, installed: BTreeMap::new(), unwanted: BTreeSet::new(), packets: 0 }
    }
}

impl Network {
    /// LAN 0 - router 0 - LAN 1 - router 1 - LAN 2.
    fn chain() -> Self {
        Self::from_routers(vec![vec![0, 1], vec![1, 2]])
    }

    /// A tree of LANs: each one but the first hangs at a new router on an earlier LAN, or at an
    /// earlier router.
    fn new(tree: &[(bool, prop::sample::Index)]) -> Self {
        let mut routers: Vec<Vec<usize>> = Vec::new();
        for (lan, (is_new, at)) in (1..).zip(tree) {
            if *is_new || routers.is_empty() {
                routers.push(vec![at.index(lan), lan]);
            } else {
                let router = at.index(routers.len());
                routers[router].push(lan);
            }
        }
        Self::from_routers(routers)
    }

    fn from_routers(routers: Vec<Vec<usize>>) -> Self {
        let lans = routers.iter().flatten().max().map_or(1, |last| last + 1);
        let mut network = Self {
            now: Instant::from_nanos(1),
            lans,
            routers: routers.into_iter().map(Node::new).collect(),
            hosts: BTreeMap::new(),
            messages: VecDeque::new(),
            loss: None,
        };
        (0..network.routers.len()).for_each(|index| network.start(index));
        network.advance(SETTLE);
        network
    }

    /// A router begins: its links are up, its kernel knows nothing.
    fn start(&mut self, index: usize) {
        let node = &mut self.routers[index];
        node.installed.clear();
        for lan in &node.lans {
            let input = Input::Up { link: LinkId(*lan as u32), address: router_address(*lan, index) };
            node.router.handle(self.now, input);
        }
        self.settle();
    }

    /// A router begins with what its kernel has kept.
    fn restart(&mut self, index: usize) {
        let installed = std::mem::take(&mut self.routers[index].installed);
        self.start(index);
        for ((source, group), forwarding) in &installed {
            let (source, group, forwarding) = (*source, *group, forwarding.clone());
            self.routers[index].router.handle(self.now, Input::Inherited { source, group, forwarding });
        }
        self.routers[index].installed = installed;
        self.settle();
    }

    /// A host on a LAN joins the first group, and all routers hear of it.
    fn join(&mut self, lan: usize) {
        self.change(lan, group(0), Filter::EVERYTHING);
        self.advance(SETTLE);
    }

    /// Something happens at a router.
    fn input(&mut self, index: usize, input: Input) {
        self.routers[index].router.handle(self.now, input);
        self.settle();
    }

    /// The host on a LAN wants something else of a group.
    fn change(&mut self, lan: usize, group: IpAddr, filter: Filter) {
        self.report_change(lan, host_address(lan), group, &filter);
        self.hosts.insert((lan, group), filter);
        self.settle();
    }

    fn report_change(&mut self, lan: usize, from: IpAddr, group: IpAddr, filter: &Filter) {
        let kind = match filter.mode {
            Mode::Include => RecordKind::ToInclude,
            Mode::Exclude => RecordKind::ToExclude,
        };
        let record = Record { kind, group, sources: filter.sources.iter().copied().collect() };
        self.messages.push_back((lan, from, Message::Report(vec![record])));
    }

    fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let deadlines = (0..self.routers.len()).filter_map(|index| self.poll(index));
            let next = deadlines.collect::<Vec<_>>().into_iter().min();
            match next {
                Some(at) if at <= end => self.now = at.max(self.now),
                _ => break,
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            for index in 0..self.routers.len() {
                self.poll(index);
            }
            let Some((lan, from, message)) = self.messages.pop_front() else { return };
            self.deliver(lan, from, &message);
        }
    }

    fn deliver(&mut self, lan: usize, from: IpAddr, message: &Message) {
        let link = LinkId(lan as u32);
        if let Some((lossy, one_in, drawn)) = &mut self.loss
            && *lossy == lan
        {
            *drawn ^= *drawn << 13;
            *drawn ^= *drawn >> 7;
            *drawn ^= *drawn << 17;
            if (*drawn >> 32) % *one_in == 0 {
                return;
            }
        }
        for node in self.routers.iter_mut().filter(|node| node.lans.contains(&lan)) {
            node.router.handle(self.now, Input::Message { link, from, message: message.clone() });
        }
        if let Message::Query(query) = message {
            self.answer(lan, query.group);
        }
    }

    /// All hosts of a LAN say what they want: RFC 9776, 5.2.
    fn answer(&mut self, lan: usize, asked: Option<IpAddr>) {
        let of_host = self.hosts.iter().filter(|((of, _), _)| *of == lan);
        let wants: Vec<_> = of_host.map(|((_, group), filter)| (*group, filter.clone())).collect();
        for (group, filter) in wants {
            if filter.is_nothing() || asked.is_some_and(|asked| asked != group) {
                continue;
            }
            let kind = match filter.mode {
                Mode::Include => RecordKind::IsInclude,
                Mode::Exclude => RecordKind::IsExclude,
            };
            let record = Record { kind, group, sources: filter.sources.into_iter().collect() };
            self.messages.push_back((lan, host_address(lan), Message::Report(vec![record])));
        }
    }

    /// Carries out what a router wants; returns when it wants something again.
    fn poll(&mut self, index: usize) -> Option<Instant> {
        loop {
            let transmit = match self.routers[index].router.poll(self.now) {
                Step::Transmit(transmit) => transmit,
                Step::Event(Event::Full { .. }) => continue,
                Step::Wait(deadline, _) => return deadline,
            };
            self.execute(index, transmit);
        }
    }

    fn execute(&mut self, index: usize, transmit: Transmit) {
        match transmit {
            Transmit::Send { link, message } => {
                let lan = link.0 as usize;
                if let Message::Report(records) = &message {
                    use RecordKind::{Block, IsExclude, ToExclude};
                    let excluding =
                        records.iter().filter(|record| matches!(record.kind, Block | IsExclude | ToExclude));
                    let unwanted = &mut self.routers[index].unwanted;
                    unwanted.extend(excluding.flat_map(|record| &record.sources));
                }
                self.messages.push_back((lan, router_address(lan, index), message));
            }
            Transmit::Install { source, group, forwarding } => {
                assert!(!forwarding.to.contains(&forwarding.from), "{forwarding:?}");
                self.routers[index].installed.insert((source, group), forwarding);
            }
            Transmit::Remove { source, group } => {
                self.routers[index].installed.remove(&(source, group));
            }
            Transmit::FindRoute { source } => {
                let route = self.route(index, source);
                self.routers[index].router.handle(self.now, Input::Route { source, route });
            }
            Transmit::Count { source, group } => {
                let node = &mut self.routers[index];
                let packets = node.packets;
                node.router.handle(self.now, Input::Counted { source, group, packets });
            }
        }
    }

    /// From now on, entries are said to have counted `more` packets more.
    fn count_packets(&mut self, more: u64) {
        self.routers.iter_mut().for_each(|node| node.packets += more);
    }

    /// What a router listens to itself.
    fn listening(&self, index: usize) -> BTreeMap<(LinkId, IpAddr), Filter> {
        let listening = self.routers[index].router.snapshot(self.now).listening;
        listening.into_iter().map(|one| ((one.link, one.group), one.filter)).collect()
    }

    fn entries(&self) -> usize {
        self.routers.iter().map(|node| node.installed.len()).sum()
    }

    fn route(&self, index: usize, source: IpAddr) -> Route {
        let IpAddr::V4(address) = source else { return Route::None };
        let [10, lan, ..] = address.octets() else { return Route::None };
        let lan = usize::from(lan);
        let lans = &self.routers[index].lans;
        let ways = lans.iter().filter_map(|first| Some((self.distance(*first, lan, index)?, *first)));
        ways.min_by_key(|(distance, _)| *distance)
            .map_or(Route::None, |(_, first)| Route::Via(LinkId(first as u32)))
    }

    /// The number of routers between two LANs on the shortest way that does not pass router `but`. `None`: there is no
    /// way.
    fn distance(&self, from: usize, to: usize, but: usize) -> Option<usize> {
        let mut reached = BTreeSet::from([from]);
        let mut new = VecDeque::from([(from, 0)]);
        while let Some((lan, distance)) = new.pop_front() {
            if lan == to {
                return Some(distance);
            }
            for (index, node) in self.routers.iter().enumerate() {
                if index != but && node.lans.contains(&lan) {
                    let further = node.lans.iter().filter(|lan| reached.insert(**lan));
                    new.extend(further.map(|lan| (*lan, distance + 1)));
                }
            }
        }
        None
    }

    /// Sends a packet from the source on a LAN; returns the LANs on which it was seen.
    fn packet(&mut self, lan: usize, group: IpAddr) -> BTreeSet<usize> {
        let source = source(lan);
        let mut seen = BTreeSet::from([lan]);
        let mut new = vec![lan];
        while let Some(lan) = new.pop() {
            for index in 0..self.routers.len() {
                if !self.routers[index].lans.contains(&lan) {
                    continue;
                }
                let link = LinkId(lan as u32);
                if !self.routers[index].installed.contains_key(&(source, group)) {
                    let input = Input::NoEntry { link, source, group };
                    self.routers[index].router.handle(self.now, input);
                    self.settle();
                }
                let forwarding = &self.routers[index].installed[&(source, group)];
                if forwarding.from == link {
                    for to in &forwarding.to {
                        assert!(seen.insert(to.0 as usize), "twice on LAN {}", to.0);
                        new.push(to.0 as usize);
                    }
                }
            }
        }
        seen
    }

    /// Sends a packet from the source on a LAN of a network with loops; returns the LANs that it came to, in order,
    /// each as often as it did.
    fn flood(&mut self, lan: usize, group: IpAddr) -> Vec<usize> {
        let source = source(lan);
        let mut seen = Vec::new();
        let mut new = vec![(lan, None)];
        while let Some((lan, sender)) = new.pop() {
            seen.push(lan);
            assert!(seen.len() < 100, "it goes round");
            for index in (0..self.routers.len()).filter(|index| Some(*index) != sender) {
                if self.routers[index].lans.contains(&lan) {
                    new.extend(
                        self.forward(index, lan, source, group).into_iter().map(|to| (to, Some(index))),
                    );
                }
            }
        }
        seen.sort_unstable();
        seen
    }

    /// A packet comes to a router; returns where it goes on.
    fn forward(&mut self, index: usize, lan: usize, source: IpAddr, group: IpAddr) -> Vec<usize> {
        let link = LinkId(lan as u32);
        let key = (source, group);
        if !self.routers[index].installed.contains_key(&key) {
            self.routers[index].router.handle(self.now, Input::NoEntry { link, source, group });
            self.settle();
        }
        let Some(forwarding) = self.routers[index].installed.get(&key).cloned() else { return Vec::new() };
        if forwarding.from != link {
            self.routers[index].router.handle(self.now, Input::WrongLink { link, source, group });
            self.settle();
            return Vec::new();
        }
        forwarding.to.into_iter().map(|to| to.0 as usize).collect()
    }

    /// Compares where packets come to with where they have to.
    fn check(&mut self) -> Result<(), TestCaseError> {
        for from in 0..self.lans {
            for index in 0..GROUPS.len() {
                let wanted = |lan: &usize| {
                    let filter = self.hosts.get(&(*lan, group(index)));
                    filter.is_some_and(|filter| filter.passes(source(from)))
                };
                let listeners: Vec<usize> = (0..self.lans).filter(wanted).collect();
                let mut expected = BTreeSet::from([from]);
                listeners.iter().for_each(|to| expected.extend(self.way(from, *to)));
                let reached = self.packet(from, group(index));
                prop_assert_eq!(reached, expected, "from {} to group {}", from, index);
            }
        }
        Ok(())
    }

    /// The LANs on the way from one to another, both included.
    fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let mut way = vec![from];
        let mut lan = from;
        while lan != to {
            let next = self.routers.iter().enumerate().find_map(|(index, node)| {
                let behind = |next: &&usize| **next != lan && self.distance(**next, to, index).is_some();
                let next = node.lans.iter().find(behind);
                next.filter(|_| node.lans.contains(&lan))
            });
            lan = *next.expect("the network is connected");
            way.push(lan);
        }
        way
    }
}

fn router_address(lan: usize, router: usize) -> IpAddr {
    IpAddr::from([10, lan as u8, 0, router as u8 + 1])
}

fn host_address(lan: usize) -> IpAddr {
    IpAddr::from([10, lan as u8, 1, 1])
}
