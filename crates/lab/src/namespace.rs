//! Network namespaces by name, as `ip netns` keeps them: a file in `/run/netns` on which the
//! namespace is mounted, so that it lives without a process.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: &str = "/run/netns";

/// An open namespace: it lives at least as long as this.
pub struct Namespace(OwnedFd);

impl Namespace {
    /// Moves the calling thread into a new namespace and gives that a [reserved](reserve) name.
    pub fn create(name: &str) -> io::Result<Self> {
        Self::enter_new()?;
        let this = Self::of_thread()?;
        mount(Path::new("/proc/thread-self/ns/net"), &path(name), libc::MS_BIND)?;
        Ok(this)
    }

    /// Moves the calling thread into a new namespace, which ends with it.
    pub fn enter_new() -> io::Result<()> {
        // SAFETY: takes no pointers; only the calling thread changes its namespace.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
    }

    /// The namespace of the calling thread.
    pub fn of_thread() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// The namespace called `name`.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self(File::open(path(name))?.into()))
    }

    /// Moves the calling thread into this namespace. Safe between `fork` and `exec`.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and only the calling thread changes its namespace.
        check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) })
    }
}

/// Has `command` start inside a namespace.
pub fn place(namespace: Namespace, command: &mut Command) {
    // SAFETY: `enter` makes one system call and allocates nothing, as is needed after a fork.
    unsafe { command.pre_exec(move || namespace.enter()) };
}

/// Becomes the program of `command` inside the namespace called `name`, and ends with the thread of the process `parent` that
/// has started this one. Returns only when that fails.
pub fn become_inside(name: &str, parent: u32, mut command: Command) -> io::Error {
    let enter = || -> io::Result<()> {
        // SAFETY: takes no pointers.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        if std::os::unix::process::parent_id() != parent {
            return Err(io::Error::other("whoever started it has ended"));
        }
        Namespace::open(name)?.enter()
    };
    enter().err().unwrap_or_else(|| command.exec())
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where the namespace called `name` is to be found.
pub fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Makes the files on which namespaces are mounted: one file with many names, because on a disk a
/// thousand files take a second to make and to remove.
///
/// # Errors
/// When a name is taken, `AlreadyExists`; the namespace that has it is left alone, and no name is
/// reserved then.
pub fn reserve(names: &[&str]) -> io::Result<()> {
    for (index, name) in names.iter().enumerate() {
        if let Err(error) = reserve_one(name, names[0]) {
            names[..index].iter().try_for_each(|name| remove(name))?;
            return Err(error);
        }
    }
    Ok(())
}

fn reserve_one(name: &str, first: &str) -> io::Result<()> {
    match fs::hard_link(path(first), path(name)) {
        Ok(()) => Ok(()),
        // Not every file system has hard links, none has them without limit, and the first name is new.
        Err(_) => OpenOptions::new().write(true).create_new(true).mode(0o444).open(path(name)).map(drop),
    }
}

/// Whether that name is taken.
pub fn exists(name: &str) -> bool {
    path(name).symlink_metadata().is_ok()
}

/// Makes `/run/netns` a shared mount of its own, exactly as `ip netns add` does: a namespace that is
/// unmounted then goes from the copies that `ip netns exec` made, too.
pub fn prepare_directory() -> io::Result<()> {
    let directory = Path::new(DIRECTORY);
    fs::create_dir_all(directory)?;
    let lock = File::open(directory)?;
    flock(&lock, libc::LOCK_EX)?;
    let share = || mount(Path::new(""), directory, libc::MS_SHARED | libc::MS_REC);
    if share().is_ok() {
        return Ok(());
    }
    mount(directory, directory, libc::MS_BIND | libc::MS_REC)?;
    share()
}

/// Takes the name away; the kernel ends the namespace when nothing else holds it. That there is none
/// is no error: this is also how what a killed process left half-made is removed.
pub fn remove(name: &str) -> io::Result<()> {
    let path = path(name);
    let target = c_path(&path)?;
    // Once for each time it is mounted: a plain bind of the directory shows every mount twice.
    // SAFETY: the string ends in a zero byte and outlives the call.
    while unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } == 0 {}
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Locks a file against other processes until it is closed; `operation` as in flock(2).
pub fn flock(file: &File, operation: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::flock(file.as_raw_fd(), operation) })
}

/// Writes a kernel setting of the calling thread's namespace.
pub fn write_setting(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    let written = OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("set {path} to {value}: {error}")))
}

fn mount(source: &Path, target: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let (source, target) = (c_path(source)?, c_path(target)?);
    // SAFETY: both strings end in a zero byte and outlive the call; type and data may be null.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), std::ptr::null(), flags, std::ptr::null()) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
