//! The sender in a network of routers that answer late, in any order, or not at all, and among forgers.

use std::collections::BTreeSet;

use treecast_wire::{
    icmpv6::{Cause, Unreachable},
    ipv6::next_header,
};

use super::*;
use crate::explicit::{
    lists::List,
    mead::tree::tests::{SENDER, e, r},
};

const SECRET: [u8; 32] = [7; 32];

/// Router, header, proof and the group offered.
type Response = (Ipv6Addr, Header, Option<Proof>, Option<Ipv6Addr>);

/// Routers, the way to each receiver, and what is under way.
struct World {
    sender: Sender,
    now: Instant,
    ways: BTreeMap<Ipv6Addr, Vec<Ipv6Addr>>,
    random: u64,
    /// The number of responses that are lost, of a hundred.
    lost: u64,
    routers_key: Option<DomainKey>,
    under_way: BTreeMap<(Instant, u64), Response>,
    /// The times of requests, each with the receiver asked about.
    requests: Vec<(Instant, Ipv6Addr)>,
    groups: Vec<(Instant, TransmissionGroup)>,
    /// The other events that were told.
    events: Vec<Event>,
    /// All responses that were ever made, for an attacker that replays them.
    heard: Vec<Response>,
    /// Receivers that have joined the group, and those of them that their routers do not know at first.
    joined: BTreeSet<Ipv6Addr>,
    unknown: BTreeSet<Ipv6Addr>,
}

fn config() -> Config {
    Config {
        source: SENDER,
        algorithm: Algorithm::Thesis,
        parameters: Parameters::default(),
        delay: Duration::ZERO,
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(2),
        waits_for_traffic: false,
        requests_per_second: 1000,
        designated: None,
        key: None,
        seed: [3; 32],
    }
}

/// Figure 4.6, and behind R3 another router with two receivers.
fn ways() -> BTreeMap<Ipv6Addr, Vec<Ipv6Addr>> {
    let way = |number: u16| match number {
        1..=3 => vec![r(1), r(2)],
        4 | 5 => vec![r(1)],
        6..=8 => vec![r(1), r(3)],
        _ => vec![r(1), r(3), r(4)],
    };
    (1..=10).map(|number| (e(number), way(number))).collect()
}

