//! Answers to discovery requests (meadcast-thesis-2024, 4.2, "Discovery"), and how many of them there are.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind, NONCE_LEN, Options},
};

use super::rewrite::Packet;
use crate::{
    Instant,
    explicit::authentication::{DomainKey, Said},
};

/// A discovery request that the router is to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender that asks.
    pub sender: Ipv6Addr,
    /// The receiver to which the sender looks for a path of routers.
    pub receiver: Ipv6Addr,
    /// How many MEADcast routers the request has passed, this one included.
    pub hops: u8,
    /// The nonce that the response returns, which proves that it answers this request.
    pub nonce: Option<[u8; NONCE_LEN]>,
    /// The multicast group by which the router could serve the receiver, if the receiver listens to it.
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

    /// Makes the response of the router with this address: a packet with its IPv6 header. It is never longer
    /// than the request, except for the proof that a nonce asks for, which takes 16 bytes more. `offers` says
    /// whether the router would serve the receiver by the group of the request.
    pub fn answer(&self, router: Ipv6Addr, key: Option<&DomainKey>, offers: bool) -> Vec<u8> {
        let group = self.group.filter(|_| offers);
        self.say(&Said { router, receiver: self.receiver, hops: self.hops, group }, key)
    }

    /// Makes the message by which a router with this address, which has answered the request before, says that
    /// it leaves: a response with 0 hops. Senders then look for routers again.
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
        ipv6::Header::new(router, self.sender, next_header::ROUTING).packet(&[&header, &options])
    }
}

/// How many discovery requests a router answers. Without the domain's key nothing proves who sent a request, so
/// responses could go to somebody who has asked for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The highest rate of responses to all senders together.
    pub in_all: Rate,
    /// The highest rate of responses to the senders of one network (/64).
    pub of_network: Rate,
    /// The highest rate of responses to one sender.
    pub of_sender: Rate,
    /// How many networks, and how many senders, the router keeps separate counts for. All others share what is
    /// left of `in_all`.
    pub remembered: usize,
}

/// A rate of responses, and how many may leave at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of responses in a second, on average.
    pub per_second: u32,
    /// The number of responses that may leave at once. Requests come in bursts, one for each discovery.
    pub at_once: u32,
}

impl Default for Limits {
    /// 200 senders with 200 receivers each ask 40,000 times every 5 s. One sender with 2,500 receivers asks as often as one may.
    fn default() -> Self {
        Self {
            in_all: Rate { per_second: 20_000, at_once: 40_000 },
            of_network: Rate { per_second: 5_000, at_once: 10_000 },
            of_sender: Rate { per_second: 500, at_once: 2_500 },
            remembered: 4096,
        }
    }
}

/// The token buckets that limit a router's responses.
#[derive(Debug, Clone)]
pub struct Limiter {
    limits: Limits,
    all: Bucket,
    networks: Buckets,
    senders: Buckets,
}

impl Limiter {
    /// Creates the limiter with full buckets.
    pub fn new(limits: Limits) -> Self {
        let (networks, senders) = (Buckets::default(), Buckets::default());
        Self { limits, all: Bucket::full(limits.in_all, Instant::ZERO), networks, senders }
    }

    /// Whether the limits let the router answer a request of `sender` now.
    pub fn admits(&mut self, now: Instant, sender: Ipv6Addr) -> bool {
        let Limits { in_all, of_network, of_sender, remembered } = self.limits;
        self.all.fill(now, in_all);
        self.all.tokens >= 1.0
            && self.senders.take(now, sender.to_bits(), of_sender, remembered)
            && self.networks.take(now, sender.to_bits() >> 64, of_network, remembered)
            && self.all.take(now, in_all)
    }
}

