//! The sender against tables 4.4 to 4.6, seen from outside.

mod difference;
mod feed;
mod offers;
mod slower;
mod stall;
mod symbols;
mod unheard;

use std::time::Duration;

use treecast_wire::message::{ChunkHashesRequest, Lack, Progress, RetransmissionRequest, SymbolRequest};

use super::{
    super::testing::{SESSION, begin, file, request, words},
    *,
};

const A: ReceiverId = ReceiverId(1);
const B: ReceiverId = ReceiverId(2);
const HASH: [u8; 32] = [7; 32];
const KEEPALIVE: Duration = Duration::from_secs(3600);

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
        Self::of(SenderConfig { repair, retransmission_timeout_factor, ..Self::config() })
    }

    /// A bench with an object that is out at these receivers.
    fn out_at(size: u64, receivers: &[ReceiverId]) -> Self {
        let mut bench = Self::new(Repair::Nack);
        bench.out(size, receivers);
        bench
    }

    /// A bench with a receiver that has been welcomed.
    fn joined(repair: Repair) -> Self {
        let mut bench = Self::new(repair);
        bench.join(A);
        bench.to(A);
        bench
    }

    fn of(config: SenderConfig) -> Self {
        Self { sender: Sender::new(config), now: Instant::ZERO }
    }

    fn config() -> SenderConfig {
        SenderConfig {
            session: SESSION,
            repair: Repair::Nack,
            fec: None,
            digest_to_group: false,
            block_len: 100,
            max_run_len: 200,
            slower_run_lens: Vec::new(),
            slower_groups_mend: false,
            retransmission_timeout_factor: None,
            minimum_retransmission_time: Duration::from_millis(10),
            follow_progress: false,
            patience: Duration::from_secs(1),
            floor_bytes_a_second: None,
            stall_limit: Duration::from_secs(60),
            at_once: 64,
            is_feed: false,
            kept_objects: 0,
            keepalive: KEEPALIVE,
        }
    }

    fn send(&mut self, size: u64) {
        self.sender.send(self.now, begin(size));
    }

    fn input(&mut self, input: SenderInput) {
        self.sender.handle(self.now, input);
    }

    fn join(&mut self, receiver: ReceiverId) {
        self.input(SenderInput::Joined { receiver, receive_buffer_bytes: 1 << 20, round_trip: None });
    }

    fn message(&mut self, from: ReceiverId, message: Message) {
        self.message_of(from, 0, message);
    }

    fn message_of(&mut self, from: ReceiverId, index: u32, message: Message) {
        self.input(SenderInput::Message { from, file: file(index), message });
    }

    /// An object that is out at these receivers, with its hash known.
    fn out(&mut self, size: u64, receivers: &[ReceiverId]) {
        for receiver in receivers {
            self.join(*receiver);
        }
        self.send(size);
        self.group();
        self.hashed();
        for receiver in receivers {
            self.to(*receiver);
        }
    }

    fn left(&mut self, receiver: ReceiverId) {
        self.input(SenderInput::Left { receiver, reason: "reset".to_owned() });
    }

    /// The place where the next blocks that are sent again start.
    fn retransmission(&mut self, receiver: ReceiverId) -> u64 {
        match self.sender.poll(self.now, Lane::Receiver(receiver)) {
            Step::Transmit(SenderTransmit::Blocks { range, .. }) => range.start,
            other => panic!("{other:?}"),
        }
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
        SenderTransmit::Symbols { file, source_block, symbols, .. } => {
            format!("symbols {}/{source_block} {symbols:?}", file.index())
        }
        SenderTransmit::ChunkHashes { file, pages, .. } => format!("chunk hashes {} {pages:?}", file.index()),
        SenderTransmit::CloseConnection(_) => "close connection".to_owned(),
    }
}

