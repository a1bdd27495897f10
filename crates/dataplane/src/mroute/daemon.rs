//! The daemon's loop, which waits for everything that can happen, and the choice of interfaces.

use std::{
    collections::BTreeMap,
    fs, io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    time::Duration,
};

use treecast_host::{
    interface::Interface,
    netlink::{Changes, Monitor, Netlink},
    poller::Poller,
    process,
    signals::Signals,
};
use treecast_proto::{
    Instant,
    membership::{Limits, LinkId, RouterConfig, Timers},
};
use treecast_wire::mtrace2::PORT;

use super::{
    Config, Error, MAX_INTERFACES, Notice, Status,
    clock::{Clock, until},
    control::{CONTROL, FIRST_CLIENT, MONITOR, Place, SIGNALS, Server, WAIT},
    ipv4::Ipv4Kernel,
    ipv6::Ipv6Kernel,
    keeper::{self, Keeper, Sockets},
    notices::Notices,
    plane::Plane,
    trace::Traces,
};

/// The daemon's niceness: the scheduler prefers it to other processes.
const PRIORITY: i32 = -10;

/// An entry whose packets have stopped for this long is removed.
const ENTRY_IDLE: Duration = Duration::from_secs(60);

/// Changes of interfaces and routes come in bursts; they are looked at once this long after the first.
const SETTLE: Duration = Duration::from_millis(50);

/// The time to wait when they cannot be looked at.
const RETRY: Duration = Duration::from_secs(1);

const IPV6: u64 = 3;
const IPV4: u64 = 4;
const KEEPER: u64 = 5;
const TRACES_IPV6: u64 = 6;
const TRACES_IPV4: u64 = 7;

/// Routes multicast until SIGINT or SIGTERM. The calling thread no longer gets these signals.
///
/// # Errors
/// If routing cannot begin: without root, without kernel support, without the interfaces named, or because
/// another daemon runs.
pub fn run(config: &Config, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
    let mut notices = Notices::new(notify);
    let signals = Signals::catch(&[libc::SIGINT, libc::SIGTERM])
        .map_err(Error::system("cannot take the signals to end"))?;
    let mut daemon = Daemon::start(config, &signals)?;
    daemon.warn_of_sysctls(&mut notices);
    daemon.answer_traces(&mut notices);
    daemon.run(&signals, &mut notices)
}

/// Asks the daemon of this network namespace, or the one that listens at `control`, for its state.
///
/// # Errors
/// If no daemon runs there, or it does not answer within five seconds.
pub fn show(control: Option<&Path>) -> Result<Status, Error> {
    let answer = place(control).ask(None).map_err(|failure| match failure.is_nobody() {
        true => Error::NotRunning,
        false => failure.into(),
    })?;
    serde_json::from_slice(&answer).map_err(Error::Answer)
}

fn place(control: Option<&Path>) -> Place<'_> {
    Place { name: "treecast-mroute", path: control }
}

struct Daemon<'a> {
    config: &'a Config,
    clock: Clock,
    poll: Poller,
    netlink: Netlink,
    monitor: Monitor,
    control: Server,
    keeper: Option<Keeper>,
    /// The service manager holds the sockets, too.
    is_stored: bool,
    ipv6: Option<Plane>,
    ipv4: Plane,
    /// The parts that are to be looked at anew. `look_again` is the time for it.
    changes: Changes,
    look_again: Option<Instant>,
}