fn seconds(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

impl World {
    fn new(config: Config, random: u64) -> Self {
        let routers_key = config.key.clone();
        let mut sender = Sender::new(Instant::ZERO, config);
        ways().keys().for_each(|receiver| sender.handle(Instant::ZERO, Input::Join(*receiver, 5000)));
        Self {
            sender,
            now: Instant::ZERO,
            ways: ways(),
            random,
            lost: 0,
            routers_key,
            under_way: BTreeMap::new(),
            requests: Vec::new(),
            groups: Vec::new(),
            events: Vec::new(),
            heard: Vec::new(),
            joined: BTreeSet::new(),
            unknown: BTreeSet::new(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            let deadline = match self.sender.poll(self.now) {
                Step::Transmit(request) => {
                    self.answer(request);
                    continue;
                }
                Step::Event(Event::Group(group)) => {
                    self.groups.push((self.now, group));
                    continue;
                }
                Step::Event(event) => {
                    self.events.extend((event != Event::Discovered).then_some(event));
                    continue;
                }
                Step::Wait(deadline, _) => deadline.unwrap_or(end),
            };
            let arrival = self.under_way.keys().next().map_or(end, |(at, _)| *at);
            let next = deadline.min(arrival).min(end);
            assert!(next >= self.now, "time never goes back");
            if next == end {
                self.now = end;
                return;
            }
            self.now = next;
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= next) {
                let (router, header, proof, group) = entry.remove();
                self.sender.handle(self.now, Input::Response { router, header: &header, proof, group });
            }
        }
    }

    fn answer(&mut self, request: Request) {
        let receiver = request.receiver;
        self.requests.push((self.now, receiver));
        let way = self.ways[&receiver].clone();
        let is_known = !self.unknown.remove(&receiver);
        for (hops, router) in (1..).zip(&way) {
            let offers = is_known && self.joined.contains(&receiver) && way.last() == Some(router);
            let group = request.group.filter(|_| offers);
            let key = self.routers_key.as_ref();
            let said = Said { router: *router, receiver, hops, group };
            let proof = request.nonce.zip(key).map(|(nonce, key)| key.prove(nonce, &said));
            if self.draw(100) >= self.lost {
                self.offer(*router, response(receiver, hops), proof, group);
            }
        }
    }

    fn send(&mut self, router: Ipv6Addr, header: Header, proof: Option<Proof>) {
        self.offer(router, header, proof, None);
    }

    fn offer(&mut self, router: Ipv6Addr, header: Header, proof: Option<Proof>, group: Option<Ipv6Addr>) {
        let at = self.now + Duration::from_micros(1000 + self.draw(300_000));
        let number = self.heard.len() as u64;
        self.heard.push((router, header.clone(), proof, group));
        self.under_way.insert((at, number), (router, header, proof, group));
    }

    fn group(&self) -> &TransmissionGroup {
        &self.groups.last().expect("there is one").1
    }

    /// The number of receivers in lists.
    fn in_lists(&self) -> usize {
        self.group().lists.iter().map(|list| list.receivers().count()).sum()
    }
}

fn response(receiver: Ipv6Addr, hops: u8) -> Header {
    Header { kind: Kind::Response, hops, next_header: next_header::NONE, ..Header::request(receiver) }
}

fn served(group: &TransmissionGroup) -> Vec<Ipv6Addr> {
    let in_lists = group.lists.iter().flat_map(List::receivers);
    let mut all: Vec<_> = in_lists.chain(group.unicast.iter().copied()).collect();
    all.sort_unstable();
    all
}

#[test]
fn everybody_gets_unicast_until_the_first_discovery_is_over() {
    let mut world = World::new(config(), 1);
    world.run_until(seconds(6));
    let [(joined, first), (changed, second)] = &world.groups[..] else { panic!("{:?}", world.groups) };
    assert_eq!((first.unicast.len(), first.lists.len(), *joined), (10, 0, Instant::ZERO));
    assert_eq!((*changed, second.number), (seconds(2), first.number + 1));
    assert!(second.unicast.is_empty());
    let routers: Vec<_> = second.lists[0].entries.iter().map(|(router, _)| *router).collect();
    assert_eq!(routers, [r(2), r(1), r(3), r(4)]);
    assert_eq!(world.sender.counters().discoveries, 1);
    assert_eq!(world.sender.counters().responses, world.heard.len() as u64, "the second one is under way");
}

#[test]
fn requests_are_spread_and_come_again_after_the_interval() {
    let mut world = World::new(config(), 2);
    world.run_until(seconds(9));
    assert_eq!(world.requests.len(), 20);
    let times: Vec<_> = world.requests.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_millis(50)));
    assert!(times[9] <= Instant::ZERO + Duration::from_millis(500) && times[10] == seconds(5));
}

#[test]
fn no_more_requests_leave_in_a_second_than_may_and_the_discovery_is_longer_by_that() {
    let mut world = World::new(Config { requests_per_second: 4, ..config() }, 2);
    world.lost = 20;
    // 10 receivers, 2.25 s; a quarter of the timeout after the last; and those again for whom something is lost.
    world.run_until(seconds(3));
    assert_eq!((world.requests.len(), world.sender.counters().discoveries), (10, 0));
    world.run_until(seconds(10));
    let times: Vec<_> = world.requests.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_millis(250)));
    assert!(world.sender.counters().discoveries >= 1);
    assert!(world.group().unicast.is_empty(), "{:?}", world.group());
}

#[test]
fn the_order_of_responses_changes_no_group() {
    let group = |random| {
        let mut world = World::new(config(), random);
        world.run_until(seconds(3));
        world.group().clone()
    };
    let first = group(0);
    assert!((1..50).all(|random| group(random) == first));
}

