//! PaceReport: a receiver's answer to Pace (RFC 4654, section 2.2.2), over its control connection. The fields behind the
//! first 48 bytes are not in the RFC.
//!
//! ```text
//!  0           8      16     24         32      36      40      44      48
//!  +-----------+------+------+----------+-------+-------+-------+-------+
//!  | timestamp | echo | rate | received | round | round | loss  | flags |
//!  |           |      |      | rate     |       | trip  |       |       |
//!  +-----------+------+------+----------+-------+-------+-------+-------+
//!  48      52     56       60      64       72    80
//!  +-------+------+--------+-------+--------+-----+
//!  | queue | lost | marked | last  | probes | sum |
//!  |       |      |        | probe |        |     |
//!  +-------+------+--------+-------+--------+-----+
//! ```

use std::fmt;

use super::{Pace, ProbeProof};
use crate::field::fixed_body;

fixed_body! {
    /// A receiver's measurements of the path to it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PaceReport in "pace report" {
        /// The receiver's clock when this was sent, in microseconds since any moment.
        pub timestamp_us: u64 = "timestamp",
        /// The timestamp of the last Pace, increased by the time since it arrived.
        pub echo_us: u64 = "echo",
        /// TFMCC: the rate in bits a second that a TCP connection would get on this path, [`Pace::NO_RATE`] while nothing
        /// was lost. Otherwise: the rate that the path to this receiver bears, [`Pace::NO_RATE`] while nothing limits it.
        pub rate_bps: u64 = "rate",
        /// The rate of arrival from the group, in bits of IP packets a second. Of a receiver that the sender does not follow and
        /// whose path has limited what arrives in the last seconds: what arrived then.
        pub received_bps: u64 = "received rate",
        /// The feedback round that this answers.
        pub round: u32 = "round",
        /// The measured round trip in microseconds. 0 if it was not measured yet.
        pub round_trip_us: u32 = "round trip",
        /// Loss events a packet, in billionths.
        pub loss_ppb: u32 = "loss",
        /// TFMCC: whether a loss event has begun since the last report. Otherwise: whether the path has limited what arrives in
        /// the last seconds, although it may not do so now.
        pub is_limited: bool = "flags",
        /// The time that packets wait in queues, in microseconds: how much longer the way to this receiver takes than the
        /// shortest time lately. The least of the last three messages.
        pub queue_us: u32 = "queue",
        /// The share of packets that were lost in the last round trip, in millionths.
        pub lost_ppm: u32 = "lost",
        /// The share of packets in the last round trip that routers have marked (RFC 3168), in millionths.
        pub marked_ppm: u32 = "marked",
        /// The probes that have come.
        pub proof: ProbeProof = "last probe",
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
        if self.is_limited {
            f.write_str(" limited")?;
        }
        write!(f, " queue={}us lost={}ppm marked={}ppm", self.queue_us, self.lost_ppm, self.marked_ppm)?;
        if self.proof == ProbeProof::default() { Ok(()) } else { write!(f, " {}", self.proof) }
    }
}
