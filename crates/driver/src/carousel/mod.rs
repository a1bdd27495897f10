//! The parts that only carousels need: listeners on the network, and the IoT updater's frames. The loops of
//! carousels are those of all sessions ([`crate::send`], [`crate::receive`]).

mod frame_hash;
mod group_messages;
mod iotup;
mod listeners;
mod own_listeners;

pub use frame_hash::FrameHash;
pub(crate) use iotup::{FrameCollector, FrameSender};
pub use listeners::{ListenError, ListenerWatch};
pub(crate) use own_listeners::OwnListeners;
