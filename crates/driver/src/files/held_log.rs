//! The log of small objects that a receiver holds in memory. It is written at once, so that a later receiver
//! finds it if this one is killed. It consists of two hidden files that are written in turn, each from its
//! start, so that they stay short and their pages stay in the kernel's memory.
//!
//! A file is a sequence of records. Each has the number after the one before:
//!
//! ```text
//! MAGIC number:u64 pieces:u32 check:u64                        little-endian, as all
//! pieces times: index:u32 position:u32 len:u32 announcement:16 bytes
//! the bytes of all pieces
//! ```
//!
//! The check covers everything before the bytes. The bytes need no check, because an object's hash shows
//! errors, as in a part file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IoSlice, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::TargetError;

/// The first bytes of a record.
const MAGIC: &[u8; 8] = b"tc-held1";

const HEADER_LEN: usize = 28;
const ENTRY_LEN: usize = 28;

/// The most pieces of a record, which leave together.
const MAX_PIECES: usize = 512;

/// Number of bytes that are written to one file before it is the other's turn.
const TURN_LEN: u64 = 4 << 20;

/// The most bytes that are read of a file.
const MAX_LEN: u64 = 32 << 20;

/// The most memory that a piece takes besides its bytes, in bytes.
const OVERHEAD_BYTES: usize = 256;

/// Upper bound of the memory for small objects that are held, in bytes. Further objects go to the disk, as large ones do.
/// Objects that an earlier receiver has held may take as much again until it is asked for.
pub(super) const MAX_HELD_BYTES: usize = 8 << 20;

/// Half a hash of what an object was announced as.
pub(super) type Announced = [u8; 16];

/// Bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub index: u32,
    pub announced: Announced,
    pub position: u32,
    pub bytes: &'a [u8],
}

/// The notes about an object, in the order in which they were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub announced: Announced,
    pub pieces: Vec<(u32, Vec<u8>)>,
}

impl Left {
    /// The logged pieces of object `index`.
    pub fn pieces(&self, index: u32) -> impl Iterator<Item = Piece<'_>> {
        let piece = move |(position, bytes)| Piece { index, announced: self.announced, position, bytes };
        self.pieces.iter().map(|(position, bytes)| (*position, &**bytes)).map(piece)
    }
}

/// The log of one receiver, if there is one: whoever needs the room that it takes gives it up. What was in it is
/// fetched again if the receiver is killed then, and that is all.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedLog(Arc<Mutex<Option<HeldLog>>>);

impl SharedLog {
    /// Uses this log from now on, in place of the one before.
    pub fn set(&self, log: HeldLog) {
        *self.lock() = Some(log);
    }

    /// Writes to the log. Gives the log up if it cannot be written.
    pub fn write(&self, write: impl FnOnce(&mut HeldLog) -> io::Result<()>) {
        let mut log = self.lock();
        if log.as_mut().is_some_and(|log| write(log).is_err()) {
            log.take().into_iter().for_each(HeldLog::clear);
        }
    }

    /// Carries out `act`, which needs space on the disk. If there is none, gives the log up and tries once
    /// more, also if the thread that writes it has given it up meanwhile.
    pub fn with_room<T>(&self, mut act: impl FnMut() -> Result<T, TargetError>) -> Result<T, TargetError> {
        act().or_else(|error| {
            if !error.is_full() {
                return Err(error);
            }
            self.give_up();
            act()
        })
    }

