//! Networks with the faults of labs/doctor/faults.toml, drawn from a seed.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use treecast_host::{interface::index_of, namespace::Namespace, offload::OFFLOAD_LEN, packet, raw};
use treecast_lab::{Daemon, Lab, LabNode, Role, Topology, Trees, parallel};

use crate::{
    child::Guarded,
    session::{Scratch, TREECAST, start, wait_until},
    site::Site,
};

/// A fault of labs/doctor/faults.toml, which explains the keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub name: String,
    lans: [u64; 2],
    hosts: u64,
    #[serde(default)]
    needs: Vec<String>,
    at: Option<String>,
    script: Option<String>,
    helper: Option<String>,
    pub kind: String,
    #[serde(default = "problem")]
    pub level: String,
    blame: BTreeMap<String, String>,
}

fn problem() -> String {
    "problem".to_owned()
}

#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

/// The faults that the doctor must name.
pub fn faults() -> Vec<Fault> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/doctor/faults.toml");
    let text = fs::read_to_string(path).expect("the file is there");
    toml::from_str::<Faults>(&text).expect("a list of faults").fault
}

/// Numbers drawn from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn number(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        from + (mixed ^ mixed >> 31) % (to - from + 1)
    }
}

/// The shape of a network.
struct Shape {
    /// The number of hosts on each LAN.
    hosts: Vec<u64>,
    has_ipv4: bool,
    has_ipv6: bool,
    /// The victim's LAN, and its place there.
    victim: (usize, u64),
    /// The router of the fault stands between the victim's LAN and this one.
    next: usize,
    doctor: (usize, u64),
}

impl Shape {
    fn draw(fault: Option<&Fault>, seed: u64, is_small: bool) -> Self {
        let name = fault.map_or("sound", |fault| &fault.name);
        let mut draw =
            Draw(name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())));
        let [least, most] = fault.map_or([1, 3], |fault| fault.lans);
        let lans = draw.number(least, if is_small { most.min(2).max(least) } else { most });
        let victim_lan = draw.number(0, lans - 1);
        let least_there = fault.map_or(1, |fault| fault.hosts);
        let host_count = |draw: &mut Draw, lan| {
            draw.number(
                if lan == victim_lan { least_there } else { 1 },
                if is_small { least_there.max(1) } else { 3 },
            )
        };
        let mut hosts: Vec<u64> = (0..lans).map(|lan| host_count(&mut draw, lan)).collect();
        if hosts.iter().sum::<u64>() < 2 {
            hosts[0] += 1;
        }
        let needs = |family: &str| fault.is_some_and(|fault| fault.needs.iter().any(|need| need == family));
        let families = draw.number(0, 3);
        let (has_ipv4, has_ipv6) = (families != 1 || needs("ipv4"), families != 0 || needs("ipv6"));
        let victim = (victim_lan as usize, draw.number(0, hosts[victim_lan as usize] - 1));
        let next = match victim_lan {
            0 => 1,
            lan if lan + 1 == lans => lan as usize - 1,
            lan => (lan as usize + 1).saturating_sub(2 * draw.number(0, 1) as usize),
        };
        let places = (0..lans as usize).flat_map(|lan| (0..hosts[lan]).map(move |host| (lan, host)));
        let is_at_router = fault.is_some_and(|fault| fault.at.as_deref() == Some("router"));
        // The doctor's unicast must cross the router of the fault, and the victim must not be the doctor's own host.
        let places: Vec<_> =
            places.filter(|place| *place != victim && (!is_at_router || place.0 == next)).collect();
        let doctor = places[draw.number(0, places.len() as u64 - 1) as usize];
        Self { hosts, has_ipv4, has_ipv6, victim, next, doctor }
    }

    fn to_toml(&self) -> String {
        let mut text = String::from("[nodes]\n");
        for (lan, count) in self.hosts.iter().enumerate() {
            text += &(0..*count)
                .map(|host| format!("{} = {{ role = \"client\" }}\n", host_name((lan, host))))
                .collect::<String>();
        }
        text += &(1..self.hosts.len())
            .map(|router| format!("r{} = {{ role = \"router\" }}\n", router - 1))
            .collect::<String>();
        for (lan, count) in self.hosts.iter().enumerate() {
            let routers = [lan.checked_sub(1), (lan + 1 < self.hosts.len()).then_some(lan)];
            let routers = routers.into_iter().flatten().map(|router| format!("r{router}"));
            let nodes: Vec<_> = routers
                .chain((0..*count).map(|host| host_name((lan, host))))
                .map(|name| format!("{name:?}"))
                .collect();
            text += &format!(
                "[lans.lan{lan}]\nnodes = [{}]\nprefixes = [\"fd00:{lan}::/64\", \"10.0.{lan}.0/24\"]\n",
                nodes.join(", ")
            );
        }
        text
    }

    fn prefix(&self, lan: usize) -> String {
        if self.has_ipv4 {
            format!("10.0.{lan}.0/24")
        } else {
            format!("fd00:{lan}::/64").replace("fd00:0::", "fd00::")
        }
    }
}

