//! The sender: multicast sender, coordinator and one retransmitter a receiver
//! (interdomain-2013, 4.4, tables 4.2 and 4.4 to 4.6).

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::{FileId, PacketType, SessionId},
    message::{BeginOfFile, Message},
};

use super::Repair;
use crate::{Instant, Step};

/// One receiver's control connection, by the number that the caller gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId(pub u32);

/// A place where sending can block on its own, and is polled on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The group's socket. All events come out here, too.
    Group,
    /// A receiver's control connection.
    Receiver(ReceiverId),
}

#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub session: SessionId,
    pub repair: Repair,
    /// Bytes of an object in each packet but the last.
    pub block_len: u16,
    /// The most bytes of an object that one [`SenderTransmit::Blocks`] covers (a super-packet's worth).
    pub max_run_len: u32,
    /// The time for retransmissions after an object's last block, as a multiple of the time that its
    /// multicast took (4.1); none waits for ever.
    pub retransmission_timeout_factor: Option<f64>,
    /// The retransmission time is never shorter than this.
    pub minimum_retransmission_time: Duration,
    /// Whether to stay within what the receivers' buffers hold, by their Progress reports; without it
    /// the caller paces by rate alone.
    pub follow_progress: bool,
    /// A receiver that has reported nothing for this long while others have is no longer followed.
    pub patience: Duration,
}

/// Something that has happened at the sender.
#[derive(Debug, Clone)]
pub enum SenderInput {
    /// A receiver's connection is there and its Hello has been read
    /// (INL_Unicast_Connection_Created). `receive_buffer_bytes` is from the Hello.
    Joined { receiver: ReceiverId, receive_buffer_bytes: u32 },
    /// A receiver's connection is gone (INL_Unicast_Connection_Closed).
    Left { receiver: ReceiverId, reason: String },
    /// A message came on a receiver's connection.
    Message { from: ReceiverId, file: FileId, message: Message },
    /// The caller has read the object to its end, and this is its BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// The object can no longer be read as it was announced.
    Withdraw { file: FileId, reason: String },
    /// No more objects will come: finish those that are under way, say Goodbye, close
    /// (API_Close_Sender).
    Close,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Group,
    Receiver(ReceiverId),
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderTransmit {
    /// Send one control message.
    Message { to: Destination, file: FileId, message: Message },
    /// Read these bytes of the object and send them as packets of `block_len` bytes each.
    /// `kind` is `Data` or `RetransmittedData`.
    Blocks { to: Destination, kind: PacketType, file: FileId, range: Range<u64> },
    /// Close this receiver's connection when all before is written.
    CloseConnection(ReceiverId),
}

/// How an object ended at one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Complete,
    Failed(String),
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// One receiver has ended with an object.
    ReceiverDone { file: FileId, receiver: ReceiverId, outcome: Outcome },
    /// API_File_Done: every receiver has ended with the object, or its time is up. The caller may
    /// let go of the object.
    FileDone { file: FileId, outcomes: Vec<(ReceiverId, Outcome)> },
    /// All is done and every connection is closed.
    Closed,
}

/// What the sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderWait {
    /// Objects to send.
    Objects,
    /// The receivers' reports: the slowest one's buffer is full.
    Credit,
    /// The hash of an object that is out.
    Hash,
    /// Requests, or the word that there are none, from receivers.
    Receivers,
    /// Nothing: it is closed.
    Closed,
}

/// One session's sender. Call order: see the crate's documentation; poll each [`Lane`] on its own.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
}

impl Sender {
    pub fn new(config: SenderConfig) -> Self {
        Self { config }
    }

    /// API_Send: queues an object and returns its number.
    pub fn send(&mut self, _now: Instant, _begin: BeginOfFile) -> FileId {
        todo!()
    }

    pub fn handle(&mut self, _now: Instant, _input: SenderInput) {
        todo!()
    }

    pub fn poll(&mut self, _now: Instant, _lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        todo!()
    }
}
