//! The state of a session at a moment, flat and serialisable: what `treecast status --json` prints of it.

use serde::{Deserialize, Serialize};
use treecast_wire::ticket::{Fanout, Ticket};

use crate::{
    hindrance::{Hindrance, Holder},
    receive::ReceiveProgress,
    send::{GroupProgress, ReceiverProgress, SendProgress, Standing},
};

/// The most receivers that are shown one by one, the slowest first; of the others only the number is.
pub const MAX_RECEIVERS_SHOWN: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    #[default]
    Send,
    Receive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// For receivers, for a listener, or for the first object.
    #[default]
    Waiting,
    Running,
}

/// What a session is, and how far. Fields that a role does not have stay at their default; later versions add some.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub pid: u32,
    pub role: Role,
    pub phase: Phase,
    /// The session's number in hexadecimal digits.
    pub session: String,
    /// Where its packets go: a group's address and port, or "unicast".
    pub group: String,
    pub repair: String,
    /// At a receiver: the address of its sender.
    pub sender: Option<String>,
    /// Since the start, or since the sender was reached.
    pub seconds: f64,
    /// Known so far; at a sender, all but a feed's.
    pub objects: u64,
    /// Ended everywhere at a sender; here, whole and verified, at a receiver.
    pub objects_done: u64,
    pub objects_failed: u64,
    /// Size of all objects known so far.
    pub total_bytes: u64,
    /// Distinct bytes received: here, or by a sender's receivers on average.
    pub done_bytes: u64,
    /// At a sender: what receivers that are not gone have of what they want, 0 to 1.
    pub done_share: Option<f64>,
    /// At a sender: bytes of objects that it has sent to the group. A carousel counts each loop.
    pub sent_bytes: u64,
    /// Bytes of objects that an earlier sender of the session has sent to the group.
    pub before_bytes: u64,
    /// Number of complete loops of a carousel. `None` for other sessions.
    pub loops: Option<u64>,
    /// Bits of objects a second over the last seconds, sent to the group or received; none before it is known.
    pub now_bps: Option<u64>,
    /// Bits of IP packets a second that may leave at most now; none where nothing but the receivers sets it.
    pub rate_bps: Option<u64>,
    /// Groups of a sender with several rates, the fastest first. Empty for other sessions.
    pub groups: Vec<GroupProgress>,
    /// How often receivers have moved from one to another, and how often that was refused or not even answered.
    pub moves: u64,
    pub refused_moves: u64,
    /// At a receiver: the number of the group that it listens to; 0 is the first.
    pub group_number: u8,
    /// Sent again by a sender to all receivers together, or received again.
    pub retransmitted_bytes: u64,
    /// The same over the last seconds, in bits a second.
    pub retransmitted_bps: Option<u64>,
    /// Requests for retransmissions.
    pub requests: u64,
    /// The share of blocks that came although they were there, 0 to 1.
    pub duplicate_share: f64,
    /// Packets that kernels dropped because a receive buffer was full.
    pub dropped_packets: u64,
    /// At a sender: number of receivers that are there.
    pub joined: u32,
    /// Number of receivers that the start waits for.
    pub wanted: u32,
    /// Number of receivers that have what they want of every object.
    pub receivers_done: u32,
    /// Number of receivers that have ended without something that they wanted.
    pub receivers_failed: u32,
    /// Number of receivers that have broken off before they had what they wanted.
    pub receivers_gone: u32,
    /// The slowest receivers, at most [`MAX_RECEIVERS_SHOWN`].
    pub receivers: Vec<ReceiverProgress>,
    /// Number of receivers besides those in `receivers`.
    pub receivers_not_shown: u64,
    /// Who is waited for; none when nobody is.
    pub held_by: Option<Holder>,
    /// Time left for the slowest receiver that is waited for, at the rate of the last seconds. `None` when it is not known.
    pub seconds_left: Option<f64>,
}

