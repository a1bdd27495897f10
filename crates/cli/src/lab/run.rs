//! `treecast lab run` and `treecast lab report`.

use crate::Outcome;

/// Run an experiment file
#[derive(clap::Args)]
pub struct RunArgs {}

/// Write the report of a finished run
#[derive(clap::Args)]
pub struct ReportArgs {}

pub fn run(_args: RunArgs) -> Outcome {
    Err("not there yet".into())
}

pub fn report(_args: ReportArgs) -> Outcome {
    Err("not there yet".into())
}
