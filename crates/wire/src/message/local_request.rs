//! LocalRequest: what a member lacks of the header's object. To the group's address, where others that lack the same hear it, too, or by
//! unicast to the controller above.
//!
//! ```text
//!  0       4       5          9       10
//!  +-------+-------+----------+-------+-------------+
//!  | group | flags | distance | count | start, end  |
//!  +-------+-------+----------+-------+-------------+
//! ```

use std::{fmt, ops::Range};

use super::{
    local_member::GroupId,
    local_report::{emit_ranges, parse_ranges},
};
use crate::{ParseError, field::Reader};

/// The most ranges that one request names.
pub const MAX_LOCAL_REQUESTED: usize = 32;

/// Asks for bytes of an object, or for its announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRequest {
    /// The group that lacks it.
    pub group: GroupId,
    /// Whether the object's announcement is asked for: BeginOfFile and, once it is known, Digest.
    pub wants_announcement: bool,
    /// Whether the request comes from the group's controller to the one above: nobody in the group has it.
    pub is_from_below: bool,
    /// The time that a packet takes from the one who asks to its controller, in microseconds.
    pub distance_us: u32,
    ranges: Vec<Range<u64>>,
}

impl LocalRequest {
    /// # Errors
    /// When there are more than [`MAX_LOCAL_REQUESTED`] ranges, or they are not in ascending order.
    pub fn new(group: GroupId, distance_us: u32, ranges: Vec<Range<u64>>) -> Result<Self, ParseError> {
        let are_ascending = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
        if ranges.len() > MAX_LOCAL_REQUESTED || !are_ascending || ranges.iter().any(Range::is_empty) {
            return Err(ParseError::invalid("ranges", ranges.len(), "at most 32, in ascending order"));
        }
        Ok(Self { group, wants_announcement: false, is_from_below: false, distance_us, ranges })
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let group = GroupId(reader.u32("group")?);
        let flags = reader.u8("flags")?;
        if flags > 3 {
            return Err(ParseError::invalid("flags", flags, "0 to 3"));
        }
        let distance_us = reader.u32("distance")?;
        let request = Self::new(group, distance_us, parse_ranges(reader, MAX_LOCAL_REQUESTED)?)?;
        Ok(Self { wants_announcement: flags & 1 != 0, is_from_below: flags & 2 != 0, ..request })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        out.push(u8::from(self.wants_announcement) | u8::from(self.is_from_below) << 1);
        out.extend_from_slice(&self.distance_us.to_be_bytes());
        emit_ranges(&self.ranges, out);
    }
}

impl fmt::Display for LocalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let announcement = if self.wants_announcement { " announcement" } else { "" };
        let below = if self.is_from_below { " from-below" } else { "" };
        write!(
            f,
            "group={}{below} distance={}us{announcement} {:?}",
            self.group, self.distance_us, self.ranges
        )
    }
}
