//! Offers: the names of objects, for receivers that want some and not others. Such a receiver is told of each object that it
//! is still to have, begun or not, and says at once which it does not want. So the sender knows what is left for it, and the
//! receiver may go when it has the rest.

use super::{Sender, objects::Objects};
use crate::object::{Outcome, ReceiverId, SenderEvent, ranges::BlockSet};

/// The offers made to one receiver, and its answers.
#[derive(Debug, Default)]
pub(super) struct Offers {
    receiver: ReceiverId,
    /// The first object that it has not been told of, and the end of those that there are; none as long as it has not asked.
    ahead: Option<(u32, u32)>,
    /// Objects that have not begun and that it does not want.
    unwanted: BlockSet,
}

impl Offers {
    pub(super) fn new(receiver: ReceiverId) -> Self {
        Self { receiver, ..Self::default() }
    }

    /// There is one more object.
    pub(super) fn extend(&mut self, index: u32) {
        if let Some((_, end)) = &mut self.ahead {
            *end = index + 1;
        }
    }

    /// Whether there may be an object that it is to be told of.
    pub(super) fn are_due(&self) -> bool {
        self.ahead.is_some_and(|(next, end)| next < end)
    }

    /// The next object to offer: one that has not begun, or that the receiver has not ended with. Objects begin while
    /// offers are on their way, many of them at a time.
    pub(super) fn next(&mut self, objects: &Objects) -> Option<u32> {
        let (receiver, (next, end)) = (self.receiver, self.ahead.as_mut()?);
        let is_open = |index: &u32| {
            let object = objects.get(*index);
            object.is_some_and(|object| object.started.is_none() || object.is_pending_at(receiver))
        };
        let index = (*next..*end).find(is_open);
        *next = index.map_or(*end, |index| index + 1);
        index
    }

    /// The number of objects that have not begun and that it does not want.
    pub(super) fn unwanted(&self) -> u64 {
        self.unwanted.len()
    }

    /// The object begins. Returns whether the receiver does not want it.
    pub(super) fn take_unwanted(&mut self, index: u32) -> bool {
        self.unwanted.remove(index.into()..u64::from(index) + 1) > 0
    }
}

impl Sender {
    /// A receiver asks which objects there will be. In a feed nobody knows.
    pub(super) fn names_request(&mut self, from: ReceiverId) {
        let end = self.objects.count();
        if !self.config.is_feed
            && let Some(retransmitter) = self.retransmitters.get_mut(&from)
        {
            retransmitter.offers.ahead.get_or_insert((0, end));
        }
    }

    /// A receiver does not want an object that has not begun.
    pub(super) fn not_wanted_ahead(&mut self, from: ReceiverId, index: u32) {
        let Some(retransmitter) = self.retransmitters.get_mut(&from) else { return };
        let has_asked = retransmitter.offers.ahead.is_some();
        if has_asked && retransmitter.offers.unwanted.insert(index.into()..u64::from(index) + 1) > 0 {
            self.may_release = true;
            let (file, outcome) = (self.objects.file_id(index), Outcome::NotWanted);
            self.coordinator.events.push_back(SenderEvent::ReceiverDone { file, receiver: from, outcome });
        }
    }

    /// Whether the object is to begin, and nobody is there who wants it, or they have gone because they wanted no more.
    pub(super) fn is_wanted_by_nobody(&self, index: u32) -> bool {
        let object = self.objects.get(index);
        object.is_some_and(|object| {
            object.unfinished == 0 && (!object.status.is_empty() || self.has_released_early)
        })
    }
}
