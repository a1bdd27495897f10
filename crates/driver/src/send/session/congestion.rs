//! `--rate auto` and `--rate tfmcc`: carries out the decisions of congestion control.
//!
//! Each of the session's groups is a lane with a congestion control of its own. [`treecast_proto::lanes`] says which lane serves whom.

use std::time::Duration;

use treecast_proto::{
    Instant, Step,
    lanes::{self, LOOK_ROUNDS, Lanes, Order, WORTH},
    object::{Destination, ReceiverId},
    tfmcc::{self, Cause, PaceReport, SenderConfig, SenderInput},
};
use treecast_wire::{header::FileId, message::Message};

use super::{
    super::{MOST_CODED_BPS, Plan, Rate, RateProgress, SendError},
    Session,
};
use crate::{pacer, udp::frames_in_super_packet};
use treecast_host::tcp_info;

/// The time between two looks at which lane should serve whom.
const LOOK: Duration = Duration::from_millis(5);

/// A lane to which nothing was sent for this long has nobody who could report.
const IDLE: Duration = Duration::from_secs(1);

/// The congestion control of all lanes.
#[derive(Debug)]
pub(super) struct Congestion {
    config: SenderConfig,
    /// The lane of the first group, then those of the slower groups.
    lanes: Vec<LaneControl>,
    choice: Lanes,
    looks_at: Instant,
}

/// The congestion control of one lane, and what of it is in force.
#[derive(Debug)]
struct LaneControl {
    machine: tfmcc::Sender,
    /// The rate and the number of copies that the pacer knows.
    applied: (u64, u64),
    /// When a receiver of the lane has last reported, or nothing was sent that it could have reported on.
    heard: Option<Instant>,
    /// When something has last left for the lane.
    sent: Option<Instant>,
}

impl LaneControl {
    fn new(config: SenderConfig) -> Self {
        Self { machine: tfmcc::Sender::new(config), applied: (0, 0), heard: None, sent: None }
    }

    fn status(&mut self, now: Instant) -> lanes::Lane {
        if self.sent.is_none_or(|sent| now.saturating_duration_since(sent) > IDLE) {
            self.heard = Some(now);
        }
        let limit = self.machine.limit();
        let limiting = limit.receiver.zip(limit.bears_bps);
        let alike = limiting
            .map_or(0, |(_, bears)| self.machine.others_below(now, LOOK_ROUNDS, bears as f64 * WORTH));
        lanes::Lane {
            rate_bps: self.machine.rate_bps(),
            limiting,
            round_trip: limit.round_trip,
            is_used: limit.cause != Cause::Unused,
            heard: self.heard,
            alike,
            feedback_round: self.machine.feedback_round(),
        }
    }
}

impl Congestion {
    /// Creates congestion control. `None` at a constant rate.
    pub fn new(plan: &Plan) -> Option<Self> {
        let Rate::Auto { control, floor_bps } = plan.options.rate else { return None };
        let packet_bytes = plan.packet_bytes() as u32;
        let config = SenderConfig { control, packet_bytes, floor_bps, first_bps: None };
        let count = 1 + plan.led_groups();
        Some(Self {
            config,
            lanes: (0..count).map(|_| LaneControl::new(config)).collect(),
            choice: Lanes::new(count),
            looks_at: Instant::ZERO,
        })
    }

    fn machine(&mut self, lane: u8) -> Option<&mut tfmcc::Sender> {
        self.lanes.get_mut(usize::from(lane)).map(|lane| &mut lane.machine)
    }

    fn handle(&mut self, now: Instant, lane: u8, input: SenderInput) {
        if let Some(machine) = self.machine(lane) {
            machine.handle(now, input);
        }
    }

    /// A receiver is served by another lane now. A lane that had no receivers begins with the rate that this one bears.
    fn moved(&mut self, now: Instant, receiver: u32, to: u8, round_trip: Option<Duration>) {
        let from = self.choice.lane_of(receiver);
        let bears_bps = self.machine(from).and_then(|machine| machine.bears_bps(receiver));
        self.handle(now, from, SenderInput::Left { receiver });
        if self.choice.members(to) == 0
            && let Some(lane) = self.lanes.get_mut(usize::from(to))
        {
            *lane = LaneControl::new(SenderConfig { first_bps: bears_bps, ..self.config });
        }
        self.handle(now, to, SenderInput::Joined { receiver, round_trip });
        self.choice.moved(now, receiver, to);
    }

