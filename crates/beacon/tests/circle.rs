//! Beacons in virtual time, from seeds: every beacon shows the same matrix, failures show within three seconds, and
//! strangers gain nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use treecast_beacon::{Change, Circle, Key, MAX_OTHERS, MAX_PER_ADDRESS, Matrix, State};
use treecast_proto::{Instant, Step, random::SplitMix64};
use treecast_wire::beacon::{Beacon, MAX_LEN, MAX_ROWS};

const TICK: Duration = Duration::from_millis(10);
const WALL_US: u64 = 1_795_000_000_000_000;

/// What happens to packets on their way from one beacon to another.
#[derive(Clone, Copy)]
struct Path {
    loss: f64,
    duplicates: f64,
    delay: Duration,
    hops: u8,
}

const SOUND: Path = Path { loss: 0.0, duplicates: 0.0, delay: Duration::from_millis(10), hops: 1 };
const CUT: Path = Path { loss: 1.0, ..SOUND };

/// A packet under way: when it comes, from where, to where, how often, and its bytes.
type UnderWay = (Instant, usize, usize, u32, Vec<u8>);

struct Group {
    now: Instant,
    random: SplitMix64,
    ids: Vec<u64>,
    circles: Vec<Circle>,
    /// The differences of the beacons' clocks, in microseconds.
    clocks: Vec<u64>,
    under_way: Vec<UnderWay>,
    changes: Vec<(usize, Change)>,
    longest: usize,
    sent: usize,
}

impl Group {
    fn new(seed: u64, count: usize, interval_ms: u16, key: Option<&Key>) -> Self {
        let mut random = SplitMix64(seed);
        let ids: Vec<u64> = (0..count).map(|_| random.draw()).collect();
        let circle = |(index, id): (usize, &u64)| {
            let mut packet = Beacon::new(*id, &format!("b{index}")).expect("a good name");
            (packet.interval_ms, packet.hop_limit) = (interval_ms, 32);
            let begins = Instant::ZERO + Duration::from_millis(random.below(u64::from(interval_ms)));
            Circle::new(begins, packet, key.cloned())
        };
        let circles = ids.iter().enumerate().map(circle).collect();
        Self {
            now: Instant::ZERO,
            random,
            ids,
            circles,
            clocks: vec![0; count],
            under_way: Vec::new(),
            changes: Vec::new(),
            longest: 0,
            sent: 0,
        }
    }

    fn run(&mut self, seconds: u64, path: impl Fn(usize, usize) -> Path) {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            self.now += TICK;
            (0..self.circles.len()).for_each(|index| self.poll(index, &path));
            let (come, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= self.now);
            self.under_way = rest;
            for (_, from, to, copies, bytes) in come {
                let hop_limit = Some(32 - path(from, to).hops);
                (0..copies).for_each(|_| self.give(to, address(from), hop_limit, &bytes));
            }
        }
    }

    fn poll(&mut self, index: usize, path: &impl Fn(usize, usize) -> Path) {
        let wall = self.wall(index);
        loop {
            match self.circles[index].poll(self.now, wall) {
                Step::Transmit(bytes) => {
                    (self.longest, self.sent) = (self.longest.max(bytes.len()), self.sent + 1);
                    for to in (0..self.circles.len()).filter(|to| *to != index) {
                        let Path { loss, duplicates, delay, .. } = path(index, to);
                        let copies = 1 + u32::from(self.random.unit() < duplicates);
                        if self.random.unit() >= loss {
                            self.under_way.push((self.now + delay, index, to, copies, bytes.clone()));
                        }
                    }
                }
                Step::Event(change) => self.changes.push((index, change)),
                Step::Wait(..) => return,
            }
        }
    }

    fn give(&mut self, to: usize, from: IpAddr, hop_limit: Option<u8>, bytes: &[u8]) {
        let wall = self.wall(to);
        self.circles[to].handle(self.now, wall, from, hop_limit, bytes);
    }

    fn wall(&self, index: usize) -> u64 {
        WALL_US + (self.now - Instant::ZERO).as_micros() as u64 + self.clocks[index]
    }

    fn matrix(&self, index: usize) -> Matrix {
        self.circles[index].matrix(self.now)
    }

    /// The states of all pairs, the sender first, as one beacon shows them.
    fn states(&self, index: usize) -> BTreeMap<(String, String), State> {
        let matrix = self.matrix(index);
        matrix.seen.into_iter().map(|seen| ((seen.from, seen.to), seen.state)).collect()
    }
}

