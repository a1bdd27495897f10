//! A sending session against receivers that are written out here, over the loopback interface.

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    path::PathBuf,
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use treecast_driver::send::{
    self, Connected, Control, Mend, ReceiverProgress, SendError, SendEvent, SendOptions, SendSummary,
    SessionKind, SteadyPace,
};
use treecast_host::stop::Stop;
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header},
    message::{
        Hello, Message, PROTOCOL_VERSION, Pace, PaceReport, ProbeProof, Progress, RetransmissionRequest,
    },
    ticket::{Fanout, Ticket},
};

const SIZE: usize = 1_000_000;

/// A session whose receivers connect to the sender, at this pace.
fn paced(pace: send::Pace) -> SessionKind {
    SessionKind::Connected(Connected { pace, ..Connected::default() })
}

/// A sender of one file on loopback, and its ticket.
struct Sending {
    folder: PathBuf,
    ticket: Ticket,
    started: mpsc::Receiver<()>,
    thread: JoinHandle<Result<SendSummary, SendError>>,
}

impl Sending {
    fn start(name: &str, set: impl FnOnce(&mut SendOptions)) -> Self {
        let folder = std::env::temp_dir().join(format!("treecast-session-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        std::fs::write(&path, vec![7; SIZE]).unwrap();
        let mut options = SendOptions::new(vec![path]);
        options.network.interface = Some("lo".into());
        options.network.block_len = Some(1420);
        // The receivers here speak no TLS.
        options.security = None;
        set(&mut options);
        let (tell, told) = mpsc::channel();
        let (start, started) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stop = Stop::new().unwrap();
            send::run(&options, &stop, &mut |event| match event {
                SendEvent::Ready { ticket } => tell.send(ticket).unwrap(),
                SendEvent::Started { .. } => start.send(()).unwrap(),
                _ => {}
            })
        });
        Self { folder, ticket: told.recv().unwrap(), started, thread }
    }

    fn finish(self) -> SendSummary {
        let summary = self.thread.join().unwrap().unwrap();
        std::fs::remove_dir_all(self.folder).unwrap();
        summary
    }

    fn join(&self, name: &str) -> Peer {
        self.join_at(name, 0)
    }

    /// Has a receiver join that takes copies at this UDP port. 0: it takes none.
    fn join_at(&self, name: &str, udp_port: u16) -> Peer {
        let stream = TcpStream::connect(self.ticket.control[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut peer = Peer { stream, file: FileId::new(self.ticket.session, 0) };
        peer.say(&Message::Hello(Hello::new(PROTOCOL_VERSION, udp_port, 1 << 20, name).unwrap()));
        peer
    }
}

/// A receiver's connection.
struct Peer {
    stream: TcpStream,
    file: FileId,
}

impl Peer {
    fn say(&mut self, message: &Message) {
        self.stream.write_all(&message.to_packet(self.file)).unwrap();
    }

    /// The next packet: a message, or the length of blocks.
    fn hear(&mut self) -> Result<Message, usize> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).unwrap();
        let header = Header::parse(&header).unwrap();
        let mut payload = vec![0; header.payload_len as usize];
        self.stream.read_exact(&mut payload).unwrap();
        if header.kind.is_block() {
            Err(payload.len())
        } else {
            Ok(Message::parse(&header, &payload).unwrap())
        }
    }

    fn wait_for_digest(&mut self) {
        while !matches!(self.hear(), Ok(Message::Digest(_))) {}
    }

    /// Waits for the sender's last word, and for the end of what it writes.
    fn wait_for_end(&mut self) {
        while self.hear() != Ok(Message::Goodbye) {}
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0, "nothing follows");
    }

    fn leave(mut self) {
        self.wait_for_end();
    }

    /// Has all of the file sent again.
    fn fetch_again(&mut self) {
        self.say(&Message::RetransmissionRequest(RetransmissionRequest::new(0..SIZE as u64).unwrap()));
        let mut missing = SIZE;
        while missing > 0 {
            missing -= self.hear().err().unwrap_or(0);
        }
    }

    /// Has all of the file sent again, and is done.
    fn fetch(&mut self) {
        self.fetch_again();
        self.say(&Message::EndOfRetransmissionRequests);
    }
}

