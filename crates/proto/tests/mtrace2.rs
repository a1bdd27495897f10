//! Mtrace2 (RFC 8487) in trees of routers, from seeds: the way back to the source is found hop by hop, and nobody
//! gets more answers than the limits allow.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use treecast_proto::{
    Instant, Step,
    membership::{
        Input, LinkId, Message as Report, Passing, Record, Route, Router, RouterConfig, Transmit as Act,
        trace::{Arrival, HOP_LIMIT, LIMITS, MAX_LEN, Refusal, Surroundings, Tracer, Transmit, Upstream},
    },
    random::SplitMix64,
};
use treecast_wire::{
    membership::RecordKind,
    mtrace2::{Block, ForwardingCode, Header, Kind, Message},
};

const CLIENT_PORT: u16 = 40_000;

/// A router of the test network. Router number r makes link r + 1 and stands on one link that was there before.
struct Node {
    router: Router,
    tracer: Tracer,
    /// The link towards the source, and the router there. `None`: the source is on the link.
    upstream: LinkId,
    next: Option<usize>,
    is_silent: bool,
    /// Whether the router does not route by its link towards the source.
    lacks_upstream: bool,
    refused: BTreeMap<Refusal, usize>,
}

/// Routers in a tree. The source is on link 0.
struct Network {
    is_ipv4: bool,
    now: Instant,
    nodes: Vec<Node>,
    /// The replies that the client has got.
    replies: Vec<Message>,
    /// The number of datagrams that routers have sent.
    sent: usize,
}

impl Network {
    /// Router number r stands on link `parents[r]`, which must exist before it.
    fn new(is_ipv4: bool, parents: &[usize]) -> Self {
        let nodes = parents.iter().map(|parent| Node {
            router: Router::new(RouterConfig {
                entry_idle: Duration::from_secs(60),
                ..RouterConfig::default()
            }),
            tracer: Tracer::new(false),
            upstream: LinkId(*parent as u32),
            next: parent.checked_sub(1),
            is_silent: false,
            lacks_upstream: false,
            refused: BTreeMap::new(),
        });
        let nodes = nodes.collect();
        let mut network = Self { is_ipv4, now: Instant::ZERO, nodes, replies: Vec::new(), sent: 0 };
        for index in 0..network.nodes.len() {
            for link in network.links(index) {
                let address = network.neighbour(index, link);
                network.nodes[index].router.handle(Instant::ZERO, Input::Up { link, address });
            }
        }
        network.settle();
        network
    }

    fn random(is_ipv4: bool, random: &mut SplitMix64, routers: u64) -> Self {
        let parents: Vec<usize> = (0..routers).map(|router| random.below(router + 1) as usize).collect();
        Self::new(is_ipv4, &parents)
    }

    fn links(&self, index: usize) -> [LinkId; 2] {
        [self.nodes[index].upstream, LinkId(index as u32 + 1)]
    }

