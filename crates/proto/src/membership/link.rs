//! One interface of a router: which router is the querier there, and which groups have listeners.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use treecast_wire::membership::{RecordKind, RouterAdvertisement};

use super::{
    Filter, Limits, Message, Query, Record, Timers,
    group::{Ask, Group},
    leave::Leaves,
    neighbours::Neighbours,
    room::{Room, RoomSnapshot},
    scope::{is_routable_group, is_routable_source, is_source_specific},
    shares::Claim,
};
use crate::Instant;

/// The largest number of sources in a query. Such a query fits a packet of the smallest IPv6 MTU.
const SOURCES_PER_QUERY: usize = 64;

/// The time between advertisements, at the beginning and later, and between answers to solicitations (RFC 4286,
/// section 8).
const ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(20);
const INITIAL_ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(2);
const INITIAL_ADVERTISEMENTS: u8 = 3;
const SOLICITED_ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(1);

/// One interface of a router. A new one asks at once which hosts listen.
///
/// Call [`Self::handle`] for what comes, then [`Self::poll`] until it returns none, and again when
/// [`Self::deadline`] has come.
#[derive(Debug)]
pub struct Link {
    address: IpAddr,
    configured: Timers,
    /// The timers in force. They are the querier's, which all routers of a link share.
    timers: Timers,
    querier: Querier,
    advertisements: Advertisements,
    groups: BTreeMap<IpAddr, Group>,
    /// The deadline of every group that has one.
    deadlines: BTreeSet<(Instant, IpAddr)>,
    neighbours: Neighbours,
    room: Room,
    leaves: Leaves,
    out: VecDeque<Output>,
}

/// Something that a link demands of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Send(Message),
    /// The value of [`Link::filter`] for this group has changed.
    Changed(IpAddr),
    /// This router has become the querier, or no longer is.
    QuerierChanged,
    /// Hosts want more groups or sources than there is room for. This is reported once, until there is plenty
    /// of room again.
    Full,
}

/// The querier of the link (RFC 9777, 7.6.2; RFC 9776, 6.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Querier {
    Own { next_query: Instant, startup_queries_left: u8 },
    Other { address: IpAddr, until: Instant },
}

#[derive(Debug)]
struct Advertisements {
    next: Instant,
    earliest: Instant,
    initial_left: u8,
}

impl Link {
    /// Creates a link that has just come up. `address` is the router's address there.
    pub fn new(now: Instant, address: IpAddr, timers: Timers, limits: Limits) -> Self {
        Self {
            address,
            configured: timers,
            timers,
            querier: Querier::Own { next_query: now, startup_queries_left: timers.robustness },
            advertisements: Advertisements { next: now, earliest: now, initial_left: INITIAL_ADVERTISEMENTS },
            groups: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            neighbours: Neighbours::default(),
            room: Room::new(limits),
            leaves: Leaves::default(),
            out: VecDeque::new(),
        }
    }

    /// Sets the router's new address.
    pub fn set_address(&mut self, address: IpAddr) {
        self.address = address;
    }

    /// Handles a message from `from`, a neighbour on this link. The router's own messages, which a kernel hands
    /// back, are ignored.
    pub fn handle(&mut self, now: Instant, from: IpAddr, message: Message) {
        if from == self.address {
            return;
        }
        self.neighbours.note(from, &message);
        match message {
            Message::Query(query) => self.heard_query(now, from, &query),
            Message::OldQuery { group, max_response } => {
                if self.yields_to(from) {
                    self.follow(now, from);
                }
                self.lower(now, group, &[], max_response);
            }
            Message::Report(records) => records.into_iter().for_each(|record| self.apply(now, from, record)),
            Message::OldReport(group) if !is_source_specific(group) => {
                self.update(now, Some(from), group, |group, timers| {
                    group.apply_old_report(now, timers);
                    Ask::default()
                });
            }
            Message::IgmpV1Report(group) if !is_source_specific(group) => {
                self.update(now, Some(from), group, |group, timers| {
                    group.apply_igmp_v1_report(now, timers);
                    Ask::default()
                });
            }
            Message::OldReport(_) | Message::IgmpV1Report(_) => {}
            Message::OldLeave(group) => {
                self.apply(now, from, Record { kind: RecordKind::ToInclude, group, sources: Vec::new() });
            }
            Message::RouterSolicitation => {
                let advertisements = &mut self.advertisements;
                advertisements.next = advertisements.next.min(now.max(advertisements.earliest));
            }
            Message::RouterAdvertisement(_) | Message::RouterTermination => {}
        }
    }

