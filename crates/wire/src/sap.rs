//! Packets of the Session Announcement Protocol, version 1 (RFC 2974, section 6).
//!
//! ```text
//!  0       1          2              4                     4 or 16     4 × length  up to a 0
//!  +-------+----------+--------------+---------------------+-----------+--------------+---------+
//!  | flags | auth len | message hash | originating source  | auth data | payload type | payload |
//!  +-------+----------+--------------+---------------------+-----------+--------------+---------+
//! ```

use std::net::IpAddr;

use crate::{ParseError, field::Reader};

/// The UDP port of all announcements (RFC 2974, section 3).
pub const PORT: u16 = 9875;

/// The payload type of treecast's announcements.
pub const PAYLOAD_TYPE: &str = "application/x-treecast-announcement";

const VERSION: u8 = 1;
const IS_IPV6: u8 = 0x10;
const IS_DELETION: u8 = 0x04;
const IS_ENCRYPTED: u8 = 0x02;
const IS_COMPRESSED: u8 = 0x01;

/// A packet without authentication data, encryption and compression. treecast's payload is signed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Whether the session is not announced any more.
    pub is_deletion: bool,
    /// A number that changes with the payload. With the origin it tells one announcement from another.
    pub hash: u16,
    /// The address of the host that announces.
    pub origin: IpAddr,
    /// The media type of the payload. Empty stands for SDP.
    pub payload_type: &'a str,
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a datagram. Authentication data is skipped.
    ///
    /// # Errors
    /// If it is cut short, of another version, encrypted or compressed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8("flags")?;
        if flags >> 5 != VERSION {
            return Err(ParseError::invalid("version", flags >> 5, "1"));
        }
        if flags & (IS_ENCRYPTED | IS_COMPRESSED) != 0 {
            return Err(ParseError::invalid("flags", flags, "no encryption and no compression"));
        }
        let auth_len = usize::from(reader.u8("authentication length")?) * 4;
        let hash = reader.u16("message hash")?;
        let origin = match flags & IS_IPV6 {
            0 => IpAddr::from(reader.array::<4>("originating source")?),
            _ => IpAddr::from(reader.array::<16>("originating source")?),
        };
        reader.take("authentication data", auth_len)?;
        let rest = reader.rest();
        // RFC 2974, section 6: payloads of SDP may come without their type.
        let (payload_type, payload) = match rest.iter().position(|byte| *byte == 0) {
            Some(end) if !rest.starts_with(b"v=0") => (&rest[..end], &rest[end + 1..]),
            _ => (&rest[..0], rest),
        };
        let payload_type = str::from_utf8(payload_type)
            .map_err(|_| ParseError::invalid("payload type", "other bytes", "a media type"))?;
        Ok(Self { is_deletion: flags & IS_DELETION != 0, hash, origin, payload_type, payload })
    }

    /// The datagram.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let mut out = vec![
            VERSION << 5 | flag(self.origin.is_ipv6(), IS_IPV6) | flag(self.is_deletion, IS_DELETION),
            0,
        ];
        out.extend_from_slice(&self.hash.to_be_bytes());
        match self.origin {
            IpAddr::V4(origin) => out.extend_from_slice(&origin.octets()),
            IpAddr::V6(origin) => out.extend_from_slice(&origin.octets()),
        }
        if !self.payload_type.is_empty() {
            out.extend_from_slice(self.payload_type.as_bytes());
            out.push(0);
        }
        out.extend_from_slice(self.payload);
        out
    }
}
