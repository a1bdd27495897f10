//! `treecast fleet release`, `treecast fleet rollout` and `treecast fleet verify`.

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;
use serde_json::{Value, json};
use treecast_driver::security::Identity;
use treecast_fleet::{client::Client, release::Release};
use treecast_host::quantity;

use super::{asked, delete, get, items, post, print_table, text};
use crate::{Outcome, arguments::counted};

/// The arguments of `treecast fleet release`.
#[derive(clap::Args)]
pub struct ReleaseArgs {
    #[command(subcommand)]
    command: ReleaseCommand,
}

#[derive(Subcommand)]
enum ReleaseCommand {
    /// Sign the files of a folder, and give them to the manager on this host
    Add {
        /// What is updated
        name: String,
        /// Its version
        version: String,
        /// The folder with its files
        folder: PathBuf,
        /// The key, by its name or file
        #[arg(long, value_name = "KEY", default_value = "default")]
        key: String,
        /// Only for hosts with this processor, such as x86_64
        #[arg(long, value_name = "NAME")]
        architecture: Option<String>,
        /// Only for hosts that have this version
        #[arg(long, value_name = "VERSION")]
        from: Option<String>,
        /// Its program `treecast` is the agent of hosts
        #[arg(long)]
        agent: bool,
    },
    /// List releases
    List,
    /// Stop the rollouts of a release, and begin none any more
    Withdraw {
        /// The number of the release
        release: i64,
    },
}

/// The arguments of `treecast fleet rollout`.
#[derive(clap::Args)]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Subcommand)]
enum RolloutCommand {
    /// Roll a release out, ring by ring
    Start {
        /// The number of the release
        release: i64,
        /// Hosts, or the first N of them. Rings follow each other
        #[arg(long = "ring", value_name = "SELECTION[:N]", required = true)]
        rings: Vec<String>,
        /// Stop when more hosts have failed
        #[arg(long, value_name = "N", default_value_t = 0)]
        errors: u32,
        /// Wait until a second person approves
        #[arg(long)]
        approval: bool,
    },
    /// Tell who would be in each ring, and what its session would cost by each fanout
    ///
    /// The simulator finds the cost, for hosts on one link. Begins nothing.
    Plan {
        /// The number of the release
        release: i64,
        /// Hosts, or the first N of them. Rings follow each other
        #[arg(long = "ring", value_name = "SELECTION[:N]", required = true)]
        rings: Vec<String>,
        /// The rate of the manager's link [default: 100M]
        #[arg(long, value_parser = quantity::rates_bps(1_000..=1_000_000_000_000))]
        rate: Option<u64>,
        /// The share of lost packets [default: 0.1%]
        #[arg(long, value_parser = quantity::shares(0.0..=0.5))]
        loss: Option<f64>,
    },
    /// List rollouts
    List,
    /// Show how each host fares
    Show {
        /// The number of the rollout
        rollout: i64,
    },
    /// Approve, pause, go on, abort, try failed hosts again, or go back to the version before
    Change {
        /// The number of the rollout
        rollout: i64,
        /// What is to become of it
        #[arg(value_parser = ["approve", "pause", "go", "abort", "retry", "back"])]
        to: String,
    },
}

/// The arguments of `treecast fleet verify`.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// The number of the release
    release: i64,
    /// The hosts
    #[arg(value_name = "SELECTION", default_value = "all")]
    select: String,
}

pub fn release(client: &Client, args: ReleaseArgs, json: bool) -> Result<(), Box<dyn std::error::Error>> {
    match args.command {
        ReleaseCommand::Add { name, version, folder, key, architecture, from, agent } => {
            let identity = Identity::named(&key)?;
            let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
            let release = Release::of_folder(&folder, &name, &version, architecture, from)?;
            let release = if agent { release.for_agents()? } else { release };
            let body = json!({ "signed": release.sign(&identity), "folder": folder });
            let added = post(client, "/api/releases", &body)?;
            match json {
                true => say!("{added}"),
                false => {
                    say!("release {}: {name} {version}, signed by {}", added["id"], identity.public_key())
                }
            }
        }
        ReleaseCommand::List => {
            let releases = get(client, "/api/releases")?;
            if json { say!("{releases}") } else { print_releases(&releases) }
        }
        ReleaseCommand::Withdraw { release } => delete(client, &format!("/api/releases/{release}"))?,
    }
    Ok(())
}

pub fn rollout(client: &Client, args: RolloutArgs, json: bool) -> Result<(), Box<dyn std::error::Error>> {
    let rollout = match args.command {
        RolloutCommand::List => {
            let rollouts = get(client, "/api/rollouts")?;
            if json {
                say!("{rollouts}")
            } else {
                print_rollouts(&rollouts)
            }
            return Ok(());
        }
        RolloutCommand::Plan { release, rings, rate, loss } => {
            let rings: Vec<Value> = rings.iter().map(|ring| as_ring(ring)).collect();
            let body = json!({ "release": release, "rings": rings, "rate_bps": rate, "loss": loss });
            let plan = post(client, "/api/rollouts/plan", &body)?;
            if json {
                say!("{plan}")
            } else {
                print_plan(&plan)
            }
            return Ok(());
        }
        RolloutCommand::Start { release, rings, errors, approval } => {
            let rings: Vec<Value> = rings.iter().map(|ring| as_ring(ring)).collect();
            let body = json!({ "release": release, "rings": rings, "errors": errors, "approval": approval });
            post(client, "/api/rollouts", &body)?
        }
        RolloutCommand::Show { rollout } => get(client, &format!("/api/rollouts/{rollout}"))?,
        RolloutCommand::Change { rollout, to } => {
            post(client, &format!("/api/rollouts/{rollout}/{to}"), &json!({}))?
        }
    };
    if json {
        say!("{rollout}")
    } else {
        print_rollout(&rollout)
    }
    Ok(())
}

