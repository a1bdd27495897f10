//! The values of a group's options. Each is read from the word or number that the command's option takes.

use std::{str::FromStr, time::Duration};

use treecast_driver::send::{self, parse_fec};
use treecast_host::quantity;
use treecast_proto::fec::Share;

use crate::{
    Error, ErrorKind,
    limits::{RATES_BPS, bounded},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// The way in which a packet reaches many hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fanout {
    /// One packet for all receivers, by IP multicast.
    #[default]
    Multicast,
    /// A copy for each receiver.
    Unicast,
    /// MEADcast where routers speak it, unicast elsewhere.
    Mead,
    /// Xcast (RFC 5058) where it proves to work, unicast elsewhere.
    Xcast,
    /// Unicast at first. Each receiver moves to multicast or MEADcast if that reaches it.
    Auto,
}

/// The way in which lost packets are mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Repair {
    /// Retransmissions while the object goes out: VCMTP 2 (interdomain-2013, section 4.3).
    #[default]
    Nack,
    /// Retransmissions when the object is out: VCMTP 1.
    After,
    /// No retransmissions. A receiver that loses a packet fails.
    None,
}

/// The rate at which packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rate {
    /// What the path to the worst receiver delivers, shared with other traffic.
    #[default]
    Auto,
    /// As much as a TCP connection to the worst receiver would get.
    Tfmcc,
    /// As fast as the slowest attentive receiver takes it, whatever other traffic there is.
    Max,
    /// A constant rate, in bits of IP packets a second, for a path where that much is reserved: 1,000 to 400,000,000,000.
    Bps(u64),
}

/// The order of multicast and retransmissions if the rate is not enough for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Priority {
    /// Multicast goes first, so that slow receivers do not slow down fast ones.
    #[default]
    Multicast,
    /// Retransmissions get up to half of the rate.
    Fair,
}

/// When receivers that do not have everything are given up, counted from the session's first packet.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum GiveUp {
    /// After this time.
    After(Duration),
    /// After so many times as long as it took to send everything once, and no less than 5 s.
    Times(f64),
}

/// Forward error correction: how many repair symbols follow each part of an object before anybody asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fec {
    /// No repair symbols.
    None,
    /// As many as receivers have lately lacked.
    Auto,
    /// This many symbols for 100 packets, 1 to 300.
    Percent(u32),
}

impl Fec {
    pub(super) fn share(self) -> Option<Share> {
        match self {
            Self::None => None,
            Self::Auto => Some(Share::Auto),
            Self::Percent(percent) => Some(Share::Percent(percent)),
        }
    }
}

impl From<GiveUp> for send::GiveUp {
    fn from(when: GiveUp) -> Self {
        match when {
            GiveUp::After(time) => Self::After(bounded(time)),
            GiveUp::Times(factor) => Self::Times(factor),
        }
    }
}

fn refuse<T>(line: impl ToString) -> Result<T, Error> {
    Err(Error::new(ErrorKind::Options, line.to_string()))
}

/// Reads the words of an option.
macro_rules! words {
    ($($value:ident, $unknown:literal: $($word:literal => $variant:ident),*;)*) => {$(
        impl FromStr for $value {
            type Err = Error;

            fn from_str(word: &str) -> Result<Self, Error> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => refuse(format!($unknown, word)),
                }
            }
        }
    )*};
}

words! {
    Fanout, "{:?} is no fanout: expected multicast, unicast, mead, xcast or auto":
        "multicast" => Multicast, "unicast" => Unicast, "mead" => Mead, "xcast" => Xcast, "auto" => Auto;
    Repair, "{:?} is no repair: expected nack, after or none": "nack" => Nack, "after" => After, "none" => None;
    Priority, "{:?} is no priority: expected multicast or fair": "multicast" => Multicast, "fair" => Fair;
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "tfmcc" => Ok(Self::Tfmcc),
            "max" => Ok(Self::Max),
            _ => match quantity::rate_bps(text, RATES_BPS) {
                Ok(bps) => Ok(Self::Bps(bps)),
                Err(error) => refuse(error.or("auto, tfmcc or max")),
            },
        }
    }
}

impl FromStr for GiveUp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const FACTOR: &str = "x3 for three times as long as sending takes";
        let Some(factor) = text.strip_prefix('x') else {
            let time = quantity::time(text, SECOND..=YEAR).map(Self::After);
            return time.or_else(|error| refuse(error.or(FACTOR)));
        };
        let factor = factor.parse().ok().filter(|factor| (1.0..=1e6).contains(factor));
        factor.map_or_else(
            || refuse(format!("expected x1 to x1000000, like {FACTOR}")),
            |factor| Ok(Self::Times(factor)),
        )
    }
}

impl FromStr for Fec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match parse_fec(text) {
            Ok(None) => Ok(Self::None),
            Ok(Some(Share::Auto | Share::Needed)) => Ok(Self::Auto),
            Ok(Some(Share::Percent(percent))) => Ok(Self::Percent(percent)),
            Err(line) => refuse(line),
        }
    }
}
