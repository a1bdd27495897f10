//! What has come of a session.

use std::time::Duration;

use treecast_driver::{
    receive::ReceiveSummary,
    send::{CommandOutcome, SendSummary},
};

/// What has come of a group.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct GroupReport {
    /// The time from the start, when the receivers were there, to the end.
    pub duration: Duration,
    /// The number of objects.
    pub objects: u64,
    /// Total size of the objects, in bytes.
    pub bytes: u64,
    /// The receivers, in the order in which they joined.
    pub receivers: Vec<ReceiverOutcome>,
    /// The number of further receivers that left before they had everything. They are not listed one by one.
    pub others_failed: u64,
    /// The first objects that could not be sent to their end, with the reasons.
    pub withdrawn: Vec<(String, String)>,
    /// Whether [`Group::stop`](crate::Group::stop) ended the session.
    pub is_stopped: bool,
    is_complete: bool,
}

/// What has come of a group at one receiver.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ReceiverOutcome {
    /// The receiver's name.
    pub name: String,
    /// The receiver's address.
    pub address: String,
    /// The number of objects that it has, verified.
    pub complete: u64,
    /// The number of objects that it did not want.
    pub not_wanted: u64,
    /// The number of objects that were done before it came.
    pub missed: u64,
    /// The number of objects that it wanted and does not have.
    pub failed: u64,
    /// The first of them by name, with the reasons.
    pub failures: Vec<(String, String)>,
    /// The bytes that were sent to it again.
    pub retransmitted_bytes: u64,
    /// Why it left before the end. `None` if it did not.
    pub left: Option<String>,
    /// How the command went that a standing receiver ran when it had everything. `None` if it ran none.
    pub command: Option<CommandOutcome>,
}

impl GroupReport {
    pub(crate) fn new(summary: SendSummary) -> Self {
        Self {
            is_complete: summary.is_complete() && summary.not_sent == 0,
            duration: Duration::try_from_secs_f64(summary.progress.seconds).unwrap_or_default(),
            objects: summary.objects,
            bytes: summary.progress.total_bytes,
            receivers: summary.progress.receivers.into_iter().map(ReceiverOutcome::new).collect(),
            others_failed: summary.others_failed,
            withdrawn: summary.withdrawn,
            is_stopped: summary.interrupted,
        }
    }

    /// Whether all objects could be sent, no command of a standing receiver has failed, and every receiver has every object that it wanted.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl ReceiverOutcome {
    fn new(progress: treecast_driver::send::ReceiverProgress) -> Self {
        Self {
            name: progress.name,
            address: progress.address,
            complete: progress.objects_complete,
            not_wanted: progress.objects_not_wanted,
            missed: progress.objects_missed,
            failed: progress.failed,
            failures: progress.failures,
            retransmitted_bytes: progress.retransmitted_bytes,
            left: progress.left,
            command: progress.command,
        }
    }
}

/// What has come to a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReceiverReport {
    /// The number of objects that are as the sender has them.
    pub objects: u64,
    /// The bytes of received files.
    pub bytes: u64,
    /// The bytes that came again, over the control connection.
    pub retransmitted_bytes: u64,
    /// The number of objects that failed.
    pub failed: u64,
    /// The number of objects that were not wanted.
    pub not_wanted: u64,
    /// The number of objects that were left out because their names exist.
    pub existing: u64,
    /// Why the session ended early, in words. `None` if it did not.
    pub cut_short: Option<String>,
    /// Whether [`Receiver::leave`](crate::Receiver::leave) ended the session.
    pub has_left: bool,
    is_complete: bool,
}

impl ReceiverReport {
    pub(crate) fn new(summary: ReceiveSummary) -> Self {
        Self {
            is_complete: summary.is_complete(),
            objects: summary.received + summary.others,
            bytes: summary.received_bytes,
            retransmitted_bytes: summary.progress.retransmitted_bytes,
            failed: summary.failed,
            not_wanted: summary.not_wanted,
            existing: summary.existing,
            cut_short: summary
                .cut_short
                .map(|reason| reason.line)
                .or_else(|| summary.limit.map(|limit| limit.to_string())),
            has_left: summary.interrupted,
        }
    }

    /// Whether nothing failed, and nothing was cut short.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}
