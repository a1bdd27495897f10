//! The receiver: data receiver and retransmission requester
//! (interdomain-2013, 4.4, tables 4.3, 4.7 and 4.8, procedures A to D).

use std::{ops::Range, time::Duration};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Message},
};

use super::Repair;
use crate::{Instant, Step};

/// How the application learns of objects (4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// It is asked about each object and answers with a [`Response`].
    PerFile,
    /// Every object goes to the folder; it is told of each that is complete.
    Batched,
}

#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    pub session: SessionId,
    pub repair: Repair,
    pub block_len: u16,
    pub notification: Notification,
    /// A Progress report goes out after so many multicast bytes, ...
    pub progress_bytes: u64,
    /// ... or so much time with something new to report.
    pub progress_interval: Duration,
}

/// What a packet came in on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The group's socket (or, with unicast fanout, the receiver's own).
    Group,
    /// The control connection.
    Control,
}

/// The application's answer (API_BOF_Response, INL_EOF_Only_Response).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    Accept,
    Ignore,
}

/// Something that has happened at the receiver.
#[derive(Debug, Clone)]
pub enum ReceiverInput {
    /// The control connection is there (INL_Unicast_Connection_Created).
    Connected,
    /// The control connection is gone (INL_Unicast_Connection_Closed).
    Disconnected { reason: String },
    /// A control message came in.
    Message { from: Channel, file: FileId, message: Message },
    /// Blocks of one object came in, without a gap between them (a super-packet is one input).
    Blocks { from: Channel, file: FileId, range: Range<u64> },
    /// The kernel's count of packets dropped so far at the group's socket.
    Dropped { total: u64 },
    /// The application has decided about an object.
    Respond { file: FileId, response: Response },
    /// Everything of the object is stored, and this is its BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// Storing failed for good (disk full, name refused).
    StoreFailed { file: FileId, reason: String },
    /// API_Close_Receiver.
    Close,
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverTransmit {
    /// Send a message on the control connection.
    Message { file: FileId, message: Message },
    /// The object's size and name are known: its file may be sized and will be called so.
    Announce { file: FileId, begin: BeginOfFile },
    /// Keep these bytes of the [`ReceiverInput::Blocks`] just handled. They are new.
    Store { file: FileId, range: Range<u64> },
    /// All bytes are stored: compute the hash and hand it back.
    Hash { file: FileId },
    /// The hash is right: give the file its final name.
    Commit { file: FileId },
    /// Throw away all that is stored of the object.
    Discard { file: FileId },
    /// Close the control connection.
    CloseConnection,
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// API_BOF_Received: decide with [`ReceiverInput::Respond`] (per-file notification only).
    Announced { file: FileId, begin: BeginOfFile },
    /// INL_EOF_Only: an object went by of which nothing was heard but its end; decide with
    /// [`ReceiverInput::Respond`] (per-file notification only; batched accepts).
    EndOfFileOnly { file: FileId },
    /// API_File_Received: complete, right and committed.
    Received { file: FileId, begin: BeginOfFile },
    /// API_File_Receive_Failed.
    Failed { file: FileId, reason: String },
    /// The session is over (Goodbye or a lost connection).
    Closed { reason: Option<String> },
}

/// What the receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverWait {
    Connection,
    /// Anything from the sender.
    Sender,
    /// The moment to report progress.
    Report,
    /// The hash of an object.
    Hash,
    Closed,
}

/// One session's receiver. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
}

impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        Self { config }
    }

    pub fn handle(&mut self, _now: Instant, _input: ReceiverInput) {
        todo!()
    }

    pub fn poll(&mut self, _now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        todo!()
    }
}
