//! One interface of a router: who the querier is, and which groups are listened to there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use treecast_wire::membership::{RecordKind, RouterAdvertisement};

use super::{
    Filter, Limits, Message, Query, Record, Timers,
    group::{Ask, Due, Group},
    scope::{is_routable_group, is_routable_source, is_source_specific},
};
use crate::Instant;

/// Sources named in one query: what fits a packet of the smallest MTU that IPv6 allows.
const SOURCES_PER_QUERY: usize = 64;

/// RFC 4286, 8: time between advertisements, at the beginning and later, and between answers to
/// solicitations.
const ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(20);
const INITIAL_ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(2);
const INITIAL_ADVERTISEMENTS: u8 = 3;
const SOLICITED_ADVERTISEMENT_INTERVAL: Duration = Duration::from_secs(1);

/// One interface of a router. A new one asks at once who listens.
///
/// Call [`Self::handle`] for what comes, then [`Self::poll`] until it returns none, and again when
/// [`Self::deadline`] has come.
#[derive(Debug)]
pub struct Link {
    address: IpAddr,
    configured: Timers,
    /// Those of the querier, which all routers of a link share.
    timers: Timers,
    limits: Limits,
    querier: Querier,
    advertisements: Advertisements,
    groups: BTreeMap<IpAddr, Group>,
    /// The deadline of every group that has one.
    deadlines: BTreeSet<(Instant, IpAddr)>,
    /// Sources held by all groups.
    source_count: usize,
    refused: u64,
    out: VecDeque<Output>,
}

/// What a link wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Send(Message),
    /// [`Link::filter`] of this group is another now.
    Changed(IpAddr),
}

