//! The rule by which controllers of local groups die in the middle of a session. The lab obeys it, too.

use std::{collections::BTreeMap, time::Duration};

use treecast_proto::random::SplitMix64;

/// The controllers that are to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dying {
    /// This number of deaths, each of any controller.
    Count(u32),
    /// One death in each group: its controller at that time dies.
    EachGroup,
}

impl Default for Dying {
    fn default() -> Self {
        Self::Count(0)
    }
}

/// The deaths of one session. Times count from the session's beginning.
#[derive(Debug, Clone, Default)]
pub struct Deaths {
    random: SplitMix64,
    within: Duration,
    dying: Dying,
    /// The times of the deaths that may be of any controller, the last one first.
    times: Vec<Duration>,
    /// The time at which each group's controller dies. `None` when it has died.
    of_groups: BTreeMap<u32, Option<Duration>>,
}

impl Deaths {
    /// The time between two looks at who serves.
    pub const INTERVAL: Duration = Duration::from_millis(50);

    /// Draws the deaths from a seed. Each is at a random time before `within`.
    pub fn new(dying: Dying, within: Duration, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let count = if let Dying::Count(count) = dying { count } else { 0 };
        let mut times: Vec<Duration> = (0..count).map(|_| within.mul_f64(random.unit())).collect();
        times.sort_unstable();
        times.reverse();
        Self { random, within, dying, times, of_groups: BTreeMap::new() }
    }

    /// Whether nobody dies after this time.
    pub fn are_over(&self, time: Duration) -> bool {
        match self.dying {
            Dying::Count(_) => self.times.is_empty(),
            Dying::EachGroup => time > self.within && self.of_groups.values().all(Option::is_none),
        }
    }

    /// Returns the number of deaths that were wanted so far: with one in each group, the number of groups that had a
    /// controller in time.
    pub fn wanted(&self) -> usize {
        match self.dying {
            Dying::Count(count) => count as usize,
            Dying::EachGroup => self.of_groups.len(),
        }
    }

    /// Returns those of `serving` that die now. `serving` has the number and the group of each controller to which
    /// others report. A death waits while there is nobody to die.
    pub fn due(&mut self, time: Duration, mut serving: Vec<(usize, u32)>) -> Vec<usize> {
        let mut dead = Vec::new();
        while !serving.is_empty() && self.times.last().is_some_and(|at| *at <= time) {
            self.times.pop();
            let chosen = (self.random.unit() * serving.len() as f64) as usize;
            dead.push(serving.swap_remove(chosen).0);
        }
        if self.dying == Dying::EachGroup {
            for (number, group) in serving {
                let left = self.within.saturating_sub(time);
                if left.is_zero() && !self.of_groups.contains_key(&group) {
                    continue;
                }
                let random = &mut self.random;
                let at = self.of_groups.entry(group);
                let at = at.or_insert_with(|| Some(time + left.mul_f64(random.unit())));
                if at.take_if(|at| *at <= time).is_some() {
                    dead.push(number);
                }
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(8);

    /// Who dies at which time where these serve all the time.
    fn deaths(dying: Dying, seed: u64, serving: &[(usize, u32)]) -> Vec<(Duration, usize)> {
        let mut deaths = Deaths::new(dying, WITHIN, seed);
        let mut all = Vec::new();
        for time in (0..).map(|step| Deaths::INTERVAL * step).take_while(|time| *time < 2 * WITHIN) {
            all.extend(deaths.due(time, serving.to_vec()).into_iter().map(|number| (time, number)));
        }
        assert!(deaths.are_over(2 * WITHIN));
        assert_eq!(deaths.wanted(), all.len());
        all
    }

    #[test]
    fn the_seed_tells_who_dies_and_when() {
        let serving = [(1, 10), (5, 20), (9, 30)];
        for dying in [Dying::Count(3), Dying::EachGroup] {
            let [one, same, other] = [1, 1, 2].map(|seed| deaths(dying, seed, &serving));
            assert_eq!(one, same);
            assert_ne!(one, other);
            assert_eq!(one.len(), 3);
            assert!(one.iter().all(|(time, _)| *time <= WITHIN + Deaths::INTERVAL));
        }
        let mut each: Vec<usize> =
            deaths(Dying::EachGroup, 3, &serving).into_iter().map(|(_, number)| number).collect();
        each.sort_unstable();
        assert_eq!(each, [1, 5, 9], "each group's controller once");
        assert_eq!(deaths(Dying::default(), 1, &serving), []);
    }

    #[test]
    fn a_death_waits_until_somebody_serves() {
        let mut deaths = Deaths::new(Dying::Count(1), WITHIN, 1);
        assert!(deaths.due(WITHIN, Vec::new()).is_empty() && !deaths.are_over(WITHIN));
        assert_eq!(deaths.due(WITHIN * 2, vec![(4, 1)]), [4]);
        assert!(deaths.are_over(WITHIN));
    }
}
