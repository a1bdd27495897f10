//! Moving to another group of the session, where the same objects go out at another rate.
//!
//! In a slower group, blocks come in any order, and only those that some member awaits: a gap says nothing. The sender
//! says over the connection when all that this receiver awaited of an object has been out. What it says before it has
//! confirmed a move is about the group before.
//!
//! Repair symbols go to the first group alone. In a slower one, whatever is missing is named.

use std::ops::Range;

use treecast_wire::message::Move;

use super::{
    Receiver, ReceiverEvent, State,
    object::{Decision, Stage},
    requester::Request,
};
use crate::{Instant, Step};

impl Receiver {
    /// The caller hears another group now, and has handed in all that it has heard of the one before. What that one had
    /// yet to bring is told the sender, which knows itself what has been asked for.
    pub(super) fn moved(&mut self, now: Instant, group: u8) {
        let Ok(to) = Move::new(group) else { return };
        if group == self.group || self.state != State::ReceivingData {
            return;
        }
        let was_first = std::mem::replace(&mut self.group, group) == 0;
        self.unconfirmed_moves += 1;
        let open: Vec<u32> = self.ledger.iter().map(|(index, _)| index).collect();
        for index in open {
            self.be_quiet_at(index, None);
            let unheard = self.leave_group(index);
            for gap in unheard.into_iter().filter(|_| was_first) {
                self.request(index, Request::Lacking(gap));
            }
            self.plan_symbols(now, index);
        }
        self.request(0, Request::Move(to));
    }

    /// The sender has answered a move: with another group than that where this receiver has gone, if it is to be there. Or it calls
    /// this receiver, which has not moved, to another group.
    pub(super) fn placed(&mut self, to: Move) {
        let before = self.unconfirmed_moves;
        self.unconfirmed_moves = before.saturating_sub(1);
        if before > 1 {
            return;
        }
        self.ask_for_ended();
        if to.group() != self.group {
            self.out.push_back(Step::Event(ReceiverEvent::Called { group: to.group() }));
        }
    }

    /// Asks about objects that ended while a move was under way. If an object's time is up, the sender answers with that.
    fn ask_for_ended(&mut self) {
        let ended = self.ledger.iter().filter(|(_, object)| object.end_is_old);
        let ended: Vec<u32> = ended.map(|(index, _)| index).collect();
        for index in ended {
            if let Some(object) = self.ledger.get_mut(index) {
                object.end_is_old = false;
                self.request(index, Request::BeginOfFile);
            }
        }
    }

    /// An object that is not wanted is not to be brought by a slower group only to be thrown away: the sender hears of it
    /// as soon as it has confirmed that there is such an object.
    pub(super) fn refuse_early(&mut self, now: Instant, index: u32) {
        let Some(object) = self.ledger.get_mut(index).filter(|_| self.group > 0) else { return };
        if !object.begin_is_sure && object.decision == Decision::Ignored && !object.bof_requested {
            object.bof_requested = true;
            self.request(index, Request::BeginOfFile);
        }
        self.settle(now, index);
    }

    /// All that is known of an object's way through the group before is forgotten. Returns what has not been heard of it
    /// there, and is neither there nor asked for. With repair symbols, that is all that is missing.
    fn leave_group(&mut self, index: u32) -> Vec<Range<u64>> {
        self.forget_symbols(index);
        let is_named = !self.requester.counts;
        let Some(object) = self.ledger.get_mut(index) else { return Vec::new() };
        let is_wanted = object.decision != Decision::Ignored && object.doom.is_none();
        let unheard = object.start_over(is_named);
        if object.stage == Stage::Receiving && is_wanted { unheard } else { Vec::new() }
    }
}
