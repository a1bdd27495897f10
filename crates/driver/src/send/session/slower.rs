//! The lanes of slower groups. They share one key; each has its own rate and packet numbers. With copies, a slower group is the
//! receivers whose copies leave at its rate.

use treecast_proto::{
    Instant, Step,
    object::{Destination, Lane, ReceiverId},
};
use treecast_wire::header::{Header, PacketNumbers};

use super::{
    super::{GroupProgress, Plan, SendError, SendEvent},
    Congestion, Session, Turn, config,
};
use crate::{
    pacer::Pacer,
    zeros::{Stretch, first_stretch},
};

#[derive(Debug)]
pub(super) struct SlowerLane {
    pub pacer: Pacer,
    pub run_bytes: u64,
    /// `None` at a rate that was given.
    pub congestion: Option<Congestion>,
    numbers: PacketNumbers,
    /// What is sent now: blocks that have been read before are read again.
    run: Vec<u8>,
}

impl SlowerLane {
    /// The lanes of a session's slower groups, fastest first.
    pub fn all(plan: &Plan, now: Instant) -> Vec<Self> {
        let lane = |(group, rate_bps): (u8, Option<u64>)| Self {
            pacer: Pacer::new(rate_bps, now),
            run_bytes: config::packets_per_run(plan, rate_bps) as u64 * plan.packet_bytes(),
            congestion: Congestion::new(plan),
            numbers: plan.numbers(group),
            run: Vec::new(),
        };
        (0..).zip(plan.rates()).skip(1).map(lane).collect()
    }

    pub fn numbers(&mut self) -> &mut PacketNumbers {
        &mut self.numbers
    }
}

impl Session<'_> {
    /// The lane of a group; none for the first one, which is not slower.
    pub(super) fn slower_lane(&mut self, group: u8) -> Option<&mut SlowerLane> {
        self.lanes.slower.get_mut(usize::from(group).checked_sub(1)?)
    }

    /// Carries out what the machine has for slower groups, a run each, as far as their pacers let it.
    pub(super) fn turn_slower(&mut self, now: Instant) -> Result<Turn, SendError> {
        let mut turn = Turn::Until(None);
        for group in 1..=self.lanes.slower.len() as u8 {
            turn = turn.or(self.turn_one_slower(now, group)?);
        }
        Ok(turn)
    }

    fn turn_one_slower(&mut self, now: Instant, group: u8) -> Result<Turn, SendError> {
        if let Some(until) = self.lanes.group.multicast().and_then(|lane| lane.rests_until(now)) {
            return Ok(Turn::Until(Some(until)));
        }
        let (pace, due) = self.tell_and_copy(now, group)?;
        let Some(lane) = self.slower_lane(group) else { return Ok(Turn::Until(None)) };
        let delay = lane.pacer.delay(now, lane.run_bytes);
        let waits_until = due.or((!delay.is_zero()).then(|| now + delay));
        if let Some(until) = waits_until {
            return Ok(Turn::Until(pace.into_iter().chain([until]).min()));
        }
        if self.send_pending(now, group)? {
            return Ok(Turn::Again);
        }
        match self.machine.poll(now, Lane::Slower(group)) {
            Step::Transmit(transmit) => self.transmit(now, transmit)?,
            Step::Event(event) => self.note(now, event),
            Step::Wait(deadline, _) => return Ok(Turn::Until(pace.into_iter().chain(deadline).min())),
        }
        Ok(Turn::Again)
    }

    pub(super) fn multicast_slowly(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        len: usize,
    ) -> Result<(), SendError> {
        let block_len = usize::from(self.plan.block_len);
        let Some(lane) = self.lanes.slower.get_mut(usize::from(group) - 1) else { return Ok(()) };
        lane.run.resize(len, 0);
        if let Err(error) = self.objects.sources.read_any(first.file_id, first.sequence, &mut lane.run) {
            self.withdraw(now, first.file_id, &error);
            return Ok(());
        }
        let mut at = 0;
        while at < len {
            let Some(lane) = self.slower_lane(group) else { return Ok(()) };
            let Stretch { bytes, is_zero } = first_stretch(&lane.run, at, block_len);
            at = bytes.end;
            let sequence = first.sequence + bytes.start as u64;
            if is_zero {
                let to = Destination::Slower(group);
                self.send_zeros(now, to, first.file_id, sequence, bytes.len())?;
                continue;
            }
            let number = self.number_packets(now, group, bytes.len().div_ceil(block_len) as u64)?;
            let first = Header { number, sequence, ..first };
            let Some(lane) = self.lanes.slower.get(usize::from(group) - 1) else { return Ok(()) };
            let sent = self.lanes.group.send_blocks(now, group, first, &lane.run[bytes])?;
            self.note_sent_slowly(now, group, sent);
            if sent > 0 {
                self.note_sent(now, group, sent, 0);
            }
        }
        Ok(())
    }

    /// Bytes of IP packets have left for a slower group.
    pub(super) fn note_sent_slowly(&mut self, now: Instant, group: u8, bytes: u64) {
        if let Some(lane) = self.slower_lane(group) {
            lane.pacer.sent(now, bytes);
        }
    }

    pub(super) fn note_move(&mut self, now: Instant, receiver: ReceiverId, group: u8) {
        let rate_bps = self.pacer_of(group).rate_bps().unwrap_or_default();
        let Some(peer) = self.peers.get(&receiver) else { return };
        let (before, name) = (peer.group, peer.name.clone());
        self.figures.moves += 1;
        self.congestion_moved(now, receiver, group);
        self.note_place(now, receiver, group);
        self.close_if_empty(before);
        self.move_ways(now, receiver, (before, group));
        self.update_destinations();
        (self.on_event)(SendEvent::Moved { receiver: name, group, rate_bps });
    }

    /// Whoever comes to a group that nobody listens to begins as at the start.
    fn close_if_empty(&mut self, group: u8) {
        let is_empty = self.peers.values().all(|peer| peer.group != group);
        let fresh = Congestion::new(&self.plan);
        if let Some(lane) = self.slower_lane(group).filter(|_| is_empty) {
            lane.congestion = fresh;
        }
    }

    /// Each group, where there are several.
    pub(super) fn group_progress(&self) -> Vec<GroupProgress> {
        // Groups that the sender opens by itself are told of when they are needed.
        if self.lanes.slower.is_empty() || self.lanes.placing.is_some() && self.figures.moves == 0 {
            return Vec::new();
        }
        let pacers = [&self.lanes.pacer].into_iter().chain(self.lanes.slower.iter().map(|lane| &lane.pacer));
        let rates = pacers.map(|pacer| pacer.rate_bps().unwrap_or_default());
        let there = |group: u8| {
            let mut peers = self.peers.values().filter(|peer| peer.link.connection.is_some());
            peers.by_ref().filter(|peer| peer.group == group).count() as u32
        };
        let sent_bytes = |group: u8| match group {
            0 => self.run_bytes(),
            slower => self.machine.slower_bytes(slower),
        };
        let groups = (0..).zip(rates);
        groups
            .map(|(group, rate_bps)| GroupProgress {
                rate_bps,
                sent_bytes: sent_bytes(group),
                receivers: there(group),
            })
            .collect()
    }
}
