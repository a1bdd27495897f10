//! Files: [`Source`]s that a sender reads, and the [`TargetFolder`] that a receiver writes to through its
//! [`Store`] thread.
//!
//! A received file lies under a hidden temporary name in the target folder and gets its final name only when it is
//! complete and its hash is right; a file that had that name before is replaced in the same instant, unless the folder's
//! [`Rules`] say otherwise. The temporary file
//! is removed whenever it is let go of. A small one stays in memory until then, and never has another name; what has
//! come of it is in a log, too. What a receiver that was killed has left, another one of the session goes on with: its
//! [`Journal`] says what is there.

mod admission;
mod buffers;
mod chunk_check;
mod held;
mod held_log;
mod intake;
mod journal;
mod link;
mod names;
mod part;
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

use treecast_host::folder as sys;
use treecast_wire::message::ModificationTime;

pub(crate) use admission::Admission;
pub use buffers::Buffers;
pub(crate) use intake::Intake;
pub use journal::{Ending, Journal, Kept, Leftovers};
pub use part::PartFile;
pub use rules::{Limit, Rules};
pub(crate) use small::SmallObjects;
pub use source::Source;
pub use source_error::{SourceError, Unsendable};
pub use store::{Lack, Report, Shortage, Store};
pub use symbols::SourceBlock;
pub use target::{TargetError, TargetFolder, check_name};
pub use task::{Task, Whole};
pub use walk::{Found, NamedSource, Skipped, find_sources, find_sources_until};

/// A time of modification as a file system takes it.
fn file_time(time: ModificationTime) -> sys::FileTime {
    sys::FileTime { seconds: time.seconds, nanoseconds: time.nanoseconds }
}
