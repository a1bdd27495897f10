//! Coming back: when the connection to the sender breaks, a receiver keeps what it has and joins again.
//!
//! It continues from its journal, like a receiver that was killed and started again. So there is only one way
//! to come back, and nothing is fetched twice.

use std::time::{Duration, Instant};

use treecast_host::stop::Stop;
use treecast_wire::header::FileId;

use super::{
    ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveProgress, ReceiveSummary,
    join::{self, Member},
    session::{Carried, Ended, Session},
};
use crate::{
    files::{Ending, Journal, TargetFolder},
    hindrance::Hindrance,
    remedies::{Advised, Remedy},
};

/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// Receives a session over as many connections as it takes.
pub(super) fn run(
    options: &ReceiveOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<ReceiveSummary, ReceiveError> {
    // Before the sender hears of this receiver, which could keep nothing otherwise.
    let folder = options.open_folder()?;
    let mut storage = Journal::open(&folder, options.ticket.session, true)?;
    let member = Member::new(options, &mut storage.0, on_event)?;
    let mut until = (false, Instant::now() + options.connect_timeout);
    let joined = join::join(options, &member, until, stop, on_event)?;
    let carried = Carried::new(options.rules);
    let session = Session::open(options, folder.clone(), storage, joined, carried, on_event)?;
    let mut ended = session.run(stop)?;
    loop {
        let (carried, reason, failing) = match ended {
            Ended::Over(summary) => return Ok(*summary),
            Ended::Broken { carried, reason, failing } => (carried, reason, failing),
        };
        let seconds = options.reconnect.as_secs();
        let line = format!("{reason}; what came is kept, and the sender is looked for again for {seconds} s");
        on_event(ReceiveEvent::Warning(Advised::by(Remedy::Reconnect, line)));
        let away_since = Instant::now();
        until = (true, away_since + options.reconnect);
        // A sender that breaks off at once, again and again, is left alone for a moment each time.
        std::thread::sleep(PAUSE);
        let again = persist(until.1, stop, || {
            join_again(
                options,
                &folder,
                &member,
                (until, away_since),
                Carried::clone(&carried),
                stop,
                on_event,
            )
        });
        ended = match again {
            Ok(ended) => ended,
            Err(error) => {
                let summary = carried.summary;
                return Ok(give_up(
                    options,
                    &folder,
                    summary,
                    (reason, failing),
                    &error,
                    stop.is_time_up(),
                    on_event,
                ));
            }
        };
    }
}

/// Repeats an attempt until the deadline. All errors may pass, that of an interface that is down as well as that of a
/// sender that goes again at once. Only a refusal by the sender itself is final.
fn persist<T>(
    deadline: Instant,
    stop: &Stop,
    mut attempt: impl FnMut() -> Result<T, ReceiveError>,
) -> Result<T, ReceiveError> {
    loop {
        match attempt() {
            Err(_) if stop.is_requested() => return Err(ReceiveError::Interrupted),
            Err(
                error @ (ReceiveError::NotAdmitted(_)
                | ReceiveError::NotMeant(_)
                | ReceiveError::OtherVersion(_)
                | ReceiveError::Interrupted),
            ) => return Err(error),
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn join_again(
    options: &ReceiveOptions,
    folder: &TargetFolder,
    member: &Member,
    (until, away_since): ((bool, Instant), Instant),
    carried: Carried,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<Ended, ReceiveError> {
    let mut storage = Journal::open(folder, options.ticket.session, true)?;
    // The one from before is gone if nothing was stored.
    member.note_in(&mut storage.0);
    let mut while_away = |event| {
        if matches!(event, ReceiveEvent::Idle) {
            let hindrance = Some(Hindrance::Away(away_since.elapsed().as_secs_f64()));
            let (now_bps, seconds_left) = (Some(0), None);
            let progress = ReceiveProgress { now_bps, seconds_left, hindrance, ..carried.progress };
            on_event(ReceiveEvent::Progress(progress));
        }
        on_event(event);
    };
    let joined = persist(until.1, stop, || join::join(options, member, until, stop, &mut while_away))?;
    Session::open(options, folder.clone(), storage, joined, carried, on_event)?.run(stop)
}

/// The sender is not there any more: what had not come has failed.
fn give_up(
    options: &ReceiveOptions,
    folder: &TargetFolder,
    mut summary: ReceiveSummary,
    (reason, failing): (String, Vec<(FileId, String, Advised)>),
    error: &ReceiveError,
    is_time_up: bool,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> ReceiveSummary {
    for (_, name, reason) in failing {
        summary.failed += 1;
        on_event(ReceiveEvent::Failed { name, reason, discarded_bytes: 0 });
    }
    summary.interrupted = matches!(error, ReceiveError::Interrupted);
    if summary.interrupted
        && options.discards
        && !is_time_up
        && let Ok((journal, _)) = Journal::open(folder, options.ticket.session, true)
    {
        journal.end(Ending::Interrupted);
    }
    let line = format!("{reason}; then: {error}");
    summary.cut_short = Some(Advised { line, remedy: error.remedy() });
    summary.progress.objects_failed = summary.failed;
    summary
}
