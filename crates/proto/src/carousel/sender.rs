//! The carousel's sender.

use std::{collections::VecDeque, ops::Range, time::Duration};

use treecast_wire::{
    ParseError,
    header::{FileId, SessionId},
    message::{BeginOfFile, Contents, Digest, Message, Reason},
};

use super::{ANNOUNCE_BYTES, pass::Pass};
use crate::{
    Instant, Step,
    chunks::{self, Chunks},
    fec::Layout,
};

/// A loop takes at least so long: small objects are not to keep a network busy for nothing.
const SHORTEST_LOOP: Duration = Duration::from_millis(20);

/// An object of which a pass sends fewer symbols than this is not announced in it, but for the first.
const MANY_SYMBOLS: u64 = 32;

/// How many times the end is said, since no receiver can ask for it.
const GOODBYES: usize = 3;

#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub session: SessionId,
    /// The most bytes of an object that one [`SenderTransmit::Blocks`] covers: a multiple of the
    /// block length.
    pub max_run_len: u32,
    /// Bytes of an object in each packet but the last.
    pub block_len: u16,
    /// Whether repair symbols go out in place of blocks from the second loop on.
    pub fec: bool,
    /// Whether messages tell of the objects; without them (the IoT updater's dialect) the blocks must.
    pub announce: bool,
    /// Where in the loop the first one begins, in bytes of all objects: whatever the number, it is a place there. Senders
    /// of one carousel that begin at different places do not send the same at the same time.
    pub start: u64,
    /// Which repair symbols later loops send first; with 0, the first loop sends blocks. The symbols of two numbers are
    /// different ones, as long as there are any.
    pub first_row: u64,
    /// How long it waits for another listener when the last has left.
    pub idle: Duration,
}

/// Something that has happened at the sender.
#[derive(Debug, Clone)]
pub enum SenderInput {
    /// Whether anybody listens to the group, as far as the sender's link tells (MLD, IGMP).
    Listeners { present: bool },
    /// The caller has read the object to its end, and this is its BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// The object can no longer be read as it was announced.
    Withdraw { file: FileId, reason: String },
    /// Enough.
    Close,
}

/// Something for the caller to send to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderTransmit {
    Message {
        file: FileId,
        message: Message,
    },
    /// Send a page of the object's chunk hashes ([`crate::chunks`]).
    ChunkHashes {
        file: FileId,
        page: u32,
    },
    /// Read these bytes of the object and send them, a block a packet.
    Blocks {
        file: FileId,
        range: Range<u64>,
    },
    /// Compute these repair symbols of a source block ([`Layout`]) and send them, a packet each.
    Symbols {
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
    },
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// Somebody listens: the first loop begins, or goes on where it was.
    Started,
    /// Nobody listens any more.
    Paused,
    /// Every object has been out so many times.
    Looped { loops: u64 },
    /// It is over: nobody has listened for [`SenderConfig::idle`], every object is withdrawn, or
    /// [`SenderInput::Close`] said so.
    Closed,
}

/// What the sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderWait {
    /// A listener; with a deadline, another one.
    Listener,
    /// The moment for the next loop.
    Loop,
    /// Nothing: it is closed.
    Closed,
}

/// One carousel. Call order: see the crate's documentation. While somebody listens it nearly always
/// has something to send: the caller polls it as often as the rate allows.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    contents: Contents,
    objects: Vec<Object>,
    state: State,
    listeners: bool,
    loops: u64,
    /// Of a loop of repair symbols; always the first in others.
    pass: Pass,
    /// Where each loop and pass begins: an object's index, and a position in it.
    start: (usize, u64),
    /// Nothing of the loop has been sent.
    is_fresh: bool,
    /// The loop that is next begins then, or later.
    next_loop: Instant,
    /// Index of the object that is being sent.
    current: usize,
    /// Its next byte.
    position: u64,
    /// Where it is announced next.
    announce_at: u64,
    /// The next page of its chunk hashes.
    next_page: u32,
    events: VecDeque<SenderEvent>,
    /// Messages that go before the next block. At most a few for each object.
    messages: VecDeque<(FileId, Message)>,
}

