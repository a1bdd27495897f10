//! What sessions of this host tell of themselves, if they [answer](crate::GroupBuilder::answer_status), and orders to them.

pub use treecast_driver::status::{
    Found, LastSession, Phase, Progress, Receiving, RuleStatus, Sending, Snapshot, StandingCounts,
    StandingStatus, TakenStatus, find, order,
};
