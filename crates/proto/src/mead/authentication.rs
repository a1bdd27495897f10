//! Discovery responses that can be believed (meadcast-thesis-2024, 5.2.4, which names no mechanism).
//!
//! The routers of a domain and its senders share a key. A request carries a nonce, new for each discovery and receiver;
//! the response carries it back with the first half of a keyed BLAKE3 hash over nonce, router, receiver and hops, all of fixed
//! length. So a response that is forged, changed, or of another discovery does not verify.

use std::{fmt, net::Ipv6Addr};

use blake3::Hash;
use thiserror::Error;
use treecast_wire::mead::{CODE_LEN, NONCE_LEN, Proof};

/// For nothing else is a key derived with this.
const CONTEXT: &str = "treecast 2026-11 MEADcast discovery response";

const KEY_LEN: usize = 32;

/// What all routers and senders of a domain have, and nobody else.
#[derive(Clone)]
pub struct DomainKey([u8; KEY_LEN]);

/// A text is no domain key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a domain key is 64 hexadecimal digits, as `openssl rand -hex 32` prints; {0} characters found, or others"
)]
pub struct NoKey(usize);

impl DomainKey {
    /// The key for a domain's secret.
    pub fn new(secret: &[u8; KEY_LEN]) -> Self {
        Self(blake3::derive_key(CONTEXT, secret))
    }

    /// Reads a key file's text: 64 hexadecimal digits, white space around them.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn from_hex(text: &str) -> Result<Self, NoKey> {
        let text = text.trim();
        let secret = Hash::from_hex(text).map_err(|_| NoKey(text.chars().count()))?;
        Ok(Self::new(secret.as_bytes()))
    }

    /// What a router adds to its response. `hops` is that of the response.
    pub fn prove(&self, nonce: [u8; NONCE_LEN], router: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> Proof {
        let hash = self.hash(&nonce, router, receiver, hops);
        Proof { nonce, code: *hash.as_bytes().first_chunk().expect("a hash has 32 bytes") }
    }

    /// Whether a response from `router` is one of the domain. Takes as long for each wrong code.
    pub fn verifies(&self, proof: &Proof, router: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> bool {
        let expected = self.hash(&proof.nonce, router, receiver, hops);
        let mut claimed = *expected.as_bytes();
        claimed[..CODE_LEN].copy_from_slice(&proof.code);
        // Hashes are compared in constant time.
        Hash::from_bytes(claimed) == expected
    }

    fn hash(&self, nonce: &[u8; NONCE_LEN], router: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> Hash {
        let message = [&nonce[..], &router.octets(), &receiver.octets(), &[hops]].concat();
        blake3::keyed_hash(&self.0, &message)
    }
}

impl fmt::Debug for DomainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DomainKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 1, 0, 0, 0, 1);
    const RECEIVER: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 3, 0, 0, 0x30, 1);

    #[test]
    fn only_the_response_that_was_proved_verifies() {
        let key = DomainKey::new(&[7; 32]);
        let proof = key.prove([3; 16], ROUTER, RECEIVER, 2);
        assert!(key.verifies(&proof, ROUTER, RECEIVER, 2));
        assert!(!key.verifies(&proof, RECEIVER, RECEIVER, 2));
        assert!(!key.verifies(&proof, ROUTER, ROUTER, 2));
        assert!(!key.verifies(&proof, ROUTER, RECEIVER, 1));
        assert!(!DomainKey::new(&[8; 32]).verifies(&proof, ROUTER, RECEIVER, 2));
        for bit in 0..8 * CODE_LEN {
            let mut changed = proof;
            changed.code[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&changed, ROUTER, RECEIVER, 2), "bit {bit} of the code");
            let mut changed = proof;
            changed.nonce[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&changed, ROUTER, RECEIVER, 2), "bit {bit} of the nonce");
        }
    }

    #[test]
    fn a_key_is_read_from_its_file_and_not_shown() {
        let text = format!(" {}\n", "07".repeat(32));
        let proof = DomainKey::new(&[7; 32]).prove([0; 16], ROUTER, RECEIVER, 1);
        assert!(DomainKey::from_hex(&text).expect("a key").verifies(&proof, ROUTER, RECEIVER, 1));
        assert!(!format!("{:?}", DomainKey::new(&[7; 32])).contains('7'));
        for (wrong, count) in [("", 0), ("07", 2), (&"0g".repeat(32)[..], 64), (&"07".repeat(33), 66)] {
            assert_eq!(DomainKey::from_hex(wrong).err(), Some(NoKey(count)), "{wrong}");
        }
    }
}
