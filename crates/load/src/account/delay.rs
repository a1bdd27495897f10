//! Latency and jitter of a stream, and clocks that jump.

use std::time::Duration;

use super::{Times, spread::SpreadCounter};
use crate::{packet::Stamp, report::Delay};

/// The change of a receiver's clock against the steady one above which it has jumped. Clocks that are only steered
/// change far less.
const RECEIVER_JUMP: Duration = Duration::from_millis(50);

/// The deviation, in seconds, above which a sender's clock has jumped: that of the time between two packets from what
/// their numbers and the rate say. A network that holds packets back does not change their sending times.
const SENDER_JUMP_SECONDS: f64 = 1.0;

#[derive(Debug, Clone, Default)]
pub struct Delays {
    latency: SpreadCounter,
    jitter: SpreadCounter,
    negative: u64,
    clock_jumps: u64,
    last: Option<Last>,
}

/// The packet before.
#[derive(Debug, Clone, Copy)]
struct Last {
    number: u64,
    latency_ns: i128,
    sent: Duration,
    /// The time between packets at the sender's rate, in seconds.
    interval: f64,
    at: Times,
}

impl Delays {
    /// Takes the first copy of a packet that arrived in time. Only packets with the highest number so far are compared with the
    /// one before.
    pub fn take(&mut self, number: u64, is_highest: bool, stamp: &Stamp, at: Times) {
        let sent = stamp.sent;
        let latency_ns = at.clock.as_nanos() as i128 - sent.as_nanos() as i128;
        let interval = 1.0 / f64::from(stamp.rate_pps);
        let now = Last { number, latency_ns, sent, interval, at };
        let jumped = is_highest && self.last.is_some_and(|last| last.has_jumped(&now));
        self.clock_jumps += u64::from(jumped);
        match u64::try_from(latency_ns) {
            Err(_) => self.negative += 1,
            // After a jump, a latency is as wrong as the clock.
            Ok(ns) if self.clock_jumps == 0 => self.latency.add(Duration::from_nanos(ns)),
            Ok(_) => {}
        }
        if !is_highest {
            return;
        }
        // RFC 3393: the pair consists of packets that were sent one after the other.
        if let Some(last) = self.last.filter(|last| last.number + 1 == number && !jumped) {
            self.jitter.add(Duration::from_nanos((latency_ns - last.latency_ns).unsigned_abs() as u64));
        }
        self.last = Some(now);
    }

    pub fn report(&self) -> Delay {
        Delay {
            latency: self.latency.report(),
            jitter: self.jitter.report(),
            negative: self.negative,
            clock_jumps: self.clock_jumps,
        }
    }
}

impl Last {
    fn has_jumped(&self, now: &Self) -> bool {
        let steady = now.at.steady.saturating_sub(self.at.steady);
        let clock = now.at.clock.checked_sub(self.at.clock);
        let receiver = clock.is_none_or(|clock| clock.abs_diff(steady) > RECEIVER_JUMP);
        let packets = now.number.saturating_sub(self.number) as f64;
        let sent = now.sent.as_secs_f64() - self.sent.as_secs_f64();
        // The rate may have changed between the two packets.
        let (short, long) =
            (self.interval.min(now.interval) * packets, self.interval.max(now.interval) * packets);
        let sender = sent < short - SENDER_JUMP_SECONDS || sent > long + SENDER_JUMP_SECONDS;
        receiver || sender
    }
}
