//! The folder that received files land in. No name can lead out of it: names are checked, and every step
//! into a subfolder is taken without following symbolic links.

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;
use treecast_wire::header::FileId;

/// Why a file cannot be stored.
#[derive(Debug, Error)]
pub enum TargetError {
    #[error("cannot use folder {folder}: {source}; name one that you may write to with --into",
        folder = folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("the name {name:?} is refused ({why}): nothing may leave the target folder")]
    Name { name: String, why: String },
    #[error("folder {folder} is full: {name} needs {needed} bytes and {free} are free; make room or name another with --into",
        folder = folder.display())]
    Full { folder: PathBuf, name: String, needed: u64, free: u64 },
    #[error("cannot give a file the name {name:?}: {path} is {what}; remove or rename it, or name another folder with --into",
        path = path.display())]
    InTheWay { name: String, path: PathBuf, what: &'static str },
    #[error("cannot {doing} in folder {folder}: it is full; make room or name another with --into", folder = folder.display())]
    NoRoom { doing: String, folder: PathBuf },
    #[error("cannot {doing} in folder {folder}: {source}", folder = folder.display())]
    Io { doing: String, folder: PathBuf, source: io::Error },
}

/// Whether a received file may be called so: a relative path of ordinary components.
///
/// # Errors
/// What is wrong with it.
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
            _ => {}
        }
    }
    Ok(())
}

/// An open folder.
#[derive(Debug, Clone)]
pub struct TargetFolder {
    folder: Arc<OwnedFd>,
    path: PathBuf,
}

