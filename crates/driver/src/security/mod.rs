//! The identities of senders and receivers: Ed25519 keys, their files, lists of admitted keys, and the TLS 1.3
//! that proves a key on a control connection.
//!
//! This code has no cryptography of its own: keys and signatures come from ed25519-dalek, TLS from rustls with
//! ring. There are no certificates and no clocks. A key is trusted because the ticket or the allow list names
//! it.

mod allow_list;
mod identity;
mod key_file;
pub(crate) mod manifest;
mod manifest_batch;
pub(crate) mod owner_file;
mod public_key;
pub mod tls;

pub use allow_list::{AllowList, AllowListError};
pub use identity::Identity;
pub use key_file::{DEFAULT_KEY_NAME, KeyFileError, KeyFolder, is_key_name};
pub use public_key::{PublicKey, PublicKeyError};

use std::io;

/// Fills an array with random bytes of the operating system.
///
/// # Errors
/// If it has none to give.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(bytes)
}
