//! The loop that waits for all that can happen, and the choice of interfaces.

use std::{collections::BTreeMap, fs, net::IpAddr, time::Duration};

use treecast_proto::{
    Instant,
    membership::{Limits, LinkId, RouterConfig, Timers},
};

use super::{
    Config, Error, MAX_INTERFACES, Notice, Status,
    clock::{Clock, timeout_millis},
    control::Server,
    ipv4::Ipv4Kernel,
    ipv6::Ipv6Kernel,
    memberships::Memberships,
    netlink::{Changes, Interface, Monitor, Netlink},
    plane::Plane,
    sys::{self, Poll},
};

/// An entry whose packets have stopped for this long is removed.
const ENTRY_IDLE: Duration = Duration::from_secs(60);

/// Changes of interfaces and routes come in bursts; they are looked at once this long after the first.
const SETTLE: Duration = Duration::from_millis(50);

const IPV6: u64 = 0;
const IPV4: u64 = 1;
const MONITOR: u64 = 2;
const CONTROL: u64 = 3;
const SIGNALS: u64 = 4;
const FIRST_CLIENT: u64 = 16;

/// Routes multicast until SIGINT or SIGTERM; the signals are taken from the calling thread.
///
/// # Errors
/// When it cannot begin: without root, kernel support or the interfaces named, or because another runs.
pub fn run(config: &Config, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
    Daemon::start(config, notify)?.run(notify)
}

struct Daemon<'a> {
    config: &'a Config,
    clock: Clock,
    poll: Poll,
    _signals: std::os::fd::OwnedFd,
    netlink: Netlink,
    monitor: Monitor,
    control: Server,
    ipv6: Option<Plane>,
    ipv4: Plane,
    /// What is to be looked at anew, and when.
    changes: Changes,
    look_again: Option<Instant>,
}

impl<'a> Daemon<'a> {
    fn start(config: &'a Config, notify: &mut dyn FnMut(Notice)) -> Result<Self, Error> {
        sys::raise_descriptor_limit();
        let clock = Clock::start();
        // Listens to changes before it looks, so that none falls between.
        let monitor = Monitor::open().map_err(Error::system("cannot watch the network's interfaces"))?;
        let mut netlink =
            Netlink::open().map_err(Error::system("cannot ask for the network's interfaces"))?;
        let interfaces = list(&mut netlink)?;
        check_names(config, &interfaces)?;
        let router_config = router_config(config, &interfaces);

        let ipv6 = Ipv6Kernel::open()?
            .map(|kernel| Plane::new(Box::new(kernel), Memberships::ipv6(), router_config));
        let ipv4 = Plane::new(Box::new(Ipv4Kernel::open()?), Memberships::ipv4(), router_config);
        let control = Server::listen(config.control.as_deref(), FIRST_CLIENT)?;
        let failed = || Error::system("cannot wait for the network");
        let poll = Poll::new().map_err(failed())?;
        let signals = sys::termination_signals().map_err(failed())?;
        poll.watch(&ipv4, IPV4).map_err(failed())?;
        poll.watch(&monitor, MONITOR).map_err(failed())?;
        poll.watch(&control, CONTROL).map_err(failed())?;
        poll.watch(&signals, SIGNALS).map_err(failed())?;
        if let Some(ipv6) = &ipv6 {
            poll.watch(ipv6, IPV6).map_err(failed())?;
        }
        warn_of_sysctls(ipv6.is_some(), notify);
        let (changes, look_again) = (Changes::default(), None);
        let mut daemon = Self {
            config,
            clock,
            poll,
            _signals: signals,
            netlink,
            monitor,
            control,
            ipv6,
            ipv4,
            changes,
            look_again,
        };
        daemon.serve(&interfaces, notify);
        Ok(daemon)
    }

    fn run(mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
        let mut is_ready = false;
        loop {
            let deadline = self.carry_out(notify);
            if !is_ready {
                notify(Notice::Ready);
                is_ready = true;
            }
            let timeout = timeout_millis(self.clock.now(), deadline);
            let ready = self.poll.wait(timeout).map_err(Error::system("cannot wait for the network"))?;
            for token in ready {
                if token == SIGNALS {
                    self.close(notify);
                    return Ok(());
                }
                self.dispatch(token)?;
            }
            self.look_again(notify)?;
        }
    }

