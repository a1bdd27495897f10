//! `dhcp`: the mDHCPv6 server as a program, for one or several links.

use std::{
    collections::BTreeMap,
    net::UdpSocket,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use ed25519_dalek::SigningKey;
use treecast_host::{clock, interface::index_of};

use crate::{
    dhcp::{
        ALL_HOSTS, ALL_SERVERS, CLIENT_PORT, KeptLease, SERVER_PORT,
        server::{self, Now, Server},
    },
    message::{Envelope, Key, Message, PrefixState, Protocol, ReplayGuard, Stamps},
};

use super::{
    Error, Event, Tell,
    config::Config,
    doing,
    event::Drops,
    sockets::{self, Peer},
    status::{self, Status},
    store::Store,
    unix_us,
};

/// The shortest time between two writes of the leases.
const BETWEEN_WRITES: Duration = Duration::from_secs(2);

/// The type of a DUID that is a number of 128 bits (RFC 6355).
const DUID_UUID: [u8; 2] = [0, 4];

/// The server of one link, with its socket.
struct Link {
    name: String,
    index: u32,
    socket: UdpSocket,
    server: Server,
    /// The number of leases that was told last.
    leases: usize,
    /// The time at which changed leases and states are written.
    write_due: Option<Duration>,
}

/// The sockets and machines of a server.
pub struct Daemon {
    name: String,
    links: Vec<Link>,
    srmp: UdpSocket,
    /// The name of the stub's SRMS, and the key that it shares with this server.
    srms: (String, Key),
    guard: ReplayGuard,
    stamps: Stamps,
    /// The time at which the SRMS's newest stamp is written.
    write_due: Option<Duration>,
    store: Store,
    drops: Drops,
}

impl Daemon {
    pub fn new(config: &Config, name: Option<&str>, tell: Tell<'_>) -> Result<Self, Error> {
        let dhcp = config.dhcp(name)?;
        let store = Store::open(config.state())?;
        let key = dhcp.key(config)?;
        let mut link = |link: &super::config::Link| {
            let settings = server::Config {
                duid: duid(&key, &link.name),
                prefixes: config.listed_prefixes(link)?,
                preferred_s: dhcp.preferred_s,
                valid_s: dhcp.valid_s,
                dns_servers: dhcp.dns.clone(),
                reserved: dhcp.reserved(),
                kept_for: config.kept_for(link)?,
                max_leases: dhcp.max_leases,
                key: SigningKey::from_bytes(&key),
                push_interval: Duration::from_secs(dhcp.push_s.into()),
            };
            let interface = link.interface.as_deref().ok_or_else(|| {
                Error::new(format!(
                    "link {:?} has no interface: name the one by which it is served",
                    link.name
                ))
            })?;
            Link::new(&link.name, interface, settings, &store, tell)
        };
        let links = config.links_of(dhcp)?.into_iter().map(&mut link).collect::<Result<_, Error>>()?;
        Ok(Self {
            name: dhcp.name.clone(),
            links,
            srmp: sockets::open(dhcp.srmp)?,
            srms: (config.stub()?.name.clone(), Key::new(Protocol::Srmp, &dhcp.secret(config)?)),
            guard: ReplayGuard::resume(
                unix_us(),
                store.load::<BTreeMap<String, u64>>(&stamps_file(&dhcp.name), tell),
            ),
            stamps: Stamps::default(),
            write_due: None,
            store,
            drops: Drops::default(),
        })
    }

    fn read_srmp(&mut self, tell: Tell<'_>) {
        let (name, key) = &self.srms;
        let mut messages = Vec::new();
        sockets::read(&self.srmp, |bytes, from| {
            let opened = Envelope::open(bytes, |sender| (sender == name).then_some(key));
            let taken = opened.and_then(|envelope| {
                self.guard.take(unix_us(), &envelope)?;
                Ok(envelope)
            });
            messages.push((taken, from));
        });
        for (taken, from) in messages {
            match taken {
                Ok(Envelope { stamp, message: Message::Prefixes(states), .. }) => {
                    self.take_states(stamp, &states, from, tell);
                }
                Ok(_) => {}
                Err(dropped) => self.drops.add(clock::monotonic(), dropped.reason(), from.from.ip(), tell),
            }
        }
    }

    /// Keeps the newest stamp of the SRMS, so that nobody can repeat its messages after a restart.
    fn keep_stamps(&mut self, tell: Tell<'_>) {
        self.write_due = None;
        if let Err(error) = self.store.save(&stamps_file(&self.name), self.guard.newest()) {
            tell(Event::Failed {
                what: "cannot keep the SRMS's newest stamp".into(),
                error: error.to_string(),
            });
        }
    }

    fn take_states(&mut self, stamp: u64, states: &[PrefixState], from: Peer, tell: Tell<'_>) {
        let mut changed = false;
        let due = clock::monotonic() + BETWEEN_WRITES;
        for link in &mut self.links {
            changed |= link.server.set_states(now(), states);
            link.write_due = link.write_due.or(changed.then_some(due));
        }
        self.write_due = self.write_due.or(Some(due));
        if changed {
            let prefixes = states.iter().map(|state| (state.prefix, state.preference)).collect();
            tell(Event::States { prefixes });
        }
        let (sender, message) = (self.name.clone(), Message::PrefixesTaken { answers: stamp });
        let answer = Envelope { sender, stamp: self.stamps.next(unix_us()), message };
        sockets::answer(&self.srmp, &answer.seal(&self.srms.1), from);
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let links = self.links.iter().map(|link| link.socket.as_fd());
        [self.srmp.as_fd()].into_iter().chain(links).collect()
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        match index.checked_sub(1).and_then(|link| self.links.get_mut(link)) {
            None => self.read_srmp(tell),
            Some(link) => link.read(tell),
        }
        Ok(())
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        let moment = now();
        for link in &mut self.links {
            while let Some(push) = link.server.poll(moment) {
                match sockets::send_on(&link.socket, &push, ALL_HOSTS, CLIENT_PORT, link.index) {
                    Ok(()) => tell(Event::Push { link: link.name.clone() }),
                    Err(error) => tell(Event::Failed {
                        what: format!("cannot push prefixes on {}", link.name),
                        error: error.to_string(),
                    }),
                }
            }
            if link.write_due.is_some_and(|due| due <= moment.monotonic) {
                link.keep(&self.store, tell);
            }
        }
        if self.write_due.is_some_and(|due| due <= moment.monotonic) {
            self.keep_stamps(tell);
        }
        let due = self.links.iter().flat_map(|link| [link.server.deadline(), link.write_due]);
        Ok(due.flatten().chain(self.write_due).min())
    }

    fn status(&self) -> Status {
        let moment = now();
        let lease = |kept: KeptLease| status::Lease {
            duid: kept.client.duid.iter().map(|byte| format!("{byte:02x}")).collect(),
            ifid: u128::from(kept.ifid).into(),
            left_s: kept.left_s,
        };
        let link = |link: &Link| status::Link {
            name: link.name.clone(),
            leases: link.server.kept_leases(moment).into_iter().map(lease).collect(),
            counter: link.server.counter(),
        };
        Status::Dhcp {
            name: self.name.clone(),
            states: self.links.first().into_iter().flat_map(|link| link.server.states()).collect(),
            links: self.links.iter().map(link).collect(),
            newest_stamps: self.guard.newest().clone(),
        }
    }

    fn end(&mut self, tell: Tell<'_>) {
        // The counters of signed messages have grown, whether leases have changed or not.
        self.links.iter_mut().for_each(|link| link.keep(&self.store, tell));
        self.keep_stamps(tell);
    }
}

impl Link {
    fn new(
        name: &str,
        interface: &str,
        settings: server::Config,
        store: &Store,
        tell: Tell<'_>,
    ) -> Result<Self, Error> {
        let index = index_of(interface).map_err(doing(format!("interface {interface} of link {name:?}")))?;
        let moment = now();
        let mut server = Server::new(settings, moment);
        if let Some(kept) = store.load(&file_name(name), tell) {
            server.restore(moment, kept);
        }
        Ok(Self {
            name: name.to_owned(),
            index,
            socket: sockets::open_on(interface, index, SERVER_PORT, &[ALL_SERVERS])?,
            leases: server.leases(),
            server,
            write_due: None,
        })
    }

    fn read(&mut self, tell: Tell<'_>) {
        let mut answers = Vec::new();
        sockets::read(&self.socket, |bytes, from| {
            answers.extend(self.server.handle(now(), bytes).map(|answer| (answer, from)));
        });
        for (answer, from) in &answers {
            sockets::answer(&self.socket, answer, *from);
        }
        if answers.is_empty() {
            return;
        }
        self.write_due = self.write_due.or(Some(clock::monotonic() + BETWEEN_WRITES));
        if self.server.leases() != self.leases {
            self.leases = self.server.leases();
            tell(Event::Leases { link: self.name.clone(), leases: self.leases });
        }
    }

    fn keep(&mut self, store: &Store, tell: Tell<'_>) {
        self.write_due = None;
        if let Err(error) = store.save(&file_name(&self.name), &self.server.kept(now())) {
            let what = format!("cannot keep the leases of {}", self.name);
            tell(Event::Failed { what, error: error.to_string() });
        }
    }
}

/// The DUID of a link's server. It stays the same while the key does.
fn duid(key: &[u8; 32], link: &str) -> Vec<u8> {
    let secret = blake3::derive_key("treecast 2026-11 MAST DUID", key);
    let number = blake3::keyed_hash(&secret, link.as_bytes());
    [&DUID_UUID[..], &number.as_bytes()[..16]].concat()
}

/// The name of the file with a link's leases.
fn file_name(link: &str) -> String {
    format!("dhcp-leases-{}", short(link))
}

/// The name of the file with the newest stamps that a server has taken.
fn stamps_file(server: &str) -> String {
    format!("dhcp-stamps-{}", short(server))
}

/// A part of a file's name. Names of links and servers may have characters that those of files may not.
fn short(name: &str) -> String {
    blake3::hash(name.as_bytes()).to_hex().get(..16).unwrap_or_default().to_owned()
}

fn now() -> Now {
    Now { monotonic: clock::monotonic(), unix_us: unix_us() }
}
