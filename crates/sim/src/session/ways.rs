//! The ways by which packets of a session in a network reach receivers, and what routers do with them. The
//! machines of fanout, MEADcast and Xcast run here as they do on hosts and routers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    rc::Rc,
};

use rand::Rng as _;
use treecast_proto::{
    Instant, Step,
    explicit::{
        finder::{Finder, REQUESTS_PER_SECOND, Response},
        lists::{Form, List, TransmissionGroup, Xcast, len_beside_list, planned},
        mead::{
            grouping::Parameters,
            router::{Outcome, Outgoing, Router, Routes},
            sender::{self as mead, Event},
            transmission::model,
        },
        transmission::Packets,
        xcast::{self, router::Arrival},
    },
    fanout::{self, Heard, Input, Way},
    policy::UNHEARD_LIMIT,
};
use treecast_wire::{
    ipv6::{self, next_header},
    mead::{Dialect, Header, Kind},
};

use super::placed::{Explicit, Fanout, Lists};
use crate::network::generator;

const PORT: u16 = 5000;
const UDP_LEN: usize = 8;
const HOP_LIMIT: u8 = 64;

/// The sender's present wishes.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// The discovery requests, each with its destination.
    pub requests: Vec<(Ipv6Addr, Rc<[u8]>)>,
    /// The receivers that have heard nothing of what was sent to them.
    pub unheard: Vec<u32>,
    pub deadline: Option<Instant>,
}

/// What looking for routers has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Search {
    /// The number of transmission groups, one each time when receivers are assigned to packets anew.
    pub groups: u64,
    pub discoveries: u64,
    /// The bytes of all requests.
    pub bytes: u64,
    /// The time at which the first discovery was over.
    pub first_over: Option<Instant>,
}

/// The sender's choice of fanouts, and its packets with lists.
#[derive(Debug)]
pub(super) struct Ways {
    machine: fanout::Fanout,
    finder: Finder,
    form: Form,
    /// The bytes behind the IPv6 header of a full packet.
    payload_bytes: usize,
    receivers: Vec<Ipv6Addr>,
    on_link: Vec<bool>,
    lists: Vec<List>,
    has_news: bool,
    /// Whether the start waits for the first discovery.
    waits_for_routers: bool,
    /// The lists of the plan, each with what makes its packets.
    planned: Vec<Packets>,
    /// What looking for routers has cost.
    search: Search,
    /// The time of the next turn, as last announced.
    pub(super) turn_at: Option<Instant>,
}

/// Returns the form of packets with lists on links with this MTU.
fn form(source: Ipv6Addr, fanout: Fanout, mtu: usize, lists: &Lists) -> Form {
    let is_anonymous = lists.is_anonymous;
    let xcast = (fanout == Fanout::Xcast).then_some(Xcast { is_anonymous, group: None });
    Form {
        source,
        source_port: None,
        dialect: Dialect::Rfc,
        dont_replicate: lists.dont_replicate,
        to_router: lists.to_router,
        has_ports: false,
        group: None,
        xcast,
        key: None,
        mtu,
    }
}

impl Lists {
    /// The limits of lists in packets of a form: as many addresses as leave room for the least MTU, if nobody says another number.
    fn limits(&self, form: &Form) -> Parameters {
        let most = form.most_addresses().unwrap_or(2);
        self.limits.unwrap_or(Parameters { max: most, ok: most, ..Parameters::default() })
    }

    /// Returns how many bytes a whole list leaves for an IPv6 packet to one receiver, on links with this MTU.
    pub fn room(&self, fanout: Fanout, mtu: usize) -> usize {
        let form = form(Ipv6Addr::UNSPECIFIED, fanout, mtu, self);
        mtu.saturating_sub(form.header_len(self.limits(&form).max))
    }
}

/// Returns how many bytes lists leave for an IPv6 packet to one receiver, on links with this MTU.
pub fn room_beside_lists(fanout: Fanout, mtu: usize) -> usize {
    len_beside_list(Lists::default().room(fanout, mtu))
}

/// Creates the machine of `fanout` that finds routers.
fn finder(fanout: Fanout, lists: &Lists, form: &Form, payload_bytes: usize, seed: u64) -> Finder {
    let parameters = lists.limits(form);
    if fanout == Fanout::Xcast {
        let config = xcast::sender::Config { max: parameters.max, channel: None, key: None };
        return Finder::Xcast(Box::new(xcast::sender::Sender::new(config)));
    }
    let mut nonces = [0; 32];
    generator(seed, 5).fill_bytes(&mut nonces);
    let config = mead::Config {
        source: form.source,
        algorithm: match lists.by_cost {
            true => mead::Algorithm::Cost(model(form, payload_bytes)),
            false => mead::Algorithm::Thesis,
        },
        parameters,
        delay: lists.delay,
        interval: lists.interval,
        timeout: lists.timeout,
        waits_for_traffic: lists.waits_for_traffic,
        requests_per_second: REQUESTS_PER_SECOND,
        designated: None,
        key: None,
        seed: nonces,
    };
    Finder::Mead(Box::new(mead::Sender::new(Instant::ZERO, config)))
}

