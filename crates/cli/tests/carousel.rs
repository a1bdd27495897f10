//! Carousels behind a bridge that snoops: namespaces of this test's own. Needs root.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    child::{Guarded, Teller},
    mroute_network::Network,
    session::{Scratch, assert_says, finish_with},
};

const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];

/// Hosts on one bridge with multicast snooping, each with an interface `b`; and a folder. A lower host number has a lower
/// link-local address, so that host 0 is the querier.
struct Lan {
    network: Network,
    scratch: Scratch,
}

impl Lan {
    fn new(hosts: usize) -> Self {
        Self::on_bridge(hosts, "")
    }

    /// The bridge has more options than that it snoops.
    fn on_bridge(hosts: usize, options: &str) -> Self {
        let hosts = &HOSTS[..hosts];
        let network = Network::new(&[hosts, &["b"]].concat());
        network.lan_on(77, "b", options, hosts);
        network.configure("b", "addr add 10.70.0.1/8 dev lan\n");
        Self { network, scratch: Scratch::new() }
    }

    /// A carousel of the file at host 0, and its ticket.
    fn send(&self, arguments: &str) -> (Teller, String) {
        self.send_from(0, "80M", arguments)
    }

    fn send_from(&self, host: usize, rate: &str, arguments: &str) -> (Teller, String) {
        let idle = if arguments.contains("--idle") { "" } else { "--idle 2" };
        let args = format!(
            "send --repair carousel --json --interface b --rate {rate} {idle} --wait-timeout 60 {arguments} file"
        );
        let mut sender = self.network.tell(HOSTS[host], &mut self.scratch.command(args));
        let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
        (sender, ticket)
    }

    fn receive(&self, host: usize, arguments: &str) -> Guarded {
        let args = format!("receive --json --interface b --into {} {arguments}", HOSTS[host]);
        self.network.start(HOSTS[host], &mut self.scratch.command(args))
    }

    /// Waits for the end of a receiver, which has the whole file.
    #[track_caller]
    fn is_whole(&self, host: usize, receiver: Guarded) {
        finish_with(0, receiver);
        let len = self.scratch.path("file").metadata().unwrap().len();
        self.scratch.assert_file(&format!("{}/file", HOSTS[host]), len as usize);
    }

