//! Samples the interfaces and processes of all nodes of a lab, in one thread.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use treecast_host::{
    namespace::Namespace,
    netlink::{
        Netlink,
        counters::{Counters, QueueState},
    },
};

use super::{Reading, SampleError, process::ProcessTree};
use crate::series::{self, Counter, Name, Queue};

/// A node to sample.
#[derive(Debug, Clone, Default)]
pub struct NodeSource {
    pub name: String,
    /// The network namespace, e.g. a file of /run/netns. `None`: the one of this thread.
    pub namespace: Option<PathBuf>,
    /// The interfaces to sample. If empty, all except the loopback.
    pub interfaces: Vec<InterfaceSource>,
    /// Whether to sample the queues in front of limited rates, too.
    pub queues: bool,
}

/// An interface to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSource {
    /// The interface's name on the node.
    pub device: String,
    /// The label for the interface in the results. A router's interfaces are `server`, for the one towards the
    /// server, and `client`, for the one towards the clients (librecast-updates-2022, 5.3).
    pub label: String,
}

/// Samples the interfaces of any number of nodes, and the processes that run on them.
pub struct NodeSampler {
    nodes: Vec<Node>,
    counters: Vec<Counters>,
}

struct Node {
    source: NodeSource,
    socket: Netlink,
    /// The series of each interface, by its index. `None` for an interface that is not sampled.
    series: HashMap<u32, Option<[Name; 6]>>,
    /// The label of each interface, by its index.
    queue_labels: HashMap<u32, String>,
    processes: Vec<ProcessTree>,
    cpu: Name,
    resident: Name,
}

impl NodeSampler {
    /// Opens all `nodes`. An error names the node that does not exist, or the interface that it lacks.
    pub fn open(nodes: Vec<NodeSource>) -> Result<Self, SampleError> {
        // This needs a thread of its own, because entering a namespace changes the thread for good.
        let opened = std::thread::scope(|scope| {
            let opener = std::thread::Builder::new().name("namespaces".into());
            let thread = opener
                .spawn_scoped(scope, || nodes.into_iter().map(Node::open).collect::<Result<_, _>>())
                .map_err(SampleError::Thread)?;
            thread.join().map_err(|_| SampleError::Thread(io::Error::other("it panicked")))?
        })?;
        Ok(Self { nodes: opened, counters: Vec::new() })
    }

    /// Also samples the process `pid` and its descendants, under the node with the index `node` in the opened
    /// list.
    pub fn watch_process(&mut self, node: usize, pid: u32) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.processes.push(ProcessTree::new(pid));
        }
    }

    /// Calls `each` for every reading, with the index of its node.
    pub fn sample(&mut self, mut each: impl FnMut(usize, Reading)) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.sample_interfaces(&mut self.counters, |reading| each(index, reading));
            node.sample_queues(|reading| each(index, reading));
            node.sample_processes(|reading| each(index, reading));
        }
    }
}

impl Node {
    fn open(source: NodeSource) -> Result<Self, SampleError> {
        if let Some(path) = &source.namespace {
            enter(path)?;
        }
        let failed = |e| SampleError::Netlink { node: source.name.clone(), source: e };
        let mut socket = Netlink::open().map_err(failed)?;
        let links = socket.links().map_err(failed)?;
        let mut node = Self {
            source,
            socket,
            series: HashMap::new(),
            queue_labels: HashMap::new(),
            processes: Vec::new(),
            cpu: series::PROCESS_CPU_NS.into(),
            resident: series::PROCESS_RESIDENT_BYTES.into(),
        };
        node.check_interfaces(&links)?;
        node.name_series(&links);
        Ok(node)
    }

    fn check_interfaces(&self, links: &[(u32, String)]) -> Result<(), SampleError> {
        let missing = self
            .source
            .interfaces
            .iter()
            .find(|wanted| !links.iter().any(|(_, name)| *name == wanted.device));
        let Some(missing) = missing else { return Ok(()) };
        let present: Vec<&str> = links.iter().map(|(_, name)| name.as_str()).collect();
        Err(SampleError::NoInterface {
            node: self.source.name.clone(),
            device: missing.device.clone(),
            present: present.join(", "),
        })
    }

    fn name_series(&mut self, links: &[(u32, String)]) {
        self.series = links
            .iter()
            .map(|(index, device)| {
                let label = self.label(device);
                (*index, label.map(|label| Counter::ALL.map(|counter| series::interface(label, counter))))
            })
            .collect();
        let label = |(index, device): &(u32, String)| Some((*index, self.label(device)?.to_owned()));
        self.queue_labels = links.iter().filter_map(label).collect();
    }

    fn label<'a>(&'a self, device: &'a str) -> Option<&'a str> {
        if self.source.interfaces.is_empty() {
            return (device != "lo").then_some(device);
        }
        let wanted = self.source.interfaces.iter().find(|wanted| wanted.device == device);
        wanted.map(|wanted| wanted.label.as_str())
    }

    fn sample_interfaces(&mut self, counters: &mut Vec<Counters>, mut each: impl FnMut(Reading)) {
        counters.clear();
        if self.socket.counters(counters).is_err() {
            return;
        }
        if counters.iter().any(|c| !self.series.contains_key(&c.index)) {
            self.learn_new_interfaces();
        }
        for of_one in counters.iter() {
            let Some(Some(names)) = self.series.get(&of_one.index) else { continue };
            for (name, value) in names.iter().zip(of_one.values) {
                each(Reading { name: name.clone(), value: value as i64 });
            }
        }
    }

    fn sample_queues(&mut self, mut each: impl FnMut(Reading)) {
        let mut queues: Vec<QueueState> = Vec::new();
        if !self.source.queues || self.socket.queues(&mut queues).is_err() {
            return;
        }
        for state in queues {
            let Some(label) = self.queue_labels.get(&state.index) else { continue };
            for (of, value) in Queue::ALL.into_iter().zip(state.values) {
                each(Reading { name: series::queue(label, of), value: value as i64 });
            }
        }
    }

    /// Starts to sample an interface that appeared after the start, if it is a wanted one.
    fn learn_new_interfaces(&mut self) {
        if let Ok(links) = self.socket.links() {
            self.name_series(&links);
        }
    }

    fn sample_processes(&mut self, mut each: impl FnMut(Reading)) {
        if self.processes.is_empty() {
            return;
        }
        let (mut cpu_ns, mut resident_bytes) = (0, 0);
        for process in &mut self.processes {
            let usage = process.sample();
            cpu_ns += usage.cpu_ns;
            resident_bytes += usage.resident_bytes;
        }
        each(Reading { name: self.cpu.clone(), value: cpu_ns });
        each(Reading { name: self.resident.clone(), value: resident_bytes });
    }
}

fn enter(path: &Path) -> Result<(), SampleError> {
    Namespace::of_file(path)
        .and_then(|namespace| namespace.enter())
        .map_err(|source| SampleError::Namespace { path: path.to_owned(), source })
}
