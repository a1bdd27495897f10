//! Answering strangers: each connection gets one answer and is closed.
//!
//! Whoever connects may say nothing, too much, or not read. So there are at most [`MAX_CONNECTIONS`] at a time, each
//! for [`PATIENCE`] at most, with [`MAX_REQUEST_LEN`] bytes of request; the oldest makes room for a new one; and no more
//! are taken than one every [`ACCEPT_INTERVAL`]. All that is on a thread of its own.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use socket2::Socket;
use treecast_host::{
    poller::{Interest, Poller, Ready},
    stream::Quiet,
    wake::Waker,
};

/// Request for a session's snapshot.
pub(super) const STATUS: &str = "status\n";

/// Answer to an order that the session carries out.
pub(super) const OK: &str = "ok";

/// Beginning of the answer to an order that the session refuses. The reason follows.
pub(super) const REFUSED: &str = "refused: ";

const MAX_CONNECTIONS: usize = 16;
const MAX_REQUEST_LEN: usize = 8 * 1024;
const PATIENCE: Duration = Duration::from_secs(3);
const ACCEPT_INTERVAL: Duration = Duration::from_millis(2);

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// The answer to the bytes that a client has sent. `None` while more of them are needed.
pub(crate) type Answer = Box<dyn FnMut(&[u8]) -> Option<Arc<[u8]>> + Send>;

/// The thread that answers. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Answerer {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Answerer {
    /// Starts a thread that answers whoever connects to `listener`.
    ///
    /// # Errors
    /// If no thread or descriptor is available.
    pub fn start(listener: impl Into<Socket>, answer: Answer) -> io::Result<Self> {
        let listener = listener.into();
        listener.set_nonblocking(true)?;
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        poller.add(&listener, LISTENER, Interest::Read)?;
        poller.add(&waker, WAKER, Interest::Read)?;
        let counter = Counter {
            listener,
            answer,
            poller,
            waker: waker.clone(),
            connections: BTreeMap::new(),
            next_token: FIRST_CONNECTION,
        };
        let thread = treecast_host::thread::spawn("answers", move || counter.run())?;
        Ok(Self { waker, thread: Some(thread) })
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.waker.wake();
        // It has told of its own panic.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The counter at which clients queue up.
struct Counter {
    listener: Socket,
    answer: Answer,
    poller: Poller,
    waker: Waker,
    connections: BTreeMap<u64, Connection>,
    next_token: u64,
}

struct Connection {
    stream: Socket,
    deadline: Instant,
    request: Vec<u8>,
    /// The answer. `None` until the request is whole.
    answer: Option<Arc<[u8]>>,
    written: usize,
}

impl Counter {
    fn run(mut self) {
        let mut ready = Vec::new();
        // Without the kernel's word on who waits there is nobody to answer.
        while self.poller.wait(self.timeout(), &mut ready).is_ok() && !self.waker.take() {
            for event in std::mem::take(&mut ready) {
                self.handle(event);
            }
            let now = Instant::now();
            self.connections.retain(|_, connection| connection.deadline > now);
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let deadlines = self.connections.values().map(|connection| connection.deadline);
        deadlines.min().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn handle(&mut self, event: Ready) {
        match event.token {
            WAKER => {}
            LISTENER => {
                self.accept();
                std::thread::sleep(ACCEPT_INTERVAL);
            }
            token => self.serve(token),
        }
    }

    fn accept(&mut self) {
        // One that is gone before it is taken, or for which no descriptor is left, gets no answer.
        let Ok((stream, _)) = self.listener.accept() else { return };
        if self.connections.len() >= MAX_CONNECTIONS {
            self.connections.pop_first();
        }
        let token = self.next_token;
        self.next_token += 1;
        let is_ready =
            stream.set_nonblocking(true).and_then(|()| self.poller.add(&stream, token, Interest::Read));
        if is_ready.is_ok() {
            let deadline = Instant::now() + PATIENCE;
            let connection = Connection { stream, deadline, request: Vec::new(), answer: None, written: 0 };
            self.connections.insert(token, connection);
            self.serve(token);
        }
    }

    fn serve(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let goes_on = match connection.advance(&mut self.answer) {
            Ok(is_writing) => {
                let interest = if is_writing { Interest::ReadWrite } else { Interest::Read };
                self.poller.modify(&connection.stream, token, interest).is_ok()
            }
            Err(_) => false,
        };
        if !goes_on {
            self.connections.remove(&token);
        }
    }
}

impl Connection {
    /// Goes on as far as it can without waiting. Returns whether it waits to write; an error ends it.
    fn advance(&mut self, answer: &mut Answer) -> io::Result<bool> {
        if self.answer.is_none() {
            let is_over = self.read()?;
            self.answer = answer(&self.request);
            if self.answer.is_none() && (is_over || self.request.len() >= MAX_REQUEST_LEN) {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let Some(answer) = &self.answer else { return Ok(false) };
        while self.written < answer.len() {
            match Quiet(&self.stream).write(&answer[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads what is there; true when no more will come.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        while self.request.len() < MAX_REQUEST_LEN {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => self.request.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers whoever says a line.
    fn start() -> (Answerer, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let large: Arc<[u8]> = vec![b'x'; 3_000_000].into();
        let answer = move |request: &[u8]| request.ends_with(b"\n").then(|| Arc::clone(&large));
        (Answerer::start(listener, Box::new(answer)).unwrap(), address)
    }

    fn ask(address: std::net::SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"hello\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer.len()
    }

    #[test]
    fn who_says_nothing_or_does_not_read_keeps_nobody_out() {
        let (answerer, address) = start();
        let mut strangers = Vec::new();
        for _ in 0..3 * MAX_CONNECTIONS {
            strangers.push(TcpStream::connect(address).unwrap());
            let mut deaf = TcpStream::connect(address).unwrap();
            deaf.write_all(b"\n").unwrap();
            strangers.push(deaf);
        }
        assert_eq!(ask(address), 3_000_000);
        drop(answerer);
        // A child that another test forks has a copy of the listening socket until its `exec`.
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < end, "it ends while they are there");
        }
    }

    #[test]
    fn who_says_too_much_is_cut_off() {
        let (_answerer, address) = start();
        let mut stream = TcpStream::connect(address).unwrap();
        let sent = (0..100_000).take_while(|_| stream.write_all(&[b'x'; 1024]).is_ok()).count();
        assert!(sent < 100_000);
        assert_eq!(ask(address), 3_000_000);
    }
}
