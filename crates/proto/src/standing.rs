//! The choice of announced sessions that a standing receiver takes, and the times when it tries again
//! (`treecast receive --standing`).
//!
//! The caller tells of announcements and of how its receivers end. The machine answers what to do. Names are compared by the
//! caller, because only it knows its patterns.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use treecast_wire::{
    announcement::{Announcement, ForStanding},
    ticket::KEY_LEN,
};

use crate::{Instant, announced::SessionKey};

/// The largest number of finished sessions that are remembered. The oldest are forgotten first.
pub const MAX_FINISHED: usize = 10_000;

/// The largest number of keys of strangers that are remembered, to tell of each only once. Nobody is told of more, because anybody can
/// make keys.
const MAX_STRANGERS: usize = 1000;

/// The largest number of ignored sessions of trusted senders that are remembered. The oldest are forgotten first.
const MAX_IGNORED: usize = 1000;

/// The largest number of lines of sessions whose newest one is remembered. Those that began first are forgotten first.
const MAX_LINES: usize = 10_000;

/// The time until a session that went wrong is tried again. It doubles from try to try.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// The number of times that a session with failures is tried. A sender that cannot be reached does not count.
pub const MAX_FAILURES: u32 = 5;

/// A rule of a standing receiver, as far as the machine knows it.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The keys of the senders that it trusts.
    pub senders: BTreeSet<[u8; KEY_LEN]>,
    /// The largest session, in bytes. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// The receivers that a session must be for.
    pub audience: Demand,
    /// Whether it takes sessions of a sender only in the order in which they began, whatever their names are. Otherwise this
    /// holds for sessions of one name.
    pub in_order: bool,
}

/// The receivers that a session must be for so that a rule takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// Everybody: sessions for people are taken, too.
    Anybody,
    /// Standing receivers: all of them, or certain ones of which this is one.
    #[default]
    Standing,
    /// Certain standing receivers, of which this is one.
    Named,
}

impl Demand {
    fn is_met(self, by: ForStanding) -> bool {
        match self {
            Self::Anybody => true,
            Self::Standing => by != ForStanding::None,
            Self::Named => matches!(by, ForStanding::Named { .. }),
        }
    }
}

/// Sessions of which a later one replaces the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    /// The sessions of a sender with one name.
    Name([u8; KEY_LEN], String),
    /// The sessions of a sender that one rule takes.
    Rule([u8; KEY_LEN], usize),
}

/// The answer to an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Begin to receive, by the rule with this number.
    Take { rule: usize },
    /// Do nothing now: the session is being received, is finished, or is tried again later.
    Nothing,
    /// Ignore it. `is_first`: it was not told of before.
    Ignore { why: Ignored, is_first: bool },
}

/// The reason why an announced session is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// No rule trusts its sender's key.
    Stranger,
    /// The rules for its sender do not have its name.
    Name,
    /// The session is larger than the rules for it allow.
    Size,
    /// The session is not for this receiver, or its rules take only sessions for certain receivers.
    Audience,
    /// A session of the same sender and name that began later was received before.
    Older,
}

impl Ignored {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stranger => "no rule trusts its sender's key",
            Self::Name => "no rule for its sender has such a name",
            Self::Size => "it is larger than its rule allows",
            Self::Audience => "it is not for this standing receiver",
            Self::Older => "it began before a session in its place that is received already",
        }
    }
}

/// The way in which a receiver of a session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything that was wanted is there.
    Complete,
    /// A limit of its rule has ended it. It will be the same next time.
    Limit,
    /// Some objects failed.
    Failed,
    /// The sender is not there, or has gone. It may come again.
    Away,
    /// The sender's list of receivers does not name this one. With another list, it is asked again.
    NotMeant(ForStanding),
}

#[derive(Debug, Clone, Copy)]
enum State {
    Receiving { tries: u32, failures: u32 },
    Pausing { until: Instant, tries: u32, failures: u32 },
}

