//! A fleet as a place of experiments: the nodes of a network are hosts with agents.
//!
//! A node is the host of its name. Servers and clients without such a host are other hosts of the selection, in the order of their
//! names. The network between them is the real one: nothing in it is built or changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use treecast_experiment::{
    Error, Experiment, Ground, Plan, Real,
    site::{Attachment, CopyError, Digest, Input, Need, Program, Record, Recording, Routers, Said, Site},
};
use treecast_host::clock;
use treecast_lab::{
    BgpRoutes, CableQueue, Role, Topology,
    events::Fault,
    program::{self, Signal},
};
use treecast_measure::{
    Db,
    db::{NodeId, Sample},
    sample::SampleError,
};

use super::{
    hosts::{Host, HostId},
    hub::{Hub, too_long},
};
use crate::{
    clock::Offset,
    message::{self, Report, Start, What, Work, nanoseconds},
};

/// The value of the parameter `site` of runs over a fleet.
pub const FLEET: &str = "fleet";

/// The longest time until an agent has done something that takes no time of its own.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The time between an order to start a program and its start, which is the same moment at all hosts.
const LEAD: Duration = Duration::from_millis(150);
/// Programs that are ordered at about the same time start at the same moment: a multiple of this.
const TOGETHER: Duration = Duration::from_millis(50);
/// The time between two questions whether a program listens.
const LISTEN_EVERY: Duration = Duration::from_millis(100);
/// The longest time that a program of a run may go on when nobody ends it.
const LONGEST_PROGRAM: Duration = Duration::from_secs(24 * 3600);

/// The longest time that a host may be away from a run.
const PATIENCE_AWAY: Duration = Duration::from_secs(15);
/// The longest time from the order to kill a program until its end is told.
const PATIENCE_KILLED: Duration = Duration::from_secs(10);
/// The time between two looks whether a host is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Hosts of a fleet.
pub struct Fleet {
    pub hub: Arc<Hub>,
    pub runtime: Handle,
    /// The hosts that take part.
    pub hosts: Vec<Host>,
    /// The number of the run, which tells its folders from those of others.
    pub run: i64,
}

impl Real for Fleet {
    fn word(&self) -> &'static str {
        FLEET
    }

    fn check(&self, _: &Experiment) -> Result<(), Error> {
        Ok(())
    }

    fn adapt(&self, plan: &mut Plan) -> Result<(), Error> {
        for understood in &plan.networks {
            let name = understood.topology.name.clone();
            cast(&understood.topology, &self.hosts).map_err(|what| Error::Network { name, what })?;
        }
        Ok(())
    }

    fn build(&self, ground: Ground) -> Result<Box<dyn Site>, String> {
        let topology = ground.understood.topology.clone();
        let hosts = cast(&topology, &self.hosts)?;
        if let Some((node, host)) = hosts.iter().find(|(_, host)| !host.is_here) {
            return Err(format!(
                "{}, which is {node} here, is away: leave it out of the selection",
                host.name
            ));
        }
        Ok(Box::new(FleetSite {
            hub: Arc::clone(&self.hub),
            runtime: self.runtime.clone(),
            topology,
            hosts,
            treecast: ground.treecast.to_owned(),
            run: self.run,
            offered: Mutex::default(),
            vanished: Vanished::default(),
        }))
    }

    fn settles(&self) -> bool {
        false
    }
}

/// Returns the host of each node. Routers need none.
fn cast(topology: &Topology, hosts: &[Host]) -> Result<BTreeMap<String, Host>, String> {
    let mut cast = BTreeMap::new();
    for node in &topology.nodes {
        let named = hosts.iter().find(|host| host.name == node.name);
        cast.extend(named.map(|host| (node.name.clone(), host.clone())));
    }
    let is_router = |host: &Host| host.tags.get("role").is_some_and(|role| role == "router");
    let taken: BTreeSet<HostId> = cast.values().map(|host| host.id).collect();
    let mut others = hosts.iter().filter(|host| !taken.contains(&host.id) && !is_router(host));
    let ends = topology.nodes.iter().filter(|node| node.role != Role::Router);
    let (mut wanted, mut found) = (0, 0);
    for node in ends {
        wanted += 1;
        if !cast.contains_key(&node.name) {
            let Some(host) = others.next() else { continue };
            cast.insert(node.name.clone(), host.clone());
        }
        found += 1;
    }
    match found == wanted {
        true => Ok(cast),
        false => Err(format!(
            "the network has {wanted} senders and receivers, and {found} hosts are selected for them: select more, or take a \
             network with fewer (--set topology=...)"
        )),
    }
}

