//! The file over UDP: ranges on request, packets in reply.

mod client;
mod server;

pub use client::{Client, ClientConfig, ClientInput, ClientTransmit};
pub use server::{Server, ServerConfig, ServerEvent, ServerInput, ServerTransmit, ServerWait};

/// The most requests that a client has outstanding at once, and that a server keeps for a client. The server
/// serves them one after the other, so a reply to one tells that all before it have been served.
pub const MAX_REQUESTS: usize = 32;
