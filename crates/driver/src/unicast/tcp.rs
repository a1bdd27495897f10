//! The unicast server and client over TCP. The server has a thread for each client, and lets the kernel send
//! the file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use treecast_host::{
    folder,
    poller::{Interest, Poller},
    stop::Stop,
    wake::Waker,
};
use treecast_proto::{
    Instant, Step,
    unicast::{
        ClientEvent,
        tcp::{
            Client, ClientConfig, ClientInput, ClientTransmit, ConnectionId, Server, ServerConfig,
            ServerEvent as Told, ServerInput, ServerTransmit,
        },
    },
};
use treecast_wire::{message::Digest, unicast::FileHeader};

use super::{
    ATTEMPTS, ClientProgress, Next, ServerEvent, ServerSummary, UnicastError, bind_error,
    copy::{Copy, object},
    hash, open_again, outcome,
};
use crate::files::Source;

/// How many clients are served at once, and how many may wait for their turn.
const MAX_ACTIVE: usize = 256;
const MAX_WAITING: usize = 1024;

/// How long a client may take nothing, and a server send nothing.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before a client tries again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The most that one sendfile is asked for.
const SENDFILE_LEN: u64 = 1 << 30;

/// Serves the file at `path` to every client that connects, until `stop` is requested.
///
/// # Errors
/// If the file cannot be read, or the address cannot be used.
pub fn serve(
    path: &Path,
    address: SocketAddr,
    stop: &Stop,
    mut tell: impl FnMut(ServerEvent),
) -> Result<ServerSummary, UnicastError> {
    let mut source = Source::new(path)?;
    let Some(header) = hash(&mut source, stop)? else { return Ok(ServerSummary::default()) };
    let listener = TcpListener::bind(address).map_err(|error| bind_error(address, error))?;
    listener.set_nonblocking(true)?;
    let (finished, results) = mpsc::channel();
    let server = TcpServer {
        source,
        header,
        machine: Server::new(ServerConfig { max_active: MAX_ACTIVE, max_waiting: MAX_WAITING }),
        clients: BTreeMap::new(),
        next: 0,
        finished,
        results,
        waker: Waker::new()?,
        summary: ServerSummary::default(),
    };
    tell(ServerEvent::Ready { size: header.file_size, hash: Digest::unsigned(header.hash).to_string() });
    server.run(&listener, stop, &mut tell)
}

struct TcpServer {
    source: Source,
    header: FileHeader,
    machine: Server,
    clients: BTreeMap<ConnectionId, (TcpStream, SocketAddr)>,
    next: u64,
    finished: mpsc::Sender<(ConnectionId, io::Result<()>)>,
    results: mpsc::Receiver<(ConnectionId, io::Result<()>)>,
    waker: Waker,
    summary: ServerSummary,
}

impl TcpServer {
    fn run(
        mut self,
        listener: &TcpListener,
        stop: &Stop,
        tell: &mut impl FnMut(ServerEvent),
    ) -> Result<ServerSummary, UnicastError> {
        let mut poller = Poller::new()?;
        poller.add(listener, 0, Interest::Read)?;
        poller.add(&self.waker, 1, Interest::Read)?;
        poller.add(stop, 2, Interest::Read)?;
        while !stop.is_requested() {
            poller.wait(None, &mut Vec::new())?;
            self.waker.take();
            self.accept(listener, tell);
            while let Ok((client, result)) = self.results.try_recv() {
                let failure = result.err().map(|error| error.to_string());
                self.machine.handle(Instant::ZERO, ServerInput::Finished { client, failure });
                self.carry_out(tell)?;
            }
        }
        // Their threads end when nothing more can be written.
        for (stream, _) in self.clients.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(self.summary)
    }

    fn accept(&mut self, listener: &TcpListener, tell: &mut impl FnMut(ServerEvent)) {
        // Whatever accept says but a client is that client's affair, or passes.
        while let Ok((stream, from)) = listener.accept() {
            let client = ConnectionId(self.next);
            self.next += 1;
            self.clients.insert(client, (stream, from));
            self.machine.handle(Instant::ZERO, ServerInput::Connected { client });
            if let Err(error) = self.carry_out(tell) {
                tell(ServerEvent::Failed { client: from, reason: error.to_string() });
            }
        }
    }

    fn carry_out(&mut self, tell: &mut impl FnMut(ServerEvent)) -> Result<(), UnicastError> {
        loop {
            match self.machine.poll(Instant::ZERO) {
                Step::Transmit(ServerTransmit::Serve { client }) => self.start(client, tell)?,
                Step::Transmit(ServerTransmit::Refuse { client }) => {
                    self.end(client, Some("too many clients are waiting".into()), tell);
                }
                Step::Event(Told::Served { client }) => self.end(client, None, tell),
                Step::Event(Told::Failed { client, reason }) => self.end(client, Some(reason), tell),
                Step::Wait(..) => return Ok(()),
            }
        }
    }

