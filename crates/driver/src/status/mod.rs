//! Shows running sessions to others on their host, and finds them.
//!
//! A sender that waits for receivers also takes orders there: to start, or to wait for another number ([`order`]).
//!
//! The session hands a [`Snapshot`] to a [`Board`] now and then; threads of their own answer from there, on a unix
//! socket ([`serve`]) and over HTTP ([`crate::metrics`]). So nobody who asks, however often or slowly, holds up a
//! packet. What they take is bounded: see [`answer`].

pub(crate) mod answer;
mod board;
mod find;
mod folder;
mod server;
mod snapshot;
mod standing;

pub use board::Board;
pub use find::{Found, find, order};
pub use server::{StatusServer, serve};
pub use snapshot::{MAX_RECEIVERS_SHOWN, Phase, Progress, Receiving, Sending, Snapshot};
pub use standing::{LastSession, RuleStatus, StandingCounts, StandingStatus, TakenStatus};
