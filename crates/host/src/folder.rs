//! System calls on names in an open folder. None of them follows a symbolic link.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
};

use rustix::{
    fs::{
        self, Access, Advice, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
        ResolveFlags, Timestamps,
    },
    io::Errno,
};

use crate::user;

/// A file's device and inode number. Two names of one file have the same pair.
pub type Inode = (u64, u64);

/// The flags for opening a folder on the way to something in it.
pub const OPEN_FOLDER: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// A point in time, as file systems store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTime {
    /// The seconds of the time, counted since 1970.
    pub seconds: i64,
    /// The nanoseconds of the time, below 10^9.
    pub nanoseconds: u32,
}

/// The properties of the file, folder or link at a name.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub inode: Inode,
    /// The size of the file in bytes.
    pub size: u64,
    pub modified: FileTime,
    /// The time of the last change of the file or its properties. No program can set it.
    pub changed: FileTime,
    kind: FileType,
    mode: u16,
    owner: u32,
    names: u64,
}

impl Status {
    pub fn is_file(&self) -> bool {
        self.kind.is_file()
    }

    /// The permission bits, with those for set-user-ID, set-group-ID and sticky.
    pub fn mode(&self) -> u16 {
        self.mode & 0o7777
    }

    /// Whether the file belongs to this user.
    pub fn is_ours(&self) -> bool {
        self.owner == user::effective()
    }

    /// Whether this is a file of this user with a single name, and with none of the permission bits
    /// `forbidden`. Somebody else may have put any other file there.
    pub fn is_own_file(&self, forbidden: u16) -> bool {
        self.is_file() && self.is_ours() && self.names == 1 && self.mode & forbidden == 0
    }

    /// The permissions, with the bits for setuid, setgid and sticky.
    pub fn permissions(&self) -> u16 {
        self.mode & 0o7777
    }

    pub fn is_link(&self) -> bool {
        self.kind.is_symlink()
    }

    pub fn is_folder(&self) -> bool {
        self.kind.is_dir()
    }
}

