//! Mounts.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::Command,
};

use rustix::{
    mount::{
        self, FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, UnmountFlags,
        mount_bind, mount_change,
    },
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::folder::c_string;

/// Makes later mounts of the calling thread invisible to other threads and processes. If `sees_others`, the
/// thread still sees later mounts and namespaces of others. Safe between `fork` and `exec`.
pub fn own_mounts(sees_others: bool) -> io::Result<()> {
    // SAFETY: only the calling thread gets other mounts; it shares no working directory with others afterwards.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let kind = if sees_others { MountPropagationFlags::DOWNSTREAM } else { MountPropagationFlags::PRIVATE };
    Ok(mount_change("/", kind | MountPropagationFlags::REC)?)
}

/// Has only the program of `command` see `folder` in place of another folder. Namespaces and later mounts are
/// visible to it as to everybody.
pub fn mount_over(folder: &Path, place: &'static str, command: &mut Command) -> io::Result<()> {
    let folder = c_string(folder)?;
    // SAFETY: it makes system calls on strings that are there already, as is needed after a fork.
    unsafe {
        command.pre_exec(move || {
            own_mounts(true)?;
            Ok(mount_bind(folder.as_c_str(), place)?)
        })
    };
    Ok(())
}

/// Mounts a file system in memory with room for this many bytes.
pub fn mount_memory(place: &Path, bytes: u64) -> io::Result<()> {
    let options = CString::new(format!("size={bytes}"))?;
    Ok(mount::mount("tmpfs", place, "tmpfs", MountFlags::empty(), options.as_c_str())?)
}

/// A file system of memory with room for so many bytes, mounted at no folder. It is there as long as the descriptor
/// (fsopen(2), Linux 5.2).
pub fn unattached_memory(bytes: u64) -> io::Result<OwnedFd> {
    let context = mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    mount::fsconfig_set_string(&context, "size", bytes.to_string())?;
    mount::fsconfig_create(&context)?;
    Ok(mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Unmounts a place, as soon as nobody uses it.
pub fn unmount(place: &Path) -> io::Result<()> {
    Ok(mount::unmount(place, UnmountFlags::DETACH)?)
}
