//! Sessions that are announced and found, and tickets by a code, between hosts on one network. Needs root.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    child::{Guarded, SpawnGuarded, Teller},
    mroute_network::Network,
    session::{
        Scratch, contents, finish_well, finish_with, last_event, path, refused, start, treecast, wait_until,
    },
};
use treecast_driver::security::Identity;
use treecast_host::{clock::since_1970, interface::Interface, option::ToGroups};
use treecast_proto::code::{ATTEMPTS, Code};
use treecast_wire::{
    announcement::Announcement,
    header::SessionId,
    sap,
    ticket::{Repair, Security, Ticket},
};

/// A sender and receivers on one LAN. Their interfaces are named `b1`.
fn lan() -> Network {
    let network = Network::new(&["b1", "s", "e1", "e2"]);
    network.lan(3, "b1", &["s", "e1", "e2"]);
    network
}

fn started(network: &Network, node: &str, command: &mut Command) -> Guarded {
    network.within(node, || start(command))
}

/// A program whose events are read.
fn told(network: &Network, node: &str, command: &mut Command) -> Teller {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Teller::of(network.within(node, || command.spawn_guarded()))
}

fn key(scratch: &Scratch, name: &str) -> String {
    let file = scratch.path(name);
    if !file.exists() {
        finish_well(start(treecast().args(["keys", "new"]).arg(&file)));
    }
    path(&file).to_owned()
}

#[test]
fn an_announced_session_is_found_on_its_network_and_taken_back_at_its_end() {
    let (network, scratch) = (lan(), Scratch::new());
    let (file, key) = (scratch.file("image", 300_000), key(&scratch, "key.pem"));
    let args = ["--json", "--announce", "--key", &key, "--wait", "1", path(&file)];
    // It listens before anybody announces.
    let mut early = told(&network, "e2", treecast().args(["discover", "--json", "--time", "60"]));
    let mut sender = told(&network, "s", treecast().arg("send").args(args));
    let ticket = sender.next("ticket")["ticket"].clone();
    let announced = early.next("announced");
    assert_eq!((&announced["name"], &announced["ticket"]), (&"image".into(), &ticket));
    // This one asks.
    let found = finish_well(started(&network, "e1", treecast().args(["discover", "--json", "--time", "6"])));
    let found = last_event(&found, "announced");
    assert_eq!(found["objects"], 1);
    assert_eq!(found["bytes"], 300_000);
    let mut receive = treecast();
    receive.args(["receive", "--into", &scratch.arg("a"), found["ticket"].as_str().unwrap()]);
    finish_well(started(&network, "e1", &mut receive));
    assert!(fs::read(scratch.path("a/image")).unwrap() == contents(300_000));
    sender.end();
    assert_eq!(early.next("withdrawn")["session"], announced["session"]);
    let none = finish_well(started(&network, "e1", treecast().args(["discover", "--json", "--time", "1"])));
    assert_eq!(last_event(&none, "discovered")["sessions"], 0, "{none}");
}

#[test]
fn an_announcement_needs_a_key_and_a_name() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let refuse = |args: &[&str], words: &[&str]| refused(treecast().arg("send").args(args).arg(&file), words);
    refuse(&["--announce", "--plain"], &["signed", "leave out --announce"]);
    refuse(&[&format!("--announce={}", "x".repeat(65))], &["--announce", "64 bytes"]);
    refuse(&["--dialect", "iotup", "--code"], &["no ticket", "leave out --code"]);
}

/// Somebody who announces sessions by SAP, as treecast does.
struct Announcer {
    socket: UdpSocket,
    identity: Identity,
}

impl Announcer {
    /// Opens a socket on the node that the caller is on.
    fn new() -> Self {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        let interface = Interface::named("b1").unwrap().index;
        let how = ToGroups { interface, hop_limit: 255, loops_back: false };
        treecast_host::option::send_to_groups(&socket, how).unwrap();
        Self { socket, identity: Identity::generate().unwrap() }
    }

    fn announcement(&self, session: u32, number: u64) -> Announcement {
        let group = "[ff15::1]:5000".parse().unwrap();
        let sender_key = self.identity.public_key().to_bytes();
        let ticket = Ticket {
            security: Some(Security { sender_key, secret: None }),
            ..Ticket::new(SessionId(session), Repair::Nack, 1000, group)
        };
        let mut announcement = Announcement::new(&format!("session {session}"), ticket).unwrap();
        (announcement.number, announcement.valid_seconds) = (number, 600);
        announcement
    }

