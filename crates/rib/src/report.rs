//! The report on routing tables, as data for programs. [`super::page`] shows the same to people.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Dump, DumpKind, Family,
    analysis::{
        Analysis, Special,
        changes::{Comparison, compare},
        growth::{self, Point},
        ownership::{Ownership, ownership},
        tables::{self, PrefixSize, Provider, StubTable},
    },
    date,
    delegations::Delegations,
    fault::Faults,
    paper,
};

/// The report on one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    pub file: String,
    pub kind: DumpKind,
    /// Whether `rib synth` made the file. Otherwise it is taken for real.
    pub synthetic: bool,
    /// The time of the first record, as `2015-09-22T12:00:00Z`.
    pub time: String,
    pub bytes: u64,
    pub records: u64,
    pub entries: u64,
    pub prefixes: u64,
    /// Peers that sent at least one route.
    pub peers: u64,
    /// Peers that the file names.
    pub peers_listed: u64,
    pub withdrawals: u64,
    /// Public ASNs in any path of any family. A provider of one family is no stub here.
    pub ases: u64,
    pub stubs: u64,
    pub providers: u64,
    pub families: Vec<FamilyReport>,
    /// The counts of what was not used, by reason.
    pub faults: Faults,
    /// Sentences that a reader of the numbers must know.
    pub warnings: Vec<String>,
}

/// The report on one family of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FamilyReport {
    pub family: Family,
    pub entries: u64,
    pub prefixes: u64,
    /// Distinct AS paths, as announced.
    pub paths: u64,
    pub ases: u64,
    pub stubs: u64,
    pub providers: u64,
    #[serde(flatten)]
    pub special: Special,
    pub table_6_1: StubTable,
    /// The share of stubs with two upstreams among those with several. `None`: there are none with several.
    pub share_with_two_upstreams: Option<f64>,
    /// The announced prefixes by length.
    pub prefix_sizes: BTreeMap<u8, PrefixSize>,
    pub equation_6_1: Equation,
    /// `None`: no delegations were given.
    pub ownership: Option<Ownership>,
}

/// Equation 6.1 for every provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Equation {
    /// |GRT| today: all prefixes.
    pub global_table_today: u64,
    /// |GRT| if all stubs use MAST: the prefixes that providers announce.
    pub global_table_announced: u64,
    /// |GRT| if all stubs use MAST: the prefixes that providers announce and hold. `None`: no delegations that name
    /// holders were given.
    pub global_table_held: Option<u64>,
    /// The bounds of providers, sorted by the upper bound, greatest first.
    pub providers: Vec<Bounds>,
}

impl Equation {
    /// |GRT| under MAST: the prefixes that providers hold, or all that they announce if nothing says what they hold.
    pub fn global_table(&self) -> u64 {
        self.global_table_held.unwrap_or(self.global_table_announced)
    }
}

/// The bounds of equation 6.1 for one provider, in routing entries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    #[serde(flatten)]
    pub provider: Provider,
    pub lower: u64,
    pub upper: u64,
}

/// The report on the differences of two tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonReport {
    pub earlier: String,
    pub later: String,
    pub synthetic: bool,
    pub days: f64,
    pub family: Family,
    #[serde(flatten)]
    pub changes: Comparison,
    pub warnings: Vec<String>,
}

/// A file's report, and the analyses that comparisons need.
pub struct Analysed {
    pub report: FileReport,
    pub points: Vec<Point>,
    pub analyses: Vec<Analysis>,
    pub time: i64,
    /// The addresses of peers, to tell whether two tables come from the same ones.
    peers: Vec<std::net::IpAddr>,
}

/// Analyses a dump.
pub fn analyse(dump: &Dump, delegations: &[Delegations]) -> Analysed {
    let analyses: Vec<Analysis> =
        dump.families().into_iter().map(|family| Analysis::new(dump, family)).collect();
    let families: Vec<FamilyReport> =
        analyses.iter().map(|analysis| family_report(analysis, delegations)).collect();
    let mut inside: BTreeMap<u32, bool> = BTreeMap::new();
    for (asn, found) in analyses.iter().flat_map(|analysis| &analysis.ases) {
        *inside.entry(*asn).or_default() |= found.is_inside;
    }
    let providers = inside.values().filter(|is_inside| **is_inside).count() as u64;
    let sending = dump.peers.iter().filter(|peer| peer.entries > 0);
    let report = FileReport {
        file: dump.file.clone(),
        kind: dump.kind,
        synthetic: dump.is_synthetic(),
        time: date::time(dump.time),
        bytes: dump.bytes,
        records: dump.records,
        entries: dump.entries(),
        prefixes: families.iter().map(|family| family.prefixes).sum(),
        peers: sending.clone().count() as u64,
        peers_listed: dump.peers.len() as u64,
        withdrawals: dump.withdrawals,
        ases: inside.len() as u64,
        stubs: inside.len() as u64 - providers,
        providers,
        families,
        faults: dump.faults.clone(),
        warnings: warnings(dump),
    };
    let points = analyses.iter().map(|analysis| growth::of_analysis(dump, analysis)).collect();
    let peers = sending.map(|peer| peer.address).collect();
    Analysed { report, points, analyses, time: dump.time, peers }
}

