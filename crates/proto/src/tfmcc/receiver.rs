//! The receiver's part of congestion control (RFC 4654, 4): what it finds out about its path, and when it
//! reports.

use std::{convert::Infallible, time::Duration};

use treecast_wire::message::{Pace, PaceReport, Phase};

use super::{
    Arrived, equation, feedback, loss_history::LossHistory, micros, probes::Came, receive_rate::ReceiveRate,
    round_trip::RoundTrip,
};
use crate::{
    Instant, Step,
    group_rate::{PacePoint, Path},
    random::SplitMix64,
    tcp_window::Window,
};

/// The round trip before anything is known of it (RFC 4654, 4.1).
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(500);

/// The packet length before anything is known of it.
const FIRST_PACKET_BYTES: u32 = 1500;

/// The share of the rate of arrival that the first loss leaves, 0 to 1 (RFC 9438, 4.6).
const FIRST_REDUCTION: f64 = 0.7;

/// The least time between two reports, however short the round trip.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);

/// Round trips are no shorter where something is divided by them.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_micros(50);

/// A round lasts at least so long.
const SHORTEST_ROUND: Duration = Duration::from_millis(20);

/// The bound on what receivers that are limited may bear to answer, as a multiple of the rate, with a model
/// of the path. So the sender knows whether others bear more than the one that limits it.
const ANSWERED_ABOVE: f64 = 2.0;

/// The time, and the round trips, in which the path must have limited receivers for them to answer, with a
/// model of the path. The sender tries more than a path bears about as often. So it knows which receivers
/// limit the rate beside the one that it follows.
const LIMITED_LATELY: Duration = Duration::from_secs(3);
const LIMITED_LATELY_ROUNDS: u32 = 24;

/// A receiver that bears less than this share of the rate does not wait for rounds to pass.
const CLEARLY_BELOW: f64 = 0.7;

/// A receiver that the sender will not follow lets up to 2^this rounds pass between its reports.
const MAX_PATIENCE: u32 = 6;

/// Something that has happened at the receiver.
#[derive(Debug, Clone, Copy)]
pub enum ReceiverInput {
    /// The sender's Welcome has told what it calls this receiver.
    Named(u32),
    /// Packets of the group have arrived.
    Packets(Arrived),
    /// The sender's message to the group has arrived.
    Pace {
        pace: Pace,
        /// The packet number of the datagram that carried it.
        number: u32,
        /// The time when the datagram arrived, as the kernel tells it. The present time where it does not.
        at: Instant,
    },
    /// This host's kernel has dropped so many packets of the session since it began.
    OwnDrops { total: u64 },
    /// The receiver listens to another group of the session, which has packet numbers and a rate of its own.
    Moved,
}

/// The event that the receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverWait {
    /// The machine waits for packets, or for a reason to report.
    Sender,
    /// The machine waits until its next report is due. The sender follows this receiver, or no other receiver
    /// has reported the same.
    Report,
}

/// One receiver's part in congestion control. Call order: see the crate's documentation. Its reports replace each other:
/// one that could not be sent is of no use when there is a newer one.
#[derive(Debug, Default)]
pub struct Receiver {
    number: Option<u32>,
    history: LossHistory,
    rate: ReceiveRate,
    round_trip: RoundTrip,
    window: Window,
    path: Path,
    random: SplitMix64,
    /// The last message of the sender and when it came.
    pace: Option<(Pace, Instant)>,
    /// The echo that was measured by last.
    measured_echo: u64,
    /// The time to speak in this round, if nobody does so before.
    timer: Option<Instant>,
    has_spoken: bool,
    /// Rounds to let pass, and how many it will be the next time.
    rounds_to_pass: u32,
    patience: u32,
    reported: Option<Instant>,
    /// Whether there is something to report as soon as may be.
    is_urgent: bool,
    has_news: bool,
    /// A loss event has begun since the last report.
    is_lossy: bool,
    came: Came,
}

