//! The Internet Group Management Protocol for IPv4: version 3 (RFC 9776), the messages of versions 1
//! and 2 that its speakers must accept (RFC 1112, RFC 2236), and multicast router discovery (RFC 4286).
//!
//! The checksum covers the whole IP payload and nothing else; kernels hand IGMP to raw sockets
//! unchecked, so [`Message::parse`] checks it and [`Message::to_bytes`] fills it in.

mod query;
mod v2;

use std::{fmt, net::Ipv4Addr};

pub use v2::V2;

use crate::{
    ParseError,
    field::Reader,
    membership::{self, RouterAdvertisement, internet_checksum},
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

const TYPE_QUERY: u8 = 0x11;
const TYPE_REPORT_V1: u8 = 0x12;
const TYPE_REPORT_V2: u8 = 0x16;
const TYPE_LEAVE: u8 = 0x17;
const TYPE_REPORT: u8 = 0x22;
const TYPE_ROUTER_ADVERTISEMENT: u8 = 0x30;
const TYPE_ROUTER_SOLICITATION: u8 = 0x31;
const TYPE_ROUTER_TERMINATION: u8 = 0x32;

/// An IGMP message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Query(Query),
    /// A query of version 2. It is of version 1 if its response time is zero.
    QueryV2(V2),
    Report(Report),
    ReportV1(V2),
    ReportV2(V2),
    Leave(V2),
    RouterAdvertisement(RouterAdvertisement),
    RouterSolicitation,
    RouterTermination,
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
        Ok(match kind {
            TYPE_QUERY if bytes.len() == V2::LEN => Self::QueryV2(V2::parse(bytes)?),
            TYPE_QUERY => Self::Query(query::parse(bytes)?),
            TYPE_REPORT_V1 => Self::ReportV1(V2::parse(bytes)?),
            TYPE_REPORT_V2 => Self::ReportV2(V2::parse(bytes)?),
            TYPE_LEAVE => Self::Leave(V2::parse(bytes)?),
            TYPE_REPORT => Self::Report(Report::parse(bytes)?),
            TYPE_ROUTER_ADVERTISEMENT => Self::RouterAdvertisement(RouterAdvertisement::parse(bytes)?),
            TYPE_ROUTER_SOLICITATION => Self::RouterSolicitation,
            TYPE_ROUTER_TERMINATION => Self::RouterTermination,
            other => {
                let expected = "0x11, 0x12, 0x16, 0x17, 0x22 or 0x30 to 0x32";
                return Err(ParseError::invalid("IGMP type", format!("{other:#04x}"), expected));
            }
        })
    }

    /// The message with its checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.emitted_len());
        match self {
            Self::Query(query) => query::emit(query, &mut out),
            Self::QueryV2(body) => body.emit(TYPE_QUERY, &mut out),
            Self::Report(report) => report.emit(TYPE_REPORT, &mut out),
            Self::ReportV1(body) => body.emit(TYPE_REPORT_V1, &mut out),
            Self::ReportV2(body) => body.emit(TYPE_REPORT_V2, &mut out),
            Self::Leave(body) => body.emit(TYPE_LEAVE, &mut out),
            Self::RouterAdvertisement(body) => body.emit(TYPE_ROUTER_ADVERTISEMENT, &mut out),
            Self::RouterSolicitation => out.extend_from_slice(&[TYPE_ROUTER_SOLICITATION, 0, 0, 0]),
            Self::RouterTermination => out.extend_from_slice(&[TYPE_ROUTER_TERMINATION, 0, 0, 0]),
        }
        let checksum = internet_checksum(&out);
        out[2..4].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    /// Length on the wire in bytes.
    pub fn emitted_len(&self) -> usize {
        match self {
            Self::Query(query) => query::HEAD_LEN + query.tail_len(),
            Self::QueryV2(_) | Self::ReportV1(_) | Self::ReportV2(_) | Self::Leave(_) => V2::LEN,
            Self::Report(report) => report.emitted_len(),
            Self::RouterAdvertisement(_) => RouterAdvertisement::LEN,
            Self::RouterSolicitation | Self::RouterTermination => 4,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(query) => write!(f, "IGMPv3 {query}"),
            Self::QueryV2(body) => write!(f, "IGMPv{} query {body}", body.query_version()),
            Self::Report(report) => write!(f, "IGMPv3 {report}"),
            Self::ReportV1(body) => write!(f, "IGMPv1 report {body}"),
            Self::ReportV2(body) => write!(f, "IGMPv2 report {body}"),
            Self::Leave(body) => write!(f, "IGMPv2 leave {body}"),
            Self::RouterAdvertisement(body) => write!(f, "IGMP {body}"),
            Self::RouterSolicitation => f.write_str("IGMP router-solicitation"),
            Self::RouterTermination => f.write_str("IGMP router-termination"),
        }
    }
}
