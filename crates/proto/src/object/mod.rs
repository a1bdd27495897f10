//! Objects, as every repair sees them: what a receiver stores, decodes, hashes, checks and commits, and what a sender reads and
//! sends.
//!
//! A repair is a machine that decides *when* each of this happens: [`crate::vcmtp`] and [`crate::carousel`] are such
//! machines, and [`crate::repair`] holds one of them. All of them are handed the same inputs and hand back the same
//! tasks. So the caller of a machine carries a task out in one place, whatever the repair.
//!
//! A machine passes over an input that its repair has no use for: a carousel has no connection that could break.

pub(crate) mod check;
pub mod chunks;
mod parts;
pub(crate) mod ranges;
mod receiver;
mod sender;
pub(crate) mod stored;

pub use parts::Parts;
pub use receiver::{
    Channel, CutShort, ReceiverCounters, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait,
    Response,
};
pub use sender::{
    Destination, Lane, Outcome, ReceiverId, SenderEvent, SenderInput, SenderTransmit, SenderWait,
};

use treecast_wire::message::{GroupId, Member};

/// The most receivers in a session: each of them may take a descriptor and up to half a megabyte of buffers.
pub const MAX_RECEIVERS: usize = 10_000;

/// The largest number of receivers from one address, where nothing else is said. It is more than most address
/// translators have behind them, and a small part of a session's places.
pub const PER_ADDRESS: u32 = 256;

/// The most receivers from one network: an IPv6 /64, in which a host has as many addresses as it likes. One network cannot
/// take all places.
pub const MAX_FROM_ONE_NETWORK: usize = 4096;

/// The address of one host or of several, where datagrams of a session with local groups go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The session's group: everybody.
    Session,
    /// A local group, which has a multicast address of its own.
    Group(GroupId),
    /// One member, or the sender.
    Member(Member),
}
