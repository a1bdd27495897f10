//! Connections whose Hello has not come yet, and which may still be in the TLS handshake.
//!
//! Anybody who reaches the control port can open such connections. So their number and time are limited, and
//! strangers cannot use up a sender's memory or descriptors. If there are too many, one is dropped that is
//! probably not a receiver's: from the address with the most connections, a random one that has been here for
//! longer than a handshake takes. If a receiver's connection is dropped nevertheless, the receiver tries again.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv6Addr, TcpListener},
    time::Duration,
};

use treecast_proto::Instant;
use treecast_wire::{
    header::SessionId,
    message::{CommandResult, Hello, Message, PROTOCOL_VERSION, PutOutCode},
};

use crate::{
    connection::{Connection, ConnectionError},
    security::{self, tls::SenderTls},
};

/// The most connections without a Hello. With its record buffers one may take 80 KB.
const MAX_PENDING: usize = 256;

/// The most connections without a Hello from one address.
const MAX_FROM_ONE: usize = 128;

/// The usual time of a handshake. A connection that has been here for longer goes first.
const USUAL_HANDSHAKE: Duration = Duration::from_millis(250);

/// The time for a Hello: TCP sends it half a dozen times in it, should it be lost.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest message that a receiver sends: a reason of 512 bytes.
const MAX_MESSAGE_LEN: usize = 1024;

#[derive(Debug)]
pub(super) struct Lobby {
    session: SessionId,
    /// The sender's side of TLS. `None` in a plain session.
    tls: Option<SenderTls>,
    pending: BTreeMap<u64, Pending>,
    /// The number of pending connections from each address.
    counts: BTreeMap<Place, usize>,
    random: u64,
}

#[derive(Debug)]
struct Pending {
    connection: Connection,
    place: Place,
    since: Instant,
    /// Whether nothing has come yet.
    is_silent: bool,
}

/// The origin of a connection, as far as an address says it. Of IPv6 it is the network, as a host has all of its
/// addresses.
pub(super) type Place = IpAddr;

/// The fate of a connection.
#[derive(Debug)]
pub(super) enum Arrival {
    Waiting,
    /// The connection was closed before anything came by it: a receiver's attempt beside another one that was faster,
    /// or a probe.
    Gone,
    Admitted(Connection, Hello),
    /// A standing receiver that has everything tells how its command went.
    Told(Connection, CommandResult),
    Refused(Connection, PutOutCode, String),
}

impl Lobby {
    /// Creates the lobby of a session, without anybody in it. Connections use TLS if `tls` is given.
    ///
    /// # Errors
    /// If the host has no random numbers.
    pub fn new(session: SessionId, tls: Option<SenderTls>) -> io::Result<Self> {
        let random = u64::from_be_bytes(security::random()?) | 1;
        Ok(Self { session, tls, pending: BTreeMap::new(), counts: BTreeMap::new(), random })
    }

