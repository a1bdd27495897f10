//! A receiver's measurements of the path to it.
//!
//! The sender's Pace messages divide the stream of packets. Each one carries the time when it left, and its packet number tells
//! how many packets left before. So two of them, about a round trip apart, tell what was sent between them, what has arrived, and how long
//! both took. The time when a packet is *handled* is of no use for this: a busy host handles many at once.

use std::{collections::VecDeque, time::Duration};

use super::{delay::Delay, delivery::Delivery, loss::Losses};
use crate::{Instant, arrived::Arrived};

/// Shortest span that is measured as a round trip. Shorter ones would tell of super-packets and of hosts.
/// Doubled, paths with a round trip below 20 ms are measured less often.
const SHORTEST_SPAN: Duration = Duration::from_millis(10);

/// Number of messages of which the least queue counts. One message alone may wait behind a super-packet.
/// Doubled, a queue that grows shows three messages later.
const QUEUE_POINTS: usize = 3;

/// Shortest time between two messages that is a pause of the sender or an outage of the path. It is a pause
/// if fewer than [`LEAST_PACKETS`] were sent in it. Doubled, the losses of an outage between 0.4 and 0.8 s
/// count as the path's.
const PAUSE: Duration = Duration::from_millis(400);
/// Share of the packets of such a time, 0 to 1, below which it is an outage. Losses in an outage tell nothing
/// of the path that is back: one of them ended Start at a hundredth of the link. Doubled, a path that loses
/// more than eight tenths for that time counts as cut.
const OUTAGE_SHARE: f64 = 0.1;

/// Fewest packets that tell a rate. Doubled, a slow path is measured half as often.
const LEAST_PACKETS: u32 = 8;

/// Number of messages that are remembered, at most. Four come in a round trip. Doubled, a sender of many
/// messages takes twice the memory.
const MOST_POINTS: usize = 512;

/// Number of runs of packets that are remembered since the last message, at most. Older ones count as sent
/// before the next message. Doubled, they take twice the memory.
const MOST_RUNS: usize = 1024;

/// Length of a Pace, in bits, with its headers and encryption. It counts less than a full packet. Doubled,
/// rates come out too high where a large share of the packets are messages.
const PACE_BITS: f64 = 150.0 * 8.0;

/// Distance between two packet numbers above which they are of different counts: the sender has started
/// again. Doubled, a sender that starts again closer to its former numbers is taken for one whose packets are
/// lost.
const MOST_JUMP: u32 = 1 << 22;

/// Number of round trips after one that limited the path in which it still counts as limited. Doubled, a
/// receiver tells for four round trips more that it limits the rate.
const LIMITED_ROUNDS: u32 = 4;

/// Share of what is sent, 0 to 1, below which a path that delivers no more is limited. Higher values take
/// losses by chance for a limit. Twice as much is above 1, so every path would be limited.
const DELIVERED_SHARE: f64 = 0.9;

/// Share of its former rate, 0 to 1, below which a path has become narrower, or others have come. Until then,
/// a receiver tells the highest rate of its last round trips. Twice as much is above 1, so each receiver that
/// is limited would tell its latest rate.
const NARROWED: f64 = 0.7;

/// Share of the packets that a receiver's own host may drop, 0 to 1, before the receiver limits the rate
/// after all. Lower values let a slow host hold up the group. Doubled, a host that drops everything limits
/// nothing.
const MOST_OWN_LOSS: f64 = 0.5;

/// A message of the sender, as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct PacePoint {
    /// Its packet number.
    pub number: u32,
    /// The sender's clock when it left, in microseconds.
    pub sent_us: u64,
    /// The time when the message arrived.
    pub at: Instant,
    /// Whether the sender has less to send than its rate allows.
    pub is_unused: bool,
    /// Whether the sender is still looking for a first rate.
    pub is_start: bool,
    /// Length of a full packet, in bits.
    pub packet_bits: f64,
    /// A round trip to this receiver, without queues.
    pub round_trip: Duration,
}

/// A receiver's findings about its path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Findings {
    /// The highest rate of delivery of the last round trips, in bits a second.
    pub delivered_bps: f64,
    /// The rate of delivery in the last round trip, in bits a second.
    pub latest_bps: f64,
    pub queue: Duration,
    /// Shares of packets in the last round trip: lost in the network, and marked.
    pub lost: f64,
    pub marked: f64,
}

