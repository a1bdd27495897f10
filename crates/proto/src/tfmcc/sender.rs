//! The sender's part of congestion control (RFC 4654, 3): the rate, the receiver that it follows, and what it
//! tells the group.

mod group;
mod law;
mod rate;
#[cfg(test)]
mod tests;
mod trust;

use std::{convert::Infallible, time::Duration};

use treecast_wire::message::{Pace, PaceReport, Phase};

use self::{
    group::Group,
    law::Law,
    rate::Finding,
    trust::{Trust, Verdict},
};
use super::{
    feedback, micros,
    probes::{ProbeKey, Probes, Testimony},
};
use crate::{Instant, Step, group_rate::GroupView};

/// The number of messages to the group in a round trip, within the bounds that follow.
const TOLD_A_ROUND_TRIP: u32 = 4;

/// The shortest time between two messages to the group.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// The shortest such time with a model of the path, which is of 10 ms, at least. Each message wakes all receivers.
const SHORTEST_INTERVAL_OF_MODEL: Duration = Duration::from_micros(2_500);
/// The fewest packets between two messages to the group, with a model of the path.
const PACKETS_AN_INTERVAL: f64 = 8.0;
/// The fewest at the start. A model of the path begins with few packets, and needs to hear of them soon.
const START_PACKETS: f64 = 2.0;
/// The longest time between two messages to the group.
const LONGEST_INTERVAL: Duration = Duration::from_millis(250);

/// A receiver that is followed has fallen silent when it has said nothing for so many round trips (RFC 5348, 4.4), and
/// for no less than this: a busy host may let it wait so long.
const SILENT_ROUND_TRIPS: u32 = 4;
const SHORTEST_SILENCE: Duration = Duration::from_millis(300);

/// A receiver takes another's place when it bears less than this share of what that one bears.
const CLEARLY_LESS: f64 = 0.9;

/// The time without any report, after the first silence, from which nobody hears the group.
const UNHEARD: Duration = Duration::from_secs(2);

/// The time without sending after which a sender has paused.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

/// The rule by which a sender finds its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// A model of the path to the slowest receiver ([`crate::group_rate`]).
    #[default]
    Model,
    /// The rate that a TCP connection to the slowest receiver would get (RFC 4654).
    Tfmcc,
}

#[derive(Debug, Clone, Copy)]
pub struct SenderConfig {
    pub control: Control,
    /// Length of a full IP packet, in bytes.
    pub packet_bytes: u32,
    /// The floor of the rate. The sender does not follow receivers whose paths cannot take this much.
    pub floor_bps: Option<u64>,
    /// A secret that no receiver knows, of this group alone.
    pub probe_key: ProbeKey,
}

/// Something that has happened at the sender. Receivers are named by the numbers that Welcome has told them.
#[derive(Debug, Clone, Copy)]
pub enum SenderInput {
    /// A receiver has joined. Its control connection may have measured its round trip. `who` is the same when it comes again.
    Joined {
        receiver: u32,
        who: u64,
        round_trip: Option<Duration>,
    },
    Left {
        receiver: u32,
    },
    /// A receiver is served in a slower group, because it bears clearly less than the others.
    Slowed {
        receiver: u32,
    },
    Report {
        from: u32,
        report: PaceReport,
    },
    /// A receiver has asked again for so many bytes that were sent to the group while it was there.
    Asked {
        receiver: u32,
        bytes: u64,
    },
    /// IP packets have left: packets to the group and retransmissions.
    Sent {
        group_bytes: u64,
        repair_bytes: u64,
    },
}

/// The event that the sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderWait {
    /// The machine waits for something to send.
    Packets,
    /// The machine waits until its next message to the group is due.
    Pace,
    /// The machine waits for a report of the receiver that it follows.
    Report,
}

/// The reason why the rate is as high as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No packet has been lost yet, so the rate still grows fast (slow start).
    Start,
    /// Packets were lost on the path to the receiver that the sender follows.
    Loss,
    /// The rate is being raised to what the receiver that is followed can bear.
    Growth,
    /// The sender sends less than the rate allows.
    Unused,
    /// No receiver's path can take as much as the floor.
    Floor,
    /// The rate is what the path to the receiver that is followed delivers.
    Delivered,
    /// The sender tries whether that path delivers more.
    Probe,
    /// The sender waits until a queue on that path is gone.
    Queue,
}

