//! The carousel's receiver, seen from outside.

use treecast_wire::message::{Contents, Digest, RetransmissionRequest, TransferType};

use super::*;
use crate::object::{Channel, chunks::CHUNK_LEN};

const NOW: Instant = Instant::ZERO;
const FILE: FileId = FileId(9 << 32);
const OTHER: FileId = FileId(9 << 32 | 1);

type Taken = Vec<Step<ReceiverTransmit, ReceiverEvent, ReceiverWait>>;

fn receiver() -> Receiver {
    receiver_of(10)
}

fn receiver_of(block_len: u16) -> Receiver {
    Receiver::new(ReceiverConfig {
        session: SessionId(9),
        block_len,
        fec: false,
        has_chunk_hashes: true,
        hash_attempts: 2,
        reports: None,
        patience: Some(Duration::from_secs(30)),
    })
}

fn begin() -> BeginOfFile {
    BeginOfFile::new(TransferType::DiskToDisk, 95, "a").expect("a good name")
}

fn message(file: FileId, message: Message) -> ReceiverInput {
    ReceiverInput::Message { from: Channel::Group, file, message }
}

fn contents(objects: u32) -> ReceiverInput {
    message(FILE, Message::Contents(Contents::new(objects).expect("few")))
}

fn digest(byte: u8) -> ReceiverInput {
    message(FILE, Message::Digest(Digest::unsigned([byte; 32])))
}

fn blocks(range: Range<u64>) -> ReceiverInput {
    ReceiverInput::Blocks { from: Channel::Group, file: FILE, range }
}

fn hashed(byte: u8) -> ReceiverInput {
    ReceiverInput::Hashed { file: FILE, hash: [byte; 32] }
}

const COMMITTED: ReceiverInput = ReceiverInput::Committed { file: FILE };

fn store(range: Range<u64>, compare: bool) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
    Step::Transmit(match compare {
        true => ReceiverTransmit::Overwrite { file: FILE, range },
        false => ReceiverTransmit::Store { file: FILE, range },
    })
}

fn failed(reason: &str, discarded_bytes: u64) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
    Step::Event(ReceiverEvent::Failed { file: FILE, reason: reason.into(), discarded_bytes })
}

fn closed(reason: Option<CutShort>) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
    Step::Event(ReceiverEvent::Closed { reason })
}

/// Hands in the inputs; returns all steps up to the next wait.
fn take(receiver: &mut Receiver, now: Instant, inputs: impl IntoIterator<Item = ReceiverInput>) -> Taken {
    let mut taken = Vec::new();
    for input in inputs {
        receiver.handle(now, input);
        loop {
            match receiver.poll(now) {
                Step::Wait(..) => break,
                step => taken.push(step),
            }
        }
    }
    taken
}

#[test]
fn joins_in_the_middle_and_stays_until_it_has_all() {
    let mut receiver = receiver();
    let early = take(&mut receiver, NOW, [blocks(50..80)]);
    assert_eq!(early, [store(50..80, false)]);
    let late = take(
        &mut receiver,
        NOW,
        [
            contents(1),
            message(FILE, Message::BeginOfFile(begin())),
            blocks(0..60),
            blocks(60..95),
            digest(7),
            hashed(7),
            COMMITTED,
        ],
    );
    let expected = [
        Step::Transmit(ReceiverTransmit::Announce { file: FILE, begin: begin() }),
        store(0..50, false),
        store(80..95, false),
        Step::Transmit(ReceiverTransmit::Hash { file: FILE }),
        Step::Transmit(ReceiverTransmit::Commit { file: FILE }),
        Step::Event(ReceiverEvent::Received { file: FILE, begin: begin() }),
        closed(None),
    ];
    assert_eq!(late, expected);
    assert_eq!(receiver.counters().duplicate_blocks, 3);
    assert_eq!(receiver.poll(NOW), Step::Wait(None, ReceiverWait::Closed));
}

