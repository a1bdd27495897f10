//! Tells the progress of the receiver, its recent rates, and what holds it up.

use std::time::Duration;

use treecast_proto::Instant;
use treecast_wire::header::FileId;

use super::{
    super::{ReceiveEvent, ReceiveProgress},
    PROGRESS_INTERVAL, Session,
};
use crate::hindrance::{Hindrance, Symptoms, bits, judge, time_for};

impl Session<'_> {
    pub(super) fn report_progress(&mut self) {
        let now = self.delivery.clock.now();
        if now >= self.delivery.figures.next_progress {
            self.delivery.figures.next_progress = now + PROGRESS_INTERVAL;
            self.wire.connection.iter_mut().for_each(|connection| connection.feel_pulse(now));
            self.look_at_address(now);
            self.delivery.note_disk_wait();
            let progress = self.progress(now);
            (self.delivery.on_event)(ReceiveEvent::Progress(progress));
        }
    }

    pub(super) fn progress(&mut self, now: Instant) -> ReceiveProgress {
        let (counters, refused) = (self.delivery.machine.counters(), self.hearing.source.refused());
        let (received_bytes, dropped_packets) =
            (self.delivery.machine.received_bytes(), self.hearing.source.dropped());
        let figures = &mut self.delivery.figures;
        // What was there before has not come lately.
        let fresh_bytes = received_bytes.saturating_sub(figures.kept_bytes);
        let measured = [fresh_bytes, figures.retransmitted_bytes, dropped_packets, figures.disk_wait_ms];
        figures.meter.note(now, measured);
        let rates = figures.meter.rates(now, measured);
        let figures = &self.delivery.figures;
        let lacking =
            self.delivery.figures.announced_bytes.saturating_sub(received_bytes + figures.failed_bytes);
        let duplicate_bytes = counters.duplicate_blocks.saturating_mul(self.delivery.block_len.into());
        // Of a carousel nobody knows when it began.
        let since = match self.delivery.machine.carousel() {
            Some(_) => figures.heard_at.unwrap_or(now),
            None => Instant::ZERO,
        };
        let local = self.delivery.local_progress();
        let has_all = local.is_some() && self.delivery.store.begins.is_empty();
        let now = figures.ended_at.filter(|_| has_all).unwrap_or(now);
        let now = ReceiveProgress {
            seconds: now.saturating_duration_since(since).as_secs_f64(),
            received_bytes,
            kept_bytes: figures.kept_bytes,
            older_bytes: (!self.delivery.carried.older.is_empty())
                .then(|| self.delivery.carried.older.values().sum()),
            announced_bytes: figures.announced_bytes,
            retransmitted_bytes: figures.retransmitted_bytes,
            duplicate_blocks: counters.duplicate_blocks,
            duplicate_bytes,
            repair_symbols: counters.repair_symbols,
            decoded_blocks: counters.decoded_blocks,
            wrong_chunks: counters.wrong_chunks,
            dropped_packets,
            ignored_packets: figures.malformed + counters.foreign + counters.late + counters.malformed,
            forged_packets: refused.forged,
            replayed_packets: refused.replayed,
            objects: figures.summary.there() + figures.summary.failed + self.under_way(),
            objects_done: figures.summary.there(),
            objects_failed: figures.summary.failed,
            now_bps: rates.map(|[received, ..]| bits(received)),
            retransmitted_bps: rates.map(|[_, again, ..]| bits(again)),
            group: self.hearing.groups.heard(),
            requests: figures.requests + local.map_or(0, |local| local.requests + local.requests_above),
            local,
            duplicate_share: duplicate_bytes as f64 / (received_bytes + duplicate_bytes).max(1) as f64,
            hindrance: self.hindrance(now, lacking, rates.unwrap_or_default()),
            seconds_left: time_for(lacking, rates.map(|[received, ..]| received)),
        };
        if self.delivery.carried.has_come_back { now.added_to(&self.delivery.carried.progress) } else { now }
    }

    /// The number of objects that have begun and not ended. One that was there before this connection is only looked at again.
    fn under_way(&self) -> u64 {
        let is_new = |file: &&FileId| self.delivery.carried.ended.get(&file.index()) != Some(&true);
        self.delivery.store.begins.keys().filter(is_new).count() as u64
    }

    /// The reason that holds the receiver up. A sender that says nothing is told of even when nothing is missing of
    /// what it has announced.
    fn hindrance(&self, now: Instant, lacking: u64, rates: [f64; 4]) -> Option<Hindrance> {
        if self.delivery.store.full_since.is_some() {
            return Some(Hindrance::Full);
        }
        let [received, again, dropped, disk_wait_ms] = rates;
        let why = judge(&Symptoms {
            silent: self
                .delivery
                .machine
                .last_heard()
                .map_or(Duration::ZERO, |heard| now.saturating_duration_since(heard)),
            has_all: lacking == 0,
            hears_nothing: self.hears_nothing(),
            waits_for_connection: false,
            catches_up: false,
            received_bytes_a_second: received,
            retransmitted_bytes_a_second: again,
            dropped_packets_a_second: dropped,
            disk_wait_ms_a_second: disk_wait_ms,
        });
        match why {
            Hindrance::Silent(_) => Some(why),
            // It goes as fast as it is sent.
            Hindrance::Behind => None,
            Hindrance::Checking if self.delivery.store.begins.is_empty() => None,
            _ => Some(why),
        }
    }
}

impl ReceiveProgress {
    /// Adds what had come over earlier connections. What was kept of that counts once, there where it came.
    fn added_to(self, before: &Self) -> Self {
        let received_bytes = before.received_bytes + self.received_bytes.saturating_sub(self.kept_bytes);
        Self {
            seconds: before.seconds + self.seconds,
            received_bytes,
            kept_bytes: before.kept_bytes,
            announced_bytes: self.announced_bytes.max(received_bytes),
            retransmitted_bytes: before.retransmitted_bytes + self.retransmitted_bytes,
            duplicate_blocks: before.duplicate_blocks + self.duplicate_blocks,
            duplicate_bytes: before.duplicate_bytes + self.duplicate_bytes,
            repair_symbols: before.repair_symbols + self.repair_symbols,
            decoded_blocks: before.decoded_blocks + self.decoded_blocks,
            wrong_chunks: before.wrong_chunks + self.wrong_chunks,
            dropped_packets: before.dropped_packets + self.dropped_packets,
            ignored_packets: before.ignored_packets + self.ignored_packets,
            forged_packets: before.forged_packets + self.forged_packets,
            replayed_packets: before.replayed_packets + self.replayed_packets,
            requests: before.requests + self.requests,
            ..self
        }
    }
}
