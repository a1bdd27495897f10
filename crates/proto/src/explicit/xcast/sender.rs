//! The packets of an Xcast sender: all receivers stand in lists, and in Xcast+ the routers that have registered.
//!
//! Nothing is looked for: where no router knows Xcast, only the first destination of a list hears. So whoever is on the sender's own
//! link stands in none: a list that is addressed to it would pass no router. Neighbouring addresses stand in one list, for they mostly
//! lie behind one next hop. What ICMPv6 says about packets is heeded as by MEADcast's sender
//! ([`crate::explicit::mead::sender`]): receivers behind narrow ways get shorter lists, and those whose lists are turned away get
//! unicast for a minute.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::Ipv6Addr,
};

use treecast_wire::{
    icmpv6::Cause,
    xcast::{Header, Registration},
};

use super::registration::{Channel, Refused, Registered};
use crate::{
    Instant, Step,
    explicit::{
        authentication::DomainKey,
        lists::{List, TransmissionGroup},
        mead::sender::{Event, Lost, Paths, replace},
    },
};

/// The settings of an Xcast sender.
#[derive(Debug, Clone)]
pub struct Config {
    /// The most destinations in a list, 2 to 32.
    pub max: usize,
    /// The channel for which routers register, with Xcast+.
    pub channel: Option<Channel>,
    /// The domain's key. With a key, only registrations that were made with it count.
    pub key: Option<DomainKey>,
}

/// Something that has happened at the sender.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A receiver joins; its address and its UDP port.
    Join(Ipv6Addr, u16),
    /// This receiver is on the sender's own link.
    OnLink(Ipv6Addr),
    /// A receiver leaves.
    Leave(Ipv6Addr),
    /// A router has registered, or has said that it no longer wants packets.
    Registration(&'a Registration),
    /// An ICMPv6 error says that a packet of this sender did not arrive.
    Lost(Lost<'a, Header>, Cause),
}

/// The reason why the sender waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The sender waits until the next learnt fact about a path is to be forgotten, or the next registration
    /// ends.
    Expiry,
}

/// Counts of what an Xcast sender has received since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// The number of registrations that were used.
    pub registrations: u64,
    /// The number of registrations that were for another channel, or too many.
    pub unwanted: u64,
    /// The number of registrations that were not made with the key.
    pub forged: u64,
    /// The number of registrations that are older than one from the same router.
    pub replayed: u64,
    /// The number of ICMPv6 errors that cannot be right, or that are not about a packet of this sender.
    pub stray: u64,
}

/// The machine. [`crate`] says in which order to call it; it transmits nothing itself.
pub struct Sender {
    config: Config,
    members: BTreeMap<Ipv6Addr, u16>,
    on_link: BTreeSet<Ipv6Addr>,
    registered: Registered,
    paths: Paths,
    group: TransmissionGroup,
    counters: Counters,
    events: VecDeque<Event>,
    /// The time when the group is to be made anew. `None`: not before something happens.
    due: Option<Instant>,
}