    fn on_link(&self, link: LinkId) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| self.links(*index).contains(&link)).collect()
    }

    /// The address of a router or, with number 65,000, of a host.
    fn address(&self, number: usize, link: LinkId) -> IpAddr {
        let number = number as u16 + 1;
        match self.is_ipv4 {
            true => Ipv4Addr::from(10 << 24 | link.0 << 16 | u32::from(number)).into(),
            false => Ipv6Addr::new(0xfd00, link.0 as u16, 0, 0, 0, 0, 0, number).into(),
        }
    }

    /// The address of a router for its neighbours.
    fn neighbour(&self, index: usize, link: LinkId) -> IpAddr {
        match self.is_ipv4 {
            true => self.address(index, link),
            false => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, index as u16 + 1).into(),
        }
    }

    fn host(&self, link: LinkId) -> IpAddr {
        self.address(65_000, link)
    }

    fn source(&self) -> IpAddr {
        self.host(LinkId(0))
    }

    fn group(&self) -> IpAddr {
        match self.is_ipv4 {
            true => [239, 1, 2, 3].into(),
            false => Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x42).into(),
        }
    }

    /// A host joins the group on a link, and all routers learn what they need.
    fn join(&mut self, link: LinkId) {
        let record = Record { kind: RecordKind::ToExclude, group: self.group(), sources: Vec::new() };
        let from = match self.is_ipv4 {
            true => self.host(link),
            false => "fe80::ffff".parse().expect("an address"),
        };
        for index in self.on_link(link) {
            let message = Report::Report(vec![record.clone()]);
            self.nodes[index].router.handle(self.now, Input::Message { link, from, message });
        }
        self.settle();
    }

    /// Lets the routers' own protocol run for five seconds.
    fn settle(&mut self) {
        for _ in 0..10 {
            while let Some((index, act)) = self.next_act() {
                match act {
                    Act::Send { link, message } => {
                        let from = self.neighbour(index, link);
                        for other in self.on_link(link).into_iter().filter(|other| *other != index) {
                            let message = message.clone();
                            self.nodes[other].router.handle(self.now, Input::Message { link, from, message });
                        }
                    }
                    Act::FindRoute { source } => {
                        let route = Route::Via(self.nodes[index].upstream);
                        self.nodes[index].router.handle(self.now, Input::Route { source, route });
                    }
                    Act::Install { .. } | Act::Remove { .. } | Act::Count { .. } => {}
                }
            }
            self.now += Duration::from_millis(500);
        }
    }

    fn next_act(&mut self) -> Option<(usize, Act)> {
        let now = self.now;
        self.nodes.iter_mut().enumerate().find_map(|(index, node)| {
            loop {
                match node.router.poll(now) {
                    Step::Transmit(act) => return Some((index, act)),
                    Step::Event(_) => {}
                    Step::Wait(..) => return None,
                }
            }
        })
    }

    fn query(&self, client: LinkId, hops: u8, query_id: u16) -> Message {
        let header = Header::new(
            hops,
            Some(self.group()),
            Some(self.source()),
            self.host(client),
            query_id,
            CLIENT_PORT,
        );
        Message { kind: Kind::Query, header: header.expect("a good header"), blocks: Vec::new() }
    }

    /// A client on the link asks all routers there.
    fn ask(&mut self, client: LinkId, message: &Message) {
        let all_routers = if self.is_ipv4 { "224.0.0.2" } else { "ff02::2" }.parse().expect("an address");
        let from = self.host(client);
        let arrival = Arrival { link: client, from, to: all_routers, hop_limit: 1, time: 7 };
        let asked = self.on_link(client).into_iter().map(|index| (index, arrival, message.to_bytes()));
        self.carry(asked.collect());
    }

    /// Carries datagrams from router to router until none is left.
    fn carry(&mut self, mut under_way: VecDeque<(usize, Arrival, Vec<u8>)>) {
        while let Some((index, arrival, bytes)) = under_way.pop_front() {
            assert!(bytes.len() <= MAX_LEN);
            for transmit in self.deliver(index, &arrival, &bytes) {
                self.sent += 1;
                match transmit {
                    Transmit::Reply { to, message, .. } => {
                        assert_eq!(to.port(), CLIENT_PORT);
                        self.replies.push(message);
                    }
                    Transmit::Request { link, to, message } => {
                        let to = to.expect("all routers are known");
                        let others = self.on_link(link);
                        let next = others.into_iter().find(|other| self.neighbour(*other, link) == to);
                        let from = self.neighbour(index, link);
                        let arrival = Arrival { link, from, to, hop_limit: HOP_LIMIT, time: 7 };
                        under_way.push_back((next.expect("a router"), arrival, message.to_bytes()));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, index: usize, arrival: &Arrival, bytes: &[u8]) -> Vec<Transmit> {
        if self.nodes[index].is_silent {
            return Vec::new();
        }
        let mut tracer = std::mem::replace(&mut self.nodes[index].tracer, Tracer::new(true));
        let done = tracer.handle(self.now, arrival, bytes, &mut View { network: self, index });
        self.nodes[index].tracer = tracer;
        done.unwrap_or_else(|refusal| {
            *self.nodes[index].refused.entry(refusal).or_default() += 1;
            Vec::new()
        })
    }

    /// The routers from a link to the source, the nearest first, each with its link towards the client.
    fn expected(&self, client: LinkId) -> Vec<(usize, LinkId)> {
        let first = (client.0 as usize).checked_sub(1);
        let routers = std::iter::successors(first, |router| self.nodes[*router].next);
        routers.map(|router| (router, LinkId(router as u32 + 1))).collect()
    }

    /// The blocks of all replies, in their order, with the code of a block that was marked full put right.
    fn blocks(&self) -> Vec<(Option<IpAddr>, ForwardingCode)> {
        let mut parts: Vec<_> = self.replies.iter().collect();
        parts.sort_by_key(|reply| reply.returned());
        let mut blocks = Vec::new();
        for part in parts {
            assert_eq!((part.kind, part.returned()), (Kind::Reply, blocks.len()));
            blocks.extend(part.standard().map(|block| (block.interfaces.router(), block.code)));
        }
        blocks
    }
}

/// What one router knows.
struct View<'a> {
    network: &'a Network,
    index: usize,
}

impl Surroundings for View<'_> {
    fn is_neighbour(&self, link: LinkId, address: IpAddr) -> bool {
        let is_router = |index| self.network.neighbour(index, link) == address;
        self.network.host(link) == address || self.network.on_link(link).into_iter().any(is_router)
    }

    fn address(&self, link: LinkId) -> Option<IpAddr> {
        Some(self.network.address(self.index, link))
    }

    fn upstream(&mut self, source: Option<IpAddr>) -> Upstream {
        let node = &self.network.nodes[self.index];
        if node.lacks_upstream {
            return Upstream::NotRouted;
        }
        match (source == Some(self.network.source()), node.next) {
            (false, _) => Upstream::Unknown,
            (true, None) => Upstream::Neighbour(node.upstream),
            (true, Some(next)) => {
                Upstream::Router(node.upstream, self.network.neighbour(next, node.upstream))
            }
        }
    }

    fn passing(&self, link: LinkId, source: Option<IpAddr>, group: Option<IpAddr>) -> Passing {
        self.network.nodes[self.index].router.passing(link, source, group)
    }

    fn packets(&self, _: LinkId) -> Option<(u64, u64)> {
        Some((3, 4))
    }

    fn packets_of(&self, _: IpAddr, _: IpAddr) -> Option<u64> {
        None
    }
}

const FAMILIES: [bool; 2] = [true, false];

#[test]
fn the_way_to_the_source_is_found_in_random_trees() {
    for seed in 0..300 {
        let mut random = SplitMix64(seed);
        let routers = 1 + random.below(40);
        let mut network = Network::random(seed % 2 == 0, &mut random, routers);
        let client = LinkId(1 + random.below(routers) as u32);
        network.join(client);
        network.ask(client, &network.query(client, 64, 9));
        let expected = network.expected(client);
        let addresses: Vec<_> =
            expected.iter().map(|(router, link)| Some(network.address(*router, *link))).collect();
        let found: Vec<_> = network.blocks().into_iter().map(|(address, _)| address).collect();
        assert_eq!(found, addresses, "seed {seed}");
        let bad = |(_, code): &(_, ForwardingCode)| {
            !matches!(code, ForwardingCode::NoError | ForwardingCode::NoSpace)
        };
        assert_eq!(network.blocks().iter().filter(|block| bad(block)).count(), 0, "seed {seed}");
        let parts = network.replies.len();
        assert_eq!(network.sent, expected.len() + parts - 1, "seed {seed}: one datagram a router and part");
    }
}

#[test]
fn a_long_way_comes_in_parts_that_fit_into_the_smallest_mtu() {
    for (is_ipv4, parts) in [(true, 5), (false, 8)] {
        let mut network = Network::new(is_ipv4, &(0..100).collect::<Vec<_>>());
        network.join(LinkId(100));
        network.ask(LinkId(100), &network.query(LinkId(100), 255, 1));
        assert_eq!(network.blocks().len(), 100);
        assert_eq!(network.replies.len(), parts);
        let full = network.blocks().iter().filter(|(_, code)| *code == ForwardingCode::NoSpace).count();
        assert_eq!(full, parts - 1, "each part but the last says that there is more");
    }
}

#[test]
fn a_trace_ends_after_as_many_hops_as_it_may_pass() {
    for is_ipv4 in FAMILIES {
        let mut network = Network::new(is_ipv4, &[0, 1, 2, 3]);
        network.join(LinkId(4));
        for hops in 1..=6 {
            network.replies.clear();
            network.ask(LinkId(4), &network.query(LinkId(4), hops, u16::from(hops)));
            assert_eq!(network.blocks().len(), usize::from(hops.min(4)));
        }
        let hops = network.nodes.iter().flat_map(|node| &node.refused).count();
        assert_eq!(hops, 0, "no router gets a request that has passed enough");
    }
}

#[test]
fn where_nobody_listens_all_routers_say_that_they_do_not_forward() {
    let mut network = Network::new(true, &[0, 1, 2]);
    network.ask(LinkId(3), &network.query(LinkId(3), 9, 1));
    let codes: Vec<_> = network.blocks().into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [ForwardingCode::NotForwarding; 3]);
}

