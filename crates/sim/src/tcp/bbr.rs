//! BBR as in Linux (its first version: Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! The path keeps packets in order. BBR does not answer to losses, except that a timeout begins anew.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use treecast_proto::Instant;

use super::{Congestion, PACKET_BYTES};

const START_GAIN: f64 = 2.885;
const WINDOW_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const BANDWIDTH_ROUNDS: u64 = 10;
const ROUND_TRIP_LASTS: Duration = Duration::from_secs(10);
const PROBE_LENGTH: Duration = Duration::from_millis(200);
const LEAST_WINDOW: f64 = 4.0;
const FIRST_WINDOW: f64 = 10.0;
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Start,
    Drain,
    /// The place in the cycle, and when it began.
    Cycle(usize, Instant),
    /// The time when the window may grow again.
    Probe(Instant),
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
}

#[derive(Debug)]
pub struct Bbr {
    state: State,
    next: u64,
    next_at: Instant,
    under_way: VecDeque<Sent>,
    delivered: u64,
    delivered_at: Instant,
    round: u64,
    round_ends: u64,
    /// The highest bandwidth of each round, in packets a second.
    bandwidths: BTreeMap<u64, f64>,
    shortest: Option<(Duration, Instant)>,
    /// The bandwidth that Start has last seen grow, and rounds without growth.
    full: (f64, u32),
    last_heard: Instant,
}

impl Bbr {
    pub fn new(now: Instant) -> Self {
        Self {
            state: State::Start,
            next: 0,
            next_at: now,
            under_way: VecDeque::new(),
            delivered: 0,
            delivered_at: now,
            round: 0,
            round_ends: 0,
            bandwidths: BTreeMap::new(),
            shortest: None,
            full: (0.0, 0),
            last_heard: now,
        }
    }

    fn deliver(&mut self, now: Instant, sent: Sent) {
        self.delivered += 1;
        self.delivered_at = now;
        let round_trip = now - sent.at;
        if sent.delivered >= self.round_ends {
            self.round_ends = self.delivered;
            self.round += 1;
            self.bandwidths.retain(|round, _| round + BANDWIDTH_ROUNDS > self.round);
            self.look_whether_full();
        }
        let elapsed = (now - sent.delivered_at).as_secs_f64().max(1e-6);
        let bandwidth = (self.delivered - sent.delivered) as f64 / elapsed;
        let best = self.bandwidths.entry(self.round).or_default();
        *best = best.max(bandwidth);
        if self.shortest.is_none_or(|(shortest, _)| round_trip <= shortest) {
            self.shortest = Some((round_trip, now));
        }
    }

    fn look_whether_full(&mut self) {
        let bandwidth = self.bandwidth();
        if self.state != State::Start {
            return;
        }
        self.full =
            if bandwidth >= self.full.0 * 1.25 { (bandwidth, 0) } else { (self.full.0, self.full.1 + 1) };
        if self.full.1 >= 3 {
            self.state = State::Drain;
        }
    }

    fn advance(&mut self, now: Instant) {
        let Some((shortest, seen)) = self.shortest else { return };
        let under_way = self.under_way.len() as f64;
        let product = self.bandwidth() * shortest.as_secs_f64();
        match self.state {
            State::Drain if under_way <= product => {
                self.state = State::Cycle(2 + self.next as usize % 6, now)
            }
            State::Cycle(place, began) => {
                let is_over = now - began > shortest;
                let goes_on = match CYCLE[place] {
                    gain if gain > 1.0 => is_over && under_way >= product * gain * 0.95,
                    gain if gain < 1.0 => is_over || under_way <= product,
                    _ => is_over,
                };
                if goes_on || now - began > shortest * 4 {
                    self.state = State::Cycle((place + 1) % CYCLE.len(), now);
                }
            }
            // Without an answer, there is no round trip to go on with.
            State::Probe(until) if now >= until && shortest < Duration::MAX => {
                self.state = if self.full.1 >= 3 { State::Cycle(2, now) } else { State::Start };
                self.shortest = Some((shortest, now));
            }
            _ => {}
        }
        if !matches!(self.state, State::Probe(_)) && now - seen > ROUND_TRIP_LASTS {
            self.state = State::Probe(now + PROBE_LENGTH.max(shortest));
            self.shortest = Some((Duration::MAX, now));
        }
    }

    fn bandwidth(&self) -> f64 {
        self.bandwidths.values().copied().fold(0.0, f64::max)
    }

