//! Finds the highest rate at which a network loses nothing, or at most a stated share.
//!
//! Nothing here sends a packet or reads a clock. [`Search`] says which value to try next, and is told what came of the trial.
//! [`Layout`] computes the rate that the links allow (congested-multicast-2019, 5.1 and 5.2). [`blame`] says from a trial's
//! counters which link, host or machine gave in.

mod blame;
mod layout;
mod search;

pub use blame::{Evidence, Limit, blame};
pub use layout::{Layout, Pattern};
pub use search::{Range, Search, Step, Threshold, Trial};
