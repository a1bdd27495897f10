//! The receivers of a session: those that are there, those that have been, and those that are waited for.

mod again;
mod deaf;
mod objection;
mod results;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    ops::{Deref, DerefMut},
};

use treecast_proto::{
    Instant,
    fanout::Way,
    object::{Outcome, ReceiverId},
};
use treecast_wire::message::{Hello, PutOutCode};

use super::{
    super::{
        Listed, Plan, SendError, Standing,
        peer::{Awaited, Peer, shown},
        session_file::Marks,
        who::Who,
    },
    core::Core,
    door::Door,
};
use crate::words::{nearest, some_of};

/// The most receivers that have left and are told by name in the end.
const MAX_DEPARTED: usize = 1000;

/// The most names that are kept of receivers which the session is not for.
const MAX_NOT_MEANT: usize = 1000;

/// The receivers of a session, by number. Some of them are not there: they have left, or have not come yet.
#[derive(Debug, Default)]
pub(super) struct Peers {
    all: BTreeMap<ReceiverId, Peer>,
    /// The numbers of the listed receivers that have everything.
    have: BTreeSet<usize>,
    /// The numbers of the listed receivers that have been there, in this session or with an earlier sender of it.
    seen: BTreeSet<usize>,
    /// The names of receivers that were refused because the session is not for them, for the user who has mistyped a name.
    not_meant: BTreeSet<String>,
    /// The number of failures of receivers that are kept to be told one by one.
    told_failures: usize,
    /// The time until which the results of commands are awaited. `None` before all receivers have everything.
    results_until: Option<Instant>,
}

impl Deref for Peers {
    type Target = BTreeMap<ReceiverId, Peer>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Peers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

/// # Receivers that are there
impl Peers {
    /// The receivers that are there, and have not been told Goodbye.
    pub fn there(&self) -> impl Iterator<Item = (ReceiverId, &Peer)> {
        let there = self.iter().filter(|(_, peer)| peer.link.connection.is_some() && !peer.link.closes);
        there.map(|(receiver, peer)| (*receiver, peer))
    }

    /// The receivers that have a connection.
    pub fn connected(&self) -> impl Iterator<Item = &Peer> {
        self.values().filter(|peer| peer.link.connection.is_some())
    }

    /// The number of receivers that have a connection.
    pub fn count(&self) -> u32 {
        self.connected().count() as u32
    }

    /// The receivers named before (`--receivers`) from whose addresses nobody is there.
    pub fn missing(&self, plan: &Plan) -> Vec<IpAddr> {
        let here: BTreeSet<IpAddr> = self.connected().map(|peer| peer.address.ip().to_canonical()).collect();
        let named = plan.options.receivers.iter().copied();
        named.filter(|ip| !here.contains(&ip.to_canonical())).collect()
    }

    /// The receiver with this number, by which machines know it.
    pub fn numbered(&self, number: u32) -> Option<(ReceiverId, &Peer)> {
        let mut all = self.iter().filter(|(receiver, _)| receiver.number() == number);
        all.next().map(|(receiver, peer)| (*receiver, peer))
    }

    /// The number of receivers that the start waits for.
    pub fn wanted(&self, plan: &Plan) -> u32 {
        if plan.options.listed().is_empty() {
            return plan.options.start.wait_for;
        }
        let has_told =
            |listed: &Listed| self.values().any(|peer| peer.result.is_some() && listed.is(&peer.who));
        let listed = plan.options.listed().iter().enumerate();
        listed.filter(|(index, listed)| !self.have.contains(index) && !has_told(listed)).count() as u32
    }

    /// The number of receivers that the start waited for, and that never came. Listed ones have a row each.
    pub fn never_came(&self, plan: &Plan, core: &Core<'_>) -> u64 {
        let knows_receivers = plan.options.kind.has_connections() && plan.options.listed().is_empty();
        let came = self.len() as u64 + core.figures.summary.others_failed;
        // Those of an earlier sender of the session who have everything do not come back.
        let is_counted = knows_receivers && core.figures.started.is_some() && !plan.goes_on;
        if is_counted { u64::from(plan.options.start.wait_for).saturating_sub(came) } else { 0 }
    }

    /// Whether receivers of a feed have not come back that the sender before this one had.
    pub fn lacks_returned(&self, plan: &Plan) -> bool {
        let is_missing = |peer: &Peer| peer.absence.awaited == Awaited::Missing;
        plan.options.content.feed.is_some() && self.values().any(is_missing)
    }

