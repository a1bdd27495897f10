//! The group's key. Receivers get it when they join, and a new one is made after a receiver has left.

use std::io;

use treecast_proto::{
    Instant,
    group_key::{GroupKeySchedule, KeyCommand, KeyInput, MAX_PACKETS},
    object::ReceiverId,
};
use treecast_wire::{
    header::FileId,
    message::{GroupKey, Message},
};

use super::Session;
use crate::seal::draw_group_key;

/// The key in use and the one that comes.
#[derive(Debug)]
pub(super) struct GroupKeys {
    schedule: GroupKeySchedule,
    used: GroupKey,
    offered: Option<GroupKey>,
}

impl GroupKeys {
    /// Draws the first key.
    pub fn draw(now: Instant) -> io::Result<Self> {
        let schedule = GroupKeySchedule::new(now, MAX_PACKETS);
        Ok(Self { schedule, used: draw_group_key()?, offered: None })
    }

    pub fn used(&self) -> &GroupKey {
        &self.used
    }
}

impl Session<'_> {
    /// Carries out what is due before something is sealed.
    fn renew_key_if_due(&mut self, now: Instant) -> io::Result<()> {
        let Some(keys) = &mut self.lanes.keys else { return Ok(()) };
        let (mut offered, mut replaced) = (None, false);
        while let Some(command) = keys.schedule.poll(now) {
            match command {
                KeyCommand::Offer(_) => {
                    let key = draw_group_key()?;
                    keys.offered = Some(key.clone());
                    offered = Some(key);
                }
                KeyCommand::Use => {
                    if let Some(key) = keys.offered.take() {
                        keys.used = key;
                        replaced = true;
                    }
                }
            }
        }
        if replaced {
            self.lanes.group.replace_key(&keys.used);
        }
        if let Some(key) = offered {
            let receivers: Vec<_> = self.peers.keys().copied().collect();
            receivers.into_iter().for_each(|receiver| self.queue_key(receiver, key.clone()));
        }
        Ok(())
    }

    /// Tells somebody who has joined the keys that there are.
    pub(super) fn tell_keys(&mut self, receiver: ReceiverId) {
        let Some(keys) = &self.lanes.keys else { return };
        let known: Vec<_> =
            [Some(&keys.used), keys.offered.as_ref()].into_iter().flatten().cloned().collect();
        known.into_iter().for_each(|key| self.queue_key(receiver, key));
    }

    fn queue_key(&mut self, receiver: ReceiverId, key: GroupKey) {
        let file = FileId::new(self.plan.session, 0);
        if let Some(connection) = self.peers.get_mut(&receiver).and_then(|peer| peer.link.connection.as_mut())
        {
            connection.queue(&Message::GroupKey(key).to_packet(file));
        }
    }

    /// Somebody who knows the key is not there any more.
    pub(super) fn note_leaver(&mut self) {
        if let Some(keys) = &mut self.lanes.keys {
            keys.schedule.handle(KeyInput::ReceiverLeft);
        }
    }

    /// The number of the first of so many packets to a group that are sealed now, all of which count for the life of its
    /// key.
    pub(super) fn take_numbers(&mut self, now: Instant, group: u8, packets: u64) -> io::Result<u32> {
        self.renew_key_if_due(now)?;
        if let Some(keys) = &mut self.lanes.keys {
            keys.schedule.handle(KeyInput::Sealed { packets });
        }
        let numbers = match self.slower_lane(group) {
            Some(lane) => lane.numbers(),
            None => &mut self.lanes.numbers,
        };
        let first = numbers.take(packets as u32);
        self.note_numbers(now, group, first.wrapping_add(packets as u32));
        Ok(first)
    }
}
