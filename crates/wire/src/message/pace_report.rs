//! PaceReport: a receiver's answer to Pace (RFC 4654, section 2.2.2), over its control connection.
//!
//! ```text
//!  0           8      16     24         32      36      40      44      48
//!  +-----------+------+------+----------+-------+-------+-------+-------+
//!  | timestamp | echo | rate | received | round | round | loss  | flags |
//!  |           |      |      | rate     |       | trip  |       |       |
//!  +-----------+------+------+----------+-------+-------+-------+-------+
//! ```

use std::fmt;

use super::pace::{Pace, flag};
use crate::{ParseError, field::Reader};

/// A receiver's measurements of the path to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceReport {
    /// The receiver's clock when this was sent, in microseconds since any moment.
    pub timestamp_us: u64,
    /// The timestamp of the last Pace, increased by the time since it arrived.
    pub echo_us: u64,
    /// The rate in bits a second that a TCP connection would get on this path. [`Pace::NO_RATE`] while nothing
    /// was lost.
    pub rate_bps: u64,
    /// The rate of arrival from the group, in bits of IP packets a second.
    pub received_bps: u64,
    /// The feedback round that this answers.
    pub round: u32,
    /// The measured round trip in microseconds. 0 if it was not measured yet.
    pub round_trip_us: u32,
    /// Loss events a packet, in billionths.
    pub loss_ppb: u32,
    /// Whether a loss event has begun since the last report.
    pub is_lossy: bool,
}

impl PaceReport {
    /// Length of the payload in bytes.
    pub const LEN: usize = 48;

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let report = Self {
            timestamp_us: reader.u64("timestamp")?,
            echo_us: reader.u64("echo")?,
            rate_bps: reader.u64("rate")?,
            received_bps: reader.u64("received rate")?,
            round: reader.u32("round")?,
            round_trip_us: reader.u32("round trip")?,
            loss_ppb: reader.u32("loss")?,
            is_lossy: flag(reader.u32("flags")?)?,
        };
        reader.end("pace report")?;
        Ok(report)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for number in [self.timestamp_us, self.echo_us, self.rate_bps, self.received_bps] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for number in [self.round, self.round_trip_us, self.loss_ppb, u32::from(self.is_lossy)] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

impl fmt::Display for PaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp_us, echo_us, received_bps, round, .. } = self;
        write!(f, "time={timestamp_us} echo={echo_us} received={received_bps} round={round}")?;
        if self.rate_bps != Pace::NO_RATE {
            write!(f, " rate={} loss={}ppb", self.rate_bps, self.loss_ppb)?;
        }
        if self.round_trip_us != 0 {
            write!(f, " round-trip={}", self.round_trip_us)?;
        }
        if self.is_lossy { f.write_str(" lossy") } else { Ok(()) }
    }
}
