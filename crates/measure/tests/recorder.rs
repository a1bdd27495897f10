//! Sampling nodes in other namespaces, straight and into the database. Needs root, as making a
//! namespace does: without it these tests fail.

use std::{
    net::UdpSocket,
    path::PathBuf,
    process::Command,
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use treecast_host::{
    namespace::Namespace as Network,
    netlink::{Batch, Netlink, requests},
};
use treecast_measure::{
    Db,
    db::{Machine, NewRun, NodeInfo, Parameters, Role},
    sample::{InterfaceSource, NodeSampler, NodeSource, Recorder, SampleError},
    series,
};

/// A namespace that lives as long as the thread that it was made by.
struct Namespace {
    path: PathBuf,
    orders: mpsc::Sender<usize>,
    done: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    fn new() -> Self {
        let (orders, inbox) = mpsc::channel();
        let (report, done) = mpsc::channel();
        let (tell, path) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            Network::enter_new().expect("cannot make a network namespace: run the tests as root");
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(PathBuf::from("/proc").join(thread).join("ns/net")).unwrap();
            bring_loopback_up();
            for packets in inbox {
                send_over_loopback(packets);
                report.send(()).unwrap();
            }
        });
        Self { path: path.recv().expect("the namespace's thread died"), orders, done, thread: Some(thread) }
    }

    /// Sends `packets` of 1,000 bytes over its loopback.
    fn send(&self, packets: usize) {
        self.orders.send(packets).unwrap();
        self.done.recv().unwrap();
    }

    fn source(&self, name: &str, device: &str) -> NodeSource {
        NodeSource {
            name: name.into(),
            namespace: Some(self.path.clone()),
            interfaces: vec![InterfaceSource { device: device.into(), label: "client".into() }],
            queues: true,
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel();
        self.orders = closed;
        self.thread.take().map(JoinHandle::join);
    }
}

fn bring_loopback_up() {
    const LOOPBACK: u32 = 1;
    let mut batch = Batch::default();
    requests::set_up(&mut batch, LOOPBACK, true);
    Netlink::open().unwrap().run(batch).unwrap();
}

fn send_over_loopback(packets: usize) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..packets {
        sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
    }
}

#[test]
fn each_node_is_counted_in_its_own_namespace() {
    let (a, b) = (Namespace::new(), Namespace::new());
    let mut sampler = NodeSampler::open(vec![a.source("a", "lo"), b.source("b", "lo")]).unwrap();
    a.send(3);
    b.send(50);
    let mut packets = [0; 2];
    sampler.sample(|node, reading| {
        if &*reading.name == "interface/client/tx_packets" {
            packets[node] = reading.value;
        }
    });
    assert_eq!(packets, [3, 50]);
}

#[test]
fn a_missing_namespace_or_interface_is_named() {
    let namespace = Namespace::new();
    let error = NodeSampler::open(vec![namespace.source("r1", "eth7")]).err().unwrap();
    assert_eq!(error.to_string(), "r1 has no interface eth7; it has lo");
    let gone = NodeSource { namespace: Some("/run/netns/no such node".into()), ..NodeSource::default() };
    let error = NodeSampler::open(vec![gone]).err().unwrap();
    assert!(matches!(error, SampleError::Namespace { .. }));
    assert!(error.to_string().contains("/run/netns/no such node"));
}

#[test]
fn the_recorder_puts_nodes_processes_and_the_machine_into_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.sqlite");
    let namespace = Namespace::new();
    let mut db = Db::open(&path).unwrap();
    let run = db.begin(&new_run()).unwrap();
    let server = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    let machine = db.add_node(run, &NodeInfo { name: "machine".into(), role: Role::Machine }).unwrap();

    let nodes = vec![(server, namespace.source("server0", "lo"))];
    let every = Duration::from_millis(20);
    let recorder = Recorder::start(&path, Instant::now(), every, nodes, Some(machine)).unwrap();
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    recorder.watch_process(server, busy.id());
    namespace.send(20);
    let deadline = Instant::now() + Duration::from_secs(120);
    while cpu_ticks(busy.id()) < 50 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.stop().unwrap();
    busy.kill().unwrap();
    busy.wait().unwrap();

    let sent = db.samples(server, "interface/client/tx_packets").unwrap();
    assert_eq!(sent.last().unwrap().1, 20);
    assert!(sent.len() > 3, "{} samples in half a second and more", sent.len());
    assert!(sent.is_sorted_by_key(|(at, _)| *at));
    assert!(db.samples(server, series::PROCESS_CPU_NS).unwrap().last().unwrap().1 >= 300_000_000);
    assert!(db.samples(machine, series::CPU_IDLE_NS).unwrap().len() >= sent.len() - 1);
}

/// Processor time of a process so far, in clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

fn new_run() -> NewRun {
    NewRun {
        experiment: "test".into(),
        parameters: Parameters::new(),
        repeat: 0,
        seed: 1,
        command: "a test".into(),
        machine: Machine::default(),
    }
}
