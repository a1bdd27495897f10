//! `treecast mroute`: the multicast routing daemon, and a look at the one that runs.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use treecast_dataplane::mroute::{self, Config, Family, Notice, Status};

use crate::Outcome;

/// Route multicast between this host's networks, or show what the running router does.
///
/// Asks every network who listens to what (MLDv2, IGMPv3), joins towards the senders, and has the kernel
/// forward. Prints "ready" when it serves, and stops at SIGINT or SIGTERM.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Route between these interfaces only (may be repeated) [default: all that are up]
    #[arg(long = "interface", value_name = "IF")]
    interfaces: Vec<String>,
    /// Where senders to any-source groups are reached; be only a host there, and forward to the networks
    /// where this router is the querier. Needed where the network has loops, on every router: without, packets
    /// still come only by the route to their sender, but hosts may get copies, and a group in which nothing was
    /// ever sent stays joined [default: a sender may be behind any interface; the router learns where loops are]
    #[arg(long, value_name = "IF")]
    upstream: Option<String>,
    /// Time between two queries for listeners, from 1s to 31744s
    #[arg(long, value_name = "TIME", default_value = "125s", value_parser = query_interval)]
    query_interval: Duration,
    #[command(flatten)]
    control: Control,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show interfaces, queriers, listeners and forwarding entries of the running router
    Show {
        /// One JSON object instead of tables
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: Control,
    },
}

#[derive(clap::Args)]
struct Control {
    /// The control socket [default: one for each network namespace]
    #[arg(long = "control", value_name = "PATH")]
    path: Option<PathBuf>,
}

pub fn run(args: Args) -> Outcome {
    if let Some(Command::Show { json, control }) = args.command {
        let status = mroute::show(control.path.as_deref())?;
        match json {
            true => say!("{}", serde_json::to_string(&status)?),
            false => print_status(&status),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config {
        interfaces: args.interfaces,
        upstream: args.upstream,
        query_interval: args.query_interval,
        control: args.control.path,
    };
    mroute::run(&config, &mut |notice| match notice {
        Notice::Ready => say!("ready"),
        Notice::Warning(warning) => remark!("treecast mroute: {warning}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// "125s", "2500ms" or "125".
fn query_interval(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "a time from 1s to 31744s, as in 125s or 2500ms";
    let (number, unit_millis) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    let millis = number.parse().ok().and_then(|number: u64| number.checked_mul(unit_millis));
    let millis = millis.filter(|millis| (1_000..=31_744_000).contains(millis)).ok_or(EXPECTED)?;
    Ok(Duration::from_millis(millis))
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
    if family.refused > 0 {
        say!("No room for {} groups, sources or entries.", family.refused);
    }
    for (reason, count) in &family.dropped {
        say!("Messages dropped, {reason}: {count}.");
    }
    say!("");
}

/// Prints rows under their headings, in columns as wide as their widest cell; nothing when there are none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_intervals() {
        assert_eq!(query_interval("125s"), Ok(Duration::from_secs(125)));
        assert_eq!(query_interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(query_interval("1500ms"), Ok(Duration::from_millis(1500)));
        for wrong in ["0", "999ms", "31745s", "-1", "", "s", "1h", "99999999999999999999s"] {
            assert!(query_interval(wrong).is_err(), "{wrong}");
        }
    }
}
