//! The Internet Group Management Protocol for IPv4: version 3 (RFC 9776), the messages of versions 1
//! and 2 that its speakers must accept (RFC 1112, RFC 2236), and multicast router discovery (RFC 4286).
//!
//! The checksum covers the whole IP payload and nothing else; kernels hand IGMP to raw sockets
//! unchecked, so [`Message::parse`] checks it and [`Message::to_bytes`] fills it in.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use crate::{
    ParseError,
    field::Reader,
    membership::{self, Address, Protocol, SHORT_MANTISSA_BITS, internet_checksum},
};

pub type Query = membership::Query<Ipv4Addr>;
pub type Report = membership::Report<Ipv4Addr>;
pub type GroupRecord = membership::GroupRecord<Ipv4Addr>;

/// The destination of version 3 reports: all IGMPv3-capable routers.
pub const REPORT_DESTINATION: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// The destination of general queries.
pub const ALL_NODES: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The destination of version 2 leaves and of router solicitations.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The destination of router advertisements and terminations.
pub const ALL_SNOOPERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 106);

/// An IGMP message.
pub type Message = membership::Message<Ipv4Addr>;

const PROTOCOL: Protocol = Protocol {
    name: "IGMP",
    version: 3,
    leave: "leave",
    query: 0x11,
    report: 0x22,
    old_report: 0x16,
    old_leave: 0x17,
    v1_report: Some(0x12),
    router_advertisement: 0x30,
    router_solicitation: 0x31,
    router_termination: 0x32,
};

impl Address for Ipv4Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;
    const HEAD_LEN: usize = 4;
    const RESPONSE_UNIT: Duration = Duration::from_millis(100);
    const LARGEST_CODE: u16 = u8::MAX as u16;
    const RESPONSE_MANTISSA_BITS: u32 = SHORT_MANTISSA_BITS;
    const PROTOCOL: Protocol = PROTOCOL;
    const ALL_NODES: Self = ALL_NODES;
    const ALL_ROUTERS: Self = ALL_ROUTERS;
    const ALL_SNOOPERS: Self = ALL_SNOOPERS;
    const REPORT_DESTINATION: Self = REPORT_DESTINATION;

    fn from_ip(address: IpAddr) -> Option<Self> {
        if let IpAddr::V4(address) = address { Some(address) } else { None }
    }
}

impl Message {
    /// Parses the payload of an IP packet, its checksum included.
    ///
    /// # Errors
    /// If the checksum is wrong, the type is unknown, or bytes are missing. A query is of version 1 or 2 if it
    /// is 8 bytes long, and of version 3 if it has 12 bytes or more (RFC 9776, section 7.1).
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("IGMP type")?;
        reader.take("IGMP code and checksum", 3)?;
        let remainder = internet_checksum(bytes);
        if remainder != 0 {
            let found = format!("a remainder of {remainder:#06x}");
            return Err(ParseError::invalid("IGMP checksum", found, "0"));
        }
        Self::read(kind, bytes)?.ok_or_else(|| {
            let expected = "0x11, 0x12, 0x16, 0x17, 0x22 or 0x30 to 0x32";
            ParseError::invalid("IGMP type", format!("{kind:#04x}"), expected)
        })
    }

    /// The message with its checksum, in as many bytes as [`membership::Message`] says.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.emit();
        let checksum = internet_checksum(&out);
        out[2..4].copy_from_slice(&checksum.to_be_bytes());
        out
    }
}
