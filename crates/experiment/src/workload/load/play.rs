//! Makes one trial: starts the hosts, waits, and reads the counters of everything that may have given in.

use std::{
    io,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

use socket2::Socket;
use treecast_host::{process::Ended, turns};
use treecast_lab::{CableQueue, Topology};
use treecast_load::{
    combine::{Combined, combine},
    packet::PAPER_PORT,
    report::HostReport,
    snmp::Switch,
    threshold::{Evidence, Layout, Limit, blame},
};
use treecast_measure::sample::{MachineSampler, Reading};

use super::{
    joins,
    plan::{Cast, LINGER, PlannedLoad, lead},
};
use crate::{
    plan::Planned,
    site::{Happening, Need, Program, Said, Site, while_they_happen},
};

/// The time that a program may take to end after its time is over.
const PATIENCE: Duration = Duration::from_secs(30);

/// The share of the processors' time above which the machine counts as the limit.
const BUSY: f64 = 0.95;

/// The plan and the means of a trial.
pub struct Trial<'a> {
    pub site: &'a dyn Site,
    pub planned: &'a Planned<'a>,
    pub load: &'a PlannedLoad,
    pub treecast: &'a Path,
    pub hosts: usize,
    /// Packets a second of each sender. Zero: nobody sends.
    pub rate: f64,
}

/// The results of a trial.
pub struct Played {
    pub rate: f64,
    pub layout: Layout,
    pub combined: Combined,
    /// The parts that gave in.
    pub limits: Vec<Limit>,
    /// The share of the processors' time that went into each kind of work while the hosts sent.
    pub processors: Processors,
    /// Each host's name, and its processor time in programs and in the kernel, as a share of one processor's time.
    pub hosts: Vec<(String, f64, f64)>,
    /// Packets that the queues of all cables passed and dropped.
    pub passed_packets: u64,
    pub dropped_packets: u64,
    /// Frames that each switch with a limited cable had to send, those that its queues dropped included. The first switch first.
    pub switch_frames: Vec<u64>,
    /// Each switch that is asked by SNMP, and how busy it was, from 0 to 1; or why that is not known.
    pub switches: Vec<(String, Result<f64, String>)>,
    pub happened: Vec<Happening>,
    /// The time for which the hosts sent.
    pub lasted: Duration,
}

/// The observations while the hosts of a trial sent.
struct Watched {
    processors: Processors,
    /// The load of each switch that was asked by SNMP, from 0 to 1, or why there is none.
    switches: Vec<(String, Result<f64, String>)>,
    cables: Vec<CableQueue>,
}

/// Shares of the time of all processors, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Processors {
    /// Programs, those with a lowered priority not counted.
    pub user: f64,
    /// Programs with a lowered priority.
    pub nice: f64,
    /// The kernel, soft interrupts included.
    pub system: f64,
    /// Soft interrupts, in which bridges forward.
    pub forwarding: f64,
    /// Packets that the kernel's backlog dropped.
    pub backlog_drops: u64,
}

impl Played {
    /// Returns the share of the packets that did not arrive, or not in time, from 0 to 1.
    pub fn lost(&self) -> f64 {
        let totals = &self.combined.totals;
        (totals.lost + totals.late) as f64 / totals.expected.max(1) as f64
    }
}

