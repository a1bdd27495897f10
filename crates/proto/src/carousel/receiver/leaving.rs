//! What the receiver does when one of several senders leaves or withdraws an object, while other senders may go
//! on.

use std::time::Duration;

use treecast_wire::{header::FileId, message::Reason};

use super::{super::object::Withdrawn, Receiver};
use crate::Instant;

/// A sender has said Goodbye: when nothing more has come for so long, none is left ...
pub(super) const LEAVING: Duration = Duration::from_secs(3);

/// ... and what comes later than this is another one's.
pub(super) const ECHO: Duration = Duration::from_millis(100);

/// How many times an object must have been withdrawn, and over how long, and nothing of it have come meanwhile, to be
/// given up: another sender may still have it, and one with few objects says it again every few milliseconds.
pub(super) const WITHDRAWALS: u32 = 3;
pub(super) const WITHDRAWN_FOR: Duration = Duration::from_secs(10);

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
    pub(super) fn on_withdraw(&mut self, now: Instant, file: FileId, reason: &Reason) {
        let Some(object) = self.object(file) else { return };
        let reason = format!("the sender has withdrawn it: {reason}");
        let new = Withdrawn { since: now, times: 0, reason: reason.clone() };
        let withdrawn = object.withdrawn.get_or_insert(new);
        withdrawn.times = withdrawn.times.saturating_add(1);
        let lasts = now.saturating_duration_since(withdrawn.since);
        if withdrawn.times >= WITHDRAWALS && lasts >= WITHDRAWN_FOR {
            self.fail(file, reason);
        }
    }
}