fn address(index: usize) -> IpAddr {
    Ipv4Addr::from(0x0a00_0001 + index as u32).into()
}

fn key() -> Key {
    Key::from_hex(&"07".repeat(32)).expect("64 digits")
}

#[test]
fn every_beacon_shows_loss_latency_hops_and_duplicates_of_every_pair() {
    for seed in 0..10 {
        let mut group = Group::new(seed, 6, 50, Some(&key()));
        // Clocks differ by minutes, which latencies do not show.
        group.clocks = (0..6).map(|index| index * 50_000_000).collect();
        let path = |from, to| match (from, to) {
            (2, 4) => Path { loss: 0.3, ..SOUND },
            (3, 5) => Path { duplicates: 1.0, ..SOUND },
            (5, _) => Path { hops: 7, ..SOUND },
            _ => SOUND,
        };
        group.run(8, path);
        for index in 0..6 {
            let matrix = group.matrix(index);
            assert_eq!(matrix.seen.len(), 30);
            for seen in &matrix.seen {
                let pair = (seen.from.as_str(), seen.to.as_str());
                let loss = seen.loss_permille.expect("all report");
                match pair {
                    ("b2", "b4") => assert!((50..=700).contains(&loss), "{seen:?}"),
                    _ => assert_eq!((loss, seen.state), (0, State::Well), "{seen:?}"),
                }
                let duplicates = seen.duplicates_permille.expect("all report");
                assert_eq!(duplicates, if pair == ("b3", "b5") { 1000 } else { 0 }, "{seen:?}");
                assert_eq!(seen.hops, Some(if pair.0 == "b5" { 7 } else { 1 }));
                let latency = seen.latency_us.expect("both hear each other");
                assert!((9_000..=25_000).contains(&latency), "{seen:?}");
            }
        }
    }
}

#[test]
fn a_failed_and_a_mended_link_show_in_every_matrix_within_three_seconds() {
    let side = |index: usize| index < 6;
    let number = |name: &str| name[1..].parse::<usize>().expect("a number");
    for seed in 0..10 {
        let mut group = Group::new(seed, 12, 200, None);
        group.run(5, |_, _| SOUND);
        group.changes.clear();
        group.run(3, |from, to| if side(from) == side(to) { SOUND } else { CUT });
        for index in 0..12 {
            for ((from, to), state) in group.states(index) {
                // What the far side hears is not known.
                let is_near = side(number(&to)) == side(index);
                let expected = match (is_near, side(number(&from)) == side(number(&to))) {
                    (true, true) => State::Well,
                    (true, false) => State::Silent,
                    (false, _) => State::Unknown,
                };
                assert_eq!(state, expected, "b{index} of {from} at {to}, seed {seed}");
            }
        }
        let told = group.changes.iter().filter(|(_, change)| change.state == State::Silent);
        let told: BTreeSet<_> = told.map(|(index, change)| (*index, &change.from, &change.to)).collect();
        assert_eq!(told.len(), 12 * 36, "each side's own pairs across the link, seed {seed}");
        group.run(3, |_, _| SOUND);
        for index in 0..12 {
            assert!(group.states(index).values().all(|state| *state == State::Well), "b{index}, seed {seed}");
        }
    }
}

#[test]
fn a_beacon_that_vanishes_is_silent_and_then_forgotten_and_a_restart_is_no_loss() {
    let mut group = Group::new(1, 4, 200, None);
    group.run(5, |_, _| SOUND);
    group.run(5, |from, _| if from == 3 { CUT } else { SOUND });
    let states = group.states(0);
    assert_eq!(states[&("b3".to_owned(), "b1".to_owned())], State::Silent);
    assert_eq!(states[&("b1".to_owned(), "b2".to_owned())], State::Well);
    // The same host starts anew, with a new number.
    let mut packet = Beacon::new(77, "b3").expect("a good name");
    (packet.interval_ms, packet.hop_limit) = (200, 32);
    group.circles[3] = Circle::new(group.now, packet, None);
    group.run(5, |_, _| SOUND);
    let names: Vec<_> = group.matrix(0).beacons.into_iter().map(|known| known.name).collect();
    assert_eq!(names.len(), 5, "the old one is still shown: {names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("b3~")).count(), 2, "{names:?}");
    group.run(60, |_, _| SOUND);
    let matrix = group.matrix(0);
    assert_eq!(matrix.beacons.len(), 4);
    assert!(matrix.seen.iter().all(|seen| seen.state == State::Well));
}

/// With more beacons than a packet has rows, each beacon's report comes in turns.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_large_group_reports_in_turns_and_packets_keep_their_length() {
    let count = MAX_ROWS + 4;
    let mut group = Group::new(3, count, 200, Some(&key()));
    group.run(3, |_, _| SOUND);
    assert!((MAX_LEN - 40..=MAX_LEN).contains(&group.longest), "{}", group.longest);
    let states = group.states(7);
    assert_eq!(states.len(), count * (count - 1));
    assert!(states.values().all(|state| *state == State::Well));
}

