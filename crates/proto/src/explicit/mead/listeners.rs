//! The hosts on a designated router's links that listen to groups.
//!
//! Receivers register as in Xcast+ (RFC 5058): they join a group, at their own router alone, by MLD (RFC
//! 9777), which every kernel speaks. [`Link`] asks and says whether anybody listens; here it is remembered,
//! too, which hosts have said so, because a router only offers to serve those. Hosts are known by their
//! Ethernet addresses: reports come from link-local ones.
//!
//! Where a link has several routers, only its querier offers anything: each listener is to get one copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
};

use treecast_wire::{ipv6::is_forwardable, membership::RecordKind, mld};

use crate::{
    Instant,
    membership::{Filter, Limits, Link, LinkOutput, Message, Mode, Record, Timers, is_routable_group},
};

/// An Ethernet address.
pub type Host = [u8; 6];

/// Hosts with their groups that are remembered; when there are more, they are not offered anything.
const MAX_HOSTS: usize = 16_384;

/// The most sources of a group that a host may name. A host that names more is not offered anything.
const MAX_SOURCES: usize = 64;

/// The listeners on all links of a router, as hosts have reported them. Call [`Self::handle`] for each report,
/// then [`Self::poll`] until it returns none, and again when [`Self::deadline`] has come.
#[derive(Debug, Default)]
pub struct Listeners {
    timers: Timers,
    links: BTreeMap<u32, Link>,
    /// The sources that each host wants of a group, and the time until which that holds.
    hosts: BTreeMap<(u32, Host, Ipv6Addr), (Filter, Instant)>,
}

impl Listeners {
    /// Adds a link, which is known by the number of its interface. `address` is the link-local address that the
    /// router has there.
    pub fn add_link(&mut self, now: Instant, interface: u32, address: Ipv6Addr) {
        let new = || Link::new(now, address.into(), self.timers, Limits::default());
        self.links.entry(interface).or_insert_with(new).set_address(address.into());
    }

    /// Removes a link that no longer exists.
    pub fn remove_link(&mut self, interface: u32) {
        self.links.remove(&interface);
        self.hosts.retain(|(link, ..), _| *link != interface);
    }

    /// Iterates over the links, which are known by the numbers of their interfaces.
    pub fn links(&self) -> impl Iterator<Item = u32> {
        self.links.keys().copied()
    }

    /// Returns the address that the router has on a link.
    pub fn address(&self, interface: u32) -> Option<IpAddr> {
        self.links.get(&interface).map(Link::address)
    }

    /// Takes in a message that a host has sent from a link-local address.
    pub fn handle(&mut self, now: Instant, interface: u32, host: Host, from: Ipv6Addr, said: mld::Message) {
        let Some(link) = self.links.get_mut(&interface) else { return };
        let Some(message) = Message::from_wire(said) else { return };
        if link.address() == IpAddr::from(from) {
            return;
        }
        for record in records(&message) {
            self.note(now, interface, host, &record);
        }
        if let Some(link) = self.links.get_mut(&interface) {
            link.handle(now, from.into(), message);
        }
    }

    /// Returns the next message to send, and the link to send it on. None: there is nothing to send before the
    /// [`Self::deadline`] or the next input.
    pub fn poll(&mut self, now: Instant) -> Option<(u32, Message)> {
        for (interface, link) in &mut self.links {
            while let Some(output) = link.poll(now) {
                if let LinkOutput::Send(message) = output {
                    return Some((*interface, message));
                }
            }
        }
        None
    }

