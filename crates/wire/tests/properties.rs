//! Properties of all parsers: what was emitted reads back the same and is as long as predicted, and no bytes make a
//! parser panic.

use std::time::Duration;

use proptest::prelude::*;
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, MAX_PAYLOAD_LEN, PacketType, SessionId},
    iotup,
    message::{
        Attributes, BeginOfFile, BeginOfFilePart, BlockHash, BlockHashes, ChunkHashes, ChunkHashesRequest,
        CommandResult, Contents, Digest, GroupId, GroupKey, Heard, Hello, Lack, Lacking, Local, LocalFlags,
        LocalJoin, LocalObject, LocalReport, LocalRequest, LocalSplit, LocalState, MAX_BLOCK_HASHES,
        MAX_FILE_NAME_LEN, MAX_LACKS, MAX_LOCAL_CHILDREN, MAX_LOCAL_MEMBERS, MAX_LOCAL_OBJECTS,
        MAX_LOCAL_REQUESTED, MAX_LOCAL_ROSTER, MAX_OBJECTS, MAX_PAGES, MAX_PROOF, MAX_REASON_LEN,
        MAX_ZEROS_LEN, MEMBER_LEN, MODE_BITS, Member, Message, ModificationTime, Move, ObjectKind,
        PAGE_CHUNKS, Pace, PaceReport, Phase, Place, Probe, ProbeProof, Progress, PutOut, PutOutCode, Reason,
        RetransmissionRequest, Role, Signed, SignedWord, SymbolRequest, SymbolsSent, TransferType, Welcome,
        Zeros,
    },
    seal::{KeyId, PREFIX_LEN, Prefix},
    ticket::{Fanout, LocalMode, LocalTicket, MAX_CONTROL_ADDRESSES, MAX_GROUPS, Repair, Security, Ticket},
    unicast,
};

