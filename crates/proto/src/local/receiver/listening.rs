//! The way in which a receiver is reached where local groups have no multicast addresses. The sender sends it
//! copies, and members send one by one.

use std::time::Duration;

use treecast_wire::{
    header::FileId,
    message::{Local, Member, Message},
};

use super::{super::Copies, Receiver};
use crate::{
    Instant, Step,
    object::{Address, ReceiverTransmit},
};

/// The time between two requests for copies: before the sender has been heard, and afterwards. The sender forgets a
/// receiver that is silent for longer than [`super::super::LISTENING`].
const FIRST: Duration = Duration::from_millis(250);
const AGAIN: Duration = Duration::from_secs(1);

/// The number of requests to the group after which a want goes to the controller, or above.
pub(super) const IN_VAIN: u32 = 2;

#[derive(Debug)]
pub(super) struct Listening {
    copies: Copies,
    /// The token that the sender has answered with; 0 before that.
    token: u64,
    next: Instant,
}

impl Listening {
    /// The time of the next request for copies. `None` if copies come by multicast.
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.next).filter(|_| self.copies.port != 0)
    }
}

impl From<Copies> for Listening {
    fn from(copies: Copies) -> Self {
        Self { copies, token: 0, next: Instant::ZERO }
    }
}

impl Receiver {
    /// Asks the sender for copies when it is time for that.
    pub(super) fn listen(&mut self, now: Instant) {
        let is_heard = self.times.sender.is_some();
        let is_due = |listening: &&mut Listening| listening.deadline().is_some_and(|next| now >= next);
        let Some(listening) = self.listening.as_mut().filter(is_due) else { return };
        listening.next = now + if is_heard { AGAIN } else { FIRST };
        let port = listening.copies.port;
        self.tell_listening(port);
    }

    /// Says that this receiver wants copies at `port`, or none with port 0.
    pub(super) fn tell_listening(&mut self, port: u16) {
        let wants_copies = |listening: &&Listening| listening.copies.port != 0;
        let Some(Listening { copies, token, .. }) = self.listening.as_ref().filter(wants_copies) else {
            return;
        };
        let (to, message) = (Address::Member(copies.sender), Local::Listen { token: *token, port });
        let file = FileId::new(self.config.session, 0);
        let tell = ReceiverTransmit::Tell { to, file, message: Message::Local(message) };
        self.out.push_back(Step::Transmit(tell));
    }

    /// Takes in the sender's answer with a token.
    pub(super) fn token_is(&mut self, now: Instant, from: Member, token: u64) {
        let listening = self.listening.as_mut().filter(|listening| listening.copies.sender == from);
        if let Some(listening) = listening.filter(|listening| listening.token != token) {
            (listening.token, listening.next) = (token, now);
        }
    }

    /// The way this receiver is reached. `None` where local groups have multicast addresses.
    pub fn copies(&self) -> Option<Copies> {
        self.listening.as_ref().map(|listening| listening.copies)
    }

    /// The members to which a datagram for `to` goes one by one. `None` where `to` is an address of the network.
    pub fn one_by_one(&self, to: Address) -> Option<Vec<Member>> {
        self.listening.as_ref()?;
        match to {
            Address::Member(_) => None,
            Address::Group(_) => Some(self.control.peers()),
            Address::Session => Some(Vec::new()),
        }
    }

    /// Another member, chosen at random, that may have what is missing here.
    pub(super) fn helper(&mut self) -> Option<Member> {
        let peers = self.control.peers();
        let chosen = (self.random.unit() * peers.len() as f64) as usize;
        peers.get(chosen).copied()
    }
}
