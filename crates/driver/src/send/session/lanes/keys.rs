//! The group's key. Receivers get it when they join, and a new one is made after a receiver has left.

use std::io;

use treecast_proto::{
    Instant,
    group_key::{GroupKeySchedule, KeyCommand, KeyInput, MAX_PACKETS},
};
use treecast_wire::message::GroupKey;

use crate::seal::draw_group_key;

/// The key in use and the one that comes.
#[derive(Debug)]
pub(super) struct GroupKeys {
    schedule: GroupKeySchedule,
    used: GroupKey,
    offered: Option<GroupKey>,
    /// The key that is offered, until the receivers that are there are told.
    new: Option<GroupKey>,
}

impl GroupKeys {
    /// Draws the first key.
    pub fn draw(now: Instant) -> io::Result<Self> {
        let schedule = GroupKeySchedule::new(now, MAX_PACKETS);
        Ok(Self { schedule, used: draw_group_key()?, offered: None, new: None })
    }

    pub fn used(&self) -> &GroupKey {
        &self.used
    }

    /// The keys that a receiver is told when it joins.
    pub fn known(&self) -> impl Iterator<Item = &GroupKey> {
        [Some(&self.used), self.offered.as_ref()].into_iter().flatten()
    }

    /// Carries out what is due before something is sealed. Returns whether another key is in use from now on.
    pub fn renew(&mut self, now: Instant) -> io::Result<bool> {
        let mut is_replaced = false;
        while let Some(command) = self.schedule.poll(now) {
            match command {
                KeyCommand::Offer(_) => {
                    let key = draw_group_key()?;
                    (self.offered, self.new) = (Some(key.clone()), Some(key));
                }
                KeyCommand::Use => {
                    if let Some(key) = self.offered.take() {
                        self.used = key;
                        is_replaced = true;
                    }
                }
            }
        }
        Ok(is_replaced)
    }

    /// Takes the key that the receivers that are there are to be told.
    pub fn take_new(&mut self) -> Option<GroupKey> {
        self.new.take()
    }

    /// Notes that so many packets are sealed now.
    pub fn sealed(&mut self, packets: u64) {
        self.schedule.handle(KeyInput::Sealed { packets });
    }

    /// Notes that somebody who knows the key is not there any more.
    pub fn receiver_left(&mut self) {
        self.schedule.handle(KeyInput::ReceiverLeft);
    }
}
