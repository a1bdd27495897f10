//! The sender's side: a group, the objects that it is sent, and their completion.

mod builder;
mod outstanding;
mod scope;

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use treecast_driver::send::{self, ObjectQueue, Queued, SendEvent, SendOptions, Terms};

pub use builder::{Fanout, Fec, GiveUp, GroupBuilder, GroupOption, Priority, Rate, Repair};
use outstanding::{Outstanding, Waiting};
use scope::Borrowed;
pub use scope::Scope;

use crate::{
    Error, ErrorKind, Finish, GroupReport, NextEvent, Object, ObjectId, Ticket,
    error::of_send,
    object::{Held, Memory, Prepared},
    observers::Observers,
    place::Place,
    session::Session,
    unstable::code::{self, Code},
    wait::Watched,
};

/// A group of receivers, and the session that sends objects to them.
///
/// The order of calls is the paper's (interdomain-2013, section 4.6.2): [`Group::builder`] and
/// [`start`](GroupBuilder::start) are StartGroup, [`send`](Group::send) is SendFile and SendMemoryData,
/// [`next_event`](Group::next_event) is GetNextEvent, and [`close`](Group::close) is CloseSender. All of them return
/// at once, except where one waits on purpose. Objects go out when enough receivers are there
/// ([`GroupBuilder::wait`]). A receiver that comes later gets what is not done by then.
///
/// A group may be used from several threads and tasks at a time. A group that is dropped before it is closed stops its session
/// at once, and receivers keep only what was complete. So close it, and wait for its end:
///
/// ```
/// # fn main() -> Result<(), treecast::Error> {
/// use treecast::{Group, Receiver};
///
/// let group = Group::builder().interface("lo").start()?;
/// let receiver = Receiver::builder(group.ticket().clone()).interface("lo").in_memory().join()?;
/// let sent = group.send_bytes("greeting", "hello")?;
/// let report = group.close().wait()?;
/// assert!(report.is_complete() && sent.wait().is_complete());
/// # receiver.finish().wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group {
    ticket: Ticket,
    /// Gives the ticket to whoever has the code.
    offer: Option<code::Offer>,
    shared: Arc<Shared>,
}

/// What the group's handle, its session's thread and the objects in memory share.
#[derive(Debug)]
struct Shared {
    session: Arc<Session<GroupEvent, GroupReport>>,
    queue: ObjectQueue,
    outstanding: Watched<Outstanding>,
    progress: Watched<GroupProgress>,
    /// The largest number of objects that are not done.
    most_outstanding: usize,
    /// The level at which objects are compressed. `None`: they are not.
    compression: Option<i32>,
    /// Whether the session ends by itself when all objects are done.
    is_closed: AtomicBool,
    /// Whether objects with numbers are the program's. Those of a feed have numbers of its own.
    is_of_program: bool,
}

/// An event of a group.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// A receiver is there.
    #[non_exhaustive]
    Joined {
        /// The receiver's name.
        receiver: String,
        /// The address of its control connection.
        address: SocketAddr,
    },
    /// A receiver is gone.
    #[non_exhaustive]
    Left {
        /// The receiver's name.
        receiver: String,
        /// Why it is gone, in words.
        reason: String,
    },
    /// The receivers that the group waits for are there, and objects go out.
    Started,
    /// The group is done with an object: every receiver has ended with it. Bytes in memory are dropped, and files may change
    /// again.
    Done(Delivery),
    /// The group is done with an object of its [paths](GroupBuilder::path) or its [feed](GroupBuilder::feed).
    #[non_exhaustive]
    PathDone {
        /// The object's name at receivers.
        name: String,
        /// Size of the object, in bytes.
        bytes: u64,
        /// The number of receivers that have it, verified.
        complete: u32,
        /// The number of receivers that did not want it.
        not_wanted: u32,
        /// The number of receivers that wanted it and do not have it.
        failed: u32,
    },
    /// A receiver has got the ticket by the [code](Group::code).
    #[non_exhaustive]
    CodeGiven {
        /// The receiver's address.
        address: SocketAddr,
    },
    /// Somebody has tried a wrong code.
    #[non_exhaustive]
    CodeWrong {
        /// The address that it came from.
        address: SocketAddr,
        /// The number of guesses that are left. With 0, the code is of no use any more.
        attempts_left: u8,
    },
    /// Something is not as good as it could be. The line says what, and what helps.
    Warning(String),
    /// This many events were lost here, because too many were not read.
    Missed(u64),
}

