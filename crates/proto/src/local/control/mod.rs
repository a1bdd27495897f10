//! LGCP: the members of each local group, and its controller (lgmp-mbone-1999, section 2; the paper leaves
//! messages, thresholds and timers open).
//!
//! - **Groups form by distance.** The sender tells the session which controllers are directly below it. A receiver without a
//!   group measures the round trip to each, asks the nearest for the ones below it, and so goes down until nobody is
//!   nearer ([`search`]). Where a controller is near, it joins that group; otherwise it founds one. Nobody has a list of all.
//! - **Controllers are watched.** A controller says every 200 ms how its group is. When it is silent for 700 ms, the member
//!   takes over that it has named, or another one a little later ([`watch`]). Of two controllers, the later one counts.
//! - **Controllers are replaced** when another member loses much less than they do.
//! - **Groups split** when they are full and more receivers want to come in, and **merge** when two small ones are near each
//!   other ([`office`]).

mod office;
mod place;
mod search;
mod watch;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use treecast_wire::message::{
    GroupId, Local, LocalFlags, LocalJoin, LocalReport, LocalState, MAX_LOCAL_ROSTER, Member,
};

use self::search::Search;
pub use place::Place;

use super::{
    Mode, REPORT, Seat,
    clients::{Clients, MAX_MEMBERS},
    share,
    shelf::Shelf,
    since_us, stamp_us,
    timing::Timing,
};
use crate::{Instant, carousel, object::Address, random::SplitMix64};

/// The time between two messages in which a controller tells its group's state.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(200);

/// The time after a takeover in which all members of a group usually report. After it, the sender's window waits only for those
/// that have.
const SETTLING: Duration = Duration::from_millis(1_500);

/// The time between two measurements of a member's round trip to its controller.
const PROBE: Duration = Duration::from_secs(5);

/// The time that an answer from the controller above may take, in addition to two round trips. After that it counts
/// as lost.
pub(super) const ABOVE: Duration = Duration::from_millis(60);

/// Something for the receiver to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    Tell(Address, Local),
    Join(GroupId),
    Leave(GroupId),
    /// Ask soon for everything that is missing: there is a new controller, of this group or above it.
    Hurry,
}

/// The sender of a message, or the group that it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The session's group, to which the sender alone sends.
    Session,
    Member(Member),
}

/// The state of the receiver that the group control (LGCP) needs to see.
pub(super) struct View<'a> {
    pub shelf: &'a Shelf,
    pub objects: &'a carousel::Receiver,
    pub loss: f64,
    pub is_congested: bool,
    /// The number of objects that were given up here because they were late.
    pub given_up: u32,
    /// Whether nothing of the session is missing here any more, or the sender has said Goodbye.
    pub is_over: bool,
}

/// The last state that the sender has told.
#[derive(Debug)]
struct Session {
    sender: Member,
    takes_groups: bool,
    /// The controllers directly below the sender.
    children: Vec<Member>,
}

/// The group control of one receiver (LGCP): finds a group for it, and makes it the controller of one when needed.
#[derive(Debug)]
pub(super) struct Control {
    me: Member,
    mode: Mode,
    random: SplitMix64,
    /// The receiver's place in a group. `None` while it looks for its first group.
    place: Option<Place>,
    /// The search for a group, or for a better one. `None` while the receiver does not search.
    search: Option<Box<Search>>,
    /// The clients that report to this receiver. Empty unless it is a controller.
    pub clients: Clients,
    /// The last state that the sender has told.
    session: Option<Session>,
    orders: VecDeque<Order>,
    next: Next,
    /// Whether the receiver's group was made by hand.
    is_static: bool,
    /// Whether controllers name the members of their groups: these have no multicast addresses.
    names_members: bool,
    /// The controller above, for groups that were made by hand.
    given_parent: Option<Member>,
    /// The share of the session's packets that this receiver loses, from 0 to 1.
    loss: f64,
    /// Whether a better group is of no use to this receiver any more.
    is_over: bool,
    /// Members that this receiver does not believe any more, such as controllers that did nothing for their group.
    banned: Vec<Member>,
}

