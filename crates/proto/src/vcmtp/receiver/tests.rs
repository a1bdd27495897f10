//! The receiver against tables 4.7 and 4.8 and procedures A to D, seen from outside.

mod difference;
mod symbols;

use std::{ops::Range, time::Duration};

use treecast_wire::message::{
    ChunkHashes, Digest, Message, Move, PutOut, PutOutCode, Reason, SymbolsSent, Welcome,
};

use super::{
    super::testing::{SESSION, begin, file, words},
    data_receiver::QUIET,
    *,
};

const CHUNK_LEN: u64 = crate::object::chunks::CHUNK_LEN;
const HASH: [u8; 32] = [7; 32];
const KEEPALIVE: Duration = Duration::from_secs(3600);
const STALL_LIMIT: Duration = Duration::from_secs(7200);

/// A receiver with blocks of 100 bytes, and a clock.
struct Bench {
    receiver: Receiver,
    now: Instant,
    /// Its host has had no time to read the group's socket.
    is_starved: bool,
}

impl Bench {
    /// A bench in state RECVING-DATA.
    fn new(notification: Notification) -> Self {
        Self::with(Repair::Nack, notification)
    }

    fn with(repair: Repair, notification: Notification) -> Self {
        let mut bench = Self::idle(repair, notification);
        bench.input(ReceiverInput::Connected { round_trip: Duration::ZERO });
        bench
    }

    /// Takes part in an object of this size.
    fn begun(size: u64) -> Self {
        let mut bench = Self::new(Notification::Batched);
        bench.bof(size);
        bench
    }

    /// A bench with forward error correction.
    fn with_fec() -> Self {
        let mut bench = Self::new(Notification::Batched);
        bench.receiver.config.fec = true;
        bench
    }

    fn resumed() -> Self {
        let config = ReceiverConfig { resumes: true, ..Self::config(Repair::Nack, Notification::Batched) };
        let mut bench = Self { receiver: Receiver::new(config), now: Instant::ZERO, is_starved: false };
        bench.input(ReceiverInput::Connected { round_trip: Duration::ZERO });
        bench
    }

    fn idle(repair: Repair, notification: Notification) -> Self {
        let receiver = Receiver::new(Self::config(repair, notification));
        Self { receiver, now: Instant::ZERO, is_starved: false }
    }

    fn config(repair: Repair, notification: Notification) -> ReceiverConfig {
        ReceiverConfig {
            session: SESSION,
            repair,
            fec: false,
            digest_from_group: false,
            block_len: 100,
            notification,
            progress_bytes: u64::MAX,
            progress_interval: Duration::from_secs(3600),
            keepalive: KEEPALIVE,
            stall_limit: STALL_LIMIT,
            resumes: false,
        }
    }

    fn input(&mut self, input: ReceiverInput) -> String {
        self.receiver.handle(self.now, input);
        self.output()
    }

    fn output(&mut self) -> String {
        let mut output = Vec::new();
        loop {
            match self.receiver.poll(self.now) {
                Step::Transmit(ReceiverTransmit::DrainGroup) if !self.is_starved => {
                    self.receiver.handle(self.now, ReceiverInput::Drained);
                }
                Step::Transmit(ReceiverTransmit::Listen) => {
                    self.receiver.handle(self.now, ReceiverInput::Listened { heard: self.is_starved });
                }
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
        self.control(Message::Digest(Digest::unsigned(HASH)))
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
        let hashed = self.input(ReceiverInput::Hashed { file: file(0), hash });
        if hashed != "commit 0" {
            return hashed;
        }
        format!("{hashed}, {}", self.input(ReceiverInput::Committed { file: file(0) }))
    }
}

fn transmit_words(transmit: &ReceiverTransmit) -> String {
    match transmit {
        ReceiverTransmit::Message { file, message } => words(*file, message),
        ReceiverTransmit::Announce { file, begin } => {
            format!("announce {} {}", file.index(), begin.file_size)
        }
        ReceiverTransmit::Store { file, range } => format!("store {} {range:?}", file.index()),
        ReceiverTransmit::Overwrite { file, range } => format!("overwrite {} {range:?}", file.index()),
        ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
            format!("keep {} of {}/{source_block}", (positions.end - positions.start) / 100, file.index())
        }
        ReceiverTransmit::Decode { file, source_block, blocks, missing } => {
            format!("decode {}/{source_block} of {blocks:?} without {missing:?}", file.index())
        }
        ReceiverTransmit::ForgetSymbols { file } => format!("forget symbols {}", file.index()),
        ReceiverTransmit::Hash { file } => format!("hash {}", file.index()),
        ReceiverTransmit::CheckChunks { file, page, .. } => {
            format!("check {} page {}", file.index(), page.page())
        }
        ReceiverTransmit::Commit { file } => format!("commit {}", file.index()),
        ReceiverTransmit::Discard { file } => format!("discard {}", file.index()),
        ReceiverTransmit::DrainGroup => "drain".to_owned(),
        ReceiverTransmit::Listen => "listen".to_owned(),
        ReceiverTransmit::CloseConnection => "close connection".to_owned(),
        other => format!("{other:?}"),
    }
}

fn event_words(event: &ReceiverEvent) -> String {
    match event {
        ReceiverEvent::Announced { file, .. } => format!("API_BOF_Received {}", file.index()),
        ReceiverEvent::EndOfFileOnly { file } => format!("INL_EOF_Only {}", file.index()),
        ReceiverEvent::Received { file, .. } => format!("API_File_Received {}", file.index()),
        ReceiverEvent::Failed { file, .. } => format!("API_File_Receive_Failed {}", file.index()),
        ReceiverEvent::Called { group } => format!("called to {group}"),
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
    assert_eq!(bench.receiver.received_bytes(), 250);
}

#[test]
fn an_empty_object_needs_no_block() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.bof(0), "announce 0 0");
    assert_eq!(bench.digest(), "hash 0");
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}

