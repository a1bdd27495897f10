//! The way from a session's thread into Python, which closes before Python ends.
//!
//! A thread that enters Python while it ends is killed by it, in the middle of this library's code. So the module registers a function
//! with `atexit`. It closes the gate, and waits for the functions of the program that run.

use std::{
    process,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use pyo3::prelude::*;

/// The time between looks for functions that run.
const LOOK: Duration = Duration::from_millis(2);

/// The number of functions of the program that threads of the library run.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The process that has loaded the module.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Has the gate closed when Python ends.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    PROCESS.store(process::id(), Ordering::SeqCst);
    let close = wrap_pyfunction!(close, module)?;
    module.py().import("atexit")?.call_method1("register", (close,)).map(drop)
}

/// Runs what needs Python in a thread of the library. `None` when Python ends.
pub fn enter<T>(body: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _visitor = Visitor::enter();
    if IS_CLOSED.load(Ordering::SeqCst) {
        return None;
    }
    Python::try_attach(body)
}

/// Counts a thread until it is out of Python, also if it panics.
struct Visitor;

impl Visitor {
    fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets no thread of the library into Python any more, and waits until all are out. Ctrl-C ends the wait.
#[pyfunction]
fn close(python: Python<'_>) -> PyResult<()> {
    // The threads of the library are not in a child that was forked.
    if process::id() != PROCESS.load(Ordering::SeqCst) {
        return Ok(());
    }
    IS_CLOSED.store(true, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 {
        python.detach(|| thread::sleep(LOOK));
        python.check_signals()?;
    }
    Ok(())
}
