//! The network of the router's bench: a sender, a router and receivers, each receiver on a link of its own to
//! the router.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Write as _,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use treecast_driver::udp::{
    DatagramReceiver, GroupAddress, Offload, open_group_receiver, open_unicast_receiver,
};
use treecast_host::{interface::Interface, packet::FrameSocket, stop::Stop};
use treecast_lab::{Lab, Topology};
use treecast_measure::{
    sample::{NodeSampler, NodeSource},
    series::{Counter, parse_interface},
};

use treecast_proto::explicit::{
    authentication::DomainKey,
    list_proof::{ListKey, epoch_at},
};

use super::{
    Result,
    frames::{Addresses, Flow, Progress},
};
use crate::{Tell, crew::Crew, stage::OwnLab};

const SENDER: &str = "sender";
const ROUTER: &str = "router";

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x7ca5);
const GROUP_PORT: u16 = 7000;
const PORT: u16 = 7001;

/// The receive buffer of a socket that nobody reads, in bytes. Further packets are dropped.
const BUFFER_BYTES: usize = 64 * 1024;

/// The time within which a packet must have come to all receivers.
const PATIENCE: Duration = Duration::from_secs(20);

/// The MEADcast router beside the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mead {
    Detached,
    Program,
    /// The program with a key, so that lists must have a proof.
    Keyed,
    UserSpace,
}

/// The value of `--copies-per-second`: copies are counted as by default, and never too many.
const MOST_COPIES: &str = "4294967295";

/// A file with the domain's key, which is removed when this is dropped.
struct KeyFile(PathBuf);

/// The secret, which only this network uses.
const SECRET: [u8; 32] = [7; 32];

impl KeyFile {
    fn write() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("treecast-bench-{}.key", std::process::id()));
        let digits: String = SECRET.iter().map(|octet| format!("{octet:02x}")).collect();
        fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)?
            .write_all(digits.as_bytes())?;
        Ok(Self(path))
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = fs::remove_file(&self.0);
    }
}

/// The network with its programs. Removed when this is dropped.
pub struct Network {
    mead: (Mead, Crew),
    /// The multicast router, which runs as long as this.
    _mroute: Crew,
    pub addresses: Addresses,
    pub frames: FrameSocket,
    key_file: KeyFile,
    receivers: Vec<Receiver>,
    sampler: NodeSampler,
    pub lab: OwnLab,
}

/// The sockets of a receiver. They are read only when packets are checked.
struct Receiver {
    multicast: DatagramReceiver,
    unicast: DatagramReceiver,
    /// The packet of the flow that is on its way.
    progress: Progress,
}

/// The packets that have come to all receivers together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrived {
    /// The number of packets. A super-packet counts as one.
    pub packets: u64,
    pub bytes: u64,
}

impl Network {
    pub fn set(count: u32, stop: Stop, tell: Tell) -> Result<Self> {
        let key_file = KeyFile::write()?;
        let name = format!("benchrouter{}", std::process::id());
        let lab = OwnLab::up(&topology(count)?, &name, stop, tell)?;
        let mroute = start(&lab, &["mroute", "--keep", "0s"])?;
        let nodes = lab.get()?.nodes().iter().filter(|node| node.name.starts_with("receiver"));
        let receivers = nodes.clone().map(|node| open_receiver(&lab, &node.name)).collect::<Result<_>>()?;
        let source = |node: &treecast_lab::LabNode| NodeSource {
            name: node.name.clone(),
            namespace: Some(format!("/run/netns/{}", node.namespace).into()),
            ..NodeSource::default()
        };
        let sampler = NodeSampler::open(nodes.clone().map(source).collect())?;
        let (sender, router) = (lab.interface(SENDER)?, lab.interface(ROUTER)?);
        let frames = lab.get()?.enter(SENDER, || FrameSocket::open_past_queue(sender.index))??;
        let addresses = Addresses {
            sender: sender.v6,
            sender_mac: sender.mac,
            router: router.v6,
            router_mac: router.mac,
            receivers: nodes.filter_map(treecast_lab::LabNode::v6).collect(),
            group: GROUP,
            group_port: GROUP_PORT,
            port: PORT,
        };
        let mead = (Mead::Detached, Crew::default());
        Ok(Self { mead, _mroute: mroute, addresses, frames, key_file, receivers, sampler, lab })
    }