proptest! {
    #[test]
    fn a_message_reads_back_the_same(message in message(), id in any::<u64>()) {
        let packet = message.to_packet(FileId(id));
        let header = Header::parse(&packet).expect("its own header");
        prop_assert_eq!(packet.len(), HEADER_LEN + payload_len(&message));
        prop_assert_eq!(header.payload_len as usize, packet.len() - HEADER_LEN);
        prop_assert_eq!(header.file_id, FileId(id));
        prop_assert_eq!(Message::parse(&header, &packet[HEADER_LEN..]), Ok(message));
    }

    #[test]
    fn a_renamed_announcement_is_the_same_but_for_its_name(begin in begin_of_file(), name in "[a-z]{1,64}") {
        let renamed = begin.renamed(&name).expect("a good name");
        prop_assert_eq!(renamed.file_name(), name);
        prop_assert_eq!(renamed.renamed(begin.file_name()), Ok(begin));
    }

    #[test]
    fn a_seals_prefix_reads_back_the_same(key in any::<u64>(), counter in any::<u64>()) {
        let prefix = Prefix { key: KeyId(key), counter };
        prop_assert_eq!(Prefix::parse(&prefix.to_bytes()), Ok(prefix));
        prop_assert!(Prefix::parse(&prefix.to_bytes()[..PREFIX_LEN - 1]).is_err());
    }

    #[test]
    fn a_header_reads_back_the_same(header in header()) {
        prop_assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
    }

    #[test]
    fn a_ticket_reads_back_the_same(ticket in ticket()) {
        prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }

    #[test]
    fn a_changed_ticket_is_refused(ticket in ticket(), at in any::<prop::sample::Index>(), letter in "[A-Za-z0-9_-]") {
        let text = ticket.to_string();
        let mut changed = text.clone();
        let at = "treecast2.".len() + at.index(text.len() - "treecast1.".len());
        changed.replace_range(at..=at, &letter);
        prop_assume!(changed != text);
        prop_assert!(changed.parse::<Ticket>().is_err());
        prop_assert!(text[..at].parse::<Ticket>().is_err(), "cut short");
    }

    #[test]
    fn an_iotup_frame_reads_back_the_same(
        sequence: u16, before in 0..u64::MAX / 2, after in 0..u64::MAX / 4, hash: [u8; 32],
        data in prop::collection::vec(any::<u8>(), 0..=iotup::MAX_DATA_LEN),
    ) {
        let len = data.len() as u16;
        let frame = iotup::Frame::new(sequence, before + u64::from(len) + after, before, len, hash).expect("in the file");
        let bytes = [&frame.to_bytes(), &data[..]].concat();
        prop_assert_eq!(bytes.len(), iotup::HEADER_LEN + data.len());
        prop_assert_eq!(iotup::Frame::parse(&bytes), Ok((frame, &data[..])));
        prop_assert_eq!(frame.range(), before..before + u64::from(len));
    }

    #[test]
    fn a_unicast_request_reads_back_the_same(start: u64, end: u64) {
        match unicast::Request::new(start, end) {
            Ok(request) => prop_assert_eq!(unicast::Request::parse(&request.to_bytes()), Ok(request)),
            Err(_) => prop_assert!(end != 0 && end <= start),
        }
    }

    #[test]
    fn a_unicast_reply_reads_back_the_same(
        before in 0..u64::MAX / 2, after in 0..u64::MAX / 4, hash: [u8; 32],
        data in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let len = data.len() as u16;
        let file = unicast::FileHeader { file_size: before + u64::from(len) + after, hash };
        let reply = unicast::Reply::new(file, before, len).expect("in the file");
        let bytes = [&reply.to_bytes(), &data[..]].concat();
        prop_assert_eq!(bytes.len(), unicast::Reply::HEADER_LEN + data.len());
        prop_assert_eq!(unicast::Reply::parse(&bytes), Ok((reply, &data[..])));
        prop_assert_eq!(unicast::FileHeader::parse(&bytes), Ok(file));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(header) = Header::parse(&bytes) {
            let _ = Message::parse(&header, &bytes[HEADER_LEN..]);
        }
        let _ = iotup::Frame::parse(&bytes);
        let _ = unicast::FileHeader::parse(&bytes);
        let _ = unicast::Request::parse(&bytes);
        let _ = unicast::Reply::parse(&bytes);
        let _ = String::from_utf8_lossy(&bytes).parse::<Ticket>();
    }

    #[test]
    fn a_random_payload_of_any_type_never_panics(
        kind in packet_type(), payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let header = Header { file_id: FileId(0), sequence: 0, payload_len: payload.len() as u32, kind, number: 0 };
        if let Ok(message) = Message::parse(&header, &payload) {
            let emitted = &message.to_packet(FileId(0))[HEADER_LEN..];
            if matches!(message, Message::PutOut(_)) {
                // Its unknown codes count as a known one.
                let header = Header { payload_len: emitted.len() as u32, ..header };
                prop_assert_eq!(Message::parse(&header, emitted), Ok(message));
            } else {
                prop_assert_eq!(emitted, &payload[..]);
            }
        }
    }
}

fn packet_type() -> impl Strategy<Value = PacketType> {
    prop::sample::select(PacketType::ALL.to_vec())
}

fn header() -> impl Strategy<Value = Header> {
    let sequence = 0..u64::MAX - MAX_PAYLOAD_LEN as u64;
    (any::<u64>(), sequence, 0..=MAX_PAYLOAD_LEN as u32, packet_type(), any::<u32>()).prop_map(
        |(id, sequence, payload_len, kind, number)| Header {
            file_id: FileId(id),
            sequence,
            payload_len,
            kind,
            number,
        },
    )
}

