//! `tms`: the Tunnel Management System as a program on a provider's router.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::UdpSocket,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::netlink::{Monitor, Netlink};

use crate::{
    message::{Envelope, Key, Message, Protocol, ReplayGuard},
    tms::{Command, Customer, Provider, Tms, Tunnel},
};

use super::{
    Error, Event, Tell,
    config::{self, Config},
    doing,
    event::{Drops, TunnelEnd},
    hook::Hook,
    kernel::{self, End, Owner, Repetitions},
    now,
    sockets::{self, Peer},
    status::{self, Status},
    store::Store,
    unix_us,
};

/// The names of the files that outlive a restart.
const TUNNELS: &str = "tms-tunnels";
const STAMPS: &str = "tms-stamps";

/// The shortest time between two writes of the list of tunnels.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// The time between two looks for tunnels that are over.
const EXPIRY: Duration = Duration::from_secs(1);

/// The time from a change of the interfaces to the look whether all tunnels are there. Somebody who removes them again and again has
/// little to do with that.
const LOOK: Duration = Duration::from_secs(1);

/// A tunnel in the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    tunnel: Tunnel,
    /// Microseconds since 1970.
    until_us: u64,
}

/// Removes the tunnels that a TMS has left. Newest stamps stay: they keep messages from being repeated.
pub fn clean(netlink: &mut Netlink, store: &Store) -> Result<(), Error> {
    remove_others(netlink, |_| false).map_err(doing("cannot remove a tunnel"))?;
    store.remove(TUNNELS).map_err(doing("cannot remove a file"))
}

/// Removes the tunnels of a TMS whose interfaces are not known.
fn remove_others(netlink: &mut Netlink, is_known: impl Fn(&str) -> bool) -> io::Result<()> {
    let there = kernel::tunnels_of(netlink, Owner::Tms)?;
    there.iter().filter(|name| !is_known(name)).try_for_each(|name| netlink.delete_link(name))
}

/// The sockets and machine of the TMS.
pub struct Daemon {
    machine: Tms,
    name: String,
    as_number: u32,
    has_routes: bool,
    keys: HashMap<String, Key>,
    guard: ReplayGuard,
    socket: UdpSocket,
    netlink: Netlink,
    monitor: Monitor,
    hook: Hook,
    store: Store,
    drops: Drops,
    /// The time at which changed tunnels are written.
    write_due: Option<Duration>,
    /// The time to look whether all tunnels are there.
    look_due: Option<Duration>,
    repetitions: Repetitions,
}

impl Daemon {
    pub fn new(config: &Config, tell: Tell<'_>) -> Result<Self, Error> {
        let tms = config.file.tms.as_ref();
        let tms = tms.ok_or_else(|| Error::new("the file has no section [tms]".into()))?;
        let netlink = Netlink::open().map_err(doing("cannot ask the kernel"))?;
        let keys = tms
            .stubs
            .iter()
            .map(|stub| Ok::<_, Error>((stub.name.clone(), Key::new(Protocol::Itmp, &stub.secret(config)?))));
        let store = Store::open(config.state())?;
        let mut daemon = Self {
            machine: Tms::new(provider(tms, &netlink)?),
            name: tms.name.clone(),
            as_number: tms.as_number,
            has_routes: tms.route,
            keys: keys.collect::<Result<_, _>>()?,
            guard: ReplayGuard::resume(unix_us(), store.load::<BTreeMap<String, u64>>(STAMPS, tell)),
            socket: sockets::open(tms.listen)?,
            netlink,
            monitor: Monitor::open().map_err(doing("cannot watch the interfaces"))?,
            hook: Hook::new(&tms.on_tunnel)?,
            store,
            drops: Drops::default(),
            write_due: None,
            look_due: None,
            repetitions: Repetitions::default(),
        };
        daemon.restore(tell)?;
        Ok(daemon)
    }

    /// Takes up the tunnels of an earlier run. Those that nobody may have any more, and those that are over, go. Without a `state`
    /// folder, nobody knows which are in use, and all stay.
    fn restore(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        let moment = now();
        for Kept { tunnel, until_us } in self.store.load::<Vec<Kept>>(TUNNELS, tell) {
            let left = Duration::from_micros(until_us.saturating_sub(moment.unix_us));
            let is_taken = !left.is_zero() && self.machine.restore(moment, tunnel.clone(), left);
            if !is_taken || self.make(&tunnel, true, tell).is_err() {
                self.machine.forget(tunnel.id);
                self.remove(&tunnel, tell);
            }
        }
        if self.store.is_kept() {
            let known: Vec<String> = self.machine.lifetimes().map(|(tunnel, _)| interface(tunnel)).collect();
            let removed = remove_others(&mut self.netlink, |name| known.iter().any(|it| it == name));
            removed.map_err(doing("cannot remove a tunnel that nobody knows"))?;
        }
        Ok(())
    }

