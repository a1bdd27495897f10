//! Many manifests under one signature: the sender signs the root of a tree of hashes whose leaves are manifests, and each
//! digest says how its leaf leads to the root (Merkle's tree; RFC 9162, 2.1, with a width that is a power of two).

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
    place.siblings.iter().enumerate().fold(leaf, |hash, (level, sibling)| match place.index >> level & 1 {
        0 => node(&hash, sibling),
        _ => node(sibling, &hash),
    })
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
