//! The unicast server and client over TCP. The server has a thread for each client, and lets the kernel send
//! the file.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use treecast_host::{
    congestion, folder,
    poller::{Interest, Poller},
    stop::Stop,
    wake::Waker,
};
use treecast_proto::{
    Instant,
    unicast::{ClientEvent, StorageReport, StorageTask},
};
use treecast_wire::{message::Digest, unicast::FileHeader};

use super::{
    ATTEMPTS, ClientProgress, ServerEvent, ServerSummary, UnicastError, bind_error,
    copy::{Copy, object},
    hash, outcome,
};
use crate::{files::Source, udp::AtHand};

/// The number of clients that are served at once, and of those that may wait for their turn. Further ones are turned
/// away.
#[derive(Clone, Copy)]
struct Places {
    active: usize,
    waiting: usize,
}

const PLACES: Places = Places { active: 256, waiting: 1024 };

/// The patience of a client.
#[derive(Clone, Copy)]
struct Patience {
    /// The number of times that the whole file is tried.
    attempts: u32,
    /// The pause before the next attempt.
    retry_delay: Duration,
    /// The time for which the server may send nothing.
    timeout: Duration,
}

const PATIENCE: Patience =
    Patience { attempts: ATTEMPTS, retry_delay: Duration::from_secs(1), timeout: TIMEOUT };

/// The time for which a client may take nothing, and a server send nothing.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time that connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that the server waits, after it could not accept a client, until it tries again. It tries earlier when
/// another client's turn has ended.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// The most that one sendfile is asked for.
const SENDFILE_LEN: u64 = 1 << 30;

/// Serves the file at `path` to every client that connects, until `stop` is requested. `congestion` is the congestion control of
/// the connections; `None` is the kernel's own choice.
///
/// # Errors
/// If the file cannot be read, or the address cannot be used.
pub fn serve(
    path: &Path,
    address: SocketAddr,
    congestion: Option<&str>,
    stop: &Stop,
    mut tell: impl FnMut(ServerEvent),
) -> Result<ServerSummary, UnicastError> {
    let listener = TcpListener::bind(address).map_err(|error| bind_error(address, error))?;
    if let Some(name) = congestion {
        let refused = |source| UnicastError::Congestion {
            name: name.to_owned(),
            source,
            available: congestion::available(),
        };
        congestion::set(&listener, name).map_err(refused)?;
    }
    serve_at(path, &listener, PLACES, stop, &mut tell)
}

fn serve_at(
    path: &Path,
    listener: &TcpListener,
    places: Places,
    stop: &Stop,
    tell: &mut dyn FnMut(ServerEvent),
) -> Result<ServerSummary, UnicastError> {
    let mut source = Source::new(path)?;
    let Some(header) = hash(&mut source, stop)? else { return Ok(ServerSummary::default()) };
    listener.set_nonblocking(true)?;
    let (finished, results) = mpsc::channel();
    tell(ServerEvent::Ready { size: header.file_size, hash: Digest::unsigned(header.hash).to_string() });
    let server = TcpServer {
        source,
        header,
        places,
        waiting: VecDeque::new(),
        active: BTreeMap::new(),
        next: 0,
        finished,
        results,
        waker: Waker::new()?,
        summary: ServerSummary::default(),
        tell,
    };
    server.run(listener, stop)
}

struct TcpServer<'a> {
    source: Source,
    header: FileHeader,
    places: Places,
    /// Clients whose turn has not come, in the order in which they came.
    waiting: VecDeque<(TcpStream, SocketAddr)>,
    /// Clients that have a thread, by its number.
    active: BTreeMap<u64, (TcpStream, SocketAddr)>,
    next: u64,
    finished: mpsc::Sender<(u64, io::Result<()>)>,
    results: mpsc::Receiver<(u64, io::Result<()>)>,
    waker: Waker,
    summary: ServerSummary,
    tell: &'a mut dyn FnMut(ServerEvent),
}

