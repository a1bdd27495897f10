//! A comparison of what a receiver reports with what receivers ask for again.
//!
//! A report is its receiver's own word. A receiver that says that everything arrives can have the sender fill
//! any link, to the harm of all others there (Savage and others, "TCP Congestion Control with a Misbehaving
//! Receiver", 1999). But a receiver also asks for what it lacks. So both are compared, window by window:
//!
//! - The receiver that is followed asks for clearly more than it says was lost. That is a strike.
//! - Another one does. It is followed next, so it must say what it bears. That is a strike, too.
//!
//! A receiver with two strikes is not believed for a minute, and for twice as long the next time. Its reports
//! do not count then. If nobody else reports, nobody hears the group, and receivers get everything over their
//! own connections. What a receiver claims is also held against probes (`../probes.rs`): a receiver that lies
//! there is treated in the same way.
//!
//! An honest receiver whose own kernel drops this much is treated in the same way. Its connection is what it can keep up with.

use std::{collections::BTreeMap, time::Duration};

use super::super::probes::Doubt;
use crate::{Instant, group_rate::UnderWay};

/// The length of a window: no less than this, than so many round trips, and than so many packets. A round trip counts only up to the
/// longest, because receivers can make it as long as they like.
const WINDOW: Duration = Duration::from_millis(500);
const WINDOW_ROUNDS: u32 = 4;
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(150);
const WINDOW_PACKETS: u64 = 300;

/// The share above what was lost that a receiver may ask for and still be believed. The rest is late, or was
/// dropped by the receiver's own kernel.
const TOLERATED: f64 = 0.1;

/// The number of strikes after which a receiver is not believed.
const STRIKES: u32 = 2;

/// The time for which a receiver is not believed at first, and at most. It doubles.
const FIRST_REST: Duration = Duration::from_secs(60);
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// The number of its last rests after which a receiver whose word has held is taken for a new one. A session of weeks makes some false
/// verdicts.
const FORGIVEN_AFTER: u32 = 10;

/// A doubt that is remembered when its receiver leaves, so that it cannot get rid of it by coming again.
const WORTH_KNOWING: f64 = 0.1;

/// A record of how well one receiver's word has held.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credence {
    strikes: u32,
    /// The time until which it is not believed, and the length of that time.
    until: Instant,
    rest: Duration,
    /// The difference between its claims and what probes show.
    pub doubt: Doubt,
}

impl Credence {
    /// Whether its reports count.
    pub fn is_believed(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Whether anything must be remembered when it leaves.
    pub fn is_worth_it(&self) -> bool {
        !self.rest.is_zero() || self.doubt.most() > WORTH_KNOWING
    }

    /// Its word has not held. Returns whether it is not believed from now on.
    pub fn strike(&mut self, now: Instant) -> bool {
        self.strikes += 1;
        if self.strikes < STRIKES {
            return false;
        }
        self.disbelieve(now);
        true
    }

    /// Notes that it has lied. It is not believed from now on.
    pub fn disbelieve(&mut self, now: Instant) {
        if now.saturating_duration_since(self.until) > self.rest * FORGIVEN_AFTER {
            self.rest = Duration::ZERO;
        }
        self.rest = (self.rest * 2).clamp(FIRST_REST, LONGEST_REST);
        (self.strikes, self.doubt, self.until) = (0, Doubt::default(), now + self.rest);
    }

    /// Its word has held.
    pub fn absolve(&mut self) {
        self.strikes = 0;
    }
}

/// The finding of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver that is followed asks for what it says was lost.
    Fits,
    /// The receiver that is followed asks for clearly more.
    Contradicts,
    /// This other receiver asks for clearly more.
    Questions(u32),
}

/// Compares the reports of the receiver that is followed with what receivers ask for.
#[derive(Debug)]
pub struct Trust {
    under_way: UnderWay,
    followed: Option<u32>,
    since: Instant,
    /// The bytes that had been sent, and those that had been answered, when the window began.
    sent: u64,
    answered: u64,
    /// Bytes that the followed receiver says were lost.
    lost: f64,
    /// Bytes that each receiver has asked for.
    asked: BTreeMap<u32, u64>,
    /// Whether the window is the first. Bytes that are asked for at first may have been sent before.
    is_first: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            under_way: UnderWay::of_long_round_trips(),
            followed: None,
            since: Instant::ZERO,
            sent: 0,
            answered: 0,
            lost: 0.0,
            asked: BTreeMap::new(),
            is_first: false,
        }
    }
}

impl Trust {
    pub fn sent(&mut self, now: Instant, group_bytes: u64) {
        self.under_way.sent(now, group_bytes);
    }

    pub fn asked(&mut self, receiver: u32, bytes: u64) {
        let asked = self.asked.entry(receiver).or_default();
        *asked = asked.saturating_add(bytes);
    }

    pub fn leave(&mut self, receiver: u32) {
        self.asked.remove(&receiver);
    }

