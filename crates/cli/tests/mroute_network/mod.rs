//! Networks of namespaces for the tests of `treecast mroute` and `treecast router`, their routers, senders and listeners.
//!
//! All of it is gone when the test ends, however it ends.
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    child::{Guarded, PrivateFile, SpawnGuarded, Teller},
    session::{self, wait_until},
};
use treecast_dataplane::{
    explicit,
    mroute::{self, Entry, Family, Status},
};
use treecast_driver::udp::{GroupAddress, open_group_receiver, open_group_sender};
use treecast_host::{
    interface::{Interface, index_of},
    namespace::Namespace,
    raw, user,
};
use treecast_lab::parallel;
use treecast_wire::ipv6::{self, next_header, upper_layer_checksum};

/// Long enough for anything that is going to happen on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const PORT: u16 = 5000;

/// Classic BPF that loses one packet of ten that are neither TCP's nor ICMPv6's. Without two answers of a neighbour, which are
/// ICMPv6, a receiver would reach its sender by IPv4.
pub const TENTH: &str =
    "7,48 0 0 20,21 4 0 6,21 3 0 58,32 0 0 4294963256,53 0 1 3865470566,6 0 0 2,6 0 0 4294967295";

/// Namespaces whose names begin alike, and nobody else's do.
pub struct Network {
    prefix: String,
    nodes: Vec<&'static str>,
}