impl<'a> Daemon<'a> {
    /// Opens all that it needs. Interfaces are served from the first round of [`Self::run`] on.
    fn start(config: &'a Config, signals: &Signals) -> Result<Self, Error> {
        // A kernel keeps a new stream's first four packets until it is told where they go, and drops the others.
        process::set_priority(PRIORITY);
        let clock = Clock::start();
        // Listens to changes before it looks, so that none falls between.
        let monitor = Monitor::open().map_err(Error::system("cannot watch the network's interfaces"))?;
        let mut netlink =
            Netlink::open().map_err(Error::system("cannot ask for the network's interfaces"))?;
        let interfaces = list(&mut netlink)?;
        check_names(config, &interfaces)?;
        let router = router_config(config, &interfaces);

        let kept = Sockets::take_over();
        let inherits = (kept.ipv6.is_some(), kept.ipv4.is_some());
        let read = || Error::system("cannot read what an earlier daemon has left to the kernel");
        let ipv6 = Ipv6Kernel::open(kept.ipv6)?;
        let ipv6 = ipv6.map(|kernel| Plane::new(Box::new(kernel), router, inherits.0)).transpose();
        let ipv6 = ipv6.map_err(read())?;
        let ipv4 = Ipv4Kernel::open(kept.ipv4)?;
        let ipv4 = Plane::new(Box::new(ipv4), router, inherits.1).map_err(read())?;
        let control = Server::listen(place(config.control.as_deref()), FIRST_CLIENT)?;
        let poll = Poller::new().map_err(Error::system(WAIT))?;
        let (changes, look_again) = (Changes { interfaces: true, routes: false }, Some(clock.now()));
        let daemon = Self {
            config,
            clock,
            poll,
            netlink,
            monitor,
            control,
            keeper: None,
            is_stored: false,
            ipv6,
            ipv4,
            changes,
            look_again,
        };
        daemon.watch(signals).map_err(Error::system(WAIT))?;
        Ok(daemon)
    }

    fn watch(&self, signals: &Signals) -> io::Result<()> {
        self.poll.watch(&self.ipv4, IPV4)?;
        self.poll.watch(&self.monitor, MONITOR)?;
        self.poll.watch(&self.control, CONTROL)?;
        self.poll.watch(signals, SIGNALS)?;
        self.ipv6.as_ref().map_or(Ok(()), |ipv6| self.poll.watch(ipv6, IPV6))
    }

    fn run(mut self, signals: &Signals, notices: &mut Notices<'_>) -> Result<(), Error> {
        self.look_again(notices);
        let mut deadline = self.carry_out(notices);
        self.start_keeper(notices);
        loop {
            let timeout = until(self.clock.now(), deadline);
            let ready = self.poll.tokens(timeout).map_err(Error::system(WAIT))?;
            if ready.contains(&SIGNALS) {
                self.end(signals.next().map_or(libc::SIGTERM, |signal| signal.number), notices);
                return Ok(());
            }
            if ready.contains(&KEEPER) {
                self.hear_keeper(notices);
            }
            ready.into_iter().try_for_each(|token| self.dispatch(token))?;
            self.look_again(notices);
            deadline = self.carry_out(notices);
        }
    }

    /// The sockets, for somebody to hold while no daemon runs.
    fn sockets(&self) -> Vec<(keeper::Family, BorrowedFd<'_>)> {
        let ipv6 = self.ipv6.iter().map(|plane| (keeper::Family::Ipv6, plane.as_fd()));
        ipv6.chain([(keeper::Family::Ipv4, self.ipv4.as_fd())]).collect()
    }

    /// The daemon is ready when its keeper is, so that it may be ended at once.
    fn start_keeper(&mut self, notices: &mut Notices<'_>) {
        let Some(command) = &self.config.keeper else { return notices.ready() };
        self.is_stored = keeper::store(&self.sockets());
        let started = Keeper::start(command, &self.sockets()).and_then(|keeper| {
            self.poll.watch(&keeper, KEEPER)?;
            Ok(keeper)
        });
        match started {
            Ok(keeper) => self.keeper = Some(keeper),
            Err(error) => {
                notices
                    .warn(self.clock.now(), format!("a restart will interrupt streams: no keeper: {error}"));
                notices.ready();
            }
        }
    }

    fn hear_keeper(&mut self, notices: &mut Notices<'_>) {
        match self.keeper.as_mut().and_then(Keeper::is_there) {
            Some(true) => notices.ready(),
            Some(false) => {}
            None => {
                self.keeper = None;
                let why =
                    keeper::squatter().unwrap_or_else(|| "the process that keeps them has ended".to_owned());
                notices.warn(self.clock.now(), format!("a restart will interrupt streams: {why}"));
                notices.ready();
            }
        }
    }