    /// The time since which a receiver has been away that may come again, to this sender or to the next one of the
    /// session: at most for as long as a silent one is waited for.
    pub fn away_since(&self, now: Instant, plan: &Plan) -> Option<Instant> {
        if !plan.is_of_folder() || plan.options.session_file.is_none() {
            return None;
        }
        let away = self.values().filter(|peer| !peer.absence.has_quit);
        let away = away.filter_map(|peer| peer.absence.left_at);
        away.filter(|left_at| now < *left_at + plan.options.stall_limit()).min()
    }

    /// Whether everybody is away, and somebody may come again: what began now would go to nobody.
    pub fn is_left_alone(&self, now: Instant, plan: &Plan) -> bool {
        self.values().all(|peer| peer.link.connection.is_none()) && self.away_since(now, plan).is_some()
    }

    /// The time until which a sender that is started again would send what ends now. `None` where no receiver that
    /// lacks it may come again.
    pub fn owed_until(&self, now: Instant, plan: &Plan) -> Option<Instant> {
        self.away_since(now, plan).map(|_| now + plan.options.stall_limit())
    }
}

/// # What becomes of them
impl Peers {
    /// Notes that a receiver has ended with an object of this name and size.
    pub fn note_done(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        (name, size): (String, u64),
        outcome: Outcome,
        plan: &Plan,
        core: &mut Core<'_>,
    ) {
        let Some(peer) = self.all.get_mut(&receiver) else { return };
        let summary = &core.figures.summary;
        peer.tally.ended_at = Some(now);
        match outcome {
            Outcome::Complete => {
                peer.tally.objects_complete += 1;
                peer.tally.complete_bytes += size;
            }
            Outcome::NotWanted => {
                peer.tally.objects_not_wanted += 1;
                peer.tally.forgone_bytes = peer.tally.forgone_bytes.saturating_add(size);
            }
            // Why is told of the object, once for all.
            Outcome::Failed(_) if summary.withdrawn.iter().any(|(other, _)| *other == name) => {
                let reason = "the sender could not send it to its end".into();
                peer.fail(&mut self.told_failures, name, size, reason);
            }
            Outcome::Failed(reason) => peer.fail(&mut self.told_failures, name, size, shown(&reason)),
        }
        if peer.standing(summary.objects) == Standing::Done {
            // Whoever runs a command has everything when that has gone well.
            if !(peer.reports && plan.options.awaits_results().is_some()) {
                self.note_has(receiver, plan, core);
            }
            self.note_ended(receiver, core);
        }
    }

    /// Notes that a receiver has come.
    pub fn note_came(&mut self, who: &Who, address: SocketAddr, plan: &Plan, core: &mut Core<'_>) {
        let listed = plan.options.listed().iter().enumerate();
        self.seen.extend(listed.filter(|(_, listed)| listed.is(who)).map(|(index, _)| index));
        core.marks.iter_mut().for_each(|marks| marks.came(who, address));
    }

    /// Notes by which way a receiver is served. Returns its name, if it is there.
    pub fn note_way(&mut self, receiver: ReceiverId, way: Way) -> Option<String> {
        let peer = self.get_mut(&receiver).filter(|peer| !peer.link.closes)?;
        peer.way = Some(way);
        Some(peer.name.clone())
    }

    /// Notes that a receiver will not come again, or need not.
    pub fn note_ended(&self, receiver: ReceiverId, core: &mut Core<'_>) {
        if let Some((marks, peer)) = core.marks.as_mut().zip(self.get(&receiver)) {
            marks.ended(&peer.who);
        }
    }

    /// Takes note that a receiver has everything.
    pub fn note_has(&mut self, receiver: ReceiverId, plan: &Plan, core: &mut Core<'_>) {
        let Some(peer) = self.all.get(&receiver) else { return };
        let listed = plan.options.listed().iter().enumerate();
        let own = listed.filter(|(_, listed)| listed.is(&peer.who)).map(|(index, _)| index);
        let had = self.have.len();
        self.have.extend(own);
        if let Some(marks) = &mut core.marks {
            // Whoever poses as a listed one again is one of the others.
            marks.has(&peer.who, self.have.len() > had);
        }
    }

