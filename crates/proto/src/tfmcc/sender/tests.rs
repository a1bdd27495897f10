use super::*;
use crate::{tfmcc::ProbeProof, time::at};

const ROUND_TRIP: Duration = Duration::from_millis(40);

fn config(control: Control, floor_bps: Option<u64>) -> SenderConfig {
    SenderConfig { control, packet_bytes: 1500, floor_bps, probe_key: ProbeKey([7; 32]) }
}

/// A sender and receivers of which each reports as it is told, whenever it is followed.
struct Bench {
    sender: Sender,
    millis: u64,
    paces: Vec<Pace>,
}

impl Bench {
    fn new(receivers: u32, floor_bps: Option<u64>) -> Self {
        let mut sender = Sender::new(config(Control::Tfmcc, floor_bps));
        for receiver in 1..=receivers {
            sender.handle(at(0), SenderInput::Joined { receiver, who: 0, round_trip: Some(ROUND_TRIP) });
        }
        Self { sender, millis: 0, paces: Vec::new() }
    }

    /// Sends as fast as it may for some time; `answer` gives the report of the receiver that is followed, or of
    /// receiver 1 if none is.
    fn run(&mut self, millis: u64, answer: impl Fn(u32, u64) -> Option<PaceReport>) {
        for now in self.millis..self.millis + millis {
            let rate = self.sender.rate_bps();
            self.sender.handle(at(now), SenderInput::Sent { group_bytes: rate / 8000, repair_bytes: 0 });
            while let Step::Transmit(pace) = self.sender.poll(at(now)) {
                self.paces.push(pace);
            }
            let from = self.sender.limit().receiver.unwrap_or(1);
            if now % 40 == 39
                && let Some(report) = answer(from, rate)
            {
                let report = PaceReport { echo_us: (now - 39) * 1000, ..report };
                self.sender.handle(at(now), SenderInput::Report { from, report });
            }
        }
        self.millis += millis;
    }
}

fn report(rate_bps: u64, received_bps: u64) -> PaceReport {
    PaceReport {
        timestamp_us: 5,
        echo_us: 0,
        rate_bps,
        received_bps,
        round: 1,
        round_trip_us: 40_000,
        loss_ppb: 1000,
        is_limited: false,
        queue_us: 0,
        lost_ppm: 0,
        marked_ppm: 0,
        proof: ProbeProof::default(),
    }
}

#[test]
fn the_lowest_is_followed_and_the_group_told() {
    let mut bench = Bench::new(3, None);
    bench.run(400, |_, rate| Some(report(Pace::NO_RATE, rate)));
    assert_eq!((bench.sender.limit().receiver, bench.sender.limit().cause), (Some(1), Cause::Start));
    let fast = bench.sender.rate_bps();
    assert!(fast > 100_000_000, "{fast}");
    let low = PaceReport { echo_us: 390_000, ..report(9_000_000, 30_000_000) };
    bench.sender.handle(at(400), SenderInput::Report { from: 3, report: low });
    assert_eq!((bench.sender.rate_bps(), bench.sender.limit().receiver), (9_000_000, Some(3)));
    let higher = PaceReport { echo_us: 390_000, ..report(12_000_000, 30_000_000) };
    bench.sender.handle(at(401), SenderInput::Report { from: 2, report: higher });
    assert_eq!((bench.sender.rate_bps(), bench.sender.limit().receiver), (9_000_000, Some(3)));
    bench.run(30, |_, _| None);
    let last = bench.paces.last().unwrap();
    assert_eq!((last.limited_by, last.suppression_bps, last.is_slow_start), (3, 9_000_000, false));
    let echoed: Vec<u32> = bench.paces.iter().map(|pace| pace.echo_for).filter(|one| *one != 0).collect();
    assert!(echoed.ends_with(&[3, 2]) || echoed.ends_with(&[3, 2, 3]), "{echoed:?}");
    bench.sender.handle(at(431), SenderInput::Left { receiver: 3 });
    assert_eq!(bench.sender.limit().receiver, Some(2), "the next lowest");
    let rate = bench.sender.rate_bps();
    bench.sender.handle(at(432), SenderInput::Report { from: 3, report: PaceReport { rate_bps: 1, ..low } });
    assert_eq!((bench.sender.rate_bps(), bench.sender.limit().receiver), (rate, Some(2)), "it has left");
}

#[test]
fn one_that_falls_silent_is_replaced_before_the_rate_falls() {
    let mut bench = Bench::new(2, None);
    bench.run(400, |from, rate| (from == 1).then(|| report(Pace::NO_RATE, rate.min(20_000_000))));
    let before = bench.sender.rate_bps();
    bench.run(900, |from, rate| (from == 2).then(|| report(Pace::NO_RATE, rate.min(20_000_000))));
    assert_eq!(bench.sender.limit().receiver, Some(2));
    assert!(bench.sender.rate_bps() >= before, "{} {before}", bench.sender.rate_bps());
    bench.run(5_000, |_, _| None);
    assert_eq!(bench.sender.rate_bps(), 60_000, "nobody answers: five packets a second");
    bench.run(2_000, |_, rate| Some(report(Pace::NO_RATE, rate)));
    assert!(bench.sender.rate_bps() > before / 4, "{}", bench.sender.rate_bps());
}

