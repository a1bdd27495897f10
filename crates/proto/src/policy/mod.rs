//! The decisions of a host beside its machines: how fast packets leave, how retransmissions share the rate, and how long a
//! sender and a receiver wait for each other.
//!
//! Everything here is a pure function of time and numbers. A host's sessions and simulated ones obey the same rules.

mod pacer;
mod repair_share;

use std::time::Duration;

pub use self::{
    pacer::{
        BURST_BYTES, Pacer, ip_overhead, packets_per_run, packets_per_smooth_run, spread_bps, tcp_bytes,
    },
    repair_share::{LEAST_SHARE, Priority, RepairShare},
};
use crate::fec::Share;

/// The longest time for which each end of a connection is silent. A receiver speaks while an object is under way, and its
/// sender at any time.
pub const KEEPALIVE: Duration = Duration::from_secs(5);

/// The time for which a receiver may be silent while it owes its sender an answer. A live receiver speaks every
/// [`KEEPALIVE`], and one that lost its network comes back as soon as it can (`docs/decisions/moving-receivers.md`).
pub const SENDER_STALL_LIMIT: Duration = Duration::from_secs(120);

/// The time without anything on the connection after which a receiver looks for its sender again. A live sender speaks
/// every [`KEEPALIVE`].
pub const RECEIVER_STALL_LIMIT: Duration = Duration::from_secs(15);

/// The wanted size of a receiver's socket buffer, in bytes: a few milliseconds at 10 Gbit/s, and as far as a sender runs
/// ahead.
pub const RECEIVE_BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// The longest time between two reports of a receiver that gets something new.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// The part of its receive buffer after which a receiver reports: one of this many, a quarter of what the sender may run
/// ahead. More reports cost the sender's link: their acknowledgements for 40 receivers were 0.4 % of 100 Mbit/s.
pub const REPORT_SHARE: usize = 8;

/// The time for which a sender waits for a receiver that holds the others up and reports nothing, or takes less than it
/// could at the lowest rate.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// The time, beside a round trip, for which a receiver may hear nothing of what leaves until it gets unicast again.
/// Reports come every 100 ms, and some late.
pub const UNHEARD_LIMIT: Duration = Duration::from_millis(300);

/// The largest number of objects that are multicast at the same time.
pub const AT_ONCE: usize = 64;

/// The highest rate, in bits a second, at which repair symbols replace lost blocks without being asked for. One
/// core decodes about 3 Gbit/s, and a receiver with any loss must decode nearly everything.
pub const MOST_CODED_BPS: u64 = 400_000_000;

/// Returns the forward error correction that costs least, for a session that nobody has told what to take. Symbols
/// replace lost blocks where one packet reaches all receivers, and computing them keeps up with the rate.
///
/// `has_requests` says whether receivers of one group ask for what they lack at once (repair `nack`). `rate_bps` is the
/// rate that the session begins with, in bits a second: 0 if it has yet to be found, and `None` if nothing limits it.
pub fn default_fec(has_requests: bool, rate_bps: Option<u64>) -> Option<Share> {
    let keeps_up = rate_bps.is_some_and(|rate| rate <= MOST_CODED_BPS);
    (keeps_up && has_requests).then_some(Share::Needed)
}

/// The time by which a sender of local groups runs ahead of the slowest one: reports come every 500 ms, and by way of
/// controllers.
const AHEAD: Duration = Duration::from_secs(3);

/// The shortest distance by which it runs ahead, in bytes.
const LEAST_AHEAD_BYTES: u64 = 1 << 20;

/// Returns the number of bytes by which a sender of local groups runs ahead of the slowest group, at a rate in bits of
/// objects a second.
pub fn local_window_bytes(rate_bps: u64) -> u64 {
    (rate_bps / 8 * AHEAD.as_secs()).max(LEAST_AHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_the_default_where_requests_are_answered_at_a_rate_that_decoding_bears() {
        let cases = [
            (true, Some(0), true),
            (true, Some(MOST_CODED_BPS), true),
            (true, Some(MOST_CODED_BPS + 1), false),
            (true, None, false),
            (false, Some(1_000_000), false),
        ];
        for (has_requests, rate_bps, expected) in cases {
            let share = default_fec(has_requests, rate_bps);
            assert_eq!(share.is_some(), expected, "{has_requests} {rate_bps:?}");
        }
    }

    #[test]
    fn a_sender_of_local_groups_runs_ahead_by_three_seconds_and_a_mebibyte_at_least() {
        assert_eq!(local_window_bytes(80_000_000), 30_000_000);
        assert_eq!(local_window_bytes(1_000), 1 << 20);
    }
}
