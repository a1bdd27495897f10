//! The counts of the load generator against captures of packet sockets. Needs root.
//!
//! A host sends to a relay, whose interface loses packets by eBPF. What a packet socket captures there, and the relay's own socket
//! never hears, was dropped: so every dropped number is known, and their sum is the program's own counter. The relay passes packets on to a
//! receiver, holds some back and copies others. What a packet socket captures at the receiver is the truth, packet by packet.
//!
//! With the paper's packets, the receiver also prints the lines of its figures 14 and 15. `TREECAST_SEEDS` sets how many seeds are run.

use std::{
    collections::{BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use socket2::{Domain, Socket, Type};
use treecast_host::{option, packet, stop::Stop};
use treecast_lab::{Lab, Loss, Options, Topology};
use treecast_load::{
    config::{Receiving, RunConfig, Sending},
    packet::{Format, Packet},
    report::{Counts, Ending, HostReport, PairReport},
    run,
    schedule::Schedule,
};
use treecast_proto::random::SplitMix64;

const SENDER: &str = "server0";
const RELAY: &str = "client0";
const RECEIVER: &str = "client1";
const INTERFACE: &str = "if1";
const WINDOW: usize = 32;
const PACKETS: u64 = 600;
/// Seeds from this one on send the paper's packets.
const PAPER_SEEDS: u64 = 10;

/// Room for all packets of a session in a socket that is read late.
const BUFFER_BYTES: usize = 32 << 20;

/// The packets of a session, as a packet socket saw them: their numbers in order, and how many end packets there were.
#[derive(Debug)]
struct Seen {
    format: Format,
    numbers: Vec<u64>,
    ends: usize,
}

impl Seen {
    fn new(format: Format) -> Self {
        Self { format, numbers: Vec::new(), ends: 0 }
    }

    fn add(&mut self, payload: &[u8]) {
        let packet = Packet::parse(self.format, payload).expect("only the load generator sends to this port");
        match packet.stamp.is_some_and(|stamp| stamp.is_end) {
            true => self.ends += 1,
            false => self.numbers.push(packet.number),
        }
    }

    fn set(&self) -> BTreeSet<u64> {
        self.numbers.iter().copied().collect()
    }
}

/// A packet socket on an interface of a node, which is read when all is over.
struct Capture(Socket);

impl Capture {
    fn begin(lab: &Lab, node: &str) -> Self {
        let index = lab.interface(node, INTERFACE).unwrap().index;
        let open = || {
            let socket = packet::open(index, packet::ALL_TYPES)?;
            option::set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER_BYTES)?;
            std::io::Result::Ok(socket)
        };
        Self(lab.enter(node, open).unwrap().unwrap())
    }

    /// The packets to a port that arrived, and the number of all other frames that did.
    fn end(self, port: u16, format: Format) -> (Seen, u64) {
        let (mut seen, mut others, mut frame) = (Seen::new(format), 0, [0; 2048]);
        while let Ok((len, addressee)) = packet::receive(&self.0, &mut frame) {
            match payload_to(port, &frame[..len]) {
                _ if addressee == packet::Addressee::Leaving => {}
                Some(payload) => seen.add(payload),
                None => others += 1,
            }
        }
        (seen, others)
    }
}

/// The UDP payload of a frame to a port.
fn payload_to(port: u16, frame: &[u8]) -> Option<&[u8]> {
    let (next_header, udp) = match frame.get(12..14)? {
        [0x08, 0x00] => (*frame.get(23)?, frame.get(34..)?),
        [0x86, 0xdd] => (*frame.get(20)?, frame.get(54..)?),
        _ => return None,
    };
    let is_ours = next_header == 17 && udp.get(2..4)? == port.to_be_bytes();
    let len = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    udp.get(8..len).filter(|_| is_ours)
}

/// The time without a packet after which the relay holds none back, and the number of such times after which it ends: after the last
/// packet, and before the first one, for which a busy machine may take long.
const PAUSE: Duration = Duration::from_millis(60);
const MAX_PAUSES: u32 = 10;
const MAX_PAUSES_AT_FIRST: u32 = 500;

/// Passes packets on until the sender has been silent for a while. Holds some back until up to 60 others have gone, or the sender
/// pauses, and copies some.
fn relay(from: &UdpSocket, to: &UdpSocket, format: Format, seed: u64) -> Seen {
    let mut random = SplitMix64(seed);
    let (mut heard, mut held) = (Seen::new(format), VecDeque::<(u64, Vec<u8>)>::new());
    let mut buffer = [0; 2048];
    let mut pauses = 0;
    while pauses < if heard.numbers.is_empty() { MAX_PAUSES_AT_FIRST } else { MAX_PAUSES } {
        let Ok(len) = from.recv(&mut buffer) else {
            held.drain(..).for_each(|(_, held)| _ = to.send(&held).unwrap());
            pauses += 1;
            continue;
        };
        pauses = 0;
        let payload = &buffer[..len];
        heard.add(payload);
        if heard.ends > 0 {
            held.drain(..).for_each(|(_, held)| _ = to.send(&held).unwrap());
            to.send(payload).unwrap();
            continue;
        }
        held.iter_mut().for_each(|(wait, _)| *wait -= 1);
        match random.below(100) {
            0..4 => held.push_back((1 + random.below(60), payload.to_vec())),
            4..7 => {
                held.push_back((1 + random.below(60), payload.to_vec()));
                to.send(payload).unwrap();
            }
            _ => _ = to.send(payload).unwrap(),
        }
        for _ in 0..held.len() {
            let (wait, payload) = held.pop_front().unwrap();
            match wait {
                0 => _ = to.send(&payload).unwrap(),
                _ => held.push_back((wait, payload)),
            }
        }
    }
    heard
}

/// The relay's socket in the sender's group, and the one that is connected to the receiver's.
fn relay_sockets(lab: &Lab, from: SocketAddr, to: SocketAddr) -> (UdpSocket, UdpSocket) {
    let index = lab.interface(RELAY, INTERFACE).unwrap().index;
    let open = || {
        let domain = if from.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let hears = Socket::new(domain, Type::DGRAM, None)?;
        option::set_buffer(&hears, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER_BYTES)?;
        hears.bind(&from.into())?;
        hears.set_read_timeout(Some(PAUSE))?;
        option::join(&hears, from.ip(), None, index)?;
        let sends = Socket::new(domain, Type::DGRAM, None)?;
        let to_groups = option::ToGroups { interface: index, hop_limit: 1, loops_back: true };
        option::send_to_groups(&sends, to_groups)?;
        sends.connect(&to.into())?;
        std::io::Result::Ok((hears.into(), sends.into()))
    };
    lab.enter(RELAY, open).unwrap().unwrap()
}

fn config(host: &str, group: SocketAddr, packet: Format) -> RunConfig {
    RunConfig {
        host: host.into(),
        group,
        interface: INTERFACE.into(),
        sources: Vec::new(),
        packet,
        size_bytes: 40,
        hops: 4,
        loops_back: false,
        lead: Duration::from_millis(300),
        sending: None,
        receiving: None,
    }
}

/// The counts of a sequence of arrivals, by the definitions.
#[derive(Debug, PartialEq)]
struct Truth {
    received: u64,
    late: u64,
    duplicates: u64,
    reordered: u64,
    lost: Vec<u64>,
}

impl Truth {
    fn of(arrivals: &[u64], expected: u64) -> Self {
        let mut truth = Self { received: 0, late: 0, duplicates: 0, reordered: 0, lost: Vec::new() };
        let mut seen = BTreeSet::new();
        for number in arrivals {
            if !seen.insert(*number) {
                truth.duplicates += 1;
                continue;
            }
            let overtaken_by = seen.range(number + 1..).count();
            match overtaken_by {
                0 => truth.received += 1,
                1..=WINDOW => (truth.received, truth.reordered) = (truth.received + 1, truth.reordered + 1),
                _ => truth.late += 1,
            }
        }
        truth.lost = (1..=expected).filter(|number| !seen.contains(number)).collect();
        truth
    }

    fn told(pair: &PairReport) -> Self {
        let Counts { received, late, duplicates, reordered, .. } = pair.counts;
        let lost: Vec<u64> = pair.lost_ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
        assert_eq!(lost.len() as u64, pair.counts.lost);
        Self { received, late, duplicates, reordered, lost }
    }
}

/// The lines that the paper's receiver prints of these arrivals (congested-multicast-2019, 4.2): a number that does not follow the one
/// before it is invalid, unless it is 1. Each line shows 32 numbers, 8 of which come before the invalid one, and no number is
/// judged until a line is complete.
fn paper_lines(arrivals: &[u64], sender: impl std::fmt::Display) -> Vec<String> {
    const AFTER: usize = 23;
    let (mut lines, mut at) = (Vec::new(), 0);
    while at + AFTER < arrivals.len() {
        let (number, expected) = (arrivals[at], if at == 0 { 1 } else { arrivals[at - 1] + 1 });
        if number == expected || number == 1 {
            at += 1;
            continue;
        }
        let dropped = number.saturating_sub(expected);
        let shown: Vec<String> =
            arrivals[at.saturating_sub(8)..=at + AFTER].iter().map(u64::to_string).collect();
        lines.push(format!(
            "Invalid packet number: {number} (expected {expected}) {dropped} packets dropped from {sender} | {}",
            shown.join(" ")
        ));
        at += AFTER + 1;
    }
    lines
}

/// What one run gave: the sender's report, the receiver's and the lines that it printed, and what the relay and the captures saw.
struct Outcome {
    sender: HostReport,
    receiver: HostReport,
    lines: Vec<String>,
    heard: Seen,
    before_loss: (Seen, u64),
    at_receiver: Seen,
}

fn run_once(lab: &Lab, groups: [SocketAddr; 2], format: Format, seed: u64) -> Outcome {
    let (hears, sends) = relay_sockets(lab, groups[0], groups[1]);
    let captures = [Capture::begin(lab, RELAY), Capture::begin(lab, RECEIVER)];
    let schedule = Schedule::constant(3000.0, PACKETS as f64 / 3000.0);
    let sending = Some(Sending::new(schedule.clone()));
    let time = Duration::from_secs_f64(schedule.seconds()) + Duration::from_millis(200);
    let receiving = Receiving { linger: Duration::from_millis(200), ..Receiving::new(time) };
    let receiver = RunConfig { receiving: Some(receiving), ..config(RECEIVER, groups[1], format) };
    let sender = RunConfig { sending, ..config(SENDER, groups[0], format) };
    let part = |node: &str, config: &RunConfig| {
        let (stop, mut lines) = (Stop::new().unwrap(), Vec::new());
        let report = lab.enter(node, || run::run(config, &stop, &mut |line| lines.push(line.to_owned())));
        (report.unwrap().unwrap(), lines)
    };
    let (sender, (receiver, mut lines), heard) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| part(RECEIVER, &receiver));
        let heard = scope.spawn(|| relay(&hears, &sends, format, seed));
        (part(SENDER, &sender).0, receiver.join().unwrap(), heard.join().unwrap())
    });
    lines.retain(|line| line != "ready");
    let [at_relay, at_receiver] = captures;
    let before_loss = at_relay.end(groups[0].port(), format);
    let at_receiver = at_receiver.end(groups[1].port(), format).0;
    Outcome { sender, receiver, lines, heard, before_loss, at_receiver }
}

