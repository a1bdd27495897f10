//! One packet of every type, each as its name, its bytes and what it says to a person. The files
//! in `vectors/` hold the same.

mod local;

use std::{num::NonZeroU64, time::Duration};

use treecast_wire::{
    chunk_index::{self, Chunk, ChunkIndex},
    header::{FileId, Header, PacketType, SessionId},
    iotup,
    message::{
        Attributes, BeginOfFile, BeginOfFilePart, BlockHashes, ChunkHashes, ChunkHashesRequest,
        CommandResult, Contents, Digest, GroupKey, Heard, Hello, Lack, Lacking, Message, ModificationTime,
        Move, ObjectKind, Pace, PaceReport, Phase, Place, Probe, ProbeProof, Progress, PutOut, PutOutCode,
        Reason, RetransmissionRequest, Role, Signed, SignedWord, SymbolRequest, SymbolsSent, TransferType,
        Welcome, Zeros,
    },
    seal::KeyId,
    ticket::{Fanout, LocalMode, LocalTicket, Repair, Security, Ticket},
    unicast,
};

pub struct Sample {
    pub name: String,
    pub bytes: Vec<u8>,
    pub text: String,
}

const BLOCK: &[u8] = b"One sender, many receivers, the same bytes.";

pub fn all() -> Vec<Sample> {
    let mut samples = blocks();
    samples.extend(messages().into_iter().map(|message| message_sample(&message)));
    samples.extend(tickets());
    samples.extend([delta_index(), iotup_frame(), tcp_header(), udp_request(), udp_reply()]);
    samples
}

/// One control message of every type.
pub fn messages() -> Vec<Message> {
    let begin = BeginOfFile::new(TransferType::DiskToDisk, 1 << 40, "folder/grüße.bin").expect("a good name");
    let modified = ModificationTime { seconds: -1, nanoseconds: 5 };
    let attributes = Attributes { kind: ObjectKind::File, mode: 0o640, modified };
    let begin = begin.with_attributes(attributes).expect("good attributes");
    let index = BeginOfFile::new(TransferType::DiskToDisk, 92, "folder/grüße.bin").expect("a good name");
    let index =
        index.with_attributes(Attributes { kind: ObjectKind::Index, ..attributes }).expect("good attributes");
    let request = RetransmissionRequest::new(1420..4260).expect("not empty");
    let mut hello = Hello::new(1, 4321, 8 << 20, "client7").expect("a good name");
    hello.member = [7; 16];
    hello.role = Role { is_standing: true, reports: true };
    let mut result = CommandResult::new(1, "lab7").expect("a good name");
    (result.code, result.time) = (-1, Duration::from_millis(600_000));
    (result.member, result.line) = ([7; 16], Reason::new("it was killed after 600 s"));
    let contents = Contents::new(3).expect("not empty");
    let progress = Progress {
        position: 1 << 33,
        received_bytes: 5_000_000,
        duplicate_blocks: 12,
        dropped_packets: 7,
        disk_wait_ms: 40,
        at_us: 2_500_000,
    };
    let lack = |source_block, lacking| Lack { source_block, lacking, next: 2_048 + lacking };
    let symbols = SymbolRequest::new(600, vec![lack(0, 7), lack(3, 614)]).expect("two");
    vec![
        Message::NamesRequest,
        Message::Offer(begin.clone().compressed()),
        Message::BeginOfFile(begin.clone()),
        Message::BeginOfFile(begin.with_index()),
        Message::BeginOfFile(index),
        Message::EndOfFile,
        Message::BeginOfFileRequest,
        Message::RetransmissionRequest(request),
        Message::EndOfRetransmissionRequests,
        Message::RetransmissionReject,
        Message::Hello(hello),
        Message::Welcome(Welcome { version: 1, block_len: 1420, receiver: 5 }),
        Message::Digest(Digest { signature: Some([0x5a; 64]), ..Digest::unsigned(hash()) }),
        Message::Digest(Digest {
            place: Some(Place { index: 2, siblings: vec![[0x11; 32], [0x22; 32]] }),
            signature: Some([0x5a; 64]),
            ..Digest::unsigned(hash())
        }),
        Message::Progress(progress),
        Message::Withdraw(Reason::new("it has shrunk from 10 to 9 bytes")),
        Message::Failed(Reason::new("no space left on the device")),
        Message::Goodbye,
        Message::PutOut(PutOut::new(PutOutCode::Stalled, "it said nothing for 60 s")),
        Message::Contents(contents),
        signed(SignedWord::Withdraw(Reason::new("it has shrunk"))),
        signed(SignedWord::Blocks(BlockHashes::new(true, 142_000, vec![[4; 8], [5; 8]]).expect("few"))),
        signed(SignedWord::State(Box::new(local::of_session()))),
        Message::GroupKey(GroupKey { id: KeyId(0x0123_4567_89ab_cdef), secret: [9; 32] }),
        Message::ChunkHashesRequest(ChunkHashesRequest::new(32..64).expect("few")),
        Message::ChunkHashes(ChunkHashes::new(35, vec![hash(), [1; 32]], vec![[2; 32]]).expect("few")),
        Message::Pace(pace()),
        Message::Pace(Pace { probe: Some(Probe { number: 70, nonce: 0x0102_0304_0506_0708 }), ..pace() }),
        Message::PaceReport(pace_report()),
        Message::NotWanted,
        Message::SymbolRequest(symbols),
        Message::SymbolsSent(SymbolsSent { source_block: 3, next: 2_900 }),
        Message::Lacking(RetransmissionRequest::new(142_000..1 << 40).expect("not empty").into()),
        Message::Lacking(Lacking::of_all([1_420..2_840, 142_000..1 << 40], 1_420).remove(0)),
        Message::Lacking(RetransmissionRequest::end_of_report(1 << 40).into()),
        Message::Move(Move::new(2).expect("one of eight")),
        Message::Zeros(Zeros::new(142_000..205_900).expect("few")),
        Message::Heard(Heard { unicast: 70_000, group: 12, last: 0x0102_0304 }),
        Message::CommandResult(result),
        Message::BeginOfFilePart(BeginOfFilePart::new(4_120, 4_108, b"notes/a.text").expect("in range")),
    ]
    .into_iter()
    .chain(local::all().into_iter().map(Message::Local))
    .collect()
}