impl Trial<'_> {
    /// Makes the trial. Returns `None` when the user wants to stop.
    pub fn play(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<Played>> {
        let Cast { hosts, layout } = self.load.cast(self.hosts);
        let _joined = self.join(&hosts, &layout)?;
        self.wait_for_silence(stop)?;
        let lead = lead(hosts.len());
        let (start, first_packet) = (Instant::now() + lead, SystemTime::now() + lead);
        let programs = self.start(&hosts, &layout, start)?;
        let events = &self.planned.delivery.events;
        let (watched, happened) = while_they_happen(self.site, events, start, || self.watch(start, stop));
        let Some(Watched { processors, switches, cables }) = watched? else { return Ok(None) };
        let (mut reports, mut spent) = (Vec::new(), Vec::new());
        let end = Instant::now() + LINGER + PATIENCE;
        for (host, program) in hosts.iter().zip(&programs) {
            let (report, ended) = outcome(program, end)?;
            reports.extend(report);
            let share = |time: Duration| time.as_secs_f64() / self.load.loading.lasts.as_secs_f64();
            spent.push((host.clone(), share(ended.cpu_user), share(ended.cpu_system)));
        }
        if reports.is_empty() {
            return Err(io::Error::other("no host has told what it sent and received"));
        }
        let late = late_host(&reports, first_packet);
        let busy = processors.busy_for_us(&spent, turns::is_real_time());
        let combined = combine(&reports, &hosts);
        let sum = |packets: fn(&CableQueue) -> u64| cables.iter().map(packets).sum();
        Ok(Some(Played {
            rate: self.rate,
            limits: blame(&Evidence {
                // Hosts far away have processors and clocks of their own.
                machine: late.or_else(|| processors.limit(busy)).filter(|_| self.site.can(Need::Sockets)),
                ..evidence(&combined, &cables, self.load.loading.lasts)
            }),
            layout,
            combined,
            processors,
            hosts: spent,
            passed_packets: sum(|cable| cable.passed_packets),
            dropped_packets: sum(|cable| cable.dropped_packets),
            switch_frames: frames_of_switches(&cables, self.site.topology()),
            switches,
            happened: happened?,
            lasted: self.load.loading.lasts,
        }))
    }

    /// Waits until the cables carry next to nothing. Hosts that have just got their addresses or joined a thousand groups tell
    /// everybody so, and would fill the queues of narrow cables.
    fn wait_for_silence(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<()> {
        const LONGEST: Duration = Duration::from_secs(60);
        const WINDOW: Duration = Duration::from_millis(500);
        /// Frames on all cables of a host in a window that are no sign of more to come.
        const FEW: u64 = 2;
        let end = Instant::now() + LONGEST;
        let few = FEW * self.site.topology().nodes.len() as u64;
        let mut before = self.site.queues()?;
        while Instant::now() < end && !stop() {
            thread::sleep(WINDOW);
            let after = self.site.queues()?;
            let cables = difference(&before, &after);
            if cables.iter().map(|cable| cable.passed_packets + cable.dropped_packets).sum::<u64>() <= few {
                break;
            }
            before = after;
        }
        Ok(())
    }

    /// Makes each receiver join further groups.
    fn join(&self, hosts: &[String], layout: &Layout) -> io::Result<Vec<Socket>> {
        let mut joined = Vec::new();
        let receivers = hosts.iter().enumerate().filter(|(number, _)| layout.pattern.receives(*number));
        for (_, host) in receivers.filter(|_| self.load.memberships > 1) {
            joined.extend(joins::join(self.site, host, self.load.group, self.load.memberships - 1)?);
        }
        Ok(joined)
    }

    /// Starts the program of each host, so that all begin to send at `start`.
    fn start(&self, hosts: &[String], layout: &Layout, start: Instant) -> io::Result<Vec<Program>> {
        let program = |(number, host): (usize, &String)| {
            let roles = (layout.pattern.sends(number) && self.rate > 0.0, layout.pattern.receives(number));
            let mut command = Command::new(self.treecast);
            let phase = phase(number, hosts.len(), self.rate);
            let left = start.saturating_duration_since(Instant::now()) + phase;
            self.arguments(&mut command, host, roles, left)?;
            self.site.start(host, command)
        };
        hosts.iter().enumerate().map(program).collect()
    }

    fn arguments(
        &self,
        command: &mut Command,
        host: &str,
        (sends, receives): (bool, bool),
        left: Duration,
    ) -> io::Result<()> {
        let Self { load, .. } = self;
        let loading = &load.loading;
        let group = std::net::SocketAddr::new(load.group, PAPER_PORT);
        let packet = match loading.packet {
            treecast_load::packet::Format::Paper => "paper",
            treecast_load::packet::Format::Own => "own",
        };
        let interface = self.site.attachment(host)?.interface;
        let seconds = loading.lasts.as_secs_f64();
        // Packets that still wait in a queue come after the last one was sent.
        let linger = LINGER.as_secs_f64();
        command.args([
            "load",
            "run",
            "--json",
            "--no-loop",
            "--group",
            &group.to_string(),
            "--interface",
            &interface,
        ]);
        command.args(["--host", host, "--packet", packet, "--size", &loading.payload_bytes.to_string()]);
        command.args(["--seconds", &seconds.to_string(), "--lead", &left.as_secs_f64().to_string()]);
        command.args(["--linger", &linger.to_string()]);
        if sends {
            command.args(["--pps", &self.rate.to_string()]);
        }
        if !(sends && receives) {
            command.args(["--only", if receives { "receive" } else { "send" }]);
        }
        command.args(&self.planned.delivery.arguments);
        Ok(())
    }

    /// Waits until the hosts have sent, and their packets have left the queues. The queues are read after the hosts have joined,
    /// and before they leave the group, because switches flood what hosts say of their groups.
    fn watch(&self, start: Instant, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<Watched>> {
        let mut sampler = MachineSampler::open().map_err(io::Error::other)?;
        if !wait_until(start, stop) {
            return Ok(None);
        }
        let queues = self.site.queues()?;
        let mut before = Vec::new();
        sampler.sample(&mut before);
        let half = start + self.load.loading.lasts / 2;
        if !wait_until(half, stop) {
            return Ok(None);
        }
        let switches = self.ask_switches();
        if !wait_until(start + self.load.loading.lasts, stop) {
            return Ok(None);
        }
        let mut after = Vec::new();
        sampler.sample(&mut after);
        if !wait_until(start + self.load.loading.lasts + LINGER.mul_f64(0.9), stop) {
            return Ok(None);
        }
        let cables = difference(&queues, &self.site.queues()?);
        Ok(Some(Watched { processors: Processors::between(&before, &after), switches, cables }))
    }

    fn ask_switches(&self) -> Vec<(String, Result<f64, String>)> {
        let ask = |agent: &super::keys::Agent| {
            let load = Switch::open(agent.agent, &agent.community)
                .and_then(|mut switch| switch.load(agent.oid.as_ref()));
            (agent.name.clone(), load.map_err(|error| error.to_string()))
        };
        self.load.loading.agents.iter().map(ask).collect()
    }
}

impl Processors {
    fn between(before: &[Reading], after: &[Reading]) -> Self {
        use treecast_measure::series::{
            CPU_IDLE_NS, CPU_NICE_NS, CPU_SOFTIRQ_NS, CPU_SYSTEM_NS, CPU_USER_NS, SOFTNET_DROPPED_PACKETS,
        };
        let value = |readings: &[Reading], name: &str| {
            readings.iter().find(|reading| &*reading.name == name).map_or(0, |reading| reading.value)
        };
        let growth = |name: &str| (value(after, name) - value(before, name)).max(0) as f64;
        let all = (growth(CPU_USER_NS) + growth(CPU_SYSTEM_NS) + growth(CPU_IDLE_NS)).max(1.0);
        Self {
            user: (growth(CPU_USER_NS) - growth(CPU_NICE_NS)) / all,
            nice: growth(CPU_NICE_NS) / all,
            system: growth(CPU_SYSTEM_NS) / all,
            forwarding: growth(CPU_SOFTIRQ_NS) / all,
            backlog_drops: growth(SOFTNET_DROPPED_PACKETS) as u64,
        }
    }

    /// Returns the share of the time in which processors were not idle.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system
    }

    /// Returns the share of the processors' time that was not to be had. Beside hosts with real-time priority (`chrt -r 1 treecast
    /// ...`), other programs take none that these want. What the hosts' programs took is known from their start to their end, and
    /// forwarding counts twice where it interrupts them, so the share is rather too high.
    fn busy_for_us(&self, hosts: &[(String, f64, f64)], is_real_time: bool) -> f64 {
        let processors = thread::available_parallelism().map_or(1, usize::from) as f64;
        let programs: f64 = hosts.iter().map(|(_, user, system)| user + system).sum();
        let own = programs / processors + self.forwarding;
        if is_real_time { own.min(self.busy()) } else { self.busy() }
    }

    /// Returns why this machine limited the trial, if it did.
    fn limit(&self, busy: f64) -> Option<String> {
        if self.backlog_drops > 0 {
            return Some(format!("the kernel's backlog was full: {} packets dropped", self.backlog_drops));
        }
        (busy > BUSY).then(|| format!("processors were {:.0} % busy", busy * 100.0))
    }
}

/// Returns how long after the first host a host begins to send. Hosts that sent at the same moments would fill the queues of all
/// cables at once, which hosts that somebody started one by one do not.
fn phase(number: usize, hosts: usize, rate: f64) -> Duration {
    const LONGEST: f64 = 1.0;
    let interval = if rate > 0.0 { (1.0 / rate).min(LONGEST) } else { 0.0 };
    Duration::from_secs_f64(interval * number as f64 / hosts as f64)
}

/// Waits for a moment. Returns false when the user wants to stop before.
fn wait_until(moment: Instant, stop: &(dyn Fn() -> bool + Sync)) -> bool {
    const POLL: Duration = Duration::from_millis(100);
    while !stop() {
        match moment.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return true,
            left => thread::sleep(left.min(POLL)),
        }
    }
    false
}

