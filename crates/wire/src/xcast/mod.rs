//! Xcast6 (RFC 5058, 9.3.2): a routing header that lists the destinations of a packet.
//!
//! ```text
//!  0             1            2              3     4                  5                6          8
//!  +-------------+------------+--------------+-----+------------------+----------------+----------+
//!  | next header | ext length | 254          | 0   | version(4) A X D | R destinations | checksum |
//!  +-------------+------------+--------------+-----+------------------+----------------+----------+
//!  | channel identifier, 16 bytes                                                                 |
//!  +----------------------------------------------------------------------------------------------+
//!  | bitmap (64): the first bit stands for the first destination                                  |
//!  +----------------------------------------------------------------------------------------------+
//!  | destinations, 16 bytes each                                                                  |
//!  +----------------------------------------------------------------------------------------------+
//! ```
//!
//! The RFC leaves open what the checksum covers: here it is the whole routing header, from its first octet on. It lists up to 127
//! destinations; 32 are handled here. Bits that are reserved are passed over, and leave as 0. The routing type and
//! the option's (`options`) are for experiments (RFC 4727), as the RFC's section 15 asks.

mod malformed;
mod options;
mod registration;

use std::{fmt, net::Ipv6Addr};

pub use self::{
    malformed::{Malformed, Reason},
    options::{Options, PORTS_OPTION},
    registration::{REGISTRATION_CODE_LEN, REGISTRATION_LEN, REGISTRATION_PORT, Registration},
};
use crate::{
    ipv6::has_routing_header,
    mead::Map,
    membership::{fold, ones_complement_sum},
};

/// The routing type of the header (RFC 5058, section 9.3.2).
pub const ROUTING_TYPE: u8 = 254;

/// The group of all Xcast routers on a link (RFC 5058, section 9.1). The address is for experiments (RFC 4727,
/// section 3.4.2).
pub const ALL_XCAST_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x114);

/// The largest number of destinations that are handled.
pub const MAX_DESTINATIONS: usize = 32;

/// The number of bytes before the destinations. It includes one bitmap, which limits their number.
pub const FIXED_LEN: usize = 32;

const VERSION: u8 = 1;
const ADDRESS_LEN: usize = 16;

const AT_TYPE: usize = 2;
const AT_SEGMENTS_LEFT: usize = 3;
const AT_FLAGS: usize = 4;
const AT_COUNT: usize = 5;
const AT_CHECKSUM: usize = 6;
const AT_CHANNEL: usize = 8;
const AT_BITMAP: usize = 24;

const ANONYMITY: u8 = 0b1000;
const XCAST: u8 = 0b0100;
const DSCPS: u8 = 0b0010;

/// The bits of the count octet that hold the number of destinations. The other bit is reserved.
const COUNT_BITS: u8 = 0x7f;

/// The routing header. The headers that [`Header::parse`] and [`Header::new`] return are never [`Malformed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The type of the header behind this one. A list of ports counts as such a header.
    pub next_header: u8,
    /// The A bit: a copy must not show the addresses of destinations that it is not for.
    pub is_anonymous: bool,
    /// The X bit: the packet must stay Xcast until it arrives.
    pub stays_xcast: bool,
    /// The channel identifier, which names the channel together with the source's address (RFC 5058, section
    /// 8.3). In Xcast+ it is the group. The unspecified address means that there is none.
    pub channel: Ipv6Addr,
    /// Destinations to which the packet is still to be delivered.
    pub valid: Map,
    /// All destinations that the packet was sent to. Those that are no longer valid may have been overwritten.
    pub destinations: Vec<Ipv6Addr>,
}

impl Header {
    /// Creates a header for these destinations, all valid.
    ///
    /// # Errors
    /// If there are no destinations or more than 32, if one is not forwardable, or if one appears twice.
    pub fn new(next_header: u8, channel: Ipv6Addr, destinations: Vec<Ipv6Addr>) -> Result<Self, Malformed> {
        if destinations.len() > MAX_DESTINATIONS {
            return Err(Malformed::TooManyAddresses(destinations.len().min(255) as u8));
        }
        let valid = (0..destinations.len()).collect();
        let header =
            Self { next_header, is_anonymous: false, stays_xcast: false, channel, valid, destinations };
        match header.destinations.is_empty() {
            true => Err(Malformed::NoAddress),
            false => header.check().map(|()| header),
        }
    }

