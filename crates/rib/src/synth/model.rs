//! The ASes of a synthetic internet, their providers and their prefixes.

use super::random::Random;
use crate::{
    Family, Prefix,
    analysis::Addressing,
    asn::{AsnKind, kind},
    paper,
};

/// The size of a synthetic internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    pub family: Family,
    pub ases: usize,
    pub stubs: usize,
    pub prefixes: usize,
    pub peers: usize,
    pub seed: u64,
}

impl Default for Spec {
    /// The sizes of table 6.1 and of the global table that the paper names.
    fn default() -> Self {
        Self {
            family: Family::V4,
            ases: paper::ASES as usize,
            stubs: paper::STUBS as usize,
            prefixes: paper::GLOBAL_TABLE_2012 as usize,
            peers: 40,
            seed: 1,
        }
    }
}

/// The reason why no internet of this size can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("{0} ASes with {1} stubs: at least 20 providers, and 5 stubs a provider, are needed")]
    Ases(usize, usize),
    #[error("{0} prefixes for {1} ASes: at least 6 an AS are needed")]
    Prefixes(usize, usize),
    #[error("{0} peers: from {MIN_PEERS} to {1} are possible, so that each link of a stub is on some path")]
    Peers(usize, usize),
    #[error("{0} prefixes: the addresses of the family do not suffice")]
    Addresses(usize),
}

/// The greatest number of providers of a stub.
pub const MAX_HOMING: usize = 8;
/// The least number of peers. With fewer, some provider of a stub would be on no path.
const MIN_PEERS: usize = 24;
/// The size of the block that a provider's customers get their addresses from, in blocks of [`Space`].
const BLOCK_UNITS: u64 = 1024;
/// The number of peers that are stubs. They pass routes on to the collector only.
const STUB_PEERS: usize = 3;
/// Providers without a provider.
const TIER_1: usize = 12;

/// A provider: an AS that forwards for others.
#[derive(Debug, Clone)]
pub struct Provider {
    pub asn: u32,
    /// The provider that it buys transit from. `None` for those of tier 1, which are all connected.
    pub parent: Option<usize>,
    /// The block that its customers get their addresses from. It is announced.
    pub block: Prefix,
    /// Further blocks that it holds and announces.
    pub held: Vec<Prefix>,
    /// Prefixes of customers without an ASN of their own, which it announces. It does not hold them.
    pub of_customers: Vec<Customer>,
}

/// A customer whose ASN, if it has one, is known to its provider only.
#[derive(Debug, Clone, Copy)]
pub struct Customer {
    pub prefix: Prefix,
    /// The private ASN that its provider forgot to remove. `None`: it removed it, as it should.
    pub leaked: Option<u32>,
}

/// A stub: an AS that forwards for nobody.
#[derive(Debug, Clone)]
pub struct Stub {
    pub asn: u32,
    /// The places of its providers in [`Model::providers`].
    pub upstreams: Vec<usize>,
    /// Its prefixes, and the provider whose block each one is from. `None`: it is independent of providers.
    pub prefixes: Vec<(Prefix, Option<usize>)>,
    /// The number of times that it repeats its ASN.
    pub prepends: usize,
}

/// A synthetic internet.
#[derive(Debug, Clone)]
pub struct Model {
    pub spec: Spec,
    /// Seconds since 1970.
    pub time: i64,
    pub providers: Vec<Provider>,
    pub stubs: Vec<Stub>,
    /// Prefixes that a provider announces for two stubs together, with a set of both at the path's end.
    pub aggregates: Vec<(Prefix, usize, [usize; 2])>,
    /// The peers of the collector.
    pub peers: Vec<Peer>,
    pub(super) random: Random,
    pub(super) space: Space,
    pub(super) next_asn: u32,
}

/// A peer of the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Provider(usize),
    /// A stub that passes the whole table on to the collector.
    Stub(usize),
}

/// Addresses that are not given away yet, counted in blocks of 256 addresses (IPv4) or of /48 (IPv6).
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    family: Family,
    next: u64,
}

impl Space {
    fn new(family: Family) -> Self {
        let next = match family {
            Family::V4 => 0x01_0000,
            Family::V6 => 0x2400_0000_0000,
        };
        Self { family, next }
    }

    fn unit_length(family: Family) -> u8 {
        if family == Family::V4 { 24 } else { 48 }
    }

    fn prefix(family: Family, unit: u64, units: u64) -> Prefix {
        let length = Self::unit_length(family);
        let bits = u128::from(unit) << (128 - u32::from(length));
        let shorter = units.trailing_zeros() as u8;
        Prefix::new(family, bits, length - shorter).expect("blocks of at most /8 are taken")
    }