#[test]
fn a_silent_router_ends_the_trace_and_those_before_it_are_found_by_fewer_hops() {
    let mut network = Network::new(false, &[0, 1, 2, 3, 4]);
    network.join(LinkId(5));
    network.nodes[1].is_silent = true;
    network.ask(LinkId(5), &network.query(LinkId(5), 32, 1));
    assert_eq!(network.replies, []);
    network.ask(LinkId(5), &network.query(LinkId(5), 3, 2));
    assert_eq!(network.blocks().len(), 3);
    let last = network.replies[0].standard().last().expect("three blocks").interfaces.upstream();
    assert_eq!(last, Some(network.neighbour(1, LinkId(2))), "it names the silent one");
}

#[test]
fn codes_say_why_a_trace_ends() {
    let code = |change: &dyn Fn(&mut Network, &mut Message)| {
        let mut network = Network::new(true, &[0, 1, 2]);
        network.join(LinkId(3));
        let mut query = network.query(LinkId(3), 9, 1);
        change(&mut network, &mut query);
        network.ask(LinkId(3), &query);
        network.blocks().into_iter().map(|(_, code)| code).collect::<Vec<_>>()
    };
    use ForwardingCode::{FatalError, NoError, NoMulticast, NoRoute, Prohibited, Scoped, UnknownQuery};
    assert_eq!(code(&|_, _| {}), [NoError; 3]);
    assert_eq!(code(&|network, _| network.nodes[1].tracer = Tracer::new(true)), [NoError, Prohibited]);
    assert_eq!(code(&|network, _| network.nodes[1].lacks_upstream = true), [NoError, NoMulticast]);
    let other_source = |network: &mut Network, query: &mut Message| {
        let source = Some([198, 51, 100, 1].into());
        let header = Header::new(9, Some(network.group()), source, query.header.client(), 1, CLIENT_PORT);
        query.header = header.expect("a good header");
    };
    assert_eq!(code(&other_source), [NoRoute]);
    let link_group = |_: &mut Network, query: &mut Message| {
        let (source, client) = (query.header.source(), query.header.client());
        let header = Header::new(9, Some([224, 0, 0, 251].into()), source, client, 1, CLIENT_PORT);
        query.header = header.expect("a good header");
    };
    assert_eq!(code(&link_group), [Scoped]);
    let extended = |is_transitive| {
        move |_: &mut Network, query: &mut Message| {
            query.blocks.push(Block::ExtendedQuery { is_transitive, kind: 1, value: vec![] });
        }
    };
    assert_eq!(code(&extended(false)), [UnknownQuery]);
    assert_eq!(code(&extended(true)), [NoError; 3]);
    // Routers 0 and 2 take each other for the way to the source: 2, 1, 0, 2, ...
    let circle = |network: &mut Network, _: &mut Message| {
        network.nodes[0].upstream = LinkId(3);
        network.nodes[0].next = Some(2);
    };
    assert_eq!(code(&circle), [NoError, NoError, NoError, FatalError]);
}

