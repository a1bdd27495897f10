//! The receiver's side: sealed packets in; what is not the sender's, or came before, is counted and goes no further.

use treecast_proto::taken_counters::{COUNTERS, TakenCounters};
use treecast_wire::{
    message::GroupKey,
    seal::{KeyId, PREFIX_LEN, Prefix, SEALED_HEADER_LEN, TAG_LEN},
};

use super::key::{PacketKey, Secret};

/// Keys of a group that are known at a time: the one in use, the next, and the last, whose packets may be under way.
const MAX_GROUP_KEYS: usize = 3;

/// The most keys derived from a ticket's secret that are remembered: one for each sender, and for each member of a local
/// group, which may have 24 besides controllers of groups below.
const MAX_DERIVED_KEYS: usize = 64;

/// Opens packets with whichever key sealed them.
#[derive(Debug)]
pub struct Opener {
    secret: Option<Secret>,
    /// The one used last is the last.
    keys: Vec<Known>,
    refused: Refused,
    opened: Opened,
}

/// The key of the packets that were opened since [`Opener::begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Nothing,
    With(KeyId),
    WithSeveral,
}

#[derive(Debug)]
struct Known {
    id: KeyId,
    key: PacketKey,
    /// The counters that were taken. `None` in a carousel, which says everything again anyway. A member that seals
    /// with the sender's next counters would have the sender's own packets refused.
    taken: Option<TakenCounters>,
}

/// Packets that were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    /// The number of packets that the sender did not seal, that were changed on the way, whose key is not known
    /// or no longer known, or whose counter no sender uses.
    pub forged: u64,
    /// Sealed by the sender and taken before; not counted in a carousel.
    pub replayed: u64,
}

impl Opener {
    /// Knows no key before it is told one ([`Opener::add`]).
    pub fn for_group() -> Self {
        Self { secret: None, keys: Vec::new(), refused: Refused::default(), opened: Opened::Nothing }
    }

    /// Derives each key from a ticket's secret when the first packet sealed with it comes.
    pub fn with_secret(secret: Secret) -> Self {
        Self { secret: Some(secret), ..Self::for_group() }
    }

    /// Takes note of a key that the sender has told.
    pub fn add(&mut self, key: &GroupKey) {
        if self.keys.iter().all(|known| known.id != key.id) {
            self.remember(key.id, Secret::from(key.secret).key(key.id), MAX_GROUP_KEYS);
        }
    }

    /// Whether any packet could be opened. While not, packets are best left where they wait.
    pub fn has_keys(&self) -> bool {
        self.secret.is_some() || !self.keys.is_empty()
    }

    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Forgets which key has sealed the packets before.
    pub fn begin(&mut self) {
        self.opened = Opened::Nothing;
    }

    /// The key that has sealed all packets opened since [`Opener::begin`]. `None` if there were none, or several keys: the kernel joins
    /// packets that claim to come from one address.
    pub fn key(&self) -> Option<KeyId> {
        match self.opened {
            Opened::With(key) => Some(key),
            Opened::Nothing | Opened::WithSeveral => None,
        }
    }

    fn note_opened(&mut self, key: KeyId) {
        self.opened = match self.opened {
            Opened::With(before) if before != key => Opened::WithSeveral,
            Opened::WithSeveral => Opened::WithSeveral,
            Opened::Nothing | Opened::With(_) => Opened::With(key),
        };
    }

    /// Opens a payload in place. `head` is all that stood before it. False when the packet is not to be taken.
    pub fn open(&mut self, head: &[u8; SEALED_HEADER_LEN], payload: &mut [u8], tag: [u8; TAG_LEN]) -> bool {
        let Ok(prefix) = Prefix::parse(head) else { return false };
        if self.keys.last().is_none_or(|known| known.id != prefix.key) && !self.find(prefix.key) {
            return self.open_first(prefix, head, payload, tag);
        }
        let Some(known) = self.keys.last_mut() else { return false };
        if let Some(taken) = &known.taken
            && !taken.is_new(prefix.counter)
        {
            if prefix.counter < COUNTERS {
                self.refused.replayed += 1
            } else {
                self.refused.forged += 1
            }
            return false;
        }
        let is_open = known.key.open(prefix, head, payload, tag);
        match is_open {
            true => {
                known.taken.iter_mut().for_each(|taken| taken.take(prefix.counter));
                self.note_opened(prefix.key);
            }
            false => self.refused.forged += 1,
        }
        is_open
    }

