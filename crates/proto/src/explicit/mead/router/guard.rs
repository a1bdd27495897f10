//! The rules by which a router makes copies, which keep it from being an amplifier in the hands of others.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr, str::FromStr, time::Duration};

use thiserror::Error;
use treecast_wire::{list_proof::ListProof, listed};

use crate::{
    Instant,
    explicit::list_proof::{ListKey, Listed, Wrong},
};

/// The next place to which a router sends the packets to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The interface by which the packets leave.
    pub interface: u32,
    /// The next router on the path. None: the destination is on the link.
    pub gateway: Option<Ipv6Addr>,
}

/// The host's routes: where packets to a destination go; none when there is no route.
pub type Routes<'a> = dyn FnMut(Ipv6Addr) -> Option<NextHop> + 'a;

/// The sources that the router believes by the path that their packets took (RFC 3704).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReversePath {
    /// Every source is believed.
    #[default]
    Off,
    /// A source is believed when there is a route to it. For multicast on the router's own links this is the
    /// same as `Strict`, because source-specific multicast relies on that.
    Loose,
    /// A source is believed when the route to it leads through the interface by which its packet came.
    Strict,
}

/// An IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: Ipv6Addr,
    len: u8,
}

/// The error that a text is not an IPv6 prefix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0} is no IPv6 prefix: expected one like fd00:1::/64, or an address")]
pub struct NoPrefix(String);

/// The rules that say for which senders a router makes copies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// The path by which the packets of a source must have come.
    pub reverse_path: ReversePath,
    /// The networks of the sources for which the router makes copies. Empty: it makes them for all.
    pub allowed: Vec<Prefix>,
    /// The key and the present epoch of the proofs that address lists must carry. None: lists need no proof.
    pub lists: Option<(ListKey, u64)>,
    /// The number of copies that the router makes in a second for the sources of one network (/64). 0 means
    /// any number. The data plane counts them; this model remembers nothing.
    pub copies_per_second: u32,
}

listed! {
    /// The reason why a router makes no copies of a packet that is well-formed. The numbers are those in
    /// `bpf/mead.h`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Refused {
        /// The route to the packet's source leads elsewhere, or there is none. The packet is dropped.
        ReversePath = 0 => "reverse-path",
        /// The router makes copies only for other sources.
        NotAllowed = 1 => "source-not-allowed",
        /// The packet's list carries no proof, or a wrong one.
        Unproved = 2 => "no-proof",
        /// The proof of the packet's list was made for another time.
        Stale = 3 => "proof-of-another-time",
        /// The packet's source has got all copies that it may have in this second.
        Limited = 4 => "too-many-copies",
    }
}

/// A packet of which copies may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Whether the packet may become multicast on the router's links.
    pub may_multicast: bool,
}

impl Refused {
    /// Whether the packet is dropped. A packet that is not dropped is forwarded by the kernel, as if there were
    /// no MEADcast router here.
    pub fn ends_here(self) -> bool {
        self == Self::ReversePath
    }
}

impl Guard {
    /// Whether copies may be made of a packet that came by an interface.
    pub(crate) fn admit(
        &self,
        listed: &Listed<'_>,
        proof: Option<&ListProof>,
        interface: u32,
        routes: &mut Routes<'_>,
    ) -> Result<Admitted, Refused> {
        let may_multicast = self.check_path(listed.source, interface, routes)?;
        if !self.allowed.is_empty() && !self.allowed.iter().any(|prefix| prefix.contains(listed.source)) {
            return Err(Refused::NotAllowed);
        }
        if let Some((key, now)) = &self.lists {
            let proof = proof.ok_or(Refused::Unproved)?;
            key.check(*now, proof, listed).map_err(|wrong| match wrong {
                Wrong::Stale => Refused::Stale,
                Wrong::Forged => Refused::Unproved,
            })?;
        }
        Ok(Admitted { may_multicast })
    }

    /// Returns whether the source's route leads by this interface, or nobody asks.
    fn check_path(&self, source: Ipv6Addr, interface: u32, routes: &mut Routes<'_>) -> Result<bool, Refused> {
        if self.reverse_path == ReversePath::Off {
            return Ok(true);
        }
        let hop = routes(source).ok_or(Refused::ReversePath)?;
        match (hop.interface == interface, self.reverse_path) {
            (false, ReversePath::Strict) => Err(Refused::ReversePath),
            (is_strict, _) => Ok(is_strict),
        }
    }
}

