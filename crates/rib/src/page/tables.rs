//! The tables of the report, with the paper's values beside ours.

use treecast_measure::tables::{Cell, Table};

use crate::{
    analysis::{growth::Point, ownership::Ownership, tables::Stubs},
    fault::Faults,
    paper,
    report::{self, ComparisonReport, FamilyReport, FileReport},
};

/// The number of providers in the table of equation 6.1. The JSON report has all.
const PROVIDERS_SHOWN: usize = 15;

/// A number with commas between thousands.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / of as f64) }
}

/// `real` or `synthetic`, for every table and plot.
pub fn origin(is_synthetic: bool) -> &'static str {
    if is_synthetic { "synthetic" } else { "real" }
}

fn row<const N: usize>(cells: [String; N]) -> Vec<Cell> {
    cells.into_iter().map(Cell::from).collect()
}

/// The table of what a file holds.
pub fn overview(report: &FileReport) -> Table {
    let mut columns = vec!["<COUNT".to_owned()];
    columns.extend(report.families.iter().map(|family| family.family.name().to_owned()));
    let title =
        format!("{} ({}, {}, {})", report.file, report.kind.name(), report.time, origin(report.synthetic));
    let mut table = Table::new(title, &columns);
    let mut add = |name: &str, of: &dyn Fn(&FamilyReport) -> u64| {
        let counts = report.families.iter().map(|family| number(of(family)).into());
        table.rows.push([Cell::from(name)].into_iter().chain(counts).collect());
    };
    add("entries", &|family| family.entries);
    add("prefixes", &|family| family.prefixes);
    add("AS paths", &|family| family.paths);
    add("ASes", &|family| family.ases);
    add("stubs", &|family| family.stubs);
    add("providers", &|family| family.providers);
    add("private ASNs", &|family| family.special.private_asns);
    add("entries with a private ASN", &|family| family.special.private_entries);
    add("reserved ASNs", &|family| family.special.reserved_asns);
    add("entries with an AS set", &|family| family.special.set_entries);
    add("entries with a prepended ASN", &|family| family.special.prepended_entries);
    add("entries with a loop", &|family| family.special.looped_entries);
    let listed = match report.peers_listed == report.peers {
        true => String::new(),
        false => format!(" of {} that it names", report.peers_listed),
    };
    table.notes.push(format!(
        "Routes of {} peers{listed}, in {} records.",
        report.peers,
        number(report.records)
    ));
    if report.withdrawals > 0 {
        table.notes.push(format!("Withdrawn prefixes: {}.", number(report.withdrawals)));
    }
    table.notes.extend(report.warnings.iter().cloned());
    table
}

