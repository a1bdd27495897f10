//! `--rate auto` and `--rate tfmcc`: carries out the decisions of congestion control. Each group has its own.

use std::{io, time::Duration};

use tracing::trace;
use treecast_proto::{
    Instant, Step,
    group_rate::{GroupView, Order},
    object::ReceiverId,
    policy::{self, MOST_CODED_BPS},
    tfmcc::{self, Cause, PaceReport, ProbeKey, SenderConfig, SenderInput},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN},
    message::Message,
};

use super::{
    super::{
        super::{Plan, Rate, RateProgress, SendError, peer::Peer},
        core::Core,
    },
    Lane, Lanes,
};
use crate::{SESSION_LOG as LOG, security::random, udp::frames_in_super_packet};

/// The congestion control, and what of it is in force.
#[derive(Debug)]
pub(super) struct Congestion {
    machine: tfmcc::Sender,
    /// The rate and the number of copies that the pacer knows.
    applied: (u64, u64),
    /// Whether no receiver hears the group.
    is_unheard: bool,
    /// The number of packets that leave at once, if the host is not late.
    packets_a_run: usize,
    /// Packets that are left of a run which was cut for a probe. They leave at once.
    rest_of_run: Option<usize>,
}

impl Congestion {
    /// Creates congestion control. `None` at a constant rate.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(plan: &Plan) -> io::Result<Option<Self>> {
        let Rate::Auto { control, floor_bps } = plan.options.rate() else { return Ok(None) };
        let (packet_bytes, probe_key) = (plan.packet_bytes() as u32, ProbeKey(random()?));
        let config = SenderConfig { control, packet_bytes, floor_bps, probe_key };
        Ok(Some(Self::of(tfmcc::Sender::new(config))))
    }

    fn of(machine: tfmcc::Sender) -> Self {
        Self { machine, applied: (0, 0), is_unheard: false, packets_a_run: 1, rest_of_run: None }
    }

    /// Begins as at the start.
    fn restart(&mut self) {
        *self = Self::of(self.machine.begun_again());
    }
}

impl Lane {
    /// Bytes of IP packets that the next run may have.
    pub(super) fn next_run_bytes(&self, packet_bytes: u64) -> u64 {
        let rest = self.congestion.as_ref().and_then(|congestion| congestion.rest_of_run);
        rest.map_or(self.run_bytes, |packets| packets as u64 * packet_bytes)
    }

    /// The state of the group, which has yet to be sent so many bytes of objects.
    fn view(&self, unsent_bytes: u64) -> GroupView {
        let Some(congestion) = &self.congestion else { return GroupView::default() };
        let view = congestion.machine.view(Duration::MAX);
        let unsent = unsent_bytes as f64 * 8.0;
        let rest = Duration::try_from_secs_f64(unsent / view.rate_bps.max(1) as f64);
        GroupView { rest: rest.unwrap_or(view.rest), ..view }
    }
}

impl Lanes {
    /// Notes that a receiver has come.
    pub fn joined(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        peer: &Peer,
        round_trip: Option<Duration>,
        core: &mut Core<'_>,
    ) {
        let who = peer.identity();
        let input = SenderInput::Joined { receiver: receiver.number(), who, round_trip };
        self.congestion(now, peer.group, input, core);
        if let Some(placing) = &mut self.placing {
            placing.joined(now, receiver, who);
        }
    }

    /// Notes that a receiver of this group has left.
    pub fn left(&mut self, now: Instant, receiver: ReceiverId, group: u8, core: &mut Core<'_>) {
        self.congestion(now, group, SenderInput::Left { receiver: receiver.number() }, core);
        if let Some(placing) = &mut self.placing {
            placing.left(receiver);
        }
    }

