//! How multicast and retransmissions share what the session may send.
//!
//! The rate is for both together: on a link that multicast fills by itself, retransmissions on top would
//! push packets of the multicast out of the queue, for all receivers, who then ask for yet more. While
//! there is something to multicast, retransmissions get a share of it only: a receiver that loses much, comes late
//! or was stopped must not hold up all others.

/// Who goes first when the rate is not enough for both (interdomain-2013, 4.7.2, figures 4.12 and 4.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Multicast: retransmissions take what it leaves, and at least a [`LEAST_SHARE`]th. Fast receivers do not
    /// notice slow ones, and all together take no longer.
    #[default]
    Multicast,
    /// Retransmissions get up to the half: slow receivers fall less far behind.
    Fair,
}

/// With [`Priority::Multicast`], retransmissions get one byte for so many of multicast, whatever happens: enough that no
/// receiver seems to have stalled, and too little for the others to notice.
pub const LEAST_SHARE: u64 = 64;

/// The most bytes that retransmissions save up: no more than a small queue holds, for they leave at once.
const MAX_CREDIT_BYTES: i64 = 128 * 1024;

/// The share of retransmissions, by bytes: each of multicast lets one of them, or a part of one, leave.
#[derive(Debug)]
pub(super) struct RepairShare {
    /// Bytes of multicast that let one byte of retransmissions leave.
    price: i64,
    /// In bytes of multicast; negative after more than was there has left at once.
    credit: i64,
    /// Nothing can be multicast now.
    multicast_waits: bool,
}

impl RepairShare {
    pub fn new(priority: Priority) -> Self {
        let price = match priority {
            Priority::Multicast => LEAST_SHARE as i64,
            Priority::Fair => 1,
        };
        Self { price, credit: 0, multicast_waits: false }
    }

    pub fn multicast_sent(&mut self, bytes: u64) {
        self.multicast_waits = false;
        self.credit = self.credit.saturating_add_unsigned(bytes).min(MAX_CREDIT_BYTES * self.price);
    }

    /// All is multicast, or the receivers have to catch up first.
    pub fn multicast_waits(&mut self) {
        self.multicast_waits = true;
    }

    pub fn repaired(&mut self, bytes: u64) {
        // What leaves while nothing can be multicast costs the multicast nothing.
        if !self.multicast_waits {
            let cost = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(self.price);
            self.credit = self.credit.saturating_sub(cost).max(-MAX_CREDIT_BYTES * self.price);
        }
    }

    /// Whether retransmissions may leave, given that the rate leaves room for more bytes now or not. While there
    /// is multicast it waits for the rate, and pays for what leaves on credit; when there is none,
    /// retransmissions have to wait themselves.
    pub fn may_leave(&self, has_rate: impl FnOnce() -> bool) -> bool {
        if self.multicast_waits { has_rate() } else { self.credit > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes of retransmissions leave beside 6 MB of multicast.
    fn repairs(priority: Priority) -> u64 {
        let mut share = RepairShare::new(priority);
        let mut repairs = 0;
        for _ in 0..100 {
            share.multicast_sent(60_000);
            while share.may_leave(|| true) {
                share.repaired(50_000);
                repairs += 50_000;
            }
        }
        assert!(!share.may_leave(|| true));
        share.multicast_waits();
        share.repaired(1 << 30);
        assert!(share.may_leave(|| true));
        assert!(!share.may_leave(|| false), "the rate is for them, too");
        repairs
    }

    #[test]
    fn retransmissions_get_half_or_a_little_while_there_is_multicast_and_all_afterwards() {
        let fair = repairs(Priority::Fair);
        assert!((6_000_000..6_100_000).contains(&fair), "{fair}");
        let little = repairs(Priority::Multicast);
        assert!((50_000..=6_000_000 / LEAST_SHARE + 50_000).contains(&little), "{little}");
    }

    #[test]
    fn what_was_not_used_is_saved_up_only_so_far() {
        for priority in [Priority::Multicast, Priority::Fair] {
            let mut share = RepairShare::new(priority);
            share.multicast_sent(u64::MAX);
            share.repaired(MAX_CREDIT_BYTES as u64);
            assert!(!share.may_leave(|| true));
        }
    }
}
