//! The typed reasons behind an [`Error`](crate::Error), which [`Error::cause`](crate::Error::cause) gives.
//!
//! A program that has options of its own can name the one that helps. A minor version may add variants
//! and fields, so match with a wildcard arm and `..`, also where a type does not ask for it.

pub use treecast_driver::{
    files::TargetError,
    receive::ReceiveError,
    security::KeyFileError,
    send::{Instead, OptionsError, SendError, SessionFileError, Setting},
    udp::UdpError,
};
pub use treecast_host::interface::InterfaceError;

/// What helps against an error or a warning, and the lines that carry it.
pub use treecast_driver::remedies::{Advised, Remedy};
