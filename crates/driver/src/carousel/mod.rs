//! Carousels on real networks: sending to whoever listens, and receiving without a word back.

mod frame_hash;
mod group_messages;
mod iotup;
mod listeners;

pub use frame_hash::FrameHash;
pub(crate) use iotup::{FrameCollector, FrameSender};
pub use listeners::{ListenError, ListenerWatch};
