//! For whom this process acts.

/// The user whose rights it has, by number.
pub(crate) fn effective() -> u32 {
    // SAFETY: it has no preconditions, and always succeeds.
    unsafe { libc::geteuid() }
}

/// Permissions that this process' files and folders do not get: its umask.
pub(crate) fn umask() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|octal| u16::from_str_radix(octal.trim(), 8).ok()).unwrap_or_else(|| {
        // SAFETY: both always succeed. A file made by another thread in between has fewer permissions than usual.
        let mask = unsafe { libc::umask(0o077) };
        unsafe { libc::umask(mask) };
        mask as u16
    })
}
