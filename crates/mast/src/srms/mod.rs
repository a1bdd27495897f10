//! The Stub Reachability Management System (interdomain-2013, 6.3.2): it hears which access links are down, decides which
//! prefixes are discouraged, tells DHCP and DNS servers, and asks providers for backup tunnels.
//!
//! [`Srms`] is a machine without sockets. Its caller hands it what happens with [`Srms::handle`], and calls [`Srms::poll`]
//! until that says when to come back.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Prefix,
    errand::Errand,
    message::{
        Envelope, Epochs, Message, Open, Opened, Preference, PrefixState, Refusal, Stamps, TunnelKind,
    },
};

/// The time between two messages to a server that has answered. A server that has started anew learns the states then.
const REFRESH: Duration = Duration::from_secs(30);

/// The tries after which somebody who does not answer is told about.
const TRIES: u32 = 3;

/// The lifetime that is asked for a tunnel. Three requests in this time keep it.
const LIFETIME: Duration = Duration::from_secs(180);

/// The shortest lifetime of a tunnel in seconds.
const LEAST_LIFETIME_S: u32 = 30;

/// The time until a tunnel is asked for again that was refused, or could not be made.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// The time until a tunnel is asked for again that somebody else has removed.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// A moment, by two clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Now {
    /// The time since an arbitrary moment, by a clock that never goes back.
    pub elapsed: Duration,
    /// The time since 1970 in microseconds.
    pub unix_us: u64,
}

/// The stub that the system manages.
#[derive(Debug, Clone)]
pub struct Stub {
    /// The name by which the receivers of its messages know the stub.
    pub name: String,
    pub providers: Vec<Provider>,
    /// The number of servers that are told by SRMP.
    pub srmp_servers: usize,
    /// The number of name servers that are told by dynamic update.
    pub name_servers: usize,
    /// The time for which a link must be up until its prefix is encouraged again. So a link that comes and goes
    /// changes nothing for hosts.
    pub recovery: Duration,
}

/// An access link, and the prefix that the stub has of its provider.
#[derive(Debug, Clone)]
pub struct Provider {
    pub name: String,
    pub prefix: Prefix,
    /// The tunnel that protects the prefix. `None`: it cannot be reached while the link is down.
    pub tunnel: Option<TunnelWish>,
}

/// The tunnel that a provider is asked for.
#[derive(Debug, Clone)]
pub struct TunnelWish {
    /// The stub's end: an address out of another provider's block.
    pub stub_end: std::net::Ipv6Addr,
    pub stub_as: u32,
    /// The provider's end, its AS number, and the block of its addresses inside tunnels. An answer that says otherwise is not
    /// believed: a provider could disturb the stub's sessions with others.
    pub provider_end: std::net::Ipv6Addr,
    pub provider_as: u32,
    pub inner: Prefix,
    /// The kinds of tunnels that this host can make, the preferred one first. At least one.
    pub kinds: Vec<TunnelKind>,
}

/// Something that has happened. Messages are verified: their codes are right.
#[derive(Debug, Clone)]
pub enum Input {
    /// An access link is up or down. The first such report of a link takes effect at once.
    Link { provider: usize, is_up: bool },
    /// A server has answered by SRMP.
    Srmp { server: usize, message: Message },
    /// A provider's TMS has answered by ITMP.
    Itmp { provider: usize, message: Message },
    /// The stub's end of a tunnel could not be made.
    TunnelFailed { provider: usize },
    /// Somebody else has removed the stub's end of a tunnel.
    TunnelLost { provider: usize },
    /// A name server has carried out the update with this version.
    NameServer { server: usize, version: u64 },
}

