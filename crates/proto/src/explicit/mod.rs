//! Explicit multicast: each packet names those who are to get it, and routers on the way replicate it.
//!
//! Two protocols do so. [`mead`] is MEADcast, whose lists name routers, too, after a discovery. [`xcast`] is Xcast, whose
//! lists name destinations alone. This module holds what both share: address lists ([`lists`]), the packets made of them
//! ([`transmission`]), the proofs that a list is of the routers' domain ([`list_proof`]), and what routers and senders
//! that know the domain's key say to each other ([`authentication`]). [`finder`] runs either protocol by the same calls. [`plan`] computes what either costs on a network.

pub mod authentication;
pub mod finder;
pub mod list_proof;
pub mod lists;
pub mod mead;
pub mod plan;
pub mod transmission;
pub mod xcast;
