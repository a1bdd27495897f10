//! Address lists that only a sender of the domain can have written.
//!
//! A sender of a MEADcast or Xcast packet has routers copy it to all receivers that it lists. Routers with
//! the domain's key make copies only of packets that carry this proof: SipHash-2-4 (Aumasson and Bernstein,
//! 2012) over the sender, the addresses, and the time. It is short and fast enough for a router to check in
//! eBPF for each packet (`bpf/proof.h` is the same in C).
//!
//! The proof covers what routers do not change on the way: source, addresses, which of them are routers, the group or
//! channel, and the epoch. It does not cover ports and payload. So it is made once for a list and epoch, and all packets of the
//! list carry the same.
//!
//! Epochs are ten minutes long and counted by the clock of each host. A router takes those of the last, this and the next
//! epoch, so clocks may be ten minutes apart. A host that has seen a packet pass can send others to the same list for half an hour at most.

use std::{fmt, net::Ipv6Addr};

use siphasher::sip::SipHasher24;
use treecast_wire::{list_proof::ListProof, mead::Map};

/// Length of an epoch in seconds.
const EPOCH_SECONDS: u64 = 600;

/// The key of a domain's list proofs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListKey([u8; 16]);

/// The kinds of packets that a proof tells apart. The numbers are those in `bpf/proof.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A data packet of MEADcast.
    Mead = 0,
    /// A discovery request of MEADcast.
    Request = 1,
    /// A data packet of Xcast.
    Xcast = 2,
}

/// The parts of a packet that a proof covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<'a> {
    /// The kind of the packet.
    pub kind: Kind,
    /// The sender's address.
    pub source: Ipv6Addr,
    /// The group of a MEADcast packet, or the channel identifier of an Xcast packet; the unspecified address
    /// when there is none.
    pub group: Ipv6Addr,
    /// The places of the routers in MEADcast's list.
    pub routers: Map,
    /// All addresses of the list, at most 32.
    pub addresses: &'a [Ipv6Addr],
}

/// The reason why a proof does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The proof was made in an epoch that is over or has not begun.
    Stale,
    /// The code of the proof is wrong.
    Forged,
}

/// Returns the number of the epoch that a time belongs to. The time is in seconds since 1970.
pub fn epoch_at(unix_seconds: u64) -> u64 {
    unix_seconds / EPOCH_SECONDS
}

impl ListKey {
    /// The key is the first half of a derived one.
    pub(super) fn new(derived: &[u8; 32]) -> Self {
        Self(*derived.first_chunk().expect("32 bytes are more than 16"))
    }

    /// Returns the two halves of the key, as SipHash reads them.
    pub fn words(&self) -> [u64; 2] {
        let (low, high) = self.0.split_at(8);
        [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("8 bytes")))
    }

    /// Makes the proof of a list for an epoch.
    pub fn prove(&self, epoch: u64, listed: &Listed<'_>) -> ListProof {
        ListProof { epoch: epoch as u16, code: self.hash(epoch, listed).to_le_bytes() }
    }

    /// Checks the proof of a list; `now` is the number of the present epoch.
    ///
    /// # Errors
    /// What is wrong with the proof.
    pub fn check(&self, now: u64, proof: &ListProof, listed: &Listed<'_>) -> Result<(), Wrong> {
        let ahead = proof.epoch.wrapping_sub(now as u16) as i16;
        if !(-1..=1).contains(&ahead) {
            return Err(Wrong::Stale);
        }
        let epoch = now.wrapping_add_signed(ahead.into());
        if self.hash(epoch, listed).to_le_bytes() == proof.code { Ok(()) } else { Err(Wrong::Forged) }
    }

    fn hash(&self, epoch: u64, listed: &Listed<'_>) -> u64 {
        let Listed { kind, source, group, routers, addresses } = *listed;
        let fixed = [
            &source.octets()[..],
            &group.octets(),
            &epoch.to_be_bytes(),
            &routers.bits().to_be_bytes(),
            &[kind as u8, 0, 0, addresses.len() as u8],
        ];
        let mut message = fixed.concat();
        addresses.iter().for_each(|address| message.extend_from_slice(&address.octets()));
        SipHasher24::new_with_key(&self.0).hash(&message)
    }
}

impl fmt::Debug for ListKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explicit::authentication::DomainKey;

    const fn node(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
    }

    const LIST: [Ipv6Addr; 3] = [node(1), node(2), node(3)];
    const LISTED: Listed<'_> = Listed {
        kind: Kind::Mead,
        source: node(9),
        group: Ipv6Addr::UNSPECIFIED,
        routers: Map::EMPTY,
        addresses: &LIST,
    };

    #[test]
    fn only_the_list_that_was_proved_verifies() {
        let key = DomainKey::new(&[7; 32]).of_lists();
        let proof = key.prove(1000, &LISTED);
        assert_eq!(key.check(1000, &proof, &LISTED), Ok(()));
        for (what, other) in [
            ("kind", Listed { kind: Kind::Xcast, ..LISTED }),
            ("source", Listed { source: node(8), ..LISTED }),
            ("group", Listed { group: node(8), ..LISTED }),
            ("routers", Listed { routers: Map::of(0), ..LISTED }),
            ("fewer addresses", Listed { addresses: &LIST[..2], ..LISTED }),
            ("another order", Listed { addresses: &[node(2), node(1), node(3)], ..LISTED }),
        ] {
            assert_eq!(key.check(1000, &proof, &other), Err(Wrong::Forged), "{what}");
        }
        let other = DomainKey::new(&[8; 32]).of_lists();
        assert_eq!(other.check(1000, &proof, &LISTED), Err(Wrong::Forged));
        for bit in 0..64 {
            let mut changed = proof;
            changed.code[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.check(1000, &changed, &LISTED), Err(Wrong::Forged), "bit {bit}");
        }
    }

    /// Half an hour at most, also where the 16 bits on the wire begin anew, and not again when they come round.
    #[test]
    fn a_proof_holds_in_three_epochs() {
        let key = DomainKey::new(&[7; 32]).of_lists();
        for epoch in [1000, 0xffff, 0x1_0000, 0x1_ffff] {
            let proof = key.prove(epoch, &LISTED);
            let seen =
                [-2, -1, 0, 1, 2].map(|later| key.check(epoch.wrapping_add_signed(later), &proof, &LISTED));
            assert_eq!(seen, [Err(Wrong::Stale), Ok(()), Ok(()), Ok(()), Err(Wrong::Stale)], "{epoch}");
            assert_eq!(key.check(epoch + 0x1_0000, &proof, &LISTED), Err(Wrong::Forged), "455 days later");
        }
        assert_eq!((epoch_at(599), epoch_at(600), epoch_at(1_800_000_000)), (0, 1, 3_000_000));
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", DomainKey::new(&[7; 32]).of_lists()), "ListKey");
    }
}
