//! The answers that are known of a synthetic internet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{model::Model, write::Tally};
use crate::{
    analysis::{changes::Comparison, tables::Stubs},
    report::FileReport,
};

/// The counts that the analysis must find in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub entries: u64,
    pub prefixes: u64,
    pub peers: u64,
    pub ases: u64,
    pub stubs: u64,
    pub providers: u64,
    pub private_asns: u64,
    pub private_entries: u64,
    pub set_entries: u64,
    pub prepended_entries: u64,
    /// Table 6.1: PI, PA and both.
    pub single_homed: [u64; 3],
    pub multi_homed: [u64; 3],
    /// The number of stubs with each number of providers.
    pub by_upstreams: BTreeMap<usize, u64>,
    /// The prefixes that providers announce, and those of them that they hold: figure 6.4, plot 1.
    pub announced_by_providers: u64,
    pub held_by_providers: u64,
    /// Figure 6.4 and equation 6.1 for each provider: its single-homed stubs, its multi-homed stubs, and the sum of the
    /// numbers of providers of the latter.
    pub equation_6_1: BTreeMap<u32, [u64; 3]>,
}

/// The counts that a comparison with the table of the month before must find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownChanges {
    /// Stubs that are in both tables.
    pub stubs: u64,
    pub additions: u64,
    pub deletions: u64,
    pub new_stubs: u64,
    pub gone_stubs: u64,
    /// Figure 5.4: stubs, additions and deletions by the length of the stub's shortest prefix.
    pub by_block: BTreeMap<u8, [u64; 3]>,
}

impl Known {
    /// The answers for a model, and what was counted while its table was written.
    pub fn of(model: &Model, tally: &Tally) -> Self {
        let mut known = Self {
            entries: tally.entries,
            prefixes: tally.prefixes,
            peers: model.peers.len() as u64,
            ases: (model.providers.len() + model.stubs.len()) as u64,
            stubs: model.stubs.len() as u64,
            providers: model.providers.len() as u64,
            private_asns: tally.private_asns.len() as u64,
            private_entries: tally.private_entries,
            set_entries: tally.set_entries,
            prepended_entries: tally.prepended_entries,
            ..Self::default()
        };
        for provider in &model.providers {
            known.held_by_providers += 1 + provider.held.len() as u64;
            known.announced_by_providers += (1 + provider.held.len() + provider.of_customers.len()) as u64;
            known.equation_6_1.insert(provider.asn, [0; 3]);
        }
        for stub in &model.stubs {
            let homing = stub.upstreams.len();
            *known.by_upstreams.entry(homing).or_default() += 1;
            let is_pa = |owner: &Option<usize>| owner.is_some_and(|owner| stub.upstreams.contains(&owner));
            let aggregatable = stub.prefixes.iter().filter(|(_, owner)| is_pa(owner)).count();
            let cell = match aggregatable {
                0 => 0,
                all if all == stub.prefixes.len() => 1,
                _ => 2,
            };
            let row = if homing == 1 { &mut known.single_homed } else { &mut known.multi_homed };
            row[cell] += 1;
            for upstream in &stub.upstreams {
                let counts = known.equation_6_1.entry(model.providers[*upstream].asn).or_default();
                match homing {
                    1 => counts[0] += 1,
                    _ => {
                        counts[1] += 1;
                        counts[2] += homing as u64;
                    }
                }
            }
        }
        known
    }
}

impl Known {
    /// The same figures as the analysis found them. `None`: the table does not have exactly one family.
    pub fn found(report: &FileReport) -> Option<Self> {
        let [family] = &report.families[..] else { return None };
        let table = &family.table_6_1;
        let cells = |stubs: Stubs| [stubs.pi, stubs.pa, stubs.both];
        let providers = family.equation_6_1.providers.iter().map(|row| row.provider);
        Some(Self {
            entries: report.entries,
            prefixes: report.prefixes,
            peers: report.peers,
            ases: report.ases,
            stubs: report.stubs,
            providers: report.providers,
            private_asns: family.special.private_asns,
            private_entries: family.special.private_entries,
            set_entries: family.special.set_entries,
            prepended_entries: family.special.prepended_entries,
            single_homed: cells(table.single_homed),
            multi_homed: cells(table.multi_homed),
            by_upstreams: table.by_upstreams.clone(),
            announced_by_providers: family.equation_6_1.global_table_announced,
            held_by_providers: family.equation_6_1.global_table_held.unwrap_or(0),
            equation_6_1: providers
                .map(|one| (one.asn, [one.single_homed, one.multi_homed, one.homings]))
                .collect(),
        })
    }
}

impl KnownChanges {
    /// The same figures as a comparison found them.
    pub fn found(comparison: &Comparison) -> Self {
        let all = comparison.all;
        let blocks = comparison.by_block.iter();
        Self {
            stubs: all.stubs,
            additions: all.additions,
            deletions: all.deletions,
            new_stubs: comparison.new_stubs,
            gone_stubs: comparison.gone_stubs,
            by_block: blocks
                .map(|(length, one)| (*length, [one.stubs, one.additions, one.deletions]))
                .collect(),
        }
    }

    /// The answers for two models.
    pub fn of(before: &Model, after: &Model) -> Self {
        let mut known = Self::default();
        let later: HashMap<u32, &Vec<usize>> =
            after.stubs.iter().map(|stub| (stub.asn, &stub.upstreams)).collect();
        for stub in &before.stubs {
            let Some(upstreams) = later.get(&stub.asn) else {
                known.gone_stubs += 1;
                continue;
            };
            let missing =
                |from: &[usize], of: &[usize]| from.iter().filter(|one| !of.contains(one)).count() as u64;
            let counts = [1, missing(upstreams, &stub.upstreams), missing(&stub.upstreams, upstreams)];
            known.stubs += 1;
            known.additions += counts[1];
            known.deletions += counts[2];
            let shortest = stub.prefixes.iter().map(|(prefix, _)| prefix.length()).min();
            let block = known.by_block.entry(shortest.unwrap_or(0)).or_default();
            block.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        known.new_stubs = after.stubs.len() as u64 - known.stubs;
        known
    }
}

/// All that is known of a synthetic internet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// The table, and the table of a month later.
    pub tables: [Known; 2],
    pub changes: KnownChanges,
}

/// The number of figures that both have and that are equal, and a line for each one that differs.
pub fn differences<T: Serialize>(known: &T, found: &T) -> (usize, Vec<String>) {
    let mut equal = 0;
    let mut different = Vec::new();
    let [known, found] = [known, found].map(|figures| serde_json::to_value(figures).unwrap_or_default());
    differ("", &known, &found, &mut equal, &mut different);
    (equal, different)
}

fn differ(name: &str, known: &Value, found: &Value, equal: &mut usize, different: &mut Vec<String>) {
    match (known, found) {
        (Value::Object(known), Value::Object(found)) => {
            let names: BTreeSet<&String> = known.keys().chain(found.keys()).collect();
            let of = |map: &serde_json::Map<String, Value>, key: &String| {
                map.get(key).cloned().unwrap_or_default()
            };
            for key in names {
                let name = if name.is_empty() { key.clone() } else { format!("{name} {key}") };
                differ(&name, &of(known, key), &of(found, key), equal, different);
            }
        }
        (known, found) if known == found => *equal += 1,
        (known, found) => different.push(format!("{name}: known {known}, found {found}")),
    }
}
