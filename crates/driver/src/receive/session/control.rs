//! The connection to the sender: what comes over it, and what is said on it.

use treecast_host::poller::Interest;
use treecast_proto::{
    object::{Channel, ReceiverInput},
    tfmcc,
};
use treecast_wire::{
    header::FileId,
    message::{FEED_STEP, GroupKey, Message, PROTOCOL_VERSION, PutOut, PutOutCode, Welcome},
};

use super::{
    super::{ReceiveError, ReceiveEvent},
    CONTROL, GROUP, Session,
};
use crate::{
    connection::{Connection, ConnectionError},
    files::Task,
};

impl Session<'_> {
    pub(super) fn receive_control(&mut self) -> Result<(), ReceiveError> {
        let Some(mut connection) = self.wire.connection.take() else { return Ok(()) };
        match self.take_packets(&mut connection) {
            Ok(Ok(())) => self.wire.connection = Some(connection),
            Ok(Err(ConnectionError::Protocol(error))) if !self.delivery.line.is_welcome => {
                return Err(ReceiveError::OtherVersion(error));
            }
            Ok(Err(error)) if !self.delivery.line.is_welcome => {
                return Err(ReceiveError::Dropped(error.to_string()));
            }
            // Without its Goodbye, nobody knows whether the sender had more.
            Ok(Err(error)) => {
                self.delivery.handle(ReceiverInput::Disconnected { reason: error.to_string() }, None)
            }
            Err(error) => {
                // The sender is told.
                self.wire.connection = Some(connection);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes what has come over the connection, and returns how that is. What makes this receiver end is the outer error.
    fn take_packets(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Result<(), ConnectionError>, ReceiveError> {
        // What came before its end counts.
        let read = connection.read();
        self.note_read(matches!(read, Ok(true)));
        let end = read.err();
        let mut result = Ok(());
        while result.is_ok() {
            match connection.next_packet() {
                Ok(Some((header, payload))) if header.kind.is_block() => {
                    if self.delivery.store.intake.is_filled()
                        || self.delivery.store.intake.batch().room() < payload.len()
                    {
                        self.process(Channel::Control);
                        self.delivery.store.intake.hand_over(self.delivery.clock.now(), true);
                    }
                    self.note_again(header.file_id, payload.len() as u64);
                    self.delivery.store.intake.batch().push_payload(&header, payload);
                }
                Ok(Some((header, payload))) => match Message::parse(&header, payload) {
                    Ok(Message::Zeros(zeros)) => {
                        self.note_again(header.file_id, zeros.range().end - zeros.range().start);
                        self.delivery.store.intake.batch().push_zeros(header.file_id, zeros.range());
                    }
                    Ok(message) => {
                        // What came before it counts first. Messages alone are dealt with together in the end: each
                        // of a row of digests makes a file.
                        if !self.delivery.store.intake.batch().is_empty() {
                            self.process(Channel::Control);
                        }
                        self.control_message(header.file_id, message)?;
                    }
                    Err(error) => result = Err(error.into()),
                },
                Ok(None) => break,
                Err(error) => result = Err(error),
            }
        }
        self.process(Channel::Control);
        Ok(result.and(end.map_or(Ok(()), Err)))
    }

    fn control_message(&mut self, file: FileId, message: Message) -> Result<(), ReceiveError> {
        if let Message::Welcome(welcome) = message {
            self.admitted(file, welcome)?;
        }
        if let Message::GroupKey(key) = message {
            return self.take_key(&key);
        }
        if let Message::Offer(begin) = &message {
            if !self.delivery.wants(file, begin) {
                self.delivery.line.outbox.push(file, Message::NotWanted);
            }
            return Ok(());
        }
        if let Message::PutOut(word) = &message {
            if !self.delivery.line.is_welcome && word.code == PutOutCode::Stopped {
                return Err(ReceiveError::Dropped(word.reason.to_string()));
            }
            if !self.delivery.line.is_welcome && word.code == PutOutCode::NotMeant {
                return Err(ReceiveError::NotMeant(word.reason.to_string()));
            }
            if !self.delivery.line.is_welcome {
                return Err(ReceiveError::NotAdmitted(self.wire.refusal.line(word)));
            }
            self.delivery.line.comes_back &= matches!(word.code, PutOutCode::Stalled | PutOutCode::Stopped);
            self.delivery.figures.summary.has_ended = word.code == PutOutCode::Ended;
        }
        // What it has now is the end: the sender waits for this side to close.
        let is_over = matches!(message, Message::Goodbye | Message::PutOut(_));
        self.delivery.line.is_over |= is_over;
        self.delivery.line.closes |= is_over;
        let Some(message) = self.delivery.judged(file, message) else { return Ok(()) };
        let confirmed = match &message {
            Message::BeginOfFile(begin) => Some(begin.clone()),
            _ => None,
        };
        self.delivery.handle(ReceiverInput::Message { from: Channel::Control, file, message }, None);
        if confirmed.is_some() && self.delivery.trust.forget(file) {
            // What the sender has announced does not go with what it has signed.
            self.delivery.figures.malformed += 1;
        }
        if let Some(begin) = confirmed
            && self.delivery.store.begins.get(&file) == Some(&begin)
            && !self.delivery.store.small.has(file)
        {
            self.delivery.add(Task::Reserve { file, size: begin.file_size });
        }
        Ok(())
    }

    /// The sender has admitted this receiver, to a session that should be the ticket's.
    fn admitted(&mut self, file: FileId, welcome: Welcome) -> Result<(), ReceiveError> {
        if welcome.version != PROTOCOL_VERSION || welcome.block_len != self.delivery.block_len {
            let line = format!(
                "it speaks version {} with blocks of {} bytes, and the ticket says {PROTOCOL_VERSION} and {}: \
                 install the same version of treecast on both hosts, and ask for the ticket anew",
                welcome.version, welcome.block_len, self.delivery.block_len
            );
            return Err(ReceiveError::NotAdmitted(line.into()));
        }
        if file.session() != self.delivery.session {
            let line = "another session is held there now: ask for its ticket".to_owned();
            return Err(ReceiveError::NotAdmitted(line.into()));
        }
        if !self.delivery.line.is_welcome {
            let interface = self.hearing.groups.interface_name().to_owned();
            (self.delivery.on_event)(ReceiveEvent::Joined { sender: self.delivery.line.sender, interface });
            if self.delivery.store.chooser.is_some() {
                self.delivery.line.outbox.push(FileId::new(self.delivery.session, 0), Message::NamesRequest);
            }
            self.drop_parts_before(file.index());
            self.delivery.line.first = file.index();
        }
        self.delivery.line.is_welcome = true;
        self.hearing
            .congestion
            .handle(self.delivery.clock.now(), tfmcc::ReceiverInput::Named(welcome.receiver));
        Ok(())
    }

    /// The sender begins the object `next` next. An earlier sender of a feed used numbers of an earlier step, and what it had not
    /// sent to its end comes under a new number, or not at all.
    fn drop_parts_before(&mut self, next: u32) {
        let first = next - next % FEED_STEP;
        if !self.delivery.store.is_feed || first == 0 {
            return;
        }
        self.delivery.store.small.forget_left_before(first);
        for (index, bytes) in self.delivery.store.leftovers.take_parts(first) {
            let before = &mut self.delivery.carried.progress;
            before.received_bytes = before.received_bytes.saturating_sub(bytes);
            self.delivery.carried.admission.give_back(index);
            self.delivery.add(Task::DropPart { file: FileId::new(self.delivery.session, index) });
        }
    }

    /// Takes a key of the group. From the first one on, the group's packets can be read; until then they wait in the
    /// socket's buffer.
    fn take_key(&mut self, key: &GroupKey) -> Result<(), ReceiveError> {
        let could_read = self.hearing.source.can_read();
        if let Some(opener) = self.hearing.source.opener() {
            opener.add(key);
        }
        if !could_read && self.hearing.source.can_read() {
            self.poller.add(self.hearing.source.socket(), GROUP, Interest::Read)?;
            self.hearing.ears.iter().try_for_each(|ears| ears.add_to(&self.poller))?;
        }
        Ok(())
    }

    /// Writes what is queued for the sender.
    pub(super) fn flush(&mut self) -> Result<(), ReceiveError> {
        if let Some(reporter) = &mut self.wire.reporter {
            reporter.send(&mut self.delivery.line.outbox);
        }
        let Some(connection) = &mut self.wire.connection else { return Ok(()) };
        let mut all_written = true;
        while all_written {
            while connection.has_room()
                && let Some((file, message)) = self.delivery.line.outbox.pop()
            {
                connection.queue(&message.to_packet(file));
            }
            if !connection.has_output() {
                break;
            }
            all_written = connection.flush().unwrap_or_else(|_| {
                // Reading tells the same, and what came before the end counts.
                connection.discard_output();
                true
            });
        }
        if self.delivery.line.outbox.is_stuck() {
            self.wire.connection = None;
            let reason = "it reads nothing of what it is told".to_owned();
            self.delivery.handle(ReceiverInput::Disconnected { reason }, None);
            return Ok(());
        }
        if all_written && self.delivery.line.closes {
            connection.finish();
            self.wire.connection = None;
        } else if self.wire.waits_for_room == all_written {
            self.wire.waits_for_room = !all_written;
            let interest = if all_written { Interest::Read } else { Interest::ReadWrite };
            self.poller.modify(connection, CONTROL, interest)?;
        }
        Ok(())
    }

    /// Says that this receiver will not come again, and why, if the connection takes it at once: a sender that hangs must not
    /// hold it up. The sender would wait for the receiver otherwise (`--linger`).
    pub(super) fn say_farewell(&mut self, reason: &str) {
        if !self.delivery.line.is_over {
            let word = PutOut::new(PutOutCode::Ended, reason);
            self.delivery.line.outbox.push(FileId::new(self.delivery.session, 0), Message::PutOut(word));
        }
        self.delivery.line.closes = true;
        // Where it cannot be written, the connection's end says the same.
        _ = self.flush();
    }
}
