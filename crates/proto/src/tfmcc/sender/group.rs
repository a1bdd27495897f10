//! The receivers of the group as their reports show them: which one to follow, what the longest round trip is,
//! and whose report to echo.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use treecast_wire::message::PaceReport;

use super::{
    super::{
        probes::{Claims, Probes, Testimony},
        round_trip::LONGEST,
    },
    rate::Finding,
    trust::Credence,
};
use crate::{
    Instant,
    group_rate::{Least, Sample},
};

/// Round trips are no shorter.
const SHORTEST: Duration = Duration::from_micros(50);

/// The longest round trip before anybody has told one (RFC 4654, 3.2).
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(500);

/// The share of the longest round trip that is left when nobody in a whole round had as long a one (RFC 4654,
/// 3.2).
const DECAY: f64 = 0.9;

/// The most receivers that have left and are known again.
const MOST_KNOWN: usize = 4_096;

#[derive(Debug, Default)]
pub struct Group {
    receivers: BTreeMap<u32, Member>,
    /// Receivers that were not believed and have left, by their identities.
    known: BTreeMap<u64, Credence>,
    limiting: Option<u32>,
    /// The receivers whose reports are to be echoed, each once.
    echoes: VecDeque<u32>,
    longest: Option<Duration>,
    /// The longest in this round.
    peak: Duration,
}

/// The last words of a receiver.
#[derive(Debug, Default)]
struct Member {
    finding: Option<Finding>,
    loss: f64,
    /// The shortest round trip to it, in microseconds.
    shortest_us: Least,
    /// Its clock and ours when that came.
    told: Option<(u64, Instant)>,
    /// Whether it did not answer when it was asked.
    is_silent: bool,
    /// Whether it can bear less than the sender is willing to send.
    is_left_behind: bool,
    who: u64,
    credence: Credence,
    claims: Claims,
}

impl Group {
    /// A receiver joins. `who` is the same when it comes again.
    pub fn join(&mut self, receiver: u32, who: u64, round_trip: Option<Duration>) {
        let credence = self.known.remove(&who).unwrap_or_default();
        self.receivers.insert(receiver, Member { who, credence, ..Member::default() });
        if let Some(round_trip) = round_trip {
            let round_trip = round_trip.clamp(SHORTEST, LONGEST);
            self.longest = Some(self.longest.map_or(round_trip, |longest| longest.max(round_trip)));
        }
    }

    /// Removes a receiver. Returns whether the sender followed it.
    pub fn leave(&mut self, receiver: u32) -> bool {
        let gone = self.receivers.remove(&receiver);
        if let Some(Member { who, credence, .. }) = gone
            && credence.is_worth_it()
            && (self.known.len() < MOST_KNOWN || self.known.contains_key(&who))
        {
            self.known.insert(who, credence);
        }
        self.echoes.retain(|other| *other != receiver);
        self.limiting == Some(receiver)
    }

    /// Takes in a report. Returns none when the report cannot be right: it answers a message that was not sent
    /// yet, or comes from a receiver that is unknown or not believed.
    pub fn report(
        &mut self,
        now: Instant,
        from: u32,
        report: &PaceReport,
        is_modelled: bool,
    ) -> Option<Finding> {
        let longest = self.longest();
        let member = self.receivers.get_mut(&from).filter(|member| member.credence.is_believed(now))?;
        let round_trip = super::super::micros(now).checked_sub(report.echo_us).map(Duration::from_micros)?;
        let round_trip = round_trip.clamp(SHORTEST, LONGEST);
        // It has reckoned with the longest: with its own it would have found more (RFC 4654, 3.3).
        let scale = match report.round_trip_us {
            0 if !is_modelled => longest.as_secs_f64() / round_trip.as_secs_f64(),
            _ => 1.0,
        };
        let has_loss = report.rate_bps != super::Pace::NO_RATE;
        let received_bps = match is_modelled {
            // Nothing delivers more than it bears. So a receiver that asks for little, to be followed, cannot raise the rate.
            true => report.received_bps.min(report.rate_bps) as f64,
            false => report.received_bps as f64,
        };
        let finding = Finding {
            calculated_bps: has_loss.then_some(report.rate_bps as f64 * scale),
            received_bps,
            is_lossy: report.is_limited,
            round_trip,
            sample: {
                member.shortest_us.add(now, round_trip.as_micros() as f64);
                sample(report, received_bps, round_trip, member.shortest_us.least())
            },
        };
        member.finding = Some(finding);
        member.loss = f64::from(report.loss_ppb) / 1e9;
        member.told = Some((report.timestamp_us, now));
        member.is_silent = false;
        self.peak = self.peak.max(round_trip);
        self.longest = Some(self.longest.map_or(round_trip, |longest| longest.max(round_trip)));
        if !self.echoes.contains(&from) {
            self.echoes.push_back(from);
        }
        Some(finding)
    }

    pub fn limiting(&self) -> Option<u32> {
        self.limiting
    }

    pub fn follow(&mut self, receiver: u32) {
        self.limiting = Some(receiver);
    }