    /// What is to be done about who is served by which lane.
    fn decide(&mut self, now: Instant) -> Vec<Order> {
        if self.lanes.len() < 2 || now < self.looks_at {
            return Vec::new();
        }
        self.looks_at = now + LOOK;
        let lanes: Vec<lanes::Lane> = self.lanes.iter_mut().map(|lane| lane.status(now)).collect();
        self.choice.decide(now, &lanes)
    }
}

/// # What happens
impl Session<'_> {
    pub(super) fn congestion_joined(&mut self, now: Instant, receiver: ReceiverId) {
        let round_trip = self.round_trip_to(receiver);
        if let Some(congestion) = &mut self.lanes.congestion {
            congestion.choice.joined(receiver.number());
        }
        self.congestion(now, 0, SenderInput::Joined { receiver: receiver.number(), round_trip });
    }

    fn round_trip_to(&self, receiver: ReceiverId) -> Option<Duration> {
        let connection = self.peers.get(&receiver).and_then(|peer| peer.link.connection.as_ref());
        connection.and_then(tcp_info::round_trip)
    }

    pub(super) fn congestion_left(&mut self, now: Instant, receiver: ReceiverId) {
        let lane = self.lane_of(receiver);
        if let Some(congestion) = &mut self.lanes.congestion {
            congestion.choice.left(receiver.number());
        }
        self.congestion(now, lane, SenderInput::Left { receiver: receiver.number() });
    }

    pub(super) fn congestion_report(&mut self, now: Instant, from: ReceiverId, report: PaceReport) {
        let lane = self.lane_of(from);
        if let Some(congestion) = &mut self.lanes.congestion
            && let Some(lane) = congestion.lanes.get_mut(usize::from(lane))
        {
            lane.heard = Some(now);
        }
        self.congestion(now, lane, SenderInput::Report { from: from.number(), report });
    }

    /// A receiver has gone to another group.
    pub(super) fn congestion_moved(&mut self, now: Instant, receiver: ReceiverId, to: u8) {
        let round_trip = self.round_trip_to(receiver);
        if let Some(congestion) = &mut self.lanes.congestion {
            congestion.moved(now, receiver.number(), to, round_trip);
            self.apply_rate(now);
            self.apply_slower_rate(now, to);
        }
    }

    fn lane_of(&self, receiver: ReceiverId) -> u8 {
        let congestion = self.lanes.congestion.as_ref();
        congestion.map_or(0, |congestion| congestion.choice.lane_of(receiver.number()))
    }

    /// Bytes of IP packets have left, in all copies.
    pub(super) fn note_sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        let copies = self.copies();
        let (group_bytes, repair_bytes) = (group_bytes.div_ceil(copies), repair_bytes.div_ceil(copies));
        self.congestion(now, 0, SenderInput::Sent { group_bytes, repair_bytes });
    }

    /// Bytes of IP packets have left for a slower group. They count in the first group's rate, too, so that all groups together
    /// send no more than one would.
    pub(super) fn charge_slower(&mut self, now: Instant, group: u8, bytes: u64) {
        if self.lanes.congestion.is_some() {
            let congestion = self.lanes.congestion.as_mut();
            let lane = congestion.and_then(|congestion| congestion.lanes.get_mut(usize::from(group)));
            lane.into_iter().for_each(|lane| lane.sent = Some(now));
            self.congestion(now, group, SenderInput::Sent { group_bytes: bytes, repair_bytes: 0 });
            self.lanes.pacer.sent(now, bytes);
            self.note_sent(now, 0, bytes);
        }
    }

    /// What mends a receiver's copy has been given to its connection, so many bytes of IP packets.
    pub(super) fn note_repaired(&mut self, now: Instant, bytes: u64) {
        if self.lanes.repairs.repaired(bytes) {
            self.lanes.pacer.sent(now, bytes);
            self.note_sent(now, 0, bytes);
        }
    }

    fn congestion(&mut self, now: Instant, lane: u8, input: SenderInput) {
        if let Some(congestion) = &mut self.lanes.congestion {
            congestion.handle(now, lane, input);
            match lane {
                0 => self.apply_rate(now),
                slower => self.apply_slower_rate(now, slower),
            }
        }
    }
}

