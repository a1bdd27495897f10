//! The receiver's side.

mod builder;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use treecast_driver::receive::{self, Choice, ReceiveEvent, ReceiveOptions};
use treecast_host::temporary::TemporaryFolder;
use treecast_wire::message;

pub use builder::ReceiverBuilder;

use crate::{
    Error, ErrorKind, Finish, NextEvent, ReceiverReport, Ticket, error::of_receive, observers::Observers,
    session::Session, wait::Watched,
};

/// The file system in memory that Linux has for programs.
const MEMORY: &str = "/dev/shm";

/// The longest time for which a receiver waits for its session's end when it is dropped.
const LEAVING_TIME: Duration = Duration::from_secs(5);

/// A receiver that has joined a group.
///
/// The order of calls is the paper's (interdomain-2013, section 4.6.2): [`Receiver::builder`] and
/// [`join`](ReceiverBuilder::join) are JoinGroup and StartReceiver, [`next_event`](Receiver::next_event) is GetNextEvent, and
/// [`leave`](Receiver::leave) is LeaveGroup. The paper's two modes are here, too: per-file notification by
/// [`accept`](ReceiverBuilder::accept) and [`on_event`](ReceiverBuilder::on_event), and batches by the queue of events.
///
/// A receiver that is dropped leaves its group. One that keeps objects in memory waits for its session's end then, which takes
/// milliseconds, so that their memory is free when the program ends.
///
/// ```
/// # fn main() -> Result<(), treecast::Error> {
/// # let group = treecast::Group::builder().interface("lo").start()?;
/// # group.send_bytes("greeting", "hello")?;
/// # let ticket = group.ticket().to_string();
/// use treecast::{Receiver, ReceiverEvent};
///
/// let receiver = Receiver::builder(ticket.parse()?).interface("lo").in_memory().join()?;
/// # group.close();
/// for event in receiver.events() {
///     if let ReceiverEvent::Received(object) = event {
///         assert_eq!(object.name(), "greeting");
///         assert_eq!(object.into_bytes()?, b"hello");
///     }
/// }
/// assert!(receiver.finish().wait()?.is_complete());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    session: Arc<Session<ReceiverEvent, ReceiverReport>>,
    progress: Arc<Watched<ReceiverProgress>>,
    is_in_memory: bool,
}

/// An event of a receiver.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiverEvent {
    /// The sender has admitted this receiver.
    #[non_exhaustive]
    Joined {
        /// The sender's address.
        sender: SocketAddr,
    },
    /// The sender has not been reached for a while. The receiver goes on trying.
    #[non_exhaustive]
    Unreachable {
        /// Why not, in words.
        reason: String,
    },
    /// An object begins: the paper's BOF.
    #[non_exhaustive]
    Announced {
        /// The object's name.
        name: String,
        /// Size of the object, in bytes.
        bytes: u64,
    },
    /// An object is complete and verified, and has its name.
    Received(Received),
    /// An object was not wanted, or something that exists keeps its name.
    #[non_exhaustive]
    Ignored {
        /// The object's name.
        name: String,
        /// Whether something of that name exists.
        exists: bool,
    },
    /// An object cannot be received.
    #[non_exhaustive]
    Failed {
        /// The object's name.
        name: String,
        /// Why not, in words.
        reason: String,
    },
    /// Something is not as good as it could be. The line says what, and what helps.
    Warning(String),
    /// This many events were lost here, because too many were not read. Objects are in the folder all the same.
    Missed(u64),
}

/// An object that the sender announces, for [`ReceiverBuilder::accept`].
#[derive(Debug)]
pub struct Offer<'a>(pub(crate) receive::Offer<'a>);

impl Offer<'_> {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.0.name
    }

    /// Size of the object, in bytes.
    pub fn len(&self) -> u64 {
        self.0.bytes
    }

    /// Whether the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }
}

/// The answer to the announcement of an object. `true` is [`Answer::Take`], and `false` [`Answer::Refuse`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Take it.
    Take,
    /// Take it under this name: a relative path with `/` between folders. Events and [`Received`] call it so.
    TakeAs(String),
    /// Do not fetch it.
    Refuse,
}

