//! The reports of the threads of a standing receiver.

use std::path::PathBuf;

use treecast_proto::{announced::SessionKey, standing::Ending};
use treecast_wire::announcement::ForStanding;

use super::{command_end::CommandEnd, history::Entry};

/// A report of a thread.
#[derive(Debug)]
pub(super) enum Report {
    /// The sender of a session has admitted this receiver.
    Admitted(SessionKey),
    /// A session has ended.
    Ended(Ended),
    /// A rule's command has ended.
    Command(Box<CommandEnded>),
    /// The sender of a session, which is for this audience, was told how its command went, or could not be reached.
    Told { session: SessionKey, audience: ForStanding, is_told: bool },
}

/// The end of a session.
#[derive(Debug)]
pub(super) struct Ended {
    pub session: SessionKey,
    pub ending: Ending,
    pub files: u64,
    pub bytes: u64,
    /// The text that a person should read about it.
    pub text: Option<String>,
}

/// The end of a command.
#[derive(Debug)]
pub(super) struct CommandEnded {
    /// The entry for the history.
    pub entry: Entry,
    pub end: CommandEnd,
    /// The folder in which the next command may run now.
    pub folder: PathBuf,
}
