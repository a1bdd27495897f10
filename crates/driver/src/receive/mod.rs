//! Receives a session: from a ticket to verified files.
//!
//! There are two threads. This one takes packets from the kernel as fast as they come, and runs the machine.
//! The store's thread writes and hashes. Batches of 256 KiB from a bounded pool go between them. So a slow disk
//! finally slows down the sender, and uses no extra memory.

mod choice;
mod comeback;
mod dial;
mod join;
pub(crate) mod log;
mod outbox;
mod reach;
mod refusal;
mod session;
mod taker;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_host::{
    interface::{Interface, InterfaceError, family},
    stop::Stop,
};
use treecast_wire::{
    ParseError,
    message::{CommandResult, Message, ObjectKind, Role},
    ticket::{Repair, Ticket},
};

pub use crate::name_filter::NameFilter;
pub use choice::{Choice, Chooser, Offer};
use session::{Carried, Ended, Session};
pub use taker::{Complete, Taken, Taker};
pub use treecast_proto::policy::{RECEIVE_BUFFER_BYTES, RECEIVER_STALL_LIMIT as STALL_LIMIT};

use crate::{
    events::{as_field_text, as_kind, as_seconds},
    files::{Device, Journal, Limit, Rules, Shortage, TargetError, TargetFolder},
    hindrance::Hindrance,
    local::{GroupsFile, GroupsFileError},
    remedies::{self, Advised, Remedy},
    security::{Identity, PublicKey, tls::TlsError},
    udp::{Offload, UdpError},
};

/// The time for which a receiver tries to reach its sender again when the connection breaks. It is as long as a
/// sender waits for a silent receiver.
pub const RECONNECT_TIME: Duration = Duration::from_secs(120);

/// The options of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    pub ticket: Ticket,
    /// The receiver's name at the sender. `None`: the host's name and the process id.
    pub name: Option<String>,
    pub interface: Option<String>,
    /// The UDP port for packets to this host's own address. `None`: the ticket's, or a free one.
    pub port: Option<u16>,
    pub into: PathBuf,
    /// The device to which the session's one file goes. `into` then has only what treecast keeps beside it.
    pub device: Option<Device>,
    /// The place of older versions of objects that the sender sends by difference: a file, a block device, or a
    /// folder with files of the objects' names. `None`: where the objects go.
    pub old: Option<PathBuf>,
    /// The function that decides which announced objects are wanted. `None` takes all.
    pub chooser: Option<Chooser>,
    /// The function that takes complete files before the sender hears of them. `None`: they stay where they are.
    pub taker: Option<Taker>,
    /// The rules for the sender in the folder.
    pub rules: Rules,
    /// The time for which the receiver tries to reach the sender.
    pub connect_timeout: Duration,
    /// The time for which the receiver tries to reach the sender again when the connection breaks. Zero: not at
    /// all.
    pub reconnect: Duration,
    /// The time of silence on the connection after which the receiver looks for the sender again.
    pub stall_limit: Duration,
    pub offload: Offload,
    /// The receiver's identity. `None` makes a key for the session.
    pub identity: Option<Identity>,
    /// The kind of receiver that this is.
    pub role: Role,
    /// Whether to refuse the ticket of a plain session.
    pub secure_only: bool,
    pub dialect: Dialect,
    /// Local groups made by hand. `None`: receivers form groups.
    pub groups: Option<GroupsFile>,
    /// Whether to send an empty packet to the group now and then, for networks that bring a group's packets only to hosts that
    /// send to it.
    pub must_send: bool,
    /// Whether incomplete files are removed when the receiver is told to stop. If not, a later receiver with the same ticket
    /// and folder goes on with them.
    pub discards: bool,
}

/// The kind of packets that a receiver accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// The packets of a treecast session.
    Session,
    /// The session speaks the frames of the IoT updater, which carry one file. The frames carry no name of it:
    /// the receiver stores it as `name`.
    Iotup { name: String },
}