#[derive(Debug)]
struct Object {
    file: FileId,
    begin: BeginOfFile,
    hash: Option<[u8; 32]>,
    withdrawn: Option<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody listens; with a deadline, any more.
    Waiting(Option<Instant>),
    Sending,
    /// The last messages are going out.
    Closing,
    Closed,
}

impl Sender {
    /// # Errors
    /// When there are no objects, or more than [`treecast_wire::message::MAX_OBJECTS`].
    pub fn new(config: SenderConfig, objects: Vec<BeginOfFile>) -> Result<Self, ParseError> {
        let contents = Contents::new(u32::try_from(objects.len()).unwrap_or(u32::MAX))?;
        let object = |(index, begin)| {
            let file = FileId::new(config.session, index);
            Object { file, begin, hash: None, withdrawn: None }
        };
        let start = place(&config, &objects);
        let mut sender = Self {
            contents,
            objects: (0..).zip(objects).map(object).collect(),
            state: State::Waiting(None),
            listeners: false,
            loops: 0,
            pass: Pass::default(),
            start,
            is_fresh: true,
            next_loop: Instant::ZERO,
            current: start.0,
            position: start.1,
            announce_at: 0,
            next_page: 0,
            events: VecDeque::new(),
            messages: VecDeque::new(),
            config,
        };
        sender.align();
        Ok(sender)
    }