/// The length of the message's body in bytes, as docs/protocol.md gives it.
fn payload_len(message: &Message) -> usize {
    match message {
        Message::BeginOfFile(begin) | Message::Offer(begin) => 24 + begin.file_name().len(),
        Message::BeginOfFilePart(part) => 2 + 2 + part.bytes().len(),
        Message::RetransmissionRequest(_) => RetransmissionRequest::LEN,
        Message::Lacking(lacking) => lacking.ranges().count() * RetransmissionRequest::LEN,
        Message::Hello(hello) => 1 + 2 + 4 + MEMBER_LEN + 1 + hello.name().len(),
        Message::Welcome(_) => Welcome::LEN,
        Message::Digest(Digest { hash, signature, place }) => {
            let place = place.as_ref().map_or(0, |place| 4 + size_of_val(&place.siblings[..]));
            hash.len() + signature.map_or(0, |signature| signature.len()) + place
        }
        Message::Progress(_) => Progress::LEN,
        Message::Withdraw(reason) | Message::Failed(reason) => reason.as_str().len(),
        Message::Contents(_) => Contents::LEN,
        Message::GroupKey(_) => GroupKey::LEN,
        Message::ChunkHashesRequest(_) => ChunkHashesRequest::LEN,
        Message::ChunkHashes(page) => 4 + 4 + size_of_val(page.hashes()) + size_of_val(page.proof()),
        Message::Signed(Signed { word, signature }) => {
            let word = match word {
                SignedWord::Contents(_) => Contents::LEN,
                SignedWord::Withdraw(reason) => reason.as_str().len(),
                SignedWord::Goodbye => 0,
                SignedWord::Blocks(hashes) => 8 + hashes.count() * size_of::<BlockHash>(),
                SignedWord::State(state) => local_len(&Local::State(state.clone())),
            };
            signature.len() + 4 + word
        }
        Message::Pace(Pace { probe: None, .. }) => Pace::LEN_WITHOUT_PROBE,
        Message::Pace(_) => Pace::LEN,
        Message::PaceReport(_) => PaceReport::LEN,
        Message::SymbolRequest(request) => 8 + request.lacks().len() * 12,
        Message::SymbolsSent(_) => SymbolsSent::LEN,
        Message::Move(_) => Move::LEN,
        Message::Heard(_) => Heard::LEN,
        Message::Zeros(_) => Zeros::LEN,
        Message::CommandResult(result) => 30 + result.name().len() + result.line.as_str().len(),
        Message::PutOut(PutOut { code, reason }) => {
            let text = reason.as_str();
            usize::from(*code != PutOutCode::OtherVersion || text.is_empty()) + text.len()
        }
        Message::Local(local) => 1 + local_len(local),
        Message::EndOfFile
        | Message::BeginOfFileRequest
        | Message::EndOfRetransmissionRequests
        | Message::RetransmissionReject
        | Message::Goodbye
        | Message::NotWanted
        | Message::NamesRequest => 0,
    }
}

/// The length in bytes of a local group's message behind its kind, as docs/protocol.md, section 13, gives it.
fn local_len(local: &Local) -> usize {
    const MEMBER: usize = 16 + 2;
    const RANGE: usize = 8 + 8;
    match local {
        Local::State(state) => {
            4 + 4
                + MEMBER
                + 8
                + 1
                + 2
                + 2
                + 1
                + 4
                + 4
                + 2 * MEMBER
                + 4
                + 8
                + 4
                + 1
                + state.children.len() * MEMBER
                + 1
                + state.roster.len() * MEMBER
        }
        Local::Probe(_) => 8,
        Local::Join(_) => 4 + 4 + 8 + 2,
        Local::Leave(_) => 4,
        Local::Listen { .. } => 8 + 2,
        Local::Report(report) => {
            let object = |object: &LocalObject| 4 + 8 + 8 + 1 + object.missing.len() * RANGE;
            let successor = if report.is_controller { MEMBER } else { 0 };
            4 + 1 + 2 + 4 + 4 + 4 + 4 + successor + 1 + report.objects().iter().map(object).sum::<usize>()
        }
        Local::Request(request) => 4 + 1 + 4 + 1 + request.ranges().len() * RANGE,
        Local::Split(split) => 4 + MEMBER + 1 + split.members().len() * MEMBER,
        Local::Empty => 0,
    }
}

