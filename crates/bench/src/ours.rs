//! Measures treecast itself: `treecast send` and `treecast receive`, as a user starts them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;
use treecast_lab::program::Program;

use super::{
    crew::Crew,
    memory,
    stage::{Result, Stage},
};

/// The result of one session.
#[derive(Debug, Clone, Serialize)]
pub struct Ours {
    /// The seconds of each receiver from the start, when all receivers are there, until it has the file verified and
    /// named.
    pub seconds: Vec<f64>,
    /// The seconds from the start until the sender knows that all receivers have the file.
    pub sender_seconds: f64,
    pub retransmitted_bytes: u64,
    pub dropped_packets: u64,
    /// The peak of the sender's anonymous resident memory, in bytes.
    pub sender_peak_bytes: u64,
    pub receiver_peak_bytes: u64,
}

impl Ours {
    /// The time of the slowest receiver, in seconds.
    pub fn slowest_seconds(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

/// A delivery to measure.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// A file, or a folder of files.
    pub source: &'a Path,
    /// The number of receivers: the first clients of the network.
    pub receivers: u32,
    /// Whether the session is neither encrypted nor authenticated.
    pub plain: bool,
}

/// Runs one session.
pub(super) fn measure(stage: &Stage, delivery: Delivery<'_>) -> Result<Ours> {
    let Delivery { source, receivers, .. } = delivery;
    let ticket = stage.path("ticket");
    if ticket.exists() {
        std::fs::remove_file(&ticket)?;
    }
    let mut crew = Crew::default();
    crew.add(start_sender(stage, delivery, &ticket)?);
    wait_for_file(stage, &ticket, &mut crew)?;
    for client in stage.clients().take(receivers as usize) {
        crew.add(start_receiver(stage, &client, &ticket)?);
    }
    let sampling = Arc::new(AtomicBool::new(true));
    let peaks = memory::sample(crew.ids().collect(), Arc::clone(&sampling));
    let ended = crew.wait(&stage.lab.stop);
    sampling.store(false, Ordering::Relaxed);
    let peaks = peaks.join().map_err(|_| "the sampling thread failed")?;
    // The events are read when nothing is measured any more.
    let event = |(at, line): (Instant, String)| Some((at, serde_json::from_str(&line).ok()?));
    let told: Vec<Vec<(Instant, Value)>> =
        crew.told().into_iter().map(|lines| lines.into_iter().filter_map(event).collect()).collect();
    drop(crew);
    ended.map_err(|error| explain(error, &told))?;
    for client in stage.clients().take(receivers as usize) {
        check_copy(stage, &client, source)?;
    }
    sum_up(&told, &peaks)
}

fn start_sender(stage: &Stage, delivery: Delivery<'_>, ticket: &Path) -> Result<Program> {
    let mut command = stage.treecast()?;
    command.args(["send", "--json", "--rate", "max", "--interface", &stage.interface("server0")?]);
    command.args(delivery.plain.then_some("--plain"));
    command
        .args(["--session", "none", "--wait", &delivery.receivers.to_string(), "--ticket-file"])
        .arg(ticket)
        .arg(delivery.source);
    stage.lab.start("server0", "the sender", command)
}

fn start_receiver(stage: &Stage, client: &str, ticket: &Path) -> Result<Program> {
    let mut command = stage.treecast()?;
    command.args(["receive", "--json", "--interface", &stage.interface(client)?, "--name", client, "--into"]);
    command.arg(stage.folder(client)?).arg(format!("@{}", ticket.display()));
    stage.lab.start(client, client, command)
}

fn wait_for_file(stage: &Stage, path: &Path, crew: &mut Crew) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        stage.lab.go_on()?;
        if Instant::now() > deadline {
            // The sender's error explains more than that nothing came.
            crew.wait(&stage.lab.stop)?;
            return Err("the sender wrote no ticket within 10 s".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Checks that the receiver's file is where it said. (The receiver has compared the hash.) The file is removed,
/// so that its memory is free for the next run.
fn check_copy(stage: &Stage, client: &str, source: &Path) -> Result<()> {
    let copy = stage.path(client).join(source.file_name().unwrap_or_default());
    let (there, expected) = (count(&copy)?, count(source)?);
    stage.folder(client)?;
    if there != expected {
        return Err(format!("{client} has {there:?} files and bytes, of {expected:?}").into());
    }
    Ok(())
}

/// The number of files in a folder, or 1 for a file, and their bytes.
fn count(path: &Path) -> Result<(u64, u64)> {
    if !path.is_dir() {
        return Ok((1, std::fs::metadata(path)?.len()));
    }
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(path)? {
        sum = (sum.0 + 1, sum.1 + entry?.metadata()?.len());
    }
    Ok(sum)
}

/// Adds the sender's reasons for failed receivers to an error.
fn explain(error: Box<dyn std::error::Error>, told: &[Vec<(Instant, Value)>]) -> String {
    let done = told.first().and_then(|events| Some(&events.last()?.1["receivers"]));
    let receivers = done.and_then(Value::as_array).into_iter().flatten();
    let failed = receivers.flat_map(|receiver| receiver["failures"].as_array().cloned().unwrap_or_default());
    let reasons: Vec<String> = failed.map(|failure| failure["reason"].to_string()).take(3).collect();
    format!("{error} {}", reasons.join("; "))
}

fn sum_up(told: &[Vec<(Instant, Value)>], peaks: &[u64]) -> Result<Ours> {
    let at = |events: &[(Instant, Value)], name: &str| {
        let found = events.iter().rfind(|(_, event)| event["event"] == name);
        found.map(|(at, _)| *at).ok_or_else(|| format!("a program told of no {name:?}"))
    };
    let last = |events: &[(Instant, Value)], key: &str| {
        events.last().and_then(|(_, event)| event[key].as_u64()).unwrap_or(0)
    };
    let (sender, receivers) = told.split_first().ok_or("nothing was told")?;
    let start = at(sender, "started")?;
    let mut seconds = Vec::new();
    for receiver in receivers {
        seconds.push((at(receiver, "object")? - start).as_secs_f64());
    }
    Ok(Ours {
        seconds,
        sender_seconds: (at(sender, "done")? - start).as_secs_f64(),
        retransmitted_bytes: receivers.iter().map(|events| last(events, "retransmitted_bytes")).sum(),
        dropped_packets: receivers.iter().map(|events| last(events, "dropped_packets")).sum(),
        sender_peak_bytes: peaks.first().copied().unwrap_or(0),
        receiver_peak_bytes: peaks.iter().skip(1).copied().max().unwrap_or(0),
    })
}