/// A network whose nodes are hosts of a fleet.
struct FleetSite {
    hub: Arc<Hub>,
    runtime: Handle,
    topology: Topology,
    /// The host of each node. Routers of which none is known are left out.
    hosts: BTreeMap<String, Host>,
    treecast: PathBuf,
    run: i64,
    /// The files that hosts have, by host and hash: their paths there.
    offered: Mutex<BTreeMap<(HostId, String), PathBuf>>,
    vanished: Vanished,
}

impl FleetSite {
    fn host(&self, node: &str) -> io::Result<&Host> {
        self.hosts.get(node).ok_or_else(|| io::Error::other(format!("no host is {node}")))
    }

    /// Orders something of a host, and waits until it is done.
    fn ask(&self, node: &str, work: Work, patience: Duration) -> io::Result<serde_json::Value> {
        let host = self.host(node)?;
        let asked = async {
            if self.vanished.has(&self.hub, host.id).await {
                return Err(io::Error::other(format!("{}: {VANISHED}", host.name)));
            }
            let until = async {
                tokio::select! {
                    reason = too_long(patience) => reason,
                    () = self.vanished.vanishes(&self.hub, host.id) => VANISHED,
                }
            };
            let answer = self.hub.ask(host.id, work, until).await;
            answer.map_err(|reason| io::Error::other(format!("{}: {reason}", host.name)))
        };
        self.runtime.block_on(asked)
    }

    fn name(&self, name: &str) -> String {
        format!("run{}-{name}", self.run)
    }

    /// Returns when programs start that are ordered now, by the manager's clock.
    fn moment() -> Duration {
        let soonest = (clock::monotonic() + LEAD).as_nanos();
        let step = TOGETHER.as_nanos();
        Duration::from_nanos(u64::try_from(soonest.div_ceil(step) * step).unwrap_or(u64::MAX))
    }

    /// Orders the start of a program, and hears what it tells.
    fn order_start(&self, node: &str, command: &Command, has_input: bool) -> io::Result<Program> {
        let host = self.host(node)?;
        let offset = self.hub.offset(host.id);
        let offset = offset.ok_or_else(|| io::Error::other(format!("{} is away", host.name)))?;
        let is_treecast = Path::new(command.get_program()) == self.treecast;
        let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
        let program = command.get_program().to_string_lossy().into_owned();
        let arguments: Vec<String> = match is_treecast {
            true => words.collect(),
            false => std::iter::once(program).chain(words).collect(),
        };
        let name = format!("treecast {}", arguments.first().map_or("", String::as_str));
        let work = Work::Start(Start {
            program: if is_treecast { message::Program::Treecast } else { message::Program::System },
            arguments,
            folder: None,
            at_ns: Some(nanoseconds(offset.at_agent(Self::moment()))),
            limit_ms: LONGEST_PROGRAM.as_millis() as u64,
            has_input,
        });
        let (order, reports) =
            self.runtime.block_on(self.hub.order_and_hear(host.id, work)).map_err(io::Error::other)?;
        let (say, said) = std::sync::mpsc::channel();
        let started = Started {
            hub: Arc::clone(&self.hub),
            host: host.id,
            order,
            offset,
            killed: Arc::default(),
            has_ended: Arc::default(),
            vanished: self.vanished.clone(),
        };
        let handle = Remote { runtime: self.runtime.clone(), of: started.clone() };
        self.runtime.spawn(started.pass_on(reports, say));
        let input = has_input.then(|| {
            let (hub, runtime) = (Arc::clone(&self.hub), self.runtime.clone());
            Box::new(RemoteInput { hub, runtime, host: host.id, order }) as Input
        });
        Ok(Program { name, said, handle: program::Handle::new(handle), input, pid: None })
    }
}

