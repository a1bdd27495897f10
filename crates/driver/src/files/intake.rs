//! Collects received bytes before the store gets them. Small portions wait for each other a moment, because
//! waking the store's thread for each would cost more than writing it.

use std::{io, time::Duration};

use treecast_host::wake::Waker;
use treecast_proto::Instant;

use super::{Buffers, Ending, Journal, Report, Store, TargetFolder, Task};
use crate::udp::Batch;

/// The longest time that bytes wait for others.
const MAX_AGE: Duration = Duration::from_millis(10);

/// The number of bytes from which on they do not wait.
const ENOUGH_BYTES: usize = 128 * 1024;

/// Announced bytes for each byte that may wait for the store at a time. A receiver that is killed has fetched what waits in
/// vain, because it is in no file or not in the journal. As much again waits in the batch that is being filled.
const SHARE: u64 = 512;

/// Number of bytes that may wait for the store however little has been announced.
const LEAST_WAITING: usize = 16 * 1024;

/// A batch that is being filled, and what is to be done with what is in it.
#[derive(Debug)]
pub(crate) struct Intake {
    store: Store,
    batch: Batch,
    tasks: Vec<Task>,
    /// Bytes of all objects that the store has been told of.
    announced_bytes: u64,
    /// Something is in `tasks` since then.
    since: Option<Instant>,
    /// A task should not wait.
    is_urgent: bool,
    disk_wait: Duration,
}

impl Intake {
    /// Starts a store. It wakes `waker` for each of its reports, and gives the memory of small objects to
    /// `buffers`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(folder: TargetFolder, journal: Journal, waker: Waker, buffers: Buffers) -> io::Result<Self> {
        let mut store = Store::start(folder, journal, waker, buffers)?;
        let batch = store.batch();
        Ok(Self {
            store,
            batch,
            tasks: Vec::new(),
            announced_bytes: 0,
            since: None,
            is_urgent: false,
            disk_wait: Duration::ZERO,
        })
    }

    /// The batch for received bytes. Its content stays until [`Intake::hand_over`].
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Adds a task for the storage to the batch.
    pub fn add(&mut self, now: Instant, task: Task) {
        self.since.get_or_insert(now);
        if let Task::Announce { begin, .. } = &task {
            self.announced_bytes = self.announced_bytes.saturating_add(begin.file_size);
        }
        self.is_urgent |= matches!(
            task,
            Task::Hash { .. }
                | Task::HashAsBlake2b { .. }
                | Task::CheckChunks { .. }
                | Task::Commit { .. }
                | Task::Discard { .. }
                | Task::Decode { .. }
                | Task::Read { .. }
        );
        // Long stretches of zeros cost one call to the kernel.
        if let (Some(Task::KeepZeros { file: last, range }), Task::KeepZeros { file, range: next }) =
            (self.tasks.last_mut(), &task)
            && (*last, range.end) == (*file, next.start)
        {
            range.end = next.end;
            return;
        }
        self.tasks.push(task);
    }

    /// The tasks that are there wait for no others.
    pub fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// The most bytes that may wait for the store.
    fn most_waiting(&self) -> usize {
        match self.announced_bytes {
            // What is held in memory is in a log.
            0 => usize::MAX,
            bytes => usize::try_from(bytes / SHARE).unwrap_or(usize::MAX).max(LEAST_WAITING),
        }
    }

    /// Whether the batch is so full that no more should be received before it is handed over.
    pub fn is_filled(&self) -> bool {
        self.batch.used() >= self.most_waiting()
    }

    /// Hands over tasks that should not wait any longer. With `is_full`, no more bytes fit into the batch.
    pub fn hand_over(&mut self, now: Instant, is_full: bool) {
        let is_due = self.deadline().is_some_and(|deadline| now >= deadline);
        if self.tasks.is_empty() {
            // All that is in it was of no use.
            self.batch.clear();
        } else if is_full || is_due || self.is_urgent || self.batch.used() >= ENOUGH_BYTES || self.is_filled()
        {
            self.submit();
        }
    }

    /// Submits the tasks and the batch. Packets wait while the disk has all batches, or too much that is not written.
    fn submit(&mut self) {
        let asked = std::time::Instant::now();
        let empty = self.store.batch();
        let batch = std::mem::replace(&mut self.batch, empty);
        self.store.submit(batch, std::mem::take(&mut self.tasks), self.most_waiting());
        self.disk_wait += asked.elapsed();
        self.since = None;
        self.is_urgent = false;
    }

    /// The total time for which packets have waited for the disk.
    pub fn disk_wait(&self) -> Duration {
        self.disk_wait
    }

    /// The time when [`Intake::hand_over`] has something to do even if nothing more comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + MAX_AGE)
    }

    /// Returns the next answer of the storage, as [`Store::report`] does.
    pub fn report(&self) -> Option<Report> {
        self.store.report()
    }

    /// Ends the storage, as [`Store::end`] does.
    pub fn end(&self, ending: Ending) -> Option<String> {
        self.store.end(ending)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use treecast_wire::{
        header::{FileId, SessionId},
        message::{BeginOfFile, TransferType},
    };

    use super::*;
    use crate::files::Kept;
    use crate::scratch::scratch;

    const SIZE: u64 = 16 << 20;
    const RUN: usize = 64 * 1024;

    /// The number of bytes in part files, by what journals say.
    fn noted_bytes(path: &Path) -> u64 {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let journal = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
        let text = std::fs::read_to_string(journal.unwrap()).unwrap();
        let noted = text.lines().filter_map(|line| line.strip_prefix("have ")?.split(' ').nth(2));
        let ranges = noted.flat_map(|ranges| ranges.split_terminator(',')).map(|range| {
            let (start, end) = range.split_once('-').unwrap();
            end.parse::<u64>().unwrap() - start.parse::<u64>().unwrap()
        });
        ranges.sum()
    }

    #[test]
    fn whenever_a_receiver_is_killed_little_of_what_it_has_fetched_is_lost() {
        let path = scratch("killed");
        let folder = TargetFolder::open(&path).unwrap();
        let (journal, _) = Journal::open(&folder, SessionId(0), true).unwrap();
        let mut intake = Intake::start(folder, journal, Waker::new().unwrap(), Buffers::default()).unwrap();
        let (file, now) = (FileId(0), Instant::ZERO);
        let begin = BeginOfFile::new(TransferType::DiskToDisk, SIZE, "name").unwrap();
        intake.add(now, Task::Announce { file, begin, kept: Kept::Nothing });
        assert!(!intake.is_filled());
        for start in (0..SIZE).step_by(RUN) {
            let at = intake.batch().used();
            intake.batch().push_block(file, start, &[7; RUN]);
            intake.add(now, Task::Keep { file, range: start..start + RUN as u64, at });
            assert!(intake.is_filled(), "no more is to be read from the socket");
            intake.hand_over(now, false);
            let lost = start + RUN as u64 - noted_bytes(&path);
            // And what is less than a step of the journal.
            assert!(lost < SIZE / SHARE + SIZE / 1024, "{lost} of {start} bytes would be lost");
        }
        drop(intake);
    }
}
