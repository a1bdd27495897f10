//! A fleet: hosts that somebody sees, steers and measures from one machine (lgmp-mbone-1999, 3; interdomain-2013, 3.3.3, 3.4 and
//! 4.6.3; congested-multicast-2019, appendix B).
//!
//! Each host runs an [`agent`]. It dials out to the [`manager`] and keeps the connection: no host has an open port, and nobody logs in
//! to one. What an agent may do is set at its host ([`permits`]).
//!
//! This crate delivers nothing itself. It starts the treecast program at hosts, and experiments run over a fleet by the same engine as
//! in a lab: `treecast_experiment` has the engine, and [`manager`] a place for it. Delivery never depends on this crate.
//!
//! - [`message`]: what both sides say. Orders and reports are numbered, so that either side may end and come back.
//! - [`selection`]: the language by which hosts are selected.
//! - [`clock`]: how far the clocks of hosts are apart.

pub mod agent;
pub mod client;
pub mod clock;
pub mod code;
pub mod facts;
mod https;
mod json;
pub mod manager;
pub mod message;
pub mod permits;
pub mod release;
pub mod selection;

use std::{future::Future, io, time::Duration};

/// Starts a task beside the one that [`run_until`] waits for.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// Waits for a time, inside of [`run_until`].
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits for a future on this thread, and starts no others.
///
/// # Errors
/// If the kernel has no descriptors left.
pub fn run<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Waits for a future on this thread, unless `stop` becomes true before. `None`: it did.
///
/// # Errors
/// If no threads can be started.
pub fn run_until<T>(stop: impl Fn() -> bool, future: impl Future<Output = T>) -> io::Result<Option<T>> {
    /// The time between two looks whether to stop.
    const LOOK: Duration = Duration::from_millis(50);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let stopped = async {
        while !stop() {
            tokio::time::sleep(LOOK).await;
        }
    };
    let outcome = runtime.block_on(async {
        tokio::select! {
            value = future => Some(value),
            () = stopped => None,
        }
    });
    // What still runs has nobody to tell it to.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome)
}
