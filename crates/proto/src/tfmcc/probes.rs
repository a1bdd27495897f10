//! Probes hold what receivers claim to get against what they have got. No socket, no clock.
//!
//! A receiver that says that everything arrives, and never asks for what it lacks, cannot be found out by
//! what it asks for (`sender/trust.rs`). So the sender puts a packet with a number that nobody can guess, a
//! nonce, among about a hundred packets. The packet is as long as the others and takes the place of one, at a
//! random place of a run, so that it is lost as they are. Receivers report which probes have come, and the
//! sum of their nonces. A sum is right only of probes that have come (Savage and others, "TCP Congestion
//! Control with a Misbehaving Receiver", 1999, have a nonce in each segment).
//!
//! The loss of probes and the loss that a receiver claims are compared by a sum that grows with each probe that was lost, and shrinks by
//! what is tolerated (CUSUM: Page, "Continuous Inspection Schemes", 1954). Only the receiver that the sender follows is judged: what
//! others say raises no rate.

use std::{collections::VecDeque, fmt, time::Duration};

use treecast_wire::message::{Probe, ProbeProof};

use crate::{Instant, random::SplitMix64};

/// The number of packets from one probe to the next, and the shortest time between them.
const DISTANCE: std::ops::RangeInclusive<u64> = 70..=130;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The most probes that a proof names.
const NAMED: u32 = u64::BITS;

/// The most probes that the sender remembers. A proof of older ones proves nothing.
const MOST_SENT: usize = 1_024;

/// The longest time by which a probe comes later than packets that left with it.
const REORDERED: Duration = Duration::from_millis(250);

/// The share of probes by which loss may differ from what is claimed, and how many times the claim it may be in addition.
const TOLERATED: f64 = 0.06;
const TOLERATED_MORE: f64 = 1.25;
const TOLERATED_LESS: f64 = 0.75;

/// The number of probes, above what is tolerated, from which on a receiver counts as a liar: probes that were lost although it claims
/// that they came, and probes that came although it claims that they were lost. An outage looks like the first and never like the
/// second, so the second needs fewer.
const LIMIT_LESS: f64 = 24.0;
const LIMIT_MORE: f64 = 14.0;

/// The share of a lie that one false sum is.
const WRONG: f64 = 1.0 / 8.0;

/// The most that one report adds that comes after a silence. An outage is no lie, although nobody claims what was lost in it.
const MOST_AFTER_SILENCE: f64 = 2.0;

/// A receiver was silent if so many times the shortest round trip have passed since its last report, and no less than this.
const SILENT_ROUND_TRIPS: u32 = 3;
const SHORTEST_SILENCE: Duration = Duration::from_millis(150);

/// Claims tell of a round trip each. So a report is judged with the claims of one more round trip, and counts less where many probes
/// leave in it. A round trip of claims is no shorter than this, and the weight is whole up to that.
const SHORTEST_HOLD: Duration = Duration::from_millis(15);
const WHOLE_WEIGHT: Duration = Duration::from_millis(500);

/// The most reports that wait for their verdict.
const MOST_HELD: usize = 64;

/// A secret of one sender and group, from which nonces are made. Its text never shows it.
#[derive(Clone, Copy)]
pub struct ProbeKey(pub [u8; 32]);

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeKey")
    }
}

impl ProbeKey {
    /// The nonce of a probe: the first eight bytes of the keyed BLAKE3 hash of its number.
    fn nonce(&self, number: u32) -> u64 {
        let hash = blake3::keyed_hash(&self.0, &number.to_be_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        u64::from_be_bytes(*first)
    }
}

/// The probes of one group's sender.
#[derive(Debug, Clone)]
pub struct Probes {
    key: ProbeKey,
    random: SplitMix64,
    packet_bytes: u64,
    /// Bytes of IP packets that leave before the next probe.
    left_bytes: u64,
    /// The last probes, and when they left.
    sent: VecDeque<(u64, Instant)>,
    /// The number of the last probe.
    last: u32,
}

/// The probes since the last proof, as this proof shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// The last probe that was looked at. The next proof is looked at from there on.
    until: u32,
    /// Probes that were looked at, and those of them that were lost.
    count: u32,
    lost: u32,
    /// The probes that have come: the lowest bit is `until`, the next bit the one before it.
    came: u64,
    /// The proof claims probes that have not come.
    is_wrong: bool,
}

