//! Counts what one receiver got of one or more flows: which packets, how late, and the gaps between them.

use std::{ops::Range, time::Duration};

use serde::{Deserialize, Serialize};

use super::Stamp;

/// Latencies are counted in steps of an eighth of a power of two.
const STEPS_PER_OCTAVE: u32 = 8;
const STEPS: usize = 64 * STEPS_PER_OCTAVE as usize;

/// Counts of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    pub packets: u64,
    pub latency_sum: Duration,
    pub latency_max: Duration,
}

/// Counts of one receiver, or of several together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tally {
    /// The number of different packets that arrived.
    pub packets: u64,
    pub duplicates: u64,
    pub latency_sum: Duration,
    pub latency_min: Duration,
    pub latency_max: Duration,
    /// The sum of the differences in latency between packets that came one after the other, and the number of
    /// these differences.
    pub jitter_sum: Duration,
    pub jitter_count: u64,
    /// The time at which the last packet arrived, since 1970.
    pub last: Duration,
    /// The longest time between two packets of a flow, and when it began.
    pub longest_gap: (Duration, Duration),
    /// The counts of each second since the beginning.
    pub seconds: Vec<Second>,
    steps: Vec<u32>,
    flows: Vec<FlowTally>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct FlowTally {
    /// A bit for each packet that has come.
    has: Vec<u64>,
    previous: Option<(Duration, Duration)>,
}

impl Tally {
    pub fn new(flows: usize) -> Self {
        Self {
            packets: 0,
            duplicates: 0,
            latency_sum: Duration::ZERO,
            latency_min: Duration::MAX,
            latency_max: Duration::ZERO,
            jitter_sum: Duration::ZERO,
            jitter_count: 0,
            last: Duration::ZERO,
            longest_gap: (Duration::ZERO, Duration::ZERO),
            seconds: Vec::new(),
            steps: vec![0; STEPS],
            flows: vec![FlowTally::default(); flows],
        }
    }

    /// Counts a packet that came at `at` in a run that began at `began`, both since 1970. Packets of unknown
    /// flows, and numbers above `packets`, do not belong to the run and do not count.
    pub fn note(&mut self, stamp: &Stamp, at: Duration, began: Duration, packets: u32) {
        let Some(flow) = self.flows.get_mut(stamp.flow as usize).filter(|_| stamp.number < packets) else {
            return;
        };
        let (word, bit) = ((stamp.number / 64) as usize, 1 << (stamp.number % 64));
        if flow.has.len() <= word {
            flow.has.resize(word + 1, 0);
        }
        if flow.has[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        flow.has[word] |= bit;
        let latency = at.saturating_sub(stamp.sent);
        if let Some((before, latency_before)) = flow.previous {
            self.jitter_sum += latency.abs_diff(latency_before);
            self.jitter_count += 1;
            self.longest_gap = self.longest_gap.max((at.saturating_sub(before), before));
        }
        flow.previous = Some((at, latency));
        self.packets += 1;
        self.latency_sum += latency;
        self.latency_min = self.latency_min.min(latency);
        self.latency_max = self.latency_max.max(latency);
        self.last = self.last.max(at);
        self.steps[step(latency)] += 1;
        let second = at.saturating_sub(began).as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        let second = &mut self.seconds[second];
        second.packets += 1;
        second.latency_sum += latency;
        second.latency_max = second.latency_max.max(latency);
    }

    /// Whether these can be counts of a run in which `flows` flows sent `packets` packets each. What another host says is not taken for
    /// right: sums of what it says must not run over.
    pub fn can_be(&self, flows: usize, packets: u32) -> bool {
        const LONGEST: Duration = Duration::from_secs(1 << 32);
        let most = flows as u64 * u64::from(packets);
        let times = [self.latency_sum, self.latency_max, self.jitter_sum, self.last];
        let gaps = [self.longest_gap.0, self.longest_gap.1];
        let words = (packets as usize).div_ceil(64);
        let in_seconds = self.seconds.iter().map(|second| second.packets).fold(0, u64::saturating_add);
        times.iter().chain(&gaps).all(|time| *time <= LONGEST * 1024)
            && (self.packets == 0 || self.latency_min <= LONGEST)
            && self.seconds.iter().all(|second| second.latency_sum.max(second.latency_max) <= LONGEST * 1024)
            && self.packets.max(self.jitter_count).max(in_seconds) <= most
            && self.duplicates <= u64::from(u32::MAX)
            && self.steps.len() == STEPS
            && self.steps.iter().map(|count| u64::from(*count)).sum::<u64>() <= most
            && self.flows.len() == flows
            && self.flows.iter().all(|flow| flow.has.len() <= words)
    }

    /// Returns how many packets with these numbers have arrived, of all flows together.
    pub fn came_of(&self, numbers: Range<u32>) -> u64 {
        let has = |flow: &FlowTally, number: u32| {
            let word = flow.has.get((number / 64) as usize).copied().unwrap_or(0);
            word & 1 << (number % 64) != 0
        };
        let of_flow = |flow: &FlowTally| numbers.clone().filter(|number| has(flow, *number)).count() as u64;
        self.flows.iter().map(of_flow).sum()
    }

    /// Adds the counts of another receiver.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.duplicates += other.duplicates;
        self.latency_sum += other.latency_sum;
        self.latency_min = self.latency_min.min(other.latency_min);
        self.latency_max = self.latency_max.max(other.latency_max);
        self.jitter_sum += other.jitter_sum;
        self.jitter_count += other.jitter_count;
        self.last = self.last.max(other.last);
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        let longer = self.seconds.len().max(other.seconds.len());
        self.seconds.resize(longer, Second::default());
        for (second, more) in self.seconds.iter_mut().zip(&other.seconds) {
            second.packets += more.packets;
            second.latency_sum += more.latency_sum;
            second.latency_max = second.latency_max.max(more.latency_max);
        }
        self.steps.iter_mut().zip(&other.steps).for_each(|(count, more)| *count += more);
    }

