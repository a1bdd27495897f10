//! Analyses the networks in a routing table (interdomain-2013, 5.6 and 6.2).
//!
//! [`Analysis::new`] classifies the ASes of one family. The submodules compute the paper's tables from it.

pub mod changes;
pub mod growth;
pub(crate) mod ownership;
pub mod tables;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Dump, Family, Prefix, dump::Route};

/// The facts about one AS in a routing table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct As {
    /// Whether the AS stands inside a path: it forwards for others, so it is a provider. Otherwise it is a stub
    /// (interdomain-2013, 6.2.1).
    pub is_inside: bool,
    /// The ASes that stand before it in paths, sorted.
    pub upstreams: Vec<u32>,
    /// The prefixes that it announces, sorted.
    pub prefixes: Vec<Prefix>,
    /// The number of its prefixes that lie inside a prefix of one of its upstreams: provider aggregatable ones (PA).
    /// The others are provider independent (PI). Counted for stubs only.
    pub aggregatable: usize,
}

impl As {
    pub fn is_stub(&self) -> bool {
        !self.is_inside
    }

    /// The kinds of a stub's prefixes. `None`: it announces none.
    pub fn addressing(&self) -> Option<Addressing> {
        match (self.prefixes.len() - self.aggregatable, self.aggregatable) {
            (0, 0) => None,
            (_, 0) => Some(Addressing::Independent),
            (0, _) => Some(Addressing::Aggregatable),
            _ => Some(Addressing::Both),
        }
    }

    /// The length of its shortest prefix, which is its largest block. `None`: it announces none.
    pub fn largest_block(&self) -> Option<u8> {
        self.prefixes.iter().map(|prefix| prefix.length()).min()
    }
}

/// The origin of a stub's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addressing {
    /// Provider independent (PI): no prefix lies inside one of an upstream.
    Independent,
    /// Provider aggregatable (PA): all prefixes lie inside those of upstreams.
    Aggregatable,
    Both,
}

/// Counts of paths with something special, and of the ASNs that the analysis leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Special {
    /// Distinct private ASNs, and the entries that have one.
    pub private_asns: u64,
    pub private_entries: u64,
    /// Distinct reserved ASNs, and the entries that have one.
    pub reserved_asns: u64,
    pub reserved_entries: u64,
    /// Entries whose path has a set of several ASes.
    pub set_entries: u64,
    /// Entries with an ASN that follows itself.
    pub prepended_entries: u64,
    /// Entries with an ASN that comes again behind another one.
    pub looped_entries: u64,
}

/// The ASes of one family in a routing table.
pub struct Analysis {
    pub family: Family,
    /// Every public ASN in any path, also those in sets only.
    pub ases: HashMap<u32, As>,
    pub entries: u64,
    pub paths: u64,
    pub prefixes: u64,
    pub special: Special,
}

/// The shortest prefix that counts as a provider's block, in bits. A shorter one is a default route, or as good as one,
/// and what lies inside it is not its announcer's.
fn shortest_block(family: Family) -> u8 {
    match family {
        Family::V4 => 8,
        Family::V6 => 16,
    }
}

impl Analysis {
    /// Classifies the ASes of a family.
    pub fn new(dump: &Dump, family: Family) -> Self {
        let mut analysis = Self {
            family,
            ases: HashMap::new(),
            entries: 0,
            paths: 0,
            prefixes: 0,
            special: Special::default(),
        };
        analysis.read_paths(dump);
        let routes = dump.routes_of(family);
        analysis.read_routes(routes);
        analysis.find_aggregatable(routes);
        analysis
    }

    fn read_paths(&mut self, dump: &Dump) {
        let (mut private, mut reserved) = (Vec::new(), Vec::new());
        // An AS may have a million upstreams in a file that was made to do harm, so they are sorted once, at the end.
        let mut pairs = HashSet::new();
        let special = &mut self.special;
        for path in dump.paths.iter().filter(|path| path.family == self.family) {
            let hops = path.path.hops();
            self.paths += 1;
            self.entries += path.entries;
            let count = |is: bool| if is { path.entries } else { 0 };
            special.private_entries += count(!hops.private.is_empty());
            special.reserved_entries += count(!hops.reserved.is_empty());
            special.set_entries += count(hops.has_set);
            special.prepended_entries += count(hops.is_prepended);
            special.looped_entries += count(hops.is_looped);
            private.extend_from_slice(&hops.private);
            reserved.extend_from_slice(&hops.reserved);
            for asn in hops.hops.iter().chain(&hops.in_sets).filter(|asn| **asn != 0) {
                self.ases.entry(*asn).or_default();
            }
            for asn in hops.inside() {
                self.ases.entry(asn).or_default().is_inside = true;
            }
            for pair in hops.hops.windows(2).filter(|pair| pair[0] != 0 && pair[1] != 0) {
                if pairs.insert((pair[0], pair[1])) {
                    self.ases.entry(pair[1]).or_default().upstreams.push(pair[0]);
                }
            }
        }
        self.ases.values_mut().for_each(|found| found.upstreams.sort_unstable());
        special.private_asns = distinct(private);
        special.reserved_asns = distinct(reserved);
    }