impl Probes {
    pub fn new(key: ProbeKey, packet_bytes: u32) -> Self {
        let mut random = SplitMix64(key.nonce(0));
        let packet_bytes = u64::from(packet_bytes);
        let left_bytes = distance(&mut random) * packet_bytes;
        Self { key, random, packet_bytes, left_bytes, sent: VecDeque::new(), last: 0 }
    }

    /// Takes note of IP packets that have left for the group. A probe that would be too soon is left out. Were it put off until its time
    /// has come, it would always be the first of a run, which finds shorter queues.
    pub fn sent(&mut self, now: Instant, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if self.left_bytes == 0 && self.is_soon(now) {
            self.left_bytes = distance(&mut self.random) * self.packet_bytes;
        }
    }

    fn is_soon(&self, now: Instant) -> bool {
        self.sent.back().is_some_and(|(_, at)| *at + SHORTEST_INTERVAL > now)
    }

    /// Returns how many packets may leave before the next probe. `None`: no probe is near.
    pub fn packets_before(&self, now: Instant) -> Option<u64> {
        let is_over = self.last == u32::MAX;
        (!self.is_soon(now) && !is_over).then(|| self.left_bytes.div_ceil(self.packet_bytes.max(1)))
    }

    /// Makes the probe that leaves now.
    pub fn take(&mut self, now: Instant) -> Probe {
        self.last = self.last.saturating_add(1);
        self.left_bytes = distance(&mut self.random) * self.packet_bytes;
        let probe = Probe { number: self.last, nonce: self.key.nonce(self.last) };
        if self.sent.len() >= MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back((probe.nonce, now));
        probe
    }

    /// Looks at a receiver's proof. What left until `heard` has come by now, or is lost. `judged` is the last probe that was looked at
    /// before.
    pub fn look(&self, judged: u32, proof: &ProbeProof, heard: Instant) -> Shown {
        let is_right = self.is_right(proof);
        let came = if is_right == Some(true) { proof.came } else { 0 };
        let last = if came == 0 { 0 } else { proof.last };
        let until = judged.max(last).max(self.last_until(heard));
        // A proof says nothing of probes before those that it names.
        let from = judged.max(last.saturating_sub(NAMED)).max(until.saturating_sub(NAMED));
        let (came, count) = (came.checked_shl(until - last).unwrap_or(0), until - from);
        let lost = count - (came & newest(count)).count_ones();
        Shown { until, count, lost, came, is_wrong: is_right == Some(false) }
    }

    /// Whether a proof's sum is that of the probes that it names. `None`: it names some that are not remembered.
    fn is_right(&self, proof: &ProbeProof) -> Option<bool> {
        if proof.last > self.last {
            return Some(false);
        }
        let mut sum = 0_u64;
        for back in (0..NAMED).filter(|back| proof.came >> back & 1 == 1) {
            let Some(number) = proof.last.checked_sub(back).filter(|number| *number > 0) else {
                return Some(false);
            };
            sum = sum.wrapping_add(self.remembered(number)?.0);
        }
        Some(sum == proof.sum)
    }

    fn remembered(&self, number: u32) -> Option<&(u64, Instant)> {
        let back = self.last.checked_sub(number)? as usize;
        self.sent.get(self.sent.len().checked_sub(back + 1)?)
    }

    /// The last probe that had left at a moment.
    fn last_until(&self, moment: Instant) -> u32 {
        let earlier = self.sent.partition_point(|(_, at)| *at <= moment);
        self.last - (self.sent.len() - earlier) as u32
    }
}

/// The lowest bits, so many of them.
fn newest(count: u32) -> u64 {
    u64::MAX.checked_shr(NAMED - count.min(NAMED)).unwrap_or(0)
}

fn distance(random: &mut SplitMix64) -> u64 {
    DISTANCE.start() + random.below(DISTANCE.end() - DISTANCE.start() + 1)
}

/// The difference between a receiver's claims and what probes show: 0 none, 1 for certain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doubt {
    /// The doubt that it claims less loss than there is.
    less: f64,
    /// The doubt that it claims more loss than there is.
    more: f64,
}

impl Doubt {
    /// The larger one of both doubts. It has lied from 1 on.
    pub fn most(&self) -> f64 {
        self.less.max(self.more)
    }
}

