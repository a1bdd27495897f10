//! What only carousels need of a network: hearing who listens, and the IoT updater's frames. Their loops are those of all
//! sessions ([`crate::send`], [`crate::receive`]).

mod frame_hash;
mod group_messages;
mod iotup;
mod listeners;

pub use frame_hash::FrameHash;
pub(crate) use iotup::{FrameCollector, FrameSender};
pub use listeners::{ListenError, ListenerWatch};
