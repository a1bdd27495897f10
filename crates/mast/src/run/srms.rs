//! `srms`: the Stub Reachability Management System as a program on the stub's router.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use hickory_proto::rr::{Name, TSigner};
use treecast_host::netlink::{Monitor, Netlink};
use treecast_wire::snmp::parse_link_notice;

use crate::{
    dns::{
        client::{Check, PrefixUpdate},
        keys,
    },
    message::{Dropped, Envelope, Key, Opened, Preference, PrefixState, Protocol, Stamps},
    srms::{self, Command, Input, Newest, Poll, Srms, TunnelWish},
};

use super::{
    Error, Event, Role, Tell,
    closing::{Made, Tms, close, close_made},
    config::{self, Config},
    doing,
    event::{Drops, TunnelEnd},
    hook::Hook,
    kernel::{self, End, Owner, Repetitions},
    now, sockets,
    status::{self, Status},
    store::Store,
};

/// The time until a route is tried again that the kernel has refused, such as one by a gateway that is no neighbour yet.
const ROUTE_AGAIN: Duration = Duration::from_millis(250);

/// The names of the files that outlive a restart.
const LINKS: &str = "srms-links";
const TUNNELS: &str = "srms-tunnels";
const NEWEST: &str = "srms-newest";

/// The shortest time between two writes of the newest stamp.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// Removes the rules, routes and tunnels that an SRMS has left, and asks its providers to remove theirs. The newest stamps stay: without
/// them, nobody would believe an SRMS whose clock was set back.
pub fn clean(netlink: &mut Netlink, config: &Config, store: &Store, tell: Tell<'_>) -> Result<(), Error> {
    kernel::delete_source_routes(netlink).map_err(doing("cannot remove routing rules"))?;
    let made: Vec<Made> = store.load(TUNNELS, tell);
    let newest: Newest = store.load(NEWEST, tell);
    let mut stamps = Stamps::after(newest.stamp);
    close_made(config, &mut stamps, &made);
    remove_others(netlink, |_| false).map_err(doing("cannot remove a tunnel"))?;
    let saved = store.save(NEWEST, &Newest { stamp: stamps.newest(), ..newest });
    saved.map_err(doing("cannot keep the newest stamp"))?;
    [TUNNELS, LINKS]
        .into_iter()
        .try_for_each(|name| store.remove(name))
        .map_err(doing("cannot remove a file"))
}

/// Removes the tunnels of an SRMS whose interfaces are not known.
fn remove_others(netlink: &mut Netlink, is_known: impl Fn(&str) -> bool) -> std::io::Result<()> {
    let there = kernel::tunnels_of(netlink, Owner::Srms)?;
    there.iter().filter(|name| !is_known(name)).try_for_each(|name| netlink.delete_link(name))
}

/// The community of SNMP, unless another one is configured.
pub const COMMUNITY: &str = "public";

/// A provider, as the program sees it.
struct Access {
    settings: Settings,
    preference: Preference,
    /// The tunnel that was made, and its interface.
    tunnel: Option<(End, u32)>,
    tms: Option<Tms>,
    /// The time at which the route is to be set. `None`: it is set.
    route_due: Option<Duration>,
    /// The state of the access link that another router has told last.
    noticed: Option<bool>,
}

/// A source of input that has a descriptor.
#[derive(Debug, Clone, Copy)]
enum Source {
    Monitor,
    Srmp,
    Hook,
    Names,
    Traps,
    /// The socket to a provider's TMS.
    Itmp(usize),
}

/// The settings of a provider in the file.
struct Settings {
    name: String,
    as_number: u32,
    prefix: crate::Prefix,
    interface: Option<String>,
    gateway: Option<std::net::Ipv6Addr>,
    trap: Option<config::Trap>,
}

/// An mDHCPv6 server.
struct Server {
    address: SocketAddr,
    name: String,
    key: Key,
}

