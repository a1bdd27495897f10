//! `treecast manager`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use serde_json::json;
use treecast_fleet::{
    client::Client,
    manager::{AGENT_PORT, CONSOLE_PORT, Manager, Options, config::Config},
    run_until,
};
use treecast_host::stop::Stop;

use super::trial::Trial;
use crate::Outcome;

/// See, steer and measure a fleet of hosts from this one
///
/// Prints an address to open in a browser, and a line to run on other hosts. Agents dial out to this host; nobody logs in to theirs.
/// Runs until SIGINT or SIGTERM.
#[derive(clap::Args)]
pub struct Args {
    /// Where agents are listened for [default: [::]:7443]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Where the console is served, without encryption: an address of this host alone [default: 127.0.0.1:7444]
    #[arg(long, value_name = "ADDR:PORT")]
    console: Option<SocketAddr>,
    /// The address by which agents reach this host. May be given several times [default: all addresses of this host]
    #[arg(long, value_name = "HOST:PORT")]
    address: Vec<String>,
    /// Folder for the key, the database and the results [default: /var/lib/treecast/manager for root]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The configuration [default: /etc/treecast/manager.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How many hosts may join. The line is good for an hour
    #[arg(long, value_name = "N", default_value_t = 10)]
    uses: u32,
    /// Manage a lab of twelve hosts on this machine. Needs root. It is taken down at the end
    #[arg(long = "try", conflicts_with_all = ["listen", "address", "state", "uses"])]
    is_trial: bool,
    /// Print one JSON event a line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    let console = args.console.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], CONSOLE_PORT)));
    if !console.ip().is_loopback() {
        tracing::warn!(
            "the console at {console} is not encrypted: whoever sees the packets sees what is done there"
        );
    }
    // A lab to look at tells nobody of its hosts.
    let config = match &args.config {
        None if args.is_trial => Config::default(),
        file => Config::load(file.as_deref())?,
    };
    let stop = Stop::on_signals()?;
    let mut trial = args.is_trial.then(Trial::build).transpose()?;
    let listener = trial.as_ref().map(Trial::listen).transpose()?;
    let state = match &trial {
        Some(trial) => trial.folder().join("manager"),
        None => args.state.unwrap_or_else(|| super::state("manager")),
    };
    let options = Options {
        agents: args.listen.unwrap_or_else(|| SocketAddr::from(([0; 8], AGENT_PORT))),
        console,
        advertised: args.address,
        treecast: std::env::current_exe()?,
        version: env!("CARGO_PKG_VERSION").into(),
        config,
        state: state.clone(),
    };
    let (uses, is_json) = (if trial.is_some() { 1_000 } else { args.uses }, args.json);
    let serve = async {
        let manager = Manager::start(options, listener).await?;
        let wanted = json!({ "uses": uses, "lasts": "1h" });
        let made: serde_json::Value = Client::of_state(&state)?.post("/api/codes", &wanted).await?;
        let code = super::text(&made, "code");
        if is_json {
            say!(
                "{}",
                json!({ "event": "ready", "open": manager.login, "code": code, "agents": manager.agents })
            );
        } else if let Some(trial) = &mut trial {
            trial.start_agents(code)?;
            say!("Open this in a browser on this host; it works once:\n  {}", manager.login);
            say!("Commands for this fleet begin with:\n  treecast fleet --manager-state {}", state.display());
        } else {
            say!("Open this in a browser on this host; it works once:\n  {}", manager.login);
            say!("Run this on up to {uses} other hosts within an hour:\n  treecast agent --join {code}");
        }
        // It serves until the user ends it.
        std::future::pending::<()>().await;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    match run_until(|| stop.is_requested(), serve)? {
        Some(Err(error)) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}
