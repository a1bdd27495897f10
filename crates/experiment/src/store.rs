//! Keeps the source and the copies of a run: in memory, or in a folder that the user has named.
//!
//! The memory is a tmpfs that is mounted nowhere. It exists as long as this process holds its descriptor, and
//! other processes on this machine reach it by `/proc/PID/fd/N`. So nothing is left behind, even after SIGKILL.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use treecast_host::{folder, memory, mount};

use super::Error;

/// Room left beside source and copies: tickets, keys, temporary names.
const MARGIN_BYTES: u64 = 64 << 20;
/// Bytes of files for each byte of repair symbols that may wait to be decoded. On a busy machine they wait long.
const BYTES_FOR_A_SYMBOL_BYTE: u64 = 4;
/// Memory that is left to the programs themselves.
const RESERVE_BYTES: u64 = 512 << 20;

/// A place for the files of an experiment. It is emptied when this value is dropped.
pub struct Store {
    path: PathBuf,
    /// The tmpfs, when it is one; a folder of our own in the user's folder otherwise.
    memory: Option<OwnedFd>,
}

impl Store {
    /// Makes a store in memory for `bytes` bytes of files.
    pub fn in_memory(bytes: u64) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Store { what: "memory-backed files".into(), error };
        let mount = mount::unattached_memory(bytes + bytes / BYTES_FOR_A_SYMBOL_BYTE + MARGIN_BYTES)
            .map_err(failed)?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()));
        Ok(Self { path, memory: Some(mount) })
    }

    /// Makes a store in a new folder inside `folder`.
    pub fn in_folder(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(format!("treecast-run-{}", std::process::id()));
        let failed = |error| Error::Store { what: path.display().to_string(), error };
        fs::create_dir_all(&path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, memory: None })
    }

    /// Makes an empty folder of this name in the store.
    pub fn fresh_folder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.path.join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&folder)?,
        }
        Ok(folder)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.memory.is_none() {
            // Nobody is left to be told; what stays carries our name.
            _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns how many bytes of files fit: into memory, or into the file system of `folder`.
pub fn capacity_bytes(folder: Option<&Path>) -> io::Result<u64> {
    match folder {
        None => Ok(memory::available_bytes()?.saturating_sub(RESERVE_BYTES + MARGIN_BYTES)),
        Some(folder) => {
            let free_bytes = folder::free_bytes(File::open(folder)?).unwrap_or(u64::MAX);
            Ok(free_bytes.saturating_sub(MARGIN_BYTES))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_reached_by_other_processes() {
        let store = Store::in_memory(1 << 20).expect("needs root");
        let folder = store.fresh_folder("client0").unwrap();
        fs::write(folder.join("hidden"), b"copy").unwrap();
        fs::rename(folder.join("hidden"), folder.join("copy")).unwrap();
        let seen = std::process::Command::new("cat").arg(folder.join("copy")).output().unwrap();
        assert_eq!(seen.stdout, b"copy");
        let too_much = vec![0; (MARGIN_BYTES + (2 << 20)) as usize];
        let error = fs::write(folder.join("large"), too_much).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(store.fresh_folder("client0").unwrap()).unwrap().count(), 0);
    }

    /// 30 receivers of 64 MiB with 20 % loss filled it, when others took the processors.
    #[test]
    fn there_is_room_for_repair_symbols_beside_the_copies() {
        let store = Store::in_memory(1 << 30).expect("needs root");
        let free_bytes = folder::free_bytes(File::open(&store.path).unwrap()).unwrap();
        assert!(free_bytes > (1 << 30) * 5 / 4);
    }

    #[test]
    fn a_folder_on_disk_is_removed_with_everything_in_it() {
        let base = std::env::temp_dir().join(format!("treecast-store-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let store = Store::in_folder(&base).unwrap();
        fs::write(store.fresh_folder("client0").unwrap().join("copy"), b"copy").unwrap();
        drop(store);
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
        fs::remove_dir(&base).unwrap();
    }
}
