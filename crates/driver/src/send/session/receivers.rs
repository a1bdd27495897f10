//! The receivers' connections: receivers that come, what each says and gets, and receivers that go.

use std::time::Duration;

use treecast_host::poller::Interest;
use treecast_proto::{
    Instant,
    object::{ReceiverId, SenderInput},
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{Hello, Message, PutOut, PutOutCode},
};

use super::{
    super::{
        SendEvent,
        lobby::Arrival,
        peer::{Fresh, Peer, shown},
        who::Who,
    },
    FIRST_CONNECTION, Session,
};
use crate::connection::Connection;

/// The time that a receiver gets to close its end when it has been told Goodbye. TCP sends that half a dozen times in
/// it, should it be lost. Were the socket closed at once, a report that crosses the Goodbye would be answered by a
/// reset, and a lost Goodbye never be sent again.
const LINGER: Duration = Duration::from_secs(10);

/// # Receivers that come
impl Session<'_> {
    /// Admits a receiver whose connection waits in the lobby, if it has said who it is.
    pub(super) fn admit(&mut self, token: u64) {
        let Some(door) = self.kind.door() else { return };
        let (receiver, arrival) = door.read(token);
        match arrival {
            Arrival::Waiting | Arrival::Gone => {}
            Arrival::Refused(connection, code, reason) => self.refuse(connection, code, reason),
            // A receiver tells how its command went. It is thanked whoever it is, so that it does not try again.
            Arrival::Told(mut connection, result) => {
                let (now, key) = (self.clock.now(), connection.peer_key());
                self.peers.note_result(now, key, &result, &self.plan, &mut self.core);
                say_last(&mut connection, self.plan.session, &Message::Goodbye);
            }
            Arrival::Admitted(connection, hello) => {
                match self.peers.admit(&connection, &hello, &self.plan, &mut self.core) {
                    Ok(older) => {
                        older.into_iter().for_each(|older| self.replace(older));
                        self.welcome(receiver, connection, &hello);
                    }
                    Err((code, reason)) => {
                        self.peers.note_refused(code, &hello);
                        self.refuse(connection, code, reason);
                    }
                }
            }
        }
    }

    /// Closes the old connection of a receiver that has come back before that was found to be lost.
    fn replace(&mut self, receiver: ReceiverId) {
        self.say_put_out(receiver, PutOutCode::Replaced, "another receiver with its key and name has come");
        self.disconnect(receiver, "it has come again, over another connection");
    }

    fn welcome(&mut self, receiver: ReceiverId, connection: Connection, hello: &Hello) {
        let who = Who::new(connection.peer_key(), hello);
        let key = who.key;
        for ending in self.peers.ending(&who) {
            self.disconnect(ending, "it has come again, over another connection");
            self.peers.remove(&ending);
        }
        let now = self.clock.now();
        self.peers.forget_departed(now, &who, &self.plan, &mut self.core);
        // Before the start, receivers have nothing to say, and silence tells nothing.
        if self.core.figures.started.is_some() {
            self.peers.mark_earlier_tries(&who, connection.peer().ip(), receiver, &self.plan);
        }
        let listed = key.and_then(|key| self.plan.allow_list()?.name_of(&key));
        let is_taken = |name: &str| self.peers.values().any(|peer| peer.name == name);
        let mut peer = Peer::new(connection, hello, listed, is_taken);
        peer.fresh = Fresh::since(self.core.all_run_bytes(self.plan.block_len, self.lanes.groups()));
        peer.sent_before = self.core.machine.figures().multicast_bytes;
        if self.plan.options.content.feed.is_some() {
            let (kept, kept_bytes) = self.objects.kept();
            peer.tally.missed = self.core.figures.objects_done.saturating_sub(kept);
            peer.tally.forgone_bytes = self.core.figures.done_bytes.saturating_sub(kept_bytes);
        }
        let (name, address) = (peer.name.clone(), peer.address);
        self.kind.door().into_iter().for_each(|door| door.has_admitted(address.ip()));
        self.peers.note_came(&who, address, &self.plan, &mut self.core);
        self.lanes.known_keys().into_iter().for_each(|key| peer.tell_key(self.plan.session, key));
        self.peers.insert(receiver, peer);
        self.lanes.serve(now, &self.peers, &mut self.core);
        let peer = self.peers.get(&receiver);
        let round_trip = peer.and_then(Peer::round_trip);
        if let Some(peer) = peer {
            self.lanes.joined(now, receiver, peer, round_trip, &mut self.core);
        }
        let receive_buffer_bytes = hello.receive_buffer_bytes;
        let input = SenderInput::Joined { receiver, receive_buffer_bytes, round_trip };
        self.core.handle(now, input);
        let (joined, wanted) = (self.peers.count(), self.peers.wanted(&self.plan));
        self.core.tell(SendEvent::Joined { receiver: name, address, key, joined, wanted });
        self.take_messages(receiver);
    }

    /// Says why, as far as the other side can read it.
    fn refuse(&mut self, mut connection: Connection, code: PutOutCode, reason: String) {
        let word = Message::PutOut(PutOut::new(code, reason.as_str()));
        say_last(&mut connection, self.plan.session, &word);
        // Of those that the session is not for there may be a thousand, and they have done nothing wrong.
        if let Some(door) = self.kind.door().filter(|_| code != PutOutCode::NotMeant) {
            door.note_refusal(self.clock.now(), connection.peer(), reason, &mut self.core);
        }
    }
}

