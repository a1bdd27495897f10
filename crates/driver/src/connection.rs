//! A control connection: packets of the session, one behind the other, over TLS on TCP, or in a plain session over TCP.

mod pulse;
mod secure;

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use treecast_proto::Instant;
use treecast_wire::{
    ParseError,
    header::{HEADER_LEN, Header},
};

use crate::security::{
    PublicKey,
    tls::{ReceiverTls, SenderTls, TlsError},
};
use pulse::Pulse;
use secure::Secure;
use treecast_host::{option, stream::Quiet, tcp_info};
pub use treecast_proto::policy::KEEPALIVE;

/// Output beyond this is not accepted before some is written: what one connection may hold in memory.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// The most reads of one call of [`Connection::part`], each of up to one packet of the longest kind.
const PARTING_READS: usize = 64;

/// The first bytes of a TLS alert (RFC 8446, 5.1). A secure sender answers with one if it is taken for a plain one.
const TLS_ALERT: [u8; 2] = [21, 3];

/// The time that the other side may stay silent on the TCP level before the connection counts as lost. It is as long
/// as the sender gives a receiver that says nothing. With 20 s and a probe every 5 s, 20 % loss each way would end
/// one idle connection in 20, that of a receiver that only waits for the others: a probe gets no answer with
/// probability 0.36, and three were enough.
const LOST_AFTER: Duration = Duration::from_secs(120);

/// The longest segment of a control connection, in bytes: what an IPv6 packet of 1,500 bytes has room for.
const MAX_SEGMENT_BYTES: u32 = 1_440;

/// Time between two probes of an idle connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// The longest that the kernel waits until it sends again what was lost. It doubles its wait with each loss in a row
/// (RFC 6298, 5.5): at 30 % loss, one of some hundred connections stands still for half a minute. What is lost on the
/// way of the group's bytes is requests of a few packets, which stopping does not make fewer.
const RETRANSMISSION_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// `TCP_RTO_MAX_MS` in Linux's `tcp.h`, since Linux 6.15: a second at least.
const TCP_RTO_MAX_MS: i32 = 44;

/// The shortest that the kernel waits until it sends again what was lost, where nothing follows that tells it sooner. The
/// last word on a file does not wait for 200 ms, Linux's own minimum, when a packet in five is lost.
const RETRANSMISSION_TIMEOUT_MIN: Duration = Duration::from_millis(20);

/// The longest that the kernel waits with an acknowledgement: well below what the other side waits for it.
const ACKNOWLEDGEMENT_DELAY_MAX: Duration = Duration::from_millis(5);

/// `TCP_RTO_MIN_US` and `TCP_DELACK_MAX_US` in Linux's `tcp.h`, since Linux 6.15.
const TCP_RTO_MIN_US: i32 = 45;
const TCP_DELACK_MAX_US: i32 = 46;

/// The reason why a connection cannot be used any more.
#[derive(Debug, Error)]
pub enum ConnectionError {
    #[error("the other side closed the connection")]
    Closed,
    /// The connection ended without TLS's end mark (close_notify): the other side was killed, or somebody on the path
    /// has cut it. The kernel of a process that was killed resets the connection if something there was unread, and
    /// closes it if not.
    #[error("the connection was cut off")]
    CutOff,
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// No program accepted the connection.
    #[error("no connection: {0}")]
    Refused(io::Error),
    /// The other side accepted the connection, and did not answer in time.
    #[error("it takes the connection, but does not answer")]
    NoAnswer,
    #[error("the other side does not speak treecast's protocol ({0})")]
    Protocol(#[from] ParseError),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::CutOff,
            _ => Self::Broken(error),
        }
    }
}

/// The address as it is told to people: a socket for both families shows IPv4 addresses inside IPv6 ones (RFC 4291, section
/// 2.5.5.2). The scope of a link-local address stays.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// A nonblocking connection with its input and output buffers.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The state of TLS. `None` in a plain session.
    secure: Option<Secure>,
    peer: SocketAddr,
    max_payload: usize,
    input: Vec<u8>,
    /// The position in `input` at which the next packet starts.
    parsed: usize,
    output: Vec<u8>,
    written: usize,
    /// Whether nothing more will be written, and the other end is told.
    is_finished: bool,
    pulse: Pulse,
}

/// The state of a connection that ends with a last word ([`Connection::part`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// Something still has to be written, or is on its way.
    Speaking,
    /// The other end's kernel has the last word.
    Told,
    /// The other end has closed the connection, or it is lost.
    Gone,
}

