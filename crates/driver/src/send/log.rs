//! Logs a sender's events, each once, in a span for the receiver that it is about.

use tracing::{debug, info, info_span, warn};

use super::{SendEvent, SendProgress};
use crate::{SESSION_LOG as LOG, hindrance::Holder};

/// The factor by which a rate must have changed to be logged again.
const CHANGED: f64 = 1.25;

/// Turns events into logs.
#[derive(Debug, Default)]
pub(super) struct Log {
    rate_bps: Option<u64>,
    held_by: Option<Holder>,
}

impl Log {
    pub fn note(&mut self, event: &SendEvent) {
        match event {
            SendEvent::Ready { .. } => info!(target: LOG, "receivers can come"),
            SendEvent::Warning(text) => warn!(target: LOG, "{text}"),
            SendEvent::Joined { receiver, address, joined, wanted, .. } => about(receiver).in_scope(|| {
                info!(target: LOG, %address, joined, wanted, "joined");
            }),
            SendEvent::WaitsFor { joined, wanted } => info!(target: LOG, joined, wanted, "another number"),
            SendEvent::Left { receiver, reason } => {
                about(receiver).in_scope(|| warn!(target: LOG, reason, "left"));
            }
            SendEvent::Refused { address, reason } => warn!(target: LOG, %address, reason, "refused"),
            SendEvent::Started { objects, bytes, .. } => info!(target: LOG, objects, bytes, "started"),
            SendEvent::Progress(progress) => self.note_progress(progress),
            SendEvent::Moved { receiver, group, rate_bps } => {
                about(receiver).in_scope(|| info!(target: LOG, group, rate_bps, "moved"));
            }
            SendEvent::Way { receiver, way, why } => {
                about(receiver).in_scope(|| info!(target: LOG, %way, %why, "another way"));
            }
            SendEvent::CommandEnded { receiver, outcome } => about(receiver).in_scope(|| {
                info!(target: LOG, code = outcome.code, seconds = outcome.seconds, line = outcome.line, "command ended");
            }),
            SendEvent::Paused => info!(target: LOG, "paused"),
            SendEvent::Looped { loops } => info!(target: LOG, loops, "loop complete"),
            SendEvent::Done(_) | SendEvent::Idle => {}
            SendEvent::ObjectDone { name, bytes, complete, failed: 0, not_wanted, .. } => {
                info!(target: LOG, name, bytes, complete, not_wanted, "object done");
            }
            SendEvent::ObjectDone { name, bytes, complete, failed, not_wanted, .. } => {
                warn!(target: LOG, name, bytes, complete, failed, not_wanted, "object failed at some");
            }
            SendEvent::Withdrawn { name, reason, .. } => warn!(target: LOG, name, reason, "object withdrawn"),
            SendEvent::NotSent { path, reason, .. } => warn!(target: LOG, path, reason, "not sent"),
        }
    }

    /// Logs rates, and the receiver that is waited for, when they change.
    fn note_progress(&mut self, progress: &SendProgress) {
        if let Some(rate_bps) = progress.rate_bps
            && is_other(self.rate_bps, rate_bps)
        {
            info!(target: LOG, rate_bps, before_bps = self.rate_bps, "rate");
            self.rate_bps = Some(rate_bps);
        }
        let holder =
            |holder: &Option<Holder>| holder.as_ref().map(|one| (one.receiver.clone(), one.why.word()));
        if holder(&self.held_by) != holder(&progress.held_by) {
            if let Some(Holder { receiver, why, .. }) = &progress.held_by {
                about(receiver).in_scope(|| debug!(target: LOG, why = why.word(), "waits for it: {why}"));
            }
            self.held_by = progress.held_by.clone();
        }
    }
}

fn about(receiver: &str) -> tracing::Span {
    info_span!(target: LOG, "receiver", receiver)
}

fn is_other(before: Option<u64>, now: u64) -> bool {
    before.is_none_or(|before| {
        let (less, more) = (before.min(now) as f64, before.max(now) as f64);
        more > less * CHANGED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_of_a_rate_are_passed_over() {
        assert!(is_other(None, 5) && is_other(Some(100), 126) && is_other(Some(126), 100));
        assert!(!is_other(Some(100), 125) && !is_other(Some(0), 0));
    }
}
