//! The mDHCPv6 client of one interface, without its sockets.
//!
//! The client gets a lease (RFC 8415, 18.2), and with it an interface identifier. It joins this identifier with every prefix
//! that the server pushes. With the server's public key, it believes signed messages only. Without, it takes a lease of
//! any server, as ordinary clients do, and believes no push.
//!
//! The order of calls: [`Client::handle`] for each message, [`Client::poll`] at [`Client::deadline`], and after each of them
//! [`Client::addresses`].

use std::{net::Ipv6Addr, time::Duration};

use dhcproto::v6::{DhcpOption, IAAddr, IANA, Message, MessageType, ORO, OptionCode};
use ed25519_dalek::VerifyingKey;

use super::wire::{self, LinkPrefix};

/// The time from the first message to its repetition, and the longest between two (RFC 8415, 7.6).
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The repetitions of a Request before the client looks for another server (RFC 8415, 7.6).
const MAX_REQUESTS: u32 = 10;
/// The most prefixes that are taken from a message.
const MAX_PREFIXES: usize = 32;
/// The most addresses that are taken from a lease.
const MAX_ADDRESSES: usize = 32;
/// The time after which a client without addresses asks again for the link's prefixes.
const REFRESH: Duration = Duration::from_secs(600);
/// The time after which a client asks again that got no list of prefixes: the server has not heard of their states yet.
const WITHOUT_LIST: Duration = Duration::from_secs(2);

/// The wish of a client to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Addresses of this interface.
    Addresses,
    /// The prefixes of the link alone, and their status.
    Prefixes,
}

#[derive(Debug, Clone)]
pub struct Config {
    /// The client's DHCP unique identifier.
    pub duid: Vec<u8>,
    /// The number of the interface's group of addresses (IAID).
    pub group: u32,
    /// The interface identifier that the client would like.
    pub ifid: Option<u64>,
    pub server_key: Option<VerifyingKey>,
    pub wants: Wants,
    /// Random bytes. The times of repetitions, and the numbers of transactions and requests are drawn from them.
    pub seed: [u8; 32],
}

/// An address that the interface should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub address: Ipv6Addr,
    /// The bits of the prefix that all addresses of the link share. 128 if the client does not know the link's prefixes.
    pub prefix_length: u8,
    /// The point in time until which new connections should use it. Zero: it is discouraged.
    pub preferred_until: Duration,
    /// The point in time at which it goes.
    pub valid_until: Duration,
}

/// The number of dropped messages since the start, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Datagrams that are no messages, or lack what a message must have.
    pub malformed: u64,
    /// Messages of another transaction, client or server.
    pub foreign: u64,
    /// Messages without the signature of the server's key.
    pub forged: u64,
    /// Signed messages that are not later than another one.
    pub replayed: u64,
}

#[derive(Debug, Clone)]
enum Phase {
    Solicit,
    Request { server: Vec<u8>, offered: Vec<Ipv6Addr> },
    Bound,
    Renew,
    Rebind,
}

struct Lease {
    server: Vec<u8>,
    addresses: Vec<Address>,
    /// The time to renew the lease with any server.
    rebind_at: Duration,
}

/// A client of one interface.
pub struct Client {
    config: Config,
    phase: Phase,
    lease: Option<Lease>,
    prefixes: Vec<(LinkPrefix, Duration)>,
    /// The counter of the newest signed message.
    counter: Option<u64>,
    transaction: [u8; 3],
    /// The number that a signed answer to the current transaction must repeat.
    challenge: u64,
    begun: Duration,
    wait: Duration,
    repetitions: u32,
    due: Duration,
    /// The count of numbers that were drawn.
    drawn: u64,
    pub dropped: Dropped,
}

impl Client {
    /// Creates a client whose first message is due at once.
    pub fn new(config: Config, now: Duration) -> Self {
        let mut client = Self {
            config,
            phase: Phase::Solicit,
            lease: None,
            prefixes: Vec::new(),
            counter: None,
            transaction: [0; 3],
            challenge: 0,
            begun: now,
            wait: FIRST_WAIT,
            repetitions: 0,
            due: now,
            drawn: 0,
            dropped: Dropped::default(),
        };
        client.begin(Phase::Solicit, now);
        client
    }