/// # What happens
impl Receiver {
    /// Creates a receiver's part. `seed` decides its random times: no two receivers of a group should have the
    /// same.
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix64(seed), ..Self::default() }
    }

    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        match input {
            // The sender that names it may be another than before, which has another secret.
            ReceiverInput::Named(number) => (self.number, self.came) = (Some(number), Came::default()),
            ReceiverInput::Packets(packets) => self.packets(now, packets),
            ReceiverInput::Pace { pace, number, at } => self.pace(now, pace, number, at.min(now)),
            ReceiverInput::OwnDrops { total } => self.path.own_drops(total),
            ReceiverInput::Moved => self.move_on(),
        }
    }

    fn move_on(&mut self) {
        let (number, random, path) = (self.number, self.random.clone(), self.path.elsewhere());
        *self = Self { number, random, path, ..Self::default() };
    }

    fn packets(&mut self, now: Instant, packets: Arrived) {
        let round_trip = self.round_trip();
        self.has_news = true;
        self.path.packets(packets);
        self.rate.arrived(now, packets.count, round_trip);
        let under_way = self.rate.packets(now, round_trip);
        self.window.grow(now, round_trip, under_way);
        if !self.history.arrived(now, packets, self.round_trip.longest().unwrap_or(round_trip)) {
            return;
        }
        // As much less than what arrived when the first loss came as CUBIC's window would be.
        let (bytes, received) = (self.packet_bytes(), self.received_bps(now));
        let bearable = received * FIRST_REDUCTION;
        self.window.lose(now, under_way);
        self.history.set_first_interval(1.0 / equation::loss_rate(bytes, round_trip, bearable));
        self.is_lossy = true;
        if self.is_modelled() {
            return;
        }
        if self.is_limiting() {
            self.is_urgent = true;
        } else {
            self.set_timer(now);
        }
    }

    fn pace(&mut self, now: Instant, pace: Pace, number: u32, at: Instant) {
        // A probe is a packet like any other. It tells nothing else.
        if let Some(probe) = pace.probe {
            return self.came.take(probe);
        }
        let is_new_round = self.pace.is_none_or(|(last, _)| last.round != pace.round);
        self.pace = Some((pace, at));
        self.has_news = true;
        let is_echo = pace.echo_for != 0 && Some(pace.echo_for) == self.number;
        if is_echo && pace.echo_us != self.measured_echo {
            self.measured_echo = pace.echo_us;
            self.round_trip.measure(micros(at), pace.timestamp_us, pace.echo_us);
            if let Some(round_trip) = self.round_trip.latest() {
                self.path.round_trip(at, round_trip);
            }
        } else {
            self.round_trip.adjust(micros(at), pace.timestamp_us);
        }
        // At the start, what arrived half of a round trip ago is of no interest any more.
        let part = if pace.phase == Phase::Start { 2 } else { 1 };
        let (packet_bits, round_trip) =
            (f64::from(self.packet_bytes()) * 8.0, self.shortest_round_trip() / part);
        let (sent_us, is_unused, is_start) = (pace.timestamp_us, pace.is_unused, pace.phase == Phase::Start);
        self.path.pace(PacePoint { number, sent_us, at, is_unused, is_start, packet_bits, round_trip });
        if is_new_round {
            self.timer = None;
            self.has_spoken = false;
            self.rounds_to_pass = self.rounds_to_pass.saturating_sub(1);
        }
        if self.is_limiting() {
            (self.timer, self.patience, self.rounds_to_pass) = (None, 0, 0);
        } else if is_new_round {
            self.set_timer(now);
        }
        if self.timer.is_some() && self.is_suppressed(now, &pace) {
            self.timer = None;
        }
    }

    /// Sets the time to speak in a round in which it has something to say, and nobody has said it yet.
    fn set_timer(&mut self, now: Instant) {
        let Some((pace, _)) = self.pace else { return };
        let rate = self.bearable_bps(now);
        let is_news = pace.phase != Phase::Tfmcc && rate < pace.rate_bps as f64 * CLEARLY_BELOW;
        let may_speak = !self.has_spoken && self.timer.is_none() && (self.rounds_to_pass == 0 || is_news);
        let is_below = match pace.phase {
            Phase::Tfmcc => rate < pace.rate_bps as f64,
            _ => rate < pace.rate_bps as f64 * ANSWERED_ABOVE || self.was_limited(now).is_some(),
        };
        let is_unknown = pace.is_slow_start || pace.limited_by == 0 || self.round_trip.estimate().is_none();
        if !may_speak || !(is_below || is_unknown) || self.is_suppressed(now, &pace) {
            return;
        }
        let round = longest(&pace).saturating_mul(feedback::ROUND_TRIPS_A_ROUND).max(SHORTEST_ROUND);
        let ratio = rate / pace.rate_bps.max(1) as f64;
        let (round_trip, uniform) = (longest(&pace).max(SHORTEST_ROUND / 4), self.random.unit());
        let delay = match pace.phase {
            Phase::Tfmcc => feedback::delay(round, ratio, uniform),
            _ => feedback::delay_in(round_trip, pace.receivers, ratio, uniform),
        };
        self.timer = Some(now + delay);
    }

    fn is_suppressed(&mut self, now: Instant, pace: &Pace) -> bool {
        let has_spoken = pace.suppression_bps != Pace::NO_RATE;
        has_spoken && feedback::is_suppressed(self.bearable_bps(now), pace.suppression_bps as f64)
    }
}

