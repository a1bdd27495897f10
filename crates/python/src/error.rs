//! The library's error as an exception.

use pyo3::{create_exception, exceptions::PyException, prelude::*};
use treecast::ErrorKind;

create_exception!(_treecast, TreecastError, PyException, "The reason why a call failed: one line.");

/// The exception for an error.
pub fn raise(error: treecast::Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Ticket => "ticket",
        ErrorKind::Options => "options",
        ErrorKind::File => "file",
        ErrorKind::Key => "key",
        ErrorKind::Network => "network",
        ErrorKind::NoReceivers => "no_receivers",
        ErrorKind::Unreachable => "unreachable",
        ErrorKind::NotAdmitted => "not_admitted",
        ErrorKind::Full => "full",
        ErrorKind::Closed => "closed",
        ErrorKind::Stopped => "stopped",
        ErrorKind::Deadlock => "deadlock",
        _ => "system",
    };
    of_kind(kind, error.to_string())
}

/// The exception for an option that cannot be used.
pub fn option(line: String) -> PyErr {
    of_kind("options", line)
}

fn of_kind(kind: &str, line: String) -> PyErr {
    let exception = TreecastError::new_err(line);
    Python::attach(|python| {
        exception.value(python).setattr("kind", kind).map_or_else(|error| error, |()| exception)
    })
}