/// The times of the next periodic tasks.
#[derive(Debug, Default)]
struct Next {
    /// The times of the next message with the group's state, of the next report, and of the next measured round trip.
    state: Instant,
    report: Instant,
    probe: Instant,
    /// The time at which the receiver next looks for a better group.
    search: Instant,
    /// The time from which the group may split again.
    split: Instant,
}

/// # What happens
impl Control {
    pub fn new(me: Member, mode: Mode, seat: Option<Seat>, seed: u64) -> Self {
        let seat = seat.filter(|_| mode != Mode::Sender);
        let mut control = Self {
            me,
            mode,
            random: SplitMix64(seed),
            place: None,
            search: (seat.is_none() && mode != Mode::Sender).then(Box::default),
            clients: Clients::default(),
            session: None,
            orders: VecDeque::new(),
            next: Next::default(),
            is_static: seat.is_some(),
            names_members: false,
            given_parent: seat.map(|seat| seat.parent),
            loss: 0.0,
            is_over: false,
            banned: Vec::new(),
        };
        if let Some(seat) = seat {
            control.place = Some(Place::fixed(seat));
            control.orders.push_back(Order::Join(seat.group));
        }
        control
    }

    /// Sets whether controllers name the members of their groups.
    pub fn naming_members(self, names_members: bool) -> Self {
        Self { names_members, ..self }
    }

    /// Handles a message of LGCP.
    pub fn heard(&mut self, now: Instant, from: From, local: Local, view: &View<'_>) {
        let member = match (from, &local) {
            (From::Session, Local::State(state)) => state.controller,
            (From::Session, _) => return,
            (From::Member(member), _) => member,
        };
        if member == self.me || self.banned.contains(&member) {
            return;
        }
        match local {
            Local::State(state) if from == From::Session => self.session_is(now, *state),
            Local::State(state) if state.controller == member => self.state(now, *state, view),
            Local::Probe(stamp_us) => self.answer(member, stamp_us, view, false),
            Local::Join(join) => self.join(now, member, &join, view),
            Local::Leave(group) => self.left(member, group, view),
            Local::Report(report) => self.report(now, member, &report, view),
            Local::Split(split) => self.split_off(now, member, &split),
            // LGMP's, or nothing.
            Local::State(_) | Local::Request(_) | Local::Empty | Local::Listen { .. } => {}
        }
    }

    /// Takes in the session's state, which the sender has told.
    fn session_is(&mut self, now: Instant, state: LocalState) {
        let sender = state.controller;
        // A receiver that has a place that was given never looks for another one.
        let is_settled = self.is_static && self.place.is_some();
        let children = if is_settled { Vec::new() } else { state.children };
        let is_new = self.session.as_ref().is_none_or(|before| before.children != children);
        let takes_groups = state.flags.has(LocalFlags::TAKES_GROUPS);
        self.clients.set_lowest(state.flags.has(LocalFlags::LOWEST));
        self.session = Some(Session { sender, takes_groups, children });
        if self.mode == Mode::Sender && self.place.is_none() {
            self.place = Some(Place::under_sender(now, sender));
            self.next.report = now + Duration::from_millis(10).mul_f64(self.random.unit());
        }
        if let Some(place) =
            self.place.as_mut().filter(|place| place.parent == sender && place.above.is_admitted)
        {
            place.above.heard = now;
        }
        if is_new {
            self.search_on(now);
        }
    }

    /// Takes in the state of a group, which its controller has told.
    fn state(&mut self, now: Instant, state: LocalState, view: &View<'_>) {
        self.found_out(now, &state);
        let Some(place) = &mut self.place else { return };
        if state.group == place.group && state.group != GroupId::SESSION {
            return self.own_group_is(now, state, view.shelf.done);
        }
        if place.is_controller(self.me) && state.controller == place.parent {
            self.above_is(now, &state);
        } else if state.controller == place.controller {
            // The sender, where it is the controller of everybody.
            place.measured(now, &state);
        }
    }

    /// Takes in a report. A member of this group that is not known is admitted, because this controller may be new.
    fn report(&mut self, now: Instant, from: Member, report: &LocalReport, view: &View<'_>) {
        let Some(place) = self.place.as_ref().filter(|place| place.is_controller(self.me)) else { return };
        let is_member = report.group == place.group && !report.is_controller;
        if self.clients.report(now, from, report) {
            return;
        }
        if report.is_controller {
            // It hears that its group is not known here.
            self.answer(from, 0, view, false);
        } else if is_member && self.clients.len() < self.most_clients(place) {
            let join = LocalJoin { group: GroupId::SESSION, epoch: 0, stamp_us: 0, loss: report.loss };
            self.clients.admit(now, from, &join);
            self.clients.report(now, from, report);
            self.place.iter_mut().for_each(|place| place.owed.is_known(from));
        }
    }

