//! A session that goes on: where an earlier sender was, and who comes again.

use std::{
    io,
    net::SocketAddr,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use treecast_proto::{
    Instant,
    object::{ReceiverId, SenderInput},
};
use treecast_wire::{header::FileId, message::PutOutCode};

use super::{
    super::{
        SendError, Standing,
        peer::{Awaited, Peer, Who},
        session_file::Marks,
    },
    FIRST_CONNECTION, HASHES, Session,
    connections::say_put_out,
};
use crate::{
    chunk_tree,
    files::{NamedSource, Source, SourceError},
    poller::Interest,
    wake::Waker,
};

/// Hashes whole objects, of which this sender reads only the rest in order.
#[derive(Debug)]
pub(super) struct Hashing {
    hashes: Receiver<(FileId, Result<[u8; 32], SourceError>)>,
    waker: Waker,
}

impl Hashing {
    fn start(sources: Vec<(FileId, Source)>) -> io::Result<Self> {
        let (sender, hashes) = channel();
        let waker = Waker::new()?;
        let wakes = waker.clone();
        thread::Builder::new().name("hash".into()).spawn(move || {
            for (file, mut source) in sources {
                let Some(hashed) = chunk_tree::hash(&mut source, || true).transpose() else { return };
                if sender.send((file, hashed.map(|(hash, _)| hash))).is_err() {
                    return;
                }
                wakes.wake();
            }
        })?;
        Ok(Self { hashes, waker })
    }
}

impl Session<'_> {
    /// Hands the machine all objects: from the start, or from where an earlier sender was.
    pub(super) fn send_all(&mut self, now: Instant) -> Result<(), SendError> {
        let mut to_hash = Vec::new();
        for (index, named) in std::mem::take(&mut self.plan.sources).into_iter().enumerate() {
            let before = self.plan.before.get(&(index as u32)).copied().unwrap_or_default();
            let size = named.source.size();
            match before.hash {
                Some(hash) if before.sent >= size => self.send_over(&named, hash).map(|file| {
                    self.sources.add(file, named);
                    self.sources.finish(file);
                    self.objects_done += 1;
                })?,
                None if before.sent == 0 => self.send(now, named)?,
                hash => {
                    let again = named.source.twin();
                    let file = self.machine.send_from(now, named.begin()?, before.sent);
                    self.sources.add(file, named);
                    match hash {
                        Some(hash) => self.handle(now, SenderInput::Hashed { file, hash }),
                        None => to_hash.push((file, again)),
                    }
                }
            }
        }
        self.before_bytes = self.machine.multicast_bytes();
        self.has_news = true;
        if !to_hash.is_empty() {
            let hashing = Hashing::start(to_hash)?;
            self.poller.add(&hashing.waker, HASHES, Interest::Read)?;
            self.hashing = Some(hashing);
        }
        Ok(())
    }

    fn send_over(&mut self, named: &NamedSource, hash: [u8; 32]) -> Result<FileId, SourceError> {
        Ok(self.machine.send_over(named.begin()?, hash))
    }

    pub(super) fn take_hashes(&mut self) {
        let Some(hashing) = &self.hashing else { return };
        hashing.waker.take();
        let hashes: Vec<_> = hashing.hashes.try_iter().collect();
        let now = self.clock.now();
        for (file, hash) in hashes {
            match hash {
                Ok(hash) => self.hashed(now, file, hash),
                Err(error) => self.withdraw(now, file, &error),
            }
        }
    }

    /// An object has been read for the group up to `end`.
    pub(super) fn note_read(&mut self, now: Instant, file: FileId, end: u64) {
        let size = self.sources.size(file);
        if let Some(marks) = &mut self.marks {
            marks.sent(file.index(), end, size);
        }
        if end == size {
            self.hash_if_read(now, file);
        }
    }

    pub(super) fn hashed(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        if let Some(marks) = &mut self.marks {
            marks.hashed(file.index(), &hash);
        }
        self.handle(now, SenderInput::Hashed { file, hash });
    }

    /// A receiver has left: it may come again, unless it has said that it ends.
    pub(super) fn await_return(&mut self, receiver: ReceiverId) {
        let objects = self.summary.objects;
        if let Some(peer) = self.peers.get_mut(&receiver) {
            // What the machine has ended for it, as it left, is not what it has ended with.
            let may_come = !peer.has_quit && peer.standing(objects) == Standing::Gone;
            peer.awaited = if may_come { Awaited::Gone } else { Awaited::No };
            if peer.has_quit {
                self.note_ended(receiver);
            }
        }
        self.update_hold();
    }

    pub(super) fn update_hold(&mut self) {
        let most = self.peers.values().map(|peer| peer.awaited).max().unwrap_or_default();
        let lacks_some = most == Awaited::Missing;
        let stall_limit = if lacks_some { self.plan.options.stall_limit } else { Duration::ZERO };
        let linger = (most != Awaited::No).then_some(self.plan.options.linger);
        self.machine.linger(linger, Instant::ZERO + stall_limit);
        self.has_news = true;
    }

    /// Whoever comes again is not somebody else that has failed: by its key, or by its name where there are no keys.
    pub(super) fn forget_departed(&mut self, who: &Who) {
        // One that had ended with everything, and failed at some of it, may not have heard its Goodbye.
        let ends = |peer: &Peer| {
            let is_same = peer.who.key == who.key && peer.who.name == who.name;
            peer.closes && peer.failed > 0 && is_same
        };
        let ending: Vec<_> = self.peers.iter().filter(|(_, peer)| ends(peer)).map(|(id, _)| *id).collect();
        for receiver in ending {
            self.disconnect(receiver, "it has come again, over another connection");
            self.peers.remove(&receiver);
        }
        // Receivers that share a key are told apart while they keep their names, or numbers.
        let is_known = self.peers.values().any(|peer| peer.left.is_some() && who.is(&peer.who));
        let has_come = |peer: &Peer| {
            peer.left.is_some() && if is_known { who.is(&peer.who) } else { who.may_be(&peer.who) }
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

    /// Goes on with the session's file, and waits for those that it knows.
    pub(super) fn open_marks(&mut self) -> Result<(), SendError> {
        let roll = std::mem::take(&mut self.plan.roll);
        for absent in roll.absent() {
            let listed = absent.who.key.and_then(|key| self.allow()?.name_of(&key));
            let peer = Peer::missing(absent, listed);
            self.peers.insert(ReceiverId((self.next_token - FIRST_CONNECTION) as u32), peer);
            self.next_token += 1;
        }
        let path = self.plan.options.session_file.as_deref();
        self.marks = path.map(|path| Marks::open(path, roll)).transpose()?;
        self.update_hold();
        Ok(())
    }

    pub(super) fn note_came(&mut self, who: &Who, address: SocketAddr) {
        if let Some(marks) = &mut self.marks {
            marks.came(who, address);
        }
    }

    /// A receiver will not come again, or need not.
    pub(super) fn note_ended(&mut self, receiver: ReceiverId) {
        if let Some((marks, peer)) = self.marks.as_mut().zip(self.peers.get(&receiver)) {
            marks.ended(&peer.who);
        }
    }

    /// Who is there need not look for a sender that will not come back.
    pub(super) fn say_ended(&mut self, why: &str) {
        if self.plan.options.session_file.is_some() {
            return;
        }
        for connection in self.peers.values_mut().filter_map(|peer| peer.connection.as_mut()) {
            say_put_out(connection, self.plan.session, PutOutCode::Ended, why);
        }
    }
}