/// The receiver and the loss that limit the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub cause: Cause,
    /// The receiver that the sender follows.
    pub receiver: Option<u32>,
    /// The loss event rate of that receiver.
    pub loss: f64,
    pub round_trip: Duration,
    /// The time that packets to that receiver wait in queues. 0 with TFMCC.
    pub queue: Duration,
    /// The rate that the receiver has said it bears, in bits a second. `None`: nothing limits it.
    pub bears_bps: Option<u64>,
    pub phase: Phase,
}

/// One sender's part in congestion control. Call order: see the crate's documentation. [`Sender::rate_bps`] changes with
/// every input and poll.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    rate: Law,
    group: Group,
    round: u32,
    round_ends: Instant,
    /// The lowest rate asked for in this round.
    suppression_bps: u64,
    /// The time when something was sent to the group last.
    sent: Option<Instant>,
    told: Option<Instant>,
    /// Something was sent since the group was told.
    has_sent: bool,
    /// The time since which the receiver that is followed says nothing.
    unheard_since: Instant,
    /// Whether no receiver has answered since another was asked.
    is_unanswered: bool,
    /// The time since which no receiver has reported on what was sent. `None` while some do.
    silent_since: Option<Instant>,
    /// All receivers are to say what limits them.
    asks_all: bool,
    trust: Trust,
    probes: Probes,
}

