//! Reasons why files cannot be sent. All such files of a set are reported together, so that they need not be
//! found one by one.

use std::{
    collections::BTreeMap,
    fmt, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
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
    #[error("{path} {how}", path = path.display())]
    Changed { path: PathBuf, how: Change },
    #[error("{}", of_one_name(path, other, name))]
    SameName { path: PathBuf, other: PathBuf, name: String },
    #[error("the name of {path} cannot be sent ({why}): rename it", path = path.display())]
    Name { path: PathBuf, why: String },
    #[error("{path} has no name that receivers could give it: name the folders in it that are to be sent", path = path.display())]
    NoName { path: PathBuf },
    #[error("everything is excluded, so that there is nothing to send: change the patterns")]
    AllExcluded,
    #[error(transparent)]
    Several(Unsendable),
    #[error("interrupted while files were looked for: nothing has been sent")]
    Interrupted,
}

/// A change of a file since it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its time of modification is another.
    Modified,
    Shorter,
    Longer,
    /// Another file, or something else, has its name.
    Replaced,
    Removed,
    /// The file has more to read than its size says.
    Unbounded,
    /// The file takes what this process prints.
    OwnOutput,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modified => "changed while it was sent: send it again when nothing writes to it",
            Self::Shorter => "became shorter while it was sent: send it again when nothing writes to it",
            Self::Longer => "became longer while it was sent: send it again when nothing writes to it",
            Self::Replaced => "was replaced by something else while it was sent: send it again",
            Self::Removed => "was removed while it was sent: send it again when it is there",
            Self::Unbounded => "holds more than its size says, like files in /proc: send a copy of it",
            Self::OwnOutput => "is where the sender's own output goes: send it when this sender has ended",
        })
    }
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

    /// The number of files and folders that cannot be sent.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// The first of them, with the reasons in a few words.
    pub fn named(&self) -> impl Iterator<Item = (String, String)> {
        self.named.iter().map(|(path, error)| (shown(path), why(error)))
    }

    /// The first of them with the reasons, and how many more there are.
    fn in_words(&self) -> String {
        let named = self.named.iter();
        let mut words: Vec<String> =
            named.map(|(path, error)| format!("{} ({})", shown(path), why(error))).collect();
        let others = self.count.saturating_sub(self.named.len());
        words.extend((others > 0).then(|| format!("and {others} more")));
        words.join(", ")
    }

    /// Whether more of them would tell nobody anything.
    pub(super) fn is_enough(&self) -> bool {
        self.count >= MAX_COUNTED
    }

    /// # Errors
    /// If there is anything.
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
        let named = self.in_words();
        write!(
            f,
            "{at_least}{} files or folders cannot be sent, and so nothing is: {named}; rename or mend them, or leave them out",
            self.count
        )
    }
}

/// The reason in a few words, without the path.
fn why(error: &SourceError) -> String {
    match error {
        SourceError::Unreadable { source, .. } => format!("cannot be read: {source}"),
        SourceError::NotRegular { .. } => "neither a file nor a folder nor a block device".to_owned(),
        SourceError::InUse { its, .. } => format!("in use: {its}"),
        SourceError::SameName { path, other, .. } if is_same(path, other) => {
            format!("it is {}, and named twice", shown(other))
        }
        SourceError::SameName { other, name, .. } => {
            format!("would be called {}, as {}", name.escape_debug(), shown(other))
        }
        SourceError::Name { why, .. } => format!("its name cannot be sent: {why}"),
        SourceError::Changed { how: Change::Removed, .. } => {
            "it was removed while folders were read".to_owned()
        }
        SourceError::Changed { how: Change::Replaced, .. } => {
            "it was replaced while folders were read".to_owned()
        }
        SourceError::Changed { .. }
        | SourceError::NoName { .. }
        | SourceError::AllExcluded
        | SourceError::Several(_)
        | SourceError::Interrupted => error.to_string(),
    }
}

/// Says that two paths would have one name at receivers. They may be one file that was named twice.
fn of_one_name(path: &Path, other: &Path, name: &str) -> String {
    match is_same(path, other) {
        true if path == other => format!("{} is named twice: name it once", shown(path)),
        true => format!("{} and {} are the same: name it once", shown(path), shown(other)),
        false => {
            format!(
                "{} and {} would both be called {name}: rename one or send them apart",
                shown(path),
                shown(other)
            )
        }
    }
}

/// Whether two paths lead to one file.
fn is_same(path: &Path, other: &Path) -> bool {
    let number = |path: &Path| path.metadata().ok().map(|status| (status.dev(), status.ino()));
    number(path).is_some_and(|at| number(other) == Some(at))
}

/// A path as it can stand in a line. Bytes that are no text are escaped.
fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(path) => path.escape_debug().to_string(),
        None => path.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}
