//! The 32-byte header that every packet of a treecast session starts with (VCMTP; interdomain-2013, 4.3.4,
//! figure 4.2).
//!
//! ```text
//!  0        8        16        24        32
//!  +--------+---------+---------+---------+
//!  | file   | sequence| payload | flags   |   8 bytes each, network order
//!  | id     | number  | length  |         |
//!  +--------+---------+---------+---------+
//! ```
//!
//! The lower half of the flags holds the packet's type: one bit, or two bits for the types that came when no single bit was free. The
//! upper half is treecast's packet number. It counts all packets that a sender sends to its group, so that receivers can tell how many
//! were lost and when. It is 0 on control connections.

use std::fmt;

use crate::{ParseError, field::Reader, listed};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 32;

/// The longest payload of a packet, in bytes. It fits a UDP datagram over IPv4 behind the header. Blocks on
/// control connections have the same limit.
pub const MAX_PAYLOAD_LEN: usize = 65_507 - HEADER_LEN;

/// The number of an object. Its upper half is the session's number, so that packets of another session on the
/// same group and port are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u64);

impl FileId {
    /// The id of the `index`-th object of `session`.
    pub fn new(session: SessionId, index: u32) -> Self {
        Self(u64::from(session.0) << 32 | u64::from(index))
    }

    /// The session that this id belongs to.
    pub fn session(self) -> SessionId {
        SessionId((self.0 >> 32) as u32)
    }

    /// The object's index in its session.
    pub fn index(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}/{}", self.session().0, self.index())
    }
}

/// A random number that identifies a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u32);

listed! {
    /// The type of a packet. All 32 single bits of the header's flags are taken, so a new type is a pair of bits that no other type has.
    ///
    /// The first eight are VCMTP's, in the order in which the paper lists them (4.3.4); the paper gives
    /// no bit numbers, so bit 0 is its first. The others are treecast's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u64)]
    pub enum PacketType {
        /// A block of an object, for the whole group.
        Data = 1 << 0,
        /// A block sent again to one receiver.
        RetransmittedData = 1 << 1,
        BeginOfFile = 1 << 2,
        EndOfFile = 1 << 3,
        BeginOfFileRequest = 1 << 4,
        RetransmissionRequest = 1 << 5,
        EndOfRetransmissionRequests = 1 << 6,
        RetransmissionReject = 1 << 7,
        /// Receiver to sender, the first message on a control connection: the receiver's name and properties, with
        /// which it asks to be admitted.
        Hello = 1 << 8,
        /// Sender to receiver: the receiver is admitted.
        Welcome = 1 << 9,
        /// Sender to receiver: the BLAKE3 hash of an object that has been read to its end.
        Digest = 1 << 10,
        /// Receiver to sender: how much the receiver has.
        Progress = 1 << 11,
        /// Sender to receiver: an object is withdrawn, with the reason.
        Withdraw = 1 << 12,
        /// Receiver to sender: an object failed here, with the reason.
        Failed = 1 << 13,
        /// Sender to receiver: no more objects come. With a reason, the receiver is put out of the session.
        Goodbye = 1 << 14,
        /// Sender to group: the number of objects in a carousel's loop.
        Contents = 1 << 15,
        /// Sender to receiver, encrypted: the key of packets to the group.
        GroupKey = 1 << 16,
        /// Receiver to sender: asks for the hashes of an object's chunks, because its copy is wrong somewhere.
        ChunkHashesRequest = 1 << 17,
        /// Sender to receiver, or to the group of a carousel: the hashes of some chunks of an object.
        ChunkHashes = 1 << 18,
        /// Sender to group, in a secure carousel: Contents, Withdraw or Goodbye with the sender's signature.
        Signed = 1 << 28,
        /// Sender to group: the sender's rate, and the receiver that limits it.
        Pace = 1 << 19,
        /// Receiver to sender: the rate that the path to it can take.
        PaceReport = 1 << 20,
        /// Receiver to sender: the receiver does not want an object.
        NotWanted = 1 << 24,
        /// A repair symbol of an object with forward error correction. Its sequence number contains the source
        /// block and the number of the symbol (`treecast_proto::fec`).
        RepairSymbol = 1 << 21,
        /// Receiver to sender: the number of symbols that source blocks lack at the receiver.
        SymbolRequest = 1 << 22,
        /// Receiver to sender, before the receiver moves to a slower group: the bytes of an object that it has not
        /// heard.
        Lacking = 1 << 25,
        /// Receiver to sender: the receiver now listens to another of the session's groups. Sender to receiver: the
        /// receiver must go back to that group and stay there.
        Move = 1 << 26,
        /// Sender to group: all repair symbols of a source block up to a number have been sent.
        SymbolsSent = 1 << 27,
        /// Receiver to sender: how many of the sender's packets came at the receiver's own address, and how many at
        /// the group's.
        Heard = 1 << 29,
        /// Receiver to sender: the receiver wants only some objects, and asks which objects there will be.
        NamesRequest = 1 << 30,
        /// Sender to receiver: the announcement of an object that has not begun.
        Offer = 1 << 23,
        /// Between members of local groups, and the sender: its first octet says what it is
        /// ([`crate::message::Local`]).
        Local = 1 << 31,
        /// A run of blocks whose bytes are all zero, in place of the blocks: for the whole group, or sent again to one
        /// receiver.
        Zeros = 1 << 0 | 1 << 1,
        /// Receiver to sender, the first message on a control connection of its own: how the command went that a standing
        /// receiver has run.
        CommandResult = 1 << 0 | 1 << 2,
        /// A part of a BeginOfFile that is too long for one packet to the group.
        BeginOfFilePart = 1 << 1 | 1 << 2,
    }
}