    /// The key for proofs of lists, and their epoch. The bench is over before the epoch is.
    pub fn lists() -> Result<(ListKey, u64)> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok((DomainKey::new(&SECRET).of_lists(), epoch_at(since.as_secs())))
    }

    /// Starts or ends the MEADcast router. When it is detached, nothing of it is left on the interfaces.
    pub fn attach(&mut self, wanted: Mead) -> Result<()> {
        self.lab.go_on()?;
        if self.mead.0 == wanted {
            return Ok(());
        }
        let (_, running) = std::mem::replace(&mut self.mead, (Mead::Detached, Crew::default()));
        running.end(&self.lab.stop)?;
        clear_interfaces(self.lab.get()?)?;
        let arguments = match wanted {
            Mead::Detached => return Ok(()),
            Mead::Program => &[][..],
            Mead::Keyed => {
                &["--key", self.key_file.0.to_str().ok_or("the temporary folder's name is no text")?]
            }
            Mead::UserSpace => &["--user-space"],
        };
        let run = ["router", "run", "--all", "--leave-within", "0", "--copies-per-second", MOST_COPIES];
        self.mead = (wanted, start(&self.lab, &[&run, arguments].concat())?);
        Ok(())
    }

    /// Sends frames of the flow until each receiver has got one packet complete and unaltered. Discards
    /// everything else that has come.
    pub fn check(&mut self, flow: &Flow) -> Result<()> {
        self.drain();
        let deadline = Instant::now() + PATIENCE;
        let mut missing: BTreeSet<usize> = (0..self.receivers.len()).collect();
        while !missing.is_empty() {
            self.lab.go_on()?;
            if Instant::now() > deadline {
                let line = format!("{} of {} receivers get nothing", missing.len(), self.receivers.len());
                return Err(line.into());
            }
            for frame in &flow.frames {
                self.frames.send_all(&[frame])?;
            }
            // This gives neighbours time to answer, and at first listeners time to be known.
            std::thread::sleep(Duration::from_millis(20));
            for (number, receiver) in self.receivers.iter_mut().enumerate() {
                if receiver.hears(flow)? {
                    missing.remove(&number);
                }
            }
        }
        self.drain();
        Ok(())
    }

    fn drain(&mut self) {
        for receiver in &mut self.receivers {
            receiver.progress = Progress::default();
            for socket in [&mut receiver.multicast, &mut receiver.unicast] {
                // A socket that cannot be read is reported when packets are checked.
                while socket.receive(|_, _| {}).unwrap_or(false) {}
            }
        }
    }

    /// The packets that have come since the network was made.
    pub fn arrived(&mut self) -> Arrived {
        let mut arrived = Arrived::default();
        self.sampler.sample(|_, reading| match parse_interface(&reading.name) {
            Some((_, Counter::RxPackets)) => arrived.packets += reading.value as u64,
            Some((_, Counter::RxBytes)) => arrived.bytes += reading.value as u64,
            _ => {}
        });
        arrived
    }

    /// Opens a connection from the sender to the first receiver. Returns both ends.
    pub fn connect(&self) -> Result<(TcpStream, TcpStream)> {
        let lab = self.lab.get()?;
        let to = SocketAddr::V6(SocketAddrV6::new(self.addresses.receivers[0], PORT, 0, 0));
        let listener = lab.enter("receiver0", || TcpListener::bind(to))??;
        let near = lab.enter(SENDER, || TcpStream::connect_timeout(&to, PATIENCE))??;
        let (far, _) = listener.accept()?;
        near.set_write_timeout(Some(PATIENCE))?;
        Ok((near, far))
    }
}

impl Receiver {
    /// Whether a packet of the flow has come whole. A datagram of any other packet is an error.
    fn hears(&mut self, flow: &Flow) -> Result<bool> {
        let socket = if flow.port == GROUP_PORT { &mut self.multicast } else { &mut self.unicast };
        let (mut has_come, mut wrong) = (false, None);
        let mut check = |datagram: &[u8]| match self.progress.take(flow.size, datagram) {
            Some(is_complete) => has_come |= is_complete,
            None => wrong = Some(datagram.len()),
        };
        while socket.receive(|_, datagram| check(datagram))? {}
        match wrong {
            Some(len) => Err(format!("a receiver got a wrong datagram of {len} bytes").into()),
            None => Ok(has_come),
        }
    }
}

fn topology(receivers: u32) -> Result<Topology> {
    // The router's first interface is the one to the sender.
    let mut text = format!(
        "[nodes]\n{SENDER} = {{ role = \"server\" }}\n{ROUTER} = {{ role = \"router\" }}\n\
         receiver = {{ role = \"client\", count = {receivers} }}\n\
         [links.from]\nnodes = [\"{SENDER}\", \"{ROUTER}\"]\n"
    );
    for number in 0..receivers {
        write!(text, "[links.to{number}]\nnodes = [\"{ROUTER}\", \"receiver{number}\"]\n")?;
    }
    Ok(Topology::from_toml(&text, "the bench's network")?)
}

/// Starts this program in the router. Returns when the program reports that it is ready.
fn start(lab: &OwnLab, arguments: &[&str]) -> Result<Crew> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments);
    let mut crew = Crew::default();
    crew.add(lab.start(ROUTER, &format!("treecast {}", arguments.join(" ")), command)?);
    crew.wait_ready(&lab.stop)?;
    Ok(crew)
}

fn open_receiver(lab: &OwnLab, node: &str) -> Result<Receiver> {
    let name = &lab.interface(node)?.name;
    let open = || {
        let group = SocketAddr::V6(SocketAddrV6::new(GROUP, GROUP_PORT, 0, 0));
        let interface = Interface::named(name).map_err(|error| error.to_string())?;
        let address = GroupAddress { group, source: None, interface };
        let multicast = open_group_receiver(&address, BUFFER_BYTES).map_err(|error| error.to_string())?.0;
        let unicast = open_unicast_receiver(PORT, BUFFER_BYTES).map_err(|error| error.to_string())?.0;
        let [multicast, unicast] =
            [multicast, unicast].map(|socket| DatagramReceiver::new(socket, Offload::SuperPackets));
        Ok::<_, String>(Receiver { multicast, unicast, progress: Progress::default() })
    };
    Ok(lab.get()?.enter(node, open)??)
}

/// Removes the queueing disciplines with filters from the router's interfaces, with all their filters.
fn clear_interfaces(lab: &Lab) -> Result<()> {
    let interfaces = lab.node(ROUTER)?.interfaces.iter();
    let batch: String =
        interfaces.map(|interface| format!("qdisc del dev {} clsact\n", interface.name)).collect();
    let mut command = Command::new("tc");
    // There may be none.
    command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = lab.spawn(ROUTER, command)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes())?;
    }
    child.wait()?;
    Ok(())
}
