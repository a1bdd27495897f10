//! The bounds of a sender's rate: the first, the lowest and the highest one, whatever finds the rate between them.

use std::time::Duration;

/// The highest rate that is ever allowed, whatever receivers report.
pub const MOST_BPS: f64 = 1e12;

/// Round trips are no shorter where something is divided by them.
pub const SHORTEST_ROUND_TRIP: Duration = Duration::from_millis(1);

/// No rate is lower: so many packets a second leave however bad things are, or nobody could tell that they are better.
const LEAST_PACKETS: f64 = 5.0;

/// No silence of the receivers takes the rate below so many packets a second.
pub const SILENT_PACKETS: f64 = 20.0;

/// The rate at the start, in packets a round trip (RFC 6928).
const FIRST_PACKETS: f64 = 10.0;

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The length of a packet, in bits.
    pub packet_bits: f64,
    /// The lowest rate, in bits a second.
    pub least_bps: f64,
}

impl Bounds {
    /// The bounds of a sender whose rate never falls below `floor_bps`.
    pub fn new(packet_bytes: u32, floor_bps: Option<u64>) -> Self {
        let packet_bits = f64::from(packet_bytes.max(1)) * 8.0;
        let least_bps = floor_bps.map_or(packet_bits * LEAST_PACKETS, |floor| floor as f64).min(MOST_BPS);
        Self { packet_bits, least_bps }
    }

    /// The rate at the start, where `round_trip` is the longest one.
    pub fn first_bps(&self, round_trip: Duration) -> f64 {
        FIRST_PACKETS * self.packet_bits / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64()
    }

    /// The nearest rate that is allowed.
    pub fn clamp(&self, bps: f64) -> f64 {
        bps.clamp(self.least_bps, MOST_BPS)
    }
}
