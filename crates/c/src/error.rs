//! The reason of the last failure, for each thread, and the border that no panic crosses.

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{failure::Failure, text::c_string};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What functions return that have a number for each outcome, if their arguments cannot be used.
pub(crate) const BAD_ARGUMENT: c_int = -2;

/// Why the last function that failed in this thread has failed: one line. Empty if none has. Valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Keeps the reason of a failure.
pub(crate) fn keep(line: &str) {
    LAST.set(c_string(line));
}

/// Runs what a function of C does. Returns its value, or `failed` after the reason is kept. A panic does not reach C.
pub(crate) fn guard<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(Failure(line))) => {
            keep(&line);
            failed
        }
        Err(panic) => {
            // Dropping it might panic again.
            std::mem::forget(panic);
            keep(
                "the library has failed by an error of its own: please report what standard error says of it",
            );
            failed
        }
    }
}

/// Runs what a function of C does that returns 0, or -1 after the reason is kept.
pub(crate) fn done(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    guard(-1, || body().map(|()| 0))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> String {
        // SAFETY: the text ends with a zero, and this thread has no other failure meanwhile.
        unsafe { CStr::from_ptr(treecast_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guard(7, || Ok(1)), 1);
        assert_eq!(done(|| Err("a reason".into())), -1);
        assert_eq!(last(), "a reason");
        assert_eq!(guard(-1, || panic!("this line is expected")), -1);
        assert!(last().contains("an error of its own"));
    }
}
