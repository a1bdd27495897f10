//! The board on which a session leaves its snapshot for those that answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Snapshot;

/// The latest snapshot of one session, shared by the session and those who answer for it.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Posted>>);

#[derive(Debug, Default)]
struct Posted {
    /// Grows with each change.
    version: u64,
    snapshot: Arc<Snapshot>,
}

impl Board {
    pub fn new(snapshot: Snapshot) -> Self {
        Self(Arc::new(Mutex::new(Posted { version: 0, snapshot: Arc::new(snapshot) })))
    }

    /// Changes the snapshot. One that is being read stays as it was for its reader. A reader never makes this wait
    /// for more than the copy of a pointer.
    pub fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut posted = self.lock();
        posted.version += 1;
        change(Arc::make_mut(&mut posted.snapshot));
    }

    /// The latest snapshot and its version.
    pub fn read(&self) -> (u64, Arc<Snapshot>) {
        let posted = self.lock();
        (posted.version, Arc::clone(&posted.snapshot))
    }

    /// Renders the latest snapshot, each version once.
    pub(crate) fn render(self, mut render: impl FnMut(&Snapshot) -> Arc<[u8]>) -> impl FnMut() -> Arc<[u8]> {
        let mut rendered: Option<(u64, Arc<[u8]>)> = None;
        move || {
            let (version, snapshot) = self.read();
            match &rendered {
                Some((of, text)) if *of == version => Arc::clone(text),
                _ => Arc::clone(&rendered.insert((version, render(&snapshot))).1),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        // A snapshot that a change has left half done is still one to show.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_keeps_what_was_there() {
        let board = Board::default();
        let (first, before) = board.read();
        board.update(|snapshot| snapshot.session = "7".into());
        let (second, after) = board.read();
        assert_eq!((&*before.session, &*after.session), ("", "7"));
        assert!(second > first);
    }
}
