//! Networks in which all machines meet: routers with `membership` and MEADcast, hosts with MLD, the choice of fanout, and
//! sessions, while links fail.

use std::{
    net::Ipv6Addr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rand::{RngExt, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use treecast_proto::{local::Tuning, vcmtp::Repair};
use treecast_sim::{
    graph::{CablePlan, Change, GraphPlan},
    network::{Loss, Path, generator},
    session::{
        self, Carousel, Explicit, Fanout, Lists, Local, Multicast, ObjectPlan, Placed, PlacedRouter,
        ReceiverPlan, Routing, Run, Scenario,
    },
};

use crate::effort::seeds;

const BLOCK_LEN: u16 = 1_000;
const RATE_BPS: u64 = 4_000_000;
const MTU: usize = 1_500;

/// The time after which failures stop. Every network is whole again by then.
const TROUBLE: Duration = Duration::from_secs(3);

/// A network of hosts, routers and switches, in this order of their numbers.
#[derive(Default)]
struct Network {
    routers: usize,
    hosts: usize,
    switches: usize,
    /// The ends of each link, and its loss.
    links: Vec<(End, End, f64)>,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Host(usize),
    Router(usize),
    Switch(usize),
}

impl Network {
    fn node(&self, end: End) -> usize {
        match end {
            End::Host(number) => number,
            End::Router(number) => self.hosts + number,
            End::Switch(number) => self.hosts + self.routers + number,
        }
    }

    fn first_switch(&self) -> usize {
        self.hosts + self.routers
    }

    fn graph(&self, delay: Duration) -> GraphPlan {
        let mut forwards = vec![true; self.first_switch() + self.switches];
        forwards[..self.hosts].fill(false);
        let cable = |from: End, to: End, loss: f64| CablePlan {
            from: self.node(from),
            to: self.node(to),
            path: Path { loss: Loss::Uniform(loss), ..Path::clean(delay) },
            narrow: None,
            is_counted: true,
        };
        let both =
            |(one, other, loss): &(End, End, f64)| [cable(*one, *other, *loss), cable(*other, *one, *loss)];
        GraphPlan { forwards, cables: self.links.iter().flat_map(both).collect() }
    }

    /// Draws a network. Its routers are connected by a tree and by links that make loops. Each host is on a LAN with
    /// others or at a router of its own. Host 0 is the sender.
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let mut network = Self { routers: random.random_range(2..=6), ..Self::default() };
        let loss = |random: &mut ChaCha8Rng| if random.random_bool(0.5) { 0.0 } else { 0.01 };
        for router in 1..network.routers {
            let at = End::Router(random.random_range(0..router));
            network.links.push((at, End::Router(router), loss(random)));
        }
        for _ in 0..random.random_range(0..=3) {
            let [one, other] = [(); 2].map(|()| End::Router(random.random_range(0..network.routers)));
            let is_new = |(from, to, _): &(End, End, f64)| {
                (*from, *to) != (one, other) && (*from, *to) != (other, one)
            };
            if one != other && network.links.iter().all(is_new) {
                network.links.push((one, other, loss(random)));
            }
        }
        let wanted = random.random_range(3..=9);
        while network.hosts < wanted {
            let mut at = End::Router(random.random_range(0..network.routers));
            let many = random.random_range(1..=3_usize);
            if many > 1 {
                let switch = End::Switch(network.switches);
                network.switches += 1;
                network.links.push((at, switch, 0.0));
                at = switch;
            }
            for _ in 0..many {
                network.links.push((at, End::Host(network.hosts), 0.0));
                network.hosts += 1;
            }
        }
        network
    }

    /// Draws failures of links between routers. Routes avoid each link some time after it has failed, and use it again some
    /// time after it has come back.
    fn failures(&self, random: &mut ChaCha8Rng, size: usize) -> Vec<(Duration, usize, Change)> {
        let between_routers =
            |(one, other, _): &(End, End, f64)| matches!((one, other), (End::Router(_), End::Router(_)));
        let mut links: Vec<usize> =
            (0..self.links.len()).filter(|link| between_routers(&self.links[*link])).collect();
        links.shuffle(random);
        let mut changes = Vec::new();
        for link in links.into_iter().take(random.random_range(1..=3)) {
            let mut millis = |from: u64, to: Duration| {
                Duration::from_millis(random.random_range(from..=to.as_millis() as u64))
            };
            // While the object is being sent.
            let sending = Duration::from_secs_f64(size as f64 * 8.0 / RATE_BPS as f64);
            let fails = millis(0, sending.min(TROUBLE / 2));
            let returns = millis(fails.as_millis() as u64, TROUBLE);
            let noticed = millis(0, Duration::from_secs(1));
            let is_seen = random.random_bool(0.5);
            let change = |is_on| if is_seen { Change::Down(is_on) } else { Change::Cut(is_on) };
            for cable in [2 * link, 2 * link + 1] {
                changes.push((fails, cable, change(true)));
                changes.push((fails + noticed, cable, Change::Avoided(true)));
                changes.push((returns, cable, change(false)));
                changes.push((returns.max(fails) + noticed, cable, Change::Avoided(false)));
            }
        }
        changes.sort_by_key(|(at, ..)| *at);
        changes
    }
}

fn address(node: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, node as u16 + 1)
}

