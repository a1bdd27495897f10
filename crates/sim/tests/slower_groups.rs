//! What `--rate auto` promises of sessions with slower groups, on simulated paths. TREECAST_SEEDS is the number of seeds of each claim;
//! without it there are a few.

use std::time::Duration;

use rand::RngExt;
use treecast_sim::{
    network::generator,
    tfmcc::{
        Lie,
        groups::{Host, Outcome, Session, run as run_any},
    },
};

use crate::effort::{seeds, some_seeds};

const RATE_BPS: u64 = 20_000_000;
const HONEST: Host =
    Host { rate_bps: RATE_BPS, loss: 0.0, lie: Lie::Truth, follows_calls: true, lateness: Duration::ZERO };
const MINUTE: Duration = Duration::from_secs(60);

/// Runs a session. No honest receiver is even half taken for a liar, whatever else goes on.
fn run(session: &Session) -> Outcome {
    let outcome = run_any(session);
    for (index, (host, doubt)) in session.hosts.iter().zip(&outcome.doubts).enumerate() {
        let is_believed = host.lie != Lie::Truth || *doubt < 0.5;
        assert!(
            is_believed,
            "host {index}, which is honest, is doubted by {doubt:.2}, seed {}",
            session.seed
        );
    }
    outcome
}

fn session(seed: u64, millis: u64, first: Host) -> Session {
    let mut hosts = vec![HONEST; 6];
    hosts[0] = first;
    Session { seed, hosts, round_trip: Duration::from_millis(millis), length: MINUTE }
}

/// What the five honest receivers got, as a share of their links.
fn honest(outcome: &Outcome) -> f64 {
    (1..6).map(|host| outcome.goodput_bps(host, MINUTE)).sum::<f64>() / 5.0 / RATE_BPS as f64
}