/// The sender's record of one receiver's claims.
#[derive(Debug, Default)]
pub struct Claims {
    /// The last probe that was looked at. `None` before the first report.
    judged: Option<u32>,
    /// Probes that were taken for lost: the lowest bit is the last one that was looked at. Some come later than those behind them.
    missing: u64,
    /// The time when the last report came while the receiver was followed.
    followed: Option<Instant>,
    /// Reports that wait for the claims of a round trip.
    held: VecDeque<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    at: Instant,
    count: u32,
    /// Probes that were lost, without those that have come after all.
    lost: f64,
    /// The share of packets that the receiver says were lost.
    claim: f64,
    is_after_silence: bool,
}

/// A report that is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Testimony<'a> {
    pub proof: &'a ProbeProof,
    /// The share of packets that the receiver says were lost in the last round trip.
    pub claim: f64,
    /// The time from what the receiver has heard last to this report.
    pub round_trip: Duration,
    /// The shortest round trip to the receiver.
    pub shortest: Duration,
    /// Whether the sender follows the receiver.
    pub is_followed: bool,
}

impl Claims {
    /// Takes a report. Changes the doubt about its receiver, which is a lie from 1 on.
    pub fn hear(&mut self, now: Instant, probes: &Probes, testimony: &Testimony<'_>, doubt: &mut Doubt) {
        let silence = SHORTEST_SILENCE.max(testimony.shortest * SILENT_ROUND_TRIPS);
        let is_silent = |last: Instant| now.saturating_duration_since(last) > silence;
        let is_after_silence = self.followed.is_none_or(is_silent);
        // Behind an outage, what left until then is lost.
        let ago = testimony.round_trip + if is_after_silence { Duration::ZERO } else { REORDERED };
        let heard = Instant::from_nanos(now.as_nanos().saturating_sub(ago.as_nanos() as u64));
        let shown = probes.look(self.judged.unwrap_or(0), testimony.proof, heard);
        // What left before the receiver came is not its fault.
        let shown = if self.judged.is_none() { Shown { count: 0, lost: 0, ..shown } } else { shown };
        let lost = f64::from(shown.lost) - self.found_again(&shown);
        self.judged = Some(shown.until);
        if shown.is_wrong {
            doubt.less += WRONG;
        }
        if !testimony.is_followed {
            self.followed = None;
            return self.held.clear();
        }
        self.followed = Some(now);
        let (count, claim) = (shown.count, testimony.claim);
        self.held.push_back(Held { at: now, count, lost, claim, is_after_silence });
        let hold = SHORTEST_HOLD.max(testimony.shortest * 5 / 4);
        let is_due = |held: &Held| now.saturating_duration_since(held.at) >= hold;
        while self.held.front().is_some_and(is_due) || self.held.len() > MOST_HELD {
            let Some(found) = self.judge_first() else { return };
            let added =
                |doubt: f64, probes: f64, limit: f64| (doubt + probes * weight(hold) / limit).max(0.0);
            doubt.less = added(doubt.less, found.less, LIMIT_LESS);
            doubt.more = added(doubt.more, found.more, LIMIT_MORE);
        }
    }

    /// Returns how many probes have come that were taken for lost before, and notes which ones are missing now.
    fn found_again(&mut self, shown: &Shown) -> f64 {
        let ahead = shown.until - self.judged.unwrap_or(shown.until);
        let before = self.missing.checked_shl(ahead).unwrap_or(0);
        self.missing = (before | newest(shown.count)) & !shown.came;
        f64::from((before & shown.came).count_ones())
    }

    /// Judges the oldest report by the claims since then. Returns how many probes differ from what they tell, above what is tolerated.
    fn judge_first(&mut self) -> Option<Doubt> {
        let (first, last) = (*self.held.front()?, *self.held.back()?);
        let mean = self.held.iter().map(|held| held.claim).sum::<f64>() / self.held.len() as f64;
        self.held.pop_front();
        let (count, lost) = (f64::from(first.count), first.lost);
        let most = if first.is_after_silence { MOST_AFTER_SILENCE } else { f64::INFINITY };
        let (low, high) = (mean.min(last.claim), mean.max(last.claim));
        Some(Doubt {
            less: (lost - count * (TOLERATED + high * TOLERATED_MORE)).min(most),
            more: (count * (low * TOLERATED_LESS - TOLERATED) - lost.max(0.0)).min(most),
        })
    }
}

/// Claims are late by up to a round trip, in which many probes leave if it is long.
fn weight(hold: Duration) -> f64 {
    (WHOLE_WEIGHT.as_secs_f64() / hold.as_secs_f64()).min(1.0)
}