/// # What is to be done
impl Receiver {
    pub fn poll(&mut self, now: Instant) -> Step<PaceReport, Infallible, ReceiverWait> {
        match self.deadline() {
            Some(deadline) if deadline <= now => match self.report(now) {
                Some(report) => Step::Transmit(report),
                None => Step::Wait(None, ReceiverWait::Sender),
            },
            Some(deadline) => Step::Wait(Some(deadline), ReceiverWait::Report),
            None => Step::Wait(None, ReceiverWait::Sender),
        }
    }

    /// The time when the next report is due. The current limiting receiver reports each round trip, and at
    /// once when a loss event begins (RFC 4654, 4.5).
    fn deadline(&self) -> Option<Instant> {
        let (pace, came_at) = self.pace?;
        if !self.is_limiting() {
            return self.timer;
        }
        if !self.has_news {
            return None;
        }
        let Some(reported) = self.reported else { return Some(came_at) };
        let interval = match pace.phase {
            _ if self.is_urgent => SHORTEST_INTERVAL,
            Phase::Tfmcc => self.round_trip(),
            Phase::Start | Phase::Up => self.shortest_round_trip() / 4,
            _ => self.shortest_round_trip() / 2,
        };
        Some(reported + interval.clamp(SHORTEST_INTERVAL, longest(&pace).max(SHORTEST_INTERVAL)))
    }

    fn report(&mut self, now: Instant) -> Option<PaceReport> {
        let (pace, came_at) = self.pace?;
        if !self.is_limiting() {
            self.patience = (self.patience + 1).min(MAX_PATIENCE);
            self.rounds_to_pass = (1 << self.patience) / 2;
        }
        (self.timer, self.has_spoken, self.reported) = (None, true, Some(now));
        (self.is_urgent, self.has_news) = (false, false);
        let loss = self.history.loss_rate();
        let found = self.path.findings();
        let was_limited = self.was_limited(now);
        let received_bps = match was_limited {
            // A receiver that is not followed is asked for that.
            Some(limited_bps) if !self.is_limiting() => limited_bps,
            _ if self.is_modelled() => found.latest_bps,
            _ => self.received_bps(now),
        };
        let held = now.saturating_duration_since(came_at).as_micros() as u64;
        let round_trip = self.round_trip.estimate().map_or(0, |estimate| estimate.as_micros() as u32);
        Some(PaceReport {
            timestamp_us: micros(now),
            echo_us: pace.timestamp_us.saturating_add(held),
            rate_bps: self.calculated_bps().map_or(Pace::NO_RATE, |rate| rate as u64),
            received_bps: received_bps as u64,
            round: pace.round,
            round_trip_us: round_trip,
            loss_ppb: (loss * 1e9) as u32,
            is_limited: if self.is_modelled() {
                was_limited.is_some()
            } else {
                std::mem::take(&mut self.is_lossy)
            },
            queue_us: found.queue.as_micros() as u32,
            lost_ppm: ppm(found.lost),
            marked_ppm: ppm(found.marked),
            proof: self.came.proof(),
        })
    }
}

