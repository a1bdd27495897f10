//! Answers to discovery requests (meadcast-thesis-2024, 4.2, "Discovery"), and how many of them there are.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind, NONCE_LEN, Options},
};

use super::rewrite::Packet;
use crate::{
    Instant,
    mead::authentication::{DomainKey, Said},
};

/// The hop limit of responses: what hosts send with, if nothing else is said.
const HOP_LIMIT: u8 = 64;

/// A request that is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub sender: Ipv6Addr,
    /// On whose way routers are looked for.
    pub receiver: Ipv6Addr,
    /// How many MEADcast routers have been passed, this one included.
    pub hops: u8,
    /// What the answer is to prove that it answers.
    pub nonce: Option<[u8; NONCE_LEN]>,
    /// The group by which the receiver could be served, if it listens to it.
    pub group: Option<Ipv6Addr>,
    header: Header,
    dialect: Dialect,
}

impl Request {
    /// The request in a packet, and the packet that goes on.
    pub(super) fn of(packet: Packet<'_>) -> (Self, Vec<u8>) {
        let passed_on = packet.counted();
        let Packet { ip, header, options, dialect, .. } = packet;
        let hops = header.hops + 1;
        let (receiver, nonce, group) = (header.addresses[0], options.nonce, options.group);
        (Self { sender: ip.source, receiver, hops, nonce, group, header, dialect }, passed_on)
    }

    /// The response of the router with this address, a packet with its IPv6 header. It is never longer than the request,
    /// apart from the proof that a nonce asks for: 16 bytes more. `offers`: whether the router would serve the receiver by
    /// the group of the request.
    pub fn answer(&self, router: Ipv6Addr, key: Option<&DomainKey>, offers: bool) -> Vec<u8> {
        let group = self.group.filter(|_| offers);
        self.say(&Said { router, receiver: self.receiver, hops: self.hops, group }, key)
    }

    /// What a router with this address, which has answered the request before, says when it leaves: a response with 0 hops. Senders
    /// then look for routers again.
    pub fn farewell(&self, router: Ipv6Addr, key: Option<&DomainKey>) -> Vec<u8> {
        self.say(&Said { router, receiver: self.receiver, hops: 0, group: None }, key)
    }

    fn say(&self, said: &Said, key: Option<&DomainKey>) -> Vec<u8> {
        let Said { router, hops, group, .. } = *said;
        let proof = self.nonce.zip(key).map(|(nonce, key)| key.prove(nonce, said));
        let options = Options { proof, group, ..Options::default() }.to_bytes(next_header::NONE);
        let next = if options.is_empty() { next_header::NONE } else { next_header::DESTINATION_OPTIONS };
        let header = Header {
            next_header: next,
            kind: Kind::Response,
            hops,
            dont_replicate: 0,
            ..self.header.clone()
        };
        let header = header.to_bytes(self.dialect);
        let ip = ipv6::Header {
            class_and_label: 0,
            payload_len: (header.len() + options.len()) as u16,
            next_header: next_header::ROUTING,
            hop_limit: HOP_LIMIT,
            source: router,
            destination: self.sender,
        };
        [&ip.to_bytes()[..], &header, &options].concat()
    }
}

/// How many answers there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In a second, to all senders.
    pub in_all: u32,
    /// In a second, to the senders of one network (/64).
    pub of_network: u32,
    /// Networks that are remembered; when there are more, they share what is left of `in_all`.
    pub networks: usize,
}

impl Default for Limits {
    /// 200 senders with 200 receivers each ask 40,000 times every 5 s.
    fn default() -> Self {
        Self { in_all: 20_000, of_network: 5_000, networks: 4096 }
    }
}

/// Token buckets that hold what may be answered within two seconds: requests come in rounds.
#[derive(Debug, Clone)]
pub struct Limiter {
    limits: Limits,
    all: Bucket,
    networks: BTreeMap<u64, Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Limiter {
    /// All buckets are full.
    pub fn new(limits: Limits) -> Self {
        Self { limits, all: Bucket::full(limits.in_all, Instant::ZERO), networks: BTreeMap::new() }
    }

    /// Whether a request of `sender` is answered.
    pub fn admits(&mut self, now: Instant, sender: Ipv6Addr) -> bool {
        let Limits { in_all, of_network, networks } = self.limits;
        let network = (u128::from(sender) >> 64) as u64;
        self.all.fill(now, in_all);
        if self.all.tokens < 1.0 {
            return false;
        }
        if !self.networks.contains_key(&network) && self.networks.len() >= networks {
            // Who has asked for nothing for a while is forgotten: its bucket would be full again.
            self.networks.retain(|_, bucket| now - bucket.filled < BURST);
        }
        if self.networks.contains_key(&network) || self.networks.len() < networks {
            let bucket = self.networks.entry(network).or_insert(Bucket::full(of_network, now));
            if !bucket.take(now, of_network) {
                return false;
            }
        }
        self.all.take(now, in_all)
    }
}

/// What a bucket holds is what comes in during this.
const BURST: Duration = Duration::from_secs(2);

impl Bucket {
    fn full(per_second: u32, now: Instant) -> Self {
        Self { tokens: capacity(per_second), filled: now }
    }

    fn fill(&mut self, now: Instant, per_second: u32) {
        let since = (now - self.filled).as_secs_f64();
        self.tokens = (self.tokens + since * f64::from(per_second)).min(capacity(per_second));
        self.filled = now;
    }

    fn take(&mut self, now: Instant, per_second: u32) -> bool {
        self.fill(now, per_second);
        let is_there = self.tokens >= 1.0;
        if is_there {
            self.tokens -= 1.0;
        }
        is_there
    }
}

fn capacity(per_second: u32) -> f64 {
    f64::from(per_second) * BURST.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { in_all: 10, of_network: 4, networks: 2 };

    fn sender(network: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, network, 0, 0, 0, 1)
    }

    fn admitted(limiter: &mut Limiter, now: Instant, network: u16) -> usize {
        (0..100).filter(|_| limiter.admits(now, sender(network))).count()
    }

    #[test]
    fn a_network_gets_its_share_and_all_get_theirs() {
        let mut limiter = Limiter::new(LIMITS);
        let shares = [1, 2, 3].map(|network| admitted(&mut limiter, Instant::ZERO, network));
        assert_eq!(shares, [8, 8, 4], "the third one is not remembered and takes what is left");
        let later = Instant::ZERO + Duration::from_millis(500);
        let shares = [1, 2, 3].map(|network| admitted(&mut limiter, later, network));
        assert_eq!(shares, [2, 2, 1]);
    }

    #[test]
    fn who_has_been_silent_makes_room() {
        let mut limiter = Limiter::new(LIMITS);
        for network in 0..1000 {
            let now = Instant::ZERO + Duration::from_secs(3) * network;
            assert!(limiter.admits(now, sender(network as u16)));
            assert!(limiter.networks.len() <= 2);
        }
    }
}