fn family_report(analysis: &Analysis, delegations: &[Delegations]) -> FamilyReport {
    let table = StubTable::of(analysis);
    let ownership = (!delegations.is_empty()).then(|| ownership(analysis, delegations));
    let stubs = analysis.stubs().count() as u64;
    let sizes = tables::prefix_sizes(analysis);
    let bounds = |provider: Provider| Bounds { provider, lower: provider.lower(), upper: provider.upper() };
    FamilyReport {
        family: analysis.family,
        entries: analysis.entries,
        prefixes: analysis.prefixes,
        paths: analysis.paths,
        ases: analysis.ases.len() as u64,
        stubs,
        providers: analysis.ases.len() as u64 - stubs,
        special: analysis.special,
        share_with_two_upstreams: table.share_of_two(),
        table_6_1: table,
        equation_6_1: Equation {
            global_table_today: analysis.prefixes,
            global_table_announced: sizes.values().map(|size| size.of_providers).sum(),
            global_table_held: ownership.as_ref().and_then(Ownership::held_by_providers),
            providers: tables::providers(analysis).into_iter().map(bounds).collect(),
        },
        prefix_sizes: sizes,
        ownership,
    }
}

fn warnings(dump: &Dump) -> Vec<String> {
    let mut warnings = Vec::new();
    let sending = dump.peers.iter().filter(|peer| peer.entries > 0).count();
    if dump.kind == DumpKind::Updates {
        warnings
            .push("These are updates and no table: the numbers tell of the announced routes only.".into());
    } else if sending == 1 {
        warnings.push(
            "One peer only: it sees one path to each prefix, so fewer upstreams and providers than there are.".into(),
        );
    }
    let errors = dump.faults.errors();
    if errors > 0 {
        warnings.push(format!("The file is damaged in {errors} places: what was readable there is counted."));
    }
    if dump.out_of_order > 0 && dump.kind == DumpKind::Table {
        warnings
            .push(format!("{} records say a time before that of the record before them.", dump.out_of_order));
    }
    if dump.kind == DumpKind::Table && dump.last_time - dump.time > 86_400 {
        let (first, last) = (date::time(dump.time), date::time(dump.last_time));
        warnings.push(format!("The records are of {first} to {last}: this is more than one table."));
    }
    warnings
}

/// Compares the families that two tables share. Fails if `later` is not later.
pub fn comparisons(earlier: &Analysed, later: &Analysed) -> Result<Vec<ComparisonReport>, String> {
    if later.time <= earlier.time {
        return Err(format!(
            "{} is of {}, and {} of {}: name an earlier table first, and one of another time second",
            earlier.report.file, earlier.report.time, later.report.file, later.report.time
        ));
    }
    let days = (later.time - earlier.time) as f64 / 86_400.0;
    let mut warnings = Vec::new();
    if !(27.0..=32.0).contains(&days) {
        warnings.push(format!("The tables are {days:.1} days apart, and the paper's rates are for a month."));
    }
    let missing = |from: &Analysed, of: &Analysed| {
        from.peers.iter().filter(|peer| of.peers.binary_search(peer).is_err()).count()
    };
    let (new, gone) = (missing(later, earlier), missing(earlier, later));
    if new + gone > 0 {
        warnings.push(format!(
            "The tables come from different peers ({new} new, {gone} gone): a provider may be new because a peer is."
        ));
    }
    if [earlier, later].iter().any(|table| table.report.kind == DumpKind::Updates) {
        warnings.push(
            "Updates tell of some routes only: a provider that they do not name is no deletion.".into(),
        );
    }
    let shared = earlier.analyses.iter().filter_map(|before| {
        let after = later.analyses.iter().find(|after| after.family == before.family)?;
        Some((before, after))
    });
    let report = |(before, after): (&Analysis, &Analysis)| ComparisonReport {
        earlier: earlier.report.file.clone(),
        later: later.report.file.clone(),
        synthetic: earlier.report.synthetic || later.report.synthetic,
        days,
        family: before.family,
        changes: compare(before, after),
        warnings: warnings.clone(),
    };
    let reports: Vec<ComparisonReport> = shared.map(report).collect();
    match reports.is_empty() {
        true => {
            Err(format!("{} and {} share no family of addresses", earlier.report.file, later.report.file))
        }
        false => Ok(reports),
    }
}

/// The reduction of the global table by MAST: the paper's and ours (6.4).
pub fn reduction(equation: &Equation) -> Option<f64> {
    let today = equation.global_table_today;
    (today > 0).then(|| 1.0 - equation.global_table() as f64 / today as f64)
}

/// The paper's reduction: 24,436 prefixes of 2010 against 450,000 of 2012.
pub(crate) fn papers_reduction() -> f64 {
    1.0 - paper::GLOBAL_TABLE_MAST_2010 as f64 / paper::GLOBAL_TABLE_2012 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{dump, small};

    #[test]
    fn json_has_the_counts_at_its_top() {
        let report = analyse(&small(), &[]).report;
        let json = serde_json::to_value(&report).unwrap();
        for (name, expected) in
            [("entries", 11), ("prefixes", 9), ("peers", 0), ("ases", 9), ("stubs", 5), ("providers", 4)]
        {
            assert_eq!(json[name], expected, "{name} in {json:#}");
        }
        assert_eq!(json["families"][0]["table_6_1"]["single_homed"]["pi"], 1);
        assert_eq!(json["families"][0]["equation_6_1"]["providers"][0]["upper"], 4);
    }

    #[test]
    fn tables_out_of_order_are_refused() {
        let [first, second] =
            ["2012-11-01", "2012-12-01"].map(|day| analyse(&dump(day, &[("10.0.0.0/8", "1 2 3")]), &[]));
        let error = comparisons(&second, &first).unwrap_err();
        assert!(error.contains("name an earlier table first"), "{error}");
        assert!(comparisons(&first, &first).is_err(), "two tables of one time");
        let report = comparisons(&first, &second).unwrap();
        assert_eq!((report.len(), report[0].days, report[0].warnings.len()), (1, 30.0, 0));
    }

    #[test]
    fn the_papers_reduction_is_as_it_says() {
        assert_eq!((papers_reduction() * 1000.0).round(), 946.0);
    }
}
