//! eBPF programs at the ingress of an interface, before all filters of `tc` (tcx, since Linux 6.6).
//!
//! They cost plain traffic about half of what a filter of clsact costs, whatever the program does. A program
//! that is attached directly, and not by a link, stays when the process that attached it has ended. All
//! functions are about interfaces of the calling thread's network namespace.

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Commands of `enum bpf_cmd` (linux/bpf.h).
const PROGRAM_ATTACH: i32 = 8;
const PROGRAM_DETACH: i32 = 9;

/// A member of `enum bpf_attach_type`.
const TCX_INGRESS: u32 = 46;

const REPLACE: u32 = 1 << 2;
const BEFORE: u32 = 1 << 3;

/// The place of a program among the others of an interface.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    First,
    Last,
    /// The place of this other program, which is replaced. No packet passes between the two.
    InsteadOf(BorrowedFd<'a>),
}

/// Attaches a program that sees packets that come in by an interface. Nothing changes if it is attached
/// already. Returns whether this kernel supports that.
///
/// # Errors
/// If the interface is gone, or this user may not.
pub fn attach(program: BorrowedFd<'_>, interface: u32, place: Place<'_>) -> io::Result<bool> {
    let (flags, replaced) = match place {
        Place::First => (BEFORE, 0),
        Place::Last => (0, 0),
        Place::InsteadOf(other) => (REPLACE, other.as_raw_fd() as u32),
    };
    match bpf(PROGRAM_ATTACH, &attributes(program, interface, flags, replaced)) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EEXIST) => Ok(true),
            Some(libc::EINVAL) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Detaches a program from an interface.
///
/// # Errors
/// If it was not attached, or the interface is gone.
pub fn detach(program: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    bpf(PROGRAM_DETACH, &attributes(program, interface, 0, 0))
}

/// The part of `union bpf_attr` for both commands. No other program or revision is demanded.
fn attributes(program: BorrowedFd<'_>, interface: u32, flags: u32, replaced: u32) -> [u32; 8] {
    [interface, program.as_raw_fd() as u32, TCX_INGRESS, flags, replaced, 0, 0, 0]
}

/// Carries out a command of the bpf system call whose attributes contain no addresses, and that has no answer.
fn bpf(command: libc::c_int, attributes: &[u32; 8]) -> io::Result<()> {
    let len = mem::size_of_val(attributes);
    // SAFETY: the pointer and the length are those of live bytes, which the kernel copies.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), len) };
    crate::checked(result as libc::c_int).map(drop)
}
