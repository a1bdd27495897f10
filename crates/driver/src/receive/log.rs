//! Logs a receiver's events, each once.

use tracing::{info, warn};

use super::ReceiveEvent;
use crate::{SESSION_LOG as LOG, files::Shortage};

pub(crate) fn note(event: &ReceiveEvent) {
    match event {
        ReceiveEvent::Warning(text) => warn!(target: LOG, "{text}"),
        ReceiveEvent::Unreachable { addresses, reason, left } => {
            let seconds_left = left.as_secs();
            warn!(target: LOG, ?addresses, reason, seconds_left, "the sender cannot be reached yet");
        }
        ReceiveEvent::Joined { sender, interface } => info!(target: LOG, %sender, interface, "joined"),
        ReceiveEvent::Announced { name, bytes } => info!(target: LOG, name, bytes, "object begins"),
        ReceiveEvent::Ignored { name, exists } => info!(target: LOG, name, exists, "object not wanted"),
        ReceiveEvent::OlderVersion { name, bytes, why_not } => {
            info!(target: LOG, name, bytes, why_not = why_not.as_deref(), "an older version was read");
        }
        ReceiveEvent::Full(shortage) => {
            let Shortage { name, needed, free, lacks, .. } = &**shortage;
            warn!(target: LOG, name, needed, free, ?lacks, "the disk is full");
        }
        ReceiveEvent::Room => info!(target: LOG, "nothing waits for room any more"),
        ReceiveEvent::Progress(_) | ReceiveEvent::Done(_) | ReceiveEvent::Idle => {}
        ReceiveEvent::Moved { group, address } => info!(target: LOG, group, ?address, "moved"),
        ReceiveEvent::Received { name, bytes, .. } => info!(target: LOG, name, bytes, "object done"),
        ReceiveEvent::Failed { name, reason, .. } => {
            warn!(target: LOG, name, reason = &*reason.line, "object failed")
        }
    }
}
