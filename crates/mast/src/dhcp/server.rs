//! The mDHCPv6 server of one link, without its sockets: bytes of a message in, bytes of the answer out.
//!
//! It gives each client one interface identifier, and an address of it in each prefix of the link. An ordinary DHCPv6
//! client gets these as an ordinary lease. The order of calls: [`Server::handle`] for each message,
//! [`Server::set_states`] for each message of SRMP, and [`Server::poll`] at [`Server::deadline`].

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use dhcproto::v6::{DhcpOption, IAAddr, IANA, Message, MessageType, OptionCode, Status as Code, StatusCode};
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use super::{
    leases::{Client, KeptLease, Leases},
    wire::{self, LinkPrefix},
};
use crate::{
    Prefix,
    message::{Epochs, Preference, PrefixState},
};

/// The most addresses' groups (IA_NA) of one message that are answered.
const MAX_GROUPS: usize = 8;
/// The longest DUID in bytes (RFC 8415, 11.1).
const MAX_DUID_LEN: usize = 130;
/// The times after a change at which the push is repeated, because nobody acknowledges it.
const REPETITIONS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The time for which a server that was started waits for SRMP before it calls prefixes preferred. Its clients may know
/// better from the time before.
const GRACE: Duration = Duration::from_secs(35);

/// The configuration of a server of a link.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server's DHCP unique identifier (RFC 8415, 11).
    pub duid: Vec<u8>,
    /// The prefixes of the link: those of 64 bits, and blocks that contain some.
    pub prefixes: Vec<Prefix>,
    /// The time for which new connections should use an address, in seconds.
    pub preferred_s: u32,
    /// The time for which an address can be used, in seconds.
    pub valid_s: u32,
    /// The name servers that clients are told of.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Interface identifiers of hosts without a lease, such as routers. Those of the name servers are added.
    pub reserved: Vec<u64>,
    /// Interface identifiers that only one client gets, each with the client's DUID.
    pub kept_for: Vec<(u64, Vec<u8>)>,
    /// The most clients with a lease.
    pub max_leases: usize,
    /// The key that signs pushes, and the answers to clients that ask for the link's prefixes.
    pub key: SigningKey,
    /// The time between two pushes when nothing changes.
    pub push_interval: Duration,
}

/// Points in time, from the caller's clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Time by a clock that never goes back.
    pub monotonic: Duration,
    /// Microseconds since 1970. Signatures get it as their counter.
    pub unix_us: u64,
}

/// The state that a server needs after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The time at which it was kept, in seconds since 1970.
    at_s: u64,
    leases: Vec<KeptLease>,
    /// The states that SRMP has told last. A state with a lower epoch is older.
    states: Vec<PrefixState>,
    /// The counter of the last message that was signed.
    counter: u64,
}

/// The server of one link.
pub struct Server {
    config: Config,
    leases: Leases,
    /// The state of each block of addresses by SRMP: the epoch, and the status.
    states: BTreeMap<Prefix, (u64, Preference)>,
    counter: Epochs,
    /// Whether SRMP has told the states, or did not in time.
    knows_states: bool,
    /// The times at which a push is due, the earliest last.
    pushes: Vec<Duration>,
}

impl Server {
    /// Creates a server. It lists no prefixes, and pushes none, before SRMP has told their states, or 35 s have passed.
    pub fn new(config: Config, now: Now) -> Self {
        let of_name_servers = config.dns_servers.iter().map(|address| u128::from(*address) as u64);
        let reserved = config.reserved.iter().copied().chain(of_name_servers).collect();
        let kept_for = config.kept_for.iter().cloned().collect();
        let leases = Leases::new(config.max_leases, config.key.as_bytes(), reserved, kept_for);
        let pushes = vec![now.monotonic + GRACE];
        Self {
            config,
            leases,
            states: BTreeMap::new(),
            counter: Epochs::default(),
            knows_states: false,
            pushes,
        }
    }

    /// Takes what SRMP says of all prefixes of the stub. A state with a lower epoch than is known is ignored. Returns
    /// whether anything has changed for this link; then a push is due at once.
    pub fn set_states(&mut self, now: Now, states: &[PrefixState]) -> bool {
        let before = self.prefixes();
        let known = std::mem::take(&mut self.states);
        for state in states {
            let new = (state.epoch, state.preference);
            let newest = match known.get(&state.prefix) {
                Some(old) if old.0 > new.0 => *old,
                _ => new,
            };
            self.states.insert(state.prefix, newest);
        }
        let has_changed = self.prefixes() != before || !self.knows_states;
        self.knows_states = true;
        if has_changed {
            self.pushes = REPETITIONS.iter().rev().map(|later| now.monotonic + *later).collect();
            self.pushes.push(now.monotonic);
        }
        has_changed
    }

