//! Ranges and defaults of options, for programs that let a person choose.

use std::{ops::RangeInclusive, time::Duration};

use treecast_driver::{connection::KEEPALIVE, receive, send};

pub use treecast_driver::{
    coding::LEVELS as COMPRESSION_LEVELS,
    receive::RECONNECT_TIME,
    send::{MAX_FEC_PERCENT, PER_ADDRESS, RATES_BPS},
    udp::DEFAULT_MULTICAST_HOPS,
};
/// The UDP port of the IoT updater.
pub use treecast_wire::iotup::PORT as IOTUP_PORT;
/// The largest number of groups of a session with several rates.
pub use treecast_wire::ticket::MAX_GROUPS;

/// The lengths that a block can have, in bytes. The interface's MTU may allow less.
pub const BLOCK_LENS: RangeInclusive<usize> =
    send::MIN_BLOCK_LEN as usize..=treecast_wire::header::MAX_PAYLOAD_LEN;

/// The shortest stall limit. A live sender or receiver speaks twice in this time.
pub const LEAST_STALL_LIMIT: Duration = Duration::from_secs(2 * KEEPALIVE.as_secs());

/// The stall limit of a receiver, unless an option says otherwise.
pub const RECEIVER_STALL_LIMIT: Duration = receive::STALL_LIMIT;

/// The longest time that an option can have: 100 years. A longer one counts as this.
pub const LONGEST_TIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The time of an option, so short that no clock overflows when it is added to the present.
pub(crate) fn bounded(time: Duration) -> Duration {
    time.min(LONGEST_TIME)
}

/// The highest rate of a session with local groups, in bits a second, unless an option says otherwise. The sender begins far
/// below it.
pub const LOCAL_RATE_BPS: u64 = 100_000_000;

/// The rate of a carousel that nobody has set, in bits a second. A carousel cannot slow down for anybody, and a switch without
/// snooping sends it to every port. This is half of a port of 100 Mbit/s, the slowest that wired networks commonly have.
pub const CAROUSEL_RATE_BPS: u64 = 50_000_000;