    /// Accepts the next connection, under the number `token`. `None` if no more are waiting. If the host has no
    /// descriptors left, a stranger's connection is dropped.
    pub fn accept(
        &mut self,
        listener: &TcpListener,
        token: u64,
        now: Instant,
    ) -> Result<Option<&Connection>, ConnectionError> {
        let (stream, address) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => {
                self.evict(now, None);
                return Err(error.into());
            }
        };
        let place = place(address.ip());
        if self.counts.get(&place).is_some_and(|count| *count >= MAX_FROM_ONE) {
            self.evict(now, Some(place));
        } else if self.pending.len() >= MAX_PENDING {
            self.evict(now, None);
        }
        let connection = Connection::to_receiver(stream, MAX_MESSAGE_LEN, self.tls.as_ref())?;
        *self.counts.entry(place).or_default() += 1;
        let pending = Pending { connection, place, since: now, is_silent: true };
        Ok(Some(&self.pending.entry(token).or_insert(pending).connection))
    }

    pub fn contains(&self, token: u64) -> bool {
        self.pending.contains_key(&token)
    }

    /// Reads a connection that has become readable, and looks for its Hello.
    pub fn read(&mut self, token: u64) -> Arrival {
        let Some(pending) = self.pending.get_mut(&token) else { return Arrival::Waiting };
        if pending.is_silent {
            match pending.connection.has_input() {
                None => return Arrival::Waiting,
                Some(false) => {
                    self.remove(token);
                    return Arrival::Gone;
                }
                Some(true) => pending.is_silent = false,
            }
        }
        let first = first_word(&mut pending.connection);
        if matches!(first, Ok(None)) {
            return Arrival::Waiting;
        }
        let Some(connection) = self.remove(token) else { return Arrival::Waiting };
        match first {
            Ok(None) => Arrival::Waiting,
            // Before all else: only what is said of versions is read by every version.
            Ok(Some((_, word))) if word.version() != PROTOCOL_VERSION => {
                let reason = format!("it speaks version {} and not {PROTOCOL_VERSION}", word.version());
                Arrival::Refused(connection, PutOutCode::OtherVersion, reason)
            }
            Ok(Some((session, _))) if session != self.session => {
                let reason = "its ticket is that of another session".to_owned();
                Arrival::Refused(connection, PutOutCode::OtherSession, reason)
            }
            Ok(Some((_, FirstWord::Hello(hello)))) => Arrival::Admitted(connection, hello),
            Ok(Some((_, FirstWord::Result(result)))) => Arrival::Told(connection, result),
            Err(ConnectionError::Protocol(error)) => {
                let reason = format!("it speaks another version of treecast's protocol, or none ({error})");
                Arrival::Refused(connection, PutOutCode::OtherVersion, reason)
            }
            Err(error) => Arrival::Refused(connection, PutOutCode::Refused, error.to_string()),
        }
    }

    /// Removes a connection whose time is up.
    pub fn expire(&mut self, now: Instant) -> Option<Connection> {
        // Numbers are given in the order in which connections come.
        let (token, first) = self.pending.first_key_value()?;
        if first.since + HELLO_TIMEOUT > now {
            return None;
        }
        self.remove(*token)
    }

    /// The time when the next connection's time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.first_key_value().map(|(_, first)| first.since + HELLO_TIMEOUT)
    }

    fn remove(&mut self, token: u64) -> Option<Connection> {
        let Pending { connection, place, .. } = self.pending.remove(&token)?;
        if let Some(count) = self.counts.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&place);
            }
        }
        Some(connection)
    }

    /// Closes one connection of `place`, or of the place that has most.
    fn evict(&mut self, now: Instant, place: Option<Place>) {
        let most = || self.counts.iter().max_by_key(|(_, count)| **count).map(|(place, _)| *place);
        let Some(place) = place.or_else(most) else { return };
        let of_place = || self.pending.iter().filter(|(_, pending)| pending.place == place);
        let is_slow = |pending: &Pending| pending.since + USUAL_HANDSHAKE <= now;
        let mut tokens: Vec<u64> =
            of_place().filter(|(_, pending)| is_slow(pending)).map(|(token, _)| *token).collect();
        if tokens.is_empty() {
            tokens = of_place().map(|(token, _)| *token).collect();
        }
        let chosen = (self.next_random() % tokens.len().max(1) as u64) as usize;
        if let Some(token) = tokens.get(chosen) {
            self.remove(*token);
        }
    }

    /// Marsaglia's xorshift: strangers must not know who goes, and no more depends on it.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The first message of a receiver.
enum FirstWord {
    Hello(Hello),
    Result(CommandResult),
}

impl FirstWord {
    fn version(&self) -> u8 {
        match self {
            Self::Hello(hello) => hello.version,
            Self::Result(result) => result.version,
        }
    }
}

/// The first message, and the session that it is about.
fn first_word(connection: &mut Connection) -> Result<Option<(SessionId, FirstWord)>, ConnectionError> {
    connection.read()?;
    let Some((header, payload)) = connection.next_packet()? else { return Ok(None) };
    let session = header.file_id.session();
    match Message::parse(&header, payload)? {
        Message::Hello(hello) => Ok(Some((session, FirstWord::Hello(hello)))),
        Message::CommandResult(result) => Ok(Some((session, FirstWord::Result(result)))),
        _ => Err(treecast_wire::ParseError::invalid("flags", header.kind as u64, "Hello first").into()),
    }
}

