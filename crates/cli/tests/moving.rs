//! Receivers whose address changes, whose cable is cut, or whose connection a device on the way forgets: they come back by
//! themselves, and the others do not notice. Needs root.

mod child;
mod session;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use session::{Guarded, Scratch, contents, finish_well, path, start, wait_until};
use treecast_wire::ticket::Ticket;

const SIZE: usize = 10_000_000;

/// Four seconds for the file.
const RATE: [&str; 2] = ["--rate", "20M"];

/// The shortest that can be asked for.
const STALL_LIMIT: [&str; 2] = ["--stall-limit", "10"];

/// What a device does that translates addresses: it passes connections on, and forgets them when it is told to, so that
/// nothing comes through any more while both ends still believe in them.
struct Translator {
    address: SocketAddr,
    /// How many connections it has passed on, and how many of them it has forgotten.
    connections: Arc<AtomicUsize>,
    forgotten: Arc<AtomicUsize>,
}

impl Translator {
    fn to(sender: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let translator = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            forgotten: Arc::default(),
        };
        let (connections, forgotten) = (translator.connections.clone(), translator.forgotten.clone());
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, number) = (near.unwrap(), connections.fetch_add(1, Ordering::SeqCst));
                let Ok(far) = TcpStream::connect(sender) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let forgotten = forgotten.clone();
                    std::thread::spawn(move || {
                        pass_on(from, to, || number < forgotten.load(Ordering::SeqCst))
                    });
                }
            }
        });
        translator
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn forget_all(&self) {
        self.forgotten.store(self.connections(), Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, is_forgotten: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        if is_forgotten() {
            // Nobody hears of it, not even that this thread has ended.
            std::mem::forget((from, to));
            return;
        }
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

#[test]
fn a_receiver_whose_connection_is_forgotten_on_the_way_comes_back() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let file = scratch.file("file", SIZE);
        let sender = scratch.send(&[&RATE[..], &["--wait", "2"], more, &[path(&file)]].concat());
        let mut ticket: Ticket = fs::read_to_string(scratch.path("ticket")).unwrap().trim().parse().unwrap();
        let translator = Translator::to(ticket.control[0]);
        ticket.control = vec![translator.address];
        let steady = scratch.receive("steady", &[]);
        let mut command = scratch.receive_command("moved");
        let moved = start(command.args(STALL_LIMIT).arg(ticket.to_string()));
        wait_until("some of it has come", || scratch.parts("moved") > 0);
        translator.forget_all();
        finish_well(steady);
        assert_eq!(translator.connections(), 1, "the steady receiver has not waited for the other: {more:?}");
        finish_well(moved);
        assert!(translator.connections() > 1, "{more:?}");
        let told = finish_well(sender);
        assert!(told.contains("it has come again, over another connection"), "{more:?}: {told}");
        assert!(fs::read(scratch.path("moved/file")).unwrap() == contents(SIZE), "{more:?}");
    }
}

/// A sender and receivers on one Ethernet, each receiver in a network namespace of its own. Removed when dropped.
struct Network {
    sender: String,
    receivers: Vec<String>,
}

impl Network {
    /// Receiver `n` has the address 10.79.0.`n + 2` and the cable `n`.
    fn new(receivers: usize) -> Self {
        let name = |end: &str| format!("tcmov{}{end}", std::process::id());
        let receivers = (0..receivers).map(|number| name(&number.to_string())).collect();
        let network = Self { sender: name("s"), receivers };
        let sender = &network.sender;
        for namespace in network.receivers.iter().chain([sender]) {
            let status = Command::new("ip").args(["netns", "add", namespace]).status().unwrap();
            assert!(status.success(), "no namespace: this test needs root");
        }
        ip(sender, "link add lan0 type bridge");
        ip(sender, "addr add 10.79.0.1/24 dev lan0");
        ip(sender, "link set lan0 up");
        for (number, receiver) in network.receivers.iter().enumerate() {
            ip(sender, &format!("link add cable{number} type veth peer name eth0 netns {receiver}"));
            ip(sender, &format!("link set cable{number} master lan0 up"));
            ip(receiver, &format!("addr add 10.79.0.{}/24 dev eth0", number + 2));
            ip(receiver, "link set eth0 up");
        }
        network
    }

    /// A program in one of the namespaces.
    fn treecast(&self, namespace: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_treecast")]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.receivers.iter().chain([&self.sender]) {
            _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

fn ip(namespace: &str, what: &str) {
    let status = Command::new("ip").args(["-n", namespace]).args(what.split(' ')).status().unwrap();
    assert!(status.success(), "{what}");
}

#[test]
fn receivers_whose_address_changes_or_whose_cable_is_cut_come_back_and_the_others_do_not_notice() {
    let (scratch, network) = (Scratch::new(), Network::new(3));
    let (file, ticket) = (scratch.file("file", SIZE), scratch.path("ticket"));
    let mut command = network.treecast(&network.sender);
    command.args(["send", "--interface", "lan0", "--group", "239.79.0.1", "--wait", "3"]).args(RATE);
    let sender = start(command.arg("--ticket-file").arg(&ticket).arg(file));
    wait_until("the ticket is written", || ticket.exists());
    let receive = |number: usize| -> (PathBuf, Guarded) {
        let into = scratch.path(&format!("into{number}"));
        let mut command = network.treecast(&network.receivers[number]);
        command.arg("receive").args(STALL_LIMIT).arg("--into").arg(&into);
        (into, start(command.arg(format!("@{}", ticket.display()))))
    };
    let [(_, steady), (moved_into, moved), (cut_into, cut)] = [0, 1, 2].map(receive);
    wait_until("some of it has come", || (0..3).all(|number| scratch.parts(&format!("into{number}")) > 0));
    ip(&network.receivers[1], "addr del 10.79.0.3/24 dev eth0");
    ip(&network.receivers[1], "addr add 10.79.0.77/24 dev eth0");
    ip(&network.sender, "link set cable2 down");
    finish_well(steady);
    assert!(!cut_into.join("file").exists(), "the steady receiver has not waited for it");
    let told = finish_well(moved);
    assert!(told.contains("this host has the address 10.79.0.3 no more"), "{told}");
    // For longer than its stall limit, so that it looks for the sender while there is no way to it.
    std::thread::sleep(Duration::from_secs(11));
    ip(&network.sender, "link set cable2 up");
    finish_well(cut);
    let told = finish_well(sender);
    assert_eq!(told.matches(" joined from ").count(), 5, "{told}");
    for into in [moved_into, cut_into] {
        assert!(fs::read(into.join("file")).unwrap() == contents(SIZE));
    }
}
