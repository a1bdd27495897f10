//! The pointers that C has: each is checked before it is used.

use std::{
    collections::HashMap,
    process, ptr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use crate::failure::Failure;

/// The objects of one kind that C has pointers to. A pointer that is NULL, was freed, or comes from the process that has forked this
/// one is refused.
pub(crate) struct Handles<T> {
    table: AtomicPtr<Table<T>>,
    /// What C calls such an object, for messages.
    what: &'static str,
}

/// The objects of one process.
///
/// A child that was forked gets a table of its own. The sessions of the other one do not run there, and a thread that did not come
/// along may hold its lock.
struct Table<T> {
    process: u32,
    live: RwLock<HashMap<usize, Arc<T>>>,
}

impl<T> Handles<T> {
    /// No objects yet.
    pub const fn new(what: &'static str) -> Self {
        Self { table: AtomicPtr::new(ptr::null_mut()), what }
    }

    /// Keeps an object, and returns the pointer to it for C.
    pub fn add(&self, object: T) -> *mut T {
        let object = Arc::new(object);
        let pointer = Arc::as_ptr(&object).cast_mut();
        let mut live = self.table().live.write().unwrap_or_else(PoisonError::into_inner);
        live.insert(pointer as usize, object);
        pointer
    }

    /// The object that C has a pointer to.
    ///
    /// # Errors
    /// If the pointer is none of a live object.
    pub fn get(&self, pointer: *const T) -> Result<Arc<T>, Failure> {
        let live = self.table().live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&(pointer as usize)).cloned().ok_or_else(|| self.refused(pointer))
    }

    /// Takes the object away, so that C's pointer to it is of no use any more. `None` for NULL.
    ///
    /// # Errors
    /// Those of [`Handles::get`].
    pub fn take(&self, pointer: *const T) -> Result<Option<Arc<T>>, Failure> {
        if pointer.is_null() {
            return Ok(None);
        }
        let mut live = self.table().live.write().unwrap_or_else(PoisonError::into_inner);
        live.remove(&(pointer as usize)).map(Some).ok_or_else(|| self.refused(pointer))
    }

    fn refused(&self, pointer: *const T) -> Failure {
        let what = self.what;
        match pointer.is_null() {
            true => format!("the {what} is NULL: see why its start has failed").into(),
            false => format!(
                "the pointer is no {what} of this process: it was freed, or belongs to the process that has forked this one"
            )
            .into(),
        }
    }

    /// The table of this process.
    fn table(&self) -> &Table<T> {
        let mut current = self.table.load(Ordering::Acquire);
        loop {
            // SAFETY: it is null, or a table, which is never freed.
            if let Some(table) = unsafe { current.as_ref() }
                && table.process == process::id()
            {
                return table;
            }
            let made = Box::into_raw(Box::new(Table { process: process::id(), live: RwLock::default() }));
            match self.table.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it was made above, and is never freed from here on.
                Ok(_) => return unsafe { &*made },
                Err(other) => {
                    // SAFETY: it was made above, and nobody else has it.
                    drop(unsafe { Box::from_raw(made) });
                    current = other;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_pointers_are_used() {
        let handles = Handles::new("number");
        let seven = handles.add(7);
        assert_eq!(*handles.get(seven).unwrap(), 7);
        assert!(handles.get(ptr::null()).unwrap_err().0.contains("NULL"));
        assert!(handles.get(ptr::from_ref(&7)).unwrap_err().0.contains("no number of this process"));
        assert_eq!(handles.take(seven).unwrap().as_deref(), Some(&7));
        assert!(handles.get(seven).is_err() && handles.take(seven).is_err());
        assert_eq!(handles.take(ptr::null()).unwrap(), None);
    }
}