impl Prefix {
    /// The network that the first `len` bits of an address name, at most 128.
    pub fn new(address: Ipv6Addr, len: u8) -> Self {
        let len = len.min(128);
        Self { address: Ipv6Addr::from_bits(address.to_bits() & mask(len)), len }
    }

    /// Returns the address and the length of the prefix.
    pub fn parts(self) -> (Ipv6Addr, u8) {
        (self.address, self.len)
    }

    /// Whether an address is in this network.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address.to_bits() & mask(self.len) == self.address.to_bits()
    }
}

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let none = || NoPrefix(text.to_owned());
        let (address, len) = text.split_once('/').unwrap_or((text, "128"));
        let len = len.parse().ok().filter(|len| *len <= 128).ok_or_else(none)?;
        Ok(Self::new(address.parse().map_err(|_| none())?, len))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Limits the copies that a router makes for the sources of each network (/64): a second's worth at once, and
/// that number in each second. `may_copy` in `bpf/guard.h` does the same.
#[derive(Debug, Clone, Default)]
pub struct CopyLimiter {
    /// The time until which a network's copies have used up what comes in. One that is over is as good as
    /// none.
    paid: BTreeMap<u64, Duration>,
}

/// Networks that are remembered; when all of them have copies made, those that are not are not limited.
const NETWORKS: usize = 4096;

const SECOND: Duration = Duration::from_secs(1);

impl CopyLimiter {
    /// Whether this number of further copies may be made for a source. If so, they are counted. A limit of 0
    /// means no limit.
    pub fn admits(&mut self, now: Instant, source: Ipv6Addr, copies: usize, per_second: u32) -> bool {
        if per_second == 0 || copies == 0 {
            return true;
        }
        let (network, now) = ((source.to_bits() >> 64) as u64, now - Instant::ZERO);
        let cost = Duration::from_nanos(copies as u64 * 1_000_000_000 / u64::from(per_second));
        let paid = self.paid.get(&network).copied().unwrap_or_default().max(now) + cost;
        if paid > now + SECOND {
            return false;
        }
        if self.paid.len() >= NETWORKS {
            self.paid.retain(|_, paid| *paid > now);
        }
        if self.paid.len() < NETWORKS || self.paid.contains_key(&network) {
            self.paid.insert(network, paid);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_hold_what_begins_so() {
        let prefix: Prefix = "fd00:1::7/64".parse().expect("a prefix");
        assert_eq!(prefix.to_string(), "fd00:1::/64");
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        assert!(prefix.contains(address("fd00:1::9:1")) && !prefix.contains(address("fd00:1:0:1::1")));
        let one: Prefix = "fd00::1".parse().expect("an address is one, too");
        assert!(one.contains(address("fd00::1")) && !one.contains(address("fd00::")));
        assert!("::/0".parse::<Prefix>().expect("all").contains(address("ff02::1")));
        for wrong in ["", "fd00::/129", "fd00::/x", "10.0.0.0/8", "fd00::/-1"] {
            assert_eq!(wrong.parse::<Prefix>(), Err(NoPrefix(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn a_network_gets_a_seconds_copies_at_once_and_then_as_many_a_second() {
        let source = |network| Ipv6Addr::new(0xfd14, 0, 0, network, 0, 0, 0, 1);
        let mut limiter = CopyLimiter::default();
        let start = Instant::ZERO + SECOND * 5;
        let mut made =
            |now, network| (0..100).filter(|_| limiter.admits(now, source(network), 10, 200)).count();
        assert_eq!((made(start, 1), made(start, 1), made(start, 2)), (20, 0, 20));
        assert_eq!((made(start + SECOND / 2, 1), made(start + SECOND * 9, 1)), (10, 20));
        assert!(!limiter.admits(start, source(3), 201, 200), "more than come in within a second");
        assert!(limiter.admits(start, source(3), 201, 0), "without a limit");
        for network in 10..10_000 {
            assert!(limiter.admits(start, source(network), 1, 1000));
        }
        assert!(limiter.paid.len() <= NETWORKS);
    }
}
