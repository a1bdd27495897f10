//! The waits of the sender's lane, and the times at which progress is told.

use std::time::Duration;

use treecast_proto::{
    Instant,
    object::{ReceiverId, SenderWait},
};

use crate::hindrance::Meter;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The waits of the group's lane.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The rates of bytes sent to the first group, to all groups, and retransmitted, and milliseconds of waiting for a receiver's buffer.
    pub meter: Meter<4>,
    /// The reason for which the lane waits now. `None`: it goes on.
    pub wait: Option<SenderWait>,
    /// The time at which progress is told next.
    next_report: Instant,
    /// The time since which the lane has waited for a receiver's buffer. `None`: it does not.
    since: Option<Instant>,
    /// The time for which it has waited for receivers' buffers before that.
    pub buffers: Duration,
    /// The receiver whose buffer it has waited for last.
    pub holder: Option<ReceiverId>,
}

impl Watch {
    /// The time at which progress is told next.
    pub fn next_report(&self) -> Instant {
        self.next_report
    }

    /// Whether progress is to be told now. The next time is a while later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_report;
        if is_due {
            self.next_report = now + PROGRESS_INTERVAL;
        }
        is_due
    }

    /// Notes the reason for which the lane waits from now on. `None`: it goes on.
    pub fn note(&mut self, now: Instant, wait: Option<SenderWait>) {
        if let Some(since) = self.since.take() {
            self.buffers += now.saturating_duration_since(since);
        }
        self.since = (wait == Some(SenderWait::Credit)).then_some(now);
        self.wait = wait;
    }
}
