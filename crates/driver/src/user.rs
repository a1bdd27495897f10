//! For whom this process acts.

/// The user whose rights it has, by number.
pub(crate) fn effective() -> u32 {
    // SAFETY: it has no preconditions, and always succeeds.
    unsafe { libc::geteuid() }
}
