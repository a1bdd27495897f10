//! Pacing to a rate: a token bucket as a pure function of time.

use std::time::Duration;

use crate::Instant;

/// The largest number of bytes that leave at once, however long nothing was sent.
pub const BURST_BYTES: u64 = 64 * 1024;

/// Returns the bytes of IP and UDP headers in front of a packet.
pub fn ip_overhead(is_ipv4: bool) -> u64 {
    if is_ipv4 { 20 + 8 } else { 40 + 8 }
}

/// The approximate bytes of IP packets that `bytes` cost on a TCP connection. 1,428 of 1,500 bytes are the
/// stream's, and if packets are lost, some of TCP's are lost, too.
pub fn tcp_bytes(bytes: u64) -> u64 {
    bytes + bytes / 10
}

/// Returns the rate at which copies of packets leave, in bits a second, where a machine keeps to a rate by itself. It is a
/// quarter more than the machine's: it only spreads the copies of a run.
pub fn spread_bps(rate_bps: u64) -> u64 {
    rate_bps.saturating_add(rate_bps / 4)
}

/// A pacer, which decides when the next packets may leave. In any time span, at most the rate's share of that
/// time and a bucket leave: [`BURST_BYTES`], or what [`Pacer::set_rate`] says. Bytes count IP packets with their headers.
#[derive(Debug, Clone)]
pub struct Pacer {
    rate_bps: Option<u64>,
    /// The most tokens that the bucket holds.
    depth: i128,
    /// Tokens in the bucket, in bits times nanoseconds per second: no rounding, however slow the rate.
    /// Negative after more than a bucket has left at once.
    tokens: i128,
    filled: Instant,
}

/// The time for which a late sender makes up at a rate that changes: 4 ms, or 10 ms as long as these are few bytes.
/// Busy hosts wake a sender more than 4 ms late.
const LATE_MILLIS: u64 = 4;
const LATEST_MILLIS: u64 = 10;
const FEW_BYTES: u64 = 2 * BURST_BYTES;

const PER_BIT: i128 = 1_000_000_000;
const DEPTH: i128 = BURST_BYTES as i128 * 8 * PER_BIT;

impl Pacer {
    /// Creates a pacer whose bucket is full. Without a rate, everything may leave at once.
    pub fn new(rate_bps: Option<u64>, now: Instant) -> Self {
        Self { rate_bps: rate_bps.map(|rate| rate.max(1)), depth: DEPTH, tokens: DEPTH, filled: now }
    }

    /// Changes the rate, and the length of runs. At slow rates, bursts are short, so that shared queues can
    /// hold them. At fast rates, they are long enough to make up for a late timer.
    pub fn set_rate(&mut self, now: Instant, rate_bps: u64, run_bytes: u64) {
        let rate = rate_bps.max(1);
        self.fill(now, self.rate_bps.unwrap_or(rate));
        self.rate_bps = Some(rate);
        let in_time = |millis| rate / 8 * millis / 1000;
        let late = in_time(LATEST_MILLIS).min(FEW_BYTES).max(in_time(LATE_MILLIS));
        self.depth = cost(late.max(run_bytes * 2));
        self.tokens = self.tokens.min(self.depth);
    }

    /// The rate in bits a second. `None`: everything may leave at once.
    pub fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// Returns the time until `bytes` may leave; zero means now. Bytes beyond the longest burst at the present
    /// rate do not count.
    pub fn delay(&mut self, now: Instant, bytes: u64) -> Duration {
        let Some(rate) = self.rate_bps else { return Duration::ZERO };
        self.fill(now, rate);
        let missing = (cost(bytes).min(self.depth) - self.tokens).max(0).unsigned_abs();
        Duration::from_nanos(u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX))
    }

    /// Returns how many bytes may leave now, none without a rate.
    pub fn due_bytes(&mut self, now: Instant) -> Option<u64> {
        self.fill(now, self.rate_bps?);
        Some(u64::try_from(self.tokens.max(0) / (8 * PER_BIT)).unwrap_or(u64::MAX))
    }

    /// Notes that `bytes` have left.
    pub fn sent(&mut self, now: Instant, bytes: u64) {
        if let Some(rate) = self.rate_bps {
            self.fill(now, rate);
            self.tokens -= cost(bytes);
        }
    }

    fn fill(&mut self, now: Instant, rate: u64) {
        let span = now.as_nanos().saturating_sub(self.filled.as_nanos());
        self.tokens = self.tokens.saturating_add(i128::from(span) * i128::from(rate)).min(self.depth);
        self.filled = self.filled.max(now);
    }
}