/// Table 4.7, IDLE.
#[test]
fn table_4_7_idle_connection_created() {
    let mut bench = Bench::idle(Repair::Nack, Notification::Batched);
    assert_eq!(bench.data(0..100), "", "there is nobody to ask for what it leaves open");
    assert_eq!(bench.receiver.counters().refused, 1);
    let wait = bench.receiver.poll(bench.now);
    assert_eq!(wait, Step::Wait(None, ReceiverWait::Connection));
    bench.input(ReceiverInput::Connected { round_trip: Duration::ZERO });
    assert_eq!(bench.data(0..100), "BOF-Request 0, store 0 0..100", "RECVING-DATA");
}

/// Table 4.7, RECVING-DATA.
#[test]
fn table_4_7_bof_per_file() {
    let mut bench = Bench::new(Notification::PerFile);
    assert_eq!(bench.bof(250), "API_BOF_Received 0");
    assert_eq!(bench.bof_again(250), "", "the same again changes nothing");
}

#[test]
fn table_4_7_bof_batched() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.bof(250), "announce 0 250");
}

#[test]
fn table_4_7_bof_retransmitted_per_file() {
    let mut bench = Bench::new(Notification::PerFile);
    assert_eq!(bench.data(0..200), "BOF-Request 0, store 0 0..200");
    assert_eq!(bench.bof_again(250), "API_BOF_Received 0");
}

#[test]
fn table_4_7_bof_retransmitted_batched() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.data(0..200), "BOF-Request 0, store 0 0..200");
    assert_eq!(bench.bof_again(250), "announce 0 250", "the temporary buffer becomes the final one");
}

#[test]
fn table_4_7_bof_response_accept() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.bof(250);
    bench.data(0..200);
    assert_eq!(bench.respond(Response::Accept), "announce 0 250");
    assert_eq!(bench.respond(Response::Ignore), "", "it has been decided");
}

#[test]
fn table_4_7_bof_response_after_the_last_byte() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.bof(200);
    bench.data(0..200);
    assert_eq!(bench.digest(), "", "an object is not hashed before it is wanted");
    assert_eq!(bench.respond(Response::Accept), "announce 0 200, hash 0");
}

#[test]
fn table_4_7_bof_response_ignore() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.bof(250);
    bench.data(0..100);
    assert_eq!(bench.respond(Response::Ignore), "discard 0");
    assert_eq!(bench.data(200..250), "", "dropped, and no gap is mended");
    assert_eq!(bench.eof(), "", "said too early, it would not count");
    assert_eq!(bench.digest(), "NotWanted");
}

#[test]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
fn what_could_not_be_stored_is_asked_for_again_whatever_was_asked_of_the_storage() {
    let mut bench = Bench::begun(300);
    bench.data(0..300);
    assert_eq!(bench.digest(), "hash 0");
    let lost = |ranges: &[Range<u64>]| ReceiverInput::Lost { file: file(0), ranges: ranges.to_vec() };
    assert_eq!(bench.input(lost(&[100..200])), "Retx-Request 0 100..200");
    assert_eq!(bench.data_again(100..200), "store 0 100..200, hash 0");
    assert_eq!(bench.input(lost(&[])), "hash 0", "the last one has not been answered");
}

#[test]
fn procedure_a_asks_for_missing_blocks_at_once() {
    let mut bench = Bench::begun(1_000);
    assert_eq!(bench.data(200..300), "store 0 200..300, Retx-Request 0 0..200", "the first block is lost");
    assert_eq!(bench.data(500..700), "store 0 500..700, Retx-Request 0 300..500", "a gap is one request");
    assert_eq!(bench.data(700..800), "store 0 700..800");
}

#[test]
fn procedure_a_checks_for_missing_blocks_only_on_multicast() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..100);
    assert_eq!(bench.data_again(500..600), "store 0 500..600");
    assert_eq!(bench.data(100..200), "store 0 100..200", "the last multicast block is what counts");
}

#[test]
fn procedure_a_late_blocks_fill_gaps_without_new_requests() {
    let mut bench = Bench::begun(1_000);
    bench.data(300..400);
    assert_eq!(bench.data(100..200), "store 0 100..200");
    assert_eq!(bench.data(400..500), "store 0 400..500");
}

#[test]
fn duplicate_blocks_are_not_stored_again() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..300);
    assert_eq!(bench.data_again(100..200), "");
    assert_eq!(bench.data_again(200..500), "store 0 300..500");
    assert_eq!(bench.receiver.counters().duplicate_blocks, 2);
    assert_eq!(bench.receiver.received_bytes(), 500);
}

#[test]
fn procedure_b_asks_for_a_lost_bof() {
    let mut bench = Bench::new(Notification::Batched);
    let output = bench.data(100..200);
    assert_eq!(output, "BOF-Request 0, store 0 100..200, Retx-Request 0 0..100");
}

