//! The quality of a cable: rate, queue, loss, delay and jitter, and how people write them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use treecast_host::quantity::{self, HIGHEST_RATE_BPS};

/// The quality of one cable. Rate, queue, delay and jitter hold for each direction separately. Loss is the
/// share of the packets to the node at this end that is lost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The rate in bits of Ethernet frames a second, headers included. `None`: as fast as the machine can.
    pub rate_bps: Option<u64>,
    /// The number of bytes that may wait to be sent at the rate before packets are dropped. `None`: see
    /// [`Quality::queue_bytes`].
    pub queue_bytes: Option<u64>,
    pub loss: Loss,
    /// The delay in one direction.
    pub delay: Duration,
    /// Each packet's delay is drawn evenly from `delay` ± `jitter`; packets are not reordered.
    pub jitter: Duration,
    /// Whether super-packets are divided before they wait, so that the queue contains single packets like a
    /// router's queue.
    #[serde(default)]
    pub single_packets: bool,
    /// The rate of packets of others that wait in the same queues, in bits a second. `None` for none.
    #[serde(default)]
    pub background_bps: Option<u64>,
    /// Whether queues drop some packets before they are full (RED). Only the simulator's do.
    #[serde(default)]
    pub drops_early: bool,
}

/// The kind of loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    #[default]
    None,
    /// Each packet is lost independently with this probability.
    Uniform(f64),
    /// Two states, each with its own loss. The state may change after each packet (Gilbert 1960, Elliott 1963).
    Gilbert { to_bad: f64, to_good: f64, in_bad: f64, in_good: f64 },
}

impl Quality {
    /// The keys that people may set of a cable.
    pub(super) const KEYS: [&str; 7] = ["rate", "queue", "loss", "delay", "jitter", "background", "drop"];

    /// The key of something that only the simulator has. `None` where a lab has all of it.
    pub fn only_simulated(&self) -> Option<&'static str> {
        self.drops_early.then_some("drop")
    }

    /// The smallest queue in front of a rate: four super-packets.
    const MIN_QUEUE_BYTES: u64 = 256 * 1024;

    /// The size of the queue in bytes: the wanted size, or otherwise 50 ms of the rate.
    pub fn queue_bytes(&self) -> u64 {
        let fifty_milliseconds = self.rate_bps.unwrap_or(0) / 8 / 20;
        self.queue_bytes.unwrap_or(fifty_milliseconds.max(Self::MIN_QUEUE_BYTES))
    }

    /// Whether packets are delayed, by `netem` or a relay.
    pub fn is_delayed(&self) -> bool {
        !self.delay.is_zero() || !self.jitter.is_zero()
    }

    /// Sets one property from a pair of key and value. `Err` says what was expected.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Option<Result<(), &'static str>> {
        Some(match key {
            "rate" => parse_rate_bps(value).map(|rate| self.rate_bps = Some(rate)),
            "queue" => parse_bytes(value).map(|bytes| self.queue_bytes = Some(bytes)),
            "loss" => Loss::parse(value).map(|loss| self.loss = loss),
            "delay" => parse_duration(value).map(|delay| self.delay = delay),
            "jitter" => parse_duration(value).map(|jitter| self.jitter = jitter),
            "background" => parse_rate_bps(value).map(|rate| self.background_bps = Some(rate)),
            "drop" => match value {
                "early" => Ok(true),
                "tail" => Ok(false),
                _ => Err("early (RED) or tail"),
            }
            .map(|drops_early| self.drops_early = drops_early),
            _ => return None,
        })
    }
}

