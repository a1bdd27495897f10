//! Why a packet with Xcast's routing header is not forwarded.

use std::net::Ipv6Addr;

use thiserror::Error;

use crate::destination_options::Wrong;

/// The error in a header, with the value that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("packet: {have} bytes are there, {need} are needed")]
    Truncated { have: usize, need: usize },
    #[error("version: {0} found, expected 1")]
    Version(u8),
    #[error("D bit: 1 found, expected 0: a code point for each destination is not supported")]
    Dscps,
    #[error("number of destinations: 0 found, expected 1 to 32")]
    NoAddress,
    #[error("number of destinations: {0} found, expected 1 to 32")]
    TooManyAddresses(u8),
    #[error("header extension length: {found} found, expected {expected} for this number of destinations")]
    HeaderLen { found: u8, expected: u8 },
    #[error("fourth octet: {0} found, expected 0")]
    SegmentsLeft(u8),
    #[error("checksum: {found:#06x} found, expected {expected:#06x}")]
    Checksum { found: u16, expected: u16 },
    #[error("bitmap: a bit beyond the {0} destinations found, expected none")]
    BitmapBeyondList(u8),
    #[error("bitmap: no bit found, expected one of a destination at least")]
    NothingValid,
    #[error("list of addresses: {0} found, expected unicast addresses that can be forwarded to")]
    Address(Ipv6Addr),
    #[error("list of ports: {0}")]
    Ports(&'static str),
    #[error("next header: a second routing header (43) found, expected none")]
    SecondRoutingHeader,
    #[error("list of addresses: {0} found twice, expected each destination once")]
    Twice(Ipv6Addr),
}

/// The kind of an error, which routers count. Its number follows those of MEADcast's errors, as in
/// `bpf/mead.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Reason {
    Truncated = 0,
    Version = 1,
    Dscps = 2,
    NoAddress = 3,
    TooManyAddresses = 4,
    HeaderLen = 5,
    SegmentsLeft = 6,
    Checksum = 7,
    BitmapBeyondList = 8,
    NothingValid = 9,
    Address = 10,
    Ports = 11,
    SecondRoutingHeader = 12,
    Twice = 13,
}

impl Reason {
    pub const ALL: [Self; 14] = [
        Self::Truncated,
        Self::Version,
        Self::Dscps,
        Self::NoAddress,
        Self::TooManyAddresses,
        Self::HeaderLen,
        Self::SegmentsLeft,
        Self::Checksum,
        Self::BitmapBeyondList,
        Self::NothingValid,
        Self::Address,
        Self::Ports,
        Self::SecondRoutingHeader,
        Self::Twice,
    ];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Version => "version",
            Self::Dscps => "dscps",
            Self::NoAddress => "no-address",
            Self::TooManyAddresses => "too-many-addresses",
            Self::HeaderLen => "header-length",
            Self::SegmentsLeft => "segments-left",
            Self::Checksum => "checksum",
            Self::BitmapBeyondList => "bitmap-beyond-list",
            Self::NothingValid => "nothing-valid",
            Self::Address => "address",
            Self::Ports => "ports",
            Self::SecondRoutingHeader => "second-routing-header",
            Self::Twice => "address-twice",
        }
    }
}

impl Malformed {
    pub fn reason(self) -> Reason {
        match self {
            Self::Truncated { .. } => Reason::Truncated,
            Self::Version(_) => Reason::Version,
            Self::Dscps => Reason::Dscps,
            Self::NoAddress => Reason::NoAddress,
            Self::TooManyAddresses(_) => Reason::TooManyAddresses,
            Self::HeaderLen { .. } => Reason::HeaderLen,
            Self::SegmentsLeft(_) => Reason::SegmentsLeft,
            Self::Checksum { .. } => Reason::Checksum,
            Self::BitmapBeyondList(_) => Reason::BitmapBeyondList,
            Self::NothingValid => Reason::NothingValid,
            Self::Address(_) => Reason::Address,
            Self::Ports(_) => Reason::Ports,
            Self::SecondRoutingHeader => Reason::SecondRoutingHeader,
            Self::Twice(_) => Reason::Twice,
        }
    }
}

impl From<Wrong> for Malformed {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Truncated { have, need } => Self::Truncated { have, need },
            Wrong::Options(what) => Self::Ports(what),
        }
    }
}
