//! The state of one group on one link: the router's filter and its timers (RFC 9777, 7.2 to 7.6; RFC 9776, 6.2
//! to 6.6).
//!
//! In the RFCs' notation a group is in INCLUDE(A) or in EXCLUDE(X, Y). A and X are the requested sources, which
//! have timers. Y are the excluded sources, which have none. In EXCLUDE mode the group also has a timer, the
//! filter timer. The group is in EXCLUDE mode exactly while this timer exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use treecast_wire::membership::RecordKind;

use super::{Filter, Timers};
use crate::Instant;

/// The number of times that a group is asked about again after a listener of MLDv1 or IGMPv2 has left. In the
/// newer versions a host says several times that it leaves. In these it says so once, and that may get lost.
const ASKED_AGAIN: u8 = 3;

/// A group on one link. It begins in INCLUDE({}), which means that nobody listens.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The filter timer. `None` in INCLUDE mode.
    exclude_until: Option<Instant>,
    requested: BTreeMap<IpAddr, Requested>,
    excluded: BTreeSet<IpAddr>,
    /// The number of group-specific queries still to be sent.
    queries_left: u8,
    /// The time of the next specific query, of the group or of its sources.
    next_query: Option<Instant>,
    /// The time when the group is to be asked about again, and the number of times; see [`ASKED_AGAIN`].
    asks_again: Option<(Instant, u8)>,
    /// The time until which a listener with MLDv1 or IGMPv2 counts as present.
    old_listener_until: Option<Instant>,
    /// The time until which a listener with IGMPv1 counts as present.
    igmp_v1_listener_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Requested {
    until: Instant,
    /// The number of queries about this source still to be sent.
    queries_left: u8,
}

/// The queries that a record demands of a querier: "Send Q(MA)", "Send Q(MA, sources)".
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub group: bool,
    pub sources: BTreeSet<IpAddr>,
}

/// A specific query that must be sent now: about the group, or about some of its sources.
#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    pub sources: Vec<IpAddr>,
    pub suppress_router_processing: bool,
}

impl Group {
    /// Applies a record of a report. Returns the queries that the querier, and no other router, must
    /// [`Self::ask`].
    pub fn apply(
        &mut self,
        now: Instant,
        kind: RecordKind,
        sources: &BTreeSet<IpAddr>,
        timers: &Timers,
    ) -> Ask {
        let none = BTreeSet::new();
        let sources = match kind {
            RecordKind::ToInclude if self.has_igmp_v1_listener(now) => return Ask::default(),
            RecordKind::Block if self.has_old_listener(now) => return Ask::default(),
            RecordKind::ToExclude if self.has_old_listener(now) => &none,
            _ => sources,
        };
        match kind {
            RecordKind::IsInclude | RecordKind::Allow => {
                self.request(now, sources, timers);
                Ask::default()
            }
            RecordKind::ToInclude => {
                let ask = Ask { group: self.exclude_until.is_some(), sources: self.requested_but(sources) };
                self.request(now, sources, timers);
                ask
            }
            RecordKind::IsExclude => {
                self.exclude(now, sources, now + timers.listening_interval(), timers);
                Ask::default()
            }
            RecordKind::ToExclude => {
                let until = self.exclude_until.unwrap_or(now + timers.listening_interval());
                self.exclude(now, sources, until, timers);
                Ask { group: false, sources: self.requested_among(sources) }
            }
            RecordKind::Block => {
                if let Some(until) = self.exclude_until {
                    let unknown: Vec<_> = sources.difference(&self.excluded).copied().collect();
                    for source in unknown {
                        self.insert(source, until);
                    }
                }
                Ask { group: false, sources: self.requested_among(sources) }
            }
        }
    }

    /// Applies a report of an older version, which counts as IS_EX({}) (RFC 9777, 8.3.2; RFC 9776, 7.3.2).
    pub fn apply_old_report(&mut self, now: Instant, timers: &Timers) {
        self.old_listener_until = Some(now + timers.listening_interval());
        self.apply(now, RecordKind::IsExclude, &BTreeSet::new(), timers);
    }

    /// Applies a report of IGMPv1. While such a listener is present, no listener can be known to leave, because
    /// it would not answer a query of the group (RFC 9776, 7.3.2; RFC 2236, 5).
    pub fn apply_igmp_v1_report(&mut self, now: Instant, timers: &Timers) {
        self.igmp_v1_listener_until = Some(now + timers.listening_interval());
        self.apply(now, RecordKind::IsExclude, &BTreeSet::new(), timers);
    }

