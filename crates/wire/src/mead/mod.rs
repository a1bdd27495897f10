//! MEADcast's routing header (meadcast-thesis-2024, 4.1, table 4.1), in both dialects.
//!
//! ```text
//!  0             1            2              3               4           5             6          8
//!  +-------------+------------+--------------+---------------+-----------+-------------+----------+
//!  | next header | ext length | routing type | segments left | addresses | D R hops(6) | reserved |
//!  +-------------+------------+--------------+---------------+-----------+-------------+----------+
//!  | delivery map (32)                       | router map (32)                                    |
//!  +-----------------------------------------+----------------------------------------------------+
//!  | addresses, 16 bytes each                                                                     |
//!  +----------------------------------------------------------------------------------------------+
//! ```
//!
//! The thesis sends `reserved` as 0 and does not read it. Its second byte is our revision's don't-replicate counter
//! (5.2.4): while it is more than 0, a router that is not named subtracts one and forwards the packet without copies.
//!
//! The thesis' published C code writes the same struct as host-order bit-fields: [`Dialect::Linux65`].

mod malformed;
mod map;
mod options;

use std::{fmt, net::Ipv6Addr};

pub use self::{
    malformed::{Malformed, Reason},
    map::Map,
    options::{CODE_LEN, MAX_OPTIONS_LEN, NONCE_LEN, Options, Proof},
};
use crate::{
    ipv6::{has_routing_header, next_header},
    listed,
};

/// The largest number of addresses. The maps have no more bits.
pub const MAX_ADDRESSES: usize = 32;

/// The largest number of hops.
pub const MAX_HOPS: u8 = 63;

/// The routing types for experiments (RFC 3692, RFC 4727). The thesis uses both. We send the first; in our own
/// dialect, the second is Xcast's.
pub const ROUTING_TYPES: [u8; 2] = [253, 254];

/// The number of bytes before the addresses.
pub const FIXED_LEN: usize = 16;

const ADDRESS_LEN: usize = 16;

const AT_TYPE: usize = 2;
const AT_SEGMENTS_LEFT: usize = 3;
const AT_COUNT: usize = 4;
const AT_FLAGS: usize = 5;
const AT_DONT_REPLICATE: usize = 7;
const AT_DELIVERY: usize = 8;
const AT_ROUTERS: usize = 12;

listed! {
    /// The order of bits on the wire.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub enum Dialect {
        /// Network order, as in the thesis' tables.
        #[default]
        Rfc => "rfc",
        /// The order of the thesis' sender and its kernel 6.5: flags from the low bit up, maps in little-endian
        /// order.
        Linux65 => "linux-6.5",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Data,
    Request,
    Response,
}

/// The routing header. The headers that [`Header::parse`] and [`Header::data`] return are never [`Malformed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The type of the header behind this one and its options.
    pub next_header: u8,
    pub routing_type: u8,
    pub kind: Kind,
    /// The number of MEADcast routers that the packet has passed, at most [`MAX_HOPS`].
    pub hops: u8,
    /// The number of routers that must forward the packet without copying it (5.2.4).
    pub dont_replicate: u8,
    /// Routers to which the packet is still to be delivered.
    pub delivery: Map,
    pub routers: Map,
    /// The addresses: each router, followed by its receivers. In discovery: the receiver.
    pub addresses: Vec<Ipv6Addr>,
}