impl Connection {
    /// Creates a receiver's connection to its sender. It accepts no packet with a payload longer than
    /// `max_payload`.
    ///
    /// # Errors
    /// If the stream is gone already.
    pub fn to_sender(
        stream: TcpStream,
        max_payload: usize,
        tls: Option<&ReceiverTls>,
    ) -> Result<Self, ConnectionError> {
        let mut connection = Self::plain(stream, max_payload)?;
        set_time(&connection, TCP_DELACK_MAX_US, ACKNOWLEDGEMENT_DELAY_MAX);
        if let Some(tls) = tls {
            let tls = tls.connect(connection.peer.ip())?;
            connection.secure = Some(Secure::new(tls.into()));
        }
        Ok(connection)
    }

    /// Creates a sender's connection to a receiver.
    ///
    /// # Errors
    /// If the stream is gone already.
    pub fn to_receiver(
        stream: TcpStream,
        max_payload: usize,
        tls: Option<&SenderTls>,
    ) -> Result<Self, ConnectionError> {
        let mut connection = Self::plain(stream, max_payload)?;
        if let Some(tls) = tls {
            connection.secure = Some(Secure::new(tls.accept()?.into()));
        }
        Ok(connection)
    }

    fn plain(stream: TcpStream, max_payload: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive =
            TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL).with_retries(12);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(LOST_AFTER))?;
        bound_retransmission_timeout(&stream);
        let peer = canonical(stream.peer_addr()?);
        let (input, output, pulse) = (Vec::new(), Vec::new(), Pulse::default());
        Ok(Self {
            stream,
            secure: None,
            peer,
            max_payload,
            input,
            parsed: 0,
            output,
            written: 0,
            is_finished: false,
            pulse,
        })
    }

    /// Restarts TCP's congestion control if it has come to a halt. Call this several times a second.
    pub fn feel_pulse(&mut self, now: Instant) {
        self.pulse.look(now, &self.stream);
    }

    /// The key that the other side has proved to have. `None` in a plain session, and before the proof.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.secure.as_ref()?.peer_key()
    }

    /// Whether the handshake is not over yet, so that packets must wait.
    pub fn is_handshaking(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::is_handshaking)
    }

    /// The address of this host's end.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// The address of the other end. An IPv4 address is one, whatever socket has taken the connection.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads available bytes, up to one packet of the longest kind beyond the unparsed ones. Returns whether
    /// there may be more.
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn read(&mut self) -> Result<bool, ConnectionError> {
        self.input.drain(..self.parsed);
        self.parsed = 0;
        if let Some(secure) = &mut self.secure {
            return secure.read(&mut self.stream, HEADER_LEN + self.max_payload, &mut self.input);
        }
        let kept = self.input.len();
        self.input.resize((HEADER_LEN + self.max_payload).max(kept + 1), 0);
        let result = self.stream.read(&mut self.input[kept..]);
        let count = *result.as_ref().unwrap_or(&0);
        self.input.truncate(kept + count);
        match result {
            Ok(0) if self.input.starts_with(&TLS_ALERT) => Err(TlsError::NotPlain.into()),
            Ok(0) => Err(ConnectionError::Closed),
            Ok(_) => Ok(true),
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether bytes wait in the kernel. `None`: not yet, and the other side may still send some.
    pub fn has_input(&self) -> Option<bool> {
        match self.stream.peek(&mut [0]) {
            Ok(count) => Some(count > 0),
            Err(error) => (!is_temporary(&error)).then_some(false),
        }
    }

    /// The next complete packet, if there is one.
    ///
    /// # Errors
    /// If the bytes are no packet.
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

    /// Whether [`Connection::next_packet`] returns a packet or an error.
    pub fn has_packet(&self) -> bool {
        let unparsed = &self.input[self.parsed..];
        let header = unparsed.get(..HEADER_LEN).map(Header::parse);
        header.is_some_and(|header| {
            header.map_or(true, |header| {
                let len = header.payload_len as usize;
                len > self.max_payload || unparsed.len() >= HEADER_LEN + len
            })
        })
    }

    /// Whether more may be queued.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written < MAX_OUTPUT_BYTES
    }

    /// Whether something is queued.
    pub fn has_output(&self) -> bool {
        self.written < self.output.len() || self.secure.as_ref().is_some_and(Secure::has_output)
    }

    /// Queues bytes for writing.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Queues `len` bytes that `fill` writes. If `fill` fails, nothing is queued.
    pub fn queue_with<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.output.len();
        self.output.resize(start + len, 0);
        fill(&mut self.output[start..]).inspect_err(|_| self.output.truncate(start))
    }

    /// Writes as much as the connection takes now. Returns whether everything is written.
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn flush(&mut self) -> Result<bool, ConnectionError> {
        while self.has_output() {
            let bytes = &self.output[self.written..];
            let result = match &mut self.secure {
                Some(secure) => secure.write(&mut self.stream, bytes),
                None => Quiet(&self.stream).write(bytes),
            };
            match result {
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

    /// Discards everything that is queued.
    pub fn discard_output(&mut self) {
        self.output.clear();
        self.written = 0;
        if let Some(secure) = &mut self.secure {
            secure.discard_output();
        }
    }

    /// Announces to the other side that nothing more will be written.
    pub fn finish(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        if let Some(secure) = &mut self.secure {
            secure.finish(&mut self.stream);
        }
        // The other side may have closed before; then nothing is left to say.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Goes on with the end of a connection whose last word is queued: writes the rest, then shuts this end for writing, and discards
    /// what comes. A socket that is closed with unread input resets the connection, and what was written before is lost.
    pub fn part(&mut self) -> Parting {
        if !self.is_finished {
            match self.flush() {
                Ok(true) => self.finish(),
                Ok(false) => {}
                Err(_) => return Parting::Gone,
            }
        }
        // A peer that writes without end must not hold this end up.
        for _ in 0..PARTING_READS {
            let more = self.read();
            self.parsed = self.input.len();
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return Parting::Gone,
            }
        }
        let is_told = self.is_finished && tcp_info::has_delivered(&self.stream);
        if is_told { Parting::Told } else { Parting::Speaking }
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

/// Lets the kernel soon repeat what is lost on the connections that a sender's `listener` accepts. They inherit the
/// option. Set after the handshake, it would come too late for the first flight, whose timeout the handshake has
/// determined.
///
/// Only what the sender writes has to be fast. A receiver that leaves a broken connection must not have the rest of what it
/// wrote there sent for any longer.
///
/// Returns false on kernels that have no such option, and keep their own times.
pub(crate) fn hurry_answers(listener: &impl AsFd) -> bool {
    set_time(listener, TCP_RTO_MIN_US, RETRANSMISSION_TIMEOUT_MIN)
}

/// Bounds the length of a connection's packets before it is opened: they fit into an Ethernet frame, whatever this host's MTU is.
/// A bridge or switch that drops longer packets tells nobody, and TCP would repeat them until the connection breaks. Errors are
/// ignored, because the kernel's own length mostly does.
pub(crate) fn bound_packets(socket: &socket2::Socket) {
    _ = socket.set_tcp_mss(MAX_SEGMENT_BYTES);
}

/// Sets one of TCP's times, if the kernel has this option.
fn set_time(socket: &impl AsFd, name: i32, time: Duration) -> bool {
    option::set(socket, libc::IPPROTO_TCP, name, time.as_micros() as i32).is_ok()
}

/// Older kernels take thin streams' timeouts, which do not double for the first six (Linux's tcp-thin.txt), or nothing.
fn bound_retransmission_timeout(stream: &TcpStream) {
    let most_ms = RETRANSMISSION_TIMEOUT_MAX.as_millis() as i32;
    if option::set(stream, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, most_ms).is_err()
        && let Err(error) = option::set(stream, libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 1)
    {
        tracing::debug!(%error, "a control connection has the kernel's own timeouts");
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
    use crate::security::Identity;

    fn pair() -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (near, Connection::to_receiver(far, 1024, None).unwrap())
    }

    /// A receiver's end and a sender's; the ticket names the sender's key, or another.
    fn secure_pair(is_right: bool) -> (Connection, Connection, [PublicKey; 2]) {
        let [sender, receiver, other] = [(); 3].map(|()| Identity::generate().unwrap());
        let named = if is_right { &sender } else { &other };
        let (near, far) = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let tls = ReceiverTls::new(&receiver, named.public_key()).unwrap();
        let near = Connection::to_sender(near, 65_475, Some(&tls)).unwrap();
        let far = Connection::to_receiver(far, 65_475, Some(&SenderTls::new(&sender).unwrap())).unwrap();
        (near, far, [sender.public_key(), receiver.public_key()])
    }

    /// Lets both ends speak until they know each other, or one gives up.
    fn shake_hands(near: &mut Connection, far: &mut Connection) -> [Option<ConnectionError>; 2] {
        let mut failed = [None, None];
        for _ in 0..5000 {
            for (end, failed) in [&mut *near, &mut *far].into_iter().zip(&mut failed) {
                if failed.is_none() {
                    *failed = end.flush().map(drop).and_then(|()| end.read().map(drop)).err();
                }
            }
            if failed.iter().all(Option::is_some) || !(near.is_handshaking() || far.is_handshaking()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        failed
    }

    #[test]
    fn both_ends_know_each_other_and_megabytes_pass_whole() {
        let (mut near, mut far, [sender, receiver]) = secure_pair(true);
        assert!(near.peer_key().is_none());
        assert!(shake_hands(&mut near, &mut far).iter().all(Option::is_none));
        assert_eq!((near.peer_key(), far.peer_key()), (Some(sender), Some(receiver)));
        let kind = treecast_wire::header::PacketType::RetransmittedData;
        let header = |sequence| Header { file_id: FileId(1), sequence, payload_len: 60_000, kind, number: 0 };
        let block = |sequence: u64| vec![sequence as u8; 60_000];
        let (mut sent, mut taken) = (0, 0);
        while taken < 100 {
            while sent < 100 && far.has_room() {
                far.queue(&[&header(sent).to_bytes()[..], &block(sent)].concat());
                sent += 1;
            }
            far.flush().unwrap();
            near.read().unwrap();
            while let Some((parsed, payload)) = near.next_packet().unwrap() {
                assert!(parsed == header(taken) && payload == block(taken));
                taken += 1;
            }
        }
        far.finish();
        let end = read_until(&mut near, |_| None::<()>).unwrap_err();
        assert!(matches!(end, ConnectionError::Closed), "{end}");
    }

    #[test]
    fn an_end_that_tls_did_not_tell_is_none() {
        let (mut near, mut far, _) = secure_pair(true);
        assert!(shake_hands(&mut near, &mut far).iter().all(Option::is_none));
        far.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let end = read_until(&mut near, |_| None::<()>).unwrap_err();
        assert!(matches!(end, ConnectionError::CutOff), "{end}");
    }

    /// The receiver has written what nobody reads any more, and reads slowly.
    #[test]
    fn the_last_word_arrives_however_much_is_under_way_both_ways() {
        let (mut near, mut far, _) = secure_pair(true);
        assert!(shake_hands(&mut near, &mut far).iter().all(Option::is_none));
        let word = Message::Failed(Reason::new("too slow"));
        let kind = treecast_wire::header::PacketType::RetransmittedData;
        for sequence in 0.. {
            let header = Header { file_id: FileId(1), sequence, payload_len: 60_000, kind, number: 0 };
            far.queue(&[&header.to_bytes()[..], &[7; 60_000]].concat());
            if !far.flush().unwrap() {
                break;
            }
        }
        near.queue(&Message::Goodbye.to_packet(FileId(3)).repeat(1000));
        assert!(near.flush().unwrap());
        far.queue(&word.to_packet(FileId(3)));
        assert_eq!(far.part(), Parting::Speaking);
        let (mut found, mut told) = (None, false);
        let end = loop {
            told |= far.part() != Parting::Speaking;
            match near.read() {
                Ok(_) => {}
                Err(error) => break error,
            }
            while let Some((header, payload)) = near.next_packet().unwrap() {
                found = Message::parse(&header, payload).ok();
            }
        };
        assert!(matches!(end, ConnectionError::Closed), "{end}");
        assert_eq!(found, Some(word));
        while !told {
            told = far.part() == Parting::Told;
        }
        drop(near);
        while far.part() != Parting::Gone {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A process that is killed has read its input or has not.
    #[test]
    fn a_reset_is_a_cut_off_connection() {
        let (mut near, mut far, _) = secure_pair(true);
        assert!(shake_hands(&mut near, &mut far).iter().all(Option::is_none));
        near.stream.write_all(b"nobody reads this").unwrap();
        drop(far);
        let end = read_until(&mut near, |_| None::<()>).unwrap_err();
        assert!(matches!(end, ConnectionError::CutOff), "{end}");
    }

    #[test]
    fn another_key_than_the_tickets_is_told_at_both_ends() {
        let (mut near, mut far, [sender, _]) = secure_pair(false);
        let failed = shake_hands(&mut near, &mut far).map(|failed| failed.unwrap().to_string());
        assert!(failed[0].contains(&format!("another key ({sender}) than the ticket says")), "{failed:?}");
        assert_eq!(failed[1], "its ticket names another key of the sender");
        assert!(near.peer_key().is_none() && far.peer_key().is_none());
    }

    #[test]
    fn what_is_tls_is_told_to_a_plain_receiver() {
        let (mut near, mut far) = pair();
        near.write_all(&[21, 3, 3, 0, 2, 2, 70]).unwrap();
        drop(near);
        let error = read_until(&mut far, |_| None::<()>).unwrap_err();
        assert!(error.to_string().contains("speaks TLS"), "{error}");
    }

    #[test]
    fn what_is_no_tls_is_told() {
        let (mut near, far) = pair();
        let identity = Identity::generate().unwrap();
        let tls = SenderTls::new(&identity).unwrap();
        let mut far = Connection::to_receiver(far.stream, 1024, Some(&tls)).unwrap();
        near.write_all(&Message::Goodbye.to_packet(FileId(3))).unwrap();
        let error = read_until(&mut far, |_| None::<()>).unwrap_err();
        assert!(error.to_string().contains("does not speak TLS"), "{error}");
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
