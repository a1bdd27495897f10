//! Carousels behind a bridge that snoops: namespaces of this test's own. Needs root.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    child::{Guarded, SpawnGuarded, Teller},
    mroute_network::Network,
    session::{Scratch, treecast, wait_until},
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

    fn spawn(&self, host: usize, command: &mut Command) -> Guarded {
        self.network.within(HOSTS[host], || command.stdout(Stdio::piped()).spawn_guarded())
    }

    fn file(&self, len: u32) -> PathBuf {
        let bytes: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        fs::write(self.scratch.path("file"), bytes).unwrap();
        self.scratch.path("file")
    }

    /// A carousel at host 0 that has announced itself.
    fn send(&self, arguments: &[&str], file: &Path) -> Teller {
        self.send_from(0, "80M", arguments, file)
    }

    fn send_from(&self, host: usize, rate: &str, arguments: &[&str], file: &Path) -> Teller {
        let mut command = treecast();
        command.args(["send", "--json", "--interface", "b", "--rate", rate]);
        if !arguments.contains(&"--idle") {
            command.args(["--idle", "2"]);
        }
        command.args(["--wait-timeout", "60"]).args(arguments).arg(file);
        Teller::of(self.spawn(host, &mut command))
    }

    fn receive(&self, host: usize, arguments: &[&str]) -> Guarded {
        let mut command = treecast();
        command.args(["receive", "--json", "--interface", "b", "--into"]).arg(self.copies(host));
        self.spawn(host, command.args(arguments))
    }

    fn copies(&self, host: usize) -> PathBuf {
        self.scratch.path(&format!("copies{host}"))
    }

    /// Bytes that a host's interface has received.
    fn received_bytes(&self, host: usize) -> u64 {
        let interfaces = self.network.within(HOSTS[host], || fs::read_to_string("/proc/thread-self/net/dev"));
        let line =
            interfaces.unwrap().lines().find_map(|line| line.trim().strip_prefix("b:").map(str::to_owned));
        line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }
}

fn assert_whole(child: Guarded, file: &Path, copy: &Path) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(file).unwrap() == fs::read(copy).unwrap(), "{}", copy.display());
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
    let file = lan.file(6_000_000);
    // Long enough for the next receiver to start on a busy machine.
    let mut sender = lan.send(&["--repair", "carousel", "--group", group, "--idle", "8"], &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    thread::sleep(Duration::from_secs(2));
    assert!(lan.received_bytes(1) < 100_000, "nobody has joined yet");

    let first = lan.receive(1, &[&ticket]);
    sender.next("started");
    thread::sleep(Duration::from_millis(250));
    let second = lan.receive(2, &[&ticket]);
    assert_whole(first, &file, &lan.copies(1).join("file"));
    assert_whole(second, &file, &lan.copies(2).join("file"));
    assert!(lan.received_bytes(3) < 100_000, "a host that has not joined hears nothing");
    let choosy = lan.receive(2, &["--only", "*.iso", &ticket]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&choosy.stdout);
    assert!(choosy.status.code() == Some(1) && said.contains("\"not_wanted\":1"), "{said}");

    sender.next("paused");
    let done = sender.next("done");
    assert_eq!(done["interrupted"], false);
    assert!(sender.child.wait().unwrap().success());
}

