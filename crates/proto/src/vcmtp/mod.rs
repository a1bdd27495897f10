//! VCMTP: multicast once, then mend each receiver's losses over its own reliable connection
//! (interdomain-2013, chapters 3 and 4).
//!
//! Version 2 ([`Repair::Nack`]) retransmits while the multicast goes on (4.4, tables 4.4 to 4.8);
//! version 1 ([`Repair::After`]) stores the requests and retransmits block by block once the object
//! is out (3.3.1). [`Repair::None`] asks for nothing again.

pub(crate) mod ranges;
mod receiver;
mod sender;
#[cfg(test)]
mod testing;

pub use receiver::{
    Channel, Notification, Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent, ReceiverInput,
    ReceiverTransmit, ReceiverWait, Response,
};
pub use sender::{
    Destination, Lane, Outcome, ReceiverId, ReceiverStatistics, Sender, SenderConfig, SenderEvent,
    SenderInput, SenderTransmit, SenderWait,
};

/// When retransmissions are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Never: an object with a gap at its end has failed.
    None,
    /// When the whole object has been multicast (VCMTP 1).
    After,
    /// As soon as they are asked for (VCMTP 2).
    Nack,
}
