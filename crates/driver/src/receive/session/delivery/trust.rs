//! The trust of a receiver: which words of the group and of the connection count.

use std::{collections::BTreeMap, ops::Range};

use treecast_proto::{
    Instant,
    carousel::{Proofs, block_hash},
    object::{Channel, ReceiverInput},
};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, Message, Signed, SignedWord},
};

use super::{
    Delivery, Sealing,
    pages::{MAX_PAGES, Pages},
};
use crate::{
    security::{
        PublicKey,
        manifest::{GroupManifests, Judgement, Manifests, Verdict},
    },
    udp::Item,
};

#[derive(Debug)]
pub(in super::super) enum Trust {
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
pub(in super::super) struct GroupTrust {
    manifests: GroupManifests,
    /// The proofs of blocks that the sender has signed. `None` where blocks are so short that it signs none.
    proofs: Option<Proofs>,
    /// The pages that prove blocks to other members of a local group. `None` in a carousel.
    pages: Option<Pages>,
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
            pages: None,
            block_len,
            doomed: BTreeMap::new(),
        }))
    }

    /// Creates the checks for a session with local groups, in which blocks come again long after they were sent.
    pub fn in_local_group(sender: Option<PublicKey>, block_len: u16) -> Self {
        let mut trust = Self::in_group(sender, block_len);
        if let Self::Group(group) = &mut trust {
            group.proofs = Proofs::remembering(MAX_PAGES, block_len);
            group.pages = Some(Pages::default());
        }
        trust
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

/// The part of an item that is the sender's.
struct Proved {
    items: Vec<Item>,
    /// Blocks, or symbols, of this object that are not.
    wrong: Vec<Range<u64>>,
    file: FileId,
    /// The number of other packets that are not.
    others_wrong: u64,
}

impl Proved {
    fn all(item: Item) -> Self {
        let (Item::Message { file, .. }
        | Item::Blocks { file, .. }
        | Item::Symbols { file, .. }
        | Item::Pace { file, .. }) = &item;
        Self { file: *file, items: vec![item], wrong: Vec::new(), others_wrong: 0 }
    }
}

impl GroupTrust {
    /// The pages of proofs, and the length of a block in bytes, where members prove blocks to each other.
    pub(super) fn pages(&mut self) -> Option<(&mut Pages, u16)> {
        Some((self.pages.as_mut()?, self.block_len))
    }

    /// Makes an object fail, for this reason, as soon as `begin` proves to be the sender's own announcement of
    /// it.
    pub fn doom(&mut self, file: FileId, begin: BeginOfFile, reason: String) {
        self.doomed.insert(file, (begin, reason));
    }

    /// Leaves of blocks and symbols what the sender has signed. Returns the blocks that are not the sender's, too, and how many
    /// other packets are not.
    fn prove(&mut self, now: Instant, item: Item, bytes: &[u8]) -> Proved {
        let Some(proofs) = &self.proofs else { return Proved::all(item) };
        let (file, run, at, are_symbols) = match item {
            Item::Message { file, message: Message::Signed(signed) } => {
                return self.take_page(now, file, signed);
            }
            Item::Message { .. } | Item::Pace { .. } => return Proved::all(item),
            Item::Blocks { file, range, at } => (file, range, at, false),
            Item::Symbols { file, positions, at } => (file, positions, at, true),
        };
        let place = |position: u64| at + (position - run.start) as usize;
        let mut compared = Vec::new();
        let right = proofs.right(file, are_symbols, &run, |block| {
            compared.push(block.clone());
            block_hash(&bytes[place(block.start)..place(block.end)])
        });
        // Where nothing is known of a block, what says so may have been lost, or was sent before the group was joined.
        compared.retain(|block| right.iter().all(|part| !part.contains(&block.start)));
        let item = |part: Range<u64>| match (place(part.start), are_symbols) {
            (at, false) => Item::Blocks { file, range: part, at },
            (at, true) => Item::Symbols { file, positions: part, at },
        };
        Proved { items: right.into_iter().map(item).collect(), wrong: compared, file, others_wrong: 0 }
    }

    /// Takes note of what the next blocks are. Any other signed message is for the machine.
    fn take_page(&mut self, now: Instant, file: FileId, signed: Signed) -> Proved {
        let nothing = Proved { items: Vec::new(), wrong: Vec::new(), file, others_wrong: 0 };
        let Some(proofs) = &mut self.proofs else { return nothing };
        match &signed.word {
            SignedWord::Blocks(page) if proofs.knows(file, page) => {}
            SignedWord::Blocks(page) if self.manifests.has_signed(file, &signed) => {
                proofs.take(file, page.clone());
            }
            SignedWord::Blocks(_) => return Proved { others_wrong: 1, ..nothing },
            _ => return Proved::all(Item::Message { file, message: Message::Signed(signed) }),
        }
        if let Some(pages) = &mut self.pages {
            pages.note(now, file, signed);
        }
        nothing
    }
}

/// Whether this is the signed state of a session with local groups.
fn is_state(message: &Message) -> bool {
    matches!(message, Message::Signed(Signed { word: SignedWord::State(_), .. }))
}

impl Delivery<'_> {
    /// The part of an item that may be the sender's. The machine hears of those that have sent something else.
    pub fn proved(&mut self, from: Channel, item: Item, sealing: Sealing) -> Vec<Item> {
        let now = self.clock.now();
        if self.is_put_out(from, sealing) {
            return Vec::new();
        }
        let Trust::Group(group) = &mut self.trust else { return vec![item] };
        let proved = group.prove(now, item, self.store.intake.batch().bytes());
        self.figures.malformed += proved.wrong.len() as u64 + proved.others_wrong;
        if matches!(from, Channel::Member(_)) && !proved.wrong.is_empty() {
            let from = self.put_out(from, sealing);
            for range in proved.wrong {
                self.handle(ReceiverInput::Refused { from, file: proved.file, range }, None);
            }
        }
        proved.items
    }

    /// The message, if it counts although it came to the group.
    pub fn believed(&mut self, from: Channel, file: FileId, message: Message) -> Option<Message> {
        let is_by_member = matches!(from, Channel::Member(_));
        match &mut self.trust {
            // Members sign nothing, nor does the sender where it answers one member: that counts for that member's own place alone.
            Trust::Group(_) if is_by_member && matches!(message, Message::Local(_)) => Some(message),
            // The sender says its state to all. One that a member says again would hide the sender's own.
            Trust::Group(_) if is_by_member && is_state(&message) => None,
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

    /// Fails the objects that cannot be stored as the sender has announced them, once it is known that the
    /// announcement is the sender's.
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

    /// Judges a digest that comes over the connection. In a secure session it counts only with the sender's signature
    /// of what has been announced. One that is early waits, and says for now that the object is out.
    pub fn judged(&mut self, file: FileId, message: Message) -> Option<Message> {
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
