//! Unicast servers and clients, one file from one server (librecast-updates-2022, 2.2 and A.4): what
//! the multicast deliveries are compared with.
//!
//! [`tcp`]: the reply is the file's size and hash, and then the file; a client that finds them wrong
//! asks for everything again. [`udp`]: the request names a range, the reply is a sequence of packets,
//! and a client asks again for what has not come.

pub mod tcp;
pub mod udp;

/// How a client's file ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// Complete, right and committed.
    Received {
        size: u64,
    },
    Failed {
        reason: String,
    },
}

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientWait {
    /// The server.
    Server,
    /// The moment to try again.
    Retry,
    /// The hash of the file, or its commit.
    Storage,
    Closed,
}
