//! Sends a session: from paths and options to a summary for each receiver.
//!
//! One thread waits for everything: the group's socket, the listener, control connections and timers. It takes
//! from the machine only what can leave now, so that nothing queues without bound. It polls the group's lane
//! when the pacer lets packets go, and a receiver's lane while its connection has room.

mod feed;
mod gather;
mod hashing;
mod lane;
mod listed;
mod lobby;
mod log;
mod numbered;
mod options;
mod options_error;
mod peer;
mod plan;
mod repair;
mod roll;
mod session;
mod session_file;
mod source_table;
mod starter;
mod state;
mod who;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_host::{interface::InterfaceError, stop::Stop};
use treecast_proto::fanout::Way;
use treecast_wire::ticket::Ticket;

pub use feed::{Bound, FeedSource, FolderOptions, ObjectQueue, QueueClosed, Queued, Rule, Terms};
pub use listed::{Listed, ListedError};
pub use options::{
    Announce, Carousel, Connected, Content, Form, GiveUp, Local, Mend, NetworkOptions, Pace, Rate, Rates,
    SendOptions, SendSecurity, SessionKind, StartOptions, SteadyPace,
};
pub use options_error::{Instead, MAX_FEC_PERCENT, MIN_BLOCK_LEN, OptionsError, Setting};
pub use plan::Plan;
pub use repair::{CarouselOptions, Dialect, LocalOptions, parse_fec};
pub use session::{NamedReceiver, Presence};
pub use session_file::{KeptSession, SessionFileError, kept_session};
pub use starter::Starter;
pub use state::ReceiverState;
pub use treecast_proto::{
    object::PER_ADDRESS,
    policy::{AT_ONCE, LEAST_SHARE, Priority, SENDER_STALL_LIMIT as STALL_LIMIT},
    tfmcc::Control,
};

use crate::{
    carousel::ListenError,
    events::{as_field_text, as_optional_text, as_reasons, as_seconds, as_text},
    files::SourceError,
    hindrance::{Hindrance, Holder},
    remedies::Advised,
    security::{PublicKey, tls::TlsError},
    udp::UdpError,
    words::{counted, some_of},
};

/// The shortest time for retransmissions of an object.
const MINIMUM_RETRANSMISSION_TIME: Duration = Duration::from_secs(2);

/// The time for which a session waits for a receiver whose connection broke, when all others are done.
pub const LINGER: Duration = Duration::from_secs(10);

/// The time for which a session waits for the receivers that it is for: a year, until somebody stops it.
const LISTED_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// The rates that a session can have, in bits of IP packets a second. No link of a host is faster.
pub const RATES_BPS: RangeInclusive<u64> = 1_000..=400_000_000_000;

