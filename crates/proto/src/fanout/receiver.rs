//! One receiver: the way that serves it, the way that is being tried, and what it has heard.

use std::time::Duration;

use super::{Heard, Way, Why, evidence::SentLog};
use crate::Instant;

/// Fewer packets than that prove nothing.
const LEAST_UNHEARD: u64 = 4;
const LEAST_TRIED: u64 = 16;
const LEAST_JUDGED: u64 = 64;

/// A receiver that hears nothing says so: more than once, for a report may be late. One that says nothing is held up, and
/// would hear no more by unicast; but not for ever, for it may be one that says nothing of silence.
const LEAST_SILENT_REPORTS: u32 = 2;
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// The time after the first report of a trial in which it must have succeeded.
const TRIAL: Duration = Duration::from_millis(500);

/// The time after which a trial of which nothing was reported has failed.
const LONGEST_TRIAL: Duration = Duration::from_secs(5);

/// The share of packets that a way must bring, judged for so long.
const LEAST_SHARE: f64 = 0.5;
const JUDGED: Duration = Duration::from_secs(1);

/// The number of packets that are heard for one that is sent by both ways, when a list works: 2, less what is
/// lost.
const TWICE: f64 = 1.25;

/// The pause before a way that has failed is tried again; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A way that has served for so long was a good one: its next failure is like the first.
const GOOD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Receiver {
    way: Way,
    /// The time since which the receiver has its way, and the number of packets that had left before.
    since: Instant,
    from: u64,
    trial: Option<Trial>,
    multicast: Attempts,
    by_lists: Attempts,
    heard: Heard,
    /// The number of packets that had left when the last one that it has heard had.
    heard_till: u64,
    /// Reports since then that could have told of more, had it been heard.
    silent_reports: u32,
    /// The shortest time from a packet to a report of it: about a round trip.
    lag: Option<Duration>,
    /// The report from which on its share is judged.
    judged: Option<Mark>,
    /// The reason why it has moved to its way. `None` once that has been told.
    moved: Option<Why>,
}

/// A way that serves the receiver besides its own.
#[derive(Debug)]
struct Trial {
    way: Way,
    /// The number of packets that had left when the trial began.
    from: u64,
    /// The report from which on packets are counted.
    mark: Option<Mark>,
}

/// The content of a report: of so many packets that had left, so many had come.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    sent: u64,
    heard: Heard,
}

/// The time when a way may be tried.
#[derive(Debug)]
struct Attempts {
    next: Instant,
    pause: Duration,
}

impl Attempts {
    fn fail(&mut self, now: Instant) {
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

impl Receiver {
    /// Creates the state of a receiver that joins when `sent` packets have left.
    pub fn new(now: Instant, sent: u64) -> Self {
        let attempts = || Attempts { next: now, pause: FIRST_PAUSE };
        Self {
            way: Way::Unicast,
            since: now,
            from: sent,
            trial: None,
            multicast: attempts(),
            by_lists: attempts(),
            heard: Heard::default(),
            heard_till: sent,
            silent_reports: 0,
            lag: None,
            judged: None,
            moved: None,
        }
    }

    /// Serves the receiver by this way, whether it works or not.
    pub fn serve_by(&mut self, way: Way) {
        if self.way != way {
            self.moved = Some(if way == Way::Unicast { Why::Alone(self.way) } else { Why::Listed });
            self.way = way;
        }
    }

    /// Returns the way that has proved to work.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Whether packets for this receiver leave by this way.
    pub fn uses(&self, way: Way) -> bool {
        self.way == way || self.tries(way)
    }

    fn tries(&self, way: Way) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.way == way)
    }

    /// Whether a trial of this way may begin now. Only a cheaper way than the present one is tried.
    pub fn may_try(&self, now: Instant, way: Way) -> bool {
        way < self.way
            && self.trial.is_none()
            && self.attempts(way).is_some_and(|attempts| attempts.next <= now)
    }

    pub fn begin(&mut self, way: Way, log: &SentLog) {
        self.trial = Some(Trial { way, from: log.total(), mark: None });
        self.judged = None;
    }

    /// Ends the use of lists because no other receiver is left to share packets with. This does not count as a
    /// failure of the way.
    pub fn give_up_company(&mut self, now: Instant, way: Way, log: &SentLog) {
        if self.tries(way) {
            self.trial = None;
        } else {
            self.move_to(now, Way::Unicast, Why::Alone(way), log);
        }
        self.judged = None;
    }

    /// Returns the way that the receiver has moved to since the last call, and why.
    pub fn take_move(&mut self) -> Option<(Way, Why)> {
        self.moved.take().map(|why| (self.way, why))
    }

    /// Whether the receiver has moved and the caller has not been told yet.
    pub fn has_moved(&self) -> bool {
        self.moved.is_some()
    }

    /// Whether the machine waits for this receiver's reports: a packet that it has not reported yet was sent by
    /// a way that may fail.
    pub fn is_waited_for(&self, log: &SentLog) -> bool {
        let is_unsure = self.way != Way::Unicast || self.trial.is_some();
        is_unsure && self.unheard_from() < log.total()
    }