/// The addresses for packets with lists. Some routers speak MEADcast, and all of them multicast.
fn explicit(network: &Network, random: &mut ChaCha8Rng) -> Explicit {
    let lan_of = |host: usize| {
        network.links.iter().find_map(|(at, end, _)| {
            (*end == End::Host(host) && matches!(at, End::Switch(_))).then(|| network.node(*at))
        })
    };
    let router = |number: usize| {
        let node = network.node(End::Router(number));
        PlacedRouter { node, addresses: vec![address(node)], speaks: random.random_bool(0.7) }
    };
    Explicit {
        sender: address(0),
        receivers: (1..network.hosts).map(address).collect(),
        on_link: (1..network.hosts).map(|host| lan_of(0).is_some() && lan_of(host) == lan_of(0)).collect(),
        routers: (0..network.routers).map(router).collect(),
        mtu: MTU,
        lists: Lists::default(),
    }
}

/// A session in a network: the first host sends an object to all others.
fn scenario(seed: u64, network: &Network, fanout: Fanout, size: usize) -> Scenario {
    let multicast = Multicast::Mld(Routing { first_switch: network.first_switch(), source_trees: false });
    let placed = Placed {
        graph: network.graph(Duration::from_millis(2)),
        sender: 0,
        receivers: (1..network.hosts).collect(),
        fanout,
        multicast,
        explicit: None,
        local: None,
        changes: Vec::new(),
        starting: Duration::from_millis(10),
        seal_bytes: 0,
        timeout: Duration::from_secs(120),
        sample: Duration::from_secs(1),
    };
    let plan = ReceiverPlan { moves: Some(Vec::new()), ..ReceiverPlan::of(Path::clean(Duration::ZERO), 1) };
    Scenario {
        seed,
        block_len: BLOCK_LEN,
        max_run_len: 8 * u32::from(BLOCK_LEN),
        rate_bps: RATE_BPS,
        shares_rate: true,
        network: Some(Box::new(placed)),
        ..Scenario::of(vec![ObjectPlan::of(size)], vec![plan; network.hosts - 1])
    }
}

