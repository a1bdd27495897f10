//! Which interface a session takes where the user names none, and sessions between hosts that have link-local addresses alone.

use std::{
    net::{IpAddr, SocketAddr},
    process::Command,
};

use crate::session::{
    Arguments, Guarded, Scratch, TREECAST, assert_says, events, finish_well, finish_with, last_event, start,
    wait_until,
};
use treecast_wire::ticket::Ticket;

/// Two hosts with a cable between them, `eth0` at both ends. Each has only a link-local address there, and the loopback. They go
/// when this is dropped.
struct Cable(String);

impl Cable {
    fn new(test: &str) -> Self {
        let cable = Self(format!("{test}{}", std::process::id()));
        for host in ["a", "b"] {
            shell(&format!("ip netns add {0} && ip -n {0} link set lo up", cable.host(host)));
            // An address counts at once, and nobody asks whether it is unique.
            cable
                .run(host, "for of in all default; do echo 0 > /proc/sys/net/ipv6/conf/$of/accept_dad; done");
        }
        // Its number is lower than the cable's, as on hosts where a daemon has made it before. A bridge whose ports are down has no
        // carrier.
        cable.run(
            "a",
            "ip link add docker0 type bridge && ip link add port type veth peer name container && \
             ip link set port master docker0 && ip link set docker0 up && ip addr add 172.17.0.1/16 dev docker0",
        );
        let (a, b) = (cable.host("a"), cable.host("b"));
        shell(&format!("ip -n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for host in ["a", "b"] {
            cable.run(host, "ip link set eth0 up");
        }
        wait_until("both have addresses", || ["a", "b"].iter().all(|host| cable.link_local(host).is_some()));
        cable
    }

    fn host(&self, host: &str) -> String {
        format!("{}-{host}", self.0)
    }

    fn run(&self, host: &str, script: &str) {
        shell(&format!("ip netns exec {} sh -c '{script}'", self.host(host)));
    }

    fn link_local(&self, host: &str) -> Option<IpAddr> {
        let output = Command::new("ip")
            .args(["-n", &self.host(host), "-j", "addr", "show", "dev", "eth0", "scope", "link"])
            .output()
            .unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        found[0]["addr_info"][0]["local"].as_str()?.parse().ok()
    }

    /// The program on a host, in the scratch folder.
    fn start(&self, host: &str, scratch: &Scratch, args: &str) -> Guarded {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(host), TREECAST]).args(args.words());
        start(command.current_dir(scratch.path("")))
    }

    /// A sender on one host, and the ticket that it has written.
    fn send(&self, scratch: &Scratch, args: &str) -> (Guarded, Ticket) {
        let sender = self.start("a", scratch, &format!("send --json --ticket-file ticket {args} file"));
        scratch.wait_for_ticket();
        (sender, scratch.ticket())
    }

    fn receive(&self, scratch: &Scratch, args: &str) -> Guarded {
        self.start("b", scratch, &format!("receive --json --into into {args} @ticket"))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in ["a", "b"] {
            _ = Command::new("ip").args(["netns", "del", &self.host(host)]).status();
        }
    }
}