#[test]
fn counts_are_those_of_the_captures_under_loss_by_ebpf_and_a_relay_that_reorders() {
    let asked =
        std::env::var("TREECAST_SEEDS").ok().map(|text| text.parse().expect("TREECAST_SEEDS is a number"));
    let seeds = asked.unwrap_or(PAPER_SEEDS + 2);
    assert!(seeds > PAPER_SEEDS, "seeds from {PAPER_SEEDS} on have the paper's packets");
    let options =
        Options { state_directory: std::env::temp_dir().join("treecast-load-counts"), ..Options::default() };
    let name = format!("ldcount{}", std::process::id());
    let topology = Topology::parse("lan:clients=2").unwrap();
    let lab = Lab::up(&topology, &name, &options)
        .expect("this test makes namespaces: run it as root, behind scripts/setup.sh test");
    let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        (0..seeds).for_each(|seed| check_seed(&lab, seed))
    }));
    Lab::remove(&name, &options).unwrap();
    _ = std::fs::remove_dir_all(&options.state_directory);
    if let Err(failure) = all {
        std::panic::resume_unwind(failure);
    }
}

/// Singles are lost with even seeds, bursts with odd ones. Every third seed uses IPv6.
fn check_seed(lab: &Lab, seed: u64) {
    let format = if seed < PAPER_SEEDS { Format::Own } else { Format::Paper };
    let loss = match seed.is_multiple_of(2) {
        true => Loss::Uniform(0.08),
        false => Loss::Gilbert { to_bad: 0.02, to_good: 0.25, in_bad: 0.9, in_good: 0.0 },
    };
    let group = |number: u16| -> SocketAddr {
        let v6 = IpAddr::from([0xff15, 0, 0, 0, 0, 0, 0, number]);
        let v4 = IpAddr::from([239, 7, seed as u8, number as u8]);
        (if seed.is_multiple_of(3) { v6 } else { v4 }, 7000 + number).into()
    };
    lab.set_loss(RELAY, INTERFACE, loss).unwrap();
    let dropped_before = lab.loss_counters(RELAY, INTERFACE).unwrap().dropped;
    let outcome = run_once(lab, [group(1), group(2)], format, seed);
    let dropped = lab.loss_counters(RELAY, INTERFACE).unwrap().dropped - dropped_before;
    lab.set_loss(RELAY, INTERFACE, Loss::None).unwrap();
    let Outcome { sender, receiver, lines, heard, before_loss: (before_loss, others), at_receiver } = outcome;

    // The sender sent all, and all of it left.
    assert!(sender.is_met(), "seed {seed}: {sender:?}");
    assert_eq!((sender.senders[0].sent, sender.on_wire), (PACKETS, Some(PACKETS)), "seed {seed}");
    assert_eq!(before_loss.numbers, (1..=PACKETS).collect::<Vec<_>>(), "seed {seed}");

    // Each number that eBPF dropped is known, and their sum is the program's own.
    let lost: Vec<u64> = before_loss.set().difference(&heard.set()).copied().collect();
    let known = (lost.len() + before_loss.ends - heard.ends) as u64;
    assert!(
        !lost.is_empty() && (known..=known + others).contains(&dropped),
        "seed {seed}: {known}, {dropped}"
    );

    // The receiver's counts are those of what arrived, and no number is lost but those that eBPF dropped.
    let receiver = receiver.receiver.unwrap();
    assert_eq!((receiver.pairs.len(), receiver.kernel_dropped, receiver.foreign), (1, 0, 0), "seed {seed}");
    let pair = &receiver.pairs[0];
    let highest = at_receiver.numbers.iter().copied().max().unwrap();
    let expected = if pair.ending == Ending::Announced { PACKETS } else { highest };
    let truth = Truth::of(&at_receiver.numbers, expected);
    assert_eq!((pair.counts.expected, Truth::told(pair)), (expected, truth), "seed {seed}");
    let lost_up_to = |last: u64| lost.iter().copied().filter(|number| *number <= last).collect::<Vec<_>>();
    assert_eq!(Truth::told(pair).lost, lost_up_to(expected), "seed {seed}");
    assert!(
        pair.counts.reordered > 0 && pair.counts.duplicates > 0 && pair.counts.late > 0,
        "seed {seed}: {pair:?}"
    );
    let expected =
        if format == Format::Paper { paper_lines(&at_receiver.numbers, pair.sender) } else { Vec::new() };
    assert_eq!(lines, expected, "seed {seed}");
    assert!(format == Format::Own || lines.len() > 3, "seed {seed}: {lines:?}");
}
