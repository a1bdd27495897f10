//! What is heard of one beacon: loss, duplicates, latency and hops over the last two seconds.

use std::{collections::VecDeque, time::Duration};

use treecast_proto::Instant;
use treecast_wire::beacon::{ALL_PERMILLE, Beacon};

/// The time that shares are computed over, and the part of it that is forgotten at once.
const WINDOW: Duration = Duration::from_secs(2);
const PART: Duration = Duration::from_millis(500);

/// A beacon is silent after so many intervals without a packet, and after no less than this time.
const SILENT_INTERVALS: u32 = 4;
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);

/// The number of packets before the newest one of which it is known whether they have come.
const REMEMBERED: u32 = 128;

/// The account of one beacon's packets.
#[derive(Debug, Clone)]
pub struct Heard {
    /// The newest sequence number, and which packets before it have come: the lowest bit is the newest.
    newest: u32,
    seen: u128,
    last: Instant,
    interval: Duration,
    parts: VecDeque<Part>,
    hops: Option<u8>,
    /// Totals since the first packet.
    pub received: u64,
    pub lost: u64,
    pub duplicates: u64,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    begun: Instant,
    expected: u64,
    received: u64,
    duplicates: u64,
    /// The shortest time from sending to arrival, in microseconds.
    one_way_us: i64,
}

impl Heard {
    /// Begins with a beacon's first packet, which came at `wall_us` microseconds since 1970.
    pub fn new(now: Instant, wall_us: u64, packet: &Beacon, hop_limit: Option<u8>) -> Self {
        let mut heard = Self {
            newest: packet.sequence.wrapping_sub(1),
            seen: 0,
            last: now,
            interval: Duration::ZERO,
            parts: VecDeque::new(),
            hops: None,
            received: 0,
            lost: 0,
            duplicates: 0,
        };
        heard.take(now, wall_us, packet, hop_limit);
        heard
    }

    /// Takes a packet.
    pub fn take(&mut self, now: Instant, wall_us: u64, packet: &Beacon, hop_limit: Option<u8>) {
        let ahead = packet.sequence.wrapping_sub(self.newest) as i32;
        let is_back = self.is_silent(now);
        if is_back {
            // Silence was told as it was; what is heard from now on is told apart.
            self.parts.clear();
        }
        let (is_new, skipped) = self.note(ahead);
        let one_way_us = (wall_us as i64).saturating_sub(packet.sent_us as i64);
        let part = self.part(now);
        match is_new {
            true => {
                part.received += 1;
                part.expected += if ahead > 0 { 1 + if is_back { 0 } else { skipped } } else { 0 };
                part.one_way_us = part.one_way_us.min(one_way_us);
                self.received += 1;
                // A late packet was counted as lost before.
                self.lost = if ahead > 0 { self.lost + skipped } else { self.lost.saturating_sub(1) };
            }
            false => {
                part.duplicates += 1;
                self.duplicates += 1;
            }
        }
        self.last = now;
        self.interval = Duration::from_millis(u64::from(packet.interval_ms));
        self.hops = hop_limit.and_then(|left| packet.hop_limit.checked_sub(left));
    }

    /// Notes a packet that is so many ahead of the newest. Returns whether it came for the first time, and how many
    /// it skipped. One that is too old to tell counts as a duplicate.
    fn note(&mut self, ahead: i32) -> (bool, u64) {
        if ahead > 0 {
            self.newest = self.newest.wrapping_add(ahead as u32);
            self.seen = self.seen.checked_shl(ahead as u32).unwrap_or(0) | 1;
            return (true, ahead as u64 - 1);
        }
        let behind = ahead.unsigned_abs();
        let bit = if behind < REMEMBERED { 1_u128 << behind } else { 0 };
        let is_new = bit != 0 && self.seen & bit == 0;
        self.seen |= bit;
        (is_new, 0)
    }

    fn part(&mut self, now: Instant) -> &mut Part {
        self.parts.retain(|part| now - part.begun < WINDOW);
        let is_over = self.parts.back().is_none_or(|part| now - part.begun >= PART);
        if is_over {
            let one_way_us = i64::MAX;
            self.parts.push_back(Part { begun: now, expected: 0, received: 0, duplicates: 0, one_way_us });
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Whether no packet has come for several intervals.
    pub fn is_silent(&self, now: Instant) -> bool {
        now - self.last > (self.interval * SILENT_INTERVALS).max(SHORTEST_SILENCE)
    }

    /// The time since the last packet.
    pub fn silence(&self, now: Instant) -> Duration {
        now - self.last
    }

    /// The share of packets that got lost lately, in thousandths. All are lost while the beacon is silent.
    pub fn loss_permille(&self, now: Instant) -> u16 {
        if self.is_silent(now) {
            return ALL_PERMILLE;
        }
        let (expected, received) = self
            .lately(now)
            .fold((0, 0), |(expected, received), part| (expected + part.expected, received + part.received));
        permille(expected.saturating_sub(received), expected)
    }

    /// The number of second copies for each thousand packets lately, at most 1,000.
    pub fn duplicates_permille(&self, now: Instant) -> u16 {
        let (duplicates, received) = self.lately(now).fold((0, 0), |(duplicates, received), part| {
            (duplicates + part.duplicates, received + part.received)
        });
        permille(duplicates, received)
    }

    /// The shortest time from sending to arrival lately, in microseconds, by both clocks. `None`: nothing came, or
    /// the clocks differ by more than half an hour.
    pub fn one_way_us(&self, now: Instant) -> Option<i32> {
        let shortest = self.lately(now).map(|part| part.one_way_us).min()?;
        i32::try_from(shortest).ok().filter(|time| *time != i32::MIN && !self.is_silent(now))
    }

    /// The number of routers on the way of the last packet.
    pub fn hops(&self) -> Option<u8> {
        self.hops
    }

    fn lately(&self, now: Instant) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| now - part.begun < WINDOW)
    }
}

