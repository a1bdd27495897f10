//! The summary of an experiment for the terminal.

use std::path::Path;

use serde::Serialize;
use treecast_experiment::{Failure, Preview, Refusal, Results};
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
