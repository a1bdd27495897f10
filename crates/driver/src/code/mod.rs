//! Gets a ticket to whoever has a short code, over the local network: a password-authenticated key exchange (SPAKE2) on a TCP
//! connection, with which the ticket is sealed. [`treecast_proto::code`] has the code and counts the guesses.

mod ask;
mod counter;
mod exchange;
mod timed;

pub use ask::{AskError, ask};
pub use counter::{Counter, News};
pub use treecast_proto::code::{Code, CodeError, looks_like_code};

/// Draws a code.
///
/// # Errors
/// If the host has no random numbers.
pub fn draw() -> std::io::Result<Code> {
    Ok(Code::from_random(u32::from_be_bytes(crate::security::random()?)))
}
