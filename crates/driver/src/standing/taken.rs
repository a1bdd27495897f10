//! One session that a standing receiver has taken, on a thread of its own.

use std::{
    fs::File,
    io,
    os::unix::process::CommandExt as _,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::Sender,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use treecast_host::{folder, poller::is_readable_within, process, stop::Stop, wake::Waker};
use treecast_proto::standing::Ending;
use treecast_wire::announcement::Announcement;

use super::{
    Options, Rule,
    report::{Ended, Report},
};
use crate::{
    clock::duration_in_words,
    receive::{self, ReceiveEvent, ReceiveOptions, ReceiveSummary},
};

/// How long the sender is looked for before the session is given up until it is announced again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
const RECONNECT_TIME: Duration = Duration::from_secs(60);

/// A session that is being received.
#[derive(Debug)]
pub(super) struct Taken {
    pub announcement: Announcement,
    pub rule: usize,
    pub stop: Stop,
    pub began: Instant,
    /// When its time is over. `None`: it may take as long as it likes.
    pub until: Option<Instant>,
    thread: JoinHandle<()>,
}

impl Taken {
    /// Begins to receive. `spent` is the time that earlier tries have taken.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn begin(
        options: &Options,
        rule_index: usize,
        announcement: Announcement,
        spent: Duration,
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
        let began = Instant::now();
        let until = rule.max_time.map(|time| began + time.saturating_sub(spent));
        let own_stop = stop.clone();
        let work = move || {
            let result = receive(&receiving, &rule, &own_stop);
            // The service waits for this, until it is told to end.
            _ = reports.send(Report::Ended(result));
            waker.wake();
        };
        let thread = thread::Builder::new().name("session".into()).spawn(work)?;
        Ok(Self { announcement, rule: rule_index, stop, began, until, thread })
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

/// Runs the program of a rule. No shell takes part. A program that takes too long is killed with its process group.
///
/// # Errors
/// Why it has not run, or how it has ended.
pub(super) fn run_command(rule: &Rule, announced_name: &str) -> Result<(), String> {
    let words = rule.command.as_deref().unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let folder = rule.into.to_string_lossy();
    let mut command = Command::new(program);
    command
        .args(arguments.iter().map(|word| word.replace("{}", &folder)))
        .env("TREECAST_SESSION", announced_name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    match status_within(&mut command, rule.command_time) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{program}: {status}")),
        Ok(None) => Err(format!(
            "{program}: it was killed, because it had not ended after {} (command_time)",
            duration_in_words(rule.command_time.as_secs())
        )),
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}

/// Runs a program that leads a process group. Returns `None` if the group was killed after this time.
fn status_within(command: &mut Command, time: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let has_ended = ends_within(child.id(), time);
    if let Ok(true) = has_ended {
        return child.wait().map(Some);
    }
    _ = process::kill_group(child.id());
    child.wait()?;
    has_ended.map(|_| None)
}

fn ends_within(process: u32, time: Duration) -> io::Result<bool> {
    let (end, start) = (process::open_end(process)?, Instant::now());
    loop {
        let left = time.saturating_sub(start.elapsed());
        // A signal ends the wait early.
        if is_readable_within(&end, left)? || left.is_zero() {
            return is_readable_within(&end, Duration::ZERO);
        }
    }
}
