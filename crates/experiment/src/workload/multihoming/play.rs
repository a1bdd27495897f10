//! Plays a run: the tables, and what happens to connections while an access link is cut.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use treecast_lab::Subnet;

use super::{
    forge::{Forged, Forger},
    plan::{PlannedMultihoming, PlannedTransfer},
    probes::{Named, Probe, Prober, accept},
    systems::{Systems, Told},
    tables::{Count, Tables},
    transfer::{Open, Transferred},
};
use crate::site::{Happening, Site, enter, while_they_happen};

/// The port of the transfer.
const PORT: u16 = 4700;

/// A run that is to be played.
pub struct Scene<'a> {
    pub site: &'a dyn Site,
    pub planned: &'a PlannedMultihoming,
    pub treecast: &'a Path,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Played {
    /// The tables of tier-1 networks: the largest count of each kind that was seen.
    pub global: Vec<(String, Count)>,
    /// The tables of the stubs' providers, before anything was cut.
    pub access: Vec<(String, Count)>,
    pub crossing: Option<Crossing>,
    pub lasted: Duration,
}

/// The events of connections.
#[derive(Debug)]
pub struct Crossing {
    /// The time at which the transfer began.
    pub began: Instant,
    pub transferred: Transferred,
    /// New connections from inside, and to the inside.
    pub outgoing: Vec<Probe>,
    pub incoming: Vec<Probe>,
    /// Bytes that came over the link that is cut, and when, counted from the transfer's begin.
    pub carried: Vec<(Duration, u64)>,
    pub forged: Option<Forged>,
    pub happened: Vec<Happening>,
    pub told: Vec<Told>,
}

