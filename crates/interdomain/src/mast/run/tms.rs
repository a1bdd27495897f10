//! `tms`: the Tunnel Management System as a program on a provider's router.

use std::{
    collections::HashMap,
    net::UdpSocket,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::netlink::Netlink;

use crate::mast::{
    message::{Envelope, Key, Message, Protocol, ReplayGuard},
    tms::{Command, Customer, Provider, Tms, Tunnel},
};

use super::{
    Error, Event, Tell,
    config::{self, Config},
    doing,
    event::{Drops, TunnelEnd},
    hook::Hook,
    kernel::{self, End},
    now,
    sockets::{self, Peer},
    store::Store,
    unix_us,
};

/// The name of the file that outlives a restart.
const TUNNELS: &str = "tms-tunnels";

/// The shortest time between two writes of the list of tunnels.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// The time between two looks for tunnels that are over.
const EXPIRY: Duration = Duration::from_secs(1);

/// A tunnel in the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    tunnel: Tunnel,
    /// Microseconds since 1970.
    until_us: u64,
}

/// Removes the tunnels that a TMS has left.
pub fn clean(netlink: &Netlink, store: &Store) -> Result<(), Error> {
    for Kept { tunnel, .. } in store.load::<Vec<Kept>>(TUNNELS).unwrap_or_default() {
        netlink.delete_link(&told(&tunnel).interface).map_err(doing("cannot remove a tunnel"))?;
    }
    store.remove(TUNNELS).map_err(doing("cannot remove a file"))
}

/// The sockets and machine of the TMS.
pub struct Daemon {
    machine: Tms,
    as_number: u32,
    end: std::net::Ipv6Addr,
    has_routes: bool,
    keys: HashMap<String, Key>,
    guard: ReplayGuard,
    socket: UdpSocket,
    netlink: Netlink,
    hook: Hook,
    store: Store,
    drops: Drops,
    /// When changed tunnels are written.
    write_due: Option<Duration>,
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
        let mut daemon = Self {
            machine: Tms::new(provider(tms, &netlink)?),
            as_number: tms.as_number,
            end: tms.end,
            has_routes: tms.route,
            keys: keys.collect::<Result<_, _>>()?,
            guard: ReplayGuard::since(unix_us()),
            socket: sockets::open(tms.listen)?,
            netlink,
            hook: Hook::new(&tms.on_tunnel)?,
            store: Store::open(config.state())?,
            drops: Drops::default(),
            write_due: None,
        };
        daemon.restore(tell);
        Ok(daemon)
    }

    /// Takes up the tunnels of an earlier run. Those that nobody may have any more, and those that are over, go.
    fn restore(&mut self, tell: Tell<'_>) {
        let moment = now();
        for Kept { tunnel, until_us } in self.store.load::<Vec<Kept>>(TUNNELS).unwrap_or_default() {
            let left = Duration::from_micros(until_us.saturating_sub(moment.unix_us));
            let end = self.end_of(&tunnel);
            let is_taken = !left.is_zero() && self.machine.restore(moment, tunnel.clone(), left);
            if !is_taken || self.make(&tunnel, &end, true, tell).is_err() {
                self.machine.forget(tunnel.id);
                self.remove(&tunnel, tell);
            }
        }
    }

    fn end_of(&self, tunnel: &Tunnel) -> End {
        End {
            kind: tunnel.kind,
            id: tunnel.id,
            local: self.end,
            remote: tunnel.stub_end,
            inner_own: tunnel.inner_provider,
            inner_peer: tunnel.inner_stub,
        }
    }

    fn carry_out(&mut self, command: Command, to: Option<Peer>, tell: Tell<'_>) {
        self.write_due = self.write_due.or(Some(now().elapsed + BETWEEN_WRITES));
        match command {
            Command::Make { tunnel, answer } => {
                let end = self.end_of(&tunnel);
                let answer = match self.make(&tunnel, &end, false, tell) {
                    Ok(()) => answer,
                    Err(error) => {
                        let what = format!("cannot make the tunnel to {}", tunnel.stub);
                        tell(Event::Failed { what, error });
                        _ = self.netlink.delete_link(&end.interface());
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

    fn make(&self, tunnel: &Tunnel, end: &End, is_there: bool, tell: Tell<'_>) -> Result<(), String> {
        let index = kernel::make_tunnel(&self.netlink, end, is_there).map_err(|error| error.to_string())?;
        if self.has_routes {
            kernel::set_last_route(&self.netlink, tunnel.prefix, end, index)
                .map_err(|error| error.to_string())?;
        }
        let told = told(tunnel);
        self.run_hook("made", &told, tunnel.stub_as, tell);
        tell(Event::Tunnel(told));
        Ok(())
    }

    fn remove(&self, tunnel: &Tunnel, tell: Tell<'_>) {
        let told = told(tunnel);
        self.run_hook("removed", &told, tunnel.stub_as, tell);
        if let Err(error) = self.netlink.delete_link(&told.interface) {
            let what = format!("cannot remove tunnel {}", told.interface);
            tell(Event::Failed { what, error: error.to_string() });
        }
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
        if let Err(error) = self.store.save(TUNNELS, &kept) {
            let what = "cannot keep the list of tunnels".into();
            tell(Event::Failed { what, error: error.to_string() });
        }
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd(), self.hook.as_fd()]
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        if index == 1 {
            self.hook.read(tell);
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
        let expiry = self.machine.next_expiry().map(|at| at.max(now().elapsed + EXPIRY));
        Ok(expiry.into_iter().chain(self.write_due).min())
    }

    fn end(&mut self, tell: Tell<'_>) {
        self.keep(tell);
    }
}

/// What the machine needs of the file.
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

fn told(tunnel: &Tunnel) -> TunnelEnd {
    TunnelEnd {
        peer: tunnel.stub.clone(),
        prefix: tunnel.prefix,
        interface: format!("mast{:x}", tunnel.id),
        kind: tunnel.kind,
        id: tunnel.id,
        inner_own: tunnel.inner_provider,
        inner_peer: tunnel.inner_stub,
    }
}
