//! Faults of a MEADcast network while `treecast mead` sends in it: routes follow, and every receiver is served again when
//! the next discovery is over. Needs root.

use std::{
    fs,
    net::UdpSocket,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    child::{PrivateFile, Teller, longest_silence},
    session::{Scratch, finish_well, only_refused, start, treecast, wait_until},
    site::Site,
};
use serde_json::Value;
use treecast_host::option;
use treecast_lab::{
    Role, Topology,
    events::{Attack, Event, Fault, Forgery, agenda},
};

const PORT: u16 = 5000;
const RECEIVERS: [&str; 3] = ["c20-1", "c20-2", "c20-3"];

/// c10-1 - r10 - r1 - r2 - r20 - three receivers, and a way around from r1 to r2 by r3.
const NETWORK: &str = r#"{
    "stub_range": "fd14:0::/32", "tran_range": "fd14:0::/32",
    "stubs": [
        { "id": 10, "mask": 112, "area": 1, "router": 10, "clients": 2 },
        { "id": 20, "mask": 112, "area": 2, "router": 20, "clients": 3 }
    ],
    "trans": [ [[1, 10], 1], [[1, 2], 0], [[1, 3], 0], [[2, 3], 0], [[2, 20], 2] ],
    "area_boundary": [ { "id": 1, "area": 1, "mask": 96 }, { "id": 2, "area": 2, "mask": 96 } ]
}"#;

fn site() -> Site {
    let scratch = Scratch::new();
    fs::write(scratch.path("small.json"), NETWORK).unwrap();
    let topology = Topology::parse(&format!("testbed:{}", scratch.arg("small.json"))).unwrap();
    Site::with(scratch, &topology)
}

fn start_routers(site: &Site, arguments: &[&str]) {
    for node in site.lab().nodes().iter().filter(|node| node.role == Role::Router) {
        let mut command = treecast();
        command.args(["router", "run", "--all"]).args(arguments);
        let mut daemon = site.lab().start_daemon(&node.name, command).unwrap();
        daemon.wait_for_line("ready", Duration::from_secs(60)).unwrap();
    }
}

/// By which interface r1 sends to the first receiver.
fn way_of_r1(site: &Site) -> String {
    let mut command = Command::new("ip");
    command.args(["-6", "route", "get", &site.address(RECEIVERS[0])]).stdout(Stdio::piped());
    let output = site.lab().spawn("r1", command).unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut words = said.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).unwrap_or_else(|| panic!("{said:?}")).to_owned()
}

/// A command that begins or ends a fault.
fn fault(site: &Site, place: &str, fault: &str) -> Command {
    let mut command = site.scratch.command(["lab", "fault", site.lab().name(), place, fault]);
    command.env("TREECAST_LAB_STATE", site.scratch.path("state"));
    command
}

/// `treecast mead` with a datagram every few milliseconds, numbered, and what each receiver has heard.
struct Stream {
    sender: Teller,
    last_group: Value,
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    program: Option<thread::JoinHandle<()>>,
    receivers: Vec<UdpSocket>,
}