    /// Whether a server has answered with what the client wants.
    pub fn is_bound(&self) -> bool {
        self.lease.is_some()
    }

    /// The time at which [`Client::poll`] has something to do.
    pub fn deadline(&self) -> Duration {
        self.due
    }

    /// The prefixes of the link as the server has told them last. Empty if the server does not list them.
    pub fn prefixes(&self) -> Vec<LinkPrefix> {
        self.prefixes.iter().map(|(listed, _)| *listed).collect()
    }

    /// The addresses that the interface should have at `now`.
    pub fn addresses(&self, now: Duration) -> Vec<Address> {
        let Some(lease) = &self.lease else { return Vec::new() };
        let Some(first) = lease.addresses.first() else { return Vec::new() };
        let ifid = u128::from(first.address) as u64;
        let lease_end = lease.addresses.iter().map(|it| it.valid_until).max().unwrap_or_default();
        let mut addresses: Vec<Address> = Vec::new();
        for (listed, heard) in &self.prefixes {
            let Some(address) = listed.prefix.join(ifid) else { continue };
            let lifetime = |seconds: u32| (*heard + Duration::from_secs(seconds.into())).min(lease_end);
            addresses.push(Address {
                address,
                prefix_length: listed.prefix.length(),
                preferred_until: if self.is_discouraged(address) {
                    Duration::ZERO
                } else {
                    lifetime(listed.preferred_s)
                },
                valid_until: lifetime(listed.valid_s),
            });
        }
        for leased in &lease.addresses {
            if !addresses.iter().any(|it| it.address == leased.address) {
                // A prefix that the server no longer lists is gone; old connections may go on until the lease ends.
                let preferred_until =
                    if self.prefixes.is_empty() { leased.preferred_until } else { Duration::ZERO };
                addresses.push(Address { preferred_until, ..*leased });
            }
        }
        addresses.retain(|it| it.valid_until > now);
        addresses
    }

    /// Whether a prefix or block that contains an address is discouraged, as the server has told last.
    pub fn is_discouraged(&self, address: Ipv6Addr) -> bool {
        self.prefixes.iter().any(|(listed, _)| listed.preferred_s == 0 && listed.prefix.contains(address))
    }

    /// The message that is due, if one is. It goes to all servers of the link (ff02::1:2).
    pub fn poll(&mut self, now: Duration) -> Option<Vec<u8>> {
        if now < self.due {
            return None;
        }
        let lease_end =
            self.lease.as_ref().and_then(|lease| lease.addresses.iter().map(|it| it.valid_until).max());
        let rebind_at = self.lease.as_ref().map(|lease| lease.rebind_at);
        match &self.phase {
            Phase::Renew | Phase::Rebind | Phase::Bound if lease_end.is_some_and(|end| end <= now) => {
                self.lease = None;
                self.begin(Phase::Solicit, now);
            }
            Phase::Request { .. } if self.repetitions >= MAX_REQUESTS => self.begin(Phase::Solicit, now),
            Phase::Bound if self.config.wants == Wants::Prefixes => self.begin(Phase::Solicit, now),
            Phase::Bound => self.begin(Phase::Renew, now),
            Phase::Renew if rebind_at.is_some_and(|at| at <= now) => self.begin(Phase::Rebind, now),
            _ => {}
        }
        let message = self.message(now);
        self.repetitions += 1;
        // RFC 8415, 15: twice the time before, a tenth more or less.
        let tenth = self.draw() % 200;
        self.due = now + self.wait * (900 + tenth as u32) / 1000;
        if let (Phase::Renew | Phase::Rebind, Some(end)) = (&self.phase, lease_end) {
            let next = if matches!(self.phase, Phase::Renew) { rebind_at.unwrap_or(end) } else { end };
            self.due = self.due.min(next.max(now + FIRST_WAIT));
        }
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        wire::encode(&message)
    }

