//! Mounts.

use std::{ffi::CString, io, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::{
    mount::{self, MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::folder::c_string;

/// Has what the calling thread mounts from now on stay its own. Namespaces and mounts that others make later are seen
/// when `sees_others`. Safe between `fork` and `exec`.
pub fn own_mounts(sees_others: bool) -> io::Result<()> {
    // SAFETY: only the calling thread gets other mounts; it shares no working directory with others afterwards.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let kind = if sees_others { MountPropagationFlags::DOWNSTREAM } else { MountPropagationFlags::PRIVATE };
    Ok(mount_change("/", kind | MountPropagationFlags::REC)?)
}

/// Has the program of `command` alone see `folder` in the place of another. Namespaces and what is mounted later are as
/// everybody sees them.
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

/// Mounts a file system of memory, with room for so many bytes.
pub fn mount_memory(place: &Path, bytes: u64) -> io::Result<()> {
    let options = CString::new(format!("size={bytes}"))?;
    Ok(mount::mount("tmpfs", place, "tmpfs", MountFlags::empty(), options.as_c_str())?)
}

/// Takes away what is mounted at a place, as soon as nobody uses it.
pub fn unmount(place: &Path) -> io::Result<()> {
    Ok(mount::unmount(place, UnmountFlags::DETACH)?)
}
