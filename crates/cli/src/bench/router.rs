//! `treecast bench router`: the speed of the MEADcast router, beside the kernel's own forwarding. The
//! measurements are in the crate bench.

use std::{process::ExitCode, time::Duration};

use treecast_bench::router::{self, Scope};
use treecast_host::{quantity::times, stop::Stop};

use crate::{Outcome, output};

/// Measure the MEADcast router against the kernel's own forwarding
///
/// Needs root, because it makes a network of namespaces (and removes it). Takes about 25 s a run. Exit code 0:
/// every figure is good enough; 3: some are not; 1: the bench itself failed.
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each measurement. The medians count
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    runs: u32,
    /// Seconds of a measurement
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = times(Duration::from_millis(10)..=Duration::from_secs(60)), allow_hyphen_values = true)]
    seconds: Duration,
    /// The number of receivers. Each is on a link of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=31), allow_negative_numbers = true)]
    receivers: u32,
    /// Measure the router in user space, too
    #[arg(long)]
    user_space: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let Args { runs, seconds, receivers, user_space, json } = *args;
    let scope = Scope { runs, slice: seconds, receivers, user_space };
    let report = router::measure(&scope, Stop::on_signals()?, output::line)?;
    match json {
        true => say!("{}", report.as_json()),
        false => output::to_stdout(format_args!("{}", report.as_table())),
    }
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
