//! The folder for received files. No name can lead out of it: names are checked, and every step into a
//! subfolder is taken without following symbolic links.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    io,
    ops::Range,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use thiserror::Error;
use treecast_host::root::Root;
use treecast_wire::ticket::KEY_LEN;

use super::{
    Device, DeviceError, Rules,
    sys::{self, Status, c_string, open_at},
};
use crate::words::bytes;

/// The reason why a file cannot be stored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error("cannot use folder {folder}: {source}",
        folder = folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("the name {name:?} is refused ({why}): nothing may leave the target folder")]
    Name { name: String, why: String },
    #[error("folder {folder} is full: {name} needs {needed} and {free} are free; make room, or take another folder",
        folder = folder.display(), needed = bytes(*needed), free = bytes(*free))]
    Full { folder: PathBuf, name: String, needed: u64, free: u64 },
    #[error("cannot give a file the name {name:?}: {path} is {what}; remove or rename it, or take another folder",
        path = path.display())]
    InTheWay { name: String, path: PathBuf, what: &'static str },
    #[error("{name:?} and {other:?} are one name in folder {folder}, which does not tell them apart: only the first that came is kept; \
             take another folder",
        folder = folder.display())]
    OneName { name: String, other: String, folder: PathBuf },
    #[error("{name:?} is there already in folder {folder}, and what is there stays as it is", folder = folder.display())]
    Exists { name: String, folder: PathBuf },
    #[error("the symbolic link {name:?} to {target:?} is not made: {why}")]
    Link { name: String, target: String, why: &'static str },
    #[error("cannot {doing} in folder {folder}: it is full; make room, or take another folder", folder = folder.display())]
    NoRoom { doing: String, folder: PathBuf },
    #[error("cannot {doing} in folder {folder}: its file system has no room for another file (no inode is free); remove files there \
             or take another folder", folder = folder.display())]
    NoInode { doing: String, folder: PathBuf },
    #[error("cannot {doing} in folder {folder}: this user's quota there is used up; remove files or take another folder",
        folder = folder.display())]
    Quota { doing: String, folder: PathBuf },
    #[error(transparent)]
    Refused(#[from] DeviceError),
    #[error("cannot {doing} on {device}: {source}; take another device", device = device.display())]
    Device { doing: String, device: PathBuf, source: io::Error },
    #[error("cannot {doing} in folder {folder}: {source}", folder = folder.display())]
    Io { doing: String, folder: PathBuf, source: io::Error },
}

impl TargetError {
    /// Whether it would have gone well with more room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::NoRoom { .. } | Self::NoInode { .. } | Self::Quota { .. })
    }
}

/// The beginning of the names of all that is not a received file: of journals, and of files that are not whole.
pub(super) const HIDDEN: &str = ".treecast-";

/// Name of the extended attribute that says whose delivery has put a file where it is ([`sender_label`]).
pub(super) const SENDER_LABEL: &CStr = c"user.treecast.sender";

/// Value of the attribute [`SENDER_LABEL`]: the sender's public key, and when the file was modified last. A file that somebody has
/// changed since has another time, and may hold what its sender never knew.
pub(super) fn sender_label(key: &[u8; KEY_LEN], modified: sys::FileTime) -> Vec<u8> {
    [&key[..], &modified.seconds.to_be_bytes(), &modified.nanoseconds.to_be_bytes()].concat()
}

/// Whether a component of a name is reserved for what treecast keeps beside received files. Some file systems take upper
/// and lower case for one.
pub(super) fn is_own(component: &str) -> bool {
    component.get(..HIDDEN.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(HIDDEN))
}

/// The longest component of a name, in bytes: what Linux takes (NAME_MAX).
const MAX_COMPONENT_LEN: usize = 255;

