//! Control messages: the payloads of packets that carry no block (VCMTP; interdomain-2013, 4.3.3, 4.3.4 and
//! table 4.1). The first eight types are VCMTP's, the others treecast's. A [`Header`] precedes each message.
//!
//! A packet is [`HEADER_LEN`] bytes and the body, whose length is the header's `payload_len`. A body of fixed
//! fields has exactly its type's `LEN` bytes ([`Pace::LEN`], for example). A message without body has 0.
//! docs/protocol.md gives the lengths of the other bodies.

mod begin_of_file;
mod begin_part;
mod block_hashes;
mod chunk_hashes;
mod command_result;
mod contents;
mod digest;
mod group_key;
mod heard;
mod hello;
mod lacking;
mod local;
mod local_member;
mod local_report;
mod local_request;
mod local_seat;
mod local_state;
mod move_to;
mod pace;
mod pace_report;
mod probe;
mod progress;
mod put_out;
mod reason;
mod retransmission_request;
mod signed;
mod symbol_request;
mod symbols_sent;
mod welcome;
mod zeros;

pub use begin_of_file::{
    Attributes, BeginOfFile, MAX_FILE_NAME_LEN, MODE_BITS, ModificationTime, ObjectKind, TransferType,
};
pub use begin_part::BeginOfFilePart;
pub use block_hashes::{BlockHash, BlockHashes, MAX_BLOCK_HASHES};
pub use chunk_hashes::{ChunkHashes, ChunkHashesRequest, MAX_PAGES, MAX_PROOF, PAGE_CHUNKS};
pub use command_result::CommandResult;
pub use contents::{Contents, MAX_OBJECTS};
pub use digest::{Digest, Place, SIGNATURE_LEN, batch_bytes, manifest_bytes};
pub use group_key::GroupKey;
pub use heard::Heard;
pub use hello::{Hello, MAX_RECEIVER_NAME_LEN, MEMBER_LEN, Role};
pub use lacking::Lacking;
pub use local::Local;
pub use local_member::{GroupId, Member};
pub use local_report::{LocalObject, LocalReport, MAX_LOCAL_OBJECTS, MAX_LOCAL_RANGES};
pub use local_request::{LocalRequest, MAX_LOCAL_REQUESTED};
pub use local_seat::{LocalJoin, LocalSplit, MAX_LOCAL_MEMBERS};
pub use local_state::{LocalFlags, LocalState, MAX_LOCAL_CHILDREN, MAX_LOCAL_ROSTER};
pub use move_to::Move;
pub use pace::{Pace, Phase};
pub use pace_report::PaceReport;
pub use probe::{Probe, ProbeProof};
pub use progress::Progress;
pub use put_out::{PutOut, PutOutCode};
pub use reason::{MAX_REASON_LEN, Reason};
pub use retransmission_request::RetransmissionRequest;
pub use signed::{Signed, SignedWord};
pub use symbol_request::{Lack, MAX_LACKS, SymbolRequest};
pub use symbols_sent::SymbolsSent;
pub use welcome::{FEED_STEP, Welcome};
pub use zeros::{MAX_ZEROS_LEN, Zeros};

use std::fmt;

use crate::{
    ParseError,
    header::{FileId, HEADER_LEN, Header, PacketType},
};

/// The version of the session protocol that [`Hello`] and [`Welcome`] carry. A new type of message needs a higher one: whoever does not
/// know a type ends the connection.
pub const PROTOCOL_VERSION: u8 = 9;

