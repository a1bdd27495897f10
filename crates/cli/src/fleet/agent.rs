//! `treecast agent`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
};

use serde_json::json;
use treecast_fleet::{
    agent::{self, Config, Event, Options, config::check_name, keeper},
    message, run_until,
};
use treecast_host::stop::Stop;

use crate::Outcome;

/// Let the manager of a fleet see, steer and measure this host
///
/// Dials out to the manager and needs no open port. What the manager may do here is set in /etc/treecast/agent.toml; other programs
/// than treecast's own measurements are off by default. Runs until SIGINT or SIGTERM.
#[derive(clap::Args)]
pub struct Args {
    /// Join the fleet that gave out this code. Later starts need none
    #[arg(long, value_name = "CODE")]
    join: Option<String>,
    /// The name of this host in the fleet [default: its own]
    #[arg(long)]
    name: Option<String>,
    /// The configuration [default: /etc/treecast/agent.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for the key, the reports and the work [default: /var/lib/treecast/agent for root]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Leave the fleet, and forget its manager
    #[arg(long, conflicts_with = "join")]
    leave: bool,
    /// Print one JSON event a line
    #[arg(long)]
    json: bool,
    /// Keep the program that an agent has written down in this folder (started by the agent)
    #[arg(long, value_name = "DIR", hide = true)]
    keep: Option<PathBuf>,
}

pub fn run(args: Args) -> Outcome {
    if let Some(folder) = &args.keep {
        return keep(folder);
    }
    let state = args.state.unwrap_or_else(|| super::state("agent"));
    if args.leave {
        agent::leave(&state)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut config = Config::load(args.config.as_deref())?;
    if let Some(name) = args.name {
        check_name(&name)?;
        config.name = Some(name);
    }
    let options = Options {
        config,
        state,
        treecast: std::env::current_exe()?,
        version: env!("CARGO_PKG_VERSION").into(),
        code: args.join,
    };
    let stop = Stop::on_signals()?;
    let is_json = args.json;
    let last = Mutex::new(None);
    let tell = |event: Event| show(&event, is_json, &last);
    match run_until(|| stop.is_requested(), agent::run(options, &tell))? {
        Some(Err(error)) => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Tells what happens. While the manager is not reached, the same reason is told once.
fn show(event: &Event, json: bool, last: &Mutex<Option<String>>) {
    let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match event {
        Event::Connected { name, address } => {
            *last = None;
            match json {
                true => say!("{}", json!({ "event": "connected", "name": name, "address": address })),
                false => say!("connected to the manager at {address} as {name}"),
            }
        }
        Event::Lost { reason } if last.as_deref() == Some(reason) => {}
        Event::Lost { reason } => {
            *last = Some(reason.clone());
            match json {
                true => say!("{}", json!({ "event": "lost", "reason": reason })),
                false => remark!("the manager is not reached, and is tried again: {reason}"),
            }
        }
    }
}

fn keep(folder: &Path) -> Outcome {
    let text = fs::read_to_string(folder.join("kept"))?;
    let kept = message::read(&text)?;
    keeper::run(&kept, &folder.join("errors"))?;
    Ok(ExitCode::SUCCESS)
}
