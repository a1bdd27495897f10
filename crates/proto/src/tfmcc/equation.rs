//! The throughput of a TCP connection: the higher one of Reno's (RFC 5348, 3.1; RFC 4654, 2.1: with one acknowledgement
//! a packet and a retransmission timeout of four round trips) and of CUBIC's (RFC 9438, 5.1). RFC 4654 is older than
//! CUBIC, against which Reno's share of a link with a long round trip is a third and less.

use std::time::Duration;

/// Loss event rates outside of this are taken as its ends: the equation means nothing there.
const LOSS_RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1.0;

/// Returns the rate of a TCP connection in bits a second, for packets of `packet_bytes` bytes and a loss event
/// rate from 0 to 1.
pub fn rate_bps(packet_bytes: u32, round_trip: Duration, loss: f64) -> f64 {
    let loss = loss.clamp(*LOSS_RANGE.start(), *LOSS_RANGE.end());
    let window = reno_window(loss).max(cubic_window(seconds(round_trip), loss));
    let timeouts = 12.0 * (3.0 * loss / 8.0).sqrt() * loss * (1.0 + 32.0 * loss * loss);
    f64::from(packet_bytes.max(1)) * 8.0 / (seconds(round_trip) * (1.0 / window + timeouts))
}

/// Returns the loss event rate at which the equation gives `rate_bps`.
pub fn loss_rate(packet_bytes: u32, round_trip: Duration, rate_bps: f64) -> f64 {
    // The rate falls with the loss: halve the range of its logarithm until it is narrow.
    let (mut low, mut high) = (LOSS_RANGE.start().ln(), LOSS_RANGE.end().ln());
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        let is_too_low = self::rate_bps(packet_bytes, round_trip, middle.exp()) > rate_bps;
        if is_too_low { low = middle } else { high = middle }
    }
    high.exp()
}

/// Packets that CUBIC has under way on average, with C = 0.4 and β = 0.7.
fn cubic_window(round_trip_seconds: f64, loss: f64) -> f64 {
    const FACTOR: f64 = 1.054;
    FACTOR * (round_trip_seconds / loss).powf(0.75)
}

/// Packets that Reno has under way on average.
fn reno_window(loss: f64) -> f64 {
    1.0 / (2.0 * loss / 3.0).sqrt()
}

/// No shorter than what clocks can tell: it is divided by.
fn seconds(round_trip: Duration) -> f64 {
    round_trip.as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    #[test]
    fn rates_are_those_of_the_equation() {
        // By hand: 1500 bytes, 100 ms, one loss in a hundred.
        let rate = rate_bps(1500, ROUND_TRIP, 0.01);
        assert!((1.33e6..1.36e6).contains(&rate), "{rate}");
        let short = Duration::from_millis(1);
        let simple = 12_000.0 / (0.001 * (2e-4_f64 / 3.0).sqrt());
        assert!((rate_bps(1500, short, 1e-4) / simple - 1.0).abs() < 0.01, "Reno's");
        // RFC 9438, table 1: 10 Gbit/s, 100 ms, one loss in 100,000.
        let cubic = rate_bps(1500, ROUND_TRIP, 1e-5) * 0.1 / 12_000.0;
        assert!((1040.0..1060.0).contains(&cubic), "CUBIC's window: {cubic}");
        assert!(rate_bps(1500, ROUND_TRIP, 1.0) < 20_000.0);
    }

    #[test]
    fn the_inverse_is_one() {
        for loss in [1e-7, 1e-4, 0.003, 0.1, 0.7] {
            let rate = rate_bps(1500, ROUND_TRIP, loss);
            let back = loss_rate(1500, ROUND_TRIP, rate);
            assert!((back / loss - 1.0).abs() < 1e-6, "{loss} {back}");
        }
    }

    #[test]
    fn extreme_values_give_numbers() {
        for round_trip in [Duration::ZERO, Duration::MAX] {
            for loss in [0.0, -1.0, 5.0, f64::INFINITY] {
                let rate = rate_bps(0, round_trip, loss);
                assert!(rate.is_finite() && rate > 0.0, "{round_trip:?} {loss} {rate}");
            }
            for rate in [0.0, f64::INFINITY, 1e300] {
                let loss = loss_rate(u32::MAX, round_trip, rate);
                assert!((1e-10..=1.0).contains(&loss), "{round_trip:?} {rate} {loss}");
            }
        }
    }
}
