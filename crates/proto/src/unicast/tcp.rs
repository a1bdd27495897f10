//! The file over TCP, from beginning to end.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use treecast_wire::unicast::FileHeader;

use super::{ClientEvent, ClientWait, StorageReport, StorageTask};
use crate::{Instant, Step};

/// A connection, by the number that the caller gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// How many clients are served at once; the others wait in turn.
    pub max_active: usize,
    /// How many may wait; further ones are turned away.
    pub max_waiting: usize,
}

/// Something that has happened at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerInput {
    Connected {
        client: ConnectionId,
    },
    /// Everything is written, or the connection broke for the reason.
    Finished {
        client: ConnectionId,
        failure: Option<String>,
    },
}

/// Something for the caller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTransmit {
    /// Write the header and the whole file, and close.
    Serve { client: ConnectionId },
    /// Close at once: there are too many.
    Refuse { client: ConnectionId },
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    Served { client: ConnectionId },
    Failed { client: ConnectionId, reason: String },
}

/// What the server waits for: clients, or that one is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerWait {
    pub active: usize,
    pub waiting: usize,
}

/// The server. Call order: see the crate's documentation.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    active: BTreeSet<ConnectionId>,
    waiting: VecDeque<ConnectionId>,
    steps: VecDeque<Step<ServerTransmit, ServerEvent, ServerWait>>,
}

impl Server {
    pub fn new(config: ServerConfig) -> Self {
        Self { config, active: BTreeSet::new(), waiting: VecDeque::new(), steps: VecDeque::new() }
    }

    pub fn handle(&mut self, _now: Instant, input: ServerInput) {
        match input {
            ServerInput::Connected { client } => {
                if self.waiting.len() < self.config.max_waiting.max(1) {
                    self.waiting.push_back(client);
                } else {
                    self.steps.push_back(Step::Transmit(ServerTransmit::Refuse { client }));
                }
            }
            ServerInput::Finished { client, failure } => {
                self.active.remove(&client);
                self.steps.push_back(Step::Event(match failure {
                    None => ServerEvent::Served { client },
                    Some(reason) => ServerEvent::Failed { client, reason },
                }));
            }
        }
        while self.active.len() < self.config.max_active {
            let Some(client) = self.waiting.pop_front() else { break };
            self.active.insert(client);
            self.steps.push_back(Step::Transmit(ServerTransmit::Serve { client }));
        }
    }

    pub fn poll(&mut self, _now: Instant) -> Step<ServerTransmit, ServerEvent, ServerWait> {
        let wait = ServerWait { active: self.active.len(), waiting: self.waiting.len() };
        self.steps.pop_front().unwrap_or(Step::Wait(None, wait))
    }
}

#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// How many times the whole is tried.
    pub attempts: u32,
    /// The pause between two tries.
    pub retry_delay: Duration,
    /// How long the server may be silent.
    pub timeout: Duration,
}

/// Something that has happened at the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientInput {
    Connected,
    /// The first bytes of the reply.
    Header(FileHeader),
    /// So many more bytes of the file have come.
    Data {
        len: u64,
    },
    /// The server has closed the connection, or could not be reached.
    Disconnected {
        reason: String,
    },
    Storage(StorageReport),
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientTransmit {
    Connect,
    Disconnect,
    /// Do something with the copy. Of several things, in order.
    Storage(StorageTask),
}

/// The client. Call order: see the crate's documentation.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    state: State,
    /// How many tries have begun.
    tries: u32,
    header: Option<FileHeader>,
    /// Bytes of the file that have come.
    received: u64,
    last_heard: Instant,
    steps: VecDeque<Step<ClientTransmit, ClientEvent, ClientWait>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next try begins then.
    Pausing(Instant),
    Receiving,
    Hashing,
    Committing,
    Closed,
}

impl Client {
    pub fn new(config: ClientConfig) -> Self {
        Self {
            config,
            state: State::Pausing(Instant::ZERO),
            tries: 0,
            header: None,
            received: 0,
            last_heard: Instant::ZERO,
            steps: VecDeque::new(),
        }
    }

