//! mDNS, the name server of a MAST stub (paper interdomain-2013, 6.3.2): prefixes and interface identifiers are
//! stored apart, and joined into the addresses of an answer. Discouraged prefixes are left out. It has nothing to do
//! with multicast DNS.
//!
//! [`server::Server`] is the machine: it has no sockets and no clock. The SRMS changes the status of a prefix by
//! dynamic updates (RFC 2136) that are signed (TSIG, RFC 8945): [`client::PrefixUpdate`].

pub mod client;
pub mod keys;
pub mod lookup;
pub mod records;
pub mod server;
mod update;
pub mod zone;

#[cfg(test)]
mod tests;

/// Parses a message of at most the memory that its length allows.
fn parse(bytes: &[u8]) -> Result<hickory_proto::op::Message, String> {
    if !treecast_wire::dns::has_room(bytes) {
        return Err("it is shorter than its counts of records say".into());
    }
    hickory_proto::op::Message::from_vec(bytes).map_err(|error| error.to_string())
}
