//! Where a session runs: its process and its thread.

use std::{
    process,
    sync::{Arc, OnceLock},
    thread::{self, ThreadId},
};

use crate::{Error, ErrorKind};

/// The process and the thread of a session. Its program may call from the thread itself, by a function that the session calls,
/// or from a child that was forked, where no thread runs the session.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    process: u32,
    thread: Arc<OnceLock<ThreadId>>,
}

impl Place {
    /// This process, and a thread that is not known yet.
    pub fn new() -> Self {
        Self { process: process::id(), thread: Arc::default() }
    }

    /// The session runs in the calling thread from now on.
    pub fn enter(&self) {
        _ = self.thread.set(thread::current().id());
    }

    /// Whether the calling process is that of the session.
    pub fn is_in_process(&self) -> bool {
        process::id() == self.process
    }

    /// Whether the calling thread is that of the session. Nothing can happen in the session while this thread waits.
    pub fn is_in_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    /// Whether something can happen in the session while the calling thread waits for it.
    pub fn can_wait(&self) -> bool {
        self.is_in_process() && !self.is_in_thread()
    }

    /// Refuses a process that is not the session's.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] in a child that was forked.
    pub fn check_process(&self) -> Result<(), Error> {
        if self.is_in_process() {
            return Ok(());
        }
        let line = format!(
            "the session runs in process {}, which has forked this one: start another session here",
            self.process
        );
        Err(Error::new(ErrorKind::Closed, line))
    }

    /// Refuses a thread that would wait without end.
    ///
    /// # Errors
    /// Those of [`Place::check_process`], and [`ErrorKind::Deadlock`] in the session's own thread.
    pub fn check_wait(&self) -> Result<(), Error> {
        self.check_process()?;
        if !self.is_in_thread() {
            return Ok(());
        }
        let line =
            "a function that the session calls cannot wait for the session's end: wait in another thread";
        Err(Error::new(ErrorKind::Deadlock, line))
    }
}

/// A value that only the process which has made it drops. A child that was forked has a copy, whose threads do not run there.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    value: Option<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if process::id() != self.process {
            std::mem::forget(self.value.take());
        }
    }
}