impl Header {
    /// Creates the header of a data packet for routers with their receivers, all of which must be served.
    ///
    /// # Errors
    /// If there are no addresses or more than 32, if one is not forwardable, or if one appears twice.
    pub fn data(next_header: u8, groups: &[(Ipv6Addr, Vec<Ipv6Addr>)]) -> Result<Self, Malformed> {
        let len = |(_, receivers): &(_, Vec<_>)| receivers.len() + 1;
        let count: usize = groups.iter().map(len).sum();
        if count > MAX_ADDRESSES {
            return Err(Malformed::TooManyAddresses(count.min(255) as u8));
        }
        let starts = groups.iter().scan(0, |at, group| Some(std::mem::replace(at, *at + len(group))));
        let routers: Map = starts.collect();
        let addresses =
            groups.iter().flat_map(|(router, receivers)| std::iter::once(router).chain(receivers));
        let header = Self {
            next_header,
            routing_type: ROUTING_TYPES[0],
            kind: Kind::Data,
            hops: 0,
            dont_replicate: 0,
            delivery: routers,
            routers,
            addresses: addresses.copied().collect(),
        };
        header.check()?;
        Ok(header)
    }

    /// Creates a discovery request to the routers on the path to `receiver`.
    pub fn request(receiver: Ipv6Addr) -> Self {
        Self {
            next_header: next_header::NONE,
            routing_type: ROUTING_TYPES[0],
            kind: Kind::Request,
            hops: 0,
            dont_replicate: 0,
            delivery: Map::EMPTY,
            routers: Map::EMPTY,
            addresses: vec![receiver],
        }
    }

    /// Whether a routing header is MEADcast's.
    pub fn is_routing_type(routing_type: u8, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Rfc => routing_type == ROUTING_TYPES[0],
            Dialect::Linux65 => ROUTING_TYPES.contains(&routing_type),
        }
    }

    /// Parses the header at the beginning of `bytes`. Returns it with the bytes that follow. The caller checks
    /// the routing type.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong.
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<(Self, &[u8]), Malformed> {
        let fixed: &[u8; FIXED_LEN] = bytes.first_chunk().ok_or(Malformed::short(bytes, FIXED_LEN))?;
        let count = fixed[AT_COUNT];
        Malformed::check_fixed(count, fixed[1], extension_len, fixed[AT_SEGMENTS_LEFT])?;
        let len = FIXED_LEN + usize::from(count) * ADDRESS_LEN;
        let (header, rest) = bytes.split_at_checked(len).ok_or(Malformed::short(bytes, len))?;
        let address = |octets: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(octets).expect("16 bytes"));
        let (kind, hops) = dialect.read_flags(fixed[AT_FLAGS])?;
        let header = Self {
            next_header: fixed[0],
            routing_type: fixed[AT_TYPE],
            kind,
            hops,
            dont_replicate: fixed[AT_DONT_REPLICATE],
            delivery: dialect.read_map(fixed, AT_DELIVERY),
            routers: dialect.read_map(fixed, AT_ROUTERS),
            addresses: header[FIXED_LEN..].chunks_exact(ADDRESS_LEN).map(address).collect(),
        };
        header.check()?;
        Ok((header, rest))
    }

    /// Checks the bytes behind this header.
    ///
    /// # Errors
    /// If another routing header follows ([`has_routing_header`]).
    pub fn check_rest(&self, rest: &[u8]) -> Result<(), Malformed> {
        if has_routing_header(self.next_header, rest) { Err(Malformed::SecondRoutingHeader) } else { Ok(()) }
    }

    pub fn to_bytes(&self, dialect: Dialect) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        let count = self.addresses.len() as u8;
        (bytes[0], bytes[1], bytes[AT_TYPE]) = (self.next_header, extension_len(count), self.routing_type);
        (bytes[AT_COUNT], bytes[AT_FLAGS]) = (count, dialect.flags(self.kind, self.hops));
        bytes[AT_DONT_REPLICATE] = self.dont_replicate;
        bytes[AT_DELIVERY..AT_ROUTERS].copy_from_slice(&dialect.map(self.delivery));
        bytes[AT_ROUTERS..].copy_from_slice(&dialect.map(self.routers));
        self.addresses.iter().for_each(|address| bytes.extend_from_slice(&address.octets()));
        bytes
    }

    /// Length on the wire in bytes.
    pub fn emitted_len(&self) -> usize {
        FIXED_LEN + self.addresses.len() * ADDRESS_LEN
    }

    /// The positions of the receivers of the router at a position: those between it and the next router.
    pub fn receivers_of(&self, router: usize) -> std::ops::Range<usize> {
        let is_router = |index: &usize| self.routers.contains(*index);
        let end = (router + 1..self.addresses.len()).find(is_router).unwrap_or(self.addresses.len());
        router + 1..end
    }

    fn check(&self) -> Result<(), Malformed> {
        let count = self.addresses.len() as u8;
        if self.addresses.is_empty() {
            return Err(Malformed::NoAddress);
        }
        if self.kind != Kind::Data {
            return self.check_discovery(count);
        }
        if self.delivery.end().max(self.routers.end()) > self.addresses.len() {
            return Err(Malformed::MapBeyondList(count));
        }
        if !self.delivery.is_subset_of(self.routers) {
            return Err(Malformed::DeliveryOfReceiver);
        }
        if !self.routers.contains(0) {
            return Err(Malformed::ReceiverWithoutRouter);
        }
        self.check_addresses()
    }

    fn check_discovery(&self, count: u8) -> Result<(), Malformed> {
        if count != 1 {
            return Err(Malformed::DiscoveryOfMany(count));
        }
        if ![next_header::NONE, next_header::DESTINATION_OPTIONS].contains(&self.next_header) {
            return Err(Malformed::DiscoveryWithPayload(self.next_header));
        }
        self.check_addresses()
    }

    fn check_addresses(&self) -> Result<(), Malformed> {
        Malformed::check_addresses(self.addresses.iter().copied())
    }
}