/// One receiver's measurements of its path.
#[derive(Debug, Default)]
pub struct Path {
    received: u64,
    marked: u64,
    paces: u64,
    own_dropped: u64,
    highest: Option<u32>,
    /// Runs since the last message, which may come before a message that was sent before them.
    runs: VecDeque<Arrived>,
    points: VecDeque<Point>,
    delivery: Delivery,
    delay: Delay,
    /// The point at which the last whole round trip ended.
    round: Option<Point>,
    losses: Losses,
    findings: Findings,
    /// The time when the path was limited last, and the rate that it delivered then, in bits a second.
    limited: Option<(Instant, f64)>,
    /// The number of round trips since the path was limited.
    unlimited_rounds: u32,
    /// Whether the path, and not the sender, has limited what arrived in the last round trip.
    is_full: bool,
}

/// The counters when a message arrived.
#[derive(Debug, Clone, Copy)]
struct Point {
    number: u32,
    sent_us: u64,
    at: Instant,
    received: u64,
    marked: u64,
    own_dropped: u64,
    paces: u64,
    queue_us: f64,
    is_start: bool,
}

/// The packets and the time between two points.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Packets that were sent, and those that the network has delivered.
    sent: f64,
    delivered: f64,
    own: f64,
    marked: f64,
    seconds: f64,
    sent_seconds: f64,
    paces: f64,
}

/// # What happens
impl Path {
    /// Keeps what is still known when the receiver begins to listen to another group: the drops of its own
    /// host.
    pub fn elsewhere(&self) -> Self {
        Self { own_dropped: self.own_dropped, ..Self::default() }
    }

    pub fn packets(&mut self, packets: Arrived) {
        let end = packets.first.wrapping_add(packets.count.saturating_sub(1));
        let is_next = |highest: u32| end.wrapping_sub(highest) <= MOST_JUMP;
        if self.highest.is_none_or(is_next) {
            self.highest = Some(end);
        } else if self.highest.is_some_and(|highest| highest.wrapping_sub(end) > MOST_JUMP) {
            self.start_again(end);
        }
        self.received += u64::from(packets.count);
        self.marked += if packets.marked { u64::from(packets.count) } else { 0 };
        if self.runs.len() >= MOST_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(packets);
    }

    /// The receiver's kernel has dropped so many packets in all.
    pub fn own_drops(&mut self, total: u64) {
        self.own_dropped = self.own_dropped.max(total);
    }

    pub fn round_trip(&mut self, at: Instant, round_trip: Duration) {
        self.delay.measured(at, round_trip);
    }