/// The machine.
#[derive(Debug)]
pub struct Standing {
    rules: Vec<Rule>,
    at_once: usize,
    states: BTreeMap<SessionKey, State>,
    finished: Recent<MAX_FINISHED>,
    strangers: BTreeSet<[u8; KEY_LEN]>,
    ignored: Recent<MAX_IGNORED>,
    /// The audiences of which this receiver is none, as their senders have said.
    not_meant: BTreeMap<SessionKey, ForStanding>,
    /// The time when the newest session of each line that was received began, in milliseconds since 1970.
    newest: BTreeMap<Line, u64>,
}

/// The last `MOST` sessions of a kind.
#[derive(Debug, Default)]
struct Recent<const MOST: usize> {
    sessions: BTreeSet<SessionKey>,
    order: VecDeque<SessionKey>,
}

impl<const MOST: usize> Recent<MOST> {
    fn contains(&self, session: &SessionKey) -> bool {
        self.sessions.contains(session)
    }

    /// Adds a session, and forgets the oldest one if there are too many. Returns whether it is new.
    fn insert(&mut self, session: SessionKey) -> bool {
        let is_new = self.sessions.insert(session);
        if is_new {
            self.order.push_back(session);
        }
        if self.sessions.len() > MOST {
            self.order.pop_front().into_iter().for_each(|oldest| _ = self.sessions.remove(&oldest));
        }
        is_new
    }
}