/// A command to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    SendSrmp {
        server: usize,
        envelope: Envelope,
    },
    SendItmp {
        provider: usize,
        envelope: Envelope,
    },
    /// Sends the states to a name server by dynamic update.
    UpdateNames {
        server: usize,
        version: u64,
    },
    /// Makes the stub's end of a tunnel, and removes the one that was there.
    MakeTunnel {
        provider: usize,
        tunnel: Opened,
    },
    /// Sends the packets of a provider's prefix over its access link (encouraged), or through its tunnel (discouraged).
    Route {
        provider: usize,
        preference: Preference,
    },
    Tell(Event),
}

/// An event that a person may want to know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Link {
        provider: usize,
        is_up: bool,
    },
    Preference {
        provider: usize,
        preference: Preference,
    },
    Tunnel {
        provider: usize,
        id: u32,
    },
    TunnelRefused {
        provider: usize,
        reason: Refusal,
    },
    /// A TMS has answered with a tunnel that was not asked for.
    WrongTunnel {
        provider: usize,
    },
    /// A TMS has not answered three requests.
    NoTunnelEnd {
        provider: usize,
    },
    /// A server has not answered three messages.
    NoServer {
        server: usize,
    },
    NoNameServer {
        server: usize,
    },
    /// A server has taken note of the newest states.
    Told {
        server: usize,
    },
    /// A name server has carried out the newest update.
    NamesTold {
        server: usize,
    },
}

/// The answer of [`Srms::poll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    Do(Command),
    /// Nothing is to do until this time, as [`Now::elapsed`] counts it.
    Wait(Duration, Timer),
}

/// The reason for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A link has been up for long enough.
    Recovery,
    /// A server, name server or TMS is to be told again.
    Errand,
    Nothing,
}

/// The state of an access link and its prefix.
struct Access {
    /// `None`: nothing is known yet.
    is_up: Option<bool>,
    /// The time at which the link, which is up, counts as recovered.
    recovers: Option<Duration>,
    is_usable: bool,
    state: PrefixState,
    tunnel: Option<Tunnel>,
}

struct Tunnel {
    errand: Errand,
    /// The stamp of the last request, until its answer has come: an answer counts once.
    asked: Option<u64>,
    /// The kind that is asked for, as an index.
    kind: usize,
    made: Option<Opened>,
}

/// The knowledge of a server.
#[derive(Clone, Copy)]
struct Server {
    errand: Errand,
    /// The stamp of the last message, until its answer has come: an answer counts once.
    asked: Option<u64>,
    /// The version of the states that it has confirmed.
    confirmed: u64,
}

impl Server {
    /// A server that is to be told at once.
    fn at(now: Duration) -> Self {
        Self { errand: Errand::at(now), asked: None, confirmed: 0 }
    }

    /// Takes note that the server knows the states of a version. Returns whether that is news.
    fn confirm(&mut self, now: Duration, version: u64) -> bool {
        self.errand.done(now, REFRESH);
        std::mem::replace(&mut self.confirmed, version) != version
    }
}

/// The highest numbers that the system has used. They go on after a restart, even if the clock was set back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newest {
    /// The stamp of the last message.
    pub stamp: u64,
    /// The epoch of the last change of a prefix's state.
    pub epoch: u64,
}

/// The machine. [`Srms::handle`] and [`Srms::poll`] may be called in any order.
pub struct Srms {
    stub: Stub,
    accesses: Vec<Access>,
    servers: Vec<Server>,
    name_servers: Vec<Server>,
    stamps: Stamps,
    epochs: Epochs,
    /// Grows with each change of a state.
    version: u64,
    commands: VecDeque<Command>,
}

