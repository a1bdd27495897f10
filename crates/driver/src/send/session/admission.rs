//! Admission to a session: which receivers are admitted, and what the others are told.

use std::net::{IpAddr, SocketAddr};

use treecast_proto::object::{MAX_FROM_ONE_NETWORK, MAX_RECEIVERS, ReceiverId, SenderInput};
use treecast_wire::message::{Hello, PutOutCode};

use super::{
    super::{
        SendEvent,
        lobby::{Arrival, place},
        peer::{Fresh, Peer, shown},
        who::Who,
    },
    ADMISSIONS_A_TURN, FIRST_CONNECTION, Session,
    connections::say_put_out,
};
use crate::{clock, connection::Connection, remedies::PER_ADDRESS, security::AllowList};

/// The most receivers with one key, where no allow list says that there is one.
const MAX_FROM_ONE_KEY: usize = 16;

impl Session<'_> {
    pub(super) fn has_in_lobby(&self, token: u64) -> bool {
        self.door.as_ref().is_some_and(|door| door.lobby.contains(token))
    }

    /// As [`Self::admit`]. Handshakes cost, so that there are only some in each turn: the next turn's are as good.
    pub(super) fn admit_in_turn(&mut self, token: u64) {
        let Some(door) = &mut self.door else { return };
        door.admissions += 1;
        if door.admissions <= ADMISSIONS_A_TURN {
            self.admit(token);
        }
    }

    fn admit(&mut self, token: u64) {
        let Some(door) = &mut self.door else { return };
        match door.lobby.read(token) {
            Arrival::Waiting | Arrival::Gone => {}
            Arrival::Refused(connection, code, reason) => self.refuse(connection, code, reason),
            Arrival::Admitted(connection, hello) => match self.objection(&connection, &hello) {
                Some((code, reason)) => self.refuse(connection, code, reason),
                None => self.welcome(ReceiverId((token - FIRST_CONNECTION) as u32), connection, &hello),
            },
        }
    }

    /// Why a receiver is not admitted. One that is takes the place of its older connection.
    fn objection(&mut self, connection: &Connection, hello: &Hello) -> Option<(PutOutCode, String)> {
        if let Some(reason) = self.expired() {
            return Some((PutOutCode::Expired, reason));
        }
        let who = Who::new(connection.peer_key(), hello);
        let older = self.there().find(|(_, peer)| peer.who.is(&who)).map(|(receiver, _)| receiver);
        let objection = self.objection_to_key(&who, older.is_some());
        let objection = objection.or_else(|| self.objection_to_number(connection.peer().ip(), older));
        if objection.is_none() {
            self.warn_of_shared_key(&who, older.is_some());
            older.into_iter().for_each(|older| self.replace(older));
        }
        objection
    }

    /// The receivers that are there, and have not been told Goodbye.
    fn there(&self) -> impl Iterator<Item = (ReceiverId, &Peer)> {
        let there = self.peers.iter().filter(|(_, peer)| peer.link.connection.is_some() && !peer.link.closes);
        there.map(|(receiver, peer)| (*receiver, peer))
    }

    /// Why an expired ticket is refused. The sender's clock counts, whatever the receiver's says.
    fn expired(&self) -> Option<String> {
        let ago = clock::unix_seconds().checked_sub(self.plan.expires?.get())?;
        Some(format!("the ticket expired {} ago by the sender's clock", clock::duration_in_words(ago)))
    }

    pub(super) fn allow(&self) -> Option<&AllowList> {
        self.plan.options.security.as_ref().and_then(|security| security.allow.as_ref())
    }

    /// `comes_again`: whether it takes the place of its older connection.
    fn objection_to_key(&self, who: &Who, comes_again: bool) -> Option<(PutOutCode, String)> {
        let key = who.key?;
        if self.allow().is_some_and(|allow| !allow.admits(&key)) {
            let reason = format!("its key {key} is not on the sender's allow list");
            return Some((PutOutCode::NotListed, reason));
        }
        let mut others = self.there().filter(|(_, peer)| peer.who.key == Some(key));
        let most = if self.allow().is_some() { 1 } else { MAX_FROM_ONE_KEY };
        let (_, other) = others.nth(most - 1).filter(|_| !comes_again)?;
        let reason = match most {
            1 => format!("a receiver with its key is there already, called {}", other.name),
            most => format!("{most} receivers with its key are there already"),
        };
        Some((PutOutCode::KeyInUse, reason))
    }

    fn warn_of_shared_key(&mut self, who: &Who, comes_again: bool) {
        let Some(key) = who.key.filter(|_| !comes_again) else { return };
        let other = self.there().find(|(_, peer)| peer.who.key == Some(key));
        if let Some((_, other)) = other {
            let (name, other) = (shown(&who.name), &other.name);
            let line = format!(
                "{name} has the same key as {other}: two receivers should not share a key file; {key}"
            );
            (self.on_event)(SendEvent::Warning(line));
        }
    }

    /// Whether there are too many, but for the one whose place it takes: here, or from its address.
    fn objection_to_number(&self, ip: IpAddr, older: Option<ReceiverId>) -> Option<(PutOutCode, String)> {
        let others = || self.there().filter(|(receiver, _)| Some(*receiver) != older);
        let full = |reason| Some((PutOutCode::Full, reason));
        if others().count() >= MAX_RECEIVERS {
            return full(format!("{MAX_RECEIVERS} receivers are there already"));
        }
        let count = |is_near: &dyn Fn(IpAddr) -> bool| {
            others().filter(|(_, peer)| is_near(peer.address.ip())).count()
        };
        let most = self.plan.options.per_address;
        if count(&|other| other.to_canonical() == ip.to_canonical()) >= most as usize {
            let are = if most == 1 { "receiver is" } else { "receivers are" };
            return full(format!("{most} {are} {PER_ADDRESS} (the sender's limit)"));
        }
        let network = place(ip);
        if count(&|other| place(other) == network) >= MAX_FROM_ONE_NETWORK {
            return full(format!("{MAX_FROM_ONE_NETWORK} receivers are there already from its network"));
        }
        None
    }

    /// A receiver has come back before its old connection was found to be lost.
    fn replace(&mut self, receiver: ReceiverId) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        if let Some(connection) = &mut peer.link.connection {
            let reason = "another receiver with its key and name has come";
            say_put_out(connection, self.plan.session, PutOutCode::Replaced, reason);
        }
        self.disconnect(receiver, "it has come again, over another connection");
    }

    fn welcome(&mut self, receiver: ReceiverId, connection: Connection, hello: &Hello) {
        let who = Who::new(connection.peer_key(), hello);
        let key = who.key;
        self.forget_departed(&who);
        self.mark_earlier_tries(&who, connection.peer().ip(), receiver);
        let listed = key.and_then(|key| self.allow()?.name_of(&key));
        let is_taken = |name: &str| self.peers.values().any(|peer| peer.name == name);
        let mut peer = Peer::new(connection, hello, listed, is_taken);
        peer.fresh = Fresh::since(self.all_run_bytes());
        peer.sent_before = self.machine.figures().multicast_bytes;
        if self.plan.options.feed.is_some() {
            let (kept, kept_bytes) = self.objects.numbered.kept();
            peer.tally.missed = self.figures.objects_done.saturating_sub(kept);
            peer.tally.forgone_bytes = self.figures.done_bytes.saturating_sub(kept_bytes);
        }
        let (name, address) = (peer.name.clone(), peer.address);
        self.note_came(&who, address);
        self.peers.insert(receiver, peer);
        self.tell_keys(receiver);
        self.update_destinations();
        let round_trip = self.round_trip(receiver);
        self.congestion_joined(self.clock.now(), receiver, round_trip);
        self.give_place(self.clock.now(), receiver);
        let receive_buffer_bytes = hello.receive_buffer_bytes;
        let input = SenderInput::Joined { receiver, receive_buffer_bytes, round_trip };
        self.handle(self.clock.now(), input);
        let joined = self.connected();
        let wanted = self.wanted();
        (self.on_event)(SendEvent::Joined { receiver: name, address, key, joined, wanted });
        self.take_messages(receiver);
    }

    /// Says why, as far as the other side can read it.
    fn refuse(&mut self, mut connection: Connection, code: PutOutCode, reason: String) {
        say_put_out(&mut connection, self.plan.session, code, &reason);
        self.note_refusal(connection.peer(), reason);
    }

    pub(super) fn note_refusal(&mut self, address: SocketAddr, reason: String) {
        let now = self.clock.now();
        if self.door.as_mut().is_some_and(|door| door.refusals.note(now)) {
            (self.on_event)(SendEvent::Refused { address, reason });
        }
    }
}