    fn announce(&self, announcement: &Announcement, signer: &Identity) {
        let signature = signer.sign(&announcement.signed_bytes());
        let packet = sap::Packet {
            is_deletion: false,
            hash: 7,
            origin: "fd00:3::3".parse().unwrap(),
            payload_type: sap::PAYLOAD_TYPE,
            payload: &announcement.to_bytes(&signature),
        };
        self.socket.send_to(&packet.to_bytes(), ("ff05::2:7ffe", sap::PORT)).unwrap();
    }
}

/// The memory of a process, in KiB.
fn memory(child: &Guarded) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn what_is_forged_replayed_or_too_much_is_refused_and_a_flood_makes_nothing_grow() {
    let network = lan();
    let mut listener = told(&network, "e1", treecast().args(["discover", "--json", "--time", "600"]));
    let announcer = network.within("e2", Announcer::new);
    let now = since_1970().as_millis() as u64;
    let (first, second) = (announcer.announcement(1, now - 1000), announcer.announcement(1, now));
    // Until somebody listens.
    wait_until("the first announcement is heard", || {
        announcer.announce(&first, &announcer.identity);
        !listener.pending().is_empty()
    });
    announcer.announce(&second, &announcer.identity);
    listener.next("renewed");
    let before = memory(&listener.child);
    let stranger = Identity::generate().unwrap();
    for number in 0..20_000 {
        match number % 3 {
            0 => announcer.announce(&first, &announcer.identity),
            1 => announcer.announce(&announcer.announcement(number, now), &stranger),
            _ => announcer.announce(&announcer.announcement(1, now - 3_600_000), &announcer.identity),
        }
    }
    let grown = memory(&listener.child).saturating_sub(before);
    assert!(grown < 4096, "it has grown by {grown} KiB");
    listener.child.signal(2);
    let done = listener.next("discovered");
    assert_eq!(done["sessions"], 1, "{done}");
    for reason in ["not signed by its sender", "replayed", "expired by this host's clock"] {
        assert!(done["refused"][reason].as_u64() > Some(10), "{reason}: {done}");
    }
}

/// A sender with a code, and its lines on standard error and output.
struct Offering {
    sender: Guarded,
    code: String,
}

impl Offering {
    fn new(network: &Network, file: &str) -> Self {
        let mut command = treecast();
        command.args(["send", "--code", "--wait-timeout", "120", file]);
        let mut sender = started(network, "s", &mut command);
        let mut lines = BufReader::new(sender.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.next().unwrap().starts_with("treecast2."), "the ticket comes first");
        let line = lines.next().unwrap();
        let code = line.rsplit_once(' ').unwrap().1.to_owned();
        Self { sender, code }
    }
}

#[test]
fn a_code_brings_a_file_to_another_host_within_seconds_from_nothing() {
    let (network, scratch) = (lan(), Scratch::new());
    let file = scratch.file("image", 300_000);
    let begun = Instant::now();
    let offering = Offering::new(&network, path(&file));
    let mut receive = treecast();
    receive.args(["receive", "--into", &scratch.arg("a"), &offering.code]);
    finish_well(started(&network, "e1", &mut receive));
    // It takes a second where nothing else runs.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(fs::read(scratch.path("a/image")).unwrap() == contents(300_000));
    finish_well(offering.sender);
}

#[test]
fn a_mistyped_code_is_explained_and_one_that_was_guessed_too_often_is_dead() {
    let (network, scratch) = (lan(), Scratch::new());
    let offering = Offering::new(&network, path(&scratch.file("image", 1000)));
    let receive_within = |seconds: &str, code: &str, words: &[&str]| {
        let mut command = treecast();
        command.args(["receive", "--connect-timeout", seconds, "--into", &scratch.arg("a"), code]);
        network.within("e1", || refused(&mut command, words));
    };
    let receive = |code: &str, words: &[&str]| receive_within("60", code, words);
    let right: Code = offering.code.parse().unwrap();
    let (first, others) = offering.code.split_once('-').unwrap();
    receive(&format!("{first}q-{others}"), &["no code has the word", first]);
    receive(first, &["a ticket begins with"]);
    let others = (0..).map(Code::from_random).filter(|code| *code != right);
    // Nobody has it, and it costs no attempt.
    let of_nobody = others.clone().find(|code| code.tag() != right.tag()).unwrap();
    receive_within("2", &of_nobody.to_string(), &["no sender on this network has this code"]);
    let guesses = others.filter(|code| code.tag() == right.tag());
    for (guess, left) in guesses.zip((1..ATTEMPTS).rev()) {
        receive(&guess.to_string(), &[&format!("the code is wrong ({left} wrong codes more")]);
    }
    let last = (1 << 20..).map(Code::from_random).find(|code| *code != right && code.tag() == right.tag());
    receive(&last.unwrap().to_string(), &["too many wrong codes were tried"]);
    receive(&offering.code, &["too many wrong codes were tried", "new code"]);
    offering.sender.signal(2);
    let text = finish_with(1, offering.sender);
    assert!(text.contains("attempts left: 1\n") && text.contains("of no use any more"), "{text}");
}

