//! Carousels behind a bridge that snoops: namespaces of this test's own. Needs root.

mod child;

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use child::{Guarded, SpawnGuarded, Teller};

const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");

/// Hosts `0`, `1`, ... on one bridge with multicast snooping, each with `eth0`; and a folder.
struct Lan {
    name: String,
    hosts: usize,
    folder: PathBuf,
}

impl Lan {
    fn new(test: &str, hosts: usize) -> Self {
        Self::on_bridge(test, hosts, "")
    }

    /// The bridge has more options than that it snoops. Its addresses are lower than those of all hosts.
    fn on_bridge(test: &str, hosts: usize, options: &str) -> Self {
        let name = format!("tc{test}{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("treecast-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let lan = Self { name, hosts, folder };
        let bridge = lan.namespace("b");
        lan.ip(&format!("netns add {bridge}"));
        lan.ip(&format!(
            "-n {bridge} link add br0 address 02:00:00:00:00:00 type bridge mcast_snooping 1{options}"
        ));
        lan.ip(&format!("-n {bridge} addr add 10.70.0.1/8 dev br0"));
        lan.ip(&format!("-n {bridge} link set br0 up"));
        for host in 0..hosts {
            lan.add_host(host, &bridge);
        }
        // Duplicate address detection of the link-local addresses that MLD speaks from.
        thread::sleep(Duration::from_millis(2500));
        lan
    }

    fn add_host(&self, host: usize, bridge: &str) {
        let namespace = self.namespace(&host.to_string());
        let number = host + 1;
        for line in [
            format!("netns add {namespace}"),
            format!("-n {namespace} link set lo up"),
            format!("-n {namespace} link add eth0 type veth peer name p{host} netns {bridge}"),
            format!("-n {bridge} link set p{host} master br0 up"),
            // The lower host number has the lower link-local address, and is the querier.
            format!("-n {namespace} link set eth0 address 02:00:00:00:00:{number:02x}"),
            format!("-n {namespace} addr add fd77::{number}/64 dev eth0 nodad"),
            format!("-n {namespace} addr add 10.77.0.{number}/24 dev eth0"),
            format!("-n {namespace} link set eth0 up"),
        ] {
            self.ip(&line);
        }
    }

    fn namespace(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    fn ip(&self, line: &str) {
        let status = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "`ip {line}` failed: this test needs root");
    }

    fn treecast(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(&host.to_string()), TREECAST]);
        command.stdout(Stdio::piped());
        command
    }

    fn file(&self, len: u32) -> PathBuf {
        let bytes: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        fs::write(self.folder.join("file"), bytes).unwrap();
        self.folder.join("file")
    }

    /// A carousel at host 0 that has announced itself.
    fn send(&self, arguments: &[&str], file: &Path) -> Teller {
        self.send_from(0, "80M", arguments, file)
    }

    fn send_from(&self, host: usize, rate: &str, arguments: &[&str], file: &Path) -> Teller {
        let mut command = self.treecast(host);
        command.args(["send", "--json", "--interface", "eth0", "--rate", rate]);
        command.args(["--idle", "2", "--wait-timeout", "60"]);
        Teller::of(command.args(arguments).arg(file).spawn_guarded())
    }

    fn receive(&self, host: usize, arguments: &[&str]) -> Guarded {
        let mut command = self.treecast(host);
        command.args(["receive", "--json", "--interface", "eth0", "--into"]).arg(self.copies(host));
        command.args(arguments).spawn_guarded()
    }

    fn copies(&self, host: usize) -> PathBuf {
        self.folder.join(format!("copies{host}"))
    }

    /// Bytes that a host's interface has received.
    fn received_bytes(&self, host: usize) -> u64 {
        let path = "/sys/class/net/eth0/statistics/rx_bytes";
        let namespace = self.namespace(&host.to_string());
        let output = Command::new("ip").args(["netns", "exec", &namespace, "cat", path]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        let hosts = (0..self.hosts).map(|host| host.to_string());
        for node in hosts.chain(["b".to_owned()]) {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(&node)]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn assert_whole(child: Guarded, file: &Path, copy: &Path) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(file).unwrap() == fs::read(copy).unwrap(), "{}", copy.display());
}

