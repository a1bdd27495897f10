//! Whatever the other side sends, in whatever order: no machine panics, goes round in circles or waits for
//! the past.

use std::time::Duration;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    fec::Share,
    object::{Channel, Lane, ReceiverId, ReceiverInput, Response, SenderInput},
    vcmtp::{Notification, Receiver, ReceiverConfig, Repair, Sender, SenderConfig},
};
use treecast_sim::network::generator;
use treecast_wire::{
    header::{FileId, SessionId},
    message::{
        BeginOfFile, ChunkHashes, ChunkHashesRequest, Digest, Lack, Message, Move, Progress, Reason,
        RetransmissionRequest, SymbolRequest, SymbolsSent, TransferType, Welcome,
    },
};

const SESSION: SessionId = SessionId(7);
const SEEDS: u64 = 300;
const INPUTS: usize = 300;

/// More steps than this after one input are a circle.
const MAX_STEPS: usize = 100_000;

#[test]
fn a_receiver_takes_anything() {
    for seed in 0..SEEDS {
        let mut random = generator(seed, 0);
        let mut receiver = Receiver::new(receiver_config(&mut random));
        let mut now = Instant::ZERO;
        receiver.handle(now, ReceiverInput::Connected { round_trip: Duration::ZERO });
        for _ in 0..INPUTS {
            now += Duration::from_micros(random.random_range(0..20_000));
            receiver.handle(now, receiver_input(&mut random));
            drain(now, seed, |now| receiver.poll(now));
        }
    }
}

#[test]
fn a_sender_takes_anything() {
    for seed in 0..SEEDS {
        let mut random = generator(seed, 1);
        let mut sender = Sender::new(sender_config(&mut random));
        let mut now = Instant::ZERO;
        for _ in 0..INPUTS {
            now += Duration::from_micros(random.random_range(0..20_000));
            if random.random_bool(0.1) {
                sender.send(now, begin(random.random_range(0..30_000)));
            }
            sender.handle(now, sender_input(&mut random));
            for _ in 0..random.random_range(0..20) {
                sender.poll(now, Lane::Group);
                sender.poll(now, Lane::Slower(random.random_range(0..4)));
            }
            for receiver in 0..4 {
                drain(now, seed, |now| sender.poll(now, Lane::Receiver(ReceiverId(receiver))));
            }
        }
        drain(now, seed, |now| sender.poll(now, Lane::Group));
        (0..4).for_each(|group| drain(now, seed, |now| sender.poll(now, Lane::Slower(group))));
    }
}

fn drain<T, E, W>(now: Instant, seed: u64, mut poll: impl FnMut(Instant) -> Step<T, E, W>) {
    for _ in 0..MAX_STEPS {
        if let Step::Wait(deadline, _) = poll(now) {
            assert!(deadline.is_none_or(|deadline| deadline > now), "seed {seed} waits for the past");
            return;
        }
    }
    panic!("seed {seed} goes round in circles");
}

fn receiver_config(random: &mut ChaCha8Rng) -> ReceiverConfig {
    ReceiverConfig {
        session: SESSION,
        repair: repair(random),
        fec: random.random(),
        block_len: [1, 100, 1420, u16::MAX][random.random_range(0..4)],
        notification: [Notification::PerFile, Notification::Batched][random.random_range(0..2)],
        progress_bytes: random.random_range(0..1_000_000),
        progress_interval: Duration::from_millis(random.random_range(1..50)),
        keepalive: Duration::from_millis(random.random_range(1..3000)),
        stall_limit: Duration::from_millis(random.random_range(1..30_000)),
        resumes: random.random(),
        digest_from_group: random.random(),
    }
}

