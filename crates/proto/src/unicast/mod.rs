//! Unicast server and client, one file from one server (librecast-updates-2022, 2.2 and A.4): what
//! the multicast deliveries are compared with.
//!
//! [`udp`]: the request names a range, the reply is a sequence of packets, and a client asks again for what has not come.
//! Over TCP there is no protocol of ours: the reply is the file's size and hash, and then the file (`driver/unicast/tcp`).

pub mod udp;

use std::ops::Range;

/// Something that a client asks its caller to do with the copy of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageTask {
    /// The size of the file is known.
    Announce { size: u64 },
    /// Keep these bytes of the input just handled.
    Store { range: Range<u64> },
    /// All bytes are stored: compute the hash, and answer with [`StorageReport::Hashed`].
    Hash,
    /// The hash is right: give the file its final name, and answer with [`StorageReport::Committed`].
    Commit,
    /// Throw away all that is stored.
    Discard,
}

/// The caller's answer to a storage task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageReport {
    /// Everything is stored, and this is its BLAKE3 hash.
    Hashed { hash: [u8; 32] },
    /// The file has its final name.
    Committed,
    /// Storing or committing failed for good.
    Failed { reason: String },
}

/// The way in which the transfer of a client's file ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The file is complete, has the right hash, and has its final name.
    Received {
        size: u64,
    },
    Failed {
        reason: String,
    },
}

/// The event that a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientWait {
    /// The client waits for the server.
    Server,
    /// The client waits for the storage to hash or commit the file.
    Storage,
    Closed,
}
