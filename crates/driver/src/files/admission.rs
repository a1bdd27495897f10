//! Decides which objects a receiver accepts, by its rules.

use std::collections::{BTreeMap, BTreeSet};

use treecast_wire::message::{BeginOfFile, ObjectKind};

use super::{Kept, Limit, Rules, TargetFolder, check_name};
use crate::remedies::{Advised, Remedy};

/// The objects of a session that have been taken, and the others, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admission {
    rules: Rules,
    /// Files, folders and links.
    taken: Taken,
    /// Indexes of objects. They are gone before their objects are there, and so have a limit of their own.
    indexes: Taken,
    refused: BTreeMap<u32, Limit>,
    /// Objects that are left out because something has their names.
    existing: BTreeSet<u32>,
}

/// The share of the bytes that a receiver takes which its indexes may have at most is one in this number. An index takes 36 bytes
/// for each chunk, of 4 KiB or more; three times that is room for an object that is sent again.
const INDEX_SHARE: u64 = 32;

/// Objects that are taken, by their numbers, with their sizes in bytes. Empty where nothing is limited.
#[derive(Debug, Clone, Default)]
struct Taken {
    sizes: BTreeMap<u32, u64>,
    /// Sum of the sizes, in bytes. Sizes are as announced, and so as large as anybody says: 64 bits would not hold two of them.
    bytes: u128,
}

impl Taken {
    /// Takes one more object.
    ///
    /// # Errors
    /// If these rules allow no more objects, or all objects are larger together than `most_bytes`.
    fn take(&mut self, index: u32, size: u64, rules: &Rules, most_bytes: Option<u64>) -> Result<(), Limit> {
        if rules.max_files.or(rules.max_bytes).is_none() {
            return Ok(());
        }
        let (objects, bytes) = (self.sizes.len() as u64 + 1, self.bytes + u128::from(size));
        if let Some(most) = rules.max_files.filter(|most| objects > *most) {
            return Err(Limit::Files(most));
        }
        if most_bytes.is_some_and(|most| bytes > most.into()) {
            return Err(Limit::Bytes(rules.max_bytes.unwrap_or(u64::MAX)));
        }
        self.sizes.insert(index, size);
        self.bytes = bytes;
        Ok(())
    }

    fn give_back(&mut self, index: u32) {
        self.bytes -= u128::from(self.sizes.remove(&index).unwrap_or(0));
    }
}

/// The most refused objects that are remembered: the first one ends the session.
const MAX_REFUSED: usize = 1024;

impl Admission {
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Whether an existing file keeps its name and excludes an object. A complete object of an earlier receiver
    /// is not excluded.
    pub fn is_kept_out(
        &mut self,
        folder: &TargetFolder,
        index: u32,
        begin: &BeginOfFile,
        kept: &Kept,
    ) -> bool {
        let is_judged = self.rules.keep_existing && begin.kind() != ObjectKind::Folder;
        let is_there = || folder.status_of(begin.file_name()).is_ok_and(|there| !there.is_folder());
        let is_kept_out = is_judged && !matches!(kept, Kept::Whole { .. }) && is_there();
        if is_kept_out && begin.kind() != ObjectKind::Index {
            self.existing.insert(index);
        }
        is_kept_out
    }

    /// The number of objects that existing files have excluded.
    pub fn existing(&self) -> u64 {
        self.existing.len() as u64
    }

