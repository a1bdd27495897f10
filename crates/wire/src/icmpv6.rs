//! The errors of ICMPv6 that report that a packet of ours has not arrived (RFC 4443, sections 3.1 and 3.2).
//! Only hosts and routers send them; treecast reads them.
//!
//! ```text
//!  0      1      2          4                             8
//!  +------+------+----------+-----------------------------+------------------------------------------+
//!  | type | code | checksum | 1: unused, 2: MTU (32 bits) | the packet, as much as fits (1280 in all) |
//!  +------+------+----------+-----------------------------+------------------------------------------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader, ipv6};

/// The type of Destination Unreachable (RFC 4443, section 2.1).
pub const DESTINATION_UNREACHABLE: u8 = 1;
/// The type of Packet Too Big (RFC 4443, section 2.1).
pub const PACKET_TOO_BIG: u8 = 2;

/// An error about a packet. The receiving kernel has checked its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryError<'a> {
    pub cause: Cause,
    /// The packet that did not arrive.
    pub packet: ipv6::Header,
    /// The bytes behind the packet's IPv6 header. The end may be missing.
    pub payload: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    TooBig { mtu_bytes: u32 },
    Unreachable(Unreachable),
}

/// The codes of Destination Unreachable (RFC 4443, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unreachable {
    NoRoute,
    Prohibited,
    BeyondScope,
    Address,
    Port,
    SourcePolicy,
    RejectRoute,
    Other(u8),
}

impl<'a> DeliveryError<'a> {
    /// Parses an ICMPv6 message, from its type on. `None` if it is of another type.
    ///
    /// # Errors
    /// If it ends before the IPv6 header of the quoted packet does, or that is no IPv6 header.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, ParseError> {
        let mut reader = Reader::new(bytes);
        let (kind, code) = (reader.u8("type")?, reader.u8("code")?);
        reader.u16("checksum")?;
        let cause = match kind {
            DESTINATION_UNREACHABLE => {
                reader.u32("unused")?;
                Cause::Unreachable(Unreachable::from_code(code))
            }
            PACKET_TOO_BIG => Cause::TooBig { mtu_bytes: reader.u32("MTU")? },
            _ => return Ok(None),
        };
        let (packet, payload) = ipv6::Header::parse_start(reader.rest())?;
        Ok(Some(Self { cause, packet, payload }))
    }
}

impl Unreachable {
    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::NoRoute,
            1 => Self::Prohibited,
            2 => Self::BeyondScope,
            3 => Self::Address,
            4 => Self::Port,
            5 => Self::SourcePolicy,
            6 => Self::RejectRoute,
            code => Self::Other(code),
        }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoute => "there is no route to it",
            Self::Prohibited => "a firewall forbids it",
            Self::BeyondScope => "the sender's address is of a smaller scope",
            Self::Address => "it does not answer in its network",
            Self::Port => "nobody listens on its port",
            Self::SourcePolicy => "a filter does not like the sender's address",
            Self::RejectRoute => "a route rejects it",
            Self::Other(code) => return write!(f, "code {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn packet() -> ipv6::Header {
        let host = |network, number| Ipv6Addr::new(0xfd00, network, 0, 0, 0, 0, 0, number);
        let ip = ipv6::Header::new(host(1, 1), host(3, 2), ipv6::next_header::UDP);
        ipv6::Header { class_and_label: 7, payload_len: 1400, hop_limit: 60, ..ip }
    }

    fn message(kind: u8, code: u8, word: u32) -> Vec<u8> {
        [&[kind, code, 0xab, 0xcd][..], &word.to_be_bytes(), &packet().to_bytes(), b"its beginning"].concat()
    }

    #[test]
    fn what_is_quoted_may_lack_its_end() {
        let too_big = message(2, 0, 1300);
        let error = DeliveryError::parse(&too_big).expect("it is well-formed").expect("it is an error");
        let cause = Cause::TooBig { mtu_bytes: 1300 };
        assert_eq!(error, DeliveryError { cause, packet: packet(), payload: b"its beginning" });
        for len in 0..8 + ipv6::HEADER_LEN {
            assert!(DeliveryError::parse(&too_big[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn codes_have_a_meaning_and_other_types_none() {
        for code in 0..=255 {
            let bytes = message(1, code, 0xffff);
            let error = DeliveryError::parse(&bytes).expect("well-formed").expect("an error");
            let Cause::Unreachable(why) = error.cause else { panic!("{error:?}") };
            assert_eq!(why == Unreachable::Other(code), code > 6);
            assert!(!why.to_string().is_empty());
        }
        assert_eq!(DeliveryError::parse(&message(3, 0, 0)), Ok(None), "time exceeded");
        let mut bytes = message(1, 0, 0);
        bytes[8] = 0x45;
        assert!(DeliveryError::parse(&bytes).expect_err("IPv4").to_string().contains("version: 4 found"));
    }
}
