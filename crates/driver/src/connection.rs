//! A control connection: packets of the session, one behind the other, over TCP.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use treecast_wire::{
    ParseError,
    header::{HEADER_LEN, Header},
};

/// Output beyond this is not accepted before some is written: what one connection may hold in memory.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// How long the other side may stay silent on the TCP level before the connection counts as lost: twice the time
/// that the sender gives a receiver which has stopped, so that this is told first. With 20 s and a probe every 5 s,
/// 20 % loss each way would end one idle connection in 20, that of a receiver that only waits for the others:
/// a probe gets no answer with probability 0.36, and three were enough.
const LOST_AFTER: Duration = Duration::from_secs(120);

/// How often an idle connection is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Why a connection is of no more use.
#[derive(Debug, Error)]
pub enum ConnectionError {
    #[error("the other side closed the connection")]
    Closed,
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("the other side does not speak treecast's protocol ({0})")]
    Protocol(#[from] ParseError),
}

/// A nonblocking connection with its input and output buffers.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    max_payload: usize,
    input: Vec<u8>,
    /// Where in `input` the next packet starts.
    parsed: usize,
    output: Vec<u8>,
    written: usize,
}

impl Connection {
    /// Takes over a stream. No packet with a longer payload than `max_payload` is accepted on it.
    ///
    /// # Errors
    /// When the stream is gone already.
    pub fn new(stream: TcpStream, max_payload: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive =
            TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL).with_retries(12);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(LOST_AFTER))?;
        let peer = stream.peer_addr()?;
        Ok(Self { stream, peer, max_payload, input: Vec::new(), parsed: 0, output: Vec::new(), written: 0 })
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads what is there, up to one packet of the longest kind beyond what is unparsed. Returns
    /// whether there may be more.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn read(&mut self) -> Result<bool, ConnectionError> {
        self.input.drain(..self.parsed);
        self.parsed = 0;
        let kept = self.input.len();
        self.input.resize((HEADER_LEN + self.max_payload).max(kept + 1), 0);
        let result = self.stream.read(&mut self.input[kept..]);
        let count = *result.as_ref().unwrap_or(&0);
        self.input.truncate(kept + count);
        match result {
            Ok(0) => Err(ConnectionError::Closed),
            Ok(_) => Ok(true),
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next packet that is there whole.
    ///
    /// # Errors
    /// When what came in is no packet.
    pub fn next_packet(&mut self) -> Result<Option<(Header, &[u8])>, ConnectionError> {
        let unparsed = &self.input[self.parsed..];
        if unparsed.len() < HEADER_LEN {
            return Ok(None);
        }
        let header = Header::parse(unparsed)?;
        let len = header.payload_len as usize;
        if len > self.max_payload {
            let refused = ParseError::invalid("payload length", len, "a message's length");
            return Err(refused.into());
        }
        let Some(payload) = unparsed[HEADER_LEN..].get(..len) else { return Ok(None) };
        self.parsed += HEADER_LEN + len;
        Ok(Some((header, payload)))
    }

    /// Whether more may be queued.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written < MAX_OUTPUT_BYTES
    }

    /// Whether something is queued.
    pub fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    /// Queues bytes.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Queues `len` bytes that `fill` writes; nothing when it fails.
    pub fn queue_with<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.output.len();
        self.output.resize(start + len, 0);
        fill(&mut self.output[start..]).inspect_err(|_| self.output.truncate(start))
    }

    /// Writes what the connection takes now. Returns whether all is written.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn flush(&mut self) -> Result<bool, ConnectionError> {
        while self.has_output() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_temporary(&error) => {
                    self.compact();
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(true)
    }

    /// Forgets what is queued.
    pub fn discard_output(&mut self) {
        self.output.clear();
        self.written = 0;
    }

    /// Says that nothing more will be written.
    pub fn finish(&self) {
        // The other side may have closed before; then nothing is left to say.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    fn compact(&mut self) {
        if self.written >= MAX_OUTPUT_BYTES / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use treecast_wire::{
        header::FileId,
        message::{Message, Reason},
    };

    use super::*;

    fn pair() -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (near, Connection::new(far, 1024).unwrap())
    }

    fn read_until<T>(
        connection: &mut Connection,
        mut get: impl FnMut(&mut Connection) -> Option<T>,
    ) -> Result<T, ConnectionError> {
        for _ in 0..5000 {
            if !connection.read()? {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(found) = get(connection) {
                return Ok(found);
            }
        }
        panic!("nothing came in");
    }

    #[test]
    fn packets_are_found_however_they_are_cut() {
        let (mut near, mut connection) = pair();
        let message = Message::Failed(Reason::new("because"));
        let bytes = message.to_packet(FileId(3)).repeat(2);
        for byte in &bytes {
            near.write_all(&[*byte]).unwrap();
        }
        let mut found = 0;
        read_until(&mut connection, |connection| {
            while let Some((header, payload)) = connection.next_packet().unwrap() {
                assert_eq!(Message::parse(&header, payload), Ok(message.clone()));
                found += 1;
            }
            (found == 2).then_some(())
        })
        .unwrap();
        drop(near);
        let end = read_until(&mut connection, |_| None::<()>).unwrap_err();
        assert!(matches!(end, ConnectionError::Closed), "{end}");
    }

    #[test]
    fn what_is_no_packet_or_too_long_is_refused() {
        for bytes in [vec![b'G'; 40], Message::Failed(Reason::new("x")).to_packet(FileId(0))] {
            let (mut near, mut connection) = pair();
            connection.max_payload = 0;
            near.write_all(&bytes).unwrap();
            let error = read_until(&mut connection, |connection| connection.next_packet().err()).unwrap();
            assert!(matches!(error, ConnectionError::Protocol(_)), "{error}");
        }
    }
}
