//! LocalState: how a local group is, as its controller says: to the group's address as a sign of life, to a member that
//! asks, and to the controllers of the groups below. The sender says it to the whole session.
//!
//! ```text
//!  0       4       8            26     34      35        37     39
//!  +-------+-------+------------+------+-------+---------+------+
//!  | group | epoch | controller | echo | flags | members | loss |
//!  +-------+-------+------------+------+-------+---------+------+
//!  39      40         44         48       66          84
//!  +-------+----------+----------+--------+-----------+
//!  | depth | distance | diameter | parent | successor |
//!  +-------+----------+----------+--------+-----------+
//!  84       88         96     100     101
//!  +--------+----------+------+-------+--------------+
//!  | object | position | done | count | children ... |
//!  +--------+----------+------+-------+--------------+
//!  +-------+------------+
//!  | count | roster ... |
//!  +-------+------------+
//! ```

use std::fmt;

use super::local_member::{
    GroupId, Member, emit_member, emit_members, parse_member, parse_members, parse_somebody, share_text,
};
use crate::{ParseError, field::Reader};

/// The most groups directly below one controller that a message names.
pub const MAX_LOCAL_CHILDREN: usize = 16;

/// The most members of a group that its controller names.
pub const MAX_LOCAL_ROSTER: usize = 40;

/// What a controller says of its group with one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalFlags(pub u8);

impl LocalFlags {
    /// CONGESTION (lgmp-mbone-1999, 2): somebody below loses more than is set.
    pub const CONGESTION: Self = Self(1);
    /// The group takes more members.
    pub const OPEN: Self = Self(2);
    /// The controller takes more groups below its own.
    pub const TAKES_GROUPS: Self = Self(4);
    /// The one that this was sent to is admitted.
    pub const ADMITTED: Self = Self(8);
    /// The controller resigns: its successor takes over at once.
    pub const RESIGNS: Self = Self(16);
    /// The group ends: its members go to the successor, which is another group's controller.
    pub const MERGES: Self = Self(32);

    /// The sender's: it sends at its lowest rate. Receivers for which that is too fast have to leave (4.3.1).
    pub const LOWEST: Self = Self(64);

    const ALL: u8 = 127;

    pub fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    #[must_use]
    pub fn with(self, flag: Self, is_set: bool) -> Self {
        if is_set { Self(self.0 | flag.0) } else { self }
    }
}

/// How a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalState {
    pub group: GroupId,
    /// Counts the controllers that the group has had: of two, the one with the higher number counts.
    pub epoch: u32,
    pub controller: Member,
    /// The timestamp of the probe that this answers, in microseconds; 0 where it answers none. In the sender's state to the whole
    /// session, the sender's own time, which grows with each.
    pub echo_us: u64,
    pub flags: LocalFlags,
    /// How many members the group has, its controller not counted.
    pub members: u16,
    /// The share of packets that the controller loses, in 65,535ths.
    pub loss: u16,
    /// How many controllers are above this one. The sender has 0.
    pub depth: u8,
    /// Round trip to the sender along the controllers above, in microseconds.
    pub distance_us: u32,
    /// The longest round trip between the controller and a member, in microseconds.
    pub diameter_us: u32,
    /// The controller above; the sender for the sender itself.
    pub parent: Member,
    /// Who takes over when the controller is silent.
    pub successor: Option<Member>,
    /// How far the session is: the object that is being sent, and the end of what is sent of it, in bytes.
    pub frontier: (u32, u64),
    /// Every receiver below the controller is done with all objects before this one.
    pub done: u32,
    /// Controllers of the groups directly below, at most [`MAX_LOCAL_CHILDREN`].
    pub children: Vec<Member>,
    /// The group's members, its controller not among them: at most [`MAX_LOCAL_ROSTER`]. Empty where the group has a multicast
    /// address.
    pub roster: Vec<Member>,
}

impl LocalState {
    /// The state of a group of which nothing else is known.
    pub fn new(group: GroupId, controller: Member) -> Self {
        Self {
            group,
            epoch: 1,
            controller,
            echo_us: 0,
            flags: LocalFlags::default(),
            members: 0,
            loss: 0,
            depth: 0,
            distance_us: 0,
            diameter_us: 0,
            parent: controller,
            successor: None,
            frontier: (0, 0),
            done: 0,
            children: Vec::new(),
            roster: Vec::new(),
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let group = GroupId(reader.u32("group")?);
        let epoch = reader.u32("epoch")?;
        let controller = parse_somebody(reader)?;
        let echo_us = reader.u64("echo")?;
        let flags = reader.u8("flags")?;
        if flags > LocalFlags::ALL {
            return Err(ParseError::invalid("flags", flags, "0 to 127"));
        }
        Ok(Self {
            group,
            epoch,
            controller,
            echo_us,
            flags: LocalFlags(flags),
            members: reader.u16("members")?,
            loss: reader.u16("loss")?,
            depth: reader.u8("depth")?,
            distance_us: reader.u32("distance")?,
            diameter_us: reader.u32("diameter")?,
            parent: parse_somebody(reader)?,
            successor: parse_member(reader)?,
            frontier: (reader.u32("object")?, reader.u64("position")?),
            done: reader.u32("done")?,
            children: parse_members(reader, MAX_LOCAL_CHILDREN)?,
            roster: parse_members(reader, MAX_LOCAL_ROSTER)?,
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        emit_member(Some(self.controller), out);
        out.extend_from_slice(&self.echo_us.to_be_bytes());
        out.push(self.flags.0);
        out.extend_from_slice(&self.members.to_be_bytes());
        out.extend_from_slice(&self.loss.to_be_bytes());
        out.push(self.depth);
        out.extend_from_slice(&self.distance_us.to_be_bytes());
        out.extend_from_slice(&self.diameter_us.to_be_bytes());
        emit_member(Some(self.parent), out);
        emit_member(self.successor, out);
        out.extend_from_slice(&self.frontier.0.to_be_bytes());
        out.extend_from_slice(&self.frontier.1.to_be_bytes());
        out.extend_from_slice(&self.done.to_be_bytes());
        emit_members(&self.children, out);
        emit_members(&self.roster, out);
    }
}

impl fmt::Display for LocalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, epoch, controller, flags, members, depth, parent, .. } = self;
        write!(f, "group={group} epoch={epoch} controller={controller} flags={:#x}", flags.0)?;
        write!(f, " members={members} loss={} depth={depth} parent={parent}", share_text(self.loss))?;
        write!(f, " distance={}us diameter={}us", self.distance_us, self.diameter_us)?;
        write!(f, " at={}:{} done={}", self.frontier.0, self.frontier.1, self.done)?;
        write!(f, " echo={}us", self.echo_us)?;
        self.successor.iter().try_for_each(|successor| write!(f, " successor={successor}"))?;
        self.children.iter().try_for_each(|child| write!(f, " child={child}"))?;
        self.roster.iter().try_for_each(|member| write!(f, " member={member}"))
    }
}
