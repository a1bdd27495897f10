//! The public half of an identity, and its text form.

use std::{fmt, str::FromStr};

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{
    Signature, VerifyingKey,
    pkcs8::{DecodePublicKey, EncodePublicKey},
};
use thiserror::Error;
use treecast_wire::{message::SIGNATURE_LEN, ticket::KEY_LEN};

const PREFIX: &str = "tck1.";

const CHECKSUM_LEN: usize = 4;

/// An Ed25519 public key. Its text form has 53 letters: `tck1.` and the URL-safe base64 of the key and of the
/// first four bytes of its BLAKE3 hash. So a key that was cut or mistyped is not taken for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

/// The reason why a text or bytes are no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PublicKeyError {
    #[error("a public key begins with \"tck1.\": copy the whole line that `treecast keys show` prints")]
    Prefix,
    #[error("the public key is cut short or mistyped: copy the whole line that `treecast keys show` prints")]
    Damaged,
    #[error("these bytes are no Ed25519 public key")]
    NoKey,
}

impl PublicKey {
    /// Makes a public key of its bytes.
    ///
    /// # Errors
    /// If no Ed25519 key has these bytes.
    pub fn from_bytes(bytes: [u8; KEY_LEN]) -> Result<Self, PublicKeyError> {
        VerifyingKey::from_bytes(&bytes).map(|_| Self(bytes)).map_err(|_| PublicKeyError::NoKey)
    }

    pub fn to_bytes(self) -> [u8; KEY_LEN] {
        self.0
    }

    /// Whether the holder of this key has signed `message`.
    pub fn verify(&self, message: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
        let signature = Signature::from_bytes(signature);
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }

    /// Reads a SubjectPublicKeyInfo (RFC 8410, 4), which is what TLS carries as a raw public key (RFC 7250, 3).
    ///
    /// # Errors
    /// If it is none of Ed25519.
    pub fn from_spki(der: &[u8]) -> Result<Self, PublicKeyError> {
        let key = VerifyingKey::from_public_key_der(der).map_err(|_| PublicKeyError::NoKey)?;
        Ok(key.into())
    }

    /// The SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// If this is no key; it was one when it was made.
    pub fn to_spki(self) -> Result<Vec<u8>, PublicKeyError> {
        let key = VerifyingKey::from_bytes(&self.0).map_err(|_| PublicKeyError::NoKey)?;
        Ok(key.to_public_key_der().map_err(|_| PublicKeyError::NoKey)?.into_vec())
    }
}

impl From<VerifyingKey> for PublicKey {
    fn from(key: VerifyingKey) -> Self {
        Self(key.to_bytes())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.0[..], &checksum(&self.0)].concat();
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let text = text.strip_prefix(PREFIX).ok_or(PublicKeyError::Prefix)?;
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| PublicKeyError::Damaged)?;
        let (key, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(PublicKeyError::Damaged)?;
        let key: [u8; KEY_LEN] = key.try_into().map_err(|_| PublicKeyError::Damaged)?;
        if checksum(&key) != *sum {
            return Err(PublicKeyError::Damaged);
        }
        Self::from_bytes(key)
    }
}

fn checksum(key: &[u8; KEY_LEN]) -> [u8; CHECKSUM_LEN] {
    let hash = blake3::hash(key);
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&hash.as_bytes()[..CHECKSUM_LEN]);
    sum
}

#[cfg(test)]
mod tests {
    use super::{super::Identity, *};

    #[test]
    fn the_text_form_comes_back_and_tells_what_is_wrong() {
        let key = Identity::generate().unwrap().public_key();
        let text = key.to_string();
        assert_eq!((text.len(), text.parse()), (53, Ok(key)));
        assert_eq!("treecast2.AAAA".parse::<PublicKey>(), Err(PublicKeyError::Prefix));
        assert_eq!(text[..50].parse::<PublicKey>(), Err(PublicKeyError::Damaged));
        let other = if &text[20..21] == "x" { "y" } else { "x" };
        let mistyped = format!("{}{other}{}", &text[..20], &text[21..]);
        assert_eq!(mistyped.parse::<PublicKey>(), Err(PublicKeyError::Damaged));
    }

    #[test]
    fn what_is_no_point_of_the_curve_is_no_key() {
        let mut refused = 0;
        for byte in 0..=255 {
            refused += usize::from(PublicKey::from_bytes([byte; KEY_LEN]).is_err());
        }
        assert!(refused > 50, "{refused}");
    }
}