    /// Notes that the router itself, as a listener here, wants `after` instead of `before`.
    pub fn listens(&mut self, now: Instant, group: IpAddr, before: &Filter, after: &Filter) {
        if self.is_querier() {
            self.leaves.note(now, group, before, after, &self.timers);
        }
    }

    /// Asks which hosts listen to `group`, whichever router is the querier. If nobody answers in time, the group has
    /// no listeners any more.
    ///
    /// A router usually leaves this to the querier, whose query it hears. But a switch that snoops may be the
    /// querier, and ask only at the port where a listener has left (RFC 4541, 2.1.1). A caller that must know
    /// asks as well, and makes routers keep their timers.
    pub fn doubt(&mut self, now: Instant, group: IpAddr) {
        if self.groups.contains_key(&group) {
            let own = self.configured;
            self.update(now, None, group, |group, _| {
                group.doubt(now, &own);
                Ask::default()
            });
        }
    }

    /// The next output. `None` until the [`Self::deadline`] or the next input.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if self.out.is_empty() {
            self.query(now);
            self.ask_for_leaves(now);
            self.advertise(now);
        }
        while self.out.is_empty() {
            let &(at, group) = self.deadlines.first()?;
            if at > now {
                return None;
            }
            self.update(now, None, group, |_, _| Ask::default());
        }
        self.out.pop_front()
    }

    /// The time when [`Self::poll`] has something to do without further input.
    pub fn deadline(&self) -> Instant {
        let querier = match self.querier {
            Querier::Own { next_query, .. } => next_query,
            Querier::Other { until, .. } => until,
        };
        let group = self.deadlines.first().map(|(at, _)| *at);
        let others = group.into_iter().chain(self.leaves.deadline()).chain([self.advertisements.next]);
        others.fold(querier, Instant::min)
    }

    /// The wanted sources of `group`.
    pub fn filter(&self, group: IpAddr) -> Filter {
        self.groups.get(&group).map_or(Filter::NOTHING, Group::filter)
    }

    pub fn groups(&self) -> impl Iterator<Item = (IpAddr, &Group)> {
        self.groups.iter().map(|(address, group)| (*address, group))
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The timers of the link's querier, which all its routers and hosts share.
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    pub fn querier(&self) -> Querier {
        self.querier
    }

    /// Whether this router is the querier.
    pub fn is_querier(&self) -> bool {
        matches!(self.querier, Querier::Own { .. })
    }

    /// The room that is left for hosts, and the hosts that use it.
    pub fn room(&self) -> RoomSnapshot {
        self.room.snapshot()
    }

    fn apply(&mut self, now: Instant, from: IpAddr, record: Record) {
        // RFC 4604, 2.2.1 and 2.2.4: EXCLUDE filters have no meaning for source-specific groups.
        let excludes = matches!(record.kind, RecordKind::IsExclude | RecordKind::ToExclude);
        if excludes && is_source_specific(record.group) || !is_routable_group(record.group) {
            return;
        }
        let Record { kind, group: address, sources } = record;
        let named = sources.into_iter().filter(|source| is_routable_source(*source)).collect();
        let (sources, replaced) = self.make_room(from, kind, address, named);
        let joins = excludes || kind != RecordKind::Block && !sources.is_empty();
        let by = joins.then_some(from);
        let is_alone = self.neighbours.is_a_router_alone(from);
        self.update(now, by, address, |group, timers| {
            for (_, source) in replaced.iter().filter(|(of, _)| *of == address) {
                group.forget(*source);
            }
            let ask = group.apply(now, kind, &sources, timers);
            if is_alone { group.end_sources(ask) } else { ask }
        });
        for (other, source) in replaced.iter().filter(|(of, _)| *of != address) {
            self.update(now, None, *other, |group, _| {
                group.forget(*source);
                Ask::default()
            });
        }
    }

    /// Finds room for the sources of a report. Returns those that have room, and the entries (group and source)
    /// of others that must give way.
    fn make_room(
        &mut self,
        host: IpAddr,
        kind: RecordKind,
        group: IpAddr,
        mut sources: BTreeSet<IpAddr>,
    ) -> (BTreeSet<IpAddr>, Vec<(IpAddr, IpAddr)>) {
        match kind {
            // No other sources are left when it has been applied.
            RecordKind::IsExclude | RecordKind::ToExclude => {
                self.room.keep_sources(group, |source| sources.contains(&source));
            }
            // It adds no source.
            RecordKind::Block
                if self.groups.get(&group).is_none_or(|group| group.exclude_until().is_none()) =>
            {
                return (sources, Vec::new());
            }
            _ => {}
        }
        let mut replaced = Vec::new();
        sources.retain(|source| match self.room.claim_source(host, group, *source) {
            Claim::Held => true,
            Claim::Refused => false,
            Claim::Instead(other) => {
                replaced.push(other);
                true
            }
        });
        // A source that others want, too, may itself have given way.
        sources.retain(|source| self.room.holds_source(group, *source));
        (sources, replaced)
    }

    /// Changes a group, carries out its timers and queries, and reports a change of its filter. A group that
    /// exists only because of a host needs room; `by` names that host.
    fn update(
        &mut self,
        now: Instant,
        by: Option<IpAddr>,
        address: IpAddr,
        change: impl FnOnce(&mut Group, &Timers) -> Ask,
    ) {
        if !is_routable_group(address) {
            return;
        }
        let mut group = self.groups.remove(&address).unwrap_or_default();
        let before = group.filter();
        forget(&mut self.deadlines, group.deadline(), address);
        let ask = change(&mut group, &self.timers);
        if self.is_querier() {
            group.ask(now, &ask, &self.timers);
        }
        group.expire(now);
        group.ask_again(now, &self.timers);
        for due in group.due_queries(now, &self.timers) {
            let keeps_timers = due.suppress_router_processing || !self.is_querier();
            self.send_specific_queries(address, &due.sources, keeps_timers);
        }
        if group.is_gone() || !by.is_none_or(|host| self.makes_room(host, address)) {
            return self.forget_group(address, &before);
        }
        if group.filter() != before {
            self.out.push_back(Output::Changed(address));
        }
        self.room.keep_sources(address, |source| group.holds(source));
        self.deadlines.extend(group.deadline().map(|at| (at, address)));
        self.groups.insert(address, group);
        self.tell_if_full();
    }

    /// Whether there is room for a group that a host wants. Another group may have to give way.
    fn makes_room(&mut self, host: IpAddr, group: IpAddr) -> bool {
        match self.room.claim_group(host, group) {
            Claim::Held => true,
            Claim::Refused => false,
            Claim::Instead(other) => {
                if let Some(group) = self.groups.remove(&other) {
                    forget(&mut self.deadlines, group.deadline(), other);
                    self.forget_group(other, &group.filter());
                }
                true
            }
        }
    }

    /// Forgets a group that was removed from the list. `before` is its last filter.
    fn forget_group(&mut self, address: IpAddr, before: &Filter) {
        if !before.is_nothing() {
            self.out.push_back(Output::Changed(address));
        }
        self.tell_if_full();
        self.room.release_group(address);
    }

    fn tell_if_full(&mut self) {
        if self.room.take_news() {
            self.out.push_back(Output::Full);
        }
    }

    fn heard_query(&mut self, now: Instant, from: IpAddr, query: &Query) {
        if self.yields_to(from) {
            self.adopt(query);
            self.follow(now, from);
        }
        if !query.suppress_router_processing {
            self.lower(now, query.group, &query.sources, query.max_response);
        }
    }

    /// Lowers timers after another router's query. Listeners answer within the querier's time, and not within
    /// this router's.
    fn lower(&mut self, now: Instant, group: Option<IpAddr>, sources: &[IpAddr], max_response: Duration) {
        let Some(group) = group.filter(|group| self.groups.contains_key(group)) else { return };
        self.update(now, None, group, |group, timers| {
            let interval = timers.last_listener_query_interval.max(max_response);
            let timers = Timers { last_listener_query_interval: interval, ..*timers };
            group.heard_query(now, sources, &timers);
            Ask::default()
        });
    }

    /// Whether this router accepts `from` as the querier. The lowest address wins. Snooping bridges ask from
    /// 0.0.0.0, and take no part (RFC 4541, 2.1.1).
    fn yields_to(&self, from: IpAddr) -> bool {
        let lowest = match self.querier {
            Querier::Other { address, .. } => address,
            Querier::Own { .. } => self.address,
        };
        !from.is_unspecified() && from <= lowest
    }

    /// Accepts `from` as the querier while it goes on to ask, by its own timers, which have been adopted (RFC
    /// 9777, 9.5; RFC 9776, 8.5).
    fn follow(&mut self, now: Instant, from: IpAddr) {
        if self.is_querier() {
            self.stop_asking();
            self.out.push_back(Output::QuerierChanged);
        }
        let until = now + self.timers.other_querier_present_interval();
        self.querier = Querier::Other { address: from, until };
    }

    /// Adopts the querier's robustness and interval, or this router's own if the query has none (RFC 9777,
    /// 5.1.8, 5.1.9; RFC 9776, 4.1.6, 4.1.7).
    fn adopt(&mut self, query: &Query) {
        let own = &self.configured;
        self.timers.robustness = if query.robustness > 0 { query.robustness } else { own.robustness };
        let says_interval = query.query_interval >= Duration::from_secs(1);
        self.timers.query_interval = if says_interval { query.query_interval } else { own.query_interval };
    }

    fn stop_asking(&mut self) {
        self.leaves.clear();
        for (address, group) in &mut self.groups {
            forget(&mut self.deadlines, group.deadline(), *address);
            group.stop_asking();
            self.deadlines.extend(group.deadline().map(|at| (at, *address)));
        }
    }

    fn query(&mut self, now: Instant) {
        if let Querier::Other { until, .. } = self.querier
            && until <= now
        {
            self.timers = self.configured;
            self.querier = Querier::Own { next_query: now, startup_queries_left: 0 };
            self.out.push_back(Output::QuerierChanged);
        }
        let Querier::Own { next_query, startup_queries_left } = self.querier else { return };
        if next_query > now {
            return;
        }
        let starting = startup_queries_left > 0;
        let left = startup_queries_left.saturating_sub(1);
        let wait = if left > 0 { self.timers.startup_query_interval() } else { self.timers.query_interval };
        self.querier = Querier::Own { next_query: now + wait, startup_queries_left: left };
        let max_response = if starting {
            self.timers.startup_response_interval()
        } else {
            self.timers.query_response_interval
        };
        self.send_query(None, &[], max_response, false);
    }

    fn ask_for_leaves(&mut self, now: Instant) {
        for (group, sources) in self.leaves.due(now, &self.timers) {
            self.send_specific_queries(group, &sources, false);
        }
    }

    /// Sends queries about some sources of a group, or about the group itself if `sources` is empty.
    fn send_specific_queries(&mut self, group: IpAddr, sources: &[IpAddr], suppress_router_processing: bool) {
        let max_response = self.timers.last_listener_query_interval;
        if sources.is_empty() {
            self.send_query(Some(group), &[], max_response, suppress_router_processing);
        }
        for sources in sources.chunks(SOURCES_PER_QUERY) {
            self.send_query(Some(group), sources, max_response, suppress_router_processing);
        }
    }

    fn send_query(
        &mut self,
        group: Option<IpAddr>,
        sources: &[IpAddr],
        max_response: Duration,
        suppress_router_processing: bool,
    ) {
        self.out.push_back(Output::Send(Message::Query(Query {
            max_response,
            group,
            suppress_router_processing,
            robustness: self.timers.robustness,
            query_interval: self.timers.query_interval,
            sources: sources.to_vec(),
        })));
    }

    /// Sends an advertisement. Bridges forward reports only to known routers, and know only the querier, by its
    /// queries. Without advertisements, all other routers of a link would hear nothing (RFC 4286, 1; RFC 4541,
    /// 2.1.1).
    fn advertise(&mut self, now: Instant) {
        let advertisements = &mut self.advertisements;
        if advertisements.next > now {
            return;
        }
        advertisements.initial_left = advertisements.initial_left.saturating_sub(1);
        let interval = match advertisements.initial_left {
            0 => ADVERTISEMENT_INTERVAL,
            _ => INITIAL_ADVERTISEMENT_INTERVAL,
        };
        advertisements.next = now + interval;
        advertisements.earliest = now + SOLICITED_ADVERTISEMENT_INTERVAL;
        self.out.push_back(Output::Send(Message::RouterAdvertisement(RouterAdvertisement {
            advertisement_interval_s: ADVERTISEMENT_INTERVAL.as_secs() as u8,
            query_interval_s: u16::try_from(self.timers.query_interval.as_secs()).unwrap_or(u16::MAX),
            robustness: u16::from(self.timers.robustness),
        })));
    }
}

/// Removes the entry of a group with this deadline.
fn forget(deadlines: &mut BTreeSet<(Instant, IpAddr)>, deadline: Option<Instant>, group: IpAddr) {
    if let Some(at) = deadline {
        deadlines.remove(&(at, group));
    }
}
