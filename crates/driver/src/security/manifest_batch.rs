//! Many manifests with one signature. The sender signs the root of a tree of hashes whose leaves are the
//! manifests, and each digest has the path from its leaf to the root (Merkle's tree; RFC 9162, section 2.1,
//! with a width that is a power of two).

use std::collections::VecDeque;

use treecast_wire::message::Place;

/// The most manifests under one signature.
pub(super) const MAX_BATCH: usize = 1 << Place::MAX_DEPTH;

/// The byte that sets inner nodes apart from leaves, which are hashes of text that begins otherwise.
const NODE: u8 = 1;

/// The tree over some manifests' hashes, at least one.
#[derive(Debug)]
pub(super) struct ManifestBatch {
    /// Leaves first, filled up with zeros to a power of two; the root alone last.
    levels: Vec<Vec<[u8; 32]>>,
}

impl ManifestBatch {
    pub fn new(mut leaves: Vec<[u8; 32]>) -> Self {
        leaves.resize(leaves.len().next_power_of_two(), [0; 32]);
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let above = last.chunks(2).map(|pair| node(&pair[0], &pair[1])).collect();
            levels.push(above);
        }
        Self { levels }
    }

    pub fn root(&self) -> [u8; 32] {
        self.levels.last().and_then(|level| level.first()).copied().unwrap_or_default()
    }

    /// The place of the leaf with this number.
    pub fn place(&self, index: usize) -> Place {
        let levels = self.levels.iter().take(self.levels.len().saturating_sub(1)).enumerate();
        let siblings = levels.filter_map(|(level, hashes)| hashes.get((index >> level) ^ 1).copied());
        Place { index: index as u32, siblings: siblings.collect() }
    }
}

/// The root of the tree in which `leaf` has this place.
pub(super) fn root_of(leaf: [u8; 32], place: &Place) -> [u8; 32] {
    let siblings = place.siblings.iter().enumerate();
    siblings.fold(leaf, |hash, (level, sibling)| parent(&hash, sibling, place.index, level))
}

/// The number of trees that are remembered.
const MAX_TREES: usize = 8;

/// The known trees whose roots the sender has signed: of each, the way from the leaf that came last. Leaves come in
/// their order, so that most meet that way after a step, and all above is known to be signed.
#[derive(Debug, Default)]
pub(super) struct SignedTrees(VecDeque<Branch>);

/// The hashes on the way from a leaf to the root, each with the one beside it; the root has none.
type Branch = Vec<[[u8; 32]; 2]>;

impl SignedTrees {
    /// Whether a leaf at this place leads to a signed node. Its path is remembered then.
    pub fn lead(&mut self, leaf: [u8; 32], place: &Place) -> bool {
        let (way, last) =
            walk(leaf, place, |level, hash| self.0.iter().any(|known| lies_on(known, level, hash)));
        let met = self.0.iter_mut().find(|known| lies_on(known, way.len(), &last));
        met.map(|known| known[..way.len()].copy_from_slice(&way)).is_some()
    }

    /// Notes that the root of this leaf is signed.
    pub fn sign(&mut self, leaf: [u8; 32], place: &Place) {
        let (mut way, root) = walk(leaf, place, |_, _| false);
        way.push([root; 2]);
        self.0.push_front(way);
        self.0.truncate(MAX_TREES);
    }
}

fn lies_on(way: &Branch, level: usize, hash: &[u8; 32]) -> bool {
    way.get(level).is_some_and(|pair| pair.contains(hash))
}

/// The way of a leaf as far as the first hash that is known at its level, or the root; and that.
fn walk(leaf: [u8; 32], place: &Place, is_known: impl Fn(usize, &[u8; 32]) -> bool) -> (Branch, [u8; 32]) {
    let (mut way, mut hash) = (Branch::new(), leaf);
    for (level, sibling) in place.siblings.iter().enumerate() {
        if is_known(level, &hash) {
            break;
        }
        way.push([hash, *sibling]);
        hash = parent(&hash, sibling, place.index, level);
    }
    (way, hash)
}

/// The node above a hash, which is on the way from the leaf of this number, and its sibling.
fn parent(hash: &[u8; 32], sibling: &[u8; 32], index: u32, level: usize) -> [u8; 32] {
    match index >> level & 1 {
        0 => node(hash, sibling),
        _ => node(sibling, hash),
    }
}

fn node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut bytes = [NODE; 65];
    bytes[1..33].copy_from_slice(left);
    bytes[33..].copy_from_slice(right);
    *blake3::hash(&bytes).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_signed_leaf_are_signed_and_others_are_not() {
        let leaves: Vec<[u8; 32]> =
            (1..=MAX_BATCH).map(|leaf| *blake3::hash(&[leaf as u8]).as_bytes()).collect();
        let (batch, other) = (ManifestBatch::new(leaves.clone()), ManifestBatch::new(vec![[7; 32]; 4]));
        let mut signed = SignedTrees::default();
        assert!(!signed.lead(leaves[9], &batch.place(9)));
        signed.sign(leaves[9], &batch.place(9));
        // In their order, and in another.
        for index in (0..leaves.len()).chain((0..leaves.len()).map(|index| index * 37 % leaves.len())) {
            assert!(!signed.lead([0xff; 32], &batch.place(index)));
            assert!(signed.lead(leaves[index], &batch.place(index)));
            assert!(!signed.lead([7; 32], &other.place(1)));
        }
        let mut forged = batch.place(3);
        forged.siblings[0] = [0xff; 32];
        assert!(!signed.lead([0xfe; 32], &forged));
        assert!(!signed.lead([0xff; 32], &Place { index: 0, siblings: Vec::new() }));
    }

    #[test]
    fn several_trees_are_remembered_and_no_more() {
        let leaf = |tree: usize, leaf: u8| *blake3::hash(&[tree as u8, leaf]).as_bytes();
        let batches: Vec<_> = (0..=MAX_TREES)
            .map(|tree| ManifestBatch::new((0..4).map(|number| leaf(tree, number)).collect()))
            .collect();
        let mut signed = SignedTrees::default();
        for (tree, batch) in batches.iter().enumerate() {
            signed.sign(leaf(tree, 0), &batch.place(0));
        }
        for number in 1..4 {
            for (tree, batch) in batches.iter().enumerate() {
                let leads = signed.lead(leaf(tree, number), &batch.place(number.into()));
                assert_eq!(leads, tree > 0, "{tree}");
            }
        }
        assert_eq!(signed.0.len(), MAX_TREES);
    }

    #[test]
    fn each_leaf_leads_to_the_root_from_its_own_place_alone() {
        for count in [1, 2, 3, 8, 9, MAX_BATCH] {
            let leaves: Vec<[u8; 32]> = (0..count).map(|leaf| [(leaf % 255) as u8; 32]).collect();
            let batch = ManifestBatch::new(leaves.clone());
            for (index, leaf) in leaves.iter().enumerate() {
                let place = batch.place(index);
                assert_eq!(root_of(*leaf, &place), batch.root());
                assert_eq!(1 << place.siblings.len(), count.next_power_of_two());
                assert!(count == 1 || root_of(*leaf, &batch.place(index ^ 1)) != batch.root());
                assert_ne!(root_of([0xff; 32], &place), batch.root());
            }
        }
    }
}
