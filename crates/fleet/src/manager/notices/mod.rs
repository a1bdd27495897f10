//! Notices of what matters, for people and programs that do not look on: web hooks and e-mail.
//!
//! ```text
//! watch     sees what has happened, and posts it
//!   queue   keeps notices and their deliveries on the disk
//!     deliver   tries until they have come
//!       hook    one request, signed
//!       mail    one message, by SMTP or by the host's own sendmail
//! ```
//!
//! Nothing waits for a delivery: what cannot be delivered stays in a queue of a limited size, also over a restart of the manager.

mod deliver;
mod hook;
mod mail;
mod queue;
mod watch;

use std::{io, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::Notify;

pub use hook::Hook;
pub use mail::Mail;
pub use queue::Notice;

use super::{hub::Hub, store::StoreError};

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A rollout has stopped by itself.
    RolloutStopped,
    /// A rollout waits until a second person approves it.
    RolloutWaits,
    /// A run was made to its end.
    RunEnded,
    /// A run could not be made, or was aborted.
    RunFailed,
    /// A host has been away for a while.
    HostAway,
    /// A host came with another key than the one of its name.
    HostRefused,
}

/// The reason why notices cannot be given.
#[derive(Debug, Error)]
pub enum NoticeError {
    #[error("{what}: {source}")]
    Secret { what: String, source: io::Error },
    #[error("{0}")]
    Wrong(String),
}

/// A way to tell somebody.
enum Way {
    Hook(Box<hook::Ready>),
    Mail(Box<mail::Ready>),
}

impl Way {
    /// The name under which the queue has deliveries for this way.
    fn name(&self) -> String {
        match self {
            Self::Hook(hook) => format!("hook {}", hook.url()),
            Self::Mail(mail) => mail.name(),
        }
    }

    fn wants(&self, kind: Kind) -> bool {
        let on = match self {
            Self::Hook(hook) => hook.on(),
            Self::Mail(mail) => mail.on(),
        };
        on.is_empty() || on.contains(&kind)
    }
}

/// The notices of a manager.
pub struct Notices {
    hub: Arc<Hub>,
    ways: Vec<Way>,
    /// Tells that there is something new to deliver.
    posted: Notify,
}

impl Notices {
    /// Makes the ways ready.
    ///
    /// # Errors
    /// If a secret cannot be read.
    pub fn new(hub: Arc<Hub>, hooks: &[Hook], mail: &[Mail]) -> Result<Self, NoticeError> {
        let hooks = hooks.iter().map(|hook| hook.ready().map(|hook| Way::Hook(Box::new(hook))));
        let mail = mail.iter().map(|mail| mail.ready().map(|mail| Way::Mail(Box::new(mail))));
        let ways = hooks.chain(mail).collect::<Result<_, _>>()?;
        Ok(Self { hub, ways, posted: Notify::new() })
    }

    /// Watches what happens, and tells it, until the tasks are ended. What happens after this has returned is seen. Hosts that have
    /// been away for `away_after` are told. Without a way to tell anybody, nothing is watched.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn start(
        self: Arc<Self>,
        away_after: Duration,
    ) -> Result<Vec<tokio::task::JoinHandle<()>>, StoreError> {
        if self.ways.is_empty() {
            return Ok(Vec::new());
        }
        let watch = watch::Watch::new(Arc::clone(&self), away_after).await?;
        Ok(vec![tokio::spawn(watch.work()), tokio::spawn(deliver::work(self))])
    }
}
