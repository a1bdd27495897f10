//! Why a packet with MEADcast's routing header is not forwarded.

use std::net::Ipv6Addr;

use thiserror::Error;

/// The error in a header, with the value that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("packet: {have} bytes are there, {need} are needed")]
    Truncated { have: usize, need: usize },
    #[error("number of destinations: 0 found, expected 1 to 32")]
    NoAddress,
    #[error("number of destinations: {0} found, expected 1 to 32")]
    TooManyAddresses(u8),
    #[error("header extension length: {found} found, expected {expected} for this number of destinations")]
    HeaderLen { found: u8, expected: u8 },
    #[error("segments left: {0} found, expected 0")]
    SegmentsLeft(u8),
    #[error("flags: {0:#04b} found, expected 00, 10 or 11")]
    Flags(u8),
    #[error("number of destinations: {0} found, expected 1 in discovery")]
    DiscoveryOfMany(u8),
    #[error("next header: {0} found, expected 59 (none) or 60 (options before it) in discovery")]
    DiscoveryWithPayload(u8),
    #[error("maps: a bit beyond the {0} addresses found, expected none")]
    MapBeyondList(u8),
    #[error("delivery map: the bit of a receiver found, expected bits of routers only")]
    DeliveryOfReceiver,
    #[error("router map: the first address is a receiver, expected a router before each receiver")]
    ReceiverWithoutRouter,
    #[error("address list: {0} found, expected unicast addresses that can be forwarded to")]
    Address(Ipv6Addr),
    #[error("options: {0}")]
    Options(&'static str),
    #[error("next header: a second routing header (43) found, expected none")]
    SecondRoutingHeader,
    #[error("address list: {0} found twice, expected each address once")]
    Twice(Ipv6Addr),
}

/// The kind of an error, which routers count. Its number is the one in `bpf/mead.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Reason {
    Truncated = 0,
    NoAddress = 1,
    TooManyAddresses = 2,
    HeaderLen = 3,
    SegmentsLeft = 4,
    Flags = 5,
    DiscoveryOfMany = 6,
    DiscoveryWithPayload = 7,
    MapBeyondList = 8,
    DeliveryOfReceiver = 9,
    ReceiverWithoutRouter = 10,
    Address = 11,
    Options = 12,
    SecondRoutingHeader = 13,
    Twice = 14,
}

impl Reason {
    pub const ALL: [Self; 15] = [
        Self::Truncated,
        Self::NoAddress,
        Self::TooManyAddresses,
        Self::HeaderLen,
        Self::SegmentsLeft,
        Self::Flags,
        Self::DiscoveryOfMany,
        Self::DiscoveryWithPayload,
        Self::MapBeyondList,
        Self::DeliveryOfReceiver,
        Self::ReceiverWithoutRouter,
        Self::Address,
        Self::Options,
        Self::SecondRoutingHeader,
        Self::Twice,
    ];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::NoAddress => "no-address",
            Self::TooManyAddresses => "too-many-addresses",
            Self::HeaderLen => "header-length",
            Self::SegmentsLeft => "segments-left",
            Self::Flags => "flags",
            Self::DiscoveryOfMany => "discovery-of-many",
            Self::DiscoveryWithPayload => "discovery-with-payload",
            Self::MapBeyondList => "map-beyond-list",
            Self::DeliveryOfReceiver => "delivery-of-receiver",
            Self::ReceiverWithoutRouter => "receiver-without-router",
            Self::Address => "address",
            Self::Options => "options",
            Self::SecondRoutingHeader => "second-routing-header",
            Self::Twice => "address-twice",
        }
    }
}

impl Malformed {
    pub fn reason(self) -> Reason {
        match self {
            Self::Truncated { .. } => Reason::Truncated,
            Self::NoAddress => Reason::NoAddress,
            Self::TooManyAddresses(_) => Reason::TooManyAddresses,
            Self::HeaderLen { .. } => Reason::HeaderLen,
            Self::SegmentsLeft(_) => Reason::SegmentsLeft,
            Self::Flags(_) => Reason::Flags,
            Self::DiscoveryOfMany(_) => Reason::DiscoveryOfMany,
            Self::DiscoveryWithPayload(_) => Reason::DiscoveryWithPayload,
            Self::MapBeyondList(_) => Reason::MapBeyondList,
            Self::DeliveryOfReceiver => Reason::DeliveryOfReceiver,
            Self::ReceiverWithoutRouter => Reason::ReceiverWithoutRouter,
            Self::Address(_) => Reason::Address,
            Self::Options(_) => Reason::Options,
            Self::SecondRoutingHeader => Reason::SecondRoutingHeader,
            Self::Twice(_) => Reason::Twice,
        }
    }
}