impl Standing {
    /// Creates the machine of a receiver that takes at most `at_once` sessions at the same time.
    pub fn new(rules: Vec<Rule>, at_once: usize) -> Self {
        Self {
            rules,
            at_once,
            states: BTreeMap::new(),
            finished: Recent::default(),
            strangers: BTreeSet::new(),
            ignored: Recent::default(),
            not_meant: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// The keys of all senders that a rule trusts.
    pub fn trusted(&self) -> BTreeSet<[u8; KEY_LEN]> {
        self.rules.iter().flat_map(|rule| rule.senders.iter().copied()).collect()
    }

    /// A session is over and done, as the history tells from an earlier run, or because it has just ended so.
    pub fn finish(&mut self, session: SessionKey) {
        self.states.remove(&session);
        self.finished.insert(session);
    }

    /// A session was received. `begun` is when it began, in milliseconds since 1970. `rules` are those that take sessions to where
    /// this one went.
    pub fn received(
        &mut self,
        session: SessionKey,
        name: &str,
        begun: u64,
        rules: impl IntoIterator<Item = usize>,
    ) {
        self.finish(session);
        let lines = rules.into_iter().map(|rule| Line::Rule(session.0, rule));
        for line in lines.chain([Line::Name(session.0, name.to_owned())]) {
            let newest = self.newest.entry(line).or_default();
            *newest = begun.max(*newest);
        }
        if self.newest.len() > MAX_LINES {
            let oldest = self.newest.iter().min_by_key(|(_, begun)| **begun).map(|(line, _)| line.clone());
            oldest.into_iter().for_each(|line| _ = self.newest.remove(&line));
        }
    }

    /// Whether a session began before the newest one of its line that was received. Senders that do not say when it began are
    /// believed.
    fn is_older(&self, rule: usize, announcement: &Announcement) -> bool {
        let line = match self.rules[rule].in_order {
            true => Line::Rule(announcement.key(), rule),
            false => Line::Name(announcement.key(), announcement.name().to_owned()),
        };
        announcement.begun > 0 && self.newest.get(&line).is_some_and(|newest| announcement.begun < *newest)
    }

    /// Decides about a session that is announced. `has_name` says whether the rule with a number has its name. After
    /// [`Decision::Take`], [`Self::ended`] must follow.
    pub fn announced(
        &mut self,
        now: Instant,
        announcement: &Announcement,
        has_name: impl Fn(usize) -> bool,
    ) -> Decision {
        let session = (announcement.key(), announcement.ticket().session);
        let of_sender = self.rules.iter().enumerate().filter(|(_, rule)| rule.senders.contains(&session.0));
        let of_sender: Vec<(usize, Option<u64>)> =
            of_sender.map(|(index, rule)| (index, rule.max_bytes)).collect();
        if of_sender.is_empty() {
            let has_room = self.strangers.len() < MAX_STRANGERS;
            let is_first = has_room && self.strangers.insert(session.0);
            return Decision::Ignore { why: Ignored::Stranger, is_first };
        }
        let mut with_name: Vec<_> = of_sender.into_iter().filter(|(index, _)| has_name(*index)).collect();
        if with_name.is_empty() {
            return self.ignore(Ignored::Name, session);
        }
        let audience = announcement.audience.standing;
        with_name.retain(|(index, _)| self.rules[*index].audience.is_met(audience));
        if with_name.is_empty() {
            return self.ignore(Ignored::Audience, session);
        }
        let fits = |max_bytes: &Option<u64>| max_bytes.is_none_or(|most| announcement.bytes <= most);
        let Some((rule, _)) = with_name.into_iter().find(|(_, max_bytes)| fits(max_bytes)) else {
            return self.ignore(Ignored::Size, session);
        };
        let (tries, failures) = match self.states.get(&session) {
            _ if self.finished.contains(&session) => return Decision::Nothing,
            Some(State::Receiving { .. }) => return Decision::Nothing,
            Some(State::Pausing { until, .. }) if *until > now => return Decision::Nothing,
            Some(State::Pausing { tries, failures, .. }) => (*tries, *failures),
            // One that is being received may end after a later one.
            None if self.is_older(rule, announcement) => return self.ignore(Ignored::Older, session),
            None => (0, 0),
        };
        if self.not_meant.get(&session) == Some(&audience) || self.is_full() {
            return Decision::Nothing;
        }
        self.states.insert(session, State::Receiving { tries, failures });
        Decision::Take { rule }
    }

    /// A receiver has ended. Returns whether the session is tried again.
    pub fn ended(&mut self, now: Instant, session: SessionKey, ending: Ending) -> bool {
        let (tries, failures) = match self.states.remove(&session) {
            Some(State::Receiving { tries, failures } | State::Pausing { tries, failures, .. }) => {
                (tries + 1, failures)
            }
            None => (1, 0),
        };
        if let Ending::NotMeant(audience) = ending {
            if self.not_meant.len() >= MAX_IGNORED {
                self.not_meant.pop_first();
            }
            self.not_meant.insert(session, audience);
            return false;
        }
        let failures = failures + u32::from(ending == Ending::Failed);
        if matches!(ending, Ending::Complete | Ending::Limit) || failures >= MAX_FAILURES {
            self.finish(session);
            return false;
        }
        let pause = (FIRST_PAUSE * 2_u32.saturating_pow((tries - 1).min(10))).min(LAST_PAUSE);
        self.states.insert(session, State::Pausing { until: now + pause, tries, failures });
        true
    }

    /// A session is not announced any more, so it need not be remembered. If it comes again, it is tried at once.
    pub fn withdrawn(&mut self, session: SessionKey) {
        if matches!(self.states.get(&session), Some(State::Pausing { .. })) {
            self.states.remove(&session);
        }
    }

    /// Forgets sessions whose pause is over, and that are not among those which are `announced` still.
    pub fn forget_paused(&mut self, now: Instant, announced: &BTreeSet<SessionKey>) {
        let is_over = |state: &State| matches!(state, State::Pausing { until, .. } if *until <= now);
        self.states.retain(|session, state| announced.contains(session) || !is_over(state));
    }

    /// The time when the next session is to be tried again. Its announcement is then to be told of again.
    /// `None` while no more sessions may begin: when one ends, all are to be told of again.
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_full() {
            return None;
        }
        let pausing = self.states.values().filter_map(|state| match state {
            State::Pausing { until, .. } => Some(*until),
            State::Receiving { .. } => None,
        });
        pausing.min()
    }

    fn is_full(&self) -> bool {
        let receiving = self.states.values().filter(|state| matches!(state, State::Receiving { .. }));
        receiving.count() >= self.at_once
    }

    /// Ignores a session of a trusted sender. It is not tried again, even if it was taken before.
    fn ignore(&mut self, why: Ignored, session: SessionKey) -> Decision {
        self.withdrawn(session);
        Decision::Ignore { why, is_first: self.ignored.insert(session) }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        ticket::{Repair, Security, Ticket},
    };

    use super::*;
    use crate::time::at;

    fn announcement(key: u8, session: u32, bytes: u64) -> Announcement {
        let security = Some(Security { sender_key: [key; KEY_LEN], secret: None });
        let group = "[ff15::1]:5000".parse().unwrap();
        let ticket = Ticket { security, ..Ticket::new(SessionId(session), Repair::Nack, 1000, group) };
        let mut announcement = Announcement::new("image", ticket).unwrap();
        announcement.bytes = bytes;
        announcement.audience.standing = ForStanding::Any;
        announcement
    }

    fn standing() -> Standing {
        let rule =
            |key: u8, max_bytes| Rule { senders: [[key; KEY_LEN]].into(), max_bytes, ..Rule::default() };
        Standing::new(vec![rule(1, Some(100)), rule(1, Some(1000)), rule(2, None)], 2)
    }

    fn decide(standing: &mut Standing, now: u64, announcement: &Announcement) -> Decision {
        standing.announced(at(now), announcement, |_| true)
    }

    #[test]
    fn the_first_rule_that_fits_takes_a_session() {
        let mut standing = standing();
        assert_eq!(decide(&mut standing, 0, &announcement(1, 1, 100)), Decision::Take { rule: 0 });
        assert_eq!(decide(&mut standing, 0, &announcement(1, 1, 100)), Decision::Nothing, "it is under way");
        assert_eq!(decide(&mut standing, 0, &announcement(1, 2, 101)), Decision::Take { rule: 1 });
        assert_eq!(decide(&mut standing, 0, &announcement(2, 3, 5)), Decision::Nothing, "two are enough");
        let is_third = |rule| rule == 2;
        let ignored = standing.announced(at(0), &announcement(1, 4, 1), is_third);
        assert_eq!(ignored, Decision::Ignore { why: Ignored::Name, is_first: true });
        let large = announcement(1, 5, 1001);
        assert_eq!(decide(&mut standing, 0, &large), Decision::Ignore { why: Ignored::Size, is_first: true });
        assert_eq!(
            decide(&mut standing, 0, &large),
            Decision::Ignore { why: Ignored::Size, is_first: false }
        );
    }

    #[test]
    fn a_stranger_is_told_of_once_whatever_it_announces() {
        let mut standing = standing();
        let firsts = (0..5000).filter(|session| {
            matches!(
                decide(&mut standing, 0, &announcement(9, *session, 1)),
                Decision::Ignore { why: Ignored::Stranger, is_first: true }
            )
        });
        assert_eq!(firsts.count(), 1);
        (0..=255).for_each(|key| _ = decide(&mut standing, 0, &announcement(key, 1, 1)));
        for number in 0..2000_u16 {
            let mut sender_key = [9; KEY_LEN];
            sender_key[..2].copy_from_slice(&number.to_be_bytes());
            let security = Some(Security { sender_key, secret: None });
            let ticket = Ticket { security, ..announcement(9, 1, 1).ticket().clone() };
            let mut strange = Announcement::new("image", ticket).unwrap();
            strange.audience = announcement(9, 1, 1).audience;
            decide(&mut standing, 0, &strange);
        }
        assert_eq!(standing.strangers.len(), MAX_STRANGERS);
        // However many there are, those of trusted senders are told of.
        for session in 0..2000 {
            assert_eq!(
                decide(&mut standing, 0, &announcement(1, session, 1001)),
                Decision::Ignore { why: Ignored::Size, is_first: true }
            );
        }
        assert_eq!(standing.ignored.sessions.len(), MAX_IGNORED);
    }

    #[test]
    fn what_is_not_taken_when_its_pause_is_over_is_never_due_at_once() {
        let mut standing = standing();
        let (paused, others) = (announcement(1, 1, 1), [announcement(2, 2, 1), announcement(2, 3, 1)]);
        let session = (paused.key(), paused.ticket().session);
        decide(&mut standing, 0, &paused);
        standing.ended(at(0), session, Ending::Away);
        // Others have taken all places.
        others.iter().for_each(|other| _ = decide(&mut standing, 0, other));
        let is_later = |standing: &Standing, now| standing.deadline().is_none_or(|due| due > at(now));
        assert_eq!(decide(&mut standing, 5000, &paused), Decision::Nothing);
        assert!(is_later(&standing, 5000));
        standing.ended(at(5000), (others[0].key(), others[0].ticket().session), Ending::Complete);
        assert_eq!(decide(&mut standing, 5000, &paused), Decision::Take { rule: 0 });
        assert!(standing.ended(at(5000), session, Ending::Away));
        // It has grown meanwhile.
        let large = announcement(1, 1, 1001);
        assert_eq!(
            decide(&mut standing, 9000, &large),
            Decision::Ignore { why: Ignored::Size, is_first: true }
        );
        assert!(is_later(&standing, 9000) && standing.states.len() == 1);
    }

    #[test]
    fn what_goes_wrong_is_tried_again_later_and_later() {
        let mut standing = standing();
        let image = announcement(1, 1, 1);
        let session = (image.key(), image.ticket().session);
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(decide(&mut standing, now, &image), Decision::Take { rule: 0 });
            assert!(standing.ended(at(now), session, Ending::Away));
            assert_eq!(standing.deadline(), Some(at(now + pause * 1000)));
            assert_eq!(decide(&mut standing, now + pause * 1000 - 1, &image), Decision::Nothing);
            now += pause * 1000;
        }
        // Its sender is started again.
        standing.withdrawn(session);
        assert_eq!(decide(&mut standing, now, &image), Decision::Take { rule: 0 });
        assert!(!standing.ended(at(now), session, Ending::Complete));
        assert_eq!(decide(&mut standing, now + 100_000, &image), Decision::Nothing, "it is there");
    }

