//! `treecast doctor listen`: takes part in the runs of a doctor on another host.

use std::process::ExitCode;

use treecast_doctor::network;

use super::{Host, Outcome};

/// Take part in the tests of a doctor on another host, until Ctrl-C
///
/// The doctor connects to this host's TCP port. This host then joins groups, sends a bounded number of packets to groups
/// and to the doctor, and says what arrives. It sends to nobody else.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    host: Host,
}

pub fn run(args: &Args) -> Outcome {
    let agent = args.host.agent(None)?;
    remark!("listening at TCP and UDP port {}; Ctrl-C ends it", args.host.port);
    network::serve(agent, args.host.port, |asker| remark!("a run of {asker}"))?;
    Ok(ExitCode::SUCCESS)
}
