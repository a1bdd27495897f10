//! Objects of a feed that are on their way, or kept for receivers that come late: the numbers by which their program knows them, and
//! when they expire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use treecast_proto::Instant;
use treecast_wire::header::FileId;

#[derive(Debug, Default)]
pub(super) struct Numbered {
    objects: BTreeMap<FileId, (Option<u64>, Option<Instant>)>,
    expiries: BTreeSet<(Instant, FileId)>,
    /// Objects that are over and kept, with their sizes in bytes, and when they were over. The oldest is in front.
    kept: VecDeque<(FileId, u64, Instant)>,
    /// Numbers of objects that are over and forgotten, and that a receiver which may come again lacks; and until when a sender that is
    /// started again would send them. The oldest is in front.
    owed: VecDeque<(u64, Instant)>,
}

impl Numbered {
    pub fn add(&mut self, file: FileId, number: Option<u64>, expires: Option<Instant>) {
        self.objects.insert(file, (number, expires));
        self.expiries.extend(expires.map(|expires| (expires, file)));
    }

    /// The number of an object.
    pub fn number(&self, file: FileId) -> Option<u64> {
        self.objects.get(&file)?.0
    }

    /// Forgets an object, which is over. Returns its number.
    pub fn remove(&mut self, file: FileId) -> Option<u64> {
        let (number, expires) = self.objects.remove(&file)?;
        self.expire_not(file, expires);
        number
    }

    /// An object of this size is over by `now`, and kept.
    pub fn keep(&mut self, file: FileId, bytes: u64, now: Instant) {
        self.kept.push_back((file, bytes, now));
    }

    /// A sender that is started again before `until` is to send the object with this number again.
    pub fn owe(&mut self, number: u64, until: Instant) {
        self.owed.push_back((number, until));
    }

    /// The number of an object that nobody is owed any more.
    pub fn take_owed(&mut self, now: Instant) -> Option<u64> {
        let number = self.owed.front().filter(|(_, until)| *until <= now)?.0;
        self.owed.pop_front();
        Some(number)
    }

    /// The oldest object that is kept and that the machine does not know any more.
    pub fn take_unknown(&mut self, is_known: impl Fn(FileId) -> bool) -> Option<FileId> {
        let file = self.kept.front().map(|(file, ..)| *file).filter(|file| !is_known(*file))?;
        self.kept.pop_front();
        Some(file)
    }

    /// Whether an object is over, and kept.
    pub fn is_kept(&self, file: FileId) -> bool {
        self.kept.iter().any(|(kept, ..)| *kept == file)
    }

    /// The number of objects that are kept, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        (self.kept.len() as u64, self.kept.iter().map(|(_, bytes, _)| bytes).sum())
    }

    /// The numbers of objects that are kept, or of those that were over before `before`.
    pub fn kept_numbers(&self, before: Option<Instant>) -> impl Iterator<Item = u64> {
        let is_before = move |over: &Instant| before.is_none_or(|before| *over < before);
        self.kept.iter().filter(move |(.., over)| is_before(over)).filter_map(|(file, ..)| self.number(*file))
    }

    /// The next object whose time is over by now. It is told once.
    pub fn expired(&mut self, now: Instant) -> Option<FileId> {
        let (expires, file) = self.expiries.first().copied().filter(|(expires, _)| *expires <= now)?;
        self.expire_not(file, Some(expires));
        Some(file)
    }

    /// The time at which the next object expires.
    pub fn deadline(&self) -> Option<Instant> {
        self.expiries.first().map(|(expires, _)| *expires)
    }

    fn expire_not(&mut self, file: FileId, expires: Option<Instant>) {
        expires.into_iter().for_each(|expires| _ = self.expiries.remove(&(expires, file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::at;

    #[test]
    fn objects_expire_in_the_order_of_their_times_unless_they_are_over() {
        let mut numbered = Numbered::default();
        for (file, expires) in [(1, Some(30)), (2, Some(20)), (3, None), (4, Some(10))] {
            numbered.add(FileId(file), Some(file), expires.map(at));
        }
        assert_eq!((numbered.number(FileId(1)), numbered.remove(FileId(4))), (Some(1), Some(4)));
        assert_eq!((numbered.deadline(), numbered.expired(at(19))), (Some(at(20)), None));
        assert_eq!([0; 3].map(|_| numbered.expired(at(30))), [Some(FileId(2)), Some(FileId(1)), None]);
        assert_eq!((numbered.remove(FileId(1)), numbered.deadline()), (Some(1), None));
        assert_eq!(numbered.remove(FileId(1)), None);
    }
}