impl Sender {
    /// Creates a sender without receivers. Receivers join later.
    pub fn new(config: Config) -> Self {
        let registered = Registered::new(config.key.clone());
        Self {
            config,
            members: BTreeMap::new(),
            on_link: BTreeSet::new(),
            registered,
            paths: Paths::default(),
            group: TransmissionGroup::default(),
            counters: Counters::default(),
            events: VecDeque::new(),
            due: None,
        }
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes note of what has happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Join(receiver, port) => _ = self.members.insert(receiver, port),
            Input::OnLink(receiver) => _ = self.on_link.insert(receiver),
            Input::Leave(receiver) => {
                self.members.remove(&receiver);
                self.on_link.remove(&receiver);
                self.paths.forget(receiver);
            }
            Input::Registration(registration) => self.register(now, registration),
            Input::Lost(packet, cause) => self.lose(now, &packet, cause),
        }
        self.due = Some(now);
    }

    /// Returns what the caller is to do next.
    pub fn poll(&mut self, now: Instant) -> Step<std::convert::Infallible, Event, Reason> {
        if self.due.is_some_and(|due| now >= due) {
            self.paths.expire(now);
            self.registered.expire(now);
            self.regroup(now);
            self.due = self.deadline(now);
        }
        match self.events.pop_front() {
            Some(event) => Step::Event(event),
            None => Step::Wait(self.due, Reason::Expiry),
        }
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let paths = self.paths.next_expiry().into_iter().chain(self.paths.next_trial());
        paths.chain(self.registered.deadline(now)).min()
    }

    fn register(&mut self, now: Instant, registration: &Registration) {
        if self.config.channel != Some((registration.source, registration.group)) {
            self.counters.unwanted += 1;
            return;
        }
        let counter = match self.registered.hear(now, registration) {
            Ok(_) => &mut self.counters.registrations,
            Err(Refused::Forged) => &mut self.counters.forged,
            Err(Refused::Replayed) => &mut self.counters.replayed,
            Err(Refused::TooMany) => &mut self.counters.unwanted,
        };
        *counter += 1;
    }

    /// Makes the group anew, and tells of it when it is another.
    fn regroup(&mut self, now: Instant) {
        let avoided: BTreeSet<_> = self.paths.avoided(now).into_iter().collect();
        let is_alone = |receiver: &Ipv6Addr| avoided.contains(receiver) || self.on_link.contains(receiver);
        let (mut unicast, listed): (Vec<_>, Vec<_>) = self.members.keys().copied().partition(is_alone);
        // A list with one is none.
        let (lists, single): (Vec<_>, Vec<_>) = List::of_neighbours(&listed, self.config.max)
            .into_iter()
            .partition(|list| list.designated.len() > 1);
        unicast.extend(single.iter().flat_map(List::receivers));
        let channel = self.config.channel;
        let group = TransmissionGroup {
            lists,
            unicast,
            routers: channel.map(|channel| self.registered.routers(now, channel)).unwrap_or_default(),
            ports: self.members.clone(),
            path_mtus: self.paths.mtus(),
            ..TransmissionGroup::default()
        };
        replace(&mut self.group, group, &mut self.events);
    }

    /// Decides what to do about a packet that did not arrive.
    fn lose(&mut self, now: Instant, packet: &Lost<'_, Header>, cause: Cause) {
        let mut receivers: Vec<_> = match packet.header {
            Some(header) => header.valid_destinations().collect(),
            None => vec![packet.destination],
        };
        receivers.retain(|receiver| self.members.contains_key(receiver));
        let ports = receivers.iter().map(|receiver| self.members.get(receiver).copied());
        let can_be = packet.can_be(cause, ports);
        if receivers.is_empty() || !can_be {
            self.counters.stray += 1;
            return;
        }
        self.events.extend(self.paths.lose(now, receivers, cause, packet.header.is_some()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treecast_wire::{icmpv6::Unreachable, ipv6::next_header};

    use super::*;
    use crate::explicit::xcast::registration::HOLDING;

    const SOURCE: Ipv6Addr = node(0x1000);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1);

    const fn node(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn sender(max: usize, receivers: u16) -> Sender {
        let mut sender = Sender::new(Config { max, channel: Some((SOURCE, GROUP)), key: None });
        (1..=receivers).for_each(|one| sender.handle(at(0), Input::Join(node(one), 5000)));
        sender
    }

    /// The newest group, and other events.
    fn told(sender: &mut Sender, now: Instant) -> (Option<TransmissionGroup>, Vec<Event>) {
        let (mut group, mut others) = (None, Vec::new());
        while let Step::Event(event) = sender.poll(now) {
            match event {
                Event::Group(new) => group = Some(new),
                other => others.push(other),
            }
        }
        (group, others)
    }

    fn lists(group: &TransmissionGroup) -> Vec<usize> {
        group.lists.iter().map(|list| list.receivers().count()).collect()
    }

    #[test]
    fn all_receivers_are_in_lists_as_even_as_can_be() {
        for (max, receivers, expected) in
            [(12, 5, vec![5]), (12, 13, vec![7, 6]), (32, 32, vec![32]), (4, 10, vec![4, 4, 2])]
        {
            let group = told(&mut sender(max, receivers), at(0)).0.expect("a group");
            assert_eq!((lists(&group), group.number, group.unicast.len()), (expected, 1, 0));
        }
        let alone = told(&mut sender(12, 1), at(0)).0.expect("a group");
        assert_eq!((lists(&alone), alone.unicast), (vec![], vec![node(1)]));
        let mut sender = sender(12, 3);
        assert!(told(&mut sender, at(0)).0.is_some() && told(&mut sender, at(1)).0.is_none());
        sender.handle(at(1), Input::Leave(node(2)));
        let left = told(&mut sender, at(1)).0.expect("another group");
        assert_eq!((lists(&left), left.number), (vec![2], 2));
    }

    #[test]
    fn who_is_on_the_senders_link_is_in_no_list() {
        let mut sender = sender(12, 4);
        sender.handle(at(0), Input::OnLink(node(1)));
        let group = told(&mut sender, at(0)).0.expect("a group");
        assert_eq!((lists(&group), &group.unicast), (vec![3], &vec![node(1)]));
        // It comes again from elsewhere.
        sender.handle(at(1), Input::Leave(node(1)));
        sender.handle(at(1), Input::Join(node(1), 5000));
        assert_eq!(lists(&told(&mut sender, at(1)).0.expect("another group")), [4]);
    }

    #[test]
    fn routers_are_served_while_they_are_registered() {
        let mut sender = sender(12, 2);
        told(&mut sender, at(0));
        let say = |router, holding: Duration, group| Registration {
            holding_seconds: holding.as_secs() as u16,
            sequence: 1,
            source: SOURCE,
            group,
            router: node(router),
            code: [0; 16],
        };
        sender.handle(at(1), Input::Registration(&say(0x50, HOLDING, GROUP)));
        sender.handle(at(1), Input::Registration(&say(0x60, HOLDING, node(1))));
        let group = told(&mut sender, at(1)).0.expect("another group");
        assert_eq!((&group.routers, lists(&group)), (&vec![node(0x50)], vec![2]));
        assert_eq!((sender.counters().registrations, sender.counters().unwanted), (1, 1));
        assert_eq!(sender.poll(at(2)), Step::Wait(Some(at(1) + HOLDING), Reason::Expiry));
        let group = told(&mut sender, at(36)).0.expect("it has ended");
        assert!(group.routers.is_empty());
    }

    #[test]
    fn what_icmpv6_says_is_heeded_if_it_can_be() {
        let mut sender = sender(12, 4);
        told(&mut sender, at(0));
        let header =
            Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, [2, 3].map(node).to_vec()).expect("two");
        let lost = Lost { destination: node(2), len: 1400, header: Some(&header), port: None };
        sender.handle(at(1), Input::Lost(lost, Cause::TooBig { mtu_bytes: 1300 }));
        let (group, others) = told(&mut sender, at(1));
        assert_eq!(group.expect("another group").path_mtus, [(node(2), 1300), (node(3), 1300)].into());
        assert_eq!(others, [Event::Narrow(vec![node(2), node(3)], 1300)]);
        sender.handle(at(2), Input::Lost(lost, Cause::Unreachable(Unreachable::Prohibited)));
        let (group, others) = told(&mut sender, at(2));
        let group = group.expect("another group");
        assert_eq!((&group.unicast, lists(&group), others.len()), (&vec![node(2), node(3)], vec![2], 1));
        assert_eq!(lists(&told(&mut sender, at(63)).0.expect("it is tried again")), [4]);
        let stray = Lost { destination: node(9), header: None, ..lost };
        sender.handle(at(63), Input::Lost(stray, Cause::Unreachable(Unreachable::Port)));
        sender.handle(at(63), Input::Lost(lost, Cause::TooBig { mtu_bytes: 100 }));
        assert_eq!((told(&mut sender, at(63)), sender.counters().stray), ((None, vec![]), 2));
    }
}