/// A lost response is made up for by the second request; without it, 9 of 10 discoveries would lack something.
#[test]
fn lost_responses_leave_everybody_served_and_seldom_change_the_group() {
    let (mut changes, mut discoveries) = (0, 0);
    for random in 0..20 {
        let mut world = World::new(config(), random);
        world.lost = 10;
        world.run_until(seconds(50));
        let everybody: Vec<_> = ways().into_keys().collect();
        assert!(world.groups.iter().all(|(_, group)| served(group) == everybody));
        changes += world.groups.len() as u64 - 2;
        discoveries += world.sender.counters().discoveries;
        world.lost = 0;
        world.run_until(seconds(58));
        assert!(world.group().unicast.is_empty());
    }
    assert!(changes * 3 < discoveries, "{changes} of {discoveries}");
}

#[test]
fn routers_that_stop_answering_are_left_out_by_the_next_group_and_come_back() {
    let mut world = World::new(config(), 5);
    world.run_until(seconds(4));
    let whole = world.group().clone();
    // A firewall behind R1.
    world.ways.values_mut().for_each(|way| way.truncate(1));
    world.run_until(seconds(8));
    let routers: BTreeSet<_> = world.group().lists[0].entries.iter().map(|(router, _)| *router).collect();
    assert_eq!(routers, BTreeSet::from([r(1)]));
    world.ways.values_mut().for_each(Vec::clear);
    world.run_until(seconds(13));
    assert_eq!((world.group().lists.len(), world.group().unicast.len()), (0, 10));
    world.ways = ways();
    world.run_until(seconds(18));
    assert!(world.group().is_as(&whole));
}

#[test]
fn without_routers_there_is_one_group_and_nobody_is_asked_about_twice() {
    let mut world = World::new(config(), 6);
    world.ways.values_mut().for_each(Vec::clear);
    world.run_until(seconds(19));
    assert_eq!((world.groups.len(), world.requests.len()), (1, 40));
}

#[test]
fn only_proved_responses_count_and_forgers_change_nothing() {
    let with_key = || Config { key: Some(DomainKey::new(&SECRET)), ..config() };
    let mut honest = World::new(with_key(), 7);
    honest.run_until(seconds(9));

    let mut world = World::new(with_key(), 7);
    world.run_until(seconds(3));
    let early: Vec<_> = world.heard.clone();
    assert_eq!(world.sender.counters().replayed, 0);
    world.run_until(seconds(5));
    for (router, header, proof, _) in &early {
        // Of another discovery; with other hops; with a key of one's own; without a proof.
        world.send(*router, header.clone(), *proof);
        world.send(*router, Header { hops: header.hops + 1, ..header.clone() }, *proof);
        let said = Said { router: r(99), receiver: header.addresses[0], hops: 1, group: None };
        let forged = DomainKey::new(&[8; 32]).prove([0; NONCE_LEN], &said);
        world.send(r(99), response(header.addresses[0], 1), Some(forged));
        world.send(r(99), response(header.addresses[0], 1), None);
    }
    world.run_until(seconds(9));
    assert!(world.group().is_as(honest.group()));
    assert_eq!(world.groups.len(), honest.groups.len());
    let (counters, count) = (world.sender.counters(), early.len() as u64);
    assert_eq!((counters.replayed, counters.forged, counters.unproved), (count, 2 * count, count));
    assert_eq!(counters.responses, honest.sender.counters().responses);
}

/// Behind R3 there is another way; its farewell, for the last request about `receiver`.
fn say_farewell(
    world: &mut World,
    receiver: Ipv6Addr,
    key: Option<&DomainKey>,
    nonce: Option<[u8; NONCE_LEN]>,
) {
    let said = Said { router: r(3), receiver, hops: 0, group: None };
    let proof = nonce.zip(key).map(|(nonce, key)| key.prove(nonce, &said));
    world.send(r(3), response(receiver, 0), proof);
}

