//! `treecast manager`, `treecast agent` and `treecast fleet`.

mod agent;
mod asked;
mod check;
mod files;
mod manager;
mod rollout;
mod run;
mod trial;

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;
use serde_json::{Value, json};
use treecast_fleet::client::{Client, ClientError, escaped};
use treecast_host::user;
use treecast_measure::tables::{Cell, Table};

pub use agent::{Args as AgentArgs, run as run_agent};
pub use manager::{Args as ManagerArgs, run as run_manager};
pub use run::AtFleet;

use crate::{Outcome, arguments::counted};

/// Speak with the manager of a fleet
///
/// Speaks with the manager on this host, or with the one that --api names. Hosts are selected by names, tags and facts, such as
/// "site=kiel and not role=router"; docs/fleet.md has the language.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// The way to the manager.
#[derive(clap::Args)]
pub struct Way {
    /// The folder of a manager on this host
    #[arg(long = "manager-state", value_name = "DIR", global = true)]
    state: Option<PathBuf>,
    /// The address of the manager's API
    #[arg(long, value_name = "HOST:PORT", global = true, requires = "token_file")]
    api: Option<String>,
    /// A file with a token of `treecast fleet token`
    #[arg(long, value_name = "FILE", global = true, requires = "api")]
    token_file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// List hosts
    Hosts {
        #[arg(value_name = "SELECTION", default_value = "all", help = "The hosts to list")]
        select: String,
    },
    /// Print a code with which hosts join
    Code {
        /// How many hosts may join with it
        #[arg(long, value_name = "N", default_value_t = 1)]
        uses: u32,
        /// How long it lasts
        #[arg(long, value_name = "TIME", default_value = "1h")]
        lasts: String,
    },
    /// Set or remove tags of a host
    Tag {
        /// The host's name
        host: String,
        /// NAME=VALUE sets a tag, and NAME= removes it
        #[arg(value_name = "NAME=VALUE", required = true)]
        tags: Vec<String>,
    },
    /// Remove a host from the fleet
    Forget {
        /// The host's name
        host: String,
    },
    /// List saved selections, or save or remove one
    Groups(GroupsArgs),
    /// Ask many hosts something, and print their answers side by side
    ///
    /// Without a command, each host tells its facts. Programs need `run_commands = true` in the agent.toml of a host.
    Ask(asked::Args),
    /// Ask many hosts one thing after the other, as a file says
    Batch(asked::BatchArgs),
    /// Have hosts look for what hinders multicast there
    ///
    /// Exit code 3: a host has a problem, or told nothing.
    Doctor(check::DoctorArgs),
    /// Have hosts send to a group, and show which hears which
    ///
    /// Exit code 3: a host does not hear another one, loses 5 % of its packets or more, or told nothing.
    Beacon(check::BeaconArgs),
    /// Deliver files to hosts by one session
    ///
    /// Each host compares what came, and moves it to the folder that its agent.toml names for files. Exit code 3: a host lacks some.
    Files(files::Args),
    /// List deliveries of files, or show or end one
    Deliveries(files::DeliveriesArgs),
    /// Sign, list or withdraw releases
    Release(rollout::ReleaseArgs),
    /// Roll a release out ring by ring
    Rollout(rollout::RolloutArgs),
    /// Ask hosts whether they have a release whole
    Verify(rollout::VerifyArgs),
    /// List runs
    Runs,
    /// End a run, or take it out of the queue
    Abort {
        /// The number of the run
        run: i64,
    },
    /// Print a token for a program or a person
    Token {
        /// The name under which the log has what it does
        name: String,
        /// Its role: docs/fleet.md has them
        #[arg(long, default_value = "viewer")]
        role: String,
        /// End the token of this name instead
        #[arg(long, conflicts_with = "role")]
        end: bool,
    },
    /// Print a link that logs a browser in, once
    Login,
    /// Print the description of the manager's API, an OpenAPI document. Needs no manager
    Api,
    /// Print who did what, the latest last
    Audit {
        /// How many lines
        #[arg(long, value_name = "N", default_value_t = 50)]
        latest: u32,
    },
}

/// The arguments of `treecast fleet groups`.
#[derive(clap::Args)]
struct GroupsArgs {
    #[command(subcommand)]
    command: Option<GroupsCommand>,
}

