//! The progress of the session, its recent rates, and the receiver that it waits for.

use std::time::Duration;

use treecast_proto::{
    Instant, local,
    object::{ReceiverId, SenderWait},
};

use super::{
    super::{
        FeedSource, ReceiverProgress, SendEvent, SendProgress, Standing,
        feed::Feed,
        peer::{Awaited, Seen},
    },
    PROGRESS_INTERVAL, Session,
    ring::Ring,
};
use crate::hindrance::{Hindrance, Holder, Meter, bits, time_for};

/// The share of the time for which the multicast has waited for somebody's buffer from which that one is named.
const WAITED_SHARE: f64 = 0.2;

/// What the group's lane has waited for.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Bytes multicast and retransmitted, and milliseconds of waiting for a receiver's buffer.
    meter: Meter<3>,
    wait: Option<SenderWait>,
    since: Option<Instant>,
    buffers: Duration,
    /// Whose buffer it was last.
    holder: Option<ReceiverId>,
}

impl Watch {
    /// Notes the reason for which the lane waits from now on. `None`: it goes on.
    pub fn note(&mut self, now: Instant, wait: Option<SenderWait>) {
        if let Some(since) = self.since.take() {
            self.buffers += now.saturating_duration_since(since);
        }
        self.since = (wait == Some(SenderWait::Credit)).then_some(now);
        self.wait = wait;
    }
}

