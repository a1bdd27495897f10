//! The mistakes of one receiver about objects, because somebody else has told it of them, and the number of
//! times that it was set right.

use std::collections::{BTreeMap, BTreeSet};

use treecast_wire::header::FileId;

/// The number of times that a receiver is told of an object again because it asked for blocks that are not
/// there. One that has a wrong idea of it needs two: one for its size, one for its end.
const MAX_CORRECTIONS: u8 = 8;

/// The most objects that a receiver may speak of before they begin.
const MAX_EARLY: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Corrections {
    /// Objects that the receiver has spoken of before they began.
    early: BTreeSet<FileId>,
    /// The number of times that the receiver has been told that it was wrong about an object.
    made: BTreeMap<u32, u8>,
    /// Objects about which it has been wrong more often: it is told with their end.
    owed: BTreeSet<u32>,
}

impl Corrections {
    /// Notes that the receiver speaks of an object that has not begun.
    pub(super) fn note_early(&mut self, file: FileId) {
        if self.early.len() < MAX_EARLY {
            self.early.insert(file);
        }
    }

    /// Returns whether the receiver has spoken of the object, which begins now.
    pub(super) fn take_early(&mut self, file: FileId) -> bool {
        self.early.remove(&file)
    }

    /// Notes that the receiver is wrong about an object. Returns whether it is set right at once, and not with the object's end.
    pub(super) fn make(&mut self, index: u32) -> bool {
        let made = self.made.entry(index).or_default();
        let is_made = *made < MAX_CORRECTIONS;
        if is_made {
            *made += 1;
        } else {
            self.owed.insert(index);
        }
        is_made
    }

    /// Returns whether the receiver is to be set right with the end of the object, which it is told now.
    pub(super) fn take_owed(&mut self, index: u32) -> bool {
        self.owed.remove(&index)
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.made.remove(&index);
        self.owed.remove(&index);
    }
}
