//! The reason of the last failure, for each thread.

use std::{
    cell::RefCell,
    ffi::{CString, c_char},
    fmt::Display,
};

use crate::text::c_string;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why the last function that failed in this thread has failed: one line. Empty if none has. Valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Keeps the reason of a failure.
pub(crate) fn keep(line: &str) {
    LAST.set(c_string(line));
}

/// The value, or `failed` after the reason is kept.
pub(crate) fn or<T, E: Display>(result: Result<T, E>, failed: T) -> T {
    result.unwrap_or_else(|error| {
        keep(&error.to_string());
        failed
    })
}