#[test]
fn a_part_is_not_taken_for_all_whoever_says_so() {
    let mut receiver = receiver();
    let whole =
        [message(FILE, Message::BeginOfFile(begin())), blocks(0..95), digest(7), hashed(7), COMMITTED];
    let steps = take(&mut receiver, NOW, [contents(3), contents(1)].into_iter().chain(whole));
    assert!(!steps.contains(&closed(None)), "{steps:?}");
    assert_eq!(receiver.progress().objects, Some(3));
    let reason = CutShort::SenderStopped;
    assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
    assert_eq!(take(&mut receiver, NOW + LEAVING, []), []);
    assert_eq!(receiver.poll(NOW + LEAVING), closed(Some(reason)));
}

#[test]
fn one_of_several_senders_that_goes_ends_nothing() {
    let mut receiver = receiver();
    let start = [contents(1), message(FILE, Message::BeginOfFile(begin())), digest(7), blocks(0..50)];
    take(&mut receiver, NOW, start);
    let goodbye = || message(FILE, Message::Goodbye);
    let gone = message(FILE, Message::Withdraw(Reason::new("gone")));
    take(&mut receiver, NOW, [goodbye(), gone.clone(), gone.clone(), goodbye(), blocks(50..60)]);
    assert_eq!(receiver.poll(NOW), Step::Wait(Some(NOW + LEAVING), ReceiverWait::Sender), "an echo");
    let later = NOW + ECHO;
    assert_eq!(take(&mut receiver, later, [gone.clone(), blocks(60..70)])[..1], [store(60..70, false)]);
    let patience = later + Duration::from_secs(30);
    assert_eq!(receiver.poll(later), Step::Wait(Some(patience), ReceiverWait::Sender), "another sends");
    let rest = take(&mut receiver, later, [gone, goodbye(), blocks(70..95), hashed(7), COMMITTED]);
    assert_eq!(rest.last(), Some(&closed(None)));
}

#[test]
fn a_wrong_hash_lets_it_compare_all_that_comes_again() {
    let mut receiver = receiver();
    let first =
        [contents(1), message(FILE, Message::BeginOfFile(begin())), digest(7), blocks(0..95), hashed(8)];
    take(&mut receiver, NOW, first);
    assert_eq!(take(&mut receiver, NOW, [blocks(30..50)]), [store(30..50, true)]);
    let rest = take(&mut receiver, NOW, [blocks(0..95), hashed(7), COMMITTED]);
    assert_eq!(rest[..2], [store(0..30, true), store(50..95, true)]);
    assert_eq!(rest.last(), Some(&closed(None)));
}

#[test]
fn a_hash_that_stays_wrong_fails_the_object() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    let steps = [contents(1), begin, digest(7), blocks(0..95), hashed(8), blocks(0..95), hashed(8)];
    let steps = take(&mut receiver, NOW, steps);
    let last = [
        Step::Transmit(ReceiverTransmit::Discard { file: FILE }),
        failed("its hash has been wrong 2 times", 95),
        closed(None),
    ];
    assert_eq!(steps[steps.len() - 3..], last);
}