#[test]
fn procedure_c_does_not_ask_for_the_bof_again() {
    for notification in [Notification::Batched, Notification::PerFile] {
        let mut bench = Bench::new(notification);
        bench.data(0..100);
        assert_eq!(bench.data(200..300), "store 0 200..300, Retx-Request 0 100..200");
    }
}

#[test]
fn procedure_d_keeps_blocks_while_the_answer_is_pending() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.bof(1_000);
    assert_eq!(bench.data(0..100), "store 0 0..100", "the first block: as B, but without BOF-Request");
    assert_eq!(bench.data(200..300), "store 0 200..300, Retx-Request 0 100..200", "others: as C");
}

#[test]
fn procedures_b_to_d_keep_a_bounded_part() {
    let mut bench = Bench::new(Notification::Batched);
    let kept = 16 << 20;
    let most = kept / 1_000 * 1_000;
    assert_eq!(bench.data(0..most), format!("BOF-Request 0, store 0 0..{most}"));
    let other = ReceiverInput::Blocks { from: Channel::Group, file: file(1), range: 0..1_000 };
    assert_eq!(
        bench.input(other),
        "BOF-Request 1",
        "asked for, but not kept: what is kept is of all objects"
    );
    assert_eq!(bench.data(most..most + 1_000), "");
    assert_eq!(bench.bof_again(2 * kept), format!("announce 0 {}", 2 * kept));
    let output = bench.data(most + 1_000..most + 1_100);
    let stored = format!("store 0 {}..{}", most + 1_000, most + 1_100);
    let gap = format!("Retx-Request 0 {most}..{}", most + 1_000);
    assert_eq!(output, format!("{stored}, {gap}"), "what was dropped is a gap");
}

#[test]
fn what_the_sender_says_of_an_object_overrules_the_group() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.bof(5_000), "announce 0 5000", "forged");
    bench.data(0..200);
    assert_eq!(bench.bof(1_000), "BOF-Request 0", "two stories: the sender is to say which is true");
    assert_eq!(bench.bof(700), "", "once");
    assert_eq!(bench.bof_again(1_000), "announce 0 1000");
    assert_eq!(bench.receiver.received_bytes(), 200, "what contradicts nothing is kept");
    assert_eq!(bench.bof(5_000), "");
    assert_eq!(bench.data(200..1_000), "store 0 200..1000");
    assert_eq!(bench.digest(), "hash 0");
}

#[test]
fn an_object_that_was_whole_by_a_forged_size_goes_on() {
    let mut bench = Bench::begun(300);
    bench.data(0..300);
    assert_eq!(bench.digest(), "hash 0");
    assert_eq!(bench.data(300..900), "BOF-Request 0", "more than there is: one of the two is wrong");
    assert_eq!(bench.bof_again(1_000), "announce 0 1000");
    assert_eq!(bench.later(Duration::from_millis(30)), "Retx-Request 0 300..1000");
    assert_eq!(bench.hashed([0; 32]), "", "of what was taken for the whole");
    assert_eq!(bench.data_again(300..1_000), "store 0 300..1000, hash 0");
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}

#[test]
fn a_forged_end_and_forged_blocks_leave_no_gap_unasked() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..100);
    assert_eq!(bench.data(800..900), "store 0 800..900, Retx-Request 0 100..800", "forged");
    assert_eq!(bench.eof(), "Retx-Request 0 900..1000", "forged, too: the sender has sent 100 bytes so far");
    assert_eq!(bench.bof_again(1_000), "", "and says so with its announcement");
    assert_eq!(bench.eof(), "", "which is not believed again");
    assert_eq!(bench.data(100..300), "store 0 100..300");
    assert_eq!(bench.data(500..600), "store 0 500..600");
    bench.digest();
    let gaps = "Retx-Request 0 300..500, Retx-Request 0 600..800, Retx-Request 0 900..1000";
    assert_eq!(bench.later(Duration::from_millis(30)), gaps);
}

#[test]
fn a_forged_announcement_that_is_refused_does_not_fail_the_object() {
    let mut bench = Bench::begun(u64::MAX);
    let reason = || "the folder is full".to_owned();
    let refused =
        |size| ReceiverInput::AnnouncementRefused { file: file(0), begin: begin(size), reason: reason() };
    bench.data(0..200);
    assert_eq!(bench.input(refused(u64::MAX)), "discard 0, BOF-Request 0");
    assert_eq!(bench.bof(u64::MAX), "");
    assert_eq!(bench.data(200..400), "store 0 200..400", "until the answer is there");
    assert_eq!(bench.bof_again(1_000), "announce 0 1000");
    assert_eq!(bench.input(refused(u64::MAX)), "discard 0, announce 0 1000", "one that crossed it");
    bench.digest();
    assert_eq!(bench.later(Duration::from_millis(30)), "Retx-Request 0 0..1000");
    let failed = "discard 0, API_File_Receive_Failed 0, Failed 0 (the folder is full)";
    assert_eq!(bench.input(refused(1_000)), failed, "what the sender itself says is final");
}

#[test]
fn an_invented_object_is_dropped_without_a_word() {
    for ending in [Message::Goodbye, Message::Digest(Digest::unsigned(HASH))] {
        let mut bench = Bench::new(Notification::Batched);
        bench.bof(300);
        let is_over = ending == Message::Goodbye;
        let output = bench.control(ending);
        match is_over {
            true => assert_eq!(output, "discard 0, close connection, closed"),
            false => {
                let failed = "discard 0, API_File_Receive_Failed 0, Failed 0 \
                              (the sender ended the session before it was whole)";
                let output = bench.control(Message::Goodbye);
                assert_eq!(output, format!("{failed}, close connection, closed"), "this one is the sender's");
            }
        }
    }
}

