//! Network namespaces by name, as `ip netns` manages them. Each is mounted on a file in `/run/netns`, so it
//! exists without a process.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::FlockOperation,
    mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount},
    process::{Signal, set_parent_process_death_signal},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

const DIRECTORY: &str = "/run/netns";

/// An open namespace. It exists at least as long as this value.
pub struct Namespace(OwnedFd);

impl Namespace {
    /// Moves the calling thread into a new namespace, and gives the namespace a [reserved](reserve) name.
    pub fn create(name: &str) -> io::Result<Self> {
        Self::enter_new()?;
        let this = Self::of_thread()?;
        mount_bind("/proc/thread-self/ns/net", path(name))?;
        Ok(this)
    }

    /// Moves the calling thread into a new namespace, which ends with the thread.
    pub fn enter_new() -> io::Result<()> {
        // SAFETY: only the calling thread changes its network; descriptors that are open stay where they are.
        Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
    }

    /// The namespace of the calling thread.
    pub fn of_thread() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// The namespace called `name`.
    pub fn open(name: &str) -> io::Result<Self> {
        Self::of_file(&path(name))
    }

    /// The namespace of a file: one of /run/netns, or /proc/PID/ns/net.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self(File::open(path)?.into()))
    }

    /// Moves the calling thread into this namespace. Safe between `fork` and `exec`.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// Makes `command` start inside a namespace.
pub fn place(namespace: Namespace, command: &mut Command) {
    // SAFETY: `enter` makes one system call and allocates nothing, as is needed after a fork.
    unsafe { command.pre_exec(move || namespace.enter()) };
}

/// Replaces this process by the program of `command`, inside the namespace called `name`. The program ends with
/// the thread of the process `parent` that has started this process. Returns only on failure.
pub fn become_inside(name: &str, parent: u32, mut command: Command) -> io::Error {
    let enter = || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
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

/// The path of the namespace called `name`.
pub fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Creates the files on which namespaces are mounted. They are one file with many names, because creating and
/// removing a thousand files takes a second on a disk.
///
/// # Errors
/// `AlreadyExists` if a name is taken. The namespace with that name is not touched, and no name is reserved
/// then.
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
        // Not every file system has hard links, their number is limited, and the first name has nothing to link
        // to.
        Err(_) => OpenOptions::new().write(true).create_new(true).mode(0o444).open(path(name)).map(drop),
    }
}

/// Whether a name is taken.
pub fn exists(name: &str) -> bool {
    path(name).symlink_metadata().is_ok()
}

/// Makes `/run/netns` a shared mount of its own, as `ip netns add` does. When a namespace is unmounted, it then
/// also disappears from the copies that `ip netns exec` made.
pub fn prepare_directory() -> io::Result<()> {
    let directory = Path::new(DIRECTORY);
    fs::create_dir_all(directory)?;
    let lock = File::open(directory)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let share = || mount_change(directory, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
    if share().is_ok() {
        return Ok(());
    }
    mount_bind_recursive(directory, directory)?;
    Ok(share()?)
}

/// Removes the name. The kernel ends the namespace when nothing else holds it. A missing name is no error, so
/// this also removes what a killed process left incomplete.
pub fn remove(name: &str) -> io::Result<()> {
    let path = path(name);
    // It is unmounted once for each mount: a plain bind mount of the directory shows every mount twice.
    while unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {}
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
