//! The UDP client: asks for the whole file, then for what has not come.
//!
//! The server serves a client's requests one after the other. So a block of a later request, or the
//! last block of one, says that what is missing before it was lost; only when nothing comes does the
//! client wait for its timeout (A.4).

use std::{collections::VecDeque, iter, ops::Range, time::Duration};

use treecast_wire::unicast::{FileHeader, Reply, Request};

use super::MAX_REQUESTS;
use crate::{
    Instant, Step,
    object::stored::Stored,
    unicast::{ClientEvent, ClientWait, StorageReport, StorageTask},
};

#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// The time for which nothing new must have come before the client concludes that the server has stopped
    /// sending.
    pub timeout: Duration,
    /// The time that the server may take for its first reply.
    pub first_reply_timeout: Duration,
    /// The number of times in a row that the timeout may be reached.
    pub max_timeouts: u32,
    /// The number of times that the hash may be wrong.
    pub hash_attempts: u32,
}

/// Something that has happened at the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientInput {
    /// Replies with these bytes of one file came, without a gap between them; `block_len` is the
    /// length of the longest one's data.
    Replies {
        file: FileHeader,
        range: Range<u64>,
        block_len: u16,
    },
    Storage(StorageReport),
}

impl From<&Reply> for ClientInput {
    fn from(reply: &Reply) -> Self {
        let range = reply.range();
        let block_len = (range.end - range.start) as u16;
        Self::Replies { file: reply.file, range, block_len }
    }
}

/// Something that the client asks its caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientTransmit {
    /// Send a request to the server.
    Request(Request),
    /// Do this with the copy of the file. Several tasks are done in their order.
    Storage(StorageTask),
}

/// The client. Call order: see the crate's documentation; poll to the end after every
/// [`ClientInput::Replies`], while the packet's bytes are still at hand.
#[derive(Debug, Default)]
pub struct Client {
    config: ClientConfig,
    state: State,
    file: Option<File>,
    /// The ranges that have been asked for and not been served, in the order of the requests.
    asked: VecDeque<Range<u64>>,
    /// The position up to which all gaps have been asked for in this round.
    cursor: u64,
    started: Instant,
    /// The time when something new came, or was asked for, last.
    active: Instant,
    timeouts: u32,
    mismatches: u32,
    steps: VecDeque<Step<ClientTransmit, ClientEvent, ClientWait>>,
}

#[derive(Debug)]
struct File {
    header: FileHeader,
    stored: Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Starting,
    Receiving,
    Hashing,
    Committing,
    Closed,
}

impl Client {
    pub fn new(config: ClientConfig) -> Self {
        Self { config, ..Self::default() }
    }

