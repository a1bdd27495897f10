//! Where a receiver belongs.

use std::time::Duration;

use treecast_wire::message::{GroupId, LocalFlags, LocalState, Member};

use super::{super::Seat, mean_trip_us, round_trip_us};
use crate::Instant;

/// A new controller does not know its group before every member has reported once.
const SETTLING: Duration = Duration::from_millis(1_500);

/// A receiver's group, its controller, and the controller above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub group: GroupId,
    pub controller: Member,
    /// The controller above this group's, or the sender.
    pub parent: Member,
    pub(super) epoch: u32,
    /// Who takes over when the controller is silent.
    pub(super) successor: Option<Member>,
    /// When this receiver has come to the group.
    pub(super) joined: Instant,
    /// When the controller was heard last, and how many times it was asked since whether it is there.
    pub(super) heard: Instant,
    pub(super) doubts: u32,
    /// When the present controller began.
    pub(super) since: Instant,
    /// Round trip to whom this receiver reports, in microseconds; 0 where it is not known.
    pub(super) round_trip_us: u32,
    /// Since when the controller has claimed what cannot be.
    pub(super) lies_since: Option<Instant>,
    pub(super) above: Above,
    pub said: Said,
}

/// What a controller knows of the one above.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Above {
    /// When it was heard last.
    pub(super) heard: Instant,
    /// Whether it has admitted the group, and how many times it was asked to.
    pub(super) is_admitted: bool,
    pub(super) tries: u32,
    /// Who may be above when it is silent: its successor, and the one above it.
    pub(super) fallbacks: [Option<Member>; 2],
    /// Its round trip to the sender along the controllers above it, in microseconds, and how many these are.
    pub(super) distance_us: u32,
    pub(super) depth: u8,
}

/// How a group is, as its controller says.
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
    /// Everybody in the group is done with all objects before this one.
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
            round_trip_us: 0,
            lies_since: None,
            above: Above { heard: now, ..Above::default() },
            said: Said::default(),
        }
    }

    /// A place that was given.
    pub fn fixed(seat: Seat) -> Self {
        Self::new(Instant::ZERO, seat.group, seat.controller, seat.parent)
    }

    /// The place of everybody where the sender alone mends.
    pub fn under_sender(now: Instant, sender: Member) -> Self {
        Self::new(now, GroupId::SESSION, sender, sender)
    }

    /// The place of the first controller of a new group.
    pub fn founded(now: Instant, group: GroupId, me: Member, parent: &LocalState) -> Self {
        let mut place = Self::new(now, group, me, parent.controller);
        place.above_is(now, parent);
        place
    }

    /// The place of a member that this controller has admitted.
    pub fn joined(now: Instant, state: &LocalState) -> Self {
        let mut place = Self::new(now, state.group, state.controller, state.parent);
        place.group_is(now, state);
        place.measured(now, state);
        place
    }

    /// Whether a member is farther from its controller than that one is from the sender: it would be better off in a group of its own.
    pub fn is_far(&self) -> bool {
        self.said.mean_trip_us > 0 && self.round_trip_us > self.said.mean_trip_us
    }

    pub fn is_controller(&self, me: Member) -> bool {
        self.controller == me
    }

    /// Whether its controller knows what its members have.
    pub fn knows_group(&self, now: Instant) -> bool {
        self.epoch == 1 || now >= self.since + SETTLING
    }

    /// The group's controller says how it is.
    pub fn group_is(&mut self, now: Instant, state: &LocalState) {
        if self.controller != state.controller {
            self.since = now;
            self.round_trip_us = 0;
        }
        self.controller = state.controller;
        self.epoch = state.epoch;
        self.parent = state.parent;
        self.successor = state.successor;
        (self.heard, self.doubts) = (now, 0);
        // Only signs of life name members.
        let roster = if state.roster.is_empty() { &self.said.roster } else { &state.roster };
        self.said = Said {
            diameter_us: state.diameter_us,
            members: state.members,
            distance_us: state.distance_us,
            mean_trip_us: mean_trip_us(state),
            is_congested: state.flags.has(LocalFlags::CONGESTION),
            done: state.done,
            roster: roster.clone(),
        };
    }

    /// The one above says how it is.
    pub fn above_is(&mut self, now: Instant, state: &LocalState) {
        self.above.heard = now;
        self.above.fallbacks = [state.successor, Some(state.parent)];
        (self.above.distance_us, self.above.depth) = (state.distance_us, state.depth);
        self.measured(now, state);
    }

    /// An answer shows how far away it is.
    pub fn measured(&mut self, now: Instant, state: &LocalState) {
        if let Some(trip) = round_trip_us(now, state) {
            self.round_trip_us = match self.round_trip_us {
                0 => trip,
                before => before / 2 + trip / 2,
            };
        }
    }
}
