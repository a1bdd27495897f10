//! Which objects are open at the receiver, and which have ended: bounded, whatever indices come.

use std::collections::{BTreeMap, BTreeSet};

use super::object::Object;

/// The most objects that are open at the same time.
const MAX_OPEN: usize = 8192;

/// How many indices behind the highest one are told apart; older ones count as ended.
const SPAN: u32 = 65_536;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: BTreeMap<u32, Object>,
    ended: BTreeSet<u32>,
    /// One above the highest index seen.
    highest: u32,
}

impl Ledger {
    pub(super) fn get(&self, index: u32) -> Option<&Object> {
        self.open.get(&index)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Object> {
        self.open.get_mut(&index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        self.open.iter().map(|(index, object)| (*index, object))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the object has ended here, or is too old to be told apart.
    pub(super) fn has_ended(&self, index: u32) -> bool {
        self.ended.contains(&index)
            || (!self.open.contains_key(&index) && index < self.highest.saturating_sub(SPAN))
    }

    /// The object, opened if it is new. None when it has ended, when too many are open, or when a
    /// packet that is not `trusted` names an index far beyond all others.
    pub(super) fn open(
        &mut self,
        index: u32,
        trusted: bool,
        new: impl FnOnce() -> Object,
    ) -> Option<&mut Object> {
        if !self.open.contains_key(&index) {
            let ahead = index >= self.highest.saturating_add(SPAN);
            if self.has_ended(index) || self.open.len() >= MAX_OPEN || (ahead && !trusted) {
                return None;
            }
            self.highest = self.highest.max(index.saturating_add(1));
        }
        Some(self.open.entry(index).or_insert_with(new))
    }

    /// The object has ended: received, failed or ignored.
    pub(super) fn end(&mut self, index: u32) -> Option<Object> {
        let object = self.open.remove(&index);
        self.highest = self.highest.max(index.saturating_add(1));
        self.ended.insert(index);
        let oldest = self.highest.saturating_sub(SPAN);
        while self.ended.first().is_some_and(|first| *first < oldest) {
            self.ended.pop_first();
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::{super::object::Decision, *};

    fn open(ledger: &mut Ledger, index: u32, trusted: bool) -> bool {
        ledger.open(index, trusted, || Object::new(100, Decision::Accepted)).is_some()
    }

    #[test]
    fn an_ended_object_is_not_opened_again() {
        let mut ledger = Ledger::default();
        assert!(open(&mut ledger, 7, false));
        assert!(ledger.end(7).is_some());
        assert!(!open(&mut ledger, 7, true));
        assert!(open(&mut ledger, 6, false), "others may still come");
    }

    #[test]
    fn memory_is_bounded_whatever_indices_come() {
        let mut ledger = Ledger::default();
        assert!(!open(&mut ledger, 1_000_000, false), "the group's socket is not trusted with such a jump");
        assert!(open(&mut ledger, 1_000_000, true));
        assert!(!open(&mut ledger, 1, true), "too old to be told apart");
        for index in 0..2 * SPAN {
            ledger.end(1_000_001 + index);
        }
        assert!(ledger.ended.len() <= SPAN as usize);
        assert!(ledger.has_ended(1_000_001), "older ones count as ended");
        let opened =
            (2_000_000..2_000_000 + 2 * SPAN).filter(|index| open(&mut ledger, *index, true)).count();
        assert_eq!(opened, MAX_OPEN - 1);
    }
}