/// The sender sends when somebody listens, whoever joins in the middle of a loop gets everything, hosts that
/// do not listen are left alone, and the end comes when all have left.
fn listeners_make_the_carousel_turn(test: &str, group: &str) {
    let lan = Lan::new(test, 4);
    let file = lan.file(6_000_000);
    let mut sender = lan.send(&["--repair", "carousel", "--group", group], &file);
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

#[test]
fn listeners_make_the_carousel_turn_by_mld() {
    listeners_make_the_carousel_turn("mld", "ff15::7:1");
}

#[test]
fn listeners_make_the_carousel_turn_by_igmp() {
    listeners_make_the_carousel_turn("igmp", "239.255.7.1");
}

/// When the last listener has left, the sender that is not the querier pauses, too: it hears the querier ask about the group,
/// which neither has joined. By its own timers alone it would send for 45 s more.
fn all_senders_pause_when_the_last_listener_leaves(test: &str, group: &str) {
    let lan = Lan::new(test, 3);
    let file = lan.file(2_000_000);
    let session = lan.folder.join("session");
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
    assert!(seconds < 15, "it went on sending for {seconds} s");
}

#[test]
fn all_senders_pause_when_the_last_listener_leaves_by_mld() {
    all_senders_pause_when_the_last_listener_leaves("twoa", "ff15::7:2");
}

#[test]
fn all_senders_pause_when_the_last_listener_leaves_by_igmp() {
    all_senders_pause_when_the_last_listener_leaves("twob", "239.255.7.2");
}

/// Sending stops within about a second of the last listener's leave.
fn sending_stops_when_the_last_listener_leaves(test: &str, group: &str, bridge: &str) {
    const RATE: u64 = 10_000_000;
    let lan = Lan::on_bridge(test, 3, bridge);
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
    assert!(after < 3 * RATE / 2, "{after} bytes were sent to nobody");
}

/// A switch that snoops and is the querier asks only at the port of the listener that leaves. The sender never hears that question.
const QUERIER: &str = " mcast_querier 1 mcast_query_use_ifaddr 1 mcast_igmp_version 3 mcast_mld_version 2 \
    mcast_startup_query_interval 100 mcast_startup_query_count 10";

#[test]
fn sending_stops_when_the_last_listener_leaves_by_mld() {
    sending_stops_when_the_last_listener_leaves("lasta", "ff15::7:6", "");
}

#[test]
fn sending_stops_when_the_last_listener_leaves_by_igmp() {
    sending_stops_when_the_last_listener_leaves("lastb", "239.255.7.6", "");
}

#[test]
fn sending_stops_when_the_last_listener_leaves_a_switch_that_is_the_querier_by_mld() {
    sending_stops_when_the_last_listener_leaves("lastc", "ff15::7:7", QUERIER);
}

#[test]
fn sending_stops_when_the_last_listener_leaves_a_switch_that_is_the_querier_by_igmp() {
    sending_stops_when_the_last_listener_leaves("lastd", "239.255.7.7", QUERIER);
}

/// A listener of MLDv1 or IGMPv2 reports to the group itself, not to routers.
fn listeners_of_the_older_version_are_heard(test: &str, group: &str, setting: &str) {
    let lan = Lan::new(test, 2);
    lan.ip(&format!("netns exec {} sysctl -q -w {setting}", lan.namespace("1")));
    let file = lan.file(2_000_000);
    let mut sender = lan.send(&["--repair", "carousel", "--group", group], &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let receiver = lan.receive(1, &[&ticket]);
    sender.next("started");
    assert_whole(receiver, &file, &lan.copies(1).join("file"));
    sender.next("paused");
}

#[test]
fn listeners_of_the_older_version_are_heard_by_mld() {
    listeners_of_the_older_version_are_heard("olda", "ff15::7:3", "net.ipv6.conf.all.force_mld_version=1");
}

#[test]
fn listeners_of_the_older_version_are_heard_by_igmp() {
    let setting = "net.ipv4.conf.all.force_igmp_version=2";
    listeners_of_the_older_version_are_heard("oldb", "239.255.7.3", setting);
}

/// The sender has another link-local address than when it started. When a listener leaves, it asks from that one whether there are
/// others, and hears them.
#[test]
fn a_sender_may_change_its_link_local_address() {
    let lan = Lan::new("addr", 3);
    let file = lan.file(4_000_000);
    let arguments = ["--repair", "carousel", "--group", "ff15::7:4"];
    let mut sender = lan.send_from(0, "4M", &arguments, &file);
    let ticket = sender.next("ticket")["ticket"].as_str().unwrap().to_owned();
    let mut leaves = lan.receive(1, &[&ticket]);
    let stays = lan.receive(2, &[&ticket]);
    sender.next("started");
    let host = lan.namespace("0");
    lan.ip(&format!("-n {host} addr flush dev eth0 scope link"));
    lan.ip(&format!("-n {host} addr add fe80::77/64 dev eth0 nodad"));
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
        let lan = Lan::new("tun", 1);
        let host = lan.namespace("0");
        lan.ip(&format!("-n {host} tuntap add tun0 mode tun"));
        lan.ip(&format!("-n {host} link set tun0 up"));
        for address in ["fe80::1/64", "fd78::1/64", "10.78.0.1/24"] {
            lan.ip(&format!("-n {host} addr add {address} dev tun0"));
        }
        let mut command = lan.treecast(0);
        command.args(["send", "--repair", "carousel", "--interface", "tun0", "--wait-timeout", "1"]);
        let file = lan.file(1_000);
        let mut child = command.args(["--group", group]).arg(file).stderr(Stdio::piped()).spawn_guarded();
        thread::sleep(Duration::from_secs(3));
        let _ = child.kill();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("nobody"), "{said}");
    }
}

/// Two hosts with the same file and the same session are one carousel. They come and go as they like, with a Goodbye or
/// without, and what each sends counts.
#[test]
fn several_senders_are_one_carousel_and_come_and_go() {
    let lan = Lan::new("twin", 4);
    let file = lan.file(6_000_000);
    let session = lan.folder.join("session");
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
    let lan = Lan::new("iot", 2);
    let file = lan.file(2_000_000);
    let mut sender = lan.send(&["--dialect", "iotup", "--hash", hash, "--group", "ff1e::42"], &file);
    assert_eq!(sender.next("ready")["group"], "[ff1e::42]:4242");
    let receiver = lan.receive(1, &["--dialect", "iotup", "--group", "ff1e::42", "image"]);
    assert_whole(receiver, &file, &lan.copies(1).join("image"));
    sender.next("done");
}
