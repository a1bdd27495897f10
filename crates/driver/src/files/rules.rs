//! The rules for a sender in the target folder: which names it may use, and how much it may send.

use std::{fmt, time::Duration};

use crate::words::bytes;

/// The rules for a target folder. By default, a received file replaces a file or symbolic link of the same
/// name, as with rsync, tar and cp, because machines are updated in the same folder repeatedly. Names that
/// begin with a dot at the top of the folder are refused, because shells and ssh obey such files in a home
/// folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Whether existing files and symbolic links are kept, and objects with their names are not fetched.
    pub keep_existing: bool,
    /// Whether names that begin with a dot at the top of the folder are accepted.
    pub hidden: bool,
    /// The largest number of files, folders and links. `None`: no limit.
    pub max_files: Option<u64>,
    /// The largest number of bytes of all files together. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Whether each file is forced to the disk and read back from there before it gets its name.
    pub reads_back: bool,
    /// The time for which an object waits for space on a full disk. Zero: it does not wait.
    pub wait_for_space: Duration,
}

/// A limit that ends a session for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The longest time.
    Time(Duration),
    /// The largest number of objects.
    Files(u64),
    /// The largest size of all objects together, in bytes.
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
