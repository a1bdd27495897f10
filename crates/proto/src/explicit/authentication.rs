//! Discovery responses that can be believed (meadcast-thesis-2024, 5.2.4, which names no mechanism).
//!
//! The routers of a domain and its senders share a key. A request carries a nonce, new for each discovery and receiver;
//! the response carries it back with the first half of a keyed BLAKE3 hash over nonce, router, receiver, hops and, if the router
//! offers one, the group, all of fixed length. So a response that is forged, changed, or of another discovery does not verify.

use std::{fmt, net::Ipv6Addr};

use super::list_proof::ListKey;
use blake3::Hash;
use thiserror::Error;
use treecast_wire::{
    mead::{CODE_LEN, NONCE_LEN, Proof},
    xcast::{REGISTRATION_CODE_LEN, Registration},
};

/// The context of the keys that are derived here. No other key is derived with it.
const CONTEXT: &str = "treecast 2026-11 MEADcast discovery response";
const REGISTRATION_CONTEXT: &str = "treecast 2026-11 Xcast+ registration";
const LIST_CONTEXT: &str = "treecast 2026-11 MEADcast and Xcast address list";

const KEY_LEN: usize = 32;

const _: () = assert!(CODE_LEN == REGISTRATION_CODE_LEN);

/// The secret key that all routers and senders of a domain share, and that nobody else has.
#[derive(Clone)]
pub struct DomainKey {
    of_responses: [u8; KEY_LEN],
    of_registrations: [u8; KEY_LEN],
    of_lists: ListKey,
}

/// The statement of a discovery response that its proof covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// The router that responds.
    pub router: Ipv6Addr,
    /// The receiver on whose path the router stands.
    pub receiver: Ipv6Addr,
    /// The number of MEADcast routers on the path from the sender to this router, which is counted, too.
    pub hops: u8,
    /// The multicast group by which the router offers to serve the receiver, if it offers that.
    pub group: Option<Ipv6Addr>,
}

/// The error that a text is not a domain key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a domain key is 64 hexadecimal digits, as `openssl rand -hex 32` prints; {0} characters found, or others"
)]
pub struct NoKey(usize);

impl DomainKey {
    /// Makes the key of a domain from its secret bytes.
    pub fn new(secret: &[u8; KEY_LEN]) -> Self {
        let of_responses = blake3::derive_key(CONTEXT, secret);
        let of_registrations = blake3::derive_key(REGISTRATION_CONTEXT, secret);
        let of_lists = ListKey::new(&blake3::derive_key(LIST_CONTEXT, secret));
        Self { of_responses, of_registrations, of_lists }
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

    /// The key of the proofs that address lists carry.
    pub fn of_lists(&self) -> ListKey {
        self.of_lists
    }

    /// Returns the proof that a router adds to its response.
    pub fn prove(&self, nonce: [u8; NONCE_LEN], said: &Said) -> Proof {
        let hash = self.hash(&nonce, said);
        Proof { nonce, code: *hash.as_bytes().first_chunk().expect("a hash has 32 bytes") }
    }

    /// Whether a response is one of the domain. Takes as long for each wrong code.
    pub fn verifies(&self, proof: &Proof, said: &Said) -> bool {
        let expected = self.hash(&proof.nonce, said);
        let mut claimed = *expected.as_bytes();
        claimed[..CODE_LEN].copy_from_slice(&proof.code);
        // Hashes are compared in constant time.
        Hash::from_bytes(claimed) == expected
    }

    /// An Xcast+ registration with its code.
    pub fn seal(&self, registration: Registration) -> Registration {
        let code = *self.hash_of(&registration).as_bytes().first_chunk().expect("a hash has 32 bytes");
        Registration { code, ..registration }
    }

    /// Whether an Xcast+ registration is one of the domain. Takes as long for each wrong code.
    pub fn opens(&self, registration: &Registration) -> bool {
        let expected = self.hash_of(registration);
        let mut claimed = *expected.as_bytes();
        claimed[..CODE_LEN].copy_from_slice(&registration.code);
        Hash::from_bytes(claimed) == expected
    }

    fn hash_of(&self, registration: &Registration) -> Hash {
        blake3::keyed_hash(&self.of_registrations, &registration.authenticated())
    }

    fn hash(&self, nonce: &[u8; NONCE_LEN], said: &Said) -> Hash {
        let Said { router, receiver, hops, group } = said;
        let group = group.map(|group| group.octets());
        let group = group.as_ref().map_or(&[][..], |octets| &octets[..]);
        let message = [&nonce[..], &router.octets(), &receiver.octets(), &[*hops], group].concat();
        blake3::keyed_hash(&self.of_responses, &message)
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

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9);
    const SAID: Said = Said { router: ROUTER, receiver: RECEIVER, hops: 2, group: None };

    #[test]
    fn only_the_response_that_was_proved_verifies() {
        let key = DomainKey::new(&[7; 32]);
        let offered = Said { group: Some(GROUP), ..SAID };
        let proof = key.prove([3; 16], &SAID);
        assert!(key.verifies(&proof, &SAID));
        assert!(!key.verifies(&proof, &Said { router: RECEIVER, ..SAID }));
        assert!(!key.verifies(&proof, &Said { receiver: ROUTER, ..SAID }));
        assert!(!key.verifies(&proof, &Said { hops: 1, ..SAID }));
        assert!(!key.verifies(&proof, &offered));
        assert!(!DomainKey::new(&[8; 32]).verifies(&proof, &SAID));
        let proof_of_offer = key.prove([3; 16], &offered);
        assert!(key.verifies(&proof_of_offer, &offered) && !key.verifies(&proof_of_offer, &SAID));
        for bit in 0..8 * CODE_LEN {
            let mut changed = proof;
            changed.code[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&changed, &SAID), "bit {bit} of the code");
            let mut changed = proof;
            changed.nonce[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&changed, &SAID), "bit {bit} of the nonce");
        }
    }

    #[test]
    fn a_key_is_read_from_its_file_and_not_shown() {
        let text = format!(" {}\n", "07".repeat(32));
        let proof = DomainKey::new(&[7; 32]).prove([0; 16], &SAID);
        assert!(DomainKey::from_hex(&text).expect("a key").verifies(&proof, &SAID));
        assert!(!format!("{:?}", DomainKey::new(&[7; 32])).contains('7'));
        for (wrong, count) in [("", 0), ("07", 2), (&"0g".repeat(32)[..], 64), (&"07".repeat(33), 66)] {
            assert_eq!(DomainKey::from_hex(wrong).err(), Some(NoKey(count)), "{wrong}");
        }
    }
}