    /// Opens a whole datagram in place, and returns the packet that was sealed.
    pub fn open_datagram<'a>(&mut self, datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let Some((head, rest)) = datagram.split_first_chunk_mut::<SEALED_HEADER_LEN>() else {
            self.refused.forged += 1;
            return None;
        };
        let Some((payload, tag)) = rest.split_last_chunk_mut::<TAG_LEN>() else {
            self.refused.forged += 1;
            return None;
        };
        let end = SEALED_HEADER_LEN + payload.len();
        self.open(head, payload, *tag).then(|| &mut datagram[PREFIX_LEN..end])
    }

    /// A packet of a key that is not known: with a secret it may be a sender's that has just started. Nothing is remembered
    /// before it has proved to be.
    fn open_first(
        &mut self,
        prefix: Prefix,
        head: &[u8; SEALED_HEADER_LEN],
        payload: &mut [u8],
        tag: [u8; TAG_LEN],
    ) -> bool {
        let key = self.secret.as_ref().map(|secret| secret.key(prefix.key));
        let Some(key) = key.filter(|key| key.open(prefix, head, payload, tag)) else {
            self.refused.forged += 1;
            return false;
        };
        self.remember(prefix.key, key, MAX_DERIVED_KEYS);
        self.note_opened(prefix.key);
        true
    }

    /// Makes a known key the last; whether it is known.
    fn find(&mut self, id: KeyId) -> bool {
        let Some(at) = self.keys.iter().position(|known| known.id == id) else { return false };
        self.keys[at..].rotate_left(1);
        true
    }

    fn remember(&mut self, id: KeyId, key: PacketKey, limit: usize) {
        if self.keys.len() >= limit {
            self.keys.remove(0);
        }
        let taken = self.secret.is_none().then(TakenCounters::default);
        self.keys.push(Known { id, key, taken });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Sealer, draw_group_key};

    fn packet() -> Vec<u8> {
        treecast_wire::message::Message::Goodbye.to_packet(treecast_wire::header::FileId(1))
    }

    fn sealed(sealer: &mut Sealer) -> Vec<u8> {
        let mut sealed = Vec::new();
        sealer.seal_packet(&packet(), &mut sealed).unwrap();
        sealed
    }

    fn takes(opener: &mut Opener, datagram: &[u8]) -> bool {
        opener.open_datagram(&mut datagram.to_vec()).is_some_and(|opened| opened == packet())
    }

    #[test]
    fn a_packet_counts_once_and_only_as_it_was_sealed() {
        let key = draw_group_key().unwrap();
        let mut opener = Opener::for_group();
        assert!(!opener.has_keys());
        opener.add(&key);
        assert!(opener.has_keys());
        let datagram = sealed(&mut Sealer::for_group(&key));
        for at in 0..datagram.len() {
            for bit in 0..8 {
                let mut changed = datagram.clone();
                changed[at] ^= 1 << bit;
                assert!(!takes(&mut opener, &changed), "byte {at}, bit {bit}");
            }
            assert!(!takes(&mut opener, &datagram[..at]), "cut after {at} bytes");
        }
        let forged = opener.refused().forged;
        assert_eq!(forged, 9 * datagram.len() as u64);
        assert!(takes(&mut opener, &datagram));
        assert!(!takes(&mut opener, &datagram));
        assert_eq!(opener.refused(), Refused { forged, replayed: 1 });
    }

    #[test]
    fn old_keys_are_forgotten_and_others_never_known() {
        let keys: Vec<_> = (0..4).map(|_| draw_group_key().unwrap()).collect();
        let mut opener = Opener::for_group();
        let mut sealers: Vec<_> = keys.iter().map(Sealer::for_group).collect();
        assert!(!takes(&mut opener, &sealed(&mut sealers[0])));
        keys.iter().for_each(|key| opener.add(key));
        let taken: Vec<_> = sealers.iter_mut().map(|sealer| takes(&mut opener, &sealed(sealer))).collect();
        assert_eq!(taken, [false, true, true, true]);
        // Told again, what was taken stays.
        let datagram = sealed(&mut sealers[3]);
        assert!(takes(&mut opener, &datagram));
        opener.add(&keys[3]);
        assert!(!takes(&mut opener, &datagram));
    }

    #[test]
    fn in_a_carousel_a_counter_that_a_member_has_used_hides_nothing() {
        let secret = Secret::draw().unwrap();
        let mut opener = Opener::with_secret(secret.clone());
        let id = draw_group_key().unwrap().id;
        let mut sealers = [(); 2].map(|()| Sealer::for_group(&GroupKey { id, secret: secret.bytes() }));
        for sealer in &mut sealers {
            assert!((0..3).all(|_| takes(&mut opener, &sealed(sealer))));
        }
        assert_eq!(opener.refused(), Refused::default());
    }

    #[test]
    fn a_key_is_named_that_alone_has_sealed_what_came() {
        let secret = Secret::draw().unwrap();
        let mut opener = Opener::with_secret(secret.clone());
        let keys = [(); 2].map(|()| draw_group_key().unwrap().id);
        let mut sealers = keys.map(|id| Sealer::for_group(&GroupKey { id, secret: secret.bytes() }));
        for _ in 0..2 {
            opener.begin();
            assert_eq!(opener.key(), None);
            assert!((0..3).all(|_| takes(&mut opener, &sealed(&mut sealers[0]))));
            assert_eq!(opener.key(), Some(keys[0]));
            assert!(
                takes(&mut opener, &sealed(&mut sealers[1])) && takes(&mut opener, &sealed(&mut sealers[0]))
            );
            assert_eq!(opener.key(), None, "two keys");
        }
    }

    #[test]
    fn strangers_leave_no_trace_in_a_carousels_memory() {
        let secret = Secret::draw().unwrap();
        let mut opener = Opener::with_secret(secret.clone());
        let mut sealer = Sealer::from_secret(secret).unwrap();
        assert!(takes(&mut opener, &sealed(&mut sealer)));
        for _ in 0..100 {
            let mut other = Sealer::from_secret(Secret::draw().unwrap()).unwrap();
            assert!(!takes(&mut opener, &sealed(&mut other)));
        }
        assert_eq!(opener.keys.len(), 1);
        assert!(takes(&mut opener, &sealed(&mut sealer)));
    }
}
