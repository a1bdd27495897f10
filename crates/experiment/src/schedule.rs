//! Decides when each client of a run starts (librecast-updates-2022, 1 and 2.1).

use std::time::Duration;

use serde::Deserialize;
use treecast_proto::random::SplitMix64;

/// The strategy by which clients start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Schedule {
    /// All clients start at once.
    Immediate,
    /// Each client waits a random time, at most the duration of the corresponding immediate run.
    Random,
    /// Each client waits a random time, at most twice the duration of the corresponding immediate run.
    Random2,
}

impl Schedule {
    pub const ALL: [Schedule; 3] = [Schedule::Immediate, Schedule::Random, Schedule::Random2];

    pub fn name(self) -> &'static str {
        match self {
            Schedule::Immediate => "immediate",
            Schedule::Random => "random",
            Schedule::Random2 => "random2",
        }
    }

    /// Returns how long each of `clients` clients waits before it starts. `immediate` is the duration of the
    /// corresponding immediate run, and `seed` decides the random times.
    pub fn waits(self, clients: usize, immediate: Duration, seed: u64) -> Vec<Duration> {
        let longest = immediate * self.longest_wait_factor();
        let mut draws = SplitMix64(seed);
        (0..clients).map(|_| longest.mul_f64(draws.unit())).collect()
    }

    /// Returns the longest wait as a multiple of the duration of the immediate run.
    pub fn longest_wait_factor(self) -> u32 {
        match self {
            Schedule::Immediate => 0,
            Schedule::Random => 1,
            Schedule::Random2 => 2,
        }
    }
}

impl TryFrom<String> for Schedule {
    type Error = UnknownSchedule;

    fn try_from(text: String) -> Result<Self, UnknownSchedule> {
        Self::ALL.into_iter().find(|schedule| schedule.name() == text).ok_or(UnknownSchedule(text))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown schedule `{0}`: expected immediate, random or random2")]
pub struct UnknownSchedule(String);

/// Returns the seed of one run, made from the experiment's seed and the run's name (FNV-1a). So leaving a run
/// out does not change the others.
pub fn seed_for(seed: u64, run: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    run.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMMEDIATE: Duration = Duration::from_secs(10);

    #[test]
    fn immediate_waits_for_nothing() {
        assert_eq!(Schedule::Immediate.waits(3, IMMEDIATE, 7), [Duration::ZERO; 3]);
    }

    #[test]
    fn the_same_seed_draws_the_same_waits_and_another_does_not() {
        let first = Schedule::Random.waits(50, IMMEDIATE, 1);
        assert_eq!(first, Schedule::Random.waits(50, IMMEDIATE, 1));
        assert_ne!(first, Schedule::Random.waits(50, IMMEDIATE, 2));
    }

    #[test]
    fn waits_fill_the_time_of_the_immediate_run_once_or_twice() {
        for (schedule, longest) in [(Schedule::Random, IMMEDIATE), (Schedule::Random2, 2 * IMMEDIATE)] {
            let waits = schedule.waits(1_000, IMMEDIATE, 3);
            let mean = waits.iter().sum::<Duration>() / 1_000;
            assert!(waits.iter().all(|wait| *wait < longest));
            assert!(waits.iter().max() > Some(&longest.mul_f64(0.98)));
            assert!(mean > longest.mul_f64(0.45) && mean < longest.mul_f64(0.55), "{mean:?} of {longest:?}");
        }
    }

    #[test]
    fn each_run_draws_for_itself() {
        assert_ne!(seed_for(1, "tcp random 0"), seed_for(1, "tcp random 1"));
        assert_ne!(seed_for(1, "tcp random 0"), seed_for(2, "tcp random 0"));
    }
}
