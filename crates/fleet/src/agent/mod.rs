//! The agent: it dials out to its manager, carries out what its host permits, and keeps what it has to report on its disk.
//!
//! ```text
//! session    one connection: greeting, orders in, reports out
//!   dial     TCP, proxy, TLS
//!   worker   carries out orders
//!     keeper   a process for each program, which outlives the agent
//!     fetch    files from the manager
//!     deliveries files for this host, which the host's own folder takes in
//!   spool    what must not be forgotten
//! ```

pub mod config;
pub mod deliveries;
mod dial;
mod fetch;
pub mod joined;
pub mod keeper;
mod permitted;
pub mod program;
pub mod releases;
mod session;
mod spool;
pub mod window;
mod worker;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use treecast_driver::security::tls::TlsError;
use treecast_host::folder;

pub use self::{config::Config, joined::Joined};
use self::{
    deliveries::Deliveries,
    dial::Dial,
    fetch::Fetcher,
    joined::JoinError,
    releases::Releases,
    session::{Conversation, SessionError},
    spool::{Spool, SpoolError},
    worker::Worker,
};

/// The time between two tries to reach the manager: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What an agent needs to know.
#[derive(Debug)]
pub struct Options {
    pub config: Config,
    /// The folder of the agent: its key, its memory, and the files of its work.
    pub state: PathBuf,
    /// The treecast program.
    pub treecast: PathBuf,
    pub version: String,
    /// A code to join with.
    pub code: Option<String>,
    /// The release that this program is of. `None` for the installed one.
    pub own: Option<program::Own>,
}

/// Something that an agent tells its user.
#[derive(Debug)]
pub enum Event<'a> {
    Connected { name: &'a str, address: String },
    Lost { reason: String },
}

/// The reason why an agent ends.
#[derive(Debug, Error)]
pub enum AgentError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("the agent's key cannot be used: {0}")]
    Key(#[from] TlsError),
    #[error("the manager does not take this host: {0}")]
    Refused(String),
    #[error("another agent runs in {}: end it first, or name another folder with --state", .0.display())]
    Busy(PathBuf),
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
}

impl Options {
    /// Returns the releases of this host.
    pub fn releases(&self) -> Releases<'_> {
        Releases { state: &self.state, habits: &self.config.roll_out }
    }

    /// Returns the files that somebody delivers to this host.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { state: &self.state, reception: &self.config.receive }
    }

    /// Returns the folder in which programs work, and out of which nothing leads that is only measured.
    pub fn work_folder(&self) -> PathBuf {
        self.state.join("work")
    }
}

/// Runs an agent until it is refused, another program is to take its place, or the future is dropped. `tell` hears what happens.
///
/// # Errors
/// The reason why the agent cannot go on. A manager that is not reached is none: it is tried again.
pub async fn run(mut options: Options, tell: &(dyn Fn(Event) + Send + Sync)) -> Result<(), AgentError> {
    // Programs start in folders of their own.
    let failed = |source| AgentError::Folder { path: options.state.clone(), source };
    options.state = std::path::absolute(&options.state).map_err(failed)?;
    let options = Arc::new(options);
    let identity = joined::identity(&options.state)?;
    let _claim = claim(&options.state)?;
    let mut joined = Joined::load(&options.state, options.code.as_deref())?;
    let manager = joined.manager(&options.state)?;
    let dial = Dial::new(&identity, manager, &joined.addresses, options.config.proxy.as_deref())?;
    let spool = Spool::open(&options.state.join("spool.sqlite"), options.config.spool.0)?;
    let worker = Arc::new(Worker::new(Arc::clone(&options), spool, Fetcher::new(dial)));
    worker.resume()?;
    let mut pause = FIRST_PAUSE;
    loop {
        let session = Conversation { worker: &worker, joined: &mut joined, tell };
        let ended = tokio::select! {
            ended = session.run() => {
                let Err(ended) = ended;
                ended
            }
            () = worker.replaced.notified() => return Ok(()),
        };
        match ended {
            SessionError::Refused(reason) => return Err(AgentError::Refused(reason)),
            SessionError::Spool(error) => return Err(error.into()),
            SessionError::Join(error) => return Err(error.into()),
            SessionError::Dial(error) => {
                tell(Event::Lost { reason: error.to_string() });
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            SessionError::Lost(reason) => {
                tell(Event::Lost { reason });
                pause = FIRST_PAUSE;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(jitter())) => {}
            () = worker.replaced.notified() => return Ok(()),
        }
    }
}

/// Leaves the fleet: forgets the manager, and what was to be reported to it. The key stays.
///
/// # Errors
/// If an agent runs in this folder, or it has joined no fleet.
pub fn leave(state: &Path) -> Result<(), AgentError> {
    let _claim = claim(state)?;
    Joined::forget(state)?;
    for name in ["spool.sqlite", "spool.sqlite-wal", "spool.sqlite-shm"] {
        let path = state.join(name);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(AgentError::Folder { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Locks the folder of an agent.
fn claim(state: &Path) -> Result<std::fs::File, AgentError> {
    let failed = |source| AgentError::Folder { path: state.to_owned(), source };
    folder::claim(state).map_err(failed)?.ok_or_else(|| AgentError::Busy(state.to_owned()))
}

/// Returns a random factor from 0.5 to 1, so that agents do not all come back at one moment.
fn jitter() -> f64 {
    let byte = treecast_driver::security::random::<1>().map_or(255, |bytes| bytes[0]);
    0.5 + f64::from(byte) / 510.0
}
