//! A host on one link: it reports to routers what it listens to (RFC 9777, section 6; RFC 9776, section 5).
//!
//! A router is such a host on each of its links. A kernel would send its reports for a socket that joins groups. But a
//! kernel also gives such a socket the packets that it forwards to the link itself, unless their sources are excluded.
//! Linux's bridge applies an excluded source also to hosts that join later by MLDv1 or IGMPv2, so they would hear
//! nothing. Therefore this host joins no socket, and excludes only what its listeners exclude.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use treecast_wire::membership::RecordKind;

use super::{Filter, Message, Mode, Query, Record, Timers};
use crate::Instant;

/// The largest number of sources in a record, so that a report with one record fits a packet of the smallest
/// IPv6 MTU.
const SOURCES_PER_RECORD: usize = 64;

/// The room for records in a report, in bytes: what such a packet holds beside its headers.
const REPORT_LEN: usize = 1200;

/// The number of times that a router reports that it wants more. When all these reports get lost, all hosts
/// behind the router wait for the next general query, two minutes. The robustness of RFC 9777 (2 reports) is
/// meant for hosts, of which a link has many: on a link that loses 5 %, one join in 400 would fail. The
/// pauses double, because losses come in bursts.
const JOIN_REPORTS: u8 = 4;

/// The filters of the groups that the router listens to on one link, and the reports that it still has to send.
///
/// Call [`Self::want`] and [`Self::heard`] for inputs. Then call [`Self::due`], and again when
/// [`Self::deadline`] has come.
#[derive(Debug, Default)]
pub struct Host {
    /// The filters of all groups. A filter that wants nothing is not in here.
    wanted: BTreeMap<IpAddr, Filter>,
    changes: BTreeMap<IpAddr, Change>,
    /// The time to answer a general query, if there is one.
    answers_all_at: Option<Instant>,
    answers: BTreeMap<IpAddr, Answer>,
    /// The version of an older querier, and the time until which it counts as present. It understands only its
    /// own version.
    old_querier: Option<(OldVersion, Instant)>,
    /// The least number of reports of a join, beside the robustness.
    join_reports: u8,
}

/// A change of a group's filter that is reported repeatedly, as often as the robustness demands, because
/// reports may get lost.
#[derive(Debug)]
struct Change {
    reports_left: u8,
    next: Instant,
    /// The time between the next report and the one after it.
    pause: Duration,
    is_of_mode: bool,
    /// Sources that are newly wanted, or no longer wanted.
    sources: BTreeSet<IpAddr>,
}

/// The answer to a query about one group.
#[derive(Debug)]
struct Answer {
    at: Instant,
    /// The sources that the query is about. `None`: the whole group.
    sources: Option<BTreeSet<IpAddr>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OldVersion {
    IgmpV1,
    /// MLDv1 or IGMPv2.
    Previous,
}

impl Host {
    /// The host that a router is on a link.
    pub fn of_router() -> Self {
        Self { join_reports: JOIN_REPORTS, ..Self::default() }
    }

    /// Sets the filter of `group` to `filter`.
    pub fn want(&mut self, now: Instant, group: IpAddr, filter: Filter, timers: &Timers) {
        let before = self.wanted.remove(&group).unwrap_or(Filter::NOTHING);
        if before != filter {
            let change = self.changes.entry(group).or_insert(Change {
                reports_left: 0,
                next: now,
                pause: Duration::ZERO,
                is_of_mode: false,
                sources: BTreeSet::new(),
            });
            // A leave that is lost costs only packets that nobody wants.
            let least = if filter.is_nothing() { 0 } else { self.join_reports };
            change.reports_left = timers.robustness.max(least).max(1);
            change.next = now;
            change.pause = timers.last_listener_query_interval;
            change.is_of_mode |= before.mode != filter.mode;
            change.sources.extend(before.sources.symmetric_difference(&filter.sources));
        }
        if !filter.is_nothing() {
            self.wanted.insert(group, filter);
        }
    }

    /// Handles a query, perhaps this router's own. `own` is the router's address on the link.
    pub fn heard(&mut self, now: Instant, own: IpAddr, message: &Message, timers: &Timers) {
        match message {
            Message::Query(query) => self.heard_query(now, own, query),
            Message::OldQuery { group, max_response } => {
                let is_first = own.is_ipv4() && max_response.is_zero();
                let version = if is_first { OldVersion::IgmpV1 } else { OldVersion::Previous };
                self.old_querier = Some((version, now + timers.listening_interval()));
                let max_response = if is_first { timers.query_response_interval } else { *max_response };
                let asked: Vec<_> = match group {
                    Some(group) => vec![*group],
                    None => self.wanted.keys().copied().collect(),
                };
                for group in asked {
                    self.answer(group, now + max_response / 256 * u32::from(last_octet(group)), None);
                }
            }
            _ => {}
        }
    }