fn cost(bytes: u64) -> i128 {
    i128::from(bytes) * 8 * PER_BIT
}

/// Like [`packets_per_run`], for a rate that shares links with other traffic: a millisecond's worth.
pub fn packets_per_smooth_run(rate_bps: u64, packet_bytes: u64, limit: usize) -> usize {
    let bytes = rate_bps / 8 / 1000;
    usize::try_from(bytes / packet_bytes.max(1)).unwrap_or(limit).clamp(1, limit)
}

/// The number of packets of `packet_bytes` (headers included) to send at once at this rate. It is a few
/// milliseconds' worth, so that a late timer is made up for, and at most half a bucket. Without a rate it is
/// `limit`.
pub fn packets_per_run(rate_bps: Option<u64>, packet_bytes: u64, limit: usize) -> usize {
    const RUN_MILLIS: u64 = 4;
    let Some(rate) = rate_bps else { return limit };
    let bytes = (rate / 8 * RUN_MILLIS / 1000).min(BURST_BYTES / 2);
    usize::try_from(bytes / packet_bytes).unwrap_or(limit).clamp(1, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends runs of `run` bytes for a second as soon as they may leave, waking `late` after each
    /// deadline; returns the moments and sizes.
    fn departures(rate_bps: u64, run: u64, late: Duration) -> Vec<(Instant, u64)> {
        let mut now = Instant::ZERO;
        let mut pacer = Pacer::new(Some(rate_bps), now);
        let mut sent = Vec::new();
        while now < Instant::ZERO + Duration::from_secs(1) {
            match pacer.delay(now, run) {
                Duration::ZERO => {
                    pacer.sent(now, run);
                    sent.push((now, run));
                }
                delay => now += delay + late,
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_kept_to_a_thousandth_even_with_late_timers() {
        for rate_bps in [1_000_000, 100_000_000, 500_000_000, 2_000_000_000] {
            let run = packets_per_run(Some(rate_bps), 1500, 45) as u64 * 1500;
            let bytes: u64 =
                departures(rate_bps, run, Duration::from_micros(100)).iter().map(|(_, bytes)| bytes).sum();
            let expected = rate_bps / 8;
            assert!(bytes <= expected + BURST_BYTES + run, "{rate_bps}: {bytes}");
            assert!(bytes + expected / 1000 + run >= expected, "{rate_bps}: {bytes}");
        }
    }

    #[test]
    fn no_burst_exceeds_64_kib() {
        let rate_bps = 800_000_000;
        let sent = departures(rate_bps, 30_000, Duration::from_millis(5));
        for (first, (start, _)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for (at, run) in &sent[first..] {
                bytes += run;
                let share =
                    at.saturating_duration_since(*start).as_nanos() as u64 * (rate_bps / 8) / 1_000_000_000;
                assert!(bytes <= BURST_BYTES + share + 1, "{bytes} bytes from {start} to {at}");
            }
        }
    }

    #[test]
    fn a_rate_that_changes_is_kept_from_then_on() {
        let mut now = Instant::ZERO;
        let mut pacer = Pacer::new(None, now);
        let mut bytes = 0;
        pacer.set_rate(now, 8_000_000, 1500);
        while now < Instant::ZERO + Duration::from_secs(2) {
            match pacer.delay(now, 1500) {
                Duration::ZERO => {
                    pacer.sent(now, 1500);
                    bytes += 1500;
                }
                delay => now += delay,
            }
            if now >= Instant::ZERO + Duration::from_secs(1) && bytes < 2_000_000 {
                pacer.set_rate(now, 80_000_000, 12_000);
            }
        }
        assert!((10_900_000..11_200_000).contains(&bytes), "{bytes}");
        let smooth = |rate| packets_per_smooth_run(rate, 1500, 45);
        assert_eq!([smooth(0), smooth(25_000_000), smooth(10_000_000_000)], [1, 2, 45]);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::new(None, Instant::ZERO);
        pacer.sent(Instant::ZERO, 1 << 40);
        assert_eq!(pacer.delay(Instant::ZERO, 1 << 40), Duration::ZERO);
    }

    #[test]
    fn slow_rates_send_single_packets_and_fast_ones_half_a_bucket() {
        assert_eq!(packets_per_run(Some(1_000_000), 1500, 45), 1);
        assert_eq!(packets_per_run(Some(50_000_000), 1500, 45), 16);
        assert_eq!(packets_per_run(Some(10_000_000_000), 1500, 45), 21);
        assert_eq!(packets_per_run(None, 1500, 45), 45);
    }
}