/// Only the router that brings packets to the link answers what all routers there are asked.
#[test]
fn of_the_routers_of_a_link_one_answers_and_another_that_is_asked_says_so() {
    for is_ipv4 in FAMILIES {
        let mut network = Network::new(is_ipv4, &[0, 1, 1, 1]);
        network.join(LinkId(1));
        let query = network.query(LinkId(1), 9, 1);
        network.ask(LinkId(1), &query);
        assert_eq!(network.replies.len(), 1);
        let refused: Vec<_> = network.nodes.iter().map(|node| node.refused.clone()).collect();
        assert!(refused[0].is_empty());
        assert!(refused[1..].iter().all(|refused| refused.keys().eq([&Refusal::NotLastHop])), "{refused:?}");

        network.replies.clear();
        let (from, to) = (network.host(LinkId(1)), network.address(2, LinkId(1)));
        let arrival = Arrival { link: LinkId(1), from, to, hop_limit: HOP_LIMIT, time: 7 };
        network.carry([(2, arrival, query.to_bytes())].into());
        assert_eq!(network.blocks(), [(None, ForwardingCode::WrongLastHop)]);
    }
}

/// One query causes one datagram of each router, and a client no more than the limits allow, whoever asks.
#[test]
fn nobody_gets_more_answers_than_the_limits_allow() {
    for is_ipv4 in FAMILIES {
        let mut network = Network::new(is_ipv4, &[0, 1]);
        network.join(LinkId(2));
        for id in 0..20_000_u16 {
            network.now += Duration::from_micros(500);
            network.ask(LinkId(2), &network.query(LinkId(2), 9, id));
        }
        let most = LIMITS.of_sender.at_once + LIMITS.of_sender.per_second * 10;
        assert!((most - 5..=most).contains(&(network.replies.len() as u32)), "{}", network.replies.len());
        assert_eq!(network.nodes[1].refused.keys().collect::<Vec<_>>(), [&Refusal::TooMany]);
    }
}

