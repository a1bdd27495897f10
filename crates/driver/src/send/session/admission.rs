//! Whom the session admits, and what others are told.

use std::net::SocketAddr;

use treecast_proto::vcmtp::{ReceiverId, SenderInput};
use treecast_wire::message::{Hello, PutOutCode};

use super::{
    super::{
        SendEvent,
        lobby::Arrival,
        peer::{Fresh, Peer},
    },
    FIRST_CONNECTION, Session,
    connections::say_put_out,
};
use crate::{clock, connection::Connection, security::PublicKey};

/// The most receivers in a session: each takes a descriptor and up to half a megabyte of buffers.
const MAX_RECEIVERS: usize = 10_000;

impl Session<'_> {
    pub(super) fn admit(&mut self, token: u64) {
        match self.lobby.read(token) {
            Arrival::Waiting => {}
            Arrival::Refused(connection, code, reason) => self.refuse(connection, code, reason),
            Arrival::Admitted(connection, hello) => match self.objection(&connection, &hello) {
                Some((code, reason)) => self.refuse(connection, code, reason),
                None => self.welcome(ReceiverId((token - FIRST_CONNECTION) as u32), connection, &hello),
            },
        }
    }

    /// Why a receiver is not admitted.
    fn objection(&mut self, connection: &Connection, hello: &Hello) -> Option<(PutOutCode, String)> {
        if let Some(reason) = self.expired() {
            return Some((PutOutCode::Expired, reason));
        }
        if let Some(key) = connection.peer_key()
            && let Some(objection) = self.objection_to(key, hello.name())
        {
            return Some(objection);
        }
        let is_full = self.machine.receivers().count() >= MAX_RECEIVERS;
        is_full.then(|| (PutOutCode::Full, format!("{MAX_RECEIVERS} receivers are there already")))
    }

    /// By the sender's clock, whatever the receiver's says.
    fn expired(&self) -> Option<String> {
        let ago = clock::unix_seconds().checked_sub(self.plan.expires?.get())?;
        Some(format!("the ticket expired {} ago by the sender's clock", clock::duration_in_words(ago)))
    }

    fn objection_to(&mut self, key: PublicKey, name: &str) -> Option<(PutOutCode, String)> {
        let allow = self.plan.options.security.as_ref().and_then(|security| security.allow.as_ref());
        if allow.is_some_and(|allow| !allow.admits(&key)) {
            let reason = format!("its key {key} is not on the sender's allow list");
            return Some((PutOutCode::NotListed, reason));
        }
        let is_there = |peer: &Peer| peer.connection.is_some() && !peer.closes && peer.key == Some(key);
        let mut others = self.peers.iter().filter(|(_, peer)| is_there(peer));
        let (other, peer) = others.next()?;
        let (other, other_name) = (*other, peer.name.clone());
        if peer.hello_name == name {
            self.replace(other);
            return None;
        }
        if allow.is_none() {
            let line = format!(
                "{name} has the same key as {other_name}: two receivers should not share a key file; {key}"
            );
            (self.on_event)(SendEvent::Warning(line));
            return None;
        }
        Some((PutOutCode::KeyInUse, format!("a receiver with its key is there already, called {other_name}")))
    }

    /// A receiver has come back before its old connection was found to be lost.
    fn replace(&mut self, receiver: ReceiverId) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        if let Some(connection) = &mut peer.connection {
            let reason = "another receiver with its key and name has come";
            say_put_out(connection, self.plan.session, PutOutCode::Replaced, reason);
        }
        self.disconnect(receiver, "it has come again, over another connection");
    }

    fn welcome(&mut self, receiver: ReceiverId, connection: Connection, hello: &Hello) {
        let key = connection.peer_key();
        self.forget_departed(key, hello.name());
        let allow = self.plan.options.security.as_ref().and_then(|security| security.allow.as_ref());
        let listed = key.and_then(|key| allow?.name_of(&key));
        let is_taken = |name: &str| self.peers.values().any(|peer| peer.name == name);
        let mut peer = Peer::new(connection, hello, listed, is_taken);
        peer.fresh = Fresh::since(self.all_run_bytes());
        peer.sent_before = self.machine.multicast_bytes();
        if self.plan.options.feed.is_some() {
            peer.missed = self.objects_done;
            peer.forgone_bytes = self.done_bytes;
        }
        let (name, address) = (peer.name.clone(), peer.address);
        self.peers.insert(receiver, peer);
        self.tell_keys(receiver);
        self.update_destinations();
        self.congestion_joined(self.clock.now(), receiver);
        let input = SenderInput::Joined { receiver, receive_buffer_bytes: hello.receive_buffer_bytes };
        self.handle(self.clock.now(), input);
        let joined = self.connected();
        let wanted = self.plan.options.wait_for;
        (self.on_event)(SendEvent::Joined { receiver: name, address, key, joined, wanted });
        self.take_messages(receiver);
    }

    /// Says why, as far as the other side can read it.
    fn refuse(&mut self, mut connection: Connection, code: PutOutCode, reason: String) {
        say_put_out(&mut connection, self.plan.session, code, &reason);
        self.note_refusal(connection.peer(), reason);
    }

    pub(super) fn note_refusal(&mut self, address: SocketAddr, reason: String) {
        if self.refusals.note(self.clock.now()) {
            (self.on_event)(SendEvent::Refused { address, reason });
        }
    }
}