#[test]
fn a_bof_that_contradicts_earlier_blocks_wins() {
    let mut bench = Bench::new(Notification::Batched);
    bench.data(0..250);
    assert_eq!(bench.bof_again(1_000), "discard 0, announce 0 1000");
    assert_eq!(bench.receiver.received_bytes(), 0);
    assert_eq!(bench.data(300..400), "store 0 300..400, Retx-Request 0 0..300");
}

#[test]
fn table_4_7_eof_with_data_loss() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..300);
    assert_eq!(bench.eof(), "Retx-Request 0 300..1000");
    assert_eq!(bench.eof(), "", "once");
    assert_eq!(bench.digest(), "");
    assert_eq!(bench.data_again(300..1_000), "store 0 300..1000, hash 0");
}

#[test]
fn table_4_7_eof_over_the_connection_waits_for_a_quiet_group() {
    let mut bench = Bench::begun(1_000);
    assert_eq!(bench.digest(), "", "it may have overtaken blocks in the group's socket");
    let half = Duration::from_millis(15);
    assert_eq!(bench.later(half), "");
    assert_eq!(bench.data(0..300), "store 0 0..300");
    assert_eq!(bench.later(half), "");
    assert_eq!(bench.later(half), "Retx-Request 0 300..1000");
}

#[test]
fn what_waits_in_the_groups_socket_is_taken_before_the_group_counts_as_quiet() {
    let mut bench = Bench::begun(1_000);
    bench.digest();
    bench.is_starved = true;
    assert_eq!(bench.later(2 * QUIET), "drain");
    assert_eq!(bench.later(2 * QUIET), "", "it has been asked for");
    let wait = bench.receiver.poll(bench.now);
    assert!(matches!(wait, Step::Wait(Some(at), _) if at > bench.now), "{wait:?}");
    assert_eq!(bench.data(0..300), "store 0 0..300");
    assert_eq!(bench.input(ReceiverInput::Drained), "", "it was not quiet");
    assert_eq!(bench.later(QUIET), "drain");
    assert_eq!(bench.input(ReceiverInput::Drained), "Retx-Request 0 300..1000");
    assert_eq!(bench.input(ReceiverInput::Drained), "", "nobody asked");
}

#[test]
fn table_4_7_eof_only_batched() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.eof(), "BOF-Request 0");
    assert_eq!(bench.bof_again(250), "announce 0 250, Retx-Request 0 0..250");
}

#[test]
fn table_4_7_eof_only_per_file() {
    let mut bench = Bench::new(Notification::PerFile);
    assert_eq!(bench.eof(), "INL_EOF_Only 0");
    assert_eq!(bench.digest(), "");
    assert_eq!(bench.later(Duration::from_secs(1)), "", "it is asked once");
    assert_eq!(bench.respond(Response::Accept), "BOF-Request 0");
    assert_eq!(bench.bof_again(250), "API_BOF_Received 0", "now that its name is known");
    assert_eq!(bench.respond(Response::Accept), "announce 0 250, Retx-Request 0 0..250");
}

#[test]
fn an_end_that_the_connection_says_after_the_group_counts() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.bof(250);
    assert_eq!(bench.respond(Response::Ignore), "discard 0");
    assert_eq!(bench.eof(), "");
    assert_eq!(bench.control(Message::EndOfFile), "NotWanted");
}

#[test]
fn table_4_7_eof_only_ignored() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.eof();
    assert_eq!(bench.respond(Response::Ignore), "discard 0");
    assert_eq!(bench.digest(), "NotWanted");
}

#[test]
fn the_digest_alone_tells_of_an_object_of_which_all_else_was_lost() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.digest(), "");
    assert_eq!(bench.later(Duration::from_millis(30)), "BOF-Request 0");
    assert_eq!(bench.bof_again(150), "announce 0 150, Retx-Request 0 0..150");
    assert_eq!(bench.data_again(0..150), "store 0 0..150, hash 0");
}

#[test]
fn table_4_7_retx_reject() {
    let mut bench = Bench::begun(1_000);
    assert_eq!(bench.control(Message::RetransmissionReject), "discard 0, API_File_Receive_Failed 0");
    assert_eq!(bench.data(0..100), "", "it has ended");
    assert_eq!(bench.receiver.counters().late, 1);
}

#[test]
fn table_4_7_close_receiver() {
    let mut bench = Bench::begun(1_000);
    let output = bench.input(ReceiverInput::Close { reason: "it has enough".into() });
    let failed = "discard 0, API_File_Receive_Failed 0, Failed 0 (the receiver left: it has enough)";
    assert_eq!(output, format!("{failed}, close connection, closed"));
}

#[test]
fn table_4_7_connection_closed_by_the_sender() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.control(Message::Goodbye), "close connection, closed");
}

