//! Carousels over loopback, where everybody hears everything and nobody reports listeners.

use std::{
    cell::RefCell,
    fs::{self, File},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Mutex, mpsc},
    thread::{self, Scope, ScopedJoinHandle},
    time::Duration,
};

use treecast_driver::{
    carousel::FrameHash,
    receive::{self, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveSummary},
    remedies::{Advised, Remedy},
    seal::{Sealer, Secret},
    security::Identity,
    send::{
        self, Carousel, CarouselOptions, Dialect, NetworkOptions, Plan, SendError, SendOptions, SendSecurity,
        SendSummary, SessionKind, SteadyPace,
    },
    udp::{
        DEFAULT_MULTICAST_HOPS, GroupAddress, Offload, Transmitter, open_group_receiver, open_group_sender,
    },
};
use treecast_host::{interface::Interface, stop::Stop};
use treecast_wire::{
    header::{FileId, Header, PacketType, SessionId},
    iotup,
    message::{BeginOfFile, Digest, GroupKey, Message, TransferType},
    seal::Prefix,
    ticket::Ticket,
};

/// One test's group, folder and data.
struct Bench {
    folder: PathBuf,
    group: GroupAddress,
    fec: bool,
    loops: Option<u64>,
    is_plain: bool,
    dialect: Dialect,
    /// What is sent, and the ticket for it.
    path: PathBuf,
    ticket: Option<Ticket>,
    /// The session of the first sender, until that one begins.
    plan: Mutex<Option<Plan>>,
}

