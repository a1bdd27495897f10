//! What the threads of a standing receiver report.

use std::path::PathBuf;

use treecast_proto::{announced::SessionKey, standing::Ending};
use treecast_wire::announcement::ForStanding;

use super::{command_end::CommandEnd, history::Entry};

/// What a thread has to say.
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
    /// What a person should know of it.
    pub text: Option<String>,
}

/// The end of a command.
#[derive(Debug)]
pub(super) struct CommandEnded {
    /// What the history keeps of it.
    pub entry: Entry,
    pub end: CommandEnd,
    /// The folder in which the next command may run now.
    pub folder: PathBuf,
}
