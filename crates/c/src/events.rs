//! Events, which C takes one by one.

use std::{ffi::c_int, task::Poll};

use treecast::NextEvent;

use crate::text::timeout;

/// Waits for an event for at most `timeout_ms` milliseconds; a negative number waits until there is one.
///
/// # Errors
/// What a function of C returns where there is none: 0 after the last one, -1 if none has come in this time.
pub(crate) fn await_next<E>(next: NextEvent<'_, E>, timeout_ms: i64) -> Result<E, c_int> {
    let next = match timeout(timeout_ms) {
        Some(time) => next.wait_timeout(time),
        None => Poll::Ready(next.wait()),
    };
    match next {
        Poll::Ready(Some(event)) => Ok(event),
        Poll::Ready(None) => Err(0),
        Poll::Pending => Err(-1),
    }
}
