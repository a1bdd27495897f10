//! Progress: a receiver's report, five counters of 8 bytes each.

use crate::field::fixed_body;

fixed_body! {
    /// How far a receiver has come. All counters start at 0 with the session and only grow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Progress in "progress", shown "position={position} received={received_bytes} duplicates={duplicate_blocks} dropped={dropped_packets} disk={disk_wait_ms} ms" {
        /// End of the last multicast block of the header's object that it took from its socket: what
        /// lies before it no longer occupies the receive buffer.
        pub position: u64 = "position",
        /// Distinct bytes of all objects that it has.
        pub received_bytes: u64 = "received bytes",
        /// Blocks that it had already.
        pub duplicate_blocks: u64 = "duplicate blocks",
        /// Packets that its kernel dropped because the receive buffer was full.
        pub dropped_packets: u64 = "dropped packets",
        /// Milliseconds that packets have waited for its disk.
        pub disk_wait_ms: u64 = "disk wait",
    }
}
