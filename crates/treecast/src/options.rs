//! Options that are structures: those of carousels, local groups, feeds and MEADcast. Fields have their units in their descriptions,
//! and `Default` or `new` gives the usual values.

pub use treecast_driver::{
    carousel::FrameHash,
    explicit::Sharing,
    local::GroupsFile,
    receive::NameFilter,
    send::{
        Bound, CarouselOptions, Dialect, FeedSource, FolderOptions, Listed, ListedError, LocalOptions,
        Priority, Rule, Terms,
    },
};
/// Forward error correction: how many repair symbols follow each part of an object before anybody asks for them.
pub use treecast_proto::fec::Share;
pub use treecast_wire::ticket::LocalMode;