/// Converts a name for the kernel. Fails if it contains a zero byte.
pub fn c_string(name: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(name.as_ref().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Opens `name`, which is one component, in a folder, with the flags of open(2). A new file gets the
/// permissions `mode`.
pub fn open_at(folder: &OwnedFd, name: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    Ok(fs::openat(folder, name, OFlags::from_bits_retain(flags as u32), Mode::from_raw_mode(mode))?)
}

/// Creates a file without a name. It can get a name later with [`give_name`].
pub fn open_unnamed(folder: &OwnedFd, mode: u32) -> io::Result<OwnedFd> {
    open_at(folder, c".", libc::O_RDWR | libc::O_TMPFILE | libc::O_CLOEXEC, mode)
}

/// Gives a name to a file without one. The name must not exist.
pub fn give_name(file: impl AsFd, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    match fs::linkat(file.as_fd(), c"", folder, name, AtFlags::EMPTY_PATH) {
        // Kernels before 6.10 allow this by descriptor only to privileged processes.
        Err(Errno::NOENT) => {}
        given => return Ok(given?),
    }
    let path = c_string(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))?;
    Ok(fs::linkat(fs::CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Opens what is at `path` below a folder, with the flags of open(2). An empty path is the folder itself. No link on the
/// way is followed, and no concurrent renaming leads outside.
///
/// # Errors
/// `InvalidInput` if the path holds anything but names; else the error of the kernel.
pub fn open_beneath(folder: &OwnedFd, path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let is_name = |component| matches!(component, Component::Normal(_));
    if !path.components().all(is_name) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    if path.as_os_str().is_empty() {
        return open_at(folder, c".", flags, 0);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened =
        fs::openat2(folder, c_string(path)?, OFlags::from_bits_retain(flags as u32), Mode::empty(), resolve);
    match opened {
        // The kernel is older than 5.6, a sandbox forbids the call, something is renamed meanwhile, or the path has 4,096 bytes:
        // the kernel takes one byte less at once.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INVAL | Errno::NAMETOOLONG) => {
            open_stepwise(folder, path, flags)
        }
        opened => Ok(opened?),
    }
}

/// Like [`open_beneath`], one component after the other.
fn open_stepwise(folder: &OwnedFd, path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let mut folder = folder.try_clone()?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = c_string(component)?;
        if components.peek().is_none() {
            return open_at(&folder, &name, flags, 0);
        }
        folder = open_at(&folder, &name, libc::O_PATH | OPEN_FOLDER, 0)?;
    }
    Err(io::ErrorKind::InvalidInput.into())
}

/// Creates a folder. Returns false if the name exists.
pub fn make_folder_at(folder: &OwnedFd, name: &CStr, mode: u32) -> io::Result<bool> {
    match fs::mkdirat(folder, name, Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Creates a symbolic link.
pub fn make_link_at(target: &CStr, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    Ok(fs::symlinkat(target, folder, name)?)
}

/// Moves a name from one folder to another. An existing target is replaced.
pub fn rename_at(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr)) -> io::Result<()> {
    Ok(fs::renameat(from.0, from.1, to.0, to.1)?)
}

/// Like [`rename_at`], but fails with `AlreadyExists` if the new name exists.
pub fn rename_new_at(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr)) -> io::Result<()> {
    match fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        // Some network file systems do not support this. Then another process may create the name between this
        // check and the renaming.
        Err(Errno::INVAL) => match status_at(to.0, to.1) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => rename_at(from, to),
        },
        renamed => Ok(renamed?),
    }
}

/// Removes a name, unless it is a folder's.
pub fn remove_at(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    Ok(fs::unlinkat(folder, name, AtFlags::empty())?)
}

/// The properties of `name`; of a symbolic link itself, not its target. An empty name means the descriptor
/// itself.
pub fn status_at(folder: impl AsFd, name: &CStr) -> io::Result<Status> {
    let status = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
    let time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
    Ok(Status {
        inode: (status.st_dev as u64, status.st_ino as u64),
        size: status.st_size as u64,
        modified: time(status.st_mtime as i64, status.st_mtime_nsec as u32),
        changed: time(status.st_ctime as i64, status.st_ctime_nsec as u32),
        kind: FileType::from_raw_mode(status.st_mode),
        mode: status.st_mode as u16,
        owner: status.st_uid,
        names: status.st_nlink as u64,
    })
}

/// Gives what is at the path `path` below a folder to a user and a group; of a symbolic link itself, not its target. `None` leaves
/// the one there is. No link on the way is followed, so the path never leads outside. What has another name may be a file
/// elsewhere, and what is another user's was put there by somebody else: both are refused. What is the user's already stays as it is.
///
/// # Errors
/// If it is refused, and the error of the kernel.
pub fn set_owner_beneath(
    folder: &OwnedFd,
    path: &Path,
    user: Option<u32>,
    group: Option<u32>,
) -> io::Result<()> {
    let file = open_beneath(folder, path, libc::O_PATH)?;
    let status = status_at(&file, c"")?;
    if user == Some(status.owner) && !status.is_ours() {
        return Ok(());
    }
    let is_known_kind = status.is_file() || status.is_folder() || status.is_link();
    if !is_known_kind || !status.is_ours() || (!status.is_folder() && status.names > 1) {
        let why = "it has another name too, or is another user's";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let (user, group) = (user.map(fs::Uid::from_raw), group.map(fs::Gid::from_raw));
    Ok(fs::chownat(file, c"", user, group, AtFlags::EMPTY_PATH)?)
}

/// Writes everything that the file system of a file or folder holds in memory to its disk.
///
/// # Errors
/// The error of the kernel: something may not be on the disk then.
pub fn sync_file_system(at: impl AsFd) -> io::Result<()> {
    Ok(fs::syncfs(at)?)
}

/// Labels a file: sets an extended attribute of it, which stays with the file until it is written anew under its name.
///
/// # Errors
/// If the file system has no such attributes, and the error of the kernel.
pub fn label(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    Ok(fs::fsetxattr(file, name, value, fs::XattrFlags::empty())?)
}

/// Whether a file has a label with this value.
pub fn is_labelled(file: impl AsFd, name: &CStr, value: &[u8]) -> bool {
    let mut there = vec![0; value.len() + 1];
    fs::fgetxattr(file, name, &mut there[..]).is_ok_and(|len| there[..len] == *value)
}

/// Sets a file's permissions.
pub fn set_mode(file: impl AsFd, mode: u16) -> io::Result<()> {
    Ok(fs::fchmod(file, Mode::from_raw_mode(mode.into()))?)
}

/// Sets the time of the last change of `name`; of a symbolic link itself, not its target. An empty name means
/// the descriptor itself.
pub fn set_modified_at(folder: impl AsFd, name: &CStr, time: FileTime) -> io::Result<()> {
    let times = Timestamps {
        last_access: fs::Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        last_modification: fs::Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    };
    match name.is_empty() {
        true => Ok(fs::futimens(folder, &times)?),
        false => Ok(fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?),
    }
}

/// Checks that this process may create files in a folder.
///
/// # Errors
/// If it may not, or the folder is gone.
pub fn check_writable(folder: impl AsFd) -> io::Result<()> {
    Ok(fs::accessat(folder, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())?)
}

/// The number of bytes that this user may still write to the file system of a file or folder. `None` if the
/// file system does not tell (an unlimited tmpfs).
pub fn free_bytes(at: impl AsFd) -> Option<u64> {
    let statistics = fs::fstatvfs(at).ok()?;
    (statistics.f_blocks > 0).then(|| statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

/// Whether the file system of a file or folder has room for another file. Some file systems have no fixed
/// number of files.
pub fn has_free_inode(at: impl AsFd) -> bool {
    fs::fstatvfs(at).map_or(true, |statistics| statistics.f_files == 0 || statistics.f_favail > 0)
}

/// Reserves the space for a range of a file now, if the file system can do so without writing it. (tmpfs would write it.)
///
/// # Errors
/// If there is no space, or the file system does not support this.
pub fn reserve(file: impl AsFd, range: Range<u64>) -> io::Result<()> {
    let is_memory = fs::fstatfs(&file).map(|it| it.f_type == libc::TMPFS_MAGIC);
    if range.is_empty() || is_memory.unwrap_or(true) {
        return Ok(());
    }
    Ok(fs::fallocate(file, FallocateFlags::empty(), range.start, range.end - range.start)?)
}

/// Asks the kernel to read further ahead in a file that is read from start to end.
pub fn read_ahead(file: impl AsFd) {
    // This is only advice, so errors do not matter.
    _ = fs::fadvise(file, 0, None, Advice::Sequential);
}

/// Sends up to `len` bytes of a file, from `offset` on. `offset` grows by the number of bytes sent.
///
/// # Errors
/// The error of the kernel.
pub fn send_file(to: impl AsFd, file: impl AsFd, offset: &mut u64, len: usize) -> io::Result<usize> {
    Ok(fs::sendfile(to, file, Some(offset), len)?)
}

/// The command of fcntl that chooses the signal of a lease (Linux' asm-generic/fcntl.h).
const F_SETSIG: i32 = 10;

/// Whether another descriptor has a file, which is open for reading only, open for writing. `None` if the kernel does
/// not tell: the file is another user's, or is on a file system without leases.
pub fn has_writer(file: &impl AsFd) -> Option<bool> {
    let file = file.as_fd();
    // SAFETY: these commands of fcntl take a number.
    let control =
        |command, number: i32| crate::checked(unsafe { libc::fcntl(file.as_raw_fd(), command, number) });
    // A program that opens the file for writing during the lease has this signal sent here. The usual one, SIGIO,
    // would end the process. This one is ignored.
    control(F_SETSIG, libc::SIGURG).ok()?;
    match control(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(_) => {
            _ = control(libc::F_SETLEASE, libc::F_UNLCK);
            Some(false)
        }
        Err(error) => (error.kind() == io::ErrorKind::WouldBlock).then_some(true),
    }
}

/// Creates a named pipe that only this user may use.
pub fn make_pipe(path: &Path) -> io::Result<()> {
    Ok(fs::mkfifoat(fs::CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// Makes reads and writes of a pipe fail where they would wait.
pub fn never_wait(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fs::fcntl_getfl(pipe)?;
    Ok(fs::fcntl_setfl(pipe, flags | fs::OFlags::NONBLOCK)?)
}

/// The result of an attempt to lock a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Ours,
    /// Another descriptor holds the lock.
    Taken,
    /// The file system does not support locks.
    Unknown,
}

/// Locks a file, if nobody else has locked it. Closing the descriptor unlocks it.
pub fn lock(file: &impl AsFd) -> Lock {
    match fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Ours,
        Err(Errno::WOULDBLOCK) => Lock::Taken,
        Err(_) => Lock::Unknown,
    }
}

/// Locks a folder for this program, as long as the file that is returned stays open. `None` where another program has it.
///
/// # Errors
/// If the folder cannot be opened, or its file system has no locks.
pub fn claim(folder: &Path) -> io::Result<Option<std::fs::File>> {
    let folder = std::fs::File::open(folder)?;
    match lock(&folder) {
        Lock::Ours => Ok(Some(folder)),
        Lock::Taken => Ok(None),
        Lock::Unknown => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Unlocks a file, for all descriptors that share the lock.
pub fn unlock(file: &impl AsFd) {
    // Closing the descriptors would do it, too.
    _ = fs::flock(file, FlockOperation::Unlock);
}

/// Lets programs that this process starts from now on inherit a descriptor, and with it the lock on its file.
///
/// # Errors
/// The error of the kernel.
pub fn let_inherit(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_file_has_a_writer_until_it_is_closed() {
        let path = std::env::temp_dir().join(format!("treecast-writer-{}", std::process::id()));
        let writer = std::fs::File::create(&path).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        assert_eq!(has_writer(&file), Some(true));
        drop(writer);
        assert_eq!(has_writer(&file), Some(false));
        std::fs::remove_file(&path).unwrap();
        let (_reading, writing) = io::pipe().unwrap();
        assert_eq!(has_writer(&writing), None, "a pipe has no leases");
    }

    /// The kernel takes a path of 4,095 bytes at once.
    #[test]
    fn a_path_of_4096_bytes_is_opened_below_a_folder_and_a_name_of_256_is_not() {
        let place = TemporaryFolder::new(&std::env::temp_dir(), "treecast-deep-").unwrap();
        let root = place.root().descriptor();
        let (names, mut folder) = (["n".repeat(255), "x".repeat(256)], root.try_clone().unwrap());
        for _ in 0..15 {
            make_folder_at(&folder, &c_string(&names[0]).unwrap(), 0o700).unwrap();
            folder = open_at(&folder, &c_string(&names[0]).unwrap(), OPEN_FOLDER, 0).unwrap();
        }
        make_folder_at(&folder, c"a", 0o700).unwrap();
        folder = open_at(&folder, c"a", OPEN_FOLDER, 0).unwrap();
        let end = &names[0][..254];
        make_folder_at(&folder, &c_string(end).unwrap(), 0o700).unwrap();
        let path = format!("{}/a/{end}", [names[0].as_str(); 15].join("/"));
        let opened = |path: &str| open_beneath(root, Path::new(path), OPEN_FOLDER).map(drop);
        assert_eq!(path.len(), 4096);
        opened(&path).unwrap();
        assert_eq!(opened(&names[1]).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
    }

    #[test]
    fn nothing_is_opened_through_a_link_or_above_the_folder_with_and_without_openat2() {
        let place = std::env::temp_dir().join(format!("treecast-beneath-{}", std::process::id()));
        std::fs::create_dir_all(place.join("root/a/b")).unwrap();
        std::fs::write(place.join("root/a/b/file"), "x").unwrap();
        std::fs::write(place.join("outside"), "x").unwrap();
        std::os::unix::fs::symlink("..", place.join("root/up")).unwrap();
        std::os::unix::fs::symlink("b", place.join("root/a/inner")).unwrap();
        std::os::unix::fs::symlink("file", place.join("root/a/b/link")).unwrap();
        let root: OwnedFd = std::fs::File::open(place.join("root")).unwrap().into();
        for open in [open_beneath, open_stepwise] {
            let opens = |path: &str| open(&root, Path::new(path), libc::O_RDONLY | libc::O_NOFOLLOW).is_ok();
            assert!(opens("a/b/file") && opens("a"));
            for bad in ["up/outside", "a/inner/file", "a/b/link", "missing", "a/b/file/x"] {
                assert!(!opens(bad), "{bad}");
            }
        }
        for bad in ["..", "../outside", "a/../../outside", "/etc/passwd"] {
            let error = open_beneath(&root, Path::new(bad), libc::O_RDONLY).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
        assert!(open_beneath(&root, Path::new(""), OPEN_FOLDER).is_ok());
        std::fs::remove_dir_all(&place).unwrap();
    }
}
