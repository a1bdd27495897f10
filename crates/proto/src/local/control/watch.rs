//! The watch over controllers, and the takeover from one that is gone ("hot swapping of Group Controllers in
//! the case of system failures without losing synchronization", lgmp-mbone-1999, 2).
//!
//! Members' reports say what they have. They go to the new controller as soon as it says that it is one. It
//! knows from its predecessor how many members there are. Until all of them have reported, it says of nothing
//! that everyone has received it.

use std::time::Duration;

use treecast_wire::message::{GroupId, Local, LocalFlags, LocalJoin, LocalState, Member};

use super::{
    super::{clients::MAX_EPOCHS, stamp_us},
    Control, HEARTBEAT, Order, Place, tell,
};
use crate::Instant;

/// The silence after which a group's controller counts as dead.
const DEAD: Duration = Duration::from_millis(700);

/// The time within which other members take over when the successor is silent, too.
const OTHERS: Duration = Duration::from_millis(220);

/// The time between two probes of a controller of which two signs of life are overdue, the number of these probes,
/// and the silence after which they begin.
const DOUBT: Duration = Duration::from_millis(130);
const DOUBTS: u32 = 2;
pub(super) const DOUBTED: Duration = Duration::from_millis(430);

/// The additional wait of a member that loses every packet, because it does not hear what is said. Members with less loss
/// wait in proportion to their loss above [`HEARS`]. Below that, the answers to their probes are enough.
const DEAF: Duration = Duration::from_secs(4);
const HEARS: f64 = 0.1;

/// The silence after which a controller above counts as dead. Its own group has replaced it by then.
const DEAD_ABOVE: Duration = Duration::from_millis(2_000);

/// The time between two requests for admission to a controller above, and the number of requests to each.
const ADMISSION: Duration = Duration::from_millis(400);
const TRIES: u32 = 3;

/// The number of answers by which another controller still speaks for the group, before a controller turns to somebody else above.
const WAITS: u32 = 6;

/// The time within which members report to a new controller.
const REPORT_TO_NEW: Duration = Duration::from_millis(100);

/// The time after which a controller that says that everybody is done counts as a liar, at a member that is not done.
/// Reports come more often than that.
const LYING: Duration = Duration::from_millis(1_200);

/// The most members that are remembered as not believed.
const MAX_BANNED: usize = 64;

/// The time at which a member next probes its silent controller.
fn doubt_at(place: &Place) -> Instant {
    place.heard + DOUBTED + DOUBT * place.doubts
}

impl Control {
    /// Takes in a state of this receiver's own group, from its controller or from a member that considers itself the
    /// controller.
    pub(super) fn own_group_is(&mut self, now: Instant, state: LocalState, done: u32) {
        let Some(place) = &mut self.place else { return };
        let is_later = state.epoch > place.epoch && state.epoch - place.epoch < MAX_EPOCHS;
        let is_same = state.controller == place.controller && state.epoch == place.epoch;
        let is_first = state.epoch == place.epoch && state.controller < place.controller;
        if !is_later && !is_same && !is_first {
            if place.is_controller(self.me) {
                // It does not know that it was replaced.
                self.next.state = now;
            }
            return;
        }
        let was_controller = place.is_controller(self.me);
        let is_new = state.controller != place.controller;
        place.group_is(now, &state);
        place.measured(now, &state);
        if is_new {
            self.orders.push_back(Order::Hurry);
            self.next.report = now + REPORT_TO_NEW.mul_f64(self.random.unit());
            self.next.probe = self.next.report;
        }
        // Everybody in the group is done, it says, and this member is not: it lies, or has forgotten this member.
        let lies = state.controller != self.me && state.done > done;
        place.lies_since = if lies { place.lies_since.or(Some(now)) } else { None };
        if place.lies_since.is_some_and(|since| now >= since + LYING) {
            let controller = place.controller;
            return self.ban(now, controller);
        }
        if was_controller {
            self.clients.clear();
        }
        if state.flags.has(LocalFlags::MERGES) {
            return self.follow_merge(now, &state);
        }
        if state.flags.has(LocalFlags::RESIGNS) && state.successor == Some(self.me) {
            self.take_over(now);
        }
    }

    /// Takes over the group if its controller is silent. A controller also looks for another one above if the present
    /// one is silent.
    pub(super) fn watch(&mut self, now: Instant) {
        self.reform(now);
        let Some(place) = &self.place else { return };
        if place.group == GroupId::SESSION {
            return;
        }
        if !place.is_controller(self.me) {
            return self.watch_controller(now);
        }
        let is_sender = Some(place.parent) == self.sender();
        if !is_sender && place.above.is_admitted && now >= place.above.heard + DEAD_ABOVE {
            self.look_above(now);
        } else if !place.above.is_admitted && (place.above.tries == 0 || now >= place.above.heard + ADMISSION)
        {
            let is_in_vain = place.above.tries >= TRIES;
            if is_in_vain { self.look_above(now) } else { self.ask_above(now) }
        }
    }

    /// Asks the own controller for a sign of life when it has been silent, and takes over when none comes.
    fn watch_controller(&mut self, now: Instant) {
        let Some(place) = &mut self.place else { return };
        if place.doubts < DOUBTS && now >= doubt_at(place) {
            place.doubts += 1;
            self.orders.push_back(tell(place.controller, Local::Probe(stamp_us(now))));
        }
        let is_dead = self.place.as_ref().is_some_and(|place| now >= self.dead_at(place));
        if is_dead {
            self.take_over(now);
        }
    }