impl Site for FleetSite {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Routers are those of the real network.
    fn prepare(&mut self, _: Routers, _: Option<BTreeSet<String>>) -> Result<(), String> {
        Ok(())
    }

    fn key(&self) -> PathBuf {
        PathBuf::new()
    }

    fn attachment(&self, node: &str) -> io::Result<Attachment> {
        let facts = &self.host(node)?.facts;
        let address = facts.address();
        let address = address.ok_or_else(|| io::Error::other(format!("{node} has no address")))?;
        Ok(Attachment { interface: facts.interface.clone(), address })
    }

    fn can(&self, need: Need) -> bool {
        matches!(need, Need::Routers)
    }

    fn start(&self, node: &str, command: Command) -> io::Result<Program> {
        self.order_start(node, &command, false)
    }

    fn start_with_input(&self, node: &str, command: Command) -> io::Result<Program> {
        self.order_start(node, &command, true)
    }

    fn clock_ahead_ns(&self, node: &str) -> io::Result<i64> {
        let host = self.host(node)?;
        let clock = self.hub.clock_error(host.id);
        let clock =
            clock.ok_or_else(|| io::Error::other(format!("the clock of {} is not known", host.name)))?;
        Ok((clock.ahead_ms * 1e6) as i64)
    }

    fn folder(&self, node: &str, name: &str) -> io::Result<PathBuf> {
        let path = self.ask(node, Work::Folder { name: self.name(name) }, ANSWER_TIME)?;
        path.as_str().map(PathBuf::from).ok_or_else(|| io::Error::other("the agent names no folder"))
    }

    fn offer(&self, node: &str, file: &Path) -> io::Result<PathBuf> {
        let digest = treecast_experiment::site::digest(file)?;
        let blob = blake3::Hash::from_bytes(digest).to_hex().to_string();
        let key = (self.host(node)?.id, blob.clone());
        let offered = |of: &Mutex<BTreeMap<_, PathBuf>>| {
            of.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
        };
        if let Some(path) = offered(&self.offered) {
            return Ok(path);
        }
        let size_bytes = std::fs::metadata(file)?.len();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.hub.offer(blob.clone(), file.to_owned());
        let fetch = Work::Fetch { blob: blob.clone(), size_bytes, folder: self.name("source"), name };
        // A tenth of a megabyte a second is slow.
        let patience = ANSWER_TIME + Duration::from_secs(size_bytes / 100_000);
        let path = self.ask(node, fetch, patience);
        self.hub.withdraw(&blob);
        let path =
            path?.as_str().map(PathBuf::from).ok_or_else(|| io::Error::other("the agent names no file"))?;
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).insert(key, path.clone());
        Ok(path)
    }

    fn check(&self, node: &str, path: &Path, size_bytes: u64, digest: &Digest) -> Result<(), CopyError> {
        let blake3 = blake3::Hash::from_bytes(*digest).to_hex().to_string();
        let work = Work::Check { path: path.to_string_lossy().into_owned(), size_bytes, blake3 };
        let patience = ANSWER_TIME + Duration::from_secs(size_bytes / 10_000_000);
        match self.ask(node, work, patience)?.as_str() {
            None => Ok(()),
            Some(difference) => Err(CopyError::Elsewhere(difference.to_owned())),
        }
    }

    fn is_listening(&self, node: &str, transport: &str, port: u16) -> io::Result<bool> {
        thread::sleep(LISTEN_EVERY);
        let work = Work::Listening { transport: transport.to_owned(), port };
        Ok(self.ask(node, work, ANSWER_TIME)?.as_bool().unwrap_or(false))
    }

    fn watch(&self, db: &Db, record: &Record, every: Duration) -> Result<Box<dyn Recording>, SampleError> {
        let mut hosts = Vec::new();
        for (node, host) in &self.hosts {
            let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
            let ordered = self.runtime.block_on(self.hub.order_and_hear(host.id, Work::Sample { every_ms }));
            let (order, reports) = ordered.map_err(|error| SampleError::Thread(io::Error::other(error)))?;
            let label = self.label(node, host);
            hosts.push(Sampled { host: host.id, node: record.node(node), order, reports, label });
        }
        Ok(Box::new(FleetRecording {
            hub: Arc::clone(&self.hub),
            runtime: self.runtime.clone(),
            database: db.path().to_owned(),
            began: clock::monotonic().saturating_sub(record.origin.elapsed()),
            hosts: Mutex::new(hosts),
            vanished: self.vanished.clone(),
        }))
    }

    fn begin(&self, _: &Fault) -> io::Result<Box<dyn Send>> {
        Err(unchanged())
    }

    fn end(&self, _: &Fault) -> io::Result<()> {
        Err(unchanged())
    }

    fn set_rate(&self, _: usize, _: &str, _: u64) -> io::Result<()> {
        Err(unchanged())
    }

    fn queues(&self) -> io::Result<Vec<CableQueue>> {
        Ok(Vec::new())
    }

    fn bgp_table(&self, _: &str) -> io::Result<Vec<BgpRoutes>> {
        Err(unchanged())
    }

    fn frr_folder(&self, _: &str) -> PathBuf {
        PathBuf::new()
    }

    fn set_snooping(&self, _: bool) -> io::Result<()> {
        Err(unchanged())
    }

    fn enter(&self, _: &str, _: Box<dyn FnOnce() + Send + '_>) -> io::Result<()> {
        Err(unchanged())
    }
}

