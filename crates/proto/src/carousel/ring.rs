//! The order in which a carousel sends to one group, again and again: which blocks of which object go out next.

use std::{collections::VecDeque, ops::Range, time::Duration};

use treecast_wire::{
    ParseError,
    header::{FileId, PacketType, SessionId},
    message::{BeginOfFile, Contents, Digest, Lacking, Message, Reason},
};

use super::{
    ANNOUNCE_BYTES,
    lacks::{Lacks, Sent, WholeLoops},
    pass::Pass,
    turns::Turns,
};
use crate::{
    Instant,
    fec::Layout,
    object::{
        Destination, SenderTransmit, SenderWait,
        chunks::{self, Chunks},
    },
};

/// A loop takes at least so long: small objects are not to keep a network busy for nothing.
pub(super) const SHORTEST_LOOP: Duration = Duration::from_millis(20);

/// A loop that sends no blocks takes at least so long, and so long for each object.
const SHORTEST_IDLE_LOOP: Duration = Duration::from_millis(250);
const IDLE_OBJECT: Duration = Duration::from_millis(5);

/// An object of which a pass sends fewer symbols than this is not announced in it, but for the first.
const MANY_SYMBOLS: u64 = 32;

/// Time after which receivers are told what was reported, so that they need not report it, and the most ranges of that at a time.
const SAY_INTERVAL: Duration = Duration::from_millis(20);
const MOST_SAID: usize = 1_024;

/// The number of times that the end is said, since no receiver can ask for it.
pub(super) const GOODBYES: usize = 3;

#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub session: SessionId,
    /// The most bytes of an object that one [`SenderTransmit::Blocks`] covers, for each group of the
    /// carousel, the fastest first. Each is a multiple of the block length. Most carousels have one group.
    pub max_run_lens: Vec<u32>,
    /// The number of bytes of an object that each packet carries, except its last one.
    pub block_len: u16,
    /// Whether the sender sends repair symbols in place of blocks from the second loop on.
    pub fec: bool,
    /// Whether the sender announces its objects in messages. The IoT updater's dialect has no messages: there
    /// each frame says what a receiver has to know.
    pub announce: bool,
    /// The place at which the first loop begins, in bytes of all objects. Numbers that are larger than the
    /// loop wrap around. Senders of one carousel that begin at different places do not send the same at the
    /// same time.
    pub start: u64,
    /// The number of the repair symbols that the later loops send first. With 0, the first loop sends blocks.
    /// Senders with different numbers send different symbols, as long as there are enough of them.
    pub first_row: u64,
    /// Whether receivers report what they lack of each object. Loops then bring the union of that; `lacks.rs` has the details.
    pub has_reports: bool,
    /// The time for which the sender waits for another listener when the last has left.
    pub idle: Duration,
    /// The number of loops after which the sender ends. `None` sends for as long as somebody listens.
    pub loops: Option<u64>,
}

/// The next thing that a ring does.
pub(super) enum Turn {
    Transmit(SenderTransmit),
    /// Every object has been out once more.
    Looped,
    Wait(Option<Instant>, SenderWait),
}

/// The loop of one group. While somebody listens it nearly always has something to send: the caller polls it as often as the
/// rate allows.
#[derive(Debug)]
pub(super) struct Ring {
    config: SenderConfig,
    to: Destination,
    /// The most bytes of an object that are handed out at once.
    max_run_len: u64,
    contents: Contents,
    objects: Vec<Object>,
    state: State,
    loops: u64,
    /// The pass of a loop of repair symbols; always the first one in other loops.
    pass: Pass,
    /// The place where the pass began: an object's index, and a position in it.
    start: (usize, u64),
    /// The places where the next passes begin.
    turns: Turns,
    /// The most bytes of the next run, which is the first one of a pass. `None`: that of all runs.
    first_run_len: Option<u64>,
    /// Whether nothing of the loop has been sent.
    is_fresh: bool,
    /// The loop that is next begins then, or later.
    next_loop: Instant,
    at: Place,
    /// A loop has ended, and the caller has not heard of it.
    has_looped: bool,
    /// The times when whole loops are due. `None` where receivers do not report, and each loop is whole.
    whole_loops: Option<WholeLoops>,
    /// The time when receivers are next told what was reported. `None`: they know.
    say_at: Option<Instant>,
    /// Messages that go before the next block. At most a few for each object.
    messages: VecDeque<(FileId, Message)>,
}

