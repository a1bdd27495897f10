//! One host: what its kernel and its link say about multicast.

mod facts;
mod firewall;
mod gather;
mod judge;
mod queriers;

pub use facts::{BridgeFacts, Facts, Firewall, InterfaceFacts, Limits, Querier, Queriers, Verdict};
pub use gather::{gather, lan, shortest_wait};
pub use judge::findings;
