//! The ends of a stream's traffic: its senders and receivers, in this process or at hosts far away.

use std::{
    io,
    path::Path,
    process::Command,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::RecvTimeoutError,
    },
    thread,
    time::{Duration, Instant},
};

use super::traffic::{
    self, Clock, Expected, Flow, FlowPlan, Membership, PORT, Pace, Sent, Sinks, StampedSocket, Tally,
    program::{Begin, Job, Told},
};
use crate::site::{Input, Program, Said, Site, enter};

/// A node, and the group that a receiver joins there.
#[derive(Debug, Clone)]
pub struct Where {
    pub node: String,
    pub group: Option<Membership>,
}

/// The senders and receivers of a run.
pub trait Ends: Sync {
    /// Makes the senders ready. Each flow is sent at its node.
    fn add_flows(&mut self, site: &dyn Site, flows: Vec<(String, FlowPlan)>, pace: Pace) -> io::Result<()>;

    /// Counts what comes until the end. Returns the counts of each receiver, and why there are none of it.
    fn listen(&self) -> io::Result<Vec<(Tally, Option<String>)>>;

    /// Sends everything. `stop` ends that early.
    fn send(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Sent>;

    /// Returns how many packets all receivers have got until now.
    fn has_come(&self) -> u64;

    /// Makes [`Ends::listen`] return.
    fn end(&self);
}

/// Sockets of this process at all nodes.
pub struct Here {
    sinks: Sinks,
    flows: Vec<Flow>,
    pace: Option<Pace>,
}

impl Here {
    /// Opens the receivers' sockets.
    pub fn open(site: &dyn Site, at: &[Where], expected: Expected) -> io::Result<Self> {
        let open = |at: &Where| enter(site, &at.node, || StampedSocket::open(PORT, at.group.as_ref()))?;
        let named = |at: &Where| {
            open(at).map_err(|error| io::Error::new(error.kind(), format!("listen in {}: {error}", at.node)))
        };
        let sockets = at.iter().map(named).collect::<io::Result<_>>()?;
        Ok(Self { sinks: Sinks::new(sockets, expected, Clock::default()), flows: Vec::new(), pace: None })
    }
}

impl Ends for Here {
    fn add_flows(&mut self, site: &dyn Site, flows: Vec<(String, FlowPlan)>, pace: Pace) -> io::Result<()> {
        let open = |(node, plan): &(String, FlowPlan)| enter(site, node, || Flow::open(plan))?;
        self.flows = flows.iter().map(open).collect::<io::Result<_>>()?;
        self.pace = Some(pace);
        Ok(())
    }

    fn listen(&self) -> io::Result<Vec<(Tally, Option<String>)>> {
        Ok(self.sinks.run()?.into_iter().map(|tally| (tally, None)).collect())
    }

    fn send(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Sent> {
        let Some(pace) = &self.pace else { return Ok(Sent::default()) };
        self.sinks.begin(traffic::now());
        Ok(traffic::send(&self.flows, pace, Clock::default(), stop))
    }

    fn has_come(&self) -> u64 {
        self.sinks.has_come()
    }

    fn end(&self) {
        self.sinks.end();
    }
}

/// Programs at hosts far away ([`traffic::program`]).
pub struct Elsewhere<'a> {
    treecast: &'a Path,
    expected: Expected,
    sinks: Vec<Remote>,
    sources: Vec<Remote>,
    has_ended: AtomicBool,
}

/// A program at a host.
struct Remote {
    node: String,
    program: Mutex<Program>,
    /// Its end ends the program's job.
    input: Mutex<Option<Input>>,
    came: AtomicU64,
}

/// The time that a program may take to become ready, or to tell its counts at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time from when all are told to begin until they do.
const LEAD: Duration = Duration::from_millis(500);

/// The time between two looks whether all is over.
const LOOK: Duration = Duration::from_millis(50);

impl<'a> Elsewhere<'a> {
    /// Starts the receivers.
    pub fn open(site: &dyn Site, treecast: &'a Path, at: &[Where], expected: Expected) -> io::Result<Self> {
        let start = |at: &Where| {
            let clock = Clock { ahead_ns: site.clock_ahead_ns(&at.node)? };
            Remote::start(
                site,
                treecast,
                &at.node,
                &Job::Count { membership: at.group.clone(), expected, clock },
            )
        };
        let sinks = at.iter().map(start).collect::<io::Result<Vec<_>>>()?;
        sinks.iter().try_for_each(Remote::wait_ready)?;
        Ok(Self { treecast, expected, sinks, sources: Vec::new(), has_ended: AtomicBool::new(false) })
    }
}

impl Ends for Elsewhere<'_> {
    fn add_flows(&mut self, site: &dyn Site, flows: Vec<(String, FlowPlan)>, pace: Pace) -> io::Result<()> {
        let start = |(node, plan): (String, FlowPlan)| {
            let clock = Clock { ahead_ns: site.clock_ahead_ns(&node)? };
            Remote::start(site, self.treecast, &node, &Job::Send { plan, pace, clock })
        };
        self.sources = flows.into_iter().map(start).collect::<io::Result<_>>()?;
        self.sources.iter().try_for_each(Remote::wait_ready)
    }

