//! A thread that samples a lab into the results database while a run goes on.

use std::{
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{MachineSampler, NodeSampler, NodeSource, Reading, SampleError};
use crate::db::{Db, NodeId, Sample};

/// The longest time for which samples wait to be written, so that a killed run loses little.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The number of waiting samples at which they are written.
const WRITE_AT: usize = 20_000;

/// Samples nodes, their processes and the machine at a fixed interval until it is stopped.
pub struct Recorder {
    commands: Sender<Command>,
    thread: JoinHandle<Result<(), SampleError>>,
}

enum Command {
    Watch { node: NodeId, pid: u32 },
    Stop,
}

impl Recorder {
    /// Starts sampling `nodes`, and this machine under the name `machine`, at the interval `every`. `origin` is
    /// the start of the run. Returns when all nodes are open and the first sample is about to be taken.
    pub fn start(
        database: &Path,
        origin: Instant,
        every: Duration,
        nodes: Vec<(NodeId, NodeSource)>,
        machine: Option<NodeId>,
    ) -> Result<Self, SampleError> {
        let (ids, sources) = nodes.into_iter().unzip();
        let task = Task {
            db: Db::open(database)?,
            origin,
            every,
            ids,
            nodes: NodeSampler::open(sources)?,
            machine: machine.map(|id| MachineSampler::open().map(|m| (id, m))).transpose()?,
            readings: Vec::new(),
            pending: Vec::new(),
            written: Instant::now(),
        };
        let (commands, inbox) = mpsc::channel();
        let builder = std::thread::Builder::new().name("recorder".into());
        let thread = builder.spawn(move || task.run(&inbox)).map_err(SampleError::Thread)?;
        Ok(Self { commands, thread })
    }

    /// Also samples the process `pid` and its descendants, under `node`.
    pub fn watch_process(&self, node: NodeId, pid: u32) {
        // A recorder that has failed reports the error when it is stopped.
        let _ = self.commands.send(Command::Watch { node, pid });
    }

    /// Takes a last sample, and returns when all samples are written. An error is the first one that happened.
    pub fn stop(self) -> Result<(), SampleError> {
        let _ = self.commands.send(Command::Stop);
        self.thread.join().unwrap_or_else(|_| Err(SampleError::Thread(std::io::Error::other("it panicked"))))
    }
}

struct Task {
    db: Db,
    origin: Instant,
    every: Duration,
    ids: Vec<NodeId>,
    nodes: NodeSampler,
    machine: Option<(NodeId, MachineSampler)>,
    readings: Vec<Reading>,
    pending: Vec<Sample>,
    written: Instant,
}

impl Task {
    fn run(mut self, inbox: &Receiver<Command>) -> Result<(), SampleError> {
        let mut next = Instant::now();
        loop {
            self.sample();
            self.write_if_due()?;
            next = (next + self.every).max(Instant::now());
            if self.obey_until(next, inbox) {
                break;
            }
        }
        self.sample();
        Ok(self.db.add_samples(&self.pending)?)
    }

    /// Carries out commands until `deadline`. Returns true if the recorder must stop.
    fn obey_until(&mut self, deadline: Instant, inbox: &Receiver<Command>) -> bool {
        loop {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Command::Watch { node, pid }) => {
                    if let Some(index) = self.ids.iter().position(|id| *id == node) {
                        self.nodes.watch_process(index, pid);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn sample(&mut self) {
        let (ids, pending, origin) = (&self.ids, &mut self.pending, self.origin);
        // All readings of a node get the time of its first one. So if this thread has to wait for a processor
        // between two nodes, the second node does not get an earlier time.
        let (mut at, mut last) = (Duration::ZERO, None);
        let mut keep = |node, reading: Reading| {
            if last != Some(node) {
                (at, last) = (origin.elapsed(), Some(node));
            }
            pending.push(Sample { node, series: reading.name, at, value: reading.value })
        };
        self.nodes.sample(|index, reading| keep(ids[index], reading));
        if let Some((id, machine)) = &mut self.machine {
            machine.sample(&mut self.readings);
            self.readings.drain(..).for_each(|reading| keep(*id, reading));
        }
    }

    fn write_if_due(&mut self) -> Result<(), SampleError> {
        if self.written.elapsed() >= WRITE_EVERY || self.pending.len() >= WRITE_AT {
            self.db.add_samples(&self.pending)?;
            self.pending.clear();
            self.written = Instant::now();
        }
        Ok(())
    }
}
