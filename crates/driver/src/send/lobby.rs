//! Connections whose Hello has not come yet. There are few of them and none for long, so that strangers
//! cannot use up a sender's memory or descriptors.

use std::{collections::BTreeMap, io, net::TcpListener, time::Duration};

use treecast_proto::Instant;
use treecast_wire::{
    header::SessionId,
    message::{Hello, Message, PROTOCOL_VERSION},
};

use crate::connection::{Connection, ConnectionError};

/// The most connections without a Hello.
const MAX_PENDING: usize = 64;

/// The time for a Hello: TCP sends it half a dozen times in it, should it be lost.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest message that a receiver sends: a reason of 512 bytes.
const MAX_MESSAGE_LEN: usize = 1024;

#[derive(Debug)]
pub(super) struct Lobby {
    session: SessionId,
    pending: BTreeMap<u64, (Connection, Instant)>,
}

/// What became of a connection.
#[derive(Debug)]
pub(super) enum Arrival {
    Waiting,
    Admitted(Connection, Hello),
    Refused(Connection, String),
}

impl Lobby {
    pub fn new(session: SessionId) -> Self {
        Self { session, pending: BTreeMap::new() }
    }

    /// Takes the next connection, under the number `token`; none when no more are waiting. A host that is out of
    /// descriptors gets one back from the stranger that has waited longest.
    pub fn accept(
        &mut self,
        listener: &TcpListener,
        token: u64,
        now: Instant,
    ) -> io::Result<Option<&Connection>> {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => {
                self.pending.pop_first();
                return Err(error);
            }
        };
        if self.pending.len() >= MAX_PENDING {
            // The oldest goes: a crowd of strangers must not keep receivers out.
            self.pending.pop_first();
        }
        let connection = Connection::to_receiver(stream, MAX_MESSAGE_LEN, None).map_err(io::Error::other)?;
        let (connection, _) = &*self.pending.entry(token).or_insert((connection, now + HELLO_TIMEOUT));
        Ok(Some(connection))
    }

    pub fn contains(&self, token: u64) -> bool {
        self.pending.contains_key(&token)
    }

    /// Looks for the Hello of a connection that has become readable.
    pub fn read(&mut self, token: u64) -> Arrival {
        let Some((mut connection, deadline)) = self.pending.remove(&token) else { return Arrival::Waiting };
        match hello(&mut connection) {
            Ok(Some((session, _))) if session != self.session => {
                Arrival::Refused(connection, "its ticket is that of another session".to_owned())
            }
            Ok(Some((_, hello))) if hello.version == PROTOCOL_VERSION => Arrival::Admitted(connection, hello),
            Ok(Some((_, hello))) => {
                let reason = format!("it speaks version {} and not {PROTOCOL_VERSION}", hello.version);
                Arrival::Refused(connection, reason)
            }
            Ok(None) => {
                self.pending.insert(token, (connection, deadline));
                Arrival::Waiting
            }
            Err(error) => Arrival::Refused(connection, error.to_string()),
        }
    }

    /// Lets go of a connection whose time is up.
    pub fn expire(&mut self, now: Instant) -> Option<Connection> {
        let token = *self.pending.iter().find(|(_, (_, deadline))| *deadline <= now)?.0;
        self.pending.remove(&token).map(|(connection, _)| connection)
    }

    /// When the next time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|(_, deadline)| *deadline).min()
    }
}

/// The Hello, and the session that it asks for.
fn hello(connection: &mut Connection) -> Result<Option<(SessionId, Hello)>, ConnectionError> {
    connection.read()?;
    let Some((header, payload)) = connection.next_packet()? else { return Ok(None) };
    match Message::parse(&header, payload)? {
        Message::Hello(hello) => Ok(Some((header.file_id.session(), hello))),
        _ => Err(treecast_wire::ParseError::invalid("flags", header.kind as u64, "Hello first").into()),
    }
}
