//! Forward error correction with RaptorQ (RFC 6330), without its arithmetic: how an object is cut into source
//! blocks, how many repair symbols to send, and what a receiver lacks. The code itself is the caller's, which
//! has the bytes.
//!
//! A symbol is as long as the session's blocks, and the code is systematic: the blocks of a source block are its
//! first symbols, sent as the `Data` packets that they are without it. Repair symbols have the numbers from there on.
//! Any symbols of a source block, as many as it has blocks and now and then one or two more, give all of them back.
//!
//! Repair symbols leave in three ways: a share of each source block right behind it ([`Share`]); as many as
//! receivers have said that they lack ([`Schedule`]), whatever each of them has lost; and in a carousel all
//! the time.

mod auto;
mod gathering;
mod layout;
mod schedule;

pub use auto::Share;
pub(crate) use auto::{Estimate, ToGo, Wish, is_out_of_reach};
pub(crate) use gathering::Gatherer;
pub use layout::{Layout, MAX_SOURCE_SYMBOLS, MAX_SYMBOLS, symbol_number};
pub(crate) use schedule::Schedule;
