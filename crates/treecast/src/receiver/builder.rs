//! The options of a receiver.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use treecast_driver::{
    files::{Device, Rules},
    local::GroupsFile,
    receive::{self, Chooser, Complete, Dialect, ReceiveEvent, ReceiveOptions, ReceiveSummary, Taken, Taker},
    remedies::{Advised, Remedy},
    security::Identity,
    status::Progress,
    udp::Offload,
};
use treecast_host::stop::Stop;
use treecast_wire::{
    header::SessionId,
    iotup,
    ticket::{self, Repair, group_address},
};

use super::{Answer, Folder, Offer, Receiver, ReceiverEvent};
use crate::{
    Error, ErrorKind, Ticket,
    error::of_receive,
    events::Callback,
    limits::bounded,
    observers::{Observed, Observers},
    session::Session,
};

/// The time for which an object waits for space on a full disk, unless an option says otherwise.
const WAIT_FOR_SPACE: Duration = Duration::from_secs(60);

/// The options of a receiver: the paper's VcmtpReceiverParams (interdomain-2013, section 4.6.2).
#[must_use = "a builder does nothing until the receiver joins"]
pub struct ReceiverBuilder {
    options: ReceiveOptions,
    is_in_memory: bool,
    key: Option<String>,
    /// The device for the one object, and whether it is read back.
    device: Option<(PathBuf, bool)>,
    /// The file that fixes local groups.
    local_groups: Option<PathBuf>,
    observed: Observed,
    on_event: Option<Callback<ReceiverEvent>>,
}

impl ReceiverBuilder {
    pub(crate) fn new(ticket: Ticket) -> Self {
        let mut options = ReceiveOptions::new(ticket.0, PathBuf::from("."));
        options.rules = Rules { wait_for_space: WAIT_FOR_SPACE, ..Rules::default() };
        Self {
            options,
            is_in_memory: false,
            key: None,
            device: None,
            local_groups: None,
            observed: Observed::default(),
            on_event: None,
        }
    }

    /// A receiver of librecast's IoT updater, which has no tickets. Its one file comes to `groups` groups, whose addresses follow
    /// each other from `first` on, and gets this name.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if there are not so many groups, or the name is that of no file.
    pub fn of_iotup(first: SocketAddr, groups: u8, name: &str) -> Result<Self, Error> {
        if Path::new(name).file_name() != Some(name.as_ref()) {
            let line = format!("{name:?} is no plain name for a file");
            return Err(Error::new(ErrorKind::Options, Advised::by(Remedy::NameFolder, line)));
        }
        if groups == 0 || group_address(first, groups - 1).is_none() {
            let line = format!("there are no {groups} group addresses from {first} on");
            return Err(Error::new(ErrorKind::Options, Advised::by(Remedy::FewerGroups, line)));
        }
        let ticket = ticket::Ticket::new(SessionId(0), Repair::Carousel, iotup::MAX_DATA_LEN as u16, first);
        let mut builder = Self::new(Ticket(ticket::Ticket { groups, ..ticket }));
        builder.options.dialect = Dialect::Iotup { name: name.to_owned() };
        // The sender does not choose the name.
        Ok(builder.hidden())
    }

