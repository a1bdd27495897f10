//! A receiver against senders that are written out here, over the loopback interface.

use std::{
    net::TcpListener,
    path::PathBuf,
    time::{Duration, Instant},
};

use treecast_driver::{
    connection::{Connection, ConnectionError},
    receive::{self, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveSummary},
    security::{Identity, tls::SenderTls},
};
use treecast_host::stop::Stop;
use treecast_wire::{
    header::{FileId, Header, PacketType, SessionId},
    message::{
        BeginOfFile, Digest, Message, PROTOCOL_VERSION, PutOut, PutOutCode, TransferType, Welcome,
        manifest_bytes,
    },
    ticket::{Fanout, Repair, Security, Ticket},
};

const SESSION: SessionId = SessionId(99);

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The sender's end: takes one receiver, and says what it is told to. Returns what it hears.
fn sender(listener: &TcpListener, identity: &Identity, packets: &[Vec<u8>]) -> Vec<Message> {
    let (stream, _) = listener.accept().unwrap();
    let tls = SenderTls::new(identity).unwrap();
    let mut connection = Connection::to_receiver(stream, 1024, Some(&tls)).unwrap();
    let mut is_greeted = false;
    let mut heard = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        match connection.read() {
            Err(ConnectionError::Closed | ConnectionError::CutOff | ConnectionError::Broken(_)) => {
                return heard;
            }
            result => drop(result.unwrap()),
        }
        while let Some((header, payload)) = connection.next_packet().unwrap() {
            heard.push(Message::parse(&header, payload).unwrap());
            is_greeted |= matches!(heard.last(), Some(Message::Hello(_)));
        }
        if std::mem::take(&mut is_greeted) {
            packets.iter().for_each(|packet| connection.queue(packet));
        }
        if connection.flush().is_err() {
            return heard;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    heard
}

fn file(index: u32) -> FileId {
    FileId::new(SESSION, index)
}

fn welcome() -> Vec<u8> {
    let welcome = Welcome { version: PROTOCOL_VERSION, block_len: 1420, receiver: 1 };
    Message::Welcome(welcome).to_packet(file(0))
}

/// Receives from a sender that says all this.
fn run(folder: &Folder, identity: &Identity, packets: &[Vec<u8>]) -> Result<ReceiveSummary, ReceiveError> {
    run_and_hear(folder, identity, packets, &Stop::new().unwrap(), &mut |_| {}).0
}

/// As [`run`], and what the sender has heard.
fn run_and_hear(
    folder: &Folder,
    identity: &Identity,
    packets: &[Vec<u8>],
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> (Result<ReceiveSummary, ReceiveError>, Vec<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ticket = Ticket {
        fanout: Fanout::Unicast,
        control: vec![listener.local_addr().unwrap()],
        security: Some(Security { sender_key: identity.public_key().to_bytes(), secret: None }),
        ..Ticket::new(SESSION, Repair::Nack, 1420, "0.0.0.0:0".parse().unwrap())
    };
    let options =
        ReceiveOptions { interface: Some("lo".into()), ..ReceiveOptions::new(ticket, folder.0.clone()) };
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| sender(&listener, identity, packets));
        let result = receive::run(&options, stop, on_event);
        (result, sender.join().unwrap())
    })
}

/// As [`run`]. Returns the names of what is there then, hidden ones, too.
fn receive(folder: &Folder, identity: &Identity, packets: &[Vec<u8>]) -> (Vec<String>, ReceiveSummary) {
    let summary = run(folder, identity, packets).unwrap();
    let names = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    (names, summary)
}

/// Only what the sender has signed becomes a file, under the name and with the size that it has signed.
#[test]
fn what_is_not_signed_is_not_taken() {
    let identity = Identity::generate().unwrap();
    let folder = Folder(std::env::temp_dir().join(format!("treecast-unsigned-{}", std::process::id())));
    let hash = *blake3::hash(b"").as_bytes();
    let begin = |name: &str| BeginOfFile::new(TransferType::DiskToDisk, 0, name).unwrap();
    let signed = |file, name: &str, by: &Identity| {
        let signature = by.sign(&manifest_bytes(file, &begin(name), &hash));
        Message::Digest(Digest { signature: Some(signature), ..Digest::unsigned(hash) })
    };
    let other = Identity::generate().unwrap();
    let digests = [
        Message::Digest(Digest::unsigned(hash)),
        signed(file(1), "1", &other),
        signed(file(2), "another", &identity),
        signed(file(0), "3", &identity),
        signed(file(4), "4", &identity),
    ];
    let mut messages = Vec::new();
    for (index, digest) in (0..).zip(digests) {
        messages.push((file(index), Message::BeginOfFile(begin(&index.to_string()))));
        messages.push((file(index), digest));
    }
    // Ahead of its announcement.
    messages.push((file(5), signed(file(5), "5", &identity)));
    messages.push((file(5), Message::BeginOfFile(begin("5"))));
    messages.push((file(0), Message::Goodbye));
    let told = messages.iter().map(|(file, message)| message.to_packet(*file));
    let packets: Vec<_> = std::iter::once(welcome()).chain(told).collect();
    let (names, summary) = receive(&folder, &identity, &packets);
    assert_eq!(names, ["4", "5"], "{summary:?}");
    assert!(summary.progress.ignored_packets >= 1, "{summary:?}");
}