/// Checks the name of a received file, which must be a relative path of ordinary components.
///
/// # Errors
/// The fault of the name, in words.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.starts_with('/') {
        return Err("it begins at the root".into());
    }
    if name.chars().any(char::is_control) {
        return Err("it holds control characters".into());
    }
    for component in name.split('/') {
        match component {
            "" => return Err("a component is empty".into()),
            "." | ".." => return Err(format!("it holds {component:?}")),
            _ if component.len() > MAX_COMPONENT_LEN => {
                let len = component.len();
                return Err(format!(
                    "a component has {len} bytes, and file systems take {MAX_COMPONENT_LEN}"
                ));
            }
            _ if is_own(component) => {
                return Err(format!("names that begin with {HIDDEN:?} are treecast's own"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An open target folder.
#[derive(Debug, Clone)]
pub struct TargetFolder {
    folder: Arc<Root>,
    path: PathBuf,
    rules: Rules,
    /// The device to which the one object goes. The folder then has only what treecast keeps beside it.
    device: Option<Device>,
    /// The place of older versions of objects: a file, a device or a folder. `None`: where the objects go.
    old: Option<Arc<Path>>,
    /// The public key of the session's sender. `None` in a plain session.
    sender: Option<[u8; KEY_LEN]>,
}

impl TargetFolder {
    /// Opens a folder, and checks that files can be created in it. The folder and its parents are created if
    /// they are missing.
    ///
    /// # Errors
    /// If it cannot be created, is no folder, or is not writable.
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Folder { folder: path.to_owned(), source };
        match std::fs::create_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let folder = Root::open(path).map_err(failed)?;
        sys::check_writable(&folder).map_err(failed)?;
        Ok(Self {
            folder: Arc::new(folder),
            path: path.to_owned(),
            rules: Rules::default(),
            device: None,
            old: None,
            sender: None,
        })
    }

    /// Sets the rules for the folder.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Writes the one object of the session to a device.
    #[must_use]
    pub fn with_device(self, device: Option<Device>) -> Self {
        Self { device, ..self }
    }

    /// Says where older versions of objects are: a file, a device or a folder. `None`: where the objects go.
    #[must_use]
    pub fn with_old(self, old: Option<&Path>) -> Self {
        Self { old: old.map(Arc::from), ..self }
    }

    /// Says whose session it is, by the sender's public key. `None` for a plain session.
    #[must_use]
    pub fn with_sender(self, sender: Option<[u8; KEY_LEN]>) -> Self {
        Self { sender, ..self }
    }

    /// The public key of the session's sender. `None` in a plain session.
    pub(super) fn sender(&self) -> Option<[u8; KEY_LEN]> {
        self.sender
    }

    /// The older version that the user has named, or a folder with such.
    pub fn old(&self) -> Option<&Path> {
        self.old.as_deref()
    }

    /// The device to which the one object goes. `None` if objects go to the folder.
    pub(super) fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The error for reading or writing of an object's bytes that failed.
    pub(super) fn content_error(&self, doing: String, source: io::Error) -> TargetError {
        match &self.device {
            Some(device) => TargetError::Device { doing, device: device.path().to_owned(), source },
            None => self.error(doing, source),
        }
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> &OwnedFd {
        self.folder.descriptor()
    }

    /// Opens the folder at `path` in this one, or this one when that is empty, and follows no symbolic link.
    pub(super) fn open_folder(&self, path: &str) -> io::Result<OwnedFd> {
        self.folder.folder(Path::new(path))
    }

    /// The entry at `name`, a name that has been checked.
    pub(super) fn status_of(&self, name: &str) -> io::Result<Status> {
        self.folder.status(Path::new(name))
    }

    /// Opens the file `name` to read it.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let no_file = || io::Error::other("it is no regular file");
        self.folder.file(Path::new(name))?.ok_or_else(no_file)
    }

    /// Creates a file without a name, which is gone when it is closed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn scratch(&self) -> Result<File, TargetError> {
        if let Ok(unnamed) = sys::open_unnamed(self.root(), 0o600) {
            return Ok(unnamed.into());
        }
        // Not every file system makes files without names: it has one for an instant.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let name = format!("{HIDDEN}{process}-{number}-symbols.part");
        let failed = |source| self.error(format!("make {name}"), source);
        let c_name = c_string(OsStr::new(&name)).map_err(failed)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = open_at(self.root(), &c_name, flags, 0o600).map_err(failed)?;
        sys::remove_at(self.root(), &c_name).map_err(failed)?;
        Ok(opened.into())
    }

    /// Checks whether `size` more bytes fit.
    ///
    /// # Errors
    /// One line if they do not.
    pub fn check_room(&self, name: &str, size: u64) -> Result<(), TargetError> {
        match self.free_bytes() {
            Some(free) if size > free => Err(TargetError::Full {
                folder: self.path.clone(),
                name: name.to_owned(),
                needed: size,
                free,
            }),
            _ => Ok(()),
        }
    }

    /// The number of bytes that this user may still write here. `None` where the file system does not say (an
    /// unlimited tmpfs): writing will show. A quota does not count.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        sys::free_bytes(&*self.folder)
    }

    /// Whether the file system has room for another file. Some have no fixed number of them.
    pub(super) fn has_free_inode(&self) -> bool {
        sys::has_free_inode(&*self.folder)
    }

    /// The error for an operation that failed here.
    pub fn error(&self, doing: String, source: io::Error) -> TargetError {
        let folder = self.path.clone();
        match source.kind() {
            io::ErrorKind::StorageFull if !self.has_free_inode() => TargetError::NoInode { doing, folder },
            io::ErrorKind::StorageFull => TargetError::NoRoom { doing, folder },
            io::ErrorKind::QuotaExceeded => TargetError::Quota { doing, folder },
            _ => TargetError::Io { doing, folder, source },
        }
    }

    /// Reserves the space for a range of a file now, if the file system can do so without writing it. (tmpfs would write it.)
    ///
    /// # Errors
    /// If there is no space.
    pub fn reserve(&self, file: &File, name: &str, range: Range<u64>) -> Result<(), TargetError> {
        let size = range.end - range.start;
        match sys::reserve(file, range) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Err(self.error(format!("take {} for {name}", bytes(size)), error))
            }
            _ => Ok(()),
        }
    }

    /// The line for a file that cannot be called `name`, by what is at `component` of it.
    pub(super) fn name_error(&self, name: &str, component: &str, source: io::Error) -> TargetError {
        if source.kind() == io::ErrorKind::AlreadyExists {
            return TargetError::Exists { name: name.to_owned(), folder: self.path.clone() };
        }
        let path = self.path.join(component);
        let kind = path.symlink_metadata().map(|metadata| metadata.file_type());
        let is_in_the_way = matches!(source.raw_os_error(), Some(libc::ENOTDIR | libc::EISDIR | libc::ELOOP));
        let what = match kind {
            Ok(kind) if kind.is_symlink() => "a symbolic link, which is not followed",
            Ok(kind) if kind.is_dir() => "a folder",
            Ok(_) => "a file",
            Err(_) => "",
        };
        if !is_in_the_way || what.is_empty() {
            return self.error(format!("give a file the name {name:?}"), source);
        }
        TargetError::InTheWay { name: name.to_owned(), path, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\nb",
            "a\u{1b}[2J",
            ".treecast-x",
            "a/b/.Treecast-x",
            ".treecast-/b",
            &"x".repeat(256),
            &format!("a/{}/b", "ä".repeat(128)),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b", "..a", ".hidden", ".treecast", "a b", "ä", &"x".repeat(255)] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_folder_is_made_with_its_parents_and_a_file_is_none() {
        let path = scratch("open");
        std::fs::write(path.join("file"), "x").unwrap();
        for file in ["file", "file/below"] {
            let line = TargetFolder::open(&path.join(file)).unwrap_err().to_string();
            assert!(line.contains("cannot use folder") && line.contains("Not a directory"), "{line}");
        }
        TargetFolder::open(&path.join("new/folder")).unwrap();
        assert!(path.join("new/folder").is_dir());
    }

    #[test]
    fn more_than_fits_is_refused_with_the_bytes_needed() {
        let path = scratch("full");
        let folder = TargetFolder::open(&path).unwrap();
        folder.check_room("small", 1).unwrap();
        let line = folder.check_room("huge", u64::MAX / 2).unwrap_err().to_string();
        assert!(line.contains("is full") && line.contains("needs 8192 PiB"), "{line}");
    }
}
