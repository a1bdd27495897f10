//! The content of MLD and IGMP messages, independent of the protocol.

use std::{net::IpAddr, time::Duration};

use treecast_wire::membership::{self, Address, GroupRecord, Older, RouterAdvertisement};

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
    /// Converts the message to MLD or IGMP. `None` for messages that routers do not send. Addresses of the other family are
    /// left out.
    pub fn to_wire<A: Address>(&self) -> Option<membership::Message<A>> {
        use membership::Message as Wire;
        Some(match self {
            Self::Query(query) => Wire::Query(convert_query(query, A::from_ip)),
            Self::Report(records) => Wire::Report(narrow_report(records)),
            Self::RouterAdvertisement(body) => Wire::RouterAdvertisement(*body),
            Self::RouterSolicitation => Wire::RouterSolicitation,
            Self::RouterTermination => Wire::RouterTermination,
            Self::IgmpV1Report(group) => Wire::IgmpV1Report(older(*group)?),
            Self::OldReport(group) => Wire::OldReport(older(*group)?),
            Self::OldLeave(group) => Wire::OldLeave(older(*group)?),
            Self::OldQuery { .. } => return None,
        })
    }

    /// Converts a message of MLD or IGMP. `None` if it has no content (an old report without a group).
    pub fn from_wire<A: Address>(message: membership::Message<A>) -> Option<Self> {
        use membership::Message as Wire;
        Some(match message {
            Wire::Query(query) => Self::Query(convert_query(&query, |address| Some(address.into()))),
            Wire::OldQuery(body) => {
                Self::OldQuery { group: body.group.map(Into::into), max_response: body.max_response }
            }
            Wire::Report(report) => Self::Report(report.records.into_iter().map(widen_record).collect()),
            Wire::IgmpV1Report(body) => Self::IgmpV1Report(body.group?.into()),
            Wire::OldReport(body) => Self::OldReport(body.group?.into()),
            Wire::OldLeave(body) => Self::OldLeave(body.group?.into()),
            Wire::RouterAdvertisement(body) => Self::RouterAdvertisement(body),
            Wire::RouterSolicitation => Self::RouterSolicitation,
            Wire::RouterTermination => Self::RouterTermination,
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

fn narrow_report<A: Address>(records: &[Record]) -> membership::Report<A> {
    let narrow = |record: &Record| {
        let sources = record.sources.iter().copied().filter_map(A::from_ip).collect();
        Some(GroupRecord { kind: record.kind, group: A::from_ip(record.group)?, sources })
    };
    membership::Report { records: records.iter().filter_map(narrow).collect() }
}

fn older<A: Address>(group: IpAddr) -> Option<Older<A>> {
    Some(Older { max_response: Duration::ZERO, group: Some(A::from_ip(group)?) })
}