/// # What happens
impl Sender {
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            rate: Law::new(&config),
            group: Group::default(),
            round: 0,
            round_ends: Instant::ZERO,
            suppression_bps: Pace::NO_RATE,
            sent: None,
            told: None,
            has_sent: false,
            unheard_since: Instant::ZERO,
            is_unanswered: false,
            silent_since: None,
            asks_all: false,
            trust: Trust::default(),
            probes: Probes::new(config.probe_key, config.packet_bytes),
        }
    }

    /// Returns a sender that begins as at the start, but for the numbers of its probes: a receiver may know some.
    pub fn begun_again(&self) -> Self {
        Self { probes: self.probes.clone(), ..Self::new(self.config) }
    }

    /// Asks all receivers, or no longer, what limits them. As always, only a few answer in each round.
    pub fn ask(&mut self, asks_all: bool) {
        self.asks_all = asks_all;
    }

    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match input {
            SenderInput::Joined { receiver, who, round_trip } => {
                // Nobody was there who could have reported.
                self.silent_since.take_if(|_| self.group.len() == 0);
                self.group.join(receiver, who, round_trip);
                if self.sent.is_none() {
                    self.rate.start(self.group.longest());
                }
            }
            SenderInput::Left { receiver } => {
                self.trust.leave(receiver);
                if self.group.leave(receiver) {
                    self.follow_next(now);
                }
            }
            SenderInput::Slowed { receiver } => {
                self.trust.leave(receiver);
                if self.group.leave(receiver) {
                    self.follow_next(now);
                    self.rate.start_anew(now);
                }
            }
            SenderInput::Report { from, report } => {
                let is_modelled = self.config.control == Control::Model;
                if let Some(finding) = self.group.report(now, from, &report, is_modelled)
                    && !(is_modelled && self.is_lie(now, from, &report, &finding))
                {
                    self.report(now, from, &report, finding);
                    self.judge(now);
                }
            }
            SenderInput::Asked { receiver, bytes } => {
                if self.group.hears(now, receiver) {
                    self.trust.asked(receiver, bytes);
                    self.judge(now);
                }
            }
            SenderInput::Sent { group_bytes, repair_bytes } => self.sent(now, group_bytes, repair_bytes),
        }
    }

    fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        if group_bytes > 0 {
            self.sent_to_group(now);
        }
        self.trust.sent(now, group_bytes);
        self.probes.sent(now, group_bytes);
        self.rate.sent(now, group_bytes, repair_bytes);
    }

    /// Takes in that something was sent to the group. Nobody answers retransmissions, so alone they neither
    /// keep the rate up nor take it down.
    fn sent_to_group(&mut self, now: Instant) {
        let paused = self.sent.map_or(Duration::ZERO, |sent| now.saturating_duration_since(sent));
        if self.sent.is_none() || paused > SHORTEST_PAUSE.max(self.group.longest() * SILENT_ROUND_TRIPS) {
            self.rate.pause(now, paused, self.group.longest());
            (self.unheard_since, self.is_unanswered) = (now, false);
        }
        // What was sent before is answered, or nothing was: a silence begins with what is sent now.
        if self.config.control == Control::Model
            && paused > (self.group.longest() * 2).max(SHORTEST_SILENCE / 2)
        {
            self.unheard_since = now;
        }
        (self.sent, self.has_sent) = (Some(now), true);
    }

    /// Holds a report against the probes that its receiver has got. Returns whether the receiver has lied. Then it is followed no more.
    fn is_lie(&mut self, now: Instant, from: u32, report: &PaceReport, finding: &Finding) -> bool {
        let is_limiting = self.group.limiting() == Some(from);
        let testimony = Testimony {
            proof: &report.proof,
            claim: finding.sample.lost,
            round_trip: finding.round_trip,
            shortest: finding.sample.shortest,
            is_followed: is_limiting || self.wants_less(finding),
        };
        let is_lie = self.group.is_lie(now, from, report, &self.probes, &testimony);
        if is_lie && is_limiting {
            self.leave_liar(now);
        }
        is_lie
    }

    /// Follows another receiver than one that has lied. If nobody is left to be believed, nothing is known of the path.
    fn leave_liar(&mut self, now: Instant) {
        self.follow_next(now);
        if self.group.limiting().is_none() {
            self.rate.fall_to_least();
            self.rate.start_anew(now);
            self.silent_since.get_or_insert(now);
        }
    }

    /// RFC 4654, 3.3. The rate falls to what any receiver wants, and rises only with the one that is followed.
    fn report(&mut self, now: Instant, from: u32, report: &PaceReport, finding: Finding) {
        self.silent_since = None;
        let is_limiting = self.group.limiting() == Some(from);
        if self.is_below_floor(&finding) {
            self.group.leave_behind(from, true);
            if is_limiting {
                self.follow_next(now);
            }
            return;
        }
        self.group.leave_behind(from, false);
        // As it was asked for: a receiver that has not measured the round trip either reckons with the same
        // one. One that nothing limits either has no more to say.
        let is_enough = self.rate.is_start() || self.config.control == Control::Model;
        let received = Some(report.received_bps).filter(|_| is_enough);
        let asked = if finding.calculated_bps.is_some() { Some(report.rate_bps) } else { received };
        let asked = asked.filter(|_| !is_limiting || self.config.control == Control::Tfmcc);
        let is_followed = is_limiting || self.wants_less(&finding);
        // A receiver that does not limit the rate keeps none of those silent that may.
        let least = (self.rate.bps() * CLEARLY_LESS) as u64;
        let is_heard = is_followed || self.config.control == Control::Tfmcc;
        let asked = asked.map(|asked| if is_heard { asked } else { asked.max(least) });
        self.suppression_bps = asked.map_or(self.suppression_bps, |asked| self.suppression_bps.min(asked));
        if is_followed {
            self.group.follow(from);
            (self.unheard_since, self.is_unanswered) = (now, false);
            self.trust.claimed(now, finding.sample.lost, finding.round_trip);
            self.rate.follow(now, finding, !is_limiting);
        }
    }

    /// Holds what the followed receiver reports against what receivers ask for. TFMCC believes its receivers, as RFC 4654 does: what they
    /// report there is an average, which says little of a single window.
    fn judge(&mut self, now: Instant) {
        if self.config.control == Control::Tfmcc {
            return;
        }
        let (followed, longest) = (self.group.limiting(), self.group.longest());
        let Some(verdict) = self.trust.judge(now, followed, longest, self.config.packet_bytes) else {
            return;
        };
        let suspect = match verdict {
            Verdict::Questions(other) => Some(other),
            Verdict::Contradicts | Verdict::Fits => followed,
        };
        let Some(suspect) = suspect else { return };
        let Some(credence) = self.group.credence(suspect) else { return };
        if verdict == Verdict::Fits {
            return credence.absolve();
        }
        let is_believed_no_more = credence.strike(now);
        match verdict {
            Verdict::Contradicts if is_believed_no_more => self.leave_liar(now),
            Verdict::Questions(other) if !is_believed_no_more => {
                self.group.follow(other);
                (self.unheard_since, self.is_unanswered) = (now, false);
            }
            _ => {}
        }
    }

    /// Whether a receiver bears less than the sender sends now, or nobody was followed yet. With a model of the path it must
    /// also bear less than the receiver that is followed.
    fn wants_less(&self, finding: &Finding) -> bool {
        let Some(wanted) = finding.calculated_bps else { return self.group.limiting().is_none() };
        let followed = self.group.found().and_then(|(finding, _)| finding.calculated_bps);
        match self.config.control {
            Control::Model => followed.is_none_or(|followed| wanted < followed * CLEARLY_LESS),
            Control::Tfmcc => self.group.limiting().is_none() || wanted < self.rate.bps(),
        }
    }

    fn is_below_floor(&self, finding: &Finding) -> bool {
        let floor = self.config.floor_bps.map(|floor| floor as f64);
        floor.zip(finding.calculated_bps).is_some_and(|(floor, rate)| rate < floor)
    }

    fn follow_next(&mut self, now: Instant) {
        self.unheard_since = now;
        self.rate.forget_recovery();
        if !self.group.follow_next(now) && self.config.floor_bps.is_some() {
            self.rate.fall_to_least();
        }
    }
}

