//! The results of the commands that standing receivers run when they have everything.
//!
//! A receiver that is done leaves, runs its command, and comes again with the result. Until then the session stays open, for at
//! most [`Connected::awaits_results`](super::super::super::Connected::awaits_results).

use std::time::Duration;

use treecast_proto::Instant;
use treecast_wire::message::CommandResult;

use super::{
    super::{
        super::{
            CommandOutcome, Plan, SendEvent, Standing,
            peer::{Awaited, Peer, shown},
            who::Who,
        },
        core::Core,
    },
    Peers,
};
use crate::security::PublicKey;

impl Peers {
    /// Takes note of how a receiver's command went.
    pub fn note_result(
        &mut self,
        now: Instant,
        key: Option<PublicKey>,
        result: &CommandResult,
        plan: &Plan,
        core: &mut Core<'_>,
    ) {
        let who = Who { key, member: result.member, name: result.name().to_owned() };
        let outcome = CommandOutcome {
            code: Some(result.code).filter(|code| *code >= 0),
            seconds: result.time.as_secs_f64(),
            line: shown(result.line.as_str()),
        };
        let is_refused = key.is_some_and(|key| plan.allow_list().is_some_and(|allow| !allow.admits(&key)));
        let listed = plan.options.listed().iter().find(|listed| listed.is(&who));
        // Those with everything do not connect to a sender that is started again, except to say so.
        let is_expected = |peer: &Peer| {
            let is_missing = peer.absence.awaited >= Awaited::Unseen && peer.link.connection.is_none();
            is_missing && listed.is_some_and(|listed| listed.is(&peer.who))
        };
        let mut peers = self.iter_mut().filter(|_| !is_refused);
        let own = peers.find(|(_, peer)| peer.who.is(&who) || is_expected(peer));
        let Some((&receiver, peer)) = own else { return };
        if peer.standing(core.figures.summary.objects) != Standing::Done {
            if peer.link.connection.is_some() {
                return;
            }
            // It says so to a sender that was started again, or it has not heard that its connection broke.
            peer.has_all(core.figures.summary.objects, core.figures.total_bytes);
        }
        if peer.result.replace(outcome.clone()).is_some() {
            return;
        }
        let name = peer.name.clone();
        if outcome.is_good() {
            self.note_has(receiver, plan, core);
        }
        self.note_ended(receiver, core);
        self.update_hold(now, plan, core);
        core.tell(SendEvent::CommandEnded { receiver: name, outcome });
    }

    /// The time until which the session stays open for results that have not come. `None` if it waits for none.
    pub fn awaits_results(&mut self, now: Instant, plan: &Plan, core: &Core<'_>) -> Option<Instant> {
        let until = *self.results_until.get_or_insert(now + plan.options.awaits_results()?);
        let objects = core.figures.summary.objects;
        (now < until && self.values().any(|peer| peer.owes_result(objects))).then_some(until)
    }

    /// Says of each result that has not come that it has not.
    pub fn settle_results(&mut self, now: Instant, interrupted: bool, plan: &Plan, core: &Core<'_>) {
        let Some(wait) = plan.options.awaits_results() else { return };
        let objects = core.figures.summary.objects;
        let interrupted = interrupted || self.results_until.is_none_or(|until| now < until);
        for peer in self.values_mut().filter(|peer| peer.owes_result(objects)) {
            peer.result = Some(CommandOutcome {
                code: None,
                seconds: wait.as_secs_f64(),
                line: missing(interrupted, wait),
            });
        }
    }
}

fn missing(interrupted: bool, wait: Duration) -> String {
    match interrupted {
        true => "the sender was stopped before it heard how the command went".to_owned(),
        false => format!("the receiver has not told within {} s how its command went", wait.as_secs()),
    }
}