fn packet_of(id: u64, sequence: u32) -> Beacon {
    let mut packet = Beacon::new(id, "stranger").expect("a good name");
    (packet.sequence, packet.interval_ms, packet.sent_us) = (sequence, 200, WALL_US);
    packet
}

#[test]
fn a_flood_of_strangers_makes_no_beacon_larger_or_send_more_and_pushes_nobody_out() {
    let mut group = Group::new(5, 3, 200, None);
    group.run(5, |_, _| SOUND);
    let before = group.sent;
    for second in 0..20 {
        for number in 0..2_000_u64 {
            let id = second << 32 | number | 1 << 60;
            // Half of them have addresses of their own, and half have one together. Each sends twice.
            let from = if number % 2 == 0 { address(1000 + number as usize) } else { address(999) };
            for sequence in 0..2 {
                group.give(0, from, Some(9), &packet_of(id, sequence).to_bytes());
            }
        }
        group.run(1, |_, _| SOUND);
    }
    assert_eq!(group.sent - before, 3 * 20 * 5, "as many packets as always");
    assert!(group.longest <= MAX_LEN);
    let matrix = group.matrix(0);
    assert!(matrix.beacons.len() <= 1 + MAX_OTHERS, "{}", matrix.beacons.len());
    let of_one = matrix.beacons.iter().filter(|known| known.address == Some(address(999))).count();
    assert!(of_one <= MAX_PER_ADDRESS, "{of_one}");
    assert!(matrix.refused["too-many"] > 10_000, "{:?}", matrix.refused);
    for other in ["b1", "b2"] {
        let seen = matrix.seen.iter().find(|seen| seen.from == other && seen.to == "b0");
        assert_eq!(seen.map(|seen| seen.state), Some(State::Well), "{other}");
    }
}

#[test]
fn with_a_key_strangers_and_old_packets_do_not_count() {
    let mut group = Group::new(5, 2, 200, Some(&key()));
    group.run(3, |_, _| SOUND);
    let other = Key::from_hex(&"08".repeat(32)).expect("64 digits");
    let mut stranger = Circle::new(group.now, packet_of(9, 0), Some(other));
    let Step::Transmit(wrong_key) = stranger.poll(group.now, group.wall(0)) else { panic!("it sends first") };
    let mut member = Circle::new(group.now, packet_of(10, 0), Some(key()));
    let an_hour_ago = group.wall(0) - 3_600_000_000;
    let Step::Transmit(old) = member.poll(group.now, an_hour_ago) else { panic!("it sends first") };
    for bytes in [packet_of(9, 0).to_bytes(), wrong_key, old] {
        group.give(0, address(50), Some(9), &bytes);
    }
    let matrix = group.matrix(0);
    assert_eq!((matrix.refused["not-ours"], matrix.beacons.len()), (3, 2));
}

#[test]
fn a_second_beacon_with_the_same_number_and_other_packets_change_nothing() {
    let mut group = Group::new(8, 2, 200, None);
    group.run(3, |_, _| SOUND);
    let [first, own] = [0, 1].map(|index| packet_of(group.ids[index], 1 << 30).to_bytes());
    group.give(1, address(60), Some(9), &first);
    group.give(1, address(60), Some(9), b"GET / HTTP/1.1");
    group.give(1, address(60), Some(9), &[0; 2000]);
    // The kernel hands a beacon its own packets back.
    group.give(1, address(1), Some(9), &own);
    group.run(1, |_, _| SOUND);
    let matrix = group.matrix(1);
    assert_eq!((matrix.refused["same-number"], matrix.refused["malformed"]), (1, 2));
    assert!(matrix.seen.iter().all(|seen| seen.loss_permille == Some(0)), "{:?}", matrix.seen);
}
