//! What the file of a session tells.

use std::path::Path;

use treecast_driver::send;

use crate::{Error, ErrorKind, Ticket};

/// A session that can go on, as its [file](crate::GroupBuilder::session) tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeptState {
    /// The session's number in eight hexadecimal digits, as `treecast status` shows it.
    pub number: String,
    /// The session's ticket.
    pub ticket: Ticket,
    /// The names of the session's objects, in the order in which they are sent.
    pub names: Vec<String>,
}

impl KeptState {
    /// Reads a session's file. `None` if it is not there.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if it cannot be read, is no such file, or others than its owner may read it.
    pub fn read(path: impl AsRef<Path>) -> Result<Option<Self>, Error> {
        let kept = send::kept_session(path.as_ref()).map_err(|error| Error::of(ErrorKind::File, error))?;
        Ok(kept.map(|kept| Self {
            number: format!("{:08x}", kept.ticket.session.0),
            ticket: kept.ticket.into(),
            names: kept.names,
        }))
    }
}
