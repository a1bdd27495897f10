//! The cryptography of the exchange.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use treecast_proto::code::Code;
use treecast_wire::code::{EXCHANGE_LEN, PROOF_LEN};
use zeroize::Zeroizing;

/// The contexts of key derivation, one for each purpose.
const PROOF: &str = "treecast 2026-11 proof of a code";
const TICKET: &str = "treecast 2026-11 ticket for a code, AES-256-GCM";

/// One side of an exchange that has begun.
pub(super) struct Exchange {
    state: Spake2<Ed25519Group>,
    message: [u8; EXCHANGE_LEN],
    is_receiver: bool,
}

/// The keys of an exchange. Both sides have the same if both have the same code.
pub(super) struct Keys {
    proof: Zeroizing<[u8; PROOF_LEN]>,
    ticket: Zeroizing<[u8; 32]>,
}

impl Exchange {
    /// Begins an exchange. `None` if no message can be made, which never happens.
    pub fn begin(code: &Code, is_receiver: bool) -> Option<Self> {
        let password = Password::new(code.to_string().into_bytes());
        let (receiver, sender) = (Identity::new(b"treecast receiver"), Identity::new(b"treecast sender"));
        let (state, message) = match is_receiver {
            true => Spake2::<Ed25519Group>::start_a(&password, &receiver, &sender),
            false => Spake2::<Ed25519Group>::start_b(&password, &receiver, &sender),
        };
        Some(Self { state, message: message.try_into().ok()?, is_receiver })
    }

    /// The message for the other side.
    pub fn message(&self) -> &[u8; EXCHANGE_LEN] {
        &self.message
    }

    /// Takes the other side's message. `None` if it is no such message.
    pub fn finish(self, theirs: &[u8; EXCHANGE_LEN]) -> Option<Keys> {
        let (first, second) =
            if self.is_receiver { (&self.message, theirs) } else { (theirs, &self.message) };
        let shared = Zeroizing::new(self.state.finish(theirs).ok()?);
        let derive = |context| {
            let mut hasher = blake3::Hasher::new_derive_key(context);
            hasher.update(first).update(second).update(&shared);
            Zeroizing::new(*hasher.finalize().as_bytes())
        };
        Some(Keys { proof: derive(PROOF), ticket: derive(TICKET) })
    }
}

impl Keys {
    /// The receiver's proof that it has the code.
    pub fn proof(&self) -> &[u8; PROOF_LEN] {
        &self.proof
    }

    /// Whether a proof is right. Takes the same time for all wrong ones.
    pub fn is_proof(&self, proof: [u8; PROOF_LEN]) -> bool {
        blake3::Hash::from_bytes(*self.proof) == blake3::Hash::from_bytes(proof)
    }

    /// Seals the ticket. The key seals nothing else, so the nonce is always 0.
    pub fn seal(&self, ticket: &str) -> Option<Vec<u8>> {
        let mut sealed = ticket.as_bytes().to_vec();
        self.key()?.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed).ok()?;
        Some(sealed)
    }

    /// Opens what [`Self::seal`] has sealed. `None` if the other side does not have the code.
    pub fn open(&self, mut sealed: Vec<u8>) -> Option<String> {
        let ticket = self.key()?.open_in_place(nonce(), Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(ticket.to_vec()).ok()
    }

    fn key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &*self.ticket).ok().map(LessSafeKey::new)
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of both sides, the receiver's first.
    fn exchange(receiver: u32, sender: u32) -> (Keys, Keys) {
        let begin = |random, is_receiver| Exchange::begin(&Code::from_random(random), is_receiver).unwrap();
        let (receiver, sender) = (begin(receiver, true), begin(sender, false));
        let (first, second) = (*receiver.message(), *sender.message());
        (receiver.finish(&second).unwrap(), sender.finish(&first).unwrap())
    }

    #[test]
    fn both_sides_have_the_same_keys_only_with_the_same_code() {
        let (receiver, sender) = exchange(7, 7);
        assert!(sender.is_proof(*receiver.proof()));
        assert_eq!(receiver.open(sender.seal("treecast2.x").unwrap()).as_deref(), Some("treecast2.x"));
        let (receiver, sender) = exchange(7, 8);
        assert!(!sender.is_proof(*receiver.proof()));
        assert_eq!(receiver.open(sender.seal("treecast2.x").unwrap()), None);
    }

    #[test]
    fn a_proof_is_good_for_one_exchange() {
        let (first, _) = exchange(7, 7);
        let (_, second) = exchange(7, 7);
        assert!(!second.is_proof(*first.proof()));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for message in [[0; EXCHANGE_LEN], [0xff; EXCHANGE_LEN], [b'B'; EXCHANGE_LEN]] {
            let exchange = Exchange::begin(&Code::from_random(7), true).unwrap();
            assert!(exchange.finish(&message).is_none(), "{message:?}");
        }
    }
}