impl Snapshot {
    /// A session that nothing has happened in yet.
    pub fn new(role: Role) -> Self {
        Self { pid: std::process::id(), role, ..Self::default() }
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
        let receivers = &progress.receivers;
        let sum = |count: fn(&ReceiverProgress) -> u64| receivers.iter().map(count).sum::<u64>();
        if progress.loops.is_none() {
            // A carousel runs while somebody listens.
            self.phase = Phase::Running;
        }
        self.loops = progress.loops;
        self.seconds = progress.seconds;
        self.objects = progress.objects;
        self.objects_done = progress.objects_done;
        self.total_bytes = progress.total_bytes;
        self.done_bytes = sum(|receiver| receiver.received_bytes) / receivers.len().max(1) as u64;
        self.done_share = Some(match progress.wanted_bytes() {
            0 => 1.0,
            wanted => (progress.done_bytes() as f64 / wanted as f64).min(1.0),
        });
        self.sent_bytes = progress.sent_bytes;
        self.before_bytes = progress.before_bytes;
        (self.moves, self.refused_moves) = (progress.moves, progress.refused_moves);
        self.now_bps = progress.now_bps;
        self.rate_bps = progress.rate_bps;
        self.groups = progress.groups.clone();
        self.retransmitted_bytes = sum(|receiver| receiver.retransmitted_bytes);
        self.retransmitted_bps = progress.retransmitted_bps;
        self.requests = sum(|receiver| receiver.requests);
        self.duplicate_share = progress.duplicate_share;
        self.dropped_packets = sum(|receiver| receiver.dropped_packets);
        self.joined = receivers.iter().filter(|receiver| receiver.is_connected).count() as u32;
        let stand =
            |standing| receivers.iter().filter(|receiver| receiver.standing == standing).count() as u32;
        self.receivers_done = stand(Standing::Done);
        self.receivers_failed = stand(Standing::Failed);
        self.receivers_gone = stand(Standing::Gone);
        let mut slowest: Vec<&ReceiverProgress> = receivers.iter().collect();
        slowest.sort_by_key(|receiver| (receiver.standing == Standing::Done, receiver.received_bytes));
        slowest.truncate(MAX_RECEIVERS_SHOWN);
        self.receivers = slowest.into_iter().cloned().collect();
        self.receivers_not_shown = (receivers.len() - self.receivers.len()) as u64;
        self.held_by = progress.held_by.clone();
        self.seconds_left = progress.seconds_left;
    }

    /// Takes over how far a receiver is.
    pub fn note_receive(&mut self, progress: &ReceiveProgress) {
        self.seconds = progress.seconds;
        self.objects = progress.objects;
        self.objects_done = progress.objects_done;
        self.objects_failed = progress.objects_failed;
        if progress.objects > 0 {
            self.phase = Phase::Running;
        }
        self.total_bytes = progress.announced_bytes;
        self.done_bytes = progress.received_bytes;
        self.now_bps = progress.now_bps;
        self.group_number = progress.group;
        self.retransmitted_bytes = progress.retransmitted_bytes;
        self.retransmitted_bps = progress.retransmitted_bps;
        self.requests = progress.requests;
        self.duplicate_share = progress.duplicate_share;
        self.dropped_packets = progress.dropped_packets;
        self.held_by = progress.hindrance.map(|why| Holder::new(hindered(why).to_owned(), why));
        self.seconds_left = progress.seconds_left;
    }
}

/// Where it lies, seen from a receiver.
fn hindered(why: Hindrance) -> &'static str {
    if matches!(why, Hindrance::Silent(_)) { "the sender" } else { "this receiver" }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut snapshot = Snapshot::new(Role::Send);
            snapshot.note_send(&progress);
            (snapshot.total_bytes, snapshot.done_bytes, snapshot.done_share)
        };
        let busy = || receiver(11_000, Standing::Busy);
        assert_eq!(seen(vec![busy(), busy(), busy()]), (11_000, 2_200, Some(0.2)));
        assert_eq!(seen(vec![busy(), busy(), receiver(2_200, Standing::Gone)]), (11_000, 2_200, Some(0.2)));
        assert_eq!(seen(vec![receiver(2_200, Standing::Done)]), (11_000, 2_200, Some(1.0)), "as it wanted");
        assert_eq!(seen(vec![receiver(2_200, Standing::Gone)]), (11_000, 2_200, Some(0.0)), "nobody");
    }
}
