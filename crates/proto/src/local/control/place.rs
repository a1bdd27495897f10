//! The place of a receiver in the tree of local groups.

use std::{collections::BTreeSet, time::Duration};

use treecast_wire::message::{GroupId, LocalFlags, LocalState, Member};

use super::{
    super::{
        Seat,
        clients::{LONGEST_SILENCE, gone_after},
    },
    HEARTBEAT, mean_trip_us, round_trip_us,
};
use crate::Instant;

/// A controller is not believed to be farther away from the sender or from its members, in microseconds.
const LONGEST_TRIP_US: u32 = 2_000_000;

/// The time within which a member reports to a new controller, if it is there: 30 reports. All of them get
/// lost with a chance of less than one in a million even where 60 % of the packets do.
const UNHEARD: Duration = Duration::from_secs(15);

/// A receiver's group, its controller, and the controller above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub group: GroupId,
    pub controller: Member,
    /// The controller above this group's, or the sender.
    pub parent: Member,
    pub(super) epoch: u32,
    /// The member that takes over when the controller is silent.
    pub(super) successor: Option<Member>,
    /// The time at which this receiver joined the group.
    pub(super) joined: Instant,
    /// The time at which the controller was last heard, and the number of probes to it since.
    pub(super) heard: Instant,
    pub(super) doubts: u32,
    /// The time at which the present controller began to serve, and the number of its signs of life since.
    pub(super) since: Instant,
    signs: u32,
    /// The members that this receiver still has to hear of, as the controller of the group.
    pub(super) owed: Owed,
    /// The round trip to the member that this receiver reports to, in microseconds; 0 while it is not known.
    pub(super) round_trip_us: u32,
    /// The time since which the controller has made a claim that is wrong: that everybody has an object that this
    /// receiver lacks. `None` if it makes none.
    pub(super) lies_since: Option<Instant>,
    pub(super) above: Above,
    pub said: Said,
}

/// A controller's knowledge of the controller above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Above {
    /// The time at which the controller above was last heard.
    pub(super) heard: Instant,
    /// Whether the controller above has admitted this group, and the number of requests for that so far.
    pub(super) is_admitted: bool,
    pub(super) tries: u32,
    /// The number of answers by which another controller still speaks for this group there.
    pub(super) waits: u32,
    /// The members that may replace the controller above when it is silent: its successor, and the controller above
    /// it.
    pub(super) fallbacks: [Option<Member>; 2],
    /// The round trip from the controller above to the sender, along the controllers between them, in microseconds;
    /// and their number.
    pub(super) distance_us: u32,
    pub(super) depth: u8,
}

/// Members that a controller knows by their number alone, because the controller before it or a file of groups knew them. They have not
/// reported to it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    pub(super) members: u16,
    /// Members that were taken off the number. Each is taken off once, however often it leaves or reports.
    known: BTreeSet<Member>,
    /// The time at which the controller stops waiting for them.
    until: Option<Instant>,
    /// The time for which it waits.
    patience: Duration,
    /// The controller before, and the time at which it counts as dead if it has not reported by then.
    former: Option<(Member, Instant)>,
}

impl Owed {
    /// The members that a file names. They may begin late.
    pub fn named(members: u16) -> Self {
        Self { members, patience: LONGEST_SILENCE, ..Self::default() }
    }

    /// The members that another controller has known. Some may have left before they heard of the new one.
    pub fn known_before(members: u16) -> Self {
        Self { members, patience: UNHEARD, ..Self::default() }
    }

    /// Notes that a member has reported, or has left.
    pub fn is_known(&mut self, member: Member) {
        if self.members == 0 || !self.known.insert(member) {
            return;
        }
        self.members -= 1;
        self.former = self.former.filter(|(former, _)| *former != member);
    }

    /// Stops waiting for members that would have reported by now.
    pub fn settle(&mut self, now: Instant) {
        if let Some((former, _)) = self.former.filter(|(_, gone)| now >= *gone) {
            self.is_known(former);
        }
        if now >= *self.until.get_or_insert(now + self.patience) {
            *self = Self { until: self.until, ..Self::default() };
        }
    }
}

/// The state of a group, as its controller has told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The longest round trip between the controller and a member, in microseconds.
    pub diameter_us: u32,
    pub members: u16,
    /// The controller's round trip to the sender along the controllers above, in microseconds.
    pub distance_us: u32,
    /// The mean of these round trips, in microseconds.
    pub mean_trip_us: u32,
    pub is_congested: bool,
    /// The number of objects that have ended at every member of the group.
    pub done: u32,
    /// The group's members, where its controller names them.
    pub(super) roster: Vec<Member>,
}

