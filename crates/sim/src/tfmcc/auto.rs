//! A sender with `--rate auto` and its receivers.

use std::{collections::BTreeMap, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    policy::packets_per_smooth_run,
    tfmcc::{
        Arrived, Control, Pace, PaceReport, ProbeKey, Receiver, ReceiverInput, Sender, SenderConfig,
        SenderInput,
    },
};

use super::{Faults, PACKET_BYTES, clock::Clock, lie::Teller};
use crate::network::{Loss, Losses};

/// The most packets that leave at once: a super-packet has 64 KiB at most.
const MOST_PACKETS_A_RUN: usize = 43;

/// The number of receivers that ask for what they lack. All of a large group's requests would take long to simulate.
const MOST_ASKING: usize = 20;

/// Length of a Pace with all its headers, in bytes.
pub const PACE_BYTES: u64 = 148;

/// Whatever the secret is, receivers do not know it.
pub const PROBE_KEY: ProbeKey = ProbeKey([3; 32]);

#[derive(Debug)]
pub struct Auto {
    pub sender: Sender,
    pub receivers: Vec<Receiver>,
    /// The extra delay of each receiver's way back.
    detours: Vec<Duration>,
    next_number: u32,
    /// The number of reports in each feedback round from receivers that do not limit the rate.
    reports: BTreeMap<u32, u32>,
    random: ChaCha8Rng,
    clock: Clock,
    /// Losses of each receiver for itself.
    losses: Vec<Losses>,
    /// What the first receivers say.
    tellers: Vec<Teller>,
    /// The rate that the sender has told last.
    told_bps: u64,
    /// What receivers have yet to ask for, as far as it is modelled who asks.
    gaps: Vec<Gap>,
    pub all_reports: u64,
    /// How far the sender has doubted each receiver at most.
    pub doubts: BTreeMap<usize, f64>,
}

/// Packets that one receiver lacks.
#[derive(Debug, Clone, Default)]
struct Gap {
    next: u32,
    missing: u32,
    /// Whether it is about to ask.
    is_due: bool,
    /// Whether it never asks.
    is_mute: bool,
}

impl Gap {
    fn of(is_mute: bool) -> Self {
        Self { is_mute, ..Self::default() }
    }

    fn arrived(&mut self, packets: Arrived) {
        let end = packets.first.wrapping_add(packets.count);
        let gap = packets.first.wrapping_sub(self.next);
        if gap > i32::MAX as u32 {
            // A host that is late may handle it after those that were sent later.
            self.missing = self.missing.saturating_sub(packets.count);
        } else {
            self.missing += gap;
            self.next = end;
        }
    }
}

/// What a flow is made of.
#[derive(Debug)]
pub struct Plan<'a> {
    pub control: Control,
    pub receivers: usize,
    pub floor_bps: Option<u64>,
    pub round_trip: Duration,
    pub faults: &'a Faults,
}

impl Auto {
    pub fn new(plan: &Plan<'_>, mut random: ChaCha8Rng) -> Self {
        let Plan { control, receivers, floor_bps, round_trip, faults } = *plan;
        let config = SenderConfig { control, packet_bytes: PACKET_BYTES, floor_bps, probe_key: PROBE_KEY };
        let mut sender = Sender::new(config);
        let most_detour = (round_trip / 10).min(Duration::from_millis(4)).as_micros().max(1) as u64;
        let detours: Vec<_> =
            (0..receivers).map(|_| Duration::from_micros(random.random_range(0..most_detour))).collect();
        let mut machines = Vec::new();
        for (receiver, detour) in (1..).zip(&detours) {
            let round_trip = Some(round_trip + *detour);
            let who = receiver.into();
            sender.handle(Instant::ZERO, SenderInput::Joined { receiver, who, round_trip });
            let mut machine = Receiver::new(random.random_range(0..u64::MAX));
            machine.handle(Instant::ZERO, ReceiverInput::Named(receiver));
            machines.push(machine);
        }
        let losses = (0..receivers).map(|_| Losses::new(Loss::Uniform(faults.own_loss))).collect();
        Self {
            sender,
            receivers: machines,
            detours,
            next_number: 0,
            reports: BTreeMap::new(),
            random,
            clock: Clock::new(faults),
            losses: if faults.own_loss > 0.0 { losses } else { Vec::new() },
            tellers: faults.lies.iter().map(|lie| Teller::new(*lie, faults.forgery)).collect(),
            told_bps: 0,
            gaps: (0..receivers.min(MOST_ASKING)).map(|one| Gap::of(one < faults.mute)).collect(),
            all_reports: 0,
            doubts: BTreeMap::new(),
        }
    }