fn event_words(event: &SenderEvent) -> String {
    match event {
        SenderEvent::ReceiverDone { receiver, outcome, .. } => format!("{} {outcome:?}", receiver.0),
        SenderEvent::FileDone { file, outcomes } => {
            format!("API_File_Done {} of {}", file.index(), outcomes.len())
        }
        SenderEvent::FileClosed { file } => format!("closed again {}", file.index()),
        SenderEvent::PutOut { receiver, reason } => format!("{} is put out ({reason})", receiver.0),
        SenderEvent::Moved { receiver, group } => format!("receiver {} in group {group}", receiver.0),
        SenderEvent::Closed => "closed".to_owned(),
        other => format!("{other:?}"),
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

/// Table 4.5, ACTIVE.
#[test]
fn table_4_5_retx_request() {
    let mut bench = Bench::joined(Repair::Nack);
    bench.send(1_000);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("data 0 0..200"));
    bench.message(A, request(100, 200));
    bench.message(A, request(0, 200));
    assert_eq!(bench.to(A), "data again 0 0..200", "meanwhile, and overlapping requests are one");
    bench.message(A, request(100, 300));
    let answer = "BOF 0, data again 0 100..200";
    assert_eq!(bench.to(A), answer, "not beyond what has been multicast: somebody has misled it");
}

#[test]
fn chunk_hashes_go_to_whoever_still_has_part_in_the_object() {
    let mut bench = Bench::with(Repair::Nack, Some(1.0));
    bench.out(500, &[A, B]);
    let ask = |pages| Message::ChunkHashesRequest(ChunkHashesRequest::new(pages).unwrap());
    bench.message(A, ask(0..32));
    bench.message(A, ask(32..40));
    bench.message(A, request(0, 200));
    assert!(bench.sender.is_ready(A) && !bench.sender.is_answered(A));
    assert_eq!(
        bench.to(A),
        "chunk hashes 0 32..40, data again 0 0..200",
        "the last request alone, and first"
    );
    bench.message(B, ask(0..1));
    bench.now += Duration::from_millis(10);
    bench.group();
    assert_eq!(bench.to(B), "Retx-Reject 0", "its time is up");
    bench.message(A, ask(0..1));
    assert_eq!(bench.to(A), "Retx-Reject 0");
}

#[test]
fn table_4_5_retx_request_after_the_timeout() {
    let mut bench = Bench::with(Repair::Nack, Some(1.0));
    bench.out(500, &[A, B]);
    bench.message(A, request(0, 200));
    bench.now += Duration::from_millis(10);
    let done = "1 Failed(\"its time for retransmissions was up\"), 2 Failed(\"its time for retransmissions was up\")";
    assert_eq!(bench.group(), format!("{done}, API_File_Done 0 of 2"));
    assert_eq!(bench.to(A), "Retx-Reject 0", "what it had asked for does not come");
    assert_eq!(bench.to(B), "");
    bench.message(B, request(0, 200));
    assert_eq!(bench.to(B), "Retx-Reject 0");
    bench.message(B, Message::BeginOfFileRequest);
    assert_eq!(bench.to(B), "Retx-Reject 0");
}

/// Interdomain-2013, 4.6.2: SendFile and SendMemoryData have a factor each.
#[test]
fn an_object_may_have_a_factor_of_its_own() {
    let mut bench = Bench::new(Repair::Nack);
    [A, B].into_iter().for_each(|receiver| bench.join(receiver));
    bench.send(500);
    bench.sender.set_retransmission_timeout_factor(file(0), 1.0);
    bench.send(500);
    bench.group();
    bench.hashed();
    bench.input(SenderInput::Hashed { file: file(1), hash: HASH });
    bench.now += Duration::from_millis(10);
    assert!(bench.group().ends_with("API_File_Done 0 of 2"));
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.group(), "", "the other object has no limit");
}

#[test]
fn the_hash_still_goes_out_after_the_timeout_to_who_has_asked_for_nothing() {
    let mut bench = Bench::with(Repair::Nack, Some(1.0));
    bench.join(A);
    bench.to(A);
    bench.send(500);
    bench.group();
    bench.hashed();
    bench.now += Duration::from_millis(10);
    bench.group();
    assert_eq!(bench.to(A), "Digest 0", "its connection had no room before");
}

#[test]
fn table_4_5_bof_request() {
    let mut bench = Bench::out_at(500, &[A]);
    bench.message(A, Message::BeginOfFileRequest);
    bench.message(A, Message::BeginOfFileRequest);
    assert_eq!(bench.to(A), "BOF 0", "asked for twice before it could go out");
}

#[test]
fn table_4_5_end_of_retx_reqs() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.message(A, request(0, 500));
    bench.message(A, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.to(A), "", "it has everything: nothing is sent again");
    assert_eq!(bench.group(), "1 Complete");
    bench.message(A, request(0, 100));
    assert_eq!(bench.to(A), "Retx-Reject 0");
    bench.message(B, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "2 Complete, API_File_Done 0 of 2");
}

#[test]
fn table_4_5_close_retransmitter() {
    let mut bench = Bench::out_at(500, &[A]);
    bench.input(SenderInput::Close);
    assert_eq!((bench.group(), bench.to(A)), (String::new(), String::new()), "an object is under way");
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.group();
    assert_eq!(bench.to(A), "Goodbye, close connection");
    assert_eq!(bench.to(A), "");
}