    /// Returns when [`Self::poll`] has something to do even if no input comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.links.values().map(Link::deadline).min()
    }

    /// Returns the groups that somebody listens to, each with the links of its listeners.
    pub fn groups(&self) -> BTreeMap<Ipv6Addr, BTreeSet<u32>> {
        let mut groups: BTreeMap<Ipv6Addr, BTreeSet<u32>> = BTreeMap::new();
        for (interface, link) in &self.links {
            for (group, state) in link.groups() {
                if let (IpAddr::V6(address), false) = (group, state.filter().is_nothing())
                    && is_routable_group(group)
                {
                    groups.entry(address).or_default().insert(*interface);
                }
            }
        }
        groups
    }

    /// Returns at most `most` channels (a source and a group each) that hosts have joined on links where this
    /// router is the one to serve them.
    pub fn channels(&self, now: Instant, most: usize) -> BTreeSet<(Ipv6Addr, Ipv6Addr)> {
        let is_querier = |interface| self.links.get(interface).is_some_and(Link::is_querier);
        let mut channels = BTreeSet::new();
        for ((interface, _, group), (filter, until)) in &self.hosts {
            if *until <= now || filter.mode != Mode::Include || !is_querier(interface) {
                continue;
            }
            for source in &filter.sources {
                if let IpAddr::V6(source) = source
                    && is_forwardable(*source)
                    && channels.len() < most
                {
                    channels.insert((*source, *group));
                }
            }
        }
        channels
    }

    /// Whether a multicast packet from `source` to the group on this link would reach the host, and this router
    /// is the one that sends such packets there.
    pub fn serves(
        &self,
        now: Instant,
        interface: u32,
        host: Host,
        source: Ipv6Addr,
        group: Ipv6Addr,
    ) -> bool {
        let is_querier = self.links.get(&interface).is_some_and(Link::is_querier);
        let said = self.hosts.get(&(interface, host, group));
        is_querier && said.is_some_and(|(filter, until)| *until > now && filter.passes(source.into()))
    }

    /// Notes what a host wants, which is what it said last (RFC 9777, 5.2.12).
    fn note(&mut self, now: Instant, interface: u32, host: Host, record: &Record) {
        let IpAddr::V6(group) = record.group else { return };
        if !is_routable_group(record.group) {
            return;
        }
        let key = (interface, host, group);
        let before = self.hosts.get(&key).filter(|(_, until)| *until > now);
        let filter = changed(before.map_or(&Filter::NOTHING, |(filter, _)| filter), record);
        if filter.is_nothing() || filter.sources.len() > MAX_SOURCES {
            self.hosts.remove(&key);
            return;
        }
        if self.hosts.len() >= MAX_HOSTS {
            self.hosts.retain(|_, (_, until)| *until > now);
        }
        if self.hosts.len() < MAX_HOSTS || self.hosts.contains_key(&key) {
            self.hosts.insert(key, (filter, now + self.timers.listening_interval()));
        }
    }
}

/// The records of groups in a message. Those of version 1 are put in the words of version 2.
fn records(message: &Message) -> Vec<Record> {
    let of_all = |kind, group: &IpAddr| vec![Record { kind, group: *group, sources: Vec::new() }];
    match message {
        Message::Report(records) => records.clone(),
        Message::OldReport(group) => of_all(RecordKind::IsExclude, group),
        Message::OldLeave(group) => of_all(RecordKind::ToInclude, group),
        _ => Vec::new(),
    }
}