/// When the last listener has left, the sender that is not the querier pauses, too: it hears the querier ask about the group,
/// which neither has joined. By its own timers alone it would send for 45 s more.
fn all_senders_pause_when_the_last_listener_leaves(group: &str) {
    let lan = Lan::new(3);
    let file = lan.file(2_000_000);
    let session = lan.scratch.path("session");
    let arguments = ["--repair", "carousel", "--group", group, "--session", session.to_str().unwrap()];
    let mut other = lan.send_from(1, "4M", &arguments, &file);
    let ticket = other.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let mut querier = lan.send_from(0, "4M", &arguments, &file);
    querier.next("ticket");
    // Its first question has made it the querier.
    thread::sleep(Duration::from_secs(1));
    let receiver = lan.receive(2, &[&ticket]);
    other.next("started");
    querier.next("started");
    assert_whole(receiver, &file, &lan.copies(2).join("file"));
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
    let file = lan.file(4_000_000);
    let mut sender = lan.send(&["--repair", "carousel", "--group", group], &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    // A switch that is the querier has asked by then.
    thread::sleep(Duration::from_secs(4));
    let receivers = [1, 2].map(|host| lan.receive(host, &[&ticket]));
    sender.next("started");
    for (host, receiver) in [1, 2].into_iter().zip(receivers) {
        assert_whole(receiver, &file, &lan.copies(host).join("file"));
    }
    let sent: Vec<_> = sender.pending().iter().filter_map(|event| event["sent_bytes"].as_u64()).collect();
    sender.next("paused");
    let after = sender.next("done")["sent_bytes"].as_u64().unwrap() - sent.last().unwrap();
    assert!(after < 5 * RATE, "{after} bytes were sent to nobody");
}

/// A switch that snoops and is the querier asks only at the port of the listener that leaves. The sender never hears that question.
const QUERIER: &str = " mcast_querier 1 mcast_query_use_ifaddr 1 mcast_igmp_version 3 mcast_mld_version 2 \
    mcast_startup_query_interval 100 mcast_startup_query_count 10";

/// A listener of MLDv1 or IGMPv2 reports to the group itself, not to routers.
fn listeners_of_the_older_version_are_heard(group: &str, setting: (&str, &str)) {
    let lan = Lan::new(2);
    lan.network.within(HOSTS[1], || fs::write(format!("/proc/sys/net/{}", setting.0), setting.1).unwrap());
    let file = lan.file(2_000_000);
    let mut sender = lan.send(&["--repair", "carousel", "--group", group], &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let receiver = lan.receive(1, &[&ticket]);
    sender.next("started");
    assert_whole(receiver, &file, &lan.copies(1).join("file"));
    sender.next("paused");
}

/// The sender has another link-local address than when it started. When a listener leaves, it asks from that one whether there are
/// others, and hears them.
#[test]
fn a_sender_may_change_its_link_local_address() {
    let lan = Lan::new(3);
    let file = lan.file(4_000_000);
    let arguments = ["--repair", "carousel", "--group", "ff15::7:4"];
    let mut sender = lan.send_from(0, "4M", &arguments, &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let mut leaves = lan.receive(1, &[&ticket]);
    let stays = lan.receive(2, &[&ticket]);
    sender.next("started");
    lan.network.configure(HOSTS[0], "addr flush dev b scope link\naddr add fe80::77/64 dev b nodad\n");
    thread::sleep(Duration::from_secs(1));
    leaves.signal(libc::SIGINT);
    leaves.wait().unwrap();
    assert_whole(stays, &file, &lan.copies(2).join("file"));
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
        let mut command = treecast();
        command.args(["send", "--repair", "carousel", "--interface", "tun0", "--wait-timeout", "1"]);
        command.args(["--group", group]).arg(lan.file(1_000)).stderr(Stdio::piped());
        let mut child = lan.spawn(0, &mut command);
        wait_until("it gives up", || child.try_wait().unwrap().is_some());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("nobody"), "{said}");
    }
}

/// Before, it sent as fast as its link took it, and did not say why it ended.
#[test]
fn without_a_rate_a_carousel_sends_what_a_lan_bears_and_says_why_it_ends() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 2_000_000);
    let started = Instant::now();
    let mut command = treecast();
    command.args(["send", "--repair", "carousel", "--interface", "lo", "--loops", "2"]).arg(&file);
    let output = command.output().unwrap();
    // Two loops of 2 MB at 50 Mbit/s take 0.64 s.
    assert!(started.elapsed() >= Duration::from_millis(600), "{:?}", started.elapsed());
    let (told, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(said.contains("no --rate: sending at 50.0 Mbit/s"), "{said}");
    assert_eq!(told.lines().last(), Some("ended: all loops are done (--loops)"), "{told}");
    let output = command.args(["--json", "--rate", "1G"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains(r#""carousel_end":"loops_done""#), "{told}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two hosts with the same file and the same session are one carousel. They come and go as they like, with a Goodbye or
/// without, and what each sends counts.
#[test]
fn several_senders_are_one_carousel_and_come_and_go() {
    let lan = Lan::new(4);
    let file = lan.file(6_000_000);
    let session = lan.scratch.path("session");
    let session = ["--repair", "carousel", "--session", session.to_str().unwrap()];
    let mut first = lan.send_from(0, "12M", &session, &file);
    let ticket = first.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let receivers = [2, 3].map(|host| lan.receive(host, &[&ticket]));
    first.next("started");
    thread::sleep(Duration::from_millis(700));
    let mut second = lan.send_from(1, "12M", &session, &file);
    assert_eq!(second.next("ticket")["ticket"], ticket.as_str());
    second.next("started");
    first.child.signal(libc::SIGINT);
    first.next("done");
    thread::sleep(Duration::from_millis(400));
    let mut first = lan.send_from(0, "12M", &session, &file);
    first.next("started");
    second.child.kill().unwrap();
    for (host, receiver) in [2, 3].into_iter().zip(receivers) {
        assert_whole(receiver, &file, &lan.copies(host).join("file"));
    }
    first.next("done");
}

/// The receiver finds out which of the two hashes frames carry.
#[test]
fn the_iot_updaters_dialect_needs_no_ticket() {
    for hash in ["blake2b", "blake3"] {
        one_file_in_frames(hash);
    }
}

fn one_file_in_frames(hash: &str) {
    let lan = Lan::new(2);
    let file = lan.file(2_000_000);
    let mut sender = lan.send(&["--dialect", "iotup", "--hash", hash, "--group", "ff1e::42"], &file);
    assert_eq!(sender.next("ready")["group"], "[ff1e::42]:4242");
    let receiver = lan.receive(1, &["--dialect", "iotup", "--group", "ff1e::42", "image"]);
    assert_whole(receiver, &file, &lan.copies(1).join("image"));
    sender.next("done");
}
