//! The reference model of sessions. It computes from the scenario alone what each receiver must end up with, and compares
//! that with what the receiver did end up with.

use std::mem::discriminant;

use treecast_proto::{
    object::{Outcome, ReceiverId},
    vcmtp::Repair,
};

use super::{
    Fault, Scenario, carousel,
    receiver_node::{Fate, ReceiverNode},
    sender_node::SenderNode,
};
use crate::judge::Judge;

/// The ways in which an object may end at a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The object must become complete.
    Whole,
    /// The object must become complete here, but the sender may give it up.
    WholeHere,
    /// The application ignores the object.
    Ignored,
    /// The object may fail, and the receiver must then say so.
    WholeOrFailed,
    /// Anything is right, because the session or the receiver ends in the middle.
    Anything,
    /// The object must fail, because its storage does.
    Failed,
}

/// Judges a run by what its hosts have come to.
pub(super) fn judge(
    judge: &mut Judge,
    scenario: &Scenario,
    sender: &SenderNode,
    receivers: &[Option<ReceiverNode>],
) {
    let present = || receivers.iter().enumerate().filter_map(|(number, one)| Some((number, one.as_ref()?)));
    judge.hear(sender.complaints.iter().cloned());
    for (number, receiver) in present() {
        judge.hear(receiver.complaints.iter().map(|what| format!("receiver {number}: {what}")));
    }
    if scenario.network.is_some() {
        // What is lacking there is what is measured.
        return;
    }
    judge.require(sender.closed, || "the sender has not closed".to_owned());
    for (number, receiver) in present() {
        judge.committed(number, receiver.storage.committed(), |index| sender.content(index as usize));
        let has_closed = receiver.outcome.closed || receiver.dead;
        judge.require(has_closed, || format!("receiver {number} has not closed"));
        // Whoever goes on with a carousel later has what came before the session was cut short.
        let goes_on = scenario.carousel.is_some() && receiver.outcome.cut_short.is_some();
        if !receiver.dead && !goes_on {
            judge.left(number, receiver.storage.leftovers());
        }
        if scenario.carousel.is_some() {
            carousel::judge(judge, scenario, number, receiver);
        } else {
            judge_fates(judge, scenario.lingers(), number, receiver);
        }
    }
    if scenario.carousel.is_none() {
        judge_objects(judge, scenario, sender, receivers);
    }
}

/// Judges the end of each object at each receiver that the sender has counted.
fn judge_objects(
    judge: &mut Judge,
    scenario: &Scenario,
    sender: &SenderNode,
    receivers: &[Option<ReceiverNode>],
) {
    for index in 0..scenario.objects.len() as u32 {
        let Some(outcomes) = sender.done.get(&index) else {
            judge.require(false, || format!("object {index} is not done"));
            continue;
        };
        for (receiver, outcome) in outcomes {
            // With the reason, which the object's end leaves out.
            let told = sender.told.get(&(index, *receiver));
            let Some(told) = told.filter(|told| discriminant(*told) == discriminant(outcome)) else {
                judge.require(false, || {
                    format!("receiver {}'s end with object {index} was not told", receiver.0)
                });
                continue;
            };
            if let Some(node) = &receivers[receiver.0 as usize] {
                judge.hear(object_fault(scenario, index, *receiver, told, node));
            }
        }
    }
}

/// Returns what is wrong with one object at a receiver that the sender has counted.
fn object_fault(
    scenario: &Scenario,
    index: u32,
    receiver: ReceiverId,
    outcome: &Outcome,
    node: &ReceiverNode,
) -> Option<String> {
    let expected = expected(scenario, index as usize, receiver.0 as usize);
    let fate = node.outcome.fates.get(&index);
    let ignored = scenario.receivers[receiver.0 as usize].ignores[index as usize];
    let consistent = match (outcome, fate) {
        (Outcome::Complete, Some(Fate::Received)) => true,
        (Outcome::NotWanted, None) => ignored,
        (Outcome::Complete, None) | (Outcome::NotWanted, Some(_)) => false,
        (Outcome::Complete, Some(Fate::Failed(_))) => false,
        (Outcome::Failed(_), _) => true,
    };
    let as_expected = match expected {
        Expected::Whole => *outcome == Outcome::Complete && fate == Some(&Fate::Received),
        Expected::Ignored => *outcome == Outcome::NotWanted && fate.is_none(),
        Expected::WholeHere => fate == Some(&Fate::Received),
        Expected::WholeOrFailed => fate.is_some() || ignored,
        Expected::Anything => true,
        Expected::Failed => matches!((outcome, fate), (Outcome::Failed(_), Some(Fate::Failed(_)))),
    };
    (!consistent || !as_expected).then(|| {
        format!(
            "object {index} at receiver {}: {expected:?} is expected, the sender has {outcome:?}, it has {fate:?}",
            receiver.0
        )
    })
}

fn expected(scenario: &Scenario, position: usize, receiver: usize) -> Expected {
    let (object, plan) = (&scenario.objects[position], &scenario.receivers[receiver]);
    let fault = plan.faults[position];
    let times_out = scenario.retransmission_timeout_factor.is_some();
    let hears_all = plan.hears_everything() && !scenario.is_forged;
    let stays = plan.moves.as_ref().is_some_and(Vec::is_empty);
    let needs_nothing = hears_all && stays && plan.join_at.is_zero() && fault.is_none();
    match fault {
        _ if plan.leave.is_some() || (times_out && !scenario.lingers()) => Expected::Anything,
        _ if object.withdraw_at.is_some() => Expected::WholeOrFailed,
        Some(Fault::StoreFails(_)) if plan.ignores[position] => Expected::WholeOrFailed,
        _ if times_out && needs_nothing && !plan.ignores[position] => Expected::WholeHere,
        _ if times_out || (scenario.repair == Repair::None && !needs_nothing) => Expected::WholeOrFailed,
        _ if plan.ignores[position] => Expected::Ignored,
        Some(Fault::StoreFails(_) | Fault::CommitFails | Fault::DamagedAlways) => Expected::Failed,
        // A forged block damages it, too, and an object is fetched only once more.
        Some(Fault::DamagedOnce) if scenario.is_forged => Expected::WholeOrFailed,
        Some(Fault::DamagedOnce) | None => Expected::Whole,
    }
}

/// Judges that a receiver was told of the end of exactly those objects that it has.
fn judge_fates(judge: &mut Judge, lingers: bool, number: usize, receiver: &ReceiverNode) {
    let (fates, committed) = (&receiver.outcome.fates, receiver.storage.committed());
    for index in committed.keys() {
        let is_told = fates.get(index) == Some(&Fate::Received) || receiver.dead;
        judge.require(is_told, || {
            format!("object {index} is committed at receiver {number}, which was not told")
        });
    }
    for (index, _) in fates.iter().filter(|(_, fate)| **fate == Fate::Received) {
        judge.require(committed.contains_key(index), || {
            format!("object {index} is said to be at receiver {number} and is not")
        });
    }
    let waits = lingers && fates.values().any(Fate::is_by_the_session_s_end);
    judge.require(!waits, || {
        format!("receiver {number} has waited for the session's end instead of a Retx-Reject")
    });
}
