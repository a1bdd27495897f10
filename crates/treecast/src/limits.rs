//! Ranges and defaults of options, for programs that let a person choose.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use treecast_driver::{coding, connection::KEEPALIVE, receive, send, udp};
use treecast_wire::{iotup, ticket};

use crate::{Error, ErrorKind};

/// The levels of zstd at which objects can be compressed.
pub const COMPRESSION_LEVELS: RangeInclusive<i32> = coding::LEVELS;

/// The time for which a receiver looks for a sender that is away, unless an option says otherwise.
pub const RECONNECT_TIME: Duration = receive::RECONNECT_TIME;

/// The largest share of repair symbols: so many for 100 blocks.
pub const MAX_FEC_PERCENT: u32 = send::MAX_FEC_PERCENT;

/// The largest number of receivers from one address, unless an option says otherwise.
pub const PER_ADDRESS: u32 = send::PER_ADDRESS;

/// The rates that a session can have, in bits of IP packets a second.
pub const RATES_BPS: RangeInclusive<u64> = send::RATES_BPS;

/// The hop limit of multicast packets, unless an option says otherwise.
pub const DEFAULT_MULTICAST_HOPS: u32 = udp::DEFAULT_MULTICAST_HOPS;

/// The UDP port of the IoT updater.
pub const IOTUP_PORT: u16 = iotup::PORT;

/// The largest number of groups of a session with several rates.
pub const MAX_GROUPS: u8 = ticket::MAX_GROUPS;

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

/// Refuses the value of an option that is not within its range.
pub(crate) fn within<T: PartialOrd + Display>(
    option: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Error::new(ErrorKind::Options, format!("the {option} {value} is no number from {least} to {most}")))
}

/// The highest rate of a session with local groups, in bits a second, unless an option says otherwise. The sender begins far
/// below it.
pub const LOCAL_RATE_BPS: u64 = 100_000_000;

/// The rate of a carousel that nobody has set, in bits a second. A carousel cannot slow down for anybody, and a switch without
/// snooping sends it to every port. This is half of a port of 100 Mbit/s, the slowest that wired networks commonly have.
pub const CAROUSEL_RATE_BPS: u64 = 50_000_000;