#[test]
fn the_rate_is_for_multicast_and_retransmissions_together() {
    const RATE_BPS: u64 = 8_000_000;
    let start = Instant::now();
    let sending = Sending::start("rate", |options| {
        options.kind = SessionKind::Connected(Connected {
            mend: Mend::After,
            pace: send::Pace::Steady(SteadyPace::Fixed(RATE_BPS)),
            ..Connected::default()
        });
        options.start.wait_for = 2;
    });
    let mut peers = [sending.join("one"), sending.join("two")];
    peers.iter_mut().for_each(Peer::wait_for_digest);
    std::thread::scope(|scope| peers.iter_mut().for_each(|peer| drop(scope.spawn(|| peer.fetch()))));
    peers.into_iter().for_each(Peer::leave);
    assert!(sending.finish().is_complete());
    let (bits, seconds) = (3.0 * 8.0 * SIZE as f64, start.elapsed().as_secs_f64());
    // But for what the token bucket and half a connection's buffer let out at once.
    assert!(bits / seconds < 1.1 * RATE_BPS as f64, "{bits} bits in {seconds} s");
}

/// Once a connection has taken all that was queued, more is queued at once, and not when something else wakes the sender, as
/// its progress does five times a second: a half of a megabyte each time, however fast the way.
#[test]
fn without_a_rate_retransmissions_are_as_fast_as_they_are_taken() {
    const TIMES: u32 = 50;
    let follow = send::Pace::Follow { control: Control::Tfmcc, floor_bps: None };
    for pace in [send::Pace::Steady(SteadyPace::Max), follow] {
        let sending = Sending::start("taken", |options| {
            options.kind = paced(pace.clone());
            options.start.wait_for = 1;
        });
        let mut peer = sending.join("one");
        peer.wait_for_digest();
        let start = Instant::now();
        (0..TIMES).for_each(|_| peer.fetch_again());
        let elapsed = start.elapsed();
        peer.say(&Message::EndOfRetransmissionRequests);
        peer.leave();
        assert!(sending.finish().is_complete());
        assert!(elapsed < Duration::from_millis(100) * TIMES, "{pace:?}: {elapsed:?}");
    }
}

/// The report of a receiver that gets what is sent.
fn has_all(pace: &Pace) -> PaceReport {
    PaceReport {
        timestamp_us: pace.timestamp_us,
        echo_us: pace.timestamp_us,
        rate_bps: Pace::NO_RATE,
        received_bps: pace.rate_bps,
        round: pace.round,
        round_trip_us: 1_000,
        loss_ppb: 0,
        is_limited: false,
        queue_us: 0,
        lost_ppm: 0,
        marked_ppm: 0,
        proof: ProbeProof::default(),
    }
}