impl Network {
    /// One namespace for each of `nodes`; those whose names begin with "r" forward.
    pub fn new(nodes: &[&'static str]) -> Self {
        assert!(user::is_root(), "these tests make network namespaces: run them as root");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("mr{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let network = Self { prefix, nodes: nodes.to_vec() };
        for node in nodes {
            ip(&["netns", "add", &network.namespace(node)], "");
            network.within(node, || {
                let forwarding = if node.starts_with('r') { "1" } else { "0" };
                write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
                write("/proc/sys/net/ipv6/conf/all/forwarding", forwarding);
                write("/proc/sys/net/ipv4/ip_forward", forwarding);
            });
            network.configure(node, "link set dev lo up\n");
        }
        network
    }

    /// A network of these cables, numbered from 0, and the nodes at their ends.
    pub fn of_cables(cables: &[(&'static str, &'static str)]) -> Self {
        let mut nodes: Vec<&str> = Vec::new();
        for end in cables.iter().flat_map(|(one, other)| [*one, *other]) {
            if !nodes.contains(&end) {
                nodes.push(end);
            }
        }
        let network = Self::new(&nodes);
        (0..).zip(cables).for_each(|(id, (one, other))| network.connect(id, one, other));
        network
    }

    /// A cable: an interface on either node, named after the node at its other end, with addresses in
    /// networks number `id`: fd00:ID::1 and 10.0.ID.1 at `one`, ::2 and .2 at `other`.
    pub fn connect(&self, id: u8, one: &str, other: &str) {
        let (from, to) = (self.namespace(one), self.namespace(other));
        ip(
            &[
                "link", "add", "name", other, "netns", &from, "type", "veth", "peer", "name", one, "netns",
                &to,
            ],
            "",
        );
        self.address(one, other, id, 1);
        self.address(other, one, id, 2);
    }

    /// s - near - far - LAN of e1, e2 and e3; e4 is behind `near`.
    pub fn with_lan_behind(near: &'static str, far: &'static str) -> Self {
        let network = Self::new(&["s", near, far, "b1", "e1", "e2", "e3", "e4"]);
        network.connect(1, "s", near);
        network.connect(2, near, far);
        network.lan(3, "b1", &[far, "e1", "e2", "e3"]);
        network.connect(4, near, "e4");
        network.route("s", &[2, 3, 4], 1, 2);
        network.route(near, &[3], 2, 2);
        network.route(far, &[1, 4], 2, 1);
        ["e1", "e2", "e3"].iter().for_each(|node| network.route(node, &[1, 2, 4], 3, 1));
        network.route("e4", &[1, 2, 3], 4, 1);
        network
    }

    /// A LAN: a snooping bridge on a node of its own, and on each member an interface named after that node,
    /// with addresses fd00:ID::N and 10.0.ID.N, N counting from 1.
    pub fn lan(&self, id: u8, bridge: &str, members: &[&str]) {
        self.lan_on(id, bridge, "", members);
    }

    /// The same with more options of the bridge. Its link-local address is lower than those of its members, and theirs are in
    /// their order.
    pub fn lan_on(&self, id: u8, bridge: &str, options: &str, members: &[&str]) {
        let switch = self.namespace(bridge);
        let add = "link add lan address 02:00:00:00:00:00 type bridge mcast_snooping 1";
        self.configure(bridge, &format!("{add}{options}\nlink set dev lan up\n"));
        for (member, host) in members.iter().zip(1..) {
            let of_member = self.namespace(member);
            let link = ["link", "add", "name", member, "netns", &switch, "type", "veth", "peer"];
            ip(&[&link[..], &["name", bridge, "netns", &of_member]].concat(), "");
            self.configure(bridge, &format!("link set dev {member} master lan up\n"));
            self.address(member, bridge, id, host);
        }
    }

    fn address(&self, node: &str, interface: &str, id: u8, host: u8) {
        self.configure(
            node,
            &format!(
                "link set dev {interface} address 02:00:00:00:{id:02x}:{host:02x} up\n\
                 addr add fd00:{id}::{host}/64 dev {interface} nodad\n\
                 addr add 10.0.{id}.{host}/24 dev {interface}\n"
            ),
        );
    }

    /// Routes to the networks number `ids` by way of a neighbour's fd00:LAN::HOST and 10.0.LAN.HOST.
    pub fn route(&self, node: &str, ids: &[u8], lan: u8, host: u8) {
        let route = |id| {
            format!(
                "route add fd00:{id}::/64 via fd00:{lan}::{host}\n\
                 route add 10.0.{id}.0/24 via 10.0.{lan}.{host}\n"
            )
        };
        self.configure(node, &ids.iter().map(route).collect::<String>());
    }

    /// Runs `ip` commands, one a line, on a node.
    pub fn configure(&self, node: &str, commands: &str) {
        ip(&["-n", &self.namespace(node), "-batch", "-"], commands);
    }

    /// Has a node send no faster over an interface than a token bucket says (tc-tbf(8)).
    pub fn shape(&self, node: &str, interface: &str, bucket: &str) {
        self.tc(
            node,
            &["qdisc", "replace", "dev", interface, "root", "tbf"],
            &bucket.split(' ').collect::<Vec<_>>(),
        );
    }

    /// From now on, a node loses what this classic BPF (no other classifier is everywhere) says of what comes in by an interface.
    /// The other end of the cable divides super-packets, so that each datagram is lost or kept by itself.
    pub fn lose(&self, node: &str, interface: &str, bytecode: &str) {
        self.configure(interface, &format!("link set dev {node} gso_max_segs 1\n"));
        self.tc(node, &["qdisc", "add", "dev", interface, "clsact"], &[]);
        let filter =
            ["filter", "add", "dev", interface, "ingress", "protocol", "ipv6", "bpf", "da", "bytecode"];
        self.tc(node, &filter, &[bytecode]);
    }

    fn tc(&self, node: &str, arguments: &[&str], more: &[&str]) {
        let mut command = Command::new("tc");
        command.args(arguments).args(more);
        let output = self.within(node, move || command.output().expect("iproute2 is installed"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Does something on a node: what it opens or starts there stays there.
    pub fn within<T: Send>(&self, node: &str, act: impl FnOnce() -> T + Send) -> T {
        parallel::aside(|| {
            let namespace = Namespace::open(&self.namespace(node)).expect("the namespace is there");
            namespace.enter().expect("root may");
            act()
        })
    }

    /// Sends an IPv6 packet as it is from a node, so often. One to a group leaves by this interface.
    pub fn inject(&self, node: &str, interface: &str, packet: &[u8], times: usize) {
        let (ip, _) = ipv6::Header::parse(packet).expect("a packet");
        self.within(node, || {
            let socket = raw::open_ipv6_packets().expect("root may");
            let link = if ip.destination.is_multicast() { index_of(interface).expect("a cable") } else { 0 };
            let to = SocketAddr::V6(SocketAddrV6::new(ip.destination, 0, 0, link));
            for _ in 0..times {
                socket.send_to(packet, &to.into()).expect("it is routed");
                // Within what a plain socket's buffer holds, on a busy machine, too.
                thread::sleep(Duration::from_micros(200));
            }
        });
    }

    /// Starts a program on a node.
    pub fn start(&self, node: &str, command: &mut Command) -> Guarded {
        self.within(node, || session::start(command))
    }

    /// Starts a program on a node, which tells what happens as JSON.
    pub fn tell(&self, node: &str, command: &mut Command) -> Teller {
        self.within(node, || Teller::start(command))
    }

    /// A `treecast` command that is run on a node.
    pub fn treecast(&self, node: &str, arguments: &[&str]) -> std::process::Output {
        let mut command = treecast(arguments);
        self.within(node, move || command.output().expect("treecast can be run"))
    }

    /// What a `treecast` command prints on a node, where it ends well.
    #[track_caller]
    pub fn prints(&self, node: &str, arguments: &[&str]) -> String {
        session::finish_well(self.start(node, &mut treecast(arguments)))
    }

    /// Runs a `treecast` command on a node that must fail and say nothing but one line, which holds all of `words`.
    #[track_caller]
    pub fn refuses(&self, node: &str, arguments: &[&str], words: &[&str]) {
        self.within(node, || session::only_refused(&mut treecast(arguments), words));
    }

    /// A router that is ready.
    pub fn router(&self, node: &str, arguments: &[&str]) -> Router {
        self.router_with(node, arguments, Stdio::inherit())
    }

    /// The same, which writes its warnings to a file.
    pub fn router_that_warns(&self, node: &str, arguments: &[&str], warnings: &PrivateFile) -> Router {
        self.router_with(node, arguments, fs::File::create(&**warnings).expect("it is ours").into())
    }

    /// A router that is ready, and writes its warnings there. Nothing is left of it when it ends, unless it is told to
    /// keep that.
    fn router_with(&self, node: &str, arguments: &[&str], warnings: Stdio) -> Router {
        let keep: &[_] = if arguments.contains(&"--keep") { &[] } else { &["--keep", "0s"] };
        self.daemon(node, &[&["mroute"], keep, arguments].concat(), warnings)
    }

    /// A command that says "ready" and runs on.
    pub fn daemon(&self, node: &str, arguments: &[&str], warnings: Stdio) -> Router {
        let mut command = treecast(arguments);
        command.stderr(warnings);
        self.daemon_of(node, command)
    }

    /// The same, of a command that is made elsewhere.
    pub fn daemon_of(&self, node: &str, mut command: Command) -> Router {
        command.stdout(Stdio::piped());
        let mut child = self.within(node, move || command.spawn_guarded());
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it can be read");
        let router = Router(child);
        assert_eq!(line, "ready\n", "{node}");
        router
    }

    /// What a MEADcast and Xcast router says of itself.
    #[track_caller]
    pub fn router_status(&self, node: &str) -> explicit::Status {
        let output = self.treecast(node, &["router", "status", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a status")
    }

    pub fn status(&self, node: &str) -> Status {
        self.within(node, || mroute::show(None)).expect("the router answers")
    }

    /// What a router knows of the group's family.
    pub fn family(&self, node: &str, group: &str) -> Family {
        let status = self.status(node);
        if group.contains(':') { status.ipv6 } else { status.ipv4 }.expect("both families are routed")
    }

    /// A router's forwarding entry.
    pub fn entry(&self, node: &str, source: &str, group: &str) -> Option<Entry> {
        let is_it = |entry: &Entry| entry.source == address(source) && entry.group == address(group);
        self.family(node, group).entries.into_iter().find(is_it)
    }

    pub fn listen(&self, node: &str, interface: &str, group: &str, source: Option<&str>) -> Listener {
        self.within(node, || {
            let group = group_address(interface, group, source);
            let (socket, _) = open_group_receiver(&group, 4 << 20).expect("it can join");
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a good time");
            Listener { socket }
        })
    }

    pub fn socket_to(&self, node: &str, interface: &str, group: &str) -> (UdpSocket, SocketAddr) {
        self.within(node, || {
            let group = group_address(interface, group, None);
            (open_group_sender(&group, 32).expect("it can send"), group.group)
        })
    }

    /// Sends the sender's name to the group every 5 ms until it is dropped.
    pub fn stream(&self, node: &'static str, interface: &str, group: &str) -> Stream {
        let (socket, group) = self.socket_to(node, interface, group);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // Fails while the interface is down, if a test takes it down.
                let _ = socket.send_to(node.as_bytes(), group);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Stream { stop, thread: Some(thread) }
    }

    fn namespace(&self, node: &str) -> String {
        format!("{}-{node}", self.prefix)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in &self.nodes {
            // One that could not be made cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).output();
        }
    }
}

/// A running router. Dropped, it is killed.
pub struct Router(Guarded);

impl Router {
    pub fn signal(&self, signal: i32) {
        self.0.signal(signal);
    }

    /// Asks it to end, and returns its exit code.
    pub fn terminate(self) -> Option<i32> {
        self.end_by(libc::SIGTERM)
    }

    /// Sends it a signal that ends it, and returns its exit code, if it has one.
    pub fn end_by(mut self, signal: i32) -> Option<i32> {
        self.signal(signal);
        self.0.wait().expect("it is our child").code()
    }

    /// Processor time that it has used so far, in clock ticks of 10 ms.
    pub fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        let fields = stat.rsplit_once(')').expect("a name in brackets").1;
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }
}

/// A socket that has joined a group.
pub struct Listener {
    pub socket: UdpSocket,
}

impl Listener {
    /// Waits for a packet of the sender of this name, and says how long it took.
    pub fn hear(&self, sender: &str) -> Duration {
        let start = Instant::now();
        wait_until(&format!("a packet of {sender}"), || self.next().as_deref() == Some(sender));
        start.elapsed()
    }

    /// The names of all senders of the next so many packets.
    pub fn senders_of(&self, packets: usize) -> Vec<String> {
        let mut senders = Vec::new();
        wait_until(&format!("{packets} packets"), || {
            senders.extend(self.next());
            senders.len() >= packets
        });
        senders.sort();
        senders.dedup();
        senders
    }

    /// Waits until no packet has come for a second.
    pub fn hear_the_end(&self) {
        let start = Instant::now();
        let mut last = start;
        while last.elapsed() < Duration::from_secs(1) {
            if self.next().is_some() {
                last = Instant::now();
            }
            assert!(start.elapsed() < PATIENCE, "packets still come");
        }
    }

    pub fn next(&self) -> Option<String> {
        let mut buffer = [0; 2048];
        match self.socket.recv(&mut buffer) {
            Ok(len) => Some(String::from_utf8_lossy(&buffer[..len]).into_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A sender that sends.
pub struct Stream {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A UDP segment with its right checksum.
pub fn udp(source: Ipv6Addr, destination: Ipv6Addr, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let head = [ports[0], ports[1], len, 0].map(u16::to_be_bytes).concat();
    let mut segment = [&head[..], payload].concat();
    let checksum = upper_layer_checksum(source, destination, next_header::UDP, &segment);
    segment[6..8].copy_from_slice(&checksum.to_be_bytes());
    segment
}

pub fn treecast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn group_address(interface: &str, group: &str, source: Option<&str>) -> GroupAddress {
    GroupAddress {
        group: SocketAddr::new(address(group), PORT),
        source: source.map(address),
        interface: Interface::named(interface).expect("the interface is there"),
    }
}

fn ip(arguments: &[&str], input: &str) {
    let mut child =
        Command::new("ip").args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded();
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("ip reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it is our child");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn write(path: &str, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}
