//! The Standard Response Block, which each router on the way adds (RFC 8487, section 3.2.4).
//!
//! ```text
//!  IPv4, 52 bytes                                       IPv6, 80 bytes
//!  +------------------+--------------+--------+         +------------------+--------------+--------+
//!  | type 4, length   | must be 0(8) |        |         | type 4, length   | must be 0(8) |        |
//!  | arrival of the query (32)       |                  | arrival of the query (32)       |
//!  | incoming interface's address    |                  | incoming interface's number (32)|
//!  | outgoing interface's address    |                  | outgoing interface's number (32)|
//!  | upstream router's address       |                  | own address (128)               |
//!  | packets in, out, of the pair (3 x 64)              | upstream router's address (128) |
//!  | unicast protocol(16) | multicast protocol(16) |    | packets in, out, of the pair (3 x 64)
//!  | hop limit(8) | 0(8) | S(1) | mask(7) | code(8) |   | unicast protocol(16) | multicast protocol(16) |
//!  +-----------------------------------------------+    | 0(15) | S(1) | prefix(8) | code(8)   |
//! ```
//!
//! The arrival is the middle of an NTP time: 16 bits of seconds, and 16 bits of their fraction. A count of all ones
//! is not known.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{ForwardingCode, HEAD_LEN};
use crate::{
    ParseError,
    field::{Field, Reader},
};

const TLV_LEN_V4: usize = 52;
const TLV_LEN_V6: usize = 80;

/// The response of one router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardBlock {
    /// The time when the query or request came: seconds of NTP modulo 2^16, and 16 bits of their fraction.
    pub arrival: u32,
    pub interfaces: Interfaces,
    /// The number of multicast packets that came in by the incoming interface. `None`: not known.
    pub packets_in: Option<u64>,
    /// The number of multicast packets that left by the outgoing interface. `None`: not known.
    pub packets_out: Option<u64>,
    /// The number of packets from the source to the group that the router has forwarded. `None`: not known.
    pub packets: Option<u64>,
    /// The unicast routing protocol, as IANAipRouteProtocol numbers it (RFC 2932). 0: not known.
    pub unicast_protocol: u16,
    /// The multicast routing protocol, as IANAipMRouteProtocol numbers it. 0: not known.
    pub multicast_protocol: u16,
    /// Whether the count of packets is for the source's network (the S bit), and not for the source alone.
    pub is_for_network: bool,
    /// The length of the source's prefix in bits. 127 (IPv4) or 255 (IPv6): the router knows only the group.
    pub prefix_len: u8,
    pub code: ForwardingCode,
}

/// A router's interfaces on the way, and the router before it. Unspecified addresses and the number 0 are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interfaces {
    V4 {
        /// The address of the interface by which packets of the source come in.
        incoming: Ipv4Addr,
        /// The address of the interface by which they leave towards the client.
        outgoing: Ipv4Addr,
        /// The router that packets of the source come from, or a group of all routers there.
        upstream: Ipv4Addr,
        /// The hop limit that a packet must exceed to leave. 0: there is none.
        hop_limit: u8,
    },
    V6 {
        /// The number of the interface by which packets of the source come in.
        incoming: u32,
        /// The number of the interface by which they leave towards the client.
        outgoing: u32,
        /// A global address of the router.
        local: Ipv6Addr,
        /// The router that packets of the source come from, or a group of all routers there.
        upstream: Ipv6Addr,
    },
}

impl Interfaces {
    /// Interfaces of which nothing is known.
    pub fn unknown(is_ipv4: bool) -> Self {
        const V4: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
        const V6: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
        match is_ipv4 {
            true => Self::V4 { incoming: V4, outgoing: V4, upstream: V4, hop_limit: 0 },
            false => Self::V6 { incoming: 0, outgoing: 0, local: V6, upstream: V6 },
        }
    }

    /// An address of the router. `None`: it has given none.
    pub fn router(&self) -> Option<IpAddr> {
        match *self {
            Self::V4 { outgoing, incoming, .. } => known(outgoing.into()).or_else(|| known(incoming.into())),
            Self::V6 { local, .. } => known(local.into()),
        }
    }

    /// The router that packets of the source come from. `None`: it is not known, or the source is a neighbour.
    pub fn upstream(&self) -> Option<IpAddr> {
        match *self {
            Self::V4 { upstream, .. } => known(upstream.into()),
            Self::V6 { upstream, .. } => known(upstream.into()),
        }
    }
}

impl StandardBlock {
    /// A block of a router of which nothing but its code is known (RFC 8487, section 4.1.1).
    pub fn only(code: ForwardingCode, is_ipv4: bool) -> Self {
        Self {
            arrival: 0,
            interfaces: Interfaces::unknown(is_ipv4),
            packets_in: Some(0),
            packets_out: Some(0),
            packets: Some(0),
            unicast_protocol: 0,
            multicast_protocol: 0,
            is_for_network: false,
            prefix_len: 0,
            code,
        }
    }

