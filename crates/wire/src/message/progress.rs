//! Progress: a receiver's report, five counters of 8 bytes each.

use std::fmt;

use crate::{ParseError, field::Reader};

/// A receiver's counters. All start at 0 with the session and only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The end of the last multicast block of the header's object that the receiver took from its socket.
    /// Blocks before it no longer occupy the receive buffer.
    pub position: u64,
    /// The number of distinct bytes of all objects that the receiver has.
    pub received_bytes: u64,
    /// The number of blocks that came although the receiver had them.
    pub duplicate_blocks: u64,
    /// The number of packets that the receiver's kernel dropped because the receive buffer was full.
    pub dropped_packets: u64,
    /// The time in milliseconds for which packets have waited for the receiver's disk.
    pub disk_wait_ms: u64,
}

impl Progress {
    /// Length of the payload in bytes.
    pub const LEN: usize = 40;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let progress = Self {
            position: reader.u64("position")?,
            received_bytes: reader.u64("received bytes")?,
            duplicate_blocks: reader.u64("duplicate blocks")?,
            dropped_packets: reader.u64("dropped packets")?,
            disk_wait_ms: reader.u64("disk wait")?,
        };
        reader.end("progress")?;
        Ok(progress)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let counters = [
            self.position,
            self.received_bytes,
            self.duplicate_blocks,
            self.dropped_packets,
            self.disk_wait_ms,
        ];
        counters.iter().for_each(|counter| out.extend_from_slice(&counter.to_be_bytes()));
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "position={} received={} duplicates={} dropped={} disk={} ms",
            self.position,
            self.received_bytes,
            self.duplicate_blocks,
            self.dropped_packets,
            self.disk_wait_ms
        )
    }
}
