//! Reaching the sender: the ticket's addresses one after the other, again and again until one answers.
//!
//! A sender that strangers crowd may drop a connection before it has answered; the receiver comes again.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use treecast_wire::header::MAX_PAYLOAD_LEN;

use super::{ReceiveError, ReceiveOptions};
use crate::{
    clock,
    connection::{Connection, ConnectionError},
    poller::{Interest, Poller},
    security::tls::{ReceiverTls, TlsError},
    stop::Stop,
};

/// How long one address gets to take a connection.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it gets to answer on it, lost packets sent again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait before the addresses are tried again; twice as long each time, up to the longest.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// So that a sender that many have lost at once is not run over when it is back.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);

/// Where to, with what, and until when.
pub(super) struct Reach<'a> {
    pub options: &'a ReceiveOptions,
    pub tls: Option<&'a ReceiverTls>,
    pub stop: &'a Stop,
    pub deadline: Instant,
    /// Whether the receiver has been there before.
    pub is_return: bool,
}

impl Reach<'_> {
    /// Connects, lets `greet` say who the receiver is once the sender has proved who it is, and waits for the answer,
    /// which the connection then holds.
    pub fn sender(&self, greet: &mut dyn FnMut(&mut Connection)) -> Result<Connection, ReceiveError> {
        let mut interval = RETRY_INTERVAL;
        let mut failure = None;
        loop {
            let mut reason = String::new();
            for address in &self.options.ticket.control {
                match self.attempt(*address, greet) {
                    Ok(connection) => return Ok(connection),
                    Err(ConnectionError::Tls(TlsError::WrongKey { found, expected })) => {
                        failure = Some(ReceiveError::WrongKey { address: *address, found, expected });
                    }
                    Err(ConnectionError::Tls(error)) => {
                        failure.get_or_insert(ReceiveError::Security { address: *address, error });
                    }
                    Err(error) => reason = error.to_string(),
                }
                if self.stop.is_requested() {
                    return Err(ReceiveError::Interrupted);
                }
            }
            // It would be the same the next time; but where the sender was, somebody else may answer while it is away.
            let is_over = Instant::now() >= self.deadline;
            if is_over || (failure.is_some() && !self.is_return) {
                return Err(failure.unwrap_or_else(|| self.unreachable(reason)));
            }
            std::thread::sleep(interval);
            if self.is_return {
                interval = (interval * 2).min(LONGEST_INTERVAL);
            }
        }
    }

    fn attempt(
        &self,
        address: SocketAddr,
        greet: &mut dyn FnMut(&mut Connection),
    ) -> Result<Connection, ConnectionError> {
        let stream = TcpStream::connect_timeout(&address, ATTEMPT_TIMEOUT)?;
        let mut connection = Connection::to_sender(stream, MAX_PAYLOAD_LEN, self.tls)?;
        let mut poller = Poller::new()?;
        poller.add(&connection, 0, Interest::Read)?;
        poller.add(self.stop, 1, Interest::Read)?;
        self.wait(&mut connection, &mut poller, |connection| !connection.is_handshaking())?;
        greet(&mut connection);
        self.wait(&mut connection, &mut poller, Connection::has_packet)?;
        Ok(connection)
    }

    fn wait(
        &self,
        connection: &mut Connection,
        poller: &mut Poller,
        is_done: impl Fn(&Connection) -> bool,
    ) -> Result<(), ConnectionError> {
        let deadline =
            (Instant::now() + ANSWER_TIMEOUT).min(self.deadline.max(Instant::now() + ATTEMPT_TIMEOUT));
        let mut is_written = connection.flush()?;
        while !is_done(connection) || !is_written {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.is_requested() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            // What is queued is a few hundred bytes: it leaves with the next answer at the latest.
            poller.wait(Some(left), &mut Vec::new())?;
            connection.read()?;
            is_written = connection.flush()?;
        }
        Ok(())
    }

    fn unreachable(&self, reason: String) -> ReceiveError {
        let ticket = &self.options.ticket;
        let addresses = ticket.control.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let ago = ticket.expires.and_then(|expires| clock::unix_seconds().checked_sub(expires.get()));
        let expired = ago.map(|ago| format!("; the ticket expired {} ago", clock::duration_in_words(ago)));
        ReceiveError::Unreachable { addresses, reason, expired: expired.unwrap_or_default() }
    }
}
