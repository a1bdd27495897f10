//! `treecast load`: multicast traffic between hosts, and what becomes of it.

mod combine;
mod run;

use treecast_measure::tables::Table;

use crate::{Outcome, lab, output};

/// Send and receive multicast traffic, and tell what is lost, reordered, copied and late
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Combine(combine::Args),
    Threshold(lab::ThresholdArgs),
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Run(args) => run::run(*args),
        Command::Combine(args) => combine::run(&args),
        Command::Threshold(args) => lab::threshold(args),
    }
}

/// Prints tables with an empty line between them.
fn show(tables: &[Table]) {
    let texts: Vec<_> = tables.iter().map(Table::to_text).collect();
    output::to_stdout(format_args!("{}", texts.join("\n")));
}