impl Bench {
    fn new(number: u8) -> Self {
        let folder = std::env::temp_dir().join(format!("treecast-carousel-{number}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("from/deep")).unwrap();
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let group = GroupAddress {
            group: SocketAddr::new(
                IpAddr::V4(Ipv4Addr::new(239, 254, high, low)),
                22_000 + u16::from(number),
            ),
            source: None,
            interface: Interface::named("lo").unwrap(),
        };
        Self {
            path: folder.clone(),
            folder,
            group,
            fec: false,
            loops: None,
            is_plain: false,
            dialect: Dialect::Session,
            ticket: None,
            plan: Mutex::new(None),
        }
    }

    fn write(&self, name: &str, len: usize) {
        let bytes: Vec<u8> = (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(self.folder.join("from").join(name), bytes).unwrap();
    }

    fn options(&self) -> SendOptions {
        let is_ours = self.dialect == Dialect::Session;
        let mut carousel = CarouselOptions::default();
        carousel.idle = Duration::from_secs(1);
        carousel.loops = self.loops;
        carousel.dialect = self.dialect;
        SendOptions {
            network: NetworkOptions {
                group: Some(self.group.group.ip()),
                port: Some(self.group.group.port()),
                interface: Some("lo".into()),
                block_len: is_ours.then_some(1420),
                ..NetworkOptions::default()
            },
            security: (is_ours && !self.is_plain).then(SendSecurity::default),
            kind: SessionKind::Carousel(Carousel {
                options: carousel,
                pace: SteadyPace::Fixed(200_000_000),
                is_coded: self.fec,
            }),
            session_file: is_ours.then(|| self.folder.join("session")),
            ..SendOptions::new(vec![self.path.clone()])
        }
    }

    /// Begins the session of the folder or file at `path`, so that there is a ticket before anybody sends.
    fn begin(&mut self, path: &str) {
        self.path = self.folder.join(path);
        let plan = Plan::new(&self.options(), &Stop::new().unwrap()).unwrap();
        self.ticket = Some(plan.ticket(Vec::new()));
        self.plan = Mutex::new(Some(plan));
    }

    fn ticket(&self) -> Ticket {
        self.ticket.clone().unwrap()
    }

    fn session(&self) -> SessionId {
        self.ticket().session
    }

    /// What the session's packets are sealed with.
    fn secret(&self) -> [u8; 32] {
        self.ticket().security.unwrap().secret.unwrap()
    }

    fn send(&self, stop: &Stop) -> Result<SendSummary, SendError> {
        let plan = self.plan.lock().unwrap().take();
        send::hold(plan.map_or_else(|| Plan::new(&self.options(), stop), Ok)?, stop, &mut |_| {})
    }

    fn receive_options(&self, into: &str) -> ReceiveOptions {
        ReceiveOptions {
            interface: Some("lo".into()),
            connect_timeout: Duration::from_secs(20),
            ..ReceiveOptions::new(self.ticket(), self.folder.join(into))
        }
    }

    fn receive(&self, into: &str) -> Result<ReceiveSummary, ReceiveError> {
        receive::run(&self.receive_options(into), &Stop::new().unwrap(), &mut |_| {})
    }

    /// Starts to receive into `a`, and returns when the receiver listens.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut on_event: impl FnMut(ReceiveEvent) + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, ReceiveSummary> {
        let (listens, listening) = mpsc::channel();
        let receiver = scope.spawn(move || {
            let mut tell = |event| match event {
                ReceiveEvent::Joined { .. } => listens.send(()).unwrap(),
                event => on_event(event),
            };
            receive::run(&self.receive_options("a"), &Stop::new().unwrap(), &mut tell).unwrap()
        });
        listening.recv().unwrap();
        receiver
    }

    /// Receives into `a`. `before` runs when the receiver listens, and `meanwhile` when the sender has begun; it may ask whether
    /// the receiver has ended.
    fn deliver(&self, before: impl FnOnce(), meanwhile: impl FnOnce(&dyn Fn() -> bool)) -> ReceiveSummary {
        let stop = Stop::new().unwrap();
        thread::scope(|scope| {
            let receiver = self.start(scope, |_| {});
            before();
            let sender = scope.spawn(|| self.send(&stop));
            meanwhile(&|| receiver.is_finished());
            let summary = receiver.join().unwrap();
            stop.request();
            sender.join().unwrap().unwrap();
            summary
        })
    }

    /// A way into the group for packets that are not the sender's.
    fn transmitter(&self) -> Transmitter {
        let socket = open_group_sender(&self.group, DEFAULT_MULTICAST_HOPS).unwrap();
        Transmitter::new(socket, Offload::SuperPackets)
    }

    fn assert_same(&self, from: &str, copy: &str) {
        let read = |path: &Path| fs::read(self.folder.join(path)).unwrap();
        assert!(read(Path::new(from)) == read(Path::new(copy)), "{copy}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn receivers_that_join_at_different_times_get_all_objects() {
    let mut bench = Bench::new(0);
    bench.write("large", 9_000_001);
    bench.write("deep/small", 1);
    bench.write("empty", 0);
    bench.begin("from");
    let bench = &bench;
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(|| bench.send(&stop));
        let receivers: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|into| {
                thread::sleep(Duration::from_millis(130));
                scope.spawn(|| bench.receive(into))
            })
            .collect();
        for receiver in receivers {
            let summary = receiver.join().unwrap().unwrap();
            assert!(summary.is_complete(), "{summary:?}");
            assert_eq!(summary.received, 3);
            assert_eq!(summary.progress.received_bytes, 9_000_002);
        }
        stop.request();
        let summary = sender.join().unwrap().unwrap();
        assert!(summary.interrupted && summary.progress.sent_bytes > 9_000_002, "{summary:?}");
    });
    for into in ["a", "b", "c"] {
        for name in ["large", "deep/small", "empty"] {
            bench.assert_same(&format!("from/{name}"), &format!("{into}/from/{name}"));
        }
        assert_eq!(fs::read_dir(bench.folder.join(into)).unwrap().count(), 1, "no temporary files");
    }
}

/// Three source blocks, of which one and a half are zeros.
#[test]
fn symbols_of_zeros_are_symbols() {
    const SIZE: usize = 9_000_000;
    for (number, is_plain) in [(14, false), (15, true)] {
        let mut bench = Bench::new(number);
        (bench.fec, bench.is_plain, bench.loops) = (true, is_plain, Some(40));
        bench.write("file", SIZE / 2);
        File::options()
            .write(true)
            .open(bench.folder.join("from/file"))
            .unwrap()
            .set_len(SIZE as u64)
            .unwrap();
        bench.begin("from/file");
        // Who goes on with a session sends symbols alone.
        bench.plan.lock().unwrap().take().unwrap().keep_session(&[]).unwrap();
        let summary = bench.deliver(|| {}, |_| {});
        assert!(summary.is_complete(), "plain {is_plain}: {summary:?}");
        assert_eq!(summary.progress.decoded_blocks, SIZE.div_ceil(1420) as u64, "plain {is_plain}");
        assert_eq!(summary.progress.wrong_chunks, 0, "plain {is_plain}");
        bench.assert_same("from/file", "a/file");
    }
}

/// Nothing in a frame says which hash it carries: the receiver finds out.
#[test]
fn the_iot_updaters_frames_carry_one_file_and_either_hash() {
    for (number, frame_hash) in [(1, FrameHash::Blake2b), (12, FrameHash::Blake3)] {
        one_file_in_frames(number, frame_hash);
    }
}

fn one_file_in_frames(number: u8, frame_hash: FrameHash) {
    let mut bench = Bench::new(number);
    bench.dialect = Dialect::Iotup(frame_hash);
    bench.group.group.set_port(iotup::PORT);
    bench.write("image", 3_000_007);
    bench.begin("from/image");
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(|| bench.send(&stop));
        thread::sleep(Duration::from_millis(60));
        let options = ReceiveOptions {
            dialect: receive::Dialect::Iotup { name: "firmware".into() },
            ..bench.receive_options("a")
        };
        let summary = receive::run(&options, &Stop::new().unwrap(), &mut |_| {}).unwrap();
        assert!(summary.is_complete(), "{summary:?}");
        stop.request();
        sender.join().unwrap().unwrap();
    });
    bench.assert_same("from/image", "a/firmware");
}

