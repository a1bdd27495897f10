//! All interfaces of a router, of one address family: what to forward, and what to listen to.
//!
//! A packet from source S to group G is forwarded from the link of the route to S, to every other link where
//! somebody wants it. If there is no route to S, the link where its packets arrive takes that place. The router
//! itself listens to what the listeners of all other links want:
//!
//! - It listens to sources that are asked for by name on the link of the route to each.
//! - It listens to "any source" on every link except the listeners' own. So in a network without loops, a
//!   sender may be anywhere, and every link carries only what is wanted behind it. It does not matter whether the
//!   router is the querier of a link, because neighbouring routers share links and either may be elected.
//!
//! This is not enough in a network with loops, or with several routers between two links: joins go round and
//! keep each other alive. A router that gets a source's packets by another link than that of its route learns
//! from that. It then listens to "any source" of the group only on the links of the routes to its known
//! sources, until these are silent or nobody wants the group. This does not help before a source is heard, and
//! hosts may get copies meanwhile. To prevent that, an upstream must be configured on every router, so that the
//! upstreams form a tree (RFC 4605). Then:
//!
//! - On its upstream the router is a host: it does not ask which hosts listen there.
//! - It listens to "any source" there and on no other link. Packets that come from elsewhere also go there
//!   (section 4.2).
//! - On every other link, one router, the querier, sends packets to the link and forwards packets from it.
//!
//! Upstreams give all sources one tree. [`RouterConfig::source_trees`] gives each source a tree of its own, as
//! DVMRP does (RFC 1075): a router listens to "any source" on every link, but excludes each known source on all
//! links that the route to this source does not use. A new source's first packets reach all routers of the
//! loop, and each of them then excludes it where it gets copies, up to 64 sources of a group. On a link with nobody but two
//! routers, that counts at once (`neighbours.rs`); elsewhere the querier asks first. Packets of further sources
//! cross each link of the loop once for each router on it, and hosts may get copies. The price: joins go round a loop for as long as
//! the routers run. A bridge that snoops may keep hosts of MLDv1 and IGMPv2 from the excluded sources.
//!
//! The router reports what it listens to itself (`host.rs`). It does not ask its kernel to join groups, because
//! a kernel that routes multicast receives all groups.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use super::{
    Filter, Limits, Link, LinkId, Message, Mode, Timers,
    entries::{Entries, Forwarding},
    host::Host,
    link::Output,
    room::RoomSnapshot,
    scope::{is_routable_group, is_routable_source, is_source_specific},
    snapshot::RouterSnapshot,
};
use crate::{Instant, Step};

/// The time between two reads of the kernel's counts. An entry is read at least twice before it counts as idle.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// The number of known sources of a group that a router excludes on a link where they do not belong. A record of a
/// report has room for no more.
const MAX_EXCLUDED: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
pub struct RouterConfig {
    pub timers: Timers,
    pub limits: Limits,
    /// The link of senders to any-source groups, where the router is only a host. `None`: packets may come from
    /// any link.
    pub upstream: Option<LinkId>,
    /// Whether each source of an any-source group has a tree of its own in a network with loops. It has no
    /// meaning with an upstream.
    pub source_trees: bool,
    /// The time without packets after which an entry is removed.
    pub entry_idle: Duration,
}

/// An input of the router.
#[derive(Debug, Clone)]
pub enum Input {
    /// An interface is up with this address, or has got another address.
    Up {
        link: LinkId,
        address: IpAddr,
    },
    Down {
        link: LinkId,
    },
    /// The value of [`RouterConfig::upstream`] has changed.
    Upstream(Option<LinkId>),
    /// A neighbour on the link has sent this message.
    Message {
        link: LinkId,
        from: IpAddr,
        message: Message,
    },
    /// The kernel holds a packet for which it has no entry.
    NoEntry {
        link: LinkId,
        source: IpAddr,
        group: IpAddr,
    },
    /// An earlier daemon has left this entry in the kernel. It stays until listeners have had time to report
    /// again.
    Inherited {
        source: IpAddr,
        group: IpAddr,
        forwarding: Forwarding,
    },
    /// A packet has come in by another link than its entry says.
    WrongLink {
        link: LinkId,
        source: IpAddr,
        group: IpAddr,
    },
    /// The answer to [`Transmit::FindRoute`].
    Route {
        source: IpAddr,
        route: Route,
    },
    /// Any route may have changed.
    RoutesChanged,
    /// The answer to [`Transmit::Count`]: the number of packets for the entry since it was made.
    Counted {
        source: IpAddr,
        group: IpAddr,
        packets: u64,
    },
}

