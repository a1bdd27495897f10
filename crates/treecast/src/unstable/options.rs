//! Options that are structures: those of carousels, local groups, feeds and MEADcast. Fields have their units in their descriptions,
//! and `Default` or `new` gives the usual values.

pub use treecast_driver::{
    carousel::FrameHash,
    explicit::Sharing,
    local::GroupsFile,
    receive::NameFilter,
    send::{
        Bound, CarouselOptions, Dialect, FeedSource, FolderOptions, Listed, ListedError, LocalOptions, Rule,
        Terms,
    },
};
/// The key that senders and routers of a MEADcast domain share.
pub use treecast_proto::explicit::authentication::DomainKey;
/// Limits of the groupings of MEADcast.
pub use treecast_proto::explicit::mead::grouping::Parameters as GroupingLimits;
/// The order of bits in MEADcast's headers, and the largest number of addresses in a packet.
pub use treecast_wire::mead::{Dialect as MeadDialect, MAX_ADDRESSES as MAX_MEAD_ADDRESSES};
pub use treecast_wire::ticket::LocalMode;