/// The length field for `count` addresses, in units of 8 bytes without the first (RFC 8200, section 4.4).
fn extension_len(count: u8) -> u8 {
    1 + 2 * count
}

impl Dialect {
    /// The other dialect.
    pub fn other(self) -> Self {
        match self {
            Self::Rfc => Self::Linux65,
            Self::Linux65 => Self::Rfc,
        }
    }

    fn flags(self, kind: Kind, hops: u8) -> u8 {
        let (discovery, response) = (u8::from(kind != Kind::Data), u8::from(kind == Kind::Response));
        match self {
            Self::Rfc => discovery << 7 | response << 6 | hops & MAX_HOPS,
            Self::Linux65 => discovery | response << 1 | hops << 2,
        }
    }

    fn read_flags(self, octet: u8) -> Result<(Kind, u8), Malformed> {
        let (discovery, response, hops) = match self {
            Self::Rfc => (octet >> 7, octet >> 6 & 1, octet & MAX_HOPS),
            Self::Linux65 => (octet & 1, octet >> 1 & 1, octet >> 2),
        };
        let kind = match (discovery, response) {
            (0, 0) => Kind::Data,
            (1, 0) => Kind::Request,
            (1, 1) => Kind::Response,
            _ => return Err(Malformed::Flags(discovery << 1 | response)),
        };
        Ok((kind, hops))
    }

    fn map(self, map: Map) -> [u8; 4] {
        match self {
            Self::Rfc => map.bits().to_be_bytes(),
            Self::Linux65 => map.bits().to_le_bytes(),
        }
    }

    fn read_map(self, fixed: &[u8; FIXED_LEN], at: usize) -> Map {
        let octets = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        Map::from_bits(match self {
            Self::Rfc => u32::from_be_bytes(octets),
            Self::Linux65 => u32::from_le_bytes(octets),
        })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, hops, next_header, addresses, .. } = self;
        write!(f, "MEADcast {kind:?} hops={hops} next-header={next_header}")?;
        if *kind == Kind::Data {
            write!(f, " dont-replicate={} delivery={}", self.dont_replicate, self.delivery)?;
            write!(f, " routers={}", self.routers)?;
        }
        addresses.iter().try_for_each(|address| write!(f, " {address}"))
    }
}
