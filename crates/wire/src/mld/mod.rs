//! Multicast Listener Discovery for IPv6: version 2 (RFC 9777), the messages of version 1 that version 2 must
//! accept (RFC 2710), and multicast router discovery (RFC 4286). All are ICMPv6 messages.
//!
//! The checksum covers addresses that are not in the message, so [`Message::parse`] does not check it. With a
//! raw ICMPv6 socket, the kernel checks the checksum of messages that come, and computes that of messages that
//! leave. Code that reads whole packets calls [`parse_packet`]; code that writes them calls [`seal`].

mod packet;

use std::{
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

pub use packet::{has_router_alert, parse_packet};

use crate::{
    ParseError,
    field::Reader,
    membership::{self, Address, LONG_MANTISSA_BITS, Protocol, fold, ones_complement_sum},
};

pub type Query = membership::Query<Ipv6Addr>;
pub type Report = membership::Report<Ipv6Addr>;
pub type GroupRecord = membership::GroupRecord<Ipv6Addr>;
/// A message of version 1.
pub type V1 = membership::Older<Ipv6Addr>;

/// The destination of version 2 reports: all MLDv2-capable routers.
pub const REPORT_DESTINATION: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The destination of general queries.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The destination of version 1's Done and of router solicitations.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The destination of router advertisements and terminations.
pub const ALL_SNOOPERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x6a);

/// ICMPv6's number as a next header, and in the pseudo header.
const NEXT_HEADER_ICMPV6: u8 = 58;

/// An MLD message, or one of multicast router discovery.
pub type Message = membership::Message<Ipv6Addr>;

const PROTOCOL: Protocol = Protocol {
    name: "MLD",
    version: 2,
    leave: "done",
    query: 130,
    report: 143,
    old_report: 131,
    old_leave: 132,
    v1_report: None,
    router_advertisement: 151,
    router_solicitation: 152,
    router_termination: 153,
};

impl Address for Ipv6Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;
    const HEAD_LEN: usize = 8;
    const RESPONSE_UNIT: Duration = Duration::from_millis(1);
    const LARGEST_CODE: u16 = u16::MAX;
    const RESPONSE_MANTISSA_BITS: u32 = LONG_MANTISSA_BITS;
    const PROTOCOL: Protocol = PROTOCOL;
    const ALL_NODES: Self = ALL_NODES;
    const ALL_ROUTERS: Self = ALL_ROUTERS;
    const ALL_SNOOPERS: Self = ALL_SNOOPERS;
    const REPORT_DESTINATION: Self = REPORT_DESTINATION;

    fn from_ip(address: IpAddr) -> Option<Self> {
        if let IpAddr::V6(address) = address { Some(address) } else { None }
    }
}

impl Message {
    /// Every ICMPv6 type that [`Self::parse`] knows.
    pub const TYPES: [u8; 7] = [
        PROTOCOL.query,
        PROTOCOL.old_report,
        PROTOCOL.old_leave,
        PROTOCOL.report,
        PROTOCOL.router_advertisement,
        PROTOCOL.router_solicitation,
        PROTOCOL.router_termination,
    ];

    /// Parses an ICMPv6 message, from its type to its end. The checksum is not checked.
    ///
    /// # Errors
    /// If the type is unknown, or bytes are missing. A query is of version 1 if it is 24 bytes long, and of
    /// version 2 if it has 28 bytes or more (RFC 9777, section 8.1).
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("ICMPv6 type")?;
        reader.take("ICMPv6 code and checksum", 3)?;
        Self::read(kind, bytes)?
            .ok_or_else(|| ParseError::invalid("ICMPv6 type", kind, "130 to 132, 143 or 151 to 153"))
    }

    /// The message with checksum 0, as a raw ICMPv6 socket expects it, in as many bytes as [`membership::Message`] says.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.emit()
    }
}

/// Writes the checksum of `message` from `source` to `destination` into its third and fourth byte. A message
/// shorter than 4 bytes stays as it is.
pub fn seal(message: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let Some(field) = message.get_mut(2..4) else { return };
    field.fill(0);
    let checksum = !checksum_sum(message, source, destination);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Checks the checksum of a received message.
///
/// # Errors
/// If it is wrong.
pub fn verify(message: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), ParseError> {
    match checksum_sum(message, source, destination) {
        0xffff => Ok(()),
        sum => Err(ParseError::invalid("ICMPv6 checksum", format!("a sum of {sum:#06x}"), "0xffff")),
    }
}

/// The sum over the pseudo header (RFC 8200, 8.1) and the message.
fn checksum_sum(message: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> u16 {
    let addresses = ones_complement_sum(&source.octets()) + ones_complement_sum(&destination.octets());
    let pseudo = addresses + message.len() as u64 + u64::from(NEXT_HEADER_ICMPV6);
    fold(pseudo + ones_complement_sum(message))
}