    /// The messages to send now.
    pub fn due(&mut self, now: Instant) -> Vec<Message> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let old_version = self.old_querier.filter(|(_, until)| *until > now).map(|(version, _)| version);
        let mut records = self.due_changes(now);
        let mut old_groups: BTreeSet<IpAddr> = records.iter().map(|record| record.group).collect();
        if self.answers_all_at.take_if(|at| *at <= now).is_some() {
            records.extend(self.wanted.iter().flat_map(|(group, filter)| current_state(*group, filter)));
            old_groups.extend(self.wanted.keys());
        }
        let due: Vec<_> =
            self.answers.iter().filter(|(_, answer)| answer.at <= now).map(|(group, _)| *group).collect();
        for group in due {
            let sources = self.answers.remove(&group).and_then(|answer| answer.sources);
            if let Some(filter) = self.wanted.get(&group) {
                records.extend(match sources {
                    None => current_state(group, filter),
                    Some(asked) => of_asked(group, filter, &asked),
                });
                old_groups.insert(group);
            }
        }
        match old_version {
            None => reports(records),
            Some(version) => {
                old_groups.into_iter().filter_map(|group| self.in_old_words(group, version)).collect()
            }
        }
    }

    /// The time when [`Self::due`] has something to send.
    pub fn deadline(&self) -> Option<Instant> {
        let changes = self.changes.values().map(|change| change.next);
        let answers = self.answers.values().map(|answer| answer.at);
        changes.chain(answers).chain(self.answers_all_at).min()
    }

    /// The groups that it listens to, with their filters.
    pub fn wanted(&self) -> impl Iterator<Item = (IpAddr, &Filter)> {
        self.wanted.iter().map(|(group, filter)| (*group, filter))
    }

    /// The filter of one group.
    pub fn wanted_of(&self, group: IpAddr) -> Filter {
        self.wanted.get(&group).cloned().unwrap_or(Filter::NOTHING)
    }

    fn heard_query(&mut self, now: Instant, own: IpAddr, query: &Query) {
        // There are few routers, and others wait for their answers, so they answer in the first half of the
        // time.
        let at = now + query.max_response / 16 * (1 + u32::from(last_octet(own) % 8));
        let sources = (!query.sources.is_empty()).then(|| query.sources.iter().copied().collect());
        match query.group {
            Some(group) => self.answer(group, at, sources),
            None if self.wanted.is_empty() => {}
            None => self.answers_all_at = Some(self.answers_all_at.map_or(at, |before| before.min(at))),
        }
    }

    fn answer(&mut self, group: IpAddr, at: Instant, sources: Option<BTreeSet<IpAddr>>) {
        if !self.wanted.contains_key(&group) {
            return;
        }
        if let Some(before) = self.answers.get_mut(&group) {
            before.at = before.at.min(at);
            before.sources = before.sources.take().zip(sources).map(|(before, more)| &before | &more);
        } else {
            self.answers.insert(group, Answer { at, sources });
        }
    }

    fn due_changes(&mut self, now: Instant) -> Vec<Record> {
        let mut records = Vec::new();
        for (group, change) in self.changes.iter_mut().filter(|(_, change)| change.next <= now) {
            records.extend(change.records(*group, self.wanted.get(group).unwrap_or(&Filter::NOTHING)));
            change.reports_left -= 1;
            change.next = now + change.pause;
            change.pause *= 2;
        }
        self.changes.retain(|_, change| change.reports_left > 0);
        records
    }

    fn in_old_words(&self, group: IpAddr, version: OldVersion) -> Option<Message> {
        match (self.wanted.contains_key(&group), version) {
            (true, OldVersion::Previous) => Some(Message::OldReport(group)),
            (true, OldVersion::IgmpV1) => Some(Message::IgmpV1Report(group)),
            (false, OldVersion::Previous) => Some(Message::OldLeave(group)),
            (false, OldVersion::IgmpV1) => None,
        }
    }
}

impl Change {
    /// The records for a change since it was first reported, by the table of RFC 9777, section 6.1 (RFC 9776,
    /// section 5.1).
    fn records(&self, group: IpAddr, filter: &Filter) -> Vec<Record> {
        if self.is_of_mode {
            return match filter.mode {
                Mode::Include => {
                    records(group, RecordKind::ToInclude, RecordKind::Allow, filter.sources.iter())
                }
                Mode::Exclude => exclude(group, RecordKind::ToExclude, filter),
            };
        }
        let (allowed, blocked): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) =
            self.sources.iter().partition(|source| filter.passes(**source));
        [(RecordKind::Allow, allowed), (RecordKind::Block, blocked)]
            .into_iter()
            .filter(|(_, sources)| !sources.is_empty())
            .flat_map(|(kind, sources)| records(group, kind, kind, sources.iter()))
            .collect()
    }
}