    /// What an object is announced as.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        self.objects.get(file.index() as usize).map(|object| &object.begin)
    }

    pub fn handle(&mut self, _now: Instant, input: SenderInput) {
        match input {
            SenderInput::Listeners { present } => self.listeners = present,
            SenderInput::Hashed { file, hash } => self.on_hashed(file, hash),
            SenderInput::Withdraw { file, reason } => {
                if let Some(object) = self.object(file) {
                    object.withdrawn = Some(Reason::new(&reason));
                    if self.start.0 == file.index() as usize {
                        self.start.1 = 0;
                    }
                }
            }
            SenderInput::Close => self.close(),
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Step::Event(event);
            }
            match self.state {
                State::Waiting(_) if self.listeners => {
                    self.state = State::Sending;
                    self.events.push_back(SenderEvent::Started);
                }
                State::Waiting(Some(deadline)) if now >= deadline => self.close(),
                State::Waiting(deadline) => return Step::Wait(deadline, SenderWait::Listener),
                State::Sending if !self.listeners => {
                    self.state = State::Waiting(Some(now + self.config.idle));
                    self.events.push_back(SenderEvent::Paused);
                }
                State::Sending if self.is_early(now) => {
                    return Step::Wait(Some(self.next_loop), SenderWait::Loop);
                }
                State::Sending | State::Closing => {
                    if let Some(transmit) = self.next_transmit(now) {
                        return Step::Transmit(transmit);
                    }
                }
                State::Closed => return Step::Wait(None, SenderWait::Closed),
            }
        }
    }

    fn on_hashed(&mut self, file: FileId, hash: [u8; 32]) {
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

    fn close(&mut self) {
        if matches!(self.state, State::Closing | State::Closed) {
            return;
        }
        self.state = State::Closing;
        if self.config.announce {
            let goodbye = (self.objects[0].file, Message::Goodbye);
            self.messages.extend(std::iter::repeat_n(goodbye, GOODBYES));
        }
    }

    /// What goes out next; none when the state or the place in the loop has changed instead.
    fn next_transmit(&mut self, now: Instant) -> Option<SenderTransmit> {
        if let Some((file, message)) = self.messages.pop_front() {
            return Some(SenderTransmit::Message { file, message });
        }
        if self.state == State::Closing {
            self.state = State::Closed;
            self.events.push_back(SenderEvent::Closed);
            return None;
        }
        if std::mem::take(&mut self.is_fresh) {
            self.next_loop = now + SHORTEST_LOOP;
        }
        if self.objects[self.current].withdrawn.is_some() {
            self.finish_object();
            None
        } else if self.speaks() && self.position >= self.announce_at {
            self.announce();
            None
        } else if let Some(page) = self.next_page() {
            self.next_page = page + 1;
            Some(SenderTransmit::ChunkHashes { file: self.objects[self.current].file, page })
        } else {
            let transmit = self.next_run();
            if transmit.is_none() {
                self.finish_object();
            }
            transmit
        }
    }

    /// Whether this loop is one of repair symbols.
    fn is_fountain(&self) -> bool {
        self.config.fec && self.row() > 0
    }

    /// How the current object is cut for repair symbols, in a loop of those.
    fn fountain(&self) -> Option<Layout> {
        let size = self.objects[self.current].begin.file_size;
        Layout::new(size, self.config.block_len).filter(|_| self.is_fountain())
    }

    /// Which repair symbols this loop sends; none, but blocks, with 0.
    fn row(&self) -> u64 {
        self.config.first_row.saturating_add(self.loops)
    }

    /// Whether messages of the current object go out.
    fn speaks(&self) -> bool {
        let object = &self.objects[self.current];
        let is_large = || {
            let run = self.fountain().and_then(|layout| self.pass.next_from(&layout, 0));
            object.withdrawn.is_none() && run.is_some_and(|run| run.end - run.start >= MANY_SYMBOLS)
        };
        self.config.announce && (self.pass.is_first() || is_large())
    }

    /// Whether a loop is over before its time.
    fn is_early(&self, now: Instant) -> bool {
        self.is_fresh && self.messages.is_empty() && self.loops > 0 && now < self.next_loop
    }

    fn announce(&mut self) {
        let object = &self.objects[self.current];
        self.messages.push_back((object.file, Message::Contents(self.contents)));
        self.messages.push_back((object.file, Message::BeginOfFile(object.begin.clone())));
        if let Some(hash) = object.hash {
            self.messages.push_back((object.file, Message::Digest(Digest::unsigned(hash))));
        }
        let stride = if self.fountain().is_some() { self.pass.stride() } else { 1 };
        self.announce_at = self.position + ANNOUNCE_BYTES * stride;
        if let Some(chunks) = Chunks::new(object.begin.file_size) {
            // What lies behind is told in the next loop.
            self.next_page = self.next_page.max(chunks.page_at(self.position));
        }
    }

    /// The next page of chunk hashes whose chunks begin before the next announcement.
    fn next_page(&self) -> Option<u32> {
        let object = &self.objects[self.current];
        let may_tell = self.config.announce
            && self.pass.is_first()
            && chunks::fit_in(self.config.block_len)
            && object.hash.is_some();
        let chunks = Chunks::new(object.begin.file_size).filter(|_| may_tell)?;
        let is_due =
            self.next_page < chunks.pages() && chunks.page_bytes(self.next_page).start < self.announce_at;
        is_due.then_some(self.next_page)
    }

    /// The next blocks or symbols of the current object; none when it has no more of them in this pass.
    fn next_run(&mut self) -> Option<SenderTransmit> {
        let object = &self.objects[self.current];
        let (file, size) = (object.file, object.begin.file_size);
        let end = if self.is_before_start() { self.start.1 } else { size };
        let most = u64::from(self.config.max_run_len);
        let Some(layout) = self.fountain() else {
            let range = self.position..self.position.saturating_add(most).min(end);
            return (!range.is_empty()).then(|| {
                self.go_on(range.end);
                SenderTransmit::Blocks { file, range }
            });
        };
        let block_len = layout.block_len();
        let blocks = self.pass.next_from(&layout, self.position.div_ceil(block_len))?;
        if blocks.start * block_len >= end {
            return None;
        }
        let blocks = blocks.start..blocks.end.min(blocks.start + (most / block_len).max(1));
        let (source_block, symbols) = layout.instead(&blocks, self.row());
        let next = blocks.start + u64::from(symbols.end - symbols.start);
        self.go_on(next.saturating_mul(block_len).min(size));
        Some(SenderTransmit::Symbols { file, source_block, symbols })
    }

    /// Whether the loop or pass, which has come round, ends in the current object.
    fn is_before_start(&self) -> bool {
        self.current == self.start.0 && self.position < self.start.1
    }

    fn go_on(&mut self, position: u64) {
        self.position = position;
        if position > 0 && (self.current, position) == self.start {
            self.finish_pass();
        }
    }

    /// Goes on to the next object, or to the next pass where this one has come round.
    fn finish_object(&mut self) {
        if self.is_before_start() {
            return self.finish_pass();
        }
        if self.speaks() {
            let object = &self.objects[self.current];
            let end = match (&object.withdrawn, object.hash) {
                (Some(reason), _) => {
                    vec![Message::Contents(self.contents), Message::Withdraw(reason.clone())]
                }
                (None, Some(hash)) => vec![Message::EndOfFile, Message::Digest(Digest::unsigned(hash))],
                (None, None) => vec![Message::EndOfFile],
            };
            let file = object.file;
            self.messages.extend(end.into_iter().map(|message| (file, message)));
        }
        (self.position, self.announce_at, self.next_page) = (0, 0, 0);
        self.current = (self.current + 1) % self.objects.len();
        if (self.current, 0) == self.start {
            self.finish_pass();
        }
    }

    fn finish_pass(&mut self) {
        match self.pass.next().filter(|_| self.is_fountain()) {
            Some(next) => {
                self.pass = next;
                (self.current, self.position) = self.start;
                (self.announce_at, self.next_page) = (0, 0);
            }
            None => self.finish_loop(),
        }
    }

    fn finish_loop(&mut self) {
        self.loops += 1;
        self.pass = Pass::default();
        self.align();
        self.is_fresh = true;
        self.events.push_back(SenderEvent::Looped { loops: self.loops });
        if self.objects.iter().all(|object| object.withdrawn.is_some()) {
            self.close();
        }
    }

    /// Passes begin where a source block does.
    fn align(&mut self) {
        self.current = self.start.0;
        if let Some(layout) = self.fountain() {
            let source_block = layout.source_block(self.start.1 / layout.block_len());
            self.start.1 = layout.blocks(source_block).start * layout.block_len();
            (self.position, self.announce_at) = (self.start.1, 0);
        }
    }
}