fn message() -> impl Strategy<Value = Message> {
    let range = (0..u64::MAX, 1..u64::MAX).prop_map(|(start, len)| {
        RetransmissionRequest::new(start..start.saturating_add(len)).expect("not empty")
    });
    prop_oneof![
        begin_of_file().prop_map(Message::BeginOfFile),
        begin_of_file().prop_map(Message::Offer),
        range.clone().prop_map(Message::RetransmissionRequest),
        range.prop_map(|range| Message::Lacking(range.into())),
        prop::collection::vec(1..1_000_u64, 2..=64).prop_map(|lens| {
            let ranges = lens.iter().scan(0, |at, len| {
                *at += 2 * len;
                Some(*at - len..*at)
            });
            Message::Lacking(Lacking::of_all(ranges, u16::MAX).remove(0))
        }),
        (0..u64::MAX - MAX_ZEROS_LEN, 1..=MAX_ZEROS_LEN)
            .prop_map(|(start, len)| Message::Zeros(Zeros::new(start..start + len).expect("in range"))),
        (0..MAX_GROUPS).prop_map(|group| Message::Move(Move::new(group).expect("in range"))),
        (any::<u8>(), any::<u16>(), any::<u32>(), any::<[u8; 16]>(), "[a-zß日 ]{1,20}").prop_map(
            |(version, port, buffer, member, name)| {
                let mut hello = Hello::new(version, port, buffer, &name).expect("a good name");
                hello.member = member;
                hello.role = Role { is_standing: port & 1 == 1, reports: port & 2 == 2 };
                Message::Hello(hello)
            }
        ),
        (any::<u8>(), any::<i32>(), any::<u64>(), any::<[u8; 16]>(), "[a-zß日 ]{1,20}", reason()).prop_map(
            |(version, code, millis, member, name, line)| {
                let mut result = CommandResult::new(version, &name).expect("a good name");
                let time = Duration::from_millis(millis);
                (result.code, result.time, result.member, result.line) = (code, time, member, line);
                Message::CommandResult(result)
            }
        ),
        (begin_of_file(), 5..90_usize).prop_map(|(begin, room)| {
            let part = BeginOfFilePart::cut(&begin, room).last();
            Message::BeginOfFilePart(part.expect("an announcement is never empty"))
        }),
        (any::<u8>(), 1..=u16::MAX, 1..=u32::MAX).prop_map(|(version, block_len, receiver)| {
            Message::Welcome(Welcome { version, block_len, receiver })
        }),
        pace().prop_map(Message::Pace),
        pace_report().prop_map(Message::PaceReport),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(unicast, group, last)| Message::Heard(Heard {
            unicast,
            group,
            last
        })),
        (any::<[u8; 32]>(), any::<Option<[[u8; 32]; 2]>>(), any::<Option<(u32, [u8; 8])>>()).prop_map(
            |(hash, halves, place)| {
                let signature = halves.map(|halves| std::array::from_fn(|at| halves[at / 32][at % 32]));
                let place = place.filter(|_| signature.is_some()).map(|(index, bytes)| {
                    let siblings = bytes[..index as usize % 9].iter().map(|byte| [*byte; 32]);
                    let siblings: Vec<_> = siblings.collect();
                    Place { index: (index >> 8) % (1 << siblings.len()), siblings }
                });
                Message::Digest(Digest { hash, signature, place })
            }
        ),
        any::<[u64; 6]>().prop_map(|counters| {
            let [position, received_bytes, duplicate_blocks, dropped_packets, disk_wait_ms, at_us] = counters;
            let taken = Progress { position, received_bytes, ..Progress::default() };
            Message::Progress(Progress { duplicate_blocks, dropped_packets, disk_wait_ms, at_us, ..taken })
        }),
        reason().prop_map(Message::Withdraw),
        reason().prop_map(Message::Failed),
        (signed_word(), any::<u8>())
            .prop_map(|(word, byte)| Message::Signed(Signed { word, signature: [byte; 64] })),
        (any::<u64>(), any::<[u8; 32]>())
            .prop_map(|(id, secret)| Message::GroupKey(GroupKey { id: KeyId(id), secret })),
        (0..PutOutCode::ALL.len(), reason())
            .prop_map(|(code, reason)| Message::PutOut(PutOut { code: PutOutCode::ALL[code], reason })),
        chunk_hashes().prop_map(Message::ChunkHashes),
        (0..=u32::MAX - MAX_PAGES, 1..=MAX_PAGES).prop_map(|(first, count)| {
            let request = ChunkHashesRequest::new(first..first + count);
            Message::ChunkHashesRequest(request.expect("few"))
        }),
        symbol_request().prop_map(Message::SymbolRequest),
        any::<(u32, u32)>()
            .prop_map(|(source_block, next)| Message::SymbolsSent(SymbolsSent { source_block, next })),
        (1..=MAX_OBJECTS).prop_map(|objects| Message::Contents(Contents::new(objects).expect("in range"))),
        local().prop_map(Message::Local),
        prop::sample::select(vec![
            Message::NotWanted,
            Message::NamesRequest,
            Message::EndOfFile,
            Message::BeginOfFileRequest,
            Message::EndOfRetransmissionRequests,
            Message::RetransmissionReject,
            Message::Goodbye,
        ]),
    ]
}

