//! Where the datagrams of a session with local groups go.

use treecast_wire::message::{GroupId, Member};

/// The address of one host or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The session's group: everybody.
    Session,
    /// A local group, which has a multicast address of its own.
    Group(GroupId),
    /// One member, or the sender.
    Member(Member),
}