#[test]
fn a_file_that_shrinks_is_withdrawn_and_nothing_is_left_of_it() {
    let mut bench = Bench::new(2);
    bench.write("large", 40_000_000);
    bench.begin("from/large");
    let stop = Stop::new().unwrap();
    let shrink = |event| {
        if let ReceiveEvent::Announced { .. } = event {
            let file = fs::File::options().write(true).open(bench.folder.join("from/large")).unwrap();
            file.set_len(20_000_000).unwrap();
        }
    };
    thread::scope(|scope| {
        let receiver = bench.start(scope, shrink);
        let sender = scope.spawn(|| bench.send(&stop));
        let summary = receiver.join().unwrap();
        assert!(!summary.is_complete() && summary.failed == 1, "{summary:?}");
        // Its only object is withdrawn, so it ends by itself.
        assert!(!sender.join().unwrap().unwrap().interrupted);
    });
    assert_eq!(fs::read_dir(bench.folder.join("a")).unwrap().count(), 0);
}

#[test]
fn a_sender_that_is_silent_is_given_up() {
    let mut bench = Bench::new(3);
    bench.is_plain = true;
    bench.write("file", 1);
    bench.begin("from");
    let options =
        ReceiveOptions { connect_timeout: Duration::from_millis(200), ..bench.receive_options("a") };
    let mut warnings = Vec::new();
    let mut on_event = |event| {
        if let ReceiveEvent::Warning(line) = event {
            warnings.push(line);
        }
    };
    let summary = receive::run(&options, &Stop::new().unwrap(), &mut on_event).unwrap();
    let silent = Advised::by(Remedy::Patience, "nothing has come from the sender for 0.2 s");
    assert_eq!(summary.cut_short, Some(silent));
    assert!(warnings.iter().any(|line| line.remedy == Some(Remedy::RefusePlain)), "{warnings:?}");
}

#[test]
fn what_has_come_before_a_sender_stopped_need_not_come_again() {
    const SIZE: usize = 40_000_000;
    let mut bench = Bench::new(10);
    bench.write("large", SIZE);
    bench.begin("from/large");
    let (first, second) = (Stop::new().unwrap(), Stop::new().unwrap());
    thread::scope(|scope| {
        let receiver = bench.start(scope, |event| match event {
            ReceiveEvent::Progress(progress) if progress.received_bytes > 0 => first.request(),
            _ => {}
        });
        let sender = scope.spawn(|| bench.send(&first));
        sender.join().unwrap().unwrap();
        let summary = receiver.join().unwrap();
        assert_eq!(summary.cut_short.as_deref(), Some("the sender has stopped"));
        assert!(summary.progress.received_bytes > 0, "{summary:?}");

        let receiver = bench.start(scope, |_| {});
        let sender = scope.spawn(|| bench.send(&second));
        let again = receiver.join().unwrap();
        second.request();
        assert_eq!(again.progress.kept_bytes, summary.progress.received_bytes);
        assert!(again.is_complete(), "{again:?}");
        sender.join().unwrap().unwrap();
    });
    bench.assert_same("from/large", "a/large");
    assert_eq!(fs::read_dir(bench.folder.join("a")).unwrap().count(), 1, "nothing else is left");
}

