//! `treecast doctor`: whether multicast works on this host and between hosts, and if not, why and what to do.

mod beacon;
mod check;
mod glop;
mod listen;
mod trace;

use std::{error::Error, net::SocketAddr, time::Duration};

use treecast_doctor::{
    host,
    network::{self, Agent},
};
use treecast_host::{interface::Interface, quantity::times};

use crate::Outcome;

/// Find out why multicast does not work, and what to do about it
///
/// Without HOST it looks at this host. With hosts on which `treecast doctor listen` runs, it also tests what arrives between
/// all of them. Run it as root everywhere: it then sees firewalls, queriers, and what comes to an interface. The exit code is
/// 0 if all is well, and 3 if something is wrong or a HOST cannot be reached. It is 1 if nothing could be tested.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    check: check::Check,
}

/// How this host takes part.
#[derive(clap::Args)]
struct Host {
    /// The interface to test [default: that of the route to the first HOST, or the default route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// The UDP and TCP port of the tests. The same on all hosts
    #[arg(long, value_name = "PORT", default_value_t = network::PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The name of this host in findings [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The time to listen for queriers. Only as root, from 2.2s on
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = times(host::shortest_wait()..=Duration::from_secs(600)), allow_hyphen_values = true)]
    listen: Duration,
}

impl Host {
    fn name(&self) -> String {
        let of_node = || std::env::var("TREECAST_NODE").ok().filter(|node| !node.is_empty());
        let of_host =
            || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        self.name.clone().or_else(of_node).unwrap_or_else(of_host)
    }

    /// This host, ready for tests with hosts in this direction.
    fn agent(&self, towards: Option<SocketAddr>) -> Result<Agent, Box<dyn Error>> {
        let interface = match (&self.interface, towards) {
            (Some(name), _) => Interface::named(name)?,
            (None, Some(SocketAddr::V6(host))) if host.scope_id() != 0 => {
                Interface::numbered(host.scope_id())?
            }
            (None, towards) => Interface::by_route(towards.map(|host| host.ip()))?,
        };
        if towards.is_none() && self.interface.is_none() && interface.is_loopback {
            return Err("no interface to other hosts is up and has an address: bring one up, or name one with --interface".into());
        }
        Ok(Agent::new(self.name(), interface, self.port, self.listen))
    }
}

#[derive(clap::Subcommand)]
enum Command {
    Beacon(Box<beacon::Args>),
    Listen(listen::Args),
    Glop(glop::Args),
    Trace(trace::Args),
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        None => check::run(&args.check),
        Some(Command::Beacon(args)) => beacon::run(*args),
        Some(Command::Listen(args)) => listen::run(&args),
        Some(Command::Glop(args)) => glop::run(&args),
        Some(Command::Trace(args)) => trace::run(args),
    }
}
