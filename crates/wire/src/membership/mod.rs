//! The common parts of MLDv2 (RFC 9777) and IGMPv3 (RFC 9776). The two protocols differ only in their
//! addresses, the first bytes of a query, and the unit of one field.
//!
//! The protocols themselves are in [`crate::mld`] and [`crate::igmp`].

pub(crate) mod address;
mod checksum;
mod discovery;
mod exponent;
mod head;
mod message;
mod older;
mod query;
mod record;
mod report;

pub use address::{Address, Protocol};
pub(crate) use checksum::{fold, internet_checksum, ones_complement_sum};
pub use discovery::RouterAdvertisement;
use exponent::{decode, encode};
pub use message::Message;
pub use older::Older;
pub use query::Query;
pub use record::{GroupRecord, RecordKind};
pub use report::Report;

/// Mantissa bits of the 8-bit codes: QQIC of both protocols, Max Resp Code of IGMPv3.
pub(crate) const SHORT_MANTISSA_BITS: u32 = 4;

/// Mantissa bits of MLDv2's 16-bit Maximum Response Code.
pub(crate) const LONG_MANTISSA_BITS: u32 = 12;

/// Writes `addresses` as `{a, b}`.
fn braced<A: Address>(f: &mut std::fmt::Formatter<'_>, addresses: &[A]) -> std::fmt::Result {
    f.write_str("{")?;
    for (index, address) in addresses.iter().enumerate() {
        write!(f, "{}{address}", if index == 0 { "" } else { ", " })?;
    }
    f.write_str("}")
}