/// A member has the group's secret, and can say whatever the sender can. What it says first, of name, size and hash, does no
/// harm but for the time of a loop, and a whole sender of its own nothing.
#[test]
fn what_a_member_forges_is_never_accepted() {
    let mut bench = Bench::new(4);
    bench.write("file", 300_000);
    bench.begin("from");
    let forged = |name: &str, size| {
        Message::BeginOfFile(BeginOfFile::new(TransferType::DiskToDisk, size, name).unwrap())
    };
    let file = FileId::new(bench.session(), 0);
    let transmitter = bench.transmitter();
    let mut sealer = Sealer::from_secret(Secret::from(bench.secret())).unwrap();
    let mut say = |message: &Message| {
        let mut sealed = Vec::new();
        sealer.seal_packet(&message.to_packet(file), &mut sealed).unwrap();
        transmitter.send_datagram(bench.group.scoped(), &sealed).unwrap();
    };
    let signed = |signature| Message::Digest(Digest { signature, ..Digest::unsigned([3; 32]) });
    let lies = [forged("from/file", 100), forged("from/evil", 300_000), signed(None), signed(Some([7; 64]))];
    let summary = bench.deliver(|| lies.iter().for_each(&mut say), |_| {});
    assert!(summary.is_complete() && summary.received == 1, "{summary:?}");
    assert!(summary.progress.ignored_packets >= 2, "{summary:?}");
    bench.assert_same("from/file", "a/from/file");
    let mut names: Vec<_> =
        fs::read_dir(bench.folder.join("a/from")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["deep", "file"], "nothing else is there");
}

/// A member says first that an object is larger than any disk, and seals one packet with a counter far ahead of the sender's.
#[test]
fn a_member_can_neither_doom_an_object_nor_hide_what_the_sender_says() {
    let mut bench = Bench::new(11);
    bench.write("file", 3_000_000);
    bench.begin("from");
    let (socket, _) = open_group_receiver(&bench.group, 1 << 20).unwrap();
    let transmitter = bench.transmitter();
    // The last of so many packets is sent.
    let say = |sealer: &mut Sealer, message: &Message, packets: usize| {
        let mut sealed = Vec::new();
        for _ in 0..packets {
            sealed.clear();
            sealer.seal_packet(&message.to_packet(FileId::new(bench.session(), 0)), &mut sealed).unwrap();
        }
        transmitter.send_datagram(bench.group.scoped(), &sealed).unwrap();
    };
    let secret = || Secret::from(bench.secret());
    let hear = || {
        let mut datagram = vec![0; 65_536];
        let len = socket.recv(&mut datagram).unwrap();
        datagram.truncate(len);
        datagram
    };
    let before = || {
        let huge = BeginOfFile::new(TransferType::DiskToDisk, 1 << 50, "from/file").unwrap();
        say(&mut Sealer::from_secret(secret()).unwrap(), &Message::BeginOfFile(huge), 1);
        hear();
    };
    let summary = bench.deliver(before, |_| {
        let prefix = Prefix::parse(&hear()).unwrap();
        let key = GroupKey { id: prefix.key, secret: bench.secret() };
        say(&mut Sealer::for_group(&key), &Message::EndOfFile, 200_000);
    });
    assert!(summary.is_complete() && summary.received == 1, "{summary:?}");
    assert_eq!(summary.progress.replayed_packets, 0, "{summary:?}");
    bench.assert_same("from/file", "a/from/file");
}

/// What a member forges is not what the sender has signed of its blocks, and is dropped.
#[test]
fn what_a_member_forges_costs_nothing() {
    for (number, fec) in [(6, false), (7, true)] {
        let (wrong, ignored) = forged_while_a_file_comes(number, fec, false);
        assert_eq!(wrong, 0, "fec {fec}");
        // As far as they came after the sender's first packet. Of the sender's own, which are more than 4,000, none.
        assert!((1..2_000).contains(&ignored), "fec {fec}: {ignored}");
    }
}