impl TargetFolder {
    /// Opens a folder, which is made if it is missing, and its parents too, and sees that files can be made in it.
    ///
    /// # Errors
    /// When it cannot be made, is no folder, or not writable.
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Folder { folder: path.to_owned(), source };
        match std::fs::create_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let folder = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path).map_err(failed)?;
        let here = c_string(OsStr::new(".")).map_err(failed)?;
        // SAFETY: `here` is a C string and the folder is open.
        if unsafe { libc::faccessat(folder.as_raw_fd(), here.as_ptr(), libc::W_OK | libc::X_OK, 0) } != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        let folder = Self { folder: Arc::new(folder.into()), path: path.to_owned() };
        folder.remove_leftovers();
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the temporary file of an object.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(&self, file: FileId) -> Result<PartFile, TargetError> {
        let name = format!(".treecast-{:08x}-{}-{}.part", file.session().0, file.index(), std::process::id());
        let failed = |source| self.error(format!("make {name}"), source);
        let c_name = c_string(OsStr::new(&name)).map_err(failed)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = open_at(&self.folder, &c_name, flags, 0o666).map_err(failed)?;
        // Where a file system knows no locks, `remove_leftovers` removes nothing.
        lock(&opened);
        Ok(PartFile { folder: self.clone(), name: c_name, file: opened.into(), is_committed: false })
    }

    /// Sees whether `size` more bytes fit.
    ///
    /// # Errors
    /// One line when they do not.
    pub fn check_room(&self, name: &str, size: u64) -> Result<(), TargetError> {
        // SAFETY: statvfs is plain data that fstatvfs fills.
        let statistics = unsafe {
            let mut statistics: libc::statvfs = std::mem::zeroed();
            match libc::fstatvfs(self.folder.as_raw_fd(), &mut statistics) {
                0 => statistics,
                _ => return Ok(()),
            }
        };
        let free = (statistics.f_bavail as u64).saturating_mul(statistics.f_frsize as u64);
        // Some file systems (an unlimited tmpfs) tell no size at all; writing will show.
        if statistics.f_blocks == 0 || size <= free {
            return Ok(());
        }
        Err(TargetError::Full { folder: self.path.clone(), name: name.to_owned(), needed: size, free })
    }

    /// The line for an operation that failed here.
    pub fn error(&self, doing: String, source: io::Error) -> TargetError {
        let folder = self.path.clone();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                TargetError::NoRoom { doing, folder }
            }
            _ => TargetError::Io { doing, folder, source },
        }
    }

    /// Takes the room for a file of `size` bytes now, where the file system does so without writing it. (tmpfs
    /// would.)
    ///
    /// # Errors
    /// When there is none.
    pub fn reserve(&self, file: &File, name: &str, size: u64) -> Result<(), TargetError> {
        // SAFETY: statfs is plain data that fstatfs fills; the file is open.
        let allocated = unsafe {
            let mut statistics: libc::statfs = std::mem::zeroed();
            let is_known = libc::fstatfs(file.as_raw_fd(), &mut statistics) == 0;
            let len = libc::off64_t::try_from(size).unwrap_or(libc::off64_t::MAX);
            if !is_known || statistics.f_type == libc::TMPFS_MAGIC || size == 0 {
                return Ok(());
            }
            libc::fallocate64(file.as_raw_fd(), 0, 0, len)
        };
        let error = io::Error::last_os_error();
        if allocated != 0 && error.kind() == io::ErrorKind::StorageFull {
            return Err(self.error(format!("take {size} bytes for {name}"), error));
        }
        Ok(())
    }

    /// Removes the temporary files of processes that were killed. One that lives has its own locked, and has
    /// not died on this host.
    fn remove_leftovers(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        for name in entries.flatten().map(|entry| entry.file_name()) {
            if owner(&name).is_none_or(is_alive) {
                continue;
            }
            let Ok(c_name) = c_string(&name) else { continue };
            let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
            let Ok(file) = open_at(&self.folder, &c_name, flags, 0) else { continue };
            if lock(&file) {
                // SAFETY: a C string and an open folder.
                unsafe { libc::unlinkat(self.folder.as_raw_fd(), c_name.as_ptr(), 0) };
            }
        }
    }

    /// Opens the folder that `name`'s last component belongs in, making what is missing on the way.
    fn parent_of<'a>(&self, name: &'a str) -> Result<(Arc<OwnedFd>, &'a str), TargetError> {
        let mut folder = Arc::clone(&self.folder);
        let mut rest = name;
        let failed = |source, below: &str| {
            let component = name[..name.len() - below.len()].trim_end_matches('/');
            self.name_error(name, component, source)
        };
        while let Some((component, below)) = rest.split_once('/') {
            let component = c_string(OsStr::new(component)).map_err(|error| failed(error, below))?;
            // SAFETY: a C string and an open folder.
            if unsafe { libc::mkdirat(folder.as_raw_fd(), component.as_ptr(), 0o777) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(failed(error, below));
                }
            }
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            let opened = open_at(&folder, &component, flags, 0).map_err(|error| failed(error, below))?;
            folder = Arc::new(opened);
            rest = below;
        }
        Ok((folder, rest))
    }

    /// The line for a file that cannot be called `name`, by what is at `component` of it.
    fn name_error(&self, name: &str, component: &str, source: io::Error) -> TargetError {
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

/// A file under its temporary name; removed when dropped before [`PartFile::commit`].
#[derive(Debug)]
pub struct PartFile {
    folder: TargetFolder,
    name: CString,
    file: File,
    is_committed: bool,
}

impl PartFile {
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name, replacing what had it.
    ///
    /// # Errors
    /// When the name is refused, a symbolic link or a file is in its way, or the kernel says no.
    pub fn commit(mut self, name: &str) -> Result<(), TargetError> {
        check_name(name).map_err(|why| TargetError::Name { name: name.to_owned(), why })?;
        let failed = |source| self.folder.name_error(name, name, source);
        let (parent, last) = self.folder.parent_of(name)?;
        let last = c_string(OsStr::new(last)).map_err(failed)?;
        // SAFETY: two C strings and two open folders.
        let result = unsafe {
            libc::renameat(
                self.folder.folder.as_raw_fd(),
                self.name.as_ptr(),
                parent.as_raw_fd(),
                last.as_ptr(),
            )
        };
        if result != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // SAFETY: a C string and an open folder. A failure leaves a hidden file that names its origin.
            unsafe { libc::unlinkat(self.folder.folder.as_raw_fd(), self.name.as_ptr(), 0) };
        }
    }
}

