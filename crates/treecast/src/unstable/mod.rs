//! What the command needs beyond the crate's own types, in the types of the crates below.
//!
//! **These names are not stable.** They are types of the driver, the packets and the host, and change as those do, also in a minor
//! version. `docs/library.md` tells what has changed. All other names of this crate are its own.

pub mod code;
pub mod discovery;
pub mod keys;
pub mod options;
pub mod reason;
pub mod standing;
pub mod status;
pub mod stream;
pub mod watch;

pub use treecast_driver::{files::check_name, send::Starter, udp::check_group};
/// A request to end a session, made by a signal, after a time, or by another thread.
pub use treecast_host::stop::Stop;