/// The name server.
struct NameServer {
    address: SocketAddr,
    socket: UdpSocket,
    signer: TSigner,
    zone: Name,
    networks: Vec<Name>,
    ttl: u32,
    id: u16,
    /// The times of signatures, in microseconds since 1970. The server refuses one that is older than another.
    times: Stamps,
    /// The update that is not answered yet, and its version.
    waiting: Option<(Check, u64)>,
}

/// The sockets and machine of the SRMS.
pub struct Daemon {
    machine: Srms,
    /// The stub's name.
    name: String,
    as_number: u32,
    accesses: Vec<Access>,
    servers: Vec<Server>,
    srmp: UdpSocket,
    names: Option<NameServer>,
    traps: Option<(UdpSocket, Vec<u8>)>,
    netlink: Netlink,
    monitor: Monitor,
    hook: Hook,
    store: Store,
    drops: Drops,
    /// The newest numbers, as they are in the file.
    kept: Newest,
    /// The time at which the newest stamp is written.
    write_due: Option<Duration>,
    repetitions: Repetitions,
}

impl Daemon {
    pub fn new(config: &Config, tell: Tell<'_>) -> Result<Self, Error> {
        let stub = config.stub()?;
        let file = &config.file;
        let netlink = Netlink::open().map_err(doing("cannot ask the kernel"))?;
        let store = Store::open(config.state())?;
        let kept: Newest = store.load(NEWEST, tell);
        let names =
            file.dns.as_ref().map(|dns| NameServer::new(config, dns, kept.stamp)).transpose()?.flatten();
        let servers =
            file.dhcp.iter().map(|dhcp| Server::new(config, dhcp)).collect::<Result<Vec<_>, _>>()?;
        let accesses =
            file.providers.iter().map(|it| Access::new(config, it)).collect::<Result<Vec<_>, Error>>()?;
        let wishes =
            file.providers.iter().map(|it| wish(&netlink, stub, it)).collect::<Result<Vec<_>, Error>>()?;
        let provider = |(access, tunnel): (&Access, Option<TunnelWish>)| srms::Provider {
            name: access.settings.name.clone(),
            prefix: access.settings.prefix,
            tunnel,
        };
        let machine = srms::Stub {
            name: stub.name.clone(),
            providers: accesses.iter().zip(wishes).map(provider).collect(),
            srmp_servers: servers.len(),
            name_servers: usize::from(names.is_some()),
            recovery: file.srms.recovery()?,
        };
        let mut daemon = Self {
            machine: Srms::new(now(), machine, kept),
            name: stub.name.clone(),
            as_number: stub.as_number,
            accesses,
            servers,
            srmp: sockets::open(SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), 0))?,
            names,
            traps: traps(file)?,
            netlink,
            monitor: Monitor::open().map_err(doing("cannot watch the interfaces"))?,
            hook: Hook::new(&file.srms.on_tunnel)?,
            store,
            drops: Drops::default(),
            kept,
            write_due: None,
            repetitions: Repetitions::default(),
        };
        daemon.start(config, tell)?;
        Ok(daemon)
    }

    /// Sets the rules, and takes up what an earlier run has left.
    fn start(&mut self, config: &Config, tell: Tell<'_>) -> Result<(), Error> {
        let prefixes: Vec<_> = self.accesses.iter().map(|access| access.settings.prefix).collect();
        let by_source: Vec<_> =
            self.accesses.iter().map(|access| access.settings.gateway.is_some()).collect();
        if by_source.contains(&true) {
            kernel::set_rules(&self.netlink, &prefixes, &by_source)
                .map_err(doing("cannot set routing rules"))?;
        }
        self.take_up_tunnels(config, tell)?;
        let links: BTreeMap<String, bool> = self.store.load(LINKS, tell);
        for provider in 0..self.accesses.len() {
            let settings = &self.accesses[provider].settings;
            if let Some(is_up) = settings.trap.and_then(|_| links.get(&settings.name)).copied() {
                self.accesses[provider].noticed = Some(is_up);
                self.machine.handle(now(), Input::Link { provider, is_up });
            }
        }
        self.look_at_interfaces(tell);
        Ok(())
    }

    /// Takes up the tunnels of an earlier run. Those that the configuration no longer wants are closed. Without a `state` folder, nobody
    /// knows which are in use, and all stay.
    fn take_up_tunnels(&mut self, config: &Config, tell: Tell<'_>) -> Result<(), Error> {
        let made: Vec<Made> = self.store.load(TUNNELS, tell);
        let (wanted, dropped): (Vec<_>, Vec<_>) = made.into_iter().partition(|made| made.is_wanted(config));
        for Made { provider, end, .. } in wanted {
            let Some(access) = self.accesses.iter_mut().find(|it| it.settings.name == provider) else {
                continue;
            };
            // If it cannot be made, it will be asked for anew.
            let made = kernel::make_tunnel(&self.netlink, &end, Owner::Srms, true);
            access.tunnel = made.ok().map(|index| (end, index));
        }
        for made in &dropped {
            self.removed(&made.told(), made.provider_as, tell);
        }
        if !dropped.is_empty() {
            let mut stamps = Stamps::after(self.kept.stamp);
            close_made(config, &mut stamps, &dropped);
            self.keep_tunnels(tell);
        }
        if self.store.is_kept() {
            let known: Vec<String> =
                self.accesses.iter().filter_map(|it| Some(it.tunnel.as_ref()?.0.interface())).collect();
            let removed = remove_others(&mut self.netlink, |name| known.iter().any(|it| it == name));
            removed.map_err(doing("cannot remove a tunnel that nobody knows"))?;
        }
        Ok(())
    }

    /// Says that a tunnel is gone.
    fn removed(&self, end: &TunnelEnd, peer_as: u32, tell: Tell<'_>) {
        run_hook(&self.hook, "removed", end, [self.as_number, peer_as], tell);
        let TunnelEnd { peer, prefix, interface, .. } = end.clone();
        tell(Event::TunnelRemoved { peer, prefix, interface });
    }

    /// Hands the state of all access links of this host to the machine.
    fn look_at_interfaces(&mut self, tell: Tell<'_>) {
        let interfaces = match self.netlink.interfaces() {
            Ok(interfaces) => interfaces,
            Err(error) => return failed(tell, "cannot list the interfaces", error),
        };
        let moment = now();
        for (provider, access) in self.accesses.iter_mut().enumerate() {
            let Some(name) = &access.settings.interface else { continue };
            let is_up = interfaces.values().any(|it| it.name == *name && it.is_running);
            self.machine.handle(moment, Input::Link { provider, is_up });
            // The kernel forgets routes when addresses go, and takes them when they are back.
            access.route_due = Some(moment.elapsed);
        }
        let is_lost = |access: &Access| {
            let is_there = |(end, index): &(End, u32)| {
                interfaces.get(index).is_some_and(|it| it.name == end.interface())
            };
            access.tunnel.as_ref().is_some_and(|tunnel| !is_there(tunnel))
        };
        let lost: Vec<usize> =
            (0..self.accesses.len()).filter(|provider| is_lost(&self.accesses[*provider])).collect();
        for provider in lost {
            let access = &mut self.accesses[provider];
            let told = access.told();
            access.tunnel = None;
            let peer_as = access.settings.as_number;
            told.into_iter().for_each(|end| self.removed(&end, peer_as, tell));
            self.machine.handle(moment, Input::TunnelLost { provider });
        }
    }

    fn carry_out(&mut self, command: Command, tell: Tell<'_>) {
        match command {
            Command::SendSrmp { server, envelope } => {
                if let Some(known) = self.servers.get(server) {
                    // What is lost is sent again.
                    _ = self.srmp.send_to(&envelope.seal(&known.key), known.address);
                }
            }
            Command::SendItmp { provider, envelope } => {
                if let Some(tms) = self.accesses.get(provider).and_then(|access| access.tms.as_ref()) {
                    _ = tms.socket.send_to(&envelope.seal(&tms.key), tms.server);
                }
            }
            Command::UpdateNames { version, .. } => self.update_names(version, tell),
            Command::MakeTunnel { provider, tunnel } => self.make_tunnel(provider, &tunnel, tell),
            Command::Route { provider, preference } => {
                if let Some(access) = self.accesses.get_mut(provider) {
                    (access.preference, access.route_due) = (preference, Some(now().elapsed));
                }
            }
            Command::Tell(event) => self.tell(event, tell),
        }
    }

    fn update_names(&mut self, version: u64, tell: Tell<'_>) {
        let states = self.machine.states();
        let blocks: Vec<_> =
            states.map(|state| (state.prefix, state.preference == Preference::Discouraged)).collect();
        let Some(names) = &mut self.names else { return };
        if let Err(error) = names.update(blocks, version) {
            failed(tell, "cannot make a DNS update", error);
        }
    }

    fn make_tunnel(&mut self, provider: usize, opened: &Opened, tell: Tell<'_>) {
        let Some(access) = self.accesses.get_mut(provider) else { return };
        let Some(tms) = &access.tms else { return };
        let end = End {
            kind: opened.kind,
            id: opened.id,
            local: tms.from,
            remote: opened.provider_end,
            inner_own: opened.inner_stub,
            inner_peer: opened.inner_provider,
        };
        let old = access.told();
        let known = access.tunnel.take();
        let is_there = known.is_some_and(|(known, _)| known == end);
        let peer_as = access.settings.as_number;
        if let Some(old) = old.filter(|_| !is_there) {
            if let Err(error) = self.netlink.delete_link(&old.interface) {
                failed(tell, format!("cannot remove tunnel {}", old.interface), error);
            }
            self.removed(&old, peer_as, tell);
        }
        let access = &mut self.accesses[provider];
        match kernel::make_tunnel(&self.netlink, &end, Owner::Srms, is_there) {
            Ok(index) => {
                self.repetitions.add(now().elapsed, index, end.inner_own);
                (access.tunnel, access.route_due) = (Some((end, index)), Some(now().elapsed));
                if let Some(made) = access.told() {
                    run_hook(&self.hook, "made", &made, [self.as_number, peer_as], tell);
                    tell(Event::Tunnel(made));
                }
            }
            Err(error) => {
                failed(tell, format!("cannot make the tunnel to {}", access.settings.name), error);
                self.machine.handle(now(), Input::TunnelFailed { provider });
            }
        }
        self.keep_tunnels(tell);
    }

    fn keep_tunnels(&self, tell: Tell<'_>) {
        let made = |access: &Access| {
            let (tms, (end, _)) = access.tms.as_ref().zip(access.tunnel.as_ref())?;
            Some(Made {
                provider: access.settings.name.clone(),
                provider_as: access.settings.as_number,
                prefix: access.settings.prefix,
                end: end.clone(),
                server: tms.server,
                server_name: tms.name.clone(),
                secret: tms.secret.clone(),
            })
        };
        let made: Vec<Made> = self.accesses.iter().filter_map(made).collect();
        if let Err(error) = self.store.save(TUNNELS, &made) {
            failed(tell, "cannot keep the list of tunnels", error);
        }
    }

    /// Keeps the highest numbers that were used.
    fn keep_newest(&mut self, tell: Tell<'_>) {
        (self.kept, self.write_due) = (self.machine.newest(), None);
        if let Err(error) = self.store.save(NEWEST, &self.kept) {
            failed(tell, "cannot keep the newest stamp", error);
        }
    }

    /// Closes the tunnels that carry nothing. Those of discouraged prefixes stay, so that connections go on over a restart.
    fn close_tunnels(&mut self, tell: Tell<'_>) {
        let is_idle =
            |access: &Access| access.preference == Preference::Encouraged && access.tunnel.is_some();
        let idle: Vec<usize> =
            (0..self.accesses.len()).filter(|provider| is_idle(&self.accesses[*provider])).collect();
        for provider in &idle {
            let access = &mut self.accesses[*provider];
            let Some(end) = access.told() else { continue };
            access.tunnel = None;
            let peer_as = access.settings.as_number;
            if let Err(error) = self.netlink.delete_link(&end.interface) {
                failed(tell, format!("cannot remove tunnel {}", end.interface), error);
            }
            self.removed(&end, peer_as, tell);
        }
        let ways = idle.iter().filter_map(|provider| {
            let access = &self.accesses[*provider];
            Some((access.tms.as_ref()?, access.settings.prefix))
        });
        close(&self.name, ways, || self.machine.next_stamp(now()));
        self.keep_tunnels(tell);
    }

    /// Turns indices into names.
    fn tell(&self, event: srms::Event, tell: Tell<'_>) {
        let settings = |provider: usize| &self.accesses[provider].settings;
        let name = |provider: usize| settings(provider).name.clone();
        let server = |server: usize| self.servers[server].name.clone();
        let names = || self.names.as_ref().map_or_else(String::new, |names| names.address.to_string());
        let tms = |provider: usize| {
            self.accesses[provider].tms.as_ref().map_or_else(String::new, |tms| tms.name.clone())
        };
        tell(match event {
            srms::Event::Link { provider, is_up } => Event::Link { provider: name(provider), is_up },
            srms::Event::Preference { provider, preference } => {
                Event::Preference { provider: name(provider), prefix: settings(provider).prefix, preference }
            }
            // Told when it is made.
            srms::Event::Tunnel { .. } => return,
            srms::Event::TunnelRefused { provider, reason } => {
                Event::TunnelRefused { peer: name(provider), prefix: Some(settings(provider).prefix), reason }
            }
            srms::Event::WrongTunnel { provider } => Event::WrongTunnel { peer: name(provider) },
            srms::Event::NoTunnelEnd { provider } => {
                Event::NoAnswer { server: tms(provider), role: Role::Tms }
            }
            srms::Event::NoServer { server: at } => Event::NoAnswer { server: server(at), role: Role::Dhcp },
            srms::Event::NoNameServer { .. } => Event::NoAnswer { server: names(), role: Role::Dns },
            srms::Event::Told { server: at } => Event::Told { server: server(at), role: Role::Dhcp },
            srms::Event::NamesTold { .. } => Event::Told { server: names(), role: Role::Dns },
        });
    }

    /// Sets the routes that are due. Returns when the next one is.
    fn set_routes(&mut self) -> Option<Duration> {
        let moment = now().elapsed;
        for (provider, access) in self.accesses.iter_mut().enumerate() {
            if access.route_due.is_none_or(|due| due > moment) {
                continue;
            }
            access.route_due = match access.set_route(&self.netlink, provider) {
                true => None,
                false => Some(moment + ROUTE_AGAIN),
            };
        }
        self.accesses.iter().filter_map(|access| access.route_due).min()
    }

    fn read_srmp(&mut self, tell: Tell<'_>) {
        let mut answers = Vec::new();
        sockets::read(&self.srmp, |bytes, from| {
            let named = |sender: &str| self.servers.iter().find(|server| server.name == sender);
            let opened = Envelope::open(bytes, |sender| named(sender).map(|server| &server.key));
            answers.push((opened, from));
        });
        for (opened, from) in answers {
            match opened {
                Ok(Envelope { sender, message, .. }) => {
                    let server =
                        self.servers.iter().position(|server| server.name == sender).unwrap_or_default();
                    self.machine.handle(now(), Input::Srmp { server, message });
                }
                Err(dropped) => self.drop(&dropped, from.from, tell),
            }
        }
    }

    fn read_itmp(&mut self, provider: usize, tell: Tell<'_>) {
        let Some(tms) = self.accesses.get(provider).and_then(|access| access.tms.as_ref()) else { return };
        let mut answers = Vec::new();
        sockets::read(&tms.socket, |bytes, from| {
            let opened = Envelope::open(bytes, |sender| (sender == tms.name).then_some(&tms.key));
            answers.push((opened, from));
        });
        for (opened, from) in answers {
            match opened {
                Ok(Envelope { message, .. }) => self.machine.handle(now(), Input::Itmp { provider, message }),
                Err(dropped) => self.drop(&dropped, from.from, tell),
            }
        }
    }

    fn read_names(&mut self, tell: Tell<'_>) {
        let Some(names) = &mut self.names else { return };
        let (mut done, mut refused) = (None, None);
        sockets::read(&names.socket, |bytes, from| {
            let Some((check, version)) = &mut names.waiting else { return };
            match check.check(bytes) {
                Ok(()) => done = Some(*version),
                Err(error) => refused = Some((error, from.from)),
            }
        });
        if let Some(version) = done {
            names.waiting = None;
            self.machine.handle(now(), Input::NameServer { server: 0, version });
        } else if let Some((error, from)) = refused {
            match from.ip().to_canonical() == names.address.ip().to_canonical() {
                true => failed(tell, format!("name server {from}"), error),
                // Anybody can send to this port.
                false => self.drops.add(now().elapsed, "no-name-server", from.ip(), tell),
            }
        }
    }

    fn read_traps(&mut self, tell: Tell<'_>) {
        let Some((socket, community)) = &self.traps else { return };
        let mut notices = Vec::new();
        sockets::read(socket, |bytes, from| notices.push((parse_link_notice(bytes), from)));
        let mut changed = false;
        for (notice, peer) in notices {
            let from = peer.from;
            let Some(notice) = notice else {
                self.drops.add(now().elapsed, "no-link-notice", from.ip(), tell);
                continue;
            };
            let known = self.accesses.iter().position(|access| {
                let trap = access.settings.trap;
                trap.is_some_and(|trap| {
                    trap.agent == from.ip().to_canonical() && trap.index == notice.interface
                })
            });
            let Some(provider) = known.filter(|_| notice.community == *community) else {
                self.drops.add(now().elapsed, "unknown-agent", from.ip(), tell);
                continue;
            };
            self.machine.handle(now(), Input::Link { provider, is_up: notice.is_up });
            changed |= self.accesses[provider].noticed.replace(notice.is_up) != Some(notice.is_up);
            if notice.wants_answer {
                sockets::answer(socket, &notice.to_answer(), peer);
            }
        }
        if changed {
            self.keep_links(tell);
        }
    }

    /// Keeps what was heard of links by notifications: after a restart, nobody tells it again soon.
    fn keep_links(&self, tell: Tell<'_>) {
        let links: BTreeMap<&str, bool> = self
            .accesses
            .iter()
            .filter_map(|access| Some((access.settings.name.as_str(), access.noticed?)))
            .collect();
        if let Err(error) = self.store.save(LINKS, &links) {
            failed(tell, "cannot keep the states of links", error);
        }
    }

    fn drop(&mut self, dropped: &Dropped, from: SocketAddr, tell: Tell<'_>) {
        self.drops.add(now().elapsed, dropped.reason(), from.ip(), tell);
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sources().into_iter().map(|(_, descriptor)| descriptor).collect()
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        let source = self.sources().get(index).map(|(source, _)| *source);
        match source {
            Some(Source::Monitor) => {
                let changes = self.monitor.changes().map_err(doing("cannot watch the interfaces"))?;
                if changes.interfaces {
                    self.look_at_interfaces(tell);
                }
            }
            Some(Source::Srmp) => self.read_srmp(tell),
            Some(Source::Hook) => self.hook.read(tell),
            Some(Source::Names) => self.read_names(tell),
            Some(Source::Traps) => self.read_traps(tell),
            Some(Source::Itmp(provider)) => self.read_itmp(provider, tell),
            None => {}
        }
        Ok(())
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        loop {
            match self.machine.poll(now()) {
                Poll::Do(command) => self.carry_out(command, tell),
                Poll::Wait(until, _) => {
                    // Packets wait for routes, and nobody waits for a file.
                    let routes_due = self.set_routes();
                    let newest = self.machine.newest();
                    let due = now().elapsed + BETWEEN_WRITES;
                    self.write_due = self.write_due.or((newest != self.kept).then_some(due));
                    // States are ignored whose epoch is lower than one that was told.
                    let is_due = self.write_due.is_some_and(|due| due <= now().elapsed);
                    if is_due || newest.epoch != self.kept.epoch {
                        self.keep_newest(tell);
                    }
                    let again = self.repetitions.run(now().elapsed, &self.netlink);
                    let due = routes_due.into_iter().chain([until]).chain(self.write_due);
                    return Ok(due.chain(again).min());
                }
            }
        }
    }

    fn status(&self) -> Status {
        let known = self.accesses.iter().zip(self.machine.states().zip(self.machine.links()));
        let provider = |(access, (state, is_up)): (&Access, (PrefixState, Option<bool>))| status::Provider {
            name: access.settings.name.clone(),
            prefix: state.prefix,
            preference: state.preference,
            epoch: state.epoch,
            is_up,
            tunnel: access.told().map(|end| status::Tunnel { end, left_s: None }),
        };
        let servers = self.servers.iter().map(|server| server.name.clone());
        let servers = servers.chain(self.names.iter().map(|names| names.address.to_string()));
        let Newest { stamp, epoch } = self.machine.newest();
        Status::Srms {
            stub: self.name.clone(),
            providers: known.map(provider).collect(),
            told: servers.zip(self.machine.told()).collect(),
            newest_stamp: stamp,
            newest_epoch: epoch,
        }
    }

    fn end(&mut self, tell: Tell<'_>) {
        self.close_tunnels(tell);
        self.keep_newest(tell);
        self.hook.end(tell);
    }
}