/// A bucket each for those who have asked lately.
#[derive(Debug, Clone, Default)]
struct Buckets(BTreeMap<u128, Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Buckets {
    /// Takes a token out of one's bucket. Whoever has none, because too many others have, is not held back here.
    fn take(&mut self, now: Instant, who: u128, rate: Rate, most: usize) -> bool {
        let is_known = self.0.contains_key(&who);
        if !is_known && self.0.len() >= most {
            // Who has asked for nothing for a while is forgotten: its bucket would be full again.
            let full_after = Duration::from_secs_f64(f64::from(rate.at_once) / f64::from(rate.per_second));
            self.0.retain(|_, bucket| now - bucket.filled < full_after);
        }
        if !is_known && self.0.len() >= most {
            return true;
        }
        self.0.entry(who).or_insert(Bucket::full(rate, now)).take(now, rate)
    }
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: f64::from(rate.at_once), filled: now }
    }

    fn fill(&mut self, now: Instant, rate: Rate) {
        let since = (now - self.filled).as_secs_f64();
        self.tokens = (self.tokens + since * f64::from(rate.per_second)).min(f64::from(rate.at_once));
        self.filled = now;
    }

    fn take(&mut self, now: Instant, rate: Rate) -> bool {
        self.fill(now, rate);
        let is_there = self.tokens >= 1.0;
        if is_there {
            self.tokens -= 1.0;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        in_all: Rate { per_second: 10, at_once: 20 },
        of_network: Rate { per_second: 4, at_once: 8 },
        of_sender: Rate { per_second: 3, at_once: 6 },
        remembered: 2,
    };

    /// Two senders of a network ask as often as they can.
    fn admitted(limiter: &mut Limiter, now: Instant, network: u16) -> [usize; 2] {
        [1, 2].map(|host| {
            let sender = Ipv6Addr::new(0xfd14, 0, 0, network, 0, 0, 0, host);
            (0..100).filter(|_| limiter.admits(now, sender)).count()
        })
    }

    #[test]
    fn senders_networks_and_all_get_their_shares() {
        let mut limiter = Limiter::new(Limits { remembered: 6, ..LIMITS });
        let shares = [1, 2, 3].map(|network| admitted(&mut limiter, Instant::ZERO, network));
        assert_eq!(shares, [[6, 2], [6, 2], [4, 0]]);
        let later = Instant::ZERO + Duration::from_millis(1000);
        let shares = [1, 2, 3].map(|network| admitted(&mut limiter, later, network));
        assert_eq!(shares, [[3, 1], [3, 1], [2, 0]]);
    }

    #[test]
    fn who_is_not_remembered_takes_what_is_left() {
        let mut limiter = Limiter::new(LIMITS);
        let shares = [1, 2, 3].map(|network| admitted(&mut limiter, Instant::ZERO, network));
        assert_eq!(shares, [[6, 2], [8, 0], [4, 0]], "the third network and its senders are not");
    }

    #[test]
    fn who_has_been_silent_makes_room() {
        let mut limiter = Limiter::new(LIMITS);
        for network in 0..1000 {
            let now = Instant::ZERO + Duration::from_secs(3) * network;
            assert!(limiter.admits(now, Ipv6Addr::new(0xfd14, 0, 0, network as u16, 0, 0, 0, 1)));
            assert!(limiter.networks.0.len() <= 2 && limiter.senders.0.len() <= 2);
        }
    }

    /// Packets of 88 bytes, to somebody whose address stands in requests as their source.
    #[test]
    fn a_forged_source_gets_no_more_answers_than_a_sender_of_2500_receivers() {
        let mut limiter = Limiter::new(Limits::default());
        let victim = Ipv6Addr::new(0xfd14, 0, 0, 1, 0, 0, 0, 1);
        let asked = |millis| Instant::ZERO + Duration::from_millis(millis);
        let answers: usize =
            (0..10_000).map(|at| (0..20).filter(|_| limiter.admits(asked(at), victim)).count()).sum();
        assert!((7_490..=7_500).contains(&answers), "{answers} of 200,000 in 10 s");
    }
}