    pub fn handle(&mut self, now: Instant, input: ClientInput) {
        match (self.state, input) {
            (State::Receiving, ClientInput::Replies { file, range, block_len }) => {
                self.on_replies(now, file, range, block_len);
            }
            (State::Hashing, ClientInput::Storage(StorageReport::Hashed { hash })) => {
                self.on_hashed(now, hash)
            }
            (State::Committing, ClientInput::Storage(StorageReport::Committed)) => {
                self.state = State::Closed;
                let size = self.file.as_ref().map_or(0, |file| file.header.file_size);
                self.steps.push_back(Step::Event(ClientEvent::Received { size }));
            }
            (State::Starting | State::Closed, _) => {}
            (_, ClientInput::Storage(StorageReport::Failed { reason })) => self.fail(reason),
            // Replies that come twice when all is there.
            _ => {}
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<ClientTransmit, ClientEvent, ClientWait> {
        match self.state {
            State::Starting => {
                self.state = State::Receiving;
                self.started = now;
                self.ask_for_all(now);
            }
            State::Receiving if self.first_reply_by().is_some_and(|by| now >= by) => {
                let waited = self.config.first_reply_timeout.as_secs_f64();
                self.fail(format!("nothing has come from it for {waited} s"));
            }
            State::Receiving if now >= self.active + self.config.timeout => self.on_timeout(now),
            _ => {}
        }
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        match self.state {
            State::Starting | State::Receiving => {
                let again = self.active + self.config.timeout;
                let deadline = self.first_reply_by().map_or(again, |by| by.min(again));
                Step::Wait(Some(deadline), ClientWait::Server)
            }
            State::Hashing | State::Committing => Step::Wait(None, ClientWait::Storage),
            State::Closed => Step::Wait(None, ClientWait::Closed),
        }
    }

    /// Returns the size of the file, once it is known, and how many bytes of it have come.
    pub fn progress(&self) -> (Option<u64>, u64) {
        match &self.file {
            Some(file) => (Some(file.header.file_size), file.stored.bytes()),
            None => (None, 0),
        }
    }

    /// The time when the first reply must be there, if it is not.
    fn first_reply_by(&self) -> Option<Instant> {
        self.file.is_none().then_some(self.started + self.config.first_reply_timeout)
    }

    fn on_replies(&mut self, now: Instant, header: FileHeader, range: Range<u64>, block_len: u16) {
        if self.file.is_none() && !self.begin(header, &range, block_len) {
            return;
        }
        // A server that was given another file is silent about this one.
        let Some(file) = self.file.as_mut().filter(|file| file.header == header) else { return };
        let (new, _) = file.stored.add(range.clone());
        if !new.is_empty() {
            self.active = now;
            self.timeouts = 0;
        }
        for range in new {
            self.steps.push_back(Step::Transmit(ClientTransmit::Storage(StorageTask::Store { range })));
        }
        if file.stored.is_complete() {
            self.state = State::Hashing;
            return self.storage(StorageTask::Hash);
        }
        self.note_served(&range);
        self.ask_for_gaps(now);
    }

    /// Notes the file of the first reply. A short last block does not tell how long the others are:
    /// unless it is the only one, the file waits for another reply.
    fn begin(&mut self, header: FileHeader, range: &Range<u64>, block_len: u16) -> bool {
        let last = range.end == header.file_size && range.end - range.start <= u64::from(block_len);
        if block_len == 0 && header.file_size > 0 || last && range.start > 0 {
            return false;
        }
        let mut stored = Stored::new(block_len);
        stored.set_size(header.file_size);
        self.file = Some(File { header, stored });
        self.asked = VecDeque::from_iter(iter::once(0..header.file_size));
        self.cursor = header.file_size;
        self.storage(StorageTask::Announce { size: header.file_size });
        true
    }

    /// Forgets the requests that the server must have served when it sends `range`.
    fn note_served(&mut self, range: &Range<u64>) {
        let within = |asked: &Range<u64>| asked.start < range.end && range.start < asked.end;
        if let Some(index) = self.asked.iter().position(within) {
            self.asked.drain(..index);
            if self.asked[0].end <= range.end {
                self.asked.pop_front();
            }
        }
    }

    fn ask_for_gaps(&mut self, now: Instant) {
        if self.asked.is_empty() {
            self.cursor = 0;
        }
        while self.asked.len() < MAX_REQUESTS {
            let gap = self.file.as_ref().and_then(|file| file.stored.first_gap(self.cursor));
            let Some(gap) = gap else { break };
            self.cursor = gap.end;
            self.active = now;
            // A gap is never empty.
            if let Ok(request) = Request::new(gap.start, gap.end) {
                self.transmit(ClientTransmit::Request(request));
            }
            self.asked.push_back(gap);
        }
    }

    fn ask_for_all(&mut self, now: Instant) {
        self.active = now;
        self.transmit(ClientTransmit::Request(Request::WHOLE_FILE));
    }

    fn on_timeout(&mut self, now: Instant) {
        self.timeouts += 1;
        if self.timeouts > self.config.max_timeouts {
            let waited = self.config.timeout.as_secs_f64() * f64::from(self.timeouts);
            return self.fail(format!("the server has not answered for {waited} s"));
        }
        self.asked.clear();
        match self.file {
            Some(_) => self.ask_for_gaps(now),
            None => self.ask_for_all(now),
        }
    }

    fn on_hashed(&mut self, now: Instant, hash: [u8; 32]) {
        let Some(file) = &mut self.file else { return };
        let size = file.header.file_size;
        if file.header.hash == hash {
            self.state = State::Committing;
            return self.storage(StorageTask::Commit);
        }
        self.mismatches += 1;
        if self.mismatches >= self.config.hash_attempts {
            return self.fail(format!("the file's hash has been wrong {} times", self.mismatches));
        }
        file.stored.clear();
        self.state = State::Receiving;
        self.asked = VecDeque::from_iter(iter::once(0..size));
        self.cursor = size;
        self.ask_for_all(now);
    }

    fn fail(&mut self, reason: String) {
        self.state = State::Closed;
        self.storage(StorageTask::Discard);
        self.steps.push_back(Step::Event(ClientEvent::Failed { reason }));
    }

    fn storage(&mut self, task: StorageTask) {
        self.transmit(ClientTransmit::Storage(task));
    }

    fn transmit(&mut self, transmit: ClientTransmit) {
        self.steps.push_back(Step::Transmit(transmit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;
    const FILE: FileHeader = FileHeader { file_size: 95, hash: [7; 32] };

    fn client() -> Client {
        Client::new(ClientConfig {
            timeout: Duration::from_secs(2),
            first_reply_timeout: Duration::from_secs(5),
            max_timeouts: 2,
            hash_attempts: 2,
        })
    }

    fn take(client: &mut Client, now: Instant) -> Vec<ClientTransmit> {
        std::iter::from_fn(|| match client.poll(now) {
            Step::Transmit(transmit) => Some(transmit),
            Step::Event(_) | Step::Wait(..) => None,
        })
        .collect()
    }

    fn replies(client: &mut Client, range: Range<u64>) -> Vec<ClientTransmit> {
        client.handle(NOW, ClientInput::Replies { file: FILE, range, block_len: 10 });
        take(client, NOW)
    }

    fn request(start: u64, end: u64) -> ClientTransmit {
        ClientTransmit::Request(Request::new(start, end).expect("a range"))
    }

    #[test]
    fn asks_for_the_whole_and_then_for_each_gap() {
        let mut client = client();
        assert_eq!(take(&mut client, NOW), [ClientTransmit::Request(Request::WHOLE_FILE)]);
        let first = [
            ClientTransmit::Storage(StorageTask::Announce { size: 95 }),
            ClientTransmit::Storage(StorageTask::Store { range: 0..20 }),
        ];
        assert_eq!(replies(&mut client, 0..20), first);
        replies(&mut client, 30..50);
        assert_eq!(
            replies(&mut client, 60..95),
            [ClientTransmit::Storage(StorageTask::Store { range: 60..95 }), request(20, 30), request(50, 60)],
            "the last block says that the server has come to the end"
        );
        assert_eq!(
            replies(&mut client, 50..60),
            [ClientTransmit::Storage(StorageTask::Store { range: 50..60 }), request(20, 30)],
            "the second request was served, so the reply to the first is lost"
        );
        replies(&mut client, 20..30);
        client.handle(NOW, ClientInput::Storage(StorageReport::Hashed { hash: [7; 32] }));
        assert_eq!(client.poll(NOW), Step::Transmit(ClientTransmit::Storage(StorageTask::Commit)));
        client.handle(NOW, ClientInput::Storage(StorageReport::Committed));
        assert_eq!(client.poll(NOW), Step::Event(ClientEvent::Received { size: 95 }));
    }

    #[test]
    fn asks_again_when_nothing_comes_and_gives_up_at_last() {
        let mut client = client();
        take(&mut client, NOW);
        replies(&mut client, 0..20);
        let late = NOW + Duration::from_secs(2);
        assert_eq!(client.poll(NOW), Step::Wait(Some(late), ClientWait::Server));
        assert_eq!(take(&mut client, late), [request(20, 95)]);
        let later = late + Duration::from_secs(2);
        assert_eq!(take(&mut client, later), [request(20, 95)]);
        let last = later + Duration::from_secs(2);
        assert_eq!(client.poll(last), Step::Transmit(ClientTransmit::Storage(StorageTask::Discard)));
        let reason = "the server has not answered for 6 s".to_owned();
        assert_eq!(client.poll(last), Step::Event(ClientEvent::Failed { reason }));
    }

    #[test]
    fn a_server_that_is_not_there_yet_is_asked_again() {
        let mut client = client();
        take(&mut client, NOW);
        let late = NOW + Duration::from_secs(2);
        assert_eq!(take(&mut client, late), [ClientTransmit::Request(Request::WHOLE_FILE)]);
        let later = late + Duration::from_secs(2);
        assert_eq!(take(&mut client, later), [ClientTransmit::Request(Request::WHOLE_FILE)]);
        let last = NOW + Duration::from_secs(5);
        assert_eq!(client.poll(later), Step::Wait(Some(last), ClientWait::Server));
        assert_eq!(client.poll(last), Step::Transmit(ClientTransmit::Storage(StorageTask::Discard)));
        let reason = "nothing has come from it for 5 s".to_owned();
        assert_eq!(client.poll(last), Step::Event(ClientEvent::Failed { reason }));
    }

    #[test]
    fn a_short_last_block_does_not_tell_the_length_of_the_others() {
        let mut client = client();
        take(&mut client, NOW);
        client.handle(NOW, ClientInput::Replies { file: FILE, range: 90..95, block_len: 5 });
        assert_eq!(client.progress(), (None, 0));
        replies(&mut client, 0..10);
        assert_eq!(client.progress(), (Some(95), 10));
    }

    #[test]
    fn an_empty_file_is_a_reply_without_data() {
        let mut client = client();
        take(&mut client, NOW);
        let file = FileHeader { file_size: 0, ..FILE };
        client.handle(NOW, ClientInput::Replies { file, range: 0..0, block_len: 0 });
        assert_eq!(
            take(&mut client, NOW),
            [
                ClientTransmit::Storage(StorageTask::Announce { size: 0 }),
                ClientTransmit::Storage(StorageTask::Hash)
            ]
        );
    }

    #[test]
    fn a_wrong_hash_fetches_the_whole_again_and_then_fails() {
        let mut client = client();
        take(&mut client, NOW);
        replies(&mut client, 0..95);
        client.handle(NOW, ClientInput::Storage(StorageReport::Hashed { hash: [8; 32] }));
        assert_eq!(take(&mut client, NOW), [ClientTransmit::Request(Request::WHOLE_FILE)]);
        replies(&mut client, 0..95);
        client.handle(NOW, ClientInput::Storage(StorageReport::Hashed { hash: [8; 32] }));
        assert_eq!(take(&mut client, NOW), [ClientTransmit::Storage(StorageTask::Discard)]);
    }

    #[test]
    fn requests_are_bounded() {
        let mut client = client();
        take(&mut client, NOW);
        let file = FileHeader { file_size: 2000, ..FILE };
        let mut requests = 0;
        for block in (0..200).filter(|block| block % 2 == 1) {
            let range = block * 10..block * 10 + 10;
            client.handle(NOW, ClientInput::Replies { file, range, block_len: 10 });
            let sent = take(&mut client, NOW);
            requests += sent.iter().filter(|sent| matches!(sent, ClientTransmit::Request(_))).count();
        }
        assert_eq!(requests, MAX_REQUESTS, "100 blocks are missing");
    }
}