/// What has become of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The number of the object.
    pub id: ObjectId,
    /// The object's name at receivers.
    pub name: String,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// The number of receivers that have it, verified.
    pub complete: u32,
    /// The number of receivers that did not want it.
    pub not_wanted: u32,
    /// The number of receivers that wanted it and do not have it.
    pub failed: u32,
    /// Why the object was not sent to its end, in words. `None` if it was.
    pub problem: Option<String>,
}

impl Delivery {
    /// Whether the object was sent to its end, and every receiver that wanted it has it. Also true if nobody was there any more:
    /// `complete` is the number of receivers that have it.
    pub fn is_complete(&self) -> bool {
        self.failed == 0 && self.problem.is_none()
    }
}

/// How far a group is.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct GroupProgress {
    /// Seconds since the first object could leave.
    pub seconds: f64,
    /// The bytes of objects that have been sent to the group. Retransmissions do not count.
    pub sent_bytes: u64,
    /// Total size of all objects so far, in bytes.
    pub bytes: u64,
    /// The rate, in bits of IP packets a second. `None` if only receivers limit it.
    pub rate_bps: Option<u64>,
    /// The number of receivers that are connected.
    pub receivers: u32,
}

impl Group {
    /// The options of a new group.
    pub fn builder() -> GroupBuilder {
        GroupBuilder::default()
    }

    fn open(
        mut options: SendOptions,
        observers: Observers,
        session: Session<GroupEvent, GroupReport>,
        most_outstanding: usize,
    ) -> Result<Self, Error> {
        let queue = ObjectQueue::default();
        let is_of_program = !sends_what_it_began_with(&options);
        match is_of_program {
            false => queue.close(),
            true => options.content.feed = Some(send::FeedSource::Queue(queue.clone())),
        }
        let shared = Arc::new(Shared {
            session: Arc::new(session),
            queue,
            outstanding: Watched::default(),
            progress: Watched::default(),
            most_outstanding,
            compression: options.compression(),
            is_closed: AtomicBool::new(false),
            is_of_program,
        });
        let ready = Arc::new(Watched::new(None));
        let run = {
            let (shared, ready) = (shared.clone(), ready.clone());
            move |_: &Session<_, _>| shared.run(&options, observers, &Ready(ready))
        };
        shared.session.run("treecast-send", run)?;
        match ready.wait(Option::take) {
            Some(ticket) => Ok(Self { ticket, offer: None, shared }),
            None => Err(shared.session.finish().wait().err().unwrap_or_else(Error::panicked)),
        }
    }

    /// Offers the ticket for a short code, on this interface or that of the route to the group.
    fn with_code(mut self, interface: Option<&str>, group: Option<IpAddr>) -> Result<Self, Error> {
        let shared = Arc::downgrade(&self.shared);
        let on_news = move |news: code::News| {
            let event = match news {
                code::News::Given { to } => GroupEvent::CodeGiven { address: canonical(to) },
                code::News::Wrong { from, left } => {
                    GroupEvent::CodeWrong { address: canonical(from), attempts_left: left }
                }
            };
            Weak::upgrade(&shared).into_iter().for_each(|shared| shared.tell(event.clone()));
        };
        self.offer = Some(code::Offer::open(&self.ticket, interface, group, on_news)?);
        Ok(self)
    }

    /// The short code by which a receiver on the same network gets the ticket. `None` without [`GroupBuilder::code`].
    pub fn code(&self) -> Option<Code> {
        self.offer.as_ref().map(code::Offer::code)
    }

