//! The receiver's connection to the sender, and the end of a session (interdomain-2013, 4.4, table 4.7).

use std::time::Duration;

use treecast_wire::message::{PutOut, PutOutCode};

use super::{
    Channel, CutShort, Receiver, ReceiverEvent, ReceiverTransmit, State,
    object::{Object, Stage},
};
use crate::{Instant, Step};

impl Receiver {
    /// INL_Unicast_Connection_Created.
    pub(super) fn connected(&mut self, now: Instant, round_trip: Duration) {
        if self.state == State::Idle {
            self.state = State::ReceivingData;
            self.requester.ready_to_send = true;
            self.requester.arrived_symbols = 0;
            self.requester.counts = false;
            self.reporter.start(now, round_trip);
            self.heard = now;
        }
    }

    /// INL_Unicast_Connection_Closed. What is whole is still checked and committed.
    pub(super) fn disconnected(&mut self, reason: &str) {
        self.requester.ready_to_send = false;
        if self.state != State::Leaving {
            self.state = State::Leaving;
            self.close_reason = Some(reason.to_owned());
        }
    }

    /// Something has come over the connection.
    pub(super) fn note_heard(&mut self, now: Instant, from: Channel) {
        if from == Channel::Control {
            self.heard = now;
        }
    }

    /// The time when a sender that says nothing more is listened for once more.
    pub(super) fn listens_at(&self) -> Option<Instant> {
        let is_silent = self.state == State::ReceivingData && !self.is_listening;
        is_silent.then(|| self.heard + self.config.stall_limit)
    }

    pub(super) fn listen_if_silent(&mut self, now: Instant) {
        if self.listens_at().is_some_and(|time| time <= now) {
            self.is_listening = true;
            self.transmit(ReceiverTransmit::Listen);
        }
    }

    /// A sender that is stopped, or that a network has lost without a word, does not hold its receivers for ever. What is
    /// whole is still checked and committed.
    pub(super) fn listened(&mut self, now: Instant, heard: bool) {
        if heard {
            self.heard = now;
        }
        let was_asked = std::mem::take(&mut self.is_listening);
        let is_silent = self.state == State::ReceivingData && self.heard + self.config.stall_limit <= now;
        if was_asked && is_silent {
            let seconds = self.config.stall_limit.as_secs_f64();
            // Nothing is said on this connection any more: the network may deliver it later, when the receiver has come back
            // over another one, and objects that have failed here would end for it.
            self.disconnected(&format!("it said nothing for {seconds} s: is it stopped?"));
        }
    }

    /// The sender serves this receiver no more, and says why. What is whole is still checked and committed.
    pub(super) fn put_out(&mut self, word: &PutOut) {
        self.state = State::Leaving;
        self.close_reason = Some(match word.code {
            PutOutCode::Ended => format!("it ended the session: {}", word.reason),
            PutOutCode::Stopped => format!("{}, and may be started again", word.reason),
            _ => format!("it put this receiver out: {}", word.reason),
        });
    }

    /// API_Close_Receiver.
    pub(super) fn close(&mut self, reason: &str) {
        self.drop_hearsay(true);
        self.fail_all(&format!("the receiver left: {reason}"), |_| true);
        self.end_session();
    }

    /// Ends the session when it is over and nothing is left to check.
    pub(super) fn leave(&mut self) {
        if self.state != State::Leaving {
            return;
        }
        // Before it says Goodbye, the sender has spoken of each of its objects on the connection.
        self.drop_hearsay(self.close_reason.is_some());
        let reason = match &self.close_reason {
            Some(reason) => format!("the session ended early: {reason}"),
            None => "the sender ended the session before it was whole".to_owned(),
        };
        self.fail_all(&reason, |object| matches!(object.stage, Stage::Receiving | Stage::Checking));
        if self.ledger.is_empty() {
            self.end_session();
        }
    }

    fn end_session(&mut self) {
        if std::mem::take(&mut self.requester.ready_to_send) {
            self.out.push_back(Step::Transmit(ReceiverTransmit::CloseConnection));
        }
        let reason = self.close_reason.clone().map(CutShort::Disconnected);
        self.out.push_back(Step::Event(ReceiverEvent::Closed { reason }));
        self.state = State::Closed;
    }

    /// Lets go of objects that may be somebody's invention: those that the connection has not spoken of, but for
    /// those that are announced if announcements count.
    fn drop_hearsay(&mut self, announcements_count: bool) {
        let invented = self.ledger.iter().filter(|(index, object)| {
            let counts = announcements_count && object.begin.is_some();
            !counts && !self.ledger.is_confirmed(*index)
        });
        let invented: Vec<u32> = invented.map(|(index, _)| index).collect();
        for index in invented {
            self.drop_object(index);
        }
    }

    fn fail_all(&mut self, reason: &str, which: impl Fn(&Object) -> bool) {
        let failed: Vec<u32> =
            self.ledger.iter().filter(|(_, object)| which(object)).map(|(index, _)| index).collect();
        for index in failed {
            self.fail(index, reason, true);
        }
    }
}