fn host_name((lan, host): (usize, u64)) -> String {
    format!("h{lan}{}", (b'a' + host as u8) as char)
}

/// A network, broken or sound.
pub struct Broken {
    site: Site,
    shape: Shape,
    fault: Option<Fault>,
    listeners: Vec<Guarded>,
    _routers: Vec<Daemon>,
    helper: Option<Helper>,
}

impl Broken {
    /// Builds a network from a seed, and breaks it.
    pub fn new(fault: Option<&Fault>, seed: u64, is_small: bool) -> Self {
        let shape = Shape::draw(fault, seed, is_small);
        let topology = Topology::from_toml(&shape.to_toml(), "drawn").expect("a topology");
        let mut network = Self {
            site: Site::with(Scratch::new(), &topology),
            shape,
            fault: fault.cloned(),
            listeners: Vec::new(),
            _routers: Vec::new(),
            helper: None,
        };
        network.limit_families();
        let routers = network.lab().start_routers(Path::new(TREECAST), Trees::default(), |_| {});
        network._routers = routers.expect("routers start");
        // Routers become queriers, and switches notice.
        thread::sleep(Duration::from_millis(1500));
        network.make_fault();
        let doctor = host_name(network.shape.doctor);
        let others: Vec<String> = network.hosts().filter(|host| *host != doctor).collect();
        for host in &others {
            let listen = "doctor listen --interface if1 --listen 2.2";
            network.listeners.push(start(&mut network.site.command(host, listen)));
        }
        others.iter().for_each(|host| network.wait_until_it_listens(host));
        network
    }

