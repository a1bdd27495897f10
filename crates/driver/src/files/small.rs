//! Small objects. They stay in memory until they are complete and verified. Then a file is made of each in one
//! step. The temporary name and the reading back that cost little for a large object would be most of the cost
//! of a small one. A log keeps their bytes for the case that the receiver is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ObjectKind},
};

use super::{
    Buffers, Journal, Kept, Leftovers, Task, Whole,
    held::{Held, OVERHEAD_BYTES, carry_over},
    held_log::{Left, MAX_HELD_BYTES, SharedLog},
    names::Names,
};

/// Objects up to this size, in bytes, are small.
const MAX_LEN: u64 = 64 * 1024;

/// The number of held bytes above which objects do not wait until the group's socket is empty. The sender's word on
/// them is most often there by then, and files are best made of what the caches still hold. With 4 MiB here 10,000 of
/// 10 KB cost 3 % more.
const MANY_BYTES: usize = 512 << 10;

/// The small objects of a session that are under way.
#[derive(Debug, Default)]
pub(crate) struct SmallObjects {
    held: BTreeMap<FileId, Held>,
    /// The bytes that have come of objects that are not announced, with their positions.
    early: BTreeMap<FileId, Vec<(u64, Vec<u8>)>>,
    /// All that is in memory.
    held_bytes: usize,
    /// Objects that the store has been told of. They stay there until they are discarded.
    stored: BTreeSet<FileId>,
    log: SharedLog,
    /// The ranges that have come and are not in the log yet.
    unlogged: Vec<(FileId, Range<u64>)>,
    /// The notes about objects that an earlier receiver has held.
    left: BTreeMap<u32, Left>,
    buffers: Buffers,
}

impl SmallObjects {
    /// Creates the collection for a receiver with this journal, with the objects that an earlier receiver has
    /// held.
    pub fn resuming(journal: &Journal, leftovers: &Leftovers) -> Self {
        let mut small = Self::default();
        // What is noted elsewhere came later, or is as much.
        if let Some(left) = journal.open_held_log(leftovers) {
            (small.log, small.left) = (journal.held_log(), left);
            let Self { held, left, log, .. } = &mut small;
            log.write(|log| carry_over(log, held, left));
        }
        small
    }

    /// The buffers for the objects' bytes.
    pub fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    /// Whether an earlier receiver has left something that was not asked for yet.
    pub fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Handles an announcement, new or changed. Returns the tasks for the store; there are none while the
    /// object is held in memory.
    pub fn announce(&mut self, file: FileId, begin: BeginOfFile, kept: Kept) -> Vec<Task> {
        let (held, early) = (self.remove(file), self.take_early(file));
        let is_fit = kept == Kept::Nothing && is_small(&begin);
        if !is_fit || self.stored.contains(&file) || !self.has_room(begin.file_size) {
            self.stored.insert(file);
            let early = early.into_iter().map(|(position, bytes)| Task::KeepHeld { file, position, bytes });
            let before = held.into_iter().flat_map(|held| held.into_tasks(file)).chain(early);
            return std::iter::once(Task::Announce { file, begin, kept }).chain(before).collect();
        }
        let (mut content, mut there) = held.map_or_else(
            || (self.buffers.take(begin.file_size as usize), Vec::new()),
            |held| (held.content, held.there),
        );
        content.truncate(begin.file_size as usize);
        there.retain(|range| range.end <= begin.file_size);
        // What was noted of it was of another announcement.
        self.unlogged.extend(there.iter().map(|range| (file, range.clone())));
        let held = Held::new(begin, content, there);
        self.held_bytes += held.len();
        self.held.insert(file, held);
        for (position, bytes) in early {
            // The machine has checked it against the announcement.
            self.keep(file, position, &bytes);
        }
        Vec::new()
    }

    /// Stores bytes of an object that is held in memory. Returns false if the store must do it.
    pub fn keep(&mut self, file: FileId, position: u64, bytes: &[u8]) -> bool {
        if self.may_be_small(file, position, bytes.len()) {
            self.held_bytes += bytes.len() + OVERHEAD_BYTES;
            self.early.entry(file).or_default().push((position, bytes.to_vec()));
            return true;
        }
        let at = usize::try_from(position).ok();
        let room = self.held.get_mut(&file).and_then(|held| Some((held, at?)));
        let Some((held, at)) =
            room.filter(|(held, at)| bytes.len() <= (held.begin.file_size as usize).saturating_sub(*at))
        else {
            self.stored.insert(file);
            return false;
        };
        held.put(at, bytes);
        let end = position + bytes.len() as u64;
        match self.unlogged.last_mut() {
            Some((of, last)) if *of == file && last.end == position => last.end = end,
            _ => self.unlogged.push((file, position..end)),
        }
        true
    }

