//! `treecast fleet release`, `treecast fleet rollout` and `treecast fleet verify`.

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;
use serde_json::{Value, json};
use treecast_driver::security::Identity;
use treecast_fleet::{client::Client, release::Release};

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
        ReleaseCommand::Add { name, version, folder, key, architecture, from } => {
            let identity = Identity::named(&key)?;
            let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
            let release = Release::of_folder(&folder, &name, &version, architecture, from)?;
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
        say!(
            "ring {}: {} bytes sent once for {}; one by one they would be {}",
            sent["ring"],
            sent["sent_bytes"],
            counted(sent["hosts"].as_u64().unwrap_or(0) as usize, "host"),
            sent["unicast_bytes"]
        );
    }
    let mut rows = Vec::new();
    for host in items(&rollout["hosts"]) {
        let word = |key: &str| host[key].as_str().unwrap_or("-").to_owned();
        rows.push([word("host"), host["ring"].to_string(), word("state"), word("reason")]);
    }
    print_table(["HOST", "RING", "STATE", "WHY"], rows);
}