    pub fn pace(&mut self, pace: PacePoint) {
        let queue_us = self.delay.arrived(pace.at, pace.sent_us);
        let point = self.point(&pace, queue_us);
        let span = pace.round_trip.max(SHORTEST_SPAN);
        // What was lost while a path was cut tells nothing of the path that is back.
        let is_pause = |last: &Point| {
            let between = last.until(&point);
            let is_empty =
                between.sent < f64::from(LEAST_PACKETS) || between.delivered < between.sent * OUTAGE_SHARE;
            elapsed(last, &point) > (span * 2).max(PAUSE) && is_empty
        };
        if self.points.back().is_some_and(is_pause) {
            self.points.clear();
            self.round = None;
        }
        let is_old_enough =
            |other: &Point| elapsed(other, &point) >= span && distance(other, &point) >= LEAST_PACKETS;
        if let Some(index) = self.points.iter().rposition(is_old_enough) {
            self.points.drain(..index);
            let between = self.points[0].until(&point);
            self.sample(&between, &pace, queue_us);
        }
        let round = *self.round.get_or_insert(point);
        if is_old_enough(&round) {
            self.end_round(&pace, &round, &round.until(&point));
            self.round = Some(point);
        }
        if self.points.len() >= MOST_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Counts what was sent up to a message, although more may have been handled already.
    fn point(&mut self, pace: &PacePoint, queue_us: f64) -> Point {
        self.paces += 1;
        let behind: VecDeque<_> =
            self.runs.drain(..).filter_map(|run| part_behind(run, pace.number)).collect();
        let count = |marked: bool| {
            let runs = behind.iter().filter(|run| run.marked || !marked);
            runs.map(|run| u64::from(run.count)).sum::<u64>()
        };
        let point = Point {
            number: pace.number,
            sent_us: pace.sent_us,
            at: pace.at,
            received: self.received.saturating_sub(count(false)),
            marked: self.marked.saturating_sub(count(true)),
            own_dropped: self.own_dropped,
            paces: self.paces,
            queue_us,
            is_start: pace.is_start,
        };
        self.runs = behind;
        point
    }

    fn sample(&mut self, span: &Span, pace: &PacePoint, queue_us: f64) {
        let full = (span.delivered - span.paces).max(0.0) * pace.packet_bits;
        let bits = full + span.paces * PACE_BITS;
        let seconds = span.seconds.max(span.sent_seconds).max(SHORTEST_SPAN.as_secs_f64() / 2.0);
        self.findings.latest_bps = bits / seconds;
        self.findings.lost = span.lost();
        self.findings.marked = (span.marked / span.delivered.max(1.0)).min(1.0);
        self.delivery.add(self.findings.latest_bps, pace.is_unused);
        self.findings.delivered_bps = self.delivery.highest();
        let queues = self.points.iter().rev().take(QUEUE_POINTS - 1).map(|point| point.queue_us);
        self.findings.queue = Duration::from_micros(queues.fold(queue_us, f64::min) as u64);
        // A host that is late stretches a span, too, but then no queue stands that would explain it.
        let stretched = span.seconds - span.sent_seconds;
        let is_slowed = span.sent_seconds < span.seconds * DELIVERED_SHARE
            && span.sent >= 32.0
            && self.findings.queue.as_secs_f64() > stretched / 2.0;
        let is_limited = is_slowed || self.is_queued(pace) || self.findings.marked > 0.0;
        // While a queue drains, the sender limits what arrives.
        let is_draining = span.seconds < span.sent_seconds * DELIVERED_SHARE;
        self.is_full = (is_limited || span.lost() > 1.0 - DELIVERED_SHARE) && !is_draining;
        if is_limited {
            self.note_limited(pace.at);
        }
    }

    fn end_round(&mut self, pace: &PacePoint, round: &Point, span: &Span) {
        self.unlimited_rounds = self.unlimited_rounds.saturating_add(1);
        if !pace.is_unused {
            self.delivery.end_round();
        }
        // What is lost while the sender looks for a rate says nothing of the rate that it has found.
        if round.is_start && !pace.is_start {
            self.losses = Losses::default();
            return;
        }
        self.losses.add(span.lost(), span.sent, self.is_queued(pace));
        let is_lossy = self.losses.is_excessive();
        if is_lossy && span.lost() == 0.0 {
            // The average is of rounds before. What has arrived in this one is what was sent, and not what the path bears.
            self.unlimited_rounds = 0;
        } else if is_lossy || span.own > span.sent * MOST_OWN_LOSS {
            self.note_limited(pace.at);
        }
    }

    fn note_limited(&mut self, at: Instant) {
        self.unlimited_rounds = 0;
        // What arrives while the sender slows down is less than the path bears.
        self.limited = self.bearable_bps().map(|bears_bps| (at, bears_bps)).or(self.limited);
    }

    fn is_queued(&self, pace: &PacePoint) -> bool {
        let packet_time = Duration::try_from_secs_f64(pace.packet_bits / self.findings.latest_bps.max(1.0));
        self.findings.queue > queue_that_counts(pace.round_trip, packet_time.unwrap_or_default())
    }

    fn start_again(&mut self, highest: u32) {
        self.highest = Some(highest);
        self.points.clear();
        self.runs.clear();
        self.round = None;
    }
}

/// # What is known
impl Path {
    pub fn findings(&self) -> Findings {
        self.findings
    }

    /// Returns the rate that the path bears, in bits a second, or none while nothing limits it.
    pub fn bearable_bps(&self) -> Option<f64> {
        let Findings { delivered_bps, latest_bps, .. } = self.findings;
        let is_limited = self.unlimited_rounds < LIMITED_ROUNDS && delivered_bps > 0.0;
        let is_narrower = self.is_full && latest_bps < delivered_bps * NARROWED;
        is_limited.then_some(if is_narrower { latest_bps } else { delivered_bps })
    }

    /// Returns when the path was limited last, and what it delivered then, in bits a second.
    pub fn limited(&self) -> Option<(Instant, f64)> {
        self.limited
    }

