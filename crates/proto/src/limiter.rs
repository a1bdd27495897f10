//! Limits on what strangers get: token buckets for one sender, for the senders of one network, and for all.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::Instant;

/// The limits on answers to those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The highest rate of answers to all senders together.
    pub in_all: Rate,
    /// The highest rate of answers to the senders of one network (IPv6: /64, IPv4: /24).
    pub of_network: Rate,
    /// The highest rate of answers to one sender.
    pub of_sender: Rate,
    /// The number of networks, and of senders, that have buckets of their own. All others share what is left of
    /// `in_all`.
    pub remembered: usize,
}

/// A rate of answers, and how many may leave at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of answers in a second, on average.
    pub per_second: u32,
    /// The number of answers that may leave at once. Questions come in bursts.
    pub at_once: u32,
}

/// The token buckets that limit answers.
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

    /// Whether the limits allow an answer to `sender` now.
    pub fn admits(&mut self, now: Instant, sender: IpAddr) -> bool {
        let (sender, network) = match sender {
            IpAddr::V6(sender) => (sender.to_bits(), sender.to_bits() >> 64),
            IpAddr::V4(sender) => (u128::from(sender.to_bits()), u128::from(sender.to_bits() >> 8)),
        };
        let Limits { in_all, of_network, of_sender, remembered } = self.limits;
        self.all.fill(now, in_all);
        self.all.tokens >= 1.0
            && self.senders.take(now, sender, of_sender, remembered)
            && self.networks.take(now, network, of_network, remembered)
            && self.all.take(now, in_all)
    }
}

/// One bucket for each that has asked lately.
#[derive(Debug, Clone, Default)]
struct Buckets(BTreeMap<u128, Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Buckets {
    /// Takes a token out of the bucket of `who`. Returns true if it has no bucket because too many others have one.
    fn take(&mut self, now: Instant, who: u128, rate: Rate, most: usize) -> bool {
        let is_known = self.0.contains_key(&who);
        if !is_known && self.0.len() >= most {
            // The bucket of one that has not asked for a while would be full again.
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
    use std::net::Ipv6Addr;

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
            (0..100).filter(|_| limiter.admits(now, sender.into())).count()
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
            assert!(limiter.admits(now, Ipv6Addr::new(0xfd14, 0, 0, network as u16, 0, 0, 0, 1).into()));
            assert!(limiter.networks.0.len() <= 2 && limiter.senders.0.len() <= 2);
        }
    }
}