/// An event of a sender. `treecast send --json` prints these events, one a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendEvent {
    /// Receivers can come now.
    #[serde(rename = "ticket")]
    Ready {
        #[serde(with = "as_text")]
        ticket: Ticket,
    },
    /// A warning: something is not as good as it could be.
    #[serde(with = "as_field_text")]
    Warning(Advised),
    /// A receiver is there.
    Joined {
        /// The receiver's name.
        receiver: String,
        /// The address of its control connection.
        address: SocketAddr,
        /// The key that the receiver has proved to have. `None` in a plain session.
        #[serde(with = "as_optional_text")]
        key: Option<PublicKey>,
        /// The number of receivers that are there.
        joined: u32,
        /// The number of receivers with which the session starts.
        wanted: u32,
    },
    /// The session waits for another number of receivers than before.
    WaitsFor {
        /// The number of receivers that are there.
        joined: u32,
        /// The number of receivers with which the session starts.
        wanted: u32,
    },
    /// A receiver is gone.
    Left {
        /// The receiver's name.
        receiver: String,
        /// Why it is gone, in words.
        reason: String,
    },
    /// A connection was refused, because it was no receiver's.
    Refused { address: SocketAddr, reason: String },
    /// The command of a standing receiver that has everything has ended.
    #[serde(rename = "command")]
    CommandEnded {
        receiver: String,
        #[serde(flatten)]
        outcome: CommandOutcome,
    },
    /// The expected receivers are there. A carousel sends this event each time that somebody listens again.
    Started {
        /// The number of objects that are known.
        objects: u64,
        /// Total size of these objects, in bytes.
        bytes: u64,
        /// Whether somebody is only taken to listen to a carousel, because listeners cannot be heard.
        #[serde(skip)]
        is_presumed: bool,
    },
    /// Nobody listens to a carousel any more.
    Paused,
    /// How far the session is.
    Progress(SendProgress),
    /// A receiver has gone to another group of a session with several rates.
    Moved {
        receiver: String,
        /// 0 is the first, and the fastest.
        #[serde(rename = "group_number")]
        group: u8,
        /// That group's rate. `None` while the sender has not found it yet.
        rate_bps: Option<u64>,
    },
    /// A receiver is served by another fanout.
    Way {
        receiver: String,
        #[serde(with = "as_text")]
        way: Way,
        /// The reason in words.
        why: String,
    },
    /// A carousel has completed this many loops.
    #[serde(rename = "loop")]
    Looped { loops: u64 },
    /// Every receiver has ended with an object.
    #[serde(rename = "object")]
    ObjectDone {
        name: String,
        bytes: u64,
        /// The number of receivers that have it, verified.
        complete: u32,
        /// The number of receivers that did not want it.
        not_wanted: u32,
        /// The number of receivers that wanted it and do not have it.
        failed: u32,
        /// The number that the program has given the object ([`Queued::number`]). `None` for objects of paths.
        #[serde(skip)]
        number: Option<u64>,
    },
    /// A line of the feed does not name something that can be sent.
    NotSent {
        path: String,
        reason: String,
        /// The number that the program has given the object ([`Queued::number`]). `None` for lines.
        #[serde(skip)]
        number: Option<u64>,
    },
    /// An object could not be read to its end, has changed, or has expired.
    Withdrawn {
        name: String,
        reason: String,
        /// The number that the program has given the object ([`Queued::number`]). `None` for objects of paths.
        #[serde(skip)]
        number: Option<u64>,
    },
    /// The session is over. [`run`] returns its summary instead of this event.
    Done(Done),
    /// There is nothing more for now, so a display may show the recent events together.
    #[serde(skip)]
    Idle,
}

/// The end of a session, as its last event tells it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    #[serde(flatten)]
    pub progress: SendProgress,
    /// The number of lines of the feed that did not name something that can be sent.
    pub not_sent: u64,
    /// The number of files of a feed's folder that were dropped because too many waited.
    #[serde(default)]
    pub dropped: u64,
    /// The number of the feed's objects that expired before they were sent to their end.
    #[serde(default)]
    pub expired: u64,
    /// The number of receivers that the start waited for and that never came.
    #[serde(default)]
    pub never_came: u64,
    /// The number of addresses whose receivers could not be admitted for want of descriptors.
    #[serde(default)]
    pub turned_away: u64,
    /// Whether every receiver has every object that it wanted.
    pub complete: bool,
    /// Whether a signal ended the session.
    pub interrupted: bool,
    /// What is known of the receivers that were named to a carousel. Empty in other sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedReceiver>,
    /// Why a carousel ended. `None` in other sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carousel_end: Option<CarouselEnd>,
}

/// Why a carousel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CarouselEnd {
    /// Nobody has listened for the idle time, as far as the sender can hear.
    NobodyListens,
    /// All loops that were wanted have been sent.
    LoopsDone,
    /// No file is left that could be read.
    NothingLeft,
    /// A signal, or the program that holds the session, has stopped it.
    Stopped,
}

impl From<&SendSummary> for Done {
    fn from(summary: &SendSummary) -> Self {
        Self {
            progress: SendProgress { objects: summary.objects, ..summary.progress.clone() },
            not_sent: summary.not_sent,
            dropped: summary.dropped,
            expired: summary.expired,
            never_came: summary.never_came,
            turned_away: summary.turned_away,
            complete: summary.is_complete(),
            interrupted: summary.interrupted,
            named: summary.named.clone(),
            carousel_end: summary.carousel_end,
        }
    }
}

