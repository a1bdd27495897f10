//! What is known of a lab outside the process that built it: one folder a lab with a record, written
//! before the first namespace is made, and a lock, held while the lab is built, changed or removed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::loss::LossObjects;
use crate::plan::{Delaying, Plan};
use crate::routes::Routing;
use crate::topology::Topology;
use treecast_host::folder::{Lock, lock};

/// Where labs are recorded unless `TREECAST_LAB_STATE` names another folder.
const DEFAULT_DIRECTORY: &str = "/run/treecast/labs";

/// How long another process may hold a lab before that is an error.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Enough to find and remove all that a lab has made, however far that got.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub name: String,
    pub phase: Phase,
    pub topology: Topology,
    pub delaying: Delaying,
    /// Set once the lab loses packets on purpose.
    pub loss: Option<LossObjects>,
    /// The numbers of the interfaces that were made to lose packets after the lab was up.
    #[serde(default)]
    pub losing: Vec<u32>,
    /// The networks, by their index, that routes avoid at present.
    #[serde(default)]
    pub avoided: BTreeSet<usize>,
    #[serde(default)]
    pub routing: Routing,
}

impl Record {
    /// The plan by which the lab was built.
    pub fn plan(&self) -> Plan {
        Plan::of(&self.name, &self.topology, self.delaying)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Being built or taken down; if nobody holds the lock, whoever did that is gone.
    Unfinished,
    Up,
}

/// The folder in which labs are recorded.
pub fn directory() -> PathBuf {
    std::env::var_os("TREECAST_LAB_STATE").map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from)
}

/// The names of all labs, sorted.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::system(format!("list the labs in {}", directory.display())))?,
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// A lab's folder, locked.
pub struct Locked {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Locked {
    /// Makes the folder of a new lab.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        let folder = directory.join(name);
        fs::create_dir_all(directory).map_err(Error::system(format!("make {}", directory.display())))?;
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { name: name.to_owned() });
            }
            made => made.map_err(Error::system(format!("make {}", folder.display())))?,
        }
        Self::lock(folder, name)
    }

    /// Waits until nobody else holds the lab.
    pub fn open(directory: &Path, name: &str) -> Result<Self> {
        let folder = directory.join(name);
        if !folder.is_dir() {
            return Err(Error::NoSuchLab { name: name.to_owned() });
        }
        Self::lock(folder, name)
    }

    fn lock(folder: PathBuf, name: &str) -> Result<Self> {
        let path = folder.join("lock");
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            let file = File::options().create(true).append(true).open(&path);
            let gone = |_| Error::NoSuchLab { name: name.to_owned() };
            let file = file.map_err(gone)?;
            if lock(&file) == Lock::Ours {
                // Whoever held the lock may have removed the lab, and this file with it.
                if is_same(&file, &path) {
                    return Ok(Self { folder, name: name.to_owned(), _lock: file });
                }
            } else if Instant::now() > deadline {
                return Err(Error::Busy { name: name.to_owned() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What else belongs to the lab may be kept there; it is removed with the record.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the record at once: a reader sees the old one or the new one.
    pub fn write(&self, record: &Record) -> Result<()> {
        let path = record_path(&self.folder);
        let new = self.folder.join("record.new");
        let text = serde_json::to_vec(record).map_err(io::Error::other);
        let written = text.and_then(|text| fs::write(&new, text)).and_then(|()| fs::rename(&new, &path));
        written.map_err(Error::system(format!("write {}", path.display())))
    }

    /// `None`: whoever made the folder was ended before it made anything else.
    pub fn read(&self) -> Result<Option<Record>> {
        read(&self.folder, &self.name)
    }

    /// Forgets the lab.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).map_err(Error::system(format!("remove {}", self.folder.display())))
    }
}

/// Reads a lab's record without waiting for its lock.
pub fn peek(directory: &Path, name: &str) -> Result<Option<Record>> {
    let folder = directory.join(name);
    if !folder.is_dir() {
        return Err(Error::NoSuchLab { name: name.to_owned() });
    }
    read(&folder, name)
}

fn read(folder: &Path, name: &str) -> Result<Option<Record>> {
    let path = record_path(folder);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(Error::system(format!("read {}", path.display())))?,
    };
    let damaged = |error: serde_json::Error| Error::DamagedRecord {
        name: name.to_owned(),
        path,
        reason: error.to_string(),
    };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

fn record_path(folder: &Path) -> PathBuf {
    folder.join("record.json")
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