#[test]
fn a_sender_that_puts_it_out_is_believed_on_the_connection_only() {
    let mut bench = Bench::begun(1_000);
    let put_out = || Message::PutOut(PutOut::new(PutOutCode::Refused, "it is too slow"));
    assert_eq!(bench.group(put_out()), "");
    let reason = "it put this receiver out: it is too slow";
    let failed = format!("API_File_Receive_Failed 0, Failed 0 (the session ended early: {reason})");
    let output = bench.control(put_out());
    assert_eq!(output, format!("discard 0, {failed}, close connection, closed ({reason})"));
}

#[test]
fn a_sender_that_says_nothing_any_more_is_given_up() {
    let mut bench = Bench::begun(1_000);
    let welcome = || Message::Welcome(Welcome { version: 1, block_len: 100, receiver: 0 });
    bench.later(STALL_LIMIT - KEEPALIVE);
    assert_eq!(bench.control(welcome()), "", "a word is enough");
    let output = bench.later(STALL_LIMIT - Duration::from_millis(1));
    assert!(!output.contains("closed"), "{output}");
    bench.data(0..100);
    let output = bench.later(Duration::from_millis(1));
    let reason = "it said nothing for 7200 s: is it stopped?";
    assert!(output.contains("API_File_Receive_Failed 0"), "what the group says does not count: {output}");
    let said = format!(", Failed 0 (the session ended early: {reason})");
    assert!(!output.contains(&said), "it is fetched over the next connection: {output}");
    assert!(output.ends_with(&format!("closed ({reason})")), "{output}");
}

/// The sender's words lie in the connection's buffer, and this receiver's host has had no time to read them.
#[test]
fn a_sender_is_listened_for_once_more_before_it_is_given_up() {
    let mut bench = Bench::begun(1_000);
    bench.is_starved = true;
    let output = bench.later(STALL_LIMIT);
    assert!(!output.contains("closed"), "{output}");
    bench.is_starved = false;
    let output = bench.later(STALL_LIMIT - Duration::from_millis(1));
    assert!(!output.contains("closed"), "something came: {output}");
    assert!(bench.later(Duration::from_millis(1)).contains("closed (it said nothing"));
}

#[test]
fn what_failed_is_not_had() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..400);
    assert_eq!(bench.receiver.received_bytes(), 400);
    bench.control(Message::Withdraw(Reason::new("it has shrunk")));
    assert_eq!(bench.receiver.received_bytes(), 0);
}

#[test]
fn goodbye_waits_for_what_is_being_checked() {
    let mut bench = Bench::begun(100);
    bench.data(0..100);
    bench.digest();
    assert_eq!(bench.control(Message::Goodbye), "");
    let ended = "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0, close connection, closed";
    assert_eq!(bench.hashed(HASH), ended);
}

#[test]
fn table_4_7_connection_lost() {
    let mut bench = Bench::begun(1_000);
    let output = bench.input(ReceiverInput::Disconnected { reason: "reset".to_owned() });
    assert_eq!(output, "discard 0, API_File_Receive_Failed 0, closed (reset)");
    assert_eq!(bench.receiver.poll(bench.now), Step::Wait(None, ReceiverWait::Closed));
}

#[test]
fn a_wrong_hash_fetches_everything_once_more_and_then_fails() {
    let mut bench = Bench::begun(300);
    bench.data(0..300);
    bench.digest();
    let again = "BOF-Request 0, Retx-Request 0 0..300";
    assert_eq!(bench.hashed([0; 32]), again, "its announcement may be wrong, too");
    assert_eq!(bench.bof_again(300), "", "it is not");
    assert_eq!(bench.data_again(0..300), "store 0 0..300, hash 0");
    assert_eq!(bench.receiver.received_bytes(), 300);
    let reason = "its content does not have the hash that the sender gave";
    let failed = format!("discard 0, API_File_Receive_Failed 0, Failed 0 ({reason})");
    assert_eq!(bench.hashed([0; 32]), failed);
}

/// 20 chunks and a piece in blocks of 100 bytes, with the wrong hash and the sender's announcement.
fn wrong() -> (Bench, u64) {
    const SIZE: u64 = 20 * CHUNK_LEN + 50;
    let mut bench = Bench::begun(SIZE);
    bench.bof_again(SIZE);
    bench.data(0..SIZE);
    bench.digest();
    (bench, SIZE)
}

fn page(page: u32, count: usize) -> Message {
    Message::ChunkHashes(ChunkHashes::new(page, vec![[1; 32]; count], vec![[2; 32]]).unwrap())
}

#[test]
fn of_a_wrong_object_only_the_wrong_chunks_are_fetched_again() {
    let (mut bench, size) = wrong();
    assert_eq!(bench.hashed([0; 32]), "Chunk-Hashes-Request 0 0..2");
    assert_eq!(bench.data(0..100), "", "the group may be what made it wrong");
    assert_eq!(bench.group(page(0, 16)), "", "and its word on chunks does not count");
    assert_eq!(bench.control(page(0, 16)), "check 0 page 0");
    assert_eq!(bench.control(page(0, 16)), "", "once is enough");
    assert_eq!(bench.control(page(2, 16)), "", "nobody has asked");
    assert_eq!(bench.control(page(1, 5)), "check 0 page 1");
    let two = CHUNK_LEN..3 * CHUNK_LEN;
    let checked = |page, wrong| ReceiverInput::Checked { file: file(0), page, wrong: Some(wrong) };
    assert_eq!(bench.input(checked(0, vec![two.clone()])), "");
    let last = 20 * CHUNK_LEN..size;
    let again = bench.input(checked(1, vec![last.clone()]));
    // Whole blocks of 100 bytes.
    let (two, last) = (65_500..196_700, 1_310_700..size);
    assert_eq!(again, format!("Retx-Request 0 {two:?}, Retx-Request 0 {last:?}"));
    assert_eq!(bench.receiver.received_bytes(), size - 131_200 - 70);
    assert_eq!(bench.receiver.counters().wrong_chunks, 3);
    assert_eq!(bench.data_again(two.clone()), format!("store 0 {two:?}"));
    assert_eq!(bench.data_again(last.clone()), format!("store 0 {last:?}, hash 0"));
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}

