//! `--rate auto` and `--rate tfmcc`: carries out the decisions of congestion control. Each group has its own.

use std::time::Duration;

use tracing::trace;
use treecast_host::tcp_info;
use treecast_proto::{
    Instant, Step,
    object::{Destination, ReceiverId},
    tfmcc::{self, Cause, PaceReport, SenderConfig, SenderInput},
};
use treecast_wire::{header::FileId, message::Message};

use super::{
    super::{MOST_CODED_BPS, Plan, Rate, RateProgress, SendError},
    Session,
};
use crate::{
    SESSION_LOG as LOG,
    pacer::{self, Pacer},
    udp::frames_in_super_packet,
};

/// The congestion control, and what of it is in force.
#[derive(Debug)]
pub(super) struct Congestion {
    machine: tfmcc::Sender,
    /// The rate and the number of copies that the pacer knows.
    applied: (u64, u64),
    /// Whether no receiver hears the group.
    pub(super) is_unheard: bool,
    /// As many packets leave at once, if the host is not late.
    packets_a_run: usize,
}

impl Congestion {
    pub fn machine(&self) -> &tfmcc::Sender {
        &self.machine
    }

    pub fn ask(&mut self, asks: bool) {
        self.machine.ask(asks);
    }

    /// Creates congestion control. `None` at a constant rate.
    pub fn new(plan: &Plan) -> Option<Self> {
        let Rate::Auto { control, floor_bps } = plan.options.rate else { return None };
        let config = SenderConfig { control, packet_bytes: plan.packet_bytes() as u32, floor_bps };
        Some(Self {
            machine: tfmcc::Sender::new(config),
            applied: (0, 0),
            is_unheard: false,
            packets_a_run: 1,
        })
    }
}

