//! Many manifests under one signature: the sender signs the root of a tree of hashes whose leaves are manifests, and each
//! digest says how its leaf leads to the root (Merkle's tree; RFC 9162, 2.1, with a width that is a power of two).

use std::collections::BTreeSet;

use treecast_wire::message::Place;

/// The most manifests under one signature.
pub(super) const MAX_BATCH: usize = 1 << Place::MAX_DEPTH;

/// What sets inner nodes apart from leaves, which are hashes of text that begins otherwise.
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

/// The most nodes that are remembered: those of several whole trees.
const MAX_NODES: usize = 4096;

/// Nodes of trees whose roots the sender has signed. A leaf that leads to any of them is signed as well, so that of
/// neighbours most are at their goal after a step.
#[derive(Debug, Default)]
pub(super) struct SignedNodes(BTreeSet<[u8; 32]>);

impl SignedNodes {
    /// Whether a leaf at this place leads to a node that is signed. The nodes on its way, and those beside it, are so then,
    /// too.
    pub fn lead(&mut self, leaf: [u8; 32], place: &Place) -> bool {
        let (mut way, mut hash) = (Vec::new(), leaf);
        for (level, sibling) in place.siblings.iter().enumerate() {
            if self.0.contains(&hash) {
                break;
            }
            way.extend([hash, *sibling]);
            hash = parent(&hash, sibling, place.index, level);
        }
        let leads = self.0.contains(&hash);
        if leads {
            self.add(&way);
        }
        leads
    }

    /// A root is signed.
    pub fn sign(&mut self, root: [u8; 32]) {
        self.add(&[root]);
    }

    fn add(&mut self, nodes: &[[u8; 32]]) {
        if self.0.len() + nodes.len() > MAX_NODES {
            self.0.clear();
        }
        self.0.extend(nodes);
    }
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
        let mut signed = SignedNodes::default();
        assert!(!signed.lead(leaves[9], &batch.place(9)));
        signed.sign(batch.root());
        for (index, leaf) in leaves.iter().enumerate() {
            assert!(!signed.lead([0xff; 32], &batch.place(index)));
            assert!(signed.lead(*leaf, &batch.place(index)));
            assert!(!signed.lead([7; 32], &other.place(1)));
        }
        let mut forged = batch.place(3);
        forged.siblings[0] = [0xff; 32];
        assert!(!signed.lead([0xfe; 32], &forged));
        (0..2 * MAX_NODES as u32).for_each(|root| signed.sign(*blake3::hash(&root.to_le_bytes()).as_bytes()));
        assert!(signed.0.len() <= MAX_NODES);
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