#[test]
fn hashes_of_chunks_that_do_not_go_with_the_objects_are_its_end() {
    let (mut bench, _) = wrong();
    bench.hashed([0; 32]);
    bench.control(page(0, 16));
    let output = bench.input(ReceiverInput::Checked { file: file(0), page: 0, wrong: None });
    let reason = "what the sender says of its chunks does not go with the hash that it gave";
    assert_eq!(output, format!("discard 0, API_File_Receive_Failed 0, Failed 0 ({reason})"));
}

#[test]
fn without_hashes_of_its_chunks_all_of_a_wrong_object_is_fetched_again() {
    let (mut bench, size) = wrong();
    bench.hashed([0; 32]);
    let output = bench.control(Message::ChunkHashes(ChunkHashes::none(0)));
    assert_eq!(output, format!("Retx-Request 0 0..{size}"));
    assert_eq!(bench.data_again(0..size), format!("store 0 0..{size}, hash 0"));
}

#[test]
fn a_sender_that_goes_while_chunks_are_compared_is_the_objects_end() {
    let (mut bench, _) = wrong();
    bench.hashed([0; 32]);
    let output = bench.input(ReceiverInput::Disconnected { reason: "reset".to_owned() });
    assert_eq!(output, "discard 0, API_File_Receive_Failed 0, closed (reset)");
}

#[test]
fn a_failing_store_fails_the_object() {
    let mut bench = Bench::begun(300);
    bench
        .receiver
        .handle(bench.now, ReceiverInput::Blocks { from: Channel::Group, file: file(0), range: 0..100 });
    let output = bench.input(ReceiverInput::StoreFailed { file: file(0), reason: "disk full".to_owned() });
    assert_eq!(output, "discard 0, BOF-Request 0", "and what was to be stored is not");
    assert_eq!(bench.data(100..200), "");
    let failed = "discard 0, API_File_Receive_Failed 0, Failed 0 (disk full)";
    assert_eq!(bench.bof_again(300), failed, "the sender has begun it");
}

#[test]
fn a_failing_commit_is_no_reception() {
    let mut bench = Bench::begun(0);
    bench.digest();
    bench.receiver.handle(bench.now, ReceiverInput::Hashed { file: file(0), hash: HASH });
    let commit = Step::Transmit(ReceiverTransmit::Commit { file: file(0) });
    assert_eq!(bench.receiver.poll(bench.now), commit);
    let output = bench.input(ReceiverInput::StoreFailed { file: file(0), reason: "read-only".to_owned() });
    assert_eq!(output, "discard 0, API_File_Receive_Failed 0, Failed 0 (read-only)");
}

#[test]
fn a_withdrawn_object_fails() {
    let mut bench = Bench::begun(300);
    let output = bench.control(Message::Withdraw(Reason::new("it has shrunk")));
    assert_eq!(output, "discard 0, API_File_Receive_Failed 0");
}

#[test]
fn without_repair_a_gap_at_the_end_fails_the_object() {
    let mut bench = Bench::with(Repair::None, Notification::Batched);
    bench.bof(300);
    assert_eq!(bench.data(100..200), "store 0 100..200");
    assert_eq!(bench.eof(), "", "blocks may have been overtaken");
    let failed = "Failed 0 (200 bytes were lost and are not sent again)";
    assert_eq!(bench.later(Duration::from_millis(30)), "", "anybody may have said so");
    let output = bench.digest();
    assert_eq!(output, format!("discard 0, API_File_Receive_Failed 0, {failed}"));
}

#[test]
fn without_repair_an_object_that_waits_for_an_answer_has_not_failed() {
    let mut bench = Bench::with(Repair::None, Notification::PerFile);
    bench.bof(300);
    bench.data(0..300);
    bench.eof();
    assert_eq!(bench.later(Duration::from_secs(1)), "");
    assert_eq!(bench.respond(Response::Accept), "announce 0 300");
    assert_eq!(bench.digest(), "hash 0");
}

#[test]
fn what_makes_no_sense_is_counted_and_dropped() {
    let mut bench = Bench::new(Notification::Batched);
    bench.bof_again(250);
    for range in [50..150, 100..150, 200..300, 0..0, 300..400] {
        assert_eq!(bench.data(range.clone()), "", "{range:?}");
    }
    assert_eq!(bench.group(Message::Goodbye), "", "the group cannot end a session");
    assert_eq!(bench.group(Message::Digest(Digest::unsigned(HASH))), "");
    assert_eq!(bench.receiver.counters().malformed, 7);
    let foreign = FileId::new(SessionId(1), 0);
    bench.input(ReceiverInput::Blocks { from: Channel::Group, file: foreign, range: 0..100 });
    assert_eq!(bench.receiver.counters().foreign, 1);
}