    fn dispatch(&mut self, token: u64) -> Result<(), Error> {
        let now = self.clock.now();
        match (token, &mut self.ipv6) {
            (IPV6, Some(ipv6)) => ipv6.receive(now).map_err(Error::system("cannot receive MLD")),
            (IPV4, _) => self.ipv4.receive(now).map_err(Error::system("cannot receive IGMP")),
            (TRACES_IPV6, Some(ipv6)) => {
                ipv6.answer_traces(now, &mut self.netlink);
                Ok(())
            }
            (TRACES_IPV4, _) => {
                self.ipv4.answer_traces(now, &mut self.netlink);
                Ok(())
            }
            (MONITOR, _) => self.note_changes(now),
            (CONTROL, ipv6) => {
                let (ipv6, ipv4) = (&*ipv6, &self.ipv4);
                let status = || Status {
                    ipv6: ipv6.as_ref().map(|plane| plane.status(now)),
                    ipv4: Some(ipv4.status(now)),
                };
                // A client that is gone before it is served is no reason to stop.
                let _ = self.control.accept(&self.poll, |_| Ok(serde_json::to_vec(&status())?));
                Ok(())
            }
            (client, _) => {
                self.control.write(client);
                Ok(())
            }
        }
    }

    fn note_changes(&mut self, now: Instant) -> Result<(), Error> {
        let changes =
            self.monitor.changes().map_err(Error::system("cannot watch the network's interfaces"))?;
        self.changes.interfaces |= changes.interfaces;
        self.changes.routes |= changes.routes;
        if self.changes != Changes::default() {
            self.look_again.get_or_insert(now + SETTLE);
        }
        Ok(())
    }

    fn look_again(&mut self, notices: &mut Notices<'_>) {
        let now = self.clock.now();
        if self.look_again.is_none_or(|at| at > now) {
            return;
        }
        self.look_again = None;
        let changes = std::mem::take(&mut self.changes);
        if changes.interfaces {
            match list(&mut self.netlink) {
                Ok(interfaces) => self.serve(&interfaces, notices),
                Err(error) => {
                    notices.warn(now, error.to_string());
                    self.changes.interfaces = true;
                    self.look_again = Some(now + RETRY);
                }
            }
        }
        // An interface that comes or goes takes routes with it that are not always told.
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            plane.routes_changed(now);
        }
    }

    fn serve(&mut self, interfaces: &BTreeMap<String, Interface>, notices: &mut Notices<'_>) {
        let now = self.clock.now();
        let upstream = upstream(self.config, interfaces);
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            plane.set_upstream(now, upstream);
        }
        let chosen: Vec<&Interface> = chosen(self.config, interfaces).filter(|one| one.is_up).collect();
        if let Some(ipv6) = &mut self.ipv6 {
            ipv6.serve(now, &with_address(&chosen, |one| one.ipv6), notices);
        }
        self.ipv4.serve(now, &with_address(&chosen, |one| one.ipv4), notices);
    }

    /// Does what both families want, and returns when there is something to do again.
    fn carry_out(&mut self, notices: &mut Notices<'_>) -> Option<Instant> {
        let now = self.clock.now();
        let mut deadline = self.look_again;
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            let wanted = plane.carry_out(now, &mut self.netlink, notices);
            deadline = deadline.into_iter().chain(wanted).min();
        }
        deadline
    }

    /// Opens the ports at which traces are answered. A router without them routes all the same.
    fn answer_traces(&mut self, notices: &mut Notices<'_>) {
        let planes = self.ipv6.iter_mut().map(|plane| (plane, TRACES_IPV6));
        for (plane, token) in planes.chain([(&mut self.ipv4, TRACES_IPV4)]) {
            let is_ipv4 = token == TRACES_IPV4;
            let opened = Traces::open(is_ipv4, self.config.prohibits_traces).and_then(|traces| {
                self.poll.watch(&traces, token)?;
                Ok(traces)
            });
            match opened {
                Ok(traces) => plane.set_traces(traces),
                Err(error) => {
                    let family = if is_ipv4 { "IPv4" } else { "IPv6" };
                    let warning = format!("traces over {family} are not answered: UDP port {PORT}: {error}");
                    notices.warn(self.clock.now(), warning);
                }
            }
        }
    }

    /// Multicast passes without these, but what receivers say to a sender does not.
    fn warn_of_sysctls(&self, notices: &mut Notices<'_>) {
        let ipv4 = ("IPv4", "net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward");
        let ipv6 = ("IPv6", "net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding");
        for (family, sysctl, path) in [ipv4].into_iter().chain(self.ipv6.is_some().then_some(ipv6)) {
            if fs::read_to_string(path).is_ok_and(|value| value.trim() == "0") {
                let warning = format!(
                    "this host does not forward {family}, so receivers cannot reach a sender through it: \
                     `sysctl -w {sysctl}=1`"
                );
                notices.warn(self.clock.now(), warning);
            }
        }
    }

    /// SIGTERM leaves the kernel's entries to the next daemon, if somebody holds them that long. Otherwise all is over.
    fn end(mut self, signal: i32, notices: &mut Notices<'_>) {
        if signal == libc::SIGTERM && (self.keeper.is_some() || self.is_stored) {
            return;
        }
        self.keeper.take().into_iter().for_each(Keeper::dismiss);
        if self.is_stored {
            keeper::forget();
        }
        let now = self.clock.now();
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            plane.close(now, &mut self.netlink, notices);
        }
    }
}