    /// The most clients that may become known by their reports alone. A group that was made by hand may be larger than others.
    fn most_clients(&self, place: &Place) -> usize {
        let usual = if self.names_members { MAX_LOCAL_ROSTER } else { MAX_MEMBERS * 2 };
        usual.max(self.clients.len() + usize::from(place.owed.members))
    }

    fn left(&mut self, from: Member, group: GroupId, view: &View<'_>) {
        let is_known = self.clients.leave(from, objects_of(view));
        if let Some(place) = self.place.as_mut().filter(|place| !is_known && place.group == group) {
            place.owed.is_known(from);
        }
    }
}

/// # What is to be done
impl Control {
    /// Does what is due.
    pub fn tick(&mut self, now: Instant, view: &View<'_>) {
        (self.loss, self.is_over) = (view.loss, view.is_over);
        self.search_tick(now);
        self.watch(now);
        if self.place.is_none() {
            return;
        }
        self.settle(now);
        if self.is_controller() && now >= self.next.state {
            self.next.state = now + HEARTBEAT;
            self.say_state(view);
        }
        if now >= self.next.report {
            self.next.report = now + REPORT.mul_f64(0.9 + 0.2 * self.random.unit());
            self.clients.expire(now, objects_of(view));
            self.report_above(now, view);
            if self.is_controller() {
                self.look_after_group(now, view);
            }
        }
        if now >= self.next.probe {
            self.next.probe = now + PROBE.mul_f64(0.8 + 0.4 * self.random.unit());
            // The answer to a group that waits for its admission would be taken for a refusal.
            let waits = self.place.as_ref().is_some_and(|place| {
                place.is_controller(self.me) && place.group != GroupId::SESSION && !place.above.is_admitted
            });
            let above = self.above().filter(|_| !waits);
            self.orders.extend(above.map(|above| tell(above, Local::Probe(stamp_us(now)))));
        }
    }

    fn report_above(&mut self, now: Instant, view: &View<'_>) {
        let Some(place) = &self.place else { return };
        let is_controller = place.is_controller(self.me);
        let most = view.shelf.frontier.0.saturating_add(1);
        let states =
            |object| view.shelf.states(view.objects, object, treecast_wire::message::MAX_LOCAL_RANGES);
        let mut own = LocalReport::new(place.group, is_controller);
        own.is_congested = view.is_congested;
        own.loss = share(view.loss);
        own.done = view.shelf.done;
        own.given_up = view.given_up;
        let mut report = if is_controller {
            self.clients.aggregated(own, states, most)
        } else {
            let last = most.min(own.done.saturating_add(4));
            let objects: Vec<_> = (own.done..last).map(states).collect();
            own.with_objects(objects)
        };
        if is_controller && !self.knows_group() {
            if place.epoch > 1 && now < place.since + SETTLING {
                // What its members have is not known yet: nothing counts as received by all.
                report = LocalReport::new(place.group, true);
            }
            report.is_partial = true;
        }
        report.round_trip_us = place.round_trip_us;
        let above = self.above();
        self.orders.extend(above.map(|above| tell(above, Local::Report(report))));
    }

    pub fn next_order(&mut self) -> Option<Order> {
        let order = self.orders.pop_front();
        if order.is_none() {
            self.orders.shrink_to_fit();
        }
        order
    }

    pub fn deadline(&self) -> Option<Instant> {
        let search = self.search.as_deref().and_then(Search::deadline);
        let place = self.place.as_ref().map(|place| {
            let is_controller = place.is_controller(self.me);
            let state = if is_controller { self.next.state } else { self.next.report };
            let next = state.min(self.next.report).min(self.next.probe);
            // A member doubts its controller at this time at the earliest.
            let is_sooner = is_controller || place.heard + watch::DOUBTED < next;
            let watched = if is_sooner { self.watch_deadline(place) } else { None };
            watched.map_or(next, |watched| next.min(watched))
        });
        search.into_iter().chain(place).min()
    }
}

