//! Helpers that the tests of both machines share. They write a machine's outputs as short words, so that a test
//! reads like a row of the paper's tables.

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Message, Progress, RetransmissionRequest, TransferType},
};

pub(super) const SESSION: SessionId = SessionId(0xfeed);

pub(super) fn file(index: u32) -> FileId {
    FileId::new(SESSION, index)
}

pub(super) fn begin(size: u64) -> BeginOfFile {
    BeginOfFile::new(TransferType::DiskToDisk, size, "name").unwrap()
}

pub(super) fn request(start: u64, end: u64) -> Message {
    Message::RetransmissionRequest(RetransmissionRequest::new(start..end).unwrap())
}

/// `BOF 0`, `Retx-Request 0 100..200`, `Digest 0`: the paper's names, and the object's index.
pub(super) fn words(file: FileId, message: &Message) -> String {
    let index = file.index();
    match message {
        Message::BeginOfFile(_) => format!("BOF {index}"),
        Message::EndOfFile => format!("EOF {index}"),
        Message::BeginOfFileRequest => format!("BOF-Request {index}"),
        Message::RetransmissionRequest(request) => format!("Retx-Request {index} {:?}", request.range()),
        Message::EndOfRetransmissionRequests => format!("End-Of-Retx-Reqs {index}"),
        Message::RetransmissionReject => format!("Retx-Reject {index}"),
        Message::Digest(_) => format!("Digest {index}"),
        Message::Progress(Progress { position, .. }) => format!("Progress {index} {position}"),
        Message::Withdraw(reason) => format!("Withdraw {index} ({})", reason.as_str()),
        Message::Failed(reason) => format!("Failed {index} ({})", reason.as_str()),
        Message::ChunkHashesRequest(request) => format!("Chunk-Hashes-Request {index} {:?}", request.pages()),
        Message::SymbolRequest(request) => format!("Symbol-Request {index} ({request})"),
        Message::SymbolsSent(sent) => format!("Symbols-Sent {index} ({sent})"),
        Message::Lacking(lacking) => format!("Lacking {index} {:?}", lacking.ranges().next().unwrap()),
        Message::Move(to) => format!("Move to {}", to.group()),
        other => format!("{:?}", other.packet_type()),
    }
}