/// A program that has the port of mDNS, and does not share it.
fn take_mdns_port(network: &Network, node: &str) -> UdpSocket {
    network.within(node, || UdpSocket::bind("[::]:5353").unwrap())
}

#[test]
fn a_port_that_another_program_has_is_told_by_all_who_need_it() {
    let (network, scratch) = (lan(), Scratch::new());
    let (file, key) = (scratch.file("image", 1000), key(&scratch, "key.pem"));
    let taken = ["s", "e1"].map(|node| take_mdns_port(&network, node));
    let said = finish_with(3, started(&network, "e1", treecast().args(["discover", "--time", "1"])));
    for words in
        ["no mDNS over IPv4 on b1", "over IPv6", "another program has UDP port 5353", "sport = :5353"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let json =
        finish_with(3, started(&network, "e1", treecast().args(["discover", "--json", "--time", "1"])));
    assert!(last_event(&json, "problem")["text"].as_str().unwrap().contains("UDP port 5353"), "{json}");
    let mut command = treecast();
    command.args(["send", "--announce", "--key", &key, "--wait-timeout", "1", path(&file)]);
    let said = finish_with(1, started(&network, "s", &mut command));
    assert!(said.contains("is not announced everywhere") && said.contains("UDP port 5353"), "{said}");
    // A standing receiver says so, and listens when the port is free.
    let config = scratch.path("e1.toml");
    let public = finish_well(start(treecast().args(["keys", "show", &key])));
    let public = public.split_whitespace().next().unwrap();
    let text = format!("state = \"state\"\n[[rule]]\nsenders = [\"{public}\"]\ninto = \"copies\"\n");
    fs::write(&config, text).unwrap();
    let receiver = started(&network, "e1", treecast().args(["receive", "--standing"]).arg(&config));
    let history =
        || finish_well(start(treecast().args(["status", "--history", "--state", &scratch.arg("state")])));
    wait_until("its history says so", || history().contains("another program has UDP port 5353"));
    drop(taken);
    let mut command = treecast();
    command.args(["send", "--to-standing", "any", "--key", &key, "--wait-timeout", "60", path(&file)]);
    finish_well(started(&network, "s", &mut command));
    wait_until("it has taken it", || history().contains(" received "));
    receiver.signal(15);
    finish_well(receiver);
}

#[test]
fn a_packet_of_a_stranger_makes_no_listener_log_a_line() {
    let network = lan();
    // A response with an OPT record whose options are cut short.
    let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    packet.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
    assert_eq!(packet.len(), 25);
    let sender = network.within("e2", || {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        let interface = Interface::named("b1").unwrap().index;
        let how = ToGroups { interface, hop_limit: 255, loops_back: false };
        treecast_host::option::send_to_groups(&socket, how).unwrap();
        socket
    });
    let announcer = network.within("e2", Announcer::new);
    for log in [&[][..], &["--log", "warn"]] {
        let mut command = treecast();
        command.args(["discover", "--json", "--time", "60"]).args(log).stderr(Stdio::piped());
        let mut listener = told(&network, "e1", &mut command);
        let number = since_1970().as_millis() as u64;
        let (mut session, mut heard) = (0, 0);
        // What comes behind the packets is heard, so they were, too.
        wait_until("a session is heard behind the packets", || {
            sender.send_to(&packet, "[ff02::fb]:5353").unwrap();
            announcer.announce(&announcer.announcement(session, number), &announcer.identity);
            session += 1;
            heard += listener.pending().len();
            heard > 3
        });
        listener.child.signal(2);
        listener.next("discovered");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut listener.child.stderr.take().unwrap(), &mut said).unwrap();
        assert_eq!(said, "", "{log:?}");
    }
}
