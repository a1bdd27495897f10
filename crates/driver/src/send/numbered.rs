//! Objects of a feed that are on their way: the numbers by which their program knows them, and when they expire.

use std::collections::{BTreeMap, BTreeSet};

use treecast_proto::Instant;
use treecast_wire::header::FileId;

#[derive(Debug, Default)]
pub(super) struct Numbered {
    objects: BTreeMap<FileId, (Option<u64>, Option<Instant>)>,
    expiries: BTreeSet<(Instant, FileId)>,
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

    /// The next object whose time is over by now. It is told once.
    pub fn expired(&mut self, now: Instant) -> Option<FileId> {
        let (expires, file) = self.expiries.first().copied().filter(|(expires, _)| *expires <= now)?;
        self.expire_not(file, Some(expires));
        Some(file)
    }

    /// When the next object expires.
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
