//! `treecast lab`.

mod run;

use clap::Subcommand;

use crate::Outcome;

/// Build a network of namespaces on this machine, and run experiments in it
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Report(run::ReportArgs),
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::Report(args) => run::report(args),
    }
}