    /// Returns the shortest round trip lately, or none before the first measurement.
    pub fn shortest_round_trip(&self) -> Option<Duration> {
        self.delay.shortest()
    }
}

/// A queue that is longer than this is no noise: a twelfth of the round trip, some packets, and what hosts need to answer.
pub fn queue_that_counts(round_trip: Duration, packet_time: Duration) -> Duration {
    let packets = (packet_time * 4).min((round_trip / 2).max(Duration::from_millis(5)));
    (round_trip / 12).max(packets).max(Duration::from_millis(2))
}

impl Point {
    fn until(&self, later: &Self) -> Span {
        let own = later.own_dropped.saturating_sub(self.own_dropped) as f64;
        let sent = f64::from(distance(self, later));
        let arrived = later.received.saturating_sub(self.received) as f64;
        Span {
            sent,
            delivered: (arrived + own).min(sent),
            own: own.min(sent),
            marked: later.marked.saturating_sub(self.marked) as f64,
            seconds: later.at.saturating_duration_since(self.at).as_secs_f64(),
            sent_seconds: later.sent_us.saturating_sub(self.sent_us) as f64 / 1e6,
            paces: later.paces.saturating_sub(self.paces) as f64,
        }
    }
}

impl Span {
    fn lost(&self) -> f64 {
        if self.sent > 0.0 { (1.0 - self.delivered / self.sent).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The packets of a run that were sent after the one of this number. A host that is late handles several messages at once, and what
/// came between them is one run.
fn part_behind(run: Arrived, number: u32) -> Option<Arrived> {
    let last = run.first.wrapping_add(run.count.saturating_sub(1));
    let beyond = u32::try_from(last.wrapping_sub(number).cast_signed()).ok().filter(|beyond| *beyond > 0)?;
    let count = run.count.min(beyond);
    Some(Arrived { first: last.wrapping_sub(count.saturating_sub(1)), count, ..run })
}

/// The longer one of the times in which two messages left and arrived.
fn elapsed(one: &Point, other: &Point) -> Duration {
    let sent = Duration::from_micros(other.sent_us.saturating_sub(one.sent_us));
    sent.max(other.at.saturating_duration_since(one.at))
}

/// The number of packets that were sent between two messages.
fn distance(one: &Point, other: &Point) -> u32 {
    let ahead = other.number.wrapping_sub(one.number);
    if ahead <= MOST_JUMP { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);
    const PACKET_BITS: f64 = 12_000.0;

    /// Packets each millisecond, of which each 5th is a message. `arrives` says when a packet comes, in microseconds; none: never.
    fn run(
        path: &mut Path,
        millis: std::ops::Range<u64>,
        is_unused: bool,
        arrives: impl Fn(u64) -> Option<u64>,
    ) {
        run_in(path, millis, (is_unused, false), arrives);
    }

    /// Does as [`run`], where the sender may still be looking for its first rate.
    fn run_in(
        path: &mut Path,
        millis: std::ops::Range<u64>,
        (is_unused, is_start): (bool, bool),
        arrives: impl Fn(u64) -> Option<u64>,
    ) {
        for number in millis {
            let Some(at_us) = arrives(number) else { continue };
            path.packets(Arrived { first: number as u32, count: 1, marked: false });
            if number % 5 == 0 {
                message(path, number as u32, (number * 1000, at_us), (is_unused, is_start));
            }
        }
    }

    /// A message that was sent and arrived at these microseconds.
    fn message(
        path: &mut Path,
        number: u32,
        (sent_us, at_us): (u64, u64),
        (is_unused, is_start): (bool, bool),
    ) {
        let (at, packet_bits, round_trip) = (Instant::from_nanos(at_us * 1000), PACKET_BITS, ROUND_TRIP);
        path.pace(PacePoint { number, sent_us, at, is_unused, is_start, packet_bits, round_trip });
    }

    fn at_once(number: u64) -> Option<u64> {
        Some(number * 1000 + 10_000)
    }

    /// 800 full packets and 200 messages a second.
    const SENT_BPS: std::ops::Range<f64> = 9.7e6..9.95e6;

    #[test]
    fn what_is_delivered_is_measured_and_nothing_limits_it() {
        let mut path = Path::default();
        run(&mut path, 1..500, false, at_once);
        let found = path.findings();
        assert!(SENT_BPS.contains(&found.delivered_bps), "{found:?}");
        assert_eq!((found.queue, found.lost, path.bearable_bps()), (Duration::ZERO, 0.0, None));
    }

    #[test]
    fn a_queue_and_a_narrow_link_are_seen() {
        let mut path = Path::default();
        run(&mut path, 1..500, false, at_once);
        // From then on each packet takes two milliseconds.
        run(&mut path, 500..600, false, |number| Some(510_000 + (number - 500) * 2_000));
        let found = path.findings();
        assert!((80..=95).contains(&found.queue.as_millis()), "{found:?}");
        assert!((4.8e6..5.0e6).contains(&found.latest_bps) && found.delivered_bps > 9.7e6, "{found:?}");
        assert_eq!(path.bearable_bps(), Some(found.latest_bps));
    }

    #[test]
    fn packets_that_arrive_at_once_are_no_higher_rate() {
        let mut path = Path::default();
        // A host that hands over 50 packets at a time, without the kernel's timestamps.
        run(&mut path, 1..1_000, false, |number| Some((number / 50 + 1) * 50_000));
        assert!(path.findings().delivered_bps < SENT_BPS.end * 1.05, "{:?}", path.findings());
    }

    #[test]
    fn what_a_late_host_handles_at_once_is_neither_lost_nor_a_limit() {
        let mut path = Path::default();
        // Each tenth of a second, all that has come: one run of packets, with 20 messages in it.
        for part in 0..20_u32 {
            path.packets(Arrived { first: part * 100 + 1, count: 100, marked: false });
            for number in (part * 100 + 5..=part * 100 + 100).step_by(5) {
                let micros = u64::from(number) * 1000;
                let at = Instant::from_nanos((micros + 10_000) * 1000);
                let (packet_bits, round_trip) = (PACKET_BITS, ROUND_TRIP);
                let (sent_us, is_unused, is_start) = (micros, false, false);
                path.pace(PacePoint { number, sent_us, at, is_unused, is_start, packet_bits, round_trip });
                assert_eq!(path.findings().lost, 0.0, "at {number}");
            }
        }
        assert_eq!(path.bearable_bps(), None);
        assert!(SENT_BPS.contains(&path.findings().delivered_bps), "{:?}", path.findings());
    }

    #[test]
    fn what_the_own_host_drops_is_delivered() {
        let mut path = Path::default();
        run(&mut path, 1..500, false, at_once);
        for part in 0..10 {
            let from = 500 + part * 20;
            run(&mut path, from..from + 20, false, |number| at_once(number).filter(|_| number % 4 != 1));
            path.own_drops((part + 1) * 5);
        }
        let found = path.findings();
        assert!(found.lost < 0.06, "{found:?}");
    }

    #[test]
    fn losses_are_counted() {
        let mut path = Path::default();
        run(&mut path, 1..2_000, false, |number| at_once(number).filter(|_| number % 7 != 3));
        let found = path.findings();
        assert!((0.05..0.25).contains(&found.lost), "{found:?}");
        assert!(path.bearable_bps().is_some(), "a seventh is no chance");
    }

    /// The average of losses looks back on two seconds here.
    #[test]
    fn what_the_start_loses_limits_the_start_alone() {
        let mut path = Path::default();
        run_in(&mut path, 1..500, (false, true), |number| at_once(number).filter(|_| number % 3 > 0));
        assert!(path.bearable_bps().is_some(), "a third is no chance");
        run(&mut path, 500..700, false, at_once);
        assert_eq!(path.bearable_bps(), None);
    }

    /// The sender waits for reports, and is still at the start: the average of losses is high, and what arrives is what it sends.
    #[test]
    fn what_arrives_without_a_loss_is_not_what_limits_a_path_that_has_lost_before() {
        let mut path = Path::default();
        run_in(&mut path, 1..500, (false, true), |number| at_once(number).filter(|_| number % 3 > 0));
        let (at, _) = path.limited().expect("a third is no chance");
        run_in(&mut path, 500..600, (false, true), |number| at_once(number).filter(|_| number % 3 > 0));
        assert!(path.limited().is_some_and(|(again, _)| again > at));
        // A message and a packet in 5 ms.
        let (before, _) = path.limited().unwrap_or_default();
        for number in 120..140_u32 {
            let sent_us = u64::from(number) * 5_000;
            path.packets(Arrived { first: 480 + number, count: 1, marked: false });
            message(&mut path, 480 + number, (sent_us, sent_us + 10_000), (false, true));
        }
        let (after, _) = path.limited().unwrap_or_default();
        assert!(after <= before + ROUND_TRIP * 2, "{before} {after}");
        assert!(path.bearable_bps().is_some(), "it is limited meanwhile");
    }

    #[test]
    fn a_pause_of_the_sender_does_not_lower_what_is_known() {
        let mut path = Path::default();
        run(&mut path, 1..500, false, at_once);
        run(&mut path, 500..5_000, true, |number| at_once(number).filter(|_| number % 5 == 0));
        assert!(SENT_BPS.contains(&path.findings().delivered_bps), "{:?}", path.findings());
    }

    #[test]
    fn numbers_that_begin_anew_are_another_count() {
        let mut path = Path::default();
        run(&mut path, 1..500, false, at_once);
        path.packets(Arrived { first: u32::MAX / 2, count: u32::MAX, marked: true });
        run(&mut path, 500..900, false, at_once);
        let found = path.findings();
        assert!(found.delivered_bps < 20e6 && found.lost <= 1.0, "{found:?}");
    }
}
