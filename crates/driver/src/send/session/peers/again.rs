//! Receivers that leave and may come again, and those that a session is for and that have not come yet.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use treecast_proto::{Instant, object::ReceiverId};

use super::{
    super::{
        super::{
            LISTED_WAIT, Listed, Plan, Standing,
            peer::{Awaited, Peer},
            who::Who,
        },
        core::Core,
        door::Door,
    },
    Peers,
};

impl Peers {
    /// Notes that a receiver has left: it may come again, unless it has said that it ends.
    pub fn await_return(&mut self, now: Instant, receiver: ReceiverId, plan: &Plan, core: &mut Core<'_>) {
        let objects = core.figures.summary.objects;
        if let Some(peer) = self.get_mut(&receiver) {
            // What the machine has ended for it, as it left, is not what it has ended with.
            let is_gone = peer.standing(objects) == Standing::Gone;
            let is_listed = plan.options.listed().iter().any(|listed| listed.is(&peer.who));
            let may_come = is_gone && (is_listed || !peer.absence.has_quit);
            peer.absence.awaited = match may_come {
                true if is_listed => Awaited::Listed,
                true => Awaited::Gone,
                false => Awaited::No,
            };
            if peer.absence.has_quit {
                self.note_ended(receiver, core);
            }
        }
        self.update_hold(now, plan, core);
    }

    /// Keeps the machine open for the receivers that are waited for.
    pub fn update_hold(&self, now: Instant, plan: &Plan, core: &mut Core<'_>) {
        let Some(options) = plan.options.connected() else { return };
        let awaited = || self.values().map(|peer| peer.absence.awaited);
        let lacks_some = awaited().any(|awaited| awaited == Awaited::Missing);
        let stall_limit = if lacks_some { options.stall_limit } else { Duration::ZERO };
        // A receiver whose name nobody has had is waited for at least until the time for the start is over.
        let start_over = core.figures.waits_since + plan.options.start.wait_timeout;
        let left_to_come = start_over.saturating_duration_since(now).max(options.linger);
        let linger = |awaited| match awaited {
            Awaited::No => None,
            Awaited::Gone | Awaited::Missing => Some(options.linger),
            Awaited::Unseen => Some(options.listed_wait.unwrap_or(left_to_come)),
            Awaited::Listed => Some(options.listed_wait.unwrap_or(LISTED_WAIT)),
        };
        let linger = awaited().filter_map(linger).max();
        if let Some(machine) = core.machine.vcmtp_mut() {
            machine.linger(linger, Instant::ZERO + stall_limit);
        }
        core.wake();
    }

    /// Waits for nobody who is away. Returns whether somebody was waited for.
    pub fn await_nobody(&mut self) -> bool {
        let is_changed = self.values().any(|peer| peer.absence.awaited > Awaited::No);
        self.values_mut().for_each(|peer| peer.absence.awaited = Awaited::No);
        is_changed
    }

    /// Waits for the receivers that the session is for, and that neither are there nor have everything.
    pub fn await_listed(&mut self, plan: &Plan, door: &mut Door) {
        let is_here = |listed: &Listed| self.values().any(|peer| listed.is(&peer.who));
        let listed = plan.options.listed().iter().enumerate();
        let missing = listed.filter(|(index, listed)| !self.have.contains(index) && !is_here(listed));
        let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        // A key has a checksum, so it is not mistyped.
        let was_seen = |index: &usize, listed: &Listed| listed.key.is_some() || self.seen.contains(index);
        let missing: Vec<Peer> =
            missing.map(|(index, listed)| Peer::listed(listed, nowhere, was_seen(&index, listed))).collect();
        for peer in missing {
            self.insert(door.take_number(), peer);
        }
    }

    /// Receivers that `who` comes again for, and that had ended with everything. One that failed at some of it may not have heard its
    /// Goodbye.
    pub fn ending(&self, who: &Who) -> Vec<ReceiverId> {
        let ends = |peer: &Peer| {
            let is_same = peer.who.key == who.key && peer.who.name == who.name;
            peer.link.closes && peer.tally.failed > 0 && is_same
        };
        self.iter().filter(|(_, peer)| ends(peer)).map(|(id, _)| *id).collect()
    }

    /// Forgets whoever comes again: it is not somebody else that has failed. It is known by its key, or by its name where there are no
    /// keys.
    pub fn forget_departed(&mut self, now: Instant, who: &Who, plan: &Plan, core: &mut Core<'_>) {
        // Receivers that share a key are told apart while they keep their names, or numbers.
        let is_known = self.values().any(|peer| peer.absence.left.is_some() && who.is(&peer.who));
        let is_listed = |peer: &Peer| {
            let listed = plan.options.listed().iter().find(|listed| listed.is(who));
            let is_awaited = matches!(peer.absence.awaited, Awaited::Listed | Awaited::Unseen);
            is_awaited && listed.is_some_and(|listed| listed.is(&peer.who))
        };
        let has_come = |peer: &Peer| {
            let is_same = if is_known { who.is(&peer.who) } else { who.may_be(&peer.who) };
            peer.absence.left.is_some() && (is_same || is_listed(peer))
        };
        let come: Vec<_> = self.iter().filter(|(_, peer)| has_come(peer)).map(|(id, _)| *id).collect();
        for receiver in come {
            if !is_known {
                self.note_ended(receiver, core);
            }
            self.remove(&receiver);
        }
        self.update_hold(now, plan, core);
    }

    /// Marks connections over which the receiver `again` may have come before. A machine that has lost its power says no goodbye. If it
    /// has also lost its key, or its number in a plain session, its name and address are left to know it by. They prove nothing. So
    /// where the session admits certain keys only, the key must be the same.
    pub fn mark_earlier_tries(&mut self, who: &Who, ip: IpAddr, again: ReceiverId, plan: &Plan) {
        let needs_key = plan.allow_list().is_some();
        let is_earlier = |peer: &&mut Peer| {
            let is_there = peer.link.connection.is_some() && !peer.link.closes;
            let is_near = peer.address.ip().to_canonical() == ip.to_canonical();
            is_there && is_near && peer.who.name == who.name && (!needs_key || peer.who.key == who.key)
        };
        // Of several, nobody can tell which one it was.
        let mut earlier = self.values_mut().filter(is_earlier);
        if let (Some(peer), None) = (earlier.next(), earlier.next()) {
            peer.absence.came_again = Some(again);
        }
    }

    /// Forgets a receiver that has left, if its machine has come again and the connection that was lost has been silent since. Two
    /// receivers of one name on one host are both heard, so neither is taken for the other.
    pub fn forget_earlier_try(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        plan: &Plan,
        core: &mut Core<'_>,
    ) {
        let Some(peer) = self.get(&receiver) else { return };
        let again = peer.absence.came_again.and_then(|again| self.get(&again));
        let Some(again) = again.filter(|again| again.has_spoken) else { return };
        let mut listed = plan.options.listed().iter().filter(|listed| listed.is(&peer.who));
        if listed.all(|listed| listed.is(&again.who)) {
            self.note_ended(receiver, core);
            self.remove(&receiver);
            self.update_hold(now, plan, core);
        }
    }
}
