//! The duties of a controller to its group: it says how the group is, admits, resigns, splits and merges.

use treecast_wire::message::{
    GroupId, Local, LocalFlags, LocalJoin, LocalSplit, LocalState, MAX_LOCAL_CHILDREN, MAX_LOCAL_MEMBERS,
    Member,
};

use super::{
    super::{
        clients::{Lead, MAX_CHILDREN, MAX_MEMBERS},
        share, stamp_us,
    },
    Control, HEARTBEAT, Order, Place, View,
    place::Owed,
    tell,
};
use crate::{Instant, object::Address};

/// The loss by which a controller must exceed its best member before it resigns, as a share of all packets.
const WORSE: f64 = 0.05;

/// The time between two splits of a group. By then, members of the new group have left.
const SPLITTING: std::time::Duration = std::time::Duration::from_secs(2);

/// The time that a controller serves at least before it resigns.
const TERM: std::time::Duration = std::time::Duration::from_secs(5);

impl Control {
    /// Returns the group's state, as its controller tells it.
    fn state_of(&self, place: &Place, view: &View<'_>) -> LocalState {
        let members = self.clients.members().count();
        let children: Vec<Member> = self.clients.children().map(|(member, _)| member).collect();
        let best = self.clients.best().map(|(member, _)| member);
        let is_congested = view.is_congested || self.is_congested();
        let resigns = self.is_worse(view);
        let flags = LocalFlags::default()
            .with(LocalFlags::CONGESTION, is_congested)
            .with(LocalFlags::OPEN, members < MAX_MEMBERS && !self.is_static)
            .with(LocalFlags::TAKES_GROUPS, children.len() < MAX_CHILDREN && place.above.is_admitted)
            .with(LocalFlags::RESIGNS, resigns && place.above.heard > place.since + TERM);
        LocalState {
            epoch: place.epoch,
            flags,
            members: (members as u16).saturating_add(place.owed.members),
            loss: share(view.loss),
            depth: place.above.depth.saturating_add(1),
            distance_us: place.above.distance_us.saturating_add(place.round_trip_us),
            diameter_us: self.diameter_us(place),
            parent: place.parent,
            successor: best,
            frontier: view.shelf.frontier,
            done: self.done(view.shelf.done),
            children: children.into_iter().take(MAX_LOCAL_CHILDREN).collect(),
            ..LocalState::new(place.group, self.me)
        }
    }

    /// Whether another member would be a better controller.
    fn is_worse(&self, view: &View<'_>) -> bool {
        !self.is_static && self.clients.best_loss().is_some_and(|best| view.loss > best + WORSE)
    }

    /// Tells the group's state to its members and to the groups below.
    pub(super) fn say_state(&mut self, view: &View<'_>) {
        let Some(place) = &self.place else { return };
        let mut state = self.state_of(place, view);
        if self.clients.has_members() || place.owed.members > 0 || place.epoch > 1 {
            let state = LocalState { roster: self.peers(), ..state.clone() };
            self.orders.push_back(Order::Tell(Address::Group(place.group), Local::State(Box::new(state))));
        }
        state.flags = state.flags.with(LocalFlags::ADMITTED, true);
        let state = Local::State(Box::new(state));
        let below: Vec<Member> = self.clients.children().map(|(member, _)| member).collect();
        self.orders.extend(below.into_iter().map(|member| tell(member, state.clone())));
    }

    /// Answers a probe with the group's state. `is_to_wait` has a controller ask again, because another one still speaks for its group.
    pub(super) fn answer(&mut self, to: Member, stamp_us: u64, view: &View<'_>, is_to_wait: bool) {
        let Some(place) = self.place.as_ref().filter(|place| place.is_controller(self.me)) else { return };
        let mut state = self.state_of(place, view);
        state.flags = state.flags.with(LocalFlags::TAKES_GROUPS, is_to_wait);
        state.echo_us = stamp_us;
        let is_known = self.clients.get(to).is_some();
        state.flags = state.flags.with(LocalFlags::ADMITTED, is_known);
        self.orders.push_back(tell(to, Local::State(Box::new(state))));
    }

    /// Handles the request of a receiver to become a member, or of a group to be below this one.
    pub(super) fn join(&mut self, now: Instant, from: Member, join: &LocalJoin, view: &View<'_>) {
        let Some(place) = self.place.as_ref().filter(|place| place.is_controller(self.me)) else { return };
        let is_known = self.clients.get(from).is_some();
        let members = self.clients.members().count();
        let lead = self.clients.may_lead(now, from, join);
        let admits = match (join.group, lead) {
            (GroupId::SESSION, _) => members < MAX_MEMBERS && !self.is_static,
            (group, _) if group == place.group => false,
            (_, Lead::Unknown) => {
                let has_room = self.clients.children().count() < MAX_CHILDREN;
                has_room && (place.above.is_admitted || self.is_static) && from != place.parent
            }
            (_, lead) => lead == Lead::Yes,
        };
        if admits || is_known {
            self.clients.admit(now, from, join);
            if join.group == GroupId::SESSION {
                // The controller before may have counted it, and its answer was lost.
                self.place.iter_mut().for_each(|place| place.owed.is_known(from));
            }
        } else if join.group == GroupId::SESSION && members >= MAX_MEMBERS && !self.is_static {
            self.split(now);
        }
        self.answer(from, join.stamp_us, view, lead == Lead::NotYet);
    }

