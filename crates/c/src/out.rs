//! Where C wants a result.

use crate::failure::Failure;

/// A place of C's that is not NULL.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place of the argument with this name.
    ///
    /// # Errors
    /// If it is NULL.
    pub fn new(place: *mut T, name: &str) -> Result<Self, Failure> {
        match place.is_null() {
            true => Err(format!("`{name}` is NULL: the result needs a place").into()),
            false => Ok(Self(place)),
        }
    }

    /// Writes the result.
    ///
    /// # Safety
    /// The place may be written.
    pub unsafe fn write(self, value: T) {
        // SAFETY: the caller promises it.
        unsafe { self.0.write(value) };
    }

    /// Writes the result, unless the place is NULL.
    ///
    /// # Safety
    /// The place is NULL, or may be written.
    pub unsafe fn or_none(place: *mut T, value: T) {
        if !place.is_null() {
            // SAFETY: the caller promises it.
            unsafe { place.write(value) };
        }
    }
}
