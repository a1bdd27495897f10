//! Announcements of sessions: when a sender repeats them, and which of them a listener believes.
//!
//! [`Announcer`] is the sender's machine, [`Directory`] the listener's. Neither checks a signature: the caller does, when the
//! directory says that it is worth the time.

mod announcer;
mod directory;

pub use announcer::{Announcer, Carrier, SAP_VALID_SECONDS};
pub use directory::{Change, Directory, MAX_SESSIONS, Refusal, SessionKey, Worth};
