//! The link that flows share: a rate, and a queue that drops packets that do not fit.

use std::time::Duration;

use treecast_proto::Instant;

use crate::network::transmission_time;

#[derive(Debug)]
pub struct Link {
    rate_bps: u64,
    queue_bytes: u64,
    /// The time when everything that is queued has left.
    free_at: Instant,
}

impl Link {
    pub fn new(queue_bytes: u64) -> Self {
        Self { rate_bps: 0, queue_bytes, free_at: Instant::ZERO }
    }

    /// Changes the rate. Packets that are queued still leave at the old rate; they are at most a queue's worth.
    pub fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = rate_bps;
    }

    pub fn is_cut(&self) -> bool {
        self.rate_bps == 0
    }

    /// The time when a packet that arrives now has left. `None` if the queue is full.
    pub fn carry(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.is_cut() {
            return None;
        }
        let waits = self.free_at.saturating_duration_since(now);
        let queued = (waits.as_secs_f64() * self.rate_bps as f64 / 8.0) as u64;
        if queued + bytes > self.queue_bytes {
            return None;
        }
        self.free_at = now.max(self.free_at) + self.time(bytes);
        Some(self.free_at)
    }

    fn time(&self, bytes: u64) -> Duration {
        transmission_time(bytes as usize, self.rate_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_loses_and_a_cut_link_carries_nothing() {
        let mut link = Link::new(3000);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(link.carry(at(0), 1000), None);
        link.set_rate(8_000_000);
        let leave: Vec<_> = (0..4).map(|_| link.carry(at(0), 1000)).collect();
        assert_eq!(leave, [Some(at(1)), Some(at(2)), Some(at(3)), None]);
        assert_eq!(link.carry(at(1), 1000), Some(at(4)));
    }
}