#[test]
fn of_a_wrong_object_the_wrong_chunks_alone_are_taken_again() {
    const SIZE: u64 = 20 * CHUNK_LEN + 5;
    let mut receiver = receiver_of(1_000);
    let page = |page, count| {
        let page = ChunkHashes::new(page, vec![[1; 32]; count], vec![[2; 32]]).expect("few");
        (page.clone(), message(FILE, Message::ChunkHashes(page)))
    };
    let checked = |page, wrong| ReceiverInput::Checked { file: FILE, page, wrong };
    let check = |page: &ChunkHashes| {
        let page = page.clone();
        Step::Transmit(ReceiverTransmit::CheckChunks { file: FILE, hash: [7; 32], page })
    };
    let begin = BeginOfFile::new(TransferType::DiskToDisk, SIZE, "a").expect("a good name");
    let begin = message(FILE, Message::BeginOfFile(begin));
    let ((first, say_first), (last, say_last)) = (page(0, 16), page(1, 5));
    let start = [contents(1), begin, digest(7), say_first.clone(), blocks(0..SIZE)];
    assert!(!take(&mut receiver, NOW, start).contains(&check(&first)), "not while it may be right");
    take(&mut receiver, NOW, [hashed(8)]);
    assert_eq!(take(&mut receiver, NOW, [blocks(0..1_000)]), [], "it is there, and not known to be wrong");
    assert_eq!(take(&mut receiver, NOW, [say_first.clone(), say_first.clone()]), [check(&first)]);
    take(&mut receiver, NOW, [checked(0, None)]);
    assert_eq!(take(&mut receiver, NOW, [say_first]), [check(&first)], "the other was forged");
    let wrong = CHUNK_LEN..2 * CHUNK_LEN;
    take(&mut receiver, NOW, [checked(0, Some(vec![wrong.clone()]))]);
    let again = CHUNK_LEN / 1_000 * 1_000..(2 * CHUNK_LEN).next_multiple_of(1_000);
    assert_eq!(take(&mut receiver, NOW, [blocks(0..SIZE / 1_000 * 1_000)]), [store(again, true)]);
    assert_eq!(take(&mut receiver, NOW, [say_last]), [check(&last)], "the rest is compared first");
    let hash = Step::Transmit(ReceiverTransmit::Hash { file: FILE });
    assert_eq!(take(&mut receiver, NOW, [checked(1, Some(vec![]))]), [hash]);
    assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
    assert_eq!(receiver.counters().wrong_chunks, 1);
}

#[test]
fn what_is_there_from_before_is_not_stored_again() {
    let mut receiver = receiver();
    let have = |ranges| ReceiverInput::Have { file: FILE, ranges };
    take(&mut receiver, NOW, [have(vec![0..10, 20..30]), contents(1), digest(7)]);
    take(&mut receiver, NOW, [message(FILE, Message::BeginOfFile(begin())), have(vec![0..25, 40..95])]);
    assert_eq!(receiver.progress().received_bytes, 80, "whole blocks");
    let steps = take(&mut receiver, NOW, [blocks(0..95)]);
    assert_eq!(steps, [store(20..40, false), Step::Transmit(ReceiverTransmit::Hash { file: FILE })]);
    assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
}

#[test]
fn what_could_not_be_stored_is_taken_from_a_later_loop() {
    let mut receiver = receiver();
    let whole = [contents(1), message(FILE, Message::BeginOfFile(begin())), blocks(0..95), digest(1)];
    take(&mut receiver, NOW, whole);
    let lost = ReceiverInput::Lost { file: FILE, ranges: std::iter::once(20..40).collect() };
    assert_eq!(take(&mut receiver, NOW, [lost]), []);
    let hash = Step::Transmit(ReceiverTransmit::Hash { file: FILE });
    assert_eq!(take(&mut receiver, NOW, [blocks(0..95)]), [store(20..40, false), hash]);
}

#[test]
fn a_digest_that_comes_after_the_hash_settles_it() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    take(&mut receiver, NOW, [contents(1), begin, blocks(0..95), hashed(7)]);
    assert!(matches!(receiver.poll(NOW), Step::Wait(Some(_), ReceiverWait::Sender)));
    assert_eq!(take(&mut receiver, NOW, [digest(7), COMMITTED]).last(), Some(&closed(None)));
}

#[test]
fn is_not_done_before_it_knows_how_many_objects_there_are() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    let steps = take(&mut receiver, NOW, [begin, digest(7), blocks(0..95), hashed(7), COMMITTED]);
    assert!(matches!(steps.last(), Some(Step::Event(ReceiverEvent::Received { .. }))));
    assert_eq!(take(&mut receiver, NOW, [contents(2)]), []);
    let withdraw = || message(OTHER, Message::Withdraw(Reason::new("gone")));
    assert_eq!(take(&mut receiver, NOW, (0..WITHDRAWALS).map(|_| withdraw())), []);
    let end = take(&mut receiver, NOW + WITHDRAWN_FOR, [withdraw()]);
    assert_eq!(end.last(), Some(&closed(None)));
}