/// The object, and the position in it, at which a loop begins: where a block does.
fn place(config: &SenderConfig, objects: &[BeginOfFile]) -> (usize, u64) {
    let total: u128 = objects.iter().map(|begin| u128::from(begin.file_size)).sum();
    let mut rest = u128::from(config.start) % total.max(1);
    for (index, begin) in objects.iter().enumerate() {
        if rest < u128::from(begin.file_size) {
            let block_len = u64::from(config.block_len.max(1));
            return (index, rest as u64 / block_len * block_len);
        }
        rest -= u128::from(begin.file_size);
    }
    (0, 0)
}

#[cfg(test)]
mod tests {
    use treecast_wire::{header::PacketType, message::TransferType};

    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn sender(sizes: &[u64], announce: bool) -> Sender {
        sender_from(0, 0, sizes, announce)
    }

    fn sender_from(start: u64, first_row: u64, sizes: &[u64], announce: bool) -> Sender {
        let config = SenderConfig {
            session: SessionId(9),
            max_run_len: 400_000,
            block_len: 1_000,
            fec: first_row > 0,
            announce,
            start,
            first_row,
            idle: Duration::from_secs(5),
        };
        let begin = |size: &u64| BeginOfFile::new(TransferType::DiskToDisk, *size, "a").expect("a good name");
        Sender::new(config, sizes.iter().map(begin).collect()).expect("few objects")
    }

    /// The next `count` things sent, as text.
    fn sent(sender: &mut Sender, count: usize) -> Vec<String> {
        let (mut texts, mut now) = (Vec::new(), NOW);
        while texts.len() < count {
            match sender.poll(now) {
                Step::Transmit(SenderTransmit::Message { file, message }) => {
                    texts.push(format!("{} {:?}", file.index(), message.packet_type()));
                }
                Step::Transmit(SenderTransmit::Blocks { file, range }) => {
                    texts.push(format!("{} {range:?}", file.index()));
                }
                Step::Transmit(SenderTransmit::ChunkHashes { file, page }) => {
                    texts.push(format!("{} page {page}", file.index()));
                }
                Step::Transmit(SenderTransmit::Symbols { file, source_block, symbols }) => {
                    texts.push(format!("{} symbols of {source_block} {symbols:?}", file.index()));
                }
                Step::Event(_) => {}
                Step::Wait(Some(deadline), SenderWait::Loop) => now = deadline,
                Step::Wait(_, wait) => panic!("waits for {wait:?} after {texts:?}"),
            }
        }
        texts
    }