impl Ways {
    /// `datagram_len` is the length of a full datagram to the group, in bytes behind its UDP header.
    pub(super) fn new(
        fanout: Fanout,
        explicit: &Explicit,
        is_carousel: bool,
        datagram_len: usize,
        seed: u64,
    ) -> Self {
        let form = form(explicit.sender, fanout, explicit.mtu, &explicit.lists);
        let payload_bytes = UDP_LEN + datagram_len;
        let finder = finder(fanout, &explicit.lists, &form, payload_bytes, seed);
        let config = fanout::Config {
            // A carousel's receivers are all reached at their own addresses, and then leave the group.
            has_group: fanout == Fanout::Auto && !is_carousel,
            by_lists: if fanout == Fanout::Xcast { Way::Xcast } else { Way::Mead },
            patience: UNHEARD_LIMIT,
            has_reports: !is_carousel,
        };
        let mut ways = Self {
            machine: fanout::Fanout::new(config),
            finder,
            form,
            payload_bytes,
            receivers: explicit.receivers.clone(),
            on_link: explicit.on_link.clone(),
            lists: Vec::new(),
            has_news: false,
            waits_for_routers: fanout == Fanout::Mead,
            planned: Vec::new(),
            search: Search::default(),
            turn_at: None,
        };
        // Those whom the sender is told of are asked about before they come.
        for of in 0..ways.receivers.len() {
            ways.find(Instant::ZERO, of);
        }
        ways
    }

    fn find(&mut self, now: Instant, of: usize) {
        let is_on_link = self.on_link[of];
        self.finder.join(now, self.receivers[of], PORT, |_| is_on_link);
    }

    /// Adds a receiver that is there, or that was named to a carousel.
    pub(super) fn join(&mut self, now: Instant, of: usize) {
        self.machine.handle(now, Input::Joined(of as u32));
        self.has_news = true;
    }

    pub(super) fn leave(&mut self, now: Instant, of: usize) {
        self.machine.handle(now, Input::Left(of as u32));
        self.finder.leave(now, self.receivers[of]);
        self.has_news = true;
    }

    pub(super) fn heard(&mut self, now: Instant, of: usize, heard: Heard) {
        self.machine.handle(now, Input::Heard(of as u32, heard));
    }

    /// Notes that packets have left for everybody. The next one has this number.
    pub(super) fn sent(&mut self, now: Instant, next: u32) {
        self.machine.handle(now, Input::Sent { next });
    }

    /// A program has something to send.
    pub(super) fn traffic(&mut self, now: Instant) {
        self.finder.note_traffic(now);
    }

    /// What looking for routers has cost so far. `None` without discovery.
    pub(super) fn search(&self) -> Option<Search> {
        let discoveries = self.finder.counters().discoveries;
        matches!(self.finder, Finder::Mead(_)).then_some(Search { discoveries, ..self.search })
    }

    /// Whether the session begins only when the routers are known.
    pub(super) fn awaits_routers(&self) -> bool {
        self.waits_for_routers && self.finder.counters().discoveries == 0
    }

    pub(super) fn plan(&self) -> &fanout::Plan {
        self.machine.plan()
    }

    /// The number of packets that leave for one to the group.
    pub(super) fn copies(&self) -> usize {
        let plan = self.machine.plan();
        usize::from(plan.group) + plan.unicast.len() + self.planned.len()
    }

    /// Takes in a packet that has come to the sender: a router's answer.
    pub(super) fn respond(&mut self, now: Instant, packet: &[u8]) {
        let Ok((ip, payload)) = ipv6::Header::parse(packet) else { return };
        let Ok((header, _)) = Header::parse(payload, self.form.dialect) else { return };
        if header.kind == Kind::Response {
            self.finder.respond(now, &Response { router: ip.source, header, proof: None, group: None });
        }
    }

    /// Carries out what the machines want.
    pub(super) fn turn(&mut self, now: Instant) -> Wants {
        let mut wants = Wants::default();
        let mut lists = None;
        loop {
            match self.finder.poll(now) {
                Step::Transmit(request) => {
                    let packet: Rc<[u8]> = request.packet(&self.form, 0).into();
                    self.search.bytes += packet.len() as u64;
                    wants.requests.push((request.receiver, packet));
                }
                Step::Event(Event::Group(group)) => {
                    self.search.groups += 1;
                    lists = Some(group.fitted_lists(&self.form, self.payload_bytes));
                }
                Step::Event(Event::Discovered) => _ = self.search.first_over.get_or_insert(now),
                Step::Event(_) => {}
                Step::Wait(deadline, ()) => {
                    wants.deadline = deadline;
                    break;
                }
            }
        }
        self.has_news |= lists.is_some();
        self.lists = lists.unwrap_or_else(|| std::mem::take(&mut self.lists));
        let mut is_changed = std::mem::take(&mut self.has_news);
        if is_changed {
            let of_list = |list: &List| list.receivers().filter_map(|one| self.number(one)).collect();
            let members: Vec<Vec<u32>> = self.lists.iter().map(of_list).collect();
            self.machine.handle(now, Input::Lists(members));
        }
        loop {
            match self.machine.poll(now) {
                Step::Transmit(nothing) => match nothing {},
                Step::Event(fanout::Event::Plan) => is_changed = true,
                Step::Event(fanout::Event::Moved { .. }) => {}
                Step::Event(fanout::Event::Unheard { receiver }) => wants.unheard.push(receiver),
                Step::Wait(look, _) => {
                    wants.deadline = [wants.deadline, look].into_iter().flatten().min();
                    break;
                }
            }
        }
        if is_changed {
            self.follow_plan();
        }
        wants
    }

