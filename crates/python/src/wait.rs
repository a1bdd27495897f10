//! Waiting without keeping the rest of Python from running.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use pyo3::prelude::*;
use treecast::{ErrorKind, Finish};

use crate::error::{option, raise};

/// The time between looks for signals.
pub const LOOK: Duration = Duration::from_millis(100);

/// Waits by `step`, a short time at once, until it has something or the time is over. `None`: no end.
pub fn wait<T: Send>(
    python: Python<'_>,
    timeout: Option<f64>,
    step: impl Fn(Duration) -> Option<T> + Send + Sync,
) -> PyResult<Option<T>> {
    let until = timeout.map(seconds).transpose()?.and_then(|time| Instant::now().checked_add(time));
    loop {
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        if let Some(found) = python.detach(|| step(left)) {
            return Ok(Some(found));
        }
        python.check_signals()?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
    }
}

/// A number of seconds from Python.
pub fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| option(format!("{seconds} is no time in seconds")))
}

/// What is ready, for [`wait`].
pub fn ready<T>(poll: Poll<T>) -> Option<T> {
    if let Poll::Ready(value) = poll { Some(value) } else { None }
}

/// Waits for the end of a session, and takes its report. `None` if it is not over when the time is.
pub fn ended<R: Send>(python: Python<'_>, timeout: Option<f64>, end: &Finish<R>) -> PyResult<Option<R>> {
    wait(python, timeout, |time| end.wait_timeout(time))?.transpose().map_err(raise)
}

/// Waits for the end of a session, unless the program has taken the report already.
pub fn wait_if_nobody_has<R: Send>(python: Python<'_>, end: &Finish<R>) -> PyResult<()> {
    let report = wait(python, None, |time| end.wait_timeout(time))?;
    match report {
        Some(Err(error)) if error.kind() != ErrorKind::Closed => Err(raise(error)),
        _ => Ok(()),
    }
}
