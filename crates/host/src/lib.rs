//! What this machine's kernel offers: netlink, sockets and control messages, packet sockets, waiting, namespaces,
//! processes, signals.
//!
//! This crate knows no protocol of treecast and decides nothing. It has nearly all `unsafe` code of treecast, each piece
//! behind a function that is safe to call. Where the crate `rustix` has a safe wrapper for a system call, that is used;
//! what is here by hand, `rustix` and `socket2` lack.

pub mod classic_bpf;
pub mod clock;
pub mod control;
pub mod file_limit;
pub mod folder;

pub mod interface;
pub mod messages;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod nftables;
pub mod offload;
pub mod option;
pub mod packet;
pub mod plain;
pub mod poller;
pub mod process;
pub mod signals;

pub mod stop;
pub mod tcp_info;
pub mod tcx;
pub mod tun;
pub mod turns;
pub mod unix;
pub mod user;
pub mod wake;

use std::io;

/// The result of a system call that returns a negative number when it fails.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The result of a system call that returns a length, or a negative number when it fails.
fn checked_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
