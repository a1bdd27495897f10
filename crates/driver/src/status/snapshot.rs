//! The state of a session at a moment: what `treecast status --json` prints of it.

use serde::{Deserialize, Serialize};
use treecast_wire::ticket::{Fanout, Ticket};

use crate::{
    hindrance::{Hindrance, Holder},
    receive::ReceiveProgress,
    send::{SendProgress, Standing, Sums},
};

/// The most receivers that are shown one by one, the slowest first; of the others only the number is.
pub const MAX_RECEIVERS_SHOWN: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The session waits: for receivers, for a listener, or for the first object.
    #[default]
    Waiting,
    Running,
}

/// A description of a session and of its progress. Later versions add fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub pid: u32,
    pub phase: Phase,
    /// The session's number in hexadecimal digits.
    pub session: String,
    /// The destination of the session's packets: a group's address and port, or "unicast".
    pub group: String,
    pub repair: String,
    #[serde(flatten)]
    pub progress: Progress,
}

/// The progress of a session, by the role of the process in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Progress {
    Send(Box<Sending>),
    Receive(Box<Receiving>),
}

impl Default for Progress {
    fn default() -> Self {
        Self::Send(Box::default())
    }
}

/// The progress of a sender. Only the slowest [`MAX_RECEIVERS_SHOWN`] of its receivers are listed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sending {
    #[serde(flatten)]
    pub progress: SendProgress,
    #[serde(flatten)]
    pub sums: Sums,
    /// The number of receivers that are connected.
    pub joined: u32,
    /// The number of receivers that the session waits for before it starts.
    pub wanted: u32,
    /// The number of receivers that are not listed.
    pub receivers_not_shown: u64,
}

/// The progress of a receiver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Receiving {
    #[serde(flatten)]
    pub progress: ReceiveProgress,
    /// The sender's address.
    pub sender: Option<String>,
    /// What keeps it, in words. `None` when nothing does.
    pub held_by: Option<Holder>,
}

impl Snapshot {
    /// A session of this process that nothing has happened in yet.
    pub fn new(progress: Progress) -> Self {
        Self { pid: std::process::id(), progress, ..Self::default() }
    }

    /// The progress of a sender.
    pub fn sending(&mut self) -> Option<&mut Sending> {
        if let Progress::Send(sending) = &mut self.progress { Some(sending) } else { None }
    }

    /// The progress of a receiver.
    pub fn receiving(&mut self) -> Option<&mut Receiving> {
        if let Progress::Receive(receiving) = &mut self.progress { Some(receiving) } else { None }
    }

    /// Takes over what a ticket says of the session.
    pub fn note_ticket(&mut self, ticket: &Ticket) {
        self.session = format!("{:08x}", ticket.session.0);
        self.group = match ticket.fanout {
            Fanout::Multicast => ticket.group.to_string(),
            Fanout::Unicast | Fanout::Mead | Fanout::Xcast => ticket.fanout.to_string(),
            Fanout::Auto => format!("auto {}", ticket.group),
        };
        self.repair = ticket.repair.to_string();
    }

    /// Takes over how far a sender is.
    pub fn note_send(&mut self, progress: &SendProgress) {
        if progress.loops.is_none() {
            // A carousel runs while somebody listens.
            self.phase = Phase::Running;
        }
        let Some(sending) = self.sending() else { return };
        let mut progress = progress.clone();
        sending.sums = progress.sums();
        let receivers = &mut progress.receivers;
        let connected = receivers.iter().filter(|receiver| receiver.is_connected).count() as u32;
        // Members of local groups have no connections.
        sending.joined = progress.local.map_or(connected, |local| local.receivers);
        receivers.sort_by_key(|receiver| (receiver.standing == Standing::Done, receiver.received_bytes));
        sending.receivers_not_shown = receivers.len().saturating_sub(MAX_RECEIVERS_SHOWN) as u64;
        receivers.truncate(MAX_RECEIVERS_SHOWN);
        sending.progress = progress;
    }

    /// Takes over how far a receiver is.
    pub fn note_receive(&mut self, progress: &ReceiveProgress) {
        if progress.objects > 0 {
            self.phase = Phase::Running;
        }
        if let Some(receiving) = self.receiving() {
            receiving.held_by = progress.hindrance.map(|why| Holder::new(hindered(why).to_owned(), why));
            receiving.progress = *progress;
        }
    }
}

/// Where it lies, seen from a receiver.
fn hindered(why: Hindrance) -> &'static str {
    if matches!(why, Hindrance::Silent(_) | Hindrance::Away(_)) { "the sender" } else { "this receiver" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::ReceiverProgress;

    /// What one that has gone has not got counts as failed: it wants no more than it has.
    #[test]
    fn the_size_of_a_set_is_the_same_whoever_goes() {
        let receiver = |wanted_bytes, standing| ReceiverProgress {
            received_bytes: 2_200,
            wanted_bytes,
            standing,
            ..ReceiverProgress::default()
        };
        let mut progress = SendProgress { total_bytes: 11_000, ..SendProgress::default() };
        let mut seen = |receivers| {
            progress.receivers = receivers;
            let mut snapshot = Snapshot::default();
            snapshot.note_send(&progress);
            let sending = snapshot.sending().unwrap();
            (sending.progress.total_bytes, sending.sums.done_bytes, sending.sums.done_share)
        };
        let busy = || receiver(11_000, Standing::Busy);
        assert_eq!(seen(vec![busy(), busy(), busy()]), (11_000, 2_200, 0.2));
        assert_eq!(seen(vec![busy(), busy(), receiver(2_200, Standing::Gone)]), (11_000, 2_200, 0.2));
        assert_eq!(seen(vec![receiver(2_200, Standing::Done)]), (11_000, 2_200, 1.0), "as it wanted");
        assert_eq!(seen(vec![receiver(2_200, Standing::Gone)]), (11_000, 2_200, 0.0), "nobody");
    }
}
