//! The start of a session: with all expected receivers, or with those that are there.

use std::time::Duration;

use treecast_proto::{Instant, object::SenderInput};

use super::{
    super::{
        SendError, SendEvent,
        peer::{Awaited, Peer},
    },
    Session,
};

/// How long a sender that goes on with a session waits for all receivers to come back.
const RETURN_TIME: Duration = Duration::from_secs(3);

/// How long it waits in a feed, where those who come back later lack what was over by then. A receiver may notice only after 15 s that
/// its connection has died.
const FEED_RETURN_TIME: Duration = Duration::from_secs(20);

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

    /// When a sender that goes on with a session begins without those who have not come back.
    pub(super) fn returned_at(&self) -> Instant {
        Instant::ZERO + if self.lacks_returned() { FEED_RETURN_TIME } else { RETURN_TIME }
    }

    /// Whether receivers of a feed have not come back that the sender before this one had.
    fn lacks_returned(&self) -> bool {
        let is_missing = |peer: &Peer| peer.absence.awaited == Awaited::Missing;
        self.plan.options.feed.is_some() && self.peers.values().any(is_missing)
    }

    /// How long the start is still held back, by the host's clock.
    pub(super) fn held_back(&self) -> Option<Duration> {
        let start_at = self.plan.options.start_at?;
        start_at.checked_sub(treecast_host::clock::since_1970()).filter(|left| !left.is_zero())
    }

    /// Whether those are there that the start waits for, or it has waited long enough and there are enough.
    fn may_start(&mut self, now: Instant) -> Result<bool, SendError> {
        let options = &self.plan.options;
        let (waited, is_listed) = (options.wait_timeout, !options.listed.is_empty());
        let at_least = options.wait_at_least.or(is_listed.then_some(1));
        let (wanted, joined) = (self.wanted(), self.connected());
        let is_return_over = now >= self.returned_at();
        if let Some(left) = self.held_back() {
            self.figures.waits_since = now + left;
            return Ok(false);
        }
        if self.lacks_returned() && !is_return_over {
            return Ok(false);
        }
        if joined >= wanted {
            return Ok(!self.awaits_routers());
        }
        // Those who have everything do not come back.
        let goes_on = !self.plan.control.is_empty();
        if goes_on && joined > 0 && is_return_over {
            return Ok(true);
        }
        let seconds = waited.as_secs();
        if now < self.figures.waits_since + waited {
            return Ok(false);
        }
        if at_least.is_none_or(|at_least| joined < at_least) {
            if is_listed {
                return Ok(false);
            }
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
