//! Errors of options that do not go together. The reader of an error must know which option helps.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use thiserror::Error;
use treecast_wire::{
    message::MAX_LOCAL_MEMBERS,
    ticket::{Fanout, MAX_GROUPS, Repair},
};

use crate::words::counted;

/// The largest number of repair symbols for 100 blocks. Above it, sending everything two or three times costs
/// less.
pub const MAX_FEC_PERCENT: u32 = 300;

/// The shortest block in bytes. It holds the longest control message to the group, which is a signed reason.
pub const MIN_BLOCK_LEN: u16 = 580;

/// Options that do not go together, or not with this host.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    #[error("cannot read paths from {}: {why}", path.display())]
    Feed { path: PathBuf, why: String },
    #[error("several rates are fixed, 2 to {MAX_GROUPS} of them, and each is lower than the one before")]
    Rates,
    #[error("several rates need multicast groups")]
    RatesWithoutGroup,
    #[error("receivers miss something when they move to another rate, and nothing mends that")]
    RatesUnmended,
    #[error("several rates need as many group addresses, one behind the other")]
    TooFewGroups,
    #[error("a carousel hears nothing of its receivers, and cannot follow them with its rate")]
    CarouselRate,
    #[error("nobody tells a carousel by {0} where its receivers are")]
    CarouselReceivers(Fanout),
    #[error("a carousel by multicast has no use for the addresses of receivers")]
    NamedReceivers,
    #[error("the IoT updater's receivers listen to a multicast group")]
    IotupFanout,
    #[error("the IoT updater's frames carry one file, and there are {0}: name one")]
    IotupFiles(usize),
    #[error(
        "without multicast a local group has a controller and at most {MAX_LOCAL_MEMBERS} other members, and one has {0}"
    )]
    LocalGroupSize(usize),
    #[error(
        "a session with local groups begins at its highest rate, which is a number, and goes down where receivers lose too much"
    )]
    LocalRate,
    #[error(
        "TFMCC needs receivers that report to the sender, and those of local groups report to each other"
    )]
    LocalTfmcc,
    #[error("the floor of {floor_bps} bit/s is above the rate of {rate_bps} bit/s")]
    Floor { floor_bps: u64, rate_bps: u64 },
    #[error(
        "a lowest rate says whom a rate that follows receivers does not wait for, and this one follows nobody"
    )]
    FloorWithoutAuto,
    #[error("a session without security has no keys")]
    PlainKeys,
    #[error("a session that waits for {} starts with at least 1 of them, and at most all", counted(*waits_for as usize, "receiver"))]
    AtLeast { waits_for: u32 },
    #[error(
        "a feed has no end by which receivers have everything, and receivers of carousels and local groups do not say what they have: give up none of them"
    )]
    GiveUp,
    #[error("a session with local groups has one rate, which follows the slowest group")]
    LocalRates,
    #[error("local groups mend losses without repair symbols")]
    LocalFec,
    #[error("a session with local groups cannot be gone on with by another sender")]
    LocalSession,
    #[error(
        "the addresses of local groups lie around the session's own, in 239.0.0.0/8 or in an IPv6 scope, and not in a range for one source"
    )]
    LocalGroup,
    #[error("neither local groups nor the IoT updater's receivers take compressed files")]
    Compression,
    #[error(
        "updates by difference need receivers that say what they lack, or a carousel of treecast's own packets"
    )]
    DifferenceRepair,
    #[error("an object is sent by difference or compressed, not both")]
    DifferenceCompression,
    #[error("nothing is known of a feed's objects before they come, so they are not sent by difference")]
    DifferenceFeed,
    #[error("updates by difference have one rate")]
    DifferenceRates,
    #[error("updates by difference send what is lacking once, and mend losses without repair symbols")]
    DifferenceFec,
    /// The file of groups does not go with the session's receivers, for this reason.
    #[error("{0}")]
    LocalGroups(String),
    #[error("{0} % of repair symbols do not do: a session may have 1 % to {MAX_FEC_PERCENT} %")]
    FecShare(u32),
    #[error(
        "from its second loop on, a carousel with forward error correction sends nothing but repair symbols"
    )]
    CarouselShare,
    #[error("{name} is too large for repair symbols with blocks of {block_len} bytes")]
    FecSize { name: String, block_len: u16 },
    /// This host cannot make packets with address lists, for this reason.
    #[error("{0}")]
    Lists(String),
    #[error("source {from} and group {group} are of two families: name both of one")]
    Families { from: IpAddr, group: IpAddr },
    #[error("source {from} is no address of interface {interface}: name one of it")]
    ForeignSource { from: IpAddr, interface: String },
    #[error(
        "blocks of {block_len} bytes do not do on interface {interface} (MTU {mtu}): they may have {least} to {fits}"
    )]
    Block { block_len: u16, interface: String, mtu: u32, least: u16, fits: u16 },
    #[error(
        "interface {interface} (MTU {mtu}) has room for blocks of {fits} bytes, and this session needs at least {least}: \
         raise its MTU with `ip link set {interface} mtu 1500`, or name another interface"
    )]
    SmallMtu { interface: String, mtu: u32, least: u16, fits: u16 },
    #[error("interface {0} has no address that receivers could connect to")]
    NoControl(String),
    #[error("the session was begun at {0}, where its receivers look for it")]
    OtherControl(SocketAddr),
}

impl OptionsError {
    /// Refuses a share of repair symbols, in percent, that no session or no carousel can have.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_share(percent: u32, is_carousel: bool) -> Result<(), Self> {
        match percent {
            _ if is_carousel => Err(Self::CarouselShare),
            1..=MAX_FEC_PERCENT => Ok(()),
            _ => Err(Self::FecShare(percent)),
        }
    }
    /// Refuses several rates, in bits a second, that a delivery cannot have.
    ///
    /// # Errors
    /// The reason why they are refused.
    pub fn check_rates(rates_bps: &[u64], is_multicast: bool, repair: Repair) -> Result<(), Self> {
        let is_falling = rates_bps.windows(2).all(|pair| pair[0] > pair[1]) && !rates_bps.contains(&0);
        match repair {
            _ if !(2..=usize::from(MAX_GROUPS)).contains(&rates_bps.len()) || !is_falling => Err(Self::Rates),
            _ if !is_multicast => Err(Self::RatesWithoutGroup),
            Repair::None => Err(Self::RatesUnmended),
            _ => Ok(()),
        }
    }
}
