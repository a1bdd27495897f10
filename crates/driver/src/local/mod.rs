//! The parts of members of local groups besides the loops of all sessions ([`crate::send`], [`crate::receive`]): a
//! socket of their own, by which they speak to local groups and to one another, and the file of groups made by hand.

mod groups_file;
mod post;

pub use groups_file::{GroupsFile, GroupsFileError};
pub(crate) use post::{Post, member, own_address};

/// The longest message of local groups, in bytes: a report about 16 objects with 48 ranges. Blocks are at least as long,
/// because what is longer than a block is not received.
pub(crate) const MIN_LOCAL_BLOCK_LEN: u16 = 1_152;