/// # What is to be done
impl Session<'_> {
    /// Tells the group what it should know. Returns when there will be more.
    pub(super) fn tell_pace(&mut self, now: Instant) -> Result<Option<Instant>, SendError> {
        self.choose_lanes(now);
        // Copies of the packet before go first.
        match self.lanes.group.has_copies() {
            true => Ok(None),
            false => self.tell_pace_of(now, 0),
        }
    }

    /// As [`Session::tell_pace`], for the group with this number.
    pub(super) fn tell_pace_of(&mut self, now: Instant, group: u8) -> Result<Option<Instant>, SendError> {
        let to = if group == 0 { Destination::Group } else { Destination::Slower(group) };
        while let Some(machine) = self.lanes.congestion.as_mut().and_then(|control| control.machine(group)) {
            match machine.poll(now) {
                Step::Transmit(pace) => {
                    let session = FileId::new(self.plan.session, 0);
                    self.send_message(now, to, session, &Message::Pace(pace))?;
                }
                Step::Wait(deadline, _) => {
                    match group {
                        0 => self.apply_rate(now),
                        slower => self.apply_slower_rate(now, slower),
                    }
                    return Ok(deadline);
                }
            }
            if group == 0 && self.lanes.group.has_copies() {
                break;
            }
        }
        Ok(None)
    }

    /// Sets receivers aside, and asks them to go to other groups.
    fn choose_lanes(&mut self, now: Instant) {
        let orders = self.lanes.congestion.as_mut().map(|congestion| congestion.decide(now));
        for order in orders.unwrap_or_default() {
            match order {
                Order::Aside { lane, receiver, is_aside } => {
                    self.congestion(now, lane, SenderInput::Aside { receiver, is_aside });
                }
                Order::Move { receiver, lane } => {
                    let found = self.peers.keys().find(|peer| peer.number() == receiver).copied();
                    if let (Some(receiver), Some(machine)) = (found, self.machine.vcmtp_mut()) {
                        machine.order(receiver, lane);
                    }
                }
            }
        }
    }

    /// The pacer counts all copies of a packet; the rate is each one's.
    pub(super) fn apply_rate(&mut self, now: Instant) {
        let copies = self.copies();
        let Some(lane) = self.lanes.congestion.as_mut().and_then(|control| control.lanes.first_mut()) else {
            return;
        };
        let rate = lane.machine.rate_bps();
        if std::mem::replace(&mut lane.applied, (rate, copies)) == (rate, copies) {
            return;
        }
        let packets = self.packets_at(rate);
        self.lanes.run_bytes = packets as u64 * self.plan.packet_bytes();
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_may_code(rate <= MOST_CODED_BPS);
            machine.set_max_run_len((packets * usize::from(self.plan.block_len)) as u32);
        }
        self.lanes.pacer.set_rate(now, rate.saturating_mul(copies), self.lanes.run_bytes);
    }

    /// How many packets leave together at a rate.
    fn packets_at(&self, rate_bps: u64) -> usize {
        let limit = frames_in_super_packet(self.plan.datagram_len());
        pacer::packets_per_smooth_run(rate_bps, self.plan.packet_bytes(), limit)
    }

    fn apply_slower_rate(&mut self, now: Instant, group: u8) {
        let lanes = self.lanes.congestion.as_mut().map(|control| &mut control.lanes);
        let Some(lane) = lanes.and_then(|lanes| lanes.get_mut(usize::from(group))) else { return };
        let rate = lane.machine.rate_bps();
        if std::mem::replace(&mut lane.applied, (rate, 1)) == (rate, 1) {
            return;
        }
        let packets = self.packets_at(rate);
        let run_bytes = packets as u64 * self.plan.packet_bytes();
        let run_len = (packets * usize::from(self.plan.block_len)) as u32;
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_slower_run_len(group, run_len);
        }
        if let Some(lane) = self.slower_lane(group) {
            lane.set_rate(now, rate, run_bytes);
        }
    }

    pub(super) fn copies(&self) -> u64 {
        self.lanes.group.targets.len().max(1) as u64
    }
}

/// # What is to be seen
impl Session<'_> {
    /// The rate of the first group and what limits it, for those who watch.
    pub(super) fn rate_progress(&self) -> Option<RateProgress> {
        let machine = &self.lanes.congestion.as_ref()?.lanes.first()?.machine;
        let limit = machine.limit();
        let followed = |number: u32| {
            let mut peers = self.peers.iter().filter(|(receiver, _)| receiver.number() == number);
            peers.next().map(|(_, peer)| peer.name.clone())
        };
        Some(RateProgress {
            rate_bps: machine.rate_bps(),
            receiver: limit.receiver.and_then(followed),
            why: match limit.cause {
                Cause::Start => "start",
                Cause::Loss => "loss",
                Cause::Growth => "growth",
                Cause::Unused => "unused",
                Cause::Floor => "floor",
                Cause::Delivered => "delivered",
                Cause::Probe => "probe",
                Cause::Queue => "queue",
            }
            .to_owned(),
            loss: limit.loss,
            round_trip: limit.round_trip,
            queue: limit.queue,
            bears_bps: limit.bears_bps,
        })
    }
}
