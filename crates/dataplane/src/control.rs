//! The control socket, at which a running daemon can be asked: each connection is answered with one JSON text.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::{
            fs::FileTypeExt,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use treecast_host::{
    poller::{Interest, Poller},
    unix::{Peer, connect_at_once, peer},
};

/// Answers that are being written at a time; one more, and the oldest is given up.
const MAX_CLIENTS: usize = 8;

/// The longest answer that is read.
const MAX_ANSWER_LEN: u64 = 64 << 20;

/// The error message of a daemon that can no longer wait for its descriptors.
pub const WAIT: &str = "cannot wait for the network";

/// The tokens under which every daemon waits for changes of the network, for its control socket, for signals, and for clients
/// of the control socket. Between [`SIGNALS`] and [`FIRST_CLIENT`] are those of a daemon's own.
pub const MONITOR: u64 = 0;
pub const CONTROL: u64 = 1;
pub const SIGNALS: u64 = 2;
pub const FIRST_CLIENT: u64 = 16;

/// The error that a control socket could not be used, with its path, or its abstract name after an `@`.
#[derive(Debug)]
pub struct Failure {
    pub path: PathBuf,
    pub source: io::Error,
}

impl Failure {
    /// Whether the reason is that no daemon listens there.
    pub fn is_nobody(&self) -> bool {
        matches!(self.source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
    }
}

/// The place at which a daemon listens.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The abstract name that is used when no path is given. Each network namespace has its own (unix(7)).
    pub name: &'static str,
    pub path: Option<&'a Path>,
}

impl Place<'_> {
    /// Sends `request`, if there is one, to the daemon that listens here, and returns its answer.
    ///
    /// # Errors
    /// If no daemon listens, or it does not answer within five seconds.
    pub fn ask(self, request: Option<&str>) -> Result<Vec<u8>, Failure> {
        let asked = || {
            let mut stream = self.connect()?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            if let Some(request) = request {
                // A daemon that does not listen to this user answers at once, and may be gone already.
                let _ = stream.write_all(request.as_bytes());
                let _ = stream.shutdown(Shutdown::Write);
            }
            let mut answer = Vec::new();
            match stream.take(MAX_ANSWER_LEN).read_to_end(&mut answer) {
                // It has answered and not listened.
                Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => Ok(answer),
                Err(error) => Err(error),
                Ok(_) => Ok(answer),
            }
        };
        asked().map_err(self.failed())
    }

    /// Returns the process that listens here.
    ///
    /// # Errors
    /// If no process listens.
    pub fn server(self) -> Result<Peer, Failure> {
        let peer = || peer(&self.connect()?);
        peer().map_err(self.failed())
    }

    /// Connects without waiting. Any user may have taken the abstract name, and accept no connections.
    fn connect(self) -> io::Result<UnixStream> {
        if let Some(path) = self.path { UnixStream::connect(path) } else { connect_at_once(self.name) }
    }

    fn address(self) -> io::Result<SocketAddr> {
        match self.path {
            Some(path) => SocketAddr::from_pathname(path),
            None => SocketAddr::from_abstract_name(self.name),
        }
    }

    fn failed(self) -> impl FnOnce(io::Error) -> Failure {
        let path = self.path.map_or_else(|| PathBuf::from(format!("@{}", self.name)), Path::to_owned);
        move |source| Failure { path, source }
    }

    /// Whether a path is the socket of a daemon that is no more.
    fn is_stale(self) -> bool {
        let is_socket =
            |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
        let connected = || self.address().and_then(|address| UnixStream::connect_addr(&address));
        self.path.is_some_and(is_socket) && connected().is_err_and(refused)
    }

    fn bind(self) -> io::Result<UnixListener> {
        let address = self.address()?;
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && self.is_stale() => {
                self.path.map_or(Ok(()), std::fs::remove_file)?;
                UnixListener::bind_addr(&address)
            }
            other => other,
        }
    }
}

/// The daemon's end of the control socket.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    /// The path of a socket that is to be removed at the end.
    path: Option<PathBuf>,
    clients: BTreeMap<u64, Client>,
    next_token: u64,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    answer: Vec<u8>,
    written: usize,
}

impl Server {
    /// Begins to listen. Clients are watched by `first_token` and the numbers that follow it.
    pub fn listen(place: Place<'_>, first_token: u64) -> Result<Self, Failure> {
        let listening = || {
            let listener = place.bind()?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listening().map_err(place.failed())?;
        let path = place.path.map(Path::to_owned);
        Ok(Self { listener, path, clients: BTreeMap::new(), next_token: first_token })
    }

    /// Accepts a waiting connection and writes the answer, as much of it as the connection takes at once.
    pub fn accept(
        &mut self,
        poll: &Poller,
        answer: impl FnOnce(&mut UnixStream) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let mut stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let answer = answer(&mut stream)?;
        stream.set_nonblocking(true)?;
        let mut client = Client { stream, answer, written: 0 };
        if !client.write() {
            return Ok(());
        }
        if self.clients.len() >= MAX_CLIENTS {
            self.clients.pop_first();
        }
        poll.add(&client.stream, self.next_token, Interest::ReadWrite)?;
        self.clients.insert(self.next_token, client);
        self.next_token += 1;
        Ok(())
    }

    /// Writes more of the answer to the client with this number, if it is still connected.
    pub fn write(&mut self, token: u64) {
        if let Some(client) = self.clients.get_mut(&token)
            && !client.write()
        {
            self.clients.remove(&token);
        }
    }
}

impl Client {
    /// Writes what the other side takes. Returns whether there is more, and somebody to take it.
    fn write(&mut self) -> bool {
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If it is gone already, all the better.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_left_behind_is_replaced_and_a_file_is_not() {
        let folder = std::env::temp_dir().join(format!("treecast-control-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of its own");
        let path = folder.join("socket");
        drop(UnixListener::bind(&path).expect("it can be bound"));
        let place = Place { name: "treecast-test", path: Some(&path) };
        let server = Server::listen(place, 0).expect("nobody listens there any more");
        let error = Server::listen(place, 0).expect_err("somebody does").source.to_string();
        assert!(error.contains("in use"), "{error}");
        drop(server);
        assert!(!path.exists(), "it is removed at the end");

        std::fs::write(&path, "precious").expect("it can be written");
        Server::listen(place, 0).expect_err("there is a file");
        assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "precious");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
