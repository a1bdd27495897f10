//! The start of a session: with all expected receivers, or with those that are there.

use std::time::Duration;

use treecast_proto::{Instant, object::SenderInput};

use super::{
    super::{SendError, SendEvent},
    Session,
};

/// How long a sender that goes on with a session waits for all receivers to come back.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(3);

impl Session<'_> {
    /// Waits for the first receivers, and hands the objects to the machine when they are there.
    pub(super) fn start_if_due(&mut self, now: Instant) -> Result<(), SendError> {
        if !self.plan.options.repair.has_connections()
            || self.figures.started.is_some()
            || !self.may_start(now)?
        {
            return Ok(());
        }
        self.figures.started = Some(now);
        self.peers.values_mut().for_each(|peer| peer.was_there_at_start = true);
        let (objects, bytes) = (self.figures.summary.objects, self.figures.total_bytes);
        (self.on_event)(SendEvent::Started { objects, bytes, is_presumed: false });
        self.send_all(now)?;
        let before_bytes = self.figures.before_bytes;
        self.peers.values_mut().for_each(|peer| peer.sent_before = before_bytes);
        if self.objects.feed.is_none() {
            self.handle(now, SenderInput::Close);
        }
        Ok(())
    }

    /// Whether those are there that the start waits for, or it has waited long enough and there are enough.
    fn may_start(&mut self, now: Instant) -> Result<bool, SendError> {
        let options = &self.plan.options;
        let (wanted, waited, at_least) = (options.wait_for, options.wait_timeout, options.wait_at_least);
        let joined = self.connected();
        // Those who have everything do not come back.
        let goes_on = !self.plan.control.is_empty() && joined > 0 && now >= Instant::ZERO + RETURN_TIME;
        if joined >= wanted {
            return Ok(!self.awaits_routers());
        }
        if goes_on {
            return Ok(true);
        }
        let seconds = waited.as_secs();
        if now < Instant::ZERO + waited {
            return Ok(false);
        }
        if at_least.is_none_or(|at_least| joined < at_least) {
            let missing = self.missing();
            return Err(SendError::NoReceivers { joined, wanted, at_least, seconds, missing });
        }
        if self.awaits_routers() {
            return Ok(false);
        }
        let line = format!("{joined} of {wanted} receivers came within {seconds} s: it starts with them");
        (self.on_event)(SendEvent::Warning(line));
        Ok(true)
    }
}
