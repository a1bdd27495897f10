//! Carries out the events of a run: each begins and ends at its time, at any site.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use treecast_lab::events::{Event, Fault, agenda};

use super::Site;

/// An event that has begun or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// The time since the events' clock began.
    pub at: Duration,
    /// The event in words.
    pub what: String,
}

/// Carries out the events until `run` is over, and ends those that still go on. Returns what `run` returns, and
/// which events have happened.
pub fn while_they_happen<T>(
    site: &dyn Site,
    events: &[Event],
    origin: Instant,
    run: impl FnOnce() -> T,
) -> (T, io::Result<Vec<Happening>>) {
    if events.is_empty() {
        return (run(), Ok(Vec::new()));
    }
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let happening = scope.spawn(move || happen(site, events, origin, is_over));
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        (result, happening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn happen(
    site: &dyn Site,
    events: &[Event],
    origin: Instant,
    is_over: &AtomicBool,
) -> io::Result<Vec<Happening>> {
    const LOOK: Duration = Duration::from_millis(5);
    let mut happened = Vec::new();
    // In the order in which they began: a link is up again before routes take it.
    let mut ongoing: Vec<(Fault, Box<dyn Send>)> = Vec::new();
    let mut outcome = Ok(());
    for step in agenda(events) {
        while origin.elapsed() < step.at && !is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        outcome = match step.begins {
            true => site.begin(&step.fault).map(|held| ongoing.push((step.fault.clone(), held))),
            false => {
                ongoing.retain(|(fault, _)| *fault != step.fault);
                site.end(&step.fault)
            }
        };
        if outcome.is_err() {
            break;
        }
        happened.push(Happening { at: origin.elapsed(), what: step.to_string() });
    }
    while !is_over.load(Ordering::Relaxed) && outcome.is_ok() {
        thread::sleep(LOOK);
    }
    for (fault, held) in ongoing {
        drop(held);
        outcome = outcome.and(site.end(&fault));
    }
    outcome.map(|()| happened)
}
