//! Every packet that treecast puts on a network, as a type with `parse` and `emit`.
//!
//! This crate has no sockets, no files, no clock, no threads and no `unsafe`; it never allocates
//! more than the bytes it is handed.
//!
//! Parsing never panics, whatever the bytes: it returns a [`ParseError`] that names the field, the
//! value found and what was expected. All integers are in network order unless a module says otherwise.
#![forbid(unsafe_code)]

pub mod announcement;
pub mod beacon;
pub mod chunk_index;
pub mod code;
pub mod datagram;
mod destination_options;
pub mod dns;
mod enums;
mod error;
mod field;
pub mod header;
pub mod icmpv6;
pub mod igmp;
pub mod iotup;
pub mod ipv6;
pub mod list_proof;
mod malformed;
pub mod mead;
pub mod membership;
pub mod message;
pub mod mld;
pub mod mtrace2;
pub mod sap;
pub mod seal;
pub mod snmp;
pub mod ticket;
pub mod unicast;
pub mod xcast;

pub use error::ParseError;