/// What is for another router costs a look-up of the route, so that is limited, too.
#[test]
fn a_flood_of_queries_for_another_router_is_not_looked_at() {
    let mut network = Network::new(true, &[0, 1, 1]);
    for id in 0..10_000 {
        network.ask(LinkId(1), &network.query(LinkId(1), 9, id));
    }
    let refused = &network.nodes[1].refused;
    assert_eq!(refused[&Refusal::NotLastHop] as u32, LIMITS.of_sender.at_once);
    assert_eq!(refused[&Refusal::TooMany] as u32, 10_000 - LIMITS.of_sender.at_once);
}

#[test]
fn who_is_not_a_neighbour_or_asks_for_others_gets_no_answer() {
    let mut network = Network::new(true, &[0, 1, 2]);
    network.join(LinkId(3));
    let link = LinkId(3);
    let (host, own) = (network.host(link), network.address(2, link));
    let query = network.query(link, 9, 1);
    let good = Arrival { link, from: host, to: own, hop_limit: HOP_LIMIT, time: 7 };
    let far = [198, 51, 100, 1].into();
    let refusal = |network: &mut Network, arrival: Arrival, message: &Message| {
        let before = network.sent;
        network.nodes[2].refused.clear();
        network.carry([(2, arrival, message.to_bytes())].into());
        let refused = network.nodes[2].refused.keys().next().copied();
        assert_eq!(network.sent > before, refused.is_none());
        refused
    };
    let not_neighbour = Some(Refusal::NotFromNeighbour);
    let cases = [
        Arrival { hop_limit: 254, ..good },
        Arrival { from: far, ..good },
        Arrival { from: network.address(1, link), ..good },
        Arrival { to: network.group(), ..good },
    ];
    for arrival in cases {
        assert_eq!(refusal(&mut network, arrival, &query), not_neighbour, "{arrival:?}");
    }
    let header = Header::new(9, query.header.group(), query.header.source(), far, 1, CLIENT_PORT);
    let for_another = Message { header: header.expect("a good header"), ..query.clone() };
    assert_eq!(refusal(&mut network, good, &for_another), not_neighbour, "a victim elsewhere");
    assert_eq!(refusal(&mut network, Arrival { from: far, ..good }, &for_another), not_neighbour);

    let request = Message { kind: Kind::Request, ..query.clone() };
    assert_eq!(refusal(&mut network, good, &request), not_neighbour, "no router has seen it");
    let reply = Message { kind: Kind::Reply, ..query.clone() };
    assert_eq!(refusal(&mut network, good, &reply), Some(Refusal::Malformed));
    let long = Block::ExtendedQuery { is_transitive: true, kind: 1, value: vec![0; MAX_LEN - 60] };
    let long = Message { blocks: vec![long], ..query.clone() };
    assert_eq!(refusal(&mut network, good, &long), Some(Refusal::Malformed), "no room for a block");

    assert_eq!(refusal(&mut network, good, &query), None);
    assert_eq!(refusal(&mut network, good, &query), Some(Refusal::Repeated));
    network.now += Duration::from_secs(10);
    assert_eq!(refusal(&mut network, good, &query), None, "a new one, after all that time");
}
