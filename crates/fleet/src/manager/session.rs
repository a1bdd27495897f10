//! One session of the manager: files go once to many hosts.
//!
//! The sender is a child of the manager, and each host is ordered to receive. Whether a host has everything is not taken from the
//! session: each host compares what came.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::mpsc,
    time::timeout,
};

use super::{
    hosts::Host,
    hub::{Hub, HubError},
};
use crate::message::{Program, Report, Start, Work};

/// The longest time that a sender waits for its receivers.
const GATHER_TIME: Duration = Duration::from_secs(60);
/// The longest time that a receiver may take to end after its sender has ended.
const END_TIME: Duration = Duration::from_secs(60);
/// The slowest delivery that is waited for, in bytes a second.
const SLOWEST_BYTES: u64 = 10_000;

/// A session that is wanted.
pub struct Transmission<'a> {
    pub hub: &'a Hub,
    /// The treecast program.
    pub treecast: &'a Path,
    /// Files and folders of the manager's host. A folder with a slash at its end stands for what is in it.
    pub paths: Vec<PathBuf>,
    pub size_bytes: u64,
    /// The hosts, each with the folder there that the files go to.
    pub receivers: Vec<(&'a Host, &'a Path)>,
}

/// The outcome of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sent {
    /// The bytes that left once for all hosts.
    pub sent_bytes: u64,
    /// The last line that the sender complained about, where no host could come.
    pub complaint: Option<String>,
}

/// The reason why there is no session.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("the sender cannot be started: {0}")]
    Start(#[from] io::Error),
}

/// A receiver's order, with what is reported about it.
type Ordered = (i64, u64, mpsc::UnboundedReceiver<Report>);

impl Transmission<'_> {
    /// Sends to all hosts until each has ended, or `stop` is ready. `hear` gets each event that the sender tells.
    ///
    /// # Errors
    /// If the sender cannot be started, or a host cannot be ordered anything.
    pub async fn run(
        &self,
        stop: impl Future<Output = ()>,
        hear: &mut (dyn FnMut(&Value) + Send),
    ) -> Result<Sent, SessionError> {
        let (mut sender, mut lines) = self.start_sender()?;
        let complaints = sender.stderr.take().map(|errors| tokio::spawn(last_line(errors)));
        let mut receivers: Vec<Ordered> = Vec::new();
        let mut sent = Sent::default();
        let mut has_ticket = false;
        let follow = async {
            while let Ok(Some(line)) = lines.next_line().await {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                sent.sent_bytes =
                    event["sent_bytes"].as_u64().map_or(sent.sent_bytes, |bytes| bytes.max(sent.sent_bytes));
                if !has_ticket && event["event"] == "ticket" {
                    has_ticket = true;
                    self.start_receivers(event["ticket"].as_str().unwrap_or_default(), &mut receivers)
                        .await?;
                }
                hear(&event);
            }
            Ok::<_, SessionError>(())
        };
        let longest = GATHER_TIME * 2 + Duration::from_secs(self.size_bytes / SLOWEST_BYTES);
        let (heard, is_stopped) = tokio::select! {
            heard = timeout(longest, follow) => (heard.unwrap_or(Ok(())), false),
            () = stop => (Ok(()), true),
        };
        // One that is done has ended by itself.
        _ = sender.kill().await;
        let patience = if is_stopped || heard.is_err() { Duration::ZERO } else { END_TIME };
        self.end_receivers(receivers, patience).await;
        heard?;
        if let (false, Some(complaints)) = (has_ticket, complaints) {
            sent.complaint = complaints.await.ok().flatten();
        }
        Ok(sent)
    }

    fn start_sender(&self) -> io::Result<(Child, Lines<BufReader<ChildStdout>>)> {
        let mut command = Command::new(self.treecast);
        command.args(["send", "--json", "--fanout", "auto", "--wait", &self.receivers.len().to_string()]);
        command.args(["--wait-timeout", &format!("{}s", GATHER_TIME.as_secs()), "--"]).args(&self.paths);
        start(command.stderr(Stdio::piped()))
    }

    /// Has each host receive. Those that were ordered are in `receivers` even if a later one cannot be.
    async fn start_receivers(&self, ticket: &str, receivers: &mut Vec<Ordered>) -> Result<(), SessionError> {
        for (host, folder) in &self.receivers {
            let mut arguments = receiving(host, folder);
            arguments.push(ticket.to_owned());
            let limit = GATHER_TIME * 3 + Duration::from_secs(3600 + self.size_bytes / SLOWEST_BYTES);
            let start = Start {
                program: Program::Treecast,
                arguments,
                folder: None,
                at_ns: None,
                limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                has_input: false,
            };
            let (order, reports) = self.hub.order_and_hear(host.id, Work::Start(start)).await?;
            receivers.push((host.id, order, reports));
        }
        Ok(())
    }

    /// Waits until receivers have ended. Those that do not end in time are asked to.
    async fn end_receivers(&self, receivers: Vec<Ordered>, patience: Duration) {
        let end = receivers.into_iter().map(|(host, order, mut reports)| async move {
            if timeout(patience, last(&mut reports)).await.is_ok() {
                return;
            }
            let signal = Work::Signal { order, signal: libc::SIGTERM };
            // A host that is away, or removed, is not waited for: its order is given when it comes.
            if self.hub.is_here(host).await && self.hub.order(host, signal).await.is_ok() {
                _ = timeout(END_TIME, last(&mut reports)).await;
            }
        });
        futures_util::future::join_all(end).await;
    }
}

/// Starts a sender. Returns it with the lines of its output.
///
/// # Errors
/// If it cannot be started.
pub fn start(command: &mut Command) -> io::Result<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut sender = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let output = sender.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    Ok((sender, BufReader::new(output).lines()))
}

/// Returns the words by which a host receives into a folder. A ticket is to follow.
pub fn receiving(host: &Host, folder: &Path) -> Vec<String> {
    let mut words: Vec<String> = ["receive", "--json", "--name", &host.name].map(str::to_owned).into();
    // A host without other interfaces than its loopback has none to name.
    if !host.facts.interface.is_empty() {
        words.extend(["--interface".to_owned(), host.facts.interface.clone()]);
    }
    words.extend(["--into".to_owned(), folder.to_string_lossy().into_owned()]);
    words
}

/// Waits for the last report about an order.
async fn last(reports: &mut mpsc::UnboundedReceiver<Report>) {
    while let Some(report) = reports.recv().await {
        if report.what.is_last() {
            return;
        }
    }
}

/// Reads to the end. Returns the last line.
async fn last_line(from: impl AsyncRead + Unpin) -> Option<String> {
    let (mut lines, mut last) = (BufReader::new(from).lines(), None);
    while let Ok(Some(line)) = lines.next_line().await {
        last = Some(line);
    }
    last
}