    pub fn leave_behind(&mut self, receiver: u32, is_left_behind: bool) {
        if let Some(member) = self.receivers.get_mut(&receiver) {
            member.is_left_behind = is_left_behind;
        }
    }

    /// Whether what a receiver asks for tells something of the rate: it hears the group, and may be followed.
    pub fn hears(&self, now: Instant, receiver: u32) -> bool {
        let member = self.receivers.get(&receiver).filter(|member| member.told.is_some());
        member.is_some_and(|member| !member.is_left_behind && member.credence.is_believed(now))
    }

    /// The credence of a receiver. `None` if it is not there.
    pub fn credence(&mut self, receiver: u32) -> Option<&mut Credence> {
        self.receivers.get_mut(&receiver).map(|member| &mut member.credence)
    }

    /// Holds what a receiver has just reported against probes, and against what can be at all. Returns whether it has lied, and is not
    /// believed from now on.
    pub fn is_lie(
        &mut self,
        now: Instant,
        from: u32,
        report: &PaceReport,
        probes: &Probes,
        testimony: &Testimony<'_>,
    ) -> bool {
        let Some(Member { credence, claims, .. }) = self.receivers.get_mut(&from) else { return false };
        claims.hear(now, probes, testimony, &mut credence.doubt);
        let is_lie = !is_possible(report) || credence.doubt.most() >= 1.0;
        if is_lie {
            credence.disbelieve(now);
            *claims = Claims::default();
        }
        is_lie
    }

    /// The doubt about a receiver: 0 not at all, 1 if it is not believed.
    pub fn doubt(&self, now: Instant, receiver: u32) -> f64 {
        let credence = self.receivers.get(&receiver).map(|member| member.credence);
        credence.map_or(0.0, |credence| if credence.is_believed(now) { credence.doubt.most() } else { 1.0 })
    }

    /// Takes note that the receiver that the sender follows has not answered.
    pub fn note_silence(&mut self) {
        let limiting = self.limiting.and_then(|limiting| self.receivers.get_mut(&limiting));
        if let Some(member) = limiting {
            member.is_silent = true;
        }
    }

    /// Follows another receiver: of those that the sender may follow, the one that asked for the lowest rate.
    /// Returns whether there is one.
    pub fn follow_next(&mut self, now: Instant) -> bool {
        let wanted = |member: &Member| match member.finding {
            Some(Finding { calculated_bps: Some(rate), .. }) => rate,
            _ => f64::INFINITY,
        };
        let may_follow =
            |member: &Member| !member.is_silent && !member.is_left_behind && member.credence.is_believed(now);
        let eligible = self.receivers.iter().filter(|(_, member)| may_follow(member));
        let next = eligible.min_by(|(_, one), (_, other)| wanted(one).total_cmp(&wanted(other)));
        self.limiting = next.map(|(receiver, _)| *receiver);
        self.limiting.is_some()
    }

    /// Returns what the followed receiver has reported last, and its loss event rate.
    pub fn found(&self) -> Option<(Finding, f64)> {
        let member = self.receivers.get(&self.limiting?)?;
        Some((member.finding?, member.loss))
    }

    pub fn len(&self) -> usize {
        self.receivers.len()
    }

    pub fn longest(&self) -> Duration {
        self.longest.unwrap_or(FIRST_ROUND_TRIP)
    }

    /// A round in which nobody has reported tells nothing of round trips.
    pub fn end_round(&mut self) {
        if self.peak.is_zero() {
            return;
        }
        self.longest = self.longest.map(|longest| longest.mul_f64(DECAY).max(self.peak).max(SHORTEST));
        self.peak = Duration::ZERO;
    }

    /// Returns the receiver whose report is to be echoed next. Its timestamp is moved on by the time that the
    /// report has waited here.
    pub fn take_echo(&mut self, now: Instant) -> Option<(u32, u64)> {
        let receiver = self.echoes.pop_front()?;
        let (timestamp_us, at) = self.receivers.get(&receiver)?.told?;
        let held = now.saturating_duration_since(at).as_micros() as u64;
        Some((receiver, timestamp_us.saturating_add(held)))
    }
}

/// Whether the shares in a report are shares: no program of ours reports that more was lost or marked than all.
fn is_possible(report: &PaceReport) -> bool {
    report.lost_ppm <= 1_000_000 && report.marked_ppm <= 1_000_000 && report.loss_ppb <= 1_000_000_000
}

fn sample(report: &PaceReport, received_bps: f64, round_trip: Duration, shortest_us: Option<f64>) -> Sample {
    let share = |ppm: u32| f64::from(ppm.min(1_000_000)) / 1e6;
    Sample {
        latest_bps: received_bps,
        queue: Duration::from_micros(report.queue_us.into()).min(LONGEST),
        lost: share(report.lost_ppm),
        marked: share(report.marked_ppm),
        round_trip,
        shortest: shortest_us.map_or(round_trip, |micros| Duration::from_micros(micros as u64)),
    }
}