#[derive(Subcommand)]
enum GroupsCommand {
    /// Save a selection under a name, which other selections use as group:NAME
    Add {
        /// The group's name
        name: String,
        /// The hosts
        selection: String,
    },
    /// Remove a saved selection
    Remove {
        /// The group's name
        name: String,
    },
}

pub fn run(args: Args) -> Outcome {
    if matches!(args.command, Command::Api) {
        say!("{}", treecast_fleet::manager::description());
        return Ok(ExitCode::SUCCESS);
    }
    let client = args.way.client()?;
    match args.command {
        Command::Ask(asked) => return asked::run(&client, &asked, args.json),
        Command::Batch(batch) => return asked::batch(&client, &batch, args.json),
        Command::Doctor(doctor) => return check::doctor(&client, &doctor, args.json),
        Command::Beacon(beacon) => return check::beacon(&client, &beacon, args.json),
        Command::Files(files) => return files::run(&client, &files, args.json),
        Command::Verify(verified) => return rollout::verify(&client, &verified, args.json),
        command => answer(&client, command, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(client: &Client, command: Command, json: bool) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        Command::Hosts { select } => {
            let hosts = get(client, &format!("/api/hosts?select={}", escaped(&select)))?;
            if json { say!("{hosts}") } else { print_hosts(&hosts) }
        }
        Command::Code { uses, lasts } => {
            let made = post(client, "/api/codes", &json!({ "uses": uses, "lasts": lasts }))?;
            if json { say!("{made}") } else { say!("treecast agent --join {}", text(&made, "code")) }
        }
        Command::Tag { host, tags } => tag(client, &host, &tags, json)?,
        Command::Forget { host } => delete(client, &format!("/api/hosts/{}", escaped(&host)))?,
        Command::Groups(GroupsArgs { command: None }) => {
            let groups = get(client, "/api/groups")?;
            if json { say!("{groups}") } else { print_groups(&groups) }
        }
        Command::Groups(GroupsArgs { command: Some(GroupsCommand::Add { name, selection }) }) => {
            let body = json!({ "selection": selection });
            let group = put(client, &format!("/api/groups/{}", escaped(&name)), &body)?;
            if json { say!("{group}") } else { print_groups(&json!([group])) }
        }
        Command::Groups(GroupsArgs { command: Some(GroupsCommand::Remove { name }) }) => {
            delete(client, &format!("/api/groups/{}", escaped(&name)))?;
        }
        Command::Api
        | Command::Ask(_)
        | Command::Batch(_)
        | Command::Doctor(_)
        | Command::Beacon(_)
        | Command::Files(_)
        | Command::Verify(_) => {}
        Command::Deliveries(args) => files::deliveries(client, &args, json)?,
        Command::Release(args) => rollout::release(client, args, json)?,
        Command::Rollout(args) => rollout::rollout(client, args, json)?,
        Command::Runs => {
            let runs = get(client, "/api/runs")?;
            if json { say!("{runs}") } else { run::print_runs(&runs) }
        }
        Command::Abort { run } => {
            let run = post(client, &format!("/api/runs/{run}/abort"), &json!({}))?;
            if json { say!("{run}") } else { run::print_runs(&json!([run])) }
        }
        Command::Token { name, end: true, .. } => delete(client, &format!("/api/tokens/{}", escaped(&name)))?,
        Command::Token { name, role, end: false } => {
            let token = post(client, &format!("/api/tokens/{}", escaped(&name)), &json!({ "role": role }))?;
            if json { say!("{token}") } else { say!("{}", text(&token, "token")) }
        }
        Command::Login => {
            let link = post(client, "/api/links", &json!({}))?;
            say!("http://{}{}", client.api(), text(&link, "path"));
        }
        Command::Audit { latest } => {
            let log = get(client, &format!("/api/audit?latest={latest}"))?;
            if json { say!("{log}") } else { print_audit(&log) }
        }
    }
    Ok(())
}

/// Sets and removes tags of a host.
fn tag(client: &Client, host: &str, tags: &[String], json: bool) -> Result<(), Box<dyn std::error::Error>> {
    let set = tags.iter().map(|tag| tag.split_once('=').ok_or(tag)).collect::<Result<Vec<_>, _>>();
    let set = set.map_err(|tag| format!("{tag}: write NAME=VALUE, or NAME= to remove the tag"))?;
    let set: serde_json::Map<String, Value> =
        set.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let host = put(client, &format!("/api/hosts/{}/tags", escaped(host)), &json!(set))?;
    if json {
        say!("{host}")
    } else {
        print_hosts(&json!([host]))
    }
    Ok(())
}

impl Way {
    /// Finds the manager.
    pub fn client(&self) -> Result<Client, Box<dyn std::error::Error>> {
        let (Some(api), Some(file)) = (&self.api, &self.token_file) else {
            return Ok(Client::of_state(&self.state.clone().unwrap_or_else(|| state("manager")))?);
        };
        let token = treecast_host::text::read_private(file, 4096);
        let token = token.map_err(|error| format!("cannot read the token in {}: {error}", file.display()))?;
        Ok(Client::new(api.clone(), token.trim().to_owned()))
    }
}

/// Returns the folder of a manager or an agent of this user.
fn state(of: &str) -> PathBuf {
    if user::is_root() {
        return PathBuf::from("/var/lib/treecast").join(of);
    }
    crate::history::default_state().join(of)
}

/// Waits for an answer of the manager.
fn wait<T>(asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, Box<dyn std::error::Error>> {
    Ok(treecast_fleet::run(asked)??)
}

fn get(client: &Client, path: &str) -> Result<Value, Box<dyn std::error::Error>> {
    wait(client.get(path))
}

fn post(client: &Client, path: &str, body: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    wait(client.post(path, body))
}

fn put(client: &Client, path: &str, body: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    wait(client.put(path, body))
}

fn delete(client: &Client, path: &str) -> Result<(), Box<dyn std::error::Error>> {
    wait(client.delete(path))
}

/// Returns a text of an answer; empty where there is none.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn print_hosts(hosts: &Value) {
    let mut rows = Vec::new();
    for host in items(hosts) {
        let facts = &host["facts"];
        let interface = items(&facts["interfaces"]).iter().find(|of| of["name"] == facts["interface"]);
        let address = interface.and_then(|of| items(&of["addresses"]).first()).and_then(Value::as_str);
        let tags = host["tags"].as_object().into_iter().flatten();
        let tags: Vec<String> =
            tags.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
        let clock = host["clock"].as_object().map(|clock| {
            let of = |key: &str| clock[key].as_f64().unwrap_or_default();
            format!("{:+.1} ms", of("ahead_ms"))
        });
        rows.push([
            text(host, "name").to_owned(),
            if host["is_here"] == true { "here" } else { "away" }.to_owned(),
            address.unwrap_or("-").to_owned(),
            text(facts, "system").to_owned(),
            text(facts, "version").to_owned(),
            clock.unwrap_or_else(|| "-".into()),
            tags.join(" "),
        ]);
    }
    print_table(["HOST", "STATE", "ADDRESS", "SYSTEM", "TREECAST", "CLOCK", "TAGS"], rows);
    let here = items(hosts).iter().filter(|host| host["is_here"] == true).count();
    say!("{}, {here} here", counted(items(hosts).len(), "host"));
}

fn print_groups(groups: &Value) {
    let mut rows = Vec::new();
    for group in items(groups) {
        let hosts = group["hosts"].to_string();
        rows.push([text(group, "name").to_owned(), hosts, text(group, "selection").to_owned()]);
    }
    print_table(["GROUP", "HOSTS", "SELECTION"], rows);
}

fn print_audit(log: &Value) {
    for entry in items(log).iter().rev() {
        let at = entry["at_ms"].as_u64().unwrap_or_default() / 1000;
        let at =
            treecast_host::clock::WallTime::local(at).map_or_else(|| at.to_string(), |time| time.to_string());
        let refused = if entry["is_refused"] == true { "  REFUSED" } else { "" };
        say!("{at}  {}  {}  {}{refused}", text(entry, "who"), text(entry, "what"), text(entry, "about"));
    }
}

/// Prints rows below their headings.
fn print_table<R: IntoIterator<Item = String>>(
    headings: impl IntoIterator<Item = impl std::fmt::Display>,
    rows: impl IntoIterator<Item = R>,
) {
    let headings: Vec<String> = headings.into_iter().map(|heading| format!("<{heading}")).collect();
    let mut table = Table::new("", &headings);
    table.rows = rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect()).collect();
    say!("{}", table.lines().trim_end());
}
