//! What an experiment has found, for the terminal.

use std::path::Path;

use serde_json::json;
use treecast_experiment::{Failure, Finding, Preview, Results, Size};
use treecast_measure::tables::{Cell, Mark, Table};

use super::progress::span;
use crate::arguments::counted;

/// The most failures that are listed one by one.
const MAX_FAILURES: usize = 40;

/// Prints what failed, and what was shown.
pub fn print(results: &Results, report: &Path) {
    if !results.failures.is_empty() {
        say!("{}", failures_table(&results.failures, results.by_time).to_text());
    }
    if !results.findings.is_empty() {
        say!("{}", findings_table(&results.findings).to_text());
    }
    let what = if results.by_time { "every flow ran to its end" } else { "every client has a verified copy" };
    say!("{} of {} runs: {what}", results.whole_runs, results.runs);
    if results.interrupted {
        say!("stopped early; a run that was under way is marked as cut short");
    }
    say!("{}", report.display());
}

/// Prints what an experiment will do.
pub fn print_preview(preview: &Preview) {
    for run in &preview.runs {
        say!("{run}");
    }
    for line in &preview.left_out {
        say!("left out: {line}");
    }
    say!("{}, about {}", counted(preview.runs.len(), "run"), span(preview.estimate));
}

pub fn preview_as_json(preview: &Preview) -> serde_json::Value {
    let Preview { runs, estimate, left_out } = preview;
    json!({"event": "planned", "runs": runs, "estimate_seconds": estimate.as_secs_f64(), "left_out": left_out})
}

/// Prints the last JSON event.
pub fn print_json(results: &Results, report: &Path) {
    let done = json!({
        "event": "done", "runs": results.runs, "whole_runs": results.whole_runs, "failures": results.failures,
        "findings": results.findings, "interrupted": results.interrupted, "report": report,
    });
    say!("{done}");
}

fn failures_table(failures: &[Failure], by_time: bool) -> Table {
    let title =
        if by_time { "Flows that did not run to their end" } else { "Clients without a verified copy" };
    let mut table = Table::new(title, &["<RUN", "<CLIENT", "<WHY"]);
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
    let mut table = Table::new("Claims", &["<CLAIM", "SIZE", "MEASURED", "<LIMIT", "<HOLDS"]);
    for finding in findings {
        let (holds, mark) = if finding.holds { ("yes", Mark::Good) } else { ("NO", Mark::Warning) };
        table.rows.push(vec![
            finding.says.as_str().into(),
            Size(finding.size_bytes).to_string().into(),
            finding.measured().into(),
            finding.limit().into(),
            Cell::marked(holds, mark),
        ]);
    }
    table
}