#[track_caller]
fn shell(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A script that makes an interface whose link works, and at whose other end nobody listens.
fn up(name: &str) -> String {
    format!(
        "ip link add {name} type veth peer name {name}-end && ip link set {name} up && ip link set {name}-end up && \
             echo 1 > /proc/sys/net/ipv6/conf/{name}-end/disable_ipv6"
    )
}

fn addresses(ticket: &Ticket) -> Vec<IpAddr> {
    ticket.control.iter().map(SocketAddr::ip).collect()
}

fn warnings(text: &str) -> Vec<String> {
    let all = events(text).into_iter().filter(|event| event["event"] == "warning");
    all.map(|event| event.to_string()).collect()
}

/// Delivers a file over the cable. Returns what the sender and the receiver have told.
fn delivered(cable: &Cable, send: &str, receive: &str) -> (Ticket, String, String) {
    let scratch = Scratch::with_file("file", 300_000);
    let (sender, ticket) = cable.send(&scratch, send);
    let receiver = cable.receive(&scratch, receive);
    let [sent, received] = [sender, receiver].map(finish_well);
    scratch.assert_file("into/file", 300_000);
    (ticket, sent, received)
}

#[test]
fn hosts_with_link_local_addresses_alone_send_and_receive() {
    let cable = Cable::new("fe");
    let own = cable.link_local("a").unwrap();
    // The receiver is not told by which of its interfaces the sender is reached.
    cable.run("b", &up("other"));
    cable.run("a", "ip addr flush dev docker0");
    let control = format!("--control [{own}%eth0]:0");
    for send in ["", "--fanout unicast", "--fanout auto", &control, "--plain"] {
        let (ticket, sent, received) = delivered(&cable, send, "");
        assert_eq!(addresses(&ticket), [own], "{send}");
        assert_eq!(last_event(&received, "joined")["interface"], "eth0", "{received}");
        assert_eq!(last_event(&sent, "done")["receivers"][0]["retransmitted_bytes"], 0, "{sent}");
    }
    delivered(&cable, "--interface eth0", "--interface eth0");
}

#[test]
fn a_bridge_without_carrier_is_not_taken_where_no_route_decides() {
    let cable = Cable::new("dk");
    for (host, number) in [("a", 1), ("b", 2)] {
        cable.run(host, &format!("ip addr add 10.9.0.{number}/24 dev eth0"));
    }
    let (ticket, sent, _) = delivered(&cable, "", "");
    assert_eq!(addresses(&ticket), [IpAddr::from([10, 9, 0, 1])]);
    assert_eq!(warnings(&sent), [""; 0]);
}

#[test]
fn what_was_taken_is_named_where_others_would_do() {
    let cable = Cable::new("sv");
    for (host, number) in [("a", 1), ("b", 2)] {
        cable.run(host, &format!("ip addr add 10.9.0.{number}/24 dev eth0"));
    }
    // Its number is higher, so it is taken second; but it is where the receiver is not.
    cable.run("a", &format!("{} && ip addr add 10.8.0.1/24 dev eth1", up("eth1")));
    let (ticket, sent, _) = delivered(&cable, "", "");
    assert_eq!(addresses(&ticket), [[10, 9, 0, 1], [10, 8, 0, 1]].map(IpAddr::from));
    let told = warnings(&sent);
    let [line] = &told[..] else { panic!("{sent}") };
    assert!(line.contains("eth0 was taken, and eth1 would do as well"), "{line}");
    // Who names one is told nothing.
    let (ticket, sent, _) = delivered(&cable, "--interface eth0", "");
    assert_eq!((addresses(&ticket).len(), warnings(&sent).len()), (1, 0));
}

#[test]
fn an_interface_without_carrier_that_is_named_is_told_of() {
    let cable = Cable::new("nc");
    let scratch = Scratch::with_file("file", 100);
    let (sender, _) = cable.send(&scratch, "--interface docker0 --wait-timeout 1s");
    let told = finish_with(1, sender);
    assert!(warnings(&told).iter().any(|line| line.contains("docker0 has no carrier")), "{told}");
}

/// Gives both hosts addresses of both families.
fn address(cable: &Cable) {
    for (host, number) in [("a", 1), ("b", 2)] {
        let (v4, v6) = (format!("10.9.0.{number}/24"), format!("fd09::{number}/64"));
        cable.run(host, &format!("ip addr add {v4} dev eth0 && ip addr add {v6} dev eth0 nodad"));
    }
}

#[test]
fn who_does_not_hear_the_group_is_named_by_the_sender_and_says_so() {
    let cable = Cable::new("uh");
    address(&cable);
    cable.run(
        "b",
        "nft add table inet f && nft add chain inet f in \"{ type filter hook input priority 0; }\" && nft add rule inet f in meta l4proto udp drop",
    );
    for rate in ["60M", "auto"] {
        let scratch = Scratch::with_file("file", 3_000_000);
        let (sender, ticket) = cable.send(&scratch, &format!("--wait 2 --rate {rate}"));
        let hearing = cable.start("a", &scratch, "receive --json --name hears --into other @ticket");
        let deaf = cable.receive(&scratch, "--name deaf");
        let [sent, deaf, hearing] = [sender, deaf, hearing].map(finish_well);
        let done = last_event(&sent, "done");
        for receiver in done["receivers"].as_array().unwrap() {
            let is_deaf = receiver["receiver"] == "deaf";
            assert_eq!(receiver["hears_nothing"], is_deaf, "{rate}: {sent}");
            let came_again = receiver["retransmitted_bytes"].as_u64() >= Some(3_000_000);
            assert_eq!(came_again, is_deaf, "{rate}: {sent}");
        }
        let group = format!("deaf hears nothing of the group {}, sent on eth0", ticket.group);
        assert!(warnings(&sent).iter().any(|line| line.contains(&group)), "{rate}: {sent}");
        let own = "nothing of the session's group has come on eth0";
        assert!(warnings(&deaf).iter().any(|line| line.contains(own)), "{rate}: {deaf}");
        assert_eq!(warnings(&hearing), [""; 0]);
    }
}

#[test]
fn a_receiver_without_the_groups_family_is_told_which_one_it_lacks() {
    let cable = Cable::new("v4");
    address(&cable);
    cable.run("b", "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6");
    let lacks = "is IPv6, and interface eth0 has no IPv6 address";
    let (_, sent, received) = delivered(&cable, "--rate 60M", "--name old");
    assert!(warnings(&received).iter().any(|line| line.contains(lacks)), "{received}");
    let of_family =
        |line: &&str| line.contains("which is IPv6, and has come over IPv4") && !line.contains("firewall");
    assert!(matches!(&warnings(&sent)[..], [line] if of_family(&line.as_str())), "{sent}");
    // Whoever can hear nothing otherwise is refused at once.
    for repair in ["carousel", "local"] {
        let scratch = Scratch::with_file("file", 100_000);
        let args = format!("--repair {repair} --rate 10M --wait-timeout 100");
        let _sender = cable.send(&scratch, &args);
        assert_says(&finish_with(1, cable.receive(&scratch, "")), &[lacks, "--group names one"]);
    }
    // The sender takes a family that all have, where it knows which.
    let (ticket, sent, received) = delivered(&cable, "--control 10.9.0.1:0", "");
    assert!(ticket.group.is_ipv4());
    assert_eq!((warnings(&sent), warnings(&received)), (vec![], vec![]));
}
