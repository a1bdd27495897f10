//! A sender with `--rate auto` and its receivers.

use std::{collections::BTreeMap, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    tfmcc::{Arrived, Control, Pace, PaceReport, Receiver, ReceiverInput, Sender, SenderConfig, SenderInput},
};

use super::PACKET_BYTES;

/// The length of a run: the pacer of the driver sends this much time's worth of packets at once.
const RUN_TIME: Duration = Duration::from_millis(1);
const MOST_PACKETS_A_RUN: u64 = 21;

/// Length of a Pace with all its headers, in bytes.
pub const PACE_BYTES: u64 = 136;

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
}

impl Auto {
    pub fn new(
        receivers: usize,
        has_liar: bool,
        floor_bps: Option<u64>,
        round_trip: Duration,
        mut random: ChaCha8Rng,
    ) -> Self {
        let mut sender = Sender::new(SenderConfig {
            control: Control::Tfmcc,
            packet_bytes: PACKET_BYTES,
            floor_bps,
            first_bps: None,
        });
        let detours: Vec<_> =
            (0..receivers).map(|_| Duration::from_micros(random.random_range(0..4_000))).collect();
        let mut machines = Vec::new();
        for (receiver, detour) in (1..).zip(&detours) {
            let round_trip = Some(round_trip + *detour);
            sender.handle(Instant::ZERO, SenderInput::Joined { receiver, round_trip });
            let mut machine = Receiver::new(random.random_range(0..u64::MAX));
            machine.handle(Instant::ZERO, ReceiverInput::Named(receiver));
            machines.push(machine);
        }
        let reports = BTreeMap::new();
        Self { sender, receivers: machines, detours, has_liar, next_number: 0, reports, random }
    }

    /// The number of packets that leave now, and the time until the next ones.
    pub fn run_len(&self) -> (u32, Duration) {
        let rate = self.sender.rate_bps().max(1);
        let bits = u64::from(PACKET_BYTES) * 8;
        let packets = (rate * RUN_TIME.as_millis() as u64 / 1000 / bits).clamp(1, MOST_PACKETS_A_RUN);
        (packets as u32, Duration::from_nanos(packets * bits * 1_000_000_000 / rate))
    }

    pub fn take_number(&mut self) -> u32 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number - 1
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.sender.handle(now, SenderInput::Sent { group_bytes, repair_bytes });
    }

    pub fn arrived(&mut self, now: Instant, packets: Arrived) {
        for receiver in &mut self.receivers {
            receiver.handle(now, ReceiverInput::Packets(packets));
        }
    }

    pub fn paced(&mut self, now: Instant, pace: Pace, number: u32) {
        for receiver in &mut self.receivers {
            receiver.handle(now, ReceiverInput::Pace { pace, number, at: now });
        }
    }

    /// The report that a receiver sends now, if any.
    pub fn poll_receiver(&mut self, now: Instant, receiver: usize) -> Step<PaceReport, (), ()> {
        match self.receivers[receiver].poll(now) {
            Step::Transmit(report) if self.has_liar && receiver == 0 => Step::Transmit(self.lie(report)),
            Step::Transmit(report) => Step::Transmit(report),
            Step::Wait(deadline, _) => Step::Wait(deadline, ()),
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
            round_trip_us: draw() as u32,
            loss_ppb: draw() as u32,
            is_lossy: draw() == 0,
            ..report
        }
    }

    pub fn report(&mut self, now: Instant, from: usize, report: PaceReport) {
        let from = from as u32 + 1;
        if self.sender.limit().receiver != Some(from) {
            *self.reports.entry(report.round).or_default() += 1;
        }
        self.sender.handle(now, SenderInput::Report { from, report });
    }

    pub fn most_reports_a_round(&self) -> u32 {
        self.reports.values().copied().max().unwrap_or(0)
    }
}