impl FleetSite {
    /// Returns which interface of a host is filed under which name of the topology, where the names differ.
    fn label(&self, node: &str, host: &Host) -> Option<(String, String)> {
        let index = self.topology.nodes.iter().position(|of| of.name == node)?;
        let members = self.topology.networks.iter().flat_map(|network| &network.members);
        let mut names = members.filter(|member| member.node == index).map(|member| member.interface.clone());
        let name = names.next()?;
        let has_it = host.facts.interfaces.iter().any(|interface| interface.name == name);
        (!has_it).then(|| (host.facts.interface.clone(), name))
    }
}

fn unchanged() -> io::Error {
    io::Error::other("a fleet's network is the real one, which experiments do not change")
}

/// A program that was started at a host.
#[derive(Clone)]
struct Started {
    hub: Arc<Hub>,
    host: HostId,
    order: u64,
    offset: Offset,
    /// When the program was to be killed.
    killed: Arc<OnceLock<Instant>>,
    has_ended: Arc<AtomicBool>,
    vanished: Vanished,
}

impl Started {
    /// Passes on what the program tells, with the manager's time. A host that stays away, or does not kill its program, is given up.
    async fn pass_on(
        self,
        mut reports: mpsc::UnboundedReceiver<Report>,
        say: std::sync::mpsc::Sender<(Instant, Said)>,
    ) {
        let given_up = self.is_given_up();
        tokio::pin!(given_up);
        let mut reason = None;
        while !self.has_ended.load(Ordering::Relaxed) {
            let report = tokio::select! {
                report = reports.recv() => report,
                why = &mut given_up, if reason.is_none() => {
                    self.give_up(why).await;
                    reason = Some(why);
                    continue;
                }
            };
            let Some(report) = report else { return };
            let at = instant(self.offset.at_manager(Duration::from_nanos(report.at_ns)));
            let said = match report.what {
                What::Began => Said::Began,
                What::Line { text } => Said::Line(text),
                What::Ended(end) => Said::Ended((&end).into(), end.last),
                What::Failed { reason } => Said::Ended(treecast_lab::process::Ended::default(), Some(reason)),
                _ => continue,
            };
            self.has_ended.store(matches!(said, Said::Ended(..)), Ordering::Relaxed);
            if say.send((at, said)).is_err() {
                return;
            }
        }
    }

