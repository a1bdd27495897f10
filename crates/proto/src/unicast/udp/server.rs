//! The UDP server: each client's requests one after the other, all clients in turn.
//!
//! A request of 16 bytes brings a whole file, and its source address may be forged. So the server keeps
//! for an address one queue of at most [`MAX_REQUESTS`], in which nothing stands twice, for a bounded
//! number of addresses; the caller bounds the rate of all replies together. Use it where the network
//! keeps strangers out: the paper's protocol has no handshake that would tell them.

use std::{collections::VecDeque, net::SocketAddr, ops::Range};

use treecast_wire::unicast::Request;

use super::MAX_REQUESTS;
use crate::{Instant, Step};

#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub file_size: u64,
    /// The most bytes of the file that one [`ServerTransmit`] covers: a multiple of the block length.
    pub max_run_len: u32,
    /// The most clients that are served in turn. The server passes over requests of others.
    pub max_clients: usize,
}

/// Something that has happened at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerInput {
    /// A request has come.
    Request { client: SocketAddr, request: Request },
    /// Packets do not reach this client.
    Unreachable { client: SocketAddr },
}

/// Asks the caller to read these bytes of the file and send them, a block in each packet. An empty file has no
/// bytes: then one packet without data is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTransmit {
    pub to: SocketAddr,
    pub range: Range<u64>,
}

/// Something that the server tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEvent {
    /// A client without requests has sent one.
    Active { client: SocketAddr },
    /// The last request of this client has been served.
    Idle { client: SocketAddr },
    /// A request of this client was passed over, because there are too many clients.
    Refused { client: SocketAddr },
}

/// The event that the server waits for: requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerWait;

/// The server. Call order: see the crate's documentation. While a client has requests it always has
/// something to send: the caller polls it as often as the rate allows.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    /// The clients, in the order of their turns.
    clients: VecDeque<Client>,
    /// The events that were not told yet. There is at most one for each input, besides one for each transmit.
    events: VecDeque<ServerEvent>,
}

#[derive(Debug)]
struct Client {
    address: SocketAddr,
    requests: VecDeque<Asked>,
}

#[derive(Debug)]
struct Asked {
    range: Range<u64>,
    /// The first byte that has not been sent.
    next: u64,
}

impl Server {
    pub fn new(config: ServerConfig) -> Self {
        Self { config, clients: VecDeque::new(), events: VecDeque::new() }
    }

    pub fn handle(&mut self, _now: Instant, input: ServerInput) {
        match input {
            ServerInput::Request { client, request } => self.on_request(client, request),
            ServerInput::Unreachable { client } => self.clients.retain(|known| known.address != client),
        }
    }

    pub fn poll(&mut self, _now: Instant) -> Step<ServerTransmit, ServerEvent, ServerWait> {
        if let Some(event) = self.events.pop_front() {
            return Step::Event(event);
        }
        let Some(mut client) = self.clients.pop_front() else {
            return Step::Wait(None, ServerWait);
        };
        let range = client.next_run(u64::from(self.config.max_run_len));
        let to = client.address;
        if client.requests.is_empty() {
            self.events.push_back(ServerEvent::Idle { client: to });
        } else {
            self.clients.push_back(client);
        }
        Step::Transmit(ServerTransmit { to, range })
    }

    /// Returns how many clients have requests.
    pub fn active(&self) -> usize {
        self.clients.len()
    }

    fn on_request(&mut self, address: SocketAddr, request: Request) {
        let range = request.range(self.config.file_size);
        if range.is_empty() && self.config.file_size > 0 {
            return;
        }
        let asked = Asked { next: range.start, range };
        if let Some(client) = self.clients.iter_mut().find(|client| client.address == address) {
            client.ask(asked);
        } else if self.clients.len() < self.config.max_clients {
            self.clients.push_back(Client { address, requests: VecDeque::from([asked]) });
            self.events.push_back(ServerEvent::Active { client: address });
        } else {
            self.events.push_back(ServerEvent::Refused { client: address });
        }
    }
}

impl Client {
    /// Queues a request, unless what it asks for stands in the queue already.
    fn ask(&mut self, asked: Asked) {
        let covers = |queued: &Asked| {
            queued.range == asked.range
                || (queued.next <= asked.range.start && asked.range.end <= queued.range.end)
        };
        if self.requests.len() < MAX_REQUESTS && !self.requests.iter().any(covers) {
            self.requests.push_back(asked);
        }
    }

    fn next_run(&mut self, max_len: u64) -> Range<u64> {
        let Some(asked) = self.requests.front_mut() else { return 0..0 };
        let start = asked.next;
        asked.next = start.saturating_add(max_len).min(asked.range.end);
        let run = start..asked.next;
        if asked.next == asked.range.end {
            self.requests.pop_front();
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn server(file_size: u64) -> Server {
        Server::new(ServerConfig { file_size, max_run_len: 40, max_clients: 2 })
    }

    fn client(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn ask(server: &mut Server, number: u16, start: u64, end: u64) {
        let request = Request::new(start, end).expect("a range");
        server.handle(NOW, ServerInput::Request { client: client(number), request });
    }

    fn sent(server: &mut Server) -> Vec<(u16, Range<u64>)> {
        let mut sent = Vec::new();
        loop {
            match server.poll(NOW) {
                Step::Transmit(ServerTransmit { to, range }) => sent.push((to.port(), range)),
                Step::Event(_) => {}
                Step::Wait(..) => return sent,
            }
        }
    }

    #[test]
    fn clients_take_turns_and_a_clients_requests_wait_for_each_other() {
        let mut server = server(100);
        ask(&mut server, 1, 0, 0);
        ask(&mut server, 2, 50, 60);
        ask(&mut server, 1, 0, 20);
        assert_eq!(
            sent(&mut server),
            [(1, 0..40), (2, 50..60), (1, 40..80), (1, 80..100)],
            "0..20 is queued already as a part of the whole file"
        );
    }

    #[test]
    fn what_has_been_sent_may_be_asked_for_again() {
        let mut server = server(100);
        ask(&mut server, 1, 0, 0);
        assert_eq!(server.poll(NOW), Step::Event(ServerEvent::Active { client: client(1) }));
        assert_eq!(server.poll(NOW), Step::Transmit(ServerTransmit { to: client(1), range: 0..40 }));
        ask(&mut server, 1, 10, 20);
        ask(&mut server, 1, 60, 70);
        ask(&mut server, 1, 0, 0);
        assert_eq!(sent(&mut server), [(1, 40..80), (1, 80..100), (1, 10..20)]);
    }

    #[test]
    fn clients_and_their_requests_are_bounded() {
        let mut server = server(1_000_000);
        for number in 0..3 {
            ask(&mut server, number, 0, 1);
        }
        assert_eq!(server.active(), 2);
        for start in 0..100 {
            ask(&mut server, 0, start * 2, start * 2 + 1);
        }
        let mut refused = 0;
        while let Step::Event(event) = server.poll(NOW) {
            refused += usize::from(event == ServerEvent::Refused { client: client(2) });
        }
        assert_eq!(refused, 1);
        assert_eq!(server.clients[1].requests.len() + server.clients[0].requests.len(), MAX_REQUESTS);
    }

    #[test]
    fn an_empty_file_is_one_packet_and_a_range_beyond_the_end_none() {
        let mut empty = server(0);
        ask(&mut empty, 1, 0, 0);
        assert_eq!(sent(&mut empty), [(1, 0..0)]);
        let mut server = server(10);
        ask(&mut server, 1, 10, 20);
        assert_eq!(sent(&mut server), []);
    }
}
