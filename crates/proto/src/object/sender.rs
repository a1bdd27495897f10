//! The inputs and outputs of a sender's machine.

use std::{net::SocketAddr, ops::Range, time::Duration};

use treecast_wire::{
    header::{FileId, PacketType},
    message::{Member, Message},
};

use super::Address;

/// The number of a receiver's control connection, which the caller gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReceiverId(pub u32);

impl ReceiverId {
    /// Returns the number by which messages to the group call the receiver. It is never 0, which stands for
    /// nobody.
    pub fn number(self) -> u32 {
        self.0.wrapping_add(1).max(1)
    }
}

/// A path on which the sender may have to wait to send, and which is therefore polled on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The group's socket. All events come out here, too.
    Group,
    /// The group's socket, for the packets of the slower group with this number, which has a rate of its own.
    Slower(u8),
    /// A receiver's control connection.
    Receiver(ReceiverId),
}

/// Something that has happened at the sender.
#[derive(Debug, Clone)]
pub enum SenderInput {
    /// A receiver's connection is there and its Hello has been read
    /// (INL_Unicast_Connection_Created). `receive_buffer_bytes` is from the Hello. `round_trip`
    /// is the shortest one of the connection, if its kernel tells.
    Joined { receiver: ReceiverId, receive_buffer_bytes: u32, round_trip: Option<Duration> },
    /// A receiver's connection is gone (INL_Unicast_Connection_Closed).
    Left { receiver: ReceiverId, reason: String },
    /// The multicast has not reached this receiver, and does not fill its buffer.
    Unheard { receiver: ReceiverId },
    /// A message came on a receiver's connection.
    Message { from: ReceiverId, file: FileId, message: Message },
    /// A message came by datagram from a member of the session's local groups.
    Local { from: Member, file: FileId, message: Message },
    /// The caller has read the object to its end, and this is its BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// The object can no longer be read as it was announced.
    Withdraw { file: FileId, reason: String },
    /// Whether anybody listens to this group, as far as the sender's link tells (MLD, IGMP), or receivers were named. This
    /// is for repairs without a way back.
    Listeners { group: u8, present: bool },
    /// No more objects will come: finish those that are under way, say Goodbye, close
    /// (API_Close_Sender).
    Close,
}

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The packet goes to the first group, which is the only one in most sessions.
    Group,
    /// The packet goes to the slower group with this number, counted from 1.
    Slower(u8),
    Receiver(ReceiverId),
    /// An address of a session with local groups, by datagram.
    Local(Address),
}

/// Something that the machine asks its caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderTransmit {
    /// Send one control message.
    Message { to: Destination, file: FileId, message: Message },
    /// Read these bytes of the object and send them as packets of `block_len` bytes each.
    /// `kind` is `Data` or `RetransmittedData`.
    Blocks { to: Destination, kind: PacketType, file: FileId, range: Range<u64> },
    /// Compute these repair symbols of a source block ([`crate::fec::Layout`]) and send them, a packet each.
    Symbols { to: Destination, file: FileId, source_block: u32, symbols: Range<u32> },
    /// Send these pages of the object's chunk hashes ([`super::chunks`]), a message each: one without hashes where they
    /// are not known.
    ChunkHashes { to: Destination, file: FileId, pages: Range<u32> },
    /// Close this receiver's connection when all before is written.
    CloseConnection(ReceiverId),
}

/// The way in which one receiver ended with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Complete,
    /// The receiver did not want it.
    NotWanted,
    Failed(String),
}

impl Outcome {
    /// Returns what is kept of it while others are still at the object. Receivers may fail at many objects,
    /// with long reasons.
    pub(crate) fn without_reason(&self) -> Self {
        match self {
            Self::Failed(_) => Self::Failed(String::new()),
            other => other.clone(),
        }
    }
}

/// Something that the machine tells the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// One receiver has ended with an object.
    ReceiverDone {
        file: FileId,
        receiver: ReceiverId,
        outcome: Outcome,
    },
    /// API_File_Done: every receiver has ended with the object, or its time is up. A receiver that comes later may still
    /// ask for it, unless the session is a feed; once more it is done when an object goes on that nobody was left to
    /// have. Outcomes come without reasons, which [`SenderEvent::ReceiverDone`] has told.
    FileDone {
        file: FileId,
        outcomes: Vec<(ReceiverId, Outcome)>,
    },
    /// A receiver listens to another group now, of which 0 is the first.
    Moved {
        receiver: ReceiverId,
        group: u8,
    },
    /// Every receiver for which an object was opened again has ended with it: the caller may let go of what it needed
    /// for that.
    FileClosed {
        file: FileId,
    },
    /// A receiver has stalled and is no longer served: it is to be told [`Message::PutOut`] if its connection takes it
    /// at once, and the connection to be closed, whatever is left to be written on it. It counts as having left.
    PutOut {
        receiver: ReceiverId,
        reason: String,
    },
    /// Somebody listens: the first loop begins, or goes on where it was.
    Started,
    /// A receiver of a session with local groups wants copies at this address, or none any more.
    WantsCopies {
        receiver: ReceiverId,
        at: SocketAddr,
    },
    WantsNoCopies {
        receiver: ReceiverId,
    },
    /// The sender pauses, because nobody listens any more.
    Paused,
    /// Every object has been sent this many times.
    Looped {
        loops: u64,
    },
    /// The session has ended and every connection is closed.
    Closed,
}

/// The event that the sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderWait {
    /// The machine waits for objects to send.
    Objects,
    /// The machine waits for receivers' reports, because the slowest receiver's buffer is full.
    Credit,
    /// The machine waits for the hash of an object whose blocks have all been sent.
    Hash,
    /// The machine waits for requests from receivers, or for their word that they have none.
    Receivers,
    /// The machine waits for a listener. With a deadline, the last listener has left, and the machine waits
    /// that long for another one.
    Listener,
    /// The machine waits until the next loop begins.
    Loop,
    /// The machine is closed and waits for nothing.
    Closed,
}