    /// Notes that a receiver is in another group than `before` from now on.
    pub fn moved(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        (before, peer): (u8, &Peer),
        core: &mut Core<'_>,
    ) {
        let number = receiver.number();
        let gone = if peer.group > before {
            SenderInput::Slowed { receiver: number }
        } else {
            SenderInput::Left { receiver: number }
        };
        self.congestion(now, before, gone, core);
        let (who, round_trip) = (peer.identity(), peer.round_trip());
        let input = SenderInput::Joined { receiver: number, who, round_trip };
        self.congestion(now, peer.group, input, core);
        if let Some(placing) = &mut self.placing {
            placing.moved(now, receiver, peer.group);
        }
    }

    /// Restarts a slower group that nobody listens to.
    pub fn restart(&mut self, group: u8) {
        if group > 0 {
            self.lane(group).congestion.iter_mut().for_each(Congestion::restart);
        }
    }

    /// Takes what a receiver of this group says of its path. Returns whether it is time to look who belongs into which group.
    pub fn congestion_report(
        &mut self,
        now: Instant,
        from: ReceiverId,
        group: u8,
        report: PaceReport,
        core: &mut Core<'_>,
    ) -> bool {
        self.congestion(now, group, SenderInput::Report { from: from.number(), report }, core);
        let Some(congestion) = self.lane(group).congestion.as_ref() else { return false };
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
        let bears_bps = congestion.machine.borne_bps(from.number(), &report);
        let placing = self.placing.as_mut().zip(bears_bps);
        placing.is_some_and(|(placing, bears_bps)| placing.note_limit(now, from, bears_bps))
    }

    /// Notes that a receiver of the first group has asked for something again. Its reports are held against that.
    pub fn congestion_asked(&mut self, now: Instant, from: ReceiverId, group: u8, core: &mut Core<'_>) {
        let bytes = core.machine.vcmtp_mut().map_or(0, |machine| machine.take_asked(from));
        if bytes > 0 && group == 0 {
            self.congestion(now, 0, SenderInput::Asked { receiver: from.number(), bytes }, core);
        }
    }

    /// Notes bytes of IP packets that have left for a group, in all copies, and those that mend its receivers' copies.
    pub(super) fn note_sent(
        &mut self,
        now: Instant,
        group: u8,
        (group_bytes, repair_bytes): (u64, u64),
        core: &mut Core<'_>,
    ) {
        let copies = self.copies(group);
        let (group_bytes, repair_bytes) = (group_bytes.div_ceil(copies), repair_bytes.div_ceil(copies));
        self.congestion(now, group, SenderInput::Sent { group_bytes, repair_bytes }, core);
    }

    fn congestion(&mut self, now: Instant, group: u8, input: SenderInput, core: &mut Core<'_>) {
        if let Some(congestion) = &mut self.lane(group).congestion {
            congestion.machine.handle(now, input);
            self.apply_rate(now, group, core);
            self.note_hearing(now, group, core);
        }
    }

    /// Tells a group what it should know. Returns when there will be more.
    pub(super) fn tell_pace(
        &mut self,
        now: Instant,
        group: u8,
        core: &mut Core<'_>,
    ) -> Result<Option<Instant>, SendError> {
        // Copies of the packet before go first.
        while !self.has_copies(group)
            && let Some(congestion) = &mut self.lane(group).congestion
        {
            match congestion.machine.poll(now) {
                Step::Transmit(pace) => {
                    let session = FileId::new(self.sizes.session, 0);
                    self.send_message(now, group, session, &Message::Pace(pace), core)?;
                }
                Step::Wait(deadline, _) => {
                    self.apply_rate(now, group, core);
                    self.note_hearing(now, group, core);
                    return Ok(deadline);
                }
            }
        }
        Ok(None)
    }

