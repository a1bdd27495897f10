//! Objects that have ended, and are opened again for a receiver that comes late or comes back.
//!
//! The sender keeps of such an object its announcement, its hash and how far it has been multicast: about 200
//! bytes here, and its name ([`super::objects::Over`]). A late receiver is told over its connection of the
//! objects that it has missed, [`super::retransmitter::MOST_AT_ONCE`] at a time, and asks for what it lacks. So
//! the memory that it costs does not grow with the number of objects. An object that was never multicast to its
//! end, because every receiver that wanted it had left, goes to the group from that point on.

use super::{ReceiverId, Sender, objects::Over, retransmitter::Due};
use crate::Instant;

impl Sender {
    /// Tells a receiver of objects that it has missed, as far as it has done with those told before.
    pub(super) fn reopen(&mut self, now: Instant, receiver: ReceiverId) {
        while let Some(index) =
            self.retransmitters.get_mut(&receiver).and_then(|retransmitter| retransmitter.next_missed())
        {
            let withdrawn = self.objects.over(index).map(|over| over.withdrawn.clone());
            match withdrawn {
                _ if self.objects.get(index).is_some() => self.join_object(now, receiver, index),
                Some(None) => {
                    self.open_again(now, index);
                    self.join_object(now, receiver, index);
                }
                Some(Some(reason)) => self.tell_withdrawn(receiver, index, reason),
                None => {
                    let reason = "it was sent before this receiver joined".to_owned();
                    self.tell_withdrawn(receiver, index, reason);
                }
            }
        }
    }

    fn tell_withdrawn(&mut self, receiver: ReceiverId, index: u32, reason: String) {
        self.may_release = true;
        let begin = self.objects.over(index).map(Over::begin);
        if let Some(retransmitter) = self.retransmitters.get_mut(&receiver) {
            retransmitter.withdraw(index, begin, reason);
        }
    }

    fn open_again(&mut self, now: Instant, index: u32) {
        let Some(over) = self.objects.take_over(index) else { return };
        let mut object = self.objects.make(over.begin);
        object.is_again = true;
        object.started = Some(now);
        object.sent = over.sent;
        object.hash = over.hash;
        object.multicast_time = over.multicast_time;
        object.out = over.multicast_time.map(|_| now);
        object.told = object.out.and(object.hash).map(|_| now);
        self.objects.put(index, object);
        if over.multicast_time.is_none() {
            self.multicast.queue_again(index);
        }
    }

    /// A receiver is to have an object that has begun.
    pub(super) fn join_object(&mut self, now: Instant, receiver: ReceiverId, index: u32) {
        let Some(object) = self.objects.get_mut(index) else { return };
        object.add_receiver(receiver);
        let (is_out, hash) = (object.out.is_some(), object.hash);
        if object.is_again && is_out {
            // A receiver that comes later has as much time as one that came first.
            self.coordinator.start_timer_again(now, index, object);
        }
        self.coordinator.begins_at(receiver);
        if hash.is_some() && is_out {
            self.watch(now);
        }
        if let Some(retransmitter) = self.retransmitters.get_mut(&receiver) {
            retransmitter.tell(index, Due::BeginOfFile);
            if is_out {
                retransmitter.tell(index, hash.map_or(Due::EndOfFile, Due::Digest));
            }
        }
    }
}
