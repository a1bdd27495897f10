//! The summary of an experiment for the terminal.

use std::path::Path;

use serde::Serialize;
use treecast_experiment::{Bound, Failure, Preview, Refusal, Results};
use treecast_measure::{
    claim::{Finding, Verdict},
    tables::{Cell, Mark, Table},
};

use super::progress::span;
use crate::arguments::counted;

/// The largest number of failures that are listed one by one.
const MAX_FAILURES: usize = 40;

/// Prints the failures and the results.
pub fn print(results: &Results, report: &Path) {
    if !results.failures.is_empty() {
        say!("{}", failures_table(&results.failures).to_text());
    }
    if !results.refused.is_empty() {
        say!("{}", refusals_table(&results.refused).to_text());
    }
    if !results.thresholds.is_empty() {
        say!("{}", thresholds_table(&results.thresholds).to_text());
    }
    if !results.findings.is_empty() {
        say!("{}", findings_table(&results.findings).to_text());
    }
    say!("{} of {} runs: every client has all that it was to get", results.whole_runs, results.runs);
    if results.interrupted {
        say!("stopped early; a run that was under way is marked as cut short");
    }
    say!("{}", report.display());
}

/// Prints the plan of an experiment.
pub fn print_preview(preview: &Preview) {
    for run in &preview.runs {
        say!("{run}");
    }
    for line in &preview.left_out {
        say!("left out: {line}");
    }
    say!("{}, about {}", counted(preview.runs.len(), "run"), span(preview.estimate));
}

/// The last JSON event.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
pub struct Done<'a> {
    #[serde(flatten)]
    pub results: &'a Results,
    pub report: &'a Path,
}

/// A table of the runs that treecast refused, with its reasons.
fn refusals_table(refused: &[Refusal]) -> Table {
    let mut table = Table::new("Refused by the program", &["<RUN", "<WHY"]);
    table.rows.extend(refused.iter().map(|one| vec![one.run.as_str().into(), one.reason.as_str().into()]));
    table
}

/// A table of thresholds beside what the links allow.
fn thresholds_table(found: &[Bound]) -> Table {
    let mut table =
        Table::new("Thresholds", &["<RUN", "BORNE", "LINKS ALLOW", "SHARE", "NOT BORNE", "<GAVE IN"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    for bound in found {
        let share = bound.threshold.zip(bound.predicted).map(|(borne, predicted)| borne / predicted);
        let share = share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let limits = bound.limits.join("; ");
        table.rows.push(vec![
            bound.run.as_str().into(),
            match bound.threshold {
                Some(_) => number(bound.threshold).into(),
                None => Cell::marked("none", Mark::Warning),
            },
            number(bound.predicted).into(),
            share.into(),
            number(bound.broke).into(),
            if bound.machine_limited { Cell::marked(limits, Mark::Warning) } else { limits.into() },
        ]);
    }
    table.notes.push("Rates are packets/s of each sender. `Links allow` is the rate of the first full link / (frames of each packet on it x frame length).".into());
    if found.iter().any(|bound| bound.machine_limited) {
        table.notes.push("Where this machine gave in, the network bears more.".into());
    }
    table
}

fn failures_table(failures: &[Failure]) -> Table {
    let mut table = Table::new("Clients without all that they were to get", &["<RUN", "<CLIENT", "<WHY"]);
    for failure in failures.iter().take(MAX_FAILURES) {
        table.rows.push(vec![
            failure.run.as_str().into(),
            failure.node.as_str().into(),
            failure.reason.as_str().into(),
        ]);
    }
    if failures.len() > MAX_FAILURES {
        table.notes.push(format!("and {} more", failures.len() - MAX_FAILURES));
    }
    table
}

fn findings_table(findings: &[Finding]) -> Table {
    let mut table = Table::new("Claims", &["<CLAIM", "<CELL", "MEASURED", "<LIMIT", "<HOLDS"]);
    for finding in findings {
        let holds = match finding.verdict {
            Verdict::Holds => Cell::marked("yes", Mark::Good),
            Verdict::Fails => Cell::marked("NO", Mark::Warning),
            Verdict::NotJudged => "not judged".into(),
        };
        table.rows.push(vec![
            finding.says.as_str().into(),
            finding.cell.as_str().into(),
            finding.measured.as_str().into(),
            finding.limit.as_str().into(),
            holds,
        ]);
    }
    table
}
