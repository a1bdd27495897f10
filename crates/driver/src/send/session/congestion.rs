//! `--rate auto` and `--rate tfmcc`: carries out the decisions of congestion control.

use tracing::trace;
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
use crate::{SESSION_LOG as LOG, pacer, udp::frames_in_super_packet};
use treecast_host::tcp_info;

/// The congestion control, and what of it is in force.
#[derive(Debug)]
pub(super) struct Congestion {
    machine: tfmcc::Sender,
    /// The rate and the number of copies that the pacer knows.
    applied: (u64, u64),
    /// As many packets leave at once, if the host is not late.
    packets_a_run: usize,
}

impl Congestion {
    /// Creates congestion control. `None` at a constant rate.
    pub fn new(plan: &Plan) -> Option<Self> {
        let Rate::Auto { control, floor_bps } = plan.options.rate else { return None };
        let config = SenderConfig { control, packet_bytes: plan.packet_bytes() as u32, floor_bps };
        Some(Self { machine: tfmcc::Sender::new(config), applied: (0, 0), packets_a_run: 1 })
    }
}

impl Session<'_> {
    pub(super) fn congestion_joined(&mut self, now: Instant, receiver: ReceiverId) {
        let connection = self.peers.get(&receiver).and_then(|peer| peer.link.connection.as_ref());
        let round_trip = connection.and_then(tcp_info::round_trip);
        self.congestion(now, SenderInput::Joined { receiver: receiver.number(), round_trip });
    }

    pub(super) fn congestion_left(&mut self, now: Instant, receiver: ReceiverId) {
        self.congestion(now, SenderInput::Left { receiver: receiver.number() });
    }

    pub(super) fn congestion_report(&mut self, now: Instant, from: ReceiverId, report: PaceReport) {
        self.congestion(now, SenderInput::Report { from: from.number(), report });
        let Some(congestion) = &self.lanes.congestion else { return };
        let limit = congestion.machine.limit();
        trace!(
            target: LOG,
            receiver = from.number(),
            followed = limit.receiver,
            received_bps = report.received_bps,
            queue_us = report.queue_us,
            lost_ppm = report.lost_ppm,
            round_trip_us = limit.round_trip.as_micros() as u64,
            phase = ?limit.phase,
            rate_bps = congestion.machine.rate_bps(),
            "report of a path"
        );
    }

    /// Bytes of IP packets have left, in all copies.
    pub(super) fn note_sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        let copies = self.copies();
        let (group_bytes, repair_bytes) = (group_bytes.div_ceil(copies), repair_bytes.div_ceil(copies));
        self.congestion(now, SenderInput::Sent { group_bytes, repair_bytes });
    }

    /// What mends a receiver's copy has been given to its connection, so many bytes of IP packets.
    pub(super) fn note_repaired(&mut self, now: Instant, bytes: u64) {
        if self.lanes.repairs.repaired(bytes) {
            self.lanes.pacer.sent(now, bytes);
            self.note_sent(now, 0, bytes);
        }
    }

    fn congestion(&mut self, now: Instant, input: SenderInput) {
        if let Some(congestion) = &mut self.lanes.congestion {
            congestion.machine.handle(now, input);
            self.apply_rate(now);
        }
    }

    /// Tells the group what it should know. Returns when there will be more.
    pub(super) fn tell_pace(&mut self, now: Instant) -> Result<Option<Instant>, SendError> {
        // Copies of the packet before go first.
        while !self.lanes.group.has_copies()
            && let Some(congestion) = &mut self.lanes.congestion
        {
            match congestion.machine.poll(now) {
                Step::Transmit(pace) => {
                    let session = FileId::new(self.plan.session, 0);
                    self.send_message(now, Destination::Group, session, &Message::Pace(pace))?;
                }
                Step::Wait(deadline, _) => {
                    self.apply_rate(now);
                    return Ok(deadline);
                }
            }
        }
        Ok(None)
    }

    /// The pacer counts all copies of a packet; the rate is each one's.
    pub(super) fn apply_rate(&mut self, now: Instant) {
        let copies = self.copies();
        let Some(congestion) = &mut self.lanes.congestion else { return };
        let rate = congestion.machine.rate_bps();
        if congestion.applied == (rate, copies) {
            return;
        }
        congestion.applied = (rate, copies);
        let limit = frames_in_super_packet(self.plan.datagram_len());
        congestion.packets_a_run = pacer::packets_per_smooth_run(rate, self.plan.packet_bytes(), limit);
        let packets = congestion.packets_a_run;
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_may_code(rate <= MOST_CODED_BPS);
        }
        self.set_run(packets);
        self.lanes.pacer.set_rate(now, rate.saturating_mul(copies), self.lanes.run_bytes);
    }

    /// What is due already leaves at once: a host that wakes late cannot afford to wake all receivers for each packet.
    pub(super) fn take_late_run(&mut self, now: Instant) {
        let copies = self.copies();
        let Some(least) = self.lanes.congestion.as_ref().map(|congestion| congestion.packets_a_run) else {
            return;
        };
        let Some(due) = self.lanes.pacer.due_bytes(now) else { return };
        let limit = frames_in_super_packet(self.plan.datagram_len());
        let due = usize::try_from(due / copies / self.plan.packet_bytes()).unwrap_or(limit);
        self.set_run(due.clamp(least, limit.max(least)));
    }

    /// Sets how many packets leave at once.
    fn set_run(&mut self, packets: usize) {
        self.lanes.run_bytes = packets as u64 * self.plan.packet_bytes();
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_max_run_len((packets * usize::from(self.plan.block_len)) as u32);
        }
    }

    pub(super) fn copies(&self) -> u64 {
        self.lanes.group.targets.len().max(1) as u64
    }

    /// The rate and what limits it, for those who watch.
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