    pub fn heard(&mut self, now: Instant, heard: Heard, log: &SentLog) {
        // What cannot be says nothing.
        let Some(till) = log.total_at(heard.last) else { return };
        if heard.unicast < self.heard.unicast || heard.group < self.heard.group {
            return;
        }
        if let Some(left_at) = log.left_at(till - 1) {
            let lag = now.saturating_duration_since(left_at);
            self.lag = Some(self.lag.map_or(lag, |shortest| shortest.min(lag)));
        }
        if heard != self.heard {
            self.silent_reports = 0;
        } else if self.is_overdue(now, log, Duration::ZERO) {
            self.silent_reports += 1;
        }
        self.heard = heard;
        self.heard_till = self.heard_till.max(till);
        let mark = Mark { at: now, sent: self.heard_till, heard };
        if let Some(trial) = &mut self.trial {
            // From then on, what it hears was sent by both ways.
            if trial.mark.is_none() && self.heard_till > trial.from {
                trial.mark = Some(mark);
            }
            if trial.mark.is_some_and(|before| has_proved(trial.way, before, mark)) {
                let way = trial.way;
                self.move_to(now, way, Why::Arrives, log);
            }
        } else if self.way != Way::Unicast {
            self.note_share(mark);
        }
    }

    fn note_share(&mut self, mark: Mark) {
        let before = *self.judged.get_or_insert(mark);
        let lasts = mark.at.saturating_duration_since(before.at);
        if lasts >= JUDGED
            && mark.sent - before.sent >= LEAST_JUDGED
            && share(self.way, before, mark) >= LEAST_SHARE
        {
            self.judged = Some(mark);
        }
    }

    /// Moves the receiver back to unicast when its way has failed, and ends a trial that has failed. Returns
    /// true when the receiver has heard nothing.
    pub fn judge(&mut self, now: Instant, log: &SentLog, patience: Duration) -> bool {
        self.judge_trial(now, log);
        if self.way == Way::Unicast {
            return false;
        }
        let is_silent = match self.silent_reports {
            LEAST_SILENT_REPORTS.. => self.is_overdue(now, log, patience),
            _ => self.is_overdue(now, log, LONGEST_SILENCE.max(patience)),
        };
        let is_deaf = is_silent && log.total() - self.unheard_from() >= LEAST_UNHEARD;
        // A share that is large enough begins anew each second.
        let mark = Mark { at: now, sent: self.heard_till, heard: self.heard };
        let is_poor = self.judged.is_some_and(|before| {
            now.saturating_duration_since(before.at) >= JUDGED + patience
                && mark.sent - before.sent >= LEAST_JUDGED
                && share(self.way, before, mark) < LEAST_SHARE
        });
        if is_deaf || is_poor {
            let why = if is_deaf { Why::Silent } else { Why::Lossy };
            self.fail(now, why(self.way), log);
        }
        is_deaf
    }

    /// The number of packets that had left before the first one that it should have heard and has not.
    fn unheard_from(&self) -> u64 {
        self.heard_till.max(self.from)
    }

    /// Whether so much time, and a round trip, has gone by since that one left.
    fn is_overdue(&self, now: Instant, log: &SentLog, time: Duration) -> bool {
        let left_at = log.left_at(self.unheard_from());
        left_at.is_some_and(|left_at| now.saturating_duration_since(left_at) >= time + self.lag())
    }

    fn lag(&self) -> Duration {
        self.lag.unwrap_or_default()
    }

    fn judge_trial(&mut self, now: Instant, log: &SentLog) {
        let Some(trial) = &self.trial else { return };
        let lasts = |since: Instant, time| now.saturating_duration_since(since) >= time;
        let has_failed = trial
            .mark
            .is_some_and(|mark| lasts(mark.at, TRIAL) && self.heard_till - mark.sent >= LEAST_TRIED);
        let is_unheard = log.left_at(trial.from).is_some_and(|since| lasts(since, LONGEST_TRIAL));
        if has_failed || is_unheard && log.total() - trial.from >= LEAST_TRIED {
            let way = trial.way;
            self.trial = None;
            self.attempts_mut(way).fail(now);
        }
    }

    fn fail(&mut self, now: Instant, why: Why, log: &SentLog) {
        let (way, was_good) = (self.way, now.saturating_duration_since(self.since) >= GOOD);
        let attempts = self.attempts_mut(way);
        if was_good {
            attempts.pause = FIRST_PAUSE;
        }
        attempts.fail(now);
        self.move_to(now, Way::Unicast, why, log);
    }

    fn move_to(&mut self, now: Instant, way: Way, why: Why, log: &SentLog) {
        (self.way, self.since, self.from, self.silent_reports) = (way, now, log.total(), 0);
        (self.trial, self.judged, self.moved) = (None, None, Some(why));
    }

    fn attempts(&self, way: Way) -> Option<&Attempts> {
        match way {
            Way::Multicast => Some(&self.multicast),
            Way::Mead | Way::Xcast => Some(&self.by_lists),
            Way::Unicast => None,
        }
    }

    fn attempts_mut(&mut self, way: Way) -> &mut Attempts {
        match way {
            Way::Multicast => &mut self.multicast,
            Way::Mead | Way::Xcast | Way::Unicast => &mut self.by_lists,
        }
    }
}

fn has_proved(way: Way, before: Mark, after: Mark) -> bool {
    let enough = if way == Way::Multicast { LEAST_SHARE } else { TWICE };
    after.sent - before.sent >= LEAST_TRIED && share(way, before, after) >= enough
}

/// The number of packets that were heard where this way's come, for one that was sent.
fn share(way: Way, before: Mark, after: Mark) -> f64 {
    let heard = match way {
        Way::Multicast => after.heard.group - before.heard.group,
        Way::Mead | Way::Xcast | Way::Unicast => after.heard.unicast - before.heard.unicast,
    };
    heard as f64 / (after.sent - before.sent).max(1) as f64
}
