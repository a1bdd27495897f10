//! `treecast load combine`: the results of several hosts in one.

use std::{path::PathBuf, process::ExitCode};

use treecast_load::{
    combine::{check, combine},
    report::{HostReport, VERSION},
    tables,
};

use super::show;
use crate::Outcome;

/// Join the results of several hosts: who heard whom, and where packets were lost
///
/// Exit code 0: every expected host has told its results and could send what was asked; 3: not so; 1: an error.
#[derive(clap::Args)]
pub struct Args {
    /// Files that `treecast load run --out` or `--json` wrote, one for each host
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The name of a host that took part; without a file of it, it is marked (may be repeated)
    #[arg(long, value_name = "HOST")]
    expect: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let reports = args.files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    check(&reports)?;
    let combined = combine(&reports, &args.expect);
    match args.json {
        true => say!("{}", serde_json::to_string(&combined)?),
        false => show(&tables::combined_tables(&combined)),
    }
    for host in &combined.hosts {
        host.warnings.iter().for_each(|warning| remark!("treecast: {}: {warning}", host.host));
    }
    let is_whole = combined.hosts.iter().all(|host| host.has_reported && host.is_met);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn read(path: &PathBuf) -> Result<HostReport, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let wrong = |error| format!("{name} is no result of `treecast load run`: {error}");
    let report: HostReport = serde_json::from_str(&text).map_err(wrong)?;
    match report.version {
        VERSION => Ok(report),
        other => Err(format!(
            "{name} has version {other}, and this treecast reads {VERSION}: use one version on all hosts"
        )),
    }
}