    /// Makes the tunnels again that somebody else has removed.
    fn look(&mut self, tell: Tell<'_>) {
        self.look_due = None;
        let there = match kernel::tunnels_of(&mut self.netlink, Owner::Tms) {
            Ok(there) => there,
            Err(error) => {
                let what = "cannot list the interfaces".into();
                return tell(Event::Failed { what, error: error.to_string() });
            }
        };
        let tunnels = self.machine.lifetimes().map(|(tunnel, _)| tunnel);
        let missing = tunnels.filter(|tunnel| !there.contains(&interface(tunnel)));
        for tunnel in missing.cloned().collect::<Vec<_>>() {
            self.removed(&tunnel, tell);
            if let Err(error) = self.make(&tunnel, false, tell) {
                // Its stub asks again.
                self.machine.forget(tunnel.id);
                let what = format!("cannot make the tunnel to {} again", tunnel.stub);
                tell(Event::Failed { what, error });
            }
        }
    }

    fn carry_out(&mut self, command: Command, to: Option<Peer>, tell: Tell<'_>) {
        self.write_due = self.write_due.or(Some(now().elapsed + BETWEEN_WRITES));
        match command {
            Command::Make { tunnel, answer } => {
                let answer = match self.make(&tunnel, false, tell) {
                    Ok(()) => answer,
                    Err(error) => {
                        let what = format!("cannot make the tunnel to {}", tunnel.stub);
                        tell(Event::Failed { what, error });
                        _ = self.netlink.delete_link(&interface(&tunnel));
                        self.machine.failed(now(), &tunnel, &answer)
                    }
                };
                self.answer(&tunnel.stub, &answer, to);
            }
            Command::Remove(tunnel) => self.remove(&tunnel, tell),
            Command::Answer { stub, answer } => {
                if let Message::Refused { reason, .. } = answer.message {
                    tell(Event::TunnelRefused { peer: stub.clone(), prefix: None, reason });
                }
                self.answer(&stub, &answer, to);
            }
        }
    }

    fn make(&mut self, tunnel: &Tunnel, is_there: bool, tell: Tell<'_>) -> Result<(), String> {
        let end = end_of(tunnel);
        let index = kernel::make_tunnel(&self.netlink, &end, Owner::Tms, is_there)
            .map_err(|error| error.to_string())?;
        self.repetitions.add(now().elapsed, index, end.inner_own);
        if self.has_routes {
            kernel::set_last_route(&self.netlink, tunnel.prefix, &end, index)
                .map_err(|error| error.to_string())?;
        }
        let told = told(tunnel);
        self.run_hook("made", &told, tunnel.stub_as, tell);
        tell(Event::Tunnel(told));
        Ok(())
    }

    fn remove(&self, tunnel: &Tunnel, tell: Tell<'_>) {
        if let Err(error) = self.netlink.delete_link(&interface(tunnel)) {
            let what = format!("cannot remove tunnel {}", interface(tunnel));
            tell(Event::Failed { what, error: error.to_string() });
        }
        self.removed(tunnel, tell);
    }

    /// Says that a tunnel is gone.
    fn removed(&self, tunnel: &Tunnel, tell: Tell<'_>) {
        let told = told(tunnel);
        self.run_hook("removed", &told, tunnel.stub_as, tell);
        let TunnelEnd { peer, prefix, interface, .. } = told;
        tell(Event::TunnelRemoved { peer, prefix, interface });
    }

    fn run_hook(&self, what: &'static str, end: &TunnelEnd, peer_as: u32, tell: Tell<'_>) {
        if let Err(error) = self.hook.tunnel(what, end, self.as_number, peer_as) {
            tell(Event::Failed { what: "on_tunnel".into(), error });
        }
    }

    fn answer(&self, stub: &str, answer: &Envelope, to: Option<Peer>) {
        if let Some((key, to)) = self.keys.get(stub).zip(to) {
            sockets::answer(&self.socket, &answer.seal(key), to);
        }
    }