#[test]
fn what_one_sender_withdraws_again_and_again_another_may_bring() {
    let mut receiver = receiver();
    let withdraw = || message(FILE, Message::Withdraw(Reason::new("gone")));
    take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin()))]);
    // One sender's loops last 20 ms; a block of the other's comes every nine seconds.
    for block in 0..9 {
        for millis in (0..9_000).step_by(20) {
            let now = NOW + Duration::from_millis(block * 9_000 + millis);
            assert_eq!(take(&mut receiver, now, [withdraw()]), [], "{millis} ms after block {block}");
        }
        let range = block * 10..block * 10 + 10;
        take(&mut receiver, NOW + Duration::from_secs(block * 9 + 9), [blocks(range)]);
    }
    let (first, late) = (NOW + Duration::from_secs(82), NOW + Duration::from_secs(82) + WITHDRAWN_FOR);
    assert_eq!(take(&mut receiver, first, [withdraw(), withdraw(), withdraw()]), []);
    let end = take(&mut receiver, late, [withdraw()]);
    assert!(end.contains(&failed("the sender has withdrawn it: gone", 90)), "{end:?}");
}

#[test]
fn a_silent_sender_is_given_up() {
    let mut receiver = receiver();
    take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin()))]);
    let late = NOW + Duration::from_secs(30);
    assert_eq!(receiver.poll(NOW), Step::Wait(Some(late), ReceiverWait::Sender));
    assert_eq!(receiver.poll(late), failed("nothing has come from the sender for 30 s", 0));
    assert_eq!(receiver.poll(late), closed(Some(CutShort::Silent(Duration::from_secs(30)))));
}

#[test]
fn a_goodbye_waits_for_the_hash_that_is_under_way() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    take(&mut receiver, NOW, [contents(1), begin, digest(7), blocks(0..95)]);
    assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
    assert_eq!(take(&mut receiver, NOW, [hashed(7), COMMITTED]).last(), Some(&closed(None)));
}

#[test]
fn a_goodbye_ends_what_is_unfinished() {
    let mut receiver = receiver();
    take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin())), blocks(0..50)]);
    let reason = CutShort::SenderStopped;
    assert_eq!(take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]), []);
    assert_eq!(
        receiver.poll(NOW + LEAVING),
        failed(&reason.to_string(), 0),
        "what has come is kept for who goes on"
    );
    assert_eq!(receiver.poll(NOW + LEAVING), closed(Some(reason)));
}

#[test]
fn what_a_sender_has_withdrawn_is_told_at_its_end() {
    let mut receiver = receiver();
    let gone = message(FILE, Message::Withdraw(Reason::new("it has shrunk")));
    take(&mut receiver, NOW, [contents(1), message(FILE, Message::BeginOfFile(begin())), gone]);
    take(&mut receiver, NOW, [message(FILE, Message::Goodbye)]);
    assert_eq!(receiver.poll(NOW + LEAVING), Step::Transmit(ReceiverTransmit::Discard { file: FILE }));
    let reason = "the sender has withdrawn it: it has shrunk";
    assert_eq!(receiver.poll(NOW + LEAVING), failed(reason, 0));
}

#[test]
fn a_commit_that_fails_is_a_failure() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    let steps = take(&mut receiver, NOW, [contents(1), begin, digest(7), blocks(0..95), hashed(7)]);
    assert_eq!(steps.last(), Some(&Step::Transmit(ReceiverTransmit::Commit { file: FILE })));
    let reason = "the folder is gone".to_owned();
    let steps = take(&mut receiver, NOW, [ReceiverInput::StoreFailed { file: FILE, reason }]);
    assert_eq!(steps[1..], [failed("the folder is gone", 95), closed(None)]);
}