/// The progress of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SendProgress {
    /// Seconds since the start.
    pub seconds: f64,
    /// The bytes of objects that this sender has sent to the group. Retransmissions do not count.
    pub sent_bytes: u64,
    /// The part of `sent_bytes` that no packet has carried: zeros of holes, and what compression saves.
    pub zero_bytes: u64,
    /// The bytes of objects that an earlier sender of the session has sent to the group.
    pub before_bytes: u64,
    /// Total size of all objects known so far, in bytes.
    #[serde(rename = "bytes")]
    pub total_bytes: u64,
    /// The number of loops that a carousel has completed. `None` in a session that sends everything once.
    pub loops: Option<u64>,
    /// The number of repair symbols sent so far. Each is as long as a block.
    pub repair_symbols: u64,
    /// The number of objects known so far.
    pub objects: u64,
    /// The number of objects that every receiver has ended with.
    pub objects_done: u64,
    /// The number of objects of a feed that wait to be sent. `None` where nothing more comes, and for a stream.
    pub waiting: Option<u64>,
    /// Bits of objects sent to all groups a second over the last seconds; none before that is known.
    pub now_bps: Option<u64>,
    /// Bits of IP packets that may leave a second; none when only the receivers set it.
    pub rate_bps: Option<u64>,
    /// Bits of objects sent again a second over the last seconds, to all receivers together.
    pub retransmitted_bps: Option<u64>,
    /// The share of blocks that receivers got although they had them, 0 to 1.
    pub duplicate_share: f64,
    /// The receiver that the session waits for. `None` if it waits for none.
    pub held_by: Option<Holder>,
    /// Time left, at the recent rate of the slowest receiver that is waited for. `None` when it is not known.
    pub seconds_left: Option<f64>,
    /// The state of congestion control. `None` at a constant rate.
    pub rate: Option<RateProgress>,
    /// What has left by each fanout. `None` if everything goes to multicast groups.
    pub fanout: Option<FanoutProgress>,
    /// The state of a session with local groups. `None` in every other session.
    pub local: Option<LocalSending>,
    /// The multicast groups of a session with several rates (`SendOptions`), the group with the highest set rate
    /// first. Empty if there is one group.
    pub groups: Vec<GroupProgress>,
    /// The number of moves of receivers between groups, and the number of refused or unanswered ones.
    pub moves: u64,
    pub refused_moves: u64,
    pub receivers: Vec<ReceiverProgress>,
}

impl SendProgress {
    /// The bytes that receivers have on average. Those that are gone do not count.
    pub fn done_bytes(&self) -> u64 {
        self.mean_of_those_there(|receiver| receiver.received_bytes).unwrap_or_default()
    }

    /// The bytes that receivers want on average, as far as they have reported. Those that are gone do not
    /// count.
    pub fn wanted_bytes(&self) -> u64 {
        self.mean_of_those_there(|receiver| receiver.wanted_bytes).unwrap_or(self.total_bytes)
    }

    /// Bits of objects that leave in a second: to groups, and to single receivers again.
    pub fn leaving_bps(&self) -> Option<u64> {
        self.now_bps.map(|now| now + self.retransmitted_bps.unwrap_or_default())
    }

    /// Sums over all receivers.
    pub fn sums(&self) -> Sums {
        let receivers = &self.receivers;
        let sum = |count: fn(&ReceiverProgress) -> u64| receivers.iter().map(count).sum::<u64>();
        let count = |state| receivers.iter().filter(|receiver| receiver.state() == state).count() as u32;
        Sums {
            done_bytes: sum(|receiver| receiver.received_bytes) / receivers.len().max(1) as u64,
            done_share: match self.wanted_bytes() {
                0 => 1.0,
                wanted => (self.done_bytes() as f64 / wanted as f64).min(1.0),
            },
            retransmitted_bytes: sum(|receiver| receiver.retransmitted_bytes)
                + self.local.map_or(0, |local| local.session_repair_bytes + local.group_repair_bytes),
            requests: sum(|receiver| receiver.requests) + self.local.map_or(0, |local| local.requests),
            dropped_packets: sum(|receiver| receiver.dropped_packets),
            receivers_done: count(ReceiverState::Done),
            receivers_failed: count(ReceiverState::Failed),
            receivers_gone: count(ReceiverState::Gone),
            receivers_waiting: count(ReceiverState::Waiting),
            receivers_receiving: count(ReceiverState::Receiving),
            receivers_on_tcp: receivers.iter().filter(|receiver| receiver.hears_nothing).count() as u32,
        }
    }

    /// None when nobody is there.
    fn mean_of_those_there(&self, bytes: fn(&ReceiverProgress) -> u64) -> Option<u64> {
        let there = self.receivers.iter().filter(|receiver| receiver.standing != Standing::Gone);
        there.clone().map(bytes).sum::<u64>().checked_div(there.count() as u64)
    }
}