#[test]
fn a_router_that_leaves_is_left_out_at_once_and_forgers_cost_a_few_discoveries() {
    let slow = || Config { interval: Duration::from_secs(60), ..config() };
    let mut world = World::new(slow(), 9);
    world.run_until(seconds(10));
    world.ways.values_mut().for_each(|way| way.retain(|router| *router != r(3)));
    say_farewell(&mut world, e(7), None, None);
    world.run_until(seconds(13));
    let routers: BTreeSet<_> = world.group().lists.iter().flat_map(|list| &list.entries).collect();
    assert!(!routers.iter().any(|(router, _)| *router == r(3)), "{routers:?}");
    let counters = world.sender.counters();
    assert_eq!((counters.discoveries, counters.farewells), (2, 1));
    // It is on no way any more, and was never on this one.
    say_farewell(&mut world, e(7), None, None);
    say_farewell(&mut world, e(1), None, None);
    world.run_until(seconds(15));
    assert_eq!((world.sender.counters().farewells, world.sender.counters().anomalous), (1, 2));

    let mut attacked = World::new(slow(), 9);
    for second in 1..179 {
        attacked.run_until(seconds(second));
        say_farewell(&mut attacked, e(7), None, None);
    }
    attacked.run_until(seconds(179));
    let discoveries = attacked.sender.counters().discoveries;
    assert!((11..=13).contains(&discoveries), "{discoveries}: without the attack 3");
}

#[test]
fn a_farewell_proves_itself_and_counts_for_a_while() {
    let key = DomainKey::new(&SECRET);
    let mut world = World::new(Config { key: Some(key.clone()), ..config() }, 9);
    world.run_until(seconds(4));
    let nonce_of_first = world.heard.iter().find(|(_, header, _, _)| header.addresses[0] == e(7));
    let nonce_of_first = nonce_of_first.and_then(|(_, _, proof, _)| *proof).expect("a proof").nonce;
    say_farewell(&mut world, e(7), None, None);
    say_farewell(&mut world, e(7), Some(&DomainKey::new(&[8; 32])), Some(nonce_of_first));
    say_farewell(&mut world, e(7), Some(&key), Some([0; NONCE_LEN]));
    world.run_until(seconds(5));
    let counters = world.sender.counters();
    assert_eq!((counters.discoveries, counters.farewells), (1, 0));
    assert_eq!((counters.unproved, counters.forged, counters.replayed), (1, 1, 1));
    world.run_until(seconds(8));
    say_farewell(&mut world, e(7), Some(&key), Some(nonce_of_first));
    world.run_until(seconds(12));
    assert_eq!((world.sender.counters().discoveries, world.sender.counters().farewells), (3, 1));
    world.run_until(seconds(100));
    say_farewell(&mut world, e(7), Some(&key), Some(nonce_of_first));
    world.run_until(seconds(101));
    assert_eq!((world.sender.counters().farewells, world.sender.counters().replayed), (1, 2), "a recording");
}

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x77);

/// A world in which some receivers have joined the group at port 5000.
fn with_group(joined: &[u16], key: Option<DomainKey>) -> World {
    let mut world = World::new(Config { designated: Some((GROUP, 5000)), key, ..config() }, 12);
    world.joined = joined.iter().copied().map(e).collect();
    world
}

#[test]
fn receivers_that_have_joined_are_served_by_the_last_router_on_their_way() {
    for key in [None, Some(DomainKey::new(&SECRET))] {
        let mut world = with_group(&[1, 2, 3, 6, 7], key);
        world.run_until(seconds(3));
        let group = world.group().clone();
        assert_eq!(served(&group), ways().into_keys().collect::<Vec<_>>());
        // No router stands in one list twice.
        let [list, second] = &group.lists[..] else { panic!("{group:?}") };
        assert_eq!(list.designated, [(r(2), vec![e(1), e(2), e(3)])]);
        assert_eq!((&second.designated, second.entries.len()), (&vec![(r(3), vec![e(6), e(7)])], 0));
        let listed = [(r(1), vec![e(4), e(5)]), (r(3), vec![e(8)]), (r(4), vec![e(9), e(10)])];
        assert_eq!(list.entries, listed);
        // A host that does not listen any more, or a router that offers nothing any more, is found out by the next discovery.
        world.joined = BTreeSet::from([e(6), e(7)]);
        world.run_until(seconds(8));
        assert_eq!(world.group().lists[1].designated, [(r(3), vec![e(6), e(7)])]);
        assert_eq!(served(world.group()), served(&group));
    }
}

