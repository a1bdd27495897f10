//! One type for all repairs: [`Sender`] and [`Receiver`] hold the machine of a session, whichever repair it has.
//!
//! The caller that runs a session calls these two, and carries out what they want, without asking which repair it is. What only one
//! repair has is reached by [`Sender::vcmtp`] and its like. A new repair is one more variant.

mod receiver;
mod sender;

pub use receiver::Receiver;
pub use sender::{Sender, SenderFigures};