fn sender_config(random: &mut ChaCha8Rng) -> SenderConfig {
    SenderConfig {
        session: SESSION,
        fec: [None, Some(Share::Auto), Some(Share::Percent(30))][random.random_range(0..3)],
        repair: repair(random),
        block_len: [100, 1420, u16::MAX][random.random_range(0..3)],
        slower_run_lens: vec![64_000; random.random_range(0..3)],
        slower_groups_mend: random.random_bool(0.5),
        max_run_len: [1, 64_000][random.random_range(0..2)],
        retransmission_timeout_factor: [None, Some(0.0), Some(1e300), Some(f64::NAN)]
            [random.random_range(0..4)],
        minimum_retransmission_time: Duration::from_millis(random.random_range(0..50)),
        follow_progress: random.random(),
        patience: Duration::from_millis(random.random_range(0..50)),
        floor_bytes_a_second: [None, Some(0), Some(1_000_000), Some(u64::MAX)][random.random_range(0..4)],
        stall_limit: Duration::from_millis(random.random_range(1..3000)),
        at_once: random.random_range(1..100),
        is_feed: random.random_bool(0.5),
        kept_objects: 0,
        keepalive: Duration::from_millis(random.random_range(1..3000)),
        digest_to_group: random.random(),
    }
}

fn receiver_input(random: &mut ChaCha8Rng) -> ReceiverInput {
    let file = file(random);
    let from = [Channel::Group, Channel::Control][random.random_range(0..2)];
    match random.random_range(0..46) {
        0..14 => ReceiverInput::Message { from, file, message: message(random) },
        14..30 => {
            let start = position(random);
            let len = [0, 1, 100, 1420, 64_000, u64::MAX][random.random_range(0..6)];
            ReceiverInput::Blocks { from, file, range: start..start.saturating_add(len) }
        }
        30..33 => {
            let response = [Response::Accept, Response::Ignore][random.random_range(0..2)];
            ReceiverInput::Respond { file, response }
        }
        33 => {
            let block_len = [1, 100, 1420, u64::from(u16::MAX)][random.random_range(0..4)];
            let most = 1 << random.random_range(1..40);
            let start: u64 = random.random_range(0..most);
            let positions = start * block_len..(start + random.random_range(0..30)) * block_len;
            ReceiverInput::Symbols { from, file, positions }
        }
        34 => ReceiverInput::Decoded {
            file,
            source_block: random.random_range(0..3),
            is_right: random.random(),
        },
        35 => ReceiverInput::Hashed { file, hash: hash(random) },
        36 => ReceiverInput::StoreFailed { file, reason: "full".to_owned() },
        37 if random.random_bool(0.3) => ReceiverInput::Moved { group: random.random_range(0..10) },
        37 => ReceiverInput::Dropped { total: random.random() },
        38 if random.random_bool(0.05) => ReceiverInput::Disconnected { reason: "gone".to_owned() },
        39 if random.random_bool(0.05) => ReceiverInput::Close { reason: String::new() },
        40 if random.random_bool(0.5) => ReceiverInput::Listened { heard: random.random() },
        40 => ReceiverInput::Drained,
        41 => {
            let start = position(random);
            let wrong = (0..random.random_range(0..3)).map(|_| start..start.saturating_add(65_536)).collect();
            let wrong = Some(wrong).filter(|_| random.random());
            ReceiverInput::Checked { file, page: random.random_range(0..3), wrong }
        }
        42 => ReceiverInput::Committed { file },
        43 => {
            let begin = begin(position(random));
            ReceiverInput::AnnouncementRefused { file, begin, reason: "full".to_owned() }
        }
        44 => {
            let start = position(random);
            ReceiverInput::Have { file, ranges: std::iter::once(start..start.saturating_add(3000)).collect() }
        }
        45 => ReceiverInput::DiskWaited { total_ms: random.random() },
        _ => ReceiverInput::Connected { round_trip: Duration::ZERO },
    }
}

