//! Secrets and the keys derived from them.

use std::{fmt, io};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use treecast_wire::{
    message::GroupKey,
    seal::{KeyId, Prefix, SEALED_HEADER_LEN, TAG_LEN},
};

use crate::security;

/// The context for which BLAKE3 derives keys. Its key derivation mode wants such a text, of which there is only one.
const CONTEXT: &str = "treecast 2026-11-21 packets to the group, AES-256-GCM";

/// 32 random bytes that keys are derived from. Its text never shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Draws a secret.
    ///
    /// # Errors
    /// If the kernel gives no randomness.
    pub fn draw() -> io::Result<Self> {
        Ok(Self(security::random()?))
    }

    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    pub(super) fn key(&self, id: KeyId) -> PacketKey {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&self.0).update(&id.0.to_be_bytes());
        PacketKey::new(hasher.finalize().as_bytes())
    }
}

impl From<[u8; 32]> for Secret {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Draws a key for a group.
///
/// # Errors
/// If the kernel gives no randomness.
pub fn draw_group_key() -> io::Result<GroupKey> {
    Ok(GroupKey { id: draw_id()?, secret: Secret::draw()?.bytes() })
}

pub(super) fn draw_id() -> io::Result<KeyId> {
    Ok(KeyId(u64::from_be_bytes(security::random()?)))
}

/// One AES-256-GCM key.
pub(super) struct PacketKey(LessSafeKey);

impl PacketKey {
    fn new(bytes: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("the key of AES-256 has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts a payload in place.
    pub fn seal(&self, prefix: Prefix, head: &[u8; SEALED_HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(prefix.nonce());
        let sealed = self.0.seal_in_place_separate_tag(nonce, Aad::from(head), payload);
        let tag = sealed.expect("a packet is far shorter than what the cipher takes");
        tag.as_ref().try_into().expect("the tag of GCM has 16 bytes")
    }

    /// Decrypts a payload in place; false when it was not sealed with this key.
    pub fn open(
        &self,
        prefix: Prefix,
        head: &[u8; SEALED_HEADER_LEN],
        payload: &mut [u8],
        tag: [u8; TAG_LEN],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(prefix.nonce());
        self.0.open_in_place_separate_tag(nonce, Aad::from(head), Tag::from(tag), payload, 0..).is_ok()
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey(hidden)")
    }
}
