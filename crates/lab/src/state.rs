//! The record of a lab outside the process that built it. Each lab has a folder with a record, which is written
//! before the first namespace is made. A lock is held while the lab is built, changed or removed.

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

/// The folder for records, unless `TREECAST_LAB_STATE` names another one.
const DEFAULT_DIRECTORY: &str = "/run/treecast/labs";

/// The time for which another process may hold a lab's lock, before that is an error.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The record of a lab. It is enough to find and remove everything that the lab has made, at any stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub name: String,
    pub phase: Phase,
    pub topology: Topology,
    pub delaying: Delaying,
    /// The eBPF program that drops packets on the lab's links. `None` until a link of the lab is told to lose packets.
    pub loss: Option<LossObjects>,
    /// The numbers of the interfaces that were made to lose packets after the lab was up.
    #[serde(default)]
    pub losing: Vec<u32>,
    /// The networks that routes avoid at present, by index.
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
    /// The lab is being built or taken down. If nobody holds the lock, the process that did so is gone.
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
    /// Creates the folder of a new lab.
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

    /// Opens a lab's folder, and waits until nobody else holds the lock.
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
                // The process that held the lock may have removed the lab, and this file with it.
                if is_same(&file, &path) {
                    return Ok(Self { folder, name: name.to_owned(), _lock: file });
                }
            } else if Instant::now() > deadline {
                return Err(Error::Busy { name: name.to_owned() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The folder. Other files of the lab may be kept there; they are removed with the record.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the record at once: a reader sees the old record or the new one.
    pub fn write(&self, record: &Record) -> Result<()> {
        let path = record_path(&self.folder);
        let new = self.folder.join("record.new");
        let text = serde_json::to_vec(record).map_err(io::Error::other);
        let written = text.and_then(|text| fs::write(&new, text)).and_then(|()| fs::rename(&new, &path));
        written.map_err(Error::system(format!("write {}", path.display())))
    }

    /// Reads the record. `None`: the process that made the folder ended before it made anything else.
    pub fn read(&self) -> Result<Option<Record>> {
        read(&self.folder, &self.name)
    }

    /// Removes the lab's record and folder.
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