impl Loss {
    /// Parses `5%`, or `gilbert:1%:25%` (the chances of entering and of leaving the bad state). The loss in the
    /// bad state (100 %) and in the good state (0 %) may be added.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "a percentage like 5%, or gilbert:TO_BAD:TO_GOOD[:IN_BAD[:IN_GOOD]]";
        let Some(states) = text.strip_prefix("gilbert:") else {
            let loss = parse_percentage(text).ok_or(EXPECTED)?;
            return Ok(if loss > 0.0 { Self::Uniform(loss) } else { Self::None });
        };
        let parts: Option<Vec<f64>> = states.split(':').map(parse_percentage).collect();
        let parts = parts.filter(|parts| (2..=4).contains(&parts.len())).ok_or(EXPECTED)?;
        Ok(Self::Gilbert {
            to_bad: parts[0],
            to_good: parts[1],
            in_bad: parts.get(2).copied().unwrap_or(1.0),
            in_good: parts.get(3).copied().unwrap_or(0.0),
        })
    }

    /// The mean share of packets that are lost, from 0 to 1.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Uniform(rate) => rate,
            Self::Gilbert { to_bad, to_good, in_bad, in_good } => {
                let bad = to_bad / (to_bad + to_good).max(f64::MIN_POSITIVE);
                bad * in_bad + (1.0 - bad) * in_good
            }
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("0%"),
            Self::Uniform(loss) => write!(f, "{}%", percent(*loss)),
            Self::Gilbert { to_bad, to_good, in_bad, in_good } => write!(
                f,
                "gilbert:{}%:{}%:{}%:{}%",
                percent(*to_bad),
                percent(*to_good),
                percent(*in_bad),
                percent(*in_good)
            ),
        }
    }
}

/// Undoes the rounding of a division by 100: 0.07 is 7 %, not 7.000000000000001 %.
fn percent(fraction: f64) -> f64 {
    (fraction * 1e8).round() / 1e6
}

fn parse_percentage(text: &str) -> Option<f64> {
    quantity::share(text, 0.0..=1.0).ok()
}

/// Parses a rate: `500M`, `1G`, `64k`, or bits a second.
pub fn parse_rate_bps(text: &str) -> Result<u64, &'static str> {
    quantity::rate_bps(text, 8_000..=HIGHEST_RATE_BPS).map_err(|_| "a rate from 8k to 400G, like 500M or 1G")
}

fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    quantity::size_bytes(text, 4_096..=1 << 30).map_err(|_| "a size from 4k to 1G, like 512k")
}

fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let time = quantity::time(text, Duration::ZERO..=Duration::from_secs(10));
    time.map_err(|_| "a time up to 10s, like 10ms or 500us")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_rates_losses_and_delays() {
        assert_eq!(parse_rate_bps("1G"), Ok(1_000_000_000));
        assert_eq!(parse_rate_bps("2.5M"), Ok(2_500_000));
        assert!(parse_rate_bps("fast").is_err() && parse_rate_bps("-1M").is_err());
        assert!(parse_rate_bps("").is_err() && parse_rate_bps("1").is_err());
        assert_eq!(Loss::parse("5%"), Ok(Loss::Uniform(0.05)));
        assert_eq!([Loss::parse("0%"), Loss::parse("0")], [Ok(Loss::None); 2]);
        assert!(Loss::parse("5").is_err());
        assert!(Loss::parse("105%").is_err() && Loss::parse("NaN%").is_err());
        let gilbert = Loss::Gilbert { to_bad: 0.01, to_good: 0.25, in_bad: 1.0, in_good: 0.0 };
        assert_eq!(Loss::parse("gilbert:1%:25%"), Ok(gilbert));
        assert_eq!(Loss::parse(&gilbert.to_string()), Ok(gilbert));
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert!(parse_duration("10x").is_err() && parse_duration("11s").is_err());
    }

    #[test]
    fn the_queue_is_fifty_milliseconds_but_never_less_than_four_super_packets() {
        let mut quality = Quality { rate_bps: Some(1_000_000_000), ..Quality::default() };
        assert_eq!(quality.queue_bytes(), 6_250_000);
        quality.rate_bps = Some(1_000_000);
        assert_eq!(quality.queue_bytes(), 262_144);
        quality.queue_bytes = Some(100_000);
        assert_eq!(quality.queue_bytes(), 100_000);
    }
}
