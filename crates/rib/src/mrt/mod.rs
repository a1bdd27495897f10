//! MRT, the format of routing tables and updates that collectors publish (RFC 6396, RFC 8050).
//!
//! [`frame`] finds the records of a file. [`record`] reads the routes of one record. Nothing here panics or allocates
//! more than the file is long, whatever the file holds.

mod attributes;
pub mod bytes;
pub(crate) mod frame;
pub mod record;

/// Types of records (RFC 6396, 4).
pub mod types {
    pub const TABLE_DUMP: u16 = 12;
    pub const TABLE_DUMP_V2: u16 = 13;
    pub const BGP4MP: u16 = 16;
    pub const BGP4MP_ET: u16 = 17;

    /// Types of BGP that RFC 6396 (appendix B) calls deprecated: BGP, BGP4PLUS and BGP4PLUS_01.
    pub const OLD: [u16; 3] = [5, 9, 10];

    /// Types that hold no routes of BGP.
    pub const OTHER: [u16; 12] = [0, 1, 2, 3, 4, 6, 7, 8, 11, 32, 33, 48];

    /// Subtypes of [`TABLE_DUMP_V2`].
    pub const PEER_INDEX_TABLE: u16 = 1;

    /// The subtype of [`BGP4MP`] that is an entry of a routing table (RFC 6396, appendix B.2.5). OpenBGPD writes it.
    pub const BGP4MP_ENTRY: u16 = 2;

    /// Whether records of the type hold routes of BGP.
    pub fn has_routes(kind: u16) -> bool {
        matches!(kind, TABLE_DUMP | TABLE_DUMP_V2 | BGP4MP | BGP4MP_ET)
    }

    /// Whether a record of this type and subtype is a message of BGP, and not an entry of a table.
    pub fn is_update(kind: u16, subtype: u16) -> bool {
        matches!(kind, BGP4MP | BGP4MP_ET) && subtype != BGP4MP_ENTRY
    }

    /// Whether the type is one of RFC 6396.
    pub fn is_known(kind: u16) -> bool {
        has_routes(kind) || kind == 49 || OTHER.contains(&kind) || OLD.contains(&kind)
    }
}

/// The length of a record's header, in bytes: time, type, subtype, and the length of what follows.
pub(crate) const HEADER_LENGTH: usize = 12;

/// The greatest length of a record behind its header, in bytes. The longest records hold one prefix with the
/// attributes of all peers, and no collector has the 20,000 peers that would fill so many bytes.
pub(crate) const MAX_LENGTH: usize = 16 << 20;

/// The header of a record (RFC 6396, 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Seconds since 1970.
    pub time: u32,
    pub kind: u16,
    pub subtype: u16,
    /// The length of what follows the header, in bytes.
    pub length: usize,
}

impl Header {
    /// Reads a header at the start of `bytes`. `None` if they are too short.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes::Bytes(bytes);
        let (time, kind, subtype) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
        Some(Self { time, kind, subtype, length: bytes.u32()? as usize })
    }

    /// The header's octets.
    pub fn to_wire(self) -> [u8; HEADER_LENGTH] {
        let mut octets = [0; HEADER_LENGTH];
        octets[..4].copy_from_slice(&self.time.to_be_bytes());
        octets[4..6].copy_from_slice(&self.kind.to_be_bytes());
        octets[6..8].copy_from_slice(&self.subtype.to_be_bytes());
        octets[8..].copy_from_slice(&(self.length as u32).to_be_bytes());
        octets
    }
}