    /// Lowers the timers of the group and sources in `ask`, and schedules the queries. Sources whose timers are
    /// low already have been asked about.
    pub fn ask(&mut self, now: Instant, ask: &Ask, timers: &Timers) {
        let limit = now + timers.last_listener_query_time();
        if ask.group {
            self.exclude_until = self.exclude_until.map(|until| until.min(limit));
            self.queries_left = timers.robustness;
            self.next_query = Some(now);
            self.asks_again = self
                .has_old_listener(now)
                .then(|| (now + timers.last_listener_query_time() * 2, ASKED_AGAIN));
        }
        for source in &ask.sources {
            let Some(requested) = self.requested.get_mut(source) else { continue };
            if requested.until > limit {
                *requested = Requested { until: limit, queries_left: timers.robustness };
                self.next_query = Some(now);
            }
        }
    }

    /// Ends at once the wish for the sources in `ask`, because nobody else is there who could want them. Returns what must still be
    /// asked: whether anybody wants the group at all.
    pub fn end_sources(&mut self, ask: Ask) -> Ask {
        for source in ask.sources {
            if self.requested.remove(&source).is_some() && self.exclude_until.is_some() {
                self.excluded.insert(source);
            }
        }
        Ask { group: ask.group, sources: BTreeSet::new() }
    }

    /// Asks about everything that is wanted, as if its listeners had left. A listener of IGMPv1 would not
    /// answer (RFC 2236, section 7).
    pub fn doubt(&mut self, now: Instant, timers: &Timers) {
        if !self.has_igmp_v1_listener(now) {
            let sources = self.requested.keys().copied().collect();
            self.ask(now, &Ask { group: self.exclude_until.is_some(), sources }, timers);
        }
    }

    /// Asks again, when it is time, whether those who have not left still listen.
    pub fn ask_again(&mut self, now: Instant, timers: &Timers) {
        if let Some((_, left)) = self.asks_again.take_if(|(at, _)| *at <= now) {
            self.doubt(now, timers);
            self.asks_again = self.asks_again.filter(|_| left > 1).map(|(at, _)| (at, left - 1));
        }
    }

    /// Handles another router's query that demands lower timers (RFC 9777, 7.6.1; RFC 9776, 6.6.1).
    ///
    /// A query of the whole group lowers the sources' timers, too, which the RFCs do not demand. The querier
    /// may know fewer sources, because routers do not hear themselves. Listeners answer with everything they
    /// want. But a listener of IGMPv1 does not answer (RFC 2236, section 7).
    pub fn heard_query(&mut self, now: Instant, sources: &[IpAddr], timers: &Timers) {
        if self.has_igmp_v1_listener(now) {
            return;
        }
        let limit = now + timers.last_listener_query_time();
        if sources.is_empty() {
            self.exclude_until = self.exclude_until.map(|until| until.min(limit));
        }
        let asked = |source: &IpAddr| sources.is_empty() || sources.contains(source);
        for (_, requested) in self.requested.iter_mut().filter(|(source, _)| asked(source)) {
            requested.until = requested.until.min(limit);
        }
    }

    /// The specific queries that must be sent now. The next ones follow one last listener query interval later.
    pub fn due_queries(&mut self, now: Instant, timers: &Timers) -> Vec<Due> {
        if self.next_query.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let limit = now + timers.last_listener_query_time();
        let mut due = Vec::new();
        if self.queries_left > 0 {
            self.queries_left -= 1;
            let suppress_router_processing = self.exclude_until.is_some_and(|until| until > limit);
            due.push(Due { sources: Vec::new(), suppress_router_processing });
        }
        for suppress_router_processing in [false, true] {
            let sources = self.take_sources_to_ask(|until| (until > limit) == suppress_router_processing);
            if !sources.is_empty() {
                due.push(Due { sources, suppress_router_processing });
            }
        }
        let more = self.queries_left > 0 || self.requested.values().any(|source| source.queries_left > 0);
        self.next_query = more.then_some(now + timers.last_listener_query_interval);
        due
    }

    /// Drops the remaining queries, because this router is no longer the querier.
    pub fn stop_asking(&mut self) {
        self.queries_left = 0;
        self.next_query = None;
        self.asks_again = None;
        self.requested.values_mut().for_each(|source| source.queries_left = 0);
    }

