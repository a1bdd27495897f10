//! The content of MLD and IGMP messages, independent of the protocol.

use std::{net::IpAddr, time::Duration};

use treecast_wire::{
    igmp,
    membership::{self, GroupRecord, RouterAdvertisement},
    mld,
};

pub type Query = membership::Query<IpAddr>;
pub type Record = GroupRecord<IpAddr>;

/// A message of MLD or IGMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Query(Query),
    /// A query of an older protocol version.
    OldQuery {
        group: Option<IpAddr>,
        max_response: Duration,
    },
    Report(Vec<Record>),
    /// A report of MLDv1 or IGMPv2, which asks for every source of this group.
    OldReport(IpAddr),
    /// A report of IGMPv1. Such a host cannot report that it leaves.
    IgmpV1Report(IpAddr),
    /// MLDv1's Done, IGMPv2's Leave.
    OldLeave(IpAddr),
    RouterAdvertisement(RouterAdvertisement),
    RouterSolicitation,
    RouterTermination,
}

impl Message {
    /// Converts the message to MLD. `None` for messages that routers do not send. Addresses of the other family
    /// are left out.
    pub fn to_mld(&self) -> Option<mld::Message> {
        Some(match self {
            Self::Query(query) => mld::Message::Query(convert_query(query, v6)),
            Self::Report(records) => mld::Message::Report(narrow_report(records, v6)),
            Self::RouterAdvertisement(body) => mld::Message::RouterAdvertisement(*body),
            Self::RouterSolicitation => mld::Message::RouterSolicitation,
            Self::RouterTermination => mld::Message::RouterTermination,
            Self::OldReport(group) => mld::Message::ReportV1(mld_v1(*group)?),
            Self::OldLeave(group) => mld::Message::DoneV1(mld_v1(*group)?),
            Self::OldQuery { .. } | Self::IgmpV1Report(_) => return None,
        })
    }

    /// Converts the message to IGMP. `None` for messages that routers do not send. Addresses of the other
    /// family are left out.
    pub fn to_igmp(&self) -> Option<igmp::Message> {
        Some(match self {
            Self::Query(query) => igmp::Message::Query(convert_query(query, v4)),
            Self::Report(records) => igmp::Message::Report(narrow_report(records, v4)),
            Self::RouterAdvertisement(body) => igmp::Message::RouterAdvertisement(*body),
            Self::RouterSolicitation => igmp::Message::RouterSolicitation,
            Self::RouterTermination => igmp::Message::RouterTermination,
            Self::IgmpV1Report(group) => igmp::Message::ReportV1(igmp_v2(*group)?),
            Self::OldReport(group) => igmp::Message::ReportV2(igmp_v2(*group)?),
            Self::OldLeave(group) => igmp::Message::Leave(igmp_v2(*group)?),
            Self::OldQuery { .. } => return None,
        })
    }

    /// Converts an MLD message. `None` if it has no content (an old report without a group).
    pub fn from_mld(message: mld::Message) -> Option<Self> {
        use mld::Message as Mld;
        Some(match message {
            Mld::Query(query) => Self::Query(convert_query(&query, |address| Some(address.into()))),
            Mld::QueryV1(body) => {
                Self::OldQuery { group: body.group.map(IpAddr::from), max_response: body.max_response }
            }
            Mld::Report(report) => Self::Report(report.records.into_iter().map(widen_record).collect()),
            Mld::ReportV1(body) => Self::OldReport(body.group?.into()),
            Mld::DoneV1(body) => Self::OldLeave(body.group?.into()),
            Mld::RouterAdvertisement(body) => Self::RouterAdvertisement(body),
            Mld::RouterSolicitation => Self::RouterSolicitation,
            Mld::RouterTermination => Self::RouterTermination,
        })
    }

    /// Converts an IGMP message. `None` if it has no content (an old report without a group).
    pub fn from_igmp(message: igmp::Message) -> Option<Self> {
        use igmp::Message as Igmp;
        Some(match message {
            Igmp::Query(query) => Self::Query(convert_query(&query, |address| Some(address.into()))),
            Igmp::QueryV2(body) => {
                Self::OldQuery { group: body.group.map(IpAddr::from), max_response: body.max_response }
            }
            Igmp::Report(report) => Self::Report(report.records.into_iter().map(widen_record).collect()),
            Igmp::ReportV1(body) => Self::IgmpV1Report(body.group?.into()),
            Igmp::ReportV2(body) => Self::OldReport(body.group?.into()),
            Igmp::Leave(body) => Self::OldLeave(body.group?.into()),
            Igmp::RouterAdvertisement(body) => Self::RouterAdvertisement(body),
            Igmp::RouterSolicitation => Self::RouterSolicitation,
            Igmp::RouterTermination => Self::RouterTermination,
        })
    }
}

fn convert_query<A: Copy, B>(
    query: &membership::Query<A>,
    convert: impl Fn(A) -> Option<B>,
) -> membership::Query<B> {
    membership::Query {
        max_response: query.max_response,
        group: query.group.and_then(&convert),
        suppress_router_processing: query.suppress_router_processing,
        robustness: query.robustness,
        query_interval: query.query_interval,
        sources: query.sources.iter().copied().filter_map(convert).collect(),
    }
}

fn widen_record<A: Into<IpAddr>>(record: GroupRecord<A>) -> Record {
    let sources = record.sources.into_iter().map(Into::into).collect();
    GroupRecord { kind: record.kind, group: record.group.into(), sources }
}

fn narrow_report<A>(records: &[Record], convert: impl Fn(IpAddr) -> Option<A>) -> membership::Report<A> {
    let narrow = |record: &Record| {
        let sources = record.sources.iter().copied().filter_map(&convert).collect();
        Some(GroupRecord { kind: record.kind, group: convert(record.group)?, sources })
    };
    membership::Report { records: records.iter().filter_map(narrow).collect() }
}

fn mld_v1(group: IpAddr) -> Option<mld::V1> {
    Some(mld::V1 { max_response: Duration::ZERO, group: Some(v6(group)?) })
}

fn igmp_v2(group: IpAddr) -> Option<igmp::V2> {
    Some(igmp::V2 { max_response: Duration::ZERO, group: Some(v4(group)?) })
}

fn v4(address: IpAddr) -> Option<std::net::Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn v6(address: IpAddr) -> Option<std::net::Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}