fn pace() -> impl Strategy<Value = Pace> {
    let phase = prop::sample::select(Phase::ALL.to_vec());
    let probe = prop::option::of((1_u32.., any::<u64>()).prop_map(|(number, nonce)| Probe { number, nonce }));
    let numbers = (any::<[u64; 4]>(), any::<[u32; 6]>(), any::<[bool; 2]>(), phase, probe);
    numbers.prop_map(|(times, counts, [is_slow_start, is_unused], phase, probe)| {
        let [timestamp_us, rate_bps, suppression_bps, echo_us] = times;
        let [round, longest_round_trip_us, packet_bytes, limited_by, echo_for, receivers] = counts;
        Pace {
            timestamp_us,
            rate_bps,
            suppression_bps,
            echo_us,
            round,
            longest_round_trip_us,
            packet_bytes,
            is_slow_start,
            limited_by,
            echo_for,
            phase,
            is_unused,
            receivers,
            probe,
        }
    })
}

fn pace_report() -> impl Strategy<Value = PaceReport> {
    let numbers = (any::<[u64; 6]>(), any::<[u32; 7]>(), any::<bool>());
    numbers.prop_map(|(times, counts, is_limited)| {
        let [timestamp_us, echo_us, rate_bps, received_bps, came, sum] = times;
        let [round, round_trip_us, loss_ppb, queue_us, lost_ppm, marked_ppm, last] = counts;
        PaceReport {
            timestamp_us,
            echo_us,
            rate_bps,
            received_bps,
            round,
            round_trip_us,
            loss_ppb,
            is_limited,
            queue_us,
            lost_ppm,
            marked_ppm,
            proof: ProbeProof { last, came, sum },
        }
    })
}

fn begin_of_file() -> impl Strategy<Value = BeginOfFile> {
    let transfer = prop::sample::select(vec![
        TransferType::MemoryToMemory,
        TransferType::MemoryToDisk,
        TransferType::DiskToMemory,
        TransferType::DiskToDisk,
    ]);
    let name = "[^\\x00]{1,64}";
    let kind = prop::sample::select(ObjectKind::ALL.to_vec());
    let attributes = (kind, 0..=MODE_BITS, any::<i64>(), 0..1_000_000_000_u32);
    let attributes = attributes.prop_map(|(kind, mode, seconds, nanoseconds)| Attributes {
        kind,
        mode,
        modified: ModificationTime { seconds, nanoseconds },
    });
    (transfer, any::<u64>(), name, prop::option::of(attributes), any::<(bool, bool)>()).prop_map(
        |(transfer, size, name, attributes, (is_compressed, has_index))| {
            assert!(name.len() <= MAX_FILE_NAME_LEN);
            let is_folder = attributes.is_some_and(|attributes| attributes.kind == ObjectKind::Folder);
            let size = if is_folder { 0 } else { size };
            let begin = BeginOfFile::new(transfer, size, &name).expect("a good name");
            let begin = if is_compressed { begin.compressed() } else { begin };
            let begin = if has_index { begin.with_index() } else { begin };
            attributes.map_or(begin.clone(), |attributes| begin.with_attributes(attributes).expect("good"))
        },
    )
}