    /// Discards what an earlier receiver has held of an unwanted object.
    pub fn forget_left(&mut self, file: FileId) {
        self.left.remove(&file.index());
    }

    /// Objects with indexes below `before` will not come again.
    pub fn forget_left_before(&mut self, before: u32) {
        self.left = self.left.split_off(&before);
    }

    /// Restores what an earlier receiver has held of an object that has just been announced. Returns its
    /// ranges.
    pub fn restore(&mut self, file: FileId) -> Vec<Range<u64>> {
        let Some(left) = self.left.remove(&file.index()) else { return Vec::new() };
        if self.held.get(&file).is_none_or(|held| held.announced != left.announced) {
            return Vec::new();
        }
        let mut restored = Vec::new();
        for (position, bytes) in left.pieces {
            let position = u64::from(position);
            if self.keep(file, position, &bytes) {
                restored.push(position..position + bytes.len() as u64);
            }
        }
        restored
    }

    /// Writes new bytes to the log, for the next receiver if this one is killed. If that fails, the bytes are
    /// fetched again.
    pub fn note(&mut self) {
        let unlogged = std::mem::take(&mut self.unlogged);
        if unlogged.is_empty() {
            return;
        }
        let Self { held, left, log, .. } = self;
        log.write(|log| {
            if log.is_full() {
                log.turn()?;
                carry_over(log, held, left)?;
            }
            for (file, _) in &unlogged {
                if let Some(held) = held.get_mut(file) {
                    held.logged.get_or_insert(log.turns());
                }
            }
            let piece = |(file, range): &(FileId, Range<u64>)| held.get(file)?.piece(*file, range);
            log.write(&unlogged.iter().filter_map(piece).collect::<Vec<_>>())
        });
    }

    /// Whether nothing of any object is in memory.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.early.is_empty()
    }

    /// Whether an object is held in memory.
    pub fn has(&self, file: FileId) -> bool {
        self.held.contains_key(&file)
    }

    /// The bytes of a range of an object that is held in memory. `None` if it is not, or some of them are missing.
    pub fn read(&self, file: FileId, range: &Range<u64>) -> Option<Vec<u8>> {
        let held = self.held.get(&file)?;
        let mut at = range.start;
        // What has come is in the order in which it came.
        while let Some(next) = held.there.iter().find(|there| there.contains(&at) && at < range.end) {
            at = next.end;
        }
        (at >= range.end).then(|| held.content[range.start as usize..range.end as usize].to_vec())
    }

    /// The hash of an object that is held in memory and complete.
    pub fn hash(&mut self, file: FileId) -> Option<[u8; 32]> {
        let held = self.held.get_mut(&file)?;
        held.hash = Some(held.compute_hash());
        held.hash
    }

    /// Notes that the store gets all further bytes of an object.
    pub fn leave_to_store(&mut self, file: FileId) {
        self.stored.insert(file);
    }

    /// Takes an object that is held and hashed out of memory.
    pub fn take(&mut self, file: FileId) -> Option<Whole> {
        if self.unlogged.iter().any(|(of, _)| *of == file) {
            self.note();
        }
        let Held { begin, announced, content, hash, .. } = self.remove(file)?;
        Some(Whole { begin, announced, content, hash: hash? })
    }

    /// Discards an object. Returns false if the store must discard it, too.
    pub fn discard(&mut self, file: FileId) -> bool {
        let is_stored = self.stored.remove(&file);
        let was_early = !self.take_early(file).is_empty();
        let held = self.remove(file).map(|held| self.buffers.give(held.content));
        (held.is_some() || was_early) && !is_stored
    }

    /// Whether so much is held that the control connection should be read. The digests that allow complete
    /// objects to become files come over it.
    pub fn are_many(&self) -> bool {
        self.held_bytes > MANY_BYTES
    }

    /// Moves all held objects to the store, for a later receiver. Returns the tasks.
    pub fn spill(&mut self) -> Vec<Task> {
        let files: Vec<FileId> = self.held.keys().copied().collect();
        files.into_iter().flat_map(|file| self.hand_over(file)).collect()
    }

    /// Moves a held object to the store, because repair symbols are decoded with bytes on the disk. Returns the
    /// tasks.
    pub fn hand_over(&mut self, file: FileId) -> Vec<Task> {
        let Some(held) = self.remove(file) else { return Vec::new() };
        self.stored.insert(file);
        let announce = Task::Announce { file, begin: held.begin.clone(), kept: Kept::Nothing };
        std::iter::once(announce).chain(held.into_tasks(file)).collect()
    }

    fn remove(&mut self, file: FileId) -> Option<Held> {
        let held = self.held.remove(&file)?;
        self.held_bytes -= held.len();
        Some(held)
    }

    fn take_early(&mut self, file: FileId) -> Vec<(u64, Vec<u8>)> {
        let early = self.early.remove(&file).unwrap_or_default();
        self.held_bytes -= early.iter().map(|(_, bytes)| bytes.len() + OVERHEAD_BYTES).sum::<usize>();
        early
    }

    /// Whether bytes are of an object that is not announced and may be held when it is.
    fn may_be_small(&self, file: FileId, position: u64, len: usize) -> bool {
        !self.held.contains_key(&file)
            && !self.stored.contains(&file)
            && position.saturating_add(len as u64) <= MAX_LEN
            && self.has_room(len as u64)
    }

    fn has_room(&self, size: u64) -> bool {
        self.held_bytes + size as usize + OVERHEAD_BYTES <= MAX_HELD_BYTES
    }
}

