//! A rate that fills the path to the slowest receiver of a group, and leaves room for others (`--rate auto`).
//!
//! TFMCC ([`crate::tfmcc`]) takes what TCP's throughput equation allows. So each lost packet lowers its rate,
//! for whatever reason it was lost. This control models the path instead, as BBR does for one connection
//! (draft-ietf-ccwg-bbr): what it delivers at most, how long it is without queues, and how full the queues
//! are. `tfmcc` carries the messages of both, and decides which receiver reports when, and which one the
//! sender follows. This module has the parts that differ:
//!
//! 1. [`path`] is the receiver's half. It measures what is delivered, the growth of the one-way delay, lost
//!    packets and marks.
//! 2. [`steering`] is the sender's half. It turns the reports of the receiver that it follows into a rate, in
//!    phases.
//! 3. [`contest`] lets the rate yield to TCP as CUBIC's window would (RFC 9438).
//! 4. [`slower_groups`] decides which receivers are served in a slower group, which has a rate of its own.
//!
//! Losses that come without a queue, up to 3 % on average, are not congestion. Losses that come with a queue are, and so are marks.

mod contest;
mod delay;
mod delivery;
mod held_back;
mod loss;
mod path;
mod slower_groups;
mod standing;
mod steering;
mod under_way;
mod windowed;

pub use path::{Findings, PacePoint, Path};
pub use slower_groups::{GroupView, MOST_SLOWER, Order, SlowerGroups};
pub use steering::{Sample, Steering};
pub(crate) use under_way::UnderWay;
pub use windowed::Least;