#[test]
fn sparse_blocks_of_a_huge_object_take_bounded_memory() {
    let mut bench = Bench::begun(u64::MAX);
    for step in 0..200_000_u64 {
        let start = step * 100 * 4096;
        bench.data(start..start + 100);
    }
    let refused = bench.receiver.counters().refused;
    assert_eq!(refused, 200_000 - 131_072, "chunks of 600 bytes are kept");
}

#[test]
fn progress_is_reported_after_so_many_bytes() {
    let mut bench = Bench::new(Notification::Batched);
    bench.receiver = Receiver::new(ReceiverConfig { progress_bytes: 300, ..bench.receiver.config.clone() });
    bench.input(ReceiverInput::Connected { round_trip: Duration::ZERO });
    bench.bof(1_000);
    assert_eq!(bench.data(0..200), "store 0 0..200");
    assert_eq!(bench.data(200..300), "store 0 200..300, Progress 0 300");
    let wait = bench.receiver.poll(bench.now);
    let gives_up = Some(Instant::ZERO + STALL_LIMIT);
    assert_eq!(
        wait,
        Step::Wait(gives_up, ReceiverWait::Sender),
        "the group alone cannot make it owe anything"
    );
    bench.bof_again(1_000);
    let wait = bench.receiver.poll(bench.now);
    let nothing_new = Step::Wait(Some(Instant::ZERO + KEEPALIVE), ReceiverWait::Report);
    assert_eq!(wait, nothing_new, "but that it is there");
}

/// The application tells what is there from before when the object is announced, and nothing is asked for
/// until then.
#[test]
fn a_resumed_receiver_asks_for_what_it_lacks() {
    let mut bench = Bench::resumed();
    assert_eq!(bench.data(600..700), "BOF-Request 0, store 0 600..700", "it may have all that was before");
    assert_eq!(bench.bof_again(1_050), "announce 0 1050");
    assert_eq!(bench.data(700..800), "store 0 700..800");
    let ranges = vec![0..250, 330..500, 1_000..1_050];
    assert_eq!(bench.input(ReceiverInput::Have { file: FileId::new(SESSION, 0), ranges }), "");
    assert_eq!(
        bench.data(800..900),
        "store 0 800..900, Retx-Request 0 200..400, Retx-Request 0 500..600",
        "parts of blocks are of no use"
    );
    bench.digest();
    assert_eq!(bench.later(Duration::from_millis(30)), "Retx-Request 0 900..1000", "the rest is on its way");
}

/// Its sender's end comes while a lot of what it has asked for waits for a slow connection.
#[test]
fn what_is_on_its_way_over_the_connection_is_not_asked_for_again_at_the_end() {
    let mut bench = Bench::new(Notification::Batched);
    assert_eq!(bench.bof_again(1_000), "announce 0 1000", "a late joiner is told of what is under way");
    assert_eq!(bench.data(500..600), "store 0 500..600, Retx-Request 0 0..500");
    assert_eq!(bench.data_again(0..100), "store 0 0..100");
    assert_eq!(bench.digest(), "");
    assert_eq!(bench.later(Duration::from_millis(30)), "Retx-Request 0 600..1000");
    assert_eq!(bench.data_again(100..500), "store 0 100..500");
    assert_eq!(bench.data_again(600..1_000), "store 0 600..1000, hash 0");
}

#[test]
fn what_is_whole_from_before_is_only_hashed() {
    let mut bench = Bench::resumed();
    assert_eq!(bench.bof_again(250), "announce 0 250");
    assert_eq!(bench.digest(), "");
    let whole = Vec::from_iter([0..100, 100..250]);
    assert_eq!(bench.input(ReceiverInput::Have { file: FileId::new(SESSION, 0), ranges: whole }), "hash 0");
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}

/// Forward error correction: how many are lacking is said, not which.
#[test]
fn symbols_stand_for_blocks_whichever_were_lost() {
    let mut bench = Bench::with_fec();
    bench.receiver.requester.counts = true;
    let symbols = |positions| ReceiverInput::Symbols { from: Channel::Group, file: file(0), positions };
    assert_eq!(bench.bof(500), "announce 0 500");
    assert_eq!(bench.data(0..200), "store 0 0..200");
    assert_eq!(bench.data(400..500), "store 0 400..500", "no gap is asked for");
    assert_eq!(bench.eof(), "");
    bench.now += Duration::from_millis(20);
    assert_eq!(bench.output(), "Symbol-Request 0 (arrived=0 0:lacking=2,next=5)");
    assert_eq!(bench.input(symbols(500..600)), "keep 1 of 0/0");
    assert_eq!(bench.input(symbols(550..650)), "BOF-Request 0", "no whole symbol: is the size right?");
    let last = "keep 1 of 0/0, decode 0/0 of 0..5 without [200..400]";
    assert_eq!(bench.input(symbols(800..1000)), last, "one more than it takes");
    assert_eq!(bench.digest(), "");
    let decoded = ReceiverInput::Decoded { file: file(0), source_block: 0, is_right: true };
    assert_eq!(bench.input(decoded), "hash 0");
    assert_eq!(bench.receiver.counters().decoded_blocks, 2);
    // A wrong symbol spoils all of it, and nobody can tell which it was.
    let again = "forget symbols 0, BOF-Request 0, Retx-Request 0 0..500";
    assert_eq!(bench.hashed([1; 32]), again);
    assert_eq!(bench.input(symbols(600..700)), "");
}