    /// The pacer counts all copies of a packet; the rate is each one's.
    pub fn apply_rate(&mut self, now: Instant, group: u8, core: &mut Core<'_>) {
        let copies = self.copies(group);
        let (packet_bytes, datagram_len) = (self.sizes.packet_bytes, self.sizes.datagram_len);
        let Some(congestion) = &mut self.lane(group).congestion else { return };
        let (rate, cause) = (congestion.machine.rate_bps(), congestion.machine.limit().cause);
        let applied = std::mem::replace(&mut congestion.applied, (rate, copies));
        // Symbols go to the first group alone.
        if let Some(machine) = core.machine.vcmtp_mut().filter(|_| group == 0) {
            machine.set_may_code(rate <= MOST_CODED_BPS);
            machine.set_finding_rate(cause == Cause::Start);
        }
        if applied == (rate, copies) {
            return;
        }
        let limit = frames_in_super_packet(datagram_len);
        let packets = policy::packets_per_smooth_run(rate, packet_bytes, limit);
        congestion.packets_a_run = packets;
        self.set_run(group, packets, core);
        let run_bytes = packets as u64 * packet_bytes;
        self.lane(group).pacer.set_rate(now, rate.saturating_mul(copies), run_bytes);
    }

    /// Sends at once what is due already. A host that wakes late cannot afford to wake all receivers for each packet.
    pub fn take_late_run(&mut self, now: Instant, core: &mut Core<'_>) {
        let copies = self.copies(0);
        let lane = self.lane(0);
        let Some(congestion) = &mut lane.congestion else { return };
        if let Some(rest) = congestion.rest_of_run.take() {
            return self.set_run(0, rest, core);
        }
        let least = congestion.packets_a_run;
        let Some(due) = lane.pacer.due_bytes(now) else { return };
        let limit = frames_in_super_packet(self.sizes.datagram_len);
        let due = usize::try_from(due / copies / self.sizes.packet_bytes).unwrap_or(limit);
        self.set_run(0, due.clamp(least, limit.max(least)), core);
    }

    /// Sets the length of a slower group's next run.
    pub fn take_run(&mut self, group: u8, core: &mut Core<'_>) {
        let (lane, packet_bytes) = (&self.lanes[usize::from(group)], self.sizes.packet_bytes);
        let Some(congestion) = &lane.congestion else { return };
        let packets = congestion.rest_of_run.unwrap_or(congestion.packets_a_run);
        if lane.run_bytes != packets as u64 * packet_bytes {
            self.set_run(group, packets, core);
        }
        self.set_rest(group, None);
    }

    fn set_rest(&mut self, group: u8, rest: Option<usize>) {
        if let Some(congestion) = &mut self.lane(group).congestion {
            congestion.rest_of_run = rest.filter(|packets| *packets > 0);
        }
    }

    /// Puts a probe in the place of a packet. The group's run ends before it, and what is left of the run follows it
    /// at once. A probe behind each run, or before it, would find queues longer or shorter than other packets do.
    /// Returns whether nothing else of the run may leave now.
    pub fn cut_run(&mut self, now: Instant, group: u8, core: &mut Core<'_>) -> Result<bool, SendError> {
        let packet_bytes = self.sizes.packet_bytes;
        let lane = self.lane(group);
        let run = (lane.run_bytes / packet_bytes).max(1) as usize;
        let before =
            lane.congestion.as_ref().and_then(|congestion| congestion.machine.packets_before_probe(now));
        match before.and_then(|before| usize::try_from(before).ok()) {
            Some(0) => {
                self.send_probe(now, group, core)?;
                if run == 1 || self.has_copies(group) {
                    self.set_rest(group, Some(run - 1));
                    return Ok(true);
                }
                self.set_run(group, run - 1, core);
            }
            Some(before) if before < run => {
                self.set_run(group, before, core);
                self.set_rest(group, Some(run - before));
            }
            _ => {}
        }
        Ok(false)
    }