impl Daemon {
    /// The sources that are read, in a fixed order, with their descriptors.
    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>)> {
        let mut sources = vec![
            (Source::Monitor, self.monitor.as_fd()),
            (Source::Srmp, self.srmp.as_fd()),
            (Source::Hook, self.hook.as_fd()),
        ];
        sources.extend(self.names.iter().map(|names| (Source::Names, names.socket.as_fd())));
        sources.extend(self.traps.iter().map(|(socket, _)| (Source::Traps, socket.as_fd())));
        let itmp = self.accesses.iter().enumerate();
        let itmp = itmp.filter_map(|(provider, access)| Some((provider, access.tms.as_ref()?)));
        sources.extend(itmp.map(|(provider, tms)| (Source::Itmp(provider), tms.socket.as_fd())));
        sources
    }
}

impl Access {
    fn new(config: &Config, provider: &config::Provider) -> Result<Self, Error> {
        let tms = provider
            .tunnel
            .as_ref()
            .map(|tunnel| Tms::new(config, tunnel.from, tunnel.server, &tunnel.server_name, tunnel.secret()));
        Ok(Self {
            settings: Settings {
                name: provider.name.clone(),
                as_number: provider.as_number,
                prefix: provider.prefix,
                interface: provider.interface.clone(),
                gateway: provider.gateway,
                trap: provider.trap,
            },
            preference: Preference::Encouraged,
            tunnel: None,
            tms: tms.transpose()?,
            route_due: None,
            noticed: None,
        })
    }