impl Srms {
    /// Creates the machine. All prefixes are encouraged until a link is reported to be down. `newest`: what an earlier run has used.
    pub fn new(now: Now, stub: Stub, newest: Newest) -> Self {
        let mut epochs = Epochs::after(newest.epoch);
        let mut access = |provider: &Provider| Access {
            is_up: None,
            recovers: None,
            is_usable: true,
            state: PrefixState {
                prefix: provider.prefix,
                preference: Preference::Encouraged,
                epoch: epochs.next(now.unix_us),
            },
            tunnel: provider.tunnel.as_ref().map(|_| Tunnel {
                errand: Errand::at(now.elapsed),
                asked: None,
                kind: 0,
                made: None,
            }),
        };
        let accesses: Vec<Access> = stub.providers.iter().map(&mut access).collect();
        let servers = vec![Server::at(now.elapsed); stub.srmp_servers];
        let name_servers = vec![Server::at(now.elapsed); stub.name_servers];
        let commands = (0..accesses.len())
            .map(|provider| Command::Route { provider, preference: Preference::Encouraged })
            .collect();
        Self {
            stub,
            accesses,
            servers,
            name_servers,
            stamps: Stamps::after(newest.stamp),
            epochs,
            version: 1,
            commands,
        }
    }

    /// The highest numbers that were used.
    pub fn newest(&self) -> Newest {
        Newest { stamp: self.stamps.newest(), epoch: self.epochs.newest() }
    }

    /// A stamp for a message of the caller's own.
    pub fn next_stamp(&mut self, now: Now) -> u64 {
        self.stamps.next(now.unix_us)
    }

    /// Whether each access link is up, in the order of the providers. `None`: nothing is known yet.
    pub fn links(&self) -> impl Iterator<Item = Option<bool>> {
        self.accesses.iter().map(|access| access.is_up)
    }

    /// Whether each server, and then each name server, knows the newest states.
    pub fn told(&self) -> impl Iterator<Item = bool> {
        self.servers.iter().chain(&self.name_servers).map(|server| server.confirmed == self.version)
    }

    /// The state of each prefix, in the order of the providers.
    pub fn states(&self) -> impl Iterator<Item = PrefixState> {
        self.accesses.iter().map(|access| access.state)
    }

    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Link { provider, is_up } => self.link(now, provider, is_up),
            Input::Srmp { server, message: Message::PrefixesTaken { answers } } => {
                let answered = self.servers.get_mut(server).filter(|known| known.asked == Some(answers));
                let version = self.version;
                let is_news = answered.is_some_and(|known| {
                    known.asked = None;
                    known.confirm(now.elapsed, version)
                });
                if is_news {
                    self.tell(Event::Told { server });
                }
            }
            Input::Itmp { provider, message } => self.itmp(now, provider, message),
            Input::TunnelFailed { provider } => self.forget_tunnel(now, provider, AFTER_REFUSAL),
            Input::TunnelLost { provider } => self.forget_tunnel(now, provider, AFTER_LOSS),
            Input::NameServer { server, version } if version == self.version => {
                if self.name_servers.get_mut(server).is_some_and(|known| known.confirm(now.elapsed, version))
                {
                    self.tell(Event::NamesTold { server });
                }
            }
            Input::Srmp { .. } | Input::NameServer { .. } => {}
        }
    }

    pub fn poll(&mut self, now: Now) -> Poll {
        self.recover(now);
        if self.commands.is_empty() {
            self.run_errands(now);
        }
        if let Some(command) = self.commands.pop_front() {
            return Poll::Do(command);
        }
        let recoveries =
            self.accesses.iter().filter_map(|access| access.recovers).map(|at| (at, Timer::Recovery));
        let tunnels =
            self.accesses.iter().filter_map(|access| access.tunnel.as_ref()).map(|tunnel| tunnel.errand);
        let servers = self.servers.iter().chain(&self.name_servers).map(|server| server.errand);
        let errands = tunnels.chain(servers);
        let errands = errands.map(|errand| (errand.due(), Timer::Errand));
        let (at, why) = recoveries.chain(errands).min().unwrap_or((Duration::MAX, Timer::Nothing));
        Poll::Wait(at, why)
    }
}

