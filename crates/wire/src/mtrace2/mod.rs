//! Mtrace2, the traceroute of multicast (RFC 8487): who forwards a group's packets between a source and a
//! receiver, from the receiver backwards.
//!
//! A message is one UDP datagram to port 33435, or to the client's own port. It is a sequence of TLVs:
//!
//! ```text
//!  +---------+-------------+-----------
//!  | type(8) | length(16)  | value ...      the length counts type and length, too
//!  +---------+-------------+-----------
//! ```
//!
//! The first TLV is the header ([`Header`]). Its type says whether the message is a query, a request or a reply.
//! Response blocks follow it, one of each router on the way ([`StandardBlock`]), or extended queries.
//!
//! A message is of one address family. The length of its first TLV says which.

mod block;
mod code;
mod header;

use std::fmt;

use crate::{
    ParseError,
    field::{Field, Reader},
};

pub use block::{Interfaces, StandardBlock};
pub use code::ForwardingCode;
pub use header::Header;

/// The UDP port of routers (RFC 8487, section 8.4).
pub const PORT: u16 = 33435;

/// The kind of a message, which is the type of its first TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// From a client to the router at the last hop before it.
    Query = 1,
    /// From router to router, towards the source.
    Request = 2,
    /// From the last router to the client.
    Reply = 3,
}

const STANDARD: u8 = 4;
const AUGMENTED: u8 = 5;
const EXTENDED_QUERY: u8 = 6;

/// The length of a TLV's type and length, in bytes.
const HEAD_LEN: usize = 3;

/// The type of the Augmented Response Block with the number of blocks that were returned already.
const RETURNED: u16 = 1;

/// A message of Mtrace2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    pub header: Header,
    pub blocks: Vec<Block>,
}

/// A TLV behind the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Standard(StandardBlock),
    /// An Augmented Response Block of type 1: the number of standard blocks that routers have sent to the client
    /// already, because the message had no room for more (RFC 8487, section 3.2.6).
    Returned(u16),
    /// An Augmented Response Block of another type.
    Augmented {
        kind: u16,
        value: Vec<u8>,
    },
    /// An Extended Query Block (RFC 8487, section 3.2.7). A router that does not know a type without
    /// `is_transitive` has to refuse the query.
    ExtendedQuery {
        is_transitive: bool,
        kind: u16,
        value: Vec<u8>,
    },
}

impl Message {
    /// Parses the payload of a datagram. A TLV that is cut short, and what follows it, is ignored (RFC 8487,
    /// section 3.1).
    ///
    /// # Errors
    /// If the header is not valid, or a TLV has an unknown type or a wrong length.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let (kind, value) = read_tlv(&mut reader)?;
        let kind = match kind {
            1 => Kind::Query,
            2 => Kind::Request,
            3 => Kind::Reply,
            other => return Err(ParseError::invalid("type of the first TLV", other, "1, 2 or 3")),
        };
        let header = Header::parse(value)?;
        let mut blocks = Vec::new();
        while let Ok((kind, value)) = read_tlv(&mut reader) {
            blocks.push(Block::parse(kind, value, header.client().is_ipv4())?);
        }
        Ok(Self { kind, header, blocks })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        emit_tlv(self.kind as u8, &mut bytes, |out| self.header.emit(out));
        self.blocks.iter().for_each(|block| block.emit(&mut bytes));
        bytes
    }

    /// The length on the wire in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.header.tlv_len() + self.blocks.iter().map(Block::len).sum::<usize>()
    }

    /// The standard blocks, the one of the router next to the client first.
    pub fn standard(&self) -> impl Iterator<Item = &StandardBlock> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Standard(block) => Some(block),
            _ => None,
        })
    }

    /// The number of standard blocks that have been returned to the client before this message.
    pub fn returned(&self) -> usize {
        let returned = self.blocks.iter().map(|block| match block {
            Block::Returned(count) => usize::from(*count),
            _ => 0,
        });
        returned.sum()
    }
}

