//! MEADcast (meadcast-thesis-2024): a sender puts routers and the receivers behind them into a routing header, and the
//! routers on the way replicate the packet and turn it into unicast. Receivers know nothing of it.
//!
//! The roles:
//! - The *sender* asks for routers with a discovery request to each receiver, makes a tree of the responses,
//!   groups the receivers into headers, and sends what is in no header by unicast.
//! - A *router* answers discovery and forwards data. One that does not know MEADcast forwards both as it does all packets.
//!
//! The sender's parts: [`sender`] is the machine, [`tree`] what it knows, [`grouping`] and [`cost`] which receivers share a packet,
//! and [`super::transmission`] the packets.
//!
//! Where this differs from the thesis:
//! - What the responses say does not depend on the order in which they come (the thesis found that its grouping did).
//! - Responses can be authenticated ([`super::authentication`]), which the thesis proposes without a mechanism (5.2.4), and so can address
//!   lists ([`super::list_proof`]).
//! - A router to whose links receivers are attached that have joined a group can serve them by one multicast packet
//!   (Xcast+, RFC 5058, which 6.2 refers to).
//! - Each part of the revision that 5.2.4 proposes is there, and is a switch.
#![warn(missing_docs)]

pub mod cost;
mod designated;
pub mod grouping;
pub mod listeners;
pub mod router;
pub mod sender;
pub mod transmission;
pub mod tree;
