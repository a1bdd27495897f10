//! The socket where a running daemon tells its state: to whoever connects, as one JSON text.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        linux::net::SocketAddrExt,
        unix::{
            fs::FileTypeExt,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Error, Status, sys::Poll};

/// The abstract name that stands for no path; each network namespace has its own (unix(7)).
const DEFAULT_NAME: &str = "treecast-mroute";

/// Answers that are being written at a time; one more, and the oldest is given up.
const MAX_CLIENTS: usize = 8;

/// The longest answer that is read.
const MAX_ANSWER_LEN: u64 = 64 << 20;

/// Asks the daemon of this network namespace, or the one that listens at `control`, what it knows.
///
/// # Errors
/// When none runs there, or does not answer within five seconds.
pub fn show(control: Option<&Path>) -> Result<Status, Error> {
    let address = address(control)?;
    let failed = |source| Error::Control { path: path_or_name(control), source };
    let stream = UnixStream::connect_addr(&address).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::NotRunning,
        _ => failed(error),
    })?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_LEN).read_to_end(&mut answer).map_err(failed)?;
    serde_json::from_slice(&answer).map_err(Error::Answer)
}

/// The daemon's side.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    /// To be removed at the end.
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
    pub fn listen(control: Option<&Path>, first_token: u64) -> Result<Self, Error> {
        let failed = |source| Error::Control { path: path_or_name(control), source };
        let address = address(control)?;
        let listener = match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_stale(control, &address) => {
                control.map_or(Ok(()), std::fs::remove_file).map_err(failed)?;
                UnixListener::bind_addr(&address)
            }
            other => other,
        };
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let path = control.map(Path::to_owned);
        Ok(Self { listener, path, clients: BTreeMap::new(), next_token: first_token })
    }

    /// Takes a connection that is waiting and answers it, as far as it takes the answer at once.
    pub fn accept(&mut self, poll: &Poll, status: impl FnOnce() -> Status) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        let answer = serde_json::to_vec(&status())?;
        let mut client = Client { stream, answer, written: 0 };
        if !client.write() {
            return Ok(());
        }
        if self.clients.len() >= MAX_CLIENTS {
            self.clients.pop_first();
        }
        poll.watch_writing(&client.stream, self.next_token)?;
        self.clients.insert(self.next_token, client);
        self.next_token += 1;
        Ok(())
    }

    /// Writes on to the client that is watched by this number, if it is still there.
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

impl AsRawFd for Server {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

fn address(control: Option<&Path>) -> Result<SocketAddr, Error> {
    let address = match control {
        Some(path) => SocketAddr::from_pathname(path),
        None => SocketAddr::from_abstract_name(DEFAULT_NAME),
    };
    address.map_err(|source| Error::Control { path: path_or_name(control), source })
}

/// Whether a path is the socket of a daemon that is no more.
fn is_stale(control: Option<&Path>, address: &SocketAddr) -> bool {
    let is_socket =
        |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    control.is_some_and(is_socket) && UnixStream::connect_addr(address).is_err_and(refused)
}

fn path_or_name(control: Option<&Path>) -> PathBuf {
    control.map_or_else(|| PathBuf::from(format!("@{DEFAULT_NAME}")), Path::to_owned)
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
        let server = Server::listen(Some(&path), 0).expect("nobody listens there any more");
        let error = Server::listen(Some(&path), 0).expect_err("somebody does").to_string();
        assert!(error.contains("in use"), "{error}");
        drop(server);
        assert!(!path.exists(), "it is removed at the end");

        std::fs::write(&path, "precious").expect("it can be written");
        Server::listen(Some(&path), 0).expect_err("there is a file");
        assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "precious");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