    /// Takes a message from the link.
    pub fn handle(&mut self, now: Duration, bytes: &[u8]) {
        let Some(message) = wire::decode(bytes) else {
            self.dropped.malformed += 1;
            return;
        };
        let Some(server) = wire::server_id(&message).map(<[u8]>::to_vec) else {
            self.dropped.malformed += 1;
            return;
        };
        let is_push = message.msg_type() == wire::PUSH;
        if is_push && self.lease.as_ref().is_none_or(|lease| lease.server != server)
            || !is_push && !self.is_ours(&message)
        {
            self.dropped.foreign += 1;
            return;
        }
        if !self.is_genuine(bytes, is_push) {
            return;
        }
        match message.msg_type() {
            wire::PUSH => self.take_prefixes(now, &message),
            MessageType::Advertise => self.take_offer(now, server, &message),
            MessageType::Reply => self.take_reply(now, server, &message),
            _ => self.dropped.foreign += 1,
        }
    }

    /// Whether the message answers this client's last one.
    fn is_ours(&self, message: &Message) -> bool {
        let is_awaited = match (&self.phase, message.msg_type()) {
            (Phase::Solicit, MessageType::Advertise) => self.config.wants == Wants::Addresses,
            (Phase::Solicit, MessageType::Reply) => self.config.wants == Wants::Prefixes,
            (Phase::Request { server, .. }, MessageType::Reply) => wire::server_id(message) == Some(server),
            (Phase::Renew | Phase::Rebind, MessageType::Reply) => true,
            _ => false,
        };
        is_awaited
            && message.xid() == self.transaction
            && wire::client_id(message) == Some(&self.config.duid[..])
    }

    /// Whether the message is signed with the server's key, if that is known. A push must be later than all before.
    fn is_genuine(&mut self, bytes: &[u8], is_push: bool) -> bool {
        let Some(key) = &self.config.server_key else {
            self.dropped.forged += u64::from(is_push);
            return !is_push;
        };
        let Some(wire::Signed { counter, answers }) = wire::verify(bytes, key) else {
            self.dropped.forged += 1;
            return false;
        };
        // An answer that repeats this client's own number is fresh by itself, even if the server's clock was set back.
        let is_fresh = match is_push {
            true => answers.is_none() && self.counter.is_none_or(|newest| counter > newest),
            false => answers == Some(self.challenge),
        };
        match is_fresh {
            true => self.counter = Some(counter),
            false => self.dropped.replayed += 1,
        }
        is_fresh
    }

    fn take_offer(&mut self, now: Duration, server: Vec<u8>, message: &Message) {
        let offered: Vec<Ipv6Addr> =
            self.group(message).map(|group| addresses(group).map(|it| it.addr).collect()).unwrap_or_default();
        if !offered.is_empty() {
            self.begin(Phase::Request { server, offered }, now);
        }
    }

    fn take_reply(&mut self, now: Duration, server: Vec<u8>, message: &Message) {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        if self.config.wants == Wants::Prefixes {
            self.lease = Some(Lease { server, addresses: Vec::new(), rebind_at: now });
            self.take_prefixes(now, message);
            self.phase = Phase::Bound;
            self.due = now + if self.lacks_list() { WITHOUT_LIST } else { REFRESH };
            return;
        }
        let Some(group) = self.group(message) else { return };
        let valid: Vec<Address> = addresses(group)
            .filter(|it| it.valid_life > 0 && it.preferred_life <= it.valid_life)
            .map(|it| Address {
                address: it.addr,
                prefix_length: 128,
                preferred_until: if it.preferred_life == 0 {
                    Duration::ZERO
                } else {
                    now + seconds(it.preferred_life)
                },
                valid_until: now + seconds(it.valid_life),
            })
            .take(MAX_ADDRESSES)
            .collect();
        // RFC 8415, 18.2.4 and 18.2.10.1: without times of the server's, the client chooses them.
        let shortest = addresses(group).filter(|it| it.preferred_life > 0).map(|it| it.preferred_life).min();
        let shortest =
            shortest.or_else(|| addresses(group).map(|it| it.valid_life).min()).unwrap_or_default();
        let t1 = if group.t1 == 0 { shortest / 2 } else { group.t1 };
        let t2 = if group.t2 == 0 { (u64::from(shortest) * 4 / 5) as u32 } else { group.t2 };
        if valid.is_empty() || t1 > t2 {
            self.lease = None;
            self.begin(Phase::Solicit, now);
            // The server would refuse again at once.
            self.due = now + FIRST_WAIT;
            return;
        }
        let renew_at = now + seconds(t1).max(FIRST_WAIT);
        self.lease = Some(Lease { server, addresses: valid, rebind_at: now + seconds(t2) });
        self.take_prefixes(now, message);
        self.phase = Phase::Bound;
        self.due = if self.lacks_list() { renew_at.min(now + WITHOUT_LIST) } else { renew_at };
    }