/// The state of a session with local groups, as its sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LocalSending {
    /// The number of receivers, as far as controllers have reported them.
    pub receivers: u32,
    /// The number of those that report to the sender itself: controllers, and receivers of the mode `sender`.
    pub clients: u64,
    /// Bytes of objects that the sender sent again, to all receivers and to local groups.
    pub session_repair_bytes: u64,
    pub group_repair_bytes: u64,
    /// The numbers of messages that came to the sender: reports, requests, and all others.
    pub reports: u64,
    pub requests: u64,
    pub others: u64,
    /// How many files receivers have given up because they were late, summed over receivers.
    pub late_objects: u32,
}

/// Sums over a session's receivers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Sums {
    /// The bytes that a receiver has on average.
    pub done_bytes: u64,
    /// The share that receivers have of what they want, 0 to 1. Those that are gone do not count.
    pub done_share: f64,
    /// The bytes that were sent to receivers again.
    pub retransmitted_bytes: u64,
    /// The number of messages in which receivers asked for bytes again.
    pub requests: u64,
    /// Packets that receivers' kernels dropped.
    pub dropped_packets: u64,
    /// The number of receivers that have all objects that they want.
    pub receivers_done: u32,
    /// The number of receivers that have ended without an object that they wanted.
    pub receivers_failed: u32,
    /// The number of receivers whose connection ended before they had what they wanted.
    pub receivers_gone: u32,
    /// The number of receivers that are there and have nothing yet.
    pub receivers_waiting: u32,
    /// The number of receivers that are there and have a part of what they want.
    pub receivers_receiving: u32,
    /// The number of receivers, whatever their state, that hear no UDP packet and get everything over TCP.
    pub receivers_on_tcp: u32,
}

/// The rate of `auto` and what limits it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RateProgress {
    /// The rate, in bits of IP packets a second.
    #[serde(rename = "bits_per_second")]
    pub rate_bps: u64,
    /// The name of the receiver that limits the rate.
    pub receiver: Option<String>,
    /// The reason for the rate: `start`, `loss`, `growth`, `unused`, `floor`, `delivered`, `probe` or `queue`.
    pub why: String,
    /// The loss events of that receiver for each packet, 0 to 1.
    pub loss: f64,
    #[serde(rename = "round_trip_seconds", with = "as_seconds")]
    pub round_trip: Duration,
    /// The time that packets to that receiver wait in queues. 0 with TFMCC.
    #[serde(rename = "queue_seconds", with = "as_seconds")]
    pub queue: Duration,
}

/// The traffic of each fanout of a session, by the fanout's name.
pub type FanoutProgress = BTreeMap<String, WayProgress>;

/// The traffic of one fanout.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WayProgress {
    /// The number of receivers that this fanout serves.
    pub receivers: u32,
    /// The bytes of IP packets that have left by this fanout. Headers count, retransmissions do not.
    pub left_bytes: u64,
}

/// One group of a session with several rates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupProgress {
    /// The group's rate, in bits of IP packets a second.
    pub rate_bps: u64,
    /// The bytes of objects that were sent to this group.
    pub sent_bytes: u64,
    /// The number of receivers that listen to this group.
    pub receivers: u32,
}