impl ReceiveOptions {
    pub fn new(ticket: Ticket, into: PathBuf) -> Self {
        Self {
            ticket,
            name: None,
            interface: None,
            port: None,
            into,
            device: None,
            old: None,
            chooser: None,
            taker: None,
            rules: Rules::default(),
            connect_timeout: Duration::from_secs(30),
            reconnect: RECONNECT_TIME,
            stall_limit: STALL_LIMIT,
            offload: Offload::SuperPackets,
            identity: None,
            role: Role::default(),
            secure_only: false,
            dialect: Dialect::Session,
            groups: None,
            must_send: false,
            discards: false,
        }
    }

    fn open_folder(&self) -> Result<TargetFolder, TargetError> {
        let folder = TargetFolder::open(&self.into)?.with_rules(self.rules);
        let sender = self.ticket.security.as_ref().map(|security| security.sender_key);
        Ok(folder.with_device(self.device.clone()).with_old(self.old.as_deref()).with_sender(sender))
    }
}

/// An event of a receiver. `treecast receive --json` prints these events, one a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReceiveEvent {
    /// A warning: something is not as good as it could be.
    #[serde(with = "as_field_text")]
    Warning(Advised),
    /// The sender could not be reached for a while. The event has the reason, and the remaining time of trying.
    Unreachable {
        addresses: Vec<SocketAddr>,
        reason: String,
        #[serde(rename = "seconds_left", with = "as_seconds")]
        left: Duration,
    },
    /// The sender has admitted this receiver.
    Joined {
        /// The sender's address.
        sender: SocketAddr,
        /// The interface on which packets come.
        interface: String,
    },
    /// An object begins.
    Announced {
        name: String,
        #[serde(rename = "size")]
        bytes: u64,
    },
    /// An object was not wanted, or an existing file keeps its name.
    Ignored {
        name: String,
        /// Whether something of that name exists.
        exists: bool,
    },
    /// An older version of an object was read, of which the sender sends only what differs.
    OlderVersion {
        name: String,
        /// The bytes of the object that are copied from it.
        bytes: u64,
        /// The reason why it could not be read, or not to its end. `None` if it was.
        why_not: Option<Advised>,
    },
    /// The disk is full, and an object waits for space.
    Full(Box<Shortage>),
    /// No object waits for space any more.
    Room,
    /// The progress of the receiver.
    Progress(ReceiveProgress),
    /// The receiver listens to another group of a session with several rates.
    Moved {
        /// 0 is the first, and the fastest.
        #[serde(rename = "group_number")]
        group: u8,
        /// The group's address. `None` where packets come to the receiver's own address.
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<SocketAddr>,
    },
    /// An object is complete, verified, and has its name.
    #[serde(rename = "object")]
    Received {
        name: String,
        #[serde(with = "as_kind")]
        kind: ObjectKind,
        bytes: u64,
    },
    /// An object cannot be received.
    Failed {
        name: String,
        /// The reason, in words.
        reason: Advised,
        /// Bytes of the file that had come, and are not kept.
        #[serde(default)]
        discarded_bytes: u64,
    },
    /// The session is over. [`run`] returns its summary instead of this event.
    Done(Done),
    /// No more events come for now, so a display may show the recent events together.
    #[serde(skip)]
    Idle,
}

/// The end of a session, as its last event tells it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    #[serde(flatten)]
    pub progress: ReceiveProgress,
    /// The number of files, folders and links that are now as the sender has them.
    pub objects: u64,
    /// The number of objects that failed.
    pub failed: u64,
    /// Bytes of incomplete files that stay in the folder, from which a later receiver with the same ticket goes on.
    #[serde(default)]
    pub unfinished_bytes: u64,
    /// The number of objects that the receiver did not want.
    pub not_wanted: u64,
    /// The number of objects that were left out because something else already had their names.
    pub existing: u64,
    /// The number of objects of a feed or stream that were over before this receiver came.
    #[serde(default)]
    pub missed: u64,
    /// Whether nothing failed and nothing was cut short.
    pub complete: bool,
}

impl From<&ReceiveSummary> for Done {
    fn from(summary: &ReceiveSummary) -> Self {
        Self {
            progress: summary.progress,
            objects: summary.received + summary.others,
            failed: summary.failed,
            unfinished_bytes: summary.unfinished_bytes,
            not_wanted: summary.not_wanted,
            existing: summary.existing,
            missed: summary.missed,
            complete: summary.is_complete(),
        }
    }
}