    fn read_routes(&mut self, routes: &[Route]) {
        let mut last = None;
        for route in routes {
            self.prefixes += u64::from(last.replace(route.prefix) != Some(route.prefix));
            if let Some(origin) = self.ases.get_mut(&route.origin)
                && origin.prefixes.last() != Some(&route.prefix)
            {
                origin.prefixes.push(route.prefix);
            }
        }
    }

    /// Compares each stub's prefixes with those of its upstreams (interdomain-2013, 6.2.1).
    fn find_aggregatable(&mut self, routes: &[Route]) {
        let mut announced: Vec<(Prefix, u32)> =
            routes.iter().map(|route| (route.prefix, route.origin)).collect();
        announced.dedup();
        let shortest = shortest_block(self.family);
        // The blocks that cover the present prefix, and the ASes that announce them.
        let mut above: Vec<Block<'_>> = Vec::new();
        let mut aggregatable: HashMap<u32, usize> = HashMap::new();
        for same in announced.chunk_by(|one, other| one.0 == other.0) {
            let prefix = same[0].0;
            let kept = above.iter().rposition(|block| block.prefix.contains(prefix)).map_or(0, |at| at + 1);
            above.truncate(kept);
            if prefix.length() >= shortest {
                above.push(Block { prefix, owners: same, known: HashMap::new() });
            }
            for (_, origin) in same {
                let Some(stub) = self.ases.get(origin).filter(|origin| origin.is_stub()) else { continue };
                if above.iter_mut().any(|block| block.is_of_upstream(*origin, stub)) {
                    *aggregatable.entry(*origin).or_default() += 1;
                }
            }
        }
        for (asn, count) in aggregatable {
            self.ases.entry(asn).or_default().aggregatable = count;
        }
    }

    pub fn stubs(&self) -> impl Iterator<Item = (u32, &As)> {
        self.ases.iter().filter(|(_, found)| found.is_stub()).map(|(asn, found)| (*asn, found))
    }

    pub fn providers(&self) -> impl Iterator<Item = (u32, &As)> {
        self.ases.iter().filter(|(_, found)| found.is_inside).map(|(asn, found)| (*asn, found))
    }
}

/// A prefix that covers others, and the ASes that announce it.
struct Block<'a> {
    prefix: Prefix,
    /// The owners, sorted by ASN.
    owners: &'a [(Prefix, u32)],
    /// Answers for ASes with many upstreams, so that no AS is compared with many owners more than once.
    known: HashMap<u32, bool>,
}

impl Block<'_> {
    /// Whether an upstream of `stub`, whose ASN is `asn`, announces the block.
    fn is_of_upstream(&mut self, asn: u32, stub: &As) -> bool {
        /// The most searches that cost less than to look up an answer.
        const FEW: usize = 8;
        let (owners, upstreams) = (self.owners, &stub.upstreams);
        let search = || match owners.len() < upstreams.len() {
            true => owners.iter().any(|(_, owner)| upstreams.binary_search(owner).is_ok()),
            false => {
                upstreams.iter().any(|one| owners.binary_search_by_key(one, |(_, owner)| *owner).is_ok())
            }
        };
        match owners.len().min(upstreams.len()) <= FEW {
            true => search(),
            false => *self.known.entry(asn).or_insert_with(search),
        }
    }
}