impl Stream {
    fn start(site: &Site, arguments: &[&str]) -> Self {
        let mut command = site.command("c10-1", "mead --json --print-tree --interval 1 --timeout 0.4");
        command.args(arguments).args(RECEIVERS.map(|node| site.address(node))).arg(PORT.to_string());
        let receivers = RECEIVERS.map(|node| {
            let address = (site.lab().node(node).unwrap().v6().unwrap(), PORT);
            let socket = site.lab().enter(node, || UdpSocket::bind(address)).unwrap().unwrap();
            option::grow_receive_buffer(&socket, 4 << 20).unwrap();
            socket
        });
        let sender = Teller::start(&mut command);
        let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut this =
            Self { sender, last_group: Value::Null, sent, stop, program: None, receivers: receivers.into() };
        this.next("ready");
        let socket = site.lab().enter("c10-1", || UdpSocket::bind("[::]:0")).unwrap().unwrap();
        socket.connect("[fd15::1]:7777").unwrap();
        let (sent, stop) = (Arc::clone(&this.sent), Arc::clone(&this.stop));
        this.program = Some(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                // A device that is gone is seen by what does not arrive.
                let _ = socket.send(&number.to_be_bytes());
                thread::sleep(Duration::from_millis(5));
            }
        }));
        this.discover(2);
        this
    }

    fn next(&mut self, kind: &str) -> Value {
        loop {
            let event = self.sender.any();
            if event["event"] == "group" {
                self.last_group = event.clone();
            }
            if event["event"] == kind {
                return event;
            }
        }
    }

    /// Waits until so many discoveries are over, each with the group that came of it.
    fn discover(&mut self, count: usize) {
        (0..count).for_each(|_| drop(self.next("tree")));
        // The group is told behind the tree, where there is a new one; what follows is the next tree.
        self.next("tree");
    }

    /// Waits for two discoveries, and then for these routers in the group's packets. On a busy machine a router's answer may be late
    /// for some discoveries.
    #[track_caller]
    fn expect_routers(&mut self, expected: &[String], what: &str) {
        self.discover(2);
        let mut more = 0;
        while self.routers() != expected {
            assert!(more < 30, "{what}: {:?} and not {expected:?}", self.routers());
            self.next("tree");
            more += 1;
        }
    }

    /// Waits until each receiver has heard 20 datagrams running that are sent from now on.
    fn check_that_all_hear(&self, what: &str) {
        self.forget_all();
        let from = self.sent.load(Ordering::Relaxed) + 1;
        for (socket, node) in self.receivers.iter().zip(RECEIVERS) {
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut next = None;
            loop {
                let mut number = [0; 8];
                socket.recv(&mut number).unwrap_or_else(|error| panic!("{what}: {node}: {error}"));
                let number = u64::from_be_bytes(number);
                if number < from {
                    continue;
                }
                assert_eq!(number, next.unwrap_or(number), "{what}: {node} lacks some, or has one twice");
                next = Some(number + 1);
                if number >= from + 40 {
                    break;
                }
            }
        }
    }

    /// Takes all that has come to the receivers. What comes to a full socket is lost.
    fn forget_all(&self) {
        for socket in &self.receivers {
            socket.set_nonblocking(true).unwrap();
            while socket.recv(&mut [0; 8]).is_ok() {}
            socket.set_nonblocking(false).unwrap();
        }
    }

    /// Whether somebody hears nothing for a while.
    fn somebody_is_deaf(&self) -> bool {
        self.forget_all();
        self.receivers.iter().any(|socket| {
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket.recv(&mut [0; 8]).is_err()
        })
    }

    /// Routers named in the last group's packets.
    fn routers(&self) -> Vec<String> {
        let lists = self.last_group["lists"].as_array().unwrap().iter();
        let entries = lists.flat_map(|list| list["routers"].as_array().unwrap().iter());
        entries.map(|entry| entry["router"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends the sender, and returns its counters.
    fn end(mut self) -> Value {
        self.sender.child.signal(libc::SIGTERM);
        self.next("done")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.child.end();
        let _ = self.program.take().map(thread::JoinHandle::join);
    }
}

fn node(name: &str) -> String {
    name.to_owned()
}

#[test]
fn routes_follow_a_link_that_is_down_and_not_one_that_fails() {
    let site = site();
    let reaches = |expected: bool| {
        let receiver = site.lab().node(RECEIVERS[0]).unwrap().v6().unwrap();
        let to = site.lab().enter(RECEIVERS[0], || UdpSocket::bind((receiver, PORT))).unwrap().unwrap();
        let from = site.lab().enter("c10-1", || UdpSocket::bind("[::]:0")).unwrap().unwrap();
        to.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let tries = if expected { 50 } else { 3 };
        let arrives = |_| from.send_to(b"there?", (receiver, PORT)).is_ok() && to.recv(&mut [0; 16]).is_ok();
        assert_eq!((0..tries).any(arrives), expected);
    };
    let change = |place: &str, what: &str| _ = finish_well(start(&mut fault(&site, place, what)));
    reaches(true);
    assert_eq!(way_of_r1(&site), "r2");
    for (changes, way, is_reached) in [
        (&["down"][..], "r3", true),
        (&["up"], "r2", true),
        (&["fail"], "r2", false),
        (&["avoid"], "r3", true),
        (&["mend", "take"], "r2", true),
    ] {
        changes.iter().for_each(|what| change("r1-r2", what));
        assert_eq!(way_of_r1(&site), way, "{changes:?}");
        reaches(is_reached);
    }
    for (place, what, words) in [
        ("r1-r9", "down", "no link r1-r9 between two nodes: it has r1-r10, r1-r2, "),
        ("net20", "fail", "a LAN's cables have a node and an interface"),
        ("r9", "firewall", "has no node r9"),
        ("r2", "router-off", "no MEADcast router answers here"),
        ("r2", "router-start", "no fault has ended it"),
    ] {
        only_refused(&mut fault(&site, place, what), &[words]);
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn every_receiver_is_served_again_after_the_next_discovery_whatever_breaks() {
    let site = site();
    start_routers(&site, &[]);
    let mut stream = Stream::start(&site, &[]);
    // The last router before the receivers, by its own address.
    let r20 = site.address("r20");
    let first = [r20.clone()];
    stream.expect_routers(&first, "before");
    stream.check_that_all_hear("before");

    let down = Fault::Down { link: node("r1-r2") };
    let faults = [
        (down, &r20),
        (Fault::Firewall { node: node("r2"), interface: Some(node("r1")) }, &site.address("r1")),
        (Fault::RouterOff { node: node("r20") }, &site.address("r2")),
        (Fault::RouterKilled { node: node("r20") }, &site.address("r2")),
        (Fault::RouterGone { node: node("r20") }, &site.address("r2")),
    ];
    for (fault, router) in faults {
        let avoid = matches!(fault, Fault::Down { .. }).then(|| Fault::Avoid { link: node("r1-r2") });
        site.lab().begin(&fault).unwrap();
        avoid.iter().for_each(|avoid| drop(site.lab().begin(avoid).unwrap()));
        stream.expect_routers(std::slice::from_ref(router), &fault.to_string());
        stream.check_that_all_hear(&fault.to_string());
        site.lab().end(&fault).unwrap();
        avoid.iter().for_each(|avoid| site.lab().end(avoid).unwrap());
        stream.expect_routers(&first, &format!("after {fault}"));
        stream.check_that_all_hear(&format!("after {fault}"));
    }
    // No router can help where all that is asked behind the first link is dropped.
    let firewall = Fault::Firewall { node: node("r10"), interface: Some(node("net10")) };
    site.lab().begin(&firewall).unwrap();
    stream.expect_routers(&[], "no router");
    assert_eq!(stream.last_group["unicast"].as_array().unwrap().len(), 3);
    stream.check_that_all_hear("by unicast");
}

/// An experiment ends its routers before it starts them with other settings. One that a fault has ended is started again by
/// the fault's end.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_router_that_a_fault_had_ended_does_not_outlive_the_others() {
    let site = site();
    start_routers(&site, &[]);
    let fault = Fault::RouterGone { node: node("r2") };
    drop(site.lab().begin(&fault).unwrap());
    site.lab().end(&fault).unwrap();
    site.lab().kill_mead_routers().unwrap();
    start_routers(&site, &[]);
}

fn forgery(site: &Site) -> Fault {
    Fault::Forge(Forgery {
        node: node("c10-2"),
        to: node("c10-1"),
        router: site.address("c10-2"),
        receivers: RECEIVERS.map(node).into(),
        hops: 9,
        every: Duration::from_millis(50),
    })
}

fn attack(site: &Site, fault: &Fault) -> Attack {
    site.lab().begin(fault).unwrap().expect("it goes on")
}

/// What the thesis found (5.1.4): who forges responses cuts receivers off.
#[test]
fn without_a_key_a_forger_is_believed_until_it_is_silent() {
    let site = site();
    start_routers(&site, &[]);
    let mut stream = Stream::start(&site, &[]);
    let forger = attack(&site, &forgery(&site));
    stream.expect_routers(&[site.address("c10-2")], "the forger");
    assert!(stream.somebody_is_deaf());
    drop(forger);
    stream.expect_routers(&[site.address("r20")], "after the forger");
    stream.check_that_all_hear("after the forger");
}

#[test]
fn with_a_key_forged_and_replayed_responses_change_nothing_and_are_counted() {
    let site = site();
    let key = PrivateFile::key();
    start_routers(&site, &["--key", &key]);
    let mut stream = Stream::start(&site, &["--key", &key]);
    stream.expect_routers(&[site.address("r20")], "before");
    let group = stream.last_group.clone();
    let replay =
        Fault::Replay { node: node("r10"), interface: Some(node("r1")), after: Duration::from_secs(1) };
    let attacks = [attack(&site, &forgery(&site)), attack(&site, &replay)];
    stream.discover(4);
    stream.check_that_all_hear("under attack");
    assert!(attacks.iter().all(|attack| attack.sent() > 0));
    drop(attacks);
    stream.expect_routers(&[site.address("r20")], "after the attacks");
    assert_eq!(stream.last_group, group);
    let done = stream.end();
    assert!(done["unproved"].as_u64() > Some(0) && done["replayed"].as_u64() > Some(0), "{done}");
    assert_eq!(done["forged"], 0);
}

#[test]
fn an_agenda_is_carried_out_and_undone_in_its_order() {
    let site = site();
    let events = serde_json::json!([
        { "at": "1s", "link": "r1-r2", "fault": "down", "noticed": "500ms" },
        { "at": "2s", "until": "3s", "link": "r2-r3", "fault": "fail" },
    ]);
    let events: Vec<Event> = serde_json::from_value(events).unwrap();
    let (mut told, mut ongoing) = (Vec::new(), Vec::new());
    for step in agenda(&events).into_iter().take_while(|step| step.at <= Duration::from_secs(2)) {
        told.push(step.to_string());
        ongoing.push((site.lab().begin(&step.fault).unwrap(), step.fault));
    }
    assert_eq!(way_of_r1(&site), "r3");
    for (held, fault) in ongoing {
        drop(held);
        site.lab().end(&fault).unwrap();
    }
    assert_eq!(told, ["r1-r2 down", "r1-r2 avoid", "r2-r3 fail"]);
    assert_eq!(way_of_r1(&site), "r2");
    let from = site.lab().enter("c10-1", || UdpSocket::bind("[::]:0")).unwrap().unwrap();
    let r3 = site.lab().node("r3").unwrap().v6().unwrap();
    let to = site.lab().enter("r3", || UdpSocket::bind((r3, PORT))).unwrap().unwrap();
    to.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let arrives = || from.send_to(b"there?", (r3, PORT)).is_ok() && to.recv(&mut [0; 8]).is_ok();
    wait_until("r2-r3 and r1-r3 work again", arrives);
}

/// Long enough for a busy machine. What is measured is printed: less than half a second where nothing else runs.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_file_by_meadcast_goes_on_whatever_breaks_in_mid_transfer() {
    let site = site();
    start_routers(&site, &[]);
    site.scratch.file("file", 8_000_000);
    let faults = [
        Fault::Firewall { node: node("r2"), interface: Some(node("r1")) },
        Fault::RouterGone { node: node("r20") },
        Fault::RouterOff { node: node("r20") },
        Fault::Down { link: node("r1-r2") },
    ];
    for fault in faults {
        let _ = fs::remove_file(site.scratch.path("ticket"));
        let interface = |node: &str| site.lab().node(node).unwrap().interfaces[0].name.clone();
        let to = RECEIVERS.map(|node| site.address(node)).join(",");
        let mut sender = Teller::start(&mut site.command(
            "c10-1",
            format!(
                "send --json --fanout mead --rate 15M --receivers {to} --ticket-file ticket file --interface {}",
                interface("c10-1")
            ),
        ));
        sender.next("ticket");
        site.scratch.wait_for_ticket();
        let into = |node: &str| format!("{node}-{}", fault.words()[0]);
        let receivers = RECEIVERS.map(|node| {
            let args = format!("--name {node} --into {} --interface {}", into(node), interface(node));
            Teller::start(&mut site.command(node, format!("receive --json {args} @ticket")))
        });
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (site, stop) = (&site, &stop);
            let silences = RECEIVERS
                .map(|node| scope.spawn(move || site.lab().enter(node, || longest_silence(stop)).unwrap()));
            for _ in RECEIVERS {
                sender.wait_for(|event| event["event"] == "way" && event["way"] == "mead");
            }
            thread::sleep(Duration::from_millis(500));
            site.lab().begin(&fault).unwrap();
            if let Fault::Down { link } = &fault {
                site.lab().begin(&Fault::Avoid { link: link.clone() }).unwrap();
            }
            sender.next("object");
            stop.store(true, Ordering::Relaxed);
            let silences = silences.map(|silence| silence.join().unwrap());
            println!("{fault}: longest time without data at each receiver {silences:?}");
            assert!(silences.iter().all(|silence| *silence < LONGEST_SILENCE), "{fault}: {silences:?}");
        });
        site.lab().end(&fault).unwrap();
        for mut receiver in receivers {
            receiver.next("done");
        }
        RECEIVERS
            .iter()
            .for_each(|node| site.scratch.assert_file(&format!("{}/file", into(node)), 8_000_000));
    }
}