/// The probes that have come to a receiver.
#[derive(Debug)]
pub struct Came {
    last: u32,
    came: u64,
    /// The nonces of the probes, each at the place of its number.
    nonces: [u64; NAMED as usize],
}

impl Default for Came {
    fn default() -> Self {
        Self { last: 0, came: 0, nonces: [0; NAMED as usize] }
    }
}

impl Came {
    pub fn take(&mut self, Probe { number, nonce }: Probe) {
        let ahead = number.wrapping_sub(self.last);
        let back = self.last.wrapping_sub(number);
        if number > self.last {
            self.came = self.came.checked_shl(ahead).unwrap_or(0) | 1;
            self.last = number;
        } else if back >= NAMED {
            // It counts from another beginning.
            (self.came, self.last) = (1, number);
        } else if self.came >> back & 1 == 1 {
            return;
        } else {
            self.came |= 1 << back;
        }
        self.nonces[place(number)] = nonce;
    }

    pub fn proof(&self) -> ProbeProof {
        let named = (0..NAMED).filter(|back| self.came >> back & 1 == 1);
        let nonces = named.map(|back| self.nonces[place(self.last.wrapping_sub(back))]);
        ProbeProof { last: self.last, came: self.came, sum: nonces.fold(0, u64::wrapping_add) }
    }
}

