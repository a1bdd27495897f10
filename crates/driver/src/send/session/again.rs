//! A continued session: the progress of an earlier sender, and the receivers that should come again.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use treecast_host::poller::Interest;
use treecast_proto::{
    Instant,
    object::{ReceiverId, SenderInput},
};
use treecast_wire::{
    header::FileId,
    message::{Message, PutOut, PutOutCode},
};

use super::{
    super::{
        Listed, SendError, Standing,
        hashing::Hashing,
        peer::{Awaited, Peer},
        session_file::Marks,
        who::Who,
    },
    FIRST_CONNECTION, HASHES, Session,
    connections::say_last,
};
use crate::files::{NamedSource, SourceError};

impl Session<'_> {
    /// Hands the machine all objects: from the start, or from where an earlier sender was.
    pub(super) fn send_all(&mut self, now: Instant) -> Result<(), SendError> {
        let mut to_hash = Vec::new();
        for (index, named) in std::mem::take(&mut self.plan.sources).into_iter().enumerate() {
            let before = self.plan.before.get(&(index as u32)).copied().unwrap_or_default();
            let size = named.source.size();
            match before.hash {
                Some(hash) if before.sent >= size => self.send_over(named, hash)?,
                None if before.sent == 0 => {
                    let again = named.source.has_index().then(|| named.source.twin());
                    let file = self.send(now, named)?;
                    to_hash.extend(again.map(|again| (file, again)));
                }
                hash => {
                    let again = named.source.twin();
                    let begin = named.begin()?;
                    let Some(machine) = self.machine.vcmtp_mut() else { return Ok(()) };
                    let file = machine.send_from(now, begin, before.sent);
                    self.objects.sources.add(file, named);
                    match hash {
                        Some(hash) => self.handle(now, SenderInput::Hashed { file, hash }),
                        None => to_hash.push((file, again)),
                    }
                }
            }
        }
        self.figures.before_bytes = self.machine.figures().multicast_bytes;
        self.has_news = true;
        if !to_hash.is_empty() {
            let hashing = Hashing::start(to_hash)?;
            self.poller.add(hashing.waker(), HASHES, Interest::Read)?;
            self.objects.hashing = Some(hashing);
        }
        Ok(())
    }

    /// An earlier sender has sent the object to its end.
    fn send_over(&mut self, named: NamedSource, hash: [u8; 32]) -> Result<(), SourceError> {
        let begin = named.begin()?;
        let Some(machine) = self.machine.vcmtp_mut() else { return Ok(()) };
        let file = machine.send_over(begin, hash);
        self.objects.sources.add(file, named);
        self.figures.objects_done += u64::from(!self.objects.sources.is_index(file));
        self.objects.sources.finish(file);
        Ok(())
    }

    /// Tells the machine of hashes that have become known.
    pub(super) fn take_hashes(&mut self) {
        let now = self.clock.now();
        self.objects.hashing.iter().for_each(|hashing| _ = hashing.waker().take());
        while let Some((file, hash)) = self.objects.hashing.as_mut().and_then(Hashing::next) {
            match hash {
                Ok(hash) => self.hashed(now, file, hash),
                Err(error) => self.withdraw(now, file, &error),
            }
        }
    }

    /// An object has been read for the group up to `end`.
    pub(super) fn note_read(&mut self, now: Instant, file: FileId, end: u64) {
        let size = self.objects.sources.size(file);
        if let Some(marks) = &mut self.objects.marks {
            marks.sent(file.index(), end, size);
        }
        if end == size && !self.objects.sources.has_index(file) {
            self.hash_if_read(now, file);
        }
    }

    pub(super) fn hashed(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        if let Some(marks) = &mut self.objects.marks {
            marks.hashed(file.index(), &hash);
        }
        self.handle(now, SenderInput::Hashed { file, hash });
    }

    /// A receiver has left: it may come again, unless it has said that it ends.
    pub(super) fn await_return(&mut self, receiver: ReceiverId) {
        let objects = self.figures.summary.objects;
        if let Some(peer) = self.peers.get_mut(&receiver) {
            // What the machine has ended for it, as it left, is not what it has ended with.
            let is_gone = peer.standing(objects) == Standing::Gone;
            let is_listed = self.plan.options.listed.iter().any(|listed| listed.is(&peer.who));
            let may_come = is_gone && (is_listed || !peer.absence.has_quit);
            peer.absence.awaited = match may_come {
                true if is_listed => Awaited::Listed,
                true => Awaited::Gone,
                false => Awaited::No,
            };
            if peer.absence.has_quit {
                self.note_ended(receiver);
            }
        }
        self.update_hold();
    }

    pub(super) fn update_hold(&mut self) {
        let most = self.peers.values().map(|peer| peer.absence.awaited).max().unwrap_or_default();
        let lacks_some = most == Awaited::Missing;
        let stall_limit = if lacks_some { self.plan.options.stall_limit } else { Duration::ZERO };
        let linger = match most {
            Awaited::No => None,
            Awaited::Gone | Awaited::Missing => Some(self.plan.options.linger),
            Awaited::Listed => Some(self.plan.options.listed_wait),
        };
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.linger(linger, Instant::ZERO + stall_limit);
        }
        self.has_news = true;
    }

    /// Whoever comes again is not somebody else that has failed: by its key, or by its name where there are no keys.
    pub(super) fn forget_departed(&mut self, who: &Who) {
        // One that had ended with everything, and failed at some of it, may not have heard its Goodbye.
        let ends = |peer: &Peer| {
            let is_same = peer.who.key == who.key && peer.who.name == who.name;
            peer.link.closes && peer.tally.failed > 0 && is_same
        };
        let ending: Vec<_> = self.peers.iter().filter(|(_, peer)| ends(peer)).map(|(id, _)| *id).collect();
        for receiver in ending {
            self.disconnect(receiver, "it has come again, over another connection");
            self.peers.remove(&receiver);
        }
        // Receivers that share a key are told apart while they keep their names, or numbers.
        let is_known = self.peers.values().any(|peer| peer.absence.left.is_some() && who.is(&peer.who));
        let is_listed = |peer: &Peer| {
            let listed = self.plan.options.listed.iter().find(|listed| listed.is(who));
            peer.absence.awaited == Awaited::Listed && listed.is_some_and(|listed| listed.is(&peer.who))
        };
        let has_come = |peer: &Peer| {
            let is_same = if is_known { who.is(&peer.who) } else { who.may_be(&peer.who) };
            peer.absence.left.is_some() && (is_same || is_listed(peer))
        };
        let come: Vec<_> = self.peers.iter().filter(|(_, peer)| has_come(peer)).map(|(id, _)| *id).collect();
        for receiver in come {
            if !is_known {
                self.note_ended(receiver);
            }
            self.peers.remove(&receiver);
        }
        self.update_hold();
    }

    /// Marks connections over which the receiver `again` may have come before. A machine that has lost its power says no goodbye. If it
    /// has also lost its key, or its number in a plain session, its name and address are left to know it by. They prove nothing. So
    /// where the session admits certain keys only, the key must be the same.
    pub(super) fn mark_earlier_tries(&mut self, who: &Who, ip: IpAddr, again: ReceiverId) {
        // Before the start, receivers have nothing to say, and silence tells nothing.
        if self.figures.started.is_none() {
            return;
        }
        let needs_key = self.allow().is_some();
        let is_earlier = |peer: &&mut Peer| {
            let is_there = peer.link.connection.is_some() && !peer.link.closes;
            let is_near = peer.address.ip().to_canonical() == ip.to_canonical();
            is_there && is_near && peer.who.name == who.name && (!needs_key || peer.who.key == who.key)
        };
        // Of several, nobody can tell which one it was.
        let mut earlier = self.peers.values_mut().filter(is_earlier);
        if let (Some(peer), None) = (earlier.next(), earlier.next()) {
            peer.absence.came_again = Some(again);
        }
    }

    /// Forgets a receiver that has left, if its machine has come again and the connection that was lost has been silent since. Two
    /// receivers of one name on one host are both heard, so neither is taken for the other.
    pub(super) fn forget_earlier_try(&mut self, receiver: ReceiverId) {
        let Some(peer) = self.peers.get(&receiver) else { return };
        let again = peer.absence.came_again.and_then(|again| self.peers.get(&again));
        let Some(again) = again.filter(|again| again.has_spoken) else { return };
        let mut listed = self.plan.options.listed.iter().filter(|listed| listed.is(&peer.who));
        if listed.all(|listed| listed.is(&again.who)) {
            self.note_ended(receiver);
            self.peers.remove(&receiver);
            self.update_hold();
        }
    }

    /// Goes on with the session's file, and waits for those that it knows.
    pub(super) fn open_marks(&mut self) -> Result<(), SendError> {
        let roll = std::mem::take(&mut self.plan.roll);
        let listed = self.plan.options.listed.iter().enumerate();
        self.figures.have = listed
            .filter(|(_, listed)| roll.have().any(|who| listed.is(&who)))
            .map(|(index, _)| index)
            .collect();
        for absent in roll.absent() {
            let listed = absent.who.key.and_then(|key| self.allow()?.name_of(&key));
            let peer = Peer::missing(absent, listed);
            let Some(door) = &mut self.door else { break };
            self.peers.insert(ReceiverId((door.next_token - FIRST_CONNECTION) as u32), peer);
            door.next_token += 1;
        }
        let path = self.plan.options.session_file.as_deref();
        let free = self.plan.before.last_key_value().map_or(0, |(index, _)| index.saturating_add(1));
        let free = self.plan.options.feed.is_some().then_some(free);
        if let (Some(machine), Some(free)) = (self.machine.vcmtp_mut(), free) {
            machine.number_from(free);
        }
        self.objects.marks = path.map(|path| Marks::open(path, roll, free)).transpose()?;
        self.await_listed();
        self.update_hold();
        Ok(())
    }

    pub(super) fn note_came(&mut self, who: &Who, address: SocketAddr) {
        if let Some(marks) = &mut self.objects.marks {
            marks.came(who, address);
        }
    }

    /// A receiver will not come again, or need not.
    pub(super) fn note_ended(&mut self, receiver: ReceiverId) {
        if let Some((marks, peer)) = self.objects.marks.as_mut().zip(self.peers.get(&receiver)) {
            marks.ended(&peer.who);
        }
    }

    /// Takes note that a receiver has everything.
    pub(super) fn note_has(&mut self, receiver: ReceiverId) {
        let Some(peer) = self.peers.get(&receiver) else { return };
        let listed = self.plan.options.listed.iter().enumerate();
        let own = listed.filter(|(_, listed)| listed.is(&peer.who)).map(|(index, _)| index);
        let had = self.figures.have.len();
        self.figures.have.extend(own);
        if let Some(marks) = &mut self.objects.marks {
            // Whoever poses as a listed one again is one of the others.
            marks.has(&peer.who, self.figures.have.len() > had);
        }
    }

    /// Waits for those whom the session is for, and who neither are there nor have everything.
    pub(super) fn await_listed(&mut self) {
        let is_here = |listed: &Listed| self.peers.values().any(|peer| listed.is(&peer.who));
        let listed = self.plan.options.listed.iter().enumerate();
        let missing = listed.filter(|(index, listed)| !self.figures.have.contains(index) && !is_here(listed));
        let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let missing: Vec<Peer> = missing.map(|(_, listed)| Peer::listed(listed, nowhere)).collect();
        let Some(door) = &mut self.door else { return };
        for peer in missing {
            self.peers.insert(ReceiverId((door.next_token - FIRST_CONNECTION) as u32), peer);
            door.next_token += 1;
        }
    }

    /// How many receivers the start waits for.
    pub(super) fn wanted(&self) -> u32 {
        match self.plan.options.listed.len() {
            0 => self.plan.options.wait_for,
            all => (all - self.figures.have.len()) as u32,
        }
    }

    /// Who is there need not look for a sender that will not come back, and may wait for one that keeps its session.
    pub(super) fn say_ended(&mut self, why: &str) {
        let code = match self.plan.options.session_file {
            Some(_) => PutOutCode::Stopped,
            None => PutOutCode::Ended,
        };
        let (session, objects) = (self.plan.session, self.figures.summary.objects);
        // A feed that is stopped is over for whoever has ended with all that was sent.
        let may_be_over = self.is_live() && code == PutOutCode::Ended;
        for peer in self.peers.values_mut() {
            let word = match may_be_over && peer.has_ended(objects) {
                true => Message::Goodbye,
                false => Message::PutOut(PutOut::new(code, why)),
            };
            peer.link.connection.iter_mut().for_each(|connection| say_last(connection, session, &word));
        }
    }
}
