//! Reasons why files cannot be sent. All such files of a set are reported together, so that they need not be
//! found one by one.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use treecast_host::device::Use;

/// The reason why a file cannot be sent, or not any longer.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error("cannot read {path}: {source}; check the name and the permissions", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is neither a file nor a folder nor a block device: name one of these", path = path.display())]
    NotRegular { path: PathBuf },
    #[error("{path} is in use and may change while it is sent ({its}): unmount it, or mount it read-only", path = path.display())]
    InUse { path: PathBuf, its: Use },
    #[error("{path} changed while it was sent: send it again when nothing writes to it", path = path.display())]
    Changed { path: PathBuf },
    #[error("{path} became shorter while it was sent: send it again when nothing writes to it", path = path.display())]
    Shrunk { path: PathBuf },
    #[error("{path} and {other} would both be called {name}: rename one or send them apart", path = path.display(), other = other.display())]
    SameName { path: PathBuf, other: PathBuf, name: String },
    #[error("the name of {path} cannot be sent ({why}): rename it", path = path.display())]
    Name { path: PathBuf, why: String },
    #[error("{path} has no name that receivers could give it: name the folders in it that are to be sent", path = path.display())]
    NoName { path: PathBuf },
    #[error(transparent)]
    Several(Unsendable),
    #[error("interrupted while files were looked for: nothing has been sent")]
    Interrupted,
}

/// The most of them that are named.
const MAX_NAMED: usize = 10;

/// The most of them that are looked for: nothing is sent in any case.
const MAX_COUNTED: usize = 100;

/// The parts of a set that cannot be sent: the first ones by path, and their number.
#[derive(Debug, Default)]
pub struct Unsendable {
    named: BTreeMap<PathBuf, SourceError>,
    count: usize,
}

impl Unsendable {
    /// Hands on what is good, and keeps what is not.
    pub(super) fn sift<T>(&mut self, path: &Path, result: Result<T, SourceError>) -> Option<T> {
        let error = match result {
            Ok(good) => return Some(good),
            Err(error) => error,
        };
        self.count += 1;
        self.named.insert(path.to_owned(), error);
        if self.named.len() > MAX_NAMED {
            self.named.pop_last();
        }
        None
    }

    /// Whether more of them would tell nobody anything.
    pub(super) fn is_enough(&self) -> bool {
        self.count >= MAX_COUNTED
    }

    /// # Errors
    /// When there is anything.
    pub(super) fn refuse(mut self) -> Result<(), SourceError> {
        match self.count {
            0 => Ok(()),
            1 => self.named.pop_first().map_or(Ok(()), |(_, error)| Err(error)),
            _ => Err(SourceError::Several(self)),
        }
    }
}

impl std::error::Error for Unsendable {}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.is_enough() { "at least " } else { "" };
        write!(f, "{at_least}{} files or folders cannot be sent, and so nothing is: ", self.count)?;
        for (index, (path, error)) in self.named.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{} ({})", path.to_string_lossy().escape_debug(), why(error))?;
        }
        let others = self.count.saturating_sub(self.named.len());
        if others > 0 {
            write!(f, ", and {others} more")?;
        }
        write!(f, "; rename or mend them, or leave them out")
    }
}

/// In a few words, without the path.
fn why(error: &SourceError) -> String {
    match error {
        SourceError::Unreadable { source, .. } => format!("cannot be read: {source}"),
        SourceError::NotRegular { .. } => "neither a file nor a folder nor a block device".to_owned(),
        SourceError::InUse { its, .. } => format!("in use: {its}"),
        SourceError::SameName { other, name, .. } => {
            format!("would be called {}, as {}", name.escape_debug(), other.to_string_lossy().escape_debug())
        }
        SourceError::Name { why, .. } => format!("its name: {why}"),
        SourceError::Changed { .. }
        | SourceError::Shrunk { .. }
        | SourceError::NoName { .. }
        | SourceError::Several(_)
        | SourceError::Interrupted => error.to_string(),
    }
}