    #[test]
    fn waits_for_the_first_listener_without_an_end() {
        let mut sender = sender(&[10], true);
        assert_eq!(sender.poll(NOW), Step::Wait(None, SenderWait::Listener));
        sender.handle(NOW, SenderInput::Listeners { present: true });
        assert_eq!(sender.poll(NOW), Step::Event(SenderEvent::Started));
        assert_eq!(sent(&mut sender, 3), ["0 Contents", "0 BeginOfFile", "0 0..10"]);
    }

    #[test]
    fn announces_an_object_again_and_again_and_loops() {
        let mut sender = sender(&[1_500_000, 0], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        sender.handle(NOW, SenderInput::Hashed { file: FileId::new(SessionId(9), 1), hash: [1; 32] });
        let first = [
            "1 Digest",
            "0 Contents",
            "0 BeginOfFile",
            "0 0..400000",
            "0 400000..800000",
            "0 800000..1200000",
            "0 Contents",
            "0 BeginOfFile",
            "0 1200000..1500000",
            "0 EndOfFile",
            "1 Contents",
            "1 BeginOfFile",
            "1 Digest",
            "1 EndOfFile",
            "1 Digest",
            "0 Contents",
        ];
        assert_eq!(sent(&mut sender, first.len()), first);
    }

    #[test]
    fn senders_of_one_carousel_begin_at_different_places() {
        let mut sender = sender_from(1_000_000 + 700_500, 0, &[1_000_000, 1_500_000, 0], false);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        let one_loop = [
            "1 700000..1100000",
            "1 1100000..1500000",
            "0 0..400000",
            "0 400000..800000",
            "0 800000..1000000",
            "1 0..400000",
            "1 400000..700000",
        ];
        assert_eq!(sent(&mut sender, 14), [one_loop, one_loop].concat());
        assert_eq!(sender.loops, 2);
        sender
            .handle(NOW, SenderInput::Withdraw { file: FileId::new(SessionId(9), 1), reason: "gone".into() });
        assert_eq!(sent(&mut sender, 3), ["0 0..400000", "0 400000..800000", "0 800000..1000000"]);
        assert_eq!(sent(&mut sender, 6).len(), 6, "and goes round without it");
    }

    #[test]
    fn one_that_has_a_twin_begins_with_symbols_of_its_own() {
        let mut sender = sender_from(0, 7, &[1_000_000], false);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        let first = sent(&mut sender, 3);
        let mut other = sender_from(0, 8, &[1_000_000], false);
        other.handle(NOW, SenderInput::Listeners { present: true });
        let others = sent(&mut other, 3);
        assert!(first.iter().chain(&others).all(|sent| sent.starts_with("0 symbols of 0 ")), "{first:?}");
        assert!(first.iter().all(|sent| !others.contains(sent)), "{first:?} {others:?}");
    }

    #[test]
    fn chunk_hashes_go_out_before_their_blocks_once_they_are_known() {
        let mut sender = sender(&[2_000_000], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        assert!(sent(&mut sender, 9).iter().all(|sent| !sent.contains("page")));
        sender.handle(NOW, SenderInput::Hashed { file: FileId::new(SessionId(9), 0), hash: [1; 32] });
        let rest = sent(&mut sender, 20);
        let begin = rest.iter().position(|sent| sent == "0 0..400000").expect("the second loop");
        assert_eq!(rest[begin - 4..begin], ["0 Contents", "0 BeginOfFile", "0 Digest", "0 page 0"]);
        let second = begin + rest[begin..].iter().position(|sent| sent == "0 page 1").expect("all of them");
        assert_eq!(rest[second + 1], "0 1200000..1600000");
    }

    #[test]
    fn stops_when_nobody_has_listened_for_the_idle_time() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        sent(&mut sender, 3);
        sender.handle(NOW, SenderInput::Listeners { present: false });
        assert_eq!(sender.poll(NOW), Step::Event(SenderEvent::Paused));
        let deadline = NOW + Duration::from_secs(5);
        assert_eq!(sender.poll(NOW), Step::Wait(Some(deadline), SenderWait::Listener));
        for _ in 0..GOODBYES {
            let Step::Transmit(SenderTransmit::Message { message, .. }) = sender.poll(deadline) else {
                panic!("it says goodbye");
            };
            assert_eq!(message.packet_type(), PacketType::Goodbye);
        }
        assert_eq!(sender.poll(deadline), Step::Event(SenderEvent::Closed));
        assert_eq!(sender.poll(deadline), Step::Wait(None, SenderWait::Closed));
    }

    #[test]
    fn a_short_loop_is_followed_by_a_pause() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        sent(&mut sender, 4);
        assert_eq!(sender.poll(NOW), Step::Wait(Some(NOW + SHORTEST_LOOP), SenderWait::Loop));
        assert!(matches!(sender.poll(NOW + SHORTEST_LOOP), Step::Transmit(_)));
    }