#[test]
fn an_object_that_is_not_wanted_needs_nothing_more() {
    let mut receiver = receiver();
    let begin = message(FILE, Message::BeginOfFile(begin()));
    let steps = take(
        &mut receiver,
        NOW,
        [contents(1), begin, ReceiverInput::Respond { file: FILE, response: Response::Ignore }],
    );
    assert_eq!(steps[1..], [Step::Transmit(ReceiverTransmit::Discard { file: FILE }), closed(None)]);
}

#[test]
fn only_what_is_there_comes_twice() {
    let mut receiver = receiver();
    let begin_of = |file| message(file, Message::BeginOfFile(begin()));
    let unwanted = || ReceiverInput::Blocks { from: Channel::Group, file: OTHER, range: 0..95 };
    let ignore = ReceiverInput::Respond { file: OTHER, response: Response::Ignore };
    take(&mut receiver, NOW, [contents(3), begin_of(OTHER), ignore, unwanted(), unwanted()]);
    assert_eq!(receiver.counters().duplicate_blocks, 0, "it was not wanted");
    take(&mut receiver, NOW, [begin_of(FILE), digest(7), blocks(0..95), hashed(7), COMMITTED, blocks(0..95)]);
    assert_eq!(receiver.counters().duplicate_blocks, 10, "it is there");
}

#[test]
fn packets_of_another_session_or_beyond_the_contents_are_ignored() {
    let mut receiver = receiver();
    let stranger = FileId::new(SessionId(8), 0);
    let inputs = [
        contents(1),
        message(stranger, Message::BeginOfFile(begin())),
        ReceiverInput::Blocks { from: Channel::Group, file: stranger, range: 0..10 },
        message(OTHER, Message::BeginOfFile(begin())),
        ReceiverInput::Blocks { from: Channel::Group, file: OTHER, range: 0..10 },
    ];
    assert_eq!(take(&mut receiver, NOW, inputs), []);
}

#[test]
fn objects_are_bounded_while_their_number_is_unknown() {
    let mut receiver = receiver();
    for index in 0..1000 {
        let file = FileId::new(SessionId(9), index);
        take(&mut receiver, NOW, [ReceiverInput::Blocks { from: Channel::Group, file, range: 0..10 }]);
    }
    assert_eq!(receiver.objects.len(), MAX_UNANNOUNCED);
}

#[test]
fn what_anybody_may_have_invented_is_bounded() {
    let mut receiver = receiver();
    take(&mut receiver, NOW, [contents(MAX_OBJECTS)]);
    let of = |index: u32| FileId::new(SessionId(9), index);
    for index in 0..2_000 {
        let range = 0..1 << 20;
        take(&mut receiver, NOW, [ReceiverInput::Blocks { from: Channel::Group, file: of(index), range }]);
    }
    assert_eq!(receiver.objects.len(), MAX_UNANNOUNCED, "before they are announced");
    assert!(receiver.progress().received_bytes <= EARLY_BYTES);
    for index in 0..2_000 {
        let begin = BeginOfFile::new(TransferType::DiskToDisk, u64::MAX, "a").expect("a good name");
        take(&mut receiver, NOW, [message(of(index), Message::BeginOfFile(begin))]);
    }
    let announced = receiver.objects.values().filter(|object| object.begin.is_some()).count();
    assert_eq!(announced, MAX_UNFINISHED, "files at a time");
    for block in 0..200_000 {
        let start = block * 40_960;
        take(
            &mut receiver,
            NOW,
            [ReceiverInput::Blocks { from: Channel::Group, file: of(0), range: start..start + 10 }],
        );
    }
    assert!(receiver.objects[&0].stored.chunks() <= MAX_CHUNKS);
}

/// A receiver that reports, and what it has reported when all that follows from an input has.
struct Reporting(Receiver);

impl Reporting {
    fn new() -> Self {
        let mut receiver = receiver();
        receiver.config.reports = Some(1);
        Self(receiver)
    }

    /// Hands in what has come, and lets the longest time before a report pass.
    fn lacks(&mut self, millis: u64, input: ReceiverInput) -> Vec<Range<u64>> {
        let now = NOW + Duration::from_millis(millis);
        self.0.handle(now, input);
        [self.reported(now), self.reported(now + Duration::from_millis(1_200))].concat()
    }

