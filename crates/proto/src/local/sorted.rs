//! A map for few entries.

use std::{mem, ops::Range};

/// A map as a sorted list. With one entry it takes a tenth of the memory of a B-tree, and without any it takes none: a simulation holds the
/// maps of a million receivers. Insertion and removal move what is behind, so the owner bounds the number of entries.
#[derive(Debug)]
pub(super) struct SortedMap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.cmp(key))
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.entries[at].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.entries[at].1)
    }

    /// Returns the key's value, inserted when there is none.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (key, value()));
                at
            }
        };
        &mut self.entries[at].1
    }

    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (key, value)),
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        let (_, value) = self.entries.remove(at);
        self.let_go();
        Some(value)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keeps(key, value));
        self.let_go();
    }

    fn let_go(&mut self) {
        if self.entries.is_empty() {
            self.entries = Vec::new();
        }
    }

    pub fn first(&self) -> Option<&(K, V)> {
        self.entries.first()
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.entries.iter()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The entries whose keys are in a range, in order.
    pub fn range(&self, keys: Range<K>) -> impl Iterator<Item = &(K, V)> {
        self.entries[self.places(&keys)].iter()
    }

    pub fn range_mut(&mut self, keys: Range<K>) -> impl Iterator<Item = (&K, &mut V)> {
        let places = self.places(&keys);
        self.entries[places].iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The entries whose keys are not less than this one, in order.
    pub fn from(&self, key: K) -> impl Iterator<Item = &(K, V)> {
        self.entries[self.place(&key)..].iter()
    }

    /// Removes the entries whose keys are less than this one, and returns them.
    pub fn take_before(&mut self, key: K) -> Vec<(K, V)> {
        let place = self.place(&key);
        if place == 0 {
            return Vec::new();
        }
        let kept = self.entries.split_off(place);
        mem::replace(&mut self.entries, kept)
    }

    fn place(&self, key: &K) -> usize {
        self.entries.partition_point(|(other, _)| other < key)
    }

    fn places(&self, keys: &Range<K>) -> Range<usize> {
        let start = self.place(&keys.start);
        start..self.place(&keys.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_order_and_an_empty_map_takes_no_memory() {
        let mut map = SortedMap::default();
        [5, 1, 9, 5].into_iter().for_each(|key| map.insert(key, key * 10));
        *map.get_or_insert_with(7, || 0) += 1;
        assert_eq!(map.iter().copied().collect::<Vec<_>>(), [(1, 10), (5, 50), (7, 1), (9, 90)]);
        assert_eq!((map.first(), map.get(&5), map.get(&6)), (Some(&(1, 10)), Some(&50), None));
        assert_eq!(map.range(2..9).map(|(key, _)| *key).collect::<Vec<_>>(), [5, 7]);
        let (from, to) = (9, 2);
        assert_eq!(map.range(from..to).count(), 0);
        assert_eq!(map.from(6).count(), 2);
        map.range_mut(0..6).for_each(|(_, value)| *value = 0);
        assert_eq!(map.take_before(6), [(1, 0), (5, 0)]);
        assert_eq!((map.remove(&7), map.remove(&7), map.len()), (Some(1), None, 1));
        map.retain(|_, _| false);
        assert_eq!((map.len(), map.entries.capacity()), (0, 0));
    }
}
