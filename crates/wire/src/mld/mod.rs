//! Multicast Listener Discovery for IPv6: version 2 (RFC 9777), the messages of version 1 that version 2 must
//! accept (RFC 2710), and multicast router discovery (RFC 4286). All are ICMPv6 messages.
//!
//! The checksum covers addresses that are not in the message, so [`Message::parse`] does not check it. With a
//! raw ICMPv6 socket, the kernel checks the checksum of messages that come, and computes that of messages that
//! leave. Code that reads whole packets calls [`parse_packet`]; code that writes them calls [`seal`].

mod packet;
mod query;
mod v1;

use std::{fmt, net::Ipv6Addr};

pub use packet::{has_router_alert, parse_packet};
pub use v1::V1;

use crate::{
    ParseError,
    field::Reader,
    membership::{self, RouterAdvertisement, fold, ones_complement_sum},
};

pub type Query = membership::Query<Ipv6Addr>;
pub type Report = membership::Report<Ipv6Addr>;
pub type GroupRecord = membership::GroupRecord<Ipv6Addr>;

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

const TYPE_QUERY: u8 = 130;
const TYPE_REPORT_V1: u8 = 131;
const TYPE_DONE_V1: u8 = 132;
const TYPE_REPORT: u8 = 143;
const TYPE_ROUTER_ADVERTISEMENT: u8 = 151;
const TYPE_ROUTER_SOLICITATION: u8 = 152;
const TYPE_ROUTER_TERMINATION: u8 = 153;

/// An MLD message, or one of multicast router discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Query(Query),
    QueryV1(V1),
    Report(Report),
    ReportV1(V1),
    DoneV1(V1),
    RouterAdvertisement(RouterAdvertisement),
    RouterSolicitation,
    RouterTermination,
}

impl Message {
    /// Every ICMPv6 type that [`Self::parse`] knows.
    pub const TYPES: [u8; 7] = [
        TYPE_QUERY,
        TYPE_REPORT_V1,
        TYPE_DONE_V1,
        TYPE_REPORT,
        TYPE_ROUTER_ADVERTISEMENT,
        TYPE_ROUTER_SOLICITATION,
        TYPE_ROUTER_TERMINATION,
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
        Ok(match kind {
            TYPE_QUERY if bytes.len() == V1::LEN => Self::QueryV1(V1::parse(bytes)?),
            TYPE_QUERY => Self::Query(query::parse(bytes)?),
            TYPE_REPORT_V1 => Self::ReportV1(V1::parse(bytes)?),
            TYPE_DONE_V1 => Self::DoneV1(V1::parse(bytes)?),
            TYPE_REPORT => Self::Report(Report::parse(bytes)?),
            TYPE_ROUTER_ADVERTISEMENT => Self::RouterAdvertisement(RouterAdvertisement::parse(bytes)?),
            TYPE_ROUTER_SOLICITATION => Self::RouterSolicitation,
            TYPE_ROUTER_TERMINATION => Self::RouterTermination,
            other => return Err(ParseError::invalid("ICMPv6 type", other, "130 to 132, 143 or 151 to 153")),
        })
    }

    /// The message with checksum 0, as a raw ICMPv6 socket expects it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.emitted_len());
        match self {
            Self::Query(query) => query::emit(query, &mut out),
            Self::QueryV1(body) => body.emit(TYPE_QUERY, &mut out),
            Self::Report(report) => report.emit(TYPE_REPORT, &mut out),
            Self::ReportV1(body) => body.emit(TYPE_REPORT_V1, &mut out),
            Self::DoneV1(body) => body.emit(TYPE_DONE_V1, &mut out),
            Self::RouterAdvertisement(body) => body.emit(TYPE_ROUTER_ADVERTISEMENT, &mut out),
            Self::RouterSolicitation => out.extend_from_slice(&[TYPE_ROUTER_SOLICITATION, 0, 0, 0]),
            Self::RouterTermination => out.extend_from_slice(&[TYPE_ROUTER_TERMINATION, 0, 0, 0]),
        }
        out
    }

    /// Length on the wire in bytes.
    pub fn emitted_len(&self) -> usize {
        match self {
            Self::Query(query) => query::HEAD_LEN + query.tail_len(),
            Self::QueryV1(_) | Self::ReportV1(_) | Self::DoneV1(_) => V1::LEN,
            Self::Report(report) => report.emitted_len(),
            Self::RouterAdvertisement(_) => RouterAdvertisement::LEN,
            Self::RouterSolicitation | Self::RouterTermination => 4,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(query) => write!(f, "MLDv2 {query}"),
            Self::QueryV1(body) => write!(f, "MLDv1 query {body}"),
            Self::Report(report) => write!(f, "MLDv2 {report}"),
            Self::ReportV1(body) => write!(f, "MLDv1 report {body}"),
            Self::DoneV1(body) => write!(f, "MLDv1 done {body}"),
            Self::RouterAdvertisement(body) => write!(f, "MLD {body}"),
            Self::RouterSolicitation => f.write_str("MLD router-solicitation"),
            Self::RouterTermination => f.write_str("MLD router-termination"),
        }
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
