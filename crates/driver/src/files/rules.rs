//! What a receiver lets its sender do in the target folder: which names it takes, and how much in all.

use std::{fmt, time::Duration};

use crate::words::bytes;

/// What may be done in a target folder. By default a file or symbolic link that has the name of a received one is
/// replaced, as with rsync, tar and cp: machines are brought up to date in the same folder again and again. Names that
/// begin with a dot at the top of the folder are refused: in a home folder, shells and ssh obey such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Files and symbolic links that are there stay as they are, and what would have their names is not fetched.
    pub keep_existing: bool,
    /// Names that begin with a dot at the top of the folder are taken, too.
    pub hidden: bool,
    /// The most files, folders and links; none for any number.
    pub max_files: Option<u64>,
    /// The most bytes of all files together; none for any number.
    pub max_bytes: Option<u64>,
    /// How long an object waits for room when the disk is full; zero for not at all.
    pub wait_for_space: Duration,
}

/// A limit that ends a session for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Time(Duration),
    Files(u64),
    Bytes(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "the {} s that receiving may take are over", time.as_secs()),
            Self::Files(files) => {
                write!(f, "there are more files, folders and links than the {files} that are allowed")
            }
            Self::Bytes(most) => {
                write!(f, "the files are larger together than the {} that are allowed", bytes(*most))
            }
        }
    }
}