    /// This end of the tunnel that was made.
    fn told(&self) -> Option<TunnelEnd> {
        let (end, _) = self.tunnel.as_ref()?;
        Some(TunnelEnd {
            peer: self.settings.name.clone(),
            prefix: self.settings.prefix,
            interface: end.interface(),
            kind: end.kind,
            id: end.id,
            inner_own: end.inner_own,
            inner_peer: end.inner_peer,
        })
    }

    /// Routes the packets from the provider's prefix. Returns whether that is done, or nothing is to be done.
    fn set_route(&self, netlink: &Netlink, provider: usize) -> bool {
        let Some(gateway) = self.settings.gateway else { return true };
        let link = || {
            let interface = self.settings.interface.as_deref()?;
            Some((gateway, treecast_host::interface::index_of(interface).ok()?))
        };
        let tunnel = self.tunnel.as_ref().filter(|_| self.preference == Preference::Discouraged);
        let by = tunnel.map(|(end, index)| (end.inner_peer, *index)).or_else(link);
        let Some((gateway, interface)) = by else { return true };
        let set = kernel::set_source_route(netlink, provider, gateway, interface);
        // A link that is down has no routes; there will be a notification when it is back.
        let is_down = |error: &std::io::Error| treecast_host::netlink::is_refused_with(error, libc::ENETDOWN);
        set.map_or_else(|error| is_down(&error), |()| true)
    }
}

