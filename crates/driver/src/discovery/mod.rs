//! Announces sessions on the network, and finds those that others announce: by mDNS (DNS-SD, RFC 6762 and 6763) on the link, and by
//! SAP (RFC 2974) beyond it. Both carry the same signed announcement.
//!
//! DNS messages are parsed and written by `hickory-proto`. Nothing that others send is kept here, except what
//! [`treecast_proto::announced::Directory`] has room for (`docs/decisions/discovery.md`).

mod announcing;
mod listener;
mod mdns;
mod sockets;

pub use announcing::{Announcing, Notice};
pub use listener::{Listener, News, Offer, find_offers};
pub use sockets::interfaces;

use treecast_wire::announcement::Announcement;

use crate::security::PublicKey;

/// Reads a message of mDNS, and says nothing of it: for tests with random bytes.
pub(crate) fn read_mdns(bytes: &[u8]) {
    _ = mdns::read(bytes);
}

/// Whether an announcement is signed by the key that its ticket names.
fn is_signed(announcement: &Announcement, signature: &[u8; treecast_wire::message::SIGNATURE_LEN]) -> bool {
    let key = PublicKey::from_bytes(announcement.key());
    key.is_ok_and(|key| key.verify(&announcement.signed_bytes(), signature))
}