impl Session<'_> {
    pub(super) fn report_progress(&mut self, now: Instant) {
        while let Some(connection) = self.door.as_mut().and_then(|door| door.lobby.expire(now)) {
            self.note_refusal(connection.peer(), "it did not say who it is in time".into());
        }
        if let Some(line) = self.door.as_mut().and_then(|door| door.refusals.sum_up(now)) {
            (self.on_event)(SendEvent::Warning(line));
        }
        self.warn_of_narrow_ways();
        if self.figures.started.is_some() && now >= self.figures.next_progress {
            self.figures.next_progress = now + PROGRESS_INTERVAL;
            let connections = self.peers.values_mut().filter_map(|peer| peer.link.connection.as_mut());
            connections.for_each(|connection| connection.feel_pulse(now));
            let progress = self.progress(now);
            (self.on_event)(SendEvent::Progress(progress));
        }
    }

    pub(super) fn progress(&mut self, now: Instant) -> SendProgress {
        let started = self.figures.started.unwrap_or(now);
        // A carousel that waits for listeners sends nothing.
        let until = self.ring.as_ref().map_or(now, Ring::sent_at);
        let figures = self.machine.figures();
        let (ring_bytes, loops) = self.ring.as_ref().map(Ring::figures).unzip();
        let sent_bytes = ring_bytes.unwrap_or(figures.multicast_bytes);
        let buffers_ms = u64::try_from(self.figures.watch.buffers.as_millis()).unwrap_or(u64::MAX);
        let counters = [sent_bytes, figures.retransmitted_bytes, buffers_ms];
        self.figures.watch.meter.note(now, counters);
        let rates = self.figures.watch.meter.rates(now, counters);
        let (ids, receivers) = self.report_receivers(now, sent_bytes);
        SendProgress {
            seconds: until.saturating_duration_since(started).as_secs_f64(),
            sent_bytes: ring_bytes.unwrap_or_else(|| self.run_bytes()),
            loops,
            before_bytes: self.figures.before_bytes,
            total_bytes: self.figures.total_bytes,
            repair_symbols: figures.repair_symbols,
            objects: self.figures.summary.objects,
            objects_done: self.figures.objects_done,
            waiting: self.waiting(),
            now_bps: rates.map(|[sent, ..]| bits(sent)),
            rate_bps: self.machine.local().map(local::Sender::rate_bps).or(self.lanes.pacer.rate_bps()),
            rate: self.rate_progress(),
            fanout: self.fanout_progress(),
            local: self.local_progress(),
            groups: self.group_progress(),
            moves: self.figures.moves,
            refused_moves: figures.refused_moves,
            retransmitted_bps: rates.map(|[_, again, _]| bits(again)),
            duplicate_share: duplicate_share(&receivers, self.plan.block_len.into()),
            held_by: self.holder(rates.map_or(0.0, |[.., waited]| waited / 1000.0), &ids, &receivers),
            seconds_left: self.seconds_left(rates.map(|[sent, ..]| sent), &receivers),
            receivers,
        }
    }

    /// The number of the feed's objects that wait. A stream is one thing, however many pieces it has.
    fn waiting(&self) -> Option<u64> {
        let is_stream = matches!(self.plan.options.feed, Some(FeedSource::Stream { .. }));
        self.objects.feed.as_ref().filter(|_| !is_stream).map(Feed::waiting)
    }

    fn report_receivers(
        &mut self,
        now: Instant,
        sent_bytes: u64,
    ) -> (Vec<ReceiverId>, Vec<ReceiverProgress>) {
        let (machine, objects, total_bytes) =
            (self.machine.vcmtp(), self.figures.summary.objects, self.figures.total_bytes);
        let (run_bytes, goes_on) = (self.all_run_bytes(), self.figures.before_bytes > 0);
        let peers = self.peers.iter_mut();
        peers
            .map(|(id, peer)| {
                let heard = machine.and_then(|machine| machine.last_heard(*id)).unwrap_or(now);
                let silent = now.saturating_duration_since(heard);
                let is_answered = machine.is_some_and(|machine| machine.is_answered(*id));
                let seen = Seen { silent, is_answered, objects, total_bytes, sent_bytes, run_bytes, goes_on };
                (*id, peer.report(now, seen))
            })
            .unzip()
    }

    /// Bytes of objects that this sender has sent to the first group, not those before it.
    pub(super) fn run_bytes(&self) -> u64 {
        self.machine.figures().multicast_bytes.saturating_sub(self.figures.before_bytes)
    }

    /// What this sender has sent to all groups, symbols among them.
    pub(super) fn all_run_bytes(&self) -> u64 {
        let slower = (1..=self.lanes.slower.len() as u8).map(|group| self.machine.slower_bytes(group));
        let symbols = self.machine.figures().repair_symbols * u64::from(self.plan.block_len);
        self.run_bytes() + slower.sum::<u64>() + symbols
    }

    /// Whose buffer the multicast has waited for, or, when all is out, whom it waits for longest; when all who are there
    /// are done, who may come again.
    fn holder(&mut self, waited: f64, ids: &[ReceiverId], receivers: &[ReceiverProgress]) -> Option<Holder> {
        self.figures.watch.holder =
            self.machine.vcmtp().and_then(|machine| machine.held_up_by()).or(self.figures.watch.holder);
        let receiver = if waited >= WAITED_SHARE {
            let at = ids.iter().position(|id| Some(*id) == self.figures.watch.holder)?;
            receivers.get(at)
        } else if self.figures.watch.wait == Some(SenderWait::Receivers) {
            let pending = receivers.iter().filter(|receiver| is_awaited(receiver));
            let left = |receiver: &&ReceiverProgress| receiver.seconds_left.unwrap_or(f64::INFINITY);
            pending.max_by(|one, other| left(one).total_cmp(&left(other)))
        } else if self.objects.feed.is_none() && !receivers.iter().any(is_awaited) {
            let at = ids
                .iter()
                .position(|id| self.peers.get(id).is_some_and(|peer| peer.absence.awaited != Awaited::No))?;
            receivers.get(at)
        } else {
            None
        }?;
        Some(Holder::new(receiver.name.clone(), receiver.why.unwrap_or(Hindrance::Behind)))
    }

    /// As long as the multicast and the slowest receiver still take at the rate of the last seconds. Not known of a
    /// feed, whose end nobody knows, nor while one that is waited for stands still.
    fn seconds_left(&self, sent_a_second: Option<f64>, receivers: &[ReceiverProgress]) -> Option<f64> {
        if self.objects.feed.is_some() {
            return None;
        }
        let awaited = receivers.iter().filter(|receiver| is_awaited(receiver));
        let lacking =
            |receiver: &ReceiverProgress| receiver.wanted_bytes.saturating_sub(receiver.received_bytes);
        // What nobody wants any more is not sent to its end.
        let wanted = awaited.clone().map(lacking).max().unwrap_or_default();
        let unsent =
            self.figures.total_bytes.saturating_sub(self.machine.figures().multicast_bytes).min(wanted);
        let multicast = time_for(unsent, sent_a_second);
        awaited.map(|receiver| receiver.seconds_left).fold(multicast, |all, one| Some(all?.max(one?)))
    }
}

/// Whether it is there and has not ended with everything.
fn is_awaited(receiver: &ReceiverProgress) -> bool {
    receiver.is_connected && receiver.standing == Standing::Busy
}

fn duplicate_share(receivers: &[ReceiverProgress], block_len: u64) -> f64 {
    let (mut new, mut again) = (0.0, 0.0);
    for receiver in receivers {
        new += receiver.received_bytes as f64;
        again += receiver.duplicate_blocks as f64 * block_len as f64;
    }
    if again > 0.0 { again / (new + again) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_twice_is_a_share_of_all_that_came() {
        let one =
            ReceiverProgress { received_bytes: 900, duplicate_blocks: 1, ..ReceiverProgress::default() };
        assert_eq!(duplicate_share(&[one], 100), 0.1);
        assert_eq!(duplicate_share(&[ReceiverProgress::default()], 100), 0.0);
    }
}