    /// Refuses a child that was forked, where no thread runs the session. The child cannot use the group, and dropping it there does
    /// nothing to the session.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if another process has started the group.
    pub fn check_process(&self) -> Result<(), Error> {
        self.shared.session.place.check_process()
    }

    /// The ticket with which receivers join.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Sends an object: the paper's SendFile and SendMemoryData. Returns at once; the result tells when the object is done,
    /// and so does [`GroupEvent::Done`].
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the file or the name cannot be used, [`ErrorKind::Options`] if the factor is no number from 0 to
    /// 1,000,000, [`ErrorKind::Full`] if [too many](GroupBuilder::most_outstanding) objects are not done, and
    /// [`ErrorKind::Closed`] if the group is closed, its session is over, or this is a child that was forked.
    pub fn send(&self, object: Object) -> Result<Transfer, Error> {
        self.check_process()?;
        let id = self.shared.outstanding.with(Outstanding::next_id);
        let released = Arc::downgrade(&self.shared);
        let mut holds_memory = false;
        let Prepared { named, factor } = object.into_source(self.shared.compression, |memory: Memory| {
            holds_memory = true;
            Held::new(memory, move || _ = Weak::upgrade(&released).map(|shared| shared.released(id)))
        })?;
        let (name, bytes) = (named.name.clone(), named.source.size());
        let place = self.shared.session.place.clone();
        let (waiting, transfer) = Waiting::new(id, name, bytes, holds_memory, place);
        let most = self.shared.most_outstanding;
        self.shared.outstanding.with(|outstanding| outstanding.add(waiting, most))?;
        let mut terms = Terms::default();
        terms.retransmission_timeout_factor = factor;
        if self.shared.queue.push(Queued::new(named, Some(id.0), terms)).is_err() {
            self.shared.outstanding.change(|outstanding| outstanding.remove(id));
            let line = "the group is closed, or sends what it began with: it takes no more objects";
            return Err(Error::new(ErrorKind::Closed, line));
        }
        Ok(transfer)
    }

    /// Sends a file under its own name, without a retransmission factor of its own. See [`Group::send`].
    ///
    /// # Errors
    /// This returns the errors of [`Group::send`].
    pub fn send_file(&self, path: impl Into<std::path::PathBuf>) -> Result<Transfer, Error> {
        self.send(Object::file(path))
    }

    /// Sends bytes in memory under a name, without a retransmission factor of their own. They are not copied. See
    /// [`Group::send`].
    ///
    /// # Errors
    /// This returns the errors of [`Group::send`].
    pub fn send_bytes(
        &self,
        name: impl Into<String>,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Transfer, Error> {
        self.send(Object::bytes(name, bytes))
    }

    /// Sends bytes that are only borrowed. All objects of the scope are done when this returns; before that, it blocks. If
    /// `send` panics, the session is stopped.
    ///
    /// ```
    /// # fn main() -> Result<(), treecast::Error> {
    /// # let group = treecast::Group::builder().interface("lo").start()?;
    /// # let receiver = treecast::Receiver::builder(group.ticket().clone()).interface("lo").in_memory().join()?;
    /// let frame = [7; 1000];
    /// let delivery = group.scope(|scope| Ok::<_, treecast::Error>(scope.send_bytes("frame", &frame)?.wait()))?;
    /// assert_eq!(delivery.complete, 1);
    /// # group.close().wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<'env, T>(&'env self, send: impl FnOnce(&Scope<'env>) -> T) -> T {
        let scope = Scope::new(self);
        let ends = Borrowed(&scope);
        let result = send(&scope);
        drop(ends);
        result
    }

