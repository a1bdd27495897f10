//! `--rate auto` over multicast: which receiver is served in which group ([`SlowerGroups`]).

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use treecast_proto::{
    Instant,
    group_rate::{GroupView, Order, SlowerGroups},
    object::ReceiverId,
    tfmcc::{Control, SenderInput},
};

use super::{
    super::{Plan, Rate},
    Session,
};
use crate::security::PublicKey;

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
        let Rate::Auto { control: Control::Model, floor_bps } = plan.options.rate else { return None };
        let (machine, next_look) = (SlowerGroups::default(), Instant::ZERO);
        (plan.groups > 1).then_some(Self { machine, next_look, floor_bps })
    }
}

impl Session<'_> {
    pub(super) fn give_place(&mut self, now: Instant, receiver: ReceiverId) {
        let Some(peer) = self.peers.get(&receiver) else { return };
        let mut who = DefaultHasher::new();
        (peer.who.key.map(PublicKey::to_bytes), peer.address.ip()).hash(&mut who);
        if let Some(placing) = &mut self.lanes.placing {
            placing.machine.joined(now, receiver.number(), who.finish());
        }
    }

    pub(super) fn no_place(&mut self, receiver: ReceiverId) {
        if let Some(placing) = &mut self.lanes.placing {
            placing.machine.left(receiver.number());
        }
    }

    pub(super) fn note_place(&mut self, now: Instant, receiver: ReceiverId, group: u8) {
        if let Some(placing) = &mut self.lanes.placing {
            placing.machine.moved(now, receiver.number(), group);
        }
    }

    /// A receiver says what it bears, in bits a second, or that nothing limits it.
    pub(super) fn note_limit(&mut self, now: Instant, from: ReceiverId, bears_bps: Option<u64>) {
        let Some(placing) = &mut self.lanes.placing else { return };
        let is_below = |floor| bears_bps.is_some_and(|bps| bps < floor);
        if !placing.floor_bps.is_some_and(is_below) {
            placing.machine.reported(now, from.number(), bears_bps.map(|bps| bps as f64));
        }
        if now >= placing.next_look {
            placing.next_look = now + INTERVAL;
            self.place(now);
        }
    }

    /// Calls receivers to the groups where they belong.
    fn place(&mut self, now: Instant) {
        let views: Vec<_> = (0..=self.lanes.slower.len() as u8).map(|group| self.view(group)).collect();
        let Some(placing) = &mut self.lanes.placing else { return };
        let orders = placing.machine.look(now, &views);
        let asks: Vec<_> = (0..views.len() as u8).map(|group| placing.machine.asks(group)).collect();
        for (group, asks) in (0..).zip(asks) {
            if let Some(congestion) = self.congestion_of(group) {
                congestion.ask(asks);
            }
        }
        for order in orders {
            let (Order::Call { receiver, .. } | Order::LeaveOut { receiver }) = order;
            let Some(id) = self.peers.keys().copied().find(|id| id.number() == receiver) else { continue };
            match order {
                Order::Call { group, .. } => {
                    if let Some(machine) = self.machine.vcmtp_mut() {
                        machine.call(id, group);
                        self.has_news = true;
                    }
                }
                Order::LeaveOut { receiver } => {
                    self.congestion(now, self.group_of(id), SenderInput::Slowed { receiver });
                }
            }
        }
    }

    fn view(&mut self, group: u8) -> GroupView {
        let Some(congestion) = self.congestion_of(group) else { return GroupView::default() };
        let view = congestion.machine().view(Duration::MAX);
        let unsent = self.unsent_bytes(group) as f64 * 8.0;
        let rest = Duration::try_from_secs_f64(unsent / view.rate_bps.max(1) as f64);
        GroupView { rest: rest.unwrap_or(view.rest), ..view }
    }

    /// Bytes of objects that a group has yet to be sent, at least. The end of a feed is not known.
    fn unsent_bytes(&self, group: u8) -> u64 {
        let total = self.figures.total_bytes;
        let members =
            || self.peers.values().filter(|peer| peer.group == group && peer.link.connection.is_some());
        match group {
            _ if self.objects.feed.is_some() => u64::MAX,
            0 => total.saturating_sub(self.machine.figures().multicast_bytes),
            _ => members().map(|peer| total.saturating_sub(peer.had_bytes())).max().unwrap_or_default(),
        }
    }
}
