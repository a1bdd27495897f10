//! `treecast doctor trace`: the routers between this host and a sender.

use std::{net::IpAddr, process::ExitCode, time::Duration};

use treecast_doctor::trace::{self, HopReport, Options, Report};
use treecast_host::stop::Stop;

use crate::{Outcome, arguments, mroute::table};

/// The exit code of a trace that has found something wrong.
const WRONG: u8 = 3;

/// Print the routers that a group's packets pass on their way to this host, the nearest first (Mtrace2, RFC 8487)
///
/// `treecast mroute` answers, and so do routers of other makers that know Mtrace2. This host joins the group meanwhile,
/// so that routers forward it. Each router says how many packets it has forwarded; a second query, a second later,
/// shows rates and losses. Exit code 3: the trace has not reached the source, or a router does not forward.
#[derive(clap::Args)]
pub struct Args {
    /// The multicast group, like ff15::42 or 239.1.2.3
    #[arg(value_name = "GROUP", value_parser = arguments::address)]
    group: IpAddr,
    /// The sender [default: one whose packets arrive here within 3 s, which needs root]
    #[arg(value_name = "SOURCE", value_parser = arguments::address)]
    source: Option<IpAddr>,
    /// The interface where the group is to be heard [default: the one of the route to SOURCE]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Ask this router on this host's network [default: all routers there]
    #[arg(long, value_name = "ADDR", value_parser = arguments::address)]
    router: Option<IpAddr>,
    /// Do not join the group
    #[arg(long)]
    no_join: bool,
    /// The largest number of routers to pass. From 1 to 255
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u8).range(1..))]
    max_hops: u8,
    /// The time to wait for each reply. From 1s on
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = arguments::duration, allow_hyphen_values = true)]
    timeout: Duration,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    let stop = Stop::on_signals()?;
    let options = Options {
        group: args.group,
        source: args.source,
        interface: args.interface,
        router: args.router,
        joins: !args.no_join,
        most_hops: args.max_hops,
        patience: args.timeout,
    };
    let report = trace::run(&options, &|| stop.is_requested())?;
    match args.json {
        true => say!("{}", serde_json::to_string(&report)?),
        false => print(&report),
    }
    Ok(if report.is_whole { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

fn print(report: &Report) {
    let source = report.source.map_or("any source".to_owned(), |source| source.to_string());
    say!("{} from {source}, seen from {} ({})", report.group, report.client, report.interface);
    table(
        ["HOP", "ROUTER", "FROM", "IN", "OUT", "PROTOCOL", "LIMIT", "PACKETS", "PER SECOND", "LOSS", "CODE"],
        report.hops.iter().map(row),
    );
    for hop in report.hops.iter().filter(|hop| hop.code != "NO_ERROR") {
        say!("router {} {}", hop.hop, hop.meaning);
    }
    say!("{}", report.end);
}

fn row(hop: &HopReport) -> [String; 11] {
    [
        hop.hop.to_string(),
        shown(hop.router),
        shown(hop.upstream),
        shown(hop.incoming.as_ref()),
        shown(hop.outgoing.as_ref()),
        hop.protocol.clone(),
        shown(hop.hop_limit),
        shown(hop.packets),
        shown(hop.packets_per_second.map(|rate| format!("{rate:.1}"))),
        shown(hop.loss.map(|loss| format!("{:.1} %", loss * 100.0))),
        hop.code.clone(),
    ]
}

fn shown(value: Option<impl std::fmt::Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}