/// Waits for a program's end. Returns its report, if it has printed one, and what it has used. A program that refuses to begin
/// fails the run, because all others would, too.
fn outcome(program: &Program, end: Instant) -> io::Result<(Option<HostReport>, Ended)> {
    /// The exit code of `treecast load run` when it cannot begin.
    const REFUSED: i32 = 1;
    let mut report = None;
    loop {
        match program.next(end)? {
            (_, Said::Began) => {}
            (_, Said::Line(line)) => report = serde_json::from_str(&line).ok().or(report),
            (_, Said::Ended(ended, last)) if ended.code == Some(REFUSED) => {
                return Err(io::Error::other(
                    last.unwrap_or_else(|| format!("{} said nothing", program.name)),
                ));
            }
            (_, Said::Ended(ended, _)) => return Ok((report, ended)),
        }
    }
}

/// Names a host whose program began only after the first packet was due. It has missed what was sent before.
fn late_host(reports: &[HostReport], first_packet: SystemTime) -> Option<String> {
    let due = first_packet.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let latest =
        reports.iter().max_by(|one, other| one.began_unix_seconds.total_cmp(&other.began_unix_seconds))?;
    let late = latest.began_unix_seconds - due;
    (late > 0.0).then(|| format!("{} began {late:.1} s after the first packet", latest.host))
}

