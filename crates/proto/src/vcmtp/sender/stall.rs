//! Receivers that are connected and say nothing more: stopped, or on a host that hangs.
//!
//! A receiver that is at work reports now and then ([`super::super::ReceiverConfig::keepalive`]). One that owes an
//! answer, because an object is out and its hash is told, and has been silent for the stall limit since, is put out,
//! so that it does not hold up the session for ever.
//!
//! The other way round, a receiver that has nothing to wait for but its sender hears of it now and then: Welcome, said
//! again. So a receiver can tell a sender that waits for others from one that is stopped.

use super::{Outcome, ReceiverId, Sender, SenderEvent, coordinator::State, retransmitter::Retransmitter};
use crate::Instant;

impl Sender {
    /// Somebody owes something from now on.
    pub(super) fn watch(&mut self, now: Instant) {
        self.stall_check.get_or_insert(now + self.config.stall_limit);
    }

    /// Puts out who has stalled. Looks at all receivers once a stall limit, or when the next could be due.
    pub(super) fn put_out_stalled(&mut self, now: Instant) {
        if self.stall_check.is_none_or(|check| check > now) {
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
        self.stall_check = next;
        for receiver in stalled {
            self.put_out(now, receiver);
        }
    }

    /// Has something said to every receiver that nothing has been said to for a while.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        if self.next_keepalive.is_none_or(|next| next > now) {
            return;
        }
        let closes = self.coordinator.state == State::ClosingRetransmitters;
        self.next_keepalive =
            (!closes && !self.retransmitters.is_empty()).then(|| now + self.config.keepalive / 2);
        if self.next_keepalive.is_some() {
            self.retransmitters.values_mut().for_each(Retransmitter::keep_alive);
        }
    }

    /// Since when a receiver has owed an answer; none when it owes nothing.
    fn owes_since(&self, receiver: ReceiverId) -> Option<Instant> {
        if self.coordinator.state == State::ClosingRetransmitters {
            return self.closing_since;
        }
        let owed = self.objects.iter();
        let owed =
            owed.filter(|(index, object)| object.is_pending_at(receiver) && !self.awaits(receiver, *index));
        owed.filter_map(|(_, object)| object.told).min()
    }

    fn put_out(&mut self, now: Instant, receiver: ReceiverId) {
        let seconds = self.config.stall_limit.as_secs_f64();
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
