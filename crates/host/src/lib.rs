//! What this machine's kernel offers: netlink, nftables, sockets and control messages, packet sockets, waiting,
//! namespaces, processes, signals.
//!
//! This crate knows no protocol of treecast and decides nothing. It contains nearly all `unsafe` code of
//! treecast, each piece inside a function that is safe to call. It uses the safe wrappers of `rustix` and
//! `socket2` for system calls. Calls that these crates lack are written by hand.

pub mod classic_bpf;
pub mod clock;
pub mod congestion;
pub mod control;
pub mod device;
pub mod ethtool;
pub mod file_limit;
pub mod folder;

pub mod hidden_file;
pub mod interface;
pub mod memory;
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
pub mod quantity;
pub mod raw;
pub mod root;
pub mod service_manager;
pub mod signals;

pub mod stop;
pub mod stream;
pub mod tcp_info;
pub mod tcx;
pub mod temporary;
pub mod terminal;
pub mod text;
pub mod thread;
pub mod tun;
pub mod turns;
pub mod unix;
pub mod user;
pub mod wake;
pub mod watch;

use std::io;

/// Converts the result of a system call that returns a negative number on failure.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Converts the result of a system call that returns a length, or a negative number on failure.
fn checked_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
