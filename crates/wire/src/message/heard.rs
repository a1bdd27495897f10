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
    /// What has come so far. A packet that came twice counts twice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Heard in "heard", shown "unicast={unicast} group={group} last={last}" {
        /// Packets at the receiver's own address, whoever copied them.
        pub unicast: u64 = "packets by unicast",
        /// Packets at the group's address.
        pub group: u64 = "packets of the group",
        /// The highest number that any of them had ([`crate::header::Header::number`]).
        pub last: u32 = "last number",
    }
}
