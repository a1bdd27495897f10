//! `bpf/mead.h` in Rust: what the daemon and the program share.

use std::mem::{offset_of, size_of};

use treecast_proto::mead::router::{MAX_REQUEST_LEN, Router};
use treecast_wire::{
    mead::{Dialect, Reason},
    xcast,
};

/// `struct mead_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Config {
    /// `enum mead_mode`.
    pub mode: u32,
    pub min_dsts: u32,
    pub dialect: u32,
    pub through_kernel: u32,
    pub refresh_ns: u64,
}

/// `struct mead_neighbour_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct NeighbourKey {
    pub interface: u32,
    pub address: [u8; 16],
}

/// `struct mead_neighbour`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Neighbour {
    pub packets: u64,
    pub bytes: u64,
    pub refreshed_ns: u64,
}

/// `MEAD_MAX_LANS`.
pub const MAX_LANS: usize = 32;

/// `MEAD_MAX_GROUPS`.
pub const MAX_GROUPS: usize = 4096;

/// `struct mead_mac`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Mac {
    pub octets: [u8; 6],
    pub unused: u16,
}

/// `struct mead_lan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Lan {
    pub interface: u32,
    pub mac: [u8; 6],
    pub unused: u16,
}

/// `struct mead_group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Group {
    pub count: u32,
    pub lans: [Lan; MAX_LANS],
}

/// Where the packet of a `struct mead_request` begins; before it its interface and length, four bytes each.
pub const REQUEST_PACKET: usize = 8;

const _: () = assert!(size_of::<Config>() == 24);
const _: () = assert!(offset_of!(Config, refresh_ns) == 16);
const _: () = assert!(size_of::<Mac>() == 8);
const _: () = assert!(size_of::<Lan>() == 12 && offset_of!(Lan, mac) == 4);
const _: () = assert!(size_of::<Group>() == 4 + 12 * MAX_LANS);
const _: () = assert!(size_of::<NeighbourKey>() == 20);
const _: () = assert!(size_of::<Neighbour>() == 24);
const _: () = assert!(REQUEST_PACKET + MAX_REQUEST_LEN == 336);

// SAFETY: C structures of integers without padding: every pattern of bits is a value.
unsafe impl aya::Pod for Config {}
// SAFETY: as above.
unsafe impl aya::Pod for Mac {}
// SAFETY: as above.
unsafe impl aya::Pod for Group {}
// SAFETY: as above.
unsafe impl aya::Pod for NeighbourKey {}
// SAFETY: as above.
unsafe impl aya::Pod for Neighbour {}

/// `MEAD_COUNTERS`.
pub const COUNTERS: usize = 53;

/// `XCAST_TRUNCATED`: from here on malformed Xcast packets are counted, by their reasons.
pub const FIRST_XCAST_REASON: usize = 29;

/// `enum mead_counter`, behind the malformed packets' reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    HopLimit = 14,
    NothingToDeliver = 15,
    NotRewritten = 16,
    Data = 17,
    Requests = 18,
    Responses = 19,
    RequestsUnheard = 20,
    Replicas = 21,
    Whole = 22,
    Unicast = 23,
    Premature = 24,
    ByKernel = 25,
    NotSent = 26,
    Multicast = 27,
    NoListener = 28,
    XcastHopLimit = 42,
    XcastNoListener = 43,
    XcastData = 44,
    XcastCopies = 45,
    XcastUnicast = 46,
    XcastPremature = 47,
    XcastLocal = 48,
    XcastUnrouted = 49,
    XcastMulticast = 50,
    XcastForOthers = 51,
    OtherDialect = 52,
}

const _: () = assert!(Reason::ALL.len() == Counter::HopLimit as usize);
const _: () = assert!(Counter::NoListener as usize + 1 == FIRST_XCAST_REASON);
const _: () = assert!(FIRST_XCAST_REASON + xcast::Reason::ALL.len() == Counter::XcastHopLimit as usize);
const _: () = assert!(Counter::OtherDialect as usize + 1 == COUNTERS);

/// `enum mead_mode`.
pub fn mode_number(router: &Router) -> u32 {
    match (router.is_enabled, router.is_leaving) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

/// `enum mead_dialect`.
pub fn dialect_number(dialect: Dialect) -> u32 {
    match dialect {
        Dialect::Rfc => 0,
        Dialect::Linux65 => 1,
    }
}