    /// The ticket of the session.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.options.ticket.clone())
    }

    /// Whether the ticket is that of a feed, of which nobody knows how much will come.
    pub fn is_feed(&self) -> bool {
        self.options.ticket.is_feed
    }

    /// The folder for what comes. It is made if it is missing. Default: the working directory.
    ///
    /// A file gets its name only when it is complete and its hash is right; it then replaces a file of that name. A receiver
    /// that was stopped or killed goes on where it was, when it joins with the same ticket and folder.
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

    /// Hands each complete file on before the sender hears that it is here. The function returns `None` while that is under way, and is
    /// asked about the file again then; an error in words fails the file, also at the sender. It runs in the session's thread, so it
    /// must return soon. Default: a file is where it is to be when it has its name.
    pub fn hand_on(mut self, function: impl Fn(Complete<'_>) -> Taken + Send + Sync + 'static) -> Self {
        self.options.taker = Some(Taker::new(function));
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
    pub fn secure(mut self) -> Self {
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
    pub fn max_files(mut self, objects: u64) -> Self {
        self.options.rules.max_files = Some(objects);
        self
    }

    /// Ends the session when the objects are larger together than this, in bytes.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.options.rules.max_bytes = Some(bytes);
        self
    }

    /// See [`ReceiverBuilder::secure`].
    #[deprecated(note = "it is called `secure`, as the command's option is")]
    pub fn secure_only(self) -> Self {
        self.secure()
    }

    /// See [`ReceiverBuilder::max_files`].
    #[deprecated(note = "it is called `max_files`, as the command's option is")]
    pub fn most_objects(self, objects: u64) -> Self {
        self.max_files(objects)
    }

    /// See [`ReceiverBuilder::max_bytes`].
    #[deprecated(note = "it is called `max_bytes`, as the command's option is")]
    pub fn most_bytes(self, bytes: u64) -> Self {
        self.max_bytes(bytes)
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

    /// The time of silence on the connection after which the receiver looks for its sender again. Default: 15 s.
    pub fn stall_limit(mut self, time: Duration) -> Self {
        self.options.stall_limit = time;
        self
    }

    /// The time for which an object waits for room on a full disk. Default: 60 s; zero does not wait.
    pub fn wait_for_space(mut self, time: Duration) -> Self {
        self.options.rules.wait_for_space = time;
        self
    }

    /// The UDP port for packets to this host's own address. Default: the one after the group's, or a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = Some(port);
        self
    }

    /// Where older versions of objects are that the sender sends [by difference](crate::GroupBuilder::delta): a file, a block
    /// device, or a folder with files of the objects' names. What they hold is copied, and only the rest is fetched. Default:
    /// what has the object's name in the folder, or the [device](Self::device).
    pub fn old(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.old = Some(path.into());
        self
    }

    /// Forces each file to the disk, and reads it back from there, before it gets its name: bits may flip on the way. It takes the time to
    /// write and read everything once. Default: a file is hashed as it comes.
    pub fn read_back(mut self) -> Self {
        self.options.rules.reads_back = true;
        self
    }

    /// Writes the session's one object to this block device. The folder has only what is kept meanwhile. With `reads_back`, the
    /// object is read from the device before it counts. A device that is in use or too small is refused.
    /// [`Received::path`](crate::Received::path) is not where the object is then.
    pub fn device(mut self, path: impl Into<PathBuf>, reads_back: bool) -> Self {
        self.device = Some((path.into(), reads_back));
        self
    }

    /// The file that fixes the session's local groups, as the sender has it ([`LocalOptions`](crate::unstable::options::LocalOptions)). Default:
    /// receivers form groups.
    pub fn local_groups(mut self, path: impl Into<PathBuf>) -> Self {
        self.local_groups = Some(path.into());
        self
    }

    /// Sends an empty packet to the group every 20 s, in a session with local groups. Some networks bring a group's packets only
    /// to hosts that send to it.
    pub fn must_send(mut self) -> Self {
        self.options.must_send = true;
        self
    }

    /// Removes incomplete files when the receiver is stopped. Default: they stay, and a receiver with the same ticket and folder goes
    /// on with them within seven days.
    pub fn discard(mut self) -> Self {
        self.options.discards = true;
        self
    }

    /// Answers Prometheus at `http://ADDRESS/metrics`. Default: no answer.
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.observed.metrics = Some(address);
        self
    }

    /// Answers `treecast status` of the same user. Default: no answer.
    pub fn answer_status(mut self) -> Self {
        self.observed.status = true;
        self
    }

    /// Joins the group, and begins to receive: the paper's JoinGroup and StartReceiver. Returns at once; a sender that cannot
    /// be reached is told by [`Receiver::finish`].
    ///
    /// # Errors
    /// [`ErrorKind::Key`] if the key cannot be used, [`ErrorKind::File`] if there is no folder for what comes in memory, or the
    /// device cannot be used, [`ErrorKind::Options`] if options do not go with the ticket, and [`ErrorKind::Network`] if the
    /// address for metrics cannot be used.
    pub fn join(mut self) -> Result<Receiver, Error> {
        let on_event = self.on_event.take();
        let (options, folder, observers) = self.prepare()?;
        Receiver::open(options, folder, observers, Session::new(on_event, ReceiverEvent::Missed)?)
    }

    /// Receives in this thread until the sender ends the session, or `stop` is requested. Tells every event in full. Functions of
    /// [`on_event`](Self::on_event) are not called.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), treecast::Error> {
    /// use treecast::{Receiver, unstable::{Stop, watch::ReceiveEvent}};
    ///
    /// let ticket = treecast::Ticket::read("ticket")?;
    /// let summary = Receiver::builder(ticket).run(&Stop::on_signals()?, &mut |event| {
    ///     if let ReceiveEvent::Progress(progress) = event {
    ///         println!("{} of {} bytes", progress.received_bytes, progress.announced_bytes);
    ///     }
    /// })?;
    /// assert!(summary.is_complete());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`join`](Self::join) and of [`Receiver::finish`].
    pub fn run(self, stop: &Stop, on_event: &mut dyn FnMut(&ReceiveEvent)) -> Result<ReceiveSummary, Error> {
        let (options, _folder, mut observers) = self.prepare()?;
        let mut note = |event: ReceiveEvent| {
            observers.note_receive(&event);
            on_event(&event);
        };
        receive::run(&options, stop, &mut note).map_err(of_receive)
    }

    /// What the driver takes, the folder, and who looks on.
    fn prepare(self) -> Result<(ReceiveOptions, Folder, Observers), Error> {
        let mut options = self.options;
        let refuse = |remedy, line| Err(Error::new(ErrorKind::Options, Advised::by(remedy, line)));
        let is_iotup = options.dialect != Dialect::Session;
        if options.port.is_some() && options.ticket.repair == Repair::Carousel {
            let line = "a carousel comes to the port of its multicast group, and to no other";
            return refuse(Remedy::NoPort, line);
        }
        if options.old.is_some() && is_iotup {
            let line = "the IoT updater's frames carry whole files, and no older version is of use";
            return refuse(Remedy::NoOldVersion, line);
        }
        let times = [
            &mut options.connect_timeout,
            &mut options.reconnect,
            &mut options.stall_limit,
            &mut options.rules.wait_for_space,
        ];
        times.into_iter().for_each(|time| *time = bounded(*time));
        let groups = self.local_groups.as_deref().map(GroupsFile::read).transpose();
        options.groups = groups.map_err(|error| Error::of(ErrorKind::Options, error))?;
        let identity = self.key.as_deref().map(Identity::named).transpose();
        options.identity = identity.map_err(|error| Error::of(ErrorKind::Key, error))?;
        options.offload = Offload::from_environment().map_err(|line| Error::new(ErrorKind::Options, line))?;
        let device = self.device.map(|(path, reads_back)| Device::open(&path, reads_back)).transpose();
        options.device = device.map_err(|error| Error::of(ErrorKind::File, error))?;
        let folder = match self.is_in_memory {
            true => Folder::in_memory()?,
            false => Folder::new(&options.into)?,
        };
        options.into = folder.path().to_owned();
        let mut observers = Observers::start(Progress::Receive(Box::default()), self.observed, None)?;
        match is_iotup {
            true => observers.note_iotup(options.ticket.group),
            false => observers.note_ticket(&options.ticket),
        }
        Ok((options, folder, observers))
    }
}

impl fmt::Debug for ReceiverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverBuilder").finish_non_exhaustive()
    }
}
