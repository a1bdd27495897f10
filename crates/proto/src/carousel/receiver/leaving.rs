//! Senders that go, or withdraw an object, while others may go on.

use std::time::Duration;

use treecast_wire::{header::FileId, message::Reason};

use super::Receiver;
use crate::Instant;

/// A sender has said Goodbye: when nothing more has come for so long, none is left ...
pub(super) const LEAVING: Duration = Duration::from_secs(3);

/// ... and what comes later than this is another one's.
pub(super) const ECHO: Duration = Duration::from_millis(100);

/// How many times an object must have been withdrawn, and nothing of it have come meanwhile, to be given up: another
/// sender may still have it.
pub(super) const WITHDRAWALS: u32 = 3;

impl Receiver {
    /// Something has come from a sender.
    pub(super) fn hear(&mut self, now: Instant, is_goodbye: bool) {
        self.last_heard = Some(now);
        if is_goodbye {
            self.goodbye.get_or_insert(now);
        } else if self.goodbye.is_some_and(|goodbye| now >= goodbye + ECHO) {
            self.goodbye = None;
        }
    }

    /// A sender cannot read the object any more.
    pub(super) fn on_withdraw(&mut self, file: FileId, reason: &Reason) {
        let Some(object) = self.object(file) else { return };
        let (times, _) = object.withdrawn.take().unwrap_or_default();
        let reason = format!("the sender has withdrawn it: {reason}");
        object.withdrawn = Some((times + 1, reason.clone()));
        if times + 1 >= WITHDRAWALS {
            self.fail(file, reason);
        }
    }
}