    /// Returns the latency that this share of the packets, from 0 to 1, does not exceed. It is accurate to an
    /// eighth of its value.
    pub fn latency_at(&self, share: f64) -> Duration {
        let wanted = (self.packets as f64 * share).ceil() as u64;
        let mut count = 0;
        for (index, more) in self.steps.iter().enumerate() {
            count += u64::from(*more);
            if count >= wanted && count > 0 {
                return upper(index).min(self.latency_max);
            }
        }
        self.latency_max
    }
}

fn step(latency: Duration) -> usize {
    let ns = (latency.as_nanos() as u64).max(1);
    let octave = ns.ilog2();
    let within = if octave >= 3 { (ns >> (octave - 3)) & 7 } else { 0 };
    ((octave * STEPS_PER_OCTAVE) as usize + within as usize).min(STEPS - 1)
}

fn upper(step: usize) -> Duration {
    let (octave, within) = (step as u32 / STEPS_PER_OCTAVE, step as u64 % 8);
    let octave = octave.clamp(3, 59);
    Duration::from_nanos((8 + within + 1) << (octave - 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn stamp(number: u32, sent: Duration) -> Stamp {
        Stamp { run: 1, flow: 0, number, sent }
    }

    #[test]
    fn what_came_twice_or_was_never_sent_is_not_counted() {
        let mut tally = Tally::new(1);
        for number in [0, 1, 1, 70, 100] {
            tally.note(&stamp(number, 10 * MS), 12 * MS, Duration::ZERO, 100);
        }
        tally.note(&Stamp { flow: 1, ..stamp(2, MS) }, 2 * MS, Duration::ZERO, 100);
        assert_eq!((tally.packets, tally.duplicates), (3, 1));
        assert_eq!([0..2, 1..70, 70..71, 71..200].map(|numbers| tally.came_of(numbers)), [2, 1, 1, 0]);
    }

    #[test]
    fn latency_jitter_and_gaps_are_of_packets_in_the_order_of_their_coming() {
        let (mut tally, mut other) = (Tally::new(1), Tally::new(1));
        for (number, latency) in [(0, 2), (1, 5), (2, 3)] {
            let sent = 100 * MS * number;
            tally.note(&stamp(number, sent), sent + latency * MS, Duration::ZERO, 3);
        }
        other.note(&stamp(0, 900 * MS), 1_900 * MS, Duration::ZERO, 3);
        assert_eq!((tally.latency_min, tally.latency_max, tally.latency_sum), (2 * MS, 5 * MS, 10 * MS));
        assert_eq!((tally.jitter_sum, tally.jitter_count), (5 * MS, 2));
        assert_eq!(tally.longest_gap, (103 * MS, 2 * MS));
        tally.add(&other);
        assert_eq!((tally.packets, tally.seconds.len(), tally.seconds[1].latency_max), (4, 2, 1_000 * MS));
        let median = tally.latency_at(0.5);
        assert!(median >= 3 * MS && median <= 4 * MS, "{median:?}");
        assert_eq!(tally.latency_at(1.0), 1_000 * MS);
    }
}