    fn window(&self) -> f64 {
        let Some((shortest, _)) = self.shortest.filter(|(shortest, _)| *shortest < Duration::MAX) else {
            return if matches!(self.state, State::Probe(_)) { LEAST_WINDOW } else { FIRST_WINDOW };
        };
        let gain = if matches!(self.state, State::Start | State::Drain) { START_GAIN } else { WINDOW_GAIN };
        match self.state {
            State::Probe(_) => LEAST_WINDOW,
            _ => (gain * self.bandwidth() * shortest.as_secs_f64()).max(FIRST_WINDOW),
        }
    }

    fn packets_a_second(&self) -> f64 {
        let gain = match self.state {
            State::Start => START_GAIN,
            State::Drain => 1.0 / START_GAIN,
            State::Cycle(place, _) => CYCLE[place],
            State::Probe(_) => 1.0,
        };
        (gain * self.bandwidth()).max(1e6 / f64::from(PACKET_BYTES * 8))
    }
}

impl Congestion for Bbr {
    fn send(&mut self, now: Instant) -> Option<u64> {
        if now < self.next_at || self.under_way.len() as f64 + 1.0 > self.window() {
            return None;
        }
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        if self.under_way.is_empty() {
            self.delivered_at = now;
        }
        self.under_way.push_back(Sent {
            number: self.next,
            at: now,
            delivered,
            delivered_at: delivered_at.max(self.delivered_at),
        });
        self.next += 1;
        self.next_at = now + Duration::from_secs_f64(1.0 / self.packets_a_second());
        Some(self.next - 1)
    }

    fn next_at(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    fn acknowledged(&mut self, now: Instant, last: u64, has_come: &dyn Fn(u64) -> bool) {
        self.last_heard = now;
        while let Some(sent) = self.under_way.front().copied().filter(|sent| sent.number <= last) {
            self.under_way.pop_front();
            if has_come(sent.number) {
                self.deliver(now, sent);
            }
        }
        self.advance(now);
    }

    fn resume(&mut self, now: Instant) {
        self.last_heard = now;
    }

    fn deadline(&self) -> Instant {
        let shortest = self.shortest.map_or(Duration::from_secs(1), |(shortest, _)| shortest);
        self.last_heard + LEAST_TIMEOUT + shortest.min(Duration::from_secs(1)) * 4
    }

    fn time_out(&mut self, now: Instant) {
        self.last_heard = now;
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 1,000 packets a second and 40 ms.
    #[test]
    fn it_finds_the_bandwidth_and_leaves_no_long_queue() {
        let mut bbr = Bbr::new(Instant::ZERO);
        let mut leaves: VecDeque<(u64, Instant)> = VecDeque::new();
        let mut free_at = Instant::ZERO;
        let mut acknowledged = 0;
        for step in 0..100_000_u64 {
            let now = Instant::ZERO + Duration::from_micros(100 * step);
            while leaves.front().is_some_and(|(_, at)| *at <= now) {
                let (number, _) = leaves.pop_front().unwrap();
                acknowledge(&mut bbr, now, number);
                acknowledged += u64::from(step >= 50_000);
            }
            while let Some(number) = bbr.send(now) {
                free_at = free_at.max(now) + Duration::from_millis(1);
                leaves.push_back((number, free_at + Duration::from_millis(40)));
            }
        }
        assert!((4_700..=5_010).contains(&acknowledged), "{acknowledged} of 5,000 in the second half");
        assert!(
            free_at.saturating_duration_since(Instant::ZERO + Duration::from_secs(10))
                < Duration::from_millis(50)
        );
    }

    fn acknowledge(bbr: &mut Bbr, now: Instant, number: u64) {
        bbr.acknowledged(now, number, &|one| one == number);
    }

    /// Packets that are acknowledged after a timeout measure no round trip.
    #[test]
    fn it_probes_on_while_nothing_is_measured() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut bbr = Bbr::new(at(0));
        let first = bbr.send(at(0)).unwrap();
        acknowledge(&mut bbr, at(40), first);
        acknowledge(&mut bbr, at(10_100), first);
        assert!(matches!(bbr.state, State::Probe(_)), "{:?}", bbr.state);
        bbr.time_out(at(10_200));
        for millis in [10_400, 10_500, 10_600] {
            acknowledge(&mut bbr, at(millis), first);
        }
        assert!(matches!(bbr.state, State::Probe(_)), "{:?}", bbr.state);
        let second = bbr.send(at(10_600)).unwrap();
        acknowledge(&mut bbr, at(10_650), second);
        assert!(!matches!(bbr.state, State::Probe(_)), "{:?}", bbr.state);
    }
}