/// Table 4.6, ACTIVE.
#[test]
fn table_4_6_connection_created_late() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(500);
    bench.group();
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome, BOF 0, EOF 0", "it has missed both");
    bench.hashed();
    assert!(bench.sender.has_message(B));
    assert_eq!(bench.to(B), "Digest 0");
    bench.message(B, request(0, 100));
    assert!(
        bench.sender.is_ready(B) && !bench.sender.has_message(B),
        "blocks wait for their share, messages do not"
    );
    assert_eq!(bench.to(B), "data again 0 0..100");
    bench.join(ReceiverId(3));
    assert_eq!(bench.to(ReceiverId(3)), "Welcome, BOF 0, Digest 0");
    bench.message(ReceiverId(3), request(0, 500));
    assert_eq!(bench.to(ReceiverId(3)), "data again 0 0..200, data again 0 200..400, data again 0 400..500");
}

#[test]
fn table_4_6_handle_completion_starts_the_timer() {
    let mut bench = Bench::with(Repair::Nack, Some(3.0));
    bench.join(A);
    bench.send(400);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    bench.now += Duration::from_millis(20);
    bench.group();
    let wait = bench.sender.poll(bench.now, Lane::Group);
    let keepalive = Some(Instant::ZERO + KEEPALIVE / 2);
    assert_eq!(wait, Step::Wait(keepalive, SenderWait::Hash), "nobody can be done before");
    bench.hashed();
    let wait = bench.sender.poll(bench.now, Lane::Group);
    let expires = bench.now + Duration::from_millis(60);
    assert_eq!(wait, Step::Wait(Some(expires), SenderWait::Receivers), "three times the multicast's 20 ms");
}

#[test]
fn table_4_6_file_done_receiver_no_pending_receivers() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.message(B, Message::Failed(Reason::new("disk full")));
    assert_eq!(bench.group(), "1 Complete, 2 Failed(\"disk full\"), API_File_Done 0 of 2");
}

#[test]
fn table_4_6_retx_timeout() {
    let mut bench = Bench::with(Repair::Nack, Some(0.0));
    bench.out(500, &[A, B]);
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.now += Duration::from_millis(10);
    let done = "1 Complete, 2 Failed(\"its time for retransmissions was up\"), API_File_Done 0 of 2";
    assert_eq!(bench.group(), done, "never sooner than the minimum");
}

/// Table 4.6, CLOSING-RETXMITTERS.
#[test]
fn table_4_6_retxmitter_exited() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.join(B);
    bench.input(SenderInput::Close);
    assert_eq!(bench.group(), "");
    bench.left(A);
    assert_eq!(bench.group(), "", "more pending receivers");
    bench.join(ReceiverId(3));
    assert_eq!(bench.to(ReceiverId(3)), "Welcome, Goodbye, close connection", "too late to get anything");
    bench.left(B);
    bench.left(ReceiverId(3));
    assert_eq!(bench.group(), "closed");
    assert_eq!(bench.sender.poll(bench.now, Lane::Group), Step::Wait(None, SenderWait::Closed));
}

#[test]
fn a_receiver_that_leaves_has_failed() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.left(A);
    assert_eq!(bench.group(), "1 Failed(\"the receiver left: reset\")");
    bench.message(B, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "2 Complete, API_File_Done 0 of 2");
}

#[test]
fn an_object_that_nobody_is_left_to_have_is_not_sent_to_its_end() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(10_000);
    bench.send(100);
    for _ in 0..4 {
        bench.step(Lane::Group);
    }
    bench.message(A, Message::Failed(Reason::new("disk full")));
    assert_eq!(bench.group(), "EOF 1, 1 Failed(\"disk full\"), API_File_Done 0 of 1");
}

#[test]
fn a_withdrawn_object_ends_at_once() {
    let mut bench = Bench::joined(Repair::Nack);
    bench.send(10_000);
    bench.step(Lane::Group);
    bench.step(Lane::Group);
    bench.input(SenderInput::Withdraw { file: file(0), reason: "it has shrunk".to_owned() });
    assert_eq!(bench.group(), "1 Failed(\"it has shrunk\"), API_File_Done 0 of 1");
    assert_eq!(bench.to(A), "BOF 0, Withdraw 0 (it has shrunk)");
}

#[test]
fn receivers_hear_of_an_object_that_is_withdrawn_before_its_turn() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(100);
    bench.input(SenderInput::Withdraw { file: file(0), reason: "it is gone".to_owned() });
    assert_eq!(bench.group(), "1 Failed(\"it is gone\"), API_File_Done 0 of 1");
    assert_eq!(bench.to(A), "Welcome, BOF 0, Withdraw 0 (it is gone)");
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome, BOF 0, Withdraw 0 (it is gone)", "who comes late hears of it, too");
}