/// In a plain carousel, what anybody forges lies in a few chunks, and these are taken again, from a later loop: once it stops, so
/// does the harm.
#[test]
fn what_anybody_forges_in_a_plain_carousel_costs_its_chunks() {
    for (number, fec) in [(8, false), (9, true)] {
        let (wrong, _) = forged_while_a_file_comes(number, fec, true);
        assert!((3..30).contains(&wrong), "fec {fec}: {wrong} of 92 chunks");
    }
}

/// How many chunks were wrong, and how many packets were ignored.
fn forged_while_a_file_comes(number: u8, fec: bool, is_plain: bool) -> (u64, u64) {
    const SIZE: usize = 6_000_000;
    const CHUNK: u64 = 65_536;
    let mut bench = Bench::new(number);
    (bench.fec, bench.is_plain) = (fec, is_plain);
    bench.write("file", SIZE);
    bench.begin("from/file");
    let mut transmitter = bench.transmitter();
    // A plain carousel's ticket has no secret.
    let secret = bench.ticket().security.and_then(|security| security.secret).unwrap_or_default();
    let mut sealer = Sealer::from_secret(Secret::from(secret)).unwrap();
    let forge = RefCell::new(|position: u64, count: usize| {
        let mut sealed = Vec::new();
        let sequence = position / 1420 * 1420;
        let file_id = FileId::new(bench.session(), 0);
        let first = Header { file_id, sequence, payload_len: 0, kind: PacketType::Data, number: 0 };
        let run = vec![0xee; 1420 * count];
        if is_plain {
            return transmitter.send_blocks(bench.group.scoped(), first, 1420, &run).unwrap();
        }
        sealer.seal_blocks(first, 1420, &run, &mut sealed).unwrap();
        transmitter.send_segments(bench.group.scoped(), Sealer::segment_len(1420), &sealed).unwrap();
    });
    let before = || {
        let places = [(2 * CHUNK, 1), (50 * CHUNK - 9_000, 20), (SIZE as u64 / CHUNK * CHUNK + 1500, 1)];
        places.into_iter().for_each(|(position, count)| forge.borrow_mut()(position, count));
    };
    let summary = bench.deliver(before, |is_over| {
        // A loop takes a quarter of a second. In a plain carousel the forger stops before the receiver gives up; in a secure one
        // it goes on while the file comes, however late a busy machine begins.
        let (most, pause) = if is_plain { (20, 30) } else { (1_800, 5) };
        for _ in 0..most {
            if is_over() {
                break;
            }
            thread::sleep(Duration::from_millis(pause));
            forge.borrow_mut()(2 * CHUNK, 1);
        }
    });
    assert!(summary.is_complete() && summary.received == 1, "{summary:?}");
    bench.assert_same("from/file", "a/file");
    (summary.progress.wrong_chunks, summary.progress.ignored_packets)
}

#[test]
fn a_member_is_no_sender() {
    let mut bench = Bench::new(5);
    bench.write("file", 300_000);
    bench.begin("from");
    let expected = Identity::generate().unwrap().public_key();
    let (stop, enough) = (Stop::new().unwrap(), Stop::new().unwrap());
    thread::scope(|scope| {
        let mut options = bench.receive_options("a");
        if let Some(security) = &mut options.ticket.security {
            security.sender_key = expected.to_bytes();
        }
        let (enough, (ignores, ignored)) = (&enough, mpsc::channel());
        let mut tell = move |event| match event {
            ReceiveEvent::Progress(progress) if progress.ignored_packets > 0 => _ = ignores.send(()),
            _ => {}
        };
        let receiver = scope.spawn(move || receive::run(&options, enough, &mut tell));
        let sender = scope.spawn(|| bench.send(&stop));
        ignored.recv_timeout(Duration::from_secs(60)).unwrap();
        thread::sleep(Duration::from_secs(1));
        enough.request();
        let summary = receiver.join().unwrap().unwrap();
        stop.request();
        sender.join().unwrap().unwrap();
        assert!(summary.received == 0 && summary.progress.ignored_packets > 0, "{summary:?}");
        assert_eq!(summary.progress.received_bytes, 0, "all of it came, and none was taken");
    });
    assert!(!bench.folder.join("a/from/file").exists());
}