    /// Takes the numbers of the next packets. Returns the first one.
    pub fn take_numbers(&mut self, count: u32) -> u32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count);
        first
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        self.sender.handle(now, SenderInput::Sent { group_bytes, repair_bytes });
    }

    pub fn arrived(&mut self, now: Instant, packets: Arrived) {
        let now = self.clock.shows(now);
        if self.losses.is_empty() {
            self.gaps.iter_mut().for_each(|gap| gap.arrived(packets));
            let input = ReceiverInput::Packets(packets);
            return self.receivers.iter_mut().for_each(|receiver| receiver.handle(now, input));
        }
        let random = &mut self.random;
        for (index, (receiver, losses)) in self.receivers.iter_mut().zip(&mut self.losses).enumerate() {
            let fate = || (!losses.loses(random)).then_some((now, packets.marked));
            for (run, _) in pieces(packets.first, packets.count, fate) {
                self.gaps.get_mut(index).into_iter().for_each(|gap| gap.arrived(run));
                receiver.handle(now, ReceiverInput::Packets(run));
            }
        }
    }

    /// A message has arrived at `at`, and hosts handle it now.
    pub fn paced(&mut self, now: Instant, pace: Pace, packet: Arrived, at: Instant) {
        if pace.probe.is_some() {
            return self.probed(now, pace, packet, at);
        }
        self.arrived(now, packet);
        let (now, at) = (self.clock.shows(now), self.clock.shows(at));
        self.told_bps = pace.rate_bps;
        for receiver in &mut self.receivers {
            receiver.handle(now, ReceiverInput::Pace { pace, number: packet.first, at });
        }
    }

    /// A probe gets lost as other packets do.
    fn probed(&mut self, now: Instant, pace: Pace, packet: Arrived, at: Instant) {
        let (now, at) = (self.clock.shows(now), self.clock.shows(at));
        for (index, receiver) in self.receivers.iter_mut().enumerate() {
            let losses = self.losses.get_mut(index);
            if losses.is_some_and(|losses| losses.loses(&mut self.random)) {
                continue;
            }
            self.gaps.get_mut(index).into_iter().for_each(|gap| gap.arrived(packet));
            receiver.handle(now, ReceiverInput::Packets(packet));
            receiver.handle(now, ReceiverInput::Pace { pace, number: packet.first, at });
        }
    }

    /// The report that a receiver sends now, if any. Deadlines are moments of the simulated time.
    pub fn poll_receiver(&mut self, now: Instant, receiver: usize) -> Step<PaceReport, (), ()> {
        match self.receivers[receiver].poll(self.clock.shows(now)) {
            Step::Transmit(report) => {
                let teller = self.tellers.get_mut(receiver);
                let told = |teller: &mut Teller| teller.told(now, self.told_bps, report, &mut self.random);
                Step::Transmit(teller.map_or(report, told))
            }
            Step::Wait(deadline, _) => {
                let at = |deadline| now + self.clock.until(now, deadline);
                Step::Wait(deadline.map(at), ())
            }
        }
    }

    /// The time by which a receiver's reports come later.
    pub fn delay(&self, receiver: usize) -> Duration {
        self.detours[receiver]
            + self.tellers.get(receiver).map_or(Duration::ZERO, |teller| teller.lie.delay())
    }

    /// The receivers that find now that they lack something, and will ask for it.
    pub fn take_askers(&mut self) -> Vec<usize> {
        let gaps = self.gaps.iter_mut().enumerate().filter(|(_, gap)| gap.missing > 0 && !gap.is_mute);
        gaps.filter_map(|(receiver, gap)| (!std::mem::replace(&mut gap.is_due, true)).then_some(receiver))
            .collect()
    }

    /// A receiver's request has reached the sender.
    pub fn ask(&mut self, now: Instant, receiver: usize) {
        let gap = &mut self.gaps[receiver];
        let bytes = u64::from(std::mem::take(&mut gap.missing) * PACKET_BYTES);
        gap.is_due = false;
        self.sender.handle(now, SenderInput::Asked { receiver: receiver as u32 + 1, bytes });
    }

    pub fn report(&mut self, now: Instant, from: usize, report: PaceReport) {
        let number = from as u32 + 1;
        self.all_reports += 1;
        if self.sender.limit().receiver != Some(number) {
            *self.reports.entry(report.round).or_default() += 1;
        }
        self.sender.handle(now, SenderInput::Report { from: number, report });
        let most = self.doubts.entry(from).or_default();
        *most = most.max(self.sender.doubt(now, number));
    }

    pub fn most_reports_a_round(&self) -> u32 {
        self.reports.values().copied().max().unwrap_or(0)
    }
}

/// The runs that arrive of `count` packets that leave at once, each with the time at which its last packet does. `fate`
/// says of each packet in turn when it arrives, and whether it is marked. `None`: it is lost.
pub fn pieces(
    first: u32,
    count: u32,
    mut fate: impl FnMut() -> Option<(Instant, bool)>,
) -> Vec<(Arrived, Instant)> {
    let mut pieces: Vec<(Arrived, Instant)> = Vec::new();
    for number in (0..count).map(|place| first.wrapping_add(place)) {
        let Some((at, marked)) = fate() else { continue };
        match pieces.last_mut() {
            Some((run, last)) if run.marked == marked && run.first.wrapping_add(run.count) == number => {
                run.count += 1;
                *last = at;
            }
            _ => pieces.push((Arrived { first: number, count: 1, marked }, at)),
        }
    }
    pieces
}

/// The number of packets that leave at once at a rate in bits a second, and the time until the next ones.
pub fn run_len(rate_bps: u64) -> (u32, Duration) {
    let (rate, packet_bytes) = (rate_bps.max(1), u64::from(PACKET_BYTES));
    let packets = packets_per_smooth_run(rate, packet_bytes, MOST_PACKETS_A_RUN) as u64;
    (packets as u32, Duration::from_nanos(packets * packet_bytes * 8_000_000_000 / rate))
}