    /// Takes a block of so many units, a power of two. `None` if there are no addresses left.
    pub fn take(&mut self, units: u64) -> Option<Prefix> {
        let end = if self.family == Family::V4 { 0xe0_0000 } else { 0x3fff_0000_0000 };
        let start = self.next.next_multiple_of(units);
        self.next = start + units;
        (self.next <= end).then(|| Self::prefix(self.family, start, units))
    }
}

impl Model {
    /// Makes an internet as of 2012-12-01, the day of table 6.1.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        let providers = spec.ases.saturating_sub(spec.stubs);
        if providers < 20 || spec.stubs < 5 * providers {
            return Err(SpecError::Ases(spec.ases, spec.stubs));
        }
        if spec.prefixes < 6 * spec.ases {
            return Err(SpecError::Prefixes(spec.prefixes, spec.ases));
        }
        if !(MIN_PEERS..=providers).contains(&spec.peers) {
            return Err(SpecError::Peers(spec.peers, providers));
        }
        let mut model = Self {
            spec,
            time: 1_354_320_000,
            providers: Vec::with_capacity(providers),
            stubs: Vec::with_capacity(spec.stubs),
            aggregates: Vec::new(),
            peers: Vec::new(),
            random: Random::new(spec.seed),
            space: Space::new(spec.family),
            next_asn: 0,
        };
        model.make_stubs(providers);
        model.make_providers(providers).ok_or(SpecError::Addresses(spec.prefixes))?;
        model.make_prefixes().ok_or(SpecError::Addresses(spec.prefixes))?;
        model.choose_peers();
        Ok(model)
    }

    /// A share of the spec that is `part` of `whole` in the paper.
    pub fn scaled(&self, part: u64, whole: u64, of: usize) -> usize {
        ((part as u128 * of as u128 + u128::from(whole) / 2) / u128::from(whole)) as usize
    }

    /// The next public ASN. Every eighth one has 32 bits.
    pub(super) fn take_asn(&mut self) -> u32 {
        loop {
            self.next_asn += 1;
            let asn = if self.next_asn.is_multiple_of(8) { 1_000_000 + self.next_asn } else { self.next_asn };
            if kind(asn) == AsnKind::Public {
                return asn;
            }
        }
    }

    /// Makes stubs with the shares of table 6.1. What each one's addresses are is in [`Model::make_prefixes`].
    fn make_stubs(&mut self, providers: usize) {
        for at in 0..self.spec.stubs {
            let asn = self.take_asn();
            let prepends = if self.random.below(6) == 0 { 1 + self.random.below(3) } else { 0 };
            // The first stubs give every provider a customer.
            let first = if at < providers { at } else { self.random.skewed(providers) };
            self.stubs.push(Stub { asn, upstreams: vec![first], prefixes: Vec::new(), prepends });
        }
        self.random.shuffle(&mut self.stubs);
        let cells = self.cells();
        for (at, (is_multi_homed, _)) in cells.iter().enumerate() {
            let homing = if *is_multi_homed { self.homing() } else { 1 };
            while self.stubs[at].upstreams.len() < homing {
                let another = self.random.skewed(providers);
                if !self.stubs[at].upstreams.contains(&another) {
                    self.stubs[at].upstreams.push(another);
                }
            }
        }
    }

    /// The cells of table 6.1, one for each stub: whether it is multi-homed, and the origin of its addresses.
    fn cells(&self) -> Vec<(bool, Addressing)> {
        let (single, multi) = (paper::SINGLE_HOMED, paper::MULTI_HOMED);
        let mut cells = Vec::with_capacity(self.spec.stubs);
        for (count, cell) in [
            (single.pa, (false, Addressing::Aggregatable)),
            (single.both, (false, Addressing::Both)),
            (multi.pi, (true, Addressing::Independent)),
            (multi.pa, (true, Addressing::Aggregatable)),
            (multi.both, (true, Addressing::Both)),
        ] {
            let count = self.scaled(count, paper::STUBS, self.spec.stubs);
            cells.extend(std::iter::repeat_n(cell, count));
        }
        cells.resize(self.spec.stubs, (false, Addressing::Independent));
        cells
    }

    /// The number of providers of a multi-homed stub: 76.4 % have two (interdomain-2013, 6.4).
    fn homing(&mut self) -> usize {
        match self.random.below(1000) {
            0..764 => 2,
            764..914 => 3,
            914..964 => 4,
            964..984 => 5,
            984..992 => 6,
            992..997 => 7,
            _ => MAX_HOMING,
        }
    }

    fn make_providers(&mut self, count: usize) -> Option<()> {
        let held = self.scaled(paper::GLOBAL_TABLE_MAST_2010, paper::GLOBAL_TABLE_2012, self.spec.prefixes);
        for at in 0..count {
            let parent = (at >= TIER_1).then(|| self.random.skewed(at));
            let asn = self.take_asn();
            let block = self.space.take(BLOCK_UNITS)?;
            self.providers.push(Provider { asn, parent, block, held: Vec::new(), of_customers: Vec::new() });
        }
        for _ in count..held {
            let prefix = self.take_block()?;
            let at = self.random.skewed(count);
            self.providers[at].held.push(prefix);
        }
        // As many again, and half as many, are of customers without an ASN.
        for number in 0..held * 3 / 2 {
            let prefix = self.take_block()?;
            let leaked = (number % 10 == 0).then_some(64_512 + (number / 10 % 100) as u32);
            let at = self.random.skewed(count);
            self.providers[at].of_customers.push(Customer { prefix, leaked });
        }
        for number in 0..self.spec.prefixes / 2000 {
            let prefix = self.take_block()?;
            let pair = [number % self.spec.stubs, (number + 1) % self.spec.stubs];
            let provider = self.random.below(count);
            self.aggregates.push((prefix, provider, pair));
        }
        Some(())
    }

    /// Takes a block of its own, more often a small one.
    pub(super) fn take_block(&mut self) -> Option<Prefix> {
        let units = match self.random.below(100) {
            0..60 => 1,
            60..75 => 2,
            75..87 => 4,
            87..94 => 8,
            94..98 => 16,
            _ => 64,
        };
        self.space.take(units)
    }

    fn make_prefixes(&mut self) -> Option<()> {
        let cells = self.cells();
        let of_providers: usize =
            self.providers.iter().map(|one| 1 + one.held.len() + one.of_customers.len()).sum();
        let mut left = self.spec.prefixes - of_providers - self.aggregates.len();
        // The number of blocks that each provider has given away.
        let mut given = vec![0u64; self.providers.len()];
        let mut give = |model: &mut Self, at: usize, is_independent: bool| {
            let stub = &model.stubs[at];
            let provider = stub.upstreams[model.random.below(stub.upstreams.len())];
            // A provider whose block is full gives nothing any more; the stub gets one of its own instead.
            if is_independent || given[provider] == BLOCK_UNITS {
                let block = model.take_block()?;
                model.stubs[at].prefixes.push((block, None));
                return Some(());
            }
            let start = model.providers[provider].block.bits();
            let unit =
                (start >> (128 - u32::from(Space::unit_length(model.spec.family)))) as u64 + given[provider];
            given[provider] += 1;
            let prefix = Space::prefix(model.spec.family, unit, 1);
            model.stubs[at].prefixes.push((prefix, Some(provider)));
            Some(())
        };
        for (at, (_, addressing)) in cells.iter().enumerate() {
            for is_independent in [true, false] {
                let other = if is_independent { Addressing::Aggregatable } else { Addressing::Independent };
                if *addressing != other {
                    give(self, at, is_independent)?;
                    left -= 1;
                }
            }
        }
        while left > 0 {
            let at = self.random.skewed(self.spec.stubs);
            if cells[at].1 != Addressing::Aggregatable {
                give(self, at, true)?;
                left -= 1;
            }
        }
        Some(())
    }

    fn choose_peers(&mut self) {
        let mut providers: Vec<usize> = (0..self.providers.len()).collect();
        self.random.shuffle(&mut providers);
        let stubs = (0..STUB_PEERS).map(|at| Peer::Stub(at * self.spec.stubs / STUB_PEERS));
        self.peers = stubs.chain(providers.into_iter().map(Peer::Provider)).take(self.spec.peers).collect();
    }

    /// The ASN of a peer.
    pub fn peer_asn(&self, peer: Peer) -> u32 {
        match peer {
            Peer::Provider(at) => self.providers[at].asn,
            Peer::Stub(at) => self.stubs[at].asn,
        }
    }

    /// The providers from this one to tier 1.
    fn ascent(&self, provider: usize) -> Vec<usize> {
        std::iter::successors(Some(provider), |at| self.providers[*at].parent).collect()
    }

    /// The ASNs from a peer of the collector to a provider, both with them.
    pub fn path(&self, peer: Peer, provider: usize) -> Vec<u32> {
        let (mut path, start) = match peer {
            Peer::Provider(at) => (Vec::new(), at),
            Peer::Stub(at) => (vec![self.stubs[at].asn], self.stubs[at].upstreams[0]),
        };
        let (up, down) = (self.ascent(start), self.ascent(provider));
        // The first provider of both sides turns the path down. Without one, two of tier 1 do.
        let meeting = up
            .iter()
            .enumerate()
            .find_map(|(at, one)| Some((at, down.iter().position(|other| other == one)?)));
        let (climb, fall) = meeting.map_or((up.len(), down.len()), |(up, down)| (up + 1, down));
        let providers = up[..climb].iter().chain(down[..fall].iter().rev());
        path.extend(providers.map(|at| self.providers[*at].asn));
        path
    }
}