impl PacketType {
    /// Whether the payload is a block of an object, or a repair symbol, which is as long as a block.
    pub fn is_block(self) -> bool {
        matches!(self, Self::Data | Self::RetransmittedData | Self::RepairSymbol)
    }

    fn from_flags(flags: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == flags)
    }
}

/// The header of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub file_id: FileId,
    /// Position of the payload's first byte in the object, or in the sequence of all its repair symbols, in
    /// bytes. 0 in control messages.
    pub sequence: u64,
    /// Length of the payload that follows, in bytes; at most [`MAX_PAYLOAD_LEN`].
    pub payload_len: u32,
    pub kind: PacketType,
    /// Counts the packets that the sender has sent to the group, modulo 2^32; 0 on a control connection. In a session whose copies have
    /// lanes, the two highest bits are the lane, and the others count its packets.
    pub number: u32,
}

impl Header {
    /// Creates the header of a packet that is not counted: one on a control connection, or one whose number comes later.
    pub fn new(kind: PacketType, file_id: FileId, sequence: u64, payload_len: u32) -> Self {
        Self { file_id, sequence, payload_len, kind, number: 0 }
    }

    /// Parses the header at the start of `bytes`, and ignores what follows.
    ///
    /// # Errors
    /// If there are fewer than 32 bytes, the payload is longer than a packet can carry, a block would end
    /// beyond 2^64 bytes, or the lower half of the flags is no known type.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let file_id = FileId(reader.u64("file id")?);
        let sequence = reader.u64("sequence number")?;
        let payload_len = reader.u64("payload length")?;
        let flags = reader.u64("flags")?;
        if payload_len > MAX_PAYLOAD_LEN as u64 {
            return Err(ParseError::invalid("payload length", payload_len, "at most 65475"));
        }
        if sequence.checked_add(payload_len).is_none() {
            return Err(ParseError::invalid("sequence number", sequence, "an end below 2^64"));
        }
        let (number, kind) = ((flags >> 32) as u32, flags & u64::from(u32::MAX));
        let kind = PacketType::from_flags(kind)
            .ok_or_else(|| ParseError::invalid("flags", format!("{kind:#x}"), "the bit of a known type"))?;
        Ok(Self { file_id, sequence, payload_len: payload_len as u32, kind, number })
    }

    /// The header's bytes on the wire.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(&self.file_id.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..24].copy_from_slice(&u64::from(self.payload_len).to_be_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_be_bytes());
        bytes[28..32].copy_from_slice(&(self.kind as u32).to_be_bytes());
        bytes
    }
}

/// The bits of a packet number that count, where the two above them are the number of a lane.
const LANE_COUNT: u32 = u32::MAX >> LANE_BITS;
const LANE_BITS: u32 = 2;

/// The most lanes of a session without groups for them: receivers hear all lanes at one address.
pub const MAX_LANES: u8 = 1 << LANE_BITS;

/// The counter of the packets to one group, or of one lane.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketNumbers {
    next: u32,
    is_of_lane: bool,
}

impl PacketNumbers {
    /// Creates the counter of a lane. Receivers tell lanes apart by the two highest bits of packet numbers.
    pub fn of_lane(lane: u8) -> Self {
        Self { next: u32::from(lane) << LANE_COUNT.count_ones(), is_of_lane: true }
    }

    /// Takes the numbers of the next `count` packets. Returns the first one. No run of numbers leaves its lane.
    pub fn take(&mut self, count: u32) -> u32 {
        let lane = self.next & !LANE_COUNT;
        if self.is_of_lane && (self.next & LANE_COUNT).saturating_add(count) > LANE_COUNT {
            self.next = lane;
        }
        let first = self.next;
        self.next = first.wrapping_add(count);
        first
    }
}

/// Returns the lane of a packet with this number, where packets are of lanes.
pub fn lane_of(number: u32) -> u8 {
    (number >> LANE_COUNT.count_ones()) as u8
}

/// The packet numbers of one lane, which a receiver counts on without the lane's bits.
#[derive(Debug, Clone, Copy)]
pub struct LaneNumbers {
    lane: u8,
    last: u32,
}

impl LaneNumbers {
    pub fn new(lane: u8) -> Self {
        Self { lane, last: PacketNumbers::of_lane(lane).next }
    }

    /// Returns the number modulo 2^32 of a packet whose number counts modulo 2^30. `None` if the packet is another lane's.
    pub fn count_on(&mut self, number: u32) -> Option<u32> {
        if lane_of(number) != self.lane {
            return None;
        }
        let step = (number.wrapping_sub(self.last) << LANE_BITS).cast_signed() >> LANE_BITS;
        self.last = self.last.wrapping_add_signed(step);
        Some(self.last)
    }

    /// Returns the number on the wire of a packet that was counted so.
    pub fn on_wire(&self, counted: u32) -> u32 {
        PacketNumbers::of_lane(self.lane).next | counted & LANE_COUNT
    }
}

/// Returns the number of a packet. `None` if it is too short for a header.
pub fn number(packet: &[u8]) -> Option<u32> {
    packet.first_chunk::<HEADER_LEN>()?[24..].first_chunk().map(|field| u32::from_be_bytes(*field))
}

/// Sets the number of a packet that was made without one. Bytes that are too short for a header stay as they
/// are.
pub fn set_number(packet: &mut [u8], number: u32) {
    if let Some(field) = packet.get_mut(24..28) {
        field.copy_from_slice(&number.to_be_bytes());
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} file={} seq={} len={}", self.kind, self.file_id, self.sequence, self.payload_len)?;
        if self.number != 0 { write!(f, " number={}", self.number) } else { Ok(()) }
    }
}
