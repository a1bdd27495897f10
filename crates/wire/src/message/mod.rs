//! Control messages: the payloads of packets that carry no block (VCMTP; interdomain-2013, 4.3.3, 4.3.4 and
//! table 4.1). The first eight types are VCMTP's, the others treecast's. A [`Header`] precedes each message.

mod begin_of_file;
mod block_hashes;
mod chunk_hashes;
mod contents;
mod digest;
mod group_key;
mod heard;
mod hello;
mod move_to;
mod pace;
mod pace_report;
mod progress;
mod put_out;
mod reason;
mod retransmission_request;
mod signed;
mod symbol_request;
mod symbols_sent;
mod welcome;

pub use begin_of_file::{
    Attributes, BeginOfFile, FILE_NAME_LEN, MODE_BITS, ModificationTime, ObjectKind, TransferType,
};
pub use block_hashes::{BlockHash, BlockHashes, MAX_BLOCK_HASHES};
pub use chunk_hashes::{ChunkHashes, ChunkHashesRequest, MAX_PAGES, MAX_PROOF, PAGE_CHUNKS};
pub use contents::{Contents, MAX_OBJECTS};
pub use digest::{Digest, Place, SIGNATURE_LEN, batch_bytes, manifest_bytes};
pub use group_key::GroupKey;
pub use heard::Heard;
pub use hello::{Hello, MAX_RECEIVER_NAME_LEN, MEMBER_LEN};
pub use move_to::Move;
pub use pace::Pace;
pub use pace_report::PaceReport;
pub use progress::Progress;
pub use put_out::{PutOut, PutOutCode};
pub use reason::{MAX_REASON_LEN, Reason};
pub use retransmission_request::RetransmissionRequest;
pub use signed::{Signed, SignedWord};
pub use symbol_request::{Lack, MAX_LACKS, SymbolRequest};
pub use symbols_sent::SymbolsSent;
pub use welcome::Welcome;

use std::fmt;

use crate::{
    ParseError,
    header::{FileId, HEADER_LEN, Header, PacketType},
};

/// The version of the session protocol that [`Hello`] and [`Welcome`] carry.
pub const PROTOCOL_VERSION: u8 = 5;

