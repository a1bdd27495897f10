use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{history::HISTORY, *};
use crate::packet::{OWN_LEN, PAPER_LEN, Stamp};

const SOURCE: ([u8; 4], u16) = ([10, 0, 0, 1], 5000);

fn account(format: Format, window: u64) -> Account {
    Account::new(Rules {
        format,
        window,
        max_streams: 8,
        schedule: None,
        listens_since: None,
        tells_invalid: format == Format::Paper,
    })
}

fn at(ms: u64) -> Times {
    Times { steady: Duration::from_millis(ms), clock: Duration::from_millis(1_000_000 + ms) }
}

/// A packet of ours that took 1 ms.
fn own(sender: u8, session: u32, number: u64, ms: u64) -> Packet {
    let sent = at(ms).clock.saturating_sub(Duration::from_millis(1));
    let stamp = Stamp { is_end: false, session, rate_pps: 100.0, sent };
    Packet { sender: Ipv4Addr::new(10, 0, 0, sender), number, stamp: Some(stamp) }
}

fn paper(number: u64) -> Packet {
    Packet { sender: Ipv4Addr::new(172, 16, 9, 191), number, stamp: None }
}

fn take(account: &mut Account, packet: &Packet, ms: u64) {
    let mut bytes = [0; OWN_LEN];
    packet.write(&mut bytes);
    let len = if packet.stamp.is_some() { OWN_LEN } else { PAPER_LEN };
    account.take(&bytes[..len], len, SOURCE.into(), at(ms));
}

/// The report on one stream that hears these numbers, 1 ms apart.
fn heard(window: u64, numbers: impl IntoIterator<Item = u64>) -> PairReport {
    heard_every(1, window, numbers)
}

fn heard_every(step_ms: u64, window: u64, numbers: impl IntoIterator<Item = u64>) -> PairReport {
    let mut account = account(Format::Own, window);
    for (number, index) in numbers.into_iter().zip(1..) {
        let ms = index * step_ms;
        take(&mut account, &own(1, 7, number, ms), ms);
    }
    account.report(Duration::ZERO, 0).pairs.remove(0)
}

/// The counts by their definitions, from the list of all arrivals.
#[derive(Debug, Default, PartialEq)]
struct Model {
    expected: u64,
    received: u64,
    late: u64,
    duplicates: u64,
    reordered: u64,
    stale: u64,
    lost: Vec<u64>,
    extents: Vec<u64>,
    by_three: u64,
}

impl Model {
    fn of(window: u64, numbers: &[u64]) -> Self {
        let (mut model, mut seen) = (Self::default(), Vec::<u64>::new());
        for &number in numbers {
            let overtaken = seen.iter().filter(|other| **other > number).count() as u64;
            if number + HISTORY <= model.expected {
                model.stale += 1;
                continue;
            }
            if seen.contains(&number) {
                model.duplicates += 1;
                continue;
            }
            match overtaken {
                0 => model.received += 1,
                some if some > window => model.late += 1,
                _ => {
                    model.received += 1;
                    model.reordered += 1;
                    let earliest = seen.iter().position(|other| *other > number).unwrap();
                    model.extents.push((seen.len() - earliest) as u64);
                    let last: Vec<_> = seen.iter().rev().take(3).collect();
                    model.by_three += u64::from(last.len() == 3 && last.iter().all(|other| **other > number));
                }
            }
            seen.push(number);
            model.expected = model.expected.max(number);
        }
        model.lost = (1..=model.expected).filter(|number| !seen.contains(number)).collect();
        model
    }

    fn runs(&self) -> Vec<(u64, u64)> {
        let runs = self.lost.chunk_by(|a, b| a + 1 == *b);
        runs.map(|run| (run[0], run[run.len() - 1])).collect()
    }
}

