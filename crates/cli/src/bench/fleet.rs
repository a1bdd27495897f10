//! `treecast bench fleet`: how long many agents take to join a manager and to answer, and what it costs.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use treecast_fleet::{
    agent::{self, Config, Event, Options},
    client::Client,
    run_until,
};
use treecast_host::{stop::Stop, temporary::TemporaryFolder};

use crate::Outcome;

/// Measure how fast a fleet of many agents joins and answers
///
/// The manager is a process of its own. All agents are in this process: the same code as in theirs, with a connection, a key and a
/// database each. Exit code 0: every figure is good enough; 3: some are not; 1: the bench itself failed.
#[derive(clap::Args)]
pub struct Args {
    /// The number of agents
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    agents: u32,
    /// How often all of them are asked
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    questions: u32,
    /// A memory-backed folder
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    folder: std::path::PathBuf,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The figures that are good enough for 2,000 agents.
const JOIN_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_millis(1_500);
const MEMORY_LIMIT_BYTES: u64 = 256 << 20;

/// The time between two looks whether all have joined or answered.
const LOOK: Duration = Duration::from_millis(20);

/// What was measured.
struct Figures {
    joined: Duration,
    /// The time from a question until so many hosts had answered it, over all questions.
    answers: Vec<Duration>,
    manager_bytes: u64,
}

pub fn run(args: &Args) -> Outcome {
    let folder = TemporaryFolder::new(&args.folder, "treecast-bench-fleet-")?;
    let (mut manager, code) = start_manager(&folder.path().join("manager"), args.agents)?;
    let stop = Stop::on_signals()?;
    let measured = run_until(|| stop.is_requested(), measure(args, folder.path(), &code, manager.id()));
    _ = manager.kill();
    _ = manager.wait();
    let Some(figures) = measured? else { return Err("the bench was stopped".into()) };
    let figures = figures?;
    let is_met = show(&figures, args);
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Starts a manager, and returns its code for the agents.
fn start_manager(state: &Path, agents: u32) -> Result<(Child, String), Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["manager", "--json", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]);
    command.args(["--uses", &agents.to_string(), "--state"]).arg(state);
    let mut manager = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = manager.stdout.take().ok_or("the manager has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line).map_err(|_| "the manager did not start")?;
    Ok((manager, ready["code"].as_str().unwrap_or_default().to_owned()))
}

async fn measure(
    args: &Args,
    folder: &Path,
    code: &str,
    manager: u32,
) -> Result<Figures, Box<dyn std::error::Error>> {
    let client = Client::of_state(&folder.join("manager"))?;
    let began = Instant::now();
    for number in 0..args.agents {
        let options = Options {
            config: Config { name: Some(format!("a{number}")), ..Config::default() },
            state: folder.join(format!("a{number}")),
            treecast: std::env::current_exe()?,
            version: env!("CARGO_PKG_VERSION").into(),
            code: Some(code.to_owned()),
            own: None,
        };
        treecast_fleet::spawn(async move {
            // An agent that is refused is missing in the count.
            _ = agent::run(options, &|_: Event| {}).await;
        });
    }
    while here(&client).await? < args.agents as usize {
        if began.elapsed() > JOIN_LIMIT * 10 {
            return Err("the agents did not all join".into());
        }
        treecast_fleet::sleep(LOOK).await;
    }
    let joined = began.elapsed();
    let mut answers = Vec::new();
    for _ in 0..args.questions {
        answers.extend(ask(&client).await?);
    }
    answers.sort();
    Ok(Figures { joined, answers, manager_bytes: peak_memory(manager) })
}

async fn here(client: &Client) -> Result<usize, Box<dyn std::error::Error>> {
    let count: Value = client.get("/api/count").await?;
    Ok(count["here"].as_u64().unwrap_or(0) as usize)
}

/// Asks all hosts for their facts. Returns how long each took to answer, as the manager has written down.
async fn ask(client: &Client) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let asked: Value = client.post("/api/asks", &json!({ "select": "all" })).await?;
    loop {
        let done: Value = client.get(&format!("/api/asks/{}/times", asked["id"])).await?;
        let times: Vec<u64> = serde_json::from_value(done["answered_ms"].clone())?;
        if done["open"] == 0 {
            return Ok(times.into_iter().map(Duration::from_millis).collect());
        }
        if began.elapsed() > Duration::from_secs(60) {
            return Err("some hosts did not answer".into());
        }
        treecast_fleet::sleep(LOOK).await;
    }
}

/// The peak memory of a process (proc_pid_status(5)).
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Shows the figures. Returns whether they are good enough.
fn show(figures: &Figures, args: &Args) -> bool {
    let at = |share: f64| {
        let index = (figures.answers.len() as f64 * share).ceil() as usize;
        figures.answers.get(index.saturating_sub(1)).copied().unwrap_or_default()
    };
    let (median, slowest) = (at(0.5), at(0.99));
    let is_met = figures.joined <= JOIN_LIMIT
        && slowest <= ANSWER_LIMIT
        && figures.manager_bytes <= MEMORY_LIMIT_BYTES;
    let seconds = |time: Duration| time.as_secs_f64();
    match args.json {
        true => say!(
            "{}",
            json!({
                "agents": args.agents, "questions": args.questions, "joined_seconds": seconds(figures.joined),
                "answer_seconds": { "p50": seconds(median), "p99": seconds(slowest) },
                "manager_peak_bytes": figures.manager_bytes, "met": is_met,
            })
        ),
        false => {
            let mb = figures.manager_bytes as f64 / f64::from(1 << 20);
            say!(
                "{} agents joined      {:>8.2} s    at most {} s",
                args.agents,
                seconds(figures.joined),
                JOIN_LIMIT.as_secs()
            );
            say!("half have answered   {:>8.3} s", seconds(median));
            say!("99 of 100 have       {:>8.3} s    at most {} s", seconds(slowest), seconds(ANSWER_LIMIT));
            say!("memory of the manager {mb:>7.1} MiB  at most 256 MiB");
        }
    }
    is_met
}