impl Scene<'_> {
    /// Plays the run. `None`: it was stopped.
    pub fn play(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<Played>> {
        let start = Instant::now();
        let tables = Tables::of(self.site);
        tables.wait_until_quiet(stop)?;
        let Some(planned) = &self.planned.transfer else {
            let (global, access) = (tables.global()?, tables.access()?);
            return Ok(Some(Played { global, access, crossing: None, lasted: start.elapsed() }));
        };
        let far = v6(self.site, &self.planned.outside)?;
        let target = SocketAddr::from((far, PORT));
        let systems = match self.planned.is_mast {
            true => {
                Some(Systems::start(self.site, self.treecast, planned, (&self.planned.inside, target), stop)?)
            }
            false => None,
        };
        if stop() {
            return Ok(None);
        }
        let access = tables.access()?;
        let (mut crossing, global) = self.cross(planned, systems.as_ref(), &tables, far, stop)?;
        crossing.told = systems.map(Systems::end).unwrap_or_default();
        let lasted = crossing.began.elapsed();
        Ok((!stop()).then_some(Played { global, access, crossing: Some(crossing), lasted }))
    }

    /// Opens the connection of the transfer. It uses the prefix whose link is cut.
    fn open(&self, planned: &PlannedTransfer, far: Ipv6Addr) -> io::Result<Open> {
        let PlannedMultihoming { inside, outside, .. } = self.planned;
        let open = Open::between(self.site, inside, outside, (far, PORT).into())?;
        let source = open.address()?.ip();
        let is_of = |prefix: &Subnet<Ipv6Addr>| matches!(source, IpAddr::V6(v6) if prefix.contains(v6));
        if planned.prefix.as_ref().is_some_and(|prefix| !is_of(prefix)) {
            let link = &planned.transfer.link;
            let what = format!("{inside} opened its connection from {source}, and not by {link}");
            return Err(io::Error::other(what));
        }
        Ok(open)
    }

    /// Transfers data while everything else goes on.
    fn cross(
        &self,
        planned: &PlannedTransfer,
        systems: Option<&Systems>,
        tables: &Tables,
        far: Ipv6Addr,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<(Crossing, Vec<(String, Count)>)> {
        let Self { site, planned: of_run, .. } = *self;
        let (inside, outside) = (of_run.inside.as_str(), of_run.outside.as_str());
        let open = self.open(planned, far)?;
        let own = v6(site, inside)?;
        let (named, targets) =
            (systems.map(|systems| &systems.named), systems.map(|systems| &systems.targets));
        let (is_over, trouble) = (&AtomicBool::new(false), &Trouble::default());
        let origin = Instant::now();
        let prober = |node| Prober { site, node, prefix: planned.prefix, origin, is_over };
        let transfer = &planned.transfer;
        thread::scope(|scope| {
            for node in [inside, outside] {
                scope.spawn(move || trouble.note(accept(site, node, is_over)));
            }
            let from_inside = prober(inside);
            let outgoing = scope.spawn(move || trouble.note(from_inside.outgoing(far)));
            let from_outside = prober(outside);
            let incoming = scope.spawn(move || trouble.note(incoming(&from_outside, named, own)));
            let carried = scope.spawn(move || trouble.note(carried(site, planned, origin, is_over)));
            let counted = scope.spawn(move || trouble.note(largest(tables, is_over)));
            let forging = named.zip(targets).filter(|_| transfer.forges).map(|(named, targets)| {
                let forger = Forger { site, inside, outside, targets, name_server: named.server };
                scope.spawn(move || trouble.note(forger.run(is_over)))
            });
            let run =
                || open.run(transfer.rate_bps, transfer.lasts, origin, &|| stop() || trouble.is_there());
            let (transferred, happened) = while_they_happen(site, &transfer.events(), origin, run);
            is_over.store(true, Ordering::Relaxed);
            let crossing = Crossing {
                began: origin,
                transferred,
                outgoing: joined(outgoing),
                incoming: joined(incoming),
                carried: joined(carried),
                forged: forging.map(joined),
                happened: trouble.note(happened),
                told: Vec::new(),
            };
            let global = joined(counted);
            trouble.first().map_or(Ok((crossing, global)), Err)
        })
    }
}

/// The first error of several threads, which ends the run.
#[derive(Default)]
struct Trouble(Mutex<Option<io::Error>>);

impl Trouble {
    fn note<T: Default>(&self, outcome: io::Result<T>) -> T {
        outcome.unwrap_or_else(|error| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            T::default()
        })
    }

    fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn first(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// New connections to the inside: with MAST by the name of the host, without by its address.
fn incoming(prober: &Prober, named: Option<&Named>, own: Ipv6Addr) -> io::Result<Vec<Probe>> {
    match named {
        Some(named) => prober.incoming(named),
        None => prober.outgoing(own),
    }
}

/// Reads again and again how many bytes have come over the link that is cut.
fn carried(
    site: &dyn Site,
    planned: &PlannedTransfer,
    origin: Instant,
    is_over: &AtomicBool,
) -> io::Result<Vec<(Duration, u64)>> {
    const LOOK: Duration = Duration::from_millis(100);
    enter(site, &planned.gateway, || {
        let mut carried = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let counters = std::fs::read_to_string("/proc/thread-self/net/dev")?;
            carried.push((origin.elapsed(), received(&counters, &planned.interface)));
            thread::sleep(LOOK);
        }
        Ok(carried)
    })?
}

/// The bytes that an interface has received (proc_pid_net(5)).
fn received(counters: &str, interface: &str) -> u64 {
    let of = |line: &str| {
        let (name, values) = line.split_once(':')?;
        (name.trim() == interface).then(|| values.split_whitespace().next()?.parse().ok())?
    };
    counters.lines().find_map(of).unwrap_or(0)
}

/// Counts the global tables again and again. Returns the largest count of each kind.
fn largest(tables: &Tables, is_over: &AtomicBool) -> io::Result<Vec<(String, Count)>> {
    const LOOK: Duration = Duration::from_secs(1);
    let mut largest = tables.global()?;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        for ((_, most), (_, now)) in largest.iter_mut().zip(tables.global()?) {
            *most = most.max(now);
        }
    }
    Ok(largest)
}

fn v6(site: &dyn Site, node: &str) -> io::Result<Ipv6Addr> {
    match site.attachment(node)?.address {
        IpAddr::V6(address) => Ok(address),
        IpAddr::V4(_) => Err(io::Error::other(format!("{node} has no IPv6 address"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_the_right_interface_are_read() {
        let counters = "Inter-|   Receive\n face |bytes packets\n    lo:  10 1 0\nprovider-a: 4711 3 0\nprovider-b: 5 1 0\n";
        assert_eq!(received(counters, "provider-a"), 4711);
        assert_eq!(received(counters, "provider"), 0);
    }
}
