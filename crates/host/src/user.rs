//! The user of this process, and the user's privileges.

use std::{fs, io};

use rustix::{fs::Mode, process};

/// The number of the effective user.
pub fn effective() -> u32 {
    process::geteuid().as_raw()
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    effective() == 0
}

/// The number of the user with this name in /etc/passwd. `None` if there is none.
pub fn user_id(name: &str) -> Option<u32> {
    id_in("/etc/passwd", name)
}

/// The number of the group with this name in /etc/group. `None` if there is none.
pub fn group_id(name: &str) -> Option<u32> {
    id_in("/etc/group", name)
}

/// The third field of the line that begins with this name (passwd(5), group(5)).
fn id_in(file: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten())
}

/// The umask of this process: permissions that its new files and folders do not get.
pub fn umask() -> u16 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|octal| u16::from_str_radix(octal.trim(), 8).ok()).unwrap_or_else(|| {
        // A file that another thread creates in between has fewer permissions than usual.
        let mask = process::umask(Mode::from_raw_mode(0o077));
        process::umask(mask);
        mask.as_raw_mode() as u16
    })
}

/// Whether this thread has CAP_NET_ADMIN (capabilities(7)). It is checked before other programs are started
/// that need it, because these report its lack in words of their own.
///
/// # Errors
/// If there is no procfs.
pub fn may_administer_networks() -> io::Result<bool> {
    const CAP_NET_ADMIN: u32 = 12;
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    Ok(effective.is_some_and(|capabilities| capabilities & 1 << CAP_NET_ADMIN != 0))
}
