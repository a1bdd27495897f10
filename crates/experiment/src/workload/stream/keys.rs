//! Reads the workloads `stream` and `conference`: how much is sent, and in what datagrams.

use serde::Deserialize;
use treecast_lab::quantity::{Rate, Size};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamKeys {
    rates: Option<Vec<Rate>>,
    seconds: Option<u32>,
    sizes: Option<Vec<Size>>,
    payload: Option<usize>,
}

/// A stream of datagrams of which each is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub loads: Vec<Load>,
    /// The number of bytes of data in a datagram. `None` for what lists of addresses leave room for, as in the
    /// MEADcast thesis.
    pub payload_bytes: Option<usize>,
    /// Whether all members send to each other.
    pub all_send: bool,
}

/// How much is sent to each receiver of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Data at this rate, for this time.
    Rate { rate_bps: u64, seconds: u32 },
    /// This many bytes, as fast as the links can carry them.
    Bytes(u64),
}

/// The length of what every datagram of a stream begins with, in bytes.
pub const STAMP_LEN: usize = 24;

/// Data in the shortest and the longest datagram of a stream.
const PAYLOAD: std::ops::RangeInclusive<usize> = STAMP_LEN..=1400;

impl StreamKeys {
    /// Checks the values and returns the stream.
    pub fn complete(self, all_send: bool) -> Result<Stream, String> {
        let loads: Vec<Load> = match (self.sizes, self.rates, self.seconds) {
            (Some(sizes), None, None) => sizes.into_iter().map(|size| Load::Bytes(size.0)).collect(),
            (None, Some(rates), Some(seconds @ 1..=3600)) => {
                rates.into_iter().map(|rate| Load::Rate { rate_bps: rate.0, seconds }).collect()
            }
            _ => Vec::new(),
        };
        if loads.is_empty() {
            return Err(
                "workload: expected `sizes`, or `rates` and `seconds` (1 to 3600), of what is sent".into()
            );
        }
        if let Some(bytes) = self.payload.filter(|bytes| !PAYLOAD.contains(bytes)) {
            let (least, most) = PAYLOAD.into_inner();
            return Err(format!("workload: payload is {bytes}: expected {least} to {most} bytes"));
        }
        Ok(Stream { loads, payload_bytes: self.payload, all_send })
    }
}

impl Load {
    /// Returns how many datagrams with `payload_bytes` bytes of data it takes to carry the load.
    pub fn packets(&self, payload_bytes: usize) -> u32 {
        let bytes = match *self {
            Self::Rate { rate_bps, seconds } => rate_bps * u64::from(seconds) / 8,
            Self::Bytes(bytes) => bytes,
        };
        bytes.div_ceil(payload_bytes as u64) as u32
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Rate { rate_bps, .. } if rate_bps % 1_000_000 == 0 => {
                write!(f, "{}M", rate_bps / 1_000_000)
            }
            Self::Rate { rate_bps, .. } => write!(f, "{}k", rate_bps / 1_000),
            Self::Bytes(bytes) => write!(f, "{}", Size(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_as_many_datagrams_as_it_needs() {
        assert_eq!(Load::Bytes(2001).packets(1000), 3);
        let stream = Load::Rate { rate_bps: 1_000_000, seconds: 8 };
        assert_eq!((stream.packets(1000), stream.to_string()), (1000, "1M".to_owned()));
        assert_eq!(Load::Rate { rate_bps: 2_500_000, seconds: 1 }.to_string(), "2500k");
    }
}