/// # What is to be done
impl Sender {
    /// Returns the message to the group when it is due. There is none while nothing is sent to the group.
    pub fn poll(&mut self, now: Instant) -> Step<Pace, Infallible, SenderWait> {
        let Some(silent_at) = self.silence() else { return Step::Wait(None, SenderWait::Packets) };
        if silent_at <= now {
            self.fall_silent(now);
        }
        if !self.has_sent {
            return Step::Wait(self.silence(), SenderWait::Report);
        }
        match self.told.map(|told| told + self.interval()) {
            Some(due) if due > now => Step::Wait(Some(due.min(silent_at.max(now))), SenderWait::Pace),
            _ => Step::Transmit(self.pace(now)),
        }
    }

    fn interval(&self) -> Duration {
        let round_trip = |(finding, _): (Finding, f64)| match self.config.control {
            Control::Model => finding.sample.shortest,
            Control::Tfmcc => finding.round_trip,
        };
        let round_trip = self.group.found().map_or(self.group.longest(), round_trip);
        let packets = if self.rate.phase() == Phase::Start { START_PACKETS } else { PACKETS_AN_INTERVAL };
        let packets = packets * f64::from(self.config.packet_bytes) * 8.0 / self.rate.bps();
        let least = match self.config.control {
            Control::Model => SHORTEST_INTERVAL_OF_MODEL,
            Control::Tfmcc => SHORTEST_INTERVAL,
        };
        let shortest = least.max(Duration::from_secs_f64(packets)).min(LONGEST_INTERVAL);
        (round_trip / TOLD_A_ROUND_TRIP).clamp(shortest, LONGEST_INTERVAL)
    }

    /// The time when the receiver that is followed counts as silent. `None` while nothing is sent that it
    /// could answer.
    fn silence(&self) -> Option<Instant> {
        let sent = self.sent?;
        let length =
            (self.group.longest() * SILENT_ROUND_TRIPS).max(SHORTEST_SILENCE).max(self.interval() * 2);
        let silent_at = self.unheard_since + length;
        (self.has_sent || silent_at <= sent + length).then_some(silent_at)
    }

    /// Asks another receiver; slows down when that one does not answer either (RFC 4654, 3.3).
    fn fall_silent(&mut self, now: Instant) {
        self.unheard_since = now;
        self.group.note_silence();
        let has_next = self.group.follow_next(now);
        if std::mem::replace(&mut self.is_unanswered, true) || !has_next {
            self.rate.halve(now);
            self.silent_since.get_or_insert(now);
        }
    }

    /// The time in which each receiver may report once, unless another has said what it would say.
    fn round_length(&self) -> Duration {
        match self.config.control {
            Control::Tfmcc => self.group.longest() * feedback::ROUND_TRIPS_A_ROUND,
            Control::Model => feedback::round(self.group.longest(), self.group.len() as u32),
        }
    }

    fn pace(&mut self, now: Instant) -> Pace {
        if self.round_ends <= now {
            self.group.end_round();
            self.round = self.round.wrapping_add(1);
            self.round_ends = now + self.round_length() + self.interval();
            self.suppression_bps = Pace::NO_RATE;
        }
        (self.told, self.has_sent) = (Some(now), false);
        let (echo_for, echo_us) = self.group.take_echo(now).unwrap_or((0, 0));
        Pace { echo_for, echo_us, ..self.plain_pace(now) }
    }

