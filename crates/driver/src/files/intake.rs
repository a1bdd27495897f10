//! What has come and is not in the hands of the store yet. Small portions wait for each other a moment:
//! waking the store's thread for each of them costs more than writing it.

use std::{io, time::Duration};

use treecast_proto::Instant;

use super::{Ending, Journal, Report, Store, TargetFolder, Task};
use crate::{udp::Batch, wake::Waker};

/// How long bytes wait for others.
const MAX_AGE: Duration = Duration::from_millis(10);

/// How many bytes do not wait.
const ENOUGH_BYTES: usize = 128 * 1024;

/// A batch that is being filled, and what is to be done with what is in it.
#[derive(Debug)]
pub(crate) struct Intake {
    store: Store,
    batch: Batch,
    tasks: Vec<Task>,
    /// Something is in `tasks` since then.
    since: Option<Instant>,
    /// A task should not wait.
    is_urgent: bool,
    disk_wait: Duration,
}

impl Intake {
    /// Starts a store; `waker` is woken for each of its reports.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(folder: TargetFolder, journal: Journal, waker: Waker) -> io::Result<Self> {
        let mut store = Store::start(folder, journal, waker)?;
        let batch = store.batch();
        Ok(Self { store, batch, tasks: Vec::new(), since: None, is_urgent: false, disk_wait: Duration::ZERO })
    }

    /// Where to put what comes. What is in it stays at its place until [`Intake::hand_over`].
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Adds something to do.
    pub fn add(&mut self, now: Instant, task: Task) {
        self.since.get_or_insert(now);
        self.is_urgent |= matches!(
            task,
            Task::Hash { .. }
                | Task::CheckChunks { .. }
                | Task::Commit { .. }
                | Task::Discard { .. }
                | Task::Decode { .. }
        );
        self.tasks.push(task);
    }

    /// Hands over what should not wait any longer. With `is_full`, no more fits into the batch.
    pub fn hand_over(&mut self, now: Instant, is_full: bool) {
        let is_due = self.deadline().is_some_and(|deadline| now >= deadline);
        if self.tasks.is_empty() {
            // All that is in it was of no use.
            self.batch.clear();
        } else if is_full || is_due || self.is_urgent || self.batch.used() >= ENOUGH_BYTES {
            let empty = self.next_batch();
            let batch = std::mem::replace(&mut self.batch, empty);
            self.store.submit(batch, std::mem::take(&mut self.tasks));
            self.since = None;
            self.is_urgent = false;
        }
    }

    /// An empty batch. While the disk has them all, packets wait.
    fn next_batch(&mut self) -> Batch {
        let asked = std::time::Instant::now();
        let batch = self.store.batch();
        self.disk_wait += asked.elapsed();
        batch
    }

    /// How long packets have waited for the disk so far.
    pub fn disk_wait(&self) -> Duration {
        self.disk_wait
    }

    /// When [`Intake::hand_over`] has something to do even if nothing more comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + MAX_AGE)
    }

    /// As [`Store::report`].
    pub fn report(&self) -> Option<Report> {
        self.store.report()
    }

    /// As [`Store::end`].
    pub fn end(&self, ending: Ending) -> Option<String> {
        self.store.end(ending)
    }
}
