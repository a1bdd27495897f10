//! What the receiver does with answers from the application and from the storage (interdomain-2013, 4.4,
//! table 4.7, API_BOF_Response and API_File_Received).

use treecast_wire::header::FileId;

use super::{
    super::Repair,
    Receiver, ReceiverEvent, ReceiverTransmit, Response, State,
    object::{Decision, Stage},
    requester::Request,
};
use crate::Step;

impl Receiver {
    /// API_BOF_Response(i), or INL_EOF_Only_Response(i).
    pub(super) fn respond(&mut self, file: FileId, response: Response) {
        let index = file.index();
        let Some(object) = self.ledger.get_mut(index).filter(|_| file.session() == self.config.session)
        else {
            return;
        };
        if object.decision != Decision::Pending {
            return;
        }
        match response {
            // Only the end was heard: the BOF is asked for, and when it comes, the application is asked again.
            Response::Accept if object.begin.is_none() => self.request_begin_of_file(index),
            Response::Accept => {
                object.decision = Decision::Accepted;
                if let Some(begin) = object.begin.clone() {
                    self.transmit(ReceiverTransmit::Announce { file, begin });
                }
            }
            Response::Ignore => {
                object.decision = Decision::Ignored;
                self.chunks -= object.chunks();
                object.forget();
                self.transmit(ReceiverTransmit::Discard { file });
            }
        }
        self.settle(index);
    }

    /// The hash of an object that is whole. A wrong one: everything is asked for once more.
    pub(super) fn hashed(&mut self, file: FileId, hash: [u8; 32]) {
        let (index, connected) = (file.index(), self.state == State::ReceivingData);
        let Some(object) = self.ledger.get_mut(index).filter(|object| object.stage == Stage::Hashing) else {
            return;
        };
        if object.digest == Some(hash) {
            object.stage = Stage::Committing;
            return self.transmit(ReceiverTransmit::Commit { file });
        }
        if object.mismatched || self.config.repair == Repair::None || !connected {
            return self.fail(index, "its content does not have the hash that the sender gave", true);
        }
        self.chunks -= object.chunks();
        self.reporter.progress.received_bytes -= object.received_bytes;
        if let Some(all) = object.start_again() {
            self.request(index, Request::Retransmission(all));
        }
        self.settle(index);
    }

    pub(super) fn store_failed(&mut self, file: FileId, reason: &str) {
        if file.session() == self.config.session && self.ledger.get(file.index()).is_some() {
            self.fail(file.index(), reason, true);
        }
    }

    /// API_File(i)_Received: the caller has carried out the commit without complaint.
    pub(super) fn committed(&mut self) {
        let Some(index) = self.committing.take() else { return };
        let Some(begin) = self.end(index).and_then(|object| object.begin) else { return };
        let file = self.file_id(index);
        self.out.push_back(Step::Event(ReceiverEvent::Received { file, begin }));
        self.request(index, Request::End);
    }
}
