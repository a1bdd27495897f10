//! A sender with `--rate auto` and its receivers.

use std::{collections::BTreeMap, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    tfmcc::{Arrived, Control, Pace, PaceReport, Receiver, ReceiverInput, Sender, SenderConfig, SenderInput},
};

use super::{Faults, PACKET_BYTES, clock::Clock, link::Losses};
use crate::network::Loss;

/// The length of a run: the pacer of the driver sends this much time's worth of packets at once.
const RUN_TIME: Duration = Duration::from_millis(1);

/// The most packets that leave at once: a super-packet has 64 KiB at most.
const MOST_PACKETS_A_RUN: u64 = 43;

/// Length of a Pace with all its headers, in bytes.
pub const PACE_BYTES: u64 = 148;

#[derive(Debug)]
pub struct Auto {
    pub sender: Sender,
    pub receivers: Vec<Receiver>,
    /// The extra delay of each receiver's way back.
    pub detours: Vec<Duration>,
    pub has_liar: bool,
    next_number: u32,
    /// The number of reports in each feedback round from receivers that do not limit the rate.
    reports: BTreeMap<u32, u32>,
    random: ChaCha8Rng,
    clock: Clock,
    /// Losses of each receiver for itself.
    losses: Vec<Losses>,
    lie: Option<f64>,
    pub all_reports: u64,
}

/// What a flow is made of.
#[derive(Debug)]
pub struct Plan<'a> {
    pub control: Control,
    pub receivers: usize,
    pub has_liar: bool,
    pub floor_bps: Option<u64>,
    pub round_trip: Duration,
    pub faults: &'a Faults,
}

impl Auto {
    pub fn new(plan: &Plan<'_>, mut random: ChaCha8Rng) -> Self {
        let Plan { control, receivers, has_liar, floor_bps, round_trip, faults } = *plan;
        let mut sender = Sender::new(SenderConfig { control, packet_bytes: PACKET_BYTES, floor_bps });
        let most_detour = (round_trip / 10).min(Duration::from_millis(4)).as_micros().max(1) as u64;
        let detours: Vec<_> =
            (0..receivers).map(|_| Duration::from_micros(random.random_range(0..most_detour))).collect();
        let mut machines = Vec::new();
        for (receiver, detour) in (1..).zip(&detours) {
            let round_trip = Some(round_trip + *detour);
            sender.handle(Instant::ZERO, SenderInput::Joined { receiver, round_trip });
            let mut machine = Receiver::new(random.random_range(0..u64::MAX));
            machine.handle(Instant::ZERO, ReceiverInput::Named(receiver));
            machines.push(machine);
        }
        let losses = (0..receivers).map(|_| Losses::new(Loss::Uniform(faults.own_loss))).collect();
        Self {
            sender,
            receivers: machines,
            detours,
            has_liar,
            next_number: 0,
            reports: BTreeMap::new(),
            random,
            clock: Clock::new(faults),
            losses: if faults.own_loss > 0.0 { losses } else { Vec::new() },
            lie: faults.lie,
            all_reports: 0,
        }
    }

    pub fn take_number(&mut self) -> u32 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number - 1
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.sender.handle(now, SenderInput::Sent { group_bytes, repair_bytes });
    }

    pub fn arrived(&mut self, now: Instant, packets: Arrived) {
        let now = self.clock.shows(now);
        if self.losses.is_empty() {
            let input = ReceiverInput::Packets(packets);
            return self.receivers.iter_mut().for_each(|receiver| receiver.handle(now, input));
        }
        for (receiver, losses) in self.receivers.iter_mut().zip(&mut self.losses) {
            let mut run = Arrived { count: 0, ..packets };
            for number in (0..packets.count).map(|place| packets.first.wrapping_add(place)) {
                match losses.loses(&mut self.random) {
                    false => run.count += 1,
                    true => {
                        if run.count > 0 {
                            receiver.handle(now, ReceiverInput::Packets(run));
                        }
                        run = Arrived { first: number.wrapping_add(1), count: 0, ..packets };
                    }
                }
            }
            if run.count > 0 {
                receiver.handle(now, ReceiverInput::Packets(run));
            }
        }
    }

    /// A message has arrived at `at`, and hosts handle it now.
    pub fn paced(&mut self, now: Instant, pace: Pace, number: u32, at: Instant) {
        let (now, at) = (self.clock.shows(now), self.clock.shows(at));
        for receiver in &mut self.receivers {
            receiver.handle(now, ReceiverInput::Pace { pace, number, at });
        }
    }

    /// The report that a receiver sends now, if any. Deadlines are moments of the simulated time.
    pub fn poll_receiver(&mut self, now: Instant, receiver: usize) -> Step<PaceReport, (), ()> {
        let lies = receiver == 0;
        match self.receivers[receiver].poll(self.clock.shows(now)) {
            Step::Transmit(report) if self.has_liar && lies => Step::Transmit(self.lie(report)),
            Step::Transmit(report) => match self.lie.filter(|_| lies) {
                Some(factor) => Step::Transmit(exaggerate(report, factor)),
                None => Step::Transmit(report),
            },
            Step::Wait(deadline, _) => {
                let at = |deadline| now + self.clock.until(now, deadline);
                Step::Wait(deadline.map(at), ())
            }
        }
    }

    /// Replaces a report by a false one. Some fields stay right, so that the sender believes it.
    fn lie(&mut self, report: PaceReport) -> PaceReport {
        let extremes = [0, 1, report.received_bps, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        let mut draw = || extremes[self.random.random_range(0..extremes.len())];
        let echo_us = [report.echo_us, draw()][usize::from(draw() == 0)];
        PaceReport {
            timestamp_us: draw(),
            echo_us,
            rate_bps: draw().max(1_000_000_000),
            received_bps: draw(),
            queue_us: draw() as u32,
            lost_ppm: draw() as u32,
            round_trip_us: draw() as u32,
            loss_ppb: draw() as u32,
            is_limited: draw() == 0,
            ..report
        }
    }

    pub fn report(&mut self, now: Instant, from: usize, report: PaceReport) {
        let from = from as u32 + 1;
        self.all_reports += 1;
        if self.sender.limit().receiver != Some(from) {
            *self.reports.entry(report.round).or_default() += 1;
        }
        self.sender.handle(now, SenderInput::Report { from, report });
    }

    pub fn most_reports_a_round(&self) -> u32 {
        self.reports.values().copied().max().unwrap_or(0)
    }
}

/// The number of packets that leave at once at a rate in bits a second, and the time until the next ones.
pub fn run_len(rate_bps: u64) -> (u32, Duration) {
    let (rate, bits) = (rate_bps.max(1), u64::from(PACKET_BYTES) * 8);
    let packets = (rate * RUN_TIME.as_millis() as u64 / 1000 / bits).clamp(1, MOST_PACKETS_A_RUN);
    (packets as u32, Duration::from_nanos(packets * bits * 1_000_000_000 / rate))
}

/// A report with other rates. One that lies low says that something limits it, one that lies high that nothing does.
pub fn exaggerate(report: PaceReport, factor: f64) -> PaceReport {
    let scaled = |bps: u64| (bps as f64 * factor) as u64;
    let received_bps = scaled(report.received_bps);
    let rate_bps = if factor < 1.0 { received_bps } else { Pace::NO_RATE };
    PaceReport { rate_bps, received_bps, queue_us: 0, lost_ppm: 0, ..report }
}
