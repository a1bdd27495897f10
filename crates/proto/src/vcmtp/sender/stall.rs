//! Receivers that are connected and say nothing more: stopped, or on a host that hangs.
//!
//! A receiver that is at work reports now and then ([`super::super::ReceiverConfig::keepalive`]). One that owes an
//! answer, because an object is out and its hash is told, and has been silent for the stall limit since, is put out,
//! so that it does not hold up the session for ever. So is a silent one whose connection has taken nothing of what passes a group
//! that nobody hears ([`super::unheard`]) for so long.
//!
//! Nothing new starts while [`MAX_STARTED`] objects have begun and are not over. A receiver that is still at half of
//! them and says nothing is put out much earlier, because it holds up everybody.
//!
//! The other way round, a receiver that has nothing to wait for but its sender hears of it now and then: Welcome, said
//! again. So a receiver can tell a sender that waits for others from one that is stopped.

use std::time::Duration;

use super::{
    Outcome, ReceiverId, Sender, SenderEvent, coordinator::State, multicast_sender::MAX_STARTED,
    objects::Object, retransmitter::Retransmitter,
};
use crate::Instant;

/// The time for which a silent receiver may keep new objects from starting.
const CROWD_PATIENCE: Duration = Duration::from_millis(1500);

/// The time from look to look when that is over.
const CROWD_INTERVAL: Duration = Duration::from_millis(250);

/// The times at which to look after silent receivers.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// The next look for receivers that have stalled; none while nobody owes anything.
    check: Option<Instant>,
    /// The next look for receivers that nothing has been said to for a while; none while there are none.
    keepalive: Option<Instant>,
    /// The next look for receivers that keep new objects from starting; none while nobody does.
    crowd: Option<Instant>,
}

impl Stall {
    /// A receiver has come, to whom something is to be said by then.
    pub(super) fn greet(&mut self, keepalive: Instant) {
        self.keepalive.get_or_insert(keepalive);
    }

    pub(super) fn deadlines(&self) -> [Option<Instant>; 3] {
        [self.check, self.keepalive, self.crowd]
    }
}

impl Sender {
    /// Somebody owes something from now on.
    pub(super) fn watch(&mut self, now: Instant) {
        self.stall.check.get_or_insert(now + self.config.stall_limit);
    }

    /// Puts out receivers that have been silent while nothing new could start because of it.
    pub(super) fn put_out_crowding(&mut self, now: Instant, not_counted: usize) {
        if !self.multicast.is_crowded(&self.objects, not_counted) {
            self.stall.crowd = None;
            return;
        }
        let check = *self.stall.crowd.get_or_insert(now + CROWD_PATIENCE);
        if check > now {
            return;
        }
        self.stall.crowd = Some(now + CROWD_INTERVAL);
        let is_silent = |one: &Retransmitter| one.heard + CROWD_PATIENCE <= now;
        let is_at_many = |receiver| self.coordinator.objects_at(receiver) >= MAX_STARTED / 2;
        let silent = self.retransmitters.iter().filter(|(id, one)| is_silent(one) && is_at_many(**id));
        for receiver in silent.map(|(receiver, _)| *receiver).collect::<Vec<_>>() {
            self.put_out(now, receiver, CROWD_PATIENCE);
        }
    }

    /// Puts out receivers that have stalled. Looks at all receivers once a stall limit, or when the next could be due.
    pub(super) fn put_out_stalled(&mut self, now: Instant) {
        if self.stall.check.is_none_or(|check| check > now) {
            return;
        }
        let limit = self.config.stall_limit;
        let (mut next, mut stalled) = (None, Vec::new());
        for (receiver, retransmitter) in &self.retransmitters {
            let heard = retransmitter.heard + limit;
            let due =
                if heard > now { Some(heard) } else { self.owes_since(*receiver).map(|since| since + limit) };
            match due {
                Some(due) if due <= now => stalled.push(*receiver),
                Some(due) => next = Some(next.map_or(due, |other: Instant| other.min(due))),
                None => {}
            }
        }
        self.stall.check = next;
        for receiver in stalled {
            self.put_out(now, receiver, limit);
        }
    }

    /// Sends something to every receiver to which nothing was sent for a while. The group's lane does that,
    /// too, when it is polled often enough, which it is not at a low rate.
    pub fn keep_alive(&mut self, now: Instant) {
        if self.stall.keepalive.is_none_or(|next| next > now) {
            return;
        }
        let closes = self.coordinator.state == State::ClosingRetransmitters;
        self.stall.keepalive =
            (!closes && !self.retransmitters.is_empty()).then(|| now + self.config.keepalive / 2);
        if self.stall.keepalive.is_some() {
            self.retransmitters.values_mut().for_each(Retransmitter::keep_alive);
        }
    }

    /// The time since which a receiver has owed an answer. `None` when it owes nothing.
    fn owes_since(&self, receiver: ReceiverId) -> Option<Instant> {
        if self.coordinator.state == State::ClosingRetransmitters {
            return self.closing_since;
        }
        let moved = self.retransmitters.get(&receiver).map(|one| one.moved)?;
        let owed = self.objects.iter();
        let owed =
            owed.filter(|(index, object)| object.is_pending_at(receiver) && !self.awaits(receiver, *index));
        // Of what has passed, a receiver owes nothing but that its connection takes more and more of it.
        let since = |(index, object): (u32, &Object)| match self.is_passed_to(receiver, index) {
            true => Some(moved),
            false => Some(object.told?.max(moved)),
        };
        owed.filter_map(since).min()
    }

    fn put_out(&mut self, now: Instant, receiver: ReceiverId, silent: Duration) {
        let seconds = silent.as_secs_f64();
        let reason = format!("it said nothing for {seconds} s while it owed an answer: is it stopped?");
        let Some(gone) = self.retransmitters.remove(&receiver) else { return };
        self.forget_receiver(now, receiver, &gone);
        for index in self.pending_at(receiver) {
            self.done_at(index, receiver, Outcome::Failed(reason.clone()));
        }
        self.coordinator.leaves(receiver);
        self.coordinator.events.push_back(SenderEvent::PutOut { receiver, reason });
    }
}
