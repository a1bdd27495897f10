//! Pace: a sender's message to its group about its rate. In RFC 4654, section 2.2.1, the data header carries
//! it. Here it is a separate message, so that blocks do not need a longer header. The fields from the phase on are not in the RFC.
//!
//! Only a probe has the last two fields. Its datagram is as long as that of a whole block: zeros follow the message.
//! Receivers take nothing but the probe from it.
//!
//! ```text
//!  0           8      16            24     32      36             40       44       48        52      56
//!  +-----------+------+-------------+------+-------+--------------+--------+--------+---------+-------+
//!  | timestamp | rate | suppression | echo | round | longest      | packet | flags  | limited | echo  |
//!  |           |      | rate        |      |       | round trip   | length |        | by      | for   |
//!  +-----------+------+-------------+------+-------+--------------+--------+--------+---------+-------+
//!  56      60        64          68       72      80
//!  +-------+---------+-----------+--------+-------+
//!  | phase | unused  | receivers | probe  | nonce |
//!  |       |         |           | number |       |
//!  +-------+---------+-----------+--------+-------+
//! ```

use std::fmt;

use super::Probe;
use crate::{
    ParseError,
    field::{Field, Reader, fixed_body},
};

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
        /// Whether receivers that nothing limits are to answer, too: nothing was lost yet, so that the rate doubles in each round trip,
        /// or the sender wants to know who is slow.
        pub is_slow_start: bool = "flags",
        /// The number of the receiver that limits the rate. The receiver knows its number from [`super::Welcome`].
        /// 0 for none.
        pub limited_by: u32 = "limited by",
        /// The number of the receiver that [`Pace::echo_us`] is for; 0 for nobody.
        pub echo_for: u32 = "echo for",
        /// The control that the sender runs, and what it does.
        pub phase: Phase = "phase",
        /// Whether the sender has less to send than the rate allows. What arrives then says nothing of the path.
        pub is_unused: bool = "unused",
        /// The number of receivers in the group.
        pub receivers: u32 = "receivers",
        /// A probe, if this is one.
        pub probe: Option<Probe> = "probe",
    }
}

crate::listed! {
    /// What a sender does to its rate.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[repr(u32)]
    pub enum Phase {
        /// The rate is TFMCC's (RFC 4654). It has no phases but [`Pace::is_slow_start`].
        #[default]
        Tfmcc = 0 => "tfmcc",
        /// The rate doubles in each round trip until the path is full.
        Start = 1 => "start",
        /// The rate is low until the queue that the start has built is gone.
        Drain = 2 => "drain",
        /// The rate is what the path delivers.
        Cruise = 3 => "cruise",
        /// The rate is above what the path has delivered, to find out whether it delivers more.
        Up = 4 => "up",
        /// The rate is below what the path delivers, until the queue that [`Phase::Up`] has built is gone.
        Down = 5 => "down",
    }
}

impl Field for Phase {
    const LEN: usize = u32::LEN;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        let value = reader.u32(name)?;
        let phase = Self::ALL.into_iter().find(|phase| *phase as u32 == value);
        phase.ok_or_else(|| ParseError::invalid(name, value, "0 to 5"))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        (*self as u32).emit(out);
    }
}

impl Pace {
    /// The value that means that there is no rate yet.
    pub const NO_RATE: u64 = u64::MAX;

    /// Length of the body in bytes, without a probe. [`Pace::LEN`] is that of a probe.
    pub const LEN_WITHOUT_PROBE: usize = Self::LEN - <Option<Probe>>::LEN;
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp_us, rate_bps, round, longest_round_trip_us, packet_bytes, limited_by, .. } =
            self;
        write!(f, "time={timestamp_us} rate={rate_bps} round={round} longest={longest_round_trip_us} ")?;
        write!(f, "packet={packet_bytes} limited-by={limited_by} receivers={}", self.receivers)?;
        if self.phase != Phase::Tfmcc {
            write!(f, " phase={}", self.phase.name())?;
        }
        if self.is_unused {
            f.write_str(" unused")?;
        }
        if self.suppression_bps != Self::NO_RATE {
            write!(f, " suppress={}", self.suppression_bps)?;
        }
        if self.echo_for != 0 {
            write!(f, " echo={} for={}", self.echo_us, self.echo_for)?;
        }
        if let Some(probe) = self.probe {
            write!(f, " probe={} nonce={:#x}", probe.number, probe.nonce)?;
        }
        if self.is_slow_start { f.write_str(" slow-start") } else { Ok(()) }
    }
}