#[test]
fn vcmtp_1_retransmits_when_the_object_is_out() {
    let mut bench = Bench::joined(Repair::After);
    bench.send(600);
    for _ in 0..3 {
        bench.step(Lane::Group);
    }
    bench.message(A, request(300, 400));
    bench.message(A, request(0, 100));
    assert_eq!(bench.to(A), "", "stored");
    assert!(!bench.sender.is_ready(A));
    assert_eq!(bench.group(), "data 0 400..600, EOF 0");
    assert!(bench.sender.is_ready(A));
    assert_eq!(bench.to(A), "data again 0 0..100, data again 0 300..400", "in the order of the object");
}

#[test]
fn vcmtp_1_goes_through_the_object_once_for_all_receivers() {
    let size = 200 << 20;
    let mut bench = Bench::new(Repair::After);
    bench.sender = Sender::new(SenderConfig { max_run_len: 1 << 20, ..bench.sender.config.clone() });
    bench.out(size, &[A, B]);
    for receiver in [A, B] {
        bench.message(receiver, request(0, size));
    }
    for _ in 0..100 {
        bench.step(Lane::Receiver(A));
    }
    let behind = bench.retransmission(B);
    assert!(
        behind > 90 << 20,
        "B, too slow so far, goes on where A is and what it needs is cached: {behind}"
    );
    let ahead = bench.retransmission(A);
    assert!(ahead.abs_diff(behind) <= 2 << 20, "{ahead} {behind}");
    let mut starts = Vec::new();
    while bench.sender.is_ready(B) {
        starts.push(bench.retransmission(B));
    }
    assert_eq!(starts.iter().min(), Some(&0), "what it has passed over comes last");
    assert_eq!(bench.sender.retransmitters[&B].retransmitted_bytes, size);
}

#[test]
fn retransmissions_of_objects_take_turns() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(600);
    bench.send(100);
    bench.group();
    bench.to(A);
    bench.message(A, request(0, 600));
    bench.input(SenderInput::Message { from: A, file: file(1), message: request(0, 100) });
    let all = "data again 0 0..200, data again 1 0..100, data again 0 200..400, data again 0 400..600";
    assert_eq!(bench.to(A), all, "a small one is not blocked by a large one");
}

#[test]
fn without_repair_requests_are_rejected() {
    let mut bench = Bench::new(Repair::None);
    bench.out(500, &[A]);
    bench.message(A, request(0, 100));
    assert_eq!(bench.to(A), "Retx-Reject 0");
}

#[test]
fn a_hostile_receiver_gets_no_memory() {
    let mut bench = Bench::out_at(1_000, &[A]);
    for start in 0..1_000 {
        bench.message(A, request(start, u64::MAX));
        bench.message(A, request(start, start + 1));
        let unknown = FileId::new(SESSION, 1_000_000 + start as u32);
        bench.input(SenderInput::Message { from: A, file: unknown, message: request(0, 1) });
    }
    let blocks = [0, 200, 400, 600, 800].map(|start| format!("data again 0 {start}..{}", start + 200));
    assert_eq!(bench.to(A), format!("BOF 0, {}", blocks.join(", ")), "each thing once");
}

#[test]
fn a_hostile_receiver_gains_no_amplification() {
    let mut bench = Bench::out_at(1_000, &[A]);
    let mut answers = 0;
    for _ in 0..1_000 {
        bench.message(A, request(1_000, u64::MAX));
        answers += bench.to(A).matches("BOF").count();
    }
    assert_eq!(answers, 8, "it has been told");
}

/// The receiver has been told often enough, and must not ask for ever for what was not there when it did.
#[test]
fn a_receiver_that_is_misled_again_and_again_is_set_right_at_the_end() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(1_000);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    for _ in 0..20 {
        bench.message(A, request(0, 1_000));
        bench.to(A);
    }
    bench.group();
    bench.hashed();
    assert_eq!(bench.to(A), "BOF 0, Digest 0");
}

#[test]
fn the_group_waits_for_reports_when_it_follows_progress() {
    let mut bench = Bench::new(Repair::Nack);
    bench.sender = Sender::new(SenderConfig { follow_progress: true, ..bench.sender.config.clone() });
    bench.input(SenderInput::Joined { receiver: A, receive_buffer_bytes: 800, round_trip: None });
    bench.send(1_000);
    assert_eq!(bench.group(), "BOF 0, data 0 0..200, data 0 200..400");
    let patient_until = bench.now + Duration::from_secs(1);
    let wait = bench.sender.poll(bench.now, Lane::Group);
    assert_eq!(wait, Step::Wait(Some(patient_until), SenderWait::Credit));
    bench.message(A, Message::Progress(Progress { position: 200, ..Progress::default() }));
    assert_eq!(bench.group(), "data 0 400..600");
    bench.now = patient_until;
    assert_eq!(bench.group(), "data 0 600..800, data 0 800..1000, EOF 0", "a silent receiver is left behind");
}

