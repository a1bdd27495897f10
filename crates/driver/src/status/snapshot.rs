//! The state of a session at a moment: what `treecast status --json` prints of it.

use serde::{Deserialize, Serialize};
use treecast_wire::ticket::{Fanout, Ticket};

use super::StandingStatus;
use crate::{
    hindrance::{Hindrance, Holder},
    receive::ReceiveProgress,
    send::{ReceiverProgress, SendProgress, Sums},
};

/// The most receivers that are shown one by one, the worst first; of the others only the number is.
pub const MAX_RECEIVERS_SHOWN: usize = 1000;

/// The longest text of a receiver's own that is shown, in characters. Receivers may send any text.
const MAX_TEXT: usize = 200;

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
    /// A standing receiver, which is in any number of sessions.
    Standing(Box<StandingStatus>),
}

impl Default for Progress {
    fn default() -> Self {
        Self::Send(Box::default())
    }
}

/// The progress of a sender. Only the worst [`MAX_RECEIVERS_SHOWN`] of its receivers are listed.
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
    /// The reason that holds the receiver up, with its words. `None` when nothing does.
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

    /// The state of a standing receiver.
    pub fn standing(&mut self) -> Option<&mut StandingStatus> {
        if let Progress::Standing(standing) = &mut self.progress { Some(standing) } else { None }
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
        receivers.sort_by(ReceiverProgress::worst_first);
        sending.receivers_not_shown = receivers.len().saturating_sub(MAX_RECEIVERS_SHOWN) as u64;
        receivers.truncate(MAX_RECEIVERS_SHOWN);
        receivers.iter_mut().for_each(bound);
        sending.progress = progress;
    }

    /// Takes over that a receiver has come while a sender waits. A sender that has started tells of all receivers by its progress.
    pub fn note_joined(&mut self, receiver: ReceiverProgress) {
        let waits = self.phase == Phase::Waiting;
        let Some(sending) = self.sending().filter(|_| waits) else { return };
        sending.sums.receivers_waiting += 1;
        match sending.progress.receivers.len() < MAX_RECEIVERS_SHOWN {
            true => sending.progress.receivers.push(receiver),
            false => sending.receivers_not_shown += 1,
        }
    }

    /// Takes over that a receiver has left while a sender waits.
    pub fn note_left(&mut self, name: &str) {
        let waits = self.phase == Phase::Waiting;
        let Some(sending) = self.sending().filter(|_| waits) else { return };
        sending.sums.receivers_waiting = sending.sums.receivers_waiting.saturating_sub(1);
        match sending.progress.receivers.iter().position(|receiver| receiver.name == name) {
            Some(at) => _ = sending.progress.receivers.remove(at),
            None => sending.receivers_not_shown = sending.receivers_not_shown.saturating_sub(1),
        }
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

/// Shortens what a receiver can make long. What it failed to get is told at the session's end, to the session's program.
fn bound(receiver: &mut ReceiverProgress) {
    receiver.failures.clear();
    let texts = receiver.left.iter_mut().chain(receiver.command.as_mut().map(|command| &mut command.line));
    for text in texts {
        if let Some((at, _)) = text.char_indices().nth(MAX_TEXT) {
            text.truncate(at);
            text.push_str("...");
        }
    }
}

/// The side at which a hindrance lies, seen from a receiver.
fn hindered(why: Hindrance) -> &'static str {
    if matches!(why, Hindrance::Silent(_) | Hindrance::Away(_)) { "the sender" } else { "this receiver" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        send::{CommandOutcome, ReceiverState, Standing},
        status::find::MAX_ANSWER_LEN,
    };

    /// One row of a thousand or more: some have failed, some are gone, and the others have more and more.
    fn many(receivers: usize) -> SendProgress {
        let standing = |number| match number % 100 {
            0 => Standing::Failed,
            1 => Standing::Gone,
            2..50 => Standing::Busy,
            _ => Standing::Done,
        };
        let text = "\u{1}ü".repeat(40_000);
        let receiver = |number: usize| ReceiverProgress {
            name: format!("lab{number}-{}", "\u{fffd}".repeat(60)),
            address: "[fd00::ffff:ffff:ffff:ffff]:65535".into(),
            received_bytes: number as u64,
            wanted_bytes: receivers as u64,
            standing: standing(number),
            is_connected: true,
            hears_nothing: number.is_multiple_of(10),
            left: Some(text.clone()),
            command: Some(CommandOutcome { line: text.clone(), ..CommandOutcome::default() }),
            failures: vec![(text.clone(), text.clone())],
            ..ReceiverProgress::default()
        };
        SendProgress { receivers: (0..receivers).map(receiver).collect(), ..SendProgress::default() }
    }

    /// `treecast status` takes no longer answer, and nobody should have to send one.
    #[test]
    fn however_many_receivers_there_are_the_answer_is_short_and_begins_with_the_worst() {
        let mut snapshot = Snapshot::default();
        snapshot.note_send(&many(3000));
        let len = serde_json::to_vec(&snapshot).unwrap().len() as u64;
        assert!(len < MAX_ANSWER_LEN, "{len}");
        let sending = snapshot.sending().unwrap();
        assert_eq!((sending.progress.receivers.len(), sending.receivers_not_shown), (1000, 2000));
        let states: Vec<_> = sending.progress.receivers.iter().map(ReceiverProgress::state).collect();
        let count = |state| states.iter().filter(|one| **one == state).count();
        assert_eq!((count(ReceiverState::Failed), count(ReceiverState::Gone)), (30, 30), "none is cut off");
        assert!(states[..60].is_sorted() && states[59] == ReceiverState::Gone);
        let shares: Vec<_> = sending.progress.receivers[60..].iter().map(ReceiverProgress::share).collect();
        assert!(shares.is_sorted());
        let sums = &sending.sums;
        assert_eq!((sums.receivers_failed, sums.receivers_gone, sums.receivers_done), (30, 30, 1500));
        assert_eq!((sums.receivers_receiving, sums.receivers_waiting, sums.receivers_on_tcp), (1440, 0, 300));
    }

    #[test]
    fn who_is_there_is_listed_while_a_sender_waits() {
        let mut snapshot = Snapshot::default();
        let named = |name: &str| ReceiverProgress { name: name.into(), ..ReceiverProgress::default() };
        ["one", "two"].into_iter().for_each(|name| snapshot.note_joined(named(name)));
        snapshot.note_left("one");
        let sending = snapshot.sending().unwrap();
        assert_eq!((&*sending.progress.receivers[0].name, sending.sums.receivers_waiting), ("two", 1));
        (0..MAX_RECEIVERS_SHOWN + 7).for_each(|number| snapshot.note_joined(named(&number.to_string())));
        snapshot.note_left("none of those that are listed");
        let sending = snapshot.sending().unwrap();
        assert_eq!((sending.progress.receivers.len(), sending.receivers_not_shown), (MAX_RECEIVERS_SHOWN, 7));
    }

    /// The missing bytes of a receiver that has gone count as failed: it wants no more than it has.
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
