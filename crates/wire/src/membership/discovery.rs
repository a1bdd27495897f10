//! Multicast router discovery: routers make themselves known to snooping bridges, whether or not
//! they are the querier (RFC 4286). The messages are the same over ICMPv6 and IGMP, types apart.
//!
//! ```text
//!  0      1           2          4          6            8
//!  +------+-----------+----------+----------+------------+
//!  | type | interval  | checksum | query    | robustness |   advertisement
//!  |      | (seconds) |          | interval | variable   |
//!  +------+-----------+----------+----------+------------+
//!  | type | reserved  | checksum |                           solicitation, termination
//!  +------+-----------+----------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The message that a multicast router is present on this link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// The time between two advertisements in seconds (RFC 4286, section 3.2.2: 4 to 180).
    pub advertisement_interval_s: u8,
    /// The querier's query interval in seconds.
    pub query_interval_s: u16,
    pub robustness: u16,
}

impl RouterAdvertisement {
    /// Parses the message except its type and checksum.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        reader.u8("type")?;
        let advertisement_interval_s = reader.u8("advertisement interval")?;
        reader.u16("checksum")?;
        let query_interval_s = reader.u16("query interval")?;
        let robustness = reader.u16("robustness variable")?;
        Ok(Self { advertisement_interval_s, query_interval_s, robustness })
    }

    /// Appends the whole message, with checksum 0.
    pub(super) fn emit(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind, self.advertisement_interval_s, 0, 0]);
        out.extend_from_slice(&self.query_interval_s.to_be_bytes());
        out.extend_from_slice(&self.robustness.to_be_bytes());
    }
}

impl fmt::Display for RouterAdvertisement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "router-advertisement every={}s query-interval={}s robustness={}",
            self.advertisement_interval_s, self.query_interval_s, self.robustness
        )
    }
}