    /// The receiver that is followed says that this share was lost of what was sent until a round trip ago.
    pub fn claimed(&mut self, now: Instant, lost: f64, round_trip: Duration) {
        self.under_way.answered(now, round_trip);
        let answered = self.under_way.answered_bytes();
        self.lost += lost * answered.saturating_sub(self.answered) as f64;
        self.answered = answered;
    }

    /// Ends the window when it is time. `longest` is the longest round trip.
    pub fn judge(
        &mut self,
        now: Instant,
        followed: Option<u32>,
        longest: Duration,
        packet_bytes: u32,
    ) -> Option<Verdict> {
        if self.followed != followed {
            self.begin(now);
            (self.followed, self.is_first) = (followed, true);
            return None;
        }
        let sent = self.under_way.sent_bytes().saturating_sub(self.sent);
        let is_over = now - self.since >= WINDOW.max(longest.min(LONGEST_ROUND_TRIP) * WINDOW_ROUNDS)
            && sent >= WINDOW_PACKETS * u64::from(packet_bytes);
        if !is_over {
            return None;
        }
        let most = self.lost + TOLERATED * sent as f64;
        let above = |asked: u64| asked as f64 > most;
        let own = followed.and_then(|followed| self.asked.remove(&followed)).unwrap_or(0);
        let worst = self.asked.iter().max_by_key(|(_, asked)| **asked).filter(|(_, asked)| above(**asked));
        let verdict = match worst {
            _ if above(own) => Verdict::Contradicts,
            Some((receiver, _)) => Verdict::Questions(*receiver),
            None => Verdict::Fits,
        };
        self.begin(now);
        // Others may have asked late as well.
        let is_first = std::mem::take(&mut self.is_first);
        (!is_first).then_some(verdict)
    }

    fn begin(&mut self, now: Instant) {
        (self.since, self.sent, self.lost) = (now, self.under_way.sent_bytes(), 0.0);
        self.asked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// A second at 12 Mbit/s, of which this share is lost, and claimed as lost by receiver 1. Receivers ask for what is given.
    fn windows(
        trust: &mut Trust,
        millis: std::ops::Range<u64>,
        claimed: f64,
        asked: &[(u32, f64)],
    ) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for milli in millis {
            trust.sent(at(milli), 1_500);
            if milli % 20 == 0 {
                trust.claimed(at(milli), claimed, ROUND_TRIP);
                for (receiver, share) in asked {
                    trust.asked(*receiver, (30_000.0 * share) as u64);
                }
                verdicts.extend(trust.judge(at(milli), Some(1), ROUND_TRIP, 1_500));
            }
        }
        verdicts
    }

    #[test]
    fn who_asks_for_what_was_lost_is_believed() {
        let mut trust = Trust::default();
        let verdicts = windows(&mut trust, 0..5_000, 0.2, &[(1, 0.2), (2, 0.25)]);
        assert!(
            verdicts.len() > 5 && verdicts.iter().all(|verdict| *verdict == Verdict::Fits),
            "{verdicts:?}"
        );
    }

    #[test]
    fn who_claims_to_get_everything_and_asks_for_it_again_is_found_out() {
        let mut trust = Trust::default();
        let verdicts = windows(&mut trust, 0..2_000, 0.0, &[(1, 0.2)]);
        assert_eq!(verdicts.first(), Some(&Verdict::Contradicts));
    }

    #[test]
    fn another_that_asks_for_more_is_questioned() {
        let mut trust = Trust::default();
        let verdicts = windows(&mut trust, 0..2_000, 0.0, &[(1, 0.0), (2, 0.2), (3, 0.3)]);
        assert_eq!(verdicts.first(), Some(&Verdict::Questions(3)));
        trust.leave(3);
        let verdicts = windows(&mut trust, 2_000..4_000, 0.0, &[(1, 0.0), (2, 0.2)]);
        assert_eq!(verdicts.last(), Some(&Verdict::Questions(2)));
    }

    /// Behind a queue of seconds, reports answer what left long before.
    #[test]
    fn claims_count_however_long_the_round_trip_is() {
        let mut trust = Trust::default();
        let mut verdicts = Vec::new();
        for milli in 0..20_000 {
            trust.sent(at(milli), 1_500);
            if milli % 20 == 0 {
                trust.claimed(at(milli), 0.3, Duration::from_secs(3));
                if milli > 4_000 {
                    trust.asked(1, 9_000);
                }
                verdicts.extend(trust.judge(at(milli), Some(1), Duration::from_secs(3), 1_500));
            }
        }
        assert!(verdicts.len() > 20, "{}", verdicts.len());
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Fits), "{verdicts:?}");
    }

    #[test]
    fn who_has_two_strikes_is_not_believed_for_longer_each_time() {
        let mut credence = Credence::default();
        assert!(!credence.strike(at(0)) && credence.is_believed(at(0)));
        credence.absolve();
        assert!(!credence.strike(at(0)));
        assert!(
            credence.strike(at(0)) && !credence.is_believed(at(59_999)) && credence.is_believed(at(60_000))
        );
        assert!(!credence.strike(at(60_000)) && credence.strike(at(60_000)));
        assert!(!credence.is_believed(at(179_999)) && credence.is_believed(at(180_000)));
    }
}