    fn keep(&mut self, tell: Tell<'_>) {
        self.write_due = None;
        let moment = now();
        let until_us =
            |until: Duration| moment.unix_us + until.saturating_sub(moment.elapsed).as_micros() as u64;
        let kept: Vec<Kept> = (self.machine.lifetimes())
            .map(|(tunnel, until)| Kept { tunnel: tunnel.clone(), until_us: until_us(until) })
            .collect();
        let saved = self.store.save(TUNNELS, &kept);
        if let Err(error) = saved.and_then(|()| self.store.save(STAMPS, self.guard.newest())) {
            let what = "cannot keep the list of tunnels".into();
            tell(Event::Failed { what, error: error.to_string() });
        }
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd(), self.hook.as_fd(), self.monitor.as_fd()]
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        if index == 1 {
            self.hook.read(tell);
            return Ok(());
        } else if index == 2 {
            let changes = self.monitor.changes().map_err(doing("cannot watch the interfaces"))?;
            self.look_due = self.look_due.or(changes.interfaces.then(|| now().elapsed + LOOK));
            return Ok(());
        }
        let mut requests = Vec::new();
        sockets::read(&self.socket, |bytes, from| {
            let opened = Envelope::open(bytes, |sender| self.keys.get(sender));
            let taken = opened.and_then(|envelope| {
                self.guard.take(unix_us(), &envelope)?;
                Ok(envelope)
            });
            requests.push((taken, from));
        });
        for (taken, from) in requests {
            match taken {
                Ok(envelope) => {
                    for command in self.machine.handle(now(), &envelope) {
                        self.carry_out(command, Some(from), tell);
                    }
                }
                Err(dropped) => self.drops.add(now().elapsed, dropped.reason(), from.from.ip(), tell),
            }
        }
        Ok(())
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        for command in self.machine.expire(now()) {
            self.carry_out(command, None, tell);
        }
        if self.write_due.is_some_and(|due| due <= now().elapsed) {
            self.keep(tell);
        }
        if self.look_due.is_some_and(|due| due <= now().elapsed) {
            self.look(tell);
        }
        let expiry = self.machine.next_expiry().map(|at| at.max(now().elapsed + EXPIRY));
        let again = self.repetitions.run(now().elapsed, &self.netlink);
        Ok(expiry.into_iter().chain(self.write_due).chain(self.look_due).chain(again).min())
    }

    fn status(&self) -> Status {
        let moment = now().elapsed;
        let tunnel = |(tunnel, until): (&Tunnel, Duration)| {
            let left_s = Some(until.saturating_sub(moment).as_secs());
            status::Tunnel { end: told(tunnel), left_s }
        };
        Status::Tms {
            name: self.name.clone(),
            tunnels: self.machine.lifetimes().map(tunnel).collect(),
            newest_stamps: self.guard.newest().clone(),
        }
    }

    fn end(&mut self, tell: Tell<'_>) {
        self.keep(tell);
        self.hook.end(tell);
    }
}

/// The machine's configuration, from the file.
fn provider(tms: &config::Tms, netlink: &Netlink) -> Result<Provider, Error> {
    let customer = |stub: &config::Customer| Customer {
        name: stub.name.clone(),
        as_number: stub.as_number,
        prefixes: stub.prefixes.clone(),
    };
    if tms.inner.length() > 64 {
        return Err(Error::new(format!("inner: {} found, expected a prefix of at most 64 bits", tms.inner)));
    }
    Ok(Provider {
        name: tms.name.clone(),
        as_number: tms.as_number,
        end: tms.end,
        inner: tms.inner,
        kinds: kernel::kinds_here(netlink, tms.kinds.as_deref())?,
        stubs: tms.stubs.iter().map(customer).collect(),
    })
}

/// This host's end of a tunnel.
fn end_of(tunnel: &Tunnel) -> End {
    End {
        kind: tunnel.kind,
        id: tunnel.id,
        local: tunnel.provider_end,
        remote: tunnel.stub_end,
        inner_own: tunnel.inner_provider,
        inner_peer: tunnel.inner_stub,
    }
}

fn interface(tunnel: &Tunnel) -> String {
    end_of(tunnel).interface()
}

fn told(tunnel: &Tunnel) -> TunnelEnd {
    TunnelEnd {
        peer: tunnel.stub.clone(),
        prefix: tunnel.prefix,
        interface: interface(tunnel),
        kind: tunnel.kind,
        id: tunnel.id,
        inner_own: tunnel.inner_provider,
        inner_peer: tunnel.inner_stub,
    }
}