/// The progress of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReceiveProgress {
    /// Seconds since the sender was reached.
    pub seconds: f64,
    /// The bytes of objects that the receiver has. Bytes that came twice count once.
    #[serde(rename = "bytes")]
    pub received_bytes: u64,
    /// The part of the received bytes that was there before: what an earlier receiver had left, and what older versions hold.
    pub kept_bytes: u64,
    /// The bytes that were copied from older versions of objects. `None` if nothing is sent by difference.
    pub older_bytes: Option<u64>,
    /// Total size of all objects announced so far, in bytes.
    pub announced_bytes: u64,
    /// The bytes of retransmissions, which came over the control connection.
    pub retransmitted_bytes: u64,
    /// The number of blocks that came although the receiver had them.
    pub duplicate_blocks: u64,
    /// The bytes of the blocks that came although the receiver had them.
    pub duplicate_bytes: u64,
    /// Repair symbols kept, and blocks computed from them.
    pub repair_symbols: u64,
    pub decoded_blocks: u64,
    /// Chunks of objects that were wrong, and came again.
    pub wrong_chunks: u64,
    /// Packets that the kernel dropped because the receive buffer was full.
    pub dropped_packets: u64,
    /// Packets that were not used: foreign, late or malformed.
    pub ignored_packets: u64,
    /// Packets that were not sealed by the sender, or were changed on the way.
    pub forged_packets: u64,
    /// Packets of the sender that had been received before.
    pub replayed_packets: u64,
    /// The number of objects that have begun to arrive.
    #[serde(rename = "objects_begun")]
    pub objects: u64,
    /// The number of objects that are complete and verified.
    pub objects_done: u64,
    /// The number of objects that have failed.
    pub objects_failed: u64,
    /// Bits of objects that came a second over the last seconds; none before that is known.
    pub now_bps: Option<u64>,
    /// Bits of objects that came again a second over the last seconds; none before that is known.
    pub retransmitted_bps: Option<u64>,
    /// The number of the group that the receiver listens to; 0 is the first.
    #[serde(rename = "group_number")]
    pub group: u8,
    /// The number of requests for retransmissions.
    pub requests: u64,
    /// The state of a member of local groups. `None` in every other session.
    pub local: Option<LocalProgress>,
    /// The share of blocks that came although they were there, 0 to 1.
    pub duplicate_share: f64,
    /// The reason why the receiver is behind what was announced. `None` if it is not behind.
    #[serde(rename = "why")]
    pub hindrance: Option<Hindrance>,
    /// Estimated seconds left for the announced objects, by the recent rate. `None` if it is not known.
    pub seconds_left: Option<f64>,
}

/// The state of a member of local groups.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LocalProgress {
    /// The number of its local group. `None` while it looks for one, and where the sender alone mends losses.
    pub group: Option<u32>,
    pub is_controller: bool,
    /// The address of the group's controller.
    pub controller: Option<SocketAddr>,
    /// The number of members and controllers that report to it.
    pub clients: u64,
    /// The share of the session's packets that it loses, 0 to 1.
    pub loss: f64,
    /// The number of blocks that came from the sender to all, for the first time or again.
    pub data_blocks: u64,
    /// The numbers of requests sent to the group, and to the controller above.
    pub requests: u64,
    pub requests_above: u64,
    /// The number of other messages sent.
    pub control: u64,
    /// The number of blocks that came again from members.
    pub repair_blocks: u64,
    /// The number of blocks sent again for others.
    pub sent_blocks: u64,
    /// The number of blocks that were missing when that was noticed.
    pub lost_blocks: u64,
    /// The number of objects given up because they were late.
    pub late_objects: u64,
    /// The number of blocks of members that are not what the sender has signed.
    pub refused_blocks: u64,
}

