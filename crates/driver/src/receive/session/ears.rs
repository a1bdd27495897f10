//! The two ears of a receiver: its own address and the group's, where the sender chooses the way
//! (`treecast_proto::fanout`).

use std::{io, time::Duration};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{Instant, fanout, tfmcc::Arrived};
use treecast_wire::{header::FileId, message::Message};

use super::{
    super::{ReceiveError, ReceiveEvent},
    GROUP, Session,
};
use crate::udp::Spare;

/// The time between two attempts to join a group. An interface may be down for a moment, or a limit of the kernel reached.
const JOIN_AGAIN: Duration = Duration::from_secs(2);

/// The group's socket, and what has been heard.
#[derive(Debug)]
pub(super) struct Ears {
    /// The group's socket. `None` where there is no group.
    group: Option<Spare>,
    /// The lane whose group could not be joined, and when that is tried again.
    wanted: Option<(u8, Instant)>,
    /// Whether packets are taken from it now.
    at_group: bool,
    /// Sealed packets that came twice, by the collector's count.
    replayed: u64,
    counts: fanout::Ears,
}

impl Ears {
    pub fn new(group: Option<Spare>) -> Self {
        Self { group, wanted: None, at_group: false, replayed: 0, counts: fanout::Ears::default() }
    }

    pub fn add_to(&self, poller: &Poller) -> io::Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| poller.add(group.socket(), GROUP, Interest::Read))
    }

    /// Returns when there is something to report, even if it is only that nothing was heard, or a group to join.
    pub fn deadline(&self) -> Option<Instant> {
        let join = self.wanted.map(|(_, at)| at);
        self.counts.deadline().into_iter().chain(join).min()
    }

    /// The lane whose group is to be tried again now.
    fn due(&self, now: Instant) -> Option<u8> {
        self.wanted.filter(|(_, at)| *at <= now).map(|(lane, _)| lane)
    }

    /// Returns the packets that have not come before by another way.
    pub fn new_of(&mut self, packets: Arrived) -> Option<Arrived> {
        self.counts.note(self.at_group, packets)
    }

    /// The group of this lane could not be joined. Returns whether that is new.
    fn failed(&mut self, now: Instant, lane: u8) -> bool {
        self.wanted.replace((lane, now + JOIN_AGAIN)).is_none()
    }

    /// Hears this group from now on, in place of the one before, and wants no other.
    fn hear(&mut self, group: Option<Spare>) {
        // The poller forgets a socket that is closed.
        self.group = group;
        self.wanted = None;
    }
}

impl Session<'_> {
    /// Takes packets with the numbers of this lane from now on, and of its multicast group if there is one. The group
    /// of the lane before is left.
    pub(super) fn take_lane(&mut self, lane: u8) {
        self.hearing.source.take_lane(lane);
        let Some(ears) = &mut self.hearing.ears else { return };
        ears.counts.begin_anew();
        if ears.group.is_some() || ears.wanted.is_some() {
            self.join_lane(lane);
        }
    }

    /// Joins the group whose time for another attempt has come.
    pub(super) fn join_if_due(&mut self, now: Instant) {
        if let Some(lane) = self.hearing.ears.as_ref().and_then(|ears| ears.due(now)) {
            self.join_lane(lane);
        }
    }

    /// Joins the group of a lane. If that fails, copies come in place of multicast until another attempt succeeds.
    fn join_lane(&mut self, lane: u8) {
        let (now, joined) = (self.delivery.clock.now(), self.layer(lane));
        let Some(ears) = &mut self.hearing.ears else { return };
        match joined {
            Ok(group) => ears.hear(group.map(|(_, spare)| spare)),
            Err(error) => {
                ears.group = None;
                if ears.failed(now, lane) {
                    let warning =
                        format!("gets copies in place of multicast until it can join its group: {error}");
                    (self.delivery.on_event)(ReceiveEvent::Warning(warning.into()));
                }
            }
        }
    }

    /// Takes a batch from the group's socket, too, as [`Session::receive_batch`].
    pub(super) fn receive_spare(&mut self) -> Result<Option<u64>, ReceiveError> {
        self.note_replayed();
        if !self.swap() {
            return Ok(None);
        }
        let result = self.receive_batch();
        self.note_replayed();
        self.swap();
        result
    }

    /// Receives from the other socket from now on; false where there is none.
    fn swap(&mut self) -> bool {
        let Some(ears) = &mut self.hearing.ears else { return false };
        let Some(group) = &mut ears.group else { return false };
        self.hearing.source.swap(group);
        ears.at_group = !ears.at_group;
        true
    }

    /// A carousel's receiver that is reached at its own address leaves the group: the sender does not hear by which way packets
    /// arrive, and everything would come twice.
    pub(super) fn leave_group_if_reached(&mut self) {
        if let Some(ears) = self.hearing.ears.as_mut().filter(|ears| ears.counts.heard().unicast > 0)
            && self.delivery.machine.carousel().is_some()
            && self.delivery.members.is_none()
        {
            ears.hear(None);
        }
    }

    /// Sealed packets that came twice are dropped before anybody reads their numbers.
    fn note_replayed(&mut self) {
        let replayed = self.hearing.source.refused().replayed;
        if let Some(ears) = &mut self.hearing.ears {
            ears.counts.count(ears.at_group, replayed - ears.replayed);
            ears.replayed = replayed;
        }
    }

    /// Reports what has been heard, when that is due.
    pub(super) fn tell_heard(&mut self, now: Instant) {
        let Some(ears) = &mut self.hearing.ears else { return };
        let is_due = ears.counts.deadline().is_some_and(|deadline| now >= deadline);
        if self.delivery.line.is_over || !self.delivery.line.is_welcome || !is_due {
            return;
        }
        // What waits in a socket is not heard yet, and that is no silence.
        if !ears.counts.has_news() && self.delivery.backlog.is_asked() {
            return;
        }
        let heard = ears.counts.tell(now);
        let heard = fanout::Heard { last: self.hearing.source.number_on_wire(heard.last), ..heard };
        match self.delivery.members {
            Some(_) => self.delivery.tell_sender(&Message::Heard(heard)),
            None => {
                self.delivery.line.outbox.push(FileId::new(self.delivery.session, 0), Message::Heard(heard))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_could_not_be_joined_is_tried_again_until_it_is() {
        let (mut ears, at) = (Ears::new(None), |seconds| Instant::ZERO + Duration::from_secs(seconds));
        assert_eq!((ears.deadline(), ears.due(at(100))), (None, None), "it wants no group");
        assert!(ears.failed(at(1), 3));
        assert_eq!((ears.deadline(), ears.due(at(2)), ears.due(at(3))), (Some(at(3)), None, Some(3)));
        assert!(!ears.failed(at(3), 2), "a person has been told");
        assert_eq!((ears.due(at(4)), ears.due(at(5))), (None, Some(2)));
        ears.hear(None);
        assert_eq!((ears.deadline(), ears.due(at(100))), (None, None));
    }
}
