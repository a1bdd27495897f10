//! What the threads of a standing receiver report.

use treecast_proto::{announced::SessionKey, standing::Ending};

use super::history::Entry;

/// What a thread has to say.
#[derive(Debug)]
pub(super) enum Report {
    /// A session has ended.
    Ended(Ended),
    /// A rule's program has ended.
    Command(Entry),
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
