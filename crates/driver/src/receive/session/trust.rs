//! Who is believed: what counts of what the group and the connection say.

use std::{collections::BTreeMap, ops::Range};

use treecast_proto::{
    carousel::{Proofs, block_hash},
    object::{Channel, ReceiverInput},
};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, Message, Signed, SignedWord},
};

use super::Session;
use crate::{
    security::{
        PublicKey,
        manifest::{GroupManifests, Judgement, Manifests, Verdict},
    },
    udp::Item,
};

#[derive(Debug)]
pub(super) enum Trust {
    /// Anybody, in a plain session without a connection.
    Anybody,
    /// The connection. In a secure session it tells the sender's signatures, too.
    Connection {
        manifests: Option<Manifests>,
        /// Objects announced anew, whose digests may wait for that.
        announced: Vec<FileId>,
    },
    /// The sender's signatures alone, which come to the group as all else does.
    Group(Box<GroupTrust>),
}

#[derive(Debug)]
pub(super) struct GroupTrust {
    manifests: GroupManifests,
    /// What the sender has signed of its blocks. `None` where blocks are so short that it signs none.
    proofs: Option<Proofs>,
    block_len: u16,
    /// Objects that cannot be stored as they were announced, and why.
    doomed: BTreeMap<FileId, (BeginOfFile, String)>,
}

impl Trust {
    /// Creates the checks for a session with a control connection. `sender` is the sender's key in a secure
    /// session.
    pub fn in_connection(sender: Option<PublicKey>) -> Self {
        Self::Connection { manifests: sender.map(Manifests::new), announced: Vec::new() }
    }

    /// Creates the checks for a carousel. `sender` is the sender's key in a secure session.
    pub fn in_group(sender: Option<PublicKey>, block_len: u16) -> Self {
        let Some(sender) = sender else { return Self::Anybody };
        Self::Group(Box::new(GroupTrust {
            manifests: GroupManifests::new(sender),
            proofs: Proofs::new(block_len),
            block_len,
            doomed: BTreeMap::new(),
        }))
    }

    pub fn group(&mut self) -> Option<&mut GroupTrust> {
        match self {
            Self::Group(group) => Some(group),
            Self::Anybody | Self::Connection { .. } => None,
        }
    }

    fn connection(&mut self) -> Option<&mut Manifests> {
        match self {
            Self::Connection { manifests, .. } => manifests.as_mut(),
            Self::Anybody | Self::Group(_) => None,
        }
    }

    /// An object has been announced: its digest may have waited for that.
    pub fn announced(&mut self, file: FileId) {
        if let Self::Connection { manifests: Some(_), announced } = self {
            announced.push(file);
        }
    }

    /// Forgets an object that has ended here, or whose announcement by the sender does not go with its digest.
    /// Returns whether a digest has waited.
    pub fn forget(&mut self, file: FileId) -> bool {
        self.connection().is_some_and(|manifests| manifests.forget(file))
    }
}

impl GroupTrust {
    /// Makes an object fail, for this reason, as soon as `begin` proves to be the sender's own announcement of
    /// it.
    pub fn doom(&mut self, file: FileId, begin: BeginOfFile, reason: String) {
        self.doomed.insert(file, (begin, reason));
    }

    /// Leaves of blocks and symbols what the sender has signed. Returns how many packets are not the sender's, too.
    fn prove(&mut self, item: Item, bytes: &[u8]) -> (Vec<Item>, u64) {
        let Some(proofs) = &self.proofs else { return (vec![item], 0) };
        let (file, run, at, are_symbols) = match item {
            Item::Message { file, message: Message::Signed(signed) } => return self.take_page(file, signed),
            Item::Message { .. } => return (vec![item], 0),
            Item::Blocks { file, range, at } => (file, range, at, false),
            Item::Symbols { file, positions, at } => (file, positions, at, true),
        };
        let place = |position: u64| at + (position - run.start) as usize;
        let mut compared = 0;
        let right = proofs.right(file, are_symbols, &run, |block| {
            compared += 1;
            block_hash(&bytes[place(block.start)..place(block.end)])
        });
        // Where nothing is known of a block, what says so may have been lost, or was sent before the group was joined.
        let block_len = u64::from(self.block_len);
        let count = |part: &Range<u64>| (part.end - part.start).div_ceil(block_len);
        let wrong = compared - right.iter().map(count).sum::<u64>();
        let item = |part: Range<u64>| match (place(part.start), are_symbols) {
            (at, false) => Item::Blocks { file, range: part, at },
            (at, true) => Item::Symbols { file, positions: part, at },
        };
        (right.into_iter().map(item).collect(), wrong)
    }

