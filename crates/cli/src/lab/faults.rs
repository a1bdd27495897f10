//! `treecast lab faults`: sessions in which things go wrong.

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;
use treecast_experiment::faults::{self, Order, Outcome as Played, Schedule};
use treecast_host::stop::Stop;
use treecast_lab::Options;

use crate::{Outcome, arguments::counted};

/// Play sessions with faults that are drawn from seeds: receivers and the sender are killed and started again,
/// cables cut, a disk filled, files dated wrongly, addresses changed, connections lost and routers restarted
///
/// Each seed plays a new session: a sender, a router, five receivers and 9.5 MB. Every receiver that runs at
/// the end must have every file right, and must not have fetched more than 2 % twice. Exit code: 0 when that is
/// so for all seeds; 3 when not.
#[derive(clap::Args)]
pub struct FaultsArgs {
    /// The number of seeds to play
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u64,
    /// The first seed; the others follow
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// Folder for the files and logs of failed sessions
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the faults of each session
    #[arg(long, conflicts_with = "json")]
    verbose: bool,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

pub fn run(args: FaultsArgs) -> Outcome {
    let stop = Stop::on_signals()?;
    let order = Order {
        first: args.first,
        seeds: args.seeds,
        treecast: std::env::current_exe()?,
        out: args.out,
        options: Options::default(),
    };
    let (mut played, mut failed, mut twice) = (0, 0, 0.0_f64);
    let mut tell = |schedule: &Schedule, outcome: &Played| {
        played += 1;
        failed += u64::from(!outcome.failures.is_empty());
        twice = twice.max(outcome.twice);
        if args.json {
            say!("{}", as_json(schedule, outcome));
            return;
        }
        let (seed, share) = (schedule.seed, outcome.twice * 100.0);
        if !outcome.failures.is_empty() {
            say!("seed {seed} failed: {} [{schedule}]", outcome.failures.join("; "));
        } else if args.verbose {
            say!("seed {seed}: right, at most {share:.2} % fetched twice [{schedule}]");
        }
    };
    faults::run(&order, &mut tell, &|| stop.is_requested())?;
    if !args.json {
        say!(
            "{} played, {failed} failed; at most {:.2} % was fetched twice",
            counted(played as usize, "schedule"),
            twice * 100.0
        );
    }
    if stop.is_requested() {
        return Err("interrupted: the lab is taken down again".into());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn as_json(schedule: &Schedule, outcome: &Played) -> serde_json::Value {
    let faults: Vec<_> = schedule
        .faults
        .iter()
        .map(|(at, fault)| json!({"seconds": at.as_secs_f64(), "fault": fault.to_string()}))
        .collect();
    json!({
        "seed": schedule.seed,
        "repair": schedule.repair.join(" "),
        "faults": faults,
        "fetched_twice_share": outcome.twice,
        "failures": outcome.failures,
    })
}