#[test]
fn what_is_lost_is_named_until_the_sender_sends_symbols_in_its_place() {
    let mut bench = Bench::with_fec();
    bench.bof(500);
    bench.data(0..200);
    assert_eq!(bench.data(400..500), "store 0 400..500, Retx-Request 0 200..400");
    assert_eq!((bench.eof(), bench.later(Duration::from_secs(1))), (String::new(), String::new()));
    let sent = Message::SymbolsSent(SymbolsSent { source_block: 0, next: 7 });
    assert_eq!(bench.control(sent), "");
    assert_eq!(bench.later(Duration::from_millis(5)), "Symbol-Request 0 (arrived=0 0:lacking=2,next=7)");
}

/// Found by seed 194 of `lab faults`: both sides waited for each other.
#[test]
fn who_comes_when_all_is_out_hears_that_symbols_take_the_place_of_what_it_has_asked_for() {
    let mut bench = Bench::with_fec();
    bench.receiver.requester.counts = true;
    bench.bof_again(500);
    bench.control(Message::EndOfFile);
    assert_eq!(bench.later(QUIET), "Retx-Request 0 0..500");
    let sent = Message::SymbolsSent(SymbolsSent { source_block: 0, next: 7 });
    assert_eq!(bench.control(sent), "");
    assert_eq!(bench.later(Duration::from_millis(5)), "Symbol-Request 0 (arrived=0 0:lacking=5,next=7)");
}

/// Found by seed 983 of the simulated sessions: nothing more was to come, and nothing was asked for.
#[test]
fn blocks_that_come_while_a_source_block_cannot_be_decoded_may_do_instead() {
    let mut bench = Bench::with_fec();
    bench.bof(500);
    bench.data(0..200);
    let positions = 500..800;
    let symbols = ReceiverInput::Symbols { from: Channel::Group, file: file(0), positions };
    assert_eq!(bench.input(symbols), "keep 3 of 0/0, decode 0/0 of 0..5 without [200..500]");
    assert_eq!(bench.data(200..400), "store 0 200..400");
    let decoded = |is_right| ReceiverInput::Decoded { file: file(0), source_block: 0, is_right };
    assert_eq!(bench.input(decoded(false)), "decode 0/0 of 0..5 without [400..500]");
    bench.input(decoded(true));
    assert_eq!(bench.digest(), "hash 0");
}

fn placed(bench: &mut Bench, group: u8) -> String {
    bench.control(Message::Move(Move::new(group).unwrap()))
}

#[test]
fn who_moves_tells_what_it_has_not_heard_and_asks_for_gaps_at_the_end_alone() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..200);
    assert_eq!(bench.data(400..500), "store 0 400..500, Retx-Request 0 200..400");
    assert_eq!(bench.input(ReceiverInput::Moved { group: 1 }), "Lacking 0 500..1000, Move to 1");
    // What was said before the sender knew is about the first group.
    assert_eq!((bench.digest(), bench.later(Duration::from_secs(1))), (String::new(), String::new()));
    assert_eq!(placed(&mut bench, 1), "BOF-Request 0", "its time may be up");
    assert_eq!(bench.data(900..1_000), "store 0 900..1000", "a gap says nothing");
    assert_eq!(bench.data(200..300), "store 0 200..300");
    assert_eq!(bench.eof(), "", "nor does the group's word");
    assert_eq!(bench.digest(), "");
    let lost = "Retx-Request 0 300..400, Retx-Request 0 500..900";
    assert_eq!(bench.later(Duration::from_millis(100)), lost);
    assert_eq!(bench.input(ReceiverInput::Moved { group: 2 }), "Move to 2", "the sender knows");
    placed(&mut bench, 2);
    bench.data_again(300..400);
    assert_eq!(bench.data(500..900), "store 0 500..900, hash 0");
}

#[test]
fn in_the_first_group_everything_that_is_missing_is_a_gap_again() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..100);
    bench.input(ReceiverInput::Moved { group: 1 });
    placed(&mut bench, 1);
    bench.data(800..900);
    assert_eq!(bench.input(ReceiverInput::Moved { group: 0 }), "Move to 0");
    assert_eq!(bench.data(500..600), "store 0 500..600, Retx-Request 0 100..500");
    assert_eq!(placed(&mut bench, 1), "called to 1");
    let told = "Lacking 0 600..800, Lacking 0 900..1000, Move to 1";
    assert_eq!(bench.input(ReceiverInput::Moved { group: 1 }), told);
}

#[test]
fn a_sender_may_call_a_receiver_that_has_not_moved() {
    let mut bench = Bench::begun(1_000);
    assert_eq!(placed(&mut bench, 0), "", "it is there");
    assert_eq!(placed(&mut bench, 2), "called to 2");
    assert_eq!(bench.input(ReceiverInput::Moved { group: 2 }), "Lacking 0 0..1000, Move to 2");
    assert_eq!(placed(&mut bench, 2), "", "the answer");
    assert_eq!(placed(&mut bench, 0), "called to 0");
}

#[test]
fn a_slower_group_need_not_bring_what_is_not_wanted() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.input(ReceiverInput::Moved { group: 1 });
    placed(&mut bench, 1);
    assert_eq!(bench.bof(1_000), "API_BOF_Received 0");
    assert_eq!(bench.respond(Response::Ignore), "discard 0, BOF-Request 0");
    assert_eq!(bench.bof_again(1_000), "NotWanted");
}