    fn number(&self, receiver: Ipv6Addr) -> Option<u32> {
        self.receivers.iter().position(|one| *one == receiver).map(|number| number as u32)
    }

    /// Prepares packets for the machine's present plan: for each list, those of its receivers that are there.
    fn follow_plan(&mut self) {
        let ports: BTreeMap<Ipv6Addr, u16> =
            self.receivers.iter().map(|receiver| (*receiver, PORT)).collect();
        let lists = planned(&self.lists, &self.machine.plan().lists, |one| self.number(one));
        let packets = lists.into_iter().map(|list| {
            let (lists, ports) = (vec![list], ports.clone());
            let group = TransmissionGroup { number: 1, lists, ports, ..TransmissionGroup::default() };
            Packets::new(self.form.clone(), group)
        });
        self.planned = packets.collect();
    }

    /// The packets with lists that a datagram of so many bytes becomes, each with its destination.
    pub(super) fn listed(&mut self, datagram_len: usize) -> Vec<(Ipv6Addr, Rc<[u8]>)> {
        if self.planned.is_empty() {
            return Vec::new();
        }
        let ip = ipv6::Header {
            class_and_label: 0,
            payload_len: (UDP_LEN + datagram_len) as u16,
            next_header: next_header::UDP,
            hop_limit: HOP_LIMIT,
            source: self.form.source,
            destination: self.form.source,
        };
        let mut packet = ip.to_bytes().to_vec();
        packet.extend([PORT.to_be_bytes(), PORT.to_be_bytes()].concat());
        packet.extend([(UDP_LEN + datagram_len) as u16, 1].map(u16::to_be_bytes).concat());
        packet.resize(packet.len() + datagram_len, 0);
        let mut made = Vec::new();
        for packets in &mut self.planned {
            packets.make(&packet, |destination, bytes| made.push((destination, bytes.into())));
        }
        made
    }
}

/// A router that speaks MEADcast and Xcast. It remembers nothing.
#[derive(Debug)]
pub(super) struct Speaker {
    router: Router,
    /// The address that the router's answers come from.
    address: Ipv6Addr,
}

/// The packets that leave a router in place of one that came.
#[derive(Debug)]
pub(super) enum Act {
    /// The packet itself, unchanged.
    Pass,
    /// Other packets, or none if the packet ends here. Each has its destination in its header.
    Instead(Vec<Rc<[u8]>>),
}

impl Speaker {
    pub(super) fn new(addresses: &[Ipv6Addr]) -> Option<Self> {
        let router = Router {
            is_enabled: true,
            is_leaving: false,
            min_dsts: 0,
            dialect: Dialect::Rfc,
            own: addresses.iter().copied().collect::<BTreeSet<_>>(),
            groups: BTreeMap::new(),
            guard: Default::default(),
        };
        Some(Self { router, address: *addresses.first()? })
    }

    /// Handles a packet that has come by a cable.
    pub(super) fn act(&self, packet: &[u8], cable: usize, routes: &mut Routes<'_>) -> Act {
        let interface = cable as u32;
        match self.router.forward(packet, interface, routes) {
            Outcome::Forward(outgoing) => Act::Instead(leaving(outgoing)),
            Outcome::Request { passed_on, request } => {
                Act::Instead(vec![request.answer(self.address, None, false).into(), passed_on.into()])
            }
            Outcome::Drop(_) => Act::Instead(Vec::new()),
            Outcome::Refuse(refused) if refused.ends_here() => Act::Instead(Vec::new()),
            Outcome::Refuse(_) => Act::Pass,
            Outcome::Pass => {
                let arrival = Arrival { interface, is_for_all: false };
                match xcast::router::forward(&self.router, packet, arrival, routes) {
                    xcast::router::Outcome::Forward(outgoing) => Act::Instead(leaving(outgoing)),
                    xcast::router::Outcome::Drop(_) => Act::Instead(Vec::new()),
                    xcast::router::Outcome::Refuse(refused) if refused.ends_here() => {
                        Act::Instead(Vec::new())
                    }
                    xcast::router::Outcome::Refuse(_) | xcast::router::Outcome::Pass => Act::Pass,
                }
            }
        }
    }
}

fn leaving<Kind>(outgoing: Vec<Outgoing<Kind>>) -> Vec<Rc<[u8]>> {
    outgoing.into_iter().map(|one| one.packet.into()).collect()
}
