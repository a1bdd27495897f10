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

use crate::field::fixed_body;

fixed_body! {
    /// The sender's rate, the receiver that limits it, and the rate above which receivers need not report.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Pace in "pace" {
        /// The sender's clock when this was sent, in microseconds since any moment.
        pub timestamp_us: u64 = "timestamp",
        /// The sender's rate, in bits of IP packets a second.
        pub rate_bps: u64 = "rate",
        /// The lowest rate that a receiver has asked for in this feedback round; [`Pace::NO_RATE`] before the first.
        pub suppression_bps: u64 = "suppression rate",
        /// The timestamp of the last report of the receiver [`Pace::echo_for`], increased by the time since that
        /// report arrived. 0 if there is none.
        pub echo_us: u64 = "echo",
        /// The number of the feedback round.
        pub round: u32 = "round",
        /// The longest round trip to a receiver, in microseconds.
        pub longest_round_trip_us: u32 = "longest round trip",
        /// Length of a full IP packet, in bytes.
        pub packet_bytes: u32 = "packet length",
        /// Whether nothing was lost yet, so that the rate doubles in each round trip.
        pub is_slow_start: bool = "flags",
        /// The number of the receiver that limits the rate. The receiver knows its number from [`super::Welcome`].
        /// 0 for none.
        pub limited_by: u32 = "limited by",
        /// The number of the receiver that [`Pace::echo_us`] is for; 0 for nobody.
        pub echo_for: u32 = "echo for",
    }
}

impl Pace {
    /// The value that means that there is no rate yet.
    pub const NO_RATE: u64 = u64::MAX;
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
