//! LocalJoin and LocalSplit: where a member belongs (LGCP).
//!
//! ```text
//!  0       4       8           16     18       0       4            22      23
//!  +-------+-------+-----------+------+        +-------+------------+-------+---------+
//!  | group | epoch | timestamp | loss |        | group | controller | count | members |
//!  +-------+-------+-----------+------+        +-------+------------+-------+---------+
//! ```

use std::fmt;

use super::local_member::{
    GroupId, Member, emit_member, emit_members, parse_members, parse_somebody, share_text,
};
use crate::{ParseError, field::Reader};

/// The most members that one message names.
pub const MAX_LOCAL_MEMBERS: usize = 32;

/// Asks a controller to admit the one who sends this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJoin {
    /// The group whose controller asks to be below; [`GroupId::SESSION`] for a single receiver that wants to be a member.
    pub group: GroupId,
    pub epoch: u32,
    /// The time of the one who asks, in microseconds, which the answer repeats.
    pub stamp_us: u64,
    /// The share of packets that it loses, in 65,535ths.
    pub loss: u16,
}

impl LocalJoin {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            group: GroupId(reader.u32("group")?),
            epoch: reader.u32("epoch")?,
            stamp_us: reader.u64("timestamp")?,
            loss: reader.u16("loss")?,
        })
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.stamp_us.to_be_bytes());
        out.extend_from_slice(&self.loss.to_be_bytes());
    }
}

impl fmt::Display for LocalJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, epoch, stamp_us, loss } = self;
        write!(f, "group={group} epoch={epoch} stamp={stamp_us}us loss={}", share_text(*loss))
    }
}

/// Some members of a group are a new group from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSplit {
    /// The new group.
    pub group: GroupId,
    /// Its controller.
    pub controller: Member,
    /// Its members, the controller not among them.
    members: Vec<Member>,
}

impl LocalSplit {
    /// # Errors
    /// When there are more than [`MAX_LOCAL_MEMBERS`].
    pub fn new(group: GroupId, controller: Member, members: Vec<Member>) -> Result<Self, ParseError> {
        if members.len() > MAX_LOCAL_MEMBERS {
            return Err(ParseError::invalid("number of members", members.len(), "at most 32"));
        }
        Ok(Self { group, controller, members })
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let group = GroupId(reader.u32("group")?);
        let controller = parse_somebody(reader)?;
        Self::new(group, controller, parse_members(reader, MAX_LOCAL_MEMBERS)?)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        emit_member(Some(self.controller), out);
        emit_members(&self.members, out);
    }
}

impl fmt::Display for LocalSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group={} controller={}", self.group, self.controller)?;
        self.members.iter().try_for_each(|member| write!(f, " member={member}"))
    }
}
