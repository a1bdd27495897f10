//! `treecast mead plan`: computes the cost of groupings on a topology, without sending anything.

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;
use treecast_experiment::mead_plan::{self, Options, Participants, Row, UseCase};
use treecast_lab::Topology;

use crate::Outcome;

/// Compare the groupings by the bytes that they would put on a topology's links
///
/// Nothing is sent. Shares are relative to unicast. The last row of each group is the cost of IP multicast,
/// which no grouping can undercut.
#[derive(clap::Args)]
pub struct Args {
    /// The network. In the form that `treecast lab up` takes. testbed is the one of the MEADcast thesis
    #[arg(long, value_name = "SPEC", default_value = "testbed")]
    topology: String,
    /// A file that names senders and receivers. As labs/meadcast/participants.toml does [default: those of the
    /// MEADcast thesis in its testbed]
    #[arg(long, value_name = "FILE")]
    participants: Option<PathBuf>,
    /// Compute only this use case of the file
    #[arg(long, value_name = "NAME")]
    use_case: Option<String>,
    /// Receivers in each network
    #[arg(long, value_name = "N,...", default_value = "1,3,5", value_delimiter = ',')]
    receivers: Vec<usize>,
    /// The largest number of addresses in a packet [default: the use case's]
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    /// The data bytes in a datagram [default: those of the thesis, 1432 less 16 for each address]
    #[arg(long, value_name = "BYTES")]
    payload: Option<u16>,
    /// The routers that speak MEADcast. Names of their nodes [default: all]
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    support: Option<Vec<String>>,
    /// One JSON array instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let topology = Topology::parse(&args.topology)?;
    let all = match &args.participants {
        Some(file) => Participants::read(file)?,
        None => Participants::of_thesis()?,
    };
    let names: Vec<String> = all.use_cases.iter().map(|found| found.name.clone()).collect();
    let is_wanted = |name: &str| args.use_case.as_deref().is_none_or(|wanted| wanted == name);
    let use_cases: Vec<_> = all.use_cases.into_iter().filter(|found| is_wanted(&found.name)).collect();
    if use_cases.is_empty() {
        return Err(
            format!("there is no such use case: name one of {} with --use-case", names.join(", ")).into()
        );
    }
    let support = args.support.as_ref().map(|names| names.iter().cloned().collect());
    let options = Options { max: args.max, payload_bytes: args.payload.map(usize::from), support };
    let mut rows = Vec::new();
    for use_case in &use_cases {
        for count in &args.receivers {
            check_hosts(&topology, use_case, *count)?;
            rows.extend(mead_plan::plan(&topology, use_case, *count, &options)?);
        }
    }
    match args.json {
        true => say!("{}", serde_json::Value::from(rows.iter().map(as_json).collect::<Vec<_>>())),
        false => say!("{}", mead_plan::table(&rows, &use_cases).to_text().trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a use case whose hosts the topology does not have.
fn check_hosts(topology: &Topology, use_case: &UseCase, receivers: usize) -> Result<(), String> {
    let group = mead_plan::group_of(use_case, receivers);
    let is_there = |name: &String| topology.nodes.iter().any(|node| node.name == *name);
    match std::iter::once(&group.sender).chain(&group.receivers).find(|name| !is_there(name)) {
        None => Ok(()),
        Some(host) => Err(format!(
            "use case {} needs host {host}, which the topology does not have: take --topology testbed, fewer \
             --receivers, or name participants that the topology has with --participants",
            use_case.name
        )),
    }
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "use_case": row.use_case, "receivers_per_network": row.receivers_per_network, "receivers": row.receivers,
        "max": row.max, "delivery": row.share.delivery, "packets": row.share.packets, "unicast": row.share.unicast,
        "network_share": row.share.network_share, "sender_share": row.share.sender_share,
    })
}