fn open_at(folder: &OwnedFd, name: &CString, flags: i32, mode: libc::mode_t) -> io::Result<OwnedFd> {
    // SAFETY: a C string and an open folder; a result that is not negative is a new descriptor of ours.
    unsafe {
        match libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, mode) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The process that a temporary file belongs to by its name.
fn owner(name: &OsStr) -> Option<libc::pid_t> {
    let inner = name.to_str()?.strip_prefix(".treecast-")?.strip_suffix(".part")?;
    inner.rsplit_once('-')?.1.parse().ok().filter(|pid| *pid > 0)
}

fn is_alive(process: libc::pid_t) -> bool {
    // SAFETY: signal 0 only asks.
    let answer = unsafe { libc::kill(process, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Locks a file if nobody else has; the lock goes with the descriptor.
fn lock(file: &OwnedFd) -> bool {
    // SAFETY: an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::files::walk::tests::scratch;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for bad in ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a\nb", "a\u{1b}[2J"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b", "..a", ".hidden", "a b", "ä"] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_file_appears_only_when_committed_and_replaces_the_old_one() {
        let path = scratch("commit");
        let folder = TargetFolder::open(&path).unwrap();
        std::fs::write(path.join("name"), "old").unwrap();
        let part = folder.create(FileId(1)).unwrap();
        part.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(std::fs::read(path.join("name")).unwrap(), b"old");
        part.commit("name").unwrap();
        assert_eq!(std::fs::read(path.join("name")).unwrap(), b"new");
        folder.create(FileId(2)).unwrap().commit("sub/folder/name").unwrap();
        assert!(path.join("sub/folder/name").is_file());
        drop(folder.create(FileId(3)).unwrap());
        let hidden = std::fs::read_dir(&path).unwrap().count();
        assert_eq!(hidden, 2, "name and sub only");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let path = scratch("leftovers");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let pid = dead.id();
        let names = [
            format!(".treecast-0000000a-3-{pid}.part"),
            format!(".treecast-0000000a-4-{pid}.part"),
            format!(".treecast-0000000a-3-{}.part", std::process::id()),
            ".treecast-notes.part".to_owned(),
            "name".to_owned(),
        ];
        for name in &names {
            std::fs::write(path.join(name), "x").unwrap();
        }
        let held: OwnedFd = File::open(path.join(&names[1])).unwrap().into();
        assert!(lock(&held));
        drop(TargetFolder::open(&path).unwrap());
        let is_there: Vec<bool> = names.iter().map(|name| path.join(name).exists()).collect();
        assert_eq!(is_there, [false, true, true, true, true], "locked, alive, foreign, or a file");
        drop(held);
        drop(TargetFolder::open(&path).unwrap());
        assert!(!path.join(&names[1]).exists());
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_folder_is_made_with_its_parents_and_a_file_is_none() {
        let path = scratch("open");
        std::fs::write(path.join("file"), "x").unwrap();
        for file in ["file", "file/below"] {
            let line = TargetFolder::open(&path.join(file)).unwrap_err().to_string();
            assert!(line.contains("--into") && line.contains("Not a directory"), "{line}");
        }
        TargetFolder::open(&path.join("new/folder")).unwrap();
        assert!(path.join("new/folder").is_dir());
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_in_the_way_is_named_with_what_to_do() {
        let path = scratch("in-the-way");
        std::fs::create_dir(path.join("folder")).unwrap();
        std::fs::write(path.join("file"), "x").unwrap();
        let folder = TargetFolder::open(&path).unwrap();
        let line = |name| folder.create(FileId(1)).unwrap().commit(name).unwrap_err().to_string();
        for (name, what) in [("folder", "folder is a folder"), ("file/below", "file is a file")] {
            let line = line(name);
            let advice = "remove or rename it, or name another folder with --into";
            assert!(line.contains(what) && line.ends_with(advice), "{line}");
        }
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_symbolic_link_leads_nowhere() {
        let path = scratch("symlink");
        let outside = scratch("symlink-outside");
        std::os::unix::fs::symlink(&outside, path.join("sub")).unwrap();
        let folder = TargetFolder::open(&path).unwrap();
        let error = folder.create(FileId(1)).unwrap().commit("sub/name").unwrap_err().to_string();
        assert!(error.contains("sub/name") && error.contains("sub is a symbolic link"), "{error}");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        std::fs::remove_dir_all(path).unwrap();
        std::fs::remove_dir_all(outside).unwrap();
    }

    #[test]
    fn more_than_fits_is_refused_with_the_bytes_needed() {
        let path = scratch("full");
        let folder = TargetFolder::open(&path).unwrap();
        folder.check_room("small", 1).unwrap();
        let line = folder.check_room("huge", u64::MAX / 2).unwrap_err().to_string();
        assert!(line.contains("is full") && line.contains(&(u64::MAX / 2).to_string()), "{line}");
        std::fs::remove_dir_all(path).unwrap();
    }
}
