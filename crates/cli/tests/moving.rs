//! Receivers whose address changes, whose cable is cut, or whose connection a device on the way forgets: they come back by
//! themselves, and the others do not notice. Needs root.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    mroute_network::Network,
    session::{Guarded, Scratch, all_well, assert_says, finish_well, start},
};

const SIZE: usize = 10_000_000;

/// Four seconds for the file, and the shortest limit that can be asked for.
const SEND: &str = "--rate 20M --stall-limit 10";

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

/// Starts a sender behind a translator for two receivers. The ticket is for whoever comes by way of the translator.
fn translated(scratch: &Scratch, more: &str) -> (Guarded, Translator, String) {
    scratch.file("file", SIZE);
    let sender = scratch.send(format!("{SEND} --wait 2 {more} file"));
    let mut ticket = scratch.ticket();
    let translator = Translator::to(ticket.control[0]);
    ticket.control = vec![translator.address];
    (sender, translator, ticket.to_string())
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_receiver_whose_connection_is_forgotten_on_the_way_comes_back() {
    for more in ["", "--plain"] {
        let scratch = Scratch::new();
        let (sender, translator, ticket) = translated(&scratch, more);
        let steady = scratch.receive("steady", "");
        let moved = start(&mut scratch.receive_command("moved", format!("--stall-limit 10 {ticket}")));
        scratch.wait_for_part("moved");
        translator.forget_all();
        finish_well(steady);
        assert_eq!(translator.connections(), 1, "the steady receiver has not waited for the other: {more}");
        finish_well(moved);
        assert!(translator.connections() > 1, "{more}");
        assert_says(&finish_well(sender), &["it has come again, over another connection"]);
        scratch.assert_file("moved/file", SIZE);
    }
}

/// It has lost its key with its power, and comes again before the sender misses it.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_machine_that_lost_its_power_and_has_everything_in_the_end_is_no_failure() {
    for more in ["", "--plain"] {
        let scratch = Scratch::new();
        let (sender, translator, ticket) = translated(&scratch, more);
        let other = scratch.receive("other", "");
        let machine =
            |into: &str| start(&mut scratch.receive_command(into, format!("--name machine {ticket}")));
        let first = machine("first");
        scratch.wait_for_part("first");
        translator.forget_all();
        drop(first);
        all_well([machine("second"), other]);
        assert_says(&finish_well(sender), &["2 of 2 receivers"]);
    }
}

#[test]
fn receivers_whose_address_changes_or_whose_cable_is_cut_come_back_and_the_others_do_not_notice() {
    let (scratch, network) = (Scratch::new(), Network::new(&["sw", "s", "c0", "c1", "c2"]));
    network.lan(79, "sw", &["s", "c0", "c1", "c2"]);
    scratch.file("file", SIZE);
    let send = "send --interface sw --group 239.79.0.1 --control 10.0.79.1:0 --wait 3 --rate 20M";
    let sender = network.start("s", &mut scratch.command(format!("{send} --ticket-file ticket file")));
    scratch.wait_for_ticket();
    let [steady, moved, cut] = ["c0", "c1", "c2"].map(|node| {
        let command = format!("receive --interface sw --stall-limit 10 --into {node} @ticket");
        network.start(node, &mut scratch.command(command))
    });
    ["c0", "c1", "c2"].iter().for_each(|node| scratch.wait_for_part(node));
    network.configure("c1", "addr del 10.0.79.3/24 dev sw\naddr add 10.0.79.77/24 dev sw\n");
    network.configure("sw", "link set c2 down\n");
    finish_well(steady);
    assert!(!scratch.path("c2/file").exists(), "the steady receiver has not waited for it");
    assert_says(&finish_well(moved), &["this host has the address 10.0.79.3 no more"]);
    // For longer than its stall limit, so that it looks for the sender while there is no way to it.
    std::thread::sleep(Duration::from_secs(11));
    network.configure("sw", "link set c2 up\n");
    finish_well(cut);
    let told = finish_well(sender);
    assert_eq!(told.matches(" joined from ").count(), 5, "{told}");
    ["c1/file", "c2/file"].iter().for_each(|copy| scratch.assert_file(copy, SIZE));
}