/// The table of what was not used of a file. `None`: all was.
pub fn faults(faults: &Faults) -> Option<Table> {
    let mut table = Table::new("Not used", &["<REASON", "COUNT", "<MEANS"]);
    for (fault, count) in &faults.0 {
        let means = if fault.is_error() { "damage" } else { "not needed" };
        table.rows.push(row([fault.words().into(), number(*count), means.into()]));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Table 6.1.
pub fn table_6_1(family: &FamilyReport, is_synthetic: bool) -> Table {
    let title = format!(
        "Table 6.1: stubs by addresses and providers ({}, {})",
        family.family.name(),
        origin(is_synthetic)
    );
    let mut table = Table::new(title, &["<STUBS", "<SOURCE", "PI", "PA", "BOTH", "TOTAL", "SHARE"]);
    let found = &family.table_6_1;
    let papers = |single: Stubs, multi: Stubs| Stubs {
        pi: single.pi + multi.pi,
        pa: single.pa + multi.pa,
        both: single.both + multi.both,
    };
    let papers_all = papers(paper::SINGLE_HOMED, paper::MULTI_HOMED);
    for (name, ours, papers) in [
        ("single-homed", found.single_homed, paper::SINGLE_HOMED),
        ("multi-homed", found.multi_homed, paper::MULTI_HOMED),
        ("all", found.all(), papers_all),
    ] {
        for (source, stubs, of) in [("ours", ours, found.all()), ("paper, 2012-12-01", papers, papers_all)] {
            let counts = [stubs.pi, stubs.pa, stubs.both, stubs.total()].map(number);
            let [pi, pa, both, total] = counts;
            let share = percent(stubs.total(), of.total());
            table.rows.push(row([name.into(), source.into(), pi, pa, both, total, share]));
        }
    }
    if family.family == crate::Family::V6 {
        table.notes.push("The paper's values are of IPv4.".into());
    }
    table.notes.push(format!(
        "Not in the table: {} stubs that announce no prefix, and {} whose provider no path shows.",
        number(found.without_prefix),
        number(found.without_provider)
    ));
    table
}

/// The number of upstreams of stubs.
pub fn homing(family: &FamilyReport) -> Table {
    let mut table = Table::new("Upstreams of stubs", &["UPSTREAMS", "STUBS", "SHARE"]);
    let (few, many): (Vec<_>, Vec<_>) =
        family.table_6_1.by_upstreams.iter().partition(|(upstreams, _)| **upstreams < 10);
    for (upstreams, stubs) in few {
        table.rows.push(row([upstreams.to_string(), number(*stubs), percent(*stubs, family.stubs)]));
    }
    let rest: u64 = many.iter().map(|(_, stubs)| **stubs).sum();
    if rest > 0 {
        table.rows.push(row(["10 and more".into(), number(rest), percent(rest, family.stubs)]));
    }
    if let Some(share) = family.share_with_two_upstreams {
        table.notes.push(format!(
            "{:.1} % of the multi-homed stubs have two providers. The paper says more than {:.0} % (6.4).",
            share * 100.0,
            paper::SHARE_OF_TWO * 100.0
        ));
    }
    table
}

/// The announced prefixes by length.
pub fn sizes(family: &FamilyReport) -> Table {
    let title = format!("Announced prefixes by length ({})", family.family.name());
    let mut table = Table::new(title, &["LENGTH", "BY STUBS", "BY PROVIDERS"]);
    for (length, size) in &family.prefix_sizes {
        table.rows.push(row([format!("/{length}"), number(size.of_stubs), number(size.of_providers)]));
    }
    table
}

/// The sizes of the global table behind figure 6.4.
pub fn global_table(family: &FamilyReport, is_synthetic: bool) -> Table {
    let title = format!("The global table under MAST ({}, {})", family.family.name(), origin(is_synthetic));
    let mut table = Table::new(title, &["<COUNT", "OURS", "PAPER", "<PAPER'S DATE"]);
    let found = &family.equation_6_1;
    let most = found.providers.iter().map(|row| row.provider).max_by_key(|provider| provider.stubs());
    let held = found.global_table_held.map_or("-".to_owned(), number);
    let stubs = |of: fn(&crate::analysis::tables::Provider) -> u64| {
        most.as_ref().map_or("-".to_owned(), |provider| number(of(provider)))
    };
    let reduction = |share: f64| format!("{:.1} %", share * 100.0);
    for (name, ours, papers, date) in [
        ("prefixes today", number(found.global_table_today), number(paper::GLOBAL_TABLE_2012), "2012"),
        ("providers", number(family.providers), number(paper::PROVIDERS_2010), "2010-10-05"),
        ("providers", number(family.providers), number(paper::PROVIDERS), "2012-12-01"),
        ("prefixes that providers announce", number(found.global_table_announced), "-".into(), ""),
        (
            "prefixes that providers announce and hold",
            held,
            number(paper::GLOBAL_TABLE_MAST_2010),
            "2010-10-05",
        ),
        (
            "reduction",
            report::reduction(found).map_or("-".into(), reduction),
            reduction(report::papers_reduction()),
            "2010 against 2012",
        ),
        (
            "most stubs of one provider",
            stubs(|one| one.stubs()),
            number(paper::MOST_STUBS_2010.0),
            "2010-10-05",
        ),
        ("most stubs of one provider", stubs(|one| one.stubs()), number(paper::MOST_STUBS_2012), "2012-12"),
        (
            "single-homed ones of them",
            stubs(|one| one.single_homed),
            number(paper::MOST_STUBS_2010.1),
            "2010-10-05",
        ),
    ] {
        table.rows.push(row([name.into(), ours, papers, date.into()]));
    }
    table.notes.push(
        "The paper mixes years: its 24,436 prefixes are of October 2010, and the 450,000 it compares them with of 2012."
            .into(),
    );
    if found.global_table_held.is_none() {
        table.notes.push(
            "No delegations that name holders were given, so our reduction counts all prefixes that providers announce."
                .into(),
        );
    }
    table
}

/// Equation 6.1 for the providers with the most entries.
pub fn equation(family: &FamilyReport, is_synthetic: bool) -> Table {
    let found = &family.equation_6_1;
    let title = format!(
        "Equation 6.1: routing entries of a provider ({}, {})",
        family.family.name(),
        origin(is_synthetic)
    );
    let columns = ["AS", "SINGLE-HOMED", "MULTI-HOMED", "LOWER BOUND", "UPPER BOUND", "PREFIXES"];
    let mut table = Table::new(title, &columns);
    for bounds in found.providers.iter().take(PROVIDERS_SHOWN) {
        let provider = bounds.provider;
        table.rows.push(row([
            provider.asn.to_string(),
            number(provider.single_homed),
            number(provider.multi_homed),
            number(bounds.lower),
            number(bounds.upper),
            number(provider.prefixes),
        ]));
    }
    table.notes.push(format!(
        "Equation 6.1 adds |GRT| = {} entries of the global table to both bounds. {} of {} providers are shown; the JSON report has all of them.",
        number(found.global_table()),
        found.providers.len().min(PROVIDERS_SHOWN),
        number(found.providers.len() as u64)
    ));
    table
}

/// The table of the holders of announced prefixes.
pub fn ownership(found: &Ownership, is_synthetic: bool) -> Table {
    let title = format!("Who holds the announced prefixes ({})", origin(is_synthetic));
    let mut table = Table::new(title, &["<HOLDER", "BY PROVIDERS", "SHARE", "BY STUBS", "SHARE"]);
    let sum = |counts: &std::collections::BTreeMap<_, u64>| counts.values().sum::<u64>();
    let mut holders: Vec<_> = found.of_providers.keys().chain(found.of_stubs.keys()).copied().collect();
    holders.sort_unstable();
    holders.dedup();
    for holder in holders {
        let count = |counts: &std::collections::BTreeMap<_, u64>| counts.get(&holder).copied().unwrap_or(0);
        let (providers, stubs) = (count(&found.of_providers), count(&found.of_stubs));
        table.rows.push(row([
            holder.words().into(),
            number(providers),
            percent(providers, sum(&found.of_providers)),
            number(stubs),
            percent(stubs, sum(&found.of_stubs)),
        ]));
    }
    table
}

/// Table 5.2, with the paper's months.
pub fn table_5_2(comparisons: &[ComparisonReport]) -> Table {
    let columns = ["<TABLES", "<SOURCE", "STUBS", "ADDITIONS", "DELETIONS", "CHANGES A STUB"];
    let mut table = Table::new("Table 5.2: changes of provider in a month, over all stubs", &columns);
    let rate = |changes: u64, stubs: u64| {
        if stubs == 0 { "-".into() } else { format!("{:.3}", changes as f64 / stubs as f64) }
    };
    for found in comparisons {
        let all = found.changes.all;
        table.rows.push(row([
            format!("{} to {} ({}, {:.0} days)", found.earlier, found.later, found.family.name(), found.days),
            format!("ours, {}", origin(found.synthetic)),
            number(all.stubs),
            number(all.additions),
            number(all.deletions),
            rate(all.total(), all.stubs),
        ]));
    }
    for (month, additions, deletions) in paper::CHANGES {
        table.rows.push(row([
            month.into(),
            "paper".into(),
            format!("about {}", number(paper::CHANGES_STUBS)),
            number(additions),
            number(deletions),
            rate(additions + deletions, paper::CHANGES_STUBS),
        ]));
    }
    for found in comparisons {
        let changes = &found.changes;
        table.notes.push(format!(
            "{} to {}: {} new stubs, {} gone, {} ASes became provider or stub; {} stubs show no provider in one table.",
            found.earlier,
            found.later,
            number(changes.new_stubs),
            number(changes.gone_stubs),
            number(changes.changed_roles),
            number(changes.without_provider)
        ));
        table.notes.extend(found.warnings.iter().cloned());
    }
    table
}

/// Figure 5.4 as a table.
pub fn figure_5_4(comparisons: &[ComparisonReport]) -> Table {
    let columns = ["<TABLES", "BLOCK", "STUBS", "CHANGES", "OF ALL STUBS"];
    let mut table = Table::new("Figure 5.4: changes of provider by the stub's largest block", &columns);
    for found in comparisons {
        for (length, changes) in &found.changes.by_block {
            let share = changes.total() as f64 / found.changes.all.stubs.max(1) as f64;
            table.rows.push(row([
                format!("{} ({})", found.later, origin(found.synthetic)),
                format!("/{length}"),
                number(changes.stubs),
                number(changes.total()),
                format!("{share:.4}"),
            ]));
        }
    }
    for (year, changes, stubs) in paper::CHANGES_OF_24 {
        let share = changes as f64 / stubs as f64;
        let cells =
            [format!("paper, {year}"), "/24".into(), "-".into(), number(changes), format!("{share:.4}")];
        table.rows.push(row(cells));
    }
    table
}

/// Figure 5.3 as a table.
pub fn figure_5_3(points: &[Point]) -> Table {
    let columns = ["<DATE", "<SOURCE", "ASES", "STUBS", "PROVIDERS", "PREFIXES", "MOST STUBS"];
    let mut table = Table::new("Figure 5.3: the number of ASes", &columns);
    let optional = |value: Option<u64>| value.map_or("-".into(), number);
    for point in points {
        let of = point.family.map_or("relations", |family| family.name());
        table.rows.push(row([
            point.date.clone(),
            format!("{}, {of}, {}", point.file, origin(point.is_synthetic)),
            number(point.ases),
            number(point.stubs),
            number(point.providers),
            optional(point.prefixes),
            optional(point.most_stubs),
        ]));
    }
    for (date, ases, stubs, providers, prefixes, most) in [
        ("2002", None, Some(11_250), None, None, None),
        ("2010-10-05", None, None, Some(paper::PROVIDERS_2010), None, Some(paper::MOST_STUBS_2010.0)),
        ("2011", None, Some(29_466), Some(6_185), Some(335_000), None),
        (
            "2012-12-01",
            Some(paper::ASES),
            Some(paper::STUBS),
            Some(paper::PROVIDERS),
            Some(paper::GLOBAL_TABLE_2012),
            Some(paper::MOST_STUBS_2012),
        ),
    ] {
        let [ases, stubs, providers, prefixes, most] = [ases, stubs, providers, prefixes, most].map(optional);
        table.rows.push(row([date.into(), "paper".into(), ases, stubs, providers, prefixes, most]));
    }
    table.notes.push(
        "Files of relations call an AS with a customer a provider. Tables call an AS inside a path a provider.".into(),
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analysis::tests::small, report::analyse};

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn both_of_the_papers_years_are_named() {
        let report = analyse(&small(), &[]).report;
        let text = global_table(&report.families[0], false).to_text();
        for expected in ["24,436", "2010-10-05", "450,000", "2012", "94.6 %", "real"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let text = table_6_1(&report.families[0], true).to_text();
        assert!(text.contains("13,613") && text.contains("synthetic"), "{text}");
    }
}
