//! Signed manifests: an object's announcement and hash, with the sender's signature.
//!
//! Every member of a group can send to it like the sender does. Only the sender's signature makes an object
//! valid: a file gets its name only if its name, size and hash are those that the sender has signed.

use std::collections::BTreeMap;

use treecast_wire::{
    header::FileId,
    message::{
        BeginOfFile, BlockHashes, Digest, Local, Message, Signed, SignedWord, batch_bytes, manifest_bytes,
    },
};

use super::{
    Identity, PublicKey,
    manifest_batch::{self, ManifestBatch, SignedTrees, root_of},
};

/// The largest number of manifests that [`Signer::sign_all`] signs together.
pub const MAX_BATCH: usize = manifest_batch::MAX_BATCH;

/// The most digests that wait for their object's announcement.
const MAX_HELD: usize = 10_000;

/// The most objects of which more than one announcement is remembered, and how many of each.
const MAX_DOUBTED: usize = 1024;
const MAX_OTHERS: usize = 4;

/// Signs manifests. Each object is signed once, however often its digest is sent.
#[derive(Debug)]
pub struct Signer {
    identity: Identity,
    signatures: BTreeMap<FileId, Digest>,
    /// The signed words about each object that a carousel repeats.
    words: BTreeMap<FileId, Signed>,
}

impl Signer {
    pub fn new(identity: Identity) -> Self {
        Self { identity, signatures: BTreeMap::new(), words: BTreeMap::new() }
    }

    /// The signed digest of this object.
    pub fn sign(&mut self, file: FileId, begin: &BeginOfFile, digest: Digest) -> Digest {
        if let Some(signed) = self.signatures.get(&file).filter(|signed| signed.hash == digest.hash) {
            return signed.clone();
        }
        let signature = self.identity.sign(&manifest_bytes(file, begin, &digest.hash));
        let signed = Digest { signature: Some(signature), ..digest };
        self.signatures.insert(file, signed.clone());
        signed
    }

    /// Signs the manifests of several objects together, at most [`MAX_BATCH`]. [`Signer::sign`] returns their
    /// digests from now on.
    pub fn sign_all(&mut self, objects: &[(FileId, &BeginOfFile, [u8; 32])]) {
        if let [(file, begin, hash)] = objects {
            self.sign(*file, begin, Digest::unsigned(*hash));
            return;
        }
        if objects.is_empty() {
            return;
        }
        let leaves = objects.iter().map(|(file, begin, hash)| leaf(*file, begin, hash)).collect();
        let batch = ManifestBatch::new(leaves);
        let signature = Some(self.identity.sign(&batch_bytes(&batch.root())));
        for (index, (file, _, hash)) in objects.iter().enumerate() {
            let digest = Digest { hash: *hash, signature, place: Some(batch.place(index)) };
            self.signatures.insert(*file, digest);
        }
    }

    /// Signs a message of a carousel, if it is one that ends something.
    pub fn sign_word(&mut self, file: FileId, message: &Message) -> Option<Message> {
        let word = SignedWord::of(message)?;
        if let Some(signed) = self.words.get(&file).filter(|signed| signed.word == word) {
            return Some(Message::Signed(signed.clone()));
        }
        let signed = Signed { signature: self.identity.sign(&word.signed_bytes(file)), word };
        self.words.insert(file, signed.clone());
        Some(Message::Signed(signed))
    }

    /// Signs the hashes of a carousel's next blocks. The message is sent at once and not remembered.
    pub fn sign_blocks(&self, file: FileId, hashes: BlockHashes) -> Signed {
        let word = SignedWord::Blocks(hashes);
        Signed { signature: self.identity.sign(&word.signed_bytes(file)), word }
    }

    /// Forgets an object whose digest is not sent any more.
    pub fn forget(&mut self, file: FileId) {
        self.signatures.remove(&file);
    }
}

/// Whether the sender has signed this object's manifest.
pub fn is_signed(sender: &PublicKey, file: FileId, begin: &BeginOfFile, digest: &Digest) -> bool {
    let Some(signature) = &digest.signature else { return false };
    let bytes = match &digest.place {
        None => manifest_bytes(file, begin, &digest.hash),
        Some(place) => batch_bytes(&root_of(leaf(file, begin, &digest.hash), place)),
    };
    sender.verify(&bytes, signature)
}

/// The hash that stands for a manifest among those that are signed together.
fn leaf(file: FileId, begin: &BeginOfFile, hash: &[u8; 32]) -> [u8; 32] {
    *blake3::hash(&manifest_bytes(file, begin, hash)).as_bytes()
}

