//! Errors of options that do not go together. The reader of an error must know which option helps.

use std::{borrow::Cow, net::IpAddr, path::PathBuf};

use thiserror::Error;
use treecast_wire::ticket::{MAX_GROUPS, Repair};

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
    /// The session cannot have an option beside its others.
    #[error("{why}")]
    Misfit { setting: Setting, instead: Option<Instead>, why: Cow<'static, str> },
    #[error("several rates are fixed, 2 to {MAX_GROUPS} of them, and each is lower than the one before")]
    Rates,
    #[error("the floor of {floor_bps} bit/s is above the rate of {rate_bps} bit/s")]
    Floor { floor_bps: u64, rate_bps: u64 },
    #[error("a session that waits for {} starts with at least 1 of them, and at most all", counted(*waits_for as usize, "receiver"))]
    AtLeast { waits_for: u32 },
    #[error("cannot read paths from {}: {why}", path.display())]
    Feed { path: PathBuf, why: String },
    #[error("the IoT updater's frames carry one file, and there are {0}: name one")]
    IotupFiles(usize),
    /// The file of groups does not go with the session's receivers or its fanout, for this reason.
    #[error("{0}")]
    LocalGroups(String),
    #[error("{0} % of repair symbols do not do: a session may have 1 % to {MAX_FEC_PERCENT} %")]
    FecShare(u32),
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
}

/// An option that some sessions cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setting {
    Fanout,
    /// The addresses of receivers.
    Receivers,
    Rate,
    RateFloor,
    /// Several rates.
    Rates,
    /// Repair symbols.
    Fec,
    /// The group's address.
    Group,
    /// The file with the session's state.
    Session,
    Compression,
    /// Updates by difference.
    Difference,
    /// A session without security.
    Plain,
    /// Keys of the sender or of its receivers.
    Keys,
    /// The time after which receivers are given up.
    GiveUp,
}

/// What else a session can have in place of an option that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instead {
    /// Multicast as the fanout.
    Multicast,
    /// Another fanout.
    OtherFanout,
    /// The addresses of receivers.
    Receivers,
    /// A repair that mends losses: retransmissions, or a carousel.
    Mending,
    /// Retransmissions.
    Retransmissions,
    /// A rate that is a number.
    Number,
    /// A rate that follows receivers.
    Following,
    /// As many repair symbols as are needed.
    Auto,
    /// Another group.
    OtherGroup,
    /// No keys.
    NoKeys,
    /// No compression.
    NoCompression,
    /// No several rates.
    NoRates,
    /// No repair symbols.
    NoSymbols,
    /// Packets of treecast's own, and not the IoT updater's.
    OwnPackets,
}

impl OptionsError {
    /// An option that the session cannot have, for this reason.
    pub fn misfit(
        setting: Setting,
        instead: impl Into<Option<Instead>>,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Misfit { setting, instead: instead.into(), why: why.into() }
    }

    /// A share of repair symbols in a carousel.
    pub fn carousel_share() -> Self {
        let why = "from its second loop on, a carousel with forward error correction sends nothing but repair symbols";
        Self::misfit(Setting::Fec, Instead::Auto, why)
    }

    /// Refuses a share of repair symbols, in percent, that no session or no carousel can have.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_share(percent: u32, is_carousel: bool) -> Result<(), Self> {
        match percent {
            _ if is_carousel => Err(Self::carousel_share()),
            1..=MAX_FEC_PERCENT => Ok(()),
            _ => Err(Self::FecShare(percent)),
        }
    }

    /// Refuses several rates where they do not fit.
    pub(super) fn check_several(is_multicast: bool, repair: Repair) -> Result<(), Self> {
        if !is_multicast {
            let why = "several rates need multicast groups";
            return Err(Self::misfit(Setting::Rates, Instead::Multicast, why));
        }
        if repair == Repair::None {
            let why = "receivers miss something when they move to another rate, and nothing mends that";
            return Err(Self::misfit(Setting::Rates, Instead::Mending, why));
        }
        Ok(())
    }
}
