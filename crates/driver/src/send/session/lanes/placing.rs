//! `--rate auto` over multicast: which receiver is served in which group ([`SlowerGroups`]).

use std::time::Duration;

use treecast_proto::{
    Instant,
    group_rate::{GroupView, Order, SlowerGroups},
    object::ReceiverId,
    tfmcc::Control,
};

use super::super::super::{Plan, Rate};

/// The time between two looks at the groups.
const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Placing {
    machine: SlowerGroups,
    next_look: Instant,
    /// Receivers that bear less do not limit the rate.
    floor_bps: Option<u64>,
}

impl Placing {
    /// Creates the choice. `None` where receivers choose for themselves, or there is one group.
    pub fn new(plan: &Plan) -> Option<Self> {
        let Rate::Auto { control: Control::Model, floor_bps } = plan.options.rate() else { return None };
        let (machine, next_look) = (SlowerGroups::default(), Instant::ZERO);
        (plan.groups > 1).then_some(Self { machine, next_look, floor_bps })
    }

    pub fn joined(&mut self, now: Instant, receiver: ReceiverId, who: u64) {
        self.machine.joined(now, receiver.number(), who);
    }

    pub fn left(&mut self, receiver: ReceiverId) {
        self.machine.left(receiver.number());
    }

    pub fn moved(&mut self, now: Instant, receiver: ReceiverId, group: u8) {
        self.machine.moved(now, receiver.number(), group);
    }

    /// Notes what a receiver says it bears, in bits a second, or that nothing limits it. Returns whether it is time to look at the groups.
    pub fn note_limit(&mut self, now: Instant, from: ReceiverId, bears_bps: Option<u64>) -> bool {
        let is_below = |floor| bears_bps.is_some_and(|bps| bps < floor);
        if !self.floor_bps.is_some_and(is_below) {
            self.machine.reported(now, from.number(), bears_bps.map(|bps| bps as f64));
        }
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + INTERVAL;
        }
        is_due
    }

    /// Returns which receivers are to go to which groups.
    pub fn look(&mut self, now: Instant, views: &[GroupView]) -> Vec<Order> {
        self.machine.look(now, views)
    }

    /// Whether a group's rate is to be sought.
    pub fn asks(&self, group: u8) -> bool {
        self.machine.asks(group)
    }
}
