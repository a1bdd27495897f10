//! `treecast bench`: goodput, beside what the machine can do and beside uftp. The measurements are in the crate
//! bench.

mod fleet;
mod load;
mod router;

use std::{path::PathBuf, process::ExitCode};

use treecast_bench::{Report, Scope};
use treecast_host::{quantity::sizes_bytes, stop::Stop, user};

use crate::{Outcome, output};

/// Measure goodput against what this machine can do and against uftp
///
/// Needs root, because it makes network namespaces (and removes them). Needs memory for a copy of the file at
/// each receiver. Exit code 0: every figure is good enough; 3: some are not; 1: the bench itself failed.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Receivers on the bridge
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    receivers: u32,
    // The largest is what /dev/shm of a large machine may hold, with a copy at each receiver.
    /// Size of the file, like 64M
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes_bytes(1 << 20..=1 << 40), allow_hyphen_values = true)]
    size: u64,
    /// How many times each is measured. That is the floor and treecast; the medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    runs: u32,
    /// Leave out uftp
    #[arg(long)]
    no_uftp: bool,
    /// Leave out the run with the file of eight times the size
    #[arg(long)]
    no_memory: bool,
    /// Leave out the runs with many small files
    #[arg(long)]
    no_small: bool,
    /// Measure only many small files beside one large file
    #[arg(long, conflicts_with = "no_small")]
    only_small: bool,
    /// Leave out the sessions that are attacked (they take four receivers)
    #[arg(long)]
    no_attack: bool,
    /// A memory-backed folder for the files
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    folder: PathBuf,
    /// One JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Write the JSON object to this file, too
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Run one process of a measurement; `treecast bench` starts it with arguments for `worker`
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    worker: Vec<String>,
}

#[derive(clap::Subcommand)]
enum Command {
    Fleet(fleet::Args),
    Router(router::Args),
    Load(load::Args),
}

impl Args {
    fn scope(&self) -> Scope {
        let all = !self.only_small;
        Scope {
            receivers: self.receivers,
            bytes: self.size,
            runs: self.runs,
            folder: self.folder.clone(),
            whole: all,
            small: !self.no_small,
            attack: all && !self.no_attack,
            uftp: all && !self.no_uftp,
            memory: all && !self.no_memory,
        }
    }
}

pub fn run(args: Args) -> Outcome {
    // This one needs no network of its own.
    if let Some(Command::Fleet(args)) = &args.command {
        return fleet::run(args);
    }
    if !user::is_root() {
        return Err("a bench makes network namespaces, which needs root: run it with sudo".into());
    }
    match &args.command {
        Some(Command::Router(args)) => return router::run(args),
        Some(Command::Load(args)) => return load::run(args),
        Some(Command::Fleet(_)) | None => {}
    }
    if !args.worker.is_empty() {
        treecast_bench::work(&args.worker)?;
        return Ok(ExitCode::SUCCESS);
    }
    check(&args)?;
    let report = treecast_bench::measure(&args.scope(), Stop::on_signals()?, output::line)?;
    show(&args, &report)?;
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    let json = report.as_json();
    if let Some(path) = &args.out {
        let failed = |error| format!("cannot write {}: {error}", path.display());
        std::fs::write(path, format!("{json:#}\n")).map_err(failed)?;
    }
    if args.json {
        say!("{json}");
    } else {
        output::to_stdout(format_args!("{}", report.as_table()));
    }
    Ok(())
}

/// Refuses arguments that would otherwise fail only after minutes.
fn check(args: &Args) -> Result<(), String> {
    if !args.folder.is_dir() {
        let folder = args.folder.display();
        return Err(format!("{folder} is no folder: name a memory-backed one that is there with --folder"));
    }
    let Some(out) = &args.out else { return Ok(()) };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if out.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(format!(
            "cannot write {}: name a file in a folder that is there with --out",
            out.display()
        ));
    }
    Ok(())
}
