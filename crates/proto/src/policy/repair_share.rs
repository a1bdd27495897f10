//! Shares the rate of a session between multicast and retransmissions.
//!
//! The rate is for both together. If multicast alone fills a link, additional retransmissions would push
//! multicast packets out of the queue, for all receivers, which would then ask for even more. While there is
//! something to multicast, retransmissions get only a share of the rate. So a receiver that loses much, comes
//! late or was stopped does not hold up the others.
//!
//! A rate that congestion control finds (`--rate auto`) is for the group. While there is nothing to multicast,
//! no receiver reports on it, and the last rate would hold until everything is mended. Then each connection's
//! TCP alone decides how much may leave.

/// The order of multicast and retransmissions if the rate is not enough for both (interdomain-2013, 4.7.2,
/// figures 4.12 and 4.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Priority {
    /// Multicast goes first. Retransmissions get what it leaves, and at least a [`LEAST_SHARE`]th. So slow
    /// receivers do not slow down fast ones, and all together take no longer. When half of an object's time for
    /// retransmissions is over, they get up to half of the rate.
    #[default]
    Multicast,
    /// Retransmissions get up to half of the rate, so that slow receivers fall less far behind.
    Fair,
}

/// The divisor of the smallest share of retransmissions with [`Priority::Multicast`]. One byte for this many of
/// multicast is enough to show that no receiver has stalled, and too little to affect the others.
pub const LEAST_SHARE: u64 = 64;

/// The most bytes that retransmissions save up: no more than a small queue holds, for they leave at once.
const MAX_CREDIT_BYTES: i64 = 128 * 1024;

/// The share of retransmissions, by bytes.
#[derive(Debug)]
pub struct RepairShare {
    priority: Priority,
    /// A byte of multicast lets one of retransmissions leave.
    half: Credit,
    /// [`LEAST_SHARE`] bytes of multicast do.
    least: Credit,
    /// Nothing can be multicast now.
    multicast_waits: bool,
    /// The rate is congestion control's, and not one that was given.
    is_auto: bool,
}

impl RepairShare {
    /// Creates the share. `is_auto` says that congestion control determines the rate.
    pub fn new(priority: Priority, is_auto: bool) -> Self {
        let credit = |price: u64| Credit { price: price as i64, bytes: 0 };
        Self { priority, half: credit(1), least: credit(LEAST_SHARE), multicast_waits: false, is_auto }
    }

    pub fn multicast_sent(&mut self, bytes: u64) {
        self.multicast_waits = false;
        self.half.earn(bytes);
        self.least.earn(bytes);
    }

    /// Notes that multicast waits: everything is sent, or the receivers must catch up first.
    pub fn multicast_waits(&mut self) {
        self.multicast_waits = true;
    }

    /// Notes bytes of retransmissions. Returns whether they count for the rate.
    #[must_use]
    pub fn repaired(&mut self, bytes: u64) -> bool {
        // What leaves while nothing can be multicast costs the multicast nothing.
        if !self.multicast_waits {
            self.half.spend(bytes);
            self.least.spend(bytes);
        }
        !self.is_tcps()
    }

    /// Whether TCP alone says how much may leave.
    fn is_tcps(&self) -> bool {
        self.is_auto && self.multicast_waits
    }

    /// Whether retransmissions may leave. `has_room` says whether the rate leaves room for more bytes now.
    /// While there is multicast, it waits for the rate, and retransmissions are charged to it. Without
    /// multicast, retransmissions themselves wait for a constant rate.
    pub fn may_leave(&self, is_urgent: impl FnOnce() -> bool, has_rate: impl FnOnce() -> bool) -> bool {
        if self.multicast_waits {
            return self.is_tcps() || has_rate();
        }
        let half = self.half.bytes > 0;
        half && (self.priority == Priority::Fair || self.least.bytes > 0 || is_urgent())
    }
}

/// The credit of retransmissions: what they may still cost.
#[derive(Debug)]
struct Credit {
    /// Bytes of multicast that let one byte of retransmissions leave.
    price: i64,
    /// Credit in bytes of multicast. It is negative after more has left at once than was there.
    bytes: i64,
}

impl Credit {
    fn earn(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add_unsigned(bytes).min(MAX_CREDIT_BYTES * self.price);
    }

    fn spend(&mut self, bytes: u64) {
        let cost = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(self.price);
        self.bytes = self.bytes.saturating_sub(cost).max(-MAX_CREDIT_BYTES * self.price);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of bytes of retransmissions that leave beside 6 MB of multicast.
    fn repairs(priority: Priority, is_urgent: bool) -> u64 {
        let mut share = RepairShare::new(priority, false);
        let mut repairs = 0;
        for _ in 0..100 {
            share.multicast_sent(60_000);
            while share.may_leave(|| is_urgent, || true) {
                assert!(share.repaired(50_000));
                repairs += 50_000;
            }
        }
        assert!(!share.may_leave(|| is_urgent, || true));
        share.multicast_waits();
        assert!(share.repaired(1 << 30));
        assert!(share.may_leave(|| false, || true));
        assert!(!share.may_leave(|| true, || false), "the rate is for them, too");
        repairs
    }

    #[test]
    fn retransmissions_get_half_or_a_little_while_there_is_multicast_and_all_afterwards() {
        for half in [repairs(Priority::Fair, false), repairs(Priority::Multicast, true)] {
            assert!((6_000_000..6_100_000).contains(&half), "{half}");
        }
        let little = repairs(Priority::Multicast, false);
        assert!((50_000..=6_000_000 / LEAST_SHARE + 50_000).contains(&little), "{little}");
    }

    #[test]
    fn with_an_auto_rate_tcp_alone_says_what_leaves_while_nothing_is_multicast() {
        let mut share = RepairShare::new(Priority::Multicast, true);
        share.multicast_sent(LEAST_SHARE * 50_000);
        assert!(share.repaired(50_000), "it counts for the rate while there is multicast");
        assert!(!share.may_leave(|| false, || true));
        share.multicast_waits();
        assert!(share.may_leave(|| false, || false) && !share.repaired(1 << 30));
        share.multicast_sent(LEAST_SHARE * 1_000);
        assert!(share.may_leave(|| false, || true) && share.repaired(1_000), "nothing of that is owed");
        assert!(!share.may_leave(|| false, || true));
    }

    #[test]
    fn what_was_not_used_is_saved_up_only_so_far() {
        for priority in [Priority::Multicast, Priority::Fair] {
            let mut share = RepairShare::new(priority, false);
            share.multicast_sent(u64::MAX);
            assert!(share.repaired(MAX_CREDIT_BYTES as u64));
            assert!(!share.may_leave(|| true, || true));
        }
    }
}
