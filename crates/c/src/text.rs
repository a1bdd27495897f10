//! Strings of C.

use std::{
    ffi::{CStr, CString, c_char},
    time::Duration,
};

/// The text at `start`. `None` for NULL; bytes that are not UTF-8 become replacement characters.
///
/// # Safety
/// `start` is NULL, or points to a string that ends with a zero.
pub(crate) unsafe fn text(start: *const c_char) -> Option<String> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller promises a string.
    Some(unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
}

/// The texts of an array that ends with NULL. None for NULL.
///
/// # Safety
/// `start` is NULL, or points to an array of strings that end with a zero. NULL ends the array.
pub(crate) unsafe fn texts(start: *const *const c_char) -> Vec<String> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises strings up to the first NULL, and nothing behind it is read.
    (0..).map_while(|at| unsafe { text(*start.add(at)) }).collect()
}

/// The text for C, without zeros in it.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// The time for which a function waits. `None` for a negative number: without an end.
pub(crate) fn timeout(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The texts of the last event, which C has pointers to.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<CString>);

impl Texts {
    /// Forgets the texts of the event before.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps a text, and returns where it is.
    pub fn keep(&mut self, text: &str) -> *const c_char {
        let text = c_string(text);
        let start = text.as_ptr();
        self.0.push(text);
        start
    }
}