    /// The prefixes of the link, with the lifetimes that clients are told.
    pub fn prefixes(&self) -> Vec<LinkPrefix> {
        let lifetimes = |prefix: &Prefix| LinkPrefix {
            prefix: *prefix,
            preferred_s: if self.is_discouraged(*prefix) { 0 } else { self.config.preferred_s },
            valid_s: self.config.valid_s,
        };
        self.config.prefixes.iter().map(lifetimes).collect()
    }

    /// Whether a block that contains the prefix is discouraged.
    fn is_discouraged(&self, prefix: Prefix) -> bool {
        let is_such = |(block, (_, preference)): (&Prefix, &(u64, Preference))| {
            block.covers(prefix) && *preference == Preference::Discouraged
        };
        self.states.iter().any(is_such)
    }

    /// The number of clients with a lease.
    pub fn leases(&self) -> usize {
        self.leases.len()
    }

    /// All leases that are not over.
    pub fn kept_leases(&self, now: Now) -> Vec<KeptLease> {
        self.leases.kept(now.monotonic)
    }

    /// The states of all prefixes that SRMP has told last. Empty if it has told nothing.
    pub fn states(&self) -> impl Iterator<Item = PrefixState> + '_ {
        self.states.iter().map(|(prefix, (epoch, preference))| PrefixState {
            prefix: *prefix,
            preference: *preference,
            epoch: *epoch,
        })
    }

    /// The counter of the last message that was signed. Zero: there was none.
    pub fn counter(&self) -> u64 {
        self.counter.newest()
    }

    /// The state that must outlive a restart.
    pub fn kept(&self, now: Now) -> Kept {
        Kept {
            at_s: now.unix_us / 1_000_000,
            leases: self.kept_leases(now),
            states: self.states().collect(),
            counter: self.counter(),
        }
    }

    /// Takes up what an earlier run has kept. States may have changed since, so they are not told before SRMP has.
    pub fn restore(&mut self, now: Now, kept: Kept) {
        let passed_s = (now.unix_us / 1_000_000).saturating_sub(kept.at_s);
        let leases = kept.leases.into_iter().map(|lease| lease.after(passed_s)).collect();
        self.leases.restore(leases, now.monotonic);
        self.states = kept.states.iter().map(|it| (it.prefix, (it.epoch, it.preference))).collect();
        self.counter = Epochs::after(kept.counter);
    }

    /// The time of the next push.
    pub fn deadline(&self) -> Option<Duration> {
        self.pushes.last().copied()
    }

    /// The push for all clients of the link, if one is due.
    pub fn poll(&mut self, now: Now) -> Option<Vec<u8>> {
        if self.deadline().is_none_or(|deadline| deadline > now.monotonic) {
            return None;
        }
        self.knows_states = true;
        self.pushes.retain(|due| *due > now.monotonic);
        if self.pushes.is_empty() {
            self.pushes.push(now.monotonic + self.config.push_interval);
        }
        let push = wire::push(&self.config.duid, &self.prefixes());
        let signed = wire::Signed { counter: self.counter.next(now.unix_us), answers: None };
        wire::sign(push, signed, &self.config.key)
    }

    /// Answers a message of a client of this link (RFC 8415, 18.3). `None` if it gets no answer.
    pub fn handle(&mut self, now: Now, bytes: &[u8]) -> Option<Vec<u8>> {
        let message = wire::decode(bytes)?;
        let duid = wire::client_id(&message);
        let server = wire::server_id(&message);
        let is_for_us = server == Some(&self.config.duid[..]);
        let kind = message.msg_type();
        // RFC 8415, 16: which messages must name the server, and which must not.
        let is_valid = match kind {
            MessageType::Solicit | MessageType::Confirm | MessageType::Rebind => server.is_none(),
            MessageType::InformationRequest => server.is_none() || is_for_us,
            MessageType::Request | MessageType::Renew | MessageType::Release | MessageType::Decline => {
                is_for_us
            }
            _ => false,
        };
        let has_duid = duid.is_some_and(|duid| (3..=MAX_DUID_LEN).contains(&duid.len()));
        if !is_valid || !(has_duid || kind == MessageType::InformationRequest && duid.is_none()) {
            return None;
        }
        let mut answer = Message::new_with_id(MessageType::Reply, message.xid());
        match kind {
            MessageType::InformationRequest => {}
            MessageType::Confirm => {
                let status = self.confirm(&message)?;
                answer.opts_mut().insert(status);
            }
            MessageType::Release | MessageType::Decline => {
                let is_declined = kind == MessageType::Decline;
                groups(&message).for_each(|group| {
                    self.leases.end(&client(duid, group.id), is_declined, now.monotonic);
                });
                answer.opts_mut().insert(status(Code::Success));
            }
            _ => {
                let is_rapid = message.opts().iter().any(|option| matches!(option, DhcpOption::RapidCommit));
                let is_offer = kind == MessageType::Solicit && !is_rapid;
                if is_offer {
                    answer.set_msg_type(MessageType::Advertise);
                } else if kind == MessageType::Solicit {
                    answer.opts_mut().insert(DhcpOption::RapidCommit);
                }
                for group in groups(&message) {
                    let given = self.give(now, duid, group, is_offer);
                    answer.opts_mut().insert(DhcpOption::IANA(given));
                }
            }
        }
        self.complete(now, answer, &message)
    }

    /// Adds what every answer has, and signs it if the client asks for the link's prefixes.
    fn complete(&mut self, now: Now, mut answer: Message, request: &Message) -> Option<Vec<u8>> {
        let options = answer.opts_mut();
        options.insert(DhcpOption::ServerId(self.config.duid.clone()));
        if let Some(duid) = wire::client_id(request) {
            options.insert(DhcpOption::ClientId(duid.to_vec()));
        }
        if !self.config.dns_servers.is_empty() {
            options.insert(DhcpOption::DomainNameServers(self.config.dns_servers.clone()));
        }
        if !wire::asks_for(request, OptionCode::IAPrefix) {
            return wire::encode(&answer);
        }
        if self.knows_states {
            wire::add_prefixes(&mut answer, &self.prefixes());
        }
        let counter = self.counter.next(now.unix_us);
        wire::sign(answer, wire::Signed { counter, answers: wire::challenged(request) }, &self.config.key)
    }

    /// The addresses for a group of a client's, and a lease if this is no mere offer.
    fn give(&mut self, now: Now, duid: Option<&[u8]>, group: &IANA, is_offer: bool) -> IANA {
        let client = client(duid, group.id);
        let wish = addresses(group).map(|address| u128::from(address) as u64).next();
        let until = (!is_offer).then(|| now.monotonic + Duration::from_secs(self.config.valid_s.into()));
        let mut given = IANA { id: group.id, t1: 0, t2: 0, opts: Default::default() };
        let Some(ifid) = self.leases.give(client, wish, now.monotonic, until) else {
            given.opts.insert(status(Code::NoAddrsAvail));
            return given;
        };
        // RFC 8415, 21.4, recommends these shares of the preferred lifetime.
        given.t1 = self.config.preferred_s / 2;
        given.t2 = (u64::from(self.config.preferred_s) * 4 / 5) as u32;
        let mine: Vec<Ipv6Addr> = self.add_addresses(&mut given, ifid);
        // What the client has beyond that, it should no longer use (RFC 8415, 18.3.4).
        for address in
            addresses(group).filter(|address| !is_offer && !mine.contains(address)).take(MAX_GROUPS)
        {
            given.opts.insert(ia_address(address, 0, 0));
        }
        given
    }

    fn add_addresses(&self, given: &mut IANA, ifid: u64) -> Vec<Ipv6Addr> {
        let mut mine = Vec::new();
        for listed in self.prefixes() {
            if let Some(address) = listed.prefix.join(ifid) {
                given.opts.insert(ia_address(address, listed.preferred_s, listed.valid_s));
                mine.push(address);
            }
        }
        mine
    }

    /// Whether the client is still on this link, by the addresses that it has. `None` if it names none.
    fn confirm(&self, message: &Message) -> Option<DhcpOption> {
        let mut all = groups(message).flat_map(addresses).peekable();
        all.peek()?;
        let is_here = |address: Ipv6Addr| self.config.prefixes.iter().any(|prefix| prefix.contains(address));
        Some(status(if all.all(is_here) { Code::Success } else { Code::NotOnLink }))
    }
}

fn client(duid: Option<&[u8]>, group: u32) -> Client {
    Client { duid: duid.unwrap_or_default().to_vec(), group }
}

fn groups(message: &Message) -> impl Iterator<Item = &IANA> {
    let groups = message.opts().iter().filter_map(|option| match option {
        DhcpOption::IANA(group) => Some(group),
        _ => None,
    });
    groups.take(MAX_GROUPS)
}

fn addresses(group: &IANA) -> impl Iterator<Item = Ipv6Addr> + '_ {
    group.opts.iter().filter_map(|option| match option {
        DhcpOption::IAAddr(address) => Some(address.addr),
        _ => None,
    })
}

fn ia_address(addr: Ipv6Addr, preferred_life: u32, valid_life: u32) -> DhcpOption {
    DhcpOption::IAAddr(IAAddr { addr, preferred_life, valid_life, opts: Default::default() })
}

fn status(code: Code) -> DhcpOption {
    DhcpOption::StatusCode(StatusCode { status: code, msg: String::new() })
}
