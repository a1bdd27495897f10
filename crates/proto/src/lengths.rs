//! Loss by the length of packets. A link whose ends disagree on its MTU carries short packets and drops long ones, and tells nobody.
//! Then messages arrive, and nothing that the session is about does. Such a receiver must not count as one that hears the group.

use crate::tfmcc::Arrived;

/// The packets that are lost, as the numbers of others tell, before full ones are taken to be lost for their length.
const LEAST_LOST: u64 = 64;

/// The short packets that arrive behind lost ones, without a full one among them. A path that was dark for a while has one.
const LEAST_SHORT: u64 = 3;

/// The multiple of both where a full packet has arrived before. On a link that is too slow for the session, few full packets arrive, and
/// short ones find room between them. Doubled, a path that gets a smaller MTU during a session is found out later.
const AFTER_FULL: u64 = 16;

/// The packets of one group that have arrived since its last full packet.
#[derive(Debug, Clone, Default)]
pub struct Lengths {
    /// The number that the next packet has, if none is lost.
    next: Option<u32>,
    lost: u64,
    /// The number of gaps behind which a packet has arrived.
    gaps: u64,
    /// Whether a full packet has ever arrived.
    has_full: bool,
}

impl Lengths {
    /// Takes note of packets that have arrived, by their numbers. Call [`Self::full`] after this if one of them was full.
    pub fn arrived(&mut self, packets: Arrived) {
        let ahead = self.next.map_or(0, |next| packets.first.wrapping_sub(next) as i32);
        if ahead >= 0 {
            self.lost += ahead as u64;
            self.gaps += u64::from(ahead > 0);
            self.next = Some(packets.first.wrapping_add(packets.count));
        }
    }

    /// A packet as long as the session's packets can be has arrived.
    pub fn full(&mut self) {
        (self.lost, self.gaps, self.has_full) = (0, 0, true);
    }

    /// The receiver listens to another group, which numbers its packets by itself.
    pub fn moved(&mut self) {
        *self = Self::default();
    }

    /// Whether full packets get lost and short ones do not.
    pub fn are_full_lost(&self) -> bool {
        let times = if self.has_full { AFTER_FULL } else { 1 };
        self.lost >= LEAST_LOST * times && self.gaps >= LEAST_SHORT * times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(lengths: &mut Lengths, first: u32, count: u32) {
        lengths.arrived(Arrived { first, count, marked: false });
    }

    /// A message behind each run of ten full packets, from the packet with this number on.
    fn messages(lengths: &mut Lengths, from: u32, runs: u32) -> bool {
        (0..runs).for_each(|run| arrive(lengths, from.wrapping_add(run * 11), 1));
        lengths.are_full_lost()
    }

    #[test]
    fn full_packets_are_lost_when_many_numbers_lack_and_only_short_ones_come() {
        let mut lengths = Lengths::default();
        let first = u32::MAX - 20;
        assert!(!messages(&mut lengths, first, 7), "60 are lost");
        assert!(messages(&mut lengths, first.wrapping_add(77), 1), "70 are");
        lengths.full();
        assert!(!messages(&mut lengths, first.wrapping_add(88), 6));
    }

    #[test]
    fn a_slow_link_has_no_smaller_mtu() {
        // One packet of a hundred arrives. Every tenth of them is full.
        let mut lengths = Lengths::default();
        lengths.full();
        for number in 0..1_000 {
            arrive(&mut lengths, number * 100, 1);
            if number % 10 == 0 {
                lengths.full();
            }
            assert!(!lengths.are_full_lost(), "{number}");
        }
        assert!(messages(&mut lengths, 100_000, 110), "then the MTU becomes smaller");
    }

    #[test]
    fn a_path_that_loses_everything_or_little_says_nothing_of_lengths() {
        let mut lengths = Lengths::default();
        arrive(&mut lengths, 0, 1);
        (5_000..5_020).for_each(|number| arrive(&mut lengths, number, 1));
        assert!(!lengths.are_full_lost(), "it was dark, and then came messages that end an object");
        let mut lengths = Lengths::default();
        for number in (0..10_000).filter(|number| number % 3 > 0) {
            arrive(&mut lengths, number, 1);
            if number % 10 > 0 {
                lengths.full();
            }
            assert!(!lengths.are_full_lost());
        }
        arrive(&mut lengths, 9_000, 1);
        assert!(!lengths.are_full_lost(), "one that was late");
    }

    #[test]
    fn another_group_counts_anew() {
        let mut lengths = Lengths::default();
        assert!(messages(&mut lengths, 0, 20));
        lengths.moved();
        arrive(&mut lengths, 1 << 30, 20);
        assert!(!lengths.are_full_lost());
    }
}