fn permille(part: u64, of: u64) -> u16 {
    // At most 1,000, so it fits.
    (part * 1000).checked_div(of).unwrap_or(0).min(u64::from(ALL_PERMILLE)) as u16
}

#[cfg(test)]
mod tests {
    use treecast_proto::random::SplitMix64;

    use super::*;

    const INTERVAL_MS: u16 = 100;

    fn packet(sequence: u32) -> Beacon {
        let mut packet = Beacon::new(7, "b7").expect("a good name");
        (packet.sequence, packet.interval_ms, packet.hop_limit) = (sequence, INTERVAL_MS, 32);
        packet.sent_us = u64::from(sequence) * 100_000;
        packet
    }

    fn at(sequence: u32) -> Instant {
        Instant::ZERO + Duration::from_millis(u64::from(INTERVAL_MS)) * sequence
    }

    fn take(heard: &mut Heard, sequence: u32, late_us: u64) {
        let now = at(sequence) + Duration::from_micros(late_us);
        heard.take(now, u64::from(sequence) * 100_000 + late_us, &packet(sequence), Some(30));
    }

    #[test]
    fn losses_are_counted_exactly_whatever_the_order() {
        for seed in 0..200 {
            let mut random = SplitMix64(seed);
            let start = random.draw() as u32;
            let numbered = |sequence: u32| {
                let mut packet = packet(0);
                packet.sequence = sequence;
                packet
            };
            let first = numbered(start);
            let mut heard = Heard::new(Instant::ZERO, 0, &first, None);
            let (mut received, mut duplicates) = (1, 0);
            let mut order: Vec<u32> = (1..100).filter(|_| random.below(10) > 0).collect();
            // Swaps neighbours, so that some come late.
            (0..order.len() - 1).step_by(3).for_each(|at| order.swap(at, at + 1));
            for offset in &order {
                let packet = numbered(start.wrapping_add(*offset));
                let copies = 1 + random.below(2);
                (received, duplicates) = (received + 1, duplicates + copies - 1);
                (0..copies).for_each(|_| heard.take(Instant::ZERO, 0, &packet, None));
            }
            let newest = order.iter().copied().max().unwrap_or(0);
            assert_eq!((heard.received, heard.duplicates), (received, duplicates), "seed {seed}");
            assert_eq!(heard.lost, u64::from(newest) + 1 - received, "seed {seed}");
        }
    }

    #[test]
    fn the_share_of_losses_is_that_of_the_last_two_seconds() {
        let mut heard = Heard::new(at(0), 0, &packet(0), Some(32));
        (1..40).for_each(|sequence| take(&mut heard, sequence, 50));
        assert_eq!(heard.loss_permille(at(39)), 0);
        (40..60).filter(|sequence| sequence % 2 == 0).for_each(|sequence| take(&mut heard, sequence, 50));
        let loss = heard.loss_permille(at(59));
        assert!((400..=600).contains(&loss), "{loss}");
        (60..81).for_each(|sequence| take(&mut heard, sequence, 50));
        assert_eq!(heard.loss_permille(at(80)), 0, "two seconds later");
        assert_eq!((heard.hops(), heard.one_way_us(at(80))), (Some(2), Some(50)));
    }

    #[test]
    fn silence_is_told_after_a_second_and_forgotten_with_the_first_packet() {
        let mut heard = Heard::new(at(0), 0, &packet(0), None);
        (1..20).for_each(|sequence| take(&mut heard, sequence, 0));
        assert!(!heard.is_silent(at(29)) && heard.is_silent(at(30)));
        assert_eq!((heard.loss_permille(at(30)), heard.one_way_us(at(30))), (1000, None));
        take(&mut heard, 120, 0);
        assert_eq!((heard.loss_permille(at(120)), heard.lost), (0, 100));
    }

    #[test]
    fn a_clock_that_jumps_changes_the_latency_for_two_seconds_at_most() {
        let mut heard = Heard::new(at(0), 0, &packet(0), None);
        let hour_us = 3_600_000_000_u64;
        for sequence in 1..80 {
            let mut packet = packet(sequence);
            packet.sent_us += if sequence < 30 { 0 } else { hour_us * 1000 };
            let wall_us =
                u64::from(sequence) * 100_000 + 400 + if sequence < 30 { 0 } else { hour_us * 1000 };
            // One clock is set forward first, the other one half a second later.
            let wall_us = if (30..35).contains(&sequence) { wall_us - hour_us * 1000 } else { wall_us };
            heard.take(at(sequence), wall_us, &packet, None);
        }
        assert_eq!((heard.one_way_us(at(79)), heard.loss_permille(at(79))), (Some(400), 0));
    }
}
