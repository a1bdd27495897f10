//! Progress: a receiver's report, five counters and a time of 8 bytes each.

use crate::field::fixed_body;

fixed_body! {
    /// A receiver's counters and its time. The counters start at 0 with the session and only grow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Progress in "progress", shown "position={position} received={received_bytes} duplicates={duplicate_blocks} dropped={dropped_packets} disk={disk_wait_ms} ms at={at_us} us" {
        /// The end of the last multicast block of the header's object that the receiver took from its socket.
        /// Blocks before it no longer occupy the receive buffer.
        pub position: u64 = "position",
        /// The number of distinct bytes of all objects that the receiver has.
        pub received_bytes: u64 = "received bytes",
        /// The number of blocks that came although the receiver had them.
        pub duplicate_blocks: u64 = "duplicate blocks",
        /// The number of packets that the receiver's kernel dropped because the receive buffer was full.
        pub dropped_packets: u64 = "dropped packets",
        /// The time in milliseconds for which packets have waited for the receiver's disk.
        pub disk_wait_ms: u64 = "disk wait",
        /// The time at which the report was made, in microseconds on a clock of the receiver that never goes back. Its origin is free. TCP
        /// delivers some reports much later than others, so their arrival tells little.
        pub at_us: u64 = "time of the report",
    }
}
