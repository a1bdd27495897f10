//! Pace: a sender's message to its group about its rate. In RFC 4654, section 2.2.1, the data header carries
//! it. Here it is a separate message, so that blocks do not need a longer header.
//!
//! ```text
//!  0           8      16            24     32      36             40       44       48        52      56
//!  +-----------+------+-------------+------+-------+--------------+--------+--------+---------+-------+
//!  | timestamp | rate | suppression | echo | round | longest      | packet | flags  | limited | echo  |
//!  |           |      | rate        |      |       | round trip   | length |        | by      | for   |
//!  +-----------+------+-------------+------+-------+--------------+--------+--------+---------+-------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The sender's rate, the receiver that limits it, and the rate above which receivers need not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The sender's clock when this was sent, in microseconds since any moment.
    pub timestamp_us: u64,
    /// The sender's rate, in bits of IP packets a second.
    pub rate_bps: u64,
    /// The lowest rate that a receiver has asked for in this feedback round; [`Pace::NO_RATE`] before the first.
    pub suppression_bps: u64,
    /// The timestamp of the last report of the receiver [`Pace::echo_for`], increased by the time since that
    /// report arrived. 0 if there is none.
    pub echo_us: u64,
    /// The number of the feedback round.
    pub round: u32,
    /// The longest round trip to a receiver, in microseconds.
    pub longest_round_trip_us: u32,
    /// Length of a full IP packet, in bytes.
    pub packet_bytes: u32,
    /// Whether nothing was lost yet, so that the rate doubles in each round trip.
    pub is_slow_start: bool,
    /// The number of the receiver that limits the rate. The receiver knows its number from [`super::Welcome`].
    /// 0 for none.
    pub limited_by: u32,
    /// The number of the receiver that [`Pace::echo_us`] is for; 0 for nobody.
    pub echo_for: u32,
}

impl Pace {
    /// Length of the payload in bytes.
    pub const LEN: usize = 56;

    /// The value that means that there is no rate yet.
    pub const NO_RATE: u64 = u64::MAX;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let pace = Self {
            timestamp_us: reader.u64("timestamp")?,
            rate_bps: reader.u64("rate")?,
            suppression_bps: reader.u64("suppression rate")?,
            echo_us: reader.u64("echo")?,
            round: reader.u32("round")?,
            longest_round_trip_us: reader.u32("longest round trip")?,
            packet_bytes: reader.u32("packet length")?,
            is_slow_start: flag(reader.u32("flags")?)?,
            limited_by: reader.u32("limited by")?,
            echo_for: reader.u32("echo for")?,
        };
        reader.end("pace")?;
        Ok(pace)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for number in [self.timestamp_us, self.rate_bps, self.suppression_bps, self.echo_us] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        let flags = u32::from(self.is_slow_start);
        let numbers = [self.round, self.longest_round_trip_us, self.packet_bytes, flags];
        for number in numbers.into_iter().chain([self.limited_by, self.echo_for]) {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// Parses flags, of which only the lowest bit may be set.
pub(super) fn flag(flags: u32) -> Result<bool, ParseError> {
    match flags {
        0 | 1 => Ok(flags == 1),
        _ => Err(ParseError::invalid("flags", flags, "0 or 1")),
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp_us, rate_bps, round, longest_round_trip_us, packet_bytes, limited_by, .. } =
            self;
        write!(f, "time={timestamp_us} rate={rate_bps} round={round} longest={longest_round_trip_us} ")?;
        write!(f, "packet={packet_bytes} limited-by={limited_by}")?;
        if self.suppression_bps != Self::NO_RATE {
            write!(f, " suppress={}", self.suppression_bps)?;
        }
        if self.echo_for != 0 {
            write!(f, " echo={} for={}", self.echo_us, self.echo_for)?;
        }
        if self.is_slow_start { f.write_str(" slow-start") } else { Ok(()) }
    }
}