/// The direction of the route to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The route uses this interface, which the router may not know.
    Via(LinkId),
    /// There is no route, or the source is this host itself. Its packets may come in by any link.
    None,
}

/// An action for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transmit {
    /// Send this on the link.
    Send { link: LinkId, message: Message },
    /// Tell the kernel this forwarding, in place of an earlier one.
    Install { source: IpAddr, group: IpAddr, forwarding: Forwarding },
    /// Tell the kernel to forget the entry.
    Remove { source: IpAddr, group: IpAddr },
    /// Look up the route to a source, and answer with [`Input::Route`].
    FindRoute { source: IpAddr },
    /// Ask the kernel for an entry's packets, and answer with [`Input::Counted`].
    Count { source: IpAddr, group: IpAddr },
}

/// The treatment of a group's packets at a link that they could be forwarded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// The packets are forwarded to the link, or would be if any came.
    Forwarded,
    /// No host on the link wants the packets.
    NotWanted,
    /// The router forwards nothing to the link: it does not route there, or another router does.
    NotServed,
    /// The group or the source belongs to its own link.
    OutOfScope,
}

/// An event that a person may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The hosts of a link want more groups or sources than there is room for: see [`Router::room`].
    Full { link: LinkId },
}

/// The thing that a router waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Interfaces.
    Links,
    /// Listeners, packets, or the time for a query.
    Network,
}

/// A multicast router for one address family. Call order: see the crate's documentation.
#[derive(Debug, Default)]
pub struct Router {
    config: RouterConfig,
    links: BTreeMap<LinkId, Link>,
    /// The upstream link, where the router is only a host, and its address there. `None` if that link is not
    /// up.
    upstream: Option<(LinkId, IpAddr)>,
    entries: Entries,
    /// The routes to all sources of entries and of named requests. `None` while the answer is awaited.
    routes: BTreeMap<IpAddr, Option<Route>>,
    /// The router as a host, on every link that is up and on its upstream.
    hosts: BTreeMap<LinkId, Host>,
    /// Groups whose packets come by more than one link, with the links of the routes to their sources. They are
    /// kept while somebody wants them.
    learned: BTreeMap<IpAddr, BTreeSet<LinkId>>,
    next_count: Option<Instant>,
    /// The time when the presumptions of inherited entries end, if there are any.
    presumes_until: Option<Instant>,
    /// The number of upcalls for which there was no room for an entry.
    refused: u64,
    out: VecDeque<Transmit>,
}