    /// Waits until a host's program takes the doctor's connections.
    fn wait_until_it_listens(&self, host: &str) {
        let port = format!(":{:04X} ", treecast_doctor::network::PORT);
        let has_port = |table: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{table}"))
                .is_ok_and(|text| text.contains(&port))
        };
        let listens = || ["tcp", "tcp6"].into_iter().any(has_port);
        wait_until(&format!("{host} listens"), || {
            self.lab().enter(host, listens).expect("the node is there")
        });
    }

    /// Runs the doctor, and returns its exit code and report.
    pub fn examine(&self) -> (Option<i32>, Value) {
        let doctor = host_name(self.shape.doctor);
        let others = self.hosts().filter(|host| *host != doctor).map(|host| self.address(&host));
        let mut command = self.site.command(&doctor, "doctor --json --interface if1 --listen 2.2");
        command.args(others.collect::<Vec<_>>());
        let output = start(&mut command).wait_with_output().expect("it is our child");
        let report = serde_json::from_slice(&output.stdout);
        (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {output:?}")))
    }

    /// The address by which the doctor calls a host: IPv6, where there is some, because some faults break unicast of IPv4.
    fn address(&self, host: &str) -> String {
        let node = self.lab().node(host).expect("it is there");
        match self.shape.has_ipv6 {
            true => node.v6().expect("an address").to_string(),
            false => node.v4().expect("an address").to_string(),
        }
    }

    /// Whether the fault's place is what a finding blames. A sound network has nobody to blame.
    pub fn is_to_blame(&self, blame: &Value) -> bool {
        let Some(fault) = &self.fault else { return false };
        let (mut wanted, router) = (fault.blame.clone(), self.router());
        wanted.values_mut().for_each(|value| *value = self.filled(value));
        if let (Some(from), Some(to)) = (wanted.get("from").cloned(), wanted.get("to").cloned())
            && wanted["who"] == "routers"
            && !matches!(fault.kind.as_str(), "narrow-link" | "storm-control")
        {
            // In both directions: the LANs are in their order.
            wanted.insert("from".into(), from.clone().min(to.clone()));
            wanted.insert("to".into(), from.max(to));
        }
        wanted.iter().all(|(key, value)| match value.as_str() {
            "*" => true,
            "{router}" => router.is_some_and(|router| {
                router.interfaces.iter().any(|interface| {
                    blame[key] == interface.v6.to_string() || blame[key] == interface.v4.to_string()
                })
            }),
            value => blame[key] == value,
        })
    }

    fn lab(&self) -> &Lab {
        self.site.lab()
    }

    fn hosts(&self) -> impl Iterator<Item = String> + use<> {
        let hosts = self.shape.hosts.clone().into_iter().enumerate();
        hosts.flat_map(|(lan, count)| (0..count).map(move |host| host_name((lan, host))))
    }

    /// The router between the victim's LAN and the next one.
    fn router(&self) -> Option<&LabNode> {
        let name = format!("r{}", self.shape.victim.0.min(self.shape.next));
        self.lab().nodes().iter().find(|node| node.role == Role::Router && node.name == name)
    }

    /// Takes a family away from all hosts that the network shall not have.
    fn limit_families(&self) {
        for host in self.hosts() {
            if !self.shape.has_ipv4 {
                self.run(&self.lab().node(&host).expect("a host").namespace, "ip -4 addr flush dev if1");
            }
            if !self.shape.has_ipv6 {
                self.run(
                    &self.lab().node(&host).expect("a host").namespace,
                    "echo 1 > /proc/sys/net/ipv6/conf/if1/disable_ipv6",
                );
            }
        }
    }

    fn make_fault(&mut self) {
        let Some(fault) = self.fault.clone() else { return };
        let victim = self.lab().node(&host_name(self.shape.victim)).expect("a host").namespace.clone();
        if let Some(script) = &fault.script {
            let namespace = match fault.at.as_deref() {
                Some("host") => victim.clone(),
                Some("switch") => self.switch(),
                Some("router") => self.router().expect("there are two LANs").namespace.clone(),
                other => panic!("{}: at = {other:?}", fault.name),
            };
            self.run(&namespace, &self.filled(script));
        }
        self.helper = match fault.helper.as_deref() {
            Some("igmpv1") => Some(Helper::query(&victim)),
            Some("loop") => Some(self.make_loop()),
            Some("twice") => Some(Helper::twice(&self.switch(), &self.port(&victim))),
            Some("no mroute") => {
                self.stop_router();
                None
            }
            None => None,
            Some(other) => panic!("{}: helper = {other:?}", fault.name),
        };
        // A kernel speaks an old version as soon as it has heard a query, and switches forget at once.
        thread::sleep(Duration::from_millis(700));
    }

    /// Ends the multicast routing of the router between the victim's LAN and the next one. Their switches forget that it was
    /// there, so they ask for listeners themselves.
    fn stop_router(&self) {
        let router = self.router().expect("there are two LANs").namespace.clone();
        shell("sh", &["-c", &format!("ip netns pids {router} | xargs -r kill -9")]);
        for lan in [self.shape.victim.0, self.shape.next] {
            // A bridge asks for IPv6 listeners as soon as it has an address. The lab gives none to a bridge beside a router.
            let script = format!(
                "echo 0 > /proc/sys/net/ipv6/conf/lan{lan}/disable_ipv6 && ip link set lan{lan} down && ip link set lan{lan} up && \
                 for try in $(seq 100); do ip -6 -o addr show dev lan{lan} -tentative | grep -q fe80 && break; sleep 0.1; done && \
                 for querier in 0 1; do ip link set lan{lan} type bridge mcast_querier $querier; done"
            );
            self.run(&self.switch(), &script);
        }
    }

    fn switch(&self) -> String {
        format!("{}.switch", self.lab().name())
    }

    /// The names in a script or a blame, replaced by what they are in this network.
    fn filled(&self, text: &str) -> String {
        let host = self.lab().node(&host_name(self.shape.victim)).expect("a host");
        let is_at_router = self.fault.as_ref().is_some_and(|fault| fault.at.as_deref() == Some("router"));
        let lan = format!("lan{}", self.shape.victim.0);
        let of_router = self
            .router()
            .and_then(|router| router.interfaces.iter().find(|interface| interface.network == lan));
        let interface = of_router.filter(|_| is_at_router).map_or("if1", |interface| &interface.name);
        let doctor = self.lab().node(&host_name(self.shape.doctor)).expect("a host").v4();
        let names = [
            ("{host}", host.name.clone()),
            ("{host4}", host.v4().map(|address| address.to_string()).unwrap_or_default()),
            ("{address}", self.address(&host.name)),
            ("{lan}", lan.clone()),
            ("{prefix}", self.shape.prefix(self.shape.victim.0)),
            ("{next}", self.shape.prefix(self.shape.next)),
            ("{interface}", interface.to_owned()),
            ("{doctor}", host_name(self.shape.doctor)),
            ("{doctor4}", doctor.unwrap_or(Ipv4Addr::UNSPECIFIED).to_string()),
            ("{gateway4}", of_router.map(|interface| interface.v4.to_string()).unwrap_or_default()),
        ];
        let text = names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
        if text.contains("{port}") { text.replace("{port}", &self.port(&host.namespace)) } else { text }
    }

    /// The switch's port at the other end of a host's cable.
    fn port(&self, namespace: &str) -> String {
        let links = |namespace: &str, arguments: &[&str]| -> Value {
            let output = Command::new("ip")
                .args(["-n", namespace, "-j", "link", "show"])
                .args(arguments)
                .output()
                .expect("iproute2");
            serde_json::from_slice(&output.stdout).expect("JSON")
        };
        let far = links(namespace, &["dev", "if1"])[0]["link_index"].clone();
        let ports = links(&self.switch(), &[]);
        let port = ports
            .as_array()
            .expect("a list")
            .iter()
            .find(|port| port["ifindex"] == far)
            .expect("it has another end");
        port["ifname"].as_str().expect("a name").to_owned()
    }

    /// A node with two cables to the victim's LAN. Its switch takes it for a router, and it hands on what comes.
    fn make_loop(&self) -> Helper {
        let (switch, name) = (self.switch(), format!("{}-x", self.lab().name()));
        let lan = format!("lan{}", self.shape.victim.0);
        shell("sh", &["-c", &format!("ip netns add {name}")]);
        for end in ["x1", "x2"] {
            let script = format!(
                "ip -n {switch} link add port{end} type veth peer name {end} netns {name} && \
                 ip -n {switch} link set port{end} master {lan} up && \
                 ip -n {switch} link set port{end} type bridge_slave mcast_router 2 && \
                 ip -n {name} link set {end} up"
            );
            shell("sh", &["-c", &script]);
        }
        Helper::relay(&name)
    }

    /// Runs a shell script in a namespace.
    #[track_caller]
    fn run(&self, namespace: &str, script: &str) {
        shell("ip", &["netns", "exec", namespace, "sh", "-c", script]);
    }
}

