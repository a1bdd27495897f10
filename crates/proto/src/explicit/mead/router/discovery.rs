//! Answers to discovery requests (meadcast-thesis-2024, 4.2, "Discovery"), and how many of them there are.

use std::net::Ipv6Addr;

use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind, NONCE_LEN, Options},
};

use super::rewrite::Packet;
use crate::{
    explicit::authentication::{DomainKey, Said},
    limiter::{Limits, Rate},
};

/// A discovery request that the router is to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender that asks.
    pub sender: Ipv6Addr,
    /// The receiver to which the sender looks for a path of routers.
    pub receiver: Ipv6Addr,
    /// The number of MEADcast routers that the request has passed, this one included.
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

/// The number of discovery requests that a router answers. Without the domain's key nothing proves who sent a
/// request, so responses could go to somebody who has asked for nothing.
///
/// 200 senders with 200 receivers each ask 40,000 times every 5 s. One sender with 2,500 receivers asks as often as
/// it may.
pub const LIMITS: Limits = Limits {
    in_all: Rate { per_second: 20_000, at_once: 40_000 },
    of_network: Rate { per_second: 5_000, at_once: 10_000 },
    of_sender: Rate { per_second: 500, at_once: 2_500 },
    remembered: 4096,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, limiter::Limiter};

    /// Packets of 88 bytes, to somebody whose address stands in requests as their source.
    #[test]
    fn a_forged_source_gets_no_more_answers_than_a_sender_of_2500_receivers() {
        let mut limiter = Limiter::new(LIMITS);
        let victim = Ipv6Addr::new(0xfd14, 0, 0, 1, 0, 0, 0, 1);
        let asked = |millis| Instant::ZERO + std::time::Duration::from_millis(millis);
        let answers: usize =
            (0..10_000).map(|at| (0..20).filter(|_| limiter.admits(asked(at), victim.into())).count()).sum();
        assert!((7_490..=7_500).contains(&answers), "{answers} of 200,000 in 10 s");
    }
}