/// The place that the loop has reached.
#[derive(Debug)]
struct Place {
    /// Index of the object that is being sent.
    object: usize,
    /// Its next byte.
    position: u64,
    /// The position at which the object is announced next.
    announce_at: u64,
    /// The next page of its chunk hashes.
    next_page: u32,
    /// Whether it is known what this pass brings of the object, where receivers report.
    has_begun: bool,
}

impl Place {
    fn at((object, position): (usize, u64)) -> Self {
        Self { object, position, announce_at: 0, next_page: 0, has_begun: false }
    }
}

#[derive(Debug)]
struct Object {
    file: FileId,
    begin: BeginOfFile,
    hash: Option<[u8; 32]>,
    withdrawn: Option<Reason>,
    lacks: Lacks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The ring waits, because nobody listens to the group.
    Waiting,
    Sending,
    /// The last messages are going out.
    Closing,
    Closed,
}

impl Ring {
    /// The loop of the group `to`, which begins at `config.start` and ends its runs after `max_run_len` bytes.
    ///
    /// # Errors
    /// When there are no objects, or more than [`treecast_wire::message::MAX_OBJECTS`].
    pub fn new(
        config: SenderConfig,
        (to, max_run_len): (Destination, u32),
        objects: Vec<BeginOfFile>,
    ) -> Result<Self, ParseError> {
        let contents = Contents::new(u32::try_from(objects.len()).unwrap_or(u32::MAX))?;
        let object = |(index, begin)| {
            let (file, lacks) = (FileId::new(config.session, index), Lacks::new(&begin, config.block_len));
            Object { file, begin, hash: None, withdrawn: None, lacks }
        };
        let total = objects.iter().map(|begin| begin.file_size).fold(0, u64::saturating_add);
        let start = place(config.start, config.block_len, objects.iter().map(|begin| begin.file_size));
        let number = match to {
            Destination::Slower(number) => number,
            _ => 0,
        };
        let seed = config.start ^ u64::from(config.session.0) << 8 ^ u64::from(number);
        let mut ring = Self {
            to,
            max_run_len: max_run_len.into(),
            contents,
            objects: (0..).zip(objects).map(object).collect(),
            state: State::Waiting,
            loops: 0,
            pass: Pass::default(),
            start,
            turns: Turns::new(seed, config.block_len, total, config.start),
            first_run_len: None,
            is_fresh: true,
            next_loop: Instant::ZERO,
            at: Place::at(start),
            has_looped: false,
            whole_loops: config.has_reports.then(|| WholeLoops::new(total)),
            say_at: None,
            messages: VecDeque::new(),
            config,
        };
        ring.align();
        Ok(ring)
    }