#[test]
fn a_group_from_which_no_report_comes_is_unheard_until_one_does() {
    let mut bench = Bench::new(2, None);
    bench.run(1_500, |_, _| None);
    assert!(!bench.sender.is_unheard(at(1_500)));
    bench.run(3_500, |_, _| None);
    assert!(bench.sender.is_unheard(at(5_000)));
    bench.run(1_000, |_, rate| Some(report(Pace::NO_RATE, rate)));
    assert!(!bench.sender.is_unheard(at(6_000)));
    bench.run(5_000, |_, _| None);
    assert!(bench.sender.is_unheard(at(11_000)));
    for receiver in [1, 2] {
        bench.sender.handle(at(11_000), SenderInput::Left { receiver });
    }
    assert!(!bench.sender.is_unheard(at(11_000)), "nobody is there");
}

#[test]
fn who_cannot_bear_the_floor_is_not_followed() {
    let mut bench = Bench::new(2, Some(5_000_000));
    let slow_first = |from, rate: u64| match from {
        1 => Some(report(1_000_000, rate)),
        _ => Some(report(20_000_000, rate)),
    };
    bench.run(3_000, slow_first);
    assert_eq!(bench.sender.limit().receiver, Some(2));
    assert!(bench.sender.rate_bps() > 10_000_000, "{}", bench.sender.rate_bps());
    bench.sender.handle(at(3_000), SenderInput::Left { receiver: 2 });
    assert_eq!((bench.sender.rate_bps(), bench.sender.limit().cause), (5_000_000, Cause::Floor));
    bench.run(2_000, |_, _| Some(report(7_000_000, 7_000_000)));
    assert_eq!(bench.sender.limit().receiver, Some(1), "it can bear the floor again");
    assert_eq!(bench.sender.rate_bps(), 7_000_000);
}

/// RFC 4654 believes its receivers. A packet has 12,000 bits, and a round trip takes 39 ms here.
#[test]
fn who_feigns_losses_takes_the_rate_down_to_the_floor_or_else_to_a_packet_a_round_trip() {
    for (floor_bps, feigned_bps, expected) in [(Some(5_000_000), 5_000_000, 5_000_000), (None, 0, 307_692)] {
        let mut bench = Bench::new(2, floor_bps);
        bench
            .run(5_000, |from, rate| Some(report(if from == 1 { feigned_bps } else { Pace::NO_RATE }, rate)));
        assert_eq!(bench.sender.rate_bps(), expected, "{floor_bps:?}");
    }
}

#[test]
fn nothing_is_told_or_changed_while_nothing_is_sent() {
    let mut bench = Bench::new(1, None);
    bench.run(400, |_, rate| Some(report(Pace::NO_RATE, rate)));
    let (rate, told) = (bench.sender.rate_bps(), bench.paces.len());
    for millis in 400..5_000 {
        if let Step::Transmit(pace) = bench.sender.poll(at(millis)) {
            bench.paces.push(pace);
        }
    }
    assert!(bench.paces.len() <= told + 1, "what was sent last is still told of");
    assert!(bench.sender.rate_bps() >= rate / 2);
    assert_eq!(bench.sender.poll(at(5_000)), Step::Wait(None, SenderWait::Packets));
}

#[test]
fn whatever_is_reported_the_rate_stays_within_bounds() {
    [Control::Tfmcc, Control::Model].into_iter().for_each(the_rate_stays_within_bounds);
}

fn the_rate_stays_within_bounds(control: Control) {
    let mut sender = Sender::new(config(control, Some(100_000)));
    sender.handle(at(0), SenderInput::Joined { receiver: 1, who: 1, round_trip: Some(Duration::MAX) });
    let extremes = [0, 1, u64::MAX - 1, u64::MAX];
    for (step, rate_bps) in (0..).zip(extremes.repeat(16)) {
        let now = at(step * 50);
        sender.handle(now, SenderInput::Sent { group_bytes: 1 << (step % 60), repair_bytes: step });
        for echo_us in [0, micros(now), u64::MAX] {
            for received_bps in extremes {
                let report = PaceReport {
                    timestamp_us: rate_bps,
                    echo_us,
                    rate_bps,
                    received_bps,
                    round: step as u32,
                    round_trip_us: received_bps as u32,
                    loss_ppb: u32::MAX,
                    is_limited: step % 3 == 0,
                    queue_us: u32::MAX,
                    lost_ppm: u32::MAX,
                    marked_ppm: u32::MAX,
                    proof: ProbeProof { last: step as u32, came: rate_bps, sum: received_bps },
                };
                let from = (step % 2) as u32 + 1;
                sender.handle(now, SenderInput::Report { from, report });
                assert!((100_000..=1_000_000_000_000).contains(&sender.rate_bps()));
                assert_ne!(sender.limit().receiver, Some(2), "it has never joined");
            }
        }
        while let Step::Transmit(pace) = sender.poll(now) {
            assert!(pace.longest_round_trip_us <= 5_000_000);
        }
    }
}

/// All is multicast, and what slow receivers lack goes out over their connections, for long.
#[test]
fn retransmissions_alone_do_not_take_the_rate_down() {
    let mut bench = Bench::new(2, None);
    bench.run(2_000, |_, rate| Some(report(5_000_000, rate.min(5_000_000))));
    let before = bench.sender.rate_bps();
    assert!(before > 4_000_000, "{before}");
    for now in (2_000..32_000).step_by(10) {
        let repair_bytes = bench.sender.rate_bps() / 800;
        bench.sender.handle(at(now), SenderInput::Sent { group_bytes: 0, repair_bytes });
        while let Step::Transmit(_) = bench.sender.poll(at(now)) {}
    }
    // The word on the last packets to the group stays out, once.
    assert!(bench.sender.rate_bps() >= before / 2, "{}", bench.sender.rate_bps());
}
