//! The first TLV of a message (RFC 8487, section 3.2.1). Queries, requests and replies have the same.
//!
//! ```text
//!  +---------+-------------+----------+-------+--------+--------+--------------+-----------------+
//!  | type(8) | length(16)  | hops(8)  | group | source | client | query id(16) | client port(16) |
//!  +---------+-------------+----------+-------+--------+--------+--------------+-----------------+
//! ```
//!
//! Addresses have 4 bytes (length 20) or 16 (length 56). "No group" and "no source" are 255.255.255.255 or ::.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::HEAD_LEN;
use crate::{
    ParseError,
    field::{Field, Reader},
};

/// The length of the TLV for IPv4 and IPv6, in bytes.
const TLV_LEN_V4: usize = 20;
const TLV_LEN_V6: usize = 56;

/// The question of a trace: which way, and who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The largest number of routers that the trace may pass, 1 to 255.
    pub hops: u8,
    /// The client's number for this query, which tells late replies from others.
    pub query_id: u16,
    /// The UDP port of the client, where replies go.
    pub client_port: u16,
    group: Option<IpAddr>,
    source: Option<IpAddr>,
    client: IpAddr,
}

impl Header {
    /// Creates a header. All addresses are of one family.
    ///
    /// # Errors
    /// If the addresses are not a valid combination: a multicast group or none, a unicast source or none, not both
    /// none, and a unicast client (RFC 8487, sections 3.2.1 and 9.1).
    pub fn new(
        hops: u8,
        group: Option<IpAddr>,
        source: Option<IpAddr>,
        client: IpAddr,
        query_id: u16,
        client_port: u16,
    ) -> Result<Self, ParseError> {
        let is_of_family = |address: &IpAddr| address.is_ipv4() == client.is_ipv4();
        if let Some(group) = group.filter(|group| !group.is_multicast() || !is_of_family(group)) {
            return Err(ParseError::invalid("group", group, "a multicast address of the client's family"));
        }
        if let Some(source) = source.filter(|source| !is_unicast(*source) || !is_of_family(source)) {
            return Err(ParseError::invalid("source", source, "a unicast address of the client's family"));
        }
        if group.is_none() && source.is_none() {
            return Err(ParseError::invalid("group and source", "none", "at least one of both"));
        }
        if !is_unicast(client) {
            return Err(ParseError::invalid("client", client, "a unicast address"));
        }
        if hops == 0 || client_port == 0 {
            return Err(ParseError::invalid("hops or client port", 0, "1 or more"));
        }
        Ok(Self { hops, query_id, client_port, group, source, client })
    }

    /// The group of the trace. `None`: the way of the source's packets to any group.
    pub fn group(&self) -> Option<IpAddr> {
        self.group
    }

    /// The source of the trace. `None`: the way of the group's packets from any source.
    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// The address where replies go.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// The length of the whole TLV in bytes.
    pub fn tlv_len(&self) -> usize {
        if self.client.is_ipv4() { TLV_LEN_V4 } else { TLV_LEN_V6 }
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        match value.len() + HEAD_LEN {
            TLV_LEN_V4 => Self::read::<Ipv4Addr>(value, Ipv4Addr::BROADCAST),
            TLV_LEN_V6 => Self::read::<Ipv6Addr>(value, Ipv6Addr::UNSPECIFIED),
            other => Err(ParseError::invalid("length of a query", other, "20 (IPv4) or 56 (IPv6)")),
        }
    }

    fn read<A: Field + Into<IpAddr>>(value: &[u8], none: A) -> Result<Self, ParseError> {
        let none = none.into();
        let mut reader = Reader::new(value);
        let hops = reader.u8("hops")?;
        let group = A::read(&mut reader, "group")?.into();
        let source = A::read(&mut reader, "source")?.into();
        let client = A::read(&mut reader, "client")?.into();
        let query_id = reader.u16("query id")?;
        let client_port = reader.u16("client port")?;
        let some = |address: IpAddr| Some(address).filter(|address| *address != none);
        Self::new(hops, some(group), some(source), client, query_id, client_port)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let none = match self.client {
            IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.hops.emit(out);
        for address in [self.group.unwrap_or(none), self.source.unwrap_or(none), self.client] {
            match address {
                IpAddr::V4(address) => address.emit(out),
                IpAddr::V6(address) => address.emit(out),
            }
        }
        self.query_id.emit(out);
        self.client_port.emit(out);
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |address: Option<IpAddr>| address.map_or("any".to_owned(), |address| address.to_string());
        let Self { hops, query_id, client_port, group, source, client } = self;
        write!(f, "group={} source={} client={client}", shown(*group), shown(*source))?;
        write!(f, " port={client_port} id={query_id} hops={hops}")
    }
}

fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || is_broadcast)
}