impl TunnelWish {
    /// Whether a provider's tunnel is one that was asked for, and disturbs nothing else.
    fn fits(&self, opened: &Opened, prefix: Prefix, kind: usize) -> bool {
        let Opened { inner_stub, inner_provider, .. } = *opened;
        let inner = [inner_stub, inner_provider];
        opened.prefix == prefix
            && self.kinds.get(kind) == Some(&opened.kind)
            && (opened.provider_end, opened.provider_as) == (self.provider_end, self.provider_as)
            && (1..1 << 24).contains(&opened.id)
            && opened.lifetime_s >= LEAST_LIFETIME_S
            && u128::from(inner_stub) ^ u128::from(inner_provider) == 1
            && inner.iter().all(|address| self.inner.contains(*address) && !prefix.contains(*address))
    }
}

// Access links.
impl Srms {
    fn link(&mut self, now: Now, provider: usize, is_up: bool) {
        let recovery = self.stub.recovery;
        let Some(access) = self.accesses.get_mut(provider) else { return };
        let is_first = access.is_up.is_none();
        if access.is_up == Some(is_up) {
            return;
        }
        access.is_up = Some(is_up);
        access.recovers = (is_up && !is_first).then_some(now.elapsed + recovery);
        if !is_up || is_first {
            access.is_usable = is_up;
        }
        let preference = access.state.preference;
        self.tell(Event::Link { provider, is_up });
        if is_up {
            // The kernel forgets the routes of a link that is switched off.
            self.commands.push_back(Command::Route { provider, preference });
        }
        self.judge(now);
    }

    /// Takes note of links that have been up for long enough.
    fn recover(&mut self, now: Now) {
        let mut changed = false;
        for access in &mut self.accesses {
            if access.recovers.take_if(|at| *at <= now.elapsed).is_some() {
                (access.is_usable, changed) = (true, true);
            }
        }
        if changed {
            self.judge(now);
        }
    }

    /// Decides which prefixes are discouraged. While no link is usable, nothing is better than anything else, so all states
    /// stay as they are.
    fn judge(&mut self, now: Now) {
        if self.accesses.iter().all(|access| !access.is_usable) {
            return;
        }
        let mut changed = Vec::new();
        for (provider, access) in self.accesses.iter_mut().enumerate() {
            let preference = if access.is_usable { Preference::Encouraged } else { Preference::Discouraged };
            if access.state.preference != preference {
                let epoch = self.epochs.next(now.unix_us);
                access.state = PrefixState { preference, epoch, ..access.state };
                changed.push((provider, preference));
            }
        }
        if changed.is_empty() {
            return;
        }
        self.version += 1;
        for (provider, preference) in changed {
            self.commands.push_back(Command::Route { provider, preference });
            self.tell(Event::Preference { provider, preference });
        }
        let servers = self.servers.iter_mut().chain(&mut self.name_servers);
        // An answer to a message with the old states confirms nothing any more.
        servers
            .for_each(|server| *server = Server { confirmed: server.confirmed, ..Server::at(now.elapsed) });
    }

    fn tell(&mut self, event: Event) {
        self.commands.push_back(Command::Tell(event));
    }
}

// Messages.
impl Srms {
    /// Asks for a tunnel that is not there after a time.
    fn forget_tunnel(&mut self, now: Now, provider: usize, rest: Duration) {
        let tunnel = self.accesses.get_mut(provider).and_then(|access| access.tunnel.as_mut());
        if let Some(tunnel) = tunnel {
            (tunnel.made, tunnel.asked) = (None, None);
            tunnel.errand.done(now.elapsed, rest);
        }
    }