fn signed(word: SignedWord) -> Message {
    Message::Signed(Signed { word, signature: [3; 64] })
}

fn pace() -> Pace {
    Pace {
        timestamp_us: 12_000_000,
        rate_bps: 48_000_000,
        suppression_bps: 47_000_000,
        echo_us: 7_020_000,
        round: 9,
        longest_round_trip_us: 62_000,
        packet_bytes: 1500,
        is_slow_start: true,
        limited_by: 5,
        echo_for: 6,
        phase: Phase::Cruise,
        is_unused: true,
        receivers: 7,
        probe: None,
    }
}

fn pace_report() -> PaceReport {
    PaceReport {
        timestamp_us: 7_000_000,
        echo_us: 12_010_000,
        rate_bps: 46_500_000,
        received_bps: 47_900_000,
        round: 9,
        round_trip_us: 61_500,
        loss_ppb: 41_000,
        is_limited: true,
        queue_us: 900,
        lost_ppm: 10_000,
        marked_ppm: 20_000,
        proof: ProbeProof { last: 70, came: 0b1101, sum: 0x0807_0605_0403_0201 },
    }
}

pub fn tickets() -> Vec<Sample> {
    let group = "[ff35::8000:1]:5000".parse().expect("an address");
    let multicast = Ticket {
        source: Some("fd00::1".parse().expect("an address")),
        control: vec!["[fd00::1]:6000".parse().expect("an address")],
        security: Some(Security { sender_key: [7; 32], secret: None }),
        expires: NonZeroU64::new(1_800_000_000),
        ..Ticket::new(SessionId(0x0123_4567), Repair::Nack, 1420, group)
    };
    let unicast = Ticket {
        fanout: Fanout::Unicast,
        repair: Repair::After,
        block_len: 1440,
        group: "0.0.0.0:0".parse().expect("an address"),
        source: None,
        control: vec!["192.0.2.1:6000".parse().expect("an address")],
        security: None,
        expires: None,
        ..multicast.clone()
    };
    let carousel = Ticket {
        repair: Repair::Carousel,
        fec: true,
        group: "239.1.2.3:5000".parse().expect("an address"),
        source: None,
        control: vec![],
        security: Some(Security { sender_key: [7; 32], secret: Some([9; 32]) }),
        ..multicast.clone()
    };
    let local = Ticket {
        repair: Repair::Local,
        fec: false,
        control: vec!["192.0.2.1:6000".parse().expect("an address")],
        local: Some(LocalTicket {
            mode: LocalMode::Hierarchical,
            is_static: true,
            deadline_ms: 500,
            repair_rate_bps: 160_000,
            congestion_loss: 6_553,
        }),
        ..carousel.clone()
    };
    let rates =
        Ticket { groups: 3, group: "239.1.2.255:5000".parse().expect("an address"), ..multicast.clone() };
    let auto = Ticket { fanout: Fanout::Auto, is_feed: true, source: None, ..multicast.clone() };
    let mead = Ticket { fanout: Fanout::Mead, ..unicast.clone() };
    let named = [("multicast", multicast), ("unicast", unicast), ("carousel", carousel), ("rates", rates)];
    named
        .into_iter()
        .chain([("auto", auto), ("mead", mead), ("local", local)])
        .map(|(name, ticket)| Sample {
            name: format!("ticket-{name}"),
            bytes: ticket.to_string().into_bytes(),
            text: format!("{ticket:#?}"),
        })
        .collect()
}

