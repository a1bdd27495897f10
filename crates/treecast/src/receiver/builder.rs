//! The options of a receiver.

use std::{fmt, path::PathBuf, time::Duration};

use treecast_driver::{
    files::Rules,
    receive::{Chooser, ReceiveOptions},
    security::Identity,
};

use super::{Answer, Folder, Offer, Receiver, ReceiverEvent};
use crate::{Error, ErrorKind, Ticket, events::Callback, session::Session};

/// The time for which an object waits for space on a full disk, unless an option says otherwise.
const WAIT_FOR_SPACE: Duration = Duration::from_secs(60);

/// The options of a receiver: the paper's VcmtpReceiverParams (interdomain-2013, section 4.6.2).
#[must_use = "a builder does nothing until the receiver joins"]
pub struct ReceiverBuilder {
    options: ReceiveOptions,
    is_in_memory: bool,
    key: Option<String>,
    on_event: Option<Callback<ReceiverEvent>>,
}

impl ReceiverBuilder {
    pub(crate) fn new(ticket: Ticket) -> Self {
        let mut options = ReceiveOptions::new(ticket.0, PathBuf::from("."));
        options.rules = Rules { wait_for_space: WAIT_FOR_SPACE, ..Rules::default() };
        Self { options, is_in_memory: false, key: None, on_event: None }
    }

    /// The folder for what comes. It is made if it is missing. Default: the working directory.
    ///
    /// A file gets its name only when it is complete and its hash is right; it then replaces a file of that name. A receiver
    /// that was killed goes on where it was, when it joins with the same ticket and folder.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.into = path.into();
        self.is_in_memory = false;
        self
    }

    /// Keeps what comes in memory, where the system has a file system in memory (`/dev/shm`); otherwise in a temporary folder.
    /// [`Received::into_bytes`](crate::Received::into_bytes) takes an object out. What is left is dropped with the receiver and
    /// the last [`Received`](crate::Received).
    pub fn in_memory(mut self) -> Self {
        self.is_in_memory = true;
        self
    }

    /// Decides for each announced object whether it is wanted, and under which name: the paper's VcmtpBofFunction. The function
    /// returns an [`Answer`], or a `bool`. What is refused is not fetched. The function runs in the session's thread, so it must
    /// return soon. It may be asked about an object more than once, and its answer must stay the same. Default: everything is
    /// wanted.
    ///
    /// ```
    /// # use treecast::{Answer, ReceiverBuilder};
    /// # fn wanted(builder: ReceiverBuilder) -> ReceiverBuilder {
    /// builder.accept(|offer| match offer.name().strip_prefix("radar/") {
    ///     Some(name) if offer.len() < 1_000_000 => Answer::TakeAs(name.to_owned()),
    ///     _ => Answer::Refuse,
    /// })
    /// # }
    /// ```
    pub fn accept<A: Into<Answer>>(
        mut self,
        function: impl Fn(&Offer<'_>) -> A + Send + Sync + 'static,
    ) -> Self {
        self.options.chooser = Some(Chooser::new(move |offer| function(&Offer(offer)).into().choice()));
        self
    }

    /// Gives all events to this function, in place of the queue of [`Receiver::next_event`]. With [`ReceiverEvent::Received`],
    /// it is the paper's VcmtpRecvCompleteFunction. It runs in the session's thread, so it must return soon, and must not block.
    pub fn on_event(mut self, function: impl FnMut(ReceiverEvent) + Send + 'static) -> Self {
        self.on_event = Some(Box::new(function));
        self
    }

    /// The receiver's name at the sender: printable ASCII. Default: the host's name and the process's number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// The name of the network interface, such as `eth0`. Default: the one of the route to the sender.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.options.interface = Some(name.into());
        self
    }

    /// The receiver's key: its name (see `treecast keys`), or its file. Default: a key that is made for the session.
    pub fn key(mut self, name_or_path: impl Into<String>) -> Self {
        self.key = Some(name_or_path.into());
        self
    }

    /// Refuses the ticket of a session without security.
    pub fn secure_only(mut self) -> Self {
        self.options.secure_only = true;
        self
    }

    /// Keeps existing files, and does not fetch objects of their names. Default: they are replaced.
    pub fn keep_existing(mut self) -> Self {
        self.options.rules.keep_existing = true;
        self
    }

    /// Accepts names that begin with a dot at the top of the folder, such as `.bashrc`. Default: they are refused.
    pub fn hidden(mut self) -> Self {
        self.options.rules.hidden = true;
        self
    }

    /// Ends the session when more objects are announced than this.
    pub fn most_objects(mut self, objects: u64) -> Self {
        self.options.rules.max_files = Some(objects);
        self
    }

    /// Ends the session when the objects are larger together than this, in bytes.
    pub fn most_bytes(mut self, bytes: u64) -> Self {
        self.options.rules.max_bytes = Some(bytes);
        self
    }

    /// The time for which the receiver tries to reach the sender. Default: 30 s.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.options.connect_timeout = time;
        self
    }

    /// The time for which the receiver tries to reach the sender again when the connection breaks. Default: 120 s; zero does
    /// not try.
    pub fn reconnect(mut self, time: Duration) -> Self {
        self.options.reconnect = time;
        self
    }

    /// Joins the group, and begins to receive: the paper's JoinGroup and StartReceiver. Returns at once; a sender that cannot
    /// be reached is told by [`Receiver::finish`].
    ///
    /// # Errors
    /// [`ErrorKind::Key`] if the key cannot be used, and [`ErrorKind::File`] if there is no folder for what comes in memory.
    pub fn join(self) -> Result<Receiver, Error> {
        let mut options = self.options;
        let identity = self.key.as_deref().map(Identity::named).transpose();
        options.identity = identity.map_err(|error| Error::of(ErrorKind::Key, error))?;
        let folder = match self.is_in_memory {
            true => Folder::in_memory()?,
            false => Folder::new(&options.into)?,
        };
        options.into = folder.path().to_owned();
        Receiver::open(options, folder, Session::new(self.on_event, ReceiverEvent::Missed)?)
    }
}

impl fmt::Debug for ReceiverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverBuilder").finish_non_exhaustive()
    }
}