    /// Starts the thread that writes header and file to one client.
    fn start(
        &mut self,
        client: ConnectionId,
        tell: &mut impl FnMut(ServerEvent),
    ) -> Result<(), UnicastError> {
        let Some((stream, from)) = self.clients.get(&client) else { return Ok(()) };
        tell(ServerEvent::Active { client: *from });
        let prepared = self
            .source
            .check_unchanged()
            .and_then(|()| open_again(&self.source))
            .map_err(io::Error::other)
            .and_then(|file| Ok((file, stream.try_clone()?)));
        let (finished, waker, header) = (self.finished.clone(), self.waker.clone(), self.header);
        let work = move || {
            let result = prepared.and_then(|(file, stream)| write_file(&stream, &file, header));
            // Nobody takes it when the server has ended.
            let _ = finished.send((client, result));
            waker.wake();
        };
        thread::Builder::new().name("client".into()).stack_size(128 * 1024).spawn(work)?;
        Ok(())
    }

    fn end(&mut self, client: ConnectionId, failure: Option<String>, tell: &mut impl FnMut(ServerEvent)) {
        let Some((_, from)) = self.clients.remove(&client) else { return };
        match failure {
            None => {
                self.summary.served += 1;
                tell(ServerEvent::Served { client: from });
            }
            Some(reason) => {
                self.summary.failed += 1;
                tell(ServerEvent::Failed { client: from, reason });
            }
        }
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
    mut tell: impl FnMut(ClientProgress),
) -> Result<ClientProgress, UnicastError> {
    let config = ClientConfig { attempts: ATTEMPTS, retry_delay: RETRY_DELAY, timeout: TIMEOUT };
    let mut client = TcpClient {
        server,
        machine: Client::new(config),
        copy: Copy::new(path, stop)?,
        stream: None,
        header: Vec::new(),
    };
    outcome(client.run(&mut tell), server)?;
    Ok(client.copy.progress)
}

struct TcpClient<'a> {
    server: SocketAddr,
    machine: Client,
    copy: Copy<'a>,
    stream: Option<TcpStream>,
    /// The first bytes of the reply, until they are a header.
    header: Vec<u8>,
}

impl TcpClient<'_> {
    fn run(&mut self, tell: &mut impl FnMut(ClientProgress)) -> Result<ClientEvent, UnicastError> {
        loop {
            let now = self.copy.now()?;
            for report in self.copy.reports() {
                self.machine.handle(now, ClientInput::Storage(report));
            }
            let place = (self.machine.progress().1, self.copy.batch().used());
            let came = self.receive();
            let has_come = came.is_some();
            if let Some(input) = came {
                self.machine.handle(now, input);
            }
            let next = self.carry_out(now, place)?;
            let ends = matches!(next, Next::End(_));
            self.copy.settle(now, 1, ends, self.machine.progress(), tell);
            match next {
                Next::End(event) => return Ok(event),
                Next::Wait(deadline) if !has_come => self.copy.wait(now, deadline)?,
                Next::Wait(_) => {}
            }
        }
    }

    /// Takes what the connection has, as far as it fits into the batch; none when nothing has come.
    fn receive(&mut self) -> Option<ClientInput> {
        let stream = self.stream.as_mut()?;
        let missing = FileHeader::LEN - self.header.len();
        let result = if missing > 0 {
            let mut bytes = [0; FileHeader::LEN];
            stream.read(&mut bytes[..missing]).inspect(|len| self.header.extend_from_slice(&bytes[..*len]))
        } else {
            self.copy.batch().read_block(object(), self.machine.progress().1, stream)
        };
        match result {
            Ok(0) => Some(disconnected("the server has closed the connection too early")),
            Ok(_) if missing > 0 => FileHeader::parse(&self.header).ok().map(ClientInput::Header),
            Ok(len) => Some(ClientInput::Data { len: len as u64 }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(disconnected(&error.to_string())),
        }
    }

    /// Does all that the machine wants.
    fn carry_out(&mut self, now: Instant, place: (u64, usize)) -> Result<Next, UnicastError> {
        loop {
            match self.machine.poll(now) {
                Step::Transmit(ClientTransmit::Connect) => self.connect(now),
                Step::Transmit(ClientTransmit::Disconnect) => self.stream = None,
                Step::Transmit(ClientTransmit::Storage(task)) => {
                    if let Some(report) = self.copy.carry_out(now, task, place)? {
                        self.machine.handle(now, ClientInput::Storage(report));
                    }
                }
                Step::Event(event) => return Ok(Next::End(event)),
                Step::Wait(deadline, _) => return Ok(Next::Wait(deadline)),
            }
        }
    }

    fn connect(&mut self, now: Instant) {
        self.copy.progress.requests += 1;
        self.header.clear();
        let connected = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT).and_then(|stream| {
            stream.set_nonblocking(true)?;
            self.copy.poller.add(&stream, 2, Interest::Read)?;
            Ok(stream)
        });
        let input = match connected {
            Ok(stream) => {
                self.stream = Some(stream);
                ClientInput::Connected
            }
            Err(error) => disconnected(&error.to_string()),
        };
        self.machine.handle(now, input);
    }
}

fn disconnected(reason: &str) -> ClientInput {
    ClientInput::Disconnected { reason: reason.to_owned() }
}