    /// Waits until the program's end need not be waited for any longer, and says why.
    async fn is_given_up(&self) -> &'static str {
        let is_deaf = async {
            while self.killed.get().is_none_or(|killed| killed.elapsed() <= PATIENCE_KILLED) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = self.vanished.vanishes(&self.hub, self.host) => VANISHED,
            () = is_deaf => "the host did not say that it ended its program",
        }
    }

    async fn give_up(&self, reason: &str) {
        // When it comes back, its program has nobody to report to.
        self.send(libc::SIGKILL).await;
        if let Err(error) = self.hub.give_up(self.host, self.order, reason).await {
            tracing::error!("order {} of host {} is not given up: {error}", self.order, self.host);
        }
    }

    async fn send(&self, signal: i32) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.hub.order(self.host, Work::Signal { order: self.order, signal }).await {
            tracing::warn!("a program at host {} is not signalled: {error}", self.host);
        }
    }
}

/// Why a host is not waited for any longer.
const VANISHED: &str = "the host has vanished";

/// The hosts of a run that have been away for long.
#[derive(Clone, Default)]
struct Vanished(Arc<Mutex<BTreeSet<HostId>>>);

impl Vanished {
    /// Whether a host has vanished and is still away.
    async fn has(&self, hub: &Hub, host: HostId) -> bool {
        let is_known = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&host);
        is_known && !hub.is_here(host).await
    }

    /// Waits until a host has been away for longer than a run waits for it.
    async fn vanishes(&self, hub: &Hub, host: HostId) {
        let mut away_since: Option<Instant> = None;
        while away_since.is_none_or(|since| since.elapsed() <= PATIENCE_AWAY) {
            away_since = match hub.is_here(host).await {
                true => None,
                false => away_since.or(Some(Instant::now())),
            };
            tokio::time::sleep(LOOK).await;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host);
    }
}

/// Converts a time of the monotonic clock, which `Instant` is, too.
fn instant(at: Duration) -> Instant {
    let (now, here) = (Instant::now(), clock::monotonic());
    match here.checked_sub(at) {
        Some(ago) => now.checked_sub(ago).unwrap_or(now),
        None => now,
    }
}

/// The handle of a program at a host.
struct Remote {
    runtime: Handle,
    of: Started,
}

impl Signal for Remote {
    fn send(&self, signal: i32) {
        if signal == libc::SIGKILL {
            // Only the first time counts.
            _ = self.of.killed.set(Instant::now());
        }
        let of = self.of.clone();
        // Whoever signals does not wait for a host far away.
        self.runtime.spawn(async move { of.send(signal).await });
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.send(libc::SIGTERM);
    }
}

/// The standard input of a program at a host.
struct RemoteInput {
    hub: Arc<Hub>,
    runtime: Handle,
    host: HostId,
    order: u64,
}

impl RemoteInput {
    fn work(&self, text: Option<String>) -> Work {
        Work::Input { order: self.order, text }
    }
}

impl io::Write for RemoteInput {
    /// Orders whole lines, as agents want them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = &bytes[..bytes.len().min(message::MAX_INPUT_LEN)];
        let end = most.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end =
            end.ok_or_else(|| io::Error::other("a line for a program far away is too long, or has no end"))?;
        let text = String::from_utf8(bytes[..end].to_vec()).map_err(io::Error::other)?;
        let ordered = self.runtime.block_on(self.hub.order(self.host, self.work(Some(text))));
        ordered.map(|_| end).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RemoteInput {
    fn drop(&mut self) {
        let (hub, host, work) = (Arc::clone(&self.hub), self.host, self.work(None));
        self.runtime.spawn(async move {
            if let Err(error) = hub.order(host, work).await {
                tracing::warn!("the input of a program at host {host} is not ended: {error}");
            }
        });
    }
}

/// A host whose counters are sampled.
struct Sampled {
    host: HostId,
    node: NodeId,
    order: u64,
    reports: mpsc::UnboundedReceiver<Report>,
    /// The interface that is filed under another name.
    label: Option<(String, String)>,
}

/// Sampling that goes on at the hosts of a run.
struct FleetRecording {
    hub: Arc<Hub>,
    runtime: Handle,
    database: PathBuf,
    /// When the run began, by the manager's clock.
    began: Duration,
    hosts: Mutex<Vec<Sampled>>,
    vanished: Vanished,
}

impl Recording for FleetRecording {
    /// Processes at hosts are counted by their agents when they end.
    fn watch_process(&self, _: NodeId, _: u32) {}

