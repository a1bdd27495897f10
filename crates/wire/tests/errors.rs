//! Each way in which a packet can be wrong, and the line that says so: field, value, expectation.

use treecast_wire::{
    header::{self, FileId, Header, LaneNumbers, PacketNumbers, PacketType, SessionId},
    message::{
        Attributes, BeginOfFile, Contents, Hello, Lack, Message, ModificationTime, ObjectKind, PutOut,
        PutOutCode, RetransmissionRequest, SymbolRequest, TransferType,
    },
    ticket::{Fanout, Repair, Ticket},
};

#[test]
fn headers() {
    let good = Header { file_id: FileId(1), sequence: 2, payload_len: 3, kind: PacketType::Data, number: 4 }
        .to_bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut header = good;
        header[at..at + bytes.len()].copy_from_slice(bytes);
        Header::parse(&header).expect_err("it is wrong").to_string()
    };
    assert_eq!(
        Header::parse(&good[..31]).expect_err("too short").to_string(),
        "flags: 7 bytes are there, 8 are needed"
    );
    assert_eq!(with(28, &[0; 4]), "flags: 0x0 found, expected the bit of a known type");
    assert_eq!(with(28, &7u32.to_be_bytes()), "flags: 0x7 found, expected the bit of a known type");
    assert_eq!(
        with(28, &(1u32 << 31 | 1).to_be_bytes()),
        "flags: 0x80000001 found, expected the bit of a known type"
    );
    assert_eq!(with(16, &65_476u64.to_be_bytes()), "payload length: 65476 found, expected at most 65475");
    assert_eq!(
        with(8, &u64::MAX.to_be_bytes()),
        "sequence number: 18446744073709551615 found, expected an end below 2^64"
    );
}

#[test]
fn lanes_are_told_apart_by_their_numbers() {
    let mut sent = PacketNumbers::of_lane(2);
    let mut heard = LaneNumbers::new(2);
    assert_eq!(LaneNumbers::new(1).count_on(sent.take(1)), None);
    let first = heard.count_on(sent.take(5));
    // Far more than a lane's numbers, in runs as long as none is.
    let mut steps = (0..3 << 11).map(|_| heard.count_on(sent.take(1 << 20)));
    assert!(steps.all(|number| number.is_some()));
    let last = heard.count_on(sent.take(1)).zip(first).map(|(last, first)| last.wrapping_sub(first));
    let skipped = last.map(|count| count.wrapping_sub(5).wrapping_sub(3 << 31));
    assert!(
        skipped.is_some_and(|skipped| skipped < 7 << 20),
        "only where its numbers begin again: {skipped:?}"
    );
}

#[test]
fn a_number_is_given_to_a_whole_header_only() {
    let mut numbers = PacketNumbers::default();
    assert_eq!([numbers.take(5), numbers.take(1), numbers.take(u32::MAX), numbers.take(0)], [0, 5, 6, 5]);
    let mut packet = Message::Goodbye.to_packet(FileId(1));
    header::set_number(&mut packet, 77);
    let read = Header::parse(&packet).expect("it is whole");
    assert_eq!((read.number, read.kind), (77, PacketType::Goodbye));
    header::set_number(&mut packet[..27], 1);
    assert_eq!(Header::parse(&packet), Ok(read));
}

#[test]
fn payload_lengths() {
    let header =
        Header { file_id: FileId(1), sequence: 0, payload_len: 5, kind: PacketType::EndOfFile, number: 0 };
    assert_eq!(
        Message::parse(&header, &[0; 4]).expect_err("4 of 5").to_string(),
        "payload length: 5 found, expected the length of what follows the header"
    );
    assert_eq!(error(PacketType::EndOfFile, &[0; 4]), "payload length: 4 found, expected 0 for this type");
    assert_eq!(error(PacketType::EndOfFile, &[0; 1]), "payload length: 1 found, expected 0 for this type");
    assert_eq!(error(PacketType::Data, &[]), "flags: 1 found, expected a control message");
    for kind in PacketType::ALL.iter().copied().filter(|kind| !kind.is_block()) {
        let long = error(kind, &[1; 5000]);
        assert!(long.contains("found, expected") || long.contains("are needed"), "{kind:?}: {long}");
    }
}

#[test]
fn symbol_requests() {
    assert_eq!(error(PacketType::SymbolRequest, &[0; 8]), "source blocks: 0 found, expected 1 to 64");
    let cut = error(PacketType::SymbolRequest, &[1; 21]);
    assert!(cut.contains("source block"), "{cut}");
    assert!(SymbolRequest::new(0, vec![Lack { source_block: 0, lacking: 1, next: 1 }; 65]).is_err());
}