fn list(netlink: &mut Netlink) -> Result<BTreeMap<String, Interface>, Error> {
    let interfaces = netlink.interfaces().map_err(Error::system("cannot list the network's interfaces"))?;
    Ok(interfaces.into_values().map(|interface| (interface.name.clone(), interface)).collect())
}

fn router_config(config: &Config, interfaces: &BTreeMap<String, Interface>) -> RouterConfig {
    RouterConfig {
        timers: Timers::with_query_interval(config.query_interval),
        limits: Limits::with_groups_per_link(config.max_groups),
        upstream: upstream(config, interfaces),
        source_trees: config.source_trees,
        entry_idle: ENTRY_IDLE,
    }
}

/// The configured upstream. One that has gone may come again, by another number; meanwhile it is one that
/// no interface has.
fn upstream(config: &Config, interfaces: &BTreeMap<String, Interface>) -> Option<LinkId> {
    let name = config.upstream.as_ref()?;
    Some(LinkId(interfaces.get(name).map_or(0, |interface| interface.index)))
}

/// Refuses names of interfaces that are not there, or cannot do what is wanted of them.
fn check_names(config: &Config, interfaces: &BTreeMap<String, Interface>) -> Result<(), Error> {
    for name in config.interfaces.iter().chain(&config.upstream) {
        let interface = interfaces.get(name).ok_or_else(|| Error::NoInterface(name.clone()))?;
        if !interface.is_up {
            return Err(Error::InterfaceDown(name.clone()));
        }
        if !interface.is_usable {
            return Err(Error::NotMulticast(name.clone()));
        }
    }
    if let Some(upstream) = &config.upstream
        && !config.interfaces.is_empty()
        && !config.interfaces.contains(upstream)
    {
        return Err(Error::UpstreamNotServed(upstream.clone()));
    }
    match chosen(config, interfaces).filter(|interface| interface.is_up).count() {
        count if count > MAX_INTERFACES => Err(Error::TooManyInterfaces(count)),
        _ => Ok(()),
    }
}

fn chosen<'a>(
    config: &'a Config,
    interfaces: &'a BTreeMap<String, Interface>,
) -> impl Iterator<Item = &'a Interface> {
    let is_named = |name: &String| config.interfaces.is_empty() || config.interfaces.contains(name);
    interfaces.values().filter(move |interface| interface.is_usable && is_named(&interface.name))
}

/// Returns the interfaces that have an address of a family, by their numbers.
fn with_address<'a>(
    interfaces: &[&'a Interface],
    address: impl Fn(&Interface) -> Option<IpAddr>,
) -> BTreeMap<u32, (&'a Interface, IpAddr)> {
    let with_address = |interface: &&'a Interface| Some((interface.index, (*interface, address(interface)?)));
    interfaces.iter().filter_map(with_address).collect()
}