/// The place of an address.
pub(super) fn place(address: IpAddr) -> Place {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpStream};

    use super::*;
    use crate::clock::at;

    /// Connects once, from an address of the loopback network.
    fn knock(lobby: &mut Lobby, listener: &TcpListener, token: u64, from: u8, now: Instant) -> TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, from], 0)).into()).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        while lobby.accept(listener, token, now).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        socket.into()
    }

    fn lobby() -> (TcpListener, Lobby) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        (listener, Lobby::new(SessionId(1), None).unwrap())
    }

    #[test]
    fn strangers_push_out_each_other_and_not_a_receiver() {
        let (listener, mut lobby) = lobby();
        let mut streams = Vec::new();
        for token in 0..1000 {
            streams.push(knock(&mut lobby, &listener, token, 1 + (token % 5) as u8, at(token)));
            assert!(lobby.pending.len() <= MAX_PENDING);
        }
        // One from elsewhere, while the crowd goes on.
        streams.push(knock(&mut lobby, &listener, 1000, 77, at(1000)));
        for token in 1001..2000 {
            streams.push(knock(&mut lobby, &listener, token, 1 + (token % 5) as u8, at(token)));
        }
        assert!(lobby.contains(1000), "it has one, the others have dozens");
        assert_eq!(lobby.counts.values().sum::<usize>(), lobby.pending.len());
        while lobby.expire(at(60_000)).is_some() {}
        assert!(lobby.counts.is_empty() && lobby.pending.is_empty());
    }

    #[test]
    fn one_address_cannot_have_all_and_who_is_slow_goes_first() {
        let (listener, mut lobby) = lobby();
        let old = MAX_FROM_ONE as u64;
        let mut streams: Vec<_> =
            (0..old).map(|token| knock(&mut lobby, &listener, token, 1, at(0))).collect();
        // As many again within the time of a handshake: each takes the place of an old one.
        for token in old..2 * old {
            streams.push(knock(&mut lobby, &listener, token, 1, at(500)));
        }
        assert_eq!(lobby.pending.len(), MAX_FROM_ONE);
        assert!((old..2 * old).all(|token| lobby.contains(token)), "the newer ones are all there");
    }

    /// A receiver far away opens up to four connections, and keeps the first one that is there.
    #[test]
    fn who_goes_without_a_word_is_not_refused() {
        let (listener, mut lobby) = lobby();
        drop(knock(&mut lobby, &listener, 0, 1, at(0)));
        let mut stream = knock(&mut lobby, &listener, 1, 1, at(0));
        stream.write_all(&[0]).unwrap();
        assert!(matches!(lobby.read(1), Arrival::Waiting));
        drop(stream);
        let mut end = |token| loop {
            match lobby.read(token) {
                Arrival::Waiting => std::thread::sleep(Duration::from_millis(1)),
                arrival => break arrival,
            }
        };
        assert!(matches!(end(0), Arrival::Gone));
        let refused = end(1);
        assert!(matches!(refused, Arrival::Refused(..)), "{refused:?}");
    }

    #[test]
    fn who_speaks_another_version_is_told_that_before_all_else() {
        let (listener, mut lobby) = lobby();
        let hello = |version| Message::Hello(Hello::new(version, 0, 1, "a").unwrap());
        let of = |session, version| hello(version).to_packet(treecast_wire::header::FileId::new(session, 0));
        let mut without_name = of(SessionId(1), PROTOCOL_VERSION);
        without_name[32 + 24] = 0;
        let cases = [
            (of(SessionId(1), PROTOCOL_VERSION - 1), PutOutCode::OtherVersion),
            (of(SessionId(2), PROTOCOL_VERSION + 1), PutOutCode::OtherVersion),
            (without_name, PutOutCode::OtherVersion),
            (b"GET / HTTP/1.1\r\nHost: treecast.example\r\n\r\n".to_vec(), PutOutCode::OtherVersion),
            (of(SessionId(2), PROTOCOL_VERSION), PutOutCode::OtherSession),
        ];
        for (token, (packet, expected)) in (0..).zip(cases) {
            let mut stream = knock(&mut lobby, &listener, token, 1, at(0));
            stream.write_all(&packet).unwrap();
            let (code, reason) = loop {
                match lobby.read(token) {
                    Arrival::Waiting => std::thread::sleep(Duration::from_millis(1)),
                    Arrival::Gone | Arrival::Told(..) => panic!("{token} is no receiver's"),
                    Arrival::Refused(_, code, reason) => break (code, reason),
                    Arrival::Admitted(_, hello) => panic!("{hello} is admitted"),
                }
            };
            assert_eq!(code, expected, "{token}: {reason}");
            assert_eq!(reason.contains("version"), code == PutOutCode::OtherVersion, "{reason}");
        }
    }
}