/// # What is known
impl Receiver {
    fn is_limiting(&self) -> bool {
        self.pace.is_some_and(|(pace, _)| pace.limited_by != 0 && Some(pace.limited_by) == self.number)
    }

    /// Measured, or the group's longest.
    fn round_trip(&self) -> Duration {
        let longest = || self.pace.map_or(FIRST_ROUND_TRIP, |(pace, _)| longest(&pace));
        self.round_trip.estimate().unwrap_or_else(longest)
    }

    /// Whether the sender models the path.
    fn is_modelled(&self) -> bool {
        self.pace.is_some_and(|(pace, _)| pace.phase != Phase::Tfmcc)
    }

    /// The rate that the path delivered when it limited that lately, in bits a second. `None` if it did not,
    /// or the sender does not model it.
    fn was_limited(&self, now: Instant) -> Option<f64> {
        let long = LIMITED_LATELY.max(self.shortest_round_trip() * LIMITED_LATELY_ROUNDS);
        let limited = self.path.limited().filter(|(at, _)| now.saturating_duration_since(*at) < long);
        limited.filter(|_| self.is_modelled()).map(|(_, bps)| bps)
    }

    /// The round trip without queues: measured, or the group's longest.
    fn shortest_round_trip(&self) -> Duration {
        self.path.shortest_round_trip().unwrap_or_else(|| self.round_trip())
    }

    fn packet_bytes(&self) -> u32 {
        self.pace.map_or(FIRST_PACKET_BYTES, |(pace, _)| pace.packet_bytes.clamp(1, 65_535))
    }

    fn received_bps(&mut self, now: Instant) -> f64 {
        let (bytes, round_trip) = (self.packet_bytes(), self.round_trip());
        self.rate.rate_bps(now, bytes, round_trip)
    }

    /// The rate that TCP would get, in bits a second. `None` before the first loss. The receiver that is
    /// followed tells what the emulated window gives now. For another to be followed in its place, both that
    /// and the throughput equation must give less: the window alone is low after each loss, at some receiver
    /// or other at any time.
    fn calculated_bps(&self) -> Option<f64> {
        if self.is_modelled() {
            return self.path.bearable_bps();
        }
        let window = self.window_bps()?;
        let average = || equation::rate_bps(self.packet_bytes(), self.round_trip(), self.history.loss_rate());
        Some(if self.is_limiting() { window } else { window.max(average()) })
    }

    fn window_bps(&self) -> Option<f64> {
        let round_trip = self.round_trip.damped().unwrap_or_else(|| self.round_trip());
        let bits = self.window.packets()? * f64::from(self.packet_bytes()) * 8.0;
        Some(bits / round_trip.max(SHORTEST_ROUND_TRIP).as_secs_f64())
    }

    /// The rate that others' rates are compared with. Before the first loss that is any rate, but in slow
    /// start what arrives.
    fn bearable_bps(&mut self, now: Instant) -> f64 {
        let is_slow_start = self.pace.is_some_and(|(pace, _)| pace.is_slow_start);
        match self.calculated_bps() {
            Some(rate) => rate,
            None if self.is_modelled() => f64::INFINITY,
            None if is_slow_start => self.received_bps(now),
            None => f64::INFINITY,
        }
    }
}

fn ppm(share: f64) -> u32 {
    (share * 1e6) as u32
}