#[test]
fn a_receiver_that_says_nothing_while_it_owes_an_answer_is_put_out() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.message(A, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "1 Complete");
    bench.now += Duration::from_secs(40);
    bench.message(B, Message::Progress(Progress::default()));
    bench.now += Duration::from_secs(40);
    assert_eq!(bench.group(), "", "it is slow, and lives");
    bench.now += Duration::from_secs(20);
    let reason = "it said nothing for 60 s while it owed an answer: is it stopped?";
    let done = format!("2 Failed({reason:?}), API_File_Done 0 of 2");
    assert_eq!(bench.group(), format!("{done}, 2 is put out ({reason})"), "A owes nothing");
    assert_eq!(bench.sender.receivers().collect::<Vec<_>>(), [A]);
}

#[test]
fn who_is_told_nothing_else_hears_now_and_then_that_the_sender_lives() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.join(B);
    assert_eq!((bench.to(A), bench.to(B)), ("Welcome".to_owned(), "Welcome".to_owned()));
    bench.now += KEEPALIVE / 2;
    bench.group();
    assert_eq!((bench.to(A), bench.to(B)), (String::new(), String::new()), "it has been told something");
    bench.send(100);
    bench.group();
    bench.message(A, request(0, 100));
    assert_eq!(bench.to(A), "data again 0 0..100");
    bench.now += KEEPALIVE / 2;
    assert_eq!(bench.group(), "");
    assert_eq!((bench.to(A), bench.to(B)), (String::new(), "Welcome".to_owned()));
    let wait = bench.sender.poll(bench.now, Lane::Group);
    assert_eq!(wait, Step::Wait(Some(bench.now + KEEPALIVE / 2), SenderWait::Hash));
    bench.left(A);
    bench.left(B);
    bench.now += KEEPALIVE / 2;
    let wait = bench.sender.poll(bench.now, Lane::Group);
    assert!(matches!(wait, Step::Event(_) | Step::Wait(None, _)), "nobody is left to be told: {wait:?}");
}

#[test]
fn who_only_came_and_went_is_not_counted() {
    let mut bench = Bench::out_at(500, &[A]);
    for stranger in 10..1_000 {
        bench.join(ReceiverId(stranger));
        bench.left(ReceiverId(stranger));
    }
    assert_eq!(bench.group(), "");
    bench.message(A, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "1 Complete, API_File_Done 0 of 1");
}

/// An object that is over is opened again for a receiver that comes late, and no other receiver notices.
#[test]
fn a_late_receiver_gets_what_is_over() {
    let mut bench = Bench::out_at(500, &[A]);
    bench.message(A, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "1 Complete, API_File_Done 0 of 1");
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome, BOF 0, Digest 0");
    bench.message(B, request(200, 500));
    assert_eq!(bench.to(B), "data again 0 200..400, data again 0 400..500");
    bench.input(SenderInput::Close);
    assert_eq!(bench.group(), "", "it waits for the late one");
    bench.message(B, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.group(), "2 Complete, closed again 0");
    assert_eq!(
        (bench.to(A), bench.to(B)),
        ("Goodbye, close connection".into(), "Goodbye, close connection".into())
    );
}

/// A receiver that has missed very much is told of it as fast as it ends with it.
#[test]
fn what_a_late_receiver_costs_does_not_grow_with_what_it_has_missed() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    let count = 5 * retransmitter::MOST_AT_ONCE as u32;
    for index in 0..count {
        bench.send(100);
        bench.group();
        bench.input(SenderInput::Hashed { file: file(index), hash: HASH });
        bench.message_of(A, index, Message::EndOfRetransmissionRequests);
    }
    bench.group();
    bench.input(SenderInput::Close);
    bench.join(B);
    let told = |words: &str| words.matches("BOF").count();
    assert_eq!(told(&bench.to(B)), retransmitter::MOST_AT_ONCE);
    assert_eq!(told(&bench.to(B)), 0, "it has not ended with any");
    for index in 0..count {
        assert!(bench.sender.objects.len() <= retransmitter::MOST_AT_ONCE);
        assert_eq!(bench.group().matches("closed").count(), usize::from(index > 0));
        bench.message_of(B, index, Message::EndOfRetransmissionRequests);
        bench.to(B);
    }
    assert!(bench.group().contains("closed again"));
    assert_eq!(bench.to(B), "Goodbye, close connection");
}

