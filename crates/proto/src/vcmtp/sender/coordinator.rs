//! The coordinator: which receivers there are, how far each object is at each of them, and when an
//! object's time for retransmissions is up (interdomain-2013, 4.4, table 4.6).

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    Outcome, ReceiverId, SenderConfig, SenderEvent,
    objects::{Object, Objects},
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
    /// retx_timeout(i): when the time for retransmissions of an object is up.
    timers: BTreeSet<(Instant, u32)>,
    pub(super) events: VecDeque<SenderEvent>,
}

impl Coordinator {
    pub(super) fn new() -> Self {
        Self { state: State::Active, timers: BTreeSet::new(), events: VecDeque::new() }
    }

    /// INL_Handle_Completion(i): the object is out, its retransmission timer starts. The timer is a
    /// multiple of the time that the multicast took (4.1).
    pub(super) fn handle_completion(
        &mut self,
        now: Instant,
        config: &SenderConfig,
        index: u32,
        object: &Object,
    ) {
        let Some(factor) = config.retransmission_timeout_factor else { return };
        let multicast_time = object.started.map_or(Duration::ZERO, |started| now - started);
        let time = retransmission_time(multicast_time, factor).max(config.minimum_retransmission_time);
        self.timers.insert((now + time, index));
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
        *status = Some(outcome.clone());
        object.unfinished -= 1;
        self.events.push_back(SenderEvent::ReceiverDone { file, receiver, outcome });
        object.unfinished == 0
    }

    /// API_File_Done(i): the object is let go of.
    pub(super) fn file_done(&mut self, objects: &mut Objects, index: u32) {
        let file = objects.file_id(index);
        let Some(object) = objects.remove(index) else { return };
        self.timers.retain(|(_, other)| *other != index);
        let outcomes = object.status.into_iter();
        let outcomes = outcomes.filter_map(|(receiver, outcome)| Some((receiver, outcome?))).collect();
        self.events.push_back(SenderEvent::FileDone { file, outcomes });
    }

    /// INL_Retx(i)_Timeout: an object whose time is up. Its hash must be known: before, receivers
    /// cannot have finished.
    pub(super) fn expired(&self, now: Instant, objects: &Objects) -> Option<u32> {
        let due = self.timers.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, index)| *index)
            .find(|index| objects.get(*index).is_some_and(|object| object.hash.is_some()))
    }

    /// When the next object's time is up, among those whose hash is known.
    pub(super) fn deadline(&self, objects: &Objects) -> Option<Instant> {
        let hashed = |index: &u32| objects.get(*index).is_some_and(|object| object.hash.is_some());
        self.timers.iter().find(|(_, index)| hashed(index)).map(|(deadline, _)| *deadline)
    }
}

fn retransmission_time(multicast_time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(multicast_time.as_secs_f64() * factor.max(0.0)).unwrap_or(Duration::MAX)
}