/// # What each says and gets
impl Session<'_> {
    /// Takes what a receiver has sent.
    pub(super) fn read(&mut self, receiver: ReceiverId) {
        let connection = self.peers.get_mut(&receiver).and_then(|peer| peer.link.connection.as_mut());
        let Some(connection) = connection else { return };
        match connection.read() {
            Ok(_) => self.take_messages(receiver),
            Err(error) => self.disconnect(receiver, &error.to_string()),
        }
    }

    fn take_messages(&mut self, from: ReceiverId) {
        let now = self.clock.now();
        loop {
            let Some(peer) = self.peers.get_mut(&from) else { return };
            let Some(connection) = &mut peer.link.connection else { return };
            let parsed = match connection.next_packet() {
                Ok(None) => return,
                Ok(Some((header, payload))) => Message::parse(&header, payload)
                    .map(|message| (header.file_id, message))
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match parsed {
                Ok((file, message)) => {
                    peer.has_spoken = true;
                    peer.absence.came_again = None;
                    peer.tally.requests += u64::from(matches!(message, Message::RetransmissionRequest(_)));
                    if let Message::Progress(progress) = message {
                        peer.note_progress(progress, self.core.figures.total_bytes);
                    }
                    let group = peer.group;
                    match message {
                        Message::PaceReport(report) => {
                            if self.lanes.congestion_report(now, from, group, report, &mut self.core) {
                                self.place(now);
                            }
                            continue;
                        }
                        Message::Heard(heard) => {
                            self.lanes.heard(now, from, group, heard, &mut self.core);
                            continue;
                        }
                        Message::PutOut(word) => {
                            peer.absence.has_quit = true;
                            return self.disconnect(from, &shown(word.reason.as_str()));
                        }
                        _ => {}
                    }
                    let asks =
                        matches!(message, Message::RetransmissionRequest(_) | Message::SymbolRequest(_));
                    self.core.handle(now, SenderInput::Message { from, file, message });
                    if asks {
                        self.lanes.congestion_asked(now, from, group, &mut self.core);
                    }
                }
                Err(reason) => return self.disconnect(from, &reason),
            }
        }
    }

    /// Calls receivers to the groups where they belong.
    fn place(&mut self, now: Instant) {
        let (peers, total) = (&self.peers, self.core.figures.total_bytes);
        let multicast = self.core.machine.figures().multicast_bytes;
        let has_feed = self.objects.has_feed();
        // At least. The end of a feed is not known.
        let unsent_bytes = |group: u8| match group {
            _ if has_feed => u64::MAX,
            0 => total.saturating_sub(multicast),
            _ => {
                let there = peers.connected().filter(|peer| peer.group == group);
                there.map(|peer| total.saturating_sub(peer.had_bytes())).max().unwrap_or_default()
            }
        };
        let group_of = |number| peers.numbered(number).map(|(_, peer)| peer.group);
        for (number, group) in self.lanes.place(now, unsent_bytes, group_of, &mut self.core) {
            if let (Some((receiver, _)), Some(machine)) =
                (peers.numbered(number), self.core.machine.vcmtp_mut())
            {
                machine.call(receiver, group);
                self.core.wake();
            }
        }
    }

    /// Writes what a receiver's connection has to send.
    pub(super) fn flush(&mut self, now: Instant, receiver: ReceiverId) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        if !connection.has_output() && !peer.link.closes && !peer.link.waits_for_room {
            return;
        }
        let all_written = match connection.flush() {
            Ok(all_written) => all_written,
            Err(error) => return self.disconnect(receiver, &error.to_string()),
        };
        if all_written && peer.link.closes {
            let until = *peer.link.lingers_until.get_or_insert_with(|| {
                connection.finish();
                now + LINGER
            });
            if until <= now {
                return self.disconnect(receiver, "the session is over");
            }
        }
        if peer.link.waits_for_room == all_written {
            peer.link.waits_for_room = !all_written;
            let interest = if all_written { Interest::Read } else { Interest::ReadWrite };
            // A descriptor that is in the poller can be changed there; were it not, reading would tell.
            let _ = self.poller.modify(connection, u64::from(receiver.0) + FIRST_CONNECTION, interest);
        }
    }
}