/// The decision of a receiver with a connection about a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Right,
    /// The digest waits for the object's announcement.
    Early,
    /// The digest contradicts the group's announcement. The receiver must ask the sender for its announcement.
    Doubtful,
    /// The digest has no valid signature.
    Unsigned,
}

/// Checks the digests of files that come over a connection, where a digest may arrive before the announcement
/// of its file.
#[derive(Debug)]
pub struct Manifests {
    sender: PublicKey,
    held: BTreeMap<FileId, Digest>,
    /// The number of digests of each object from the group that were not the sender's.
    forged: BTreeMap<FileId, u8>,
    trees: SignedTrees,
}

/// The most wrong digests of an object from the group, to which any member can write: each costs a look at a signature.
/// Others wait for the connection.
const MAX_FORGED: u8 = 8;

impl Manifests {
    pub fn new(sender: PublicKey) -> Self {
        Self { sender, held: BTreeMap::new(), forged: BTreeMap::new(), trees: SignedTrees::default() }
    }

    /// Whether a digest that came from the group, for an object announced as `begin`, is shown to be the
    /// sender's. After several forged digests of an object the answer is always no; then the digest that comes
    /// over the connection decides.
    pub fn is_right(&mut self, file: FileId, begin: &BeginOfFile, digest: &Digest) -> bool {
        let forged = self.forged.get(&file).copied().unwrap_or_default();
        if digest.signature.is_none() || forged >= MAX_FORGED {
            return false;
        }
        let is_right = self.is_signed(file, begin, digest);
        if !is_right {
            self.forged.insert(file, forged + 1);
        }
        is_right
    }

    /// Decides about a digest that has just come, for an object announced as `begin`.
    pub fn judge(&mut self, file: FileId, begin: Option<&BeginOfFile>, digest: &Digest) -> Judgement {
        if digest.signature.is_none() {
            return Judgement::Unsigned;
        }
        if begin.is_some_and(|begin| self.is_signed(file, begin, digest)) {
            self.held.remove(&file);
            return Judgement::Right;
        }
        if self.held.len() >= MAX_HELD {
            self.held.pop_first();
        }
        self.held.insert(file, digest.clone());
        if begin.is_some() { Judgement::Doubtful } else { Judgement::Early }
    }

    /// Returns the digest that came before this announcement, if the sender has signed it for what `begin` says. A
    /// digest that does not fit keeps waiting.
    pub fn release(&mut self, file: FileId, begin: &BeginOfFile) -> Option<Digest> {
        let digest = self.held.remove(&file)?;
        if self.is_signed(file, begin, &digest) {
            return Some(digest);
        }
        self.held.insert(file, digest);
        None
    }

    /// Does what [`is_signed`] does. Of many manifests under one signature, the first alone costs a look at that.
    fn is_signed(&mut self, file: FileId, begin: &BeginOfFile, digest: &Digest) -> bool {
        let Some(place) = &digest.place else { return is_signed(&self.sender, file, begin, digest) };
        let leaf = leaf(file, begin, &digest.hash);
        if !self.trees.lead(leaf, place) {
            if !is_signed(&self.sender, file, begin, digest) {
                return false;
            }
            self.trees.sign(leaf, place);
        }
        true
    }

    /// Forgets an object that has ended here, or whose announcement by the sender contradicts its digest.
    /// Returns whether a digest has waited.
    pub fn forget(&mut self, file: FileId) -> bool {
        self.forged.remove(&file);
        self.held.remove(&file).is_some()
    }
}

/// The decision of a carousel's receiver about a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// The digest belongs to this announcement. The announcement that came first was forged.
    RightWith(BeginOfFile),
    Wrong,
}

/// Checks the digests of files that come from a group. The announcements come from the group too, so neither
/// can be trusted without the other.
#[derive(Debug)]
pub struct GroupManifests {
    sender: PublicKey,
    /// Announcements other than the first.
    others: BTreeMap<FileId, Vec<BeginOfFile>>,
    /// The time of the sender's latest state that was read, by the sender's own clock, in microseconds.
    state_us: u64,
}

impl GroupManifests {
    pub fn new(sender: PublicKey) -> Self {
        Self { sender, others: BTreeMap::new(), state_us: 0 }
    }

    /// Notes another announcement of an object. `first` is the one that was accepted before.
    pub fn note(&mut self, file: FileId, first: Option<&BeginOfFile>, begin: &BeginOfFile) {
        let is_full = self.others.len() >= MAX_DOUBTED && !self.others.contains_key(&file);
        if first.is_none_or(|first| first == begin) || is_full {
            return;
        }
        let others = self.others.entry(file).or_default();
        if !others.contains(begin) {
            if others.len() >= MAX_OTHERS {
                others.remove(0);
            }
            others.push(begin.clone());
        }
    }

