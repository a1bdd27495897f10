//! Congestion control for a group (TFMCC, RFC 4654): a sender takes no more of a path than a TCP connection to its worst
//! receiver would.
//!
//! Each receiver counts loss events and measures the round trip, and by TCP's throughput equation knows the
//! rate that it could have. The sender follows the one with the lowest, its *current limiting receiver*,
//! which reports each round trip; of the others only those that would want a lower rate speak, after a random
//! time, unless another has said so before.
//!
//! # Where treecast differs from RFC 4654
//!
//! - The contents of its data header travel in messages of its own to the group ([`Pace`]), several times a
//!   round trip, and every packet has its number; reports come over the receivers' control connections.
//! - Such a connection tells a first round trip before anything is sent, so no receiver starts with half a
//!   second.
//! - A rate is what leaves in all, retransmissions included. What arrives from the group is compared with
//!   what was sent to the group, and with nothing while that is little: it says nothing of the path then (RFC
//!   5348, 4.3).
//! - With nothing for the group there are no reports, and no rate that is found anew: the connections' own
//!   congestion control tells the sender what of retransmissions may leave.
//! - The receiver that is followed asks not for the equation's rate but for that of a TCP window which it
//!   emulates (`tcp_window`, after TEAR): the equation looks back on eight loss events, with CUBIC's long
//!   intervals on a minute, and smoothness is worth nothing to files. The equation says which receiver is to
//!   be followed, together with that window.
//! - That window is divided by a round trip that follows the queue, so that the rate falls as the queue
//!   grows. Where a queue stands, hardly more leaves than arrives, as a window's acknowledgements would have
//!   it.
//! - A receiver in trouble loses no more than it must: where packets were lost, the rate falls at least to
//!   what has arrived, at once.
//! - When the current limiting receiver falls silent, the sender first asks another and only then slows down:
//!   one that was stopped holds up nobody.
//! - A sender that had nothing to send, or was held back by its disk or by a receiver's buffer, keeps its
//!   rate for a while, but does not raise it (RFC 5348, 4.3).

pub(crate) mod equation;
pub(crate) mod feedback;
mod loss_history;
mod probes;
mod receive_rate;
mod receiver;
mod round_trip;
mod sender;

pub use probes::ProbeKey;
pub use receiver::{Receiver, ReceiverInput, ReceiverWait};
pub use sender::{Cause, Control, Limit, Sender, SenderConfig, SenderInput, SenderWait};
pub use treecast_wire::message::{Pace, PaceReport, Phase, Probe, ProbeProof};

use crate::Instant;
pub use crate::arrived::Arrived;

/// A moment as messages tell it.
fn micros(moment: Instant) -> u64 {
    moment.as_nanos() / 1_000
}
