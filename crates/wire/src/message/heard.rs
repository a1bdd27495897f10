//! Heard: a receiver's counts of the packets that it has received, sent over its control connection. The sender
//! learns from them which fanouts reach the receiver (`treecast_proto::fanout`).
//!
//! ```text
//!  0         8       16            20
//!  +---------+-------+-------------+
//!  | unicast | group | last number |
//!  +---------+-------+-------------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The counts so far. A packet that came twice counts twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heard {
    /// The number of packets at the receiver's own address, by any fanout.
    pub unicast: u64,
    /// The number of packets at the group's address.
    pub group: u64,
    /// The highest packet number that was received ([`crate::header::Header::number`]).
    pub last: u32,
}

impl Heard {
    /// Length of the payload in bytes.
    pub const LEN: usize = 20;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let heard = Self {
            unicast: reader.u64("packets by unicast")?,
            group: reader.u64("packets of the group")?,
            last: reader.u32("last number")?,
        };
        reader.end("heard")?;
        Ok(heard)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.unicast.to_be_bytes());
        out.extend_from_slice(&self.group.to_be_bytes());
        out.extend_from_slice(&self.last.to_be_bytes());
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unicast={} group={} last={}", self.unicast, self.group, self.last)
    }
}