impl TcpServer<'_> {
    fn run(mut self, listener: &TcpListener, stop: &Stop) -> Result<ServerSummary, UnicastError> {
        let mut poller = Poller::new()?;
        poller.add(listener, 0, Interest::Read)?;
        poller.add(&self.waker, 1, Interest::Read)?;
        poller.add(stop, 2, Interest::Read)?;
        let mut is_polled = true;
        while !stop.is_requested() {
            poller.wait((!is_polled).then_some(ACCEPT_AGAIN), &mut Vec::new())?;
            self.waker.take();
            while let Ok((number, result)) = self.results.try_recv() {
                if let Some((_, from)) = self.active.remove(&number) {
                    self.end(from, result.map_err(|error| error.to_string()));
                }
                self.start_waiting();
            }
            let accepts = self.accept_all(listener);
            match (accepts, is_polled) {
                (true, false) => poller.add(listener, 0, Interest::Read)?,
                // It stays readable, and would wake the server again and again.
                (false, true) => poller.remove(listener)?,
                _ => {}
            }
            is_polled = accepts;
        }
        // Their threads end when nothing more can be written.
        for (stream, _) in self.active.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(self.summary)
    }

    /// Accepts the clients that have come. Returns whether further ones can be accepted: there may be no descriptor left.
    fn accept_all(&mut self, listener: &TcpListener) -> bool {
        loop {
            match listener.accept() {
                Ok((stream, from)) => self.accept(stream, from),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return true,
                    // That client's affair.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return false,
                },
            }
        }
    }

    fn accept(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.waiting.len() < self.places.waiting {
            self.waiting.push_back((stream, from));
            self.start_waiting();
        } else {
            self.end(from, Err("too many clients are waiting".into()));
        }
    }

    /// Serves those who wait, as far as there is a place.
    fn start_waiting(&mut self) {
        while self.active.len() < self.places.active
            && let Some((stream, from)) = self.waiting.pop_front()
        {
            (self.tell)(ServerEvent::Active { client: from });
            match self.start(&stream) {
                Ok(number) => _ = self.active.insert(number, (stream, from)),
                Err(error) => self.end(from, Err(error.to_string())),
            }
        }
    }

    /// Starts the thread that writes header and file to one client. Returns its number.
    fn start(&mut self, stream: &TcpStream) -> io::Result<u64> {
        self.source.check_unchanged().map_err(io::Error::other)?;
        let file = self.source.open().map_err(io::Error::other)?;
        let stream = stream.try_clone()?;
        let (number, finished, waker, header) =
            (self.next, self.finished.clone(), self.waker.clone(), self.header);
        self.next += 1;
        let work = move || {
            let result = write_file(&stream, &file, header);
            // Nobody takes it when the server has ended.
            let _ = finished.send((number, result));
            waker.wake();
        };
        // `sendfile` has no flag that keeps SIGPIPE away. The thread blocks it.
        let small = thread::Builder::new().stack_size(128 * 1024);
        treecast_host::thread::spawn_with(small, "client", work)?;
        Ok(number)
    }

    fn end(&mut self, client: SocketAddr, result: Result<(), String>) {
        (self.tell)(match result {
            Ok(()) => {
                self.summary.served += 1;
                ServerEvent::Served { client }
            }
            Err(reason) => {
                self.summary.failed += 1;
                ServerEvent::Failed { client, reason }
            }
        });
    }
}

/// Writes header and file, and waits until the client has closed, so that all of it has arrived.
fn write_file(mut stream: &TcpStream, file: &File, header: FileHeader) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&header.to_bytes())?;
    let mut offset = 0;
    while offset < header.file_size {
        let len = (header.file_size - offset).min(SENDFILE_LEN) as usize;
        match folder::send_file(stream, file, &mut offset, len) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it has taken nothing for 60 s"));
            }
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    match stream.read(&mut [0]) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}

/// Fetches the file from `server`, and stores it at `path`.
///
/// # Errors
/// If it cannot be fetched or stored. Nothing new is at `path` then.
pub fn fetch(
    path: &Path,
    server: SocketAddr,
    stop: &Stop,
    tell: impl FnMut(ClientProgress),
) -> Result<ClientProgress, UnicastError> {
    fetch_with(PATIENCE, path, server, stop, tell)
}

fn fetch_with(
    patience: Patience,
    path: &Path,
    server: SocketAddr,
    stop: &Stop,
    tell: impl FnMut(ClientProgress),
) -> Result<ClientProgress, UnicastError> {
    let copy = Copy::new(path, stop)?;
    let mut client = TcpClient { server, patience, copy, file_size: None, received: 0, report: None, tell };
    outcome(client.run(), server)?;
    Ok(client.copy.progress)
}

struct TcpClient<'a, T> {
    server: SocketAddr,
    patience: Patience,
    copy: Copy<'a>,
    /// Size of the file, once this attempt knows it.
    file_size: Option<u64>,
    /// Bytes of the file that have come in this attempt.
    received: u64,
    /// The report that storing has made last.
    report: Option<StorageReport>,
    tell: T,
}

/// The reason why an attempt has ended without the file.
enum Ended {
    /// Another attempt may do better.
    Again(String),
    /// No other attempt can do better.
    Failed(String),
    /// The client cannot go on.
    Error(UnicastError),
}

impl From<UnicastError> for Ended {
    fn from(error: UnicastError) -> Self {
        Self::Error(error)
    }
}

const TOO_MUCH: &str = "the server has sent more than it announced";

