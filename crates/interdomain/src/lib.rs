//! Routing between networks: how large the global routing tables are, and why.
//!
//! [`rib`] analyses routing tables that collectors publish, as chapters 5 and 6 of the paper interdomain-2013 do.
//! [`mast`] keeps them small: it is the solution of chapter 6 for stubs with several providers.
//!
//! This crate sends no packet and opens no socket, except in [`mast::run`].

pub mod mast;
pub mod rib;
