//! The receiver against tables 4.7 and 4.8 and procedures A to D, seen from outside.

use std::{ops::Range, time::Duration};

use treecast_wire::message::{Digest, Message, Reason};

use super::{
    super::testing::{SESSION, begin, file, words},
    *,
};

const HASH: [u8; 32] = [7; 32];

/// A receiver with blocks of 100 bytes, and a clock.
struct Bench {
    receiver: Receiver,
    now: Instant,
}

impl Bench {
    /// In state RECVING-DATA.
    fn new(notification: Notification) -> Self {
        Self::with(Repair::Nack, notification)
    }

    fn with(repair: Repair, notification: Notification) -> Self {
        let mut bench = Self::idle(repair, notification);
        bench.input(ReceiverInput::Connected);
        bench
    }

    fn idle(repair: Repair, notification: Notification) -> Self {
        let config = ReceiverConfig {
            session: SESSION,
            repair,
            block_len: 100,
            notification,
            progress_bytes: u64::MAX,
            progress_interval: Duration::from_secs(3600),
        };
        Self { receiver: Receiver::new(config), now: Instant::ZERO }
    }

    fn input(&mut self, input: ReceiverInput) -> String {
        self.receiver.handle(self.now, input);
        self.output()
    }

    fn output(&mut self) -> String {
        let mut output = Vec::new();
        loop {
            match self.receiver.poll(self.now) {
                Step::Transmit(transmit) => output.push(transmit_words(&transmit)),
                Step::Event(event) => output.push(event_words(&event)),
                Step::Wait(..) => return output.join(", "),
            }
        }
    }

    fn later(&mut self, time: Duration) -> String {
        self.now += time;
        self.output()
    }

    fn group(&mut self, message: Message) -> String {
        self.input(ReceiverInput::Message { from: Channel::Group, file: file(0), message })
    }

    fn control(&mut self, message: Message) -> String {
        self.input(ReceiverInput::Message { from: Channel::Control, file: file(0), message })
    }

    fn bof(&mut self, size: u64) -> String {
        self.group(Message::BeginOfFile(begin(size)))
    }

    fn bof_again(&mut self, size: u64) -> String {
        self.control(Message::BeginOfFile(begin(size)))
    }

    fn eof(&mut self) -> String {
        self.group(Message::EndOfFile)
    }

    fn digest(&mut self) -> String {
        self.control(Message::Digest(Digest(HASH)))
    }

    fn data(&mut self, range: Range<u64>) -> String {
        self.input(ReceiverInput::Blocks { from: Channel::Group, file: file(0), range })
    }

    fn data_again(&mut self, range: Range<u64>) -> String {
        self.input(ReceiverInput::Blocks { from: Channel::Control, file: file(0), range })
    }

    fn respond(&mut self, response: Response) -> String {
        self.input(ReceiverInput::Respond { file: file(0), response })
    }

    fn hashed(&mut self, hash: [u8; 32]) -> String {
        self.input(ReceiverInput::Hashed { file: file(0), hash })
    }
}

fn transmit_words(transmit: &ReceiverTransmit) -> String {
    match transmit {
        ReceiverTransmit::Message { file, message } => words(*file, message),
        ReceiverTransmit::Announce { file, begin } => {
            format!("announce {} {}", file.index(), begin.file_size)
        }
        ReceiverTransmit::Store { file, range } => format!("store {} {range:?}", file.index()),
        ReceiverTransmit::Hash { file } => format!("hash {}", file.index()),
        ReceiverTransmit::Commit { file } => format!("commit {}", file.index()),
        ReceiverTransmit::Discard { file } => format!("discard {}", file.index()),
        ReceiverTransmit::CloseConnection => "close connection".to_owned(),
    }
}

fn event_words(event: &ReceiverEvent) -> String {
    match event {
        ReceiverEvent::Announced { file, .. } => format!("API_BOF_Received {}", file.index()),
        ReceiverEvent::EndOfFileOnly { file } => format!("INL_EOF_Only {}", file.index()),
        ReceiverEvent::Received { file, .. } => format!("API_File_Received {}", file.index()),
        ReceiverEvent::Failed { file, .. } => format!("API_File_Receive_Failed {}", file.index()),
        ReceiverEvent::Closed { reason: None } => "closed".to_owned(),
        ReceiverEvent::Closed { reason: Some(reason) } => format!("closed ({reason})"),
    }
}

#[test]
fn a_whole_object_is_hashed_committed_and_reported() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.bof(250), "announce 0 250");
    assert_eq!(bench.data(0..200), "store 0 0..200");
    assert_eq!(bench.data(200..250), "store 0 200..250");
    assert_eq!(bench.eof(), "");
    assert_eq!(bench.digest(), "hash 0");
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}
