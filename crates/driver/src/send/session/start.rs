//! The start of a session: with all expected receivers, or with those that are there.

use std::time::Duration;

use treecast_proto::{Instant, object::SenderInput};

use super::{
    super::{
        SendError, SendEvent,
        starter::{Order, Starter},
    },
    Session,
};
use crate::words::counted;

/// The time that a sender that goes on with a session waits for all receivers to come back.
const RETURN_TIME: Duration = Duration::from_secs(3);

/// The time that it waits in a feed, where receivers that come back later lack what was over by then. A receiver may
/// notice only after 15 s that its connection has died.
const FEED_RETURN_TIME: Duration = Duration::from_secs(20);

impl Session<'_> {
    /// Waits for the first receivers, and hands the objects to the machine when they are there.
    pub(super) fn start_if_due(&mut self, now: Instant) -> Result<(), SendError> {
        if !self.plan.options.kind.has_connections()
            || self.core.figures.started.is_some()
            || !self.may_start(now)?
        {
            return Ok(());
        }
        self.peers.values_mut().for_each(|peer| peer.was_there_at_start = true);
        self.core.start(now, false);
        self.objects.send_all(now, &mut self.plan, &self.poller, &mut self.core)?;
        let before_bytes = self.core.figures.before_bytes;
        self.peers.values_mut().for_each(|peer| peer.sent_before = before_bytes);
        if !self.objects.has_feed() {
            self.core.handle(now, SenderInput::Close);
        }
        Ok(())
    }

    /// Carries out an order of the user: to start now, or to wait for another number of receivers.
    pub(super) fn take_order(&mut self) {
        let Some(order) = self.plan.options.start.starter.as_ref().and_then(Starter::take) else { return };
        if self.core.figures.started.is_some() {
            return self.core.warn("the session has started already");
        }
        let joined =
            self.core.machine.local().map_or_else(|| self.peers.count(), |machine| machine.receivers());
        self.plan.options.start.wait_for = match order {
            Order::WaitFor(receivers) => receivers,
            Order::Start => {
                self.core.figures.starts_now = true;
                self.plan.options.start.start_at = None;
                joined.max(1)
            }
        };
        let wanted = self.plan.options.start.wait_for;
        self.core.machine.local_mut().into_iter().for_each(|machine| machine.begin_with(wanted));
        self.core.tell(SendEvent::WaitsFor { joined, wanted });
        self.core.wake();
    }

    /// The time at which a sender that goes on with a session begins without the receivers that have not come back.
    pub(super) fn returned_at(&self) -> Instant {
        Instant::ZERO + if self.peers.lacks_returned(&self.plan) { FEED_RETURN_TIME } else { RETURN_TIME }
    }

    /// Whether those are there that the start waits for, or it has waited long enough and there are enough.
    fn may_start(&mut self, now: Instant) -> Result<bool, SendError> {
        let options = &self.plan.options;
        let (waited, is_listed) = (options.start.wait_timeout, !options.listed().is_empty());
        let at_least = options.start.wait_at_least.or(is_listed.then_some(1));
        let (wanted, joined) = (self.peers.wanted(&self.plan), self.peers.count());
        let is_return_over = now >= self.returned_at();
        if let Some(left) = self.plan.held_back() {
            self.core.figures.waits_since = now + left;
            return Ok(false);
        }
        if self.peers.lacks_returned(&self.plan) && !is_return_over {
            return Ok(false);
        }
        if joined >= wanted || self.core.figures.starts_now && joined > 0 {
            return Ok(!self.lanes.awaits_routers());
        }
        // Those who have everything do not come back.
        let goes_on = !self.plan.control.is_empty();
        if goes_on && joined > 0 && is_return_over {
            return Ok(true);
        }
        let seconds = waited.as_secs();
        if now < self.core.figures.waits_since + waited {
            return Ok(false);
        }
        let unknown = if is_listed { self.peers.unknown_names() } else { None };
        if at_least.is_none_or(|at_least| joined < at_least) {
            if let Some(unknown) = unknown {
                return Err(SendError::NotThere { joined, wanted, seconds, unknown });
            }
            if is_listed && options.start.wait_at_least.is_none() {
                return Ok(false);
            }
            let missing = self.peers.missing(&self.plan);
            return Err(SendError::NoReceivers { joined, wanted, at_least, seconds, missing });
        }
        if self.lanes.awaits_routers() {
            return Ok(false);
        }
        let unknown = unknown.map_or_else(String::new, |unknown| format!("; {unknown}"));
        let of = counted(wanted as usize, "receiver");
        let line = format!("{joined} of {of} came within {seconds} s: it starts with them{unknown}");
        self.core.warn(line);
        Ok(true)
    }
}
