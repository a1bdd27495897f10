//! A receiver's search for its group: down the tree of controllers, to the nearest.
//!
//! The sender's children are known to everybody. Each is asked how far away it is and which controllers are
//! below it; then the nearest one's children; and so on until nobody is nearer. A receiver that finds a
//! controller *near* joins its group. It is near when the round trip is at most half of the controller's own
//! round trip to the sender, or [`NEAR`]. Along several controllers, the mean of their round trips stands for
//! that: their sum is longer than the real way, and sites far apart would be near each other. A receiver that
//! finds nobody near founds a group. It waits for a random time before, and looks once more: of several that
//! begin together, one is first, and the others find it.

use std::{collections::BTreeMap, time::Duration};

use treecast_wire::message::{GroupId, Local, LocalFlags, LocalJoin, LocalState, Member};

use super::{
    super::{clients::MAX_MEMBERS, share_of, timing::exponential},
    Control, HEARTBEAT, Order, Place, mean_trip_us, round_trip_us, tell,
};
use crate::{Instant, local::stamp_us};

/// The longest round trip to a controller that counts as near, whatever the distance to the sender.
const NEAR: Duration = Duration::from_millis(5);

/// The time to wait for answers to a probe or request.
const PATIENCE: Duration = Duration::from_millis(600);

/// The number of times that a probe or request is sent.
const TRIES: u32 = 3;

/// The longest random wait before founding a group, and the number of receivers for which these waits are chosen.
const FOUNDING: Duration = Duration::from_secs(1);
const FOUNDERS: usize = 100;

/// The most controllers that one search looks at.
const MAX_CANDIDATES: usize = 128;

/// The share of the present controller's round trip below which another controller is so much nearer that a member
/// moves.
const BETTER: f64 = 0.5;

/// A controller that has answered.
#[derive(Debug, Clone)]
struct Candidate {
    round_trip_us: u32,
    state: LocalState,
}

impl Candidate {
    /// The score of the candidate: its distance, increased by its loss and its load. Lower is better.
    fn score(&self) -> f64 {
        let load = f64::from(self.state.members) / MAX_MEMBERS as f64;
        (f64::from(self.round_trip_us) + 200.0) * (1.0 + 4.0 * share_of(self.state.loss)) * (1.0 + load)
    }

    fn is_near(&self) -> bool {
        self.round_trip_us <= (mean_trip_us(&self.state) / 2).max(NEAR.as_micros() as u32)
    }

    /// Whether the candidate's group can be joined.
    fn is_fit(&self) -> bool {
        self.is_near() && self.is(LocalFlags::OPEN)
    }

    fn is(&self, flag: LocalFlags) -> bool {
        self.state.flags.has(flag)
    }
}

/// The stage of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Waiting for the first message of the sender.
    #[default]
    Listening,
    /// Waiting for answers to probes, until the time given.
    Asking { until: Instant, tries: u32 },
    /// Waiting a random time because nobody is near. After that the receiver looks once more, and then founds a
    /// group.
    Hesitating { until: Instant },
    /// Waiting for the controller that was asked to admit this receiver as a member, or its new group.
    Joining { to: Member, group: GroupId, until: Instant, tries: u32 },
}

/// A search for a group: it asks controllers how far away they are, from the top of the tree down.
#[derive(Debug, Default)]
pub(super) struct Search {
    stage: Stage,
    answered: BTreeMap<Member, Candidate>,
    /// Members that were asked and have not answered yet.
    asked: Vec<Member>,
    /// Members that have not answered in time.
    silent: Vec<Member>,
    /// Whether the search before this one found nobody near either.
    is_second: bool,
}

impl Search {
    pub fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Listening => None,
            Stage::Asking { until, .. } | Stage::Hesitating { until } | Stage::Joining { until, .. } => {
                Some(until)
            }
        }
    }

    fn is_new(&self, member: Member) -> bool {
        !self.answered.contains_key(&member) && !self.silent.contains(&member)
    }

    fn best(&self, is_fit: impl Fn(&Candidate) -> bool) -> Option<&Candidate> {
        let fit = self.answered.values().filter(|candidate| is_fit(candidate));
        fit.min_by(|one, other| one.score().total_cmp(&other.score()))
    }
}

impl Control {
    /// Continues a waiting search when the groups directly below the sender have changed.
    pub(super) fn search_on(&mut self, now: Instant) {
        let Some(search) = &self.search else { return };
        if matches!(search.stage, Stage::Listening | Stage::Hesitating { .. }) {
            self.begin_search(now, false);
        }
    }

