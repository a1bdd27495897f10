//! `treecast lab`.

use crate::Outcome;

/// (about)
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Outcome {
    todo!()
}