impl Block {
    fn parse(kind: u8, value: &[u8], is_ipv4: bool) -> Result<Self, ParseError> {
        let mut reader = Reader::new(value);
        let flags = reader.u8("flags of a block")?;
        match kind {
            STANDARD => StandardBlock::parse(reader, is_ipv4).map(Self::Standard),
            AUGMENTED => match (reader.u16("augmented response type")?, reader.rest()) {
                (RETURNED, value) => match value.try_into() {
                    Ok(count) => Ok(Self::Returned(u16::from_be_bytes(count))),
                    Err(_) => Err(ParseError::invalid("returned blocks", value.len(), "2 bytes")),
                },
                (kind, value) => Ok(Self::Augmented { kind, value: value.to_vec() }),
            },
            EXTENDED_QUERY => {
                let kind = reader.u16("extended query type")?;
                Ok(Self::ExtendedQuery { is_transitive: flags & 1 == 1, kind, value: reader.rest().to_vec() })
            }
            other => Err(ParseError::invalid("type of a TLV", other, "4, 5 or 6")),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let with_kind = |out: &mut Vec<u8>, flags: u8, kind: u16, value: &[u8]| {
            out.push(flags);
            kind.emit(out);
            out.extend_from_slice(value);
        };
        match self {
            Self::Standard(block) => emit_tlv(STANDARD, out, |out| block.emit(out)),
            Self::Returned(count) => {
                emit_tlv(AUGMENTED, out, |out| with_kind(out, 0, RETURNED, &count.to_be_bytes()));
            }
            Self::Augmented { kind, value } => {
                emit_tlv(AUGMENTED, out, |out| with_kind(out, 0, *kind, value));
            }
            Self::ExtendedQuery { is_transitive, kind, value } => emit_tlv(EXTENDED_QUERY, out, |out| {
                with_kind(out, u8::from(*is_transitive), *kind, value);
            }),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Standard(block) => block.tlv_len(),
            Self::Returned(_) => HEAD_LEN + 5,
            Self::Augmented { value, .. } | Self::ExtendedQuery { value, .. } => HEAD_LEN + 3 + value.len(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mtrace2 {:?} {}", self.kind, self.header)?;
        self.blocks.iter().try_for_each(|block| match block {
            Block::Standard(block) => write!(f, "\n  {block}"),
            Block::Returned(count) => write!(f, "\n  returned={count}"),
            Block::Augmented { kind, value } => write!(f, "\n  augmented={kind} {value:02x?}"),
            Block::ExtendedQuery { is_transitive, kind, value } => {
                write!(f, "\n  extended-query={kind} transitive={is_transitive} {value:02x?}")
            }
        })
    }
}

/// Reads the next TLV: its type and its value.
fn read_tlv<'a>(reader: &mut Reader<'a>) -> Result<(u8, &'a [u8]), ParseError> {
    let kind = reader.u8("type of a TLV")?;
    let len = usize::from(reader.u16("length of a TLV")?);
    let len = len.checked_sub(HEAD_LEN).filter(|len| *len > 0);
    let len = len.ok_or_else(|| ParseError::invalid("length of a TLV", "less", "4 or more"))?;
    Ok((kind, reader.take("value of a TLV", len)?))
}

/// Appends a TLV whose value `emit` writes.
fn emit_tlv(kind: u8, out: &mut Vec<u8>, emit: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0]);
    emit(out);
    // No value is longer than a datagram: those of other types come from one.
    let len = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
    out[start + 1..start + HEAD_LEN].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Message {
        let [group, source, client] = [[239, 1, 2, 3], [192, 0, 2, 1], [198, 51, 100, 7]].map(Into::into);
        let header = Header::new(32, Some(group), Some(source), client, 7, 4000).expect("a good header");
        Message { kind: Kind::Query, header, blocks: Vec::new() }
    }

    #[test]
    fn what_is_cut_short_behind_the_header_is_left_out() {
        let mut message = query();
        message.blocks = vec![Block::Returned(3), Block::Augmented { kind: 9, value: vec![1, 2] }];
        let bytes = message.to_bytes();
        for len in message.header.tlv_len()..bytes.len() {
            let parsed = Message::parse(&bytes[..len]).expect("the header is whole");
            let whole = usize::from(len >= message.header.tlv_len() + 8);
            assert_eq!(parsed.blocks, message.blocks[..whole], "{len}");
        }
        assert!(Message::parse(&bytes[..message.header.tlv_len() - 1]).is_err());
    }

    #[test]
    fn unknown_types_and_lengths_are_refused() {
        let bytes = query().to_bytes();
        let error = |at: usize, value: u8| {
            let mut changed = bytes.clone();
            changed[at] = value;
            Message::parse(&changed).expect_err("it is not valid").to_string()
        };
        assert_eq!(error(0, 4), "type of the first TLV: 4 found, expected 1, 2 or 3");
        assert_eq!(error(2, 3), "length of a TLV: less found, expected 4 or more");
        assert_eq!(error(2, 19), "length of a query: 19 found, expected 20 (IPv4) or 56 (IPv6)");
        let with =
            |tlv: &[u8]| Message::parse(&[&bytes[..], tlv].concat()).map(drop).map_err(|e| e.to_string());
        assert_eq!(with(&[7, 0, 4, 0]), Err("type of a TLV: 7 found, expected 4, 5 or 6".to_owned()));
        assert_eq!(
            with(&[5, 0, 7, 0, 0, 1, 9]),
            Err("returned blocks: 1 found, expected 2 bytes".to_owned())
        );
        assert_eq!(
            with(&[4, 0, 5, 0, 0]),
            Err("length of a response block: 5 found, expected 52 (IPv4) or 80 (IPv6)".to_owned())
        );
    }
}