/// The packets that each queue has passed and dropped since `before`.
fn difference(before: &[CableQueue], after: &[CableQueue]) -> Vec<CableQueue> {
    let since = |(before, after): (&CableQueue, &CableQueue)| CableQueue {
        passed_packets: growth(before.passed_packets, after.passed_packets),
        dropped_packets: growth(before.dropped_packets, after.dropped_packets),
        ..after.clone()
    };
    before.iter().zip(after).map(since).collect()
}

/// The frames that leave each switch: the sums over the cables that do not begin at a node, in the order of the
/// switches.
fn frames_of_switches(cables: &[CableQueue], topology: &Topology) -> Vec<u64> {
    let mut switches: Vec<(&str, u64)> = Vec::new();
    for cable in cables.iter().filter(|cable| topology.nodes.iter().all(|node| node.name != cable.from)) {
        let frames = cable.passed_packets + cable.dropped_packets;
        match switches.iter_mut().find(|(name, _)| *name == cable.from) {
            Some((_, sum)) => *sum += frames,
            None => switches.push((&cable.from, frames)),
        }
    }
    switches.sort_unstable_by_key(|(name, _)| *name);
    switches.into_iter().map(|(_, frames)| frames).collect()
}

/// The kernel's counters of queues have 32 bits.
fn growth(before: u64, after: u64) -> u64 {
    u64::from((after as u32).wrapping_sub(before as u32))
}

