//! `treecast agent`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
};

use serde_json::json;
use treecast_fleet::{
    agent::{
        self, Config, Event, Options,
        config::check_name,
        keeper,
        program::{self, Kept, Next, Own},
    },
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
    /// Be the program of this release (started by the installed program)
    #[arg(long, value_name = "NAME/VERSION", hide = true)]
    as_release: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    if let Some(folder) = &args.keep {
        return keep(folder);
    }
    let state = args.state.clone().unwrap_or_else(|| super::state("agent"));
    if args.leave {
        agent::leave(&state)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Stop::on_signals()?;
    let config = |args: &Args| -> Result<Config, Box<dyn std::error::Error>> {
        let config = Config::load(args.config.as_deref())?;
        args.name.as_deref().map_or(Ok(()), check_name)?;
        Ok(Config { name: args.name.clone().or_else(|| config.name.clone()), ..config })
    };
    if let Some(release) = &args.as_release {
        let (name, version) = release.split_once('/').ok_or("--as-release: write NAME/VERSION")?;
        let own = Own { name: name.to_owned(), version: version.to_owned() };
        let has_next = be_agent(&args, config(&args)?, state, Some(own), &stop)?;
        return Ok(if has_next { ExitCode::from(program::LOOK_AGAIN) } else { ExitCode::SUCCESS });
    }
    loop {
        let config = config(&args)?;
        match program::next(&state)? {
            Next::Installed => {
                if !be_agent(&args, config, state.clone(), None, &stop)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Next::Own { own, .. } => {
                let words: Vec<_> = std::env::args_os().skip(1).collect();
                let patience = config.roll_out.trial();
                match program::keep(&state, &own, &words, patience, &|| stop.is_requested())? {
                    Kept::LookAgain => {}
                    Kept::Ended(code) => return Ok(ExitCode::from(code)),
                }
            }
        }
    }
}

/// Runs the agent until it is stopped. Returns whether another program is to take its place.
fn be_agent(
    args: &Args,
    config: Config,
    state: PathBuf,
    own: Option<Own>,
    stop: &Stop,
) -> Result<bool, Box<dyn std::error::Error>> {
    let options = Options {
        config,
        state,
        treecast: std::env::current_exe()?,
        version: env!("CARGO_PKG_VERSION").into(),
        code: args.join.clone(),
        own,
    };
    let last = Mutex::new(None);
    let is_json = args.json;
    let tell = |event: Event| show(&event, is_json, &last);
    match run_until(|| stop.is_requested(), agent::run(options, &tell))? {
        Some(Err(error)) => Err(error.into()),
        Some(Ok(())) => Ok(true),
        None => Ok(false),
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
