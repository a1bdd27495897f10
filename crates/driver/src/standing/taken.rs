//! One session that a standing receiver has taken, on a thread of its own.

use std::{
    fs::File,
    io,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::Sender,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use treecast_host::{folder, stop::Stop, wake::Waker};
use treecast_proto::standing::Ending;
use treecast_wire::announcement::Announcement;

use super::{
    Options, Rule,
    report::{Ended, Report},
};
use crate::receive::{self, ReceiveEvent, ReceiveOptions, ReceiveSummary};

/// How long the sender is looked for before the session is given up until it is announced again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
const RECONNECT_TIME: Duration = Duration::from_secs(60);

/// A session that is being received.
#[derive(Debug)]
pub(super) struct Taken {
    pub announcement: Announcement,
    pub rule: usize,
    pub stop: Stop,
    /// When its time is over. `None`: it may take as long as it likes.
    pub until: Option<Instant>,
    thread: JoinHandle<()>,
}

impl Taken {
    /// Begins to receive.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn begin(
        options: &Options,
        rule_index: usize,
        announcement: Announcement,
        reports: Sender<Report>,
        waker: Waker,
    ) -> io::Result<Self> {
        let rule = options.rules[rule_index].clone();
        let stop = Stop::new()?;
        let receiving = ReceiveOptions {
            name: Some(options.name.clone()),
            interface: match &options.interfaces[..] {
                [one] => Some(one.clone()),
                _ => None,
            },
            chooser: rule.chooser.clone(),
            rules: rule.files,
            connect_timeout: CONNECT_TIME,
            reconnect: RECONNECT_TIME,
            identity: Some(options.identity.clone()),
            secure_only: true,
            ..ReceiveOptions::new(announcement.ticket().clone(), rule.into.clone())
        };
        let until = rule.max_time.map(|time| Instant::now() + time);
        let own_stop = stop.clone();
        let work = move || {
            let result = receive(&receiving, &rule, &own_stop);
            // The service waits for this, until it is told to end.
            _ = reports.send(Report::Ended(result));
            waker.wake();
        };
        let thread = thread::Builder::new().name("session".into()).spawn(work)?;
        Ok(Self { announcement, rule: rule_index, stop, until, thread })
    }

    /// Ends it, so that it can go on later where it was.
    pub fn end(self) {
        self.stop.end_time(Duration::ZERO);
        // A panic there has been reported.
        _ = self.thread.join();
    }
}

fn receive(options: &ReceiveOptions, rule: &Rule, stop: &Stop) -> Ended {
    let (mut failed, mut warning, mut was_full) = (None, None, false);
    let mut on_event = |event: ReceiveEvent| match event {
        ReceiveEvent::Received { name, .. } => {
            let given = rule.owner.map_or(Ok(()), |owner| owner.take(&rule.into, &name));
            if let Err(error) = given {
                warning.get_or_insert(format!("cannot give {name} to its owner: {error}"));
            }
        }
        ReceiveEvent::Full(_) => was_full = true,
        ReceiveEvent::Failed { name, reason, .. } => _ = failed.get_or_insert(format!("{name}: {reason}")),
        _ => {}
    };
    let result = receive::run(options, stop, &mut on_event);
    let (ending, text) = match &result {
        Err(error) => (Ending::Away, Some(error.to_string())),
        Ok(summary) => ending(summary, failed),
    };
    // Nothing fetches it again once the history says that it is there.
    let (ending, text) = match ending {
        Ending::Complete => match File::open(&rule.into).and_then(folder::sync_file_system) {
            Ok(()) => (ending, text),
            Err(error) => (Ending::Away, Some(format!("cannot write all of it to the disk: {error}"))),
        },
        // Somebody may make room.
        Ending::Failed if was_full => (Ending::Away, text),
        _ => (ending, text),
    };
    let summary = result.unwrap_or_default();
    Ended {
        session: (
            options.ticket.security.as_ref().map_or([0; 32], |security| security.sender_key),
            options.ticket.session,
        ),
        ending,
        files: summary.received,
        bytes: summary.received_bytes,
        text: text.or(warning),
    }
}

fn ending(summary: &ReceiveSummary, failed: Option<String>) -> (Ending, Option<String>) {
    match summary {
        ReceiveSummary { limit: Some(limit), .. } => (Ending::Limit, Some(limit.to_string())),
        summary if summary.is_complete() => (Ending::Complete, None),
        ReceiveSummary { cut_short: Some(reason), .. } => (Ending::Away, Some(reason.clone())),
        ReceiveSummary { failed: 0, .. } => (Ending::Away, Some("it was told to stop".to_owned())),
        summary => {
            let files = if summary.failed == 1 { "file" } else { "files" };
            let first = failed.map_or_else(String::new, |first| format!(", the first: {first}"));
            (Ending::Failed, Some(format!("{} {files} failed{first}", summary.failed)))
        }
    }
}

/// Runs the program of a rule. No shell takes part.
///
/// # Errors
/// Why it has not run, or how it has ended.
pub(super) fn run_command(words: &[String], into: &Path, announced_name: &str) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let folder = into.to_string_lossy();
    let status = Command::new(program)
        .args(arguments.iter().map(|word| word.replace("{}", &folder)))
        .env("TREECAST_SESSION", announced_name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}