    /// Notes the name of a standing receiver that the session is not for. Others cannot be meant by a listed name.
    pub fn note_refused(&mut self, code: PutOutCode, hello: &Hello) {
        let may_be_meant = code == PutOutCode::NotMeant && hello.role.is_standing;
        if may_be_meant && self.not_meant.len() < MAX_NOT_MEANT {
            self.not_meant.insert(shown(hello.name()));
        }
    }

    /// Keeps only the number of receivers that have left, where there are very many.
    pub fn merge_departed(&mut self, core: &mut Core<'_>) {
        let departed: Vec<_> = self
            .iter()
            .filter(|(_, peer)| peer.absence.left.is_some() && peer.absence.awaited < Awaited::Missing)
            .map(|(receiver, _)| *receiver)
            .collect();
        for receiver in departed.iter().take(departed.len().saturating_sub(MAX_DEPARTED)) {
            self.remove(receiver);
            core.figures.summary.others_failed += 1;
        }
    }

    /// Goes on with the session's file, and waits for those that it knows.
    pub fn open(&mut self, plan: &mut Plan, door: &mut Door, core: &mut Core<'_>) -> Result<(), SendError> {
        let roll = std::mem::take(&mut plan.roll);
        let listed = plan.options.listed().iter().enumerate();
        self.have = listed
            .filter(|(_, listed)| roll.have().any(|who| listed.is(&who)))
            .map(|(index, _)| index)
            .collect();
        let listed = plan.options.listed().iter().enumerate();
        let was_there = |listed: &Listed| roll.absent().iter().any(|absent| listed.is(&absent.who));
        self.seen = listed
            .filter(|(index, listed)| self.have.contains(index) || was_there(listed))
            .map(|(index, _)| index)
            .collect();
        for absent in roll.absent() {
            let listed = absent.who.key.and_then(|key| plan.allow_list()?.name_of(&key));
            let peer = Peer::missing(absent, listed);
            self.insert(door.take_number(), peer);
        }
        let path = plan.options.session_file.as_deref();
        let free = plan.before.last_key_value().map_or(0, |(index, _)| index.saturating_add(1));
        let free = plan.options.content.feed.is_some().then_some(free);
        if let (Some(machine), Some(free)) = (core.machine.vcmtp_mut(), free) {
            machine.number_from(free);
        }
        core.marks = path.map(|path| Marks::open(path, roll, free)).transpose()?;
        Ok(())
    }

    /// The listed names that no receiver has, each with the nearest name of those that are there, and the receivers
    /// that are there. `None` if there is no such name.
    pub fn unknown_names(&self) -> Option<String> {
        /// The most names that a person still reads.
        const MOST: usize = 8;
        let unseen = self.values().filter(|peer| peer.absence.awaited == Awaited::Unseen);
        let listed: BTreeSet<&str> = self.connected().map(|peer| peer.who.name.as_str()).collect();
        let others: Vec<&str> = self.not_meant.iter().map(String::as_str).collect();
        let names = with_nearest(unseen.map(|peer| (&*peer.name, &*peer.who.name)), &others);
        if names.is_empty() {
            return None;
        }
        let there: Vec<&str> = others.iter().copied().chain(listed).collect();
        let there = match there.is_empty() {
            true => "no standing receiver that trusts this key is there".to_owned(),
            false => format!("there are {}", some_of(&there, MOST)),
        };
        Some(format!("no receiver is called {}; {there}", some_of(&names, MOST)))
    }
}

/// Names that nobody has, each with the nearest one of `others`. Those that are probably mistyped are first, because a line names few.
/// `names`: what each is called in reports, and by itself.
fn with_nearest<'a>(names: impl Iterator<Item = (&'a str, &'a str)>, others: &[&str]) -> Vec<String> {
    let mut names: Vec<(bool, String)> = names
        .map(|(name, own)| match nearest(own, others) {
            Some(near) => (false, format!("{name} (is it {near}?)")),
            None => (true, name.to_owned()),
        })
        .collect();
    names.sort_by_key(|(is_far, _)| *is_far);
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mistyped_one_of_a_thousand_names_is_first() {
        let names: Vec<String> = (0..999).map(|number| format!("device-{number}")).collect();
        let all = names.iter().map(String::as_str).chain(["prinetr"]).map(|name| (name, name));
        let told = with_nearest(all, &["printer"]);
        assert_eq!((told.len(), &*told[0], &*told[1]), (1000, "prinetr (is it printer?)", "device-0"));
    }
}
