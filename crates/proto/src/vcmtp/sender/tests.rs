//! The sender against tables 4.4 to 4.6, seen from outside.

use std::time::Duration;

use super::{
    super::testing::{SESSION, begin, file, request, words},
    *,
};

const A: ReceiverId = ReceiverId(1);
const B: ReceiverId = ReceiverId(2);
const HASH: [u8; 32] = [7; 32];

/// A sender with blocks of 100 bytes and runs of 2, and a clock.
struct Bench {
    sender: Sender,
    now: Instant,
}

impl Bench {
    fn new(repair: Repair) -> Self {
        Self::with(repair, None)
    }

    fn with(repair: Repair, retransmission_timeout_factor: Option<f64>) -> Self {
        let config = SenderConfig {
            session: SESSION,
            repair,
            block_len: 100,
            max_run_len: 200,
            retransmission_timeout_factor,
            minimum_retransmission_time: Duration::from_millis(10),
            follow_progress: false,
            patience: Duration::from_secs(1),
        };
        Self { sender: Sender::new(config), now: Instant::ZERO }
    }

    fn send(&mut self, size: u64) {
        self.sender.send(self.now, begin(size));
    }

    fn input(&mut self, input: SenderInput) {
        self.sender.handle(self.now, input);
    }

    fn join(&mut self, receiver: ReceiverId) {
        self.input(SenderInput::Joined { receiver, receive_buffer_bytes: 1 << 20 });
    }

    fn message(&mut self, from: ReceiverId, message: Message) {
        self.input(SenderInput::Message { from, file: file(0), message });
    }

    fn hashed(&mut self) {
        self.input(SenderInput::Hashed { file: file(0), hash: HASH });
    }

    fn group(&mut self) -> String {
        self.lane(Lane::Group)
    }

    fn to(&mut self, receiver: ReceiverId) -> String {
        self.lane(Lane::Receiver(receiver))
    }

    fn lane(&mut self, lane: Lane) -> String {
        let mut output = Vec::new();
        while let Some(words) = self.step(lane) {
            output.push(words);
        }
        output.join(", ")
    }

    fn step(&mut self, lane: Lane) -> Option<String> {
        match self.sender.poll(self.now, lane) {
            Step::Transmit(transmit) => Some(transmit_words(&transmit)),
            Step::Event(event) => Some(event_words(&event)),
            Step::Wait(..) => None,
        }
    }
}

fn transmit_words(transmit: &SenderTransmit) -> String {
    match transmit {
        SenderTransmit::Message { file, message, .. } => words(*file, message),
        SenderTransmit::Blocks { kind: PacketType::Data, file, range, .. } => {
            format!("data {} {range:?}", file.index())
        }
        SenderTransmit::Blocks { file, range, .. } => format!("data again {} {range:?}", file.index()),
        SenderTransmit::CloseConnection(_) => "close connection".to_owned(),
    }
}

fn event_words(event: &SenderEvent) -> String {
    match event {
        SenderEvent::ReceiverDone { receiver, outcome, .. } => format!("{} {outcome:?}", receiver.0),
        SenderEvent::FileDone { file, outcomes } => {
            format!("API_File_Done {} of {}", file.index(), outcomes.len())
        }
        SenderEvent::Closed => "closed".to_owned(),
    }
}

#[test]
fn an_object_goes_out_and_is_done_when_its_receiver_says_so() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    assert_eq!(bench.to(A), "Welcome");
    bench.send(350);
    assert_eq!(bench.group(), "BOF 0, data 0 0..200, data 0 200..350, EOF 0");
    bench.hashed();
    assert_eq!(bench.to(A), "Digest 0");
    bench.message(A, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "1 Complete, API_File_Done 0 of 1");
    bench.input(SenderInput::Close);
    bench.group();
    assert_eq!(bench.to(A), "Goodbye, close connection");
    bench.input(SenderInput::Left { receiver: A, reason: "closed".to_owned() });
    assert_eq!(bench.group(), "closed");
}

#[test]
fn table_4_5_retx_request() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.to(A);
    bench.send(1_000);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("data 0 0..200"));
    bench.message(A, request(100, 200));
    bench.message(A, request(0, 200));
    assert_eq!(bench.to(A), "data again 0 0..200", "meanwhile, and overlapping requests are one");
    bench.message(A, request(100, 300));
    assert_eq!(bench.to(A), "", "not beyond what has been multicast");
}
