//! The times that members wait before they ask, and before they send again. They are random, in units of the
//! group's size, so that one member speaks and the others hear it in time (the paper leaves this open;
//! Nonnenmacher and Biersack, "Optimal multicast feedback", 1998).

use std::time::Duration;

use crate::random::SplitMix64;

/// The shortest distance that counts, because the timers of hosts are not finer.
const SHORTEST: Duration = Duration::from_millis(1);

/// The distance that is assumed before any was measured.
const ASSUMED: Duration = Duration::from_millis(25);

/// The longest random time before a request and before a repair, in multiples of the longest way through the group.
/// Nearly all members can repair, but few ask: with 8 for repairs, two in three were superfluous, with 16 one in three, and 32 makes
/// groups in which all mend lighter than those of which controllers alone mend.
const WAYS_TO_ASK: u32 = 8;
const WAYS_TO_MEND: u32 = 32;

/// The size of a group, from which members compute their random waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    /// The time that a packet takes from the controller to the member that is farthest away.
    pub one_way: Duration,
    /// The number of members, the controller included.
    pub members: usize,
}

impl Timing {
    /// Creates the timing of a group whose longest round trip to the controller is `diameter_us` microseconds; 0 if
    /// it is not known.
    pub fn new(diameter_us: u32, members: usize) -> Self {
        let one_way = match diameter_us {
            0 => ASSUMED,
            measured => (Duration::from_micros(measured.into()) / 2).max(SHORTEST),
        };
        Self { one_way, members: members.max(1) }
    }

    /// The random time to wait before a request. `distance` is the time that a packet takes between this member and
    /// the controller: nearer members speak first.
    pub fn ask_wait(self, distance: Duration, random: &mut SplitMix64) -> Duration {
        self.wait(WAYS_TO_ASK, distance, random)
    }

    /// The random time to wait before a repair.
    pub fn mend_wait(self, distance: Duration, random: &mut SplitMix64) -> Duration {
        self.wait(WAYS_TO_MEND, distance, random)
    }

    fn wait(self, ways: u32, distance: Duration, random: &mut SplitMix64) -> Duration {
        match self.members {
            1 => Duration::ZERO,
            members => exponential(self.one_way * ways, members, random.unit()) + distance.min(self.one_way),
        }
    }

    /// The time after which a request was in vain: longer than any member waits before it sends again.
    pub fn hold(self) -> Duration {
        self.one_way * (WAYS_TO_MEND + 4) + Duration::from_millis(5)
    }

    /// The time after a repair in which requests still arrive that were sent before the repair could be heard.
    pub fn echo(self) -> Duration {
        self.one_way * 3
    }
}

/// A random time of at most `window`, of which long ones are likely: of `speakers` members that wait so, about one speaks long before
/// the others. `uniform` is a random number between 0 and 1.
pub(super) fn exponential(window: Duration, speakers: usize, uniform: f64) -> Duration {
    let lambda = (speakers.max(1) as f64).ln() + 1.0;
    let drawn = (1.0 + uniform.clamp(0.0, 1.0) * lambda.exp_m1()).ln() / lambda;
    window.mul_f64(drawn.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_speaks_before_the_others() {
        let (mut random, mut spoken, rounds) = (SplitMix64(3), 0, 1_000);
        for members in [2, 5, 24] {
            let timing = Timing::new(20_000, members);
            for _ in 0..rounds {
                let mut times: Vec<_> =
                    (0..members).map(|_| timing.mend_wait(timing.one_way, &mut random)).collect();
                times.sort_unstable();
                let heard = times[0] + timing.one_way * 2;
                assert!(times[members - 1] + timing.one_way * 2 < timing.hold());
                spoken += times.iter().filter(|time| **time < heard).count();
            }
        }
        let mean = spoken as f64 / f64::from(3 * rounds);
        assert!((1.0..1.8).contains(&mean), "{mean} speak, two ways apart");
    }

    #[test]
    fn who_is_alone_does_not_wait() {
        let timing = Timing::new(0, 1);
        assert_eq!(timing.ask_wait(ASSUMED, &mut SplitMix64(1)), Duration::ZERO);
        assert_eq!(Timing::new(1, 1).one_way, SHORTEST);
    }
}
