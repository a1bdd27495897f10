//! `treecast bench`: what a byte costs, beside what the machine could do and what uftp does.
//!
//! Everything is measured in one network of namespaces (a sender and receivers on a bridge, veth at full speed)
//! and in memory-backed files:
//!
//! - the *floor*: the three things that no delivery can do without, each alone: a byte through
//!   super-packet sockets to all receivers, a byte written to a file by each, a byte hashed by each. Their
//!   times added up are what the machine can do;
//! - *treecast*: the two commands as a user starts them, back to back with the floor, plain and secure;
//! - many small files beside one large one of the same size;
//! - a session that is attacked beside one that is not;
//! - *uftp* (Debian's), at the best of several rates at which it serves everyone;
//! - memory: a file of eight times the size to one receiver, sampled.

mod attack;
mod crew;
mod floor;
mod memory;
mod ours;
mod report;
mod router;
mod small;
mod stage;
mod uftp;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use treecast_driver::stop::Stop;

use crate::{Outcome, output};
use ours::Delivery;
use report::{Report, Run};
use stage::Stage;

/// Measure goodput against what this machine can do and against uftp
///
/// Needs root (it makes network namespaces, and removes them) and memory for a copy of the file at each receiver.
/// Exit code 0: all is as it is wanted; 3: not so; 1: the bench itself failed.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Receivers on the bridge
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    receivers: u32,
    /// Size of the file in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    size: u64,
    /// How many times floor and treecast are measured; the medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
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
    /// Nothing but many small files beside one large one
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
    /// One process of a measurement; what it takes is up to `worker`
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    worker: Vec<String>,
}

#[derive(clap::Subcommand)]
enum Command {
    Router(router::Args),
}

impl Args {
    /// Without what one part alone leaves out.
    fn narrowed(mut self) -> Self {
        if self.only_small {
            (self.no_uftp, self.no_memory, self.no_attack) = (true, true, true);
        }
        self
    }
}

pub fn run(args: Args) -> Outcome {
    if let Some(Command::Router(args)) = &args.command {
        return router::run(args);
    }
    if !args.worker.is_empty() {
        worker::run(&args.worker)?;
        return Ok(ExitCode::SUCCESS);
    }
    let args = args.narrowed();
    check(&args)?;
    if !args.no_uftp {
        uftp::check()?;
    }
    let report = measure(&args)?;
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
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// All that was asked for; what was set up for it is gone when this returns.
fn measure(args: &Args) -> stage::Result<Report> {
    let stop = Stop::on_signals()?;
    let bytes = args.size * 1024 * 1024;
    let stage = Stage::set(args.receivers, bytes, &args.folder, stop)?;
    let mut report = Report::new(args.receivers, bytes);
    measure_whole_runs(args, &stage, &mut report)?;
    if !args.no_small {
        let sources = small::Sources::fill(&stage)?;
        for number in 1..=args.runs {
            remark!("run {number} of {}: small files", args.runs);
            report.small.push(small::measure(&stage, &sources)?);
        }
    }
    if !args.no_attack && attack::is_possible(&stage) {
        for number in 1..=args.runs {
            remark!("run {number} of {}: under attack", args.runs);
            report.attacks.push(attack::measure(&stage)?);
        }
    }
    if !args.no_uftp {
        remark!("uftp");
        report.uftp = Some(uftp::measure(&stage)?);
    }
    if !args.no_memory {
        remark!("memory");
        report.large = Some(memory::measure(&stage)?);
    }
    Ok(report)
}

/// One large file: the floor, a plain session and a secure one.
fn measure_whole_runs(args: &Args, stage: &Stage, report: &mut Report) -> stage::Result<()> {
    remark!("warming up");
    let plain = Delivery { source: &stage.source, receivers: args.receivers, plain: true };
    let secure = Delivery { plain: false, ..plain };
    ours::measure(stage, plain)?;
    let runs = if args.only_small { 0 } else { args.runs };
    for number in 1..=runs {
        remark!("run {number} of {}: floor", args.runs);
        let floor = floor::measure(stage)?;
        remark!("run {number} of {}: treecast", args.runs);
        let ours = ours::measure(stage, plain)?;
        let secure = ours::measure(stage, secure)?;
        report.runs.push(Run { floor, ours, secure });
    }
    Ok(())
}

/// What would only be found out after minutes.
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