fn sender_input(random: &mut ChaCha8Rng) -> SenderInput {
    let (receiver, file) = (ReceiverId(random.random_range(0..4)), file(random));
    match random.random_range(0..40) {
        0..6 => {
            let (receive_buffer_bytes, micros) = (position(random) as u32, random.random());
            let round_trip = Some(Duration::from_micros(micros));
            SenderInput::Joined { receiver, receive_buffer_bytes, round_trip }
        }
        6..8 => SenderInput::Left { receiver, reason: "gone".to_owned() },
        8..14 => SenderInput::Hashed { file, hash: hash(random) },
        14 => SenderInput::Withdraw { file, reason: "shrunk".to_owned() },
        15 if random.random_bool(0.05) => SenderInput::Close,
        16 => SenderInput::Unheard { receiver },
        _ => SenderInput::Message { from: receiver, file, message: message(random) },
    }
}

fn message(random: &mut ChaCha8Rng) -> Message {
    let (start, end) = (position(random), position(random));
    match random.random_range(0..20) {
        14 => Message::Move(Move::new(random.random_range(0..4)).expect("one of eight")),
        15 => RetransmissionRequest::new(start..end)
            .map_or(Message::EndOfFile, |range| Message::Lacking(range.into())),
        0 | 1 => Message::BeginOfFile(begin(position(random))),
        16 => {
            let first = [0, 1, 31, start as u32][random.random_range(0..4)];
            let pages = first..first.saturating_add(random.random_range(0..40));
            ChunkHashesRequest::new(pages).map_or(Message::EndOfFile, Message::ChunkHashesRequest)
        }
        17 => {
            let hashes = vec![hash(random); random.random_range(0..20)];
            let page = ChunkHashes::new(random.random_range(0..3), hashes, Vec::new());
            page.map_or(Message::EndOfFile, Message::ChunkHashes)
        }
        18 => Message::NotWanted,
        2 => Message::EndOfFile,
        3 => Message::BeginOfFileRequest,
        4 => Message::EndOfRetransmissionRequests,
        5 => Message::RetransmissionReject,
        6 => Message::Welcome(Welcome { version: 1, block_len: 1, receiver: 1 }),
        7 => Message::Digest(Digest::unsigned(hash(random))),
        8 => Message::Withdraw(Reason::new("gone")),
        9 => Message::Failed(Reason::new("full")),
        10 if random.random_bool(0.02) => Message::Goodbye,
        12 => Message::SymbolsSent(SymbolsSent { source_block: start as u32, next: end as u32 }),
        13 => {
            let lack =
                |at: u64| Lack { source_block: at as u32 % 7, lacking: end as u32, next: start as u32 };
            let request = SymbolRequest::new(start, (0..3).map(lack).collect());
            request.map_or(Message::EndOfFile, Message::SymbolRequest)
        }
        11 => {
            let at_us = [0, start, u64::MAX][random.random_range(0..3)];
            Message::Progress(Progress { position: start, received_bytes: end, at_us, ..Progress::default() })
        }
        _ => {
            RetransmissionRequest::new(start..end).map_or(Message::EndOfFile, Message::RetransmissionRequest)
        }
    }
}

fn begin(size: u64) -> BeginOfFile {
    BeginOfFile::new(TransferType::DiskToDisk, size, "name").expect("the name is in order")
}

fn file(random: &mut ChaCha8Rng) -> FileId {
    match random.random_range(0..20) {
        0 => FileId(random.next_u64()),
        1 => FileId::new(SESSION, u32::MAX),
        _ => FileId::new(SESSION, random.random_range(0..5)),
    }
}

/// A position, often one at which something ends.
fn position(random: &mut ChaCha8Rng) -> u64 {
    match random.random_range(0..8) {
        0 => u64::MAX - random.random_range(0..3),
        1 => random.next_u64(),
        2 => 0,
        3 => 1420 * random.random_range(0..100),
        _ => 100 * random.random_range(0..1000),
    }
}

fn hash(random: &mut ChaCha8Rng) -> [u8; 32] {
    [random.random_range(0..2); 32]
}

fn repair(random: &mut ChaCha8Rng) -> Repair {
    [Repair::Nack, Repair::After, Repair::None][random.random_range(0..3)]
}