fn agrees(pair: &PairReport, model: &Model) {
    let counts = |p: &PairReport| {
        [
            p.counts.expected,
            p.counts.received,
            p.counts.late,
            p.counts.duplicates,
            p.counts.reordered,
            p.counts.stale,
            p.counts.lost,
        ]
    };
    let expected = [
        model.expected,
        model.received,
        model.late,
        model.duplicates,
        model.reordered,
        model.stale,
        model.lost.len() as u64,
    ];
    assert_eq!(counts(pair), expected, "expected, received, late, duplicates, reordered, stale, lost");
    assert_eq!(pair.lost_ranges, model.runs());
    assert_eq!(pair.counts.expected, pair.counts.received + pair.counts.late + pair.counts.lost);
    assert_eq!(pair.counts.invalid, pair.counts.lost + pair.counts.late + pair.counts.reordered);
    assert_eq!(pair.reordering.max_extent, model.extents.iter().copied().max().unwrap_or(0));
    let mean = model.extents.iter().sum::<u64>() as f64 / model.extents.len().max(1) as f64;
    assert!((pair.reordering.mean_extent - mean).abs() < 1e-9);
    assert_eq!(pair.reordering.by_three, model.by_three);
    let by_rate = |field: fn(&crate::report::RateLosses) -> u64| pair.rates.iter().map(field).sum::<u64>();
    assert_eq!(
        (by_rate(|rate| rate.expected), by_rate(|rate| rate.lost)),
        (pair.counts.expected, pair.counts.lost)
    );
    let mut runs = BTreeMap::new();
    for (first, last) in model.runs() {
        let length: u64 = last - first + 1;
        let counted = if length > 64 { 1 << length.ilog2() } else { length };
        *runs.entry(counted).or_default() += 1;
    }
    assert_eq!(pair.rates[0].runs, runs);
}