/// Judges what reading from the connection has returned: how many bytes have come, or `None` if there is nothing yet.
fn come(read: io::Result<usize>) -> Result<Option<usize>, Ended> {
    match read {
        Ok(0) => Err(Ended::Again("the server has closed the connection too early".into())),
        Ok(len) => Ok(Some(len)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(Ended::Again(error.to_string())),
    }
}

impl<T: FnMut(ClientProgress)> TcpClient<'_, T> {
    fn run(&mut self) -> Result<ClientEvent, UnicastError> {
        let mut attempt = 1;
        let event = loop {
            match self.attempt() {
                Ok(size) => break ClientEvent::Received { size },
                Err(Ended::Error(error)) => return Err(error),
                Err(Ended::Failed(reason)) => break ClientEvent::Failed { reason },
                Err(Ended::Again(reason)) if attempt >= self.patience.attempts => {
                    let reason = format!("{reason}, at the last of {attempt} attempts");
                    break ClientEvent::Failed { reason };
                }
                Err(Ended::Again(_)) => {}
            }
            attempt += 1;
            self.store(StorageTask::Discard)?;
            let pause = self.copy.now()? + self.patience.retry_delay;
            match self.wait_for(Some(pause), |_| Ok(None::<()>)) {
                Err(Ended::Failed(reason)) => break ClientEvent::Failed { reason },
                Err(Ended::Error(error)) => return Err(error),
                Err(Ended::Again(_)) | Ok(()) => {}
            }
        };
        if matches!(event, ClientEvent::Failed { .. }) {
            self.store(StorageTask::Discard)?;
        }
        let now = self.copy.now()?;
        self.settle(now, true);
        Ok(event)
    }

    /// Gets the whole file once. Returns its size.
    fn attempt(&mut self) -> Result<u64, Ended> {
        (self.file_size, self.received) = (None, 0);
        self.copy.progress.requests += 1;
        let mut stream = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT)
            .and_then(|stream| {
                stream.set_nonblocking(true)?;
                self.copy.poller.add(&stream, 2, Interest::Read)?;
                Ok(stream)
            })
            .map_err(|error| Ended::Again(error.to_string()))?;
        let (mut bytes, mut have) = ([0; FileHeader::LEN], 0);
        while have < FileHeader::LEN {
            have += self.read(|_| come(stream.read(&mut bytes[have..])))?;
        }
        let header = FileHeader::parse(&bytes).map_err(|error| Ended::Again(error.to_string()))?;
        self.file_size = Some(header.file_size);
        self.store(StorageTask::Announce { size: header.file_size })?;
        while self.received < header.file_size {
            self.read(|client| client.take_data(&mut stream, header.file_size))?;
        }
        self.read(|_| match stream.read(&mut [0]) {
            Ok(0) => Ok(Some(0)),
            Ok(_) => Err(Ended::Again(TOO_MUCH.into())),
            read => come(read),
        })?;
        drop(stream);
        self.store(StorageTask::Hash)?;
        if self.wait_for(None, |client| Ok(client.report.take()))?
            != (StorageReport::Hashed { hash: header.hash })
        {
            return Err(Ended::Again("the file's hash is wrong".into()));
        }
        self.store(StorageTask::Commit)?;
        self.wait_for(None, |client| Ok(client.report.take()))?;
        Ok(header.file_size)
    }

    /// Reads what the connection has of the file, as far as it fits into the batch. Returns how many bytes that is, and
    /// `None` if there is nothing yet.
    fn take_data(&mut self, stream: &mut TcpStream, file_size: u64) -> Result<Option<usize>, Ended> {
        let (now, start, at) = (self.copy.time(), self.received, self.copy.batch().used());
        let Some(len) = come(self.copy.batch().read_block(object(), start, stream))? else { return Ok(None) };
        let end = start + len as u64;
        if end > file_size {
            return Err(Ended::Again(TOO_MUCH.into()));
        }
        self.copy.carry_out(now, StorageTask::Store { range: start..end }, Some(AtHand { start, at }))?;
        self.received = end;
        Ok(Some(len))
    }

    /// Calls `read` until it returns a number. Gives up when the server has been silent for too long.
    fn read(&mut self, read: impl FnMut(&mut Self) -> Result<Option<usize>, Ended>) -> Result<usize, Ended> {
        let deadline = self.copy.now()? + self.patience.timeout;
        self.wait_for(Some(deadline), read)
    }

    /// Calls `take` whenever something may have come, until it has something or the deadline has come.
    fn wait_for<R>(
        &mut self,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Self) -> Result<Option<R>, Ended>,
    ) -> Result<R, Ended> {
        loop {
            let now = self.copy.now()?;
            for report in self.copy.reports() {
                match report {
                    StorageReport::Failed { reason } => return Err(Ended::Failed(reason)),
                    report => self.report = Some(report),
                }
            }
            let taken = take(self)?;
            self.settle(now, false);
            if let Some(taken) = taken {
                return Ok(taken);
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                let timeout = self.patience.timeout.as_secs_f64();
                return Err(Ended::Again(format!("the server has been silent for {timeout} s")));
            }
            self.copy.wait(now, deadline).map_err(UnicastError::from)?;
        }
    }

    fn store(&mut self, task: StorageTask) -> Result<(), UnicastError> {
        self.copy.carry_out(self.copy.time(), task, None)
    }

    fn settle(&mut self, now: Instant, ends: bool) {
        self.copy.settle(now, 1, ends, (self.file_size, self.received), &mut self.tell);
    }
}

#[cfg(test)]
mod tests;