fn distinct(mut asns: Vec<u32>) -> u64 {
    asns.sort_unstable();
    asns.dedup();
    asns.len() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        DumpKind,
        dump::{PathCount, sort_routes},
        fault::Faults,
    };

    /// A table of routes, each a prefix and a path.
    pub fn dump(day: &str, routes: &[(&str, &str)]) -> Dump {
        let time = crate::date::parse(day).unwrap();
        let mut dump = Dump {
            file: format!("{day}.mrt"),
            kind: DumpKind::Table,
            view: String::new(),
            time,
            last_time: time,
            out_of_order: 0,
            records: routes.len() as u64,
            bytes: 0,
            withdrawals: 0,
            peers: Vec::new(),
            paths: Vec::new(),
            routes: Vec::new(),
            faults: Faults::default(),
        };
        for (prefix, path) in routes {
            let (prefix, path): (Prefix, crate::path::Path) =
                (prefix.parse().unwrap(), path.parse().unwrap());
            let hops = path.hops();
            dump.routes.push(Route { prefix, origin: hops.origin(), upstream: hops.upstream(), entries: 1 });
            dump.paths.push(PathCount { family: prefix.family(), path, entries: 1 });
        }
        dump.paths.sort();
        sort_routes(&mut dump.routes);
        dump
    }

    /// Two peers, 1 and 2. Providers 1, 10 and 20; stubs 100 (PA, two providers), 200 (PI), 300 (both) and 2, which is
    /// a peer and forwards nothing.
    pub fn small() -> Dump {
        dump(
            "2012-11-01",
            &[
                ("10.0.0.0/8", "1 10"),
                ("10.0.0.0/8", "2 1 10"),
                ("10.1.0.0/24", "1 10 100 100"),
                ("10.1.0.0/24", "2 1 20 100"),
                ("20.0.0.0/8", "2 1 20"),
                ("30.0.0.0/16", "2 1 20 200"),
                ("20.3.0.0/24", "2 1 20 20 300"),
                ("33.3.0.0/24", "2 1 20 300 64512"),
                ("0.0.0.0/0", "2 1 20"),
                ("99.0.0.0/24", "2 1 {400,500}"),
                ("2001:db8::/32", "1 100 200"),
            ],
        )
    }

    #[test]
    fn ases_are_classified_by_where_they_stand_and_what_they_announce() {
        let analysis = Analysis::new(&small(), Family::V4);
        let mut providers: Vec<u32> = analysis.providers().map(|(asn, _)| asn).collect();
        providers.sort_unstable();
        assert_eq!(providers, [1, 10, 20]);
        let found = |asn: u32| &analysis.ases[&asn];
        assert_eq!(
            (&found(100).upstreams[..], found(100).addressing()),
            (&[10, 20][..], Some(Addressing::Aggregatable))
        );
        assert_eq!(
            (&found(200).upstreams[..], found(200).addressing()),
            (&[20][..], Some(Addressing::Independent))
        );
        assert_eq!(found(300).addressing(), Some(Addressing::Both), "the default route covers nothing");
        assert_eq!((found(2).addressing(), found(400).upstreams.len()), (None, 0));
        let special = analysis.special;
        assert_eq!((special.private_asns, special.private_entries, special.set_entries), (1, 1, 1));
        assert_eq!(special.prepended_entries, 2);
        assert_eq!((analysis.entries, analysis.prefixes, analysis.ases.len()), (10, 8, 9));
        let other = Analysis::new(&small(), Family::V6);
        assert!(other.ases[&100].is_inside, "a family is classified on its own");
    }

    /// A block with many owners, and stubs with many upstreams: an answer is searched once for both, and is right.
    #[test]
    fn blocks_with_many_owners_are_compared_once_with_an_as_of_many_upstreams() {
        let owners = 1001..=1040;
        let mut routes: Vec<(String, String)> =
            owners.clone().map(|asn| ("10.0.0.0/8".into(), format!("1 {asn}"))).collect();
        // The upstreams of 7 own nothing, and one of those of 8 owns the block.
        for (stub, upstreams) in [(7, 2001..=2040), (8, 1040..=1079)] {
            for (third, upstream) in upstreams.enumerate() {
                routes.push((format!("10.{stub}.{third}.0/24"), format!("1 {upstream} {stub}")));
            }
        }
        let routes: Vec<(&str, &str)> =
            routes.iter().map(|(prefix, path)| (prefix.as_str(), path.as_str())).collect();
        let analysis = Analysis::new(&dump("2012-11-01", &routes), Family::V4);
        let counts =
            [7, 8].map(|asn| (analysis.ases[&asn].aggregatable, analysis.ases[&asn].upstreams.len()));
        assert_eq!(counts, [(0, 40), (40, 40)]);
        let announced: Vec<(Prefix, u32)> = owners.map(|asn| ("10.0.0.0/8".parse().unwrap(), asn)).collect();
        let mut block = Block { prefix: announced[0].0, owners: &announced, known: HashMap::new() };
        for _ in 0..3 {
            assert!(!block.is_of_upstream(7, &analysis.ases[&7]));
            assert!(block.is_of_upstream(8, &analysis.ases[&8]));
        }
        assert_eq!(block.known, HashMap::from([(7, false), (8, true)]));
    }
}
