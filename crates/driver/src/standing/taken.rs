//! One session that a standing receiver has taken, on a thread of its own.

use std::{
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use treecast_host::{folder, stop::Stop, wake::Waker};
use treecast_proto::{announced::SessionKey, standing::Ending};
use treecast_wire::{
    announcement::{Announcement, ForStanding},
    message::Role,
};

use super::{
    Options, Rule,
    report::{Ended, Report},
};
use crate::receive::{self, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveProgress, ReceiveSummary};

/// The time for which the sender is looked for before the session is given up until it is announced again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
const RECONNECT_TIME: Duration = Duration::from_secs(60);

/// A session that is being received.
#[derive(Debug)]
pub(super) struct Taken {
    pub announcement: Announcement,
    pub rule: usize,
    pub stop: Stop,
    pub began: Instant,
    /// The time at which it must be over. `None`: it may take as long as it likes.
    pub until: Option<Instant>,
    /// Whether the history says that it has begun. It does when the sender has admitted this receiver.
    pub is_noted: bool,
    /// The progress of the session.
    pub progress: Arc<Mutex<ReceiveProgress>>,
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
            role: Role {
                is_standing: true,
                reports: rule.command.is_some() && announcement.audience.awaits_results,
            },
            ..ReceiveOptions::new(announcement.ticket().clone(), rule.into.clone())
        };
        let began = Instant::now();
        let until = rule.max_time.map(|time| began + time.saturating_sub(spent));
        let own_stop = stop.clone();
        let audience = announcement.audience.standing;
        let progress = Arc::new(Mutex::new(ReceiveProgress::default()));
        let posted = progress.clone();
        let work = move || {
            let mut on_admission = |session| {
                _ = reports.send(Report::Admitted(session));
                waker.wake();
            };
            let result = receive(&receiving, &rule, &own_stop, audience, &posted, &mut on_admission);
            // The service waits for this, until it is told to end.
            _ = reports.send(Report::Ended(result));
            waker.wake();
        };
        let thread = treecast_host::thread::spawn("session", work)?;
        let is_noted = false;
        Ok(Self { announcement, rule: rule_index, stop, began, until, is_noted, progress, thread })
    }

    /// Ends it, so that it can go on later where it was.
    pub fn end(self) {
        self.stop.end_time(Duration::ZERO);
        // A panic there has been reported.
        _ = self.thread.join();
    }
}

/// Receives a session that is for `audience`.
fn receive(
    options: &ReceiveOptions,
    rule: &Rule,
    stop: &Stop,
    audience: ForStanding,
    progress: &Mutex<ReceiveProgress>,
    on_admission: &mut dyn FnMut(SessionKey),
) -> Ended {
    let (mut failed, mut warning, mut was_full) = (None, None, false);
    let sender_key = options.ticket.security.as_ref().map_or([0; 32], |security| security.sender_key);
    let session = (sender_key, options.ticket.session);
    let mut on_event = |event: ReceiveEvent| match event {
        ReceiveEvent::Joined { .. } => on_admission(session),
        ReceiveEvent::Received { name, .. } => {
            let given = rule.owner.map_or(Ok(()), |owner| owner.take(&rule.into, &name));
            if let Err(error) = given {
                warning.get_or_insert(format!("cannot give {name} to its owner: {error}"));
            }
        }
        ReceiveEvent::Full(_) => was_full = true,
        ReceiveEvent::Progress(told) => *progress.lock().unwrap_or_else(PoisonError::into_inner) = told,
        ReceiveEvent::Failed { name, reason, .. } => _ = failed.get_or_insert(format!("{name}: {reason}")),
        _ => {}
    };
    let result = receive::run(options, stop, &mut on_event);
    let (ending, text) = match &result {
        Err(ReceiveError::NotMeant(reason)) => (Ending::NotMeant(audience), Some(reason.clone())),
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
    Ended { session, ending, files: summary.received, bytes: summary.received_bytes, text: text.or(warning) }
}

fn ending(summary: &ReceiveSummary, failed: Option<String>) -> (Ending, Option<String>) {
    match summary {
        ReceiveSummary { limit: Some(limit), .. } => (Ending::Limit, Some(limit.to_string())),
        summary if summary.is_complete() => (Ending::Complete, None),
        ReceiveSummary { cut_short: Some(reason), .. } => (Ending::Away, Some(reason.line.clone())),
        ReceiveSummary { failed: 0, .. } => (Ending::Away, Some("it was told to stop".to_owned())),
        summary => {
            let files = if summary.failed == 1 { "file" } else { "files" };
            let first = failed.map_or_else(String::new, |first| format!(", the first: {first}"));
            (Ending::Failed, Some(format!("{} {files} failed{first}", summary.failed)))
        }
    }
}