    fn listen(&self) -> io::Result<Vec<(Tally, Option<String>)>> {
        let listen = |sink: &Remote| match sink.tally(self.expected, &self.has_ended) {
            Ok(tally) => (tally, None),
            Err(error) => (Tally::new(self.expected.flows), Some(format!("{}: {error}", sink.node))),
        };
        Ok(thread::scope(|scope| {
            let all: Vec<_> = self.sinks.iter().map(|sink| scope.spawn(|| listen(sink))).collect();
            all.into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }))
    }

    fn send(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Sent> {
        let begin = Begin { at_ns: (traffic::now() + LEAD).as_nanos() as u64 };
        // A receiver that has vanished is marked by its counts.
        self.sinks.iter().for_each(|sink| _ = sink.write(&begin));
        self.sources.iter().try_for_each(|source| source.write(&begin))?;
        let sent = self.sources.iter().map(|source| source.sent(stop));
        let sent = sent.collect::<io::Result<Vec<Sent>>>()?.into_iter().reduce(|one, other| Sent {
            packets: one.packets.min(other.packets),
            refused: one.refused.saturating_add(other.refused),
            began: one.began.min(other.began),
            lasted: one.lasted.max(other.lasted),
            cpu: one.cpu.saturating_add(other.cpu),
        });
        Ok(sent.unwrap_or_default())
    }

    fn has_come(&self) -> u64 {
        let came = self.sinks.iter().map(|sink| sink.came.load(Ordering::Relaxed));
        came.fold(0, u64::saturating_add)
    }

    fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.sinks.iter().for_each(Remote::close);
    }
}

impl Remote {
    fn start(site: &dyn Site, treecast: &Path, node: &str, job: &Job) -> io::Result<Self> {
        let mut command = Command::new(treecast);
        command.args(["lab", "traffic"]);
        let mut program = site.start_with_input(node, command)?;
        let input = Mutex::new(program.input.take());
        let remote =
            Self { node: node.to_owned(), program: Mutex::new(program), input, came: AtomicU64::new(0) };
        remote.write(job)?;
        Ok(remote)
    }

    fn write(&self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        match &mut *lock(&self.input) {
            Some(input) => input.write_all(&text),
            None => Err(io::Error::other(format!("{} has no input", self.node))),
        }
    }

    /// Ends the program's job.
    fn close(&self) {
        lock(&self.input).take();
    }

    fn wait_ready(&self) -> io::Result<()> {
        let ready = lock(&self.program).event::<Told>(Instant::now() + PATIENCE);
        let failed = |error| io::Error::other(format!("{}: {error}", self.node));
        match ready.map_err(failed)? {
            (_, Told::Ready) => Ok(()),
            (_, other) => Err(io::Error::other(format!("{}: it begins with {other:?}", self.node))),
        }
    }

    /// Waits for the next thing that the program tells; `None` where it has told nothing for a moment.
    fn hear(&self) -> io::Result<Option<Told>> {
        match lock(&self.program).said.recv_timeout(LOOK) {
            Ok((_, Said::Line(line))) => Ok(serde_json::from_str(&line).ok()),
            Ok((_, Said::Began)) | Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok((_, Said::Ended(ended, last))) => {
                Err(io::Error::other(last.unwrap_or_else(|| ended.describe())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its program has ended")),
        }
    }

    /// Waits for the counts of a receiver, which it tells after the end.
    fn tally(&self, expected: Expected, has_ended: &AtomicBool) -> io::Result<Tally> {
        /// The longest text of the counts of a receiver.
        const MAX_LEN: usize = 256 << 20;
        let mut text = String::new();
        let mut latest = None;
        loop {
            if has_ended.load(Ordering::Relaxed)
                && Instant::now() > *latest.get_or_insert(Instant::now() + PATIENCE)
            {
                return Err(io::Error::other("it did not tell its counts in time"));
            }
            match self.hear()? {
                Some(Told::Came { packets }) => self.came.store(packets, Ordering::Relaxed),
                Some(Told::Part { text: part }) if text.len() < MAX_LEN => text.push_str(&part),
                Some(Told::Counted) => break,
                _ => {}
            }
        }
        let tally: Tally = serde_json::from_str(&text)?;
        match tally.can_be(expected.flows, expected.packets) {
            true => Ok(tally),
            false => Err(io::Error::other("its counts cannot be right")),
        }
    }

    /// Waits until a sender has sent everything.
    fn sent(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Sent> {
        loop {
            if stop() {
                self.close();
            }
            match self.hear().map_err(|error| io::Error::other(format!("{}: {error}", self.node)))? {
                Some(Told::Sent(sent)) => return Ok(sent),
                _ => continue,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
