//! Unicast servers and clients of one file (librecast-updates-2022, 2.2 and A.4), over TCP and UDP. The
//! multicast deliveries are compared with them.

mod copy;
pub mod tcp;
pub mod udp;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_host::stop::Stop;
use treecast_proto::{Instant, policy, unicast::ClientEvent};
use treecast_wire::unicast::FileHeader;

use crate::{
    events::as_path_text,
    files::{Source, SourceError, TargetError},
};

/// The next wish of a client's machine once all else is done.
enum Next {
    End(ClientEvent),
    Wait(Option<Instant>),
}

/// Time between two reports of progress.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// The number of times that a client tries the whole file.
const ATTEMPTS: u32 = 3;

/// The reason why a server or client ended early.
#[derive(Debug, Error)]
pub enum UnicastError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("{address} is in use on this host: choose another port or end the program that has it")]
    InUse { address: SocketAddr },
    #[error("cannot serve at {address}: {source}; name an address of this host")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot have the congestion control `{name}`: {source}; this machine has {available}")]
    Congestion { name: String, source: io::Error, available: String },
    #[error("{} is no name for a file: {why}", path.display())]
    Name { path: PathBuf, why: String },
    #[error("cannot get the file from {address}: {reason}; see that `treecast unicast server` runs there")]
    Failed { address: SocketAddr, reason: String },
    #[error("stopped before the file was there")]
    Interrupted,
    #[error("cannot go on serving: {0}")]
    Io(#[from] io::Error),
}

/// An event of a server. `treecast unicast server --json` prints these events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerEvent {
    /// The file is hashed and clients can come.
    Ready {
        #[serde(rename = "bytes")]
        size: u64,
        /// BLAKE3 hash of the file, in hexadecimal digits.
        hash: String,
    },
    /// A client's request has come.
    Active { client: SocketAddr },
    /// The last request of a client has been served.
    Served { client: SocketAddr },
    /// A client's request failed, or was turned away.
    Failed { client: SocketAddr, reason: String },
    /// The server has been stopped. The function that serves returns this summary instead of the event.
    Done(ServerSummary),
}

/// An event of a client. `treecast unicast client --json` prints these events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FetchEvent {
    Progress(ClientProgress),
    /// The copy is complete and verified.
    Object {
        /// Path of the copy.
        #[serde(with = "as_path_text")]
        name: PathBuf,
        bytes: u64,
    },
    Done(ClientProgress),
}

/// The totals of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerSummary {
    pub served: u64,
    pub failed: u64,
}

/// The progress of a client, or its state at the end.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientProgress {
    /// Size of the file. `None` until it is known.
    pub total_bytes: Option<u64>,
    #[serde(rename = "bytes")]
    pub received_bytes: u64,
    /// Seconds since the client was started.
    pub seconds: f64,
    /// The number of requests sent, including the first one.
    pub requests: u64,
    /// Number of packets that the kernel dropped because the receive buffer was full.
    pub dropped_packets: u64,
}

/// Hashes a file; none when that was interrupted.
fn hash(source: &mut Source, stop: &Stop) -> Result<Option<FileHeader>, SourceError> {
    let mut hasher = blake3::Hasher::new();
    let is_read = source.read_all(|| !stop.is_requested(), |run| _ = hasher.update(run))?;
    Ok(is_read.then(|| FileHeader { file_size: source.size(), hash: *hasher.finalize().as_bytes() }))
}

fn bind_error(address: SocketAddr, source: io::Error) -> UnicastError {
    match source.kind() {
        io::ErrorKind::AddrInUse => UnicastError::InUse { address },
        _ => UnicastError::Bind { address, source },
    }
}

/// The result of a client's loop for its caller.
fn outcome(result: Result<ClientEvent, UnicastError>, server: SocketAddr) -> Result<(), UnicastError> {
    match result {
        Ok(ClientEvent::Received { .. }) => Ok(()),
        Ok(ClientEvent::Failed { reason }) => Err(UnicastError::Failed { address: server, reason }),
        Err(UnicastError::Io(error)) => {
            Err(UnicastError::Failed { address: server, reason: error.to_string() })
        }
        Err(error) => Err(error),
    }
}

/// Bytes of IP and UDP header before a packet to `address`.
fn udp_overhead(address: IpAddr) -> u64 {
    policy::ip_overhead(address.is_ipv4())
}
