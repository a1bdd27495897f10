//! Xcast6 and Xcast+ (RFC 5058): a packet carries the list of its destinations, and each router sends one copy to each next hop
//! with those destinations that lie behind it. Routers remember nothing, and receivers know nothing of it.
//!
//! Where this chooses, because the RFC leaves it open:
//! - A packet's IPv6 destination is one of its destinations, so that routers that know nothing of Xcast pass it on towards that one,
//!   as in semi-permeable tunnels (11.3) but without a second IPv6 header. Routers take it whatever its destination is. They also
//!   take what is sent to all Xcast routers on the link (9.1).
//! - The checksum of UDP, TCP or ICMPv6 is right for the destination that stands in the IPv6 header, for the same reason.
#![warn(missing_docs)]

pub mod registration;
pub mod router;
pub mod sender;
pub mod transmission;