#[test]
fn a_router_that_did_not_know_a_receiver_is_asked_again() {
    let mut world = with_group(&[1, 2, 3], None);
    world.unknown = BTreeSet::from([e(2)]);
    world.run_until(seconds(3));
    assert_eq!(world.group().lists[0].designated, [(r(2), vec![e(1), e(2), e(3)])]);
    assert_eq!(world.requests.len(), 11);
}

#[test]
fn other_ports_and_other_groups_are_not_served_by_the_group() {
    let mut world = with_group(&[1, 2, 3], None);
    world.sender.handle(world.now, Input::Join(e(1), 5001));
    world.run_until(seconds(1));
    for number in [1, 2, 3] {
        world.offer(r(2), response(e(number), 2), None, Some(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 1)));
    }
    world.run_until(seconds(3));
    assert_eq!(world.group().lists[1].designated, [(r(2), vec![e(2), e(3)])]);
    assert!(world.group().lists[0].entries.contains(&(r(2), vec![e(1)])));
}

#[test]
fn a_sender_whose_key_is_another_one_s_uses_unicast() {
    let mut world = World::new(Config { key: Some(DomainKey::new(&SECRET)), ..config() }, 8);
    world.routers_key = Some(DomainKey::new(&[9; 32]));
    world.run_until(seconds(4));
    assert_eq!((world.group().unicast.len(), world.sender.counters().forged), (10, world.heard.len() as u64));
}

#[test]
fn receivers_join_and_leave_while_the_sender_runs() {
    let mut world = World::new(config(), 9);
    world.run_until(seconds(3));
    world.ways.insert(e(20), vec![r(1), r(2)]);
    world.sender.handle(world.now, Input::Join(e(20), 5001));
    world.sender.handle(world.now, Input::Leave(e(4)));
    world.run_until(seconds(4));
    assert_eq!(world.group().unicast, [e(20)]);
    assert!(!served(world.group()).contains(&e(4)));
    // In the middle of a discovery.
    world.run_until(seconds(5) + Duration::from_millis(100));
    world.ways.insert(e(21), vec![r(1), r(2)]);
    world.sender.handle(world.now, Input::Join(e(21), 5002));
    world.sender.handle(world.now, Input::Leave(e(5)));
    world.run_until(seconds(8));
    let group = world.group();
    assert!(group.unicast.is_empty() && group.ports[&e(21)] == 5002);
    let expected: Vec<_> = [1, 2, 3, 6, 7, 8, 9, 10, 20, 21].map(e).to_vec();
    assert_eq!(served(group), expected);
    assert_eq!(world.sender.counters().anomalous, 0);
}

/// A receiver that started a second later than the others was asked about five seconds later, and sent to
/// alone until then.
#[test]
fn who_joins_is_asked_about_at_once_and_nobody_else_is() {
    let mut world = World::new(config(), 15);
    world.run_until(seconds(3));
    for (number, millis) in [(20, 0), (21, 100), (22, 1200)] {
        world.run_until(seconds(3) + Duration::from_millis(millis));
        world.ways.insert(e(number), vec![r(1), r(2)]);
        world.sender.handle(world.now, Input::Join(e(number), 5000));
    }
    // 20 and 21 together until 5.1; then everybody, 22 among them.
    let since = |world: &World, number: usize| world.requests[number..].iter().map(|(_, one)| *one).collect();
    world.run_until(seconds(5) + Duration::from_millis(100));
    assert_eq!(BTreeSet::from([e(20), e(21)]), since(&world, 10));
    assert_eq!((world.requests.len(), &world.group().unicast[..]), (12, &[e(20), e(21), e(22)][..]));
    world.run_until(seconds(5) + Duration::from_millis(101));
    assert_eq!(world.group().unicast, [e(22)]);
    world.run_until(seconds(10));
    assert_eq!((world.requests.len(), world.sender.counters().discoveries), (25, 3));
    assert!(world.group().unicast.is_empty());
}