    /// Bytes that a host's interface has received.
    fn received_bytes(&self, host: usize) -> u64 {
        let interfaces = self.network.within(HOSTS[host], || fs::read_to_string("/proc/thread-self/net/dev"));
        let line =
            interfaces.unwrap().lines().find_map(|line| line.trim().strip_prefix("b:").map(str::to_owned));
        line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// Makes tests of the same with MLD and with IGMP, each with a group of its own.
macro_rules! by_both_protocols {
    ($($test:ident: $proof:ident($($argument:expr),+);)+) => {
        $(#[test]
        fn $test() {
            $proof($($argument),+);
        })+
    };
}

by_both_protocols! {
    listeners_make_the_carousel_turn_by_mld: listeners_make_the_carousel_turn("ff15::7:1");
    listeners_make_the_carousel_turn_by_igmp: listeners_make_the_carousel_turn("239.255.7.1");
    all_senders_pause_when_the_last_listener_leaves_by_mld: all_senders_pause_when_the_last_listener_leaves("ff15::7:2");
    all_senders_pause_when_the_last_listener_leaves_by_igmp: all_senders_pause_when_the_last_listener_leaves("239.255.7.2");
    sending_stops_when_the_last_listener_leaves_by_mld: sending_stops_when_the_last_listener_leaves("ff15::7:6", "");
    sending_stops_when_the_last_listener_leaves_by_igmp: sending_stops_when_the_last_listener_leaves("239.255.7.6", "");
    sending_stops_when_the_last_listener_leaves_a_switch_that_is_the_querier_by_mld: sending_stops_when_the_last_listener_leaves("ff15::7:7", QUERIER);
    sending_stops_when_the_last_listener_leaves_a_switch_that_is_the_querier_by_igmp: sending_stops_when_the_last_listener_leaves("239.255.7.7", QUERIER);
    listeners_of_the_older_version_are_heard_by_mld: listeners_of_the_older_version_are_heard("ff15::7:3", ("ipv6/conf/all/force_mld_version", "1"));
    listeners_of_the_older_version_are_heard_by_igmp: listeners_of_the_older_version_are_heard("239.255.7.3", ("ipv4/conf/all/force_igmp_version", "2"));
}

/// The sender sends when somebody listens, whoever joins in the middle of a loop gets everything, hosts that
/// do not listen are left alone, and the end comes when all have left.
fn listeners_make_the_carousel_turn(group: &str) {
    let lan = Lan::new(4);
    lan.scratch.file("file", 6_000_000);
    // Long enough for the next receiver to start on a busy machine.
    let (mut sender, ticket) = lan.send(&format!("--group {group} --idle 8"));
    thread::sleep(Duration::from_secs(2));
    assert!(lan.received_bytes(1) < 100_000, "nobody has joined yet");

    let first = lan.receive(1, &ticket);
    sender.next("started");
    thread::sleep(Duration::from_millis(250));
    let second = lan.receive(2, &ticket);
    lan.is_whole(1, first);
    lan.is_whole(2, second);
    assert!(lan.received_bytes(3) < 100_000, "a host that has not joined hears nothing");
    assert_says(&finish_with(1, lan.receive(2, &format!("--only *.iso {ticket}"))), &["\"not_wanted\":1"]);

    sender.next("paused");
    let done = sender.next("done");
    assert_eq!(done["interrupted"], false);
    assert!(sender.child.wait().unwrap().success());
}

/// When the last listener has left, the sender that is not the querier pauses, too: it hears the querier ask about the group,
/// which neither has joined. By its own timers alone it would send for 45 s more.
fn all_senders_pause_when_the_last_listener_leaves(group: &str) {
    let lan = Lan::new(3);
    lan.scratch.file("file", 2_000_000);
    let arguments = format!("--group {group} --session session");
    let (mut other, ticket) = lan.send_from(1, "4M", &arguments);
    let (mut querier, _) = lan.send_from(0, "4M", &arguments);
    // Its first question has made it the querier.
    thread::sleep(Duration::from_secs(1));
    let receiver = lan.receive(2, &ticket);
    other.next("started");
    querier.next("started");
    lan.is_whole(2, receiver);
    let left = Instant::now();
    querier.next("paused");
    other.next("paused");
    let seconds = left.elapsed().as_secs();
    assert!(seconds < 30, "it went on sending for {seconds} s");
}

/// Sending stops within about a second of the last listener's leave, or somewhat later on a busy machine. By its own timers alone,
/// the sender would go on for 45 s.
fn sending_stops_when_the_last_listener_leaves(group: &str, bridge: &str) {
    const RATE: u64 = 10_000_000;
    let lan = Lan::on_bridge(3, bridge);
    lan.scratch.file("file", 4_000_000);
    let (mut sender, ticket) = lan.send(&format!("--group {group}"));
    if !bridge.is_empty() {
        // A switch that is the querier has asked by then.
        thread::sleep(Duration::from_secs(4));
    }
    let receivers = [1, 2].map(|host| lan.receive(host, &ticket));
    sender.next("started");
    for (host, receiver) in [1, 2].into_iter().zip(receivers) {
        lan.is_whole(host, receiver);
    }
    // On a busy machine it may have paused by now, or ended.
    let mut told = sender.pending();
    let sent = told.iter().rev().find_map(|event| event["sent_bytes"].as_u64()).unwrap();
    while told.last().is_none_or(|event| event["event"] != "done") {
        told.push(sender.any());
    }
    assert!(told.iter().any(|event| event["event"] == "paused"), "{told:?}");
    let after = told.last().unwrap()["sent_bytes"].as_u64().unwrap() - sent;
    assert!(after < 5 * RATE, "{after} bytes were sent to nobody");
}

/// A switch that snoops and is the querier asks only at the port of the listener that leaves. The sender never hears that question.
const QUERIER: &str = " mcast_querier 1 mcast_query_use_ifaddr 1 mcast_igmp_version 3 mcast_mld_version 2 \
    mcast_startup_query_interval 100 mcast_startup_query_count 10";

/// A listener of MLDv1 or IGMPv2 reports to the group itself, not to routers.
fn listeners_of_the_older_version_are_heard(group: &str, setting: (&str, &str)) {
    let lan = Lan::new(2);
    lan.network.within(HOSTS[1], || fs::write(format!("/proc/sys/net/{}", setting.0), setting.1).unwrap());
    lan.scratch.file("file", 2_000_000);
    let (mut sender, ticket) = lan.send(&format!("--group {group}"));
    let receiver = lan.receive(1, &ticket);
    sender.next("started");
    lan.is_whole(1, receiver);
    sender.next("paused");
}

/// The sender has another link-local address than when it started. When a listener leaves, it asks from that one whether there are
/// others, and hears them.
#[test]
fn a_sender_may_change_its_link_local_address() {
    let lan = Lan::new(3);
    lan.scratch.file("file", 4_000_000);
    let (mut sender, ticket) = lan.send_from(0, "4M", "--group ff15::7:4");
    let mut leaves = lan.receive(1, &ticket);
    let stays = lan.receive(2, &ticket);
    sender.next("started");
    lan.network.configure(HOSTS[0], "addr flush dev b scope link\naddr add fe80::77/64 dev b nodad\n");
    thread::sleep(Duration::from_secs(1));
    leaves.signal(libc::SIGINT);
    leaves.wait().unwrap();
    lan.is_whole(2, stays);
    sender.next("paused");
}

/// TUN has no link-layer addresses, and so no filter of them.
#[test]
fn listeners_are_waited_for_on_an_interface_without_link_layer_addresses() {
    for group in ["ff15::7:5", "239.255.7.5"] {
        let lan = Lan::new(1);
        let addresses = ["fe80::1/64", "fd78::1/64", "10.78.0.1/24"];
        let addresses = addresses.map(|address| format!("addr add {address} dev tun0\n")).concat();
        let tun = "tuntap add tun0 mode tun\nlink set tun0 up\n";
        lan.network.configure(HOSTS[0], &format!("{tun}{addresses}"));
        lan.scratch.file("file", 1_000);
        let args = format!("send --repair carousel --interface tun0 --wait-timeout 1 --group {group} file");
        assert_says(
            &finish_with(1, lan.network.start(HOSTS[0], &mut lan.scratch.command(args))),
            &["nobody"],
        );
    }
}

/// Before, it sent as fast as its link took it, and did not say why it ended.
#[test]
fn without_a_rate_a_carousel_sends_what_a_lan_bears_and_says_why_it_ends() {
    let scratch = Scratch::with_file("file", 2_000_000);
    let started = Instant::now();
    let send = "send --repair carousel --interface lo --loops 2 file";
    let output = scratch.command(send).output().unwrap();
    // Two loops of 2 MB at 50 Mbit/s take 0.64 s.
    assert!(started.elapsed() >= Duration::from_millis(600), "{:?}", started.elapsed());
    let [told, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_says(&said, &["no --rate: sending at 50.0 Mbit/s"]);
    assert_eq!(told.lines().last(), Some("ended: all loops are done (--loops)"), "{told}");
    let output = scratch.command(format!("{send} --json --rate 1G")).output().unwrap();
    assert_says(&String::from_utf8(output.stdout).unwrap(), &[r#""carousel_end":"loops_done""#]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two hosts with the same file and the same session are one carousel. They come and go as they like, with a Goodbye or
/// without, and what each sends counts.
#[test]
fn several_senders_are_one_carousel_and_come_and_go() {
    let lan = Lan::new(4);
    lan.scratch.file("file", 6_000_000);
    let (mut first, ticket) = lan.send_from(0, "12M", "--session session");
    let receivers = [2, 3].map(|host| lan.receive(host, &ticket));
    first.next("started");
    thread::sleep(Duration::from_millis(700));
    let (mut second, again) = lan.send_from(1, "12M", "--session session");
    assert_eq!(again, ticket);
    second.next("started");
    first.child.signal(libc::SIGINT);
    first.next("done");
    thread::sleep(Duration::from_millis(400));
    let (mut first, _) = lan.send_from(0, "12M", "--session session");
    first.next("started");
    second.child.kill().unwrap();
    for (host, receiver) in [2, 3].into_iter().zip(receivers) {
        lan.is_whole(host, receiver);
    }
    first.next("done");
}

/// The receiver finds out which of the two hashes frames carry.
#[test]
fn the_iot_updaters_dialect_needs_no_ticket() {
    for hash in ["blake2b", "blake3"] {
        let lan = Lan::new(2);
        lan.scratch.file("file", 2_000_000);
        let dialect = "--dialect iotup --group ff1e::42";
        let send = "send --json --interface b --rate 80M --idle 2 --wait-timeout 60";
        let args = format!("{send} {dialect} --hash {hash} file");
        let mut sender = lan.network.tell(HOSTS[0], &mut lan.scratch.command(args));
        assert_eq!(sender.next("ready")["group"], "[ff1e::42]:4242");
        finish_with(0, lan.receive(1, &format!("{dialect} image")));
        lan.scratch.assert_file("h1/image", 2_000_000);
        sender.next("done");
    }
}
