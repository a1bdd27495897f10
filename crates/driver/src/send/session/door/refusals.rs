//! Reports connections that were refused. Anybody can open ten thousand of them, so only the first ones in a
//! while are reported one by one; the others are counted.

use std::time::Duration;

use treecast_proto::Instant;

/// Number of refusals in one [`WHILE`] that are told one by one.
const TOLD: u64 = 20;

/// Time for which refusals are counted together.
const WHILE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The time at which the current while ends, and the number of refusals in it.
    current: Option<(Instant, u64)>,
}

impl Refusals {
    /// Counts a refusal. Returns whether it must be reported.
    pub fn note(&mut self, now: Instant) -> bool {
        let (_, count) = self.current.get_or_insert((now + WHILE, 0));
        *count += 1;
        *count <= TOLD
    }

    /// The line about unreported refusals, at the end of a while.
    pub fn sum_up(&mut self, now: Instant) -> Option<String> {
        let (_, count) = self.current.take_if(|(end, _)| *end <= now)?;
        let untold = count.checked_sub(TOLD).filter(|untold| *untold > 0)?;
        Some(format!("{untold} more connections came to nothing in {} s", WHILE.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_few_lines() {
        let mut refusals = Refusals::default();
        let told = (0..10_000).filter(|_| refusals.note(Instant::ZERO)).count() as u64;
        assert_eq!((told, refusals.sum_up(Instant::ZERO)), (TOLD, None));
        let line = refusals.sum_up(Instant::ZERO + WHILE).unwrap();
        assert!(line.starts_with("9980 more connections"), "{line}");
        assert!(refusals.note(Instant::ZERO + WHILE) && refusals.sum_up(Instant::ZERO + 3 * WHILE).is_none());
    }
}