#[test]
fn messages() {
    let mut begin = BeginOfFile::new(TransferType::DiskToDisk, 9, "name").expect("good").to_payload();
    begin[0] = 4;
    assert_eq!(
        error(PacketType::BeginOfFile, &begin),
        "transfer type: 4 found, expected 0 to 3 in the lower six bits"
    );
    begin[0] = 3;
    for (at, byte, line) in [
        (9, 5, "kind: 5 found, expected 0 to 4"),
        (9, 0, "kind: 0 found, expected 1 to 4 where attributes follow"),
        (10, 2, "mode: 0o1000 found, expected bits of 0o777"),
        (20, 0x80, "nanoseconds: 2147483648 found, expected below 10^9"),
        (9, 2, "file size: 9 found, expected 0 for a folder"),
    ] {
        let modified = ModificationTime { seconds: 1, nanoseconds: 0 };
        let attributes = Attributes { kind: ObjectKind::File, mode: 0, modified };
        let begin = BeginOfFile::new(TransferType::DiskToDisk, 9, "name").expect("good");
        let mut begin = begin.with_attributes(attributes).expect("good").to_payload();
        begin[at] = byte;
        assert_eq!(error(PacketType::BeginOfFile, &begin), line);
    }
    begin.truncate(24);
    assert_eq!(error(PacketType::BeginOfFile, &begin), "file name: 0 bytes found, expected 1 to 4096 bytes");
    begin.push(0xff);
    assert_eq!(error(PacketType::BeginOfFile, &begin), "file name: \\xff found, expected UTF-8");
    begin[24] = 0;
    assert_eq!(error(PacketType::BeginOfFile, &begin), "file name: \"\\0\" found, expected no zero byte");
    assert_eq!(error(PacketType::BeginOfFile, &begin[..23]), "nanoseconds: 3 bytes are there, 4 are needed");
    begin.resize(24 + 4097, b'x');
    assert_eq!(
        error(PacketType::BeginOfFile, &begin),
        "begin of file: 1 bytes more found, expected the end of the message"
    );
    for (len, start, bytes, line) in [
        (24, 0, 1, "length of the whole: 24 found, expected 25 to 4120 bytes"),
        (4121, 0, 1, "length of the whole: 4121 found, expected 25 to 4120 bytes"),
        (
            30,
            29,
            2,
            "start of the part: 29 found, expected 1 byte or more, and none behind the end of the whole",
        ),
        (
            30,
            0,
            0,
            "start of the part: 0 found, expected 1 byte or more, and none behind the end of the whole",
        ),
    ] {
        let part = [&u16::to_be_bytes(len)[..], &u16::to_be_bytes(start), &[0; 2][..bytes]].concat();
        assert_eq!(error(PacketType::BeginOfFilePart, &part), line);
    }
    assert_eq!(
        error(PacketType::RetransmissionRequest, &[[0, 0, 0, 0, 0, 0, 0, 1], [0; 8]].concat()),
        "end position: 0 found, expected no value below the start position"
    );
    assert_eq!(error(PacketType::Hello, &[1; 24]), "receiver name: 0 bytes found, expected 1 to 64 bytes");
    assert_eq!(
        error(PacketType::Hello, b"\x01\0\0\0\0\0\0................\0a\nb"),
        "receiver name: \"a\\nb\" found, expected no control characters"
    );
    assert_eq!(
        error(PacketType::Welcome, &[1, 0, 0, 0, 0, 0, 1]),
        "block length: 0 found, expected at least 1"
    );
    assert_eq!(error(PacketType::Welcome, &[1, 0, 9, 0, 0, 0, 0]), "receiver: 0 found, expected at least 1");
    assert_eq!(error(PacketType::Pace, &[2; 56]), "flags: 33686018 found, expected 0 or 1");
    assert_eq!(error(PacketType::PaceReport, &[0; 47]), "flags: 3 bytes are there, 4 are needed");
    assert_eq!(error(PacketType::Digest, &[0; 31]), "hash: 31 bytes are there, 32 are needed");
    assert_eq!(error(PacketType::Digest, &[0; 34]), "signature: 2 bytes are there, 64 are needed");
    assert_eq!(error(PacketType::Digest, &[0; 98]), "index: 2 bytes are there, 4 are needed");
    assert_eq!(error(PacketType::Digest, &[0; 100 + 9 * 32]), "siblings: 9 found, expected 8 at most");
    let misplaced = [&[0; 99][..], &[2], &[0; 32]].concat();
    assert_eq!(
        error(PacketType::Digest, &misplaced),
        "index: 2 found, expected the number of a leaf below the siblings"
    );
    assert_eq!(error(PacketType::Progress, &[0; 8]), "received bytes: 0 bytes are there, 8 are needed");
    assert_eq!(
        error(PacketType::Failed, &[b'x'; 513]),
        "reason: 513 bytes found, expected at most 512 bytes"
    );
    assert_eq!(error(PacketType::Withdraw, b"a\x80"), "reason: a\\x80 found, expected UTF-8");
    assert_eq!(error(PacketType::Withdraw, b"a\r"), "reason: \"a\\r\" found, expected no control characters");
    assert_eq!(
        error(PacketType::Goodbye, b"\x02\0"),
        "reason: \"\\0\" found, expected no control characters"
    );
    assert_eq!(error(PacketType::Contents, &[0; 4]), "objects: 0 found, expected 1 to 65536");
}

