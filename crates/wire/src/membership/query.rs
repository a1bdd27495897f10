//! A query of the newer protocol versions, which asks who listens (RFC 9777, section 5.1; RFC 9776, section
//! 4.1).
//!
//! Behind the head ([`super::head`]) and the group address, which the older versions end with, both protocols continue with
//!
//! ```text
//!  +------+---+-----+------+-----------+-------------------+
//!  | resv | S | QRV | QQIC | sources n | source 1 .. n     |
//!  |  4   | 1 |  3  |  8   |    16     | 32 or 128 each    |  bits
//!  +------+---+-----+------+-----------+-------------------+
//! ```

use std::{fmt, time::Duration};

use super::{Address, SHORT_MANTISSA_BITS, address, braced, decode, encode, head};
use crate::{
    ParseError,
    field::{Field, Reader},
};

/// An MLDv2 or IGMPv3 query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<A> {
    /// The time over which listeners spread their answers, in units of 1 ms (MLD) or 100 ms (IGMP). It is
    /// rounded down to a value that the code can hold.
    pub max_response: Duration,
    /// The group that the query is about. `None` in a general query.
    pub group: Option<A>,
    /// The S flag: routers that hear this must not lower their timers.
    pub suppress_router_processing: bool,
    /// The querier's robustness variable, 0 to 7; 0 when it is above 7.
    pub robustness: u8,
    /// The querier's query interval in whole seconds, at most 31,744 s. It is rounded down to a value that the
    /// code can hold.
    pub query_interval: Duration,
    /// The sources that the query is about. Empty in a general and in a group-specific query.
    pub sources: Vec<A>,
}

impl<A> Query<A> {
    /// Creates a general query, which asks for all groups, with the robustness that protocols begin with.
    pub fn general(max_response: Duration, query_interval: Duration) -> Self {
        let (suppress_router_processing, robustness) = (false, 2);
        Self {
            max_response,
            group: None,
            suppress_router_processing,
            robustness,
            query_interval,
            sources: Vec::new(),
        }
    }
}

impl<A: Address> Query<A> {
    /// Reads the whole message but its type and checksum. Bytes behind the last source are ignored, as both RFCs ask.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let code = head::read::<A>(&mut reader)?;
        let group: A = Field::read(&mut reader, "group")?;
        let flags = reader.u8("S flag and QRV")?;
        let query_interval = decode(u16::from(reader.u8("QQIC")?), SHORT_MANTISSA_BITS);
        let count = reader.u16("number of sources")?;
        Ok(Self {
            max_response: A::RESPONSE_UNIT * decode(code, A::RESPONSE_MANTISSA_BITS),
            group: (group != A::UNSPECIFIED).then_some(group),
            suppress_router_processing: flags & 8 != 0,
            robustness: flags & 7,
            query_interval: Duration::from_secs(u64::from(query_interval)),
            sources: address::read_many(&mut reader, "sources", count)?,
        })
    }

    /// Appends the whole message, its checksum 0.
    pub(crate) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        let code = encode(head::units::<A>(self.max_response), A::RESPONSE_MANTISSA_BITS);
        head::emit::<A>(kind, code, out);
        self.group.unwrap_or(A::UNSPECIFIED).emit(out);
        let robustness = if self.robustness > 7 { 0 } else { self.robustness };
        out.push(u8::from(self.suppress_router_processing) << 3 | robustness);
        let seconds = u32::try_from(self.query_interval.as_secs()).unwrap_or(u32::MAX);
        out.push(encode(seconds, SHORT_MANTISSA_BITS) as u8);
        address::emit_count(&self.sources, out);
        address::emit_many(&self.sources, out);
    }
}

impl<A: Address> fmt::Display for Query<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = self.group {
            write!(f, "query {group}")?
        } else {
            f.write_str("query general")?
        }
        if !self.sources.is_empty() {
            f.write_str(" sources=")?;
            braced(f, &self.sources)?;
        }
        write!(
            f,
            " max-response={:?} interval={:?} robustness={}",
            self.max_response, self.query_interval, self.robustness
        )?;
        f.write_str(if self.suppress_router_processing { " suppress" } else { "" })
    }
}
