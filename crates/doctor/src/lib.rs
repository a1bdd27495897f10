//! The doctor: what hinders multicast on a host and between hosts, and what to do about it.
//!
//! [`host`] looks at one host, and [`network`] at what arrives between hosts. Both first collect plain facts, and then
//! judge them with functions that touch no machine. So every judgement is tested without a network.

pub mod finding;
pub mod glop;
pub mod host;
pub mod network;
mod packet;
#[doc(hidden)]
pub mod parsers;
pub mod trace;