fn blocks() -> Vec<Sample> {
    [(PacketType::Data, 0x0102_0304), (PacketType::RetransmittedData, 0), (PacketType::RepairSymbol, 7)]
        .into_iter()
        .map(|(kind, number)| {
            let header =
                Header { file_id: file_id(), sequence: 2840, payload_len: BLOCK.len() as u32, kind, number };
            let bytes = [&header.to_bytes(), BLOCK].concat();
            Sample { name: format!("session-{kind:?}"), bytes, text: format!("{header}") }
        })
        .collect()
}

fn message_sample(message: &Message) -> Sample {
    let bytes = message.to_packet(file_id());
    let header = Header::parse(&bytes).expect("its own header");
    let name = match message {
        Message::PutOut(_) => "session-PutOut".to_owned(),
        Message::BeginOfFile(begin) if begin.has_index() => "session-BeginOfFile-indexed".to_owned(),
        Message::BeginOfFile(begin) if begin.kind() == ObjectKind::Index => {
            "session-BeginOfFile-index".to_owned()
        }
        Message::Lacking(lacking) if lacking.ranges().count() > 1 => "session-Lacking-several".to_owned(),
        Message::Lacking(lacking) if lacking.ranges().all(|range| range.is_empty()) => {
            "session-Lacking-end".to_owned()
        }
        Message::Pace(Pace { probe: Some(_), .. }) => "session-Pace-probe".to_owned(),
        Message::Digest(Digest { place: Some(_), .. }) => "session-Digest-of-many".to_owned(),
        Message::Signed(Signed { word: SignedWord::Blocks(_), .. }) => "session-Signed-blocks".to_owned(),
        Message::Signed(Signed { word: SignedWord::State(_), .. }) => "session-Signed-state".to_owned(),
        Message::Local(local) => format!("session-Local{}", local::name(local)),
        other => format!("session-{:?}", other.packet_type()),
    };
    Sample { name, bytes, text: format!("{header}\n{message}") }
}

/// The index of an object of two chunks.
fn delta_index() -> Sample {
    let chunks = [Chunk { len: 20_000, hash: hash() }, Chunk { len: 7, hash: [9; 32] }];
    let mut bytes = chunk_index::head(16_384, 20_007).to_vec();
    chunks.iter().for_each(|chunk| bytes.extend_from_slice(&chunk.to_bytes()));
    let text = ChunkIndex::parse(&bytes).expect("an index").to_string();
    Sample { name: "delta-index".into(), bytes, text }
}

fn iotup_frame() -> Sample {
    let frame = iotup::Frame::new(513, 1 << 34, 1194 * 7, BLOCK.len() as u16, hash()).expect("in the file");
    let bytes = [&frame.to_bytes(), BLOCK].concat();
    Sample { name: "iotup-frame".into(), bytes, text: frame.to_string() }
}

fn tcp_header() -> Sample {
    let header = file_header();
    Sample { name: "unicast-tcp-reply".into(), bytes: header.to_bytes().to_vec(), text: header.to_string() }
}

fn udp_request() -> Sample {
    let request = unicast::Request::new(1402, 2804).expect("not empty");
    Sample {
        name: "unicast-udp-request".into(),
        bytes: request.to_bytes().to_vec(),
        text: request.to_string(),
    }
}

fn udp_reply() -> Sample {
    let reply = unicast::Reply::new(file_header(), 1402, BLOCK.len() as u16).expect("in the file");
    let bytes = [&reply.to_bytes(), BLOCK].concat();
    Sample { name: "unicast-udp-reply".into(), bytes, text: reply.to_string() }
}

fn file_header() -> unicast::FileHeader {
    unicast::FileHeader { file_size: 1 << 34, hash: hash() }
}

fn file_id() -> FileId {
    FileId::new(SessionId(0x0123_4567), 2)
}

fn hash() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}