    /// Takes note of what the next blocks are. Any other signed message is for the machine.
    fn take_page(&mut self, file: FileId, signed: Signed) -> (Vec<Item>, u64) {
        let Some(proofs) = &mut self.proofs else { return (Vec::new(), 0) };
        match &signed.word {
            SignedWord::Blocks(page) if proofs.knows(file, page) => {}
            SignedWord::Blocks(page) if self.manifests.has_signed(file, &signed) => {
                proofs.take(file, page.clone());
            }
            SignedWord::Blocks(_) => return (Vec::new(), 1),
            _ => return (vec![Item::Message { file, message: Message::Signed(signed) }], 0),
        }
        (Vec::new(), 0)
    }
}

impl Session<'_> {
    /// What of an item from the group may be the sender's.
    pub(super) fn proved(&mut self, item: Item) -> Vec<Item> {
        let Trust::Group(group) = &mut self.trust else { return vec![item] };
        let (items, wrong) = group.prove(item, self.store.intake.batch().bytes());
        self.figures.malformed += wrong;
        items
    }

    /// The message, if it counts although it came to the group.
    pub(super) fn believed(&mut self, file: FileId, message: Message) -> Option<Message> {
        match &mut self.trust {
            Trust::Anybody => Some(message),
            // A digest that the group says is not believed without a signature: the connection tells it, too.
            Trust::Connection { manifests, .. } => {
                let Message::Digest(digest) = &message else { return Some(message) };
                let (manifests, begin) = (manifests.as_mut()?, self.store.begins.get(&file)?);
                manifests.is_right(file, begin, digest).then_some(message)
            }
            // What ends something counts only if the sender has signed it: all members can seal packets.
            Trust::Group(group) => {
                let message = group.manifests.read(file, message);
                if message.is_none() {
                    self.figures.malformed += 1;
                }
                message.filter(|message| self.is_signed(file, message))
            }
        }
    }

    /// Whether a message goes with what the sender has signed. Where a digest shows that somebody else has announced its
    /// object, the object begins anew.
    fn is_signed(&mut self, file: FileId, message: &Message) -> bool {
        let Trust::Group(group) = &mut self.trust else { return true };
        let Some(machine) = self.machine.carousel() else { return true };
        let announced = machine.announced(file);
        let digest = match message {
            Message::BeginOfFile(begin) => {
                group.manifests.note(file, announced, begin);
                return true;
            }
            Message::Digest(digest) if machine.digest(file) != Some(digest.hash) => digest,
            _ => return true,
        };
        match group.manifests.judge(file, announced, digest) {
            Verdict::Right => true,
            Verdict::RightWith(begin) => {
                group.doomed.remove(&file);
                self.begin_anew(file, begin);
                true
            }
            Verdict::Wrong => {
                self.figures.malformed += 1;
                false
            }
        }
    }

    /// Somebody else than the sender has announced the object.
    fn begin_anew(&mut self, file: FileId, begin: BeginOfFile) {
        self.handle(ReceiverInput::Disown { file }, None);
        self.store.cramped.remove(&file);
        self.carried.admission.give_back(file.index());
        let message = Message::BeginOfFile(begin);
        self.handle(ReceiverInput::Message { from: Channel::Group, file, message }, None);
    }

    /// Has the objects fail that cannot be stored as the sender, it is known now, has announced them.
    pub(super) fn fail_doomed(&mut self) {
        let Trust::Group(group) = &mut self.trust else { return };
        let Some(machine) = self.machine.carousel().filter(|_| !group.doomed.is_empty()) else { return };
        let is_known = |file: &FileId| machine.digest(*file).is_some();
        let known: Vec<FileId> = group.doomed.keys().copied().filter(is_known).collect();
        for file in known {
            let Trust::Group(group) = &mut self.trust else { return };
            let Some((begin, reason)) = group.doomed.remove(&file) else { continue };
            self.machine.handle(self.now, ReceiverInput::AnnouncementRefused { file, begin, reason });
            self.settle(None);
        }
    }

    /// In a secure session a digest that comes over the connection counts only with the sender's signature of what has been
    /// announced. One that is early waits, and says for now that the object is out.
    pub(super) fn judged(&mut self, file: FileId, message: Message) -> Option<Message> {
        let (Message::Digest(digest), Some(manifests)) = (&message, self.trust.connection()) else {
            return Some(message);
        };
        match manifests.judge(file, self.store.begins.get(&file), digest) {
            Judgement::Right => Some(message),
            Judgement::Early => Some(Message::EndOfFile),
            Judgement::Doubtful => {
                self.line.outbox.push(file, Message::BeginOfFileRequest);
                Some(Message::EndOfFile)
            }
            Judgement::Unsigned => {
                self.figures.malformed += 1;
                None
            }
        }
    }

    /// Hands the machine the digests that have waited for an announcement.
    pub(super) fn release_digests(&mut self) {
        while let Trust::Connection { manifests: Some(manifests), announced } = &mut self.trust
            && let Some(file) = announced.pop()
        {
            let Some(begin) = self.store.begins.get(&file) else { continue };
            if let Some(digest) = manifests.release(file, begin) {
                let message = Message::Digest(digest);
                let input = ReceiverInput::Message { from: Channel::Control, file, message };
                self.machine.handle(self.now, input);
                self.settle(None);
            }
        }
    }
}
