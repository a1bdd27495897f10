//! `treecast mast`: the programs of MAST, a stub with several providers (interdomain-2013, chapter 6).

use std::{
    collections::BTreeMap,
    net::Ipv6Addr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use serde::Serialize;
use treecast_host::{clock, stop::Stop};
use treecast_mast::run::{self, Event, HostConfig, Program, config::Config, status};

use crate::{Outcome, output::Lines};

/// Keep a network with several providers reachable, without its prefixes in the global routing tables (MAST).
///
/// Each host has an address of each provider. When the link to a provider fails, new connections avoid that provider's
/// addresses, and old ones go on through a tunnel. `srms`, `dhcp`, `dns` and `router` read the file of the stub network, and
/// `tms` reads the file of a provider. All of them run until SIGINT or SIGTERM, and print "ready" when they serve. docs/mast.md
/// shows how to set up a network.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch the access links, tell servers which prefixes are discouraged, and keep tunnels to providers
    ///
    /// Runs on the stub's router. Sets rules that choose the provider by a packet's source. Needs root.
    Srms(Common),
    /// Make the provider's ends of tunnels for stubs that ask for them
    ///
    /// Runs on the provider's router. Needs root.
    Tms(Common),
    /// Serve DHCPv6, and push the prefixes of a link to all of its hosts (mDHCPv6)
    Dhcp {
        #[command(flatten)]
        common: Common,
        /// The name of the [[dhcp]] section [default: the only one]
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
    },
    /// Answer for the stub's names: addresses are made of prefixes and interface identifiers (mDNS of MAST)
    ///
    /// This has nothing to do with multicast DNS.
    Dns(Common),
    /// Set the addresses of a router's own interfaces (mRCS)
    Router(Common),
    /// Tell an SRMS on another host by SNMP which interfaces of this router are up
    Watch(Common),
    /// Set the addresses of a host's interface, as an mDHCPv6 server tells
    ///
    /// Needs root, and no other DHCPv6 client for the interface.
    Host {
        /// The interface
        #[arg(value_name = "IF")]
        interface: String,
        /// The server's public key, by `treecast mast key`. Without it, any server's lease is taken, and no push is
        /// believed
        #[arg(long, value_name = "HEX")]
        server_key: Option<String>,
        /// The interface identifier to ask for. Such as ::80 [default: the server chooses]
        #[arg(long, value_name = "ID", value_parser = interface_id)]
        ifid: Option<u64>,
        /// One JSON event a line on standard output
        #[arg(long)]
        json: bool,
    },
    /// Say what the programs that run here know now
    ///
    /// Prefixes and their states, tunnels, leases, addresses, and the newest stamps and epochs. Asks each program that the file
    /// describes, as its user or as root.
    Status {
        /// The file that describes the stub network or the provider
        #[arg(value_name = "CONFIG", required_unless_present = "interface")]
        config: Option<PathBuf>,
        /// Ask the `host` of this interface
        #[arg(long, value_name = "IF")]
        interface: Option<String>,
        /// One JSON object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Remove the rules, routes and tunnels that `srms` or `tms` has left
    ///
    /// They stay when the programs end, so that connections go on over a restart. Providers are asked to remove their ends of
    /// tunnels. Neither program may be running.
    Clean {
        /// The file that describes the stub network or the provider
        #[arg(value_name = "CONFIG")]
        config: PathBuf,
    },
    /// Make a secret, if the file is not there, and print its public key
    ///
    /// The public key is for hosts, if the secret is the key of an mDHCPv6 server. Other secrets need none.
    Key {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Common {
    /// The file that describes the stub network or the provider
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    let (program, common) = match args.command {
        Command::Srms(common) => (Program::Srms, common),
        Command::Tms(common) => (Program::Tms, common),
        Command::Dhcp { common, server } => (Program::Dhcp(server), common),
        Command::Dns(common) => (Program::Dns, common),
        Command::Router(common) => (Program::Router, common),
        Command::Watch(common) => (Program::Watch, common),
        Command::Host { interface, server_key, ifid, json } => {
            let host = HostConfig { interface, server_key, ifid };
            let stop = Stop::on_signals()?;
            run::run_host(&host, &stop, &mut Display::new(json).teller())?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Status { config, interface, json } => return show(config.as_deref(), interface, json),
        Command::Clean { config } => {
            run::clean(&Config::read(&config)?, &mut Display::new(false).teller())?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Key { file } => {
            say!("{}", run::public_key(&run::make_key(&file)?));
            return Ok(ExitCode::SUCCESS);
        }
    };
    let config = Config::read(&common.config)?;
    let stop = Stop::on_signals()?;
    run::run(&program, &config, &stop, &mut Display::new(common.json).teller())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what each program knows.
fn show(config: Option<&Path>, interface: Option<String>, json: bool) -> Outcome {
    let mut programs = match config {
        Some(config) => run::ask_all(&Config::read(config)?)?,
        None => Vec::new(),
    };
    if let Some(interface) = interface {
        programs.push((format!("host {interface}"), status::ask(&status::address_of_host(&interface))?));
    }
    let names = || programs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if programs.iter().all(|(_, status)| status.is_none()) {
        return Err(format!("none of these programs runs in this network namespace: {}", names()).into());
    }
    if json {
        let mut lines = Lines::default();
        lines.add(&programs.into_iter().collect::<BTreeMap<_, _>>(), false);
        return Ok(ExitCode::SUCCESS);
    }
    for (name, status) in programs {
        match status {
            Some(status) => say!("{name}: {status}"),
            None => say!("{name}: does not run here"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn interface_id(text: &str) -> Result<u64, String> {
    let address: Option<Ipv6Addr> = text.parse().ok();
    let id = address.and_then(|address| u64::try_from(u128::from(address)).ok()).filter(|id| *id != 0);
    id.ok_or_else(|| "expected the lower half of an address, such as ::80".into())
}

/// Where events go.
enum Display {
    People,
    Programs(Lines),
}

/// An event, and the time at which it was told.
#[derive(Serialize)]
struct Line {
    /// Microseconds since 1970.
    time_us: u64,
    #[serde(flatten)]
    event: Event,
}

impl Display {
    fn new(json: bool) -> Self {
        if json { Self::Programs(Lines::default()) } else { Self::People }
    }

    fn teller(mut self) -> impl FnMut(Event) {
        move |event| match &mut self {
            Self::Programs(lines) => {
                let time_us = u64::try_from(clock::since_1970().as_micros()).unwrap_or(u64::MAX);
                lines.add(&Line { time_us, event }, false);
            }
            // Pushes repeat what is known.
            Self::People if matches!(event, Event::Push { .. }) => {}
            Self::People if is_trouble(&event) => remark!("treecast mast: {event}"),
            Self::People => say!("{event}"),
        }
    }
}

/// Whether somebody should look at it.
fn is_trouble(event: &Event) -> bool {
    matches!(
        event,
        Event::Dropped { .. }
            | Event::Failed { .. }
            | Event::NoAnswer { .. }
            | Event::TunnelRefused { .. }
            | Event::WrongTunnel { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_identifiers_are_lower_halves_of_addresses() {
        assert_eq!(interface_id("::80"), Ok(0x80));
        assert_eq!(interface_id("::1:2:3:4"), Ok(0x0001_0002_0003_0004));
        for wrong in ["80", "::", "2001:db8::1", ""] {
            assert!(interface_id(wrong).is_err(), "{wrong}");
        }
    }
}