/// Numbers 1 to 60, changed: some are lost, some come twice, and some are moved back by up to 50 places.
fn arrivals() -> impl Strategy<Value = Vec<u64>> {
    let changes = proptest::collection::vec((0_usize..4, 1_usize..50), 60);
    changes.prop_map(|changes| {
        let mut places = Vec::new();
        for (number, (kind, by)) in (1..).zip(changes) {
            let place = number as usize;
            match kind {
                0 if by % 3 == 0 => {}
                1 if by % 2 == 0 => places.extend([(place, number), (place + by, number)]),
                2 if by % 4 == 0 => places.push((place + by, number)),
                _ => places.push((place, number)),
            }
        }
        places.sort();
        places.into_iter().map(|(_, number)| number).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_counts_are_those_of_the_definitions(numbers in arrivals(), window in 0_u64..40) {
        prop_assume!(!numbers.is_empty());
        agrees(&heard(window, numbers.iter().copied()), &Model::of(window, &numbers));
    }

    #[test]
    fn whatever_arrives_the_sum_is_right(numbers in proptest::collection::vec(1_u64..40_000, 1..60)) {
        // A sender may well have sent so many packets in a minute.
        let numbers = [&[1], &numbers[..]].concat();
        agrees(&heard_every(60_000, 32, numbers.iter().copied()), &Model::of(32, &numbers));
    }

    #[test]
    fn no_datagram_harms(datagrams in proptest::collection::vec(
        (proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..200))
    {
        for format in [Format::Own, Format::Paper] {
            let mut account = account(format, 32);
            for ((bytes, is_like_ours), ms) in datagrams.iter().zip(0..) {
                let mut bytes = bytes.clone();
                if *is_like_ours && bytes.len() >= 4 {
                    bytes[..4].copy_from_slice(b"tcLD");
                }
                account.take(&bytes, bytes.len(), SOURCE.into(), at(ms));
            }
            let report = account.report(Duration::from_secs(1), 0);
            prop_assert!(report.pairs.len() <= 8);
            for pair in report.pairs {
                prop_assert_eq!(pair.counts.expected, pair.counts.received + pair.counts.late + pair.counts.lost);
            }
        }
    }
}

#[test]
fn a_packet_overtaken_by_more_than_the_window_is_late() {
    let overtaken_by = |others: u64| heard(32, (1..=9).chain(11..11 + others).chain([10]));
    let (in_time, late) = (overtaken_by(32), overtaken_by(33));
    assert_eq!((in_time.counts.reordered, in_time.counts.late, in_time.counts.lost), (1, 0, 0));
    assert_eq!(
        (late.counts.reordered, late.counts.late, late.counts.lost, late.counts.received),
        (0, 1, 0, 42)
    );
    assert_eq!((in_time.reordering.max_extent, in_time.reordering.by_three), (32, 1));
    assert!((in_time.reordering.max_late_us - 32_000.0).abs() < 1e-6);
}

/// Our packets have a rate of 100 packets per second, so one is due each 10 ms.
#[test]
fn a_receiver_that_joins_late_has_not_lost_what_was_sent_before() {
    let counts_of = |rates: &str, first: u64, listened_ms: u64, numbers: &[u64]| {
        let mut account = account(Format::Own, 32);
        account.rules.schedule = Schedule::parse(rates, 60.0).ok();
        account.rules.listens_since = Some(at(5000 - listened_ms).steady);
        for number in numbers {
            take(
                &mut account,
                &own(1, 7, *number, 5000 + (number - first) * 10),
                5000 + (number - first) * 10,
            );
        }
        let pair = account.report(Duration::from_secs(9), 0).pairs[0].clone();
        let by_rate: u64 = pair.rates.iter().map(|rate| rate.expected).sum();
        assert_eq!(by_rate, pair.counts.expected);
        let told =
            (pair.counts.missed, pair.counts.lost, pair.counts.lost_before_first, pair.counts.expected);
        (told, pair.lost_ranges)
    };
    let counts = |first, listened_ms, numbers: &[u64]| counts_of("100", first, listened_ms, numbers);
    // A whole step may be lost, or there may be steps that nobody knows of: then nothing is called missed.
    for rates in ["1000,100", ""] {
        assert_eq!(counts_of(rates, 301, 4, &[301, 302]).0, (0, 300, 300, 302), "{rates}");
    }
    // Three seconds late; the first packet comes soon after.
    assert_eq!(counts(301, 4, &[301, 302, 304]), ((300, 1, 0, 4), vec![(303, 303)]));
    // It listened for 25 ms, so two more were lost on their way.
    assert_eq!(counts(301, 25, &[301, 302]), ((298, 2, 2, 4), vec![(299, 300)]));
    // It listened before the sender began: all are lost.
    assert_eq!(counts(4, 1030, &[4, 5]), ((0, 3, 3, 5), vec![(1, 3)]));
    // A number far ahead counts from the packet that confirms it.
    assert_eq!(counts(5_000_000, 4, &[5_000_000, 5_000_001]).0, (4_999_999, 0, 0, 2));
}

#[test]
fn the_first_packet_counts_when_it_is_lost() {
    let pair = heard(32, [3, 4, 2, 6]);
    assert_eq!((pair.counts.expected, pair.counts.lost, pair.counts.lost_before_first), (6, 2, 1));
    assert_eq!(pair.lost_ranges, [(1, 1), (5, 5)]);
}

#[test]
fn a_long_gap_is_one_run_and_costs_no_time() {
    let far = 3_000_000_000;
    let pair = heard(32, [1, far, far + 1, 2]);
    assert_eq!((pair.counts.expected, pair.counts.lost, pair.counts.stale), (far + 1, far - 2, 1));
    assert_eq!(pair.lost_ranges, [(2, far - 1)]);
    let mut account = account(Format::Own, 32);
    take(&mut account, &own(1, 7, 1, 1), 1);
    take(&mut account, &own(1, 7, u64::MAX, 2), 2);
    let report = account.report(Duration::ZERO, 0);
    assert_eq!((report.implausible, report.pairs[0].counts.expected), (1, 1));
}

#[test]
fn the_end_packet_tells_of_packets_that_were_lost_last() {
    let mut account = account(Format::Own, 32);
    for number in 1..=5 {
        take(&mut account, &own(1, 7, number, number), number);
    }
    let mut end = own(1, 7, 9, 10);
    end.stamp.as_mut().unwrap().is_end = true;
    take(&mut account, &end, 10);
    let pair = account.report(Duration::from_secs(60), 0).pairs.remove(0);
    assert_eq!((pair.counts.expected, pair.counts.lost, pair.ending), (9, 4, Ending::Announced));
    assert_eq!(pair.lost_ranges, [(6, 9)]);
}

#[test]
fn a_sender_that_falls_silent_has_vanished() {
    let mut account = account(Format::Own, 32);
    for number in 1..=5 {
        take(&mut account, &own(1, 7, number, number * 500), number * 500);
    }
    let ending = |ms| account.report(Duration::from_millis(ms), 0).pairs[0].ending;
    assert_eq!((ending(4900), ending(5100)), (Ending::Open, Ending::Vanished));
}

#[test]
fn losses_are_told_by_rate() {
    let mut account = account(Format::Own, 32);
    for number in [1, 2, 4, 5, 101, 103, 107] {
        let mut packet = own(1, 7, number, number);
        packet.stamp.as_mut().unwrap().rate_pps = if number < 100 { 10.0 } else { 20.0 };
        take(&mut account, &packet, number);
    }
    let pair = account.report(Duration::ZERO, 0).pairs.remove(0);
    let rates: Vec<_> = pair.rates.iter().map(|rate| (rate.rate_pps, rate.expected, rate.lost)).collect();
    assert_eq!(rates, [(10.0, 100, 96), (20.0, 7, 4)]);
    // Lengths above 64 are rounded down to a power of two.
    assert_eq!(pair.rates[0].runs, BTreeMap::from([(1, 1), (64, 1)]));
    assert_eq!(pair.rates[1].runs, BTreeMap::from([(1, 1), (3, 1)]));
}

#[test]
fn a_new_session_is_a_restart_and_no_loss() {
    let mut account = account(Format::Own, 32);
    for number in 1..=50 {
        take(&mut account, &own(1, 7, number, number), number);
    }
    for number in 1..=40 {
        take(&mut account, &own(1, 8, number, 1000 + number), 1000 + number);
    }
    let pairs = account.report(Duration::from_millis(1050), 0).pairs;
    let told: Vec<_> = pairs
        .iter()
        .map(|pair| (pair.restart, pair.counts.expected, pair.counts.lost, pair.ending))
        .collect();
    assert_eq!(told, [(0, 50, 0, Ending::Restarted), (1, 40, 0, Ending::Open)]);
    assert!(pairs.iter().all(|pair| !pair.shares_identity));
}

#[test]
fn two_senders_with_one_identity_are_counted_apart_and_marked() {
    let mut account = account(Format::Own, 32);
    for number in 1..=300 {
        take(&mut account, &own(1, 7, number, number), number);
        take(&mut account, &own(1, 8, 2 * number, number), number);
    }
    let pairs = account.report(Duration::from_millis(300), 0).pairs;
    let told: Vec<_> =
        pairs.iter().map(|pair| (pair.restart, pair.counts.lost, pair.shares_identity)).collect();
    assert_eq!(told, [(0, 0, true), (0, 300, true)]);
}

#[test]
fn the_papers_number_that_falls_back_to_1_is_a_restart() {
    let counts = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut account = account(Format::Paper, 32);
        numbers.zip(1..).for_each(|(number, ms)| take(&mut account, &paper(number), ms));
        let pairs = account.report(Duration::from_secs(1), 0).pairs;
        pairs
            .iter()
            .map(|pair| (pair.counts.expected, pair.counts.lost, pair.counts.duplicates))
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&mut (1..=100).chain(1..=40)), [(100, 0, 0), (40, 0, 0)]);
    assert_eq!(counts(&mut (1..=100).chain(3..=40)), [(100, 0, 0), (40, 2, 0)], "its first packets are lost");
    assert_eq!(
        counts(&mut (1..=100).chain([5]).chain(101..=110)),
        [(110, 0, 1)],
        "one late copy is no restart"
    );
    assert_eq!(counts(&mut (1..=20).chain([1]).chain(21..=30)), [(30, 0, 1)], "a copy within the window");
}

#[test]
fn a_late_copy_of_the_first_packet_is_no_restart() {
    let mut account = account(Format::Paper, 32);
    (1..=40)
        .chain([1])
        .chain(41..=100)
        .zip(1..)
        .for_each(|(number, ms)| take(&mut account, &paper(number), ms));
    let pairs = account.report(Duration::from_secs(1), 0).pairs;
    assert_eq!(
        (pairs.len(), pairs[0].counts.expected, pairs[0].counts.lost, pairs[0].counts.duplicates),
        (1, 100, 0, 1)
    );
}

#[test]
fn a_number_far_ahead_counts_only_if_the_next_packet_confirms_it() {
    // Any 8 bytes look like the paper's packet, here with the number 0x65726877 and a sender 46.46.46.46.
    let mut foreign = account(Format::Paper, 32);
    foreign.take(b"where...", 8, SOURCE.into(), at(1));
    let report = foreign.report(Duration::from_secs(1), 0);
    assert_eq!((report.pairs.len(), report.implausible), (0, 1));
    let mut forged = account(Format::Own, 32);
    for number in [1, 2, 3 << 30, 3, 4, 5] {
        take(&mut forged, &own(1, 7, number, 1), 1);
    }
    let report = forged.report(Duration::from_secs(1), 0);
    assert_eq!((report.pairs[0].counts.expected, report.pairs[0].counts.lost, report.implausible), (5, 0, 1));
    let joined = heard(32, 5_000_000..5_000_010);
    assert_eq!(
        (joined.counts.received, joined.counts.lost_before_first),
        (10, 4_999_999),
        "who joins late hears high numbers"
    );
}

#[test]
fn packets_that_are_held_back_are_no_jump_of_a_clock() {
    let mut account = account(Format::Own, 32);
    for number in 1..=400_u64 {
        // Packets 101 to 300 wait for each other, for up to 2 s.
        let arrival = if (101..=300).contains(&number) { 3000 } else { number * 10 };
        let mut packet = own(1, 7, number, number * 10);
        packet.stamp.as_mut().unwrap().rate_pps = 100.0;
        take(&mut account, &packet, arrival);
    }
    let delay = account.report(Duration::ZERO, 0).pairs[0].delay;
    assert_eq!((delay.clock_jumps, delay.latency.unwrap().count), (0, 400));
    assert!(delay.jitter.unwrap().max_us > 1_900_000.0);
}

#[test]
fn a_flood_of_made_up_senders_takes_no_place_of_a_real_one() {
    let mut account = account(Format::Own, 32);
    for number in 1..=1000 {
        take(&mut account, &own(1, 7, number, number), number);
        for made_up in 0..5 {
            take(&mut account, &own(2, (number * 5 + made_up) as u32, 1, number), number);
        }
    }
    let report = account.report(Duration::from_secs(1), 0);
    assert_eq!((report.pairs[0].counts.expected, report.pairs[0].counts.lost), (1000, 0));
    assert!(report.pairs.len() <= 8 && account.single.len() <= 16, "{}", account.single.len());
    assert_eq!(report.forgotten_streams + report.pairs.len() as u64, 5001);
}

#[test]
fn what_is_not_ours_is_counted_as_foreign() {
    let mut account = account(Format::Own, 32);
    account.take(b"somebody else's packet, which is longer", 39, SOURCE.into(), at(1));
    let report = account.report(Duration::ZERO, 3);
    assert_eq!((report.foreign, report.kernel_dropped, report.pairs.len()), (1, 3, 0));
}

#[test]
fn latency_and_jitter_are_told_and_a_clock_that_jumps_is_marked() {
    let hear = |sent_ms: &dyn Fn(u64) -> u64, clock_ms: &dyn Fn(u64) -> u64| {
        let mut account = account(Format::Own, 32);
        for number in 1..=100 {
            let mut packet = own(1, 7, number, 0);
            packet.stamp.as_mut().unwrap().sent = Duration::from_millis(sent_ms(number));
            let mut bytes = [0; OWN_LEN];
            packet.write(&mut bytes);
            let clock = Duration::from_millis(clock_ms(number));
            let times = Times { steady: Duration::from_millis(number * 10), clock };
            account.take(&bytes, OWN_LEN, SOURCE.into(), times);
        }
        account.report(Duration::ZERO, 0).pairs[0].delay
    };
    // Packets take 2 ms and 5 ms in turns.
    let clock = |number: u64| 9_000_000 + number * 10;
    let sent = |number: u64| clock(number) - if number.is_multiple_of(2) { 2 } else { 5 };
    let sound = hear(&sent, &clock);
    let (latency, jitter) = (sound.latency.unwrap(), sound.jitter.unwrap());
    assert_eq!(
        (latency.count, latency.min_us, latency.max_us, latency.mean_us),
        (100, 2000.0, 5000.0, 3500.0)
    );
    assert_eq!((jitter.count, jitter.mean_us, sound.clock_jumps, sound.negative), (99, 3000.0, 0, 0));
    let receiver_jumps = hear(&sent, &|number| clock(number) + if number > 50 { 500 } else { 0 });
    assert_eq!((receiver_jumps.clock_jumps, receiver_jumps.latency.unwrap().count), (1, 50));
    assert_eq!(receiver_jumps.jitter.unwrap().max_us, 3000.0, "the jump is no jitter");
    let sender_jumps = hear(&|number| sent(number) - if number > 50 { 3000 } else { 0 }, &clock);
    assert_eq!((sender_jumps.clock_jumps, sender_jumps.latency.unwrap().count), (1, 50));
    let ahead = hear(&|number| sent(number) + 100, &clock);
    assert_eq!((ahead.negative, ahead.latency), (100, None));
}

/// Lines of the paper's figures 14 and 15, from "Invalid" on, without the number that the figure cuts.
const PAPER_LINES: [(&str, u64, u64); 7] = [
    (
        "Invalid packet number: 139 (expected 138) 1 packets dropped from 172.16.9.191 | 130 131 132 133 134 135 136 137 139 140 141",
        1,
        0,
    ),
    (
        "Invalid packet number: 17258 (expected 17257) 1 packets dropped from 172.16.9.115 | 17249 17250 17251 17252 17253 17254",
        1,
        0,
    ),
    (
        "Invalid packet number: 19976 (expected 19975) 1 packets dropped from 172.16.9.147 | 19967 19968 19969 19970 19971 19972 19973 19974 19976 19977 19978",
        1,
        0,
    ),
    (
        "Invalid packet number: 27487 (expected 27486) 1 packets dropped from 172.16.9.112 | 27478 27479 27480 27481 27482 27483 27484 27485 27487 27489 27488",
        1,
        1,
    ),
    (
        "Invalid packet number: 7882 (expected 7874) 8 packets dropped from 172.16.9.172 | 7866 7867 7868 7869 7870 7871 7872 7873 7882 7883 7884 7885 7886 7887",
        8,
        0,
    ),
    (
        "Invalid packet number: 139 (expected 138) 1 packets dropped from 172.16.9.191 | 130 131 132 133 134 135 136 137 139 140 141 142 143 144 145 146 147 148",
        1,
        0,
    ),
    (
        "Invalid packet number: 30709 (expected 30708) 1 packets dropped from 172.16.9.135 | 30700 30701 30702 30703 30704 30705 30706 30707 30709 30711 30712",
        2,
        0,
    ),
];

#[test]
fn the_lines_of_figures_14_and_15_come_out() {
    for (line, lost, reordered) in PAPER_LINES {
        let (head, shown) = line.split_once(" | ").unwrap();
        let shown: Vec<u64> = shown.split(' ').map(|number| number.parse().unwrap()).collect();
        let sender = head.rsplit(' ').next().unwrap().parse().unwrap();
        // Before the numbers that are shown, all arrived in order, and after the invalid one as shown and then in order.
        let invalid: u64 = line.split(' ').nth(3).unwrap().parse().unwrap();
        let last = shown.iter().copied().max().unwrap().max(invalid - 1);
        let unshown = shown.last().unwrap() + 1..invalid - head.matches("1 packets").count() as u64;
        let before = if shown.contains(&invalid) { 0..0 } else { unshown };
        let numbers = (1..shown[0]).chain(shown.iter().copied()).chain(before);
        let rest = if shown.contains(&invalid) { last + 1..last + 40 } else { invalid..invalid + 40 };
        let mut account = account(Format::Paper, 32);
        for (number, ms) in numbers.chain(rest).zip(1..) {
            take(&mut account, &Packet { sender, number, stamp: None }, ms);
        }
        let told = account.next_line().unwrap();
        assert!(told.starts_with(line), "{told}\n{line}");
        assert_eq!(account.next_line(), None);
        let pair = account.report(Duration::ZERO, 0).pairs.remove(0);
        assert_eq!(
            (pair.counts.lost, pair.counts.reordered, pair.counts.invalid),
            (lost, reordered, lost + reordered),
            "{line}"
        );
    }
}
