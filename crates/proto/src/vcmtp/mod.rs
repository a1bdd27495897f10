//! VCMTP: multicast once, then mend each receiver's losses over its own reliable connection
//! (interdomain-2013, chapters 3 and 4).
//!
//! Version 2 ([`Repair::Nack`]) retransmits while the multicast goes on (4.4, tables 4.4 to 4.8);
//! version 1 ([`Repair::After`]) stores the requests and retransmits block by block once the object
//! is out (3.3.1). [`Repair::None`] asks for nothing again.
//!
//! # Where treecast goes beyond the paper
//!
//! - A receiver says End-Of-Retx-Reqs when the object is whole, has the hash of the sender's Digest and
//!   is under its final name; the paper says it as soon as nothing is left to ask for. So "done" means done.
//! - Digest goes over each connection and implies EOF, so a lost EOF does no harm. As it may overtake
//!   blocks, an end that only the connection tells is believed when the group has been quiet for a while.
//! - A receiver that joins late is sent BOF, EOF and Digest over its connection and asks for the rest.
//! - When an object's time is up, those who still wait for blocks are sent Retx-Reject, not only those who
//!   ask later: nobody waits for what will not come.
//! - What comes over the connection overrules what the group said, to which anybody can write; a sender answers
//!   requests for what is not there with the object's BOF, so that a receiver that was misled finds out.
//! - Objects in flight take turns, in the multicast and in each receiver's retransmissions.
//! - Progress reports can hold the multicast back to what receivers' buffers hold (the paper plans rates).
//! - Every set, queue and index is bounded, whatever the other side sends.

mod receiver;
mod sender;
#[cfg(test)]
mod testing;

pub use receiver::{Notification, Receiver, ReceiverConfig};
pub use sender::{Sender, SenderConfig};

/// The times at which retransmissions are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// The sender never sends anything again. An object that lacks blocks at its end has failed.
    None,
    /// The sender sends lost blocks again when the whole object has been multicast (VCMTP 1).
    After,
    /// The sender sends lost blocks again as soon as receivers ask for them (VCMTP 2).
    #[default]
    Nack,
}
