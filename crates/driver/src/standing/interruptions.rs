//! The interruptions of sessions that are to be tried again.

use std::{collections::BTreeMap, time::Duration};

use treecast_proto::announced::SessionKey;

use super::history::{Entry, Happened};

/// The largest number of sessions of which it is remembered how they ended.
const MOST: usize = 1000;

/// The last interruptions, so that the same one is noted once only. It would fill the history otherwise while nobody looks. And the
/// time that was spent on each session, so that a limit of time holds over all its tries.
#[derive(Debug, Default)]
pub(super) struct Interruptions(BTreeMap<SessionKey, Interruption>);

#[derive(Debug)]
struct Interruption {
    text: Option<String>,
    bytes: Option<u64>,
    /// Whether the try before ended in the same way.
    is_repeated: bool,
    /// The time that all tries have taken together.
    spent: Duration,
}

impl Interruptions {
    /// Takes note of how a session has ended, and after what time. Returns whether its last try ended in the same way.
    pub fn is_repeated(&mut self, session: SessionKey, end: &Entry, time: Duration) -> bool {
        let spent = self.spent(&session) + time;
        let last = self.0.remove(&session);
        if end.event != Happened::Interrupted {
            return false;
        }
        let (text, bytes) = (end.text.clone(), end.bytes);
        let is_repeated = last.is_some_and(|last| last.text == text && last.bytes == bytes);
        if self.0.len() >= MOST {
            self.0.pop_first();
        }
        self.0.insert(session, Interruption { text, bytes, is_repeated, spent });
        is_repeated
    }

    /// The time that the tries of a session have taken which is to be tried again.
    pub fn spent(&self, session: &SessionKey) -> Duration {
        self.0.get(session).map_or(Duration::ZERO, |last| last.spent)
    }

    /// Whether the last two tries of a session ended in the same way.
    pub fn is_repeating(&self, session: &SessionKey) -> bool {
        self.0.get(session).is_some_and(|last| last.is_repeated)
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::SessionId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_same_interruption_is_noted_once_until_something_else_happens() {
        let (mut interruptions, session) = (Interruptions::default(), ([1; 32], SessionId(1)));
        let mut end = |text: &str, event| {
            let is_repeated = interruptions.is_repeated(session, &Entry::new(event).because(text), SECOND);
            (is_repeated, interruptions.is_repeating(&session), interruptions.spent(&session).as_secs())
        };
        let interrupted = Happened::Interrupted;
        assert_eq!(end("the folder is gone", interrupted), (false, false, 1));
        assert_eq!(end("the folder is gone", interrupted), (true, true, 2));
        assert_eq!(end("the folder is gone", interrupted), (true, true, 3));
        assert_eq!(end("the sender is gone", interrupted), (false, false, 4));
        assert_eq!(end("", Happened::Received), (false, false, 0));
        assert_eq!(end("the sender is gone", interrupted), (false, false, 1));
        for number in 0..2 * MOST as u32 {
            interruptions.is_repeated(([2; 32], SessionId(number)), &Entry::new(interrupted), SECOND);
        }
        assert_eq!(interruptions.0.len(), MOST);
    }
}