#[test]
fn whoever_joins_while_requests_leave_is_asked_about_with_the_others() {
    let mut world = World::new(config(), 16);
    (2..=10).for_each(|number| world.sender.handle(world.now, Input::Leave(e(number))));
    world.run_until(seconds(0) + Duration::from_millis(20));
    (2..=10).for_each(|number| world.sender.handle(world.now, Input::Join(e(number), 5000)));
    world.run_until(seconds(3));
    assert!(world.group().unicast.is_empty(), "{:?}", world.group());
    assert_eq!((world.requests.len(), world.sender.counters().discoveries), (10, 1));
}

/// One tenth of a second after another, some only to leave again: nobody is passed over, and nobody asked about more often.
#[test]
fn whoever_comes_and_goes_holds_up_nobody() {
    let mut world = World::new(config(), 17);
    for step in 0..200 {
        world.run_until(seconds(3) + Duration::from_millis(100 * step));
        let number = 100 + step as u16;
        world.ways.insert(e(number), vec![r(1), r(3)]);
        world.sender.handle(world.now, Input::Join(e(number), 5000));
        if step % 2 == 1 {
            world.sender.handle(world.now, Input::Leave(e(number - 1)));
        }
    }
    world.run_until(seconds(27));
    assert!(world.group().unicast.is_empty(), "{:?}", world.group());
    assert_eq!(served(world.group()).len(), 110);
    // Everybody about every five seconds, as soon as a discovery of those who have joined is over.
    let mut times = BTreeMap::<_, u32>::new();
    world.requests.iter().for_each(|(_, receiver)| *times.entry(*receiver).or_default() += 1);
    assert!((1..=10).all(|number| (5..=6).contains(&times[&e(number)])), "{times:?}");
}

#[test]
fn the_first_discovery_waits_for_traffic_and_then_for_the_delay() {
    let config = Config { waits_for_traffic: true, delay: Duration::from_secs(3), ..config() };
    let mut world = World::new(config, 10);
    world.run_until(seconds(60));
    assert!(world.requests.is_empty());
    assert_eq!(world.sender.poll(world.now), Step::Wait(None, Reason::Traffic));
    world.sender.handle(world.now, Input::Traffic);
    world.sender.handle(world.now, Input::Traffic);
    world.run_until(seconds(66));
    assert_eq!(world.requests[0].0, seconds(63));
}

#[test]
fn what_is_no_response_or_comes_late_is_counted() {
    let mut world = World::new(config(), 11);
    world.run_until(seconds(3));
    let sender = &mut world.sender;
    for header in [response(e(1), 1), Header::request(e(1))] {
        let response = Input::Response { router: r(1), header: &header, proof: None, group: None };
        sender.handle(world.now, response);
    }
    assert_eq!((sender.counters().late, sender.counters().anomalous), (1, 1));
}

/// A packet as routers quote it: what they still had to deliver of the first list.
fn lost(header: &Header, len: usize) -> Lost<'_> {
    Lost { destination: header.addresses[1], len, header: Some(header), port: None }
}

fn too_big(mtu_bytes: u32) -> Cause {
    Cause::TooBig { mtu_bytes }
}

