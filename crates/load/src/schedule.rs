//! The times at which packets are due: at one rate, or at several one after the other.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use treecast_host::quantity;

/// The number of steps of a ramp whose number of steps is not given.
const RAMP_STEPS: u32 = 10;

/// The largest number of steps in a schedule.
const MAX_STEPS: usize = 1000;

/// The highest rate that can be asked for, in packets per second.
const MAX_PPS: f64 = 1e9;

/// A stretch of time in which packets are sent at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Packets per second of each sender. Above 0.
    pub rate_pps: f64,
    /// Length of the step, in seconds.
    pub seconds: f64,
}

/// The rates of a run, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub steps: Vec<Step>,
}

impl Step {
    /// The number of packets that one sender sends in this step. Packet `k` of them (from 0) is due `k / rate_pps` after
    /// the step's beginning, so even a rate of less than one packet in the step sends one.
    pub fn packets(&self) -> u64 {
        // A product such as 0.1 * 30 must not become one packet more by rounding.
        ((self.rate_pps * self.seconds - 1e-6).ceil() as u64).max(1)
    }

    /// The time over which the senders of a host may spread their packets, in seconds: the interval between two packets, or less if the
    /// last one could otherwise be due after the step's end.
    pub fn spread_seconds(&self) -> f64 {
        let after_last = self.seconds - (self.packets() - 1) as f64 / self.rate_pps;
        after_last.clamp(0.0, 1.0 / self.rate_pps)
    }

    /// The time from the step's beginning until packet `index` (from 0) is due, in nanoseconds.
    pub fn due_ns(&self, index: u64) -> u64 {
        (index as f64 * 1e9 / self.rate_pps) as u64
    }
}

impl Schedule {
    /// One rate for the whole run.
    pub fn constant(rate_pps: f64, seconds: f64) -> Self {
        Self { steps: vec![Step { rate_pps, seconds }] }
    }

    /// Reads `RATE[,RATE]...`, which share the time equally. A rate is `450`, `0.5` or `1/h`, by a unit of time. A ramp is
    /// `100..1000` (in ten steps) or `100..1000/20` (in twenty).
    ///
    /// # Errors
    /// The form that was expected.
    pub fn parse(text: &str, seconds: f64) -> Result<Self, String> {
        let mut rates = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => rates.push(rate(part)?),
                Some((from, to)) => rates.extend(ramp(from, to)?),
            }
        }
        if rates.len() > MAX_STEPS {
            return Err(format!("{} steps are too many: take at most {MAX_STEPS}", rates.len()));
        }
        let each = seconds / rates.len() as f64;
        Ok(Self { steps: rates.into_iter().map(|rate_pps| Step { rate_pps, seconds: each }).collect() })
    }

    /// The length of all steps together, in seconds.
    pub fn seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.seconds).sum()
    }

    /// The number of packets that one sender sends in all steps.
    pub fn packets(&self) -> u64 {
        self.steps.iter().map(Step::packets).sum()
    }

    /// The rate at which packet `number` (from 1) is sent, in packets per second. `None` beyond the last packet.
    pub fn rate_of(&self, number: u64) -> Option<f64> {
        let mut last = 0;
        self.steps.iter().find_map(|step| {
            last += step.packets();
            (number <= last).then_some(step.rate_pps)
        })
    }
}

fn ramp(from: &str, to: &str) -> Result<Vec<f64>, String> {
    let wrong =
        || format!("{from}..{to}: expected a ramp like 100..1000, or 100..1000/20 for one of 20 steps");
    let (to, steps) = match to.split_once('/') {
        Some((to, steps)) => (to, steps.parse::<u32>().ok().filter(|steps| *steps >= 2).ok_or_else(wrong)?),
        None => (to, RAMP_STEPS),
    };
    let (from, to) = (rate(from)?, rate(to)?);
    if steps as usize > MAX_STEPS {
        return Err(wrong());
    }
    let at = |step: u32| from + (to - from) * f64::from(step) / f64::from(steps - 1);
    Ok((0..steps).map(at).collect())
}

fn rate(text: &str) -> Result<f64, String> {
    let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
    let is_unit = !unit.is_empty() && unit.chars().all(char::is_alphabetic);
    let time = quantity::time(&format!("1{unit}"), Duration::from_micros(1)..=Duration::from_secs(86_400));
    let time = time.ok().filter(|_| is_unit);
    let rate = time.and_then(|time| Some(count.parse::<f64>().ok()? / time.as_secs_f64()));
    rate.filter(|rate| *rate > 0.0 && *rate <= MAX_PPS).ok_or_else(|| {
        format!("{text}: expected packets per second, above 0 and at most {MAX_PPS}, like 450, 0.5 or 1/h, several as 100,200, or a ramp as 100..1000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_steps_and_ramps_are_read() {
        let rates = |text: &str| -> Vec<f64> {
            Schedule::parse(text, 60.0).unwrap().steps.iter().map(|step| step.rate_pps).collect()
        };
        assert_eq!(rates("450"), [450.0]);
        assert_eq!(rates("1/h"), [1.0 / 3600.0]);
        assert_eq!(rates("30/m,30/min,43200/d"), [0.5; 3]);
        assert_eq!(rates("100..400/4,5"), [100.0, 200.0, 300.0, 400.0, 5.0]);
        assert_eq!(rates("1..10").len(), 10);
        assert!((Schedule::parse("100,200", 7.0).unwrap().seconds() - 7.0).abs() < 1e-9);
        for wrong in
            ["", "0", "-1", "x", "1/", "1/y", "1/1s", "nan", "inf", "1..", "5..9/1", "1..2/5000", "1e10"]
        {
            assert!(Schedule::parse(wrong, 1.0).unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn a_step_has_as_many_packets_as_rate_and_time_make() {
        let packets = |rate_pps, seconds| Step { rate_pps, seconds }.packets();
        assert_eq!(packets(1.0, 100.0), 100);
        assert_eq!(packets(0.1, 30.0), 3);
        assert_eq!(packets(1.0 / 3600.0, 10.0), 1);
        assert_eq!(packets(3.0, 0.5), 2);
        let schedule = Schedule::parse("10,20", 4.0).unwrap();
        assert_eq!(
            (schedule.packets(), schedule.rate_of(20), schedule.rate_of(21)),
            (60, Some(10.0), Some(20.0))
        );
        assert_eq!(schedule.rate_of(61), None);
        assert_eq!(Step { rate_pps: 1000.0, seconds: 1.0 }.due_ns(500), 500_000_000);
    }

    #[test]
    fn every_sender_of_a_host_sends_its_last_packet_within_the_step() {
        let steps = [(1.0 / 3600.0, 10.0), (1.0, 1.2), (3.0, 0.5), (450.0, 30.0), (0.1, 30.0)];
        for step in steps.map(|(rate_pps, seconds)| Step { rate_pps, seconds }) {
            let last = step.due_ns(step.packets() - 1) as f64 / 1e9 + step.spread_seconds();
            assert!(last <= step.seconds + 1e-6 && step.spread_seconds() > 0.0, "{step:?}: {last}");
        }
    }
}
