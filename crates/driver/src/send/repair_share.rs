//! How multicast and retransmissions share what the session may send.
//!
//! The rate is for both together: on a link that multicast fills by itself, retransmissions on top would
//! push packets of the multicast out of the queue, for all receivers, who then ask for yet more. And
//! while there is something to multicast, retransmissions get no more than the half: a receiver that
//! loses much, or comes late, must not hold up all others.

/// The most bytes that retransmissions save up: no more than a small queue holds, for they leave at once.
const MAX_CREDIT_BYTES: u64 = 128 * 1024;

/// The share of retransmissions, by bytes: each byte of multicast lets one byte of them leave.
#[derive(Debug, Default)]
pub(super) struct RepairShare {
    credit_bytes: u64,
    /// Nothing can be multicast now.
    multicast_waits: bool,
}

impl RepairShare {
    pub fn multicast_sent(&mut self, bytes: u64) {
        self.multicast_waits = false;
        self.credit_bytes = (self.credit_bytes + bytes).min(MAX_CREDIT_BYTES);
    }

    /// All is multicast, or the receivers have to catch up first.
    pub fn multicast_waits(&mut self) {
        self.multicast_waits = true;
    }

    pub fn repaired(&mut self, bytes: u64) {
        self.credit_bytes = self.credit_bytes.saturating_sub(bytes);
    }

    /// Whether retransmissions may leave, given that the rate leaves room for more bytes now or not. While there
    /// is multicast it waits for the rate, and pays for what leaves on credit; when there is none,
    /// retransmissions have to wait themselves.
    pub fn may_leave(&self, has_rate: impl FnOnce() -> bool) -> bool {
        if self.multicast_waits { has_rate() } else { self.credit_bytes > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_get_half_while_there_is_multicast_and_all_afterwards() {
        let mut share = RepairShare::default();
        let (mut multicast, mut repairs) = (0, 0);
        for _ in 0..100 {
            share.multicast_sent(60_000);
            multicast += 60_000;
            while share.may_leave(|| true) {
                share.repaired(50_000);
                repairs += 50_000;
            }
        }
        assert!(repairs >= multicast && repairs < multicast * 2, "{repairs} of {multicast}");
        assert!(!share.may_leave(|| true));
        share.multicast_waits();
        share.repaired(1 << 30);
        assert!(share.may_leave(|| true));
        assert!(!share.may_leave(|| false), "the rate is for them, too");
    }

    #[test]
    fn what_was_not_used_is_saved_up_only_so_far() {
        let mut share = RepairShare::default();
        share.multicast_sent(1 << 40);
        share.repaired(MAX_CREDIT_BYTES);
        assert!(!share.may_leave(|| true));
    }
}
