//! The kernel's calls on names in an open folder, none of which follows a symbolic link.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

use treecast_wire::message::ModificationTime;

use crate::user;

/// A file's place in its file system: two names of one file have the same.
pub(super) type Inode = (u64, u64);

/// How a folder is opened on the way to something in it.
pub(super) const OPEN_FOLDER: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// What is at a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    pub inode: Inode,
    pub size: u64,
    pub modified: ModificationTime,
    /// When anything of it was changed last, its time of modification included. Nobody can set this one.
    pub changed: ModificationTime,
    kind: libc::mode_t,
    mode: u16,
    owner: u32,
    names: u64,
}

impl Status {
    pub fn is_file(&self) -> bool {
        self.kind == libc::S_IFREG
    }

    /// Whether it is this user's.
    pub fn is_ours(&self) -> bool {
        self.owner == user::effective()
    }

    /// Whether it is a file of this user's with one name, with which nobody may do what one of the bits `forbidden`
    /// says. Anything else under a name of ours somebody else may have put there: a FIFO, or another file's second name.
    pub fn is_own_file(&self, forbidden: u16) -> bool {
        self.is_file() && self.is_ours() && self.names == 1 && self.mode & forbidden == 0
    }

    pub fn is_link(&self) -> bool {
        self.kind == libc::S_IFLNK
    }

    pub fn is_folder(&self) -> bool {
        self.kind == libc::S_IFDIR
    }
}

/// `name` for the kernel; an error when it holds a zero byte.
pub(super) fn c_string(name: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(name.as_ref().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Opens `name`, one component, in a folder.
pub(super) fn open_at(folder: &OwnedFd, name: &CStr, flags: i32, mode: libc::mode_t) -> io::Result<OwnedFd> {
    // SAFETY: a C string and an open folder; a result that is not negative is a new descriptor of ours.
    unsafe {
        match libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, mode) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Makes a file without a name, to be written and given one with [`give_name`].
pub(super) fn open_unnamed(folder: &OwnedFd, mode: libc::mode_t) -> io::Result<OwnedFd> {
    open_at(folder, c".", libc::O_RDWR | libc::O_TMPFILE | libc::O_CLOEXEC, mode)
}

/// Gives a file without a name one that nothing has.
pub(super) fn give_name(file: impl AsFd, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    let (file, folder) = (file.as_fd().as_raw_fd(), folder.as_raw_fd());
    // SAFETY: two C strings, an open file and an open folder.
    let given =
        checked(unsafe { libc::linkat(file, c"".as_ptr(), folder, name.as_ptr(), libc::AT_EMPTY_PATH) });
    match given {
        // Kernels before 6.10 let only the privileged do so by descriptor.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
        given => return given,
    }
    let path = c_string(format!("/proc/self/fd/{file}"))?;
    // SAFETY: two C strings and an open folder.
    checked(unsafe {
        libc::linkat(libc::AT_FDCWD, path.as_ptr(), folder, name.as_ptr(), libc::AT_SYMLINK_FOLLOW)
    })
}

/// Opens the folder at `path` below another one in one step that no rename can lead out of it; an error of the kind
/// `Unsupported` where the kernel is older than 5.6 or a sandbox forbids it.
pub(super) fn open_folder_beneath(folder: &OwnedFd, path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: open_how is plain data; a C string and an open folder; a result that is not negative is a new
    // descriptor of ours.
    let result = unsafe {
        let mut how: libc::open_how = std::mem::zeroed();
        how.flags = OPEN_FOLDER as u64;
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
        let fd = libc::syscall(
            libc::SYS_openat2,
            folder.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        );
        if fd >= 0 { Ok(OwnedFd::from_raw_fd(fd as i32)) } else { Err(io::Error::last_os_error()) }
    };
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM | libc::EAGAIN | libc::EINVAL) => io::ErrorKind::Unsupported.into(),
        _ => error,
    })
}