#[test]
fn a_narrow_way_is_believed_for_ten_minutes_by_those_who_are_behind_it() {
    let mut world = World::new(config(), 12);
    world.run_until(seconds(3));
    let whole = world.group().clone();
    let mut header = Header::data(17, &whole.lists[0].entries).expect("a good list");
    // The routers before the narrow link have taken out the receivers that they served.
    header.delivery = treecast_wire::mead::Map::of(0);
    let behind: Vec<_> = header.receivers_of(0).map(|index| header.addresses[index]).collect();
    for (len, mtu) in [(1500, 1400), (1500, 1300), (1300, 1290), (1300, 1300), (1500, 1279), (1500, 70_000)] {
        world.sender.handle(world.now, Input::Lost(lost(&header, len), too_big(mtu)));
    }
    let elsewhere = Lost { destination: e(99), len: 1500, header: None, port: None };
    world.sender.handle(world.now, Input::Lost(elsewhere, too_big(1280)));
    let misnamed = Lost { destination: e(99), ..lost(&header, 1500) };
    world.sender.handle(world.now, Input::Lost(misnamed, too_big(1280)));
    world.run_until(seconds(4));
    let told = [1400, 1300, 1290].map(|mtu| Event::Narrow(behind.clone(), mtu));
    assert_eq!((&world.events[..], world.sender.counters().stray), (&told[..], 5));
    let narrow: BTreeMap<_, _> = behind.iter().map(|receiver| (*receiver, 1290)).collect();
    assert_eq!((&world.group().path_mtus, &world.group().lists), (&narrow, &whole.lists));
    // Discoveries do not forget it, and a receiver that leaves takes it along.
    world.run_until(seconds(500));
    assert_eq!(world.group().path_mtus, narrow);
    world.sender.handle(world.now, Input::Leave(behind[0]));
    world.run_until(seconds(602));
    assert_eq!(world.group().path_mtus.len(), behind.len() - 1);
    world.run_until(seconds(604));
    assert!(world.group().path_mtus.is_empty());
}

#[test]
fn who_cannot_be_reached_is_told_once_a_minute_and_gets_unicast_where_routers_turn_meadcast_away() {
    let mut world = World::new(config(), 13);
    world.run_until(seconds(3));
    let header = Header::data(17, &world.group().lists[0].entries).expect("a good list");
    let (receivers, whole) = (world.in_lists(), world.group().clone());
    let unicast = |port| Lost { destination: e(1), len: 100, header: None, port: Some(port) };
    let say = |world: &mut World, packet, why| {
        world.sender.handle(world.now, Input::Lost(packet, Cause::Unreachable(why)));
    };
    for why in [Unreachable::NoRoute, Unreachable::NoRoute, Unreachable::Port, Unreachable::Port] {
        say(&mut world, unicast(5000), why);
    }
    say(&mut world, unicast(5001), Unreachable::Port);
    assert_eq!(world.sender.counters().stray, 1, "another program's port");
    world.run_until(seconds(4));
    let told = [Unreachable::NoRoute, Unreachable::Port].map(|why| Event::Unreachable(vec![e(1)], why));
    assert_eq!((&world.events[..], world.group()), (&told[..], &whole), "it is still sent to");
    world.run_until(seconds(64));
    say(&mut world, unicast(5000), Unreachable::Port);
    say(&mut world, lost(&header, 1400), Unreachable::Prohibited);
    world.run_until(seconds(64) + Duration::from_millis(1));
    assert_eq!(world.events.len(), 4);
    assert_eq!((world.in_lists(), world.group().unicast.len()), (0, receivers));
    // Routers answer all the time; it is tried again a minute later.
    world.run_until(seconds(120));
    assert_eq!(world.in_lists(), 0);
    world.run_until(seconds(130));
    assert!(world.group().is_as(&whole));
}

/// The router before a link that has gone sends errors about packets that it held for there, for some seconds
/// (RFC 4861, 7.2.2).
#[test]
fn a_way_that_is_gone_until_routes_change_leaves_the_group_as_it_is() {
    let mut world = World::new(config(), 14);
    world.run_until(seconds(3));
    let whole = world.group().clone();
    let header = Header::data(17, &whole.lists[0].entries).expect("a good list");
    for why in [Unreachable::Address, Unreachable::NoRoute] {
        world.sender.handle(world.now, Input::Lost(lost(&header, 1400), Cause::Unreachable(why)));
    }
    world.run_until(seconds(9));
    assert!(world.group().is_as(&whole) && world.events.len() == 2, "{:?}", world.events);
}