/// The progress of one receiver, by its own last report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReceiverProgress {
    #[serde(rename = "receiver")]
    pub name: String,
    /// The key that the receiver has proved to have. `None` in a plain session.
    #[serde(with = "as_optional_text")]
    pub key: Option<PublicKey>,
    pub address: String,
    /// The bytes of objects that the receiver has. Bytes that came twice count once.
    #[serde(rename = "bytes")]
    pub received_bytes: u64,
    /// The bytes of all objects, except those that the receiver did not want, missed or failed to get.
    pub wanted_bytes: u64,
    /// The part of `wanted_bytes` that it can get from this sender. It is less if an earlier sender began the
    /// session.
    pub run_bytes: u64,
    /// The bytes that were sent to the receiver again.
    pub retransmitted_bytes: u64,
    pub duplicate_blocks: u64,
    /// Packets that its kernel dropped.
    pub dropped_packets: u64,
    /// The number of objects that the receiver has complete and verified.
    #[serde(rename = "objects")]
    pub objects_complete: u64,
    /// The number of objects that the receiver did not want.
    #[serde(rename = "not_wanted")]
    pub objects_not_wanted: u64,
    /// The number of objects of a feed that had ended before the receiver came. The receiver was never told of
    /// them, so they do not count as failures.
    #[serde(rename = "missed")]
    pub objects_missed: u64,
    /// The first objects that it does not have, with the reasons. Filled at the end of the session.
    #[serde(with = "as_reasons")]
    pub failures: Vec<(String, String)>,
    /// The number of objects that the receiver does not have.
    pub failed: u64,
    /// The number of the receiver's requests for retransmissions.
    pub requests: u64,
    #[serde(rename = "connected")]
    pub is_connected: bool,
    /// Whether it has heard none of the session's UDP packets, and gets everything over its connection.
    pub hears_nothing: bool,
    /// The group that it listens to; 0 is the first.
    #[serde(rename = "group_number")]
    pub group: u8,
    /// The fanout that serves it, or served it when it left. `None` if all are served by multicast.
    #[serde(with = "as_optional_text")]
    pub way: Option<Way>,
    pub standing: Standing,
    /// The reason why it is gone, if it is.
    pub left: Option<String>,
    /// Bits of objects a second that it got over the last seconds; none before that is known.
    pub now_bps: Option<u64>,
    /// Seconds since its last message.
    pub silent_seconds: f64,
    /// The reason why it is behind what was sent. `None` if it is not behind.
    pub why: Option<Hindrance>,
    /// Time left at its recent rate. `None` when it is not known.
    pub seconds_left: Option<f64>,
    /// Seconds from the start until it had ended with the last object. `None` while it has not ended with all.
    pub ended_seconds: Option<f64>,
    /// How the command went that a standing receiver runs when it has everything. `None` if it runs none, and before it has ended.
    pub command: Option<CommandOutcome>,
}

/// How the command of a standing receiver went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// Its exit code. `None` if it was killed, could not be run, or if nothing was heard of it.
    pub code: Option<i32>,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// The first line that it printed, or why it has no exit code.
    pub line: String,
}

impl CommandOutcome {
    /// Whether the command was successful.
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }
}

/// The state of a receiver with respect to the objects known so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// The receiver is connected, and has not ended with all objects.
    #[default]
    Busy,
    /// The receiver has ended with all objects, and has all that it wanted.
    Done,
    /// The receiver has ended with all objects, and lacks some that it wanted.
    Failed,
    /// The connection broke before the receiver had everything that it wanted. The receiver may come again.
    Gone,
}

/// The result of a session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendSummary {
    /// The time from the start (when all receivers were there) to the end, and the progress at the end.
    pub progress: SendProgress,
    pub objects: u64,
    /// The first objects that the sender could not send to their end, with the reasons.
    pub withdrawn: Vec<(String, String)>,
    /// The number of entries of folders, and of lines of the feed, that could not be sent at all.
    pub not_sent: u64,
    /// The number of files of a feed's folder that were dropped because too many waited.
    pub dropped: u64,
    /// The number of the feed's objects that expired before they were sent to their end.
    pub expired: u64,
    /// The number of further receivers that left before they had everything. They are not listed one by one.
    pub others_failed: u64,
    /// The number of receivers that the start waited for and that never came. Those of [`Connected::listed`] are listed among
    /// the receivers.
    pub never_came: u64,
    /// The number of addresses whose receivers could not be admitted, because this process had no descriptor left.
    pub turned_away: u64,
    /// Whether a signal ended the session.
    pub interrupted: bool,
    /// What is known of the receivers that were named to a carousel.
    pub named: Vec<NamedReceiver>,
    /// Why a carousel ended. `None` in other sessions.
    pub carousel_end: Option<CarouselEnd>,
}

impl SendSummary {
    /// Whether every receiver has every object that it wanted, and no command of a standing receiver has failed. What could
    /// not be sent at all is no object.
    pub fn is_complete(&self) -> bool {
        let whole = |receiver: &ReceiverProgress| {
            receiver.failed == 0 && receiver.command.as_ref().is_none_or(CommandOutcome::is_good)
        };
        let all_told = self.withdrawn.is_empty() && self.others_failed == 0;
        let given_up = self.progress.local.map_or(0, |local| local.late_objects);
        !self.interrupted && all_told && given_up == 0 && self.progress.receivers.iter().all(whole)
    }
}