/// A probe is lost as blocks are, so it is as long as they are, and stands among them.
#[test]
fn with_a_rate_that_is_found_probes_stand_among_the_blocks() {
    let sending = Sending::start("probes", |options| {
        options.kind = paced(send::Pace::Follow { control: Control::Model, floor_bps: None });
        options.fanout = Fanout::Unicast;
        options.start.wait_for = 1;
    });
    let socket = UdpSocket::bind((sending.ticket.control[0].ip(), 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut peer = sending.join_at("one", socket.local_addr().unwrap().port());
    let mut packet = [0; 2_000];
    let mut first = None;
    let (probe, before) = loop {
        let len = socket.recv(&mut packet).unwrap();
        let header = Header::parse(&packet).unwrap();
        let before = header.number.wrapping_sub(*first.get_or_insert(header.number));
        if header.kind.is_block() {
            continue;
        }
        let (body, rest) = packet[HEADER_LEN..len].split_at(header.payload_len as usize);
        match Message::parse(&header, body) {
            Ok(Message::Pace(Pace { probe: Some(probe), .. })) => {
                assert_eq!((len, rest.iter().max()), (HEADER_LEN + 1420, Some(&0)));
                break (probe, before);
            }
            Ok(Message::Pace(pace)) => peer.say(&Message::PaceReport(has_all(&pace))),
            _ => {}
        }
    };
    // The kernel may have dropped some packets, and probes, of a busy test.
    assert!(probe.number >= 1 && before >= 60 * probe.number, "{probe:?} behind {before} packets");
    assert!(probe.number > 1 || before <= 140, "{before} packets before the first one");
    peer.wait_for_digest();
    peer.fetch();
    peer.leave();
    assert!(sending.finish().is_complete());
}

#[test]
fn strangers_that_come_and_go_are_neither_counted_nor_kept() {
    let sending = Sending::start("strangers", |options| {
        options.kind = paced(send::Pace::Steady(SteadyPace::Fixed(8_000_000)));
    });
    let mut peer = sending.join("real");
    sending.started.recv().unwrap();
    for _ in 0..300 {
        drop(sending.join("stranger"));
    }
    peer.wait_for_digest();
    peer.fetch();
    peer.leave();
    let summary = sending.finish();
    assert!(summary.is_complete(), "{summary:?}");
    let names: Vec<_> = summary.progress.receivers.iter().map(|receiver| receiver.name.as_str()).collect();
    assert_eq!(names, ["real"]);
}

#[test]
fn names_are_clean_and_told_apart() {
    let sending = Sending::start("names", |options| options.start.wait_for = 2);
    let mut peers = [sending.join("an\u{202e}na"), sending.join("an\u{202e}na")];
    for peer in &mut peers {
        peer.wait_for_digest();
        peer.say(&Message::EndOfRetransmissionRequests);
    }
    peers.into_iter().for_each(Peer::leave);
    let summary = sending.finish();
    let names: Vec<_> = summary.progress.receivers.iter().map(|receiver| receiver.name.clone()).collect();
    assert_eq!(names[0], "an\u{fffd}na");
    assert!(names[1].starts_with("an\u{fffd}na (") && names[1].ends_with(')'), "{names:?}");
}

#[test]
fn what_crosses_the_goodbye_meets_no_reset_and_nobody_is_waited_for_without_end() {
    let sending = Sending::start("goodbye", |options| options.start.wait_for = 2);
    let mut peers = [sending.join("late"), sending.join("stopped")];
    for peer in &mut peers {
        peer.wait_for_digest();
        peer.say(&Message::EndOfRetransmissionRequests);
    }
    peers.iter_mut().for_each(Peer::wait_for_end);
    for _ in 0..10 {
        peers[0].say(&Message::Progress(Progress::default()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!sending.thread.is_finished(), "it waits for the other ends");
    let [late, stopped] = peers;
    drop(late);
    let start = Instant::now();
    let summary = sending.finish();
    assert!(summary.is_complete(), "{summary:?}");
    assert!(start.elapsed() < Duration::from_secs(30), "the stopped one is left after a while");
    assert!(summary.progress.seconds < 5.0, "which is no part of the sending: {summary:?}");
    drop(stopped);
}

#[test]
fn what_receivers_count_can_be_added_up() {
    let sending = Sending::start("counters", |options| options.start.wait_for = 2);
    let mut peers = [sending.join("one"), sending.join("two")];
    for peer in &mut peers {
        peer.wait_for_digest();
        peer.say(&Message::Progress(Progress {
            position: u64::MAX,
            received_bytes: u64::MAX,
            duplicate_blocks: u64::MAX,
            dropped_packets: u64::MAX,
            disk_wait_ms: u64::MAX,
            at_us: u64::MAX,
        }));
        peer.say(&Message::EndOfRetransmissionRequests);
    }
    peers.into_iter().for_each(Peer::leave);
    let receivers = sending.finish().progress.receivers;
    let sum = |count: fn(&ReceiverProgress) -> u64| {
        receivers.iter().map(count).try_fold(0, |sum: u64, count| sum.checked_add(count))
    };
    assert_eq!(sum(|receiver| receiver.received_bytes), Some(2 * SIZE as u64));
    assert!(sum(|receiver| receiver.duplicate_blocks).is_some_and(|sum| sum > 0));
    assert!(sum(|receiver| receiver.dropped_packets).is_some_and(|sum| sum > 0));
}