    /// Returns the announcement of an object.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        self.objects.get(file.index() as usize).map(|object| &object.begin)
    }

    /// The number of times that every object has been sent.
    pub fn loops(&self) -> u64 {
        self.loops
    }

    /// The number of loops that count where their number is limited: those in which all receivers had the
    /// time to report.
    pub fn counted_loops(&self) -> u64 {
        let has_indexes = self.objects.iter().any(|object| object.begin.has_index());
        self.whole_loops.as_ref().filter(|_| has_indexes).map_or(self.loops, WholeLoops::counted)
    }

    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Makes the loop go on while somebody listens, and wait while nobody does.
    pub fn listen(&mut self, now: Instant, is_heard: bool) {
        match self.state {
            State::Waiting if is_heard => {
                self.state = State::Sending;
                self.whole_loops.iter_mut().for_each(|whole| whole.listen(now));
            }
            State::Sending if !is_heard => self.state = State::Waiting,
            _ => {}
        }
    }

    /// Takes note of what a receiver lacks of an object.
    pub fn report(&mut self, now: Instant, file: FileId, bytes: &Range<u64>) {
        let Some(whole_loops) = &mut self.whole_loops else { return };
        let place = &self.at;
        let is_here = place.object == file.index() as usize && place.has_begun;
        let passed = is_here.then_some(place.position);
        let object = self.objects.get_mut(file.index() as usize);
        let object = object.filter(|object| object.file == file && object.withdrawn.is_none());
        if object.is_some_and(|object| object.lacks.report(now, bytes, passed)) {
            whole_loops.put_off(now);
            self.say_at.get_or_insert(now + SAY_INTERVAL);
        }
    }

    /// Takes an object that cannot be read any more out of the loop, and tells receivers so.
    pub fn withdraw(&mut self, file: FileId, reason: &str) {
        if let Some(object) = self.object(file) {
            object.withdrawn = Some(Reason::new(reason));
            if self.start.0 == file.index() as usize {
                self.start.1 = 0;
            }
        }
    }

    pub fn poll(&mut self, now: Instant) -> Turn {
        self.say_reported(now);
        loop {
            if std::mem::take(&mut self.has_looped) {
                return Turn::Looped;
            }
            match self.state {
                State::Waiting => return Turn::Wait(None, SenderWait::Listener),
                State::Sending if self.is_early(now) => {
                    let next = self.say_at.into_iter().fold(self.next_loop, Instant::min);
                    return Turn::Wait(Some(next), SenderWait::Loop);
                }
                State::Sending | State::Closing => {
                    if let Some(transmit) = self.next_transmit(now) {
                        return Turn::Transmit(transmit);
                    }
                }
                State::Closed => return Turn::Wait(None, SenderWait::Closed),
            }
        }
    }

    /// Tells all receivers what some have reported.
    fn say_reported(&mut self, now: Instant) {
        let may_say = self.state == State::Sending && self.messages.is_empty();
        if !may_say || self.say_at.take_if(|at| *at <= now).is_none() || !self.config.announce {
            return;
        }
        let mut room = MOST_SAID;
        for object in &mut self.objects {
            let said: Vec<_> = std::iter::from_fn(|| object.lacks.take_unsaid()).take(room).collect();
            room -= said.len();
            let said = Lacking::of_all(said, self.config.block_len);
            self.messages.extend(said.into_iter().map(|said| (object.file, Message::Lacking(said))));
        }
        self.say_at = (room == 0).then_some(now + SAY_INTERVAL);
    }

    /// Takes note of the hash of an object, which announcements carry from now on.
    pub fn hashed(&mut self, file: FileId, hash: [u8; 32]) {
        let announce = self.config.announce;
        let Some(object) = self.object(file) else { return };
        let news = object.hash.replace(hash) != Some(hash);
        if announce && news {
            // Receivers that have all blocks wait for nothing else.
            self.messages.push_back((file, Message::Digest(Digest::unsigned(hash))));
        }
    }

    fn object(&mut self, file: FileId) -> Option<&mut Object> {
        self.objects.get_mut(file.index() as usize).filter(|object| object.file == file)
    }

    /// Ends the loop: the sender says Goodbye, and sends nothing after that.
    pub fn close(&mut self) {
        if matches!(self.state, State::Closing | State::Closed) {
            return;
        }
        self.state = State::Closing;
        if self.config.announce {
            let goodbye = (self.objects[0].file, Message::Goodbye);
            self.messages.extend(std::iter::repeat_n(goodbye, GOODBYES));
        }
    }

    /// Returns the next thing that goes out. `None` when the state or the place in the loop has changed
    /// instead.
    fn next_transmit(&mut self, now: Instant) -> Option<SenderTransmit> {
        if let Some((file, message)) = self.messages.pop_front() {
            return Some(SenderTransmit::Message { to: self.to, file, message });
        }
        if self.state == State::Closing {
            self.state = State::Closed;
            return None;
        }
        if std::mem::take(&mut self.is_fresh) {
            self.next_loop = now + self.turns.pause(SHORTEST_LOOP);
            if let Some(whole_loops) = &mut self.whole_loops {
                whole_loops.begin(now, self.objects.iter().any(|object| object.lacks.has_reports()));
            }
        }
        if self.objects[self.at.object].withdrawn.is_some() {
            self.finish_object();
            return None;
        }
        self.skip(now);
        if self.speaks() && self.at.position >= self.at.announce_at {
            self.announce();
            None
        } else if let Some(page) = self.next_page() {
            self.at.next_page = page + 1;
            let file = self.objects[self.at.object].file;
            Some(SenderTransmit::ChunkHashes { to: self.to, file, pages: page..page + 1 })
        } else {
            let transmit = self.next_run();
            if transmit.is_none() {
                self.finish_object();
            }
            transmit
        }
    }

    /// Goes to the next bytes that this pass brings of the current object, or to its end.
    fn skip(&mut self, now: Instant) {
        let Some(whole_loops) = &mut self.whole_loops else { return };
        let object = &mut self.objects[self.at.object];
        if !std::mem::replace(&mut self.at.has_begun, true)
            && object.lacks.begin_pass(now, whole_loops.is_whole())
        {
            whole_loops.note(if object.begin.has_index() { Sent::Loop } else { Sent::Some });
        }
        let size = object.begin.file_size;
        self.at.position = object.lacks.next(self.at.position).map_or(size, |bytes| bytes.start);
    }

    /// Whether this loop is one of repair symbols.
    fn is_fountain(&self) -> bool {
        self.config.fec && self.row() > 0
    }

    /// The layout by which the current object is cut for repair symbols, in a loop of those.
    fn fountain(&self) -> Option<Layout> {
        let size = self.objects[self.at.object].begin.file_size;
        Layout::new(size, self.config.block_len).filter(|_| self.is_fountain())
    }

    /// The row of repair symbols that this loop sends. With 0, it sends blocks.
    fn row(&self) -> u64 {
        self.config.first_row.saturating_add(self.loops)
    }

    /// Whether messages of the current object go out.
    fn speaks(&self) -> bool {
        let object = &self.objects[self.at.object];
        let is_large = || {
            let run = self.fountain().and_then(|layout| self.pass.next_from(&layout, 0));
            object.withdrawn.is_none() && run.is_some_and(|run| run.end - run.start >= MANY_SYMBOLS)
        };
        self.config.announce && (self.pass.is_first() || is_large())
    }

    /// Whether a loop is over before its time.
    fn is_early(&self, now: Instant) -> bool {
        self.is_fresh && self.messages.is_empty() && now < self.next_loop
    }

    fn announce(&mut self) {
        let object = &self.objects[self.at.object];
        self.messages.push_back((object.file, Message::Contents(self.contents)));
        self.messages.push_back((object.file, Message::BeginOfFile(object.begin.clone())));
        if let Some(hash) = object.hash {
            self.messages.push_back((object.file, Message::Digest(Digest::unsigned(hash))));
        }
        let stride = if self.fountain().is_some() { self.pass.stride() } else { 1 };
        self.at.announce_at = self.at.position + ANNOUNCE_BYTES * stride;
        if let Some(chunks) = Chunks::new(object.begin.file_size) {
            // What lies behind is told in the next loop.
            self.at.next_page = self.at.next_page.max(chunks.page_at(self.at.position));
        }
    }

    /// The next page of chunk hashes whose chunks begin before the next announcement.
    fn next_page(&self) -> Option<u32> {
        let object = &self.objects[self.at.object];
        let may_tell = self.config.announce
            && self.pass.is_first()
            && chunks::fit_in(self.config.block_len)
            && object.hash.is_some();
        let chunks = Chunks::new(object.begin.file_size).filter(|_| may_tell)?;
        let is_due = self.at.next_page < chunks.pages()
            && chunks.page_bytes(self.at.next_page).start < self.at.announce_at;
        is_due.then_some(self.at.next_page)
    }

    /// The next blocks or symbols of the current object; none when it has no more of them in this pass.
    fn next_run(&mut self) -> Option<SenderTransmit> {
        let object = &self.objects[self.at.object];
        let (file, size) = (object.file, object.begin.file_size);
        let end = if self.is_before_start() { self.start.1 } else { size };
        let (to, most) = (self.to, self.first_run_len.unwrap_or(self.max_run_len));
        let Some(layout) = self.fountain() else {
            let end = match &self.whole_loops {
                Some(_) => object.lacks.next(self.at.position).map_or(self.at.position, |bytes| bytes.end),
                None => end,
            };
            let range = self.at.position..self.at.position.saturating_add(most).min(end);
            return (!range.is_empty()).then(|| {
                self.whole_loops.iter_mut().for_each(|whole| whole.sent(range.end - range.start));
                self.go_on(range.end);
                SenderTransmit::Blocks { to, kind: PacketType::Data, file, range }
            });
        };
        let block_len = layout.block_len();
        let blocks = self.pass.next_from(&layout, self.at.position.div_ceil(block_len))?;
        if blocks.start * block_len >= end {
            return None;
        }
        let blocks = blocks.start..blocks.end.min(blocks.start + (most / block_len).max(1));
        let (source_block, symbols) = layout.instead(&blocks, self.row());
        let next = blocks.start + u64::from(symbols.end - symbols.start);
        self.go_on(next.saturating_mul(block_len).min(size));
        Some(SenderTransmit::Symbols { to, file, source_block, symbols })
    }

    /// Whether the loop or pass, which has come round, ends in the current object.
    fn is_before_start(&self) -> bool {
        self.at.object == self.start.0 && self.at.position < self.start.1
    }

    fn go_on(&mut self, position: u64) {
        (self.at.position, self.first_run_len) = (position, None);
        if position > 0 && (self.at.object, position) == self.start {
            self.finish_pass();
        }
    }

    /// Goes on to the next object, or to the next pass where this one has come round.
    fn finish_object(&mut self) {
        if self.is_before_start() {
            return self.finish_pass();
        }
        if self.speaks() {
            let object = &self.objects[self.at.object];
            let end = match (&object.withdrawn, object.hash) {
                (Some(reason), _) => {
                    // Some may never have heard what the object is.
                    let begin = Message::BeginOfFile(object.begin.clone());
                    vec![Message::Contents(self.contents), begin, Message::Withdraw(reason.clone())]
                }
                (None, Some(hash)) => vec![Message::EndOfFile, Message::Digest(Digest::unsigned(hash))],
                (None, None) => vec![Message::EndOfFile],
            };
            let file = object.file;
            self.messages.extend(end.into_iter().map(|message| (file, message)));
        }
        self.at = Place::at(((self.at.object + 1) % self.objects.len(), 0));
        if (self.at.object, 0) == self.start {
            self.finish_pass();
        }
    }

    fn finish_pass(&mut self) {
        match self.pass.next().filter(|_| self.is_fountain()) {
            Some(next) => {
                self.pass = next;
                self.turn();
            }
            None => self.finish_loop(),
        }
    }

    fn finish_loop(&mut self) {
        let has_indexes = self.objects.iter().any(|object| object.begin.has_index());
        let sent = self.whole_loops.as_mut().map_or(Sent::Loop, WholeLoops::end);
        if sent == Sent::Nothing {
            let objects = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
            self.next_loop += SHORTEST_IDLE_LOOP.max(IDLE_OBJECT * objects);
        }
        let counts = sent == Sent::Loop || sent == Sent::Some && !has_indexes;
        self.loops += u64::from(counts);
        self.whole_loops.iter_mut().filter(|_| counts && has_indexes).for_each(WholeLoops::count);
        self.pass = Pass::default();
        self.turn();
        self.is_fresh = true;
        self.has_looped = counts || self.has_nothing();
    }

    /// Whether every object is withdrawn, so that nothing is left to send.
    pub fn has_nothing(&self) -> bool {
        self.objects.iter().all(|object| object.withdrawn.is_some())
    }

    /// Goes to the place where the next pass begins, which does not keep step with the one before.
    fn turn(&mut self) {
        // Where receivers report, an index goes before its object.
        if self.whole_loops.is_none() {
            let offset = if self.is_fountain() { self.turns.anywhere() } else { self.turns.shortly_before() };
            let sizes = self.objects.iter().map(|object| object.begin.file_size);
            self.start = place(offset, self.config.block_len, sizes);
            self.first_run_len = Some(self.turns.first_run_len(self.max_run_len));
        }
        self.at = Place::at(self.start);
        self.align();
        if self.speaks() && !self.has_nothing() {
            let contents = (self.objects[self.at.object].file, Message::Contents(self.contents));
            self.messages.extend(std::iter::repeat_n(contents, self.turns.messages()));
        }
    }

    /// Passes begin where a source block does.
    fn align(&mut self) {
        self.at.object = self.start.0;
        if let Some(layout) = self.fountain() {
            let source_block = layout.source_block(self.start.1 / layout.block_len());
            self.start.1 = layout.blocks(source_block).start * layout.block_len();
            (self.at.position, self.at.announce_at) = (self.start.1, 0);
        }
    }
}

/// The object, and the position in it, at which a pass begins: where a block does. `offset`: in bytes of all objects, and
/// beyond their end it wraps around.
fn place(offset: u64, block_len: u16, sizes: impl Iterator<Item = u64> + Clone) -> (usize, u64) {
    let total: u128 = sizes.clone().map(u128::from).sum();
    let mut rest = u128::from(offset) % total.max(1);
    for (index, size) in sizes.enumerate() {
        if rest < u128::from(size) {
            let block_len = u64::from(block_len.max(1));
            return (index, rest as u64 / block_len * block_len);
        }
        rest -= u128::from(size);
    }
    (0, 0)
}