impl Router {
    pub fn new(config: RouterConfig) -> Self {
        Self { config, ..Self::default() }
    }

    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Up { link, address } => self.up(now, link, address),
            Input::Down { link } => self.down(now, link),
            Input::Upstream(upstream) => self.set_upstream(now, upstream),
            Input::Message { link, from, message } => self.hear(now, link, from, message),
            Input::NoEntry { link, source, group } => self.no_entry(now, link, source, group),
            Input::Inherited { source, group, forwarding } => self.inherit(now, source, group, forwarding),
            Input::WrongLink { link, source, group } => self.wrong_link(now, link, source, group),
            Input::Route { source, route } => self.found_route(now, source, route),
            Input::RoutesChanged => self.look_up_all_routes(),
            Input::Counted { source, group, packets } => self.counted(now, source, group, packets),
        }
    }

    /// The next step; see the crate's documentation.
    pub fn poll(&mut self, now: Instant) -> Step<Transmit, Event, Wait> {
        self.count(now);
        self.forget_presumptions(now);
        while self.out.is_empty() {
            let Some((link, output)) = self.poll_links(now) else { break };
            match output {
                Output::Send(message) => self.send(now, link, message),
                Output::Changed(group) => {
                    let filter = self.links.get(&link).map_or(Filter::NOTHING, |link| link.filter(group));
                    self.entries.confirm(group, link, |source| filter.passes(source));
                    self.refresh(now, group);
                }
                Output::QuerierChanged if self.config.upstream.is_some() => self.refresh_all(now),
                Output::QuerierChanged => {}
                Output::Full => return Step::Event(Event::Full { link }),
            }
        }
        if self.out.is_empty() {
            self.report(now);
        }
        if let Some(transmit) = self.out.pop_front() {
            return Step::Transmit(transmit);
        }
        let links = self.links.values().map(Link::deadline).min();
        let why = if links.is_some() { Wait::Network } else { Wait::Links };
        let hosts = self.hosts.values().filter_map(Host::deadline);
        let own = [self.next_count, self.presumes_until].into_iter().flatten();
        Step::Wait(links.into_iter().chain(hosts).chain(own).min(), why)
    }

    /// Stops the router: it leaves all groups, and tells bridges, so that they need not find out.
    pub fn close(&mut self, now: Instant) {
        let timers = Timers { robustness: 1, ..self.config.timers };
        for host in self.hosts.values_mut() {
            let groups: Vec<_> = host.wanted().map(|(group, _)| group).collect();
            groups.into_iter().for_each(|group| host.want(now, group, Filter::NOTHING, &timers));
        }
        self.report(now);
        let message = Message::RouterTermination;
        let links = self.links.keys();
        self.out.extend(links.map(|link| Transmit::Send { link: *link, message: message.clone() }));
        self.links.clear();
        self.hosts.clear();
    }

    /// The router's state, for people.
    pub fn snapshot(&self, now: Instant) -> RouterSnapshot {
        let refused_links: u64 = self.links.values().map(|link| link.room().refused).sum();
        RouterSnapshot::new(
            now,
            &self.links,
            self.upstream,
            self.entries.iter(),
            &self.hosts,
            self.refused + refused_links,
        )
    }

    /// The room of a link for its hosts. `None` for the upstream, and for a link that is not up.
    pub fn room(&self, link: LinkId) -> Option<RoomSnapshot> {
        self.links.get(&link).map(Link::room)
    }

    /// The link of senders to any-source groups, if one is configured and up.
    pub fn upstream(&self) -> Option<LinkId> {
        self.upstream.map(|(link, _)| link)
    }

    /// Returns the treatment of packets to `group` at `link`. Without a source: of packets from any source.
    /// Without a group: of packets to a group that somebody wants there.
    pub fn passing(&self, link: LinkId, source: Option<IpAddr>, group: Option<IpAddr>) -> Passing {
        let on_link = self.links.get(&link);
        let is_upstream = self.upstream.is_some_and(|(upstream, _)| upstream == link);
        let is_served = on_link.is_some_and(|on_link| self.config.upstream.is_none() || on_link.is_querier());
        if !(is_served || is_upstream && group.is_none_or(|group| !is_source_specific(group))) {
            return Passing::NotServed;
        }
        let Some(group) = group else { return Passing::Forwarded };
        if !is_routable_group(group) || source.is_some_and(|source| !is_routable_source(source)) {
            return Passing::OutOfScope;
        }
        let entry = source.and_then(|source| self.entries.get(group, source));
        let wants =
            |filter: Filter| source.map_or(filter.mode == Mode::Exclude, |source| filter.passes(source));
        let is_forwarded = match entry.and_then(|entry| entry.installed.as_ref()) {
            Some(forwarding) => forwarding.to.contains(&link),
            None => is_upstream || on_link.is_some_and(|on_link| wants(on_link.filter(group))),
        };
        if is_forwarded { Passing::Forwarded } else { Passing::NotWanted }
    }

    fn up(&mut self, now: Instant, id: LinkId, address: IpAddr) {
        self.hosts.entry(id).or_insert_with(Host::of_router);
        if self.config.upstream == Some(id) {
            self.upstream = Some((id, address));
        } else if let Some(link) = self.links.get_mut(&id) {
            return link.set_address(address);
        } else {
            self.links.insert(id, Link::new(now, address, self.config.timers, self.config.limits));
        }
        self.refresh_all(now);
    }

    fn down(&mut self, now: Instant, id: LinkId) {
        self.hosts.remove(&id);
        self.learned.retain(|_, ways| !ways.contains(&id));
        self.upstream.take_if(|(upstream, _)| *upstream == id);
        let link = self.links.remove(&id);
        for (group, _) in link.iter().flat_map(Link::groups) {
            self.refresh(now, group);
        }
        self.refresh_all(now);
    }

    /// Changes the upstream. The old and the new one, if they are up, go down and come up again in their new
    /// roles.
    fn set_upstream(&mut self, now: Instant, upstream: Option<LinkId>) {
        if self.config.upstream == upstream {
            return;
        }
        self.config.upstream = upstream;
        let new = upstream.and_then(|id| Some((id, self.links.get(&id)?.address())));
        for (id, address) in self.upstream.take().into_iter().chain(new) {
            self.down(now, id);
            self.up(now, id, address);
        }
    }

    fn has(&self, id: LinkId) -> bool {
        self.hosts.contains_key(&id)
    }

    /// Handles a neighbour's message: messages are for the router, and queries also for it as a host.
    fn hear(&mut self, now: Instant, id: LinkId, from: IpAddr, message: Message) {
        let link = self.links.get_mut(&id);
        let of_upstream = self.upstream.filter(|(upstream, _)| *upstream == id).map(|(_, own)| own);
        let Some(own) = link.as_ref().map(|link| link.address()).or(of_upstream) else { return };
        if let Some(host) = self.hosts.get_mut(&id).filter(|_| from != own) {
            host.heard(now, own, &message, link.as_ref().map_or(&self.config.timers, |link| link.timers()));
        }
        if let Some(link) = link {
            link.handle(now, from, message);
        }
    }

    /// Sends a message of a link. If it is a query, this router answers it, too, because other routers there
    /// need to hear the answer.
    fn send(&mut self, now: Instant, id: LinkId, message: Message) {
        if let (Some(host), Some(link)) = (self.hosts.get_mut(&id), self.links.get(&id)) {
            host.heard(now, link.address(), &message, link.timers());
        }
        self.out.push_back(Transmit::Send { link: id, message });
    }

    /// Sends the reports that the router has to send as a host.
    fn report(&mut self, now: Instant) {
        for (link, host) in &mut self.hosts {
            let messages = host.due(now);
            self.out.extend(messages.into_iter().map(|message| Transmit::Send { link: *link, message }));
        }
    }

    fn poll_links(&mut self, now: Instant) -> Option<(LinkId, Output)> {
        self.links.iter_mut().find_map(|(id, link)| Some((*id, link.poll(now)?)))
    }

    fn no_entry(&mut self, now: Instant, link: LinkId, source: IpAddr, group: IpAddr) {
        if !is_routable_group(group) || !self.has(link) {
            return;
        }
        let full = self.entries.len() >= self.config.limits.entries;
        match self.entries.get_mut(group, source) {
            // The kernel has lost the entry, or was not told of it yet.
            Some(entry) => entry.installed = None,
            None if full => {
                self.refused += 1;
                return;
            }
            None => self.entries.insert(now, group, source, link),
        }
        self.refresh_entry(now, group, source);
    }

    /// Adopts an entry as it is. Listeners have time to answer two queries, because one may get lost.
    fn inherit(&mut self, now: Instant, source: IpAddr, group: IpAddr, forwarding: Forwarding) {
        let is_wanted = is_routable_group(group) && self.has(forwarding.from);
        if !is_wanted || self.entries.len() >= self.config.limits.entries {
            self.out.push_back(Transmit::Remove { source, group });
            return;
        }
        self.entries.insert(now, group, source, forwarding.from);
        if let Some(entry) = self.entries.get_mut(group, source) {
            entry.presumed.clone_from(&forwarding.to);
            entry.installed = Some(forwarding);
        }
        let timers = &self.config.timers;
        let until = now + timers.startup_query_interval() + timers.startup_response_interval() * 2;
        self.presumes_until = Some(until);
        self.route(source);
    }

    fn forget_presumptions(&mut self, now: Instant) {
        if self.presumes_until.take_if(|until| *until <= now).is_some() {
            for (group, source) in self.entries.forget_presumptions() {
                self.refresh_entry(now, group, source);
            }
        }
    }

    /// Handles a packet that came by the wrong link. There are two possible reasons. The route has changed, or,
    /// without a route, the source has moved. Or another router forwards to a link to which this one forwards,
    /// too, which does not concern the entry.
    fn wrong_link(&mut self, now: Instant, link: LinkId, source: IpAddr, group: IpAddr) {
        let unrouted = self.routes.get(&source) == Some(&Some(Route::None));
        if let Some(entry) = self.entries.get_mut(group, source) {
            if unrouted {
                entry.arrived = link;
            }
            entry.is_suspect = !unrouted;
        }
        if self.routes.contains_key(&source) {
            self.out.push_back(Transmit::FindRoute { source });
        }
        self.refresh_entry(now, group, source);
    }

    fn found_route(&mut self, now: Instant, source: IpAddr, route: Route) {
        let Some(known) = self.routes.get_mut(&source) else { return };
        if known.replace(route) == Some(route) {
            return self.learn(now, source);
        }
        let of_entries = self.entries.iter().filter(|(_, of, _)| *of == source).map(|(group, ..)| group);
        let named = self.links.values().flat_map(Link::groups);
        let of_requests =
            named.filter(|(_, group)| group.requested().any(|(of, _)| of == source)).map(|(group, _)| group);
        let groups: BTreeSet<_> = of_entries.chain(of_requests).collect();
        groups.into_iter().for_each(|group| self.refresh(now, group));
    }

    /// Handles an unchanged route to `source`. If its packets came by another link nevertheless, the network
    /// has a loop, in which joins would keep each other alive. So its groups get an upstream.
    fn learn(&mut self, now: Instant, source: IpAddr) {
        for group in self.entries.take_suspicions(source) {
            let ways = self.entries.ways(group);
            if self.config.upstream.is_none() && !ways.is_empty() {
                self.learned.insert(group, ways);
                self.refresh(now, group);
            }
        }
    }

    /// Updates the links of a group that has learned upstreams, and forgets them when nobody wants the group.
    fn learn_again(&mut self, group: IpAddr) {
        let Some(learned) = self.learned.get_mut(&group) else { return };
        let ways = self.entries.ways(group);
        if !ways.is_empty() {
            *learned = ways;
        } else if self.links.values().all(|link| link.filter(group).is_nothing()) {
            self.learned.remove(&group);
        }
    }

    fn look_up_all_routes(&mut self) {
        self.out.extend(self.routes.keys().map(|source| Transmit::FindRoute { source: *source }));
    }

    /// The link by which packets from `source` come in, if a route says so.
    fn route(&mut self, source: IpAddr) -> Option<Route> {
        if let Some(known) = self.routes.get(&source) {
            return *known;
        }
        if self.routes.len() >= self.config.limits.routes {
            self.refused += 1;
            return None;
        }
        self.routes.insert(source, None);
        self.out.push_back(Transmit::FindRoute { source });
        None
    }

    fn refresh_all(&mut self, now: Instant) {
        let listened = self.links.values().flat_map(|link| link.groups().map(|(group, _)| group));
        let forwarded = self.entries.iter().map(|(group, ..)| group);
        let groups: BTreeSet<_> = listened.chain(forwarded).collect();
        groups.into_iter().for_each(|group| self.refresh(now, group));
    }

    /// Updates everything about `group` to what its listeners want now.
    fn refresh(&mut self, now: Instant, group: IpAddr) {
        self.listen_everywhere(now, group);
        for source in self.entries.sources(group) {
            self.refresh_entry(now, group, source);
        }
    }

    fn listen_everywhere(&mut self, now: Instant, group: IpAddr) {
        self.learn_again(group);
        let filters: Vec<(LinkId, Filter)> =
            self.links.iter().map(|(id, link)| (*id, link.filter(group))).collect();
        let upstream = self.upstream.map(|(link, _)| link);
        for link in filters.iter().map(|(link, _)| *link).chain(upstream) {
            self.listen(now, link, group, &filters);
        }
    }

    /// Listens on `link` to what the listeners of all other links want from there.
    fn listen(&mut self, now: Instant, link: LinkId, group: IpAddr, filters: &[(LinkId, Filter)]) {
        let here = match self.config.upstream {
            Some(upstream) => upstream == link,
            None if self.config.source_trees => true,
            None => self.learned.get(&group).is_none_or(|ways| ways.contains(&link)),
        };
        let mut wanted = Filter::NOTHING;
        for (_, filter) in filters.iter().filter(|(other, _)| *other != link) {
            if filter.mode == Mode::Include || here {
                wanted.merge(filter);
            }
        }
        if wanted.mode == Mode::Include {
            wanted.sources.retain(|source| self.route(*source) == Some(Route::Via(link)));
        } else if self.config.source_trees && self.config.upstream.is_none() {
            wanted.sources.extend(self.entries.sources_elsewhere(group, link).take(MAX_EXCLUDED));
        }
        let Some(host) = self.hosts.get_mut(&link) else { return };
        let before = host.wanted_of(group);
        if before == wanted {
            return;
        }
        if let Some(on_link) = self.links.get_mut(&link) {
            on_link.listens(now, group, &before, &wanted);
        }
        let timers = self.links.get(&link).map_or(&self.config.timers, Link::timers);
        host.want(now, group, wanted, timers);
    }

    fn refresh_entry(&mut self, now: Instant, group: IpAddr, source: IpAddr) {
        let Some(route) = self.route(source) else { return };
        let Some(arrived) = self.entries.get_mut(group, source).map(|entry| entry.arrived) else { return };
        let forwarding = match route {
            Route::None => Forwarding { from: arrived, to: self.outgoing(arrived, source, group) },
            Route::Via(from) if self.has(from) => Forwarding { from, to: self.outgoing(from, source, group) },
            // The route leads to an interface that the router does not use, so nothing is forwarded.
            Route::Via(_) => Forwarding { from: arrived, to: BTreeSet::new() },
        };
        self.forward(now, group, source, forwarding);
    }

    /// Updates the kernel's entry to `forwarding`.
    fn forward(&mut self, now: Instant, group: IpAddr, source: IpAddr, forwarding: Forwarding) {
        let is_up = self.has(forwarding.from);
        let Some(entry) = self.entries.get_mut(group, source) else { return };
        let before = entry.installed.replace(forwarding.clone());
        if before.as_ref() == Some(&forwarding) {
            return;
        }
        let served = before.as_ref().is_some_and(|before| !before.to.is_empty());
        // With a tree for each source, the entry is also what tells where copies of its packets come from. Without it, this router
        // would ask for them again.
        let has_use = self.config.source_trees && self.config.upstream.is_none();
        if !is_up || served && forwarding.to.is_empty() && !has_use {
            self.remove(now, group, source);
            return;
        }
        self.out.push_back(Transmit::Install { source, group, forwarding });
        self.listen_everywhere(now, group);
    }

    fn remove(&mut self, now: Instant, group: IpAddr, source: IpAddr) {
        self.entries.remove(group, source);
        self.out.push_back(Transmit::Remove { source, group });
        self.listen_everywhere(now, group);
    }

    /// The links by which packets of `source` that come in by `from` go out.
    fn outgoing(&self, from: LinkId, source: IpAddr, group: IpAddr) -> BTreeSet<LinkId> {
        let serves = |link: &Link| self.config.upstream.is_none() || link.is_querier();
        if !is_routable_source(source) || !self.links.get(&from).is_none_or(serves) {
            return BTreeSet::new();
        }
        let presumed = self.entries.get(group, source).map(|entry| &entry.presumed);
        let is_presumed = |id| presumed.is_some_and(|presumed| presumed.contains(id));
        let wants = |id, link: &Link| link.filter(group).passes(source) || is_presumed(id);
        let wanted = self.links.iter().filter(|(id, link)| serves(link) && wants(*id, link));
        let upstream = self.upstream.filter(|_| !is_source_specific(group));
        let outgoing = wanted.map(|(id, _)| *id).chain(upstream.map(|(id, _)| id));
        outgoing.filter(|link| *link != from).collect()
    }

    fn count(&mut self, now: Instant) {
        // Every source of an entry has a route, so without routes there is nothing to do.
        if self.routes.is_empty() {
            self.next_count = None;
            return;
        }
        let at = *self.next_count.get_or_insert(now + COUNT_INTERVAL.min(self.config.entry_idle / 2));
        if at > now {
            return;
        }
        self.next_count = None;
        self.forget_unused_routes();
        let entries = self.entries.iter();
        self.out.extend(entries.map(|(group, source, _)| Transmit::Count { source, group }));
    }

    fn counted(&mut self, now: Instant, source: IpAddr, group: IpAddr, packets: u64) {
        let Some(entry) = self.entries.get_mut(group, source) else { return };
        if entry.counted(now, packets, self.config.entry_idle) {
            if self.entries.sources(group) == [source] {
                self.learned.remove(&group);
            }
            self.remove(now, group, source);
        }
    }

    fn forget_unused_routes(&mut self) {
        let mut used: BTreeSet<IpAddr> = self.entries.iter().map(|(_, source, _)| source).collect();
        for (_, group) in self.links.values().flat_map(Link::groups) {
            used.extend(group.requested().map(|(source, _)| source));
        }
        self.routes.retain(|source, _| used.contains(source));
    }
}