fn signed_word() -> impl Strategy<Value = SignedWord> {
    prop_oneof![
        (1..=MAX_OBJECTS).prop_map(|objects| SignedWord::Contents(Contents::new(objects).expect("in range"))),
        reason().prop_map(SignedWord::Withdraw),
        Just(SignedWord::Goodbye),
        (any::<bool>(), any::<u64>(), prop::collection::vec(any::<BlockHash>(), 1..=MAX_BLOCK_HASHES))
            .prop_map(|(are_symbols, sequence, hashes)| {
                SignedWord::Blocks(BlockHashes::new(are_symbols, sequence, hashes).expect("few"))
            }),
        local_state().prop_map(|state| {
            SignedWord::State(Box::new(LocalState { group: GroupId::SESSION, ..state }))
        }),
    ]
}

fn reason() -> impl Strategy<Value = Reason> {
    ".{0,600}".prop_map(|text| {
        let reason = Reason::new(&text);
        assert!(reason.as_str().len() <= MAX_REASON_LEN);
        reason
    })
}

fn chunk_hashes() -> impl Strategy<Value = ChunkHashes> {
    let hashes = |most| prop::collection::vec(any::<[u8; 32]>(), 1..=most);
    (any::<u32>(), hashes(PAGE_CHUNKS), hashes(MAX_PROOF)).prop_map(|(page, hashes, proof)| {
        let page = if proof.len() == 1 {
            Ok(ChunkHashes::none(page))
        } else {
            ChunkHashes::new(page, hashes, proof)
        };
        page.expect("few")
    })
}

fn member() -> impl Strategy<Value = Member> {
    (any::<std::net::IpAddr>(), 1..=u16::MAX)
        .prop_map(|(address, port)| Member(std::net::SocketAddr::new(address.to_canonical(), port)))
}

fn ranges(most: usize) -> impl Strategy<Value = Vec<std::ops::Range<u64>>> {
    prop::collection::vec((0..1_u64 << 40, 1..1_u64 << 40), 0..=most).prop_map(|parts| {
        let mut at = 0;
        let range = |(gap, len)| {
            let start = at + gap;
            at = start + len;
            start..at
        };
        parts.into_iter().map(range).collect()
    })
}

fn local_state() -> impl Strategy<Value = LocalState> {
    let members = (member(), member(), prop::option::of(member()));
    let children = prop::collection::vec(member(), 0..=MAX_LOCAL_CHILDREN);
    let roster = prop::collection::vec(member(), 0..=MAX_LOCAL_ROSTER);
    (members, (children, roster), any::<[u32; 6]>(), any::<[u64; 2]>(), any::<[u16; 2]>(), 0..128_u8)
        .prop_map(|((controller, parent, successor), (children, roster), words, longs, shorts, flags)| {
            let [group, epoch, distance_us, diameter_us, object, done] = words;
            let ([echo_us, position], [members, loss]) = (longs, shorts);
            let group = GroupId(group);
            let (flags, depth) = (LocalFlags(flags), flags);
            LocalState {
                group,
                epoch,
                controller,
                echo_us,
                flags,
                members,
                loss,
                depth,
                distance_us,
                diameter_us,
                parent,
                successor,
                frontier: (object, position),
                done,
                children,
                roster,
            }
        })
}