    /// Accepts an object that is announced for the first time or again.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn admit(&mut self, index: u32, begin: &BeginOfFile) -> Result<(), Advised> {
        self.give_back(index);
        self.refused.remove(&index);
        // Whatever else is wrong with it, the store says so.
        if begin.file_name().starts_with('.') && check_name(begin.file_name()).is_ok() && !self.rules.hidden {
            let line = format!(
                "the name {:?} begins with a dot at the top of the target folder, where programs may obey it: \
                 hidden names are not allowed",
                begin.file_name()
            );
            return Err(Advised::by(Remedy::TakeHidden, line));
        }
        let (taken, most_bytes) = match begin.kind() {
            ObjectKind::Index => (&mut self.indexes, self.rules.max_bytes.map(|most| most / INDEX_SHARE)),
            _ => (&mut self.taken, self.rules.max_bytes),
        };
        taken.take(index, begin.file_size, &self.rules, most_bytes).map_err(|limit| {
            if self.refused.len() < MAX_REFUSED {
                self.refused.insert(index, limit);
            }
            limit.to_string().into()
        })
    }

    /// Releases the room of an object that has failed, or was not what its announcement said.
    pub fn give_back(&mut self, index: u32) {
        self.taken.give_back(index);
        self.indexes.give_back(index);
    }

    /// The limit that refused an object, if one did.
    pub fn limit(&self, index: u32) -> Option<Limit> {
        self.refused.get(&index).copied()
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::{Attributes, ModificationTime};

    use super::*;
    use crate::files::begin;

    #[test]
    fn limits_are_of_all_that_is_taken_together() {
        let rules = Rules { max_files: Some(2), max_bytes: Some(10), ..Rules::default() };
        let mut admission = Admission::new(rules);
        admission.admit(0, &begin(6, "a")).unwrap();
        admission.admit(1, &begin(5, "b")).unwrap_err();
        assert_eq!((admission.limit(0), admission.limit(1)), (None, Some(Limit::Bytes(10))));
        admission.admit(1, &begin(4, "b")).unwrap();
        assert_eq!(admission.limit(1), None, "it is another announcement");
        admission.admit(2, &begin(0, "c")).unwrap_err();
        assert_eq!(admission.limit(2), Some(Limit::Files(2)));
        admission.give_back(1);
        admission.admit(2, &begin(4, "c")).unwrap();
    }

    /// `--max-files` alone takes any size, up to the largest that an announcement can say.
    #[test]
    fn sizes_that_no_disk_has_are_given_back_as_they_were_taken() {
        let mut admission = Admission::new(Rules { max_files: Some(9), ..Rules::default() });
        for index in 0..3 {
            admission.admit(index, &begin(u64::MAX, "a")).unwrap();
        }
        (0..3).for_each(|index| admission.give_back(index));
        assert_eq!(admission.taken.bytes, 0);
    }

    #[test]
    fn indexes_count_for_both_limits_beside_the_objects() {
        let modified = ModificationTime { seconds: 0, nanoseconds: 0 };
        let attributes = Attributes { kind: ObjectKind::Index, mode: 0o600, modified };
        let index = |size| begin(size, "a").with_attributes(attributes).unwrap();
        let rules = Rules { max_files: Some(2), max_bytes: Some(1 << 20), ..Rules::default() };
        let mut admission = Admission::new(rules);
        admission.admit(0, &index(20 << 10)).unwrap();
        admission.admit(1, &begin(1 << 20, "a")).unwrap();
        admission.admit(2, &index(300 << 20)).unwrap_err();
        assert_eq!(admission.limit(2), Some(Limit::Bytes(1 << 20)));
        admission.admit(4, &index(12 << 10)).unwrap();
        admission.admit(6, &index(0)).unwrap_err();
        assert_eq!(admission.limit(6), Some(Limit::Files(2)));
    }

    /// Anybody in a group can announce an object. Whether the sender does is known only when that has been asked.
    #[test]
    fn what_a_member_has_announced_uses_up_limits_until_it_is_given_back() {
        for rules in [
            Rules { max_bytes: Some(10), ..Rules::default() },
            Rules { max_files: Some(1), ..Rules::default() },
        ] {
            let mut admission = Admission::new(rules);
            admission.admit(7, &begin(9, "forged")).unwrap();
            admission.admit(0, &begin(5, "wanted")).unwrap_err();
            assert!(admission.limit(0).is_some());
            admission.give_back(7);
            admission.admit(0, &begin(5, "wanted")).unwrap();
        }
    }

    #[test]
    fn a_name_that_begins_with_a_dot_is_taken_where_it_is_asked_for_or_in_a_folder() {
        let mut admission = Admission::new(Rules::default());
        for name in [".bashrc", ".ssh", ".ssh/authorized_keys"] {
            let line = admission.admit(0, &begin(1, name)).unwrap_err();
            assert!(line.contains("hidden names") && admission.limit(0).is_none(), "{line}");
            Admission::new(Rules { hidden: true, ..Rules::default() }).admit(0, &begin(1, name)).unwrap();
        }
        admission.admit(0, &begin(1, "site/.htaccess")).unwrap();
    }
}