    pub(super) fn look_after_group(&mut self, now: Instant, view: &View<'_>) {
        if self.is_worse(view) {
            self.next.state = self.next.state.min(now + HEARTBEAT / 2);
        }
    }

    /// Splits a full group that others want to join. The farther half becomes a group of its own, whose controller is
    /// the member of it that loses least.
    fn split(&mut self, now: Instant) {
        if now < self.next.split {
            return;
        }
        self.next.split = now + SPLITTING;
        let mut members: Vec<_> = self.clients.members().collect();
        members.sort_by_key(|(member, client)| (client.report.round_trip_us, *member));
        let mut far = members.split_off(members.len() / 2);
        far.truncate(MAX_LOCAL_MEMBERS);
        let best = far.iter().min_by_key(|(member, client)| (client.report.loss, *member));
        let Some(controller) = best.map(|(member, _)| *member) else { return };
        let far: Vec<Member> = far.iter().map(|(member, _)| *member).collect();
        let rest: Vec<Member> = far.iter().copied().filter(|member| *member != controller).collect();
        let group = GroupId(((self.random.unit() * f64::from(u32::MAX)) as u32).max(1));
        let Some(place) = &self.place else { return };
        let Ok(split) = LocalSplit::new(group, controller, rest) else { return };
        let to = Address::Group(place.group);
        self.orders.push_back(Order::Tell(to, Local::Split(split.clone())));
        // Nobody is forgotten before it reports elsewhere: one that has not heard of this goes on as a member here.
        self.orders.extend(far.iter().map(|member| tell(*member, Local::Split(split.clone()))));
        self.next.state = now;
    }

    /// Handles the message that some members now form a new group. This receiver may be one of them.
    pub(super) fn split_off(&mut self, now: Instant, from: Member, split: &LocalSplit) {
        let Some(place) = self.place.as_ref().filter(|place| place.controller == from) else { return };
        let (is_controller, before) = (split.controller == self.me, place.clone());
        if !is_controller && !split.members().contains(&self.me) {
            return;
        }
        self.depart(&before);
        let mut place = before;
        place.group = split.group;
        place.controller = split.controller;
        // The first controller is one who was named, and knows nothing of its members yet.
        (place.epoch, place.joined, place.since, place.heard) = (2, now, now, now);
        (place.successor, place.round_trip_us) = (None, 0);
        place.said.roster = split.members().to_vec();
        place.said.members = split.members().len() as u16;
        place.owed = Owed::known_before(place.said.members);
        (place.above.is_admitted, place.above.tries, place.above.heard) = (false, 0, now);
        place.above.waits = 0;
        self.place = Some(place);
        self.orders.extend([Order::Join(split.group), Order::Hurry]);
        self.clients.clear();
        (self.next.state, self.next.report) = (now, now + HEARTBEAT / 2);
        self.next.probe = now + HEARTBEAT;
        if is_controller {
            self.ask_above(now);
        }
    }

    /// Merges this group into another controller's group. All members move, this controller among them.
    pub(super) fn merge_into(&mut self, now: Instant, to: Member) {
        let Some(place) = self.place.clone() else { return };
        let flags = LocalFlags::default().with(LocalFlags::MERGES, true);
        let state = LocalState {
            epoch: place.epoch,
            flags,
            diameter_us: place.said.diameter_us,
            parent: place.parent,
            successor: Some(to),
            ..LocalState::new(place.group, self.me)
        };
        let members: Vec<Member> = self.clients.members().map(|(member, _)| member).collect();
        self.orders
            .extend(members.into_iter().map(|member| tell(member, Local::State(Box::new(state.clone())))));
        self.leave_for(now, &place, to);
    }

    /// Follows the controller when it has merged the group into another one.
    pub(super) fn follow_merge(&mut self, now: Instant, state: &LocalState) {
        let (Some(place), Some(to)) = (self.place.clone(), state.successor) else { return };
        self.leave_for(now, &place, to);
    }

    /// Leaves the group and asks another controller for admission.
    fn leave_for(&mut self, now: Instant, place: &Place, to: Member) {
        self.depart(place);
        self.place = None;
        self.clients.clear();
        self.begin_search(now, false);
        // The others are asked, too, in case it has no room any more.
        self.orders.push_back(tell(to, Local::Probe(stamp_us(now))));
    }
}