    /// Carries out expired timers (RFC 9777, 7.2.2, 7.2.3; RFC 9776, 6.2.2, 6.2.3, 6.5).
    pub fn expire(&mut self, now: Instant) {
        let mut expired = Vec::new();
        self.requested.retain(|source, requested| {
            if requested.until <= now {
                expired.push(*source);
            }
            requested.until > now
        });
        if self.exclude_until.is_some_and(|until| until <= now) {
            self.exclude_until = None;
            self.excluded.clear();
        }
        if self.exclude_until.is_some() {
            self.excluded.extend(expired);
        }
    }

    /// The time when [`Self::expire`], [`Self::due_queries`] or [`Self::ask_again`] has something to do. `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        let sources = self.requested.values().map(|source| source.until);
        let asks_again = self.asks_again.map(|(at, _)| at);
        sources.chain(self.exclude_until).chain(self.next_query).chain(asks_again).min()
    }

    /// Whether nobody listens to the group.
    pub fn is_gone(&self) -> bool {
        self.exclude_until.is_none() && self.requested.is_empty()
    }

    /// The sources to forward (RFC 9777, 7.3; RFC 9776, 6.3).
    pub fn filter(&self) -> Filter {
        match self.exclude_until {
            None => Filter::include(self.requested.keys().copied()),
            Some(_) => Filter::exclude(self.excluded.iter().copied()),
        }
    }

    /// The sources that somebody has asked for by name, each with the time until which it is wanted.
    pub fn requested(&self) -> impl Iterator<Item = (IpAddr, Instant)> {
        self.requested.iter().map(|(source, requested)| (*source, requested.until))
    }

    /// The time when the filter timer expires. `None` in INCLUDE mode.
    pub fn exclude_until(&self) -> Option<Instant> {
        self.exclude_until
    }

    /// Whether the source is in either list.
    pub fn holds(&self, source: IpAddr) -> bool {
        self.requested.contains_key(&source) || self.excluded.contains(&source)
    }

    /// Removes a source from both lists, as if nobody had mentioned it.
    pub fn forget(&mut self, source: IpAddr) {
        self.requested.remove(&source);
        self.excluded.remove(&source);
    }

    fn has_old_listener(&self, now: Instant) -> bool {
        self.old_listener_until.max(self.igmp_v1_listener_until).is_some_and(|until| until > now)
    }

    fn has_igmp_v1_listener(&self, now: Instant) -> bool {
        self.igmp_v1_listener_until.is_some_and(|until| until > now)
    }

    /// INCLUDE(A) becomes INCLUDE(A + sources), EXCLUDE(X, Y) becomes EXCLUDE(X + sources, Y - sources).
    fn request(&mut self, now: Instant, sources: &BTreeSet<IpAddr>, timers: &Timers) {
        let until = now + timers.listening_interval();
        for source in sources {
            self.excluded.remove(source);
            match self.requested.get_mut(source) {
                Some(requested) => requested.until = until,
                None => self.insert(*source, until),
            }
        }
    }

    /// INCLUDE(A) becomes EXCLUDE(A * sources, sources - A); EXCLUDE(X, Y) becomes
    /// EXCLUDE(sources - Y, Y * sources), with `until` for those that were in neither list.
    fn exclude(&mut self, now: Instant, sources: &BTreeSet<IpAddr>, until: Instant, timers: &Timers) {
        self.requested.retain(|source, _| sources.contains(source));
        self.excluded.retain(|source| sources.contains(source));
        let unknown: Vec<_> = sources
            .iter()
            .filter(|source| !self.requested.contains_key(source) && !self.excluded.contains(source))
            .copied()
            .collect();
        for source in unknown {
            match self.exclude_until {
                Some(_) => self.insert(source, until),
                None => drop(self.excluded.insert(source)),
            }
        }
        self.exclude_until = Some(now + timers.listening_interval());
    }

    fn insert(&mut self, source: IpAddr, until: Instant) {
        self.requested.entry(source).or_insert(Requested { until, queries_left: 0 });
    }

    fn requested_but(&self, sources: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        self.requested.keys().filter(|source| !sources.contains(source)).copied().collect()
    }

    fn requested_among(&self, sources: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        self.requested.keys().filter(|source| sources.contains(source)).copied().collect()
    }

    fn take_sources_to_ask(&mut self, choose: impl Fn(Instant) -> bool) -> Vec<IpAddr> {
        let chosen = self.requested.iter_mut().filter(|(_, requested)| choose(requested.until));
        chosen
            .filter_map(|(source, requested)| {
                requested.queries_left = requested.queries_left.checked_sub(1)?;
                Some(*source)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
    /// Timers of sources and groups, as the RFCs name them.
    const MALI: u64 = 260;
    const LLQT: u64 = 2;

    fn timers() -> Timers {
        Timers::default()
    }

    fn address(name: char) -> IpAddr {
        IpAddr::from([192, 0, 2, name as u8])
    }

    fn set(names: &str) -> BTreeSet<IpAddr> {
        names.chars().map(address).collect()
    }

    fn names<'a>(sources: impl IntoIterator<Item = &'a IpAddr>) -> String {
        let last = |source: &IpAddr| match source {
            IpAddr::V4(source) => source.octets()[3] as char,
            IpAddr::V6(_) => '?',
        };
        sources.into_iter().map(last).collect()
    }

    /// A group in the state before a table's line, its timers neither fresh nor low: requested
    /// sources have 100 s left and the filter timer 50 s.
    fn group(state: &str) -> Group {
        let in_seconds = |seconds| NOW + Duration::from_secs(seconds);
        let (requested, excluded) = match state.split_once('|') {
            Some((requested, excluded)) => (requested, Some(excluded)),
            None => (state, None),
        };
        let mut group = Group::default();
        for source in set(requested) {
            group.requested.insert(source, Requested { until: in_seconds(100), queries_left: 0 });
        }
        group.exclude_until = excluded.map(|_| in_seconds(50));
        group.excluded = set(excluded.unwrap_or_default());
        group
    }

    /// "ab" is INCLUDE({a, b}); "ab|cd" is EXCLUDE({a, b}, {c, d}).
    fn state(group: &Group) -> String {
        let requested = names(group.requested.keys());
        match group.exclude_until {
            None => requested,
            Some(_) => format!("{requested}|{}", names(&group.excluded)),
        }
    }

    fn seconds_left(until: Instant) -> u64 {
        (until - NOW).as_secs()
    }

    fn timer(group: &Group, name: char) -> u64 {
        seconds_left(group.requested[&address(name)].until)
    }

    fn apply(group: &mut Group, kind: RecordKind, sources: &str) -> Ask {
        group.apply(NOW, kind, &set(sources), &timers())
    }

    /// Each line of the tables in RFC 9777, 7.4.1 and 7.4.2 (RFC 9776, 6.4.1 and 6.4.2), with sets that
    /// overlap in every way: state before, record, state after, what is asked ("*" is the group).
    #[test]
    fn follows_the_tables() {
        use RecordKind::*;
        let table = [
            ("ab", IsInclude, "bc", "abc", ""),
            ("ab", IsExclude, "bc", "b|c", ""),
            ("ab|cd", IsInclude, "ace", "abce|d", ""),
            ("ab|cd", IsExclude, "ace", "ae|c", ""),
            ("ab", Allow, "bc", "abc", ""),
            ("ab", Block, "bc", "ab", "b"),
            ("ab", ToExclude, "bc", "b|c", "b"),
            ("ab", ToInclude, "bc", "abc", "a"),
            ("ab|cd", Allow, "ace", "abce|d", ""),
            ("ab|cd", Block, "ace", "abe|cd", "ae"),
            ("ab|cd", ToExclude, "ace", "ae|c", "ae"),
            ("ab|cd", ToInclude, "ace", "abce|d", "b*"),
            ("", IsExclude, "", "|", ""),
            ("|", ToInclude, "", "|", "*"),
        ];
        for (before, kind, sources, after, asked) in table {
            let mut group = group(before);
            let ask = apply(&mut group, kind, sources);
            assert_eq!(state(&group), after, "{before} {kind:?} {sources}");
            let asks = names(&ask.sources) + if ask.group { "*" } else { "" };
            assert_eq!(asks, asked, "{before} {kind:?} {sources}");
        }
    }

    #[test]
    fn sets_the_timers_that_the_tables_name() {
        use RecordKind::*;
        let mut include = group("ab");
        apply(&mut include, Allow, "bc");
        assert_eq!((timer(&include, 'a'), timer(&include, 'b'), timer(&include, 'c')), (100, MALI, MALI));

        let mut include = group("ab");
        apply(&mut include, IsExclude, "bc");
        assert_eq!(timer(&include, 'b'), 100, "A * B keeps its timers");
        assert_eq!(include.exclude_until.map(seconds_left), Some(MALI));

        let mut current = group("ab|cd");
        apply(&mut current, IsExclude, "ace");
        assert_eq!((timer(&current, 'a'), timer(&current, 'e')), (100, MALI));
        assert_eq!(current.exclude_until.map(seconds_left), Some(MALI));

        let mut change = group("ab|cd");
        apply(&mut change, ToExclude, "ace");
        assert_eq!((timer(&change, 'a'), timer(&change, 'e')), (100, 50), "A-X-Y gets the old filter timer");
        assert_eq!(change.exclude_until.map(seconds_left), Some(MALI));

        let mut block = group("ab|cd");
        apply(&mut block, Block, "ae");
        assert_eq!((timer(&block, 'e'), block.exclude_until.map(seconds_left)), (50, Some(50)));
    }

    #[test]
    fn a_source_that_is_asked_about_and_stays_silent_is_dropped() {
        let mut group = group("ab");
        let ask = apply(&mut group, RecordKind::Block, "b");
        group.ask(NOW, &ask, &timers());
        assert_eq!((timer(&group, 'a'), timer(&group, 'b')), (100, LLQT));
        for second in 0..2 {
            let at = NOW + Duration::from_secs(second);
            assert_eq!(group.deadline(), Some(at));
            let due = group.due_queries(at, &timers());
            assert_eq!(due, [Due { sources: vec![address('b')], suppress_router_processing: false }]);
        }
        assert_eq!(group.deadline(), Some(NOW + Duration::from_secs(2)), "asked as often as robustness says");
        group.expire(NOW + Duration::from_secs(2));
        assert_eq!(state(&group), "a");
    }

    #[test]
    fn a_source_that_answers_stays_and_the_next_query_suppresses() {
        let mut group = group("ab");
        let ask = apply(&mut group, RecordKind::Block, "ab");
        group.ask(NOW, &ask, &timers());
        group.due_queries(NOW, &timers());
        apply(&mut group, RecordKind::IsInclude, "b");
        let due = group.due_queries(NOW + Duration::from_secs(1), &timers());
        assert_eq!(
            due,
            [
                Due { sources: vec![address('a')], suppress_router_processing: false },
                Due { sources: vec![address('b')], suppress_router_processing: true },
            ]
        );
        group.expire(NOW + Duration::from_secs(2));
        assert_eq!(state(&group), "b");
    }

    #[test]
    fn the_last_listener_of_a_group_leaves() {
        let mut group = group("|");
        let ask = apply(&mut group, RecordKind::ToInclude, "");
        group.ask(NOW, &ask, &timers());
        assert_eq!(group.due_queries(NOW, &timers()).len(), 1);
        assert!(!group.is_gone());
        group.expire(NOW + timers().last_listener_query_time());
        assert!(group.is_gone());
    }

    #[test]
    fn the_filter_timer_leaves_requested_sources_behind() {
        let mut group = group("ab|cd");
        group.expire(NOW + Duration::from_secs(50));
        assert_eq!(state(&group), "ab");
        assert_eq!(group.filter(), Filter::include(set("ab")));
    }

    #[test]
    fn in_exclude_mode_a_source_that_runs_off_is_excluded() {
        let mut group = group("ab|cd");
        group.exclude_until = Some(NOW + Duration::from_secs(200));
        group.expire(NOW + Duration::from_secs(100));
        assert_eq!(state(&group), "|abcd");
        assert_eq!(group.filter(), Filter::exclude(set("abcd")));
    }

    #[test]
    fn another_queriers_question_lowers_timers() {
        let mut group = group("ab|cd");
        group.heard_query(NOW, &[address('a')], &timers());
        assert_eq!((timer(&group, 'a'), timer(&group, 'b')), (LLQT, 100));
        assert_eq!(group.exclude_until.map(seconds_left), Some(50));
        group.heard_query(NOW, &[], &timers());
        assert_eq!((timer(&group, 'b'), group.exclude_until.map(seconds_left)), (LLQT, Some(LLQT)));
    }

    #[test]
    fn an_old_listener_wants_all_and_cannot_be_blocked() {
        let mut group = group("a");
        group.apply_old_report(NOW, &timers());
        assert_eq!(state(&group), "|");
        assert_eq!(apply(&mut group, RecordKind::Block, "a"), Ask::default());
        apply(&mut group, RecordKind::ToExclude, "ab");
        assert_eq!(state(&group), "|", "the newer version's source list is ignored");
    }
}
