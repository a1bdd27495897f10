//! `treecast sim`.

use clap::Subcommand;

use crate::{Outcome, lab};

/// Run experiments in virtual time, in a simulated network
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(lab::SimulateArgs),
}

pub fn run(Args { command: Command::Run(args) }: Args) -> Outcome {
    lab::simulate(args)
}