    /// Returns a message if it needs no signature, or has a valid one. `None` for any other.
    pub fn read(&mut self, file: FileId, message: Message) -> Option<Message> {
        match message {
            Message::Signed(signed) if self.has_signed(file, &signed) && self.is_new(&signed.word) => {
                signed.word.into_message()
            }
            Message::Signed(_) => None,
            // To the whole session, nobody but the sender says how anything is.
            Message::Local(Local::State(_)) => None,
            message if SignedWord::of(&message).is_some() => None,
            message => Some(message),
        }
    }

    /// Whether this is not an old state that somebody says again.
    fn is_new(&mut self, word: &SignedWord) -> bool {
        let SignedWord::State(state) = word else { return true };
        let is_new = state.echo_us > self.state_us;
        self.state_us = self.state_us.max(state.echo_us);
        is_new
    }

    pub fn has_signed(&self, file: FileId, signed: &Signed) -> bool {
        self.sender.verify(&signed.word.signed_bytes(file), &signed.signature)
    }

    pub fn judge(&mut self, file: FileId, first: Option<&BeginOfFile>, digest: &Digest) -> Verdict {
        if first.is_some_and(|first| is_signed(&self.sender, file, first, digest)) {
            self.others.remove(&file);
            return Verdict::Right;
        }
        let others = self.others.get(&file).map(Vec::as_slice).unwrap_or_default();
        match others.iter().find(|begin| is_signed(&self.sender, file, begin, digest)).cloned() {
            Some(begin) => {
                self.others.remove(&file);
                Verdict::RightWith(begin)
            }
            None => Verdict::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        message::{GroupId, LocalState, Member, TransferType},
    };

    use super::*;

    const FILE: FileId = FileId(5);

    fn begin(name: &str) -> BeginOfFile {
        BeginOfFile::new(TransferType::DiskToDisk, 10, name).unwrap()
    }

    fn signer() -> (Signer, PublicKey) {
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        (Signer::new(identity), key)
    }

    #[test]
    fn a_signature_is_good_for_one_object_as_it_was_announced() {
        let (mut signer, key) = signer();
        let digest = signer.sign(FILE, &begin("a"), Digest::unsigned([1; 32]));
        assert!(is_signed(&key, FILE, &begin("a"), &digest));
        let other_session = FileId::new(SessionId(1), 5);
        let larger = BeginOfFile::new(TransferType::DiskToDisk, 11, "a").unwrap();
        let other_hash = Digest { hash: [2; 32], ..digest.clone() };
        assert!(!is_signed(&key, FileId(6), &begin("a"), &digest));
        assert!(!is_signed(&key, other_session, &begin("a"), &digest));
        assert!(!is_signed(&key, FILE, &begin("b"), &digest) && !is_signed(&key, FILE, &larger, &digest));
        assert!(!is_signed(&key, FILE, &begin("a"), &other_hash));
        assert!(!is_signed(&key, FILE, &begin("a"), &Digest { signature: None, ..digest.clone() }));
        assert!(!is_signed(&self::signer().1, FILE, &begin("a"), &digest));
    }

    #[test]
    fn a_digest_waits_for_the_announcement_that_it_goes_with() {
        let (mut signer, key) = signer();
        let digest = signer.sign(FILE, &begin("a"), Digest::unsigned([1; 32]));
        let mut manifests = Manifests::new(key);
        assert_eq!(manifests.judge(FILE, Some(&begin("a")), &digest), Judgement::Right);
        assert_eq!(manifests.judge(FILE, None, &digest), Judgement::Early);
        assert_eq!(manifests.judge(FILE, Some(&begin("forged")), &digest), Judgement::Doubtful);
        assert_eq!(manifests.release(FILE, &begin("forged")), None);
        assert_eq!(manifests.release(FILE, &begin("a")), Some(digest.clone()));
        assert_eq!(manifests.judge(FILE, None, &Digest::unsigned([1; 32])), Judgement::Unsigned);
        assert!(!manifests.is_right(FILE, &begin("a"), &Digest::unsigned([1; 32])));
        assert!(manifests.is_right(FILE, &begin("a"), &digest));
        (0..MAX_FORGED).for_each(|_| assert!(!manifests.is_right(FILE, &begin("b"), &digest)));
        assert!(!manifests.is_right(FILE, &begin("a"), &digest), "no more is looked at");
        assert!(!manifests.forget(FILE));
        for index in 0..2 * MAX_HELD as u64 {
            manifests.judge(FileId(index), None, &digest);
        }
        assert_eq!(manifests.held.len(), MAX_HELD);
    }

    #[test]
    fn one_signature_is_good_for_each_of_many_objects_as_they_were_announced() {
        let (mut signer, key) = signer();
        let begins: Vec<BeginOfFile> = (0..5).map(|index| begin(&index.to_string())).collect();
        let objects: Vec<_> =
            (0..5).map(|index| (FileId(index), &begins[index as usize], [index as u8; 32])).collect();
        signer.sign_all(&objects);
        let mut manifests = Manifests::new(key);
        for (file, begin, hash) in objects {
            let digest = signer.sign(file, begin, Digest::unsigned(hash));
            assert!(is_signed(&key, file, begin, &digest));
            assert_eq!(manifests.judge(file, Some(begin), &digest), Judgement::Right);
            let other_hash = Digest { hash: [9; 32], ..digest.clone() };
            for (begin, digest) in [(begin, other_hash), (&self::begin("forged"), digest)] {
                assert!(!is_signed(&key, file, begin, &digest));
                assert_eq!(manifests.judge(file, Some(begin), &digest), Judgement::Doubtful);
            }
        }
        let forged = Digest {
            signature: Some([7; 64]),
            ..signer.sign(FileId(1), &begins[1], Digest::unsigned([1; 32]))
        };
        assert_eq!(Manifests::new(key).judge(FileId(1), Some(&begins[1]), &forged), Judgement::Doubtful);
    }

    #[test]
    fn only_its_sender_ends_a_carousel_or_an_object() {
        let (mut signer, key) = signer();
        let mut manifests = GroupManifests::new(key);
        let goodbye = signer.sign_word(FILE, &Message::Goodbye).unwrap();
        assert_eq!(manifests.read(FILE, goodbye.clone()), Some(Message::Goodbye));
        assert_eq!(signer.sign_word(FILE, &Message::Goodbye), Some(goodbye.clone()));
        assert_eq!(manifests.read(FileId(6), goodbye.clone()), None, "it was said of another");
        assert_eq!(GroupManifests::new(self::signer().1).read(FILE, goodbye), None);
        assert_eq!(manifests.read(FILE, Message::Goodbye), None);
        assert_eq!(signer.sign_word(FILE, &Message::EndOfFile), None);
        assert_eq!(manifests.read(FILE, Message::EndOfFile), Some(Message::EndOfFile));
    }

    #[test]
    fn a_member_can_neither_forge_the_senders_state_nor_say_an_old_one_again() {
        let (mut signer, key) = signer();
        let sender = Member(([192, 0, 2, 1], 5000).into());
        let mut say = |stamp_us: u64| {
            let mut state = LocalState::new(GroupId::SESSION, sender);
            state.echo_us = stamp_us;
            let plain = Message::Local(Local::State(Box::new(state)));
            (signer.sign_word(FILE, &plain).unwrap(), plain)
        };
        let [(old, plain), (new, latest)] = [1_000, 2_000].map(&mut say);
        let mut manifests = GroupManifests::new(key);
        assert_eq!(manifests.read(FILE, plain.clone()), None, "not signed");
        assert_eq!(manifests.read(FILE, old.clone()), Some(plain));
        assert_eq!(manifests.read(FILE, new), Some(latest));
        assert_eq!(manifests.read(FILE, old), None, "it is older than what was said before");
        let mut of_a_group = LocalState::new(GroupId(1), sender);
        of_a_group.echo_us = 3_000;
        let of_a_group = Message::Local(Local::State(Box::new(of_a_group)));
        assert_eq!(signer.sign_word(FILE, &of_a_group), None, "nobody signs a group's");
        assert_eq!(manifests.read(FILE, of_a_group), None, "and none is for the whole session");
    }

    #[test]
    fn a_member_cannot_forge_what_a_carousel_announces() {
        let (mut signer, key) = signer();
        let digest = signer.sign(FILE, &begin("a"), Digest::unsigned([1; 32]));
        let mut manifests = GroupManifests::new(key);
        let forged = begin("forged");
        assert_eq!(manifests.judge(FILE, Some(&forged), &digest), Verdict::Wrong);
        for name in ["x", "y", "z", "a", "u", "v", "w"] {
            manifests.note(FILE, Some(&forged), &begin(name));
        }
        assert_eq!(manifests.judge(FILE, Some(&forged), &digest), Verdict::RightWith(begin("a")));
        assert_eq!(manifests.judge(FILE, Some(&begin("a")), &digest), Verdict::Right);
        assert_eq!(manifests.judge(FILE, Some(&begin("a")), &Digest::unsigned([1; 32])), Verdict::Wrong);
    }
}
