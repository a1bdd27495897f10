//! `treecast bench load`: how exactly and how fast the load generator sends. The measurements are in the crate bench.

use std::process::ExitCode;

use treecast_bench::load::{self, Scope};
use treecast_host::stop::Stop;

use crate::{Outcome, output};

/// Measure how exactly the load generator sends, and how fast beside iperf 2 and sockperf
///
/// Needs root, because it makes a network of namespaces (and removes it). Exit code 0: every figure is good enough; 3: some
/// are not; 1: the bench itself failed. Tools that are not installed are named and left out.
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each measurement. The medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    runs: u32,
    /// The seconds of each measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600), allow_negative_numbers = true)]
    seconds: u32,
    /// One JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let scope = Scope { runs: args.runs, seconds: args.seconds };
    let report = load::measure(&scope, Stop::on_signals()?, output::line)?;
    match args.json {
        true => say!("{}", report.as_json()),
        false => output::to_stdout(format_args!("{}", report.as_table())),
    }
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