/// Makes a folder; returns false when there is something of that name.
pub(super) fn make_folder_at(folder: &OwnedFd, name: &CStr, mode: libc::mode_t) -> io::Result<bool> {
    // SAFETY: a C string and an open folder.
    let result = checked(unsafe { libc::mkdirat(folder.as_raw_fd(), name.as_ptr(), mode) });
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn make_link_at(target: &CStr, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    // SAFETY: two C strings and an open folder.
    checked(unsafe { libc::symlinkat(target.as_ptr(), folder.as_raw_fd(), name.as_ptr()) })
}

pub(super) fn rename_at(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr)) -> io::Result<()> {
    let ((from, name), (into, new)) = (from, to);
    // SAFETY: two C strings and two open folders.
    checked(unsafe { libc::renameat(from.as_raw_fd(), name.as_ptr(), into.as_raw_fd(), new.as_ptr()) })
}

/// As [`rename_at`], where nothing has the new name: `AlreadyExists` otherwise.
pub(super) fn rename_new_at(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr)) -> io::Result<()> {
    let ((from_folder, name), (into, new)) = (from, to);
    // SAFETY: two C strings and two open folders.
    let renamed = checked(unsafe {
        let (from, into) = (from_folder.as_raw_fd(), into.as_raw_fd());
        libc::renameat2(from, name.as_ptr(), into, new.as_ptr(), libc::RENAME_NOREPLACE)
    });
    match renamed {
        // Some network file systems cannot. Between this look and the renaming something may come there.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => match status_at(into, new) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => rename_at(from, to),
        },
        renamed => renamed,
    }
}

pub(super) fn remove_at(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    // SAFETY: a C string and an open folder.
    checked(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) })
}

/// What `name` is, a symbolic link itself included; an empty name is the descriptor's own.
pub(super) fn status_at(folder: impl AsFd, name: &CStr) -> io::Result<Status> {
    // SAFETY: stat is plain data that fstatat fills; a C string and an open descriptor.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        checked(libc::fstatat(folder.as_fd().as_raw_fd(), name.as_ptr(), &mut status, flags))?;
        status
    };
    Ok(Status {
        inode: (status.st_dev as u64, status.st_ino as u64),
        size: status.st_size as u64,
        modified: ModificationTime {
            seconds: status.st_mtime as i64,
            nanoseconds: status.st_mtime_nsec as u32,
        },
        changed: ModificationTime {
            seconds: status.st_ctime as i64,
            nanoseconds: status.st_ctime_nsec as u32,
        },
        kind: status.st_mode & libc::S_IFMT,
        mode: status.st_mode as u16,
        owner: status.st_uid,
        names: status.st_nlink as u64,
    })
}

pub(super) fn set_mode(file: impl AsFd, mode: u16) -> io::Result<()> {
    // SAFETY: an open descriptor.
    checked(unsafe { libc::fchmod(file.as_fd().as_raw_fd(), mode.into()) })
}

/// Sets when `name`, a symbolic link itself included, was changed; an empty name is the descriptor's own.
pub(super) fn set_modified_at(folder: impl AsFd, name: &CStr, time: ModificationTime) -> io::Result<()> {
    let times = [
        libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        libc::timespec { tv_sec: time.seconds as libc::time_t, tv_nsec: time.nanoseconds as _ },
    ];
    let folder = folder.as_fd().as_raw_fd();
    // SAFETY: two times, a C string or none, and an open descriptor.
    checked(unsafe {
        match name.is_empty() {
            true => libc::futimens(folder, times.as_ptr()),
            false => libc::utimensat(folder, name.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW),
        }
    })
}

/// How an attempt to lock a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    Ours,
    /// Somebody else has it.
    Taken,
    /// The file system knows no locks.
    Unknown,
}

/// Locks a file if nobody else has; the lock goes with the descriptor.
pub(super) fn lock(file: &OwnedFd) -> Lock {
    // SAFETY: an open descriptor.
    match checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(()) => Lock::Ours,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Lock::Taken,
        Err(_) => Lock::Unknown,
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