/// An object that all have left goes on where it was when one comes again, for as long as somebody is waited for.
#[test]
fn what_nobody_was_left_to_have_goes_on_when_somebody_comes_again() {
    let mut bench = Bench::new(Repair::Nack);
    bench.join(A);
    bench.send(500);
    bench.send(300);
    assert_eq!(
        (bench.step(Lane::Group), bench.step(Lane::Group)),
        (Some("BOF 0".into()), Some("BOF 1".into()))
    );
    assert_eq!(bench.step(Lane::Group), Some("data 0 0..200".into()));
    bench.input(SenderInput::Close);
    bench.sender.linger(Some(Duration::from_secs(10)), Instant::ZERO);
    bench.input(SenderInput::Left { receiver: A, reason: "it was killed".into() });
    bench.group();
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome, BOF 0, BOF 1");
    let group = bench.group();
    assert!(!group.contains("data 0 0..200") && group.contains("data 0 200..400"), "{group}");
    bench.message(B, request(0, 200));
    assert_eq!(bench.to(B), "data again 0 0..200");
    for index in [0, 1] {
        bench.input(SenderInput::Hashed { file: file(index), hash: HASH });
        bench.message_of(B, index, Message::EndOfRetransmissionRequests);
    }
    let group = bench.group();
    assert!(group.contains("API_File_Done 0 of 1") && group.contains("API_File_Done 1 of 1"), "{group}");
    assert_eq!(bench.to(B), "Goodbye, close connection");
}

#[test]
fn the_session_ends_when_nobody_comes_again_in_time() {
    let mut bench = Bench::out_at(500, &[A]);
    bench.input(SenderInput::Close);
    bench.sender.linger(Some(Duration::from_secs(10)), Instant::ZERO);
    bench.input(SenderInput::Left { receiver: A, reason: "it was killed".into() });
    assert!(!bench.group().contains("closed"));
    bench.now += Duration::from_secs(10);
    assert_eq!(bench.group(), "closed");
}

#[test]
fn who_may_be_late_is_waited_for_until_then_at_least() {
    let mut bench = Bench::out_at(500, &[A]);
    bench.input(SenderInput::Close);
    let until = bench.now + Duration::from_secs(60);
    bench.sender.linger(Some(Duration::from_secs(10)), until);
    bench.input(SenderInput::Left { receiver: A, reason: "it was killed".into() });
    assert!(!bench.group().contains("closed"));
    bench.now += Duration::from_secs(59);
    assert!(!bench.group().contains("closed"));
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.group(), "closed");
}

#[test]
fn who_has_left_is_waited_for_from_when_all_others_are_done() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.input(SenderInput::Close);
    bench.sender.linger(Some(Duration::from_secs(10)), Instant::ZERO);
    bench.input(SenderInput::Left { receiver: A, reason: "it was killed".into() });
    bench.group();
    bench.now += Duration::from_secs(60);
    assert!(!bench.group().contains("closed"));
    bench.message(B, Message::EndOfRetransmissionRequests);
    bench.group();
    bench.to(B);
    bench.left(B);
    bench.now += Duration::from_secs(9);
    assert!(!bench.group().contains("closed"));
    bench.now += Duration::from_secs(1);
    assert!(bench.group().contains("closed"));
}

/// The sender of a session that goes on sends nothing to the group that an earlier one has sent.
#[test]
fn a_sender_that_is_started_again_goes_on_where_it_was() {
    let mut bench = Bench::joined(Repair::Nack);
    let begin =
        |size| BeginOfFile::new(treecast_wire::message::TransferType::DiskToDisk, size, "name").unwrap();
    bench.sender.send_over(begin(500), HASH);
    bench.sender.send_from(bench.now, begin(500), 250);
    bench.sender.send_from(bench.now, begin(150), 150);
    assert_eq!(bench.to(A), "BOF 0, Digest 0");
    let group = bench.group();
    assert_eq!(group, "BOF 1, BOF 2, data 1 200..400, EOF 2, data 1 400..500, EOF 1");
    bench.message_of(A, 1, request(0, 200));
    assert_eq!(bench.to(A), "data again 1 0..200");
    assert_eq!(bench.sender.multicast_bytes(), 1150);
}

/// The object whose time is up first goes first, and is urgent when half of its time is over.
#[test]
fn what_is_of_no_use_later_goes_first() {
    let mut bench = Bench::with(Repair::Nack, Some(1.0));
    bench.sender = Sender::new(SenderConfig {
        minimum_retransmission_time: Duration::from_millis(100),
        ..bench.sender.config.clone()
    });
    bench.join(A);
    for (index, wait) in [(0, 60), (1, 0)] {
        bench.send(400);
        bench.group();
        bench.input(SenderInput::Hashed { file: file(index), hash: HASH });
        bench.group();
        bench.now += Duration::from_millis(wait);
    }
    bench.to(A);
    bench.message_of(A, 1, request(0, 100));
    assert!(!bench.sender.is_urgent(bench.now, A), "its time has only begun");
    bench.message_of(A, 0, request(0, 100));
    assert!(bench.sender.is_urgent(bench.now, A));
    assert_eq!(bench.to(A), "data again 0 0..100, data again 1 0..100");
}

