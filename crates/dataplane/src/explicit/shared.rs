//! The structures and numbers of `bpf/mead.h` in Rust: what the daemon and the program share.

use std::mem::{offset_of, size_of};

use treecast_proto::explicit::mead::router::{Guard, MAX_REQUEST_LEN, Prefix, Refused, ReversePath, Router};
use treecast_wire::{
    mead::{Dialect, Reason},
    xcast,
};

/// The settings of the program: `struct mead_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Config {
    /// Whether the program acts: a value of `enum mead_mode`.
    pub mode: u32,
    pub min_dsts: u32,
    pub dialect: u32,
    pub through_kernel: u32,
    pub refresh_ns: u64,
    pub reverse_path: u32,
    pub has_allowed: u32,
    pub needs_proof: u32,
    pub copies_per_second: u32,
    pub list_key: [u64; 2],
    pub epoch: u64,
}

impl Config {
    /// Returns the settings with those of this guard.
    pub fn guarded(self, guard: &Guard) -> Self {
        let (list_key, epoch) =
            guard.lists.map_or_else(Default::default, |(key, epoch)| (key.words(), epoch));
        Self {
            reverse_path: match guard.reverse_path {
                ReversePath::Off => 0,
                ReversePath::Loose => 1,
                ReversePath::Strict => 2,
            },
            has_allowed: (!guard.allowed.is_empty()).into(),
            needs_proof: guard.lists.is_some().into(),
            copies_per_second: guard.copies_per_second,
            list_key,
            epoch,
            ..self
        }
    }
}

/// Returns the address of a `struct mead_prefix`, and how many of its bits count.
pub fn prefix_parts(prefix: Prefix) -> ([u8; 16], u32) {
    let (address, len) = prefix.parts();
    (address.octets(), len.into())
}

/// The most networks whose sources may be allowed: `MEAD_MAX_ALLOWED`.
pub const MAX_ALLOWED: usize = 1024;

/// The neighbour that copies went to: `struct mead_neighbour_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct NeighbourKey {
    pub interface: u32,
    pub address: [u8; 16],
}

/// The counts of what a neighbour was sent: `struct mead_neighbour`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Neighbour {
    pub packets: u64,
    pub bytes: u64,
    pub refreshed_ns: u64,
}

/// The most links on which a group is served: `MEAD_MAX_LANS`.
pub const MAX_LANS: usize = 32;

/// The most groups that are served: `MEAD_MAX_GROUPS`.
pub const MAX_GROUPS: usize = 4096;

/// The Ethernet address of an interface: `struct mead_mac`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Mac {
    pub octets: [u8; 6],
    pub unused: u16,
}

/// A link with listeners: `struct mead_lan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Lan {
    pub interface: u32,
    pub mac: [u8; 6],
    pub unused: u16,
}

/// The links on which a group is served: `struct mead_group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct GroupEntry {
    pub count: u32,
    pub lans: [Lan; MAX_LANS],
}

/// The offset of the packet in a `struct mead_request`. The interface and the length come before it, four bytes
/// each.
pub const REQUEST_PACKET: usize = 8;

const _: () = assert!(size_of::<Config>() == 64);
const _: () = assert!(offset_of!(Config, refresh_ns) == 16);
const _: () = assert!(offset_of!(Config, list_key) == 40);
const _: () = assert!(size_of::<Mac>() == 8);
const _: () = assert!(size_of::<Lan>() == 12 && offset_of!(Lan, mac) == 4);
const _: () = assert!(size_of::<GroupEntry>() == 4 + 12 * MAX_LANS);
const _: () = assert!(size_of::<NeighbourKey>() == 20);
const _: () = assert!(size_of::<Neighbour>() == 24);
const _: () = assert!(REQUEST_PACKET + MAX_REQUEST_LEN == 336);

// SAFETY: C structures of integers without padding: every pattern of bits is a value.
unsafe impl aya::Pod for Config {}
// SAFETY: as above.
unsafe impl aya::Pod for Mac {}
// SAFETY: as above.
unsafe impl aya::Pod for GroupEntry {}
// SAFETY: as above.
unsafe impl aya::Pod for NeighbourKey {}
// SAFETY: as above.
unsafe impl aya::Pod for Neighbour {}

/// The number of counters: `MEAD_COUNTERS`.
pub const COUNTERS: usize = 65;

/// The first counter of malformed Xcast packets, which are counted by reason: `XCAST_TRUNCATED`.
pub const FIRST_XCAST_REASON: usize = 35;

/// The first counter of packets that were not copied, which are counted by reason: `MEAD_REFUSED`, and then
/// `XCAST_REFUSED`.
pub const FIRST_REFUSED: usize = 30;
pub const FIRST_XCAST_REFUSED: usize = 59;

/// The other counters, after those of malformed packets: `enum mead_counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    HopLimit = 15,
    NothingToDeliver = 16,
    NotRewritten = 17,
    Data = 18,
    Requests = 19,
    Responses = 20,
    RequestsUnheard = 21,
    Replicas = 22,
    Whole = 23,
    Unicast = 24,
    Premature = 25,
    ByKernel = 26,
    NotSent = 27,
    Multicast = 28,
    NoListener = 29,
    XcastHopLimit = 49,
    XcastNoListener = 50,
    XcastData = 51,
    XcastCopies = 52,
    XcastUnicast = 53,
    XcastPremature = 54,
    XcastLocal = 55,
    XcastUnrouted = 56,
    XcastMulticast = 57,
    XcastForOthers = 58,
    OtherDialect = 64,
}

const _: () = assert!(Reason::ALL.len() == Counter::HopLimit as usize);
const _: () = assert!(Counter::NoListener as usize + 1 == FIRST_REFUSED);
const _: () = assert!(FIRST_REFUSED + Refused::ALL.len() == FIRST_XCAST_REASON);
const _: () = assert!(FIRST_XCAST_REASON + xcast::Reason::ALL.len() == Counter::XcastHopLimit as usize);
const _: () = assert!(Counter::XcastForOthers as usize + 1 == FIRST_XCAST_REFUSED);
const _: () = assert!(FIRST_XCAST_REFUSED + Refused::ALL.len() == Counter::OtherDialect as usize);
const _: () = assert!(Counter::OtherDialect as usize + 1 == COUNTERS);

/// Returns the value of `enum mead_mode` for this router.
pub fn mode_number(router: &Router) -> u32 {
    match (router.is_enabled, router.is_leaving) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

/// Returns the value of `enum mead_dialect` for this dialect.
pub fn dialect_number(dialect: Dialect) -> u32 {
    match dialect {
        Dialect::Rfc => 0,
        Dialect::Linux65 => 1,
    }
}
