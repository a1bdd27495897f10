//! `treecast doctor glop`: the multicast groups of an autonomous system.

use std::process::ExitCode;

use treecast_doctor::glop;

use crate::Outcome;

/// Print the 256 IPv4 groups that an autonomous system has without asking anybody (GLOP, RFC 3180)
#[derive(clap::Args)]
pub struct Args {
    /// Number of the autonomous system, 1 to 64511
    #[arg(value_name = "NUMBER")]
    number: u32,
}

pub fn run(args: &Args) -> Outcome {
    say!("{}/24", glop::block(args.number)?);
    Ok(ExitCode::SUCCESS)
}