impl Session<'_> {
    /// The shortest round trip that the kernel has measured on the receiver's connection.
    pub(super) fn round_trip(&self, receiver: ReceiverId) -> Option<Duration> {
        self.peers.get(&receiver)?.link.connection.as_ref().and_then(tcp_info::shortest_round_trip)
    }

    pub(super) fn congestion_joined(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        round_trip: Option<Duration>,
    ) {
        let Some(peer) = self.peers.get(&receiver) else { return };
        let group = peer.group;
        self.congestion(now, group, SenderInput::Joined { receiver: receiver.number(), round_trip });
    }

    pub(super) fn congestion_left(&mut self, now: Instant, receiver: ReceiverId) {
        let group = self.group_of(receiver);
        self.congestion(now, group, SenderInput::Left { receiver: receiver.number() });
    }

    /// A receiver is in another group from now on.
    pub(super) fn congestion_moved(&mut self, now: Instant, receiver: ReceiverId, group: u8) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        let (before, number) = (std::mem::replace(&mut peer.group, group), receiver.number());
        let is_slowed = group > before;
        let gone = if is_slowed {
            SenderInput::Slowed { receiver: number }
        } else {
            SenderInput::Left { receiver: number }
        };
        self.congestion(now, before, gone);
        self.congestion_joined(now, receiver, self.round_trip(receiver));
    }

    pub(super) fn congestion_report(&mut self, now: Instant, from: ReceiverId, report: PaceReport) {
        let group = self.group_of(from);
        self.congestion(now, group, SenderInput::Report { from: from.number(), report });
        let Some(congestion) = self.congestion_of(group) else { return };
        let limit = congestion.machine.limit();
        trace!(
            target: LOG,
            receiver = from.number(),
            group,
            followed = limit.receiver,
            received_bps = report.received_bps,
            queue_us = report.queue_us,
            lost_ppm = report.lost_ppm,
            bears_bps = report.rate_bps,
            was_limited = report.is_limited,
            round_trip_us = limit.round_trip.as_micros() as u64,
            phase = ?limit.phase,
            rate_bps = congestion.machine.rate_bps(),
            "report of a path"
        );
        if let Some(bears_bps) = congestion.machine.borne_bps(from.number(), &report) {
            self.note_limit(now, from, bears_bps);
        }
    }

    /// The group that a receiver is in. 0 is the first.
    pub(super) fn group_of(&self, receiver: ReceiverId) -> u8 {
        self.peers.get(&receiver).map_or(0, |peer| peer.group)
    }

    /// The congestion control of a group. `None` at a constant rate.
    pub(super) fn congestion_of(&mut self, group: u8) -> Option<&mut Congestion> {
        match group {
            0 => self.lanes.congestion.as_mut(),
            slower => self.slower_lane(slower)?.congestion.as_mut(),
        }
    }

    /// Bytes of IP packets have left for a group, in all copies.
    pub(super) fn note_sent(&mut self, now: Instant, group: u8, group_bytes: u64, repair_bytes: u64) {
        let copies = self.copies(group);
        let (group_bytes, repair_bytes) = (group_bytes.div_ceil(copies), repair_bytes.div_ceil(copies));
        self.congestion(now, group, SenderInput::Sent { group_bytes, repair_bytes });
    }

    /// What mends a receiver's copy has been given to its connection, so many bytes of IP packets. Its group's rate counts them.
    pub(super) fn note_repaired(&mut self, now: Instant, to: ReceiverId, bytes: u64) {
        if self.lanes.repairs.repaired(bytes) {
            let group = self.group_of(to);
            self.pacer_of(group).sent(now, bytes);
            self.note_sent(now, group, 0, bytes);
        }
    }

    pub(super) fn congestion(&mut self, now: Instant, group: u8, input: SenderInput) {
        if let Some(congestion) = self.congestion_of(group) {
            congestion.machine.handle(now, input);
            self.apply_rate(now, group);
            self.note_hearing(now, group);
        }
    }

    /// Tells a group what it should know. Returns when there will be more.
    pub(super) fn tell_pace(&mut self, now: Instant, group: u8) -> Result<Option<Instant>, SendError> {
        // Copies of the packet before go first.
        while !self.lanes.group.has_copies(group)
            && let Some(congestion) = self.congestion_of(group)
        {
            match congestion.machine.poll(now) {
                Step::Transmit(pace) => {
                    let session = FileId::new(self.plan.session, 0);
                    let to = if group == 0 { Destination::Group } else { Destination::Slower(group) };
                    self.send_message(now, to, session, &Message::Pace(pace))?;
                }
                Step::Wait(deadline, _) => {
                    self.apply_rate(now, group);
                    self.note_hearing(now, group);
                    return Ok(deadline);
                }
            }
        }
        Ok(None)
    }

    /// The pacer counts all copies of a packet; the rate is each one's.
    pub(super) fn apply_rate(&mut self, now: Instant, group: u8) {
        let copies = self.copies(group);
        let (packet_bytes, datagram_len) = (self.plan.packet_bytes(), self.plan.datagram_len());
        let Some(congestion) = self.congestion_of(group) else { return };
        let (rate, cause) = (congestion.machine.rate_bps(), congestion.machine.limit().cause);
        let applied = std::mem::replace(&mut congestion.applied, (rate, copies));
        // Symbols go to the first group alone.
        if let Some(machine) = self.machine.vcmtp_mut().filter(|_| group == 0) {
            machine.set_may_code(rate <= MOST_CODED_BPS);
            machine.set_finding_rate(cause == Cause::Start);
        }
        if applied == (rate, copies) {
            return;
        }
        let limit = frames_in_super_packet(datagram_len);
        let packets = pacer::packets_per_smooth_run(rate, packet_bytes, limit);
        if let Some(congestion) = self.congestion_of(group) {
            congestion.packets_a_run = packets;
        }
        self.set_run(group, packets);
        let run_bytes = packets as u64 * packet_bytes;
        self.pacer_of(group).set_rate(now, rate.saturating_mul(copies), run_bytes);
    }

    /// What is due already leaves at once: a host that wakes late cannot afford to wake all receivers for each packet.
    pub(super) fn take_late_run(&mut self, now: Instant) {
        let copies = self.copies(0);
        let Some(least) = self.lanes.congestion.as_ref().map(|congestion| congestion.packets_a_run) else {
            return;
        };
        let Some(due) = self.lanes.pacer.due_bytes(now) else { return };
        let limit = frames_in_super_packet(self.plan.datagram_len());
        let due = usize::try_from(due / copies / self.plan.packet_bytes()).unwrap_or(limit);
        self.set_run(0, due.clamp(least, limit.max(least)));
    }

    /// Sets how many packets leave at once for a group.
    fn set_run(&mut self, group: u8, packets: usize) {
        let run_bytes = packets as u64 * self.plan.packet_bytes();
        match self.slower_lane(group) {
            Some(lane) => lane.run_bytes = run_bytes,
            None => self.lanes.run_bytes = run_bytes,
        }
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_max_run_len(group, (packets * usize::from(self.plan.block_len)) as u32);
        }
    }

    pub(super) fn pacer_of(&mut self, group: u8) -> &mut Pacer {
        match group.checked_sub(1).map(usize::from) {
            Some(at) if at < self.lanes.slower.len() => &mut self.lanes.slower[at].pacer,
            _ => &mut self.lanes.pacer,
        }
    }

    /// The number of copies in which a packet to a group leaves.
    pub(super) fn copies(&self, group: u8) -> u64 {
        self.lanes.group.targets(group).len().max(1) as u64
    }

    /// The first group's rate and what limits it, for those who watch.
    pub(super) fn rate_progress(&self) -> Option<RateProgress> {
        let machine = &self.lanes.congestion.as_ref()?.machine;
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
        })
    }
}