/// A receiver that has all goes when no more objects will come, whatever the others lack.
#[test]
fn a_receiver_that_has_everything_does_not_wait_for_the_others() {
    let mut bench = Bench::out_at(500, &[A, B]);
    bench.to(A);
    bench.to(B);
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.group();
    assert_eq!(bench.to(A), "", "more may come");
    bench.input(SenderInput::Close);
    bench.group();
    assert_eq!((bench.to(A).as_str(), bench.to(B).as_str()), ("Goodbye, close connection", ""));
    bench.message(B, request(0, 200));
    assert_eq!(bench.to(B), "data again 0 0..200");
    bench.message(B, Message::EndOfRetransmissionRequests);
    bench.group();
    assert_eq!(bench.to(B), "Goodbye, close connection");
}

/// A receiver that the group's packets do not reach, and says so again before it can have heard the answer.
#[test]
fn symbols_that_are_on_their_way_to_a_receiver_are_not_sent_it_twice() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Auto), ..Bench::config() });
    bench.out(20_000, &[A, B]);
    let mut symbols_for = |arrived, lacking| {
        let lack = Lack { source_block: 0, lacking, next: 200 };
        let request = SymbolRequest::new(arrived, vec![lack]).unwrap();
        bench.message(A, Message::SymbolRequest(request));
        let mut count = 0;
        while let Step::Transmit(transmit) = bench.sender.poll(bench.now, Lane::Receiver(A)) {
            let SenderTransmit::Symbols { symbols, .. } = transmit else { panic!("{transmit:?}") };
            count += symbols.end - symbols.start;
        }
        count
    };
    assert_eq!(symbols_for(0, 200), 200);
    assert_eq!(symbols_for(0, 200), 0);
    assert_eq!(symbols_for(199, 1), 0);
    assert_eq!(symbols_for(200, 2), 2, "all have arrived, and it took two more");
}

/// Two receivers have named a block each. Symbols take their place where there is time to compute them.
#[test]
fn a_symbol_stands_for_blocks_that_several_receivers_have_named() {
    for may_code in [true, false] {
        let mut bench = Bench::of(SenderConfig { fec: Some(Share::Needed), ..Bench::config() });
        bench.sender.set_may_code(may_code);
        bench.out(20_000, &[A, B]);
        bench.message(A, request(0, 100));
        assert_eq!(bench.group(), "", "nothing that others lack, too");
        bench.message(B, request(500, 600));
        let out = bench.group();
        assert_eq!(bench.sender.repair_symbols() > 0, may_code, "{out}");
        let told = [A, B].map(|receiver| bench.to(receiver));
        let expected = match may_code {
            true => ["Symbols-Sent 0", "Symbols-Sent 0"],
            false => ["data again 0 0..100", "data again 0 500..600"],
        };
        assert!(told[0].starts_with(expected[0]) && told[1].starts_with(expected[1]), "{told:?}");
    }
}

#[test]
fn with_forward_error_correction_an_object_is_announced_again_and_again() {
    for (fec, announced) in [(None, 1), (Some(Share::Auto), 7)] {
        let mut bench = Bench::of(SenderConfig { fec, ..Bench::config() });
        bench.join(A);
        bench.send(12_800);
        let out = bench.group();
        assert_eq!(out.matches("BOF").count(), announced, "{out}");
    }
}

/// A sender with a slower group, whose runs are a block long.
fn with_slower(retransmission_timeout_factor: Option<f64>) -> Bench {
    let slower_run_lens = vec![100];
    let mut bench =
        Bench::of(SenderConfig { retransmission_timeout_factor, slower_run_lens, ..Bench::config() });
    bench.join(A);
    bench.join(B);
    assert_eq!([bench.to(A), bench.to(B)], ["Welcome", "Welcome"]);
    bench
}

fn lacking(start: u64, end: u64) -> Message {
    Message::Lacking(RetransmissionRequest::new(start..end).unwrap().into())
}

fn to_group(group: u8) -> Message {
    Message::Move(Move::new(group).unwrap())
}

#[test]
fn a_slower_group_is_sent_what_its_members_lack_and_nothing_else() {
    let mut bench = with_slower(None);
    bench.send(1_000);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("data 0 0..200"));
    bench.message(A, request(0, 100));
    bench.message(A, lacking(800, 1_000));
    bench.message(A, to_group(1));
    assert_eq!(bench.to(A), "Move to 1", "what it has asked for comes from its group");
    assert_eq!(bench.lane(Lane::Slower(1)), "BOF 0, data 0 0..100, data 0 800..900, data 0 900..1000");
    bench.group();
    bench.hashed();
    assert_eq!(bench.to(A), "Digest 0");
    bench.message(A, request(800, 900));
    assert_eq!(bench.to(A), "data again 0 800..900", "what was lost there");
    bench.message(B, to_group(1));
    assert_eq!(bench.to(B), "Move to 1, Digest 0", "the end is told anew for the group where it is");
    assert_eq!(bench.lane(Lane::Slower(1)), "", "nobody lacks anything");
}

