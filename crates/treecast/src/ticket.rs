//! Tickets: what a receiver needs to join a group.

use std::{fmt, path::Path, str::FromStr};

use treecast_driver::{
    receive,
    remedies::{Advised, Remedy},
};
use treecast_wire::ticket;

use crate::{Error, ErrorKind, error::of_receive};

/// The largest file that is read for a ticket, in bytes. No ticket is longer.
const MAX_TICKET_FILE_LEN: u64 = 64 * 1024;

/// What a receiver needs to join a group: the sender's addresses and key, and the group's address.
///
/// A ticket is a line of text ([`Display`](fmt::Display), [`FromStr`]). Whoever has it can join, unless the sender
/// [admits](crate::GroupBuilder::allow) only some keys.
///
/// ```
/// # fn main() -> Result<(), treecast::Error> {
/// let group = treecast::Group::builder().interface("lo").start()?;
/// let line = group.ticket().to_string();
/// let ticket: treecast::Ticket = line.parse()?;
/// assert_eq!(&ticket, group.ticket());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket(pub(crate) ticket::Ticket);

impl Ticket {
    /// Reads a ticket from the first lines of a file, such as `treecast send --ticket-file` writes. The ticket may be broken
    /// into several lines, and other text may follow.
    ///
    /// # Errors
    /// [`ErrorKind::Ticket`] if the file cannot be read, or holds no ticket.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |line: String| Error::new(ErrorKind::Ticket, line);
        let content = treecast_host::text::read_any(path, MAX_TICKET_FILE_LEN);
        let content = content.map_err(|error| {
            let line = format!("cannot read the ticket from {path:?}: {error}");
            Error::new(ErrorKind::Ticket, Advised::by(Remedy::NameTicket, line))
        })?;
        // Editors of other systems begin a text with a byte order mark.
        let content = content.trim_start_matches('\u{feff}');
        let mut lines = content.lines().skip_while(|line| line.trim().is_empty()).peekable();
        if lines.peek().is_none() {
            let line = format!("there is no ticket in {path:?}: see that `treecast send` has written it");
            return Err(failed(line));
        }
        let ticket = ticket::Ticket::from_pieces(lines).map(|(ticket, _)| Self(ticket));
        ticket.map_err(|error| failed(format!("{}: {error}", path.display())))
    }

    /// Removes the incomplete files of this session that receivers have left in a folder. Receivers that run keep theirs.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the folder cannot be used.
    pub fn discard_unfinished(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        receive::discard(&self.0, folder.as_ref()).map_err(of_receive)
    }

    /// Joins pieces of a text, such as words of a command line, until they are a ticket. Returns it with the number of pieces.
    ///
    /// # Errors
    /// [`ErrorKind::Ticket`] if the pieces do not begin with a ticket.
    pub fn from_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Result<(Self, usize), Error> {
        let found = ticket::Ticket::from_pieces(pieces);
        found
            .map(|(ticket, count)| (Self(ticket), count))
            .map_err(|error| Error::of(ErrorKind::Ticket, error))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ticket of [`SendEvent::Ready`](crate::unstable::watch::SendEvent::Ready).
impl From<ticket::Ticket> for Ticket {
    fn from(ticket: ticket::Ticket) -> Self {
        Self(ticket)
    }
}

impl FromStr for Ticket {
    type Err = Error;

    /// Parses a ticket. White space and line breaks in it mean nothing.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(|error: ticket::TicketError| Error::of(ErrorKind::Ticket, error))
    }
}
