//! Receivers whose address changes, whose cable is cut, or whose connection a device on the way forgets: they come back by
//! themselves, and the others do not notice. Needs root.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    mroute_network::Network,
    session::{Guarded, Scratch, contents, finish_well, path, start, treecast, wait_until},
};

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
#[ignore = "it takes long: `make test-all` runs it"]
fn a_receiver_whose_connection_is_forgotten_on_the_way_comes_back() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let file = scratch.file("file", SIZE);
        let sender = scratch.send(&[&RATE[..], &["--wait", "2"], more, &[path(&file)]].concat());
        let mut ticket = scratch.ticket();
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

/// It has lost its key with its power, and comes again before the sender misses it.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_machine_that_lost_its_power_and_has_everything_in_the_end_is_no_failure() {
    for more in [&[][..], &["--plain"]] {
        let scratch = Scratch::new();
        let file = scratch.file("file", SIZE);
        let args = [&RATE[..], &STALL_LIMIT, &["--wait", "2"], more, &[path(&file)]].concat();
        let sender = scratch.send(&args);
        let mut ticket = scratch.ticket();
        let translator = Translator::to(ticket.control[0]);
        ticket.control = vec![translator.address];
        let other = scratch.receive("other", &[]);
        let machine = |into: &str| {
            start(scratch.receive_command(into).args(["--name", "machine"]).arg(ticket.to_string()))
        };
        let mut first = machine("first");
        wait_until("some of it has come", || scratch.parts("first") > 0);
        translator.forget_all();
        first.kill().unwrap();
        finish_well(machine("second"));
        finish_well(other);
        let told = finish_well(sender);
        assert!(told.contains("2 of 2 receivers"), "{more:?}: {told}");
    }
}

#[test]
fn receivers_whose_address_changes_or_whose_cable_is_cut_come_back_and_the_others_do_not_notice() {
    const NODES: [&str; 3] = ["c0", "c1", "c2"];
    let (scratch, network) = (Scratch::new(), Network::new(&["sw", "s", "c0", "c1", "c2"]));
    network.lan(79, "sw", &["s", "c0", "c1", "c2"]);
    let (file, ticket) = (scratch.file("file", SIZE), scratch.path("ticket"));
    let mut command = treecast();
    command
        .args([
            "send",
            "--interface",
            "sw",
            "--group",
            "239.79.0.1",
            "--control",
            "10.0.79.1:0",
            "--wait",
            "3",
        ])
        .args(RATE);
    command.arg("--ticket-file").arg(&ticket).arg(file);
    let sender = network.within("s", || start(&mut command));
    wait_until("the ticket is written", || ticket.exists());
    let receive = |number: usize| -> (PathBuf, Guarded) {
        let into = scratch.path(&format!("into{number}"));
        let mut command = treecast();
        command.args(["receive", "--interface", "sw"]).args(STALL_LIMIT).arg("--into").arg(&into);
        command.arg(format!("@{}", ticket.display()));
        (into, network.within(NODES[number], || start(&mut command)))
    };
    let [(_, steady), (moved_into, moved), (cut_into, cut)] = [0, 1, 2].map(receive);
    wait_until("some of it has come", || (0..3).all(|number| scratch.parts(&format!("into{number}")) > 0));
    network.configure("c1", "addr del 10.0.79.3/24 dev sw\naddr add 10.0.79.77/24 dev sw\n");
    network.configure("sw", "link set c2 down\n");
    finish_well(steady);
    assert!(!cut_into.join("file").exists(), "the steady receiver has not waited for it");
    let told = finish_well(moved);
    assert!(told.contains("this host has the address 10.0.79.3 no more"), "{told}");
    // For longer than its stall limit, so that it looks for the sender while there is no way to it.
    std::thread::sleep(Duration::from_secs(11));
    network.configure("sw", "link set c2 up\n");
    finish_well(cut);
    let told = finish_well(sender);
    assert_eq!(told.matches(" joined from ").count(), 5, "{told}");
    for into in [moved_into, cut_into] {
        assert!(fs::read(into.join("file")).unwrap() == contents(SIZE));
    }
}