/// The scenario of a seed: network, failures, fanout and repair are drawn.
fn drawn(seed: u64) -> Scenario {
    let mut random = generator(seed, 0);
    let network = Network::draw(&mut random);
    let repair = random.random_range(0..5);
    let by_lists = [Fanout::Auto, Fanout::Auto, Fanout::Mead, Fanout::Xcast, Fanout::Multicast];
    let fanout = match repair {
        // Carousels and local groups need IP multicast here.
        0 | 1 => Fanout::Multicast,
        _ => by_lists[random.random_range(0..by_lists.len())],
    };
    let size = random.random_range(100..=600) * 1_000;
    let mut scenario = scenario(seed, &network, fanout, size);
    let explicit = explicit(&network, &mut random);
    let failures = network.failures(&mut random, size);
    let placed = scenario.network.as_mut().unwrap();
    placed.explicit = (fanout != Fanout::Multicast).then_some(explicit);
    placed.changes = failures;
    let source_trees = repair == 0 || random.random_bool(0.5);
    placed.multicast = Multicast::Mld(Routing { first_switch: network.first_switch(), source_trees });
    match repair {
        0 => {
            let wait_for = Some(network.hosts as u32 - 1);
            let tuning = Tuning { congestion_loss: 1.0, ..Tuning::default() };
            let settling = Duration::from_secs(1);
            placed.local = Some(Local { settling, wait_for, tuning, ..Local::default() });
        }
        1 => scenario.carousel = Some(Carousel::of_seed(seed)),
        2 => scenario.repair = Repair::After,
        _ => {}
    }
    scenario
}

fn complaint(seed: u64, run: &Run, receivers: usize) -> Option<String> {
    let (whole, faults) = (run.complete_receivers, run.faults.join("; "));
    (whole < receivers || !faults.is_empty())
        .then(|| format!("seed {seed}: {whole} of {receivers} are whole; {faults}"))
}

/// Every receiver gets everything, whatever fails on the way. TREECAST_SEEDS sets how many seeds are run.
#[test]
fn sessions_end_whole_while_links_fail() {
    let seeds = seeds(40).end;
    let next = AtomicU64::new(0);
    let failures = || {
        let mut failed = Vec::new();
        while let seed = next.fetch_add(1, Ordering::Relaxed)
            && seed < seeds
        {
            let scenario = drawn(seed);
            let receivers = scenario.receivers.len();
            failed.extend(complaint(seed, &session::run(&scenario, false), receivers));
        }
        failed
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(failures)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {seeds} seeds fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let hash = |seed| session::run(&drawn(seed), false).trace.hash();
    assert!((0..5).all(|seed| hash(seed) == hash(seed)));
    assert_ne!(hash(0), hash(1));
}

/// The sender's router 0, router 1 with a LAN of two receivers, router 2 on another way between them, and router 3, where
/// nobody listens.
fn detour() -> Network {
    use End::{Host, Router, Switch};
    let links = [
        (Host(0), Router(0)),
        (Router(0), Router(1)),
        (Router(0), Router(2)),
        (Router(2), Router(1)),
        (Router(0), Router(3)),
        (Router(1), Switch(0)),
        (Switch(0), Host(1)),
        (Switch(0), Host(2)),
    ];
    let links = links.map(|(one, other)| (one, other, 0.0)).to_vec();
    Network { routers: 4, hosts: 3, switches: 1, links }
}

/// Packets to the group take the one way that is left, and none goes where nobody listens. Routers need some seconds to
/// find out where packets come twice in a loop.
#[test]
fn routers_lead_a_group_around_a_link_that_fails() {
    let network = detour();
    for (source_trees, fails) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut scenario = scenario(1, &network, Fanout::Multicast, 5_000_000);
        let placed = scenario.network.as_mut().unwrap();
        placed.multicast = Multicast::Mld(Routing { first_switch: network.first_switch(), source_trees });
        if fails {
            let at = Duration::from_millis(300);
            let changes = [Change::Down(true), Change::Avoided(true)];
            placed.changes =
                changes.into_iter().flat_map(|change| [2, 3].map(|cable| (at, cable, change))).collect();
        }
        let run = session::run(&scenario, false);
        assert_eq!(complaint(1, &run, 2), None);
        assert!(run.figures.retransmitted_bytes < 500_000, "{:?}", run.figures);
        // The cables that a packet crosses: to router 0, to router 1, perhaps by router 2, to the switch, and to each host.
        let [before, after] = [8, 9].map(|second| run.samples[second]);
        let sent = (after.sender_bytes - before.sender_bytes) as f64;
        let cables = (after.network_bytes - before.network_bytes) as f64 / sent;
        let wanted = if fails { 6.0 } else { 5.0 };
        assert!((cables - wanted).abs() < 0.3, "source trees {source_trees}, fails {fails}: {cables} cables");
    }
}