    fn itmp(&mut self, now: Now, provider: usize, message: Message) {
        let wish = self.stub.providers.get(provider).and_then(|provider| provider.tunnel.as_ref());
        // The interface of a tunnel is named by its number.
        let others = self.accesses.iter().enumerate().filter(|(index, _)| *index != provider);
        let others = others.filter_map(|(_, access)| Some(access.tunnel.as_ref()?.made.as_ref()?.id));
        let taken: Vec<u32> = others.collect();
        let access = self.accesses.get_mut(provider);
        let Some((wish, access)) = wish.zip(access) else { return };
        let Some(tunnel) = &mut access.tunnel else { return };
        match message {
            Message::Opened(opened) if Some(opened.answers) == tunnel.asked => {
                let is_free = !taken.contains(&opened.id);
                if !is_free || !wish.fits(&opened, access.state.prefix, tunnel.kind) {
                    return self.tell(Event::WrongTunnel { provider });
                }
                tunnel.asked = None;
                let lifetime = Duration::from_secs(opened.lifetime_s.into()).min(LIFETIME);
                tunnel.errand.done(now.elapsed, lifetime / 3);
                let same = |made: &Opened| Opened { answers: opened.answers, ..*made } == opened;
                if !tunnel.made.as_ref().is_some_and(same) {
                    tunnel.made = Some(opened);
                    self.commands.push_back(Command::MakeTunnel { provider, tunnel: opened });
                    self.tell(Event::Tunnel { provider, id: opened.id });
                }
            }
            Message::Refused { answers, reason } if Some(answers) == tunnel.asked => {
                tunnel.asked = None;
                if reason == Refusal::Kind && tunnel.kind + 1 < wish.kinds.len() {
                    tunnel.kind += 1;
                    tunnel.errand = Errand::at(now.elapsed);
                    return;
                }
                tunnel.kind = 0;
                tunnel.errand.done(now.elapsed, AFTER_REFUSAL);
                self.tell(Event::TunnelRefused { provider, reason });
            }
            _ => {}
        }
    }

    fn run_errands(&mut self, now: Now) {
        let states: Vec<PrefixState> = self.states().collect();
        let sender = self.stub.name.clone();
        for (index, server) in self.servers.iter_mut().enumerate() {
            if !server.errand.try_now(now.elapsed) {
                continue;
            }
            let stamp = self.stamps.next(now.unix_us);
            server.asked = Some(stamp);
            let message = Message::Prefixes(states.clone());
            let envelope = Envelope { sender: sender.clone(), stamp, message };
            self.commands.push_back(Command::SendSrmp { server: index, envelope });
            if server.errand.tries == TRIES + 1 {
                self.commands.push_back(Command::Tell(Event::NoServer { server: index }));
            }
        }
        for (server, known) in self.name_servers.iter_mut().enumerate() {
            if !known.errand.try_now(now.elapsed) {
                continue;
            }
            self.commands.push_back(Command::UpdateNames { server, version: self.version });
            if known.errand.tries == TRIES + 1 {
                self.commands.push_back(Command::Tell(Event::NoNameServer { server }));
            }
        }
        self.ask_for_tunnels(now);
    }

    fn ask_for_tunnels(&mut self, now: Now) {
        for (provider, (access, known)) in self.accesses.iter_mut().zip(&self.stub.providers).enumerate() {
            let Some((tunnel, wish)) = access.tunnel.as_mut().zip(known.tunnel.as_ref()) else { continue };
            if !tunnel.errand.try_now(now.elapsed) {
                continue;
            }
            let stamp = self.stamps.next(now.unix_us);
            tunnel.asked = Some(stamp);
            let open = Open {
                prefix: known.prefix,
                kind: wish.kinds[tunnel.kind],
                stub_end: wish.stub_end,
                stub_as: wish.stub_as,
                lifetime_s: LIFETIME.as_secs() as u32,
            };
            let envelope = Envelope { sender: self.stub.name.clone(), stamp, message: Message::Open(open) };
            self.commands.push_back(Command::SendItmp { provider, envelope });
            if tunnel.errand.tries == TRIES + 1 {
                self.commands.push_back(Command::Tell(Event::NoTunnelEnd { provider }));
            }
        }
    }
}

#[cfg(test)]
mod tests;