impl Answer {
    pub(crate) fn choice(self) -> Choice {
        match self {
            Self::Take => Choice::Take,
            Self::TakeAs(name) => Choice::TakeAs(name),
            Self::Refuse => Choice::Refuse,
        }
    }
}

impl From<bool> for Answer {
    fn from(is_wanted: bool) -> Self {
        if is_wanted { Self::Take } else { Self::Refuse }
    }
}

/// How far a receiver is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReceiverProgress {
    /// The bytes of objects that are there. Bytes that came twice count once.
    pub bytes: u64,
    /// Total size of all objects announced so far, in bytes.
    pub announced_bytes: u64,
    /// The bytes that came again, over the control connection.
    pub retransmitted_bytes: u64,
    /// The number of objects that are complete and verified.
    pub objects: u64,
}

impl Receiver {
    /// The options of a receiver for the group of this ticket.
    pub fn builder(ticket: Ticket) -> ReceiverBuilder {
        ReceiverBuilder::new(ticket)
    }

    fn open(
        options: ReceiveOptions,
        folder: Folder,
        mut observers: Observers,
        session: Session<ReceiverEvent, ReceiverReport>,
    ) -> Result<Self, Error> {
        let is_in_memory = folder.is_temporary();
        let receiver = Self { session: Arc::new(session), progress: Arc::default(), is_in_memory };
        let progress = receiver.progress.clone();
        let run = move |session: &Session<ReceiverEvent, ReceiverReport>| {
            let mut note = |event: ReceiveEvent| {
                observers.note_receive(&event);
                match event {
                    ReceiveEvent::Progress(now) => {
                        progress.change(|kept| *kept = ReceiverProgress::of(&now));
                    }
                    event => _ = told(event, &folder).map(|event| session.events.tell(event)),
                }
            };
            let result = receive::run(&options, &session.stop, &mut note);
            result.map(ReceiverReport::new).map_err(of_receive)
        };
        receiver.session.run("treecast-receive", run)?;
        Ok(receiver)
    }

    /// The next event. Events are there for whoever takes them first; with [`ReceiverBuilder::on_event`] there are none here.
    pub fn next_event(&self) -> NextEvent<'_, ReceiverEvent> {
        NextEvent(&self.session.events)
    }

    /// The events of a period, for a program that takes objects in batches: the paper's batched notification (interdomain-2013,
    /// section 4.3.1). Blocks for this time, or until the session is over. `None` when it is over and nothing is left.
    pub fn next_batch(&self, period: Duration) -> Option<Vec<ReceiverEvent>> {
        let start = Instant::now();
        let mut batch = Vec::new();
        loop {
            let left = period.saturating_sub(start.elapsed());
            match self.next_event().wait_timeout(left) {
                Poll::Ready(Some(event)) if left.is_zero() => {
                    batch.push(event);
                    return Some(batch);
                }
                Poll::Ready(Some(event)) => batch.push(event),
                Poll::Ready(None) if batch.is_empty() => return None,
                Poll::Ready(None) | Poll::Pending => return Some(batch),
            }
        }
    }

    /// The events, for a loop that blocks. It ends when the session is over.
    pub fn events(&self) -> impl Iterator<Item = ReceiverEvent> + '_ {
        std::iter::from_fn(|| self.next_event().wait())
    }

    /// How far the receiver is.
    pub fn progress(&self) -> ReceiverProgress {
        self.progress.with(|progress| *progress)
    }

    /// The end of the session, with its report: when the sender has closed the group, or this receiver has left it.
    pub fn finish(&self) -> Finish<ReceiverReport> {
        self.session.finish()
    }

    /// Leaves the group: the paper's LeaveGroup. Complete objects stay. Returns at once; wait for the result, or await it.
    pub fn leave(&self) -> Finish<ReceiverReport> {
        self.session.request_stop();
        self.finish()
    }

    /// Refuses a child that was forked, where no thread runs the session. The child cannot use the receiver, and dropping it there
    /// does nothing to the session.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if another process has joined the group.
    pub fn check_process(&self) -> Result<(), Error> {
        self.session.place.check_process()
    }

    /// Refuses a thread that would wait for the session without end.
    ///
    /// # Errors
    /// [`ErrorKind::Deadlock`] in a function that the session calls, and those of [`Receiver::check_process`].
    pub fn check_wait(&self) -> Result<(), Error> {
        self.session.place.check_wait()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.session.request_stop();
        if self.is_in_memory {
            self.session.wait_for_end(LEAVING_TIME);
        }
    }
}