/// The result of a session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReceiveSummary {
    pub progress: ReceiveProgress,
    /// The number of received files, and their bytes.
    pub received: u64,
    pub received_bytes: u64,
    /// The number of folders and symbolic links that are as the sender has them.
    pub others: u64,
    /// The number of objects that failed.
    pub failed: u64,
    /// Bytes of incomplete files that stay in the folder, from which a later receiver with the same ticket goes on. 0 if none do.
    pub unfinished_bytes: u64,
    /// The number of objects that were not wanted.
    pub not_wanted: u64,
    /// The number of objects that were left out because their names exist.
    pub existing: u64,
    /// The number of objects of a feed or stream that were over before this receiver came. They have not failed: nobody told of them.
    pub missed: u64,
    /// The limit that has ended the session, if one has.
    pub limit: Option<Limit>,
    /// The reason why the session ended early, if it did.
    pub cut_short: Option<Advised>,
    /// Whether the sender has ended the session for good. Nobody can continue it then, and only complete files
    /// stay.
    pub has_ended: bool,
    /// Whether a signal ended the session.
    pub interrupted: bool,
}

impl ReceiveSummary {
    /// Counts an object that is there, which is to be told.
    pub(crate) fn note_received(&mut self, name: String, kind: ObjectKind, bytes: u64) -> ReceiveEvent {
        match kind {
            ObjectKind::File => {
                self.received += 1;
                self.received_bytes += bytes;
            }
            ObjectKind::Folder | ObjectKind::Link | ObjectKind::Index => self.others += 1,
        }
        ReceiveEvent::Received { name, kind, bytes }
    }

    /// The number of objects that are here as the sender has them.
    pub(crate) fn there(&self) -> u64 {
        self.received + self.others
    }

    /// The reason why a receiver ends that a limit, a signal or its caller has stopped.
    pub(crate) fn why_stopped(&self) -> String {
        self.limit.map_or_else(|| "it was told to stop".to_owned(), |limit| limit.to_string())
    }

    /// Whether objects have come, and none was wanted.
    pub fn wanted_nothing(&self) -> bool {
        self.not_wanted > 0 && self.received + self.others + self.failed + self.existing == 0
    }

    pub fn is_complete(&self) -> bool {
        !self.interrupted && self.failed == 0 && self.cut_short.is_none() && self.limit.is_none()
    }
}

/// The reason why nothing could be received.
#[derive(Debug, Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Udp(#[from] UdpError),
    #[error("UDP port {port} is in use on this host")]
    PortInUse { port: u16 },
    #[error(
        "UDP port {port}, where the carousel's copies come, is in use on this host: end the program that has it, such as \
         another receiver of this carousel"
    )]
    CopiesPortInUse { port: u16 },
    #[error("the session comes to a multicast group, at port {port}, and no other port can be chosen")]
    NoPort { port: u16 },
    #[error(
        "cannot reach the sender at {addresses} ({reason}): see that `treecast send` runs and that its port is \
         open{expired}"
    )]
    Unreachable { addresses: String, reason: String, expired: String },
    #[error(
        "the sender at {address} has another key than the ticket says: {found} and not {expected}; ask for the ticket \
         anew, and if it is the right one, somebody else answers there"
    )]
    WrongKey { address: SocketAddr, found: PublicKey, expected: PublicKey },
    #[error("the ticket is that of a plain session")]
    Plain,
    #[error("the sender's key in the ticket is none: ask for the ticket anew")]
    SenderKey,
    #[error(
        "the carousel's ticket lacks the secret that its packets are sealed with: ask for the ticket anew"
    )]
    NoSecret,
    #[error("the session's local groups are fixed in a file, which each receiver needs, too")]
    NoGroups,
    #[error("nobody has fixed the groups of this session, so a file of groups is of no use")]
    NotStatic,
    #[error("the members of this session do not send to its group, so an empty packet is of no use")]
    NoMembers,
    #[error(transparent)]
    Groups(#[from] GroupsFileError),
    #[error("cannot trust whoever answers for the sender at {address}: {error}")]
    Security { address: SocketAddr, error: TlsError },
    #[error("cannot use this receiver's key: {0}")]
    Key(#[from] TlsError),
    #[error("the ticket names no address of the sender: use the first line that `treecast send` prints")]
    NoControl,
    #[error("{0}")]
    Family(NoFamily),
    #[error("the name {name:?} cannot be used ({reason})")]
    Name { name: String, reason: String },
    #[error("the sender did not admit this receiver: {0}")]
    NotAdmitted(Advised),
    #[error("{0}: ask whoever sends to name this receiver")]
    NotMeant(String),
    #[error(
        "the sender closed the connection before it admitted this receiver ({0}): try again, or see what it says there"
    )]
    Dropped(String),
    #[error(
        "the sender speaks another version of treecast's protocol ({0}): install the same version of treecast on both hosts"
    )]
    OtherVersion(ParseError),
    #[error("interrupted before anything was received")]
    Interrupted,
    #[error("cannot run the session: {0}")]
    Io(#[from] io::Error),
}

