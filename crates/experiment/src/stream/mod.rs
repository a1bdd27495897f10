//! Streams: numbered datagrams at an even pace, to the receivers of one sender or among all members of a conference
//! (meadcast-thesis-2024, 4.4).
//!
//! Senders and receivers are sockets of this process at the nodes, so what is sent and what comes have one clock. Packets of
//! MEADcast and Xcast are made by `treecast mead` at the sender's node.

mod measures;
mod play;
mod sender;
mod traffic;

pub use measures::{MEASURES, SERIES, lost, rows, sentence};
pub use play::{Discovery, Played, Scene};
pub use traffic::{Sent, Stamp, Tally};

/// The share of a file that may be lost when it is sent as a stream, as in the MEADcast thesis (4.4.3).
pub const MAX_LOSS: f64 = 0.015;

/// The number of times that such a file is sent slower than before.
pub const MAX_SLOWER: u32 = 4;