    #[test]
    fn a_rule_says_whom_a_session_must_be_for() {
        let demands = [Demand::Anybody, Demand::Standing, Demand::Named];
        let takes = |demand, standing| {
            let rule = Rule { senders: [[1; KEY_LEN]].into(), audience: demand, ..Rule::default() };
            let mut announced = announcement(1, 1, 1);
            announced.audience.standing = standing;
            match decide(&mut Standing::new(vec![rule], 1), 0, &announced) {
                Decision::Take { .. } => true,
                decision => {
                    assert_eq!(decision, Decision::Ignore { why: Ignored::Audience, is_first: true });
                    false
                }
            }
        };
        let cases = [
            (ForStanding::None, [true, false, false]),
            (ForStanding::Any, [true, true, false]),
            (ForStanding::Named { list: 7 }, [true, true, true]),
        ];
        for (audience, expected) in cases {
            assert_eq!(demands.map(|demand| takes(demand, audience)), expected, "{audience:?}");
        }
    }

    #[test]
    fn who_is_not_on_a_list_asks_again_only_when_there_is_another_list() {
        let mut standing = standing();
        let named = |list| {
            let mut named = announcement(1, 1, 1);
            named.audience.standing = ForStanding::Named { list };
            named
        };
        let session = (named(7).key(), named(7).ticket().session);
        for list in [7, 8] {
            assert_eq!(decide(&mut standing, 0, &named(list)), Decision::Take { rule: 0 });
            assert!(!standing.ended(at(0), session, Ending::NotMeant(named(list).audience.standing)));
            assert_eq!(decide(&mut standing, 100_000, &named(list)), Decision::Nothing, "{list}");
            assert_eq!(standing.deadline(), None, "nothing is due");
        }
        for number in 0..5000 {
            let session = (session.0, SessionId(number));
            standing.ended(at(0), session, Ending::NotMeant(ForStanding::Named { list: 7 }));
        }
        assert_eq!(standing.not_meant.len(), MAX_IGNORED);
    }