fn is_small(begin: &BeginOfFile) -> bool {
    begin.kind() == ObjectKind::File && begin.file_size <= MAX_LEN && Names::check(begin).is_ok()
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        message::{Attributes, ModificationTime},
    };

    use super::*;
    use crate::files::{TargetFolder, begin, journal::announced};
    use crate::scratch::scratch;

    const FILE: FileId = FileId(3);

    fn held(file: FileId, size: u64) -> SmallObjects {
        let mut small = SmallObjects::default();
        assert!(small.announce(file, begin(size, "a"), Kept::Nothing).is_empty());
        small
    }

    #[test]
    fn a_small_object_is_handed_out_whole_with_its_hash() {
        let mut small = held(FILE, 6);
        assert!(small.keep(FILE, 4, b"ef") && small.keep(FILE, 0, b"abcd"));
        assert!(!small.keep(FILE, 4, b"efg"), "it is not so long");
        let hash = *blake3::hash(b"abcdef").as_bytes();
        assert_eq!(small.hash(FILE), Some(hash));
        let announced = announced(&begin(6, "a"));
        let whole = Whole { begin: begin(6, "a"), announced, content: b"abcdef".to_vec(), hash };
        assert_eq!(small.take(FILE), Some(whole));
        assert_eq!((small.take(FILE), small.held_bytes), (None, 0));
    }

    #[test]
    fn the_hash_is_of_what_is_there_in_the_end_in_whatever_order_it_came() {
        let mut small = held(FILE, 6);
        assert!(small.keep(FILE, 0, b"abc") && small.keep(FILE, 3, b"xxx"));
        assert_eq!(small.hash(FILE), Some(*blake3::hash(b"abcxxx").as_bytes()));
        assert!(small.keep(FILE, 3, b"def"));
        assert_eq!(small.hash(FILE), Some(*blake3::hash(b"abcdef").as_bytes()));
        let mut shorter = held(FILE, 6);
        assert!(shorter.keep(FILE, 0, b"abcdef"));
        assert!(shorter.announce(FILE, begin(5, "a"), Kept::Nothing).is_empty());
        assert!(shorter.keep(FILE, 0, b"abcde"));
        assert_eq!(shorter.hash(FILE), Some(*blake3::hash(b"abcde").as_bytes()));
    }

    #[test]
    fn what_is_not_hashed_is_not_handed_out() {
        let mut small = held(FILE, 6);
        small.keep(FILE, 0, b"abcdef");
        assert_eq!(small.take(FILE), None);
    }

    #[test]
    fn large_ones_folders_and_bad_names_go_to_the_store() {
        let folder = Attributes {
            kind: ObjectKind::Folder,
            mode: 0o755,
            modified: ModificationTime { seconds: 0, nanoseconds: 0 },
        };
        let folder = begin(0, "b").with_attributes(folder).unwrap();
        for begin in [begin(MAX_LEN + 1, "a"), begin(5, "../a"), folder] {
            let mut small = SmallObjects::default();
            let expected = Task::Announce { file: FILE, begin: begin.clone(), kept: Kept::Nothing };
            assert_eq!(small.announce(FILE, begin, Kept::Nothing), [expected]);
            assert!(!small.keep(FILE, 0, b"a") && !small.has(FILE));
        }
    }

    #[test]
    fn what_came_before_its_announcement_is_held_once_it_is_announced_as_small() {
        let mut small = SmallObjects::default();
        assert!(small.keep(FILE, 2, b"cde"));
        assert!(small.announce(FILE, begin(5, "a"), Kept::Nothing).is_empty());
        assert!(small.has(FILE) && small.keep(FILE, 0, b"ab"));
        small.hash(FILE);
        assert_eq!(small.take(FILE).unwrap().content, b"abcde");
        assert_eq!(small.held_bytes, 0);
    }

    #[test]
    fn what_came_before_its_announcement_goes_to_the_store_with_one_that_is_large() {
        let mut small = SmallObjects::default();
        assert!(small.keep(FILE, 0, b"ab") && !small.keep(FILE, MAX_LEN, b"cd"));
        assert!(!small.keep(FILE, 2, b"cd"), "the store has some of it");
        let begin = begin(1 << 20, "a");
        let expected = [
            Task::Announce { file: FILE, begin: begin.clone(), kept: Kept::Nothing },
            Task::KeepHeld { file: FILE, position: 0, bytes: b"ab".to_vec() },
        ];
        assert_eq!(small.announce(FILE, begin, Kept::Nothing), expected);
        assert!(!small.discard(FILE), "the store has to forget it, too");
        assert!(small.keep(FILE, 0, b"ab") && small.discard(FILE));
        assert_eq!((small.held_bytes, small.early.len()), (0, 0));
    }

    #[test]
    fn the_next_receiver_has_what_a_killed_one_held() {
        let path = scratch("small-resumed");
        let folder = TargetFolder::open(&path).unwrap();
        let resumed = |leaves: bool| {
            let (journal, leftovers) = Journal::open(&folder, SessionId(0), true).unwrap();
            let small = SmallObjects::resuming(&journal, &leftovers);
            assert_eq!(small.has_left(), leaves);
            (journal, small)
        };
        let (mut killed, mut small) = resumed(false);
        assert!(small.announce(FILE, begin(6, "a"), Kept::Nothing).is_empty());
        assert!(small.announce(FileId(4), begin(6, "b"), Kept::Nothing).is_empty());
        small.keep(FILE, 0, b"ab");
        small.keep(FileId(4), 0, b"xy");
        small.note();
        small.keep(FILE, 2, b"cd");
        small.note();
        small.keep(FILE, 4, b"ef");
        // All of another one is in its part file, which keeps its journal.
        killed.have(FileId(5), &begin(6, "c"), &[0..3, 3..6]);
        drop(killed);
        let (again, mut small) = resumed(true);
        assert!(small.announce(FILE, begin(6, "a"), Kept::Nothing).is_empty());
        assert_eq!(small.restore(FILE), [0..2, 2..4]);
        // Killed again, before the other one is announced, otherwise than before.
        small.note();
        drop(again);
        let (journal, mut small) = resumed(true);
        for file in [FILE, FileId(4)] {
            small.forget_left(file);
        }
        assert!(!small.has_left(), "neither is wanted");
        drop(journal);
        let (_, mut small) = resumed(true);
        small.announce(FileId(4), begin(6, "c"), Kept::Nothing);
        assert!(small.restore(FileId(4)).is_empty());
        small.announce(FILE, begin(6, "a"), Kept::Nothing);
        let restored = small.restore(FILE);
        assert!(restored.contains(&(0..2)) && restored.contains(&(2..4)));
        small.keep(FILE, 4, b"ef");
        small.hash(FILE);
        assert_eq!(small.take(FILE).unwrap().content, b"abcdef");
    }

    #[test]
    fn what_is_held_for_long_stays_in_the_log() {
        let path = scratch("small-turns");
        let folder = TargetFolder::open(&path).unwrap();
        let (mut killed, _) = Journal::open(&folder, SessionId(0), true).unwrap();
        let mut small = SmallObjects::resuming(&killed, &Leftovers::default());
        killed.have(FileId(9), &begin(6, "kept"), &[0..1, 2..3]);
        small.announce(FILE, begin(6, "a"), Kept::Nothing);
        small.keep(FILE, 0, b"ab");
        small.note();
        let content = vec![7; MAX_LEN as usize];
        let others = 200;
        for index in 100..100 + others {
            let file = FileId(index);
            small.announce(file, begin(MAX_LEN, "b"), Kept::Nothing);
            small.keep(file, 0, &content);
            small.note();
            small.discard(file);
            // Each time in another turn than the time before.
            if index == 100 + others / 2 {
                small.keep(FILE, 2, b"cd");
            }
        }
        drop(killed);
        let (journal, leftovers) = Journal::open(&folder, SessionId(0), true).unwrap();
        let mut small = SmallObjects::resuming(&journal, &leftovers);
        assert!(!small.left.contains_key(&100), "all of that was written over");
        small.announce(FILE, begin(6, "a"), Kept::Nothing);
        let restored = small.restore(FILE);
        assert!(restored.iter().any(|range| range.start == 0) && restored.iter().any(|range| range.end == 4));
        assert_eq!(small.held[&FILE].content, b"abcd");
    }

    #[test]
    fn memory_is_bounded_and_the_rest_goes_to_the_store() {
        let mut small = SmallObjects::default();
        let mut announce =
            |index| small.announce(FileId(index), begin(MAX_LEN, "a"), Kept::Nothing).is_empty();
        let count = (0..1000).filter(|index| announce(*index)).count() as u64;
        assert_eq!(count, MAX_HELD_BYTES as u64 / (MAX_LEN + OVERHEAD_BYTES as u64));
        assert!(small.discard(FileId(0)));
        assert!(small.announce(FileId(2000), begin(MAX_LEN, "a"), Kept::Nothing).is_empty());
    }

    #[test]
    fn the_connection_is_read_long_before_the_memory_is_used_up() {
        let mut small = SmallObjects::default();
        let few = MANY_BYTES as u64 / (MAX_LEN + OVERHEAD_BYTES as u64);
        for index in 0..=few {
            assert!(
                !small.are_many(),
                "what is announced on the connection may lie in the group's socket still"
            );
            small.announce(FileId(index), begin(MAX_LEN, "a"), Kept::Nothing);
        }
        assert!(small.are_many() && small.held_bytes <= MAX_HELD_BYTES / 8);
        small.discard(FileId(0));
        assert!(!small.are_many());
    }

    #[test]
    fn one_that_is_mended_with_symbols_goes_to_the_store_with_what_has_come() {
        let mut small = held(FILE, 6);
        assert!(small.keep(FILE, 0, b"abc"));
        assert!(matches!(
            &small.hand_over(FILE)[..],
            [Task::Announce { .. }, Task::KeepHeld { position: 0, .. }]
        ));
        assert!(!small.keep(FILE, 3, b"def") && small.hand_over(FILE).is_empty(), "the store has it");
        assert_eq!((small.hash(FILE), small.held_bytes), (None, 0));
    }

    #[test]
    fn one_that_turns_out_to_be_large_is_handed_to_the_store_with_what_has_come() {
        let mut small = held(FILE, 6);
        small.keep(FILE, 4, b"ef");
        let tasks = small.announce(FILE, begin(1 << 20, "b"), Kept::Nothing);
        let expected = [
            Task::Announce { file: FILE, begin: begin(1 << 20, "b"), kept: Kept::Nothing },
            Task::KeepHeld { file: FILE, position: 4, bytes: b"ef".to_vec() },
        ];
        assert_eq!(tasks, expected);
        assert_eq!((small.has(FILE), small.held_bytes), (false, 0));
    }

    #[test]
    fn a_session_that_is_cut_short_leaves_what_has_come() {
        let mut small = held(FILE, 6);
        small.keep(FILE, 0, b"abcd");
        let expected = [
            Task::Announce { file: FILE, begin: begin(6, "a"), kept: Kept::Nothing },
            Task::KeepHeld { file: FILE, position: 0, bytes: b"abcd".to_vec() },
        ];
        assert_eq!(small.spill(), expected);
        assert!(small.spill().is_empty() && small.held_bytes == 0);
    }
}
