//! The core of a session, which every part of it reports to: the machine, the observer of events, the figures, and
//! the session's file.

use treecast_proto::{Instant, object::SenderInput, repair::Sender};
use treecast_wire::header::FileId;

use super::{
    super::{Plan, SendEvent, SendSummary, session_file::Marks},
    watch::Watch,
};
use crate::remedies::Advised;

/// The most objects that could not be sent to their end and are told by name in the end.
const MAX_WITHDRAWN: usize = 1000;

/// The session's machine, its figures, and the way to those who watch. Parts of the session report here and not to each other.
pub(super) struct Core<'a> {
    pub machine: Sender,
    pub figures: Figures,
    /// The marks that go into the session's file as it goes on. `None` without such a file.
    pub marks: Option<Marks>,
    on_event: &'a mut dyn FnMut(SendEvent),
    /// Whether the group's lane may have something new to do.
    has_news: bool,
}

impl<'a> Core<'a> {
    pub fn new(machine: Sender, figures: Figures, on_event: &'a mut dyn FnMut(SendEvent)) -> Self {
        Self { machine, figures, marks: None, on_event, has_news: false }
    }

    /// Tells the machine what has happened.
    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        self.has_news = true;
        self.machine.handle(now, input);
    }

    /// Lets the group's lane ask the machine again before the session waits.
    pub fn wake(&mut self) {
        self.has_news = true;
    }

    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Notes that the group's lane asks the machine now.
    pub fn take_news(&mut self) {
        self.has_news = false;
    }

    /// Tells whoever watches.
    pub fn tell(&mut self, event: SendEvent) {
        (self.on_event)(event);
    }

    /// Tells the machine the hash of an object that has been read to its end, and the file of the session.
    pub fn hashed(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        self.marks.iter_mut().for_each(|marks| marks.hashed(file.index(), &hash));
        self.handle(now, SenderInput::Hashed { file, hash });
    }

    /// Tells, once for each name, that an object is not sent to its end.
    pub fn withdrawn(&mut self, name: String, reason: String, number: Option<u64>) {
        if self.figures.summary.withdrawn.iter().any(|(other, _)| *other == name) {
            return;
        }
        self.tell(SendEvent::Withdrawn { name: name.clone(), reason: reason.clone(), number });
        if self.figures.summary.withdrawn.len() < MAX_WITHDRAWN {
            self.figures.summary.withdrawn.push((name, reason));
        }
    }

    /// Tells whoever watches a line that is no event of its own.
    pub fn warn(&mut self, line: impl Into<Advised>) {
        self.tell(SendEvent::Warning(line.into()));
    }

    /// Bytes of objects that this sender has sent to the first group, not those before it.
    pub fn run_bytes(&self) -> u64 {
        self.machine.figures().multicast_bytes.saturating_sub(self.figures.before_bytes)
    }

    /// Bytes that this sender has sent to all groups, symbols among them.
    pub fn all_run_bytes(&self, block_len: u16, groups: u8) -> u64 {
        let symbols = self.machine.figures().repair_symbols * u64::from(block_len);
        self.run_bytes() + self.slower_bytes(groups) + symbols
    }

    /// Bytes of objects that the slower groups of so many groups have been sent.
    pub fn slower_bytes(&self, groups: u8) -> u64 {
        (1..groups).map(|group| self.machine.slower_bytes(group)).sum()
    }

    /// Notes that the first packet may leave, and tells whoever watches, the first time. `is_presumed`: nobody is known to listen.
    pub fn start(&mut self, now: Instant, is_presumed: bool) {
        if self.figures.started.is_none() {
            self.figures.started = Some(now);
            let (objects, bytes) = (self.figures.summary.objects, self.figures.total_bytes);
            self.tell(SendEvent::Started { objects, bytes, is_presumed });
        }
    }
}

/// The figures of the session's progress.
pub(super) struct Figures {
    /// The time at which the session began to wait for receivers: with its opening, or when its set time came.
    pub waits_since: Instant,
    /// The time at which the first packet could leave.
    pub started: Option<Instant>,
    /// The latest time at which a feed's session ends that was told to stop. `None` before that.
    pub stops_at: Option<Instant>,
    /// The time at which the first group had been sent everything.
    pub all_out: Option<Instant>,
    /// The time at which the last object was done.
    pub ended: Option<Instant>,
    pub total_bytes: u64,
    /// The number of bytes that an earlier sender of this session has sent to the group.
    pub before_bytes: u64,
    /// Bytes of objects that were all zero, and that the group was only told of.
    pub zero_bytes: u64,
    pub objects_done: u64,
    /// Total size, in bytes, of the feed's objects that are done.
    pub done_bytes: u64,
    pub watch: Watch,
    /// The number of times that receivers have gone from one group to another.
    pub moves: u64,
    /// Whether the user has had enough of waiting for the first receivers.
    pub starts_now: bool,
    /// Whether the machine has ended the session.
    pub closed: bool,
    pub summary: SendSummary,
}

impl Figures {
    /// The figures of a session that waits for receivers.
    pub fn new(plan: &Plan) -> Self {
        Self {
            waits_since: Instant::ZERO,
            started: None,
            stops_at: None,
            all_out: None,
            ended: None,
            total_bytes: plan.total_bytes(),
            before_bytes: 0,
            zero_bytes: 0,
            objects_done: 0,
            done_bytes: 0,
            watch: Watch::default(),
            moves: 0,
            starts_now: false,
            closed: false,
            summary: plan.summary(),
        }
    }
}