fn place(number: u32) -> usize {
    (number % NAMED) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const KEY: ProbeKey = ProbeKey([1; 32]);

    fn probes(count: u64) -> Probes {
        let mut probes = Probes::new(KEY, 1_500);
        (0..count).for_each(|place| _ = probes.take(at(place * 10)));
        probes
    }

    fn probe(number: u32) -> Probe {
        Probe { number, nonce: KEY.nonce(number) }
    }

    #[test]
    fn probes_go_at_random_distances_and_not_more_often_than_each_ten_milliseconds() {
        let (mut probes, mut distances) = (Probes::new(KEY, 1_500), Vec::new());
        let mut distance = 0;
        for packet in 0..100_000_u64 {
            let now = Instant::ZERO + Duration::from_micros(200 * packet);
            probes.sent(now, 1_500);
            distance += 1;
            if probes.packets_before(now) == Some(0) {
                probes.take(now);
                distances.push(std::mem::take(&mut distance));
            }
        }
        let mean = distances.iter().sum::<u64>() / distances.len() as u64;
        assert!(distances.iter().all(|distance| DISTANCE.contains(distance)), "{distances:?}");
        assert!((95..=105).contains(&mean), "{mean}");
        let mut slow = Probes::new(KEY, 1_500);
        slow.take(at(0));
        assert_eq!(slow.packets_before(at(9)), None);
        let before = slow.packets_before(at(10)).unwrap();
        assert!(DISTANCE.contains(&before), "{before}");
        slow.sent(at(10), 1_500 * before - 1);
        assert_eq!(slow.packets_before(at(10)), Some(1));
        slow.take(at(10));
        slow.sent(at(19), 1_500 * 1_000);
        let before = slow.packets_before(at(20)).unwrap();
        assert!(DISTANCE.contains(&before), "it is put off by another distance: {before}");
    }

    #[test]
    fn a_proof_holds_only_for_what_has_come() {
        let (probes, mut came) = (probes(100), Came::default());
        assert_eq!(probes.is_right(&came.proof()), Some(true), "none has come");
        for number in [1, 2, 4, 3, 70, 71, 71, 69] {
            came.take(probe(number));
            assert_eq!(probes.is_right(&came.proof()), Some(true), "{number}");
        }
        let proof = came.proof();
        assert_eq!((proof.last, proof.came), (71, 0b111), "70 and 71 are 64 behind 4 and more");
        for wrong in [
            ProbeProof { came: 0b1111, ..proof },
            ProbeProof { sum: proof.sum + 1, ..proof },
            ProbeProof { last: 101, ..proof },
            ProbeProof { last: 2, came: 0b111, sum: 0 },
            ProbeProof { last: 0, came: 1, sum: 0 },
        ] {
            assert_eq!(probes.is_right(&wrong), Some(false), "{wrong}");
        }
        came.take(probe(2));
        assert_eq!((came.proof().last, came.proof().came), (2, 1), "it counts from another beginning");
    }

    #[test]
    fn what_a_proof_shows() {
        let (probes, mut came) = (probes(100), Came::default());
        (31..=90).filter(|number| number % 4 != 0).for_each(|number| came.take(probe(number)));
        let shown = |judged, millis| probes.look(judged, &came.proof(), at(millis));
        let told = |shown: Shown| (shown.until, shown.count, shown.lost, shown.is_wrong);
        assert_eq!(told(shown(80, 890)), (90, 10, 2, false), "84 and 88");
        assert_eq!(shown(80, 890).came & 0xff, 0b1011_1011, "90 and 89, 87 to 85, 83");
        assert_eq!(told(shown(90, 890)), (90, 0, 0, false));
        let late = shown(90, 990);
        assert_eq!(
            (late.until, late.count, late.lost),
            (100, 10, 10),
            "long ago, and nothing of them has come"
        );
        let nothing = probes.look(90, &ProbeProof::default(), at(5_000));
        assert_eq!(told(nothing), (100, 10, 10, false));
        let many = probes.look(0, &came.proof(), at(0));
        assert_eq!((many.until, many.count), (90, 64), "it names no more");
    }

    #[test]
    fn proofs_of_forgotten_probes_prove_nothing() {
        let mut came = Came::default();
        (1..=8).for_each(|number| came.take(probe(number)));
        let probes = probes(2_000);
        assert_eq!(probes.is_right(&came.proof()), None);
        let shown = probes.look(1_980, &came.proof(), at(60_000));
        assert_eq!((shown.count, shown.lost, shown.is_wrong), (20, 20, false));
    }

    /// A receiver at a path of 10,000 packets a second, which loses what is said.
    struct Path {
        round_trip_ms: u64,
        probes: Probes,
        came: Came,
        claims: Claims,
        doubt: Doubt,
        /// The number of packets that were lost, of ten, for each millisecond.
        lost: Vec<u32>,
        /// Every third probe comes so much later than it would.
        late_ms: u64,
        /// Probes on their way, and when they come.
        under_way: Vec<(u64, Probe)>,
        random: SplitMix64,
    }

    impl Path {
        fn new(round_trip_ms: u64) -> Self {
            Self {
                round_trip_ms,
                probes: Probes::new(KEY, 1_500),
                came: Came::default(),
                claims: Claims::default(),
                doubt: Doubt::default(),
                lost: Vec::new(),
                late_ms: 0,
                under_way: Vec::new(),
                random: SplitMix64(round_trip_ms),
            }
        }

        /// Runs until a lie is found, or the time is over. Returns the time, and the highest doubt. `loss` is the share that is lost at a
        /// time, `claim` what is claimed instead of what was lost in the last round trip, and `forge` what is shown instead of the proof.
        fn run(
            &mut self,
            millis: u64,
            loss: impl Fn(u64) -> f64,
            claim: impl Fn(f64) -> f64,
            forge: impl Fn(ProbeProof) -> ProbeProof,
        ) -> (u64, f64) {
            let mut highest = 0.0_f64;
            let from = self.lost.len() as u64;
            for milli in from..from + millis {
                let share = loss(milli);
                let lost = (0..10).filter(|_| self.random.unit() < share).count();
                self.lost.push(lost as u32);
                self.probes.sent(at(milli), 15_000);
                if self.probes.packets_before(at(milli)) == Some(0) {
                    let probe = self.probes.take(at(milli));
                    if self.random.unit() >= share {
                        let late_ms = if probe.number.is_multiple_of(3) { self.late_ms } else { 0 };
                        self.under_way.push((milli + late_ms, probe));
                    }
                }
                let came = &mut self.came;
                self.under_way.extract_if(.., |(at, _)| *at <= milli).for_each(|(_, probe)| came.take(probe));
                let span = self.round_trip_ms.max(10) as usize;
                // Nothing tells of a path that is cut.
                if milli % (self.round_trip_ms / 3).max(4) == 0 && share < 0.99 && self.lost.len() > span {
                    let lost = self.lost[self.lost.len() - span..].iter().sum::<u32>();
                    let claim = claim(f64::from(lost) / span as f64 / 10.0);
                    let proof = forge(self.came.proof());
                    let round_trip = Duration::from_millis(self.round_trip_ms);
                    let (shortest, is_followed) = (round_trip, true);
                    let testimony = Testimony { proof: &proof, claim, round_trip, shortest, is_followed };
                    self.claims.hear(at(milli), &self.probes, &testimony, &mut self.doubt);
                }
                highest = highest.max(self.doubt.most());
                if self.doubt.most() >= 1.0 {
                    return (milli - from, highest);
                }
            }
            (millis, highest)
        }

        fn is_honest(&mut self, millis: u64, loss: impl Fn(u64) -> f64) -> f64 {
            self.run(millis, loss, |lost| lost, |proof| proof).1
        }
    }

    #[test]
    fn who_claims_what_was_lost_is_not_doubted() {
        for round_trip in [1, 40, 200, 1_000, 3_000] {
            for loss in [0.0, 0.02, 0.1, 0.5, 0.9] {
                let doubt = Path::new(round_trip).is_honest(200_000, |_| loss);
                assert!(doubt < 0.4, "{doubt:.2} with a loss of {loss}, {round_trip} ms");
            }
        }
    }

    /// Losses come and go faster and slower than claims tell of them.
    #[test]
    fn nor_where_losses_come_and_go() {
        for round_trip in [1, 40, 200, 1_000, 3_000] {
            for turn in [7, 50, 300, 2_000, 10_000] {
                let doubt =
                    Path::new(round_trip).is_honest(200_000, |milli| f64::from(milli / turn % 2 == 0) * 0.6);
                assert!(doubt < 0.7, "{doubt:.2} in turns of {turn} ms, {round_trip} ms");
            }
        }
    }

    /// Paths over several links bring packets in another order than they left.
    #[test]
    fn nor_where_probes_overtake_each_other() {
        for (round_trip, late_ms) in [(1, 15), (40, 30), (40, 120), (200, 150)] {
            let mut path = Path::new(round_trip);
            path.late_ms = late_ms;
            let doubt = path.is_honest(200_000, |_| 0.02);
            assert!(doubt < 0.4, "{doubt:.2} for {late_ms} ms, {round_trip} ms");
        }
    }

    #[test]
    fn an_outage_is_no_lie() {
        for round_trip in [10, 40, 200] {
            let mut path = Path::new(round_trip);
            let is_cut = |milli: u64| f64::from(milli % 20_000 > 14_000);
            let doubt = path.run(100_000, is_cut, |_| 0.0, |proof| proof).1;
            assert!(doubt < 0.3, "{doubt:.2} with {round_trip} ms");
        }
    }

    #[test]
    fn who_claims_to_get_everything_is_found_out() {
        for (loss, most) in [(0.12, 8_000), (0.2, 4_000), (0.5, 1_500), (0.9, 1_000)] {
            let (millis, _) = Path::new(40).run(60_000, |_| loss, |_| 0.0, |proof| proof);
            assert!(millis < most, "{millis} ms with a loss of {loss}");
        }
        for (round_trip, most) in [(1, 1_500), (200, 2_000), (1_000, 10_000)] {
            let (millis, _) = Path::new(round_trip).run(60_000, |_| 0.5, |_| 0.0, |proof| proof);
            assert!(millis < most, "{millis} ms with {round_trip} ms");
        }
    }

    #[test]
    fn who_claims_losses_that_probes_deny_is_found_out() {
        let feigned = |claim: f64| Path::new(40).run(60_000, |_| 0.01, |_| claim, |proof| proof).0;
        assert!(feigned(1.0) < 1_500 && feigned(0.3) < 4_000, "{} {} ms", feigned(1.0), feigned(0.3));
    }

    #[test]
    fn forged_proofs_are_no_proofs() {
        let forge = |what: fn(ProbeProof) -> ProbeProof| Path::new(40).run(10_000, |_| 0.3, |_| 0.0, what).0;
        let guessed = forge(|proof| ProbeProof { came: u64::MAX, ..proof });
        assert!(guessed < 500, "{guessed} ms for one that guesses");
        let none = forge(|_| ProbeProof::default());
        assert!(none < 1_500, "{none} ms for one that shows nothing");
    }

    #[test]
    fn others_than_the_one_that_is_followed_are_not_judged_by_their_losses() {
        let (probes, mut claims, mut doubt) = (probes(100), Claims::default(), Doubt::default());
        for millis in (1_000..9_000).step_by(10) {
            let proof = ProbeProof::default();
            let (round_trip, shortest) = (Duration::from_millis(10), Duration::from_millis(10));
            let testimony = Testimony { proof: &proof, claim: 0.0, round_trip, shortest, is_followed: false };
            claims.hear(at(millis), &probes, &testimony, &mut doubt);
        }
        assert_eq!(doubt.most(), 0.0);
    }
}