impl Place {
    fn new(now: Instant, group: GroupId, controller: Member, parent: Member) -> Self {
        Self {
            group,
            controller,
            parent,
            epoch: 1,
            successor: None,
            joined: now,
            heard: now,
            doubts: 0,
            since: now,
            signs: 0,
            owed: Owed::default(),
            round_trip_us: 0,
            lies_since: None,
            above: Above { heard: now, ..Above::default() },
            said: Said::default(),
        }
    }

    /// Creates a place in a group that was made by hand.
    pub fn fixed(seat: Seat) -> Self {
        let mut place = Self::new(Instant::ZERO, seat.group, seat.controller, seat.parent);
        place.said.members = seat.members;
        place.owed = Owed::named(seat.members);
        place
    }

    /// Creates the place of a receiver in a session in which the sender alone mends.
    pub fn under_sender(now: Instant, sender: Member) -> Self {
        Self::new(now, GroupId::SESSION, sender, sender)
    }

    /// Creates the place of the first controller of a new group.
    pub fn founded(now: Instant, group: GroupId, me: Member, parent: &LocalState) -> Self {
        let mut place = Self::new(now, group, me, parent.controller);
        place.above_is(now, parent);
        place
    }

    /// Creates the place of a member that a controller has admitted.
    pub fn joined(now: Instant, state: &LocalState) -> Self {
        let mut place = Self::new(now, state.group, state.controller, state.parent);
        place.group_is(now, state);
        place.measured(now, state);
        place
    }

    /// Whether this member is farther from its controller than the controller is from the sender. It would be better
    /// off in a group of its own.
    pub fn is_far(&self) -> bool {
        self.said.mean_trip_us > 0 && self.round_trip_us > self.said.mean_trip_us
    }

    pub fn is_controller(&self, me: Member) -> bool {
        self.controller == me
    }

    /// Makes the member `me` the group's controller.
    pub fn take_over(&mut self, now: Instant, me: Member) {
        // The controller before may be alive, and only not heard here.
        let silence = gone_after(self.signs, self.heard - self.since, HEARTBEAT);
        let former = Some((self.controller, now + silence));
        self.owed = Owed { former, ..Owed::known_before(self.said.members) };
        self.said.roster.push(self.controller);
        self.epoch += 1;
        self.controller = me;
        (self.since, self.signs, self.round_trip_us) = (now, 0, 0);
        self.above = Above { heard: now, is_admitted: false, tries: 0, waits: 0, ..self.above };
    }

    /// Takes in the group's state from its controller.
    pub fn group_is(&mut self, now: Instant, state: &LocalState) {
        if self.controller != state.controller {
            (self.since, self.signs) = (now, 0);
            self.round_trip_us = 0;
        }
        self.signs = self.signs.saturating_add(1);
        self.controller = state.controller;
        self.epoch = state.epoch;
        self.parent = state.parent;
        self.successor = state.successor;
        (self.heard, self.doubts) = (now, 0);
        // Only signs of life name members.
        let roster = if state.roster.is_empty() { &self.said.roster } else { &state.roster };
        self.said = Said {
            diameter_us: state.diameter_us.min(LONGEST_TRIP_US),
            members: state.members,
            distance_us: state.distance_us.min(LONGEST_TRIP_US),
            mean_trip_us: mean_trip_us(state),
            is_congested: state.flags.has(LocalFlags::CONGESTION),
            done: state.done,
            roster: roster.clone(),
        };
    }

    /// Takes in a group's state from the controller above.
    pub fn above_is(&mut self, now: Instant, state: &LocalState) {
        self.above.heard = now;
        self.above.fallbacks = [state.successor, Some(state.parent)];
        (self.above.distance_us, self.above.depth) = (state.distance_us, state.depth);
        self.measured(now, state);
    }

    /// Takes in the round trip that an answer shows.
    pub fn measured(&mut self, now: Instant, state: &LocalState) {
        if let Some(trip) = round_trip_us(now, state) {
            self.round_trip_us = match self.round_trip_us {
                0 => trip,
                before => before / 2 + trip / 2,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_leaves_many_times_hides_no_other() {
        let member = |port: u16| Member(([192, 0, 2, 1], port).into());
        let mut owed = Owed::named(3);
        (0..10).for_each(|_| owed.is_known(member(1)));
        assert_eq!(owed.members, 2);
        owed.is_known(member(2));
        owed.settle(Instant::ZERO);
        owed.settle(Instant::ZERO + (LONGEST_SILENCE - Duration::from_millis(1)));
        assert_eq!(owed.members, 1);
        owed.settle(Instant::ZERO + LONGEST_SILENCE);
        assert_eq!(owed.members, 0);
    }
}
