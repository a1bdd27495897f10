//! When losses show congestion by their number alone.
//!
//! draft-ietf-ccwg-bbr (5.5.10.2, `BBR.LossThresh`) bears 2 % in one round trip. Random losses of 2 % are more than that in every second
//! round trip. So what counts is the share in several round trips, and how far it could be above 2 % by chance.

/// The share of packets that may be lost for other reasons than congestion.
pub const BEARABLE: f64 = 0.02;

/// The packets that one cause loses together, on average. Radio links lose several at once.
const BURST: f64 = 8.0;

/// How many standard deviations a share is above the bearable one before it counts.
const DEVIATIONS: f64 = 3.0;

/// Whether so many lost packets of so many are more than what chance makes of [`BEARABLE`].
pub fn is_excessive(share: f64, packets: f64) -> bool {
    let variance = BEARABLE * (1.0 - BEARABLE) * BURST / packets.max(1.0);
    share > BEARABLE + DEVIATIONS * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_packets_prove_little() {
        assert!(!is_excessive(0.05, 100.0) && !is_excessive(0.03, 1_000.0) && is_excessive(0.035, 10_000.0));
        assert!(is_excessive(0.5, 20.0) && !is_excessive(1.0, 1.0));
    }
}