    /// The time at which this member takes over, unless it hears the controller before.
    fn dead_at(&self, place: &Place) -> Instant {
        let later = OTHERS.mul_f64(0.4 + 0.6 * self.rank()) + DEAF.mul_f64((self.loss - HEARS).max(0.0));
        let is_successor = place.successor == Some(self.me);
        place.heard + DEAD + if is_successor { Duration::ZERO } else { later }
    }

    pub(super) fn watch_deadline(&self, place: &Place) -> Option<Instant> {
        if place.group == GroupId::SESSION {
            return None;
        }
        if !place.is_controller(self.me) {
            let dead = self.dead_at(place);
            return Some(if place.doubts < DOUBTS { dead.min(doubt_at(place)) } else { dead });
        }
        match place.above.is_admitted {
            false => Some(place.above.heard + ADMISSION),
            true if Some(place.parent) == self.sender() => None,
            true => Some(place.above.heard + DEAD_ABOVE),
        }
    }

    /// A number between 0 and 1 that differs from member to member.
    fn rank(&self) -> f64 {
        self.random.clone().unit()
    }

    /// Makes this member the controller of its group.
    pub(super) fn take_over(&mut self, now: Instant) {
        let Some(place) = &mut self.place else { return };
        place.take_over(now, self.me);
        self.clients.clear();
        self.search = None;
        (self.next.state, self.next.report) = (now, now + HEARTBEAT);
        self.orders.push_back(Order::Hurry);
        self.ask_above(now);
    }

    /// A new controller speaks to those whom the one before has named, until they report to it.
    pub(super) fn settle(&mut self, now: Instant) {
        let Some(place) = self.place.as_mut().filter(|place| place.is_controller(self.me)) else { return };
        place.owed.settle(now);
        if place.owed.members == 0 {
            place.said.roster = Vec::new();
        }
    }

    /// Asks the controller above to admit this group.
    pub(super) fn ask_above(&mut self, now: Instant) {
        let Some(place) = &mut self.place else { return };
        place.above.tries += 1;
        place.above.heard = now;
        let join = LocalJoin { group: place.group, epoch: place.epoch, stamp_us: stamp_us(now), loss: 0 };
        self.orders.push_back(tell(place.parent, Local::Join(join)));
    }

    /// Turns to the next member that may be above, because the present one is silent or has no room. The last choice
    /// is the sender, or the given controller where groups were made by hand.
    fn look_above(&mut self, now: Instant) {
        let last = [self.sender(), self.given_parent];
        let Some(place) = &mut self.place else { return };
        let next = place.above.fallbacks.iter_mut().find_map(Option::take);
        let is_fit = |member: &Member| *member != self.me && *member != place.parent;
        let next = next.into_iter().chain(last.into_iter().flatten()).find(is_fit);
        place.parent = next.unwrap_or(place.parent);
        (place.above.is_admitted, place.above.tries, place.round_trip_us) = (false, 0, 0);
        place.above.waits = 0;
        self.orders.push_back(Order::Hurry);
        self.ask_above(now);
    }

    /// Takes in a state from the controller above.
    pub(super) fn above_is(&mut self, now: Instant, state: &LocalState) {
        let Some(place) = &mut self.place else { return };
        let (was_admitted, is_admitted) = (place.above.is_admitted, state.flags.has(LocalFlags::ADMITTED));
        place.above.is_admitted = is_admitted;
        place.above_is(now, state);
        if is_admitted {
            (place.above.tries, place.above.waits) = (0, 0);
        } else if was_admitted || state.echo_us == 0 {
            // It has forgotten this group, or another member of it has joined meanwhile as its controller. Or it answers a report, and the
            // request to be admitted was lost.
            place.above.tries = 0;
            self.ask_above(now);
        } else if state.flags.has(LocalFlags::TAKES_GROUPS) && place.above.waits < WAITS {
            // Another controller still speaks for this group there.
            place.above.waits += 1;
            place.above.tries = place.above.tries.min(1);
        } else {
            // It has no room.
            place.above.tries = TRIES;
        }
    }

    /// Puts this receiver's controller out, because nothing that was asked for has come for long.
    pub fn starves(&mut self, now: Instant) {
        let Some(place) = self.place.clone() else { return };
        if self.is_static || place.group == GroupId::SESSION || now < place.since + Duration::from_secs(5) {
            return;
        }
        if place.is_controller(self.me) {
            return self.look_above(now);
        }
        self.forget_about(place.controller);
        self.depart(&place);
        self.place = None;
        self.begin_search(now, false);
    }

    /// Stops believing a member. If it is the group's controller, another member takes over. If it is the controller
    /// above, another one is looked for.
    pub fn ban(&mut self, now: Instant, member: Member) {
        if self.banned.contains(&member) || Some(member) == self.sender() {
            return;
        }
        self.forget_about(member);
        let Some(place) = &mut self.place else { return };
        if place.controller == member {
            // As if it had been silent.
            place.heard = Instant::from_nanos(now.as_nanos().saturating_sub(DEAD.as_nanos() as u64));
            place.successor = place.successor.filter(|successor| *successor != member);
        } else if place.parent == member && place.is_controller(self.me) {
            self.look_above(now);
        }
    }

    fn forget_about(&mut self, member: Member) {
        self.clients.remove(member);
        self.banned.push(member);
        if self.banned.len() > MAX_BANNED {
            self.banned.remove(0);
        }
    }
}
