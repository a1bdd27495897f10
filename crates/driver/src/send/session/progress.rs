//! The progress of the session, its recent rates, and the receiver that it waits for.

use treecast_proto::{
    Instant,
    fanout::Way,
    local,
    object::{ReceiverId, SenderWait},
};

use super::{
    super::{
        FanoutProgress, FeedSource, GroupProgress, ReceiverProgress, SendEvent, SendProgress, Standing,
        WayProgress,
        lane::CopiesLane,
        peer::{Awaited, Seen},
        session_file::Marks,
    },
    Session,
    kind::Kind,
};
use crate::{
    discovery::Announcing,
    hindrance::{Hindrance, Holder, bits, time_for},
};

/// The share of the time for which the multicast has waited for somebody's buffer from which that one is named.
const WAITED_SHARE: f64 = 0.2;

impl Session<'_> {
    pub(super) fn report_progress(&mut self, now: Instant) {
        self.kind.door().into_iter().for_each(|door| door.look(now, &mut self.core));
        self.lanes.warn_of_narrow_ways(&mut self.core);
        let troubles = self.announcing.as_ref().map(Announcing::take_troubles).unwrap_or_default();
        troubles.into_iter().for_each(|line| self.core.warn(line));
        if self.core.figures.started.is_some() && self.core.figures.watch.is_due(now) {
            self.core.marks.iter_mut().for_each(Marks::write);
            let connections = self.peers.values_mut().filter_map(|peer| peer.link.connection.as_mut());
            connections.for_each(|connection| connection.feel_pulse(now));
            let progress = self.progress(now);
            if !self.lanes.is_unheard() {
                self.peers.warn_of_deaf(&progress.receivers, &self.plan, &mut self.core);
            }
            self.core.tell(SendEvent::Progress(progress));
        }
    }

    pub(super) fn progress(&mut self, now: Instant) -> SendProgress {
        let started = self.core.figures.started.unwrap_or(now);
        // A carousel that waits for listeners sends nothing.
        let until = self.kind.ring().map_or(now, |ring| ring.sent_at());
        let figures = self.core.machine.figures();
        let (ring_bytes, loops) = self.kind.ring().map(|ring| ring.figures()).unzip();
        let sent_bytes = ring_bytes.unwrap_or(figures.multicast_bytes);
        let buffers_ms = u64::try_from(self.core.figures.watch.buffers.as_millis()).unwrap_or(u64::MAX);
        let all_bytes = sent_bytes + self.core.slower_bytes(self.lanes.groups());
        let counters = [sent_bytes, all_bytes, figures.retransmitted_bytes, buffers_ms];
        self.core.figures.watch.meter.note(now, counters);
        let rates = self.core.figures.watch.meter.rates(now, counters);
        let (ids, receivers) = self.report_receivers(now, sent_bytes);
        SendProgress {
            seconds: until.saturating_duration_since(started).as_secs_f64(),
            sent_bytes: ring_bytes.unwrap_or_else(|| self.core.run_bytes()),
            zero_bytes: self.core.figures.zero_bytes,
            loops,
            before_bytes: self.core.figures.before_bytes,
            total_bytes: self.core.figures.total_bytes,
            repair_symbols: figures.repair_symbols,
            objects: self.core.figures.summary.objects,
            objects_done: self.core.figures.objects_done,
            waiting: self.waiting(),
            now_bps: rates.map(|[_, all, ..]| bits(all)),
            rate_bps: self.core.machine.local().map(local::Sender::rate_bps).or(self.lanes.rate_bps(0)),
            rate: self.lanes.rate_progress(|number| Some(self.peers.numbered(number)?.1.name.clone())),
            fanout: self.fanout_progress(),
            local: if let Kind::Local(local) = &self.kind { local.progress(&self.core) } else { None },
            groups: self.group_progress(),
            moves: self.core.figures.moves,
            refused_moves: figures.refused_moves,
            retransmitted_bps: rates.map(|[_, _, again, _]| bits(again)),
            duplicate_share: duplicate_share(&receivers, self.plan.block_len.into()),
            held_by: self.holder(rates.map_or(0.0, |[.., waited]| waited / 1000.0), &ids, &receivers),
            seconds_left: self.seconds_left(rates.map(|[sent, ..]| sent), &receivers),
            receivers,
        }
    }

    /// The number of the feed's objects that wait. A stream is one thing, however many pieces it has.
    fn waiting(&self) -> Option<u64> {
        let is_stream = matches!(self.plan.options.content.feed, Some(FeedSource::Stream { .. }));
        self.objects.waiting().filter(|_| !is_stream)
    }

    fn report_receivers(
        &mut self,
        now: Instant,
        sent_bytes: u64,
    ) -> (Vec<ReceiverId>, Vec<ReceiverProgress>) {
        let (machine, objects, total_bytes) =
            (self.core.machine.vcmtp(), self.core.figures.summary.objects, self.core.figures.total_bytes);
        let (run_bytes, goes_on) = (
            self.core.all_run_bytes(self.plan.block_len, self.lanes.groups()),
            self.core.figures.before_bytes > 0,
        );
        let started = self.core.figures.started.unwrap_or(now);
        let peers = self.peers.iter_mut();
        peers
            .map(|(id, peer)| {
                let heard = machine.and_then(|machine| machine.last_heard(*id)).unwrap_or(now);
                let silent = now.saturating_duration_since(heard);
                let is_answered = machine.is_some_and(|machine| machine.is_answered(*id));
                let seen = Seen {
                    silent,
                    is_answered,
                    started,
                    objects,
                    total_bytes,
                    sent_bytes,
                    run_bytes,
                    goes_on,
                };
                (*id, peer.report(now, seen))
            })
            .unzip()
    }

    /// The receiver whose buffer the multicast has waited for. When all is out, it is the one that is waited for
    /// longest; when all that are there are done, one that may come again.
    fn holder(&mut self, waited: f64, ids: &[ReceiverId], receivers: &[ReceiverProgress]) -> Option<Holder> {
        self.core.figures.watch.holder = self
            .core
            .machine
            .vcmtp()
            .and_then(|machine| machine.held_up_by())
            .or(self.core.figures.watch.holder);
        let receiver = if waited >= WAITED_SHARE {
            let at = ids.iter().position(|id| Some(*id) == self.core.figures.watch.holder)?;
            receivers.get(at)
        } else if self.core.figures.watch.wait == Some(SenderWait::Receivers) {
            let pending = receivers.iter().filter(|receiver| is_awaited(receiver));
            let left = |receiver: &&ReceiverProgress| receiver.seconds_left.unwrap_or(f64::INFINITY);
            pending.max_by(|one, other| left(one).total_cmp(&left(other)))
        } else if !self.objects.has_feed() && !receivers.iter().any(is_awaited) {
            let at = ids
                .iter()
                .position(|id| self.peers.get(id).is_some_and(|peer| peer.absence.awaited != Awaited::No))?;
            receivers.get(at)
        } else {
            None
        }?;
        Some(Holder::new(receiver.name.clone(), receiver.why.unwrap_or(Hindrance::Behind)))
    }

    /// The time, in seconds, that the multicast and the slowest receiver still take at the rate of the last seconds.
    /// Not known of a feed, whose end nobody knows, nor while one that is waited for stands still.
    fn seconds_left(&self, sent_a_second: Option<f64>, receivers: &[ReceiverProgress]) -> Option<f64> {
        if self.objects.has_feed() {
            return None;
        }
        let awaited = receivers.iter().filter(|receiver| is_awaited(receiver));
        let lacking =
            |receiver: &ReceiverProgress| receiver.wanted_bytes.saturating_sub(receiver.received_bytes);
        // What nobody wants any more is not sent to its end.
        let wanted = awaited.clone().map(lacking).max().unwrap_or_default();
        let unsent = self
            .core
            .figures
            .total_bytes
            .saturating_sub(self.core.machine.figures().multicast_bytes)
            .min(wanted);
        let multicast = time_for(unsent, sent_a_second);
        awaited.map(|receiver| receiver.seconds_left).fold(multicast, |all, one| Some(all?.max(one?)))
    }

    /// The number of members of local groups that a way serves.
    fn members_served_by(&self, way: Way) -> usize {
        let Kind::Local(local) = &self.kind else { return 0 };
        let of = |receiver: &ReceiverId| {
            self.lanes.ways.as_ref().map_or(Some(Way::Unicast), |ways| ways.first_way(*receiver))
        };
        local.listeners.keys().filter(|receiver| of(receiver) == Some(way)).count()
    }

    /// The progress of each way by which packets have left. `None` where there is one.
    fn fanout_progress(&self) -> Option<FanoutProgress> {
        let left = self.lanes.group.way.copies().iter().map(CopiesLane::left_bytes);
        let left = left.reduce(|one, other| std::array::from_fn(|way| one[way] + other[way]))?;
        let by = |way: Way| {
            let receivers = self.peers.values().filter(|peer| peer.way == Some(way)).count();
            let receivers = (receivers + self.members_served_by(way)) as u32;
            (way.to_string(), WayProgress { receivers, left_bytes: left[way as usize] })
        };
        Some([Way::Unicast, Way::Mead, Way::Xcast, Way::Multicast].map(by).into())
    }

    /// The progress of each group, where there are several.
    fn group_progress(&self) -> Vec<GroupProgress> {
        // Groups that the sender opens by itself are told of when they are needed.
        if self.lanes.groups() == 1 || self.lanes.places_receivers() && self.core.figures.moves == 0 {
            return Vec::new();
        }
        let there = |group: u8| self.peers.connected().filter(|peer| peer.group == group).count() as u32;
        let groups = (0..self.lanes.groups()).map(|group| GroupProgress {
            rate_bps: self.lanes.rate_bps(group).unwrap_or_default(),
            sent_bytes: match group {
                0 => self.core.run_bytes(),
                slower => self.core.machine.slower_bytes(slower),
            },
            receivers: there(group),
        });
        groups.collect()
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
