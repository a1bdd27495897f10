//! The turns of a session's lanes: each asks the machine what is to be sent, as far as its rate lets it.

use treecast_proto::{
    Instant, Step,
    object::{Lane, ReceiverId, SenderInput},
};

use super::{
    super::{SendError, SendEvent},
    Session,
    kind::Kind,
};

/// Runs of blocks that leave before connections are looked at again.
const RUNS_A_TURN: usize = 4;

/// The most of the machine's steps between looks at the connections; a run of small objects takes several.
const STEPS_A_TURN: usize = 128;

/// Whether a lane wants to be polled again at once, or when.
pub(super) enum Turn {
    Again,
    Until(Option<Instant>),
}

impl Turn {
    /// The next turn of two lanes together.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Until(one), Self::Until(other)) => Self::Until([one, other].into_iter().flatten().min()),
            _ => Self::Again,
        }
    }
}

impl Session<'_> {
    /// Carries out what the machines of the fanouts want.
    pub(super) fn turn_ways(&mut self, now: Instant) -> Turn {
        let Some(turn) = self.lanes.turn_ways(now) else { return Turn::Until(None) };
        turn.warnings.into_iter().for_each(|line| self.core.warn(line));
        for receiver in turn.unheard {
            self.core.handle(now, SenderInput::Unheard { receiver });
        }
        for (receiver, way, why) in turn.moved {
            let name = match &self.kind {
                Kind::Local(local) => local.listener(receiver),
                Kind::Connected(_) | Kind::Ring(_) => self.peers.note_way(receiver, way),
            };
            if let Some(receiver) = name {
                self.core.tell(SendEvent::Way { receiver, way, why });
            }
        }
        if turn.is_changed {
            self.lanes.follow_plan(now, &self.peers, &mut self.core);
        }
        Turn::Until(turn.deadline)
    }

    /// Carries out what the machine has for the group, as far as the pacer lets it.
    pub(super) fn turn_group(&mut self, now: Instant) -> Result<Turn, SendError> {
        self.core.take_news();
        let runs = self.lanes.runs() + RUNS_A_TURN;
        for _ in 0..STEPS_A_TURN {
            if self.lanes.runs() >= runs {
                break;
            }
            self.lanes.set_drops(false);
            let (pace, due) = self.lanes.tell_and_copy(now, 0, &mut self.core)?;
            if let Some(until) = due.or_else(|| self.lanes.waits_until(now, &mut self.core)) {
                if !self.lanes.is_unheard() {
                    return Ok(Turn::Until(pace.into_iter().chain([until]).min()));
                }
                self.lanes.set_drops(true);
            }
            if self.kind.send_pending(now, 0, &mut self.lanes, &mut self.core)? {
                continue;
            }
            self.lanes.take_late_run(now, &mut self.core);
            if !self.lanes.is_unheard() && self.lanes.cut_run(now, 0, &mut self.core)? {
                continue;
            }
            // What a feed has is not taken to be sent to nobody.
            if self.objects.has_feed() && !self.peers.is_left_alone(now, &self.plan) {
                self.objects.take_feed(now, &mut self.core);
            }
            match self.core.machine.poll(now, Lane::Group) {
                Step::Transmit(transmit) => {
                    self.core.figures.watch.note(now, None);
                    self.transmit(now, transmit)?;
                }
                Step::Event(event) => self.note(now, event),
                Step::Wait(deadline, why) => {
                    self.lanes.flush_gathered(now, &mut self.core)?;
                    self.objects.manifests.sign_before_waiting(now, why, &mut self.core);
                    self.core.figures.watch.note(now, Some(why));
                    self.lanes.multicast_waits();
                    return Ok(Turn::Until(pace.into_iter().chain(deadline).min()));
                }
            }
        }
        if self.lanes.is_unheard() {
            self.lanes.multicast_waits();
        }
        Ok(Turn::Again)
    }

    /// Carries out what the machine has for slower groups, a run each, as far as their pacers let it.
    pub(super) fn turn_slower(&mut self, now: Instant) -> Result<Turn, SendError> {
        let mut turn = Turn::Until(None);
        for group in 1..self.lanes.groups() {
            turn = turn.or(self.turn_one_slower(now, group)?);
        }
        Ok(turn)
    }

    fn turn_one_slower(&mut self, now: Instant, group: u8) -> Result<Turn, SendError> {
        if let Some(until) = self.lanes.rests_until(now) {
            return Ok(Turn::Until(Some(until)));
        }
        let (pace, due) = self.lanes.tell_and_copy(now, group, &mut self.core)?;
        if let Some(until) = due.or_else(|| self.lanes.paced_until(now, group)) {
            return Ok(Turn::Until(pace.into_iter().chain([until]).min()));
        }
        if self.kind.send_pending(now, group, &mut self.lanes, &mut self.core)? {
            return Ok(Turn::Again);
        }
        self.lanes.take_run(group, &mut self.core);
        if self.lanes.cut_run(now, group, &mut self.core)? {
            return Ok(Turn::Again);
        }
        match self.core.machine.poll(now, Lane::Slower(group)) {
            Step::Transmit(transmit) => self.transmit(now, transmit)?,
            Step::Event(event) => self.note(now, event),
            Step::Wait(deadline, _) => return Ok(Turn::Until(pace.into_iter().chain(deadline).min())),
        }
        Ok(Turn::Again)
    }

    /// Tells all receivers a key that has been drawn, and fills and writes each connection that has room. Returns when one would take
    /// more.
    pub(super) fn turn_connections(&mut self, now: Instant) -> Turn {
        if let Some(key) = self.lanes.take_new_key() {
            self.peers.values_mut().for_each(|peer| peer.tell_key(self.plan.session, key.clone()));
        }
        let Some(machine) = self.core.machine.vcmtp_mut() else { return Turn::Until(None) };
        machine.keep_alive(now);
        let (mut again, mut paced) = (false, None);
        let mut receivers: Vec<ReceiverId> = machine.receivers().collect();
        // Whoever was served last waits for all others: a rate may leave room for one at a time.
        let first = receivers.partition_point(|receiver| *receiver <= self.last_served);
        receivers.rotate_left(first);
        for receiver in receivers {
            if self.is_ready(receiver) && self.has_room(now, receiver) {
                self.last_served = receiver;
                self.turn_receiver(now, receiver);
                // What passes a group that nobody hears waits for this.
                if self.lanes.is_unheard() {
                    self.core.wake();
                }
            }
            self.flush(now, receiver);
            // Only now: where the kernel has taken all that was queued, nothing else would wake this loop.
            if self.is_ready(receiver) {
                again |= self.has_room(now, receiver);
                paced = self.lanes.paced_until(now, 0);
            }
        }
        if again { Turn::Again } else { Turn::Until(paced) }
    }

    /// Whether the machine has something for a receiver's connection.
    fn is_ready(&self, receiver: ReceiverId) -> bool {
        self.core.machine.vcmtp().is_some_and(|machine| machine.is_ready(receiver))
    }

    fn turn_receiver(&mut self, now: Instant, receiver: ReceiverId) {
        while self.has_room(now, receiver) {
            let result = match self.core.machine.poll(now, Lane::Receiver(receiver)) {
                Step::Transmit(transmit) => self.transmit(now, transmit),
                Step::Event(event) => {
                    self.note(now, event);
                    Ok(())
                }
                Step::Wait(..) => return,
            };
            // What goes over a connection fails with the connection, which `flush` notices.
            if result.is_err() {
                return;
            }
        }
    }

    /// Blocks take their share of the rate. Messages do not wait for it: a receiver that has everything is not done
    /// before it is told the hash.
    fn has_room(&mut self, now: Instant, receiver: ReceiverId) -> bool {
        let connection = self.peers.get(&receiver).and_then(|peer| peer.link.connection.as_ref());
        let Some(machine) = self.core.machine.vcmtp() else { return false };
        connection.is_some_and(|connection| connection.has_room())
            && (machine.has_message(receiver)
                || self.lanes.may_repair(now, || machine.is_urgent(now, receiver)))
    }
}