fn local() -> impl Strategy<Value = Local> {
    let numbers = any::<(u32, u32, u64, u16, bool)>();
    let object = (any::<u64>(), any::<u64>(), ranges(3));
    prop_oneof![
        local_state().prop_map(|state| Local::State(Box::new(state))),
        any::<u64>().prop_map(Local::Probe),
        any::<(u32, u32, u64, u16)>().prop_map(|(group, epoch, stamp_us, loss)| {
            Local::Join(LocalJoin { group: GroupId(group), epoch, stamp_us, loss })
        }),
        any::<u32>().prop_map(|group| Local::Leave(GroupId(group))),
        any::<(u64, u16)>().prop_map(|(token, port)| Local::Listen { token, port }),
        (numbers, prop::option::of(member()), prop::collection::vec(object, 0..=MAX_LOCAL_OBJECTS)).prop_map(
            |(numbers, successor, objects)| {
                let (group, done, _, loss, is_controller) = numbers;
                let objects = (u32::from(loss)..).zip(objects).map(|(object, (received, seen, missing))| {
                    LocalObject { object, received, seen, missing }
                });
                let mut report = LocalReport::new(GroupId(group), is_controller).with_objects(objects);
                (report.done, report.loss, report.is_congested) = (done, loss, loss > 9);
                report.is_partial = done % 2 == 1;
                report.successor = successor.filter(|_| is_controller);
                Local::Report(report)
            }
        ),
        (any::<(u32, u32, bool, bool)>(), ranges(MAX_LOCAL_REQUESTED)).prop_map(|(numbers, ranges)| {
            let (group, distance_us, wants_announcement, is_from_below) = numbers;
            let mut request = LocalRequest::new(GroupId(group), distance_us, ranges).expect("ascending");
            (request.wants_announcement, request.is_from_below) = (wants_announcement, is_from_below);
            Local::Request(request)
        }),
        (any::<u32>(), member(), prop::collection::vec(member(), 0..=MAX_LOCAL_MEMBERS)).prop_map(
            |(group, controller, members)| {
                Local::Split(LocalSplit::new(GroupId(group), controller, members).expect("few"))
            }
        ),
        Just(Local::Empty),
    ]
}

fn symbol_request() -> impl Strategy<Value = SymbolRequest> {
    let lack = (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(source_block, lacking, next)| Lack {
        source_block,
        lacking,
        next,
    });
    (any::<u64>(), prop::collection::vec(lack, 1..=MAX_LACKS))
        .prop_map(|(arrived, lacks)| SymbolRequest::new(arrived, lacks).expect("not too many"))
}

fn ticket() -> impl Strategy<Value = Ticket> {
    let group = prop_oneof![Just("[ff15::42]:5000"), Just("239.0.0.9:1"), Just("[ff3e::8000:1]:65535")];
    let repair = prop::sample::select(Repair::ALL.to_vec());
    let fanout = prop::sample::select(vec![
        Fanout::Multicast,
        Fanout::Unicast,
        Fanout::Mead,
        Fanout::Auto,
        Fanout::Xcast,
    ]);
    let control = prop::collection::vec(any::<(std::net::IpAddr, u16)>(), 0..=MAX_CONTROL_ADDRESSES);
    let source = any::<Option<std::net::IpAddr>>();
    let security = any::<Option<([u8; 32], Option<[u8; 32]>)>>();
    (
        any::<u32>(),
        fanout,
        (repair, any::<bool>()),
        1..=u16::MAX,
        (group, 1..=MAX_GROUPS),
        source,
        control,
        security,
        any::<u64>(),
    )
        .prop_map(
            |(
                session,
                fanout,
                (repair, fec),
                block_len,
                (group, groups),
                source,
                control,
                security,
                expires,
            )| Ticket {
                session: SessionId(session),
                fanout,
                repair,
                fec,
                is_feed: expires & 8 != 0,
                block_len,
                group: group.parse().expect("an address"),
                groups: if fanout == Fanout::Multicast && repair != Repair::Carousel && !fec {
                    groups
                } else {
                    1
                },
                source,
                control: control.into_iter().map(|(ip, port)| std::net::SocketAddr::new(ip, port)).collect(),
                security: security.map(|(sender_key, secret)| Security { sender_key, secret }),
                expires: std::num::NonZeroU64::new(expires),
                local: (repair == Repair::Local).then(|| LocalTicket {
                    mode: LocalMode::ALL[expires as usize % LocalMode::ALL.len()],
                    is_static: expires & 4 != 0,
                    deadline_ms: session,
                    repair_rate_bps: expires,
                    congestion_loss: block_len,
                }),
            },
        )
}