    fn dispatch(&mut self, token: u64) -> Result<(), Error> {
        let now = self.clock.now();
        match (token, &mut self.ipv6) {
            (IPV6, Some(ipv6)) => ipv6.receive(now).map_err(Error::system("cannot receive MLD")),
            (IPV4, _) => self.ipv4.receive(now).map_err(Error::system("cannot receive IGMP")),
            (MONITOR, _) => self.note_changes(now),
            (CONTROL, ipv6) => {
                let (ipv6, ipv4) = (&*ipv6, &self.ipv4);
                let status = || Status {
                    ipv6: ipv6.as_ref().map(|plane| plane.status(now)),
                    ipv4: Some(ipv4.status(now)),
                };
                // A client that is gone before it is served is no reason to stop.
                let _ = self.control.accept(&self.poll, status);
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

    fn look_again(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
        let now = self.clock.now();
        if self.look_again.is_none_or(|at| at > now) {
            return Ok(());
        }
        self.look_again = None;
        let changes = std::mem::take(&mut self.changes);
        if changes.interfaces {
            let interfaces = list(&mut self.netlink)?;
            self.serve(&interfaces, notify);
        }
        // An interface that comes or goes takes routes with it that are not always told.
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            plane.routes_changed(now);
        }
        Ok(())
    }

    fn serve(&mut self, interfaces: &BTreeMap<String, Interface>, notify: &mut dyn FnMut(Notice)) {
        let now = self.clock.now();
        let chosen: Vec<&Interface> = chosen(self.config, interfaces).filter(|one| one.is_up).collect();
        if let Some(ipv6) = &mut self.ipv6 {
            ipv6.serve(now, &with_address(&chosen, |one| one.ipv6), notify);
        }
        self.ipv4.serve(now, &with_address(&chosen, |one| one.ipv4), notify);
    }

    /// Does what both families want, and returns when there is something to do again.
    fn carry_out(&mut self, notify: &mut dyn FnMut(Notice)) -> Option<Instant> {
        let now = self.clock.now();
        let mut deadline = self.look_again;
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            let wanted = plane.carry_out(now, &mut self.netlink, notify);
            deadline = deadline.into_iter().chain(wanted).min();
        }
        deadline
    }

    fn close(mut self, notify: &mut dyn FnMut(Notice)) {
        let now = self.clock.now();
        for plane in self.ipv6.iter_mut().chain([&mut self.ipv4]) {
            plane.close(now, &mut self.netlink, notify);
        }
    }
}

fn list(netlink: &mut Netlink) -> Result<BTreeMap<String, Interface>, Error> {
    netlink.interfaces().map_err(Error::system("cannot list the network's interfaces"))
}

fn router_config(config: &Config, interfaces: &BTreeMap<String, Interface>) -> RouterConfig {
    let upstream = config.upstream.as_ref().and_then(|name| interfaces.get(name));
    RouterConfig {
        timers: Timers::with_query_interval(config.query_interval),
        limits: Limits::default(),
        upstream: upstream.map(|interface| LinkId(interface.index)),
        entry_idle: ENTRY_IDLE,
    }
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

/// Those of the interfaces that have an address of a family, by number.
fn with_address<'a>(
    interfaces: &[&'a Interface],
    address: impl Fn(&Interface) -> Option<IpAddr>,
) -> BTreeMap<u32, (&'a Interface, IpAddr)> {
    let with_address = |interface: &&'a Interface| Some((interface.index, (*interface, address(interface)?)));
    interfaces.iter().filter_map(with_address).collect()
}

/// Multicast passes without these, but what receivers say to a sender does not.
fn warn_of_sysctls(has_ipv6: bool, notify: &mut dyn FnMut(Notice)) {
    let ipv4 = ("IPv4", "net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward");
    let ipv6 = ("IPv6", "net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding");
    for (family, sysctl, path) in [ipv4].into_iter().chain(has_ipv6.then_some(ipv6)) {
        if fs::read_to_string(path).is_ok_and(|value| value.trim() == "0") {
            notify(Notice::Warning(format!(
                "this host does not forward {family}, so receivers cannot reach a sender through it: \
                 `sysctl -w {sysctl}=1`"
            )));
        }
    }
}