    /// Begins a search with the sender and the groups directly below it.
    pub(super) fn begin_search(&mut self, now: Instant, is_second: bool) {
        self.search = Some(Search { is_second, ..Search::default() }.into());
        let Some(session) = &self.session else { return };
        let children = session.children.clone();
        self.ask(now, &children);
    }

    /// Sends probes to these controllers.
    fn ask(&mut self, now: Instant, members: &[Member]) {
        let Some(search) = &mut self.search else { return };
        let is_new =
            |member: &Member| *member != self.me && search.is_new(*member) && !self.banned.contains(member);
        search.asked = members.iter().copied().filter(is_new).collect();
        let room = MAX_CANDIDATES.saturating_sub(search.answered.len());
        search.asked.truncate(room);
        search.stage = Stage::Asking { until: now + PATIENCE / TRIES, tries: 1 };
        let probes = search.asked.iter().map(|member| tell(*member, Local::Probe(stamp_us(now))));
        self.orders.extend(probes);
        if self.search.as_ref().is_some_and(|search| search.asked.is_empty()) {
            self.go_down(now);
        }
    }

    /// Takes in a controller's state, if it answers a probe of the search.
    pub(super) fn found_out(&mut self, now: Instant, state: &LocalState) {
        let Some(search) = &mut self.search else { return };
        let Some(round_trip_us) = round_trip_us(now, state) else { return };
        let member = state.controller;
        if let Stage::Joining { to, group, .. } = search.stage
            && to == member
        {
            let candidate = Candidate { round_trip_us, state: state.clone() };
            search.answered.insert(member, candidate);
            return match state.flags.has(LocalFlags::ADMITTED) {
                true => self.arrive(now, group, state),
                false => self.decide(now),
            };
        }
        let was_asked = search.asked.contains(&member);
        search.asked.retain(|asked| *asked != member);
        if was_asked && state.group != GroupId::SESSION {
            search.answered.insert(member, Candidate { round_trip_us, state: state.clone() });
        }
        if was_asked && search.asked.is_empty() && matches!(search.stage, Stage::Asking { .. }) {
            self.go_down(now);
        }
    }

    /// Asks the groups below those that have answered. Below a near controller there may be a nearer one. While none
    /// is near, a receiver without a group looks below all of them, the nearest first.
    fn go_down(&mut self, now: Instant) {
        let Some(search) = &self.search else { return };
        let mut answered: Vec<&Candidate> = search.answered.values().collect();
        answered.sort_by_key(|candidate| candidate.round_trip_us);
        let is_wide = self.place.is_none() && !answered.iter().any(|candidate| candidate.is_fit());
        let looked_below = if is_wide { answered.len() } else { 1 };
        let below = answered.into_iter().take(looked_below).flat_map(|candidate| &candidate.state.children);
        let is_new =
            |member: &Member| *member != self.me && search.is_new(*member) && !self.banned.contains(member);
        let below: Vec<Member> = below.copied().filter(is_new).collect();
        if below.is_empty() || search.answered.len() >= MAX_CANDIDATES {
            self.decide(now);
        } else {
            self.ask(now, &below);
        }
    }

    fn decide(&mut self, now: Instant) {
        if self.place.is_some() {
            return self.decide_to_move(now);
        }
        let Some(search) = &mut self.search else { return };
        if let Some(best) = search.best(Candidate::is_fit) {
            let to = best.state.controller;
            return self.ask_to_join(now, to, GroupId::SESSION);
        }
        if !search.is_second {
            let wait = exponential(FOUNDING, FOUNDERS, self.random.unit());
            search.stage = Stage::Hesitating { until: now + wait };
            return;
        }
        let nearest = search.best(|candidate| candidate.is(LocalFlags::TAKES_GROUPS));
        let is_near = nearest.is_some_and(Candidate::is_near);
        let below = nearest.map(|candidate| candidate.state.controller);
        let sender = self.session.as_ref().filter(|session| session.takes_groups);
        let sender = sender.map(|session| session.sender);
        let to = if is_near { below.or(sender) } else { sender.or(below) };
        match to {
            Some(to) => {
                let group = GroupId(((self.random.unit() * f64::from(u32::MAX)) as u32).max(1));
                self.ask_to_join(now, to, group);
            }
            None => search.stage = Stage::Hesitating { until: now + FOUNDING },
        }
    }

    fn ask_to_join(&mut self, now: Instant, to: Member, group: GroupId) {
        let Some(search) = &mut self.search else { return };
        let tries = match search.stage {
            Stage::Joining { to: before, tries, .. } if before == to => tries + 1,
            _ => 1,
        };
        if tries > TRIES {
            search.answered.remove(&to);
            search.stage = Stage::Hesitating { until: now + HEARTBEAT };
            return;
        }
        search.stage = Stage::Joining { to, group, until: now + PATIENCE, tries };
        let join = LocalJoin { group, epoch: 1, stamp_us: stamp_us(now), loss: 0 };
        self.orders.push_back(tell(to, Local::Join(join)));
    }