impl SendSummary {
    /// Whether everything that the session was to send is at every receiver that it was for: also what came of a feed before a
    /// receiver did, and what could not be sent at all.
    pub fn is_everywhere(&self) -> bool {
        let is_all_sent = self.not_sent + self.dropped + self.expired == 0;
        let has_missed_none = |receiver: &ReceiverProgress| receiver.objects_missed == 0;
        let have_all_come =
            self.never_came + self.turned_away == 0 && self.progress.receivers.iter().all(has_missed_none);
        self.is_complete() && is_all_sent && have_all_come
    }
}

/// The reason why a session could not be held.
#[derive(Debug, Error)]
pub enum SendError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Udp(#[from] UdpError),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error("TCP port {port} is in use on this host")]
    PortInUse { port: u16 },
    #[error("cannot take control connections at {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "{joined} of {of} came within {seconds} s{missing}",
        of = counted(*wanted as usize, "receiver"), missing = none_from(missing)
    )]
    NoReceivers {
        joined: u32,
        wanted: u32,
        /// How many are enough when the time is over; none when all are needed.
        at_least: Option<u32>,
        seconds: u64,
        /// Addresses of named receivers from which nobody has come.
        missing: Vec<IpAddr>,
    },
    #[error(
        "{joined} of {of} came within {seconds} s: {unknown}",
        of = counted(*wanted as usize, "standing receiver")
    )]
    NotThere {
        joined: u32,
        wanted: u32,
        seconds: u64,
        /// The names that no receiver has, and those of the receivers that are there.
        unknown: String,
    },
    #[error("nobody has listened to group {group} for {seconds} s")]
    NoListener { group: IpAddr, seconds: u64 },
    #[error(transparent)]
    Listeners(#[from] ListenError),
    #[error("a carousel holds 1 to 65536 files, and there are {0}: send fewer, or pack them into one")]
    Contents(usize),
    #[error("cannot send to {to}: {source}; check the interface and its routes")]
    Send { to: SocketAddr, source: io::Error },
    #[error(transparent)]
    SessionFile(#[from] SessionFileError),
    #[error("cannot secure the session: {0}")]
    Security(#[from] TlsError),
    #[error("cannot announce the session: {0}")]
    Announce(String),
    #[error("interrupted before the first byte was sent")]
    Interrupted,
    #[error("cannot run the session: {0}")]
    Io(#[from] io::Error),
}

impl SendError {
    /// What receivers are told, who cannot do anything about it.
    fn to_receivers(&self) -> String {
        match self {
            Self::NoReceivers { joined, wanted, seconds, .. }
            | Self::NotThere { joined, wanted, seconds, .. } => {
                let wanted = counted(*wanted as usize, "receiver");
                format!("it waited for {wanted}, and {joined} came within {seconds} s")
            }
            Self::Interrupted => "it was stopped".to_owned(),
            other => other.to_string(),
        }
    }
}

/// ", and none from ...", where receivers were named.
fn none_from(missing: &[IpAddr]) -> String {
    /// As many as are still read.
    const MOST: usize = 8;
    if missing.is_empty() { String::new() } else { format!(", and none from {}", some_of(missing, MOST)) }
}

/// Sends all objects to all receivers. Returns when every receiver has ended with every object, or `stop` is
/// requested.
///
/// # Errors
/// If nothing could be sent. The failures of single receivers are in the summary.
pub fn run(
    options: &SendOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(SendEvent),
) -> Result<SendSummary, SendError> {
    hold(Plan::new(options, stop)?, stop, on_event)
}

/// Runs a session like [`run`] does, for a session whose ticket may already be known to receivers.
///
/// # Errors
/// Those of [`run`].
pub fn hold(plan: Plan, stop: &Stop, on_event: &mut dyn FnMut(SendEvent)) -> Result<SendSummary, SendError> {
    let id = format!("{:08x}", plan.session.0);
    let _span = tracing::info_span!(target: crate::SESSION_LOG, "send", session = id).entered();
    let mut log = log::Log::default();
    let mut on_event = |event: SendEvent| {
        log.note(&event);
        on_event(event);
    };
    session::Session::open(plan, &mut on_event)?.run(stop)
}
