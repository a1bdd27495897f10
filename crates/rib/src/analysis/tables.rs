//! Table 6.1, the sizes of prefixes, and equation 6.1 with figure 6.4 (interdomain-2013, 6.2.2 to 6.4).

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{Addressing, Analysis};

/// One row of table 6.1: stubs by the origin of their addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stubs {
    /// Stubs with provider independent prefixes only.
    pub pi: u64,
    /// Stubs with provider aggregatable prefixes only.
    pub pa: u64,
    pub both: u64,
}

impl Stubs {
    pub fn total(self) -> u64 {
        self.pi + self.pa + self.both
    }

    fn add(&mut self, addressing: Addressing) {
        match addressing {
            Addressing::Independent => self.pi += 1,
            Addressing::Aggregatable => self.pa += 1,
            Addressing::Both => self.both += 1,
        }
    }
}

/// Table 6.1, and the stubs that the paper's table has no place for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StubTable {
    /// Stubs with one upstream.
    pub single_homed: Stubs,
    /// Stubs with several upstreams.
    pub multi_homed: Stubs,
    /// Stubs with prefixes and without an upstream: they are peers of the collector, or known from sets only.
    pub without_provider: u64,
    /// Stubs that announce no prefix: they pass routes of others to the collector, or stand in sets only.
    pub without_prefix: u64,
    /// The number of stubs with each number of upstreams.
    pub by_upstreams: BTreeMap<usize, u64>,
}

impl StubTable {
    /// Counts the stubs of an analysis.
    pub fn of(analysis: &Analysis) -> Self {
        let mut table = Self::default();
        for (_, stub) in analysis.stubs() {
            *table.by_upstreams.entry(stub.upstreams.len()).or_default() += 1;
            match (stub.addressing(), stub.upstreams.len()) {
                (None, _) => table.without_prefix += 1,
                (Some(_), 0) => table.without_provider += 1,
                (Some(addressing), 1) => table.single_homed.add(addressing),
                (Some(addressing), _) => table.multi_homed.add(addressing),
            }
        }
        table
    }

    /// All stubs with prefixes and upstreams: the paper's row `Total`.
    pub fn all(&self) -> Stubs {
        let (single, multi) = (self.single_homed, self.multi_homed);
        Stubs { pi: single.pi + multi.pi, pa: single.pa + multi.pa, both: single.both + multi.both }
    }

    /// The share of stubs with exactly two upstreams among those with several.
    pub fn share_of_two(&self) -> Option<f64> {
        let several: u64 = self.by_upstreams.range(2..).map(|(_, stubs)| stubs).sum();
        let two = self.by_upstreams.get(&2).copied().unwrap_or(0);
        (several > 0).then(|| two as f64 / several as f64)
    }
}

/// The announced prefixes of one length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PrefixSize {
    /// Announcements by stubs and by providers. A prefix with several origins counts once for each.
    pub of_stubs: u64,
    pub of_providers: u64,
}

/// The announced prefixes by length.
pub(crate) fn prefix_sizes(analysis: &Analysis) -> BTreeMap<u8, PrefixSize> {
    let mut sizes: BTreeMap<u8, PrefixSize> = BTreeMap::new();
    for found in analysis.ases.values() {
        for prefix in &found.prefixes {
            let size = sizes.entry(prefix.length()).or_default();
            *if found.is_inside { &mut size.of_providers } else { &mut size.of_stubs } += 1;
        }
    }
    sizes
}

/// The terms of equation 6.1 for one provider. Its bounds are without |GRT|, the size of the global table, which is
/// the same for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Provider {
    pub asn: u32,
    /// The number of prefixes that it announces.
    pub prefixes: u64,
    /// s_i: its single-homed stubs.
    pub single_homed: u64,
    /// m_i: its multi-homed stubs.
    pub multi_homed: u64,
    /// The sum of n_ij over its multi-homed stubs, where n_ij is the number of the stub's providers.
    pub homings: u64,
}

impl Provider {
    pub fn stubs(&self) -> u64 {
        self.single_homed + self.multi_homed
    }

    /// s_i + 2 m_i: each multi-homed stub has one backup tunnel.
    pub fn lower(&self) -> u64 {
        self.single_homed + 2 * self.multi_homed
    }

    /// s_i + the sum of n_ij: each multi-homed stub has a backup tunnel through each of its other providers.
    pub fn upper(&self) -> u64 {
        self.single_homed + self.homings
    }
}

/// Equation 6.1 for every provider, sorted by the upper bound, greatest first, as figure 6.4 is.
pub fn providers(analysis: &Analysis) -> Vec<Provider> {
    let row = |(asn, found): (u32, &super::As)| {
        (asn, Provider { asn, prefixes: found.prefixes.len() as u64, ..Provider::default() })
    };
    let mut rows: HashMap<u32, Provider> = analysis.providers().map(row).collect();
    for (_, stub) in analysis.stubs() {
        let homing = stub.upstreams.len() as u64;
        for upstream in &stub.upstreams {
            // The peer of a collector that stands before a stub is no provider if it is never inside a path.
            let Some(provider) = rows.get_mut(upstream) else { continue };
            match homing {
                1 => provider.single_homed += 1,
                _ => {
                    provider.multi_homed += 1;
                    provider.homings += homing;
                }
            }
        }
    }
    let mut rows: Vec<Provider> = rows.into_values().collect();
    rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.upper()), row.asn));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, analysis::tests::small};

    #[test]
    fn a_small_table_has_the_counts_that_are_known() {
        let analysis = Analysis::new(&small(), Family::V4);
        let table = StubTable::of(&analysis);
        assert_eq!(table.single_homed, Stubs { pi: 1, pa: 0, both: 1 });
        assert_eq!(table.multi_homed, Stubs { pi: 0, pa: 1, both: 0 });
        // The peer 2 announces nothing, and 400 and 500 are in a set only.
        assert_eq!((table.without_prefix, table.without_provider, table.all().total()), (3, 0, 3));
        assert_eq!(table.by_upstreams, BTreeMap::from([(0, 3), (1, 2), (2, 1)]));
        assert_eq!(table.share_of_two(), Some(1.0));

        let providers = providers(&analysis);
        let of = |asn: u32| *providers.iter().find(|row| row.asn == asn).unwrap();
        assert_eq!((of(20).single_homed, of(20).multi_homed, of(20).homings), (2, 1, 2));
        assert_eq!((of(20).lower(), of(20).upper(), of(10).lower(), of(1).upper()), (4, 4, 2, 0));
        assert_eq!(providers[0].asn, 20);

        let sizes = prefix_sizes(&analysis);
        assert_eq!(sizes[&24], PrefixSize { of_stubs: 3, of_providers: 0 });
        assert_eq!(sizes[&8], PrefixSize { of_stubs: 0, of_providers: 2 });
    }
}
