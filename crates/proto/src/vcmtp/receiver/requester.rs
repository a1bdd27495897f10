//! The retransmission requester: tells the sender what is missing (interdomain-2013, 4.4, table 4.8).

use std::ops::Range;

use treecast_wire::message::{
    ChunkHashesRequest, Lack, Message, Move, Reason, RetransmissionRequest, SymbolRequest,
};

use super::super::Repair;

/// NULL while there is no connection, else READY-TO-SEND.
#[derive(Debug, Default)]
pub(super) struct Requester {
    pub(super) repair: Repair,
    pub(super) ready_to_send: bool,
    /// Repair symbols that have come over the connection.
    pub(super) arrived_symbols: u64,
    /// Whether the sender mends losses with repair symbols: it is told how much is lacking then, and no longer what.
    pub(super) counts: bool,
}

/// A request of the data receiver, for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// INL_Retx_Req(i,B), B being all blocks of these bytes.
    Retransmission(Range<u64>),
    /// Symbols of these source blocks, at most [`treecast_wire::message::MAX_LACKS`] of them.
    Symbols(Vec<Lack>),
    /// The hashes that the object's chunks should have.
    ChunkHashes(ChunkHashesRequest),
    /// Bytes that the group has not brought, and a slower one is to, or that an older version of the object does not hold.
    Lacking(Range<u64>),
    /// All that is lacking of an object of this size has been said.
    EndOfReport(u64),
    /// Another group is listened to.
    Move(Move),
    /// INL_BOF_Req(i).
    BeginOfFile,
    /// INL_End_Of_Retx_Reqs(i).
    End,
    /// The object is not wanted here.
    NotWanted,
    /// The object has failed here.
    Failed(String),
}

impl Requester {
    /// The message to the sender, if there is a connection and the repair asks for such things.
    pub(super) fn message(&self, request: Request) -> Option<Message> {
        let asks = self.repair != Repair::None;
        let message = match request {
            Request::Retransmission(bytes) if asks => {
                Message::RetransmissionRequest(RetransmissionRequest::new(bytes).ok()?)
            }
            Request::Lacking(bytes) if asks => {
                Message::Lacking(RetransmissionRequest::new(bytes).ok()?.into())
            }
            Request::EndOfReport(size) if asks => {
                Message::Lacking(RetransmissionRequest::end_of_report(size).into())
            }
            Request::BeginOfFile if asks => Message::BeginOfFileRequest,
            Request::Symbols(lacks) if asks => {
                Message::SymbolRequest(SymbolRequest::new(self.arrived_symbols, lacks).ok()?)
            }
            Request::ChunkHashes(request) if asks => Message::ChunkHashesRequest(request),
            Request::Retransmission(_)
            | Request::Symbols(_)
            | Request::BeginOfFile
            | Request::Lacking(_)
            | Request::EndOfReport(_)
            | Request::ChunkHashes(_) => return None,
            Request::Move(to) => Message::Move(to),
            Request::End => Message::EndOfRetransmissionRequests,
            Request::NotWanted => Message::NotWanted,
            Request::Failed(reason) => Message::Failed(Reason::new(&reason)),
        };
        self.ready_to_send.then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Requester =
        Requester { repair: Repair::Nack, ready_to_send: true, arrived_symbols: 0, counts: false };

    #[test]
    fn table_4_8_ready_to_send_retx_req() {
        let expected = RetransmissionRequest::new(100..300).unwrap();
        let message = READY.message(Request::Retransmission(100..300));
        assert_eq!(message, Some(Message::RetransmissionRequest(expected)));
    }

    #[test]
    fn table_4_8_ready_to_send_bof_req() {
        assert_eq!(READY.message(Request::BeginOfFile), Some(Message::BeginOfFileRequest));
    }

    #[test]
    fn table_4_8_ready_to_send_end_of_retx_reqs() {
        assert_eq!(READY.message(Request::End), Some(Message::EndOfRetransmissionRequests));
    }

    #[test]
    fn table_4_8_null_sends_nothing() {
        let null = Requester { ready_to_send: false, ..READY };
        assert_eq!(null.message(Request::BeginOfFile), None);
        assert_eq!(null.message(Request::End), None);
    }

    #[test]
    fn without_repair_nothing_is_asked_for_again() {
        let none = Requester { repair: Repair::None, ..READY };
        assert_eq!(none.message(Request::Retransmission(0..1)), None);
        assert_eq!(none.message(Request::BeginOfFile), None);
        assert_eq!(none.message(Request::End), Some(Message::EndOfRetransmissionRequests));
    }
}
