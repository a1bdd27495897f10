//! How sessions ended that are to be tried again.

use std::collections::BTreeMap;

use treecast_proto::announced::SessionKey;

use super::history::{Entry, Happened};

/// The largest number of sessions of which it is remembered how they ended.
const MOST: usize = 1000;

/// The last interruptions, so that the same one is noted once only. It would fill the history otherwise while nobody looks.
#[derive(Debug, Default)]
pub(super) struct Interruptions(BTreeMap<SessionKey, Interruption>);

#[derive(Debug)]
struct Interruption {
    text: Option<String>,
    bytes: Option<u64>,
    /// Whether the try before ended in the same way.
    is_repeated: bool,
}

impl Interruptions {
    /// Takes note of how a session has ended. Returns whether its last try ended in the same way.
    pub fn is_repeated(&mut self, session: SessionKey, end: &Entry) -> bool {
        let last = self.0.remove(&session);
        if end.event != Happened::Interrupted {
            return false;
        }
        let (text, bytes) = (end.text.clone(), end.bytes);
        let is_repeated = last.is_some_and(|last| last.text == text && last.bytes == bytes);
        if self.0.len() >= MOST {
            self.0.pop_first();
        }
        self.0.insert(session, Interruption { text, bytes, is_repeated });
        is_repeated
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

    #[test]
    fn the_same_interruption_is_noted_once_until_something_else_happens() {
        let (mut interruptions, session) = (Interruptions::default(), ([1; 32], SessionId(1)));
        let mut end = |text: &str, event| {
            let is_repeated = interruptions.is_repeated(session, &Entry::new(event).because(text));
            (is_repeated, interruptions.is_repeating(&session))
        };
        let interrupted = Happened::Interrupted;
        assert_eq!(end("the folder is gone", interrupted), (false, false));
        assert_eq!(end("the folder is gone", interrupted), (true, true));
        assert_eq!(end("the folder is gone", interrupted), (true, true));
        assert_eq!(end("the sender is gone", interrupted), (false, false));
        assert_eq!(end("", Happened::Received), (false, false));
        assert_eq!(end("the sender is gone", interrupted), (false, false));
        for number in 0..2 * MOST as u32 {
            interruptions.is_repeated(([2; 32], SessionId(number)), &Entry::new(interrupted));
        }
        assert_eq!(interruptions.0.len(), MOST);
    }
}
