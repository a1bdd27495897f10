//! Strings of C.

use std::{
    ffi::{CStr, CString, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::failure::Failure;

/// The text at `start`. `None` for NULL.
///
/// # Errors
/// If the bytes are not UTF-8.
///
/// # Safety
/// `start` is NULL, or points to a string that ends with a zero.
pub(crate) unsafe fn text(start: *const c_char) -> Result<Option<String>, Failure> {
    // SAFETY: the caller promises a string.
    let bytes = unsafe { path(start) }.map(|path| path.into_os_string().into_string());
    bytes.transpose().map_err(|bytes| format!("{} is not UTF-8", bytes.display()).into())
}

/// The path at `start`, whatever its bytes are. `None` for NULL.
///
/// # Safety
/// `start` is NULL, or points to a string that ends with a zero.
pub(crate) unsafe fn path(start: *const c_char) -> Option<PathBuf> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller promises a string.
    let bytes = unsafe { CStr::from_ptr(start) }.to_bytes();
    Some(OsStr::from_bytes(bytes).into())
}

/// The paths of an array that ends with NULL. None for NULL.
///
/// # Safety
/// `start` is NULL, or points to an array of strings that end with a zero. NULL ends the array.
pub(crate) unsafe fn paths(start: *const *const c_char) -> Vec<PathBuf> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises strings up to the first NULL, and nothing behind it is read.
    (0..).map_while(|at| unsafe { path(*start.add(at)) }).collect()
}

/// The texts of an array that ends with NULL. None for NULL.
///
/// # Errors
/// If the bytes of one are not UTF-8.
///
/// # Safety
/// `start` is NULL, or points to an array of strings that end with a zero. NULL ends the array.
pub(crate) unsafe fn texts(start: *const *const c_char) -> Result<Vec<String>, Failure> {
    if start.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller promises strings up to the first NULL, and nothing behind it is read.
    (0..).map_while(|at| unsafe { text(*start.add(at)) }.transpose()).collect()
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
        self.keep_string(c_string(text))
    }

    /// Keeps a text, and returns where it is. NULL if there is none.
    pub fn keep_some(&mut self, text: Option<&str>) -> *const c_char {
        text.map_or(std::ptr::null(), |text| self.keep(text))
    }

    /// Keeps a path as its bytes are, and returns where it is.
    pub fn keep_path(&mut self, path: &Path) -> *const c_char {
        // A path that the system has opened has no zeros.
        self.keep_string(CString::new(path.as_os_str().as_bytes()).unwrap_or_default())
    }

    fn keep_string(&mut self, text: CString) -> *const c_char {
        let start = text.as_ptr();
        self.0.push(text);
        start
    }
}
