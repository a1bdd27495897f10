//! The error of this crate.

use std::{fmt, io};

use treecast_driver::{
    receive::ReceiveError,
    remedies::{Advised, Remedy, remedy_of},
    send::SendError,
};

/// The reason why a call failed: one line for a person, and a [kind](ErrorKind) for the program.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    line: String,
    remedy: Option<Remedy>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of thing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The ticket cannot be read, has expired, or is of a kind that this receiver refuses.
    Ticket,
    /// Options do not go together, or have no possible value.
    Options,
    /// A file or folder, or its name, cannot be used.
    File,
    /// A key or a list of keys cannot be used.
    Key,
    /// An interface, address or port cannot be used.
    Network,
    /// Fewer receivers came than the group waits for.
    NoReceivers,
    /// The sender could not be reached.
    Unreachable,
    /// The sender has not admitted this receiver, or is not the one that the ticket names.
    NotAdmitted,
    /// Too many objects have been sent that are not done. Wait for [`Group::room`](crate::Group::room).
    Full,
    /// The session is closed, or its report has been taken.
    Closed,
    /// The session was stopped before anything was sent or received.
    Stopped,
    /// A function that a session calls has waited for this session, which waits for the function.
    Deadlock,
    /// The operating system refused something else.
    System,
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The typed reason behind the line, if there is one: of a type of [`reason`](crate::unstable::reason), or of another one.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }

    /// What helps, where the line does not say so. A program can word it by an option of its own.
    pub fn remedy(&self) -> Option<Remedy> {
        let of_sender = || match self.cause()?.downcast_ref()? {
            SendError::Io(error) => remedy_of(error),
            _ => None,
        };
        let of_receiver = || self.cause()?.downcast_ref::<ReceiveError>()?.remedy();
        self.remedy.or_else(of_sender).or_else(of_receiver)
    }

    pub(crate) fn new(kind: ErrorKind, line: impl Into<Advised>) -> Self {
        let Advised { line, remedy } = line.into();
        Self { kind, line, remedy, source: None }
    }

    pub(crate) fn of(kind: ErrorKind, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind, line: error.to_string(), remedy: None, source: Some(Box::new(error)) }
    }

    pub(crate) fn panicked() -> Self {
        Self::new(ErrorKind::System, "the session's thread has panicked")
    }

    pub(crate) fn taken() -> Self {
        Self::new(ErrorKind::Closed, "the session is over, and its report has been taken")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The line says what the source says, so its own source follows.
        self.source.as_ref().and_then(|source| source.source())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::of(ErrorKind::System, error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// The error of a sender.
pub(crate) fn of_send(error: SendError) -> Error {
    let kind = match &error {
        SendError::Source(_) => ErrorKind::File,
        SendError::Interface(_)
        | SendError::Udp(_)
        | SendError::PortInUse { .. }
        | SendError::Listen { .. }
        | SendError::Send { .. } => ErrorKind::Network,
        SendError::Options(_) | SendError::Contents(_) | SendError::SessionFile(_) => ErrorKind::Options,
        SendError::NoReceivers { .. } | SendError::NotThere { .. } | SendError::NoListener { .. } => {
            ErrorKind::NoReceivers
        }
        SendError::Interrupted => ErrorKind::Stopped,
        SendError::Security(_) => ErrorKind::Key,
        SendError::Listeners(_) | SendError::Announce(_) | SendError::Io(_) => ErrorKind::System,
    };
    Error::of(kind, error)
}

/// The error of a receiver.
pub(crate) fn of_receive(error: ReceiveError) -> Error {
    let kind = match &error {
        ReceiveError::Target(_) => ErrorKind::File,
        ReceiveError::Interface(_)
        | ReceiveError::Udp(_)
        | ReceiveError::Family(_)
        | ReceiveError::PortInUse { .. }
        | ReceiveError::CopiesPortInUse { .. }
        | ReceiveError::NoPort { .. } => ErrorKind::Network,
        ReceiveError::Unreachable { .. } | ReceiveError::Dropped(_) | ReceiveError::OtherVersion(_) => {
            ErrorKind::Unreachable
        }
        ReceiveError::WrongKey { .. }
        | ReceiveError::NotAdmitted(_)
        | ReceiveError::NotMeant(_)
        | ReceiveError::Security { .. } => ErrorKind::NotAdmitted,
        ReceiveError::Plain
        | ReceiveError::SenderKey
        | ReceiveError::NoSecret
        | ReceiveError::NoControl
        | ReceiveError::NoGroups => ErrorKind::Ticket,
        ReceiveError::NotStatic
        | ReceiveError::NoMembers
        | ReceiveError::Groups(_)
        | ReceiveError::Name { .. } => ErrorKind::Options,
        ReceiveError::Key(_) => ErrorKind::Key,
        ReceiveError::Interrupted => ErrorKind::Stopped,
        ReceiveError::Io(_) => ErrorKind::System,
    };
    Error::of(kind, error)
}
