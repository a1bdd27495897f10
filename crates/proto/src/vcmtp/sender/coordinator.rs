//! The coordinator: which receivers there are, how far each object is at each of them, and when an
//! object's time for retransmissions is up (interdomain-2013, 4.4, table 4.6).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    Outcome, ReceiverId, SenderConfig, SenderEvent,
    objects::{Object, Objects, RetransmissionTime},
};
use crate::Instant;

/// The coordinator's state in table 4.6; NULL before it is `Active` does not occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Active,
    /// INL_Close_Coordinator has come. Objects under way are finished first.
    Closing,
    /// CLOSING-RETXMITTERS: each retransmitter says Goodbye and closes its connection.
    ClosingRetransmitters,
    /// NULL again: all connections are closed.
    Closed,
}

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) state: State,
    /// The times when the time for retransmissions of an object is up.
    timers: BTreeSet<(Instant, u32)>,
    /// The number of objects that each receiver is still at.
    at_work: BTreeMap<ReceiverId, usize>,
    /// Objects that are out and whose hash is not known.
    unhashed: BTreeSet<u32>,
    pub(super) events: VecDeque<SenderEvent>,
    /// [`SenderConfig::retransmission_timeout_factor`].
    time_factor: Option<f64>,
    /// [`SenderConfig::minimum_retransmission_time`].
    minimum_time: Duration,
}

impl Coordinator {
    pub(super) fn new(config: &SenderConfig) -> Self {
        Self {
            state: State::Active,
            timers: BTreeSet::new(),
            at_work: BTreeMap::new(),
            unhashed: BTreeSet::new(),
            events: VecDeque::new(),
            time_factor: config.retransmission_timeout_factor,
            minimum_time: config.minimum_retransmission_time,
        }
    }

    /// INL_Handle_Completion(i): the object is out. Its retransmission timer, a multiple of the time that
    /// the multicast took (4.1), starts when its hash is known, too: no receiver can finish before.
    pub(super) fn handle_completion(&mut self, now: Instant, index: u32, object: &mut Object) {
        let Some(out) = object.out else { return };
        if object.hash.is_none() {
            self.unhashed.insert(index);
            return;
        }
        self.unhashed.remove(&index);
        if object.time.is_none() {
            let multicast_time = object.multicast_time.or(object.started.map(|started| out - started));
            let multicast_time = multicast_time.unwrap_or_default();
            self.give_time(now, index, object, multicast_time);
        }
    }

    /// The time for retransmissions of an object whose multicast took so long begins now, unless there is more left of
    /// what was given before.
    pub(super) fn give_time(
        &mut self,
        now: Instant,
        index: u32,
        object: &mut Object,
        multicast_time: Duration,
    ) {
        let Some(factor) = object.time_factor.or(self.time_factor) else { return };
        let time = retransmission_time(multicast_time, factor).max(self.minimum_time);
        if object.time.is_some_and(|given| given.expires >= now + time) {
            return;
        }
        self.set_time(index, object, RetransmissionTime { urgent_at: now + time / 2, expires: now + time });
    }

    /// Sets when an object's time for retransmissions is up.
    pub(super) fn set_time(&mut self, index: u32, object: &mut Object, time: RetransmissionTime) {
        self.take_time(index, object);
        self.timers.insert((time.expires, index));
        object.time = Some(time);
    }

    /// Whether the time for retransmissions of any object runs.
    pub(super) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// An object's time does not run any more.
    pub(super) fn take_time(&mut self, index: u32, object: &mut Object) {
        if let Some(time) = object.time.take() {
            self.timers.remove(&(time.expires, index));
        }
    }

    /// Another receiver is to have an object that was over: its time begins anew.
    pub(super) fn start_timer_again(&mut self, now: Instant, index: u32, object: &mut Object) {
        self.take_time(index, object);
        self.handle_completion(now, index, object);
    }

    /// A receiver is to have one object more.
    pub(super) fn begins_at(&mut self, receiver: ReceiverId) {
        *self.at_work.entry(receiver).or_default() += 1;
    }

    /// Whether a receiver has not ended with everything.
    pub(super) fn is_at_work(&self, receiver: ReceiverId) -> bool {
        self.at_work.get(&receiver).is_some_and(|objects| *objects > 0)
    }

    /// The number of objects that a receiver is still at.
    pub(super) fn objects_at(&self, receiver: ReceiverId) -> usize {
        self.at_work.get(&receiver).copied().unwrap_or_default()
    }

    /// A receiver is gone.
    pub(super) fn leaves(&mut self, receiver: ReceiverId) {
        self.at_work.remove(&receiver);
    }

    /// Whether the hash of an object that is out is still missing.
    pub(super) fn waits_for_hash(&self) -> bool {
        !self.unhashed.is_empty()
    }

    /// INL_File(i)_Done_Rcvr(j): a receiver has ended with an object. Returns whether it was the last
    /// that was still at it; then [`Self::file_done`] is next.
    pub(super) fn done_at(
        &mut self,
        objects: &mut Objects,
        index: u32,
        receiver: ReceiverId,
        outcome: Outcome,
    ) -> bool {
        let file = objects.file_id(index);
        let Some(object) = objects.get_mut(index) else { return false };
        let Some(status @ None) = object.status.get_mut(&receiver) else { return false };
        *status = Some(outcome.without_reason());
        object.unfinished -= 1;
        object.await_no_report(receiver);
        if let Some(objects) = self.at_work.get_mut(&receiver) {
            *objects = objects.saturating_sub(1);
        }
        self.events.push_back(SenderEvent::ReceiverDone { file, receiver, outcome });
        object.unfinished == 0
    }

    /// API_File_Done(i): the object is let go of.
    pub(super) fn file_done(&mut self, objects: &mut Objects, index: u32) {
        let file = objects.file_id(index);
        let Some(object) = objects.remove(index) else { return };
        let is_again = object.is_again && object.multicast_time.is_some();
        self.unhashed.remove(&index);
        if let Some(time) = object.time {
            self.timers.remove(&(time.expires, index));
        }
        let outcomes = object.status.into_iter();
        let outcomes = outcomes.filter_map(|(receiver, outcome)| Some((receiver, outcome?))).collect();
        self.events.push_back(match is_again {
            true => SenderEvent::FileClosed { file },
            false => SenderEvent::FileDone { file, outcomes },
        });
    }

    /// INL_Retx(i)_Timeout: an object whose time is up.
    pub(super) fn expired(&self, now: Instant) -> Option<u32> {
        self.timers.first().filter(|(expires, _)| *expires <= now).map(|(_, index)| *index)
    }

    /// The time when the next object's time is up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(expires, _)| *expires)
    }
}

fn retransmission_time(multicast_time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(multicast_time.as_secs_f64() * factor.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_retransmissions_is_a_multiple_of_the_multicast_time() {
        let time = |factor| retransmission_time(Duration::from_secs(2), factor);
        assert_eq!((time(1.5), time(0.0)), (Duration::from_secs(3), Duration::ZERO));
        assert_eq!((time(-1.0), time(f64::NAN)), (Duration::ZERO, Duration::ZERO));
        assert_eq!((time(1e30), time(f64::INFINITY)), (Duration::MAX, Duration::MAX));
    }
}