    #[test]
    fn no_session_is_taken_that_began_before_one_in_its_place() {
        let rules = [false, true].map(|in_order| Rule {
            senders: [[1 + u8::from(in_order); KEY_LEN]].into(),
            in_order,
            ..Rule::default()
        });
        let mut standing = Standing::new(rules.to_vec(), 9);
        let begun = |key, session, name: &str, begun| {
            let of_session = announcement(key, session, 1);
            let mut announced = Announcement::new(name, of_session.ticket().clone()).unwrap();
            announced.audience = of_session.audience;
            announced.begun = begun;
            announced
        };
        let older = Decision::Ignore { why: Ignored::Older, is_first: true };
        let mut take = |announced: Announcement, is_received: bool| {
            let decision = decide(&mut standing, 0, &announced);
            if let (Decision::Take { rule }, true) = (decision, is_received) {
                let session = (announced.key(), announced.ticket().session);
                standing.ended(at(0), session, Ending::Complete);
                standing.received(session, announced.name(), announced.begun, [rule]);
            }
            decision
        };
        assert_eq!(take(begun(1, 1, "image", 1000), false), Decision::Take { rule: 0 });
        assert_eq!(take(begun(1, 2, "image", 2000), true), Decision::Take { rule: 0 });
        assert_eq!(take(begun(1, 3, "image", 1999), true), older);
        assert_eq!(take(begun(1, 4, "other", 1999), true), Decision::Take { rule: 0 }, "another name");
        assert_eq!(take(begun(1, 5, "image", 0), true), Decision::Take { rule: 0 }, "it does not say when");
        assert_eq!(take(begun(1, 1, "image", 1000), false), Decision::Nothing, "it is under way");
        assert_eq!(take(begun(2, 6, "image 2", 2000), true), Decision::Take { rule: 1 });
        assert_eq!(take(begun(2, 7, "image 1", 1999), true), older, "the rule takes them in order");
        assert_eq!(take(begun(2, 8, "image 3", 2000), true), Decision::Take { rule: 1 });
        for line in 0..12_000 {
            standing.received(([3; KEY_LEN], SessionId(line)), &line.to_string(), line.into(), []);
        }
        assert_eq!(standing.newest.len(), MAX_LINES);
    }

    #[test]
    fn a_session_whose_objects_fail_is_given_up() {
        let mut standing = standing();
        let image = announcement(1, 1, 1);
        let session = (image.key(), image.ticket().session);
        let tries = (0..100).take_while(|number| {
            assert_eq!(decide(&mut standing, number * 100_000, &image), Decision::Take { rule: 0 });
            standing.ended(at(number * 100_000), session, Ending::Failed)
        });
        assert_eq!(tries.count() as u32, MAX_FAILURES - 1);
        assert_eq!(decide(&mut standing, 1 << 40, &image), Decision::Nothing);
    }

    #[test]
    fn finished_sessions_are_forgotten_only_when_there_are_very_many() {
        let mut standing = standing();
        let key = |session| ([1; KEY_LEN], SessionId(session));
        (0..20_000).for_each(|session| standing.finish(key(session)));
        let finished = &standing.finished;
        assert_eq!((finished.sessions.len(), finished.order.len()), (MAX_FINISHED, MAX_FINISHED));
        assert!(standing.finished.contains(&key(19_999)) && !standing.finished.contains(&key(0)));
    }
}