/// Declares [`Message`], and what is the same for each type: `Type(Body)` has a body, a type alone has none. A message has the
/// packet type of its name, [`Message::PutOut`] apart: a Goodbye with a body.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($body:ident)),+ ; $($empty:ident),+ $(,)?) => {
        /// A control message, without the header's file id.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Message {
            $($(#[$doc])* $name($body),)+
            /// A Goodbye to one receiver, with the reason.
            PutOut(PutOut),
            $($empty,)+
        }

        impl Message {
            /// The packet type of this message.
            pub fn packet_type(&self) -> PacketType {
                match self {
                    $(Self::$name(_) => PacketType::$name,)+
                    Self::PutOut(_) => PacketType::Goodbye,
                    $(Self::$empty => PacketType::$empty,)+
                }
            }

            fn parse_payload(kind: PacketType, payload: &[u8]) -> Result<Self, ParseError> {
                Ok(match kind {
                    PacketType::Data | PacketType::RetransmittedData | PacketType::RepairSymbol => {
                        return Err(ParseError::invalid("flags", kind as u64, "a control message"));
                    }
                    $(PacketType::$name => Self::$name($body::parse(payload)?),)+
                    PacketType::Goodbye if !payload.is_empty() => Self::PutOut(PutOut::parse(payload)?),
                    $(PacketType::$empty => empty(payload, Self::$empty)?,)+
                })
            }

            fn emit(&self, packet: &mut Vec<u8>) {
                match self {
                    $(Self::$name(body) => body.emit(packet),)+
                    Self::PutOut(body) => body.emit(packet),
                    $(Self::$empty => {})+
                }
            }
        }

        impl fmt::Display for Message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.packet_type())?;
                match self {
                    $(Self::$name(body) => write!(f, " {body}"),)+
                    Self::PutOut(body) => write!(f, " {body}"),
                    $(Self::$empty => Ok(()),)+
                }
            }
        }
    };
}

messages! {
    BeginOfFile(BeginOfFile),
    RetransmissionRequest(RetransmissionRequest),
    Hello(Hello),
    Welcome(Welcome),
    Digest(Digest),
    Progress(Progress),
    Withdraw(Reason),
    Failed(Reason),
    Contents(Contents),
    GroupKey(GroupKey),
    ChunkHashesRequest(ChunkHashesRequest),
    ChunkHashes(ChunkHashes),
    Signed(Signed),
    Pace(Pace),
    PaceReport(PaceReport),
    SymbolRequest(SymbolRequest),
    SymbolsSent(SymbolsSent),
    /// Ranges of bytes that the sender must send to a slower group, or that a receiver of a carousel lacks.
    Lacking(Lacking),
    Move(Move),
    Heard(Heard),
    /// The announcement of an object that has not begun.
    Offer(BeginOfFile),
    /// What members of local groups say.
    Local(Local),
    /// A run of blocks that are all zero.
    Zeros(Zeros),
    CommandResult(CommandResult),
    /// A part of an announcement that is too long for one packet to the group.
    BeginOfFilePart(BeginOfFilePart);
    EndOfFile,
    BeginOfFileRequest,
    EndOfRetransmissionRequests,
    RetransmissionReject,
    Goodbye,
    NotWanted,
    NamesRequest,
}

impl Message {
    /// Parses the payload of a packet whose header was read before.
    ///
    /// # Errors
    /// If the length of `payload` differs from the header's, the packet carries a block, or a field of the
    /// message is wrong.
    pub fn parse(header: &Header, payload: &[u8]) -> Result<Self, ParseError> {
        if payload.len() != header.payload_len as usize {
            return Err(ParseError::invalid(
                "payload length",
                header.payload_len,
                "the length of what follows the header",
            ));
        }
        Self::parse_payload(header.kind, payload)
    }

    /// The packets that carry this message to the group, where a payload may have `room` bytes: several for an announcement
    /// that is longer, and one for any other message.
    pub fn to_packets(&self, file_id: FileId, room: usize) -> Vec<Vec<u8>> {
        match self {
            Self::BeginOfFile(begin) if begin.len() > room => {
                let parts = BeginOfFilePart::cut(begin, room).map(Self::BeginOfFilePart);
                parts.map(|part| part.to_packet(file_id)).collect()
            }
            _ => vec![self.to_packet(file_id)],
        }
    }

    /// The whole packet about the object `file_id`: the header, and a body of the header's `payload_len` bytes.
    pub fn to_packet(&self, file_id: FileId) -> Vec<u8> {
        let mut packet = vec![0; HEADER_LEN];
        self.emit(&mut packet);
        let payload_len = (packet.len() - HEADER_LEN) as u32;
        let header = Header { file_id, sequence: 0, payload_len, kind: self.packet_type(), number: 0 };
        packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        packet
    }
}

fn empty(payload: &[u8], message: Message) -> Result<Message, ParseError> {
    match payload.len() {
        0 => Ok(message),
        n => Err(ParseError::invalid("payload length", n, "0 for this type")),
    }
}
