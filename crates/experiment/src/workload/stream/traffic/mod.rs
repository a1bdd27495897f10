//! Makes traffic of which every packet is known: a sender of numbered datagrams that carry the time, and
//! receivers (sinks) that note when each arrives.
//!
//! In a lab, both are threads of this process with sockets in the nodes' namespaces, so they use the same clock. On hosts far away,
//! they are programs ([`program`]), which are told how far their clock is ahead.

pub mod program;
mod sender;
mod sinks;
mod socket;
mod tally;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use sender::{Flow, FlowPlan, Pace, Sent, send};
pub use sinks::{Expected, Sinks};
pub use socket::{Membership, StampedSocket};
pub use tally::{Second, Tally};

pub use super::keys::STAMP_LEN;

/// The port at which all sinks listen.
pub const PORT: u16 = 5000;

/// The beginning of every datagram: [`STAMP_LEN`] bytes in network order. The rest are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the run, by which late packets of an earlier run are told apart.
    pub run: u32,
    pub flow: u32,
    /// The number of the datagram in its flow, counted from 0.
    pub number: u32,
    /// The time at which the program had the datagram ready to send, since 1970.
    pub sent: Duration,
}

const MAGIC: u32 = 0x7463_7563;

impl Stamp {
    pub fn write(&self, datagram: &mut [u8]) {
        let words = [MAGIC, self.run, self.flow, self.number];
        for (place, word) in datagram.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        datagram[16..24].copy_from_slice(&(self.sent.as_nanos() as u64).to_be_bytes());
    }

    /// Reads the beginning of a datagram; none when it is not one of this traffic.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(datagram.get(at..at + 4)?.try_into().ok()?));
        let sent = u64::from_be_bytes(datagram.get(16..24)?.try_into().ok()?);
        let stamp =
            Self { run: word(4)?, flow: word(8)?, number: word(12)?, sent: Duration::from_nanos(sent) };
        (word(0)? == MAGIC).then_some(stamp)
    }
}

/// Returns the time since 1970, by the clock with which the kernel stamps what it receives.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The clock of a run, seen from a host: the time of day at the engine's machine.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Clock {
    /// How far the host's time of day is ahead of the engine's, in nanoseconds.
    pub ahead_ns: i64,
}

impl Clock {
    /// Returns the time of the run that it is at a time of the host.
    pub fn of(self, here: Duration) -> Duration {
        let by = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        if self.ahead_ns > 0 { here.saturating_sub(by) } else { here.saturating_add(by) }
    }

    /// Returns the time of the run that it is now.
    pub fn now(self) -> Duration {
        self.of(now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_or_behind_tells_the_time_of_the_run() {
        let second = Duration::from_secs(1);
        assert_eq!(Clock { ahead_ns: 500_000_000 }.of(second), second / 2);
        assert_eq!(Clock { ahead_ns: -500_000_000 }.of(second / 2), second);
        assert_eq!(Clock { ahead_ns: i64::MIN }.of(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_stamp_reads_as_it_was_written_and_nothing_else_does() {
        let stamp = Stamp { run: 7, flow: 1, number: u32::MAX, sent: Duration::from_nanos(1 << 60) };
        let mut datagram = [0; 64];
        stamp.write(&mut datagram);
        assert_eq!(Stamp::read(&datagram), Some(stamp));
        assert_eq!(Stamp::read(&datagram[..23]), None);
        datagram[0] ^= 1;
        assert_eq!(Stamp::read(&datagram), None);
    }
}