    fn reported(&mut self, now: Instant) -> Vec<Range<u64>> {
        let mut lacks = Vec::new();
        loop {
            match self.0.poll(now) {
                Step::Transmit(ReceiverTransmit::Message { message: Message::Lacking(lacking), .. }) => {
                    lacks.extend(lacking.ranges());
                }
                Step::Wait(..) => break lacks,
                _ => {}
            }
        }
    }
}

fn announced() -> ReceiverInput {
    message(FILE, Message::BeginOfFile(begin().with_index()))
}

fn have() -> ReceiverInput {
    ReceiverInput::Have { file: FILE, ranges: vec![Range { start: 20, end: 80 }] }
}

/// A receiver that the sender can hear says what it lacks when it knows what an older version holds, and
/// again while nothing of it comes.
#[test]
fn what_is_lacking_is_reported_until_it_comes() {
    let mut one = Reporting::new();
    assert!(one.lacks(0, announced()).is_empty(), "it reads its older version");
    assert_eq!(one.lacks(2_000, have()), [0..20, 80..95]);
    assert!(one.lacks(2_900, announced()).is_empty());
    assert_eq!(one.lacks(4_500, message(FILE, Message::EndOfFile)), [0..20, 80..95]);
    assert!(one.lacks(6_400, announced()).is_empty(), "the time doubles");
    assert_eq!(one.lacks(8_000, announced()), [0..20, 80..95]);
    assert!(one.lacks(9_500, blocks(0..20)).is_empty());
    assert!(one.lacks(10_400, announced()).is_empty(), "more is coming");
    let rest = Vec::from([Range { start: 80, end: 95 }]);
    assert_eq!(one.lacks(10_600, message(FILE, Message::EndOfFile)), rest);
    assert_eq!(one.lacks(14_000, announced()), rest);

    let plain = || message(OTHER, Message::BeginOfFile(begin()));
    assert!(one.lacks(16_000, plain()).is_empty(), "its blocks may be on their way");
    assert_eq!(one.lacks(16_500, plain()), Vec::from([Range { start: 0, end: 95 }]));
}

#[test]
fn what_the_sender_says_it_will_bring_is_not_reported_before_that_should_have_come() {
    let said = |range| message(FILE, Message::Lacking(RetransmissionRequest::new(range).unwrap().into()));
    let mut one = Reporting::new();
    one.lacks(0, announced());
    one.0.handle(NOW + Duration::from_millis(2_000), said(0..30));
    assert_eq!(one.lacks(2_000, have()), [0..20, 80..95], "that was before it could report");
    for range in [80..90, 0..20] {
        one.0.handle(NOW + Duration::from_millis(3_300), said(range));
    }
    assert_eq!(
        one.lacks(4_500, announced()),
        Vec::from([Range { start: 80, end: 95 }]),
        "not all of it was said"
    );
    one.0.handle(NOW + Duration::from_millis(6_000), said(0..95));
    one.lacks(6_100, blocks(0..10));
    let lost = one.lacks(8_000, message(FILE, Message::EndOfFile));
    assert_eq!(lost, [10..20, 80..95], "the pass has gone by");
}

/// Anybody may say that everything will come, again and again.
#[test]
fn what_is_said_and_does_not_come_delays_reports_and_does_not_prevent_them() {
    let mut one = Reporting::new();
    one.lacks(0, announced());
    one.lacks(0, have());
    let mut reports = Vec::new();
    for millis in (1_000..60_000).step_by(500) {
        let forged = Message::Lacking(RetransmissionRequest::new(0..95).unwrap().into());
        one.0.handle(NOW + Duration::from_millis(millis), message(FILE, forged));
        reports.extend((!one.lacks(millis, announced()).is_empty()).then_some(millis));
    }
    assert!(matches!(reports[..], [15_000..20_000, 31_000..36_000]), "{reports:?}");
}
