//! `treecast mroute`: the multicast routing daemon, and a command that shows the state of the running one.

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf, process::ExitCode, time::Duration};

use treecast_dataplane::mroute::{self, Config, Family, Notice, Status};
use treecast_host::quantity::times;

use crate::Outcome;

/// The times for which the kernel can go on forwarding.
const KEEP: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

/// Route multicast between this host's networks, or show what the running router does.
///
/// Asks the hosts of every network which groups they listen to (MLDv2, IGMPv3), joins these groups towards the
/// senders, and has the kernel forward. Prints "ready" when it serves. SIGINT stops it. SIGTERM stops it, too,
/// but the kernel goes on forwarding for the time of --keep, so that a restart loses no packet.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Route between these interfaces only (may be repeated) [default: all that are up]
    #[arg(long = "interface", value_name = "IF")]
    interfaces: Vec<String>,
    /// The interface towards senders. It is for any-source groups. This router then acts as a host there, and
    /// forwards to the networks where it is the querier. If the networks have loops, every router needs this
    /// option. Without it, packets still come only by the route to their sender, but hosts may get copies, and
    /// a group in which nothing was ever sent stays joined [default: a sender may be behind any interface; the
    /// router learns where loops are]
    #[arg(long, value_name = "IF")]
    upstream: Option<String>,
    /// Give each sender a tree of its own. This is for networks with loops and any-source groups: a tree goes by the routes to its
    /// sender, as DVMRP does. Every router needs this option. A new sender's first packets reach all routers, which then
    /// refuse it where its packets come by another way. This works for 64 senders of a group; of further ones,
    /// hosts between two routers may get copies. Groups stay joined between the routers of a loop until
    /// the routers end
    #[arg(long, conflicts_with = "upstream")]
    source_trees: bool,
    /// Time between two queries. They look for listeners. From 1s to 31744s
    #[arg(long, value_name = "TIME", default_value = "125s", value_parser = times(Duration::from_secs(1)..=Duration::from_secs(31_744)), allow_hyphen_values = true)]
    query_interval: Duration,
    /// Groups for each interface. So many, 1 to 65536, are served for the hosts on it. Sources and
    /// forwarding entries are limited in proportion. When all are used, each host gets its share
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_groups: u32,
    /// Forward for so long after the end. The kernel does it after SIGTERM or SIGKILL, up to 600s. A `treecast
    /// mroute` that starts in this time takes over without a gap. 0s ends forwarding at once
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = times(KEEP))]
    keep: Duration,
    /// Refuse traces. `treecast doctor trace` (Mtrace2) gets only "prohibited". Without this option, hosts on this
    /// router's links can see the addresses of routers between them and a sender
    #[arg(long)]
    no_trace: bool,
    #[command(flatten)]
    control: Control,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Hold the sockets of a daemon that ends; the daemon starts this itself
    #[command(hide = true)]
    Keep {
        #[arg(long, value_parser = times(KEEP))]
        time: Duration,
    },
    /// Show interfaces, queriers, listeners and forwarding entries of the running router
    Show {
        /// One JSON object instead of tables
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: Control,
    },
}

/// Where a routing daemon is reached.
#[derive(clap::Args)]
pub struct Control {
    /// The control socket [default: one for each network namespace]
    #[arg(long = "control", value_name = "PATH")]
    pub path: Option<PathBuf>,
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Show { json, control }) => {
            let status = mroute::show(control.path.as_deref())?;
            if json {
                say!("{}", serde_json::to_string(&status)?)
            } else {
                print_status(&status)
            }
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Keep { time }) => {
            mroute::keep(time)?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    // Even if the file was replaced, this is the running program.
    let keeper = ["/proc/self/exe", "mroute", "keep", "--time", &format!("{}ms", args.keep.as_millis())];
    let config = Config {
        interfaces: args.interfaces,
        upstream: args.upstream,
        source_trees: args.source_trees,
        query_interval: args.query_interval,
        max_groups: args.max_groups as usize,
        prohibits_traces: args.no_trace,
        keeper: (!args.keep.is_zero()).then(|| keeper.map(OsString::from).to_vec()),
        control: args.control.path,
    };
    mroute::run(&config, &mut |notice| match notice {
        Notice::Ready => say!("ready"),
        Notice::Warning(warning) => remark!("treecast mroute: {warning}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_status(status: &Status) {
    for (name, family) in [("IPv6", &status.ipv6), ("IPv4", &status.ipv4)] {
        if let Some(family) = family {
            print_family(name, family);
        }
    }
}

fn print_family(name: &str, family: &Family) {
    let interfaces = family.interfaces.iter().map(|interface| {
        let querier = match (interface.querier, interface.querier_expires_s) {
            (None, _) => "- (upstream)".to_owned(),
            (Some(_), None) => "this router".to_owned(),
            (Some(other), Some(seconds)) => format!("{other} (for {seconds} s)"),
        };
        [interface.name.clone(), interface.address.to_string(), querier]
    });
    table(["INTERFACE", name, "QUERIER"], interfaces);
    let listeners = family.interfaces.iter().flat_map(|interface| {
        interface.groups.iter().map(|group| {
            let expires = format!("{} s", group.expires_s);
            [interface.name.clone(), group.group.to_string(), group.filter.to_string(), expires]
        })
    });
    table(["LISTENERS ON", "GROUP", "SOURCES", "EXPIRES IN"], listeners);
    let listening = family.listening.iter();
    let listening =
        listening.map(|own| [own.interface.clone(), own.group.to_string(), own.filter.to_string()]);
    table(["LISTENS ITSELF ON", "GROUP", "SOURCES"], listening);
    let entries = family.entries.iter().map(|entry| {
        let to = if entry.to.is_empty() { "-".to_owned() } else { entry.to.join(" ") };
        let (packets, bytes) = (entry.packets.to_string(), entry.bytes.to_string());
        [entry.source.to_string(), entry.group.to_string(), entry.from.clone(), to, packets, bytes]
    });
    table(["SOURCE", "GROUP", "FROM", "TO", "PACKETS", "BYTES"], entries);
    for interface in &family.interfaces {
        if let Some(room) = interface.room.as_ref().filter(|room| room.is_full) {
            let largest = room.largest_host.map(|host| host.to_string()).unwrap_or_default();
            say!(
                "{} is full: {} groups of at most {} (--max-groups), {} sources of at most {}; {largest} has most, {} groups.",
                interface.name,
                interface.groups.len(),
                room.max_groups,
                room.sources,
                room.max_sources,
                room.largest_host_groups
            );
        }
    }
    if family.refused > 0 {
        say!("No room for {} groups, sources or entries.", family.refused);
    }
    for (reason, count) in &family.dropped {
        say!("Messages dropped, {reason}: {count}.");
    }
    say!("");
}

/// Prints rows below their headings, in columns as wide as their widest cell. Prints nothing if there are no
/// rows.
pub fn table<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let print = |row: [&str; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        say!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    };
    print(headings);
    rows.iter().for_each(|row| print(std::array::from_fn(|column| row[column].as_str())));
}
