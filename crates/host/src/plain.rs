//! Structures of the kernel as bytes.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
    ptr, slice,
};

use crate::option;

/// A structure of the kernel that consists of plain bytes.
///
/// # Safety
/// Every bit pattern must be a value of the type. The type must have no padding and no references.
pub unsafe trait Plain: Copy {}

/// Sets a socket option to a structure.
pub fn set_option<T: Plain>(socket: &impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: so many bytes of it live as long as `value`, and are initialised, as there is no padding.
    let bytes = unsafe { slice::from_raw_parts(ptr::from_ref(value).cast::<u8>(), mem::size_of::<T>()) };
    option::set_bytes(socket, level, name, bytes)
}

/// Carries out an ioctl that reads and writes a structure.
///
/// # Safety
/// The request must read and write exactly a `T`.
pub unsafe fn ioctl<T: Plain>(fd: &impl AsFd, request: libc::c_ulong, value: &mut T) -> io::Result<()> {
    // SAFETY: the value is live and plain bytes; the caller vouches that the kernel takes it for what it is.
    crate::checked(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, ptr::from_mut(value)) })
        .map(drop)
}
