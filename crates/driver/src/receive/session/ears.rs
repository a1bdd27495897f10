//! What comes at the receiver's own address, and what at the group's, where the sender chooses the way by that
//! (`treecast_proto::fanout`).

use std::io;

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{Instant, fanout, object::Channel, tfmcc::Arrived};
use treecast_wire::{header::FileId, message::Message};

use super::{
    super::{ReceiveError, ReceiveEvent},
    GROUP, Session,
};
use crate::udp::Spare;

/// The group's socket, and what has been heard.
#[derive(Debug)]
pub(super) struct Ears {
    /// None where there is no group.
    group: Option<Spare>,
    /// Whether packets are taken from it now.
    at_group: bool,
    /// Sealed packets that came twice, by the collector's count.
    replayed: u64,
    counts: fanout::Ears,
}

impl Ears {
    pub fn new(group: Option<Spare>) -> Self {
        Self { group, at_group: false, replayed: 0, counts: fanout::Ears::default() }
    }

    pub fn add_to(&self, poller: &Poller) -> io::Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| poller.add(group.socket(), GROUP, Interest::Read))
    }

    /// Returns when there is something to report, even if it is only that nothing was heard.
    pub fn deadline(&self) -> Option<Instant> {
        self.counts.deadline()
    }
}

impl Session<'_> {
    /// From now on, packets come with the numbers of this lane, and to its multicast group if there is one. The group of the
    /// lane before is left.
    pub(super) fn take_lane(&mut self, lane: u8) {
        self.hearing.source.take_lane(lane);
        let has_group = self.hearing.ears.as_ref().is_some_and(|ears| ears.group.is_some());
        let group = if has_group { self.layer(lane) } else { Ok(None) };
        let group = group.unwrap_or_else(|error| {
            (self.on_event)(ReceiveEvent::Warning(format!("gets copies in place of multicast: {error}")));
            None
        });
        if let Some(ears) = &mut self.hearing.ears {
            // The poller forgets a socket that is closed.
            ears.group = group.map(|(_, spare)| spare);
            ears.counts.begin_anew();
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
            && self.machine.carousel().is_some()
            && self.members.is_none()
        {
            // The poller forgets a socket that is closed.
            ears.group = None;
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

    /// Returns the packets that have not come before by another way.
    pub(super) fn new_of(&mut self, from: Channel, packets: Arrived) -> Option<Arrived> {
        match &mut self.hearing.ears {
            Some(ears) if from == Channel::Group => ears.counts.note(ears.at_group, packets),
            _ => Some(packets),
        }
    }

    /// Reports what has been heard, when that is due.
    pub(super) fn tell_heard(&mut self, now: Instant) {
        let Some(ears) = &mut self.hearing.ears else { return };
        if self.line.is_over || !self.line.is_welcome || ears.deadline().is_none_or(|deadline| now < deadline)
        {
            return;
        }
        // What waits in a socket is not heard yet, and that is no silence.
        if !ears.counts.has_news() && self.hearing.backlog.is_asked() {
            return;
        }
        let heard = ears.counts.tell(now);
        let heard = fanout::Heard { last: self.hearing.source.number_on_wire(heard.last), ..heard };
        match self.members {
            Some(_) => self.tell_sender(&Message::Heard(heard)),
            None => self.line.outbox.push(FileId::new(self.session, 0), Message::Heard(heard)),
        }
    }
}
