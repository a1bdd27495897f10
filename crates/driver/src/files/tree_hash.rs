//! The BLAKE3 hash of a file whose bytes come in any order.
//!
//! BLAKE3 is a tree: each group of 256 KiB is hashed on its own as soon as its bytes come, wherever it lies,
//! and siblings are merged. So a receiver that joins a carousel in the middle of a loop, or lacks a block at
//! the start, has next to nothing left to hash when the last block comes.

use std::{collections::BTreeMap, fmt};

use blake3::{
    Hasher,
    hazmat::{
        ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
    },
};

/// Bytes that are hashed as one: a power of two of BLAKE3's chunks.
pub(super) const GROUP_LEN: u64 = 256 * 1024;

/// The known part of the tree.
#[derive(Default)]
pub(super) struct TreeHash {
    /// The values of subtrees by level (0 is one group) and index. Never of two siblings: those are merged.
    subtrees: BTreeMap<(u32, u64), ChainingValue>,
    /// The two halves of the merged subtree of each level that begins at the file's start: should the file
    /// end there, it is the root, which is merged differently.
    first_halves: BTreeMap<u32, (ChainingValue, ChainingValue)>,
    /// The group whose bytes are coming.
    open: Option<Open>,
}

struct Open {
    next: u64,
    hasher: Hasher,
    /// Bytes that the hasher has not been given, fewer than [`STRIDE`].
    held: Vec<u8>,
}

/// BLAKE3 hashes so many bytes at once with the widest vectors (16 chunks of 1 KiB). Runs of blocks
/// begin and end anywhere, and what is not a whole stride costs several times as much a byte.
const STRIDE: usize = 16 * 1024;

impl Open {
    fn at(start: u64) -> Self {
        Self { next: start, hasher: hasher_at(start), held: Vec::with_capacity(STRIDE) }
    }

    /// Takes in what comes next.
    fn feed(&mut self, mut piece: &[u8]) {
        self.next += piece.len() as u64;
        if !self.held.is_empty() {
            let (first, rest) = piece.split_at(piece.len().min(STRIDE - self.held.len()));
            self.held.extend_from_slice(first);
            if self.held.len() < STRIDE {
                return;
            }
            self.hasher.update(&self.held);
            self.held.clear();
            piece = rest;
        }
        let (strides, rest) = piece.split_at(piece.len() / STRIDE * STRIDE);
        self.hasher.update(strides);
        self.held.extend_from_slice(rest);
    }

    /// The value of what has come.
    fn value(&self) -> ChainingValue {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.held).finalize_non_root()
    }
}

impl fmt::Debug for TreeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreeHash({} subtrees)", self.subtrees.len())
    }
}

/// A hasher for the bytes from `start` on, where a group begins.
fn hasher_at(start: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(start);
    hasher
}

impl TreeHash {
    /// Hashes bytes. Bytes are skipped if they neither continue the last ones nor begin a group. Their group
    /// must then be given to [`TreeHash::add_group`].
    pub fn feed(&mut self, position: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (position, bytes);
        while !rest.is_empty() {
            let end = (at / GROUP_LEN + 1) * GROUP_LEN;
            let (piece, tail) = rest.split_at(rest.len().min((end - at) as usize));
            self.feed_group(at, piece);
            at += piece.len() as u64;
            rest = tail;
        }
    }

    fn feed_group(&mut self, at: u64, piece: &[u8]) {
        let group = at / GROUP_LEN;
        if self.has(group) {
            return;
        }
        if at == group * GROUP_LEN {
            self.open = Some(Open::at(at));
        }
        let Some(open) = self.open.as_mut().filter(|open| open.next == at) else { return };
        open.feed(piece);
        if open.next == (group + 1) * GROUP_LEN {
            let value = open.value();
            self.open = None;
            self.insert(group, value);
        }
    }

    /// Whether a group is in the tree.
    pub fn has(&self, group: u64) -> bool {
        (0..u64::BITS).any(|level| self.subtrees.contains_key(&(level, group >> level)))
    }

    /// Adds a complete group. `update` feeds its bytes to the hasher.
    ///
    /// # Errors
    /// The error of `update`.
    pub fn add_group<E>(
        &mut self,
        group: u64,
        update: impl FnOnce(&mut Hasher) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.has(group) {
            let mut hasher = hasher_at(group * GROUP_LEN);
            update(&mut hasher)?;
            self.insert(group, hasher.finalize_non_root());
        }
        Ok(())
    }

    /// The value of the short last group of a file with `len` bytes, if its bytes have just come.
    pub fn open_tail(&self, len: u64) -> Option<ChainingValue> {
        let start = len / GROUP_LEN * GROUP_LEN;
        let open = self.open.as_ref().filter(|open| open.next == len && len > start)?;
        Some(open.value())
    }

