//! A key pair: what a sender or a receiver proves itself with.

use std::{fmt, io};

use ed25519_dalek::{
    Signer, SigningKey,
    pkcs8::{DecodePrivateKey, EncodePrivateKey, SecretDocument, spki::der::pem::LineEnding},
};
use treecast_wire::message::SIGNATURE_LEN;
use zeroize::Zeroizing;

use super::{PublicKey, random};

/// An Ed25519 key pair. Dropping it wipes the private half from memory.
#[derive(Clone)]
pub struct Identity(SigningKey);

impl Identity {
    /// Creates a new key pair from random numbers of the operating system.
    ///
    /// # Errors
    /// If there are none.
    pub fn generate() -> io::Result<Self> {
        Ok(Self(SigningKey::from_bytes(&random()?)))
    }

    /// Creates the key pair of a [`Self::seed`].
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The private half of the key.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    pub fn public_key(&self) -> PublicKey {
        PublicKey::from(self.0.verifying_key())
    }

    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.0.sign(message).to_bytes()
    }

    /// Parses PKCS#8 in PEM (RFC 8410, section 7; RFC 7468, section 10).
    ///
    /// # Errors
    /// The fault of the text, in words.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        SigningKey::from_pkcs8_pem(text).map(Self).map_err(|error| error.to_string())
    }

    /// The key pair as PKCS#8 in PEM.
    ///
    /// # Errors
    /// If it cannot be encoded. No such key pair is known.
    pub fn to_pem(&self) -> io::Result<Zeroizing<String>> {
        self.0.to_pkcs8_pem(LineEnding::LF).map_err(io::Error::other)
    }

    /// The PKCS#8 in DER.
    pub(super) fn to_der(&self) -> io::Result<SecretDocument> {
        self.0.to_pkcs8_der().map_err(io::Error::other)
    }
}

impl fmt::Debug for Identity {
    /// Writes the public half alone, because this text may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_one_message_of_one_signer() {
        let (anna, bert) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let signature = anna.sign(b"message");
        assert!(anna.public_key().verify(b"message", &signature));
        assert!(!anna.public_key().verify(b"massage", &signature));
        assert!(!bert.public_key().verify(b"message", &signature));
    }

    #[test]
    fn the_debugging_text_does_not_tell_the_key() {
        let identity = Identity::generate().unwrap();
        let pem = identity.to_pem().unwrap();
        assert_eq!(Identity::from_pem(&pem).unwrap().public_key(), identity.public_key());
        assert_eq!(format!("{identity:?}"), format!("Identity({})", identity.public_key()));
    }
}