/// The records that answer a query of the whole group, or of all groups.
fn current_state(group: IpAddr, filter: &Filter) -> Vec<Record> {
    match filter.mode {
        Mode::Include => records(group, RecordKind::IsInclude, RecordKind::IsInclude, filter.sources.iter()),
        Mode::Exclude => exclude(group, RecordKind::IsExclude, filter),
    }
}

/// The records that answer a query about some sources: those of them that are wanted.
fn of_asked(group: IpAddr, filter: &Filter, asked: &BTreeSet<IpAddr>) -> Vec<Record> {
    let wanted: BTreeSet<_> = asked.iter().copied().filter(|source| filter.passes(*source)).collect();
    let kind = RecordKind::IsInclude;
    if wanted.is_empty() { Vec::new() } else { records(group, kind, kind, wanted.iter()) }
}

/// The record for an EXCLUDE filter. Excluded sources that do not fit are left out; their packets come and are
/// dropped.
fn exclude(group: IpAddr, kind: RecordKind, filter: &Filter) -> Vec<Record> {
    let sources = filter.sources.iter().copied().take(SOURCES_PER_RECORD).collect();
    vec![Record { kind, group, sources }]
}

/// Returns as many records as the sources need, at least one. The first has one kind, the others another.
fn records<'a>(
    group: IpAddr,
    first: RecordKind,
    others: RecordKind,
    sources: impl Iterator<Item = &'a IpAddr>,
) -> Vec<Record> {
    let sources: Vec<_> = sources.copied().collect();
    let (head, tail) = sources.split_at(sources.len().min(SOURCES_PER_RECORD));
    let first = Record { kind: first, group, sources: head.to_vec() };
    let rest = tail.chunks(SOURCES_PER_RECORD);
    let rest = rest.map(|sources| Record { kind: others, group, sources: sources.to_vec() });
    [first].into_iter().chain(rest).collect()
}

/// Packs records into as few reports as possible.
fn reports(records: Vec<Record>) -> Vec<Message> {
    let mut reports: Vec<Vec<Record>> = Vec::new();
    let mut room = 0;
    for record in records {
        let len = 20 + 16 * record.sources.len();
        if room < len {
            reports.push(Vec::new());
            room = REPORT_LEN;
        }
        room = room.saturating_sub(len);
        reports.last_mut().into_iter().for_each(|report| report.push(record.clone()));
    }
    reports.into_iter().map(Message::Report).collect()
}