    /// The hash of a file with `len` bytes, which is longer than a group. `tail` is the value of its short last
    /// group, if there is one. `None` if a group is missing.
    pub fn root(&self, len: u64, tail: Option<ChainingValue>) -> Option<[u8; 32]> {
        if let Some(level) = level_of(len)
            && let Some((left, right)) = self.first_halves.get(&level)
        {
            return Some(*merge_subtrees_root(left, right, Mode::Hash).as_bytes());
        }
        let left_len = left_subtree_len(len);
        let left = self.subtree(0, left_len, tail)?;
        let right = self.subtree(left_len, len - left_len, tail)?;
        Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }

    fn subtree(&self, start: u64, len: u64, tail: Option<ChainingValue>) -> Option<ChainingValue> {
        if len < GROUP_LEN {
            return tail;
        }
        if let Some(level) = level_of(len)
            && let Some(value) = self.subtrees.get(&(level, start / len))
        {
            return Some(*value);
        }
        if len == GROUP_LEN {
            return None;
        }
        let left_len = left_subtree_len(len);
        let left = self.subtree(start, left_len, tail)?;
        let right = self.subtree(start + left_len, len - left_len, tail)?;
        Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
    }

    fn insert(&mut self, group: u64, value: ChainingValue) {
        let (mut level, mut index, mut value) = (0, group, value);
        while let Some(sibling) = self.subtrees.remove(&(level, index ^ 1)) {
            let (left, right) = if index & 1 == 0 { (value, sibling) } else { (sibling, value) };
            (level, index) = (level + 1, index / 2);
            if index == 0 {
                self.first_halves.insert(level, (left, right));
            }
            value = merge_subtrees_non_root(&left, &right, Mode::Hash);
        }
        self.subtrees.insert((level, index), value);
    }
}

/// The level of a subtree of `len` bytes; none when it is no power of two of groups.
fn level_of(len: u64) -> Option<u32> {
    let groups = len / GROUP_LEN;
    (len.is_multiple_of(GROUP_LEN) && groups.is_power_of_two()).then(|| groups.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 15) as u8).collect()
    }

    fn group(data: &[u8], group: u64) -> &[u8] {
        let start = (group * GROUP_LEN) as usize;
        &data[start..data.len().min(start + GROUP_LEN as usize)]
    }

    /// Hashes the groups of a file in an order of their own, the last one by the tail if it is short.
    fn root(data: &[u8], step: u64) -> [u8; 32] {
        let len = data.len() as u64;
        let whole = len / GROUP_LEN;
        let mut tree = TreeHash::default();
        for index in 0..whole {
            let index = (index * step + 1) % whole;
            let update = |hasher: &mut Hasher| {
                hasher.update(group(data, index));
                Ok::<(), ()>(())
            };
            tree.add_group(index, update).unwrap();
            assert!(tree.has(index));
        }
        tree.feed(whole * GROUP_LEN, &data[(whole * GROUP_LEN) as usize..]);
        assert!(tree.subtrees.len() < 10, "siblings are merged");
        let tail = tree.open_tail(len);
        tree.root(len, tail).unwrap()
    }

    #[test]
    fn is_blake3_for_every_shape_of_tree_and_any_order() {
        for groups in 1..18 {
            for rest in [0, 1, 1024, 1025, GROUP_LEN - 1] {
                let len = groups * GROUP_LEN + rest;
                if len <= GROUP_LEN {
                    continue;
                }
                let data = bytes(len);
                // Steps that have no divisor in common with any number of groups here.
                for step in [1, 19] {
                    assert_eq!(root(&data, step), *blake3::hash(&data).as_bytes(), "{len} {step}");
                }
            }
        }
    }

    #[test]
    fn bytes_in_order_need_no_second_look() {
        let data = bytes(5 * GROUP_LEN + 777);
        let mut tree = TreeHash::default();
        for (index, piece) in data.chunks(31_240).enumerate() {
            tree.feed(index as u64 * 31_240, piece);
        }
        let len = data.len() as u64;
        assert_eq!(tree.root(len, tree.open_tail(len)), Some(*blake3::hash(&data).as_bytes()));
    }

    #[test]
    fn a_missing_group_is_noticed() {
        let data = bytes(3 * GROUP_LEN);
        let mut tree = TreeHash::default();
        tree.feed(GROUP_LEN, &data[GROUP_LEN as usize..]);
        assert!(!tree.has(0) && tree.has(1) && tree.has(2));
        assert_eq!(tree.root(3 * GROUP_LEN, None), None);
    }
}
