//! The behaviour of each protocol of treecast, as state machines.
//!
//! This crate opens no socket or file, reads no clock, starts no thread and draws no randomness of
//! its own: a machine is handed packets and the time, and hands back what is to be sent, stored or
//! told. So the same machine runs in `sim`, in virtual time, and in `driver`, on a network.
//!
//! # The shape of a machine
//!
//! The caller of a machine does this, in this order and for ever:
//!
//! 1. `handle(now, input)` for each thing that has happened. `now` never goes back.
//! 2. `poll(now, ..)` again and again, carrying out each [`Step::Transmit`] and taking note of each
//!    [`Step::Event`], until it returns [`Step::Wait`].
//! 3. Nothing until there is more input or the deadline of the [`Step::Wait`] has come; then 1 or 2.
//!
//! A `Wait` says *why* it waits, so that progress displays and tests can tell one wait from another.
#![forbid(unsafe_code)]

pub mod announced;
mod arrived;
pub mod carousel;
pub mod code;
pub mod explicit;
pub mod fanout;
pub mod fec;
pub mod group_key;
pub mod group_rate;
pub mod lengths;
pub mod limiter;
pub mod local;
pub mod membership;
pub mod object;
mod payload;
pub mod policy;
pub mod random;
mod rate_bounds;
pub mod rates;
pub mod repair;
mod replay_window;
pub mod standing;
pub mod taken_counters;
mod tcp_window;
pub mod tfmcc;
pub mod time;
pub mod unicast;
mod usage;
pub mod vcmtp;

pub use time::Instant;

/// The next action that a machine asks of its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<T, E, W> {
    /// The caller is to send or store something.
    Transmit(T),
    /// The caller is to tell its user something.
    Event(E),
    /// There is nothing to do before the deadline. None: there is nothing to do before the next input. The
    /// second field says what the machine waits for.
    Wait(Option<Instant>, W),
}
