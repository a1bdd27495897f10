//! The link that flows share: a rate, and a queue that drops packets that do not fit.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::Instant;

use super::{Faults, Policer};
use crate::network::{Loss, transmission_time};

#[derive(Debug)]
pub struct Link {
    rate_bps: u64,
    queue_bytes: u64,
    /// The time when everything that is queued has left.
    free_at: Instant,
    policer: Option<Bucket>,
    marks_above: Option<f64>,
    marks_all: bool,
}

/// A policer's tokens.
#[derive(Debug)]
struct Bucket {
    policer: Policer,
    bytes: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant, bytes: u64) -> bool {
        let new = (now - self.filled).as_secs_f64() * self.policer.rate_bps as f64 / 8.0;
        (self.bytes, self.filled) = ((self.bytes + new).min(self.policer.burst_bytes as f64), now);
        let has_enough = self.bytes >= bytes as f64;
        self.bytes -= if has_enough { bytes as f64 } else { 0.0 };
        has_enough
    }
}

/// Random losses behind the link, which may come in bursts.
#[derive(Debug)]
pub struct Losses {
    loss: Loss,
    in_burst: bool,
    /// The number of packets that have come.
    count: u64,
}

impl Losses {
    pub fn new(loss: Loss) -> Self {
        Self { loss, in_burst: false, count: 0 }
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self, random: &mut ChaCha8Rng) -> bool {
        let mut happens = |chance: f64| chance > 0.0 && random.random::<f64>() < chance;
        self.count += 1;
        match self.loss {
            Loss::Periodic(period) => period.loses(self.count - 1),
            Loss::Uniform(chance) => happens(chance),
            Loss::Bursts { enter, leave, lost, outside } => {
                self.in_burst = if self.in_burst { !happens(leave) } else { happens(enter) };
                happens(if self.in_burst { lost } else { outside })
            }
        }
    }
}

impl Link {
    pub fn new(queue_bytes: u64, faults: &Faults) -> Self {
        let policer = faults.policer.map(|policer| Bucket {
            policer,
            bytes: policer.burst_bytes as f64,
            filled: Instant::ZERO,
        });
        let (marks_above, marks_all) = (faults.marks_above, faults.marks_all);
        Self { rate_bps: 0, queue_bytes, free_at: Instant::ZERO, policer, marks_above, marks_all }
    }

    /// Whether a packet that arrives now is marked.
    pub fn marks(&self, now: Instant) -> bool {
        let share = self.queued(now) as f64 / self.queue_bytes.max(1) as f64;
        self.marks_all || self.marks_above.is_some_and(|above| share > above)
    }

    fn queued(&self, now: Instant) -> u64 {
        let waits = self.free_at.saturating_duration_since(now);
        (waits.as_secs_f64() * self.rate_bps as f64 / 8.0) as u64
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
        if self.policer.as_mut().is_some_and(|policer| !policer.take(now, bytes)) {
            return None;
        }
        if self.queued(now) + bytes > self.queue_bytes {
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
        let mut link = Link::new(3000, &Faults::default());
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(link.carry(at(0), 1000), None);
        link.set_rate(8_000_000);
        let leave: Vec<_> = (0..4).map(|_| link.carry(at(0), 1000)).collect();
        assert_eq!(leave, [Some(at(1)), Some(at(2)), Some(at(3)), None]);
        assert_eq!(link.carry(at(1), 1000), Some(at(4)));
    }
}