    pub fn is_ipv4(&self) -> bool {
        matches!(self.interfaces, Interfaces::V4 { .. })
    }

    /// The length of the whole TLV in bytes.
    pub fn tlv_len(&self) -> usize {
        if self.is_ipv4() { TLV_LEN_V4 } else { TLV_LEN_V6 }
    }

    /// Reads what follows the first byte of the value.
    pub(super) fn parse(mut reader: Reader<'_>, is_ipv4: bool) -> Result<Self, ParseError> {
        let expected = if is_ipv4 { TLV_LEN_V4 } else { TLV_LEN_V6 };
        let value = reader.rest();
        if value.len() + HEAD_LEN + 1 != expected {
            let len = value.len() + HEAD_LEN + 1;
            return Err(ParseError::invalid("length of a response block", len, "52 (IPv4) or 80 (IPv6)"));
        }
        reader = Reader::new(value);
        let arrival = reader.u32("query arrival time")?;
        let mut interfaces = match is_ipv4 {
            true => Interfaces::V4 {
                incoming: Field::read(&mut reader, "incoming interface")?,
                outgoing: Field::read(&mut reader, "outgoing interface")?,
                upstream: Field::read(&mut reader, "upstream router")?,
                hop_limit: 0,
            },
            false => Interfaces::V6 {
                incoming: reader.u32("incoming interface")?,
                outgoing: reader.u32("outgoing interface")?,
                local: Field::read(&mut reader, "local address")?,
                upstream: Field::read(&mut reader, "remote address")?,
            },
        };
        let mut count = |name| reader.u64(name).map(|count| Some(count).filter(|count| *count != u64::MAX));
        let (packets_in, packets_out) = (count("input packets")?, count("output packets")?);
        let packets = count("packets of the pair")?;
        let unicast_protocol = reader.u16("unicast routing protocol")?;
        let multicast_protocol = reader.u16("multicast routing protocol")?;
        let [first, second, third, code] = reader.array("prefix and code")?;
        let (is_for_network, prefix_len) = match &mut interfaces {
            Interfaces::V4 { hop_limit, .. } => {
                *hop_limit = first;
                (third >> 7 == 1, third & 0x7f)
            }
            Interfaces::V6 { .. } => (second & 1 == 1, third),
        };
        let code = ForwardingCode::from_number(code);
        Ok(Self {
            arrival,
            interfaces,
            packets_in,
            packets_out,
            packets,
            unicast_protocol,
            multicast_protocol,
            is_for_network,
            prefix_len,
            code,
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(0);
        self.arrival.emit(out);
        match self.interfaces {
            Interfaces::V4 { incoming, outgoing, upstream, .. } => {
                [incoming, outgoing, upstream].iter().for_each(|address| address.emit(out));
            }
            Interfaces::V6 { incoming, outgoing, local, upstream } => {
                [incoming, outgoing].iter().for_each(|number| number.emit(out));
                [local, upstream].iter().for_each(|address| address.emit(out));
            }
        }
        for count in [self.packets_in, self.packets_out, self.packets] {
            count.unwrap_or(u64::MAX).emit(out);
        }
        self.unicast_protocol.emit(out);
        self.multicast_protocol.emit(out);
        let network = u8::from(self.is_for_network);
        match self.interfaces {
            Interfaces::V4 { hop_limit, .. } => {
                out.extend_from_slice(&[hop_limit, 0, network << 7 | self.prefix_len & 0x7f]);
            }
            Interfaces::V6 { .. } => out.extend_from_slice(&[0, network, self.prefix_len]),
        }
        out.push(self.code.number());
    }
}

impl fmt::Display for StandardBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interfaces {
            Interfaces::V4 { incoming, outgoing, upstream, hop_limit } => {
                write!(f, "in={incoming} out={outgoing} upstream={upstream} hop-limit={hop_limit}")?;
            }
            Interfaces::V6 { incoming, outgoing, local, upstream } => {
                write!(f, "in=#{incoming} out=#{outgoing} local={local} upstream={upstream}")?;
            }
        }
        let shown = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
        let [packets_in, packets_out, packets] = [self.packets_in, self.packets_out, self.packets].map(shown);
        write!(f, " packets={packets} (all: {packets_in} in, {packets_out} out)")?;
        write!(f, " protocols={}/{}", self.unicast_protocol, self.multicast_protocol)?;
        write!(f, " prefix={}{}", self.prefix_len, if self.is_for_network { " (network)" } else { "" })?;
        write!(f, " arrival={:#010x} {}", self.arrival, self.code)
    }
}

fn known(address: IpAddr) -> Option<IpAddr> {
    Some(address).filter(|address| !address.is_unspecified())
}
