//! The receivers' connections: accepting, reading, writing and closing them.

use std::{collections::BTreeSet, io, net::IpAddr, time::Duration};

use treecast_host::poller::Interest;
use treecast_proto::{
    Instant, Step,
    object::{Lane, ReceiverId, SenderInput},
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{Message, PutOut, PutOutCode},
};

use super::{
    super::{
        SendEvent,
        peer::{Awaited, Peer, shown},
    },
    FIRST_CONNECTION, Session, Turn,
};
use crate::connection::Connection;

/// The most connections taken between runs, so that those taken before get on.
const ACCEPTED_A_TURN: usize = 16;

/// How long a receiver gets to close its end when it has been told Goodbye: TCP sends that half a dozen times in it,
/// should it be lost. Were the socket closed at once, a report that crosses the Goodbye would be answered by a reset,
/// and a lost Goodbye never be sent again.
const LINGER: Duration = Duration::from_secs(10);

/// The most receivers that have left and are told by name in the end.
const MAX_DEPARTED: usize = 1000;

impl Session<'_> {
    /// Fills and writes each connection that has room. Returns when one would take more.
    pub(super) fn serve_connections(&mut self, now: Instant) -> Turn {
        let Some(machine) = self.machine.vcmtp_mut() else { return Turn::Until(None) };
        machine.keep_alive(now);
        let (mut again, mut paced) = (false, None);
        let mut receivers: Vec<ReceiverId> = machine.receivers().collect();
        // Whoever was served last waits for all others: a rate may leave room for one at a time.
        let first = receivers.partition_point(|receiver| *receiver <= self.last_served);
        receivers.rotate_left(first);
        for receiver in receivers {
            if self.is_ready(receiver) && self.has_room(now, receiver) {
                self.last_served = receiver;
                self.turn_receiver(now, receiver);
                // What passes a group that nobody hears waits for this.
                self.has_news |= self.is_unheard();
            }
            self.flush(now, receiver);
            // Only now: where the kernel has taken all that was queued, nothing else would wake this loop.
            if self.is_ready(receiver) {
                again |= self.has_room(now, receiver);
                paced =
                    Some(now + self.lanes.pacer.delay(now, self.lanes.run_bytes)).filter(|time| *time > now);
            }
        }
        if again { Turn::Again } else { Turn::Until(paced) }
    }

    /// Whether the machine has something for a receiver's connection.
    fn is_ready(&self, receiver: ReceiverId) -> bool {
        self.machine.vcmtp().is_some_and(|machine| machine.is_ready(receiver))
    }

    fn turn_receiver(&mut self, now: Instant, receiver: ReceiverId) {
        while self.has_room(now, receiver) {
            let result = match self.machine.poll(now, Lane::Receiver(receiver)) {
                Step::Transmit(transmit) => self.transmit(now, transmit),
                Step::Event(event) => {
                    self.note(now, event);
                    Ok(())
                }
                Step::Wait(..) => return,
            };
            // What goes over a connection fails with the connection, which `flush` notices.
            if result.is_err() {
                return;
            }
        }
    }

    /// Blocks take their share of the rate. Messages do not wait for it: a receiver that has everything is not done
    /// before it is told the hash.
    fn has_room(&mut self, now: Instant, receiver: ReceiverId) -> bool {
        let connection = self.peers.get(&receiver).and_then(|peer| peer.link.connection.as_ref());
        let Some(machine) = self.machine.vcmtp() else { return false };
        let (pacer, run_bytes) = (&mut self.lanes.pacer, self.lanes.run_bytes);
        let has_rate = || pacer.delay(now, run_bytes).is_zero();
        connection.is_some_and(|connection| connection.has_room())
            && (machine.has_message(receiver)
                || self.lanes.repairs.may_leave(|| machine.is_urgent(now, receiver), has_rate))
    }

    pub(super) fn accept(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let Some(door) = &mut self.door else { return Ok(()) };
        for _ in 0..ACCEPTED_A_TURN {
            let token = door.next_token;
            match door.lobby.accept(&door.listener, token, now) {
                Ok(Some(connection)) => self.poller.add(connection, token, Interest::Read)?,
                // One connection that failed before it was taken is no reason to end the session.
                Ok(None) | Err(_) => break,
            }
            door.next_token += 1;
        }
        Ok(())
    }

    /// Takes what a receiver has sent.
    pub(super) fn read(&mut self, receiver: ReceiverId) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        match connection.read() {
            Ok(_) => self.take_messages(receiver),
            Err(error) => self.disconnect(receiver, &error.to_string()),
        }
    }

    pub(super) fn take_messages(&mut self, from: ReceiverId) {
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
                        peer.note_progress(progress, self.figures.total_bytes);
                    }
                    match message {
                        Message::PaceReport(report) => {
                            self.congestion_report(now, from, report);
                            continue;
                        }
                        Message::Heard(heard) => {
                            self.heard(now, from, heard);
                            continue;
                        }
                        Message::PutOut(word) => {
                            peer.absence.has_quit = true;
                            return self.disconnect(from, &shown(word.reason.as_str()));
                        }
                        _ => {}
                    }
                    self.handle(now, SenderInput::Message { from, file, message });
                }
                Err(reason) => return self.disconnect(from, &reason),
            }
        }
    }

    fn flush(&mut self, now: Instant, receiver: ReceiverId) {
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

    pub(super) fn disconnect(&mut self, receiver: ReceiverId, reason: &str) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        peer.link.connection = None;
        let closes = peer.link.closes;
        let name = peer.name.clone();
        if !closes {
            peer.absence.left = Some(reason.to_owned());
            peer.absence.left_at = Some(self.clock.now());
            self.await_return(receiver);
        }
        self.update_destinations();
        let now = self.clock.now();
        self.congestion_left(now, receiver);
        self.no_place(receiver);
        self.handle(now, SenderInput::Left { receiver, reason: reason.to_owned() });
        if closes {
            return;
        }
        self.note_leaver();
        let passed_by = self.peers.get(&receiver).is_some_and(Peer::has_only_passed_by);
        if self.figures.started.is_none() || passed_by {
            self.note_ended(receiver);
            self.peers.remove(&receiver);
            self.await_listed();
            self.update_hold();
        }
        (self.on_event)(SendEvent::Left { receiver: name, reason: reason.to_owned() });
        self.forget_earlier_try(receiver);
        self.merge_departed();
    }

    /// Keeps only the number of receivers that have left, where there are very many.
    fn merge_departed(&mut self) {
        let departed: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.absence.left.is_some() && peer.absence.awaited < Awaited::Missing)
            .map(|(receiver, _)| *receiver)
            .collect();
        for receiver in departed.iter().take(departed.len().saturating_sub(MAX_DEPARTED)) {
            self.peers.remove(receiver);
            self.figures.summary.others_failed += 1;
        }
    }

    /// The machine serves this receiver no more.
    pub(super) fn put_out(&mut self, receiver: ReceiverId, reason: &str) {
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        if let Some(mut connection) = peer.link.connection.take() {
            say_put_out(&mut connection, self.plan.session, PutOutCode::Stalled, reason);
        }
        if peer.link.lingers_until.is_some() {
            return;
        }
        peer.absence.left = Some(reason.to_owned());
        let name = peer.name.clone();
        self.await_return(receiver);
        self.congestion_left(self.clock.now(), receiver);
        self.no_place(receiver);
        self.note_leaver();
        self.update_destinations();
        (self.on_event)(SendEvent::Left { receiver: name, reason: reason.to_owned() });
        self.forget_earlier_try(receiver);
    }

    /// The receivers named before (`--receivers`) from whose addresses nobody is there.
    pub(super) fn missing(&self) -> Vec<IpAddr> {
        let here: BTreeSet<IpAddr> = self
            .peers
            .values()
            .filter(|peer| peer.link.connection.is_some())
            .map(|peer| peer.address.ip().to_canonical())
            .collect();
        let named = self.plan.options.receivers.iter().copied();
        named.filter(|ip| !here.contains(&ip.to_canonical())).collect()
    }

    /// How many receivers are there.
    pub(super) fn connected(&self) -> u32 {
        self.peers.values().filter(|peer| peer.link.connection.is_some()).count() as u32
    }
}

/// The last word to a receiver that is not served: told if its connection takes it at once, for one that is stopped
/// must not hold its sender up.
pub(super) fn say_put_out(connection: &mut Connection, session: SessionId, code: PutOutCode, reason: &str) {
    say_last(connection, session, &Message::PutOut(PutOut::new(code, reason)));
}

/// The last word to a receiver, as [`say_put_out`] says it.
pub(super) fn say_last(connection: &mut Connection, session: SessionId, word: &Message) {
    connection.queue(&word.to_packet(FileId::new(session, 0)));
    // The event tells the same to whoever runs the sender.
    if connection.flush().is_ok() {
        connection.finish();
    }
}