    /// A message to the group that echoes no report.
    fn plain_pace(&self, now: Instant) -> Pace {
        Pace {
            timestamp_us: micros(now),
            rate_bps: self.rate_bps(),
            suppression_bps: self.suppression_bps,
            echo_us: 0,
            round: self.round,
            longest_round_trip_us: self.group.longest().as_micros() as u32,
            packet_bytes: self.config.packet_bytes,
            is_slow_start: self.rate.is_start() || self.asks_all,
            limited_by: self.group.limiting().unwrap_or(0),
            echo_for: 0,
            phase: self.rate.phase(),
            is_unused: self.rate.is_unused(),
            receivers: self.group.len() as u32,
            probe: None,
        }
    }

    /// Returns how many full packets may leave for the group before a probe is to take the place of the next one. `None`: none is near.
    pub fn packets_before_probe(&self, now: Instant) -> Option<u64> {
        let is_probing = self.config.control == Control::Model && self.group.len() > 0;
        self.probes.packets_before(now).filter(|_| is_probing)
    }

    /// Returns the probe that leaves now in place of a full packet, and is padded to the length of one.
    pub fn take_probe(&mut self, now: Instant) -> Pace {
        Pace { probe: Some(self.probes.take(now)), ..self.plain_pace(now) }
    }
}

/// # What is to be seen
impl Sender {
    /// Returns how many bits of IP packets may leave in a second, retransmissions included.
    pub fn rate_bps(&self) -> u64 {
        self.rate.bps() as u64
    }

    /// Whether there are receivers, and none of them has reported for a while on what was sent: nobody hears the group.
    pub fn is_unheard(&self, now: Instant) -> bool {
        self.group.len() > 0 && self.silent_since.is_some_and(|since| since + UNHEARD <= now)
    }

    /// Returns how far a receiver is doubted: 0 not at all, 1 if it is not believed.
    pub fn doubt(&self, now: Instant, receiver: u32) -> f64 {
        self.group.doubt(now, receiver)
    }

    pub fn limit(&self) -> Limit {
        let found = self.group.found();
        let bears = found.and_then(|(finding, _)| finding.calculated_bps);
        Limit {
            cause: self.cause(bears),
            receiver: self.group.limiting(),
            loss: found.map_or(0.0, |(_, loss)| loss),
            round_trip: found.map_or(self.group.longest(), |(finding, _)| finding.round_trip),
            queue: self.rate.queue(),
            bears_bps: bears.map(|bps| bps as u64),
            phase: self.rate.phase(),
        }
    }

    /// Returns the group as the choice of slower groups sees it. `rest` is how long it will still have something to send.
    pub fn view(&self, rest: Duration) -> GroupView {
        let limit = self.limit();
        GroupView {
            rate_bps: self.rate_bps(),
            is_found: limit.phase != Phase::Start && limit.cause != Cause::Unused,
            round_trip: limit.round_trip,
            rest,
            limited_by: limit.receiver.filter(|_| limit.bears_bps.is_some()),
        }
    }

    /// Returns what a report that was handled last says that its receiver bears, in bits a second: `Some(None)` if nothing limits
    /// it. One that the sender does not follow also says what it bore a moment ago. `None`: it says nothing of that.
    pub fn borne_bps(&self, from: u32, report: &PaceReport) -> Option<Option<u64>> {
        match report.rate_bps {
            Pace::NO_RATE if report.is_limited && self.limit().receiver == Some(from) => None,
            Pace::NO_RATE => Some(report.is_limited.then_some(report.received_bps)),
            bears => Some(Some(bears)),
        }
    }

    fn cause(&self, bears: Option<f64>) -> Cause {
        let is_least = |floor: u64| self.rate.bps() <= floor as f64;
        match self.rate.phase() {
            _ if self.config.floor_bps.is_some_and(is_least) => Cause::Floor,
            _ if self.rate.is_unused() => Cause::Unused,
            _ if self.rate.is_start() => Cause::Start,
            Phase::Up => Cause::Probe,
            Phase::Drain | Phase::Down => Cause::Queue,
            Phase::Cruise => Cause::Delivered,
            _ if bears.is_none_or(|wanted| wanted > self.rate.bps() * 1.05) => Cause::Growth,
            _ => Cause::Loss,
        }
    }
}
