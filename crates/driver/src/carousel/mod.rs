//! Carousels on real networks: sending to whoever listens, and receiving without a word back.

mod frame_hash;
mod group_messages;
mod hashing;
mod iotup;
mod listeners;
mod receive;
mod send;

use std::io;

use thiserror::Error;

pub use frame_hash::FrameHash;
pub use listeners::{ListenError, ListenerWatch};
pub use receive::{ReceiveOptions, receive};
pub use send::{SendEvent, SendOptions, SendSummary, send};

use crate::{
    files::{SourceError, TargetError},
    udp::UdpError,
};

/// The packets that a carousel is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// Those of a treecast session.
    Session,
    /// The IoT updater's frames, for one file. They carry no name: the receiver calls it `name`.
    Iotup { name: String },
}

/// Why a carousel ended before its time.
#[derive(Debug, Error)]
pub enum CarouselError {
    #[error(transparent)]
    Udp(#[from] UdpError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("a carousel holds 1 to 65536 files, and there are {0}: send fewer, or pack them into one")]
    Contents(usize),
    #[error("cannot send to group {group}: {source}; look at the interface and its routes")]
    Send { group: std::net::SocketAddr, source: io::Error },
    #[error(
        "nobody has listened to group {group} for {seconds} s: start receivers, or wait longer with --wait-timeout"
    )]
    NoListener { group: std::net::IpAddr, seconds: u64 },
    #[error("the carousel failed: {0}")]
    Io(#[from] io::Error),
}