    #[test]
    fn a_listener_within_the_idle_time_lets_it_go_on_where_it_was() {
        let mut sender = sender(&[1_000_000], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        sent(&mut sender, 3);
        sender.handle(NOW, SenderInput::Listeners { present: false });
        assert_eq!(sender.poll(NOW), Step::Event(SenderEvent::Paused));
        sender.handle(NOW, SenderInput::Listeners { present: true });
        assert_eq!(sender.poll(NOW), Step::Event(SenderEvent::Started));
        assert_eq!(sent(&mut sender, 1), ["0 400000..800000"]);
    }

    #[test]
    fn a_withdrawn_object_is_said_to_be_and_the_last_one_ends_the_carousel() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        sent(&mut sender, 3);
        let file = FileId::new(SessionId(9), 0);
        sender.handle(NOW, SenderInput::Withdraw { file, reason: "it has shrunk".into() });
        assert_eq!(sent(&mut sender, 5)[..3], ["0 Contents", "0 Withdraw", "0 Goodbye"]);
        assert_eq!(sender.poll(NOW), Step::Event(SenderEvent::Closed));
    }

    #[test]
    fn with_forward_error_correction_later_loops_are_symbols_that_nobody_has_had() {
        // Two source blocks of 2,200 blocks.
        let mut sender = sender(&[4_399_999], true);
        (sender.config.fec, sender.config.announce) = (true, false);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        let all = sent(&mut sender, 11 + 14 + 1);
        assert_eq!((&*all[0], &*all[10]), ("0 0..400000", "0 4000000..4399999"));
        let runs = |block: u32, ends: &[u32]| -> Vec<String> {
            ends.windows(2).map(|ends| format!("0 symbols of {block} {}..{}", ends[0], ends[1])).collect()
        };
        let first = [&runs(0, &[2200, 2384])[..], &runs(1, &[2200, 2384]), &runs(0, &[2384, 2567])].concat();
        assert_eq!(all[11..14], first, "in passes");
        let last = runs(1, &[3667, 4067, 4400]);
        assert_eq!(all[23..25], last, "which end with the numbers of the loop");
        assert_eq!(all[25..], runs(0, &[4400, 4584]), "the third loop goes on where the second ended");
    }

    #[test]
    fn without_announcements_only_blocks_go_out() {
        let mut sender = sender(&[500_000], false);
        sender.handle(NOW, SenderInput::Listeners { present: true });
        assert_eq!(sent(&mut sender, 3), ["0 0..400000", "0 400000..500000", "0 0..400000"]);
        sender.handle(NOW, SenderInput::Close);
        let mut last = sender.poll(NOW);
        while let Step::Event(SenderEvent::Looped { .. }) = last {
            last = sender.poll(NOW);
        }
        assert_eq!(last, Step::Event(SenderEvent::Closed));
    }

    #[test]
    fn nothing_to_send_is_refused() {
        let config = SenderConfig { announce: true, ..sender(&[1], true).config };
        let error = Sender::new(config, vec![]).expect_err("no objects");
        assert_eq!(error.to_string(), "objects: 0 found, expected 1 to 65536");
    }
}