    /// The next event. Events are there for whoever takes them first; with [`GroupBuilder::on_event`] there are none here.
    pub fn next_event(&self) -> NextEvent<'_, GroupEvent> {
        NextEvent(&self.shared.session.events)
    }

    /// The events, for a loop that blocks. It ends when the session is over.
    pub fn events(&self) -> impl Iterator<Item = GroupEvent> + '_ {
        std::iter::from_fn(|| self.next_event().wait())
    }

    /// How far the group is, as of the last 200 ms.
    pub fn progress(&self) -> GroupProgress {
        self.shared.progress.with(|progress| progress.clone())
    }

    /// Becomes ready when another object can be sent: at once, unless [`ErrorKind::Full`] would be the answer. It is also ready
    /// when the session is over.
    pub fn room(&self) -> Room<'_> {
        Room(&self.shared)
    }

    /// Takes no more objects. The session ends when all receivers have ended with all objects: the paper's CloseSender.
    /// Returns at once; wait for the result, or await it.
    pub fn close(&self) -> Finish<GroupReport> {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.shared.queue.close();
        self.finish()
    }

    /// Stops the session at once. Receivers keep only what was complete.
    pub fn stop(&self) -> Finish<GroupReport> {
        self.shared.stop();
        self.finish()
    }

    /// The end of the session, with its report. It does not come before the group is [closed](Group::close), unless the
    /// session fails.
    pub fn finish(&self) -> Finish<GroupReport> {
        self.shared.session.finish()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.shared.is_closed.load(Ordering::SeqCst) {
            self.shared.stop();
        }
    }
}

impl Shared {
    fn stop(&self) {
        self.session.request_stop();
    }

    /// Runs the session in this thread.
    fn run(
        &self,
        options: &SendOptions,
        mut observers: Observers,
        ready: &Ready,
    ) -> Result<GroupReport, Error> {
        let mut over = Over { shared: self, why: "the session was stopped before".to_owned() };
        let is_iotup = options.kind.is_iotup();
        let result = send::run(options, &self.session.stop, &mut |event| {
            observers.note_send(&event, is_iotup);
            match event {
                SendEvent::Ready { ticket } => ready.tell(Some(Ticket(ticket))),
                event => self.note(event),
            }
        });
        if let Err(error) = &result {
            over.why = error.to_string();
        }
        drop(over);
        result.map(GroupReport::new).map_err(of_send)
    }

    fn note(&self, event: SendEvent) {
        match event {
            SendEvent::Joined { receiver, address, .. } => {
                self.tell(GroupEvent::Joined { receiver, address })
            }
            SendEvent::Left { receiver, reason } => self.tell(GroupEvent::Left { receiver, reason }),
            SendEvent::Started { .. } => self.tell(GroupEvent::Started),
            SendEvent::Warning(line) => self.tell(GroupEvent::Warning(line.line)),
            SendEvent::Progress(progress) => {
                self.progress.change(|kept| *kept = GroupProgress::of(&progress))
            }
            SendEvent::Withdrawn { reason, number: Some(number), .. } if self.is_of_program => {
                self.outstanding.with(|outstanding| outstanding.note_problem(ObjectId(number), reason));
            }
            SendEvent::NotSent { reason, number: Some(number), .. } if self.is_of_program => {
                let id = ObjectId(number);
                self.outstanding.with(|outstanding| outstanding.note_problem(id, reason));
                self.done(id, [0; 3]);
            }
            SendEvent::ObjectDone { complete, not_wanted, failed, number: Some(number), .. }
                if self.is_of_program =>
            {
                self.done(ObjectId(number), [complete, not_wanted, failed]);
            }
            SendEvent::ObjectDone { name, bytes, complete, not_wanted, failed, .. } => {
                self.tell(GroupEvent::PathDone { name, bytes, complete, not_wanted, failed });
            }
            SendEvent::Withdrawn { name, reason, .. } | SendEvent::NotSent { path: name, reason, .. } => {
                self.tell(GroupEvent::Warning(format!("{name}: {reason}")));
            }
            _ => {}
        }
    }

    fn tell(&self, event: GroupEvent) {
        self.session.events.tell(event);
    }

    fn done(&self, id: ObjectId, receivers: [u32; 3]) {
        self.settle(|outstanding| outstanding.done(id, receivers));
    }

    /// Nobody holds the object's bytes any more.
    fn released(&self, id: ObjectId) {
        self.settle(|outstanding| outstanding.released(id));
    }