/// The sources that a host wants after a record.
fn changed(before: &Filter, record: &Record) -> Filter {
    let sources = || record.sources.iter().copied();
    let is_listed = |source: &IpAddr| record.sources.contains(source);
    let mut filter = before.clone();
    match (record.kind, before.mode) {
        (RecordKind::IsInclude | RecordKind::ToInclude, _) => return Filter::include(sources()),
        (RecordKind::IsExclude | RecordKind::ToExclude, _) => return Filter::exclude(sources()),
        (RecordKind::Allow, Mode::Include) | (RecordKind::Block, Mode::Exclude) => {
            filter.sources.extend(sources());
        }
        (RecordKind::Allow, Mode::Exclude) | (RecordKind::Block, Mode::Include) => {
            filter.sources.retain(|source| !is_listed(source));
        }
    }
    filter
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 5);
    const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 0, 0, 1);
    const OTHER: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 0, 0, 2);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9);
    const LAN: u32 = 7;

    fn host(number: u8) -> (Host, Ipv6Addr) {
        ([2, 0, 0, 0, 0, number], Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number.into()))
    }

    fn report(kind: RecordKind, group: Ipv6Addr, sources: &[Ipv6Addr]) -> mld::Message {
        let record = mld::GroupRecord { kind, group, sources: sources.to_vec() };
        mld::Message::Report(mld::Report { records: vec![record] })
    }

    fn on_lan() -> Listeners {
        let mut listeners = Listeners::default();
        listeners.add_link(Instant::ZERO, LAN, ROUTER);
        listeners
    }

    fn say(listeners: &mut Listeners, at: u64, number: u8, said: mld::Message) {
        let (host, from) = host(number);
        let now = Instant::ZERO + Duration::from_secs(at);
        listeners.handle(now, LAN, host, from, said);
        while listeners.poll(now).is_some() {}
    }

    fn is_served(listeners: &Listeners, at: u64, number: u8, source: Ipv6Addr) -> bool {
        listeners.serves(Instant::ZERO + Duration::from_secs(at), LAN, host(number).0, source, GROUP)
    }

    #[test]
    fn only_who_has_joined_is_served_and_only_by_what_it_wants() {
        let mut listeners = on_lan();
        let (interface, query) = listeners.poll(Instant::ZERO).expect("it asks at once");
        assert!(interface == LAN && matches!(query, Message::Query(_)), "{query:?}");
        say(&mut listeners, 1, 1, report(RecordKind::ToExclude, GROUP, &[]));
        say(&mut listeners, 1, 2, report(RecordKind::Allow, GROUP, &[SOURCE]));
        assert_eq!(listeners.groups(), [(GROUP, [LAN].into())].into());
        assert_eq!([1, 2, 3].map(|number| is_served(&listeners, 2, number, SOURCE)), [true, true, false]);
        assert_eq!([1, 2].map(|number| is_served(&listeners, 2, number, OTHER)), [true, false]);
        say(&mut listeners, 3, 1, report(RecordKind::Block, GROUP, &[SOURCE]));
        assert!(!is_served(&listeners, 3, 1, SOURCE) && is_served(&listeners, 3, 1, OTHER));
        say(&mut listeners, 4, 2, report(RecordKind::Block, GROUP, &[SOURCE]));
        say(&mut listeners, 4, 1, report(RecordKind::ToInclude, GROUP, &[]));
        assert!([1, 2].iter().all(|number| !is_served(&listeners, 4, *number, SOURCE)));
        assert!(!listeners.groups().is_empty(), "others are asked first");
        say(&mut listeners, 10, 3, report(RecordKind::IsInclude, OTHER, &[]));
        assert!(listeners.groups().is_empty());
    }

    #[test]
    fn channels_are_what_hosts_have_joined_by_source() {
        let mut listeners = on_lan();
        let channels = |listeners: &Listeners, at, most| {
            listeners.channels(Instant::ZERO + Duration::from_secs(at), most).into_iter().collect::<Vec<_>>()
        };
        say(&mut listeners, 1, 1, report(RecordKind::ToExclude, GROUP, &[]));
        assert!(channels(&listeners, 2, 9).is_empty(), "any source is no channel");
        say(&mut listeners, 1, 2, report(RecordKind::Allow, GROUP, &[SOURCE, OTHER]));
        say(&mut listeners, 1, 3, report(RecordKind::Allow, GROUP, &[SOURCE]));
        assert_eq!(channels(&listeners, 2, 9), [(SOURCE, GROUP), (OTHER, GROUP)]);
        assert_eq!(channels(&listeners, 2, 1).len(), 1);
        say(&mut listeners, 3, 2, report(RecordKind::Block, GROUP, &[OTHER, SOURCE]));
        assert_eq!(channels(&listeners, 3, 9), [(SOURCE, GROUP)]);
        assert!(channels(&listeners, 300, 9).is_empty(), "who is silent is forgotten");
    }

    #[test]
    fn hosts_of_version_one_are_heard_and_who_is_silent_is_forgotten() {
        let mut listeners = on_lan();
        let body = mld::V1 { max_response: Duration::ZERO, group: Some(GROUP) };
        say(&mut listeners, 0, 1, mld::Message::OldReport(body));
        say(&mut listeners, 0, 2, mld::Message::OldReport(body));
        assert!(is_served(&listeners, 259, 1, SOURCE));
        say(&mut listeners, 100, 2, mld::Message::OldLeave(body));
        assert!(!is_served(&listeners, 100, 2, SOURCE));
        assert!(!is_served(&listeners, 261, 1, SOURCE));
    }

    #[test]
    fn another_querier_serves_the_link_and_groups_of_the_link_are_nobodys() {
        let mut listeners = on_lan();
        say(&mut listeners, 0, 1, report(RecordKind::IsExclude, GROUP, &[]));
        say(&mut listeners, 0, 1, report(RecordKind::IsExclude, mld::ALL_SNOOPERS, &[]));
        assert_eq!(listeners.groups().len(), 1);
        let query = |listeners: &mut Listeners, from: Ipv6Addr| {
            let query = mld::Query::general(Duration::from_secs(10), Duration::from_secs(125));
            listeners.handle(Instant::ZERO, LAN, host(9).0, from, mld::Message::Query(query));
        };
        query(&mut listeners, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 6));
        assert!(is_served(&listeners, 1, 1, SOURCE), "a higher address yields");
        query(&mut listeners, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 4));
        assert!(!is_served(&listeners, 1, 1, SOURCE));
        listeners.remove_link(LAN);
        assert!(listeners.groups().is_empty() && listeners.hosts.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut listeners = on_lan();
        for number in 0..MAX_HOSTS as u32 + 100 {
            let group = Ipv6Addr::from(u128::from(GROUP) + u128::from(number) * 1000);
            let said = report(RecordKind::IsExclude, group, &[]);
            listeners.handle(Instant::ZERO, LAN, host(1).0, host(1).1, said);
        }
        assert_eq!(listeners.hosts.len(), MAX_HOSTS);
        for source in 0..200 {
            let said = report(RecordKind::Allow, GROUP, &[Ipv6Addr::from(u128::from(SOURCE) + source)]);
            listeners.handle(Instant::ZERO, LAN, host(1).0, host(1).1, said);
        }
        assert!(listeners.hosts.values().all(|(filter, _)| filter.sources.len() <= MAX_SOURCES));
    }
}
