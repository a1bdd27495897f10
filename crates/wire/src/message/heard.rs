//! Heard: a receiver's counts of the packets that it has received, sent over its control connection. The sender
//! learns from them which fanouts reach the receiver (`treecast_proto::fanout`).
//!
//! ```text
//!  0         8       16            20
//!  +---------+-------+-------------+
//!  | unicast | group | last number |
//!  +---------+-------+-------------+
//! ```

use crate::field::fixed_body;

fixed_body! {
    /// The counts so far. A packet that came twice counts twice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Heard in "heard", shown "unicast={unicast} group={group} last={last}" {
        /// The number of packets at the receiver's own address, by any fanout.
        pub unicast: u64 = "packets by unicast",
        /// The number of packets at the group's address.
        pub group: u64 = "packets of the group",
        /// The highest packet number that was received ([`crate::header::Header::number`]).
        pub last: u32 = "last number",
    }
}