#[test]
fn members_share_what_they_await_and_new_objects_are_for_all_of_them() {
    let mut bench = with_slower(None);
    for receiver in [A, B] {
        bench.message(receiver, to_group(1));
    }
    bench.send(300);
    bench.send(0);
    assert!(bench.group().contains("data 0 200..300"));
    assert_eq!(bench.step(Lane::Slower(1)).as_deref(), Some("BOF 0"));
    assert_eq!(bench.step(Lane::Slower(1)).as_deref(), Some("data 0 0..100"));
    // One that comes later adds what it lacks; the others go on.
    bench.join(ReceiverId(3));
    bench.message(ReceiverId(3), lacking(0, 300));
    bench.message(ReceiverId(3), to_group(1));
    assert_eq!(bench.lane(Lane::Slower(1)), "data 0 100..200, data 0 200..300, data 0 0..100");
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.message(B, Message::NotWanted);
    bench.left(ReceiverId(3));
    assert_eq!(bench.lane(Lane::Slower(1)), "");
}

#[test]
fn time_for_retransmissions_begins_with_the_end_of_a_members_pass() {
    let mut bench = with_slower(Some(1.0));
    bench.message(A, to_group(1));
    bench.send(200);
    bench.group();
    bench.hashed();
    bench.now += Duration::from_secs(5);
    bench.group();
    assert!(bench.to(B).ends_with("Digest 0"));
    assert_eq!(bench.lane(Lane::Slower(1)), "BOF 0, data 0 0..100, data 0 100..200");
    assert!(bench.to(A).ends_with("Digest 0"), "its time is not up, as B's is");
    bench.message(B, request(0, 100));
    assert_eq!(bench.to(B), "Retx-Reject 0");
    bench.message(A, request(0, 100));
    assert_eq!(bench.to(A), "data again 0 0..100");
    bench.now += Duration::from_secs(5);
    assert!(bench.group().ends_with("API_File_Done 0 of 2"));
}

/// The sender has opened the group by itself. It had counted that group's multicast as the object's, so a factor of 3 ended nothing.
#[test]
fn a_group_that_mends_has_no_more_time_than_retransmissions_have() {
    let config = SenderConfig {
        retransmission_timeout_factor: Some(3.0),
        slower_run_lens: vec![100],
        slower_groups_mend: true,
        ..Bench::config()
    };
    let mut bench = Bench::of(config);
    [A, B].into_iter().for_each(|receiver| bench.join(receiver));
    bench.message(A, to_group(1));
    bench.send(1_000);
    bench.step(Lane::Group);
    bench.now += Duration::from_secs(1);
    bench.group();
    bench.hashed();
    bench.group();
    bench.message(B, Message::EndOfRetransmissionRequests);
    assert_eq!(bench.step(Lane::Slower(1)).as_deref(), Some("BOF 0"));
    assert_eq!(bench.step(Lane::Slower(1)).as_deref(), Some("data 0 0..100"));
    bench.now += Duration::from_secs(2);
    assert!(!bench.group().contains("API_File_Done"), "its time is not up");
    bench.now += Duration::from_secs(2);
    assert!(bench.group().ends_with("API_File_Done 0 of 2"));
    assert_eq!(bench.lane(Lane::Slower(1)), "", "nobody is left to have it");
    assert!(bench.to(A).contains("Retx-Reject 0"), "it is told");
}

#[test]
fn nobody_goes_back_to_a_group_where_all_is_out() {
    let mut bench = with_slower(None);
    bench.message(A, to_group(1));
    bench.to(A);
    bench.send(200);
    bench.input(SenderInput::Close);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("BOF 0"));
    bench.message(A, to_group(0));
    assert_eq!(
        (bench.to(A), bench.sender.group_of(A)),
        ("Move to 0".to_owned(), Some(0)),
        "there is more to come"
    );
    bench.message(A, to_group(1));
    bench.group();
    bench.message(A, to_group(0));
    bench.to(A);
    assert_eq!(bench.sender.group_of(A), Some(1));
    bench.message(A, to_group(7));
    assert_eq!(bench.sender.group_of(A), Some(1), "there is none of that number");
}

#[test]
fn what_only_slower_groups_lack_does_not_hold_up_the_first() {
    for (group, has_room) in [(0, false), (1, true)] {
        let mut bench = with_slower(None);
        bench.left(B);
        bench.message(A, to_group(group));
        (0..5_000).for_each(|_| bench.send(100));
        bench.group();
        assert_eq!(bench.sender.has_room(), has_room, "group {group}");
    }
}