fn longest(pace: &Pace) -> Duration {
    Duration::from_micros(pace.longest_round_trip_us.into()).min(super::round_trip::LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        tfmcc::{Probe, ProbeProof},
        time::at,
    };

    const ME: u32 = 7;

    fn pace(millis: u64, round: u32, limited_by: u32) -> Pace {
        Pace {
            timestamp_us: millis * 1000,
            rate_bps: 10_000_000,
            suppression_bps: Pace::NO_RATE,
            echo_us: 0,
            round,
            longest_round_trip_us: 50_000,
            packet_bytes: 1000,
            is_slow_start: false,
            limited_by,
            echo_for: 0,
            phase: Phase::Tfmcc,
            is_unused: false,
            receivers: 3,
            probe: None,
        }
    }

    fn heard(pace: Pace, at: Instant) -> ReceiverInput {
        ReceiverInput::Pace { pace, number: 0, at }
    }

    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(1);
        receiver.handle(at(0), ReceiverInput::Named(ME));
        receiver
    }

    /// 1,000 packets a second from `from` to `until`, every `lost`-th missing, and the pace each 10 ms.
    fn run(receiver: &mut Receiver, from: u64, until: u64, lost: u64, pace: Pace) -> Vec<(u64, PaceReport)> {
        let mut reports = Vec::new();
        for millis in from..until {
            if millis % lost != lost - 1 {
                let arrived = Arrived { first: millis as u32, count: 1, marked: false };
                receiver.handle(at(millis), ReceiverInput::Packets(arrived));
            }
            if millis % 10 == 0 {
                let pace = Pace { timestamp_us: millis * 1000 - 20, ..pace };
                receiver.handle(at(millis), heard(pace, at(millis)));
            }
            while let Step::Transmit(report) = receiver.poll(at(millis)) {
                reports.push((millis, report));
            }
        }
        reports
    }

    #[test]
    fn the_limiting_receiver_reports_each_round_trip() {
        let mut receiver = receiver();
        let reports = run(&mut receiver, 10, 1_010, u64::MAX, pace(10, 1, ME));
        assert!((18..=22).contains(&reports.len()), "{}", reports.len());
        let (_, last) = reports.last().unwrap();
        assert_eq!((last.rate_bps, last.loss_ppb, last.round), (Pace::NO_RATE, 0, 1));
        assert!((7_500_000..8_500_000).contains(&last.received_bps), "{last}");
    }

    #[test]
    fn a_loss_is_reported_at_once_by_the_limiting_receiver() {
        let mut receiver = receiver();
        let reports = run(&mut receiver, 10, 520, 500, pace(10, 1, ME));
        let lossy: Vec<_> = reports.iter().filter(|(_, report)| report.is_limited).collect();
        assert_eq!(lossy.len(), 1);
        assert!((502..=504).contains(&lossy[0].0), "packet 499 is missed when 502 has come: {lossy:?}");
        let rate = lossy[0].1.rate_bps;
        assert!((2_500_000..3_100_000).contains(&rate), "0.35 of what arrived: {rate}");
    }

    #[test]
    fn another_speaks_only_if_it_wants_less_and_nobody_has_said_so() {
        let quiet = run(&mut receiver(), 10, 1_000, 200, pace(10, 1, 3));
        let measured = |receiver: &mut Receiver| receiver.round_trip.measure(50_000, 30_000, 0);
        assert_eq!(quiet.len(), 1, "it has not measured its round trip yet");
        let mut content = receiver();
        measured(&mut content);
        assert!(run(&mut content, 10, 400, 200, Pace { rate_bps: 1000, ..pace(10, 1, 3) }).is_empty());
        let mut said = receiver();
        measured(&mut said);
        assert!(run(&mut said, 10, 400, 20, Pace { suppression_bps: 1000, ..pace(10, 1, 3) }).is_empty());
        let mut unsaid = receiver();
        measured(&mut unsaid);
        let reports = run(&mut unsaid, 10, 400, 20, Pace { rate_bps: 50_000_000, ..pace(10, 1, 3) });
        assert_eq!(reports.len(), 1, "once a round");
    }

    #[test]
    fn who_is_not_heeded_speaks_ever_less() {
        let mut receiver = receiver();
        let mut reports = 0;
        for round in 0..200 {
            let from = 10 + u64::from(round) * 300;
            reports += run(&mut receiver, from, from + 300, 20, pace(10, round, 3)).len();
        }
        assert!((4..20).contains(&reports), "{reports}");
    }

    #[test]
    fn an_echo_measures_the_round_trip() {
        let mut receiver = receiver();
        receiver.handle(at(100), heard(pace(80, 1, ME), at(100)));
        assert_eq!(receiver.round_trip(), Duration::from_millis(50), "the longest stands for it");
        let echo = Pace { echo_us: 60_000, echo_for: ME, ..pace(80, 1, ME) };
        receiver.handle(at(100), heard(Pace { echo_for: 9, ..echo }, at(100)));
        assert_eq!(receiver.round_trip.estimate(), None, "another's");
        receiver.handle(at(100), heard(echo, at(100)));
        assert_eq!(receiver.round_trip(), Duration::from_millis(40));
    }

    /// Any member of a session can say how fast it is to be, and which receiver limits it.
    #[test]
    fn whatever_pace_is_forged_there_are_500_reports_a_second_at_most() {
        for limited_by in [[ME, ME], [ME, 3], [0, ME], [0, 0]] {
            let mut receiver = receiver();
            let mut reports = 0;
            for number in 0..20_000_u32 {
                let now = Instant::ZERO + Duration::from_micros(50 * u64::from(number));
                let forged = Pace {
                    timestamp_us: micros(now),
                    rate_bps: u64::MAX,
                    longest_round_trip_us: 0,
                    is_slow_start: true,
                    ..pace(0, number, limited_by[number as usize % 2])
                };
                receiver.handle(now, heard(forged, now));
                let arrived = Arrived { first: 3 * number, count: 1, marked: false };
                receiver.handle(now, ReceiverInput::Packets(arrived));
                while let Step::Transmit(_) = receiver.poll(now) {
                    reports += 1;
                }
            }
            assert!((1..=501).contains(&reports), "{limited_by:?}: {reports}");
        }
    }

    #[test]
    fn a_probe_is_proved_until_another_sender_names_the_receiver() {
        let mut receiver = receiver();
        receiver.handle(at(0), heard(pace(0, 1, ME), at(0)));
        let probe = |number| Pace { probe: Some(Probe { number, nonce: 5 }), ..pace(0, 1, ME) };
        receiver.handle(at(1), heard(probe(3), at(1)));
        receiver.handle(at(1), heard(probe(4), at(1)));
        assert_eq!(receiver.came.proof(), ProbeProof { last: 4, came: 0b11, sum: 10 });
        receiver.handle(at(2), ReceiverInput::Named(ME));
        assert_eq!(receiver.came.proof(), ProbeProof::default());
        receiver.handle(at(3), heard(probe(4), at(3)));
        receiver.handle(at(3), ReceiverInput::Moved);
        assert_eq!(receiver.came.proof(), ProbeProof::default());
    }

    #[test]
    fn no_pace_gives_no_report_and_nonsense_no_panic() {
        let mut receiver = receiver();
        let arrived = Arrived { first: u32::MAX, count: u32::MAX, marked: true };
        receiver.handle(at(0), ReceiverInput::Packets(arrived));
        assert_eq!(receiver.poll(at(0)), Step::Wait(None, ReceiverWait::Sender));
        for number in [0, u64::MAX] {
            let pace = Pace {
                timestamp_us: number,
                rate_bps: number,
                suppression_bps: number,
                echo_us: number,
                round: number as u32,
                longest_round_trip_us: number as u32,
                packet_bytes: number as u32,
                is_slow_start: true,
                limited_by: ME,
                echo_for: ME,
                phase: Phase::Cruise,
                is_unused: false,
                receivers: number as u32,
                probe: None,
            };
            receiver.handle(at(5), heard(pace, at(5)));
            receiver.handle(at(6), ReceiverInput::Packets(arrived));
            for millis in 0..100 {
                let _ = receiver.poll(at(100 + millis * 100));
            }
        }
    }
}