/// # What is to be seen
impl Control {
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    pub fn is_controller(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_controller(self.me))
    }

    /// Whether this receiver, the controller of its group, has heard of all members.
    fn knows_group(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.owed.members == 0)
    }

    /// The number of objects that have ended at every receiver below this controller, `own` of which have here. 0 while a member has not
    /// reported yet.
    pub fn done(&self, own: u32) -> u32 {
        if self.knows_group() { self.clients.done(own) } else { 0 }
    }

    /// Whether this receiver is a controller, and a receiver below it may lack some of `objects` objects.
    pub fn is_needed(&self, objects: u32) -> bool {
        self.is_controller() && !(self.knows_group() && self.clients.are_done(objects))
    }

    /// The other members of the group, where they are named.
    pub fn peers(&self) -> Vec<Member> {
        let Some(place) = self.place.as_ref().filter(|_| self.names_members) else { return Vec::new() };
        let members: Vec<Member> = match place.is_controller(self.me) {
            true => self.clients.members().map(|(member, _)| member).collect(),
            false => vec![place.controller],
        };
        let all: BTreeSet<Member> = members.into_iter().chain(place.said.roster.iter().copied()).collect();
        let others = all.into_iter().filter(|member| *member != self.me && !self.banned.contains(member));
        others.take(MAX_LOCAL_ROSTER).collect()
    }

    /// The member that this receiver reports to and asks for what its whole group lacks. `None` without a group.
    pub fn above(&self) -> Option<Member> {
        let place = self.place.as_ref()?;
        Some(if place.is_controller(self.me) { place.parent } else { place.controller })
    }

    pub fn timing(&self) -> Timing {
        let Some(place) = &self.place else { return Timing::new(0, 1) };
        let (diameter_us, members) = match place.is_controller(self.me) {
            true => (self.diameter_us(place), self.clients.members().count()),
            false => (place.said.diameter_us.max(place.round_trip_us), usize::from(place.said.members)),
        };
        // Where each is spoken to alone, nobody waits for what others may say.
        Timing::new(diameter_us, if self.names_members { 1 } else { members + 1 })
    }

    /// The longest round trip to a member of this receiver's group, in microseconds. A member that is farther
    /// away than the sender would leave, so nobody is believed to be.
    fn diameter_us(&self, place: &Place) -> u32 {
        let to_sender_us = place.above.distance_us.saturating_add(place.round_trip_us);
        let longest_us = self.clients.diameter_us();
        if place.round_trip_us == 0 { longest_us } else { longest_us.min(to_sender_us) }
    }

    /// Whether any member of the group is congested.
    pub fn is_congested(&self) -> bool {
        match &self.place {
            Some(place) if !place.is_controller(self.me) => place.said.is_congested,
            _ => self.clients.are_congested(),
        }
    }

    /// The round trip to the member that this receiver reports to.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.place.as_ref().map_or(0, |place| place.round_trip_us).into())
    }

    /// The time to get from above what the whole group lacks: two round trips, and the wait of repairs. Zero at a
    /// controller.
    pub fn way_up(&self) -> Duration {
        let above = |place: &Place| Duration::from_micros(u64::from(place.said.distance_us) * 2) + ABOVE;
        self.place.as_ref().filter(|place| !place.is_controller(self.me)).map_or(Duration::ZERO, above)
    }

    pub fn sender(&self) -> Option<Member> {
        self.session.as_ref().map(|session| session.sender)
    }
}

/// The number of the session's objects; more than any while that is not known.
fn objects_of(view: &View<'_>) -> u32 {
    view.objects.expected().unwrap_or(u32::MAX)
}

fn tell(to: Member, local: Local) -> Order {
    Order::Tell(Address::Member(to), local)
}

/// The mean round trip between the controllers on the way to the sender, in microseconds.
fn mean_trip_us(state: &LocalState) -> u32 {
    state.distance_us / u32::from(state.depth.max(1))
}

/// The round trip that an answer shows, in microseconds, at least 1. `None` if it answers no probe of this receiver.
fn round_trip_us(now: Instant, state: &LocalState) -> Option<u32> {
    since_us(now, state.echo_us).map(|trip| trip.max(1))
}