/// RFC 9777, 7.6.2; RFC 9776, 6.6.2.
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
    /// A link that has just come up, on which the router has this address.
    pub fn new(now: Instant, address: IpAddr, timers: Timers, limits: Limits) -> Self {
        Self {
            address,
            configured: timers,
            timers,
            limits,
            querier: Querier::Own { next_query: now, startup_queries_left: timers.robustness },
            advertisements: Advertisements { next: now, earliest: now, initial_left: INITIAL_ADVERTISEMENTS },
            groups: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            source_count: 0,
            refused: 0,
            out: VecDeque::new(),
        }
    }

    /// The router has another address here now.
    pub fn set_address(&mut self, address: IpAddr) {
        self.address = address;
    }

    /// A message came from `from`, a neighbour on this link. The router's own are ignored: a kernel
    /// hands them back.
    pub fn handle(&mut self, now: Instant, from: IpAddr, message: Message) {
        if from == self.address {
            return;
        }
        match message {
            Message::Query(query) => self.heard_query(now, from, &query),
            Message::OldQuery { .. } => {
                self.elect(now, from);
            }
            Message::Report(records) => records.into_iter().for_each(|record| self.apply(now, record)),
            Message::OldReport(group) if !is_source_specific(group) => {
                self.update(now, group, |group, timers, _| {
                    group.apply_old_report(now, timers);
                    Ask::default()
                });
            }
            Message::OldReport(_) => {}
            Message::OldLeave(group) => {
                self.apply(now, Record { kind: RecordKind::ToInclude, group, sources: Vec::new() });
            }
            Message::RouterSolicitation => {
                let advertisements = &mut self.advertisements;
                advertisements.next = advertisements.next.min(now.max(advertisements.earliest));
            }
            Message::RouterAdvertisement(_) | Message::RouterTermination => {}
        }
    }

    /// The next thing to do; none before the [`Self::deadline`] or the next input.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if self.out.is_empty() {
            self.query(now);
            self.advertise(now);
        }
        while self.out.is_empty() {
            let &(at, group) = self.deadlines.first()?;
            if at > now {
                return None;
            }
            self.update(now, group, |_, _, _| Ask::default());
        }
        self.out.pop_front()
    }

    /// When [`Self::poll`] has something to do without further input.
    pub fn deadline(&self) -> Instant {
        let querier = match self.querier {
            Querier::Own { next_query, .. } => next_query,
            Querier::Other { until, .. } => until,
        };
        let group = self.deadlines.first().map(|(at, _)| *at);
        querier.min(self.advertisements.next).min(group.unwrap_or(querier))
    }

    /// Which sources of `group` are wanted here.
    pub fn filter(&self, group: IpAddr) -> Filter {
        self.groups.get(&group).map_or(Filter::NOTHING, Group::filter)
    }

    pub fn groups(&self) -> impl Iterator<Item = (IpAddr, &Group)> {
        self.groups.iter().map(|(address, group)| (*address, group))
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn querier(&self) -> Querier {
        self.querier
    }

    /// Groups and sources that found no room, ever.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn apply(&mut self, now: Instant, record: Record) {
        // RFC 4604, 2.2.1 and 2.2.4: in the range of source-specific groups, "all but" means nothing.
        let excludes = matches!(record.kind, RecordKind::IsExclude | RecordKind::ToExclude);
        if excludes && is_source_specific(record.group) {
            return;
        }
        let sources = record.sources.into_iter().filter(|source| is_routable_source(*source)).collect();
        self.update(now, record.group, |group, timers, max_sources| {
            group.apply(now, record.kind, &sources, timers, max_sources)
        });
    }

    /// Changes a group, carries out its timers and queries, and tells when its filter has become another.
    /// `change` is also given how many sources the group may hold.
    fn update(
        &mut self,
        now: Instant,
        address: IpAddr,
        change: impl FnOnce(&mut Group, &Timers, usize) -> Ask,
    ) {
        if !is_routable_group(address) {
            return;
        }
        let known = self.groups.remove(&address);
        if known.is_none() && self.groups.len() >= self.limits.groups_per_link {
            self.refused += 1;
            return;
        }
        let mut group = known.unwrap_or_default();
        let (before, refused) = (group.filter(), group.refused());
        forget(&mut self.deadlines, group.deadline(), address);
        self.source_count -= group.source_count();
        let room = self.limits.sources_per_link.saturating_sub(self.source_count);

        let ask = change(&mut group, &self.timers, room.min(self.limits.sources_per_group));
        if matches!(self.querier, Querier::Own { .. }) {
            group.ask(now, &ask, &self.timers);
        }
        group.expire(now);
        for due in group.due_queries(now, &self.timers) {
            self.send_specific_queries(address, &due);
        }
        self.refused += group.refused() - refused;
        if group.filter() != before {
            self.out.push_back(Output::Changed(address));
        }
        if !group.is_gone() {
            self.deadlines.extend(group.deadline().map(|at| (at, address)));
            self.source_count += group.source_count();
            self.groups.insert(address, group);
        }
    }

    fn heard_query(&mut self, now: Instant, from: IpAddr, query: &Query) {
        if self.elect(now, from) {
            self.adopt(query);
        }
        let Some(group) = query.group.filter(|group| self.groups.contains_key(group)) else { return };
        if query.suppress_router_processing {
            return;
        }
        self.update(now, group, |group, timers, _| {
            let interval = timers.last_listener_query_interval.max(query.max_response);
            let timers = Timers { last_listener_query_interval: interval, ..*timers };
            group.heard_query(now, &query.sources, &timers);
            Ask::default()
        });
    }

    /// The lowest address wins. Returns whether `from` is the querier. Snooping bridges ask from 0.0.0.0,
    /// and take no part (RFC 4541, 2.1.1).
    fn elect(&mut self, now: Instant, from: IpAddr) -> bool {
        if from.is_unspecified() || from > self.address {
            return false;
        }
        let until = now + self.timers.other_querier_present_interval();
        match self.querier {
            Querier::Other { address, .. } if address < from => return false,
            Querier::Other { .. } => {}
            Querier::Own { .. } => self.stop_asking(),
        }
        self.querier = Querier::Other { address: from, until };
        true
    }

    /// Takes over the querier's robustness and interval (RFC 9777, 5.1.8, 5.1.9; RFC 9776, 4.1.6, 4.1.7).
    fn adopt(&mut self, query: &Query) {
        if query.robustness > 0 {
            self.timers.robustness = query.robustness;
        }
        if query.query_interval >= Duration::from_secs(1) {
            self.timers.query_interval = query.query_interval;
        }
    }

    fn stop_asking(&mut self) {
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

    fn send_specific_queries(&mut self, group: IpAddr, due: &Due) {
        let max_response = self.timers.last_listener_query_interval;
        if due.sources.is_empty() {
            self.send_query(Some(group), &[], max_response, due.suppress_router_processing);
        }
        for sources in due.sources.chunks(SOURCES_PER_QUERY) {
            self.send_query(Some(group), sources, max_response, due.suppress_router_processing);
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

    /// Bridges send reports only where they know a router, and know only the querier by its queries:
    /// without this, all other routers of a link would hear nothing (RFC 4286, 1; RFC 4541, 2.1.1).
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

/// Takes out the entry of a group whose deadline was this.
fn forget(deadlines: &mut BTreeSet<(Instant, IpAddr)>, deadline: Option<Instant>, group: IpAddr) {
    if let Some(at) = deadline {
        deadlines.remove(&(at, group));
    }
}