    fn settle(&self, settle: impl FnOnce(&mut Outstanding) -> Option<Waiting>) {
        if let Some(waiting) = self.outstanding.change(settle) {
            self.tell(GroupEvent::Done(waiting.settle()));
        }
    }
}

/// The address of a peer at a port that takes IPv6 and IPv4 alike.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a session takes no objects of its program.
fn sends_what_it_began_with(options: &SendOptions) -> bool {
    let goes_on = options.session_file.is_some();
    options.content.feed.is_some()
        || options.kind.carousel().is_some()
        || options.is_by_difference()
        || goes_on
}

/// What [`Group::open`] waits for: the ticket, or none if the session has failed before.
struct Ready(Arc<Watched<Option<Option<Ticket>>>>);

impl Ready {
    fn tell(&self, ticket: Option<Ticket>) {
        self.0.change(|ready| ready.get_or_insert(ticket).is_some());
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.tell(None);
    }
}

/// Tells of all that is left at the end of a session, also when its thread panics.
struct Over<'a> {
    shared: &'a Shared,
    /// Why objects that are left are not sent.
    why: String,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Objects that the session has not taken.
        self.shared.queue.clear();
        for waiting in self.shared.outstanding.change(|outstanding| outstanding.end(&self.why)) {
            let done = GroupEvent::Done(waiting.settle());
            if !std::thread::panicking() {
                self.shared.tell(done);
            }
        }
    }
}

impl GroupProgress {
    fn of(progress: &send::SendProgress) -> Self {
        Self {
            seconds: progress.seconds,
            sent_bytes: progress.sent_bytes,
            bytes: progress.total_bytes,
            rate_bps: progress.rate_bps,
            receivers: progress.receivers.iter().filter(|receiver| receiver.is_connected).count() as u32,
        }
    }
}

/// An object on its way: `.await` it, or block with [`Transfer::wait`], until the group is done with it. A `Transfer` that is
/// dropped changes nothing.
#[derive(Debug, Clone)]
pub struct Transfer {
    id: ObjectId,
    delivery: Arc<Watched<Option<Delivery>>>,
    place: Place,
}

impl Transfer {
    /// The number of the object, as in [`Delivery::id`].
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Refuses a child that was forked, where the group never is done with an object.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if another process has sent the object.
    pub fn check_process(&self) -> Result<(), Error> {
        self.place.check_process()
    }

    /// Blocks this thread until the group is done with the object.
    pub fn wait(&self) -> Delivery {
        self.delivery.wait(|delivery| delivery.clone())
    }

    /// Blocks this thread for at most this time. `None` if the group is not done with the object then.
    pub fn wait_timeout(&self, time: Duration) -> Option<Delivery> {
        self.delivery.wait_timeout(time, |delivery| delivery.clone())
    }
}

impl Future for Transfer {
    type Output = Delivery;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Delivery> {
        self.delivery.poll(context, |delivery| delivery.clone())
    }
}

/// Room for another object: `.await` it, or block with [`Room::wait`].
#[must_use = "this does nothing until it is awaited, or waited for"]
#[derive(Debug)]
pub struct Room<'a>(&'a Shared);

impl Room<'_> {
    /// Blocks this thread until there is room. Returns at once in a function that the session calls, and in a child that was
    /// forked.
    pub fn wait(self) {
        if self.0.session.place.can_wait() {
            self.0.outstanding.wait(|outstanding| outstanding.has_room(self.0.most_outstanding));
        }
    }

    /// Blocks this thread for at most this time. `None` if there is no room then.
    pub fn wait_timeout(self, time: Duration) -> Option<()> {
        if !self.0.session.place.can_wait() {
            return Some(());
        }
        self.0.outstanding.wait_timeout(time, |outstanding| outstanding.has_room(self.0.most_outstanding))
    }
}

impl Future for Room<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let most = self.0.most_outstanding;
        self.0.outstanding.poll(context, |outstanding| outstanding.has_room(most))
    }
}
