//! Sessions that are announced and found, and tickets by a code, between hosts on one network. Needs root.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    time::{Duration, Instant},
};

use crate::{
    child::Guarded,
    mroute_network::Network,
    session::{Scratch, assert_says, finish_well, finish_with, last_event, stop, treecast, wait_until},
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

#[test]
fn an_announced_session_is_found_on_its_network_and_taken_back_at_its_end() {
    let (network, scratch) = (lan(), Scratch::new());
    scratch.file("image", 300_000);
    scratch.run("keys new ./key.pem");
    // It listens before anybody announces.
    let mut early = network.tell("e2", treecast().args(["discover", "--json", "--time", "60"]));
    let send = "send --json --announce --key ./key.pem --wait 1 image";
    let mut sender = network.tell("s", &mut scratch.command(send));
    let ticket = sender.next("ticket")["ticket"].clone();
    let announced = early.next("announced");
    assert_eq!((&announced["name"], &announced["ticket"]), (&"image".into(), &ticket));
    // This one asks.
    let found = finish_well(network.start("e1", &mut scratch.command("discover --json --time 6")));
    let found = last_event(&found, "announced");
    assert_eq!((&found["objects"], &found["bytes"]), (&1.into(), &300_000.into()));
    let receive = ["receive", "--into", "a", found["ticket"].as_str().unwrap()];
    finish_well(network.start("e1", &mut scratch.command(receive)));
    scratch.assert_file("a/image", 300_000);
    sender.end();
    assert_eq!(early.next("withdrawn")["session"], announced["session"]);
    let none = finish_well(network.start("e1", &mut scratch.command("discover --json --time 1")));
    assert_eq!(last_event(&none, "discovered")["sessions"], 0, "{none}");
}

/// A socket that sends to groups of the LAN, on the node that the caller is on.
fn to_groups() -> UdpSocket {
    let socket = UdpSocket::bind("[::]:0").unwrap();
    let interface = Interface::named("b1").unwrap().index;
    let how = ToGroups { interface, hop_limit: 255, loops_back: false };
    treecast_host::option::send_to_groups(&socket, how).unwrap();
    socket
}

/// Somebody who announces sessions by SAP, as treecast does.
struct Announcer {
    socket: UdpSocket,
    identity: Identity,
}

impl Announcer {
    fn new(network: &Network, node: &str) -> Self {
        Self { socket: network.within(node, to_groups), identity: Identity::generate().unwrap() }
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
    let mut listener = network.tell("e1", treecast().args(["discover", "--json", "--time", "600"]));
    let announcer = Announcer::new(&network, "e2");
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
    fn new(network: &Network, scratch: &Scratch) -> Self {
        let mut sender = network.start("s", &mut scratch.command("send --code --wait-timeout 120 image"));
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
    scratch.file("image", 300_000);
    let begun = Instant::now();
    let offering = Offering::new(&network, &scratch);
    let receive = format!("receive --into a {}", offering.code);
    finish_well(network.start("e1", &mut scratch.command(receive)));
    // It takes a second where nothing else runs.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    scratch.assert_file("a/image", 300_000);
    finish_well(offering.sender);
}

#[test]
fn a_mistyped_code_is_explained_and_one_that_was_guessed_too_often_is_dead() {
    let (network, scratch) = (lan(), Scratch::new());
    scratch.file("image", 1000);
    let offering = Offering::new(&network, &scratch);
    let receive_within = |seconds: &str, code: &str, words: &[&str]| {
        let args = format!("receive --connect-timeout {seconds} --into a {code}");
        network.within("e1", || scratch.refuses(args, words));
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
    assert_says(&finish_with(1, offering.sender), &["attempts left: 1\n", "of no use any more"]);
}

#[test]
fn a_port_that_another_program_has_is_told_by_all_who_need_it() {
    let (network, scratch) = (lan(), Scratch::new());
    scratch.file("image", 1000);
    let public = scratch.run("keys new ./key.pem");
    let start = |node: &str, args: &str| network.start(node, &mut scratch.command(args));
    // A program that has the port of mDNS, and does not share it.
    let taken = ["s", "e1"].map(|node| network.within(node, || UdpSocket::bind("[::]:5353").unwrap()));
    let said = finish_with(3, start("e1", "discover --time 1"));
    let words =
        ["no mDNS over IPv4 on b1", "over IPv6", "another program has UDP port 5353", "sport = :5353"];
    assert_says(&said, &words);
    let json = finish_with(3, start("e1", "discover --json --time 1"));
    assert_says(last_event(&json, "problem")["text"].as_str().unwrap(), &["UDP port 5353"]);
    let said = finish_with(1, start("s", "send --announce --key ./key.pem --wait-timeout 1 image"));
    assert_says(&said, &["is not announced everywhere", "UDP port 5353"]);
    // A standing receiver says so, and listens when the port is free.
    let public = public.split_whitespace().next().unwrap();
    let text = format!("state = \"state\"\n[[rule]]\nsenders = [\"{public}\"]\ninto = \"copies\"\n");
    fs::write(scratch.path("e1.toml"), text).unwrap();
    let receiver = start("e1", "receive --standing e1.toml");
    let history = || scratch.run("status --history --state state");
    wait_until("its history says so", || history().contains("another program has UDP port 5353"));
    drop(taken);
    finish_well(start("s", "send --to-standing any --key ./key.pem --wait-timeout 60 image"));
    wait_until("it has taken it", || history().contains(" received "));
    stop(receiver);
}

#[test]
fn a_packet_of_a_stranger_makes_no_listener_log_a_line() {
    let (network, scratch) = (lan(), Scratch::new());
    // A response with an OPT record whose options are cut short.
    let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    packet.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
    assert_eq!(packet.len(), 25);
    let sender = network.within("e2", to_groups);
    let announcer = Announcer::new(&network, "e2");
    for log in [&[][..], &["--log", "warn"]] {
        let errors = fs::File::create(scratch.path("errors")).unwrap();
        let mut command = scratch.command("discover --json --time 60");
        let mut listener = network.tell("e1", command.args(log).stderr(errors));
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
        assert_eq!(scratch.told("errors"), "", "{log:?}");
    }
}
