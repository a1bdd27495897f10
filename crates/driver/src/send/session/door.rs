//! The door of a session: the control port, and the connections that are no receivers' yet.

mod listen;
mod refusals;
mod spare;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{Instant, object::ReceiverId};

use self::{refusals::Refusals, spare::Spare};
use super::{
    super::{
        Plan, SendError, SendEvent,
        lobby::{Arrival, Lobby},
    },
    FIRST_CONNECTION, LISTENER,
    core::Core,
};
use crate::security::tls::SenderTls;

/// The most connections taken between runs, so that those taken before get on.
const ACCEPTED_A_TURN: usize = 16;

/// Steps of handshakes between runs: each may take 200 us, and strangers may ask for any number.
const ADMISSIONS_A_TURN: usize = 4;

/// The most addresses that are kept of receivers for which there was no descriptor.
const MAX_TURNED_AWAY: usize = 1000;

/// The control port of a session.
pub(super) struct Door {
    listener: TcpListener,
    lobby: Lobby,
    /// The number of the lobby's connections that have been looked at in this turn.
    admissions: usize,
    refusals: Refusals,
    spare: Spare,
    /// Addresses of receivers for which there was no descriptor, and that have not been admitted since.
    turned_away: BTreeSet<IpAddr>,
    /// The poller's token for the next connection.
    next_token: u64,
}

impl Door {
    /// Opens the control port. Also returns the addresses at which receivers reach it.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<(Self, Vec<SocketAddr>), SendError> {
        let tls = plan.identity.as_ref().map(SenderTls::new).transpose()?;
        let (listener, control) = listen::listen(plan)?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        let door = Self {
            listener,
            lobby: Lobby::new(plan.session, tls)?,
            admissions: 0,
            refusals: Refusals::default(),
            spare: Spare::new(),
            turned_away: BTreeSet::new(),
            next_token: FIRST_CONNECTION,
        };
        Ok((door, control))
    }

    /// A number for a receiver that is not there.
    pub fn take_number(&mut self) -> ReceiverId {
        let token = self.next_token;
        self.next_token += 1;
        number_of(token)
    }

    /// Takes connections into the lobby.
    pub fn accept(&mut self, now: Instant, poller: &Poller, core: &mut Core<'_>) -> io::Result<()> {
        for _ in 0..ACCEPTED_A_TURN {
            let token = self.next_token;
            match self.lobby.accept(&self.listener, token, now) {
                Ok(Some(connection)) => poller.add(connection, token, Interest::Read)?,
                Ok(None) => break,
                // One connection that failed before it was taken is no reason to end the session.
                Err(_) => {
                    self.turn_away(core);
                    break;
                }
            }
            self.next_token += 1;
        }
        Ok(())
    }

    /// Closes a connection at once if there is no descriptor left for it: it would wait unheard, and wake the session all the time. The
    /// receiver tries again.
    fn turn_away(&mut self, core: &mut Core<'_>) {
        let Some(from) = self.spare.turn_away(&self.listener) else { return };
        if self.turned_away.is_empty() {
            core.warn(format!(
                "a receiver at {} cannot be admitted: this process has no descriptor left; allow it more (`ulimit -n`)",
                from.to_canonical()
            ));
        }
        if self.turned_away.len() < MAX_TURNED_AWAY {
            self.turned_away.insert(from.to_canonical());
        }
    }

    /// The number of receivers for which there was no descriptor, and that have not been admitted since.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.len() as u64
    }

    /// Notes that a receiver has been admitted.
    pub fn has_admitted(&mut self, ip: IpAddr) {
        self.turned_away.remove(&ip.to_canonical());
    }

    /// Whether the connection with this token waits in the lobby.
    pub fn holds(&self, token: u64) -> bool {
        self.lobby.contains(token)
    }

    /// Begins a turn of the session, in which a few connections are looked at.
    pub fn begin_turn(&mut self) {
        self.admissions = 0;
    }

    /// Looks at a connection in the lobby. Handshakes cost, so that there are only some in each turn: the next turn's are as good.
    pub fn read(&mut self, token: u64) -> (ReceiverId, Arrival) {
        self.admissions += 1;
        let is_enough = self.admissions > ADMISSIONS_A_TURN;
        (number_of(token), if is_enough { Arrival::Waiting } else { self.lobby.read(token) })
    }

    /// Tells that a connection was refused.
    pub fn note_refusal(&mut self, now: Instant, address: SocketAddr, reason: String, core: &mut Core<'_>) {
        if self.refusals.note(now) {
            core.tell(SendEvent::Refused { address, reason });
        }
    }

    /// Closes connections whose time is up, and sums up refusals.
    pub fn look(&mut self, now: Instant, core: &mut Core<'_>) {
        while let Some(connection) = self.lobby.expire(now) {
            self.note_refusal(now, connection.peer(), "it did not say who it is in time".into(), core);
        }
        if let Some(line) = self.refusals.sum_up(now) {
            core.warn(line);
        }
    }

    /// The time at which the next connection's time is up.
    pub fn deadline(&mut self) -> Option<Instant> {
        self.lobby.deadline()
    }
}

fn number_of(token: u64) -> ReceiverId {
    ReceiverId((token - FIRST_CONNECTION) as u32)
}