impl Server {
    fn new(config: &Config, dhcp: &config::Dhcp) -> Result<Self, Error> {
        let key = Key::new(Protocol::Srmp, &dhcp.secret(config)?);
        Ok(Self { address: dhcp.srmp, name: dhcp.name.clone(), key })
    }
}

impl NameServer {
    /// The name server that is to be told. `None` if the SRMS has no key for it.
    fn new(config: &Config, dns: &config::Dns, newest_stamp: u64) -> Result<Option<Self>, Error> {
        let Some(key) = dns.srms_key() else { return Ok(None) };
        let zone = super::dns::zone_name(&dns.zone)?;
        let networks = config.file.links.iter().map(|link| super::dns::name_in(&link.name, &zone));
        let address = dns.server()?;
        let any: std::net::IpAddr = if address.is_ipv4() {
            std::net::Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        Ok(Some(Self {
            address,
            socket: sockets::open(SocketAddr::new(any, 0))?,
            signer: keys::signer(&key.name, &key.secret(config)?).map_err(Error::new)?,
            networks: networks.collect::<Result<_, _>>()?,
            zone,
            ttl: dns.ttl_s,
            // Its answer is signed, so the number need not be hard to guess.
            id: super::unix_us() as u16,
            times: Stamps::after(newest_stamp),
            waiting: None,
        }))
    }

    /// Sends an update. Only the answer to the last one counts.
    fn update(&mut self, blocks: Vec<(crate::Prefix, bool)>, version: u64) -> Result<(), String> {
        self.id = self.id.wrapping_add(1);
        let (zone, networks) = (self.zone.clone(), self.networks.clone());
        let update = PrefixUpdate { zone, networks, blocks, ttl: self.ttl };
        let (bytes, check) =
            update.message(self.id, &self.signer, self.times.next(super::unix_us()) / 1_000_000)?;
        // What is lost is sent again.
        _ = self.socket.send_to(&bytes, self.address);
        self.waiting = Some((check, version));
        Ok(())
    }
}

/// The tunnel that a provider is asked for.
fn wish(
    netlink: &Netlink,
    stub: &config::Stub,
    provider: &config::Provider,
) -> Result<Option<TunnelWish>, Error> {
    let Some(tunnel) = &provider.tunnel else { return Ok(None) };
    Ok(Some(TunnelWish {
        stub_end: tunnel.from,
        stub_as: stub.as_number,
        provider_end: tunnel.to,
        provider_as: provider.as_number,
        inner: tunnel.inner,
        kinds: kernel::kinds_here(netlink, tunnel.kinds.as_deref())?,
    }))
}

/// The socket for notifications, if there is a router that sends them.
fn traps(file: &config::File) -> Result<Option<(UdpSocket, Vec<u8>)>, Error> {
    if file.providers.iter().all(|provider| provider.trap.is_none()) {
        return Ok(None);
    }
    let listen = file.srms.trap_listen;
    let listen = listen.ok_or_else(|| {
        Error::new(
            "a provider has a trap: say where to hear it, such as trap_listen = \"[::]:162\" in [srms]"
                .into(),
        )
    })?;
    let community = file.srms.trap_community.as_deref().unwrap_or(COMMUNITY);
    Ok(Some((sockets::open(listen)?, community.as_bytes().to_vec())))
}

fn run_hook(hook: &Hook, what: &'static str, end: &TunnelEnd, [own, peer]: [u32; 2], tell: Tell<'_>) {
    if let Err(error) = hook.tunnel(what, end, own, peer) {
        failed(tell, "on_tunnel", error);
    }
}

fn failed(tell: Tell<'_>, what: impl Into<String>, error: impl ToString) {
    tell(Event::Failed { what: what.into(), error: error.to_string() });
}
