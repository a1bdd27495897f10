//! The user for whom this process acts, and what that user may do.

use std::{fs, io};

use rustix::{fs::Mode, process};

/// The number of the user whose rights this process has.
pub fn effective() -> u32 {
    process::geteuid().as_raw()
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    effective() == 0
}

/// Permissions that this process' files and folders do not get: its umask.
pub fn umask() -> u16 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|octal| u16::from_str_radix(octal.trim(), 8).ok()).unwrap_or_else(|| {
        // A file made by another thread in between has fewer permissions than usual.
        let mask = process::umask(Mode::from_raw_mode(0o077));
        process::umask(mask);
        mask.as_raw_mode() as u16
    })
}

/// Whether this thread has CAP_NET_ADMIN (capabilities(7)). Other programs that need it say that it is lacking in words
/// of their own, so it is asked for before they are started.
///
/// # Errors
/// When there is no procfs.
pub fn may_administer_networks() -> io::Result<bool> {
    const CAP_NET_ADMIN: u32 = 12;
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    Ok(effective.is_some_and(|capabilities| capabilities & 1 << CAP_NET_ADMIN != 0))
}