impl ReceiveError {
    /// What helps, if the error does not say so itself.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NotAdmitted(reason) => reason.remedy,
            Self::Family(_) => Some(Remedy::OtherFamily),
            Self::Io(error) => remedies::remedy_of(error),
            _ => None,
        }
    }
}

/// An interface that has no address of the group's family, so that it hears nothing of the group.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the session's group {group} is {wanted}, and interface {interface} has no {wanted} address: give it one, or have the session \
     sent to a group of {other}",
    wanted = family(*.group),
    other = if .group.is_ipv4() { "IPv6" } else { "IPv4" }
)]
pub struct NoFamily {
    pub group: IpAddr,
    pub interface: String,
}

impl NoFamily {
    /// Checks that an interface can hear the session's group, if there is one.
    fn check(ticket: &Ticket, interface: &Interface) -> Result<(), Self> {
        let group = ticket.group.ip();
        let is_heard = !ticket.fanout.has_group() || interface.check_family(group).is_ok();
        is_heard.then_some(()).ok_or_else(|| Self { group, interface: interface.name.clone() })
    }
}

/// Joins addresses in a line.
pub fn in_a_row(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Receives a session until the sender ends it, or `stop` is requested.
///
/// # Errors
/// If nothing could be received. The failures of single objects are in the summary.
pub fn run(
    options: &ReceiveOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<ReceiveSummary, ReceiveError> {
    let id = format!("{:08x}", options.ticket.session.0);
    let _span = tracing::info_span!(target: crate::SESSION_LOG, "receive", session = id).entered();
    let on_event = &mut |event: ReceiveEvent| {
        log::note(&event);
        on_event(event);
    };
    match options.ticket.repair {
        Repair::Carousel | Repair::Local => listen(options, stop, on_event),
        Repair::None | Repair::After | Repair::Nack => comeback::run(options, stop, on_event),
    }
}

/// Tells the sender of a session how the command went that this standing receiver has run. Returns when the sender has heard it.
///
/// # Errors
/// If the sender cannot be reached, or has another key than the ticket says.
pub fn tell_result(
    options: &ReceiveOptions,
    result: &CommandResult,
    stop: &Stop,
) -> Result<(), ReceiveError> {
    let mut on_event = |_| {};
    let until = (false, Instant::now() + options.connect_timeout);
    join::tell(options, &Message::CommandResult(result.clone()), until, stop, &mut on_event)
}

/// Removes the incomplete files that receivers of this session, which run no more, have left in a folder.
///
/// # Errors
/// If the folder cannot be used.
pub fn discard(ticket: &Ticket, folder: &Path) -> Result<(), ReceiveError> {
    Journal::discard_unfinished(&TargetFolder::open(folder)?, ticket.session);
    Ok(())
}

/// Receives a session without a connection to the sender: a carousel, or one with local groups.
fn listen(
    options: &ReceiveOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<ReceiveSummary, ReceiveError> {
    let folder = options.open_folder()?;
    // The IoT updater's frames do not say of which session they are.
    let resumes = options.dialect == Dialect::Session;
    let storage = Journal::open(&folder, options.ticket.session, resumes)?;
    let joined = join::listen(options, on_event)?;
    let carried = Carried::new(options.rules);
    match Session::open(options, folder, storage, joined, carried, on_event)?.run(stop)? {
        Ended::Over(summary) => Ok(*summary),
        Ended::Broken { carried, .. } => Ok(carried.summary),
    }
}