    /// Ends the search: this receiver is admitted, as a member or as the founder of a group.
    fn arrive(&mut self, now: Instant, group: GroupId, state: &LocalState) {
        if let Some(before) = self.place.take() {
            self.depart(&before);
        }
        self.clients.clear();
        let place = match group {
            GroupId::SESSION => Place::joined(now, state),
            group => {
                let mut place = Place::founded(now, group, self.me, state);
                place.above.is_admitted = true;
                place
            }
        };
        self.search = None;
        self.orders.extend([Order::Join(place.group), Order::Hurry]);
        self.place = Some(place);
        (self.next.state, self.next.report) = (now, now + HEARTBEAT / 4);
        self.plan_search(now);
    }

    /// Tells the group that this receiver leaves. A controller also tells the controller above.
    pub(in crate::local) fn depart(&mut self, place: &Place) {
        let to = if place.is_controller(self.me) { place.parent } else { place.controller };
        self.orders.push_back(tell(to, Local::Leave(place.group)));
        self.orders.push_back(Order::Leave(place.group));
    }

    pub(super) fn search_tick(&mut self, now: Instant) {
        let Some(search) = &mut self.search else { return };
        match search.stage {
            Stage::Asking { until, tries } if now >= until && tries < TRIES => {
                search.stage = Stage::Asking { until: now + PATIENCE / TRIES, tries: tries + 1 };
                let probes = search.asked.iter().map(|member| tell(*member, Local::Probe(stamp_us(now))));
                self.orders.extend(probes);
            }
            Stage::Asking { until, .. } if now >= until => {
                search.silent.append(&mut search.asked);
                self.go_down(now);
            }
            Stage::Hesitating { until } if now >= until => self.begin_search(now, true),
            Stage::Joining { to, group, until, .. } if now >= until => self.ask_to_join(now, to, group),
            _ => {}
        }
    }

    /// Plans the next search for a better group: soon after joining one, and less and less often after that.
    fn plan_search(&mut self, now: Instant) {
        let wait =
            self.place.as_ref().map_or(REFORM, |place| ((now - place.joined) * 2).clamp(REFORM_SOON, REFORM));
        self.next.search = now + wait.mul_f64(0.5 + self.random.unit());
    }

    /// Decides whether to move to the best group that the search has found.
    fn decide_to_move(&mut self, now: Instant) {
        let Some(search) = self.search.take() else { return };
        let Some(place) = &self.place else { return };
        let is_other = |candidate: &Candidate| candidate.state.group != place.group;
        let fit = |one: &Candidate| is_other(one) && one.is_fit();
        let Some(best) = search.best(fit) else {
            if place.is_far() && !place.is_controller(self.me) {
                let place = place.clone();
                self.depart(&place);
                self.place = None;
                self.begin_search(now, true);
            }
            return;
        };
        let to = best.state.controller;
        if place.is_controller(self.me) {
            let merged = self.clients.members().count() + usize::from(best.state.members) + 1;
            let has_more = (best.state.members, best.state.group) > (self.clients.len() as u16, place.group);
            if has_more && merged < MAX_MEMBERS && self.clients.children().next().is_none() {
                self.merge_into(now, to);
            }
        } else if place.round_trip_us > NEAR.as_micros() as u32
            && f64::from(best.round_trip_us) < BETTER * f64::from(place.round_trip_us)
        {
            self.search = Some(search);
            self.ask_to_join(now, to, GroupId::SESSION);
        }
    }

    /// Begins a search for a better group when it is due: a member looks for a nearer one, and the controller of a
    /// small group for one to merge with.
    pub(super) fn reform(&mut self, now: Instant) {
        let finds_none = self.is_static || self.is_over || self.mode == super::Mode::Sender;
        if now < self.next.search || self.search.is_some() || finds_none {
            return;
        }
        self.plan_search(now);
        let is_small = self.clients.len() < SMALL;
        if !self.is_controller() || is_small {
            self.begin_search(now, true);
        }
    }
}

/// The usual time between two searches of a receiver that has a group. When several receivers found groups at one
/// place at the same time, all but one soon find the others.
const REFORM_SOON: Duration = Duration::from_secs(1);
const REFORM: Duration = Duration::from_secs(20);

/// The number of members, without the controller, below which a group looks for another one to merge with.
const SMALL: usize = 3;
