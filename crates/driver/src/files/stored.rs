//! One object on its way to the disk: what of it is stored, and its hash as far as it is known.

use std::{collections::BTreeMap, io, ops::Range, os::unix::fs::FileExt};

use super::{PartFile, TargetError, TargetFolder};

/// How much is read back at once where the hash has to catch up.
pub(super) const CATCH_UP_LEN: usize = 256 * 1024;

/// The file and the state of its hash. Bytes that arrive in order are hashed from the receive buffer, while
/// they are in the cache; from a gap on, the file is read back once the gap is filled.
#[derive(Debug)]
pub(super) struct Stored {
    part: PartFile,
    hasher: blake3::Hasher,
    /// Everything before this position is in `hasher`.
    hashed: u64,
    /// What is stored beyond `hashed`, start to end, without two that touch.
    beyond: BTreeMap<u64, u64>,
    /// The hash has been given out once.
    is_finished: bool,
}

impl Stored {
    pub fn new(part: PartFile) -> Self {
        Self { part, hasher: blake3::Hasher::new(), hashed: 0, beyond: BTreeMap::new(), is_finished: false }
    }

    /// Writes bytes at their place.
    pub fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.part.file().write_all_at(bytes, position)?;
        let end = position + bytes.len() as u64;
        if position == self.hashed && self.beyond.is_empty() {
            self.hasher.update(bytes);
            self.hashed = end;
        } else if end > self.hashed {
            self.note(position.max(self.hashed)..end);
        }
        Ok(())
    }

    /// Whether [`Stored::catch_up`] has something to do.
    pub fn is_behind(&self) -> bool {
        self.beyond.first_key_value().is_some_and(|(start, _)| *start <= self.hashed)
    }

    /// Writes those of the bytes that differ from what is stored at their place. The hash does not
    /// follow: the next [`Stored::hash`] reads the whole file.
    pub fn overwrite(&mut self, position: u64, bytes: &[u8], buffer: &mut [u8]) -> io::Result<()> {
        let mut at = position;
        for piece in bytes.chunks(buffer.len()) {
            let stored = &mut buffer[..piece.len()];
            self.part.file().read_exact_at(stored, at)?;
            if stored != piece {
                self.part.file().write_all_at(piece, at)?;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Hashes the next stored piece that is not hashed yet; false when there is none.
    pub fn catch_up(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let Some((_, &end)) = self.beyond.first_key_value().filter(|_| self.is_behind()) else {
            return Ok(false);
        };
        let len = (end - self.hashed).min(buffer.len() as u64) as usize;
        self.part.file().read_exact_at(&mut buffer[..len], self.hashed)?;
        self.hasher.update(&buffer[..len]);
        self.hashed += len as u64;
        self.beyond.pop_first();
        if self.hashed < end {
            self.beyond.insert(self.hashed, end);
        }
        Ok(true)
    }

    /// The hash of what is stored from the file's start to its first gap. Asked a second time, it reads
    /// all of that again, since it may have been overwritten.
    pub fn hash(&mut self, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
        if std::mem::replace(&mut self.is_finished, true) {
            self.hasher.reset();
            self.note(0..self.hashed);
            self.hashed = 0;
        }
        while self.catch_up(buffer)? {}
        Ok(*self.hasher.finalize().as_bytes())
    }

    /// Gives the file its size, so that a file system can plan, and its final check of room.
    pub fn announce(&self, folder: &TargetFolder, name: &str, size: u64) -> Result<(), TargetError> {
        folder.check_room(name, size)?;
        self.part.file().set_len(size).map_err(|source| folder.error(format!("size {name:?}"), source))
    }

    pub fn commit(self, name: &str) -> Result<(), TargetError> {
        self.part.commit(name)
    }

    /// Adds a range to `beyond`, joining those that it touches.
    fn note(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &before_end)) = self.beyond.range(..=start).next_back()
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
        }
        while let Some((&next, &next_end)) = self.beyond.range(start..).next()
            && next <= end
        {
            end = end.max(next_end);
            self.beyond.remove(&next);
        }
        self.beyond.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::FileId;

    use super::*;
    use crate::files::walk::tests::scratch;

    #[test]
    fn the_hash_is_right_in_whatever_order_the_bytes_arrive() {
        let path = scratch("stored");
        let folder = TargetFolder::open(&path).unwrap();
        let data: Vec<u8> = (0..100_000_u32).map(|at| (at % 249) as u8).collect();
        let orders: [&[Range<usize>]; 4] = [
            &[0..40_000, 40_000..100_000],
            &[0..1000, 5000..9000, 1000..5000, 9000..100_000],
            &[50_000..100_000, 20_000..60_000, 0..10, 10..20_000],
            &[0..60_000, 30_000..60_000, 60_000..100_000],
        ];
        for (index, order) in orders.into_iter().enumerate() {
            let mut stored = Stored::new(folder.create(FileId(index as u64)).unwrap());
            let mut buffer = vec![0; 7000];
            for range in order {
                stored.write(range.start as u64, &data[range.clone()]).unwrap();
                if index % 2 == 0 {
                    stored.catch_up(&mut buffer).unwrap();
                }
            }
            assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&data).as_bytes(), "{order:?}");
            assert!(stored.beyond.is_empty() && stored.hashed == 100_000);
        }
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_overwritten_is_hashed_again() {
        let path = scratch("overwritten");
        let folder = TargetFolder::open(&path).unwrap();
        let right: Vec<u8> = (0..50_000_u32).map(|at| (at % 249) as u8).collect();
        let mut wrong = right.clone();
        wrong[33_333] ^= 1;
        let mut stored = Stored::new(folder.create(FileId(0)).unwrap());
        let mut buffer = vec![0; 7000];
        stored.write(0, &wrong).unwrap();
        assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&wrong).as_bytes());
        stored.overwrite(20_000, &right[20_000..40_000], &mut buffer).unwrap();
        assert_eq!(stored.hash(&mut buffer).unwrap(), *blake3::hash(&right).as_bytes());
        std::fs::remove_dir_all(path).unwrap();
    }
}
