//! Files: [`Source`]s that a sender reads, and the [`TargetFolder`] to which a receiver writes through its
//! [`Store`] thread.
//!
//! A received file has a hidden temporary name in the target folder. It gets its final name only when it is
//! complete and its hash is right. In the same instant it replaces a file of that name, unless the folder's
//! [`Rules`] forbid that. If it is abandoned, the temporary file is removed. A small file stays in memory until
//! it is complete, and never has a temporary name; its bytes are also in a log. A later receiver continues the
//! work of a killed one, whose [`Journal`] says what is there.

mod admission;
mod buffers;
mod chunk_check;
mod device;
mod exclude;
mod hashes;
mod held;
mod held_log;
mod intake;
mod journal;
mod left_behind;
mod link;
mod names;
mod part;
mod place;
mod rules;
mod small;
mod source;
mod source_error;
mod store;
mod stored;
mod symbols;
mod target;
mod task;
mod tree_hash;
mod walk;
mod wildcards;

use treecast_host::folder as sys;
use treecast_wire::message::ModificationTime;

pub(crate) use admission::Admission;
pub use buffers::Buffers;
pub use device::{Device, DeviceError};
pub use exclude::{Exclude, ExcludeError};
pub use hashes::Hashes;
pub(crate) use intake::Intake;
pub use journal::{Ending, Journal, Kept, Leftovers};
pub use part::PartFile;
pub use place::Place;
pub use rules::{Limit, Rules};
pub(crate) use small::SmallObjects;
pub use source::Source;
pub use source_error::{Change, SourceError, Unsendable};
pub use store::{Lack, Report, Shortage, Store};
pub use symbols::SourceBlock;
pub use target::{TargetError, TargetFolder, check_name};
pub use task::{Task, Whole};
pub use walk::{Found, NamedSource, Selection, Skipped, find_sources, find_sources_until, named_file};

/// A time of modification as a file system takes it.
fn file_time(time: ModificationTime) -> sys::FileTime {
    sys::FileTime { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

/// The announcement of a file, for tests.
#[cfg(test)]
fn begin(size: u64, name: &str) -> treecast_wire::message::BeginOfFile {
    use treecast_wire::message::{BeginOfFile, TransferType};
    BeginOfFile::new(TransferType::DiskToDisk, size, name).unwrap()
}