/// Runs a program that must succeed.
#[track_caller]
fn shell(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for Broken {
    fn drop(&mut self) {
        self.listeners.clear();
        self.helper = None;
        _ = Command::new("ip").args(["netns", "del", &format!("{}-x", self.lab().name())]).output();
    }
}

/// A thread that makes a fault until it is dropped.
struct Helper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Asks for listeners as IGMPv1 does (RFC 1112): the response time is zero.
    fn query(namespace: &str) -> Self {
        const QUERY: [u8; 8] = [0x11, 0, 0xee, 0xff, 0, 0, 0, 0];
        let socket = parallel::aside(|| {
            Namespace::open(namespace).and_then(|namespace| namespace.enter()).expect("it is there");
            let socket = raw::open_igmp().expect("root may");
            raw::set_up_igmp(&socket).expect("an IGMP socket");
            socket
        });
        let act = move || {
            _ = socket.send_to(&QUERY, &std::net::SocketAddr::from((Ipv4Addr::new(224, 0, 0, 1), 0)).into());
            thread::sleep(Duration::from_millis(300));
        };
        Self::start(act)
    }

    /// Sends UDP to groups that leaves by a port once more.
    fn twice(namespace: &str, port: &str) -> Self {
        let socket = parallel::aside(|| {
            Namespace::open(namespace).and_then(|namespace| namespace.enter()).expect("it is there");
            packet::open_for_forwarding(index_of(port).expect("it is there")).expect("root may")
        });
        let mut buffer = vec![0; 1 << 16];
        let act = move || {
            let mut is_idle = true;
            // A packet socket does not hear what it has sent itself.
            while let Ok((len, addressee)) = packet::receive(&socket, &mut buffer) {
                is_idle = false;
                let is_leaving = addressee == packet::Addressee::Leaving;
                if is_leaving && is_to_group(&buffer[OFFLOAD_LEN..len]) {
                    _ = socket.send(&buffer[..len]);
                }
            }
            if is_idle {
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self::start(act)
    }

    /// Hands UDP to groups on from each of two interfaces to the other, as a router does, until the hop limit is used up.
    fn relay(namespace: &str) -> Self {
        let sockets = parallel::aside(|| {
            Namespace::open(namespace).and_then(|namespace| namespace.enter()).expect("it is there");
            ["x1", "x2"].map(|name| {
                let index = index_of(name).expect("it is there");
                let socket = packet::open_for_forwarding(index).expect("root may");
                packet::take_all_groups(&socket, index).expect("root may");
                socket
            })
        });
        let mut buffer = vec![0; 1 << 16];
        let act = move || {
            let mut is_idle = true;
            for (from, to) in [(0, 1), (1, 0)] {
                while let Ok((len, addressee)) = packet::receive(&sockets[from], &mut buffer) {
                    is_idle = false;
                    if addressee != packet::Addressee::Leaving && hand_on(&mut buffer[OFFLOAD_LEN..len]) {
                        _ = sockets[to].send(&buffer[..len]);
                    }
                }
            }
            if is_idle {
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self::start(act)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Whether a frame has UDP to a group.
fn is_to_group(frame: &[u8]) -> bool {
    const UDP: u8 = 17;
    match frame.get(12..14) {
        Some([8, 0]) if frame.len() > 34 => frame[23] == UDP && frame[30] >= 224,
        Some([0x86, 0xdd]) if frame.len() > 54 => frame[20] == UDP && frame[38] == 0xff,
        _ => false,
    }
}

/// Counts a hop in a frame with UDP to a group that may leave its link. False for every other frame.
fn hand_on(frame: &mut [u8]) -> bool {
    const UDP: u8 = 17;
    match (frame.get(12).copied(), frame.get(13).copied()) {
        (Some(8), Some(0))
            if frame.len() > 34
                && frame[23] == UDP
                && frame[30] >= 224
                && frame[22] > 1
                && frame[30..33] != [224, 0, 0] =>
        {
            frame[22] -= 1;
            let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x100;
            let sum = (sum & 0xffff) + (sum >> 16);
            frame[24..26].copy_from_slice(&(sum as u16).to_be_bytes());
        }
        (Some(0x86), Some(0xdd))
            if frame.len() > 54
                && frame[20] == UDP
                && frame[38] == 0xff
                && frame[39] & 15 > 2
                && frame[21] > 1 =>
        {
            frame[21] -= 1;
        }
        _ => return false,
    }
    // The relay's own address, which no switch has learned elsewhere.
    frame[6..12].copy_from_slice(&[2, 0xd0, 0xc7, 0, 0, 1]);
    true
}