#[test]
fn a_word_of_another_version_that_a_receiver_is_put_out_is_read() {
    // What `it said nothing for 60 s` was in version 2, which had no codes.
    let packet = [
        &[0x01, 0x23, 0x45, 0x67, 0, 0, 0, 2][..],
        &[0; 8],
        &[0, 0, 0, 0, 0, 0, 0, 0x18],
        &[0, 0, 0, 0, 0, 0, 0x40, 0],
        b"it said nothing for 60 s",
    ]
    .concat();
    let read = |packet: &[u8]| {
        let header = Header::parse(packet).expect("a header is the same in every version");
        Message::parse(&header, &packet[32..]).expect("it is read")
    };
    let of_version_2 = Message::PutOut(PutOut::new(PutOutCode::OtherVersion, "it said nothing for 60 s"));
    assert_eq!(read(&packet), of_version_2);
    assert_eq!(of_version_2.to_packet(FileId(0x0123_4567_0000_0002)), packet, "version 2 reads it, too");

    let known = PutOutCode::ALL.map(|code| code as u8);
    for code in (0..32).filter(|code| !known.contains(code)) {
        let header = Header { payload_len: 5, ..Header::parse(&packet).expect("good") };
        let later = [&header.to_bytes()[..], &[code], b"late"].concat();
        assert_eq!(read(&later), Message::PutOut(PutOut::new(PutOutCode::Refused, "late")), "code {code}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_when_it_is_made() {
    assert!(BeginOfFile::new(TransferType::DiskToDisk, 0, &"x".repeat(4097)).is_err());
    assert!(BeginOfFile::new(TransferType::DiskToDisk, 0, "a\0b").is_err());
    assert!(RetransmissionRequest::new(5..5).is_err());
    assert!(Hello::new(1, 0, 0, &"x".repeat(65)).is_err());
    assert!(Contents::new(65_537).is_err());
}

#[test]
fn tickets() {
    let group = "[ff15::1]:5000".parse().expect("an address");
    let ticket = Ticket::new(SessionId(7), Repair::Carousel, 1420, group);
    let refusal = |ticket: &Ticket| ticket.to_string().parse::<Ticket>().expect_err("wrong").to_string();
    assert_eq!(
        refusal(&Ticket { block_len: 0, ..ticket.clone() }),
        "the ticket is whole, but this version cannot use it: block length: 0 found, expected at least 1"
    );
    assert_eq!(
        refusal(&Ticket { group: "[fd00::1]:5000".parse().expect("an address"), ..ticket.clone() }),
        "the ticket is whole, but this version cannot use it: group: [fd00::1]:5000 found, expected a multicast address"
    );
    let lists = Ticket { groups: 3, fanout: Fanout::Xcast, ..ticket.clone() };
    assert!(refusal(&lists).contains("slower groups: 2 found, expected 0 to 7 where there is multicast"));
    let text = ticket.to_string();
    let error = text[..text.len() - 3].parse::<Ticket>().expect_err("cut short").to_string();
    assert!(error.starts_with("the ticket is cut short or mistyped"), "{error}");
    let error = "treecast9.AAAA".parse::<Ticket>().expect_err("another version").to_string();
    assert!(error.starts_with("the ticket is of a newer version, 9,"), "{error}");
    let error = "treecast+2.AAAA".parse::<Ticket>().expect_err("no ticket").to_string();
    assert!(error.starts_with("a ticket begins with \"treecast2.\""), "{error}");
    let error = "treecast1.AAAA".parse::<Ticket>().expect_err("another version").to_string();
    assert!(error.starts_with("the ticket is of an older version, 1,"), "{error}");
    assert_eq!(format!("  {text}\n").parse(), Ok(ticket), "as a person pastes it");
}

fn error(kind: PacketType, payload: &[u8]) -> String {
    let header =
        Header { file_id: FileId(1), sequence: 0, payload_len: payload.len() as u32, kind, number: 0 };
    Message::parse(&header, payload).expect_err("it is wrong").to_string()
}

trait ToPayload {
    fn to_payload(self) -> Vec<u8>;
}

impl ToPayload for BeginOfFile {
    fn to_payload(self) -> Vec<u8> {
        Message::BeginOfFile(self).to_packet(FileId(1)).split_off(32)
    }
}
