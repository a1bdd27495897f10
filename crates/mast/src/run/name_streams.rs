//! DNS over TCP (RFC 7766): connections, each in a thread, that hand their requests to the program's loop.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use treecast_host::wake::Waker;

use super::{Error, doing};

/// The most connections at a time. Others are closed at once.
const MAX_CONNECTIONS: usize = 32;

/// The time that a connection has for a request, its answer included.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most requests of a connection.
const MAX_REQUESTS: usize = 100;

/// The wait after a connection could not be accepted, such as for lack of descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A request that came over a connection, which waits for the answer.
pub struct Request {
    pub bytes: Vec<u8>,
    pub from: IpAddr,
    reply: SyncSender<Option<Vec<u8>>>,
}

impl Request {
    /// Hands the answer to the connection. `None` closes it.
    pub fn answer(self, answer: Option<Vec<u8>>) {
        // The connection may have given up.
        _ = self.reply.try_send(answer);
    }
}

/// The state that all connections share.
#[derive(Clone)]
struct Shared {
    requests: SyncSender<Request>,
    waker: Waker,
    connections: Arc<AtomicUsize>,
}

/// The connections of all addresses.
pub struct Streams {
    requests: Receiver<Request>,
    waker: Waker,
}

impl Streams {
    /// Listens at the addresses.
    pub fn open(addresses: &[SocketAddr]) -> Result<Self, Error> {
        let waker = Waker::new().map_err(doing("cannot wait for connections"))?;
        let (sender, requests) = sync_channel(MAX_CONNECTIONS);
        let shared = Shared { requests: sender, waker: waker.clone(), connections: Arc::default() };
        for address in addresses {
            let listener = TcpListener::bind(address).map_err(doing(format!("cannot open TCP {address}")))?;
            let shared = shared.clone();
            let named = thread::Builder::new().name("dns".into());
            named.spawn(move || accept(&listener, &shared)).map_err(doing("cannot start a thread"))?;
        }
        Ok(Self { requests, waker })
    }

    /// The requests that have come.
    pub fn requests(&mut self) -> Vec<Request> {
        self.waker.take();
        self.requests.try_iter().take(MAX_CONNECTIONS).collect()
    }
}

impl AsFd for Streams {
    /// A descriptor that is readable when a request has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

fn accept(listener: &TcpListener, shared: &Shared) {
    loop {
        let Ok((stream, from)) = listener.accept() else {
            thread::sleep(AFTER_FAILURE);
            continue;
        };
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let theirs = shared.clone();
        let serve = move || {
            // A connection that fails has nobody to tell.
            _ = serve(stream, from.ip(), &theirs);
            theirs.connections.fetch_sub(1, Ordering::SeqCst);
        };
        if thread::Builder::new().name("dns connection".into()).spawn(serve).is_err() {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(mut stream: TcpStream, from: IpAddr, shared: &Shared) -> io::Result<()> {
    for _ in 0..MAX_REQUESTS {
        let end = Instant::now() + PATIENCE;
        let mut length = [0; 2];
        read_until(&mut stream, &mut length, end)?;
        let mut bytes = vec![0; u16::from_be_bytes(length).into()];
        read_until(&mut stream, &mut bytes, end)?;
        let (reply, answer) = sync_channel(1);
        let request = Request { bytes, from, reply };
        shared.requests.try_send(request).map_err(|_| io::ErrorKind::WouldBlock)?;
        shared.waker.wake();
        let answer = answer.recv_timeout(PATIENCE).ok().flatten().ok_or(io::ErrorKind::ConnectionAborted)?;
        let length = u16::try_from(answer.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())?;
    }
    Ok(())
}

/// Reads until a buffer is full, but not beyond a time: somebody who sends a byte now and then does not hold the connection.
fn read_until(stream: &mut TcpStream, buffer: &mut [u8], end: Instant) -> io::Result<()> {
    let mut at = 0;
    while at < buffer.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => at += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use treecast_host::poller::wait_readable;

    use super::*;

    #[test]
    fn a_request_is_handed_on_and_its_answer_comes_back() {
        // The port is free for the moment; nobody else asks for this one.
        let address = TcpListener::bind("[::1]:0").and_then(|listener| listener.local_addr()).unwrap();
        let mut streams = Streams::open(&[address]).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&[0, 3, 1, 2, 3]).unwrap();
        assert_eq!(wait_readable([Some(streams.as_fd())], Duration::from_secs(60)).unwrap(), [true]);
        for request in streams.requests() {
            assert_eq!(request.bytes, [1, 2, 3]);
            request.answer(Some(vec![9]));
        }
        let mut answer = [0; 3];
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0, 1, 9]);
    }

    #[test]
    fn too_many_connections_are_closed() {
        let address = TcpListener::bind("[::1]:0").and_then(|listener| listener.local_addr()).unwrap();
        let _streams = Streams::open(&[address]).unwrap();
        let mut held: Vec<TcpStream> =
            (0..=MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let last = held.last_mut().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(last.read(&mut [0]).ok(), Some(0));
    }
}