    /// Removes the log to free its space. Returns false if there is no log.
    pub fn give_up(&self) -> bool {
        self.lock().take().map(HeldLog::clear).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<HeldLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct HeldLog {
    files: [File; 2],
    /// The index of the file whose turn it is. It is written up to `position`, and will be up to `turn_end`.
    current: usize,
    position: u64,
    turn_end: u64,
    turns: u64,
    /// Number of the next record.
    number: u64,
}

impl HeldLog {
    /// Opens the log in two files, which are open for reading and writing. Returns it with the logged pieces of
    /// wanted objects, by the objects' indexes: the newest records, and no more than memory may hold.
    pub fn open(
        mut files: [File; 2],
        is_wanted: impl Fn(u32) -> bool,
    ) -> io::Result<(Self, BTreeMap<u32, Left>)> {
        let mut texts = [Vec::new(), Vec::new()];
        for (file, text) in files.iter_mut().zip(&mut texts) {
            file.take(MAX_LEN).read_to_end(text)?;
        }
        let mut records: Vec<_> =
            texts.iter().enumerate().flat_map(|(of, text)| records(text).map(move |it| (it, of))).collect();
        records.sort_by_key(|(record, _)| record.number);
        let last =
            records.last().map_or(Some((1, 1)), |(record, of)| Some((record.number.checked_add(1)?, *of)));
        let (number, last) = last.unwrap_or_else(|| {
            // Somebody else has written it.
            records.clear();
            (1, 1)
        });
        let mut left = BTreeMap::<u32, Left>::new();
        let pieces = records.iter().flat_map(|(record, _)| record.pieces());
        let pieces: Vec<_> =
            pieces.filter(|piece| !piece.bytes.is_empty() && is_wanted(piece.index)).collect();
        for piece in newest(&pieces) {
            let of = left.entry(piece.index).or_default();
            if of.announced != piece.announced {
                *of = Left { announced: piece.announced, pieces: Vec::new() };
            }
            of.pieces.push((piece.position, piece.bytes.to_vec()));
        }
        let mut log = Self { files, current: last, position: 0, turn_end: 0, turns: 0, number };
        log.turn()?;
        Ok((log, left))
    }

    /// The number of this turn. Pieces of the last turn are in the other file; older pieces are overwritten.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Whether the next turn should begin, in the other file.
    pub fn is_full(&self) -> bool {
        self.position >= self.turn_end
    }

    /// Writes to the other of the two files from now on.
    pub fn turn(&mut self) -> io::Result<()> {
        self.current = 1 - self.current;
        self.position = 0;
        self.turn_end = TURN_LEN;
        self.turns += 1;
        self.files[self.current].seek(SeekFrom::Start(0)).map(drop)
    }

    /// Writes pieces that still count, and that this turn overwrites, at its begin. They do not count for the
    /// length of the turn.
    pub fn carry_over(&mut self, pieces: &[Piece<'_>]) -> io::Result<()> {
        self.write(pieces)?;
        self.turn_end = self.position + TURN_LEN;
        Ok(())
    }

    /// Writes pieces to the log.
    pub fn write(&mut self, pieces: &[Piece<'_>]) -> io::Result<()> {
        pieces.chunks(MAX_PIECES).try_for_each(|pieces| self.write_record(pieces))
    }

    /// Empties the files.
    fn clear(self) {
        for file in self.files {
            // One that cannot be emptied goes with the session.
            _ = file.set_len(0);
        }
    }

    fn write_record(&mut self, pieces: &[Piece<'_>]) -> io::Result<()> {
        let next = self.number.checked_add(1).ok_or(io::ErrorKind::InvalidData)?;
        let head = head(self.number, pieces);
        let mut slices = vec![IoSlice::new(&head)];
        slices.extend(pieces.iter().map(|piece| IoSlice::new(piece.bytes)));
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let file = &mut self.files[self.current];
        if file.write_vectored(&slices)? != len {
            // The disk is full.
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.position += len as u64;
        self.number = next;
        Ok(())
    }
}

fn head(number: u64, pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEADER_LEN + pieces.len() * ENTRY_LEN);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
    head.extend_from_slice(&[0; 8]);
    for piece in pieces {
        head.extend_from_slice(&piece.index.to_le_bytes());
        head.extend_from_slice(&piece.position.to_le_bytes());
        head.extend_from_slice(&(piece.bytes.len() as u32).to_le_bytes());
        head.extend_from_slice(&piece.announced);
    }
    let check = check(&head);
    head[HEADER_LEN - 8..HEADER_LEN].copy_from_slice(&check);
    head
}

/// Computes the check of a record's head. The bytes where the check belongs are left out.
fn check(head: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..HEADER_LEN - 8]).update(&head[HEADER_LEN..]);
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

#[derive(Debug)]
struct Record<'a> {
    number: u64,
    entries: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The first record of a text and what follows it; none when there is no whole one.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let head = text.get(..HEADER_LEN).filter(|head| head.starts_with(MAGIC))?;
        let number = u64::from_le_bytes(head[8..16].try_into().ok()?);
        let entries_len = u32_at(head, 16)? as usize * ENTRY_LEN;
        let all = text.get(..HEADER_LEN + entries_len)?;
        if check(all)[..] != head[HEADER_LEN - 8..] {
            return None;
        }
        let entries = &all[HEADER_LEN..];
        let lens = entries.chunks_exact(ENTRY_LEN).filter_map(|entry| u32_at(entry, 8));
        let (bytes, rest) = text[all.len()..].split_at_checked(lens.map(|len| len as usize).sum())?;
        Some((Self { number, entries, bytes }, rest))
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = self.bytes;
        self.entries.chunks_exact(ENTRY_LEN).map_while(move |entry| {
            let (bytes, after) = rest.split_at_checked(u32_at(entry, 8)? as usize)?;
            rest = after;
            let announced = entry[12..].try_into().ok()?;
            Some(Piece { index: u32_at(entry, 0)?, position: u32_at(entry, 4)?, announced, bytes })
        })
    }
}

/// The records of a file, up to where an earlier turn's begin.
fn records(text: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let (mut rest, mut next) = (text, None);
    std::iter::from_fn(move || {
        let (record, after) = Record::parse(rest)?;
        if next.is_some_and(|next| next != record.number) {
            return None;
        }
        next = record.number.checked_add(1);
        rest = after;
        Some(record)
    })
}

/// The last pieces, as many as may be held.
fn newest<'a, 'b>(pieces: &'b [Piece<'a>]) -> &'b [Piece<'a>] {
    let mut room = MAX_HELD_BYTES;
    let fits = |piece: &&Piece<'_>| {
        room.checked_sub(piece.bytes.len() + OVERHEAD_BYTES).map(|rest| room = rest).is_some()
    };
    let count = pieces.iter().rev().take_while(fits).count();
    &pieces[pieces.len() - count..]
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scratch::scratch;

    /// An object that is not wanted.
    const UNWANTED: u32 = 9;

    fn open(path: &Path) -> (HeldLog, BTreeMap<u32, Left>) {
        let file = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(false).open(path.join(name)).unwrap()
        };
        HeldLog::open([file("0"), file("1")], |index| index != UNWANTED).unwrap()
    }

    fn piece(index: u32, position: u32, bytes: &[u8]) -> Piece<'_> {
        Piece { index, announced: [7; 16], position, bytes }
    }

    fn left(pieces: &[(u32, &[u8])]) -> Left {
        let pieces = pieces.iter().map(|(position, bytes)| (*position, bytes.to_vec())).collect();
        Left { announced: [7; 16], pieces }
    }

    #[test]
    fn what_was_noted_is_there_in_its_order_for_the_next_one() {
        let path = scratch("held-log");
        let (mut log, before) = open(&path);
        assert!(before.is_empty());
        log.write(&[piece(1, 0, b"ab"), piece(2, 5, b"xyz")]).unwrap();
        log.write(&[piece(1, 2, b"cd")]).unwrap();
        let expected = BTreeMap::from([(1, left(&[(0, b"ab"), (2, b"cd")])), (2, left(&[(5, b"xyz")]))]);
        assert_eq!(open(&path).1, expected);
    }

    #[test]
    fn another_announcement_makes_what_was_noted_before_void() {
        let path = scratch("held-log-announced");
        let (mut log, _) = open(&path);
        log.write(&[piece(1, 0, b"ab"), Piece { announced: [8; 16], ..piece(1, 0, b"xy") }]).unwrap();
        let expected = Left { announced: [8; 16], pieces: vec![(0, b"xy".to_vec())] };
        assert_eq!(open(&path).1, BTreeMap::from([(1, expected)]));
    }

    #[test]
    fn a_record_that_is_cut_short_or_damaged_ends_the_file() {
        let path = scratch("held-log-torn");
        let (mut log, _) = open(&path);
        log.write(&[piece(1, 0, b"ab")]).unwrap();
        log.write(&[piece(2, 0, b"cd")]).unwrap();
        let whole = std::fs::read(path.join("0")).unwrap();
        let first = whole.len() / 2;
        for (text, expected) in [
            (whole[..whole.len() - 1].to_vec(), 1),
            ([&whole[..first + 9], &[99], &whole[first + 10..]].concat(), 1),
            (whole[..first - 1].to_vec(), 0),
            (vec![0xff; 200], 0),
        ] {
            std::fs::write(path.join("0"), text).unwrap();
            assert_eq!(open(&path).1.len(), expected);
        }
    }

    #[test]
    fn the_files_stay_short_and_what_is_carried_over_is_not_lost() {
        let path = scratch("held-log-turns");
        let (mut log, _) = open(&path);
        let bytes = vec![3; 300_000];
        for index in 100..200 {
            if log.is_full() {
                log.turn().unwrap();
                log.carry_over(&[piece(0, 0, b"first")]).unwrap();
            }
            log.write(&[piece(index, 0, &bytes)]).unwrap();
        }
        let (mut next, there) = open(&path);
        assert_eq!(there.get(&0), Some(&left(&[(0, b"first"), (0, b"first")])));
        assert!(there.contains_key(&199) && !there.contains_key(&100));
        for name in ["0", "1"] {
            assert!(path.join(name).metadata().unwrap().len() < 2 * TURN_LEN);
        }
        // The next one overwrites the older file, and says what counts first.
        next.carry_over(&[piece(0, 0, b"first")]).unwrap();
        next.write(&[piece(300, 0, b"new")]).unwrap();
        let (_, there) = open(&path);
        assert!([0, 199, 300].iter().all(|index| there.contains_key(index)));
    }

    #[test]
    fn a_log_that_is_given_up_takes_no_room_and_nothing_more() {
        let path = scratch("held-log-given-up");
        let log = SharedLog::default();
        assert!(!log.give_up());
        log.set(open(&path).0);
        let write = |log: &SharedLog| log.write(|log| log.write(&[piece(1, 0, b"ab")]));
        let lens = || ["0", "1"].map(|name| path.join(name).metadata().unwrap().len());
        write(&log);
        log.write(|log| log.turn());
        write(&log);
        assert!(lens().iter().all(|len| *len > 0));
        let mut attempts = 0;
        let full = || TargetError::NoRoom { doing: String::new(), folder: path.to_path_buf() };
        let mut attempt = |fails: usize| {
            attempts += 1;
            if attempts <= fails { Err(full()) } else { Ok(attempts) }
        };
        assert_eq!(log.with_room(|| attempt(0)).unwrap(), 1);
        assert!(lens().iter().all(|len| *len > 0), "there was room");
        assert_eq!(log.with_room(|| attempt(2)).unwrap(), 3);
        write(&log);
        assert_eq!(lens(), [0, 0]);
        assert!(log.with_room(|| attempt(5)).is_err(), "there is nothing to give back");
        // The thread that writes it gives it up in the moment when there is no room for another.
        log.set(open(&path).0);
        let mut is_first = true;
        let meanwhile = log
            .with_room(|| if std::mem::take(&mut is_first) && log.give_up() { Err(full()) } else { Ok(()) });
        assert!(meanwhile.is_ok(), "{meanwhile:?}");
        // Nor has one that cannot be written any room.
        log.set(open(&path).0);
        write(&log);
        log.write(|_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!((lens(), log.give_up()), ([0, 0], false));
    }

    #[test]
    fn a_log_whose_numbers_cannot_go_on_is_void() {
        let path = scratch("held-log-numbers");
        for (number, count) in [(u64::MAX, 0), (u64::MAX - 1, 1)] {
            open(&path);
            let text = [&head(number, &[piece(1, 0, b"ab")])[..], b"ab"].concat();
            std::fs::write(path.join("0"), text).unwrap();
            std::fs::write(path.join("1"), "").unwrap();
            let (mut log, left) = open(&path);
            assert_eq!(left.len(), count);
            assert_eq!(log.write(&[piece(2, 0, b"cd")]).is_ok(), count == 0, "{number}");
        }
    }

    #[test]
    fn no_more_is_read_than_is_ever_held_and_nothing_that_is_not_wanted() {
        let path = scratch("held-log-bounded");
        let (mut log, _) = open(&path);
        let bytes = vec![3; 1 << 20];
        let last = MAX_HELD_BYTES as u32 >> 20;
        for index in 100..=100 + last {
            log.write(&[piece(index, 0, &bytes), piece(UNWANTED, 0, &bytes)]).unwrap();
        }
        log.turn().unwrap();
        log.write(&[piece(1, 0, b""), piece(2, 0, b"ab")]).unwrap();
        let (_, left) = open(&path);
        assert!(left.contains_key(&2) && left.contains_key(&(100 + last)));
        let is_there = |index| left.contains_key(index);
        assert!(![1, UNWANTED, 100].iter().any(is_there));
        let held = left.values().flat_map(|left| &left.pieces).map(|(_, bytes)| bytes.len()).sum::<usize>();
        assert_eq!(held, MAX_HELD_BYTES - bytes.len() + 2, "the next one does not fit");
    }
}