/// A control message, without the header's file id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    BeginOfFile(BeginOfFile),
    EndOfFile,
    BeginOfFileRequest,
    RetransmissionRequest(RetransmissionRequest),
    EndOfRetransmissionRequests,
    RetransmissionReject,
    Hello(Hello),
    Welcome(Welcome),
    Digest(Digest),
    Progress(Progress),
    Withdraw(Reason),
    Failed(Reason),
    Goodbye,
    /// A Goodbye to one receiver, with the reason.
    PutOut(PutOut),
    Contents(Contents),
    GroupKey(GroupKey),
    ChunkHashesRequest(ChunkHashesRequest),
    ChunkHashes(ChunkHashes),
    Signed(Signed),
    Pace(Pace),
    PaceReport(PaceReport),
    NotWanted,
    SymbolRequest(SymbolRequest),
    SymbolsSent(SymbolsSent),
    /// A range of bytes that the sender must send to a slower group.
    Lacking(RetransmissionRequest),
    Move(Move),
    Heard(Heard),
    NamesRequest,
    /// The announcement of an object that has not begun.
    Offer(BeginOfFile),
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
        Ok(match header.kind {
            PacketType::Data | PacketType::RetransmittedData | PacketType::RepairSymbol => {
                return Err(ParseError::invalid("flags", header.kind as u64, "a control message"));
            }
            PacketType::BeginOfFile => Self::BeginOfFile(BeginOfFile::parse(payload)?),
            PacketType::RetransmissionRequest => {
                Self::RetransmissionRequest(RetransmissionRequest::parse(payload)?)
            }
            PacketType::Hello => Self::Hello(Hello::parse(payload)?),
            PacketType::Welcome => Self::Welcome(Welcome::parse(payload)?),
            PacketType::Digest => Self::Digest(Digest::parse(payload)?),
            PacketType::Progress => Self::Progress(Progress::parse(payload)?),
            PacketType::Withdraw => Self::Withdraw(Reason::parse(payload)?),
            PacketType::Failed => Self::Failed(Reason::parse(payload)?),
            PacketType::Contents => Self::Contents(Contents::parse(payload)?),
            PacketType::GroupKey => Self::GroupKey(GroupKey::parse(payload)?),
            PacketType::ChunkHashesRequest => Self::ChunkHashesRequest(ChunkHashesRequest::parse(payload)?),
            PacketType::ChunkHashes => Self::ChunkHashes(ChunkHashes::parse(payload)?),
            PacketType::Signed => Self::Signed(Signed::parse(payload)?),
            PacketType::Pace => Self::Pace(Pace::parse(payload)?),
            PacketType::PaceReport => Self::PaceReport(PaceReport::parse(payload)?),
            PacketType::NotWanted => empty(payload, Self::NotWanted)?,
            PacketType::SymbolRequest => Self::SymbolRequest(SymbolRequest::parse(payload)?),
            PacketType::SymbolsSent => Self::SymbolsSent(SymbolsSent::parse(payload)?),
            PacketType::Lacking => Self::Lacking(RetransmissionRequest::parse(payload)?),
            PacketType::Move => Self::Move(Move::parse(payload)?),
            PacketType::Heard => Self::Heard(Heard::parse(payload)?),
            PacketType::NamesRequest => empty(payload, Self::NamesRequest)?,
            PacketType::Offer => Self::Offer(BeginOfFile::parse(payload)?),
            PacketType::EndOfFile => empty(payload, Self::EndOfFile)?,
            PacketType::BeginOfFileRequest => empty(payload, Self::BeginOfFileRequest)?,
            PacketType::EndOfRetransmissionRequests => empty(payload, Self::EndOfRetransmissionRequests)?,
            PacketType::RetransmissionReject => empty(payload, Self::RetransmissionReject)?,
            PacketType::Goodbye if payload.is_empty() => Self::Goodbye,
            PacketType::Goodbye => Self::PutOut(PutOut::parse(payload)?),
        })
    }

    /// The whole packet about the object `file_id`, with its header.
    pub fn to_packet(&self, file_id: FileId) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEADER_LEN + self.payload_len());
        packet.resize(HEADER_LEN, 0);
        self.emit(&mut packet);
        let payload_len = (packet.len() - HEADER_LEN) as u32;
        let header = Header { file_id, sequence: 0, payload_len, kind: self.packet_type(), number: 0 };
        packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        packet
    }

    /// The length of the payload in bytes.
    pub fn payload_len(&self) -> usize {
        match self {
            Self::BeginOfFile(_) | Self::Offer(_) => BeginOfFile::LEN,
            Self::RetransmissionRequest(_) | Self::Lacking(_) => RetransmissionRequest::LEN,
            Self::Hello(body) => body.emitted_len(),
            Self::Welcome(_) => Welcome::LEN,
            Self::Digest(body) => body.emitted_len(),
            Self::Progress(_) => Progress::LEN,
            Self::Withdraw(body) | Self::Failed(body) => body.emitted_len(),
            Self::PutOut(body) => body.emitted_len(),
            Self::Contents(_) => Contents::LEN,
            Self::GroupKey(_) => GroupKey::LEN,
            Self::ChunkHashesRequest(_) => ChunkHashesRequest::LEN,
            Self::ChunkHashes(body) => body.emitted_len(),
            Self::Signed(body) => body.emitted_len(),
            Self::Pace(_) => Pace::LEN,
            Self::PaceReport(_) => PaceReport::LEN,
            Self::SymbolRequest(body) => body.emitted_len(),
            Self::SymbolsSent(_) => SymbolsSent::LEN,
            Self::Move(_) => Move::LEN,
            Self::Heard(_) => Heard::LEN,
            Self::EndOfFile
            | Self::BeginOfFileRequest
            | Self::EndOfRetransmissionRequests
            | Self::RetransmissionReject
            | Self::NotWanted
            | Self::NamesRequest
            | Self::Goodbye => 0,
        }
    }

    fn emit(&self, packet: &mut Vec<u8>) {
        match self {
            Self::BeginOfFile(body) | Self::Offer(body) => body.emit(packet),
            Self::RetransmissionRequest(body) | Self::Lacking(body) => body.emit(packet),
            Self::Hello(body) => body.emit(packet),
            Self::Welcome(body) => body.emit(packet),
            Self::Digest(body) => body.emit(packet),
            Self::Progress(body) => body.emit(packet),
            Self::Withdraw(body) | Self::Failed(body) => body.emit(packet),
            Self::PutOut(body) => body.emit(packet),
            Self::Contents(body) => body.emit(packet),
            Self::GroupKey(body) => body.emit(packet),
            Self::ChunkHashesRequest(body) => body.emit(packet),
            Self::ChunkHashes(body) => body.emit(packet),
            Self::Signed(body) => body.emit(packet),
            Self::Pace(body) => body.emit(packet),
            Self::PaceReport(body) => body.emit(packet),
            Self::SymbolRequest(body) => body.emit(packet),
            Self::SymbolsSent(body) => body.emit(packet),
            Self::Move(body) => body.emit(packet),
            Self::Heard(body) => body.emit(packet),
            Self::EndOfFile
            | Self::BeginOfFileRequest
            | Self::EndOfRetransmissionRequests
            | Self::RetransmissionReject
            | Self::NotWanted
            | Self::NamesRequest
            | Self::Goodbye => {}
        }
    }

    /// The packet type of this message.
    pub fn packet_type(&self) -> PacketType {
        match self {
            Self::BeginOfFile(_) => PacketType::BeginOfFile,
            Self::EndOfFile => PacketType::EndOfFile,
            Self::BeginOfFileRequest => PacketType::BeginOfFileRequest,
            Self::RetransmissionRequest(_) => PacketType::RetransmissionRequest,
            Self::EndOfRetransmissionRequests => PacketType::EndOfRetransmissionRequests,
            Self::RetransmissionReject => PacketType::RetransmissionReject,
            Self::Hello(_) => PacketType::Hello,
            Self::Welcome(_) => PacketType::Welcome,
            Self::Digest(_) => PacketType::Digest,
            Self::Progress(_) => PacketType::Progress,
            Self::Withdraw(_) => PacketType::Withdraw,
            Self::Failed(_) => PacketType::Failed,
            Self::Goodbye | Self::PutOut(_) => PacketType::Goodbye,
            Self::Contents(_) => PacketType::Contents,
            Self::GroupKey(_) => PacketType::GroupKey,
            Self::ChunkHashesRequest(_) => PacketType::ChunkHashesRequest,
            Self::ChunkHashes(_) => PacketType::ChunkHashes,
            Self::Signed(_) => PacketType::Signed,
            Self::Pace(_) => PacketType::Pace,
            Self::PaceReport(_) => PacketType::PaceReport,
            Self::NotWanted => PacketType::NotWanted,
            Self::SymbolRequest(_) => PacketType::SymbolRequest,
            Self::SymbolsSent(_) => PacketType::SymbolsSent,
            Self::Lacking(_) => PacketType::Lacking,
            Self::Move(_) => PacketType::Move,
            Self::Heard(_) => PacketType::Heard,
            Self::NamesRequest => PacketType::NamesRequest,
            Self::Offer(_) => PacketType::Offer,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.packet_type())?;
        match self {
            Self::BeginOfFile(body) | Self::Offer(body) => write!(f, " {body}"),
            Self::RetransmissionRequest(body) | Self::Lacking(body) => write!(f, " {body}"),
            Self::Hello(body) => write!(f, " {body}"),
            Self::Welcome(body) => write!(f, " {body}"),
            Self::Digest(body) => write!(f, " {body}"),
            Self::Progress(body) => write!(f, " {body}"),
            Self::Withdraw(body) | Self::Failed(body) => write!(f, " {body}"),
            Self::PutOut(body) => write!(f, " {body}"),
            Self::Contents(body) => write!(f, " {body}"),
            Self::GroupKey(body) => write!(f, " {body}"),
            Self::ChunkHashesRequest(body) => write!(f, " {body}"),
            Self::ChunkHashes(body) => write!(f, " {body}"),
            Self::Signed(body) => write!(f, " {body}"),
            Self::Pace(body) => write!(f, " {body}"),
            Self::PaceReport(body) => write!(f, " {body}"),
            Self::SymbolRequest(body) => write!(f, " {body}"),
            Self::SymbolsSent(body) => write!(f, " {body}"),
            Self::Move(body) => write!(f, " {body}"),
            Self::Heard(body) => write!(f, " {body}"),
            Self::EndOfFile
            | Self::BeginOfFileRequest
            | Self::EndOfRetransmissionRequests
            | Self::RetransmissionReject
            | Self::NotWanted
            | Self::NamesRequest
            | Self::Goodbye => Ok(()),
        }
    }
}

fn empty(payload: &[u8], message: Message) -> Result<Message, ParseError> {
    match payload.len() {
        0 => Ok(message),
        n => Err(ParseError::invalid("payload length", n, "0 for this type")),
    }
}
