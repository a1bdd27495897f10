//! The messages that MLD and IGMP both have.

use std::fmt;

use super::{Address, Older, Protocol, Query, Report, RouterAdvertisement};
use crate::ParseError;

/// One message of MLD or IGMP. With addresses of [`Address::LEN`] bytes, the lengths on the wire in bytes are
///
/// ```text
///  messages of older versions             Older::LEN
///  query                                  Older::LEN + 4 + LEN for each source
///  report                                 8 + (4 + LEN + LEN for each source) for each record
///  router advertisement                   8
///  router solicitation and termination    4
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<A> {
    Query(Query<A>),
    /// A query of MLDv1 or IGMPv2, or of IGMPv1 when its response time is zero.
    OldQuery(Older<A>),
    Report(Report<A>),
    /// A report of MLDv1 or IGMPv2: every source of this group, please.
    OldReport(Older<A>),
    /// A report of IGMPv1, whose hosts cannot say that they leave. MLD has no such message.
    IgmpV1Report(Older<A>),
    /// MLDv1's Done, IGMPv2's Leave.
    OldLeave(Older<A>),
    RouterAdvertisement(RouterAdvertisement),
    RouterSolicitation,
    RouterTermination,
}

impl<A: Address> Message<A> {
    /// Reads the whole message but its checksum. None when it is of no known type. A query is of an older version when it
    /// is as short as those are.
    pub(crate) fn read(kind: u8, bytes: &[u8]) -> Result<Option<Self>, ParseError> {
        let types = A::PROTOCOL;
        Ok(Some(match kind {
            _ if kind == types.query && bytes.len() == Older::<A>::LEN => {
                Self::OldQuery(Older::parse(bytes)?)
            }
            _ if kind == types.query => Self::Query(Query::parse(bytes)?),
            _ if kind == types.report => Self::Report(Report::parse(bytes)?),
            _ if kind == types.old_report => Self::OldReport(Older::parse(bytes)?),
            _ if Some(kind) == types.v1_report => Self::IgmpV1Report(Older::parse(bytes)?),
            _ if kind == types.old_leave => Self::OldLeave(Older::parse(bytes)?),
            _ if kind == types.router_advertisement => {
                Self::RouterAdvertisement(RouterAdvertisement::parse(bytes)?)
            }
            _ if kind == types.router_solicitation => Self::RouterSolicitation,
            _ if kind == types.router_termination => Self::RouterTermination,
            _ => return Ok(None),
        }))
    }

    /// The message with checksum 0.
    pub(crate) fn emit(&self) -> Vec<u8> {
        let (types, mut out) = (A::PROTOCOL, Vec::new());
        match self {
            Self::Query(query) => query.emit(types.query, &mut out),
            Self::OldQuery(body) => body.emit(types.query, &mut out),
            Self::Report(report) => report.emit(types.report, &mut out),
            Self::OldReport(body) => body.emit(types.old_report, &mut out),
            Self::IgmpV1Report(body) => body.emit(types.v1_report.unwrap_or(types.old_report), &mut out),
            Self::OldLeave(body) => body.emit(types.old_leave, &mut out),
            Self::RouterAdvertisement(body) => body.emit(types.router_advertisement, &mut out),
            Self::RouterSolicitation => out.extend_from_slice(&[types.router_solicitation, 0, 0, 0]),
            Self::RouterTermination => out.extend_from_slice(&[types.router_termination, 0, 0, 0]),
        }
        out
    }

    /// Where the message goes.
    pub fn destination(&self) -> A {
        match self {
            Self::Query(query) => query.group.unwrap_or(A::ALL_NODES),
            Self::OldQuery(body) | Self::OldReport(body) | Self::IgmpV1Report(body) => {
                body.group.unwrap_or(A::ALL_NODES)
            }
            Self::Report(_) => A::REPORT_DESTINATION,
            Self::OldLeave(_) | Self::RouterSolicitation => A::ALL_ROUTERS,
            Self::RouterAdvertisement(_) | Self::RouterTermination => A::ALL_SNOOPERS,
        }
    }
}

impl<A: Address> fmt::Display for Message<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Protocol { name, version, leave, .. } = A::PROTOCOL;
        let older = version - 1;
        match self {
            Self::Query(query) => write!(f, "{name}v{version} {query}"),
            // RFC 9776, 7.1.
            Self::OldQuery(body) if body.max_response.is_zero() => write!(f, "{name}v1 query {body}"),
            Self::OldQuery(body) => write!(f, "{name}v{older} query {body}"),
            Self::Report(report) => write!(f, "{name}v{version} {report}"),
            Self::OldReport(body) => write!(f, "{name}v{older} report {body}"),
            Self::IgmpV1Report(body) => write!(f, "{name}v1 report {body}"),
            Self::OldLeave(body) => write!(f, "{name}v{older} {leave} {body}"),
            Self::RouterAdvertisement(body) => write!(f, "{name} {body}"),
            Self::RouterSolicitation => write!(f, "{name} router-solicitation"),
            Self::RouterTermination => write!(f, "{name} router-termination"),
        }
    }
}