    pub fn handle(&mut self, now: Instant, input: ClientInput) {
        match (self.state, input) {
            (State::Receiving, ClientInput::Connected) => self.last_heard = now,
            (State::Receiving, ClientInput::Header(header)) => self.on_header(now, header),
            (State::Receiving, ClientInput::Data { len }) => self.on_data(now, len),
            (State::Receiving, ClientInput::Disconnected { reason }) => self.try_again(now, &reason),
            (State::Hashing, ClientInput::Storage(StorageReport::Hashed { hash })) => {
                self.on_hashed(now, hash)
            }
            (State::Committing, ClientInput::Storage(StorageReport::Committed)) => {
                self.state = State::Closed;
                self.steps.push_back(Step::Event(ClientEvent::Received { size: self.received }));
            }
            (State::Closed, _) => {}
            (_, ClientInput::Storage(StorageReport::Failed { reason })) => self.fail(reason),
            // What comes late from a try that is over.
            _ => {}
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<ClientTransmit, ClientEvent, ClientWait> {
        self.on_time(now);
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        match self.state {
            State::Pausing(until) => Step::Wait(Some(until), ClientWait::Retry),
            State::Receiving => Step::Wait(Some(self.last_heard + self.config.timeout), ClientWait::Server),
            State::Hashing | State::Committing => Step::Wait(None, ClientWait::Storage),
            State::Closed => Step::Wait(None, ClientWait::Closed),
        }
    }

    /// Size of the file, once known, and how much of it has come.
    pub fn progress(&self) -> (Option<u64>, u64) {
        (self.header.map(|header| header.file_size), self.received)
    }

    fn on_time(&mut self, now: Instant) {
        match self.state {
            State::Pausing(until) if now >= until => {
                self.state = State::Receiving;
                self.tries += 1;
                self.last_heard = now;
                (self.header, self.received) = (None, 0);
                self.transmit(ClientTransmit::Connect);
            }
            State::Receiving if now >= self.last_heard + self.config.timeout => {
                let timeout = self.config.timeout.as_secs_f64();
                self.try_again(now, &format!("the server has been silent for {timeout} s"));
            }
            _ => {}
        }
    }

    fn on_header(&mut self, now: Instant, header: FileHeader) {
        self.last_heard = now;
        self.header = Some(header);
        self.storage(StorageTask::Announce { size: header.file_size });
        self.hash_when_complete();
    }

    fn on_data(&mut self, now: Instant, len: u64) {
        let Some(header) = self.header else { return };
        self.last_heard = now;
        let end = self.received.saturating_add(len);
        if end > header.file_size {
            return self.try_again(now, "the server has sent more than it announced");
        }
        self.storage(StorageTask::Store { range: self.received..end });
        self.received = end;
        self.hash_when_complete();
    }

    fn hash_when_complete(&mut self) {
        if self.header.is_some_and(|header| header.file_size == self.received) {
            self.state = State::Hashing;
            self.transmit(ClientTransmit::Disconnect);
            self.storage(StorageTask::Hash);
        }
    }

    fn on_hashed(&mut self, now: Instant, hash: [u8; 32]) {
        if self.header.is_some_and(|header| header.hash == hash) {
            self.state = State::Committing;
            self.storage(StorageTask::Commit);
        } else {
            self.try_again(now, "the file's hash is wrong");
        }
    }

    fn try_again(&mut self, now: Instant, reason: &str) {
        if self.tries >= self.config.attempts {
            return self.fail(format!("{reason}, at the last of {} attempts", self.tries));
        }
        self.state = State::Pausing(now + self.config.retry_delay);
        self.transmit(ClientTransmit::Disconnect);
        self.storage(StorageTask::Discard);
    }

    fn fail(&mut self, reason: String) {
        self.state = State::Closed;
        self.transmit(ClientTransmit::Disconnect);
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
    const HEADER: FileHeader = FileHeader { file_size: 10, hash: [7; 32] };

    fn client() -> Client {
        Client::new(ClientConfig {
            attempts: 2,
            retry_delay: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
        })
    }

    fn transmits(client: &mut Client, now: Instant) -> Vec<ClientTransmit> {
        std::iter::from_fn(|| match client.poll(now) {
            Step::Transmit(transmit) => Some(transmit),
            Step::Event(_) | Step::Wait(..) => None,
        })
        .collect()
    }

    #[test]
    fn a_right_file_is_committed() {
        let mut client = client();
        assert_eq!(transmits(&mut client, NOW), [ClientTransmit::Connect]);
        client.handle(NOW, ClientInput::Connected);
        client.handle(NOW, ClientInput::Header(HEADER));
        client.handle(NOW, ClientInput::Data { len: 4 });
        client.handle(NOW, ClientInput::Data { len: 6 });
        let expected = [
            ClientTransmit::Storage(StorageTask::Announce { size: 10 }),
            ClientTransmit::Storage(StorageTask::Store { range: 0..4 }),
            ClientTransmit::Storage(StorageTask::Store { range: 4..10 }),
            ClientTransmit::Disconnect,
            ClientTransmit::Storage(StorageTask::Hash),
        ];
        assert_eq!(transmits(&mut client, NOW), expected);
        client.handle(NOW, ClientInput::Storage(StorageReport::Hashed { hash: [7; 32] }));
        assert_eq!(client.poll(NOW), Step::Transmit(ClientTransmit::Storage(StorageTask::Commit)));
        client.handle(NOW, ClientInput::Storage(StorageReport::Committed));
        assert_eq!(client.poll(NOW), Step::Event(ClientEvent::Received { size: 10 }));
    }

    #[test]
    fn a_wrong_hash_fetches_the_whole_again_and_then_fails() {
        let mut client = client();
        let mut now = NOW;
        for _ in 0..2 {
            assert_eq!(transmits(&mut client, now).last(), Some(&ClientTransmit::Connect));
            client.handle(now, ClientInput::Header(HEADER));
            client.handle(now, ClientInput::Data { len: 10 });
            client.handle(now, ClientInput::Storage(StorageReport::Hashed { hash: [8; 32] }));
            transmits(&mut client, now);
            now += Duration::from_secs(1);
        }
        assert_eq!(client.poll(now), Step::Wait(None, ClientWait::Closed));
    }

    #[test]
    fn a_commit_that_fails_is_a_failure() {
        let mut client = client();
        transmits(&mut client, NOW);
        client.handle(NOW, ClientInput::Header(FileHeader { file_size: 0, ..HEADER }));
        client.handle(NOW, ClientInput::Storage(StorageReport::Hashed { hash: [7; 32] }));
        assert_eq!(transmits(&mut client, NOW).last(), Some(&ClientTransmit::Storage(StorageTask::Commit)));
        let reason = "the folder is gone".to_owned();
        client.handle(NOW, ClientInput::Storage(StorageReport::Failed { reason: reason.clone() }));
        transmits(&mut client, NOW);
        assert_eq!(client.poll(NOW), Step::Wait(None, ClientWait::Closed), "{reason} was told");
    }

    #[test]
    fn a_silent_or_absent_server_is_tried_again_and_then_given_up() {
        let mut client = client();
        transmits(&mut client, NOW);
        client.handle(NOW, ClientInput::Disconnected { reason: "connection refused".into() });
        transmits(&mut client, NOW);
        let second = NOW + Duration::from_secs(1);
        assert_eq!(client.poll(NOW), Step::Wait(Some(second), ClientWait::Retry));
        assert_eq!(transmits(&mut client, second), [ClientTransmit::Connect]);
        let late = second + Duration::from_secs(10);
        assert_eq!(client.poll(second), Step::Wait(Some(late), ClientWait::Server));
        client.poll(late);
        client.poll(late);
        let reason = "the server has been silent for 10 s, at the last of 2 attempts".to_owned();
        assert_eq!(client.poll(late), Step::Event(ClientEvent::Failed { reason }));
    }

    #[test]
    fn more_than_was_announced_is_an_error() {
        let mut client = client();
        transmits(&mut client, NOW);
        client.handle(NOW, ClientInput::Header(HEADER));
        client.handle(NOW, ClientInput::Data { len: 11 });
        assert_eq!(transmits(&mut client, NOW).last(), Some(&ClientTransmit::Storage(StorageTask::Discard)));
    }

    #[test]
    fn the_server_serves_in_turn_and_turns_away_who_is_too_many() {
        let mut server = Server::new(ServerConfig { max_active: 1, max_waiting: 1 });
        let id = ConnectionId;
        for client in 0..3 {
            server.handle(NOW, ServerInput::Connected { client: id(client) });
        }
        assert_eq!(server.poll(NOW), Step::Transmit(ServerTransmit::Serve { client: id(0) }));
        assert_eq!(server.poll(NOW), Step::Transmit(ServerTransmit::Refuse { client: id(2) }));
        assert_eq!(server.poll(NOW), Step::Wait(None, ServerWait { active: 1, waiting: 1 }));
        server.handle(NOW, ServerInput::Finished { client: id(0), failure: None });
        assert_eq!(server.poll(NOW), Step::Event(ServerEvent::Served { client: id(0) }));
        assert_eq!(server.poll(NOW), Step::Transmit(ServerTransmit::Serve { client: id(1) }));
    }
}