    /// Sends a probe, which is as long as a packet with a whole block.
    fn send_probe(&mut self, now: Instant, group: u8, core: &mut Core<'_>) -> Result<(), SendError> {
        let Some(congestion) = &mut self.lane(group).congestion else { return Ok(()) };
        let probe = Message::Pace(congestion.machine.take_probe(now));
        let mut packet = probe.to_packet(FileId::new(self.sizes.session, 0));
        packet.resize(packet.len().max(HEADER_LEN + usize::from(self.sizes.block_len)), 0);
        let sent = self.number_and_send(now, group, packet, core)?;
        self.note_left(now, group, sent, core);
        Ok(())
    }

    /// Sets how many packets leave at once for a group.
    fn set_run(&mut self, group: u8, packets: usize, core: &mut Core<'_>) {
        self.lane(group).run_bytes = packets as u64 * self.sizes.packet_bytes;
        if let Some(machine) = core.machine.vcmtp_mut() {
            machine.set_max_run_len(group, (packets * usize::from(self.sizes.block_len)) as u32);
        }
    }

    /// The number of copies in which a packet to a group leaves.
    pub fn copies(&self, group: u8) -> u64 {
        let lane = self.group.way.copies().get(usize::from(group));
        lane.map_or(1, |lane| lane.targets().len().max(1)) as u64
    }

    /// Takes note of whether anybody hears a group. Slower groups follow the first one.
    fn note_hearing(&mut self, now: Instant, group: u8, core: &mut Core<'_>) {
        let Some(congestion) = self.lane(group).congestion.as_mut().filter(|_| group == 0) else { return };
        let is_unheard = congestion.machine.is_unheard(now);
        if std::mem::replace(&mut congestion.is_unheard, is_unheard) == is_unheard {
            return;
        }
        core.wake();
        if let Some(machine) = core.machine.vcmtp_mut() {
            machine.set_unheard(is_unheard);
        }
        if is_unheard && let Some(line) = self.unheard_line.take() {
            core.warn(line);
        }
    }

    /// Whether no receiver hears the first group.
    pub fn is_unheard(&self) -> bool {
        self.lanes[0].congestion.as_ref().is_some_and(|congestion| congestion.is_unheard)
    }

    /// Whether a group's rate is still sought, as at the start.
    pub fn is_sought(&mut self, group: u8) -> bool {
        let congestion = self.lane(group).congestion.as_ref();
        congestion.is_some_and(|congestion| congestion.machine.limit().cause == Cause::Start)
    }

    /// Looks who belongs into which group. Returns the receivers to call to another group. `unsent_bytes` says how much a group has yet to
    /// be sent, and `group_of` which group a receiver of this number is in. Receivers who left are in none.
    pub fn place(
        &mut self,
        now: Instant,
        unsent_bytes: impl Fn(u8) -> u64,
        group_of: impl Fn(u32) -> Option<u8>,
        core: &mut Core<'_>,
    ) -> Vec<(u32, u8)> {
        let views: Vec<_> =
            (0..).zip(&self.lanes).map(|(group, lane)| lane.view(unsent_bytes(group))).collect();
        let Some(placing) = &mut self.placing else { return Vec::new() };
        let orders = placing.look(now, &views);
        for (group, lane) in (0..).zip(&mut self.lanes) {
            if let Some(congestion) = &mut lane.congestion {
                congestion.machine.ask(placing.asks(group));
            }
        }
        let mut calls = Vec::new();
        for order in orders {
            match order {
                Order::Call { receiver, group } => calls.push((receiver, group)),
                Order::LeaveOut { receiver } => {
                    if let Some(group) = group_of(receiver) {
                        self.congestion(now, group, SenderInput::Slowed { receiver }, core);
                    }
                }
            }
        }
        calls
    }

    /// The first group's rate and what limits it, for those who watch.
    /// `name_of` knows receivers by their number.
    pub fn rate_progress(&self, name_of: impl Fn(u32) -> Option<String>) -> Option<RateProgress> {
        let machine = &self.lanes[0].congestion.as_ref()?.machine;
        let limit = machine.limit();
        Some(RateProgress {
            rate_bps: machine.rate_bps(),
            receiver: limit.receiver.and_then(name_of),
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