/// # Receivers that go
impl Session<'_> {
    fn disconnect(&mut self, receiver: ReceiverId, reason: &str) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        peer.link.connection = None;
        let (closes, group, name) = (peer.link.closes, peer.group, peer.name.clone());
        let now = self.clock.now();
        if !closes {
            peer.absence.left = Some(reason.to_owned());
            peer.absence.left_at = Some(now);
            self.peers.await_return(now, receiver, &self.plan, &mut self.core);
        }
        self.lanes.serve(now, &self.peers, &mut self.core);
        self.lanes.left(now, receiver, group, &mut self.core);
        self.core.handle(now, SenderInput::Left { receiver, reason: reason.to_owned() });
        if closes {
            return;
        }
        self.lanes.note_leaver();
        let passed_by = self.peers.get(&receiver).is_some_and(Peer::has_only_passed_by);
        if self.core.figures.started.is_none() || passed_by {
            self.peers.note_ended(receiver, &mut self.core);
            self.peers.remove(&receiver);
            if let Some(door) = self.kind.door() {
                self.peers.await_listed(&self.plan, door);
            }
            self.peers.update_hold(now, &self.plan, &mut self.core);
        }
        self.core.tell(SendEvent::Left { receiver: name, reason: reason.to_owned() });
        self.peers.forget_earlier_try(now, receiver, &self.plan, &mut self.core);
        self.peers.merge_departed(&mut self.core);
    }

    /// Takes the connection of a receiver that is served no more, and says why. It closes when the receiver has read that.
    pub(super) fn say_put_out(&mut self, receiver: ReceiverId, code: PutOutCode, reason: &str) {
        let connection = self.peers.get_mut(&receiver).and_then(|peer| peer.link.connection.take());
        let Some(mut connection) = connection else { return };
        let word = Message::PutOut(PutOut::new(code, reason));
        connection.queue(&word.to_packet(FileId::new(self.plan.session, 0)));
        // One that is not in the poller need not leave it.
        _ = self.poller.remove(&connection);
        self.farewells.begin(self.clock.now(), connection);
    }

    /// Closes the connection of a receiver that the machine serves no more.
    pub(super) fn put_out(&mut self, receiver: ReceiverId, reason: &str) {
        self.say_put_out(receiver, PutOutCode::Stalled, reason);
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        if peer.link.lingers_until.is_some() {
            return;
        }
        peer.absence.left = Some(reason.to_owned());
        let (now, group, name) = (self.clock.now(), peer.group, peer.name.clone());
        self.peers.await_return(now, receiver, &self.plan, &mut self.core);
        self.lanes.left(now, receiver, group, &mut self.core);
        self.lanes.note_leaver();
        self.lanes.serve(now, &self.peers, &mut self.core);
        self.core.tell(SendEvent::Left { receiver: name, reason: reason.to_owned() });
        self.peers.forget_earlier_try(now, receiver, &self.plan, &mut self.core);
    }
}

/// The last word to a receiver, told if its connection takes it at once.
pub(super) fn say_last(connection: &mut Connection, session: SessionId, word: &Message) {
    connection.queue(&word.to_packet(FileId::new(session, 0)));
    // The event tells the same to whoever runs the sender.
    if connection.flush().is_ok() {
        connection.finish();
    }
}