/// A small object that is not what the sender has signed gets no name; it is asked for again.
#[test]
fn a_small_object_with_another_hash_comes_again_or_not_at_all() {
    let identity = Identity::generate().unwrap();
    let folder = Folder(std::env::temp_dir().join(format!("treecast-wrong-{}", std::process::id())));
    let begin = |name: &str| BeginOfFile::new(TransferType::DiskToDisk, 3, name).unwrap();
    let block = |file_id, bytes: &[u8; 3]| {
        let kind = PacketType::RetransmittedData;
        let header = Header { file_id, sequence: 0, payload_len: 3, kind, number: 0 };
        [&header.to_bytes()[..], bytes].concat()
    };
    let hash = *blake3::hash(b"abc").as_bytes();
    let mut packets = vec![welcome()];
    for (index, blocks) in [(0, vec![b"abx", b"abc"]), (1, vec![b"abx", b"aby"]), (2, vec![b"abc"])] {
        let (id, begin) = (file(index), begin(&index.to_string()));
        let signature = Some(identity.sign(&manifest_bytes(id, &begin, &hash)));
        packets.push(Message::BeginOfFile(begin).to_packet(id));
        packets.push(Message::Digest(Digest { signature, ..Digest::unsigned(hash) }).to_packet(id));
        packets.extend(blocks.into_iter().map(|bytes| block(id, bytes)));
    }
    packets.push(Message::Goodbye.to_packet(file(0)));
    let (names, summary) = receive(&folder, &identity, &packets);
    assert_eq!(names, ["0", "2"], "{summary:?}");
    for name in names {
        assert_eq!(std::fs::read(folder.0.join(name)).unwrap(), b"abc");
    }
    assert_eq!((summary.received, summary.failed), (2, 1));
}

/// Only the sender's word that it ends the session for good lets what has come go.
#[test]
fn nothing_stays_of_a_session_that_nobody_can_go_on_with() {
    let identity = Identity::generate().unwrap();
    for (code, stays) in [(PutOutCode::Ended, false), (PutOutCode::Refused, true)] {
        let name = format!("treecast-ended-{stays}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let begin = BeginOfFile::new(TransferType::DiskToDisk, 50_000_000, "large").unwrap();
        let header = Header::new(PacketType::RetransmittedData, file(0), 0, 1420);
        let packets = [
            welcome(),
            Message::BeginOfFile(begin).to_packet(file(0)),
            [&header.to_bytes()[..], &[7; 1420]].concat(),
            Message::PutOut(PutOut::new(code, "it is so")).to_packet(file(0)),
        ];
        let (names, summary) = receive(&folder, &identity, &packets);
        assert_eq!(summary.has_ended, !stays, "{summary:?}");
        assert!(summary.cut_short.as_ref().is_some_and(|reason| reason.contains("it is so")), "{summary:?}");
        assert_eq!(!names.is_empty(), stays, "{code:?}: {names:?}");
    }
}

/// A sender would wait for a receiver that it takes to have broken off.
#[test]
fn a_receiver_that_ends_before_its_session_tells_its_sender_why() {
    let identity = Identity::generate().unwrap();
    let folder = Folder(std::env::temp_dir().join(format!("treecast-farewell-{}", std::process::id())));
    let stop = Stop::new().unwrap();
    let mut stop_when_admitted = |event: ReceiveEvent| {
        if matches!(event, ReceiveEvent::Joined { .. }) {
            stop.request();
        }
    };
    let (result, heard) = run_and_hear(&folder, &identity, &[welcome()], &stop, &mut stop_when_admitted);
    assert!(result.unwrap().interrupted);
    let said = |reason: &str| Message::PutOut(PutOut::new(PutOutCode::Ended, reason));
    assert!(heard.contains(&said("it was told to stop")), "{heard:?}");

    let other = Welcome { version: PROTOCOL_VERSION, block_len: 999, receiver: 1 };
    let packets = [Message::Welcome(other).to_packet(file(0))];
    let stop = Stop::new().unwrap();
    let (result, heard) = run_and_hear(&folder, &identity, &packets, &stop, &mut |_| {});
    assert!(heard.contains(&said(&result.unwrap_err().to_string())), "{heard:?}");
}

/// What a sender of another version answers makes the receiver say so, whether it is a word of version 2 or none at all.
#[test]
fn a_sender_of_another_version_is_told_as_one() {
    let identity = Identity::generate().unwrap();
    let folder = Folder(std::env::temp_dir().join(format!("treecast-version-{}", std::process::id())));
    let text = b"it speaks version 3 and not 2";
    let packet = |kind, text: &[u8]| {
        let header =
            Header { file_id: file(0), sequence: 0, payload_len: text.len() as u32, kind, number: 0 };
        [&header.to_bytes()[..], text].concat()
    };
    let said = |packet: Vec<u8>| run(&folder, &identity, &[packet]).unwrap_err().to_string();
    let advice = "install the same version of treecast on both hosts";
    let told = said(packet(PacketType::Goodbye, text));
    assert!(told.contains("it speaks version 3 and not 2") && told.ends_with(advice), "{told}");
    let unknown_type = [&[0; 28][..], &[0x80, 0, 0, 0]].concat();
    for unknown in
        [packet(PacketType::Goodbye, b"\x0a\x01"), packet(PacketType::Welcome, b"\x04"), unknown_type]
    {
        let told = said(unknown);
        assert!(told.contains("another version of treecast's protocol") && told.ends_with(advice), "{told}");
    }
}
