//! The sender's side: packets in, sealed packets one behind the other out.

use std::io;

use treecast_proto::group_key::MAX_PACKETS;
use treecast_wire::{
    header::{HEADER_LEN, Header},
    message::GroupKey,
    seal::{KeyId, PREFIX_LEN, Prefix, SEAL_LEN, SEALED_HEADER_LEN},
};

use super::key::{PacketKey, Secret, draw_id};

/// Seals packets with one key after the other.
#[derive(Debug)]
pub struct Sealer {
    key: PacketKey,
    next: Prefix,
    /// The secret to derive the next key from when this one has sealed enough. `None` when somebody else sees to
    /// that.
    renews_from: Option<Secret>,
}

impl Sealer {
    /// Seals with a group's key until it is given another ([`Sealer::replace`]).
    pub fn for_group(key: &GroupKey) -> Self {
        Self { key: Secret::from(key.secret).key(key.id), next: first(key.id), renews_from: None }
    }

    /// Seals with keys of its own, which whoever has the secret can derive.
    ///
    /// # Errors
    /// If the kernel gives no randomness.
    pub fn from_secret(secret: Secret) -> io::Result<Self> {
        let id = draw_id()?;
        Ok(Self { key: secret.key(id), next: first(id), renews_from: Some(secret) })
    }

    /// Seals with another key from now on.
    pub fn replace(&mut self, key: &GroupKey) {
        *self = Self::for_group(key);
    }

    /// The length, in bytes, of one sealed packet with a whole block.
    pub fn segment_len(block_len: usize) -> usize {
        HEADER_LEN + SEAL_LEN + block_len
    }

    /// The length, in bytes, of all sealed packets of a run.
    pub fn sealed_len(block_len: usize, run: &[u8]) -> usize {
        run.len() + run.len().div_ceil(block_len) * (HEADER_LEN + SEAL_LEN)
    }

    /// Appends `run`, cut into packets of `block_len` bytes, each sealed behind its header. `first` gives file and type, and
    /// sequence and packet number of the first.
    ///
    /// # Errors
    /// If a new key is due and the kernel gives no randomness.
    pub fn seal_blocks(
        &mut self,
        first: Header,
        block_len: usize,
        run: &[u8],
        sealed: &mut Vec<u8>,
    ) -> io::Result<()> {
        sealed.reserve(Self::sealed_len(block_len, run));
        let mut header = first;
        for block in run.chunks(block_len) {
            header.payload_len = block.len() as u32;
            self.seal(&header.to_bytes(), block, sealed)?;
            header.sequence += block.len() as u64;
            header.number = header.number.wrapping_add(1);
        }
        Ok(())
    }

    /// Appends one whole packet, sealed.
    ///
    /// # Errors
    /// The errors of [`Sealer::seal_blocks`].
    pub fn seal_packet(&mut self, packet: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        let Some((header, payload)) = packet.split_first_chunk::<HEADER_LEN>() else { return Ok(()) };
        self.seal(header, payload, sealed)
    }

    fn seal(&mut self, header: &[u8; HEADER_LEN], payload: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        self.renew_if_worn_out()?;
        let prefix = self.next;
        self.next.counter += 1;
        let mut head = [0; SEALED_HEADER_LEN];
        head[..PREFIX_LEN].copy_from_slice(&prefix.to_bytes());
        head[PREFIX_LEN..].copy_from_slice(header);
        sealed.extend_from_slice(&head);
        let start = sealed.len();
        sealed.extend_from_slice(payload);
        let tag = self.key.seal(prefix, &head, &mut sealed[start..]);
        sealed.extend_from_slice(&tag);
        Ok(())
    }

    fn renew_if_worn_out(&mut self) -> io::Result<()> {
        if self.next.counter >= MAX_PACKETS
            && let Some(secret) = self.renews_from.take()
        {
            *self = Self::from_secret(secret)?;
        }
        Ok(())
    }
}

fn first(key: KeyId) -> Prefix {
    Prefix { key, counter: 0 }
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::{FileId, PacketType};

    use super::*;
    use crate::seal::{Opener, draw_group_key};

    const BLOCK_LEN: usize = 100;

    fn sealed(sealer: &mut Sealer, run: &[u8]) -> Vec<u8> {
        let first = Header { number: u32::MAX, ..Header::new(PacketType::Data, FileId(3), 500, 0) };
        let mut sealed = Vec::new();
        sealer.seal_blocks(first, BLOCK_LEN, run, &mut sealed).unwrap();
        assert_eq!(sealed.len(), Sealer::sealed_len(BLOCK_LEN, run));
        sealed
    }

    #[test]
    fn a_run_opens_to_the_packets_that_a_plain_one_would_be() {
        let key = draw_group_key().unwrap();
        let run: Vec<u8> = (0..=250).collect();
        let sealed = sealed(&mut Sealer::for_group(&key), &run);
        assert!(!sealed.windows(32).any(|window| run.windows(32).any(|clear| clear == window)));
        let mut opener = Opener::for_group();
        opener.add(&key);
        let mut opened = Vec::new();
        for (index, frame) in sealed.chunks(Sealer::segment_len(BLOCK_LEN)).enumerate() {
            let mut frame = frame.to_vec();
            let packet = opener.open_datagram(&mut frame).expect("it is the sender's");
            let header = Header::parse(packet).unwrap();
            assert_eq!(header.sequence, 500 + 100 * index as u64);
            assert_eq!(header.number, u32::MAX.wrapping_add(index as u32));
            opened.extend_from_slice(&packet[HEADER_LEN..]);
        }
        assert_eq!(opened, run);
    }

    #[test]
    fn two_senders_with_one_secret_never_share_a_key() {
        let secret = Secret::draw().unwrap();
        let mut opener = Opener::with_secret(secret.clone());
        for _ in 0..3 {
            let mut sealer = Sealer::from_secret(secret.clone()).unwrap();
            for run in [[1; 10], [2; 10]] {
                assert!(opener.open_datagram(&mut sealed(&mut sealer, &run)).is_some());
            }
        }
        assert_eq!(opener.refused(), super::super::Refused::default());
    }

    #[test]
    fn a_worn_out_key_is_replaced_by_one_that_the_secret_gives() {
        let secret = Secret::draw().unwrap();
        let mut sealer = Sealer::from_secret(secret.clone()).unwrap();
        let before = sealer.next.key;
        sealer.next.counter = MAX_PACKETS - 1;
        let mut opener = Opener::with_secret(secret);
        for _ in 0..2 {
            assert!(opener.open_datagram(&mut sealed(&mut sealer, &[5; 10])).is_some());
        }
        assert_ne!(sealer.next.key, before);
        assert_eq!(sealer.next.counter, 1);
    }
}
