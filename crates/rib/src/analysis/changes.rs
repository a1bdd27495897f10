//! Changes of provider between two tables a month apart: table 5.2 and figure 5.4 (interdomain-2013, 5.6.2).

use std::collections::BTreeMap;

use serde::Serialize;

use super::Analysis;

/// Changes of provider by some stubs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The number of these stubs.
    pub stubs: u64,
    /// Providers that the stubs have in the later table only, over all stubs.
    pub additions: u64,
    /// Providers that the stubs have in the earlier table only, over all stubs.
    pub deletions: u64,
}

impl Changes {
    /// The sum, because both incur a renumbering, as in the paper.
    pub fn total(self) -> u64 {
        self.additions + self.deletions
    }

    fn add(&mut self, other: Self) {
        self.stubs += other.stubs;
        self.additions += other.additions;
        self.deletions += other.deletions;
    }
}

/// The differences of two tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Stubs that are in both tables, and have a provider in both.
    pub all: Changes,
    /// The same stubs by the length of their shortest prefix in the earlier table: figure 5.4's block size.
    pub by_block: BTreeMap<u8, Changes>,
    /// Stubs of the later table that the earlier one does not have at all.
    pub new_stubs: u64,
    /// Stubs of the earlier table that the later one does not have at all.
    pub gone_stubs: u64,
    /// ASes that are a stub in one table and a provider in the other.
    pub changed_roles: u64,
    /// Stubs that have no provider in one of the tables, so that a change cannot be told.
    pub without_provider: u64,
}

/// Compares two tables of one family.
pub fn compare(earlier: &Analysis, later: &Analysis) -> Comparison {
    let mut comparison = Comparison::default();
    for (asn, before) in &earlier.ases {
        match later.ases.get(asn) {
            None => comparison.gone_stubs += u64::from(before.is_stub()),
            Some(after) if before.is_stub() != after.is_stub() => comparison.changed_roles += 1,
            Some(after) if before.is_stub() => {
                if before.upstreams.is_empty() || after.upstreams.is_empty() {
                    comparison.without_provider += 1;
                    continue;
                }
                let missing = |from: &[u32], of: &[u32]| {
                    from.iter().filter(|asn| of.binary_search(asn).is_err()).count() as u64
                };
                let changes = Changes {
                    stubs: 1,
                    additions: missing(&after.upstreams, &before.upstreams),
                    deletions: missing(&before.upstreams, &after.upstreams),
                };
                comparison.all.add(changes);
                if let Some(length) = before.largest_block() {
                    comparison.by_block.entry(length).or_default().add(changes);
                }
            }
            Some(_) => {}
        }
    }
    let is_new = |asn: &u32| !earlier.ases.contains_key(asn);
    comparison.new_stubs = later.stubs().filter(|(asn, _)| is_new(asn)).count() as u64;
    comparison
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, analysis::tests::dump};

    #[test]
    fn additions_and_deletions_are_counted_by_block() {
        let before = dump(
            "2012-11-01",
            &[
                ("10.1.0.0/24", "9 1 10 100"),
                ("10.2.0.0/22", "9 1 10 200"),
                ("10.2.4.0/24", "9 1 20 200"),
                ("10.3.0.0/24", "9 1 20 300"),
                ("10.4.0.0/24", "9 1 20 400"),
                ("10.5.0.0/24", "9 1 20 500"),
                ("10.6.0.0/24", "600"),
            ],
        );
        let after = dump(
            "2012-12-01",
            &[
                ("10.1.0.0/24", "9 1 10 100"),
                ("10.1.0.0/24", "9 1 20 100"),
                ("10.2.0.0/22", "9 1 30 200"),
                ("10.3.0.0/24", "9 1 20 300"),
                ("10.5.0.0/24", "9 1 20 500 700"),
                ("10.6.0.0/24", "9 1 20 600"),
            ],
        );
        let [before, after] = [before, after].map(|dump| Analysis::new(&dump, Family::V4));
        let comparison = compare(&before, &after);
        assert_eq!(comparison.all, Changes { stubs: 3, additions: 2, deletions: 2 });
        assert_eq!(comparison.by_block[&24], Changes { stubs: 2, additions: 1, deletions: 0 });
        assert_eq!(comparison.by_block[&22], Changes { stubs: 1, additions: 1, deletions: 2 });
        let found = (comparison.new_stubs, comparison.gone_stubs, comparison.changed_roles);
        assert_eq!(found, (1, 1, 1), "700 is new, 400 is gone, 500 has a customer now");
        assert_eq!(comparison.without_provider, 2, "600 had none, and the peer 9 never has");
    }
}