impl ReceiverProgress {
    fn of(progress: &receive::ReceiveProgress) -> Self {
        Self {
            bytes: progress.received_bytes,
            announced_bytes: progress.announced_bytes,
            retransmitted_bytes: progress.retransmitted_bytes,
            objects: progress.objects_done,
        }
    }
}

/// What a program is told of an event of the driver.
fn told(event: ReceiveEvent, folder: &Folder) -> Option<ReceiverEvent> {
    Some(match event {
        ReceiveEvent::Warning(line) => ReceiverEvent::Warning(line.line),
        ReceiveEvent::Unreachable { reason, .. } => ReceiverEvent::Unreachable { reason },
        ReceiveEvent::Joined { sender, .. } => ReceiverEvent::Joined { sender },
        ReceiveEvent::Announced { name, bytes } => ReceiverEvent::Announced { name, bytes },
        ReceiveEvent::Ignored { name, exists } => ReceiverEvent::Ignored { name, exists },
        ReceiveEvent::Failed { name, reason, .. } => ReceiverEvent::Failed { name, reason: reason.line },
        ReceiveEvent::Full(shortage) => {
            let (name, folder, needed) = (&shortage.name, shortage.folder.display(), shortage.needed);
            ReceiverEvent::Warning(format!("{folder} is full: {name} waits for {needed} bytes more"))
        }
        ReceiveEvent::Received { name, kind, bytes } => {
            let kind = match kind {
                message::ObjectKind::File => ObjectKind::File,
                message::ObjectKind::Folder => ObjectKind::Folder,
                message::ObjectKind::Link => ObjectKind::Link,
                message::ObjectKind::Index => return None,
            };
            ReceiverEvent::Received(Received { name, kind, bytes, folder: folder.clone() })
        }
        _ => return None,
    })
}

/// What a received object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A file, or bytes in memory.
    File,
    /// A folder, without what is in it.
    Folder,
    /// A symbolic link.
    Link,
}

/// An object that is complete and verified.
#[derive(Debug, Clone)]
pub struct Received {
    name: String,
    kind: ObjectKind,
    bytes: u64,
    folder: Folder,
}

impl Received {
    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the object is.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Size of the object, in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where the object is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Reads the object.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if it cannot be read, or is no longer there.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        fs::read(self.path()).map_err(|error| self.failed("read", &error))
    }

    /// Reads the object, and removes its file.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if it cannot be read or removed, or is no longer there.
    pub fn into_bytes(self) -> Result<Vec<u8>, Error> {
        let bytes = self.read()?;
        fs::remove_file(self.path()).map_err(|error| self.failed("remove", &error))?;
        Ok(bytes)
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        Error::new(ErrorKind::File, format!("cannot {what} {}: {error}", self.path().display()))
    }
}

/// The folder in which a receiver's objects are.
#[derive(Debug, Clone)]
struct Folder {
    path: Arc<Path>,
    /// Removes the folder when nobody needs it any more. `None` for a folder of the user.
    temporary: Option<Arc<TemporaryFolder>>,
}

impl Folder {
    /// A folder of the user. Its path stays right if the program changes its working directory.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path)?;
        Ok(Self { path: path.into(), temporary: None })
    }

    /// A folder in memory, or a temporary one.
    pub fn in_memory() -> Result<Self, Error> {
        let memory = Some(PathBuf::from(MEMORY)).filter(|path| path.is_dir());
        let parent = memory.unwrap_or_else(std::env::temp_dir);
        let folder = TemporaryFolder::new(&parent, "treecast-receiver-");
        let folder = folder.map_err(|error| {
            let line = format!("cannot make a folder for what comes in {}: {error}", parent.display());
            Error::new(ErrorKind::File, line)
        })?;
        Ok(Self { path: folder.path().into(), temporary: Some(Arc::new(folder)) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}