    /// Whether the server will list the link's prefixes, and has not done so yet.
    fn lacks_list(&self) -> bool {
        self.config.server_key.is_some() && self.prefixes.is_empty()
    }

    /// Takes the list of the link's prefixes. Without one, the list of before stays: the server is an ordinary one, or was
    /// started again and has not heard of the prefixes yet.
    fn take_prefixes(&mut self, now: Duration, message: &Message) {
        let listed = wire::prefixes(message);
        if self.config.server_key.is_some() && !listed.is_empty() {
            self.prefixes = listed.into_iter().take(MAX_PREFIXES).map(|listed| (listed, now)).collect();
        }
    }

    /// The group of addresses of this interface.
    fn group<'a>(&self, message: &'a Message) -> Option<&'a IANA> {
        message.opts().iter().find_map(|option| match option {
            DhcpOption::IANA(group) if group.id == self.config.group => Some(group),
            _ => None,
        })
    }

    fn begin(&mut self, phase: Phase, now: Duration) {
        let [first, second, third, ..] = self.draw().to_be_bytes();
        self.transaction = [first, second, third];
        self.challenge = self.draw();
        (self.phase, self.begun, self.due, self.wait, self.repetitions) = (phase, now, now, FIRST_WAIT, 0);
    }

    fn message(&self, now: Duration) -> Message {
        let kind = match (&self.phase, self.config.wants) {
            (_, Wants::Prefixes) => MessageType::InformationRequest,
            (Phase::Solicit, _) => MessageType::Solicit,
            (Phase::Request { .. }, _) => MessageType::Request,
            (Phase::Rebind, _) => MessageType::Rebind,
            (Phase::Renew | Phase::Bound, _) => MessageType::Renew,
        };
        let mut message = Message::new_with_id(kind, self.transaction);
        let options = message.opts_mut();
        options.insert(DhcpOption::ClientId(self.config.duid.clone()));
        let elapsed = (now.saturating_sub(self.begun).as_millis() / 10).min(u16::MAX.into());
        options.insert(DhcpOption::ElapsedTime(elapsed as u16));
        options
            .insert(DhcpOption::ORO(ORO { opts: vec![OptionCode::DomainNameServers, OptionCode::IAPrefix] }));
        let server = match &self.phase {
            Phase::Request { server, .. } => Some(server),
            Phase::Renew => self.lease.as_ref().map(|lease| &lease.server),
            _ => None,
        };
        if let Some(server) = server {
            options.insert(DhcpOption::ServerId(server.clone()));
        }
        // Other servers sign nothing, and need not know the option.
        if self.config.server_key.is_some() {
            options.insert(wire::challenge(self.challenge));
        }
        if self.config.wants == Wants::Addresses {
            options.insert(DhcpOption::IANA(self.wished_group()));
        }
        message
    }

    fn wished_group(&self) -> IANA {
        let mut group = IANA { id: self.config.group, t1: 0, t2: 0, opts: Default::default() };
        let wished: Vec<Ipv6Addr> = match (&self.phase, &self.lease) {
            (Phase::Request { offered, .. }, _) => offered.clone(),
            (Phase::Renew | Phase::Rebind, Some(lease)) => {
                lease.addresses.iter().map(|it| it.address).collect()
            }
            _ => self.config.ifid.map(|ifid| u128::from(ifid).into()).into_iter().collect(),
        };
        for addr in wished.into_iter().take(MAX_ADDRESSES) {
            let wish = IAAddr { addr, preferred_life: 0, valid_life: 0, opts: Default::default() };
            group.opts.insert(DhcpOption::IAAddr(wish));
        }
        group
    }

    /// A number that nobody can guess, even if they know all numbers before.
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let hash = blake3::keyed_hash(&self.config.seed, &self.drawn.to_be_bytes());
        u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

fn addresses(group: &IANA) -> impl Iterator<Item = &IAAddr> {
    group.opts.iter().filter_map(|option| match option {
        DhcpOption::IAAddr(address) => Some(address),
        _ => None,
    })
}