    fn stop(self: Box<Self>) -> Result<(), SampleError> {
        let hosts = std::mem::take(&mut *self.hosts.lock().unwrap_or_else(PoisonError::into_inner));
        let mut db = Db::open(&self.database)?;
        let gather = async {
            for Sampled { host, order, .. } in &hosts {
                if let Err(error) = self.hub.order(*host, Work::StopSampling { order: *order }).await {
                    tracing::warn!("host {host} is not told to end its sampling: {error}");
                }
            }
            futures_util::future::join_all(hosts.into_iter().map(|host| self.samples(host))).await
        };
        for samples in self.runtime.block_on(gather) {
            db.add_samples(&samples)?;
        }
        Ok(())
    }
}

impl FleetRecording {
    /// Waits for the samples of a host. One that does not give them has none, which its run shows.
    async fn samples(&self, host: Sampled) -> Vec<Sample> {
        let Sampled { host, node, order, mut reports, label } = host;
        let Some(offset) = self.hub.offset(host) else { return Vec::new() };
        let mut samples = Vec::new();
        let gather = async {
            while let Some(report) = reports.recv().await {
                match report.what {
                    What::Samples { samples: told } => {
                        told.iter()
                            .for_each(|told| samples.extend(self.convert(told, node, &offset, &label)));
                    }
                    what if what.is_last() => return,
                    _ => {}
                }
            }
        };
        let patience = match self.vanished.has(&self.hub, host).await {
            true => Duration::ZERO,
            false => ANSWER_TIME,
        };
        if timeout(patience, gather).await.is_err() {
            tracing::warn!("host {host} did not give its samples in time");
            _ = self.hub.give_up(host, order, "the samples did not come in time").await;
        }
        samples
    }

    fn convert<'t>(
        &'t self,
        told: &'t message::Sample,
        node: NodeId,
        offset: &'t Offset,
        label: &Option<(String, String)>,
    ) -> impl Iterator<Item = Sample> + 't {
        let series: Arc<str> = match label {
            Some((from, to)) => told.series.replacen(&format!("/{from}/"), &format!("/{to}/"), 1).into(),
            None => told.series.as_str().into(),
        };
        told.points.iter().map(move |(at_ns, value)| Sample {
            node,
            series: Arc::clone(&series),
            at: offset.at_manager(Duration::from_nanos(*at_ns)).saturating_sub(self.began),
            value: *value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(id: HostId, name: &str, role: &str) -> Host {
        Host {
            id,
            name: name.into(),
            key: String::new(),
            joined: 0,
            seen: 0,
            is_here: true,
            facts: Default::default(),
            may: Default::default(),
            tags: [("role".to_owned(), role.to_owned())].into(),
            own_tags: Default::default(),
            offset: None,
            clock: None,
            rates: None,
        }
    }

    #[test]
    fn nodes_are_the_hosts_of_their_names_and_then_others() {
        let topology = Topology::parse("lan:clients=2").unwrap();
        let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
        let own = names[1];
        let hosts = [host(1, "a", "router"), host(2, "b", ""), host(3, own, ""), host(4, "z", "")];
        let found = cast(&topology, &hosts).unwrap();
        let of: Vec<(&str, HostId)> = found.iter().map(|(node, host)| (node.as_str(), host.id)).collect();
        assert_eq!(found[own].id, 3, "{of:?}");
        assert!(found.values().all(|host| host.id != 1), "a router neither sends nor receives: {of:?}");
        let few = cast(&topology, &hosts[..3]).unwrap_err();
        assert!(few.contains("3 senders and receivers, and 2 hosts"), "{few}");
    }
}
