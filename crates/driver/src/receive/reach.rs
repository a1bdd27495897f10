//! Reaches the sender: tries the ticket's addresses in turn, repeatedly, until one answers.
//!
//! A sender that is crowded by strangers may drop a connection before it has answered. The receiver then tries
//! again.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use treecast_host::{
    interface::{self, Interface, InterfaceError},
    option,
    poller::{Interest, Poller},
    stop::Stop,
};
use treecast_wire::header::MAX_PAYLOAD_LEN;

use super::{ReceiveError, ReceiveEvent, ReceiveOptions, dial::dial};
use crate::{
    clock,
    connection::{Connection, ConnectionError},
    security::tls::{ReceiverTls, TlsError},
};

/// The time that one address gets to take a connection.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that it gets to answer on the connection, lost packets sent again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time before the addresses are tried again. It doubles with each attempt, up to the longest.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The longest time between attempts. It keeps a sender that many have lost at once from being run over when it is
/// back.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);

/// The time without contact after which the user is told, once, that the sender has not been reached.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The function by which a receiver says which one it is.
type Greet<'a> = &'a mut dyn FnMut(&mut Connection) -> io::Result<()>;

/// The addresses of a sender, the means to reach it, and the time until when.
pub(super) struct Reach<'a> {
    options: &'a ReceiveOptions,
    /// The addresses at which the sender may be, the best one first.
    places: Vec<SocketAddr>,
    tls: Option<&'a ReceiverTls>,
    stop: &'a Stop,
    deadline: Instant,
    /// Whether the receiver has been there before.
    is_return: bool,
    /// The time to tell the user that the sender has not been reached. `None` once it is told.
    tells_at: Option<Instant>,
    on_event: &'a mut dyn FnMut(ReceiveEvent),
}

impl<'a> Reach<'a> {
    pub fn new(
        options: &'a ReceiveOptions,
        tls: Option<&'a ReceiverTls>,
        stop: &'a Stop,
        (is_return, deadline): (bool, Instant),
        on_event: &'a mut dyn FnMut(ReceiveEvent),
    ) -> Self {
        // That the connection broke has been told, and for how long the sender is looked for.
        let tells_at = (!is_return).then(|| Instant::now() + TELL_AFTER);
        Self { options, places: Vec::new(), tls, stop, deadline, is_return, tells_at, on_event }
    }

    /// Connects. When the sender has proved who it is, `greet` introduces the receiver. Waits for the answer,
    /// which stays in the returned connection.
    pub fn sender(&mut self, greet: Greet<'_>) -> Result<Connection, ReceiveError> {
        let mut interval = RETRY_INTERVAL;
        let mut failure = None;
        loop {
            // Interfaces come and go while the sender is looked for.
            match places(self.options) {
                Ok(found) => self.places = found,
                Err(error) if !self.is_return => return Err(error),
                Err(_) => {}
            }
            let mut reasons = Vec::new();
            for address in self.places.clone() {
                match self.attempt(address, greet) {
                    Ok(connection) => return Ok(connection),
                    Err(ConnectionError::Tls(TlsError::WrongKey { found, expected })) => {
                        failure = Some(ReceiveError::WrongKey { address, found, expected });
                    }
                    Err(ConnectionError::Tls(error)) => {
                        failure.get_or_insert(ReceiveError::Security { address, error });
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        if !reasons.contains(&reason) {
                            reasons.push(reason);
                        }
                        self.tell_if_due(&reasons.join("; "));
                    }
                }
                if self.stop.is_requested() {
                    return Err(ReceiveError::Interrupted);
                }
            }
            // It would be the same the next time; but where the sender was, somebody else may answer while it is away.
            let is_over = Instant::now() >= self.deadline;
            if is_over || (failure.is_some() && !self.is_return) {
                return Err(failure.unwrap_or_else(|| self.unreachable(reasons.join("; "))));
            }
            (self.on_event)(ReceiveEvent::Idle);
            std::thread::sleep(interval);
            if self.is_return {
                interval = (interval * 2).min(LONGEST_INTERVAL);
            }
        }
    }

    fn attempt(&mut self, address: SocketAddr, greet: Greet<'_>) -> Result<Connection, ConnectionError> {
        let stream = dial(address, ATTEMPT_TIMEOUT, self.stop).map_err(ConnectionError::Refused)?;
        let mut connection = Connection::to_sender(stream, MAX_PAYLOAD_LEN, self.tls)?;
        let mut poller = Poller::new()?;
        poller.add(&connection, 0, Interest::Read)?;
        poller.add(self.stop, 1, Interest::Read)?;
        self.wait(&mut connection, &mut poller, |connection| !connection.is_handshaking())?;
        greet(&mut connection)?;
        self.wait(&mut connection, &mut poller, Connection::has_packet)?;
        Ok(connection)
    }

    fn wait(
        &mut self,
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
                return Err(ConnectionError::NoAnswer);
            }
            self.tell_if_due(&ConnectionError::NoAnswer);
            let tells_in = self.tells_at.map(|time| time.saturating_duration_since(Instant::now()));
            // What is queued is a few hundred bytes: it leaves with the next answer at the latest.
            poller.wait(Some(tells_in.map_or(left, |tells_in| tells_in.min(left))), &mut Vec::new())?;
            connection.read()?;
            is_written = connection.flush()?;
        }
        Ok(())
    }

    /// Says once that nothing has been reached yet, and how long it will be tried.
    fn tell_if_due(&mut self, reason: &dyn std::fmt::Display) {
        let now = Instant::now();
        if self.tells_at.take_if(|time| *time <= now).is_some() {
            (self.on_event)(ReceiveEvent::Unreachable {
                addresses: self.places.clone(),
                reason: reason.to_string(),
                left: self.deadline.saturating_duration_since(now),
            });
        }
    }

    fn unreachable(&self, reason: String) -> ReceiveError {
        let ticket = &self.options.ticket;
        let addresses = super::in_a_row(&self.places);
        let ago = ticket.expires.and_then(|expires| clock::unix_seconds().checked_sub(expires.get()));
        let expired = ago.map(|ago| format!("; the ticket expired {} ago", clock::duration_in_words(ago)));
        ReceiveError::Unreachable { addresses, reason, expired: expired.unwrap_or_default() }
    }
}

/// The addresses at which the sender may be. A link-local one is on one of the links of this host (RFC 4007, section 6), and the
/// ticket cannot say which, so each interface that the user has not ruled out is tried.
pub(super) fn places(options: &ReceiveOptions) -> Result<Vec<SocketAddr>, ReceiveError> {
    let named = options.interface.as_deref().map(Interface::named).transpose()?;
    let links = named.map_or_else(interface::list, |named| Ok(vec![named]))?;
    let is_link = |link: &&Interface| link.is_usable && link.is_running;
    // The interfaces of this host's own addresses come first, because a sender on this host is found there at once.
    let mut places = Vec::new();
    for address in &options.ticket.control {
        let is_near =
            matches!(address, SocketAddr::V6(v6) if v6.scope_id() == 0 && option::is_near(*v6.ip()));
        if !is_near {
            places.push(*address);
            continue;
        }
        let mut links: Vec<_> = links.iter().filter(is_link).collect();
        links.sort_by_key(|link| !link.addresses.contains(&address.ip()));
        places.extend(links.iter().map(|link| option::scoped(*address, link.index)));
    }
    match places.is_empty() && !options.ticket.control.is_empty() {
        true => Err(InterfaceError::None.into()),
        false => Ok(places),
    }
}
