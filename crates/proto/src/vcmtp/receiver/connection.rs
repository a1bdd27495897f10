//! The receiver's connection to the sender, and the end of a session (interdomain-2013, 4.4, table 4.7).

use super::{
    Receiver, ReceiverEvent, ReceiverTransmit, State,
    object::{Object, Stage},
};
use crate::{Instant, Step};

impl Receiver {
    /// INL_Unicast_Connection_Created.
    pub(super) fn connected(&mut self, now: Instant) {
        if self.state == State::Idle {
            self.state = State::ReceivingData;
            self.requester.ready_to_send = true;
            self.reporter.start(now);
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

    /// API_Close_Receiver.
    pub(super) fn close(&mut self) {
        self.drop_hearsay(true);
        self.fail_all("the receiver left: it was told to stop", |_| true);
        self.end_session();
    }

    /// When the session is over and nothing is left to check: the end.
    pub(super) fn leave(&mut self) {
        if self.state != State::Leaving {
            return;
        }
        // Before it says Goodbye, the sender has spoken of each of its objects on the connection.
        self.drop_hearsay(self.close_reason.is_some());
        let reason = match &self.close_reason {
            Some(reason) => format!("the connection to the sender was lost: {reason}"),
            None => "the sender ended the session before it was whole".to_owned(),
        };
        self.fail_all(&reason, |object| object.stage == Stage::Receiving);
        if self.ledger.is_empty() {
            self.end_session();
        }
    }

    fn end_session(&mut self) {
        if std::mem::take(&mut self.requester.ready_to_send) {
            self.out.push_back(Step::Transmit(ReceiverTransmit::CloseConnection));
        }
        self.out.push_back(Step::Event(ReceiverEvent::Closed { reason: self.close_reason.take() }));
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