/// Asks hosts whether they have a release whole.
pub fn verify(client: &Client, args: &VerifyArgs, json: bool) -> Outcome {
    let path = format!("/api/releases/{}/verify", args.release);
    let asked = post(client, &path, &json!({ "select": args.select }))?;
    let mut lacking = 0;
    asked::each_answer(client, &asked, &mut |answer| {
        let host = text(answer, "host");
        let differs = answer["value"].as_str().or(answer["failure"].as_str());
        lacking += u8::from(differs.is_some());
        match (json, differs) {
            (true, _) => say!("{answer}"),
            (false, None) => say!("{host}: has all of it"),
            (false, Some(how)) => say!("{host}: lacks it: {how}"),
        }
    })?;
    Ok(if lacking == 0 { ExitCode::SUCCESS } else { ExitCode::from(asked::NOT_ALL_WELL) })
}

/// Reads `SELECTION:N`. A colon may be a part of a selection (`group:NAME`).
fn as_ring(text: &str) -> Value {
    let most = text.rsplit_once(':').and_then(|(select, most)| Some((select, most.parse::<u32>().ok()?)));
    match most {
        Some((select, most)) => json!({ "select": select, "most": most }),
        None => json!({ "select": text }),
    }
}

fn print_releases(releases: &Value) {
    let mut rows = Vec::new();
    for release in items(releases) {
        let state = if release["is_withdrawn"] == true { "withdrawn" } else { "-" };
        let number = |key: &str| release[key].to_string();
        let word = |key: &str| text(release, key).to_owned();
        rows.push([
            number("id"),
            word("name"),
            word("version"),
            number("files"),
            number("size_bytes"),
            state.to_owned(),
        ]);
    }
    print_table(["RELEASE", "NAME", "VERSION", "FILES", "BYTES", "STATE"], rows);
}

/// Prints the cost of each ring by each fanout.
fn print_plan(plan: &Value) {
    let (rate, loss) = (plan["rate_bps"].as_u64().unwrap_or(0), plan["loss"].as_f64().unwrap_or(0.0));
    say!(
        "{} {}, for hosts on one link of {}bit/s that lose {:.2} % of all packets each",
        text(plan, "name"),
        text(plan, "version"),
        quantity::RateText(rate),
        loss * 100.0
    );
    let titles = ["RING", "HOSTS", "AWAY", "DONE", "PINNED", "WAY", "BYTES", "FANOUT", "SENT", "TIME"];
    let mut rows = Vec::new();
    for ring in items(&plan["rings"]) {
        let number = |key: &str| ring[key].to_string();
        let bytes = if ring["way"] == "delta" { number("delta_bytes") } else { number("whole_bytes") };
        let way = text(ring, "way").to_owned();
        let first =
            [number("ring"), number("hosts"), number("away"), number("done"), number("pinned"), way, bytes];
        let none = vec!["-".to_owned(); 3];
        let forecasts = items(&ring["forecasts"]).iter().map(|forecast| {
            let seconds = forecast["seconds"].as_f64().unwrap_or(0.0);
            vec![
                text(forecast, "fanout").to_owned(),
                forecast["sender_bytes"].to_string(),
                format!("{seconds:.1} s"),
            ]
        });
        let forecasts: Vec<Vec<String>> = forecasts.collect();
        let forecasts = if forecasts.is_empty() { vec![none] } else { forecasts };
        rows.extend(forecasts.into_iter().map(|forecast| [first.to_vec(), forecast].concat()));
    }
    print_table(titles, rows);
}

fn print_rollouts(rollouts: &Value) {
    let mut rows = Vec::new();
    for rollout in items(rollouts) {
        let word = |key: &str| rollout[key].as_str().unwrap_or("-").to_owned();
        rows.push([rollout["id"].to_string(), word("name"), word("version"), word("state"), word("reason")]);
    }
    print_table(["ROLLOUT", "NAME", "VERSION", "STATE", "WHY"], rows);
}

fn print_rollout(rollout: &Value) {
    let reason = rollout["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    say!(
        "rollout {} of {} {} is {}{reason}",
        rollout["id"],
        text(rollout, "name"),
        text(rollout, "version"),
        text(rollout, "state")
    );
    for sent in items(&rollout["sent"]) {
        say!("{}", said_of_ring(sent));
    }
    let mut rows = Vec::new();
    for host in items(&rollout["hosts"]) {
        let word = |key: &str| host[key].as_str().unwrap_or("-").to_owned();
        rows.push([word("host"), host["ring"].to_string(), word("state"), word("reason")]);
    }
    print_table(["HOST", "RING", "STATE", "WHY"], rows);
}

/// Says what the session of a ring has sent, and what other ways would have cost.
fn said_of_ring(sent: &Value) -> String {
    let whole = &sent["whole_bytes"];
    let way = match (sent["way"].as_str(), sent["delta_bytes"].as_u64()) {
        (Some("delta"), _) => format!("only what differs (whole, it has {whole})"),
        (_, Some(delta)) => format!("whole (what differs would have been {delta})"),
        (_, None) => "whole".to_owned(),
    };
    format!(
        "ring {}: {} bytes sent once for {}, {way}; one by one they would be {}",
        sent["ring"],
        sent["sent_bytes"],
        counted(sent["hosts"].as_u64().unwrap_or(0) as usize, "host"),
        sent["unicast_bytes"]
    )
}
