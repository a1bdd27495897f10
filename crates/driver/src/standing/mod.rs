//! A standing receiver: takes announced sessions of trusted senders by rules, for as long as it runs, and keeps a history.
//!
//! One thread listens to announcements and decides ([`treecast_proto::standing`]). Each session that is taken has a thread of its
//! own. What was finished is in the history, so nothing is received twice, whatever is restarted.

mod command_end;
mod commands;
mod history;
mod interruptions;
mod options;
mod owner;
mod posting;
mod report;
mod service;
mod taken;
mod telling;

pub use history::{Entry, Happened, History, HistoryError, MAX_LEN as MAX_HISTORY_LEN};
pub use options::{Options, Rule};
pub use owner::Owner;
pub use service::{StandingError, run};
pub use treecast_proto::standing::Demand;
