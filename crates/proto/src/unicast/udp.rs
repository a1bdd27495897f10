//! The file over UDP: ranges on request, packets in reply.

mod client;
mod server;

pub use client::{Client, ClientConfig, ClientInput, ClientTransmit};
pub use server::{Server, ServerConfig, ServerEvent, ServerInput, ServerTransmit, ServerWait};

/// How many requests a client has out at once, and a server keeps for a client. The server serves
/// them one after the other, so that a reply to one says that all before it have been served.
pub const MAX_REQUESTS: usize = 32;