    /// Parses the header at the beginning of `bytes`. Returns it with the bytes that follow. The caller checks
    /// the routing type.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let fixed: &[u8; FIXED_LEN] = bytes.first_chunk().ok_or(Malformed::short(bytes, FIXED_LEN))?;
        let count = check_fixed(fixed)?;
        let (header, rest) =
            bytes.split_at_checked(len(count.into())).ok_or(Malformed::short(bytes, len(count.into())))?;
        check_checksum(header)?;
        let bits = u64::from_be_bytes(fixed[AT_BITMAP..].try_into().expect("8 bytes"));
        if bits << count != 0 {
            return Err(Malformed::BitmapBeyondList(count));
        }
        let header = Self {
            next_header: fixed[0],
            is_anonymous: fixed[AT_FLAGS] & ANONYMITY != 0,
            stays_xcast: fixed[AT_FLAGS] & XCAST != 0,
            channel: address(&fixed[AT_CHANNEL..AT_BITMAP]),
            valid: Map::from_bits((bits >> 32) as u32),
            destinations: header[FIXED_LEN..].chunks_exact(ADDRESS_LEN).map(address).collect(),
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

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        let count = self.destinations.len() as u8;
        (bytes[0], bytes[1], bytes[AT_TYPE]) = (self.next_header, extension_len(count), ROUTING_TYPE);
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        bytes[AT_FLAGS] = VERSION << 4 | flag(self.is_anonymous, ANONYMITY) | flag(self.stays_xcast, XCAST);
        bytes[AT_COUNT] = count;
        bytes[AT_CHANNEL..AT_BITMAP].copy_from_slice(&self.channel.octets());
        bytes[AT_BITMAP..AT_BITMAP + 4].copy_from_slice(&self.valid.bits().to_be_bytes());
        self.destinations.iter().for_each(|address| bytes.extend_from_slice(&address.octets()));
        let checksum = !fold(ones_complement_sum(&bytes));
        bytes[AT_CHECKSUM..AT_CHANNEL].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Length on the wire in bytes.
    pub fn emitted_len(&self) -> usize {
        len(self.destinations.len())
    }

    /// The header of a copy for some of the valid destinations. With the A bit, the addresses of the others are
    /// overwritten.
    #[must_use]
    pub fn only(&self, valid: Map) -> Self {
        let mut header = Self { valid, ..self.clone() };
        if self.is_anonymous {
            let others =
                header.destinations.iter_mut().enumerate().filter(|(place, _)| !valid.contains(*place));
            others.for_each(|(_, address)| *address = Ipv6Addr::UNSPECIFIED);
        }
        header
    }

    /// The destinations to which the packet is still to be delivered, in order.
    pub fn valid_destinations(&self) -> impl Iterator<Item = Ipv6Addr> + Clone {
        self.valid.iter().map(|place| self.destinations[place])
    }

    fn check(&self) -> Result<(), Malformed> {
        if self.valid.is_empty() {
            return Err(Malformed::NothingValid);
        }
        Malformed::check_addresses(self.valid_destinations())
    }
}

/// The length in bytes of a header with this many destinations.
pub fn len(destinations: usize) -> usize {
    FIXED_LEN + destinations * ADDRESS_LEN
}

/// Checks the fields before the destinations. Returns the number of destinations.
fn check_fixed(fixed: &[u8; FIXED_LEN]) -> Result<u8, Malformed> {
    let (flags, count, found) = (fixed[AT_FLAGS], fixed[AT_COUNT] & COUNT_BITS, fixed[1]);
    if flags >> 4 != VERSION {
        return Err(Malformed::Version(flags >> 4));
    }
    if flags & DSCPS != 0 {
        return Err(Malformed::Dscps);
    }
    Malformed::check_fixed(count, found, extension_len, fixed[AT_SEGMENTS_LEFT]).map(|()| count)
}

fn check_checksum(header: &[u8]) -> Result<(), Malformed> {
    let sum = ones_complement_sum(header);
    if fold(sum) == 0xffff {
        return Ok(());
    }
    let found = u16::from_be_bytes([header[AT_CHECKSUM], header[AT_CHECKSUM + 1]]);
    Err(Malformed::Checksum { found, expected: !fold(sum - u64::from(found)) })
}

/// Whether a group is that of all Xcast routers, in any scope.
pub fn is_all_xcast_routers(address: Ipv6Addr) -> bool {
    let [first, rest @ ..] = address.segments();
    first & 0xfff0 == 0xff00 && rest == [0, 0, 0, 0, 0, 0, 0x114]
}

/// The length field for `count` destinations, in units of 8 bytes without the first (RFC 8200, section 4.4).
fn extension_len(count: u8) -> u8 {
    3 + 2 * count
}

fn address(octets: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(octets).expect("16 bytes"))
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { next_header, channel, valid, .. } = self;
        write!(f, "Xcast next-header={next_header} channel={channel} bitmap={valid}")?;
        if self.is_anonymous {
            f.write_str(" A")?;
        }
        if self.stays_xcast {
            f.write_str(" X")?;
        }
        self.destinations.iter().try_for_each(|address| write!(f, " {address}"))
    }
}
