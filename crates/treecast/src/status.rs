//! What sessions of this host tell of themselves, if they [answer](crate::GroupBuilder::answer_status).

pub use treecast_driver::status::{Found, Phase, Progress, Receiving, Sending, Snapshot, find};