/// The share that a receiver which lies leaves the others of what they get without it, in a minute.
fn left_by(seed: u64, millis: u64, liar: Host) -> f64 {
    honest(&run(&session(seed, millis, liar))) / honest(&run(&session(seed, millis, HONEST)))
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn who_lies_low_takes_no_more_than_a_twentieth_from_the_others() {
    for (seed, millis) in seeds(1).flat_map(|seed| [10, 40, 100].map(|millis| (seed, millis))) {
        for lie in [Lie::Factor(0.1), Lie::Bears(1_000_000), Lie::Bears(100_000)] {
            let left = left_by(seed, millis, Host { lie, ..HONEST });
            assert!(left > 0.95, "{left} with {lie:?} and {millis} ms, seed {seed}");
        }
        // Who says that it bears half is found out a second later.
        let left = left_by(seed, millis, Host { lie: Lie::Factor(0.5), ..HONEST });
        assert!(left > 0.93, "{left} with a half and {millis} ms, seed {seed}");
    }
}

#[test]
fn nor_does_one_that_ignores_calls() {
    for seed in seeds(2) {
        let left = left_by(seed, 40, Host { lie: Lie::Factor(0.1), follows_calls: false, ..HONEST });
        assert!(left > 0.95, "{left}, seed {seed}");
    }
}

/// Whichever of these one of six receivers says, the others have at least this share of what they have without it, in a minute.
#[track_caller]
fn assert_left_beside(least: f64, lies: &[Lie]) {
    let each = seeds(1).flat_map(|seed| lies.iter().map(move |lie| (seed, *lie)));
    let shares = each.map(|(seed, lie)| (left_by(seed, 40, Host { lie, ..HONEST }), lie, seed));
    let taken: Vec<_> = shares.filter(|(left, ..)| *left <= least).collect();
    assert!(taken.is_empty(), "{taken:.2?}");
}

#[test]
fn liars_of_every_kind_leave_the_others_what_they_had() {
    let claims =
        [Lie::HasAll, Lie::HasAllAndBearsLittle, Lie::HasNothing, Lie::HasMoreThanSent, Lie::Silences];
    assert_left_beside(0.9, &claims);
    assert_left_beside(0.9, &[Lie::Wild]);
    // It feigns a slow path by turns, so it takes longer until it is called away.
    assert_left_beside(0.7, &[Lie::Fickle]);
}

#[test]
fn liars_that_are_late_or_change_their_word_leave_the_others_what_they_had() {
    let changing = [
        Lie::HasAllLate(Duration::from_millis(500)),
        Lie::HasAllLate(Duration::from_secs(3)),
        Lie::Alternates(Duration::from_secs(2)),
        Lie::Jumps,
    ];
    assert_left_beside(0.9, &changing);
}

#[test]
fn a_slow_receiver_moves_and_the_others_are_fast() {
    for seed in seeds(2) {
        let outcome = run(&session(seed, 40, Host { rate_bps: RATE_BPS / 10, ..HONEST }));
        let moved: Vec<_> = outcome.moves.iter().map(|(_, host, group)| (*host, *group)).collect();
        assert_eq!(moved, [(0, 1)], "seed {seed}");
        let (fast, slow) = (honest(&outcome), outcome.goodput_bps(0, MINUTE) / (RATE_BPS as f64 / 10.0));
        assert!(fast > 0.85 && slow > 0.8, "{fast} and {slow}, seed {seed}");
    }
}

/// An attempt to send more lasted 10 ms. On a slow link, receivers hear of it later, and no queue that counts has grown by then.
#[test]
fn the_others_are_fast_soon_after_the_slow_one_has_moved_on_short_paths() {
    for (seed, micros) in some_seeds(1, 4).flat_map(|seed| [200, 1_000, 5_000].map(|micros| (seed, micros))) {
        let link = |mbit: u64| Host { rate_bps: mbit * 1_000_000, ..HONEST };
        let round_trip = Duration::from_micros(micros);
        let plan =
            Session { seed, hosts: vec![link(5), link(50), link(50), link(50)], round_trip, length: MINUTE };
        let outcome = run(&plan);
        let moved = outcome.moves.first().map(|(at, host, _)| (*at, *host));
        let soon = Duration::from_secs(6);
        let used = outcome.goodput_bps(1, soon) / 50e6;
        assert!(
            moved.is_some_and(|(at, host)| host == 0 && at < soon),
            "{micros} us, seed {seed}: {moved:?}"
        );
        assert!(used > 0.3, "{used} with {micros} us, seed {seed}");
    }
}

/// Where reports come late, the first rate is too high, and much of it is lost. That says nothing of the rate that follows.
#[test]
fn a_slow_receiver_is_found_soon_although_reports_come_late() {
    let seeds = seeds(4);
    let (count, mut later) = (seeds.end, Vec::new());
    for seed in seeds {
        let late = |mbit: u64, millis: u64| Host {
            rate_bps: mbit * 1_000_000,
            lateness: Duration::from_millis(millis),
            ..HONEST
        };
        let hosts = vec![late(5, 300), late(50, 10), late(50, 10)];
        let plan = Session { seed, hosts, round_trip: Duration::from_millis(10), length: MINUTE };
        let outcome = run(&plan);
        let first = outcome.moves.first();
        if first.is_none_or(|(at, host, _)| *host > 0 || *at > Duration::from_secs(3)) {
            later.push((seed, outcome.moves));
        }
    }
    assert!(later.len() as u64 <= count / 10, "{later:?}");
}

/// Receivers with equal paths stay in one group, but for one session in twenty.
#[test]
fn equal_receivers_stay_together() {
    let seeds = seeds(10);
    let (count, mut split) = (seeds.end, 0);
    for seed in seeds {
        let mut random = generator(seed, 9);
        let rate_bps = [5, 10, 20, 50][random.random_range(0..4)] * 1_000_000;
        let loss = [0.0, 0.001, 0.01, 0.02][random.random_range(0..4)];
        let hosts = vec![Host { rate_bps, loss, ..HONEST }; [2, 3, 5, 12, 20][random.random_range(0..5)]];
        let round_trip = Duration::from_millis([1, 5, 20, 50, 100, 200][random.random_range(0..6)]);
        let plan = Session { seed, hosts, round_trip, length: Duration::from_secs(40) };
        let outcome = run(&plan);
        split += u64::from(!outcome.moves.is_empty());
        for host in 0..plan.hosts.len() {
            let used = outcome.goodput_bps(host, plan.length) / rate_bps as f64;
            assert!(used > 0.8, "{used} of {rate_bps} with {loss} and {round_trip:?}, seed {seed}");
        }
    }
    assert!(split <= count / 20, "{split} of {count} sessions");
}