fn last_octet(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
    const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 0, 0, 1));
    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    fn sources(numbers: impl IntoIterator<Item = u8>) -> Vec<IpAddr> {
        numbers.into_iter().map(|last| IpAddr::from([192, 0, 2, last])).collect()
    }

    fn include(numbers: impl IntoIterator<Item = u8>) -> Filter {
        Filter::include(sources(numbers))
    }

    fn exclude(numbers: impl IntoIterator<Item = u8>) -> Filter {
        Filter::exclude(sources(numbers))
    }

    fn records_in(messages: Vec<Message>) -> Vec<(RecordKind, Vec<IpAddr>)> {
        let records = messages.into_iter().flat_map(|message| match message {
            Message::Report(records) => records,
            other => panic!("{other:?}"),
        });
        records.map(|record| (record.kind, record.sources)).collect()
    }

    /// A host that has wanted `before` for long.
    fn host(before: &Filter) -> Host {
        let mut host = Host::default();
        host.want(NOW, GROUP, before.clone(), &Timers::default());
        for second in 0..10 {
            host.due(NOW + Duration::from_secs(second));
        }
        assert_eq!(host.deadline(), None);
        host
    }

    fn query(group: Option<IpAddr>, sources: Vec<IpAddr>) -> Message {
        let general = Query::general(Duration::from_secs(10), Duration::from_secs(125));
        Message::Query(Query { group, sources, ..general })
    }

    fn said(before: &Filter, after: &Filter) -> Vec<(RecordKind, Vec<IpAddr>)> {
        let mut host = host(before);
        host.want(NOW, GROUP, after.clone(), &Timers::default());
        records_in(host.due(NOW))
    }

    /// The table of RFC 9777, 6.1, line by line.
    #[test]
    fn tells_changes_as_the_table_says() {
        assert_eq!(
            said(&include([1, 2]), &include([2, 3])),
            [(RecordKind::Allow, sources([3])), (RecordKind::Block, sources([1]))]
        );
        assert_eq!(
            said(&exclude([1, 2]), &exclude([2, 3])),
            [(RecordKind::Allow, sources([1])), (RecordKind::Block, sources([3]))]
        );
        assert_eq!(said(&include([1]), &exclude([2])), [(RecordKind::ToExclude, sources([2]))]);
        assert_eq!(said(&exclude([1]), &include([2])), [(RecordKind::ToInclude, sources([2]))]);
        assert_eq!(said(&Filter::EVERYTHING, &Filter::NOTHING), [(RecordKind::ToInclude, vec![])]);
        assert_eq!(said(&include([1]), &include([1])), []);
    }

    #[test]
    fn long_lists_are_divided() {
        let many = include(0..150);
        let lens = |before: &Filter, after: &Filter| -> Vec<_> {
            said(before, after).into_iter().map(|(kind, sources)| (kind, sources.len())).collect()
        };
        let (allow, to_include) = (RecordKind::Allow, RecordKind::ToInclude);
        assert_eq!(lens(&Filter::NOTHING, &many), [(allow, 64), (allow, 64), (allow, 22)]);
        assert_eq!(lens(&Filter::EVERYTHING, &many), [(to_include, 64), (allow, 64), (allow, 22)]);
    }

    /// A first report that got lost is told again together with what has changed since.
    #[test]
    fn a_change_is_told_again_and_with_it_what_came_before() {
        let timers = Timers::default();
        for (mut host, seconds) in [(Host::default(), &[0, 1][..]), (Host::of_router(), &[0, 1, 3, 7])] {
            host.want(NOW, GROUP, Filter::EVERYTHING, &timers);
            assert_eq!(records_in(host.due(NOW)), [(RecordKind::ToExclude, vec![])]);
            host.want(NOW, GROUP, exclude([1]), &timers);
            for second in seconds {
                let now = NOW + Duration::from_secs(*second);
                assert_eq!(host.deadline(), Some(now));
                assert_eq!(records_in(host.due(now)), [(RecordKind::ToExclude, sources([1]))]);
            }
            assert_eq!(host.deadline(), None);
        }
    }

    #[test]
    fn queries_are_answered_in_time() {
        let timers = Timers::default();
        for (filter, asked, answer) in [
            (exclude([1]), None, Some((RecordKind::IsExclude, sources([1])))),
            (include([1]), None, Some((RecordKind::IsInclude, sources([1])))),
            (include([1, 2]), Some((GROUP, vec![])), Some((RecordKind::IsInclude, sources([1, 2])))),
            (include([1, 2]), Some((GROUP, sources([2, 3]))), Some((RecordKind::IsInclude, sources([2])))),
            (exclude([1]), Some((GROUP, sources([1, 3]))), Some((RecordKind::IsInclude, sources([3])))),
            (exclude([1]), Some((GROUP, sources([1]))), None),
        ] {
            let mut host = host(&filter);
            let (group, sources) = asked.map_or((None, vec![]), |(group, sources)| (Some(group), sources));
            host.heard(NOW, OWN, &query(group, sources), &timers);
            let at = host.deadline().expect("it answers");
            assert!(at > NOW && at <= NOW + Duration::from_secs(5));
            assert_eq!(records_in(host.due(at)), answer.into_iter().collect::<Vec<_>>());
            assert_eq!(host.deadline(), None);
        }
        let mut host = host(&Filter::NOTHING);
        host.heard(NOW, OWN, &query(None, vec![]), &timers);
        host.heard(NOW, OWN, &query(Some(GROUP), vec![]), &timers);
        assert_eq!(host.deadline(), None, "it has nothing to say");
    }

    #[test]
    fn a_general_query_is_answered_in_few_packets() {
        let timers = Timers::default();
        let mut host = Host::default();
        for last in 0..100 {
            host.want(NOW, IpAddr::from([239, 1, 1, last]), Filter::EVERYTHING, &timers);
        }
        assert_eq!(host.due(NOW).len(), 2);
    }

    #[test]
    fn an_old_querier_is_told_in_its_words() {
        let timers = Timers::default();
        let second = Duration::from_secs(1);
        for (max_response, joined, left) in [
            (second, Message::OldReport(GROUP), vec![Message::OldLeave(GROUP)]),
            (Duration::ZERO, Message::IgmpV1Report(GROUP), vec![]),
        ] {
            let mut host = host(&include([1]));
            host.heard(NOW, OWN, &Message::OldQuery { group: None, max_response }, &timers);
            let at = host.deadline().expect("it answers");
            assert!(at <= NOW + Duration::from_secs(10));
            assert_eq!(host.due(at), [joined]);
            host.want(at, GROUP, Filter::NOTHING, &timers);
            assert_eq!(host.due(at), left);
            let later = at + timers.listening_interval();
            host.due(later);
            host.want(later, GROUP, Filter::EVERYTHING, &timers);
            assert_eq!(records_in(host.due(later)), [(RecordKind::ToExclude, vec![])]);
        }
    }
}