fn evidence(combined: &Combined, cables: &[CableQueue], lasted: Duration) -> Evidence {
    let hosts = || combined.hosts.iter().filter(|host| host.has_reported);
    let rate = |packets: u64| packets as f64 / lasted.as_secs_f64();
    Evidence {
        lost_packets: combined.totals.lost + combined.totals.late,
        cables: cables
            .iter()
            .map(|cable| (cable.from.clone(), cable.to.clone(), cable.dropped_packets))
            .collect(),
        receivers: hosts().map(|host| (host.host.clone(), host.kernel_dropped)).collect(),
        senders: hosts()
            .filter(|host| host.sent < host.asked)
            .map(|host| (host.host.clone(), rate(host.asked), rate(host.sent)))
            .collect(),
        vanished: combined
            .hosts
            .iter()
            .filter(|host| !host.has_reported)
            .map(|host| host.host.clone())
            .collect(),
        machine: None,
    }
}

#[cfg(test)]
mod tests {
    use treecast_load::combine::HostSummary;

    use super::*;

    #[test]
    fn a_host_that_vanished_is_named_and_the_rest_counts() {
        let host = |host: &str, has_reported, sent| HostSummary {
            host: host.into(),
            has_reported,
            asked: 100,
            sent,
            ..HostSummary::default()
        };
        let mut combined = combine(&[], &[]);
        combined.hosts = vec![host("a", true, 100), host("b", false, 0), host("c", true, 50)];
        (combined.totals.expected, combined.totals.lost) = (200, 3);
        let found = evidence(&combined, &[], Duration::from_secs(10));
        assert_eq!((found.lost_packets, found.vanished.clone()), (3, vec!["b".to_owned()]));
        assert_eq!(found.senders, [("c".to_owned(), 10.0, 5.0)]);
        assert!(blame(&found).contains(&Limit::Vanished { host: "b".into() }));
    }

    #[test]
    fn processors_over_95_percent_busy_are_the_limit() {
        let at = |user| Processors { user, system: 0.1, ..Processors::default() };
        let limit = |processors: Processors| processors.limit(processors.busy_for_us(&[], false));
        assert_eq!(limit(at(0.8)), None);
        assert_eq!(limit(at(0.87)).unwrap(), "processors were 97 % busy");
        let full = Processors { backlog_drops: 4, ..at(0.1) };
        assert_eq!(limit(full).unwrap(), "the kernel's backlog was full: 4 packets dropped");
        let beside_builds = Processors { user: 0.9, system: 0.1, forwarding: 0.1, ..Processors::default() };
        let hosts = [("a".to_owned(), 0.05, 0.05)];
        assert!(beside_builds.busy_for_us(&hosts, true) <= 0.2);
        assert!((beside_builds.busy_for_us(&hosts, false) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn hosts_send_one_after_the_other() {
        assert_eq!([0, 1, 3].map(|number| phase(number, 4, 10.0).as_millis()), [0, 25, 75]);
        assert_eq!((phase(3, 4, 0.0), phase(2, 4, 0.001)), (Duration::ZERO, Duration::from_millis(500)));
    }

    #[test]
    fn counters_of_queues_may_wrap() {
        assert_eq!(growth(u64::from(u32::MAX) - 1, 3), 5);
    }
}
