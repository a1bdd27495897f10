//! The sender's signed proofs of what blocks are, which members of a local group hand on with the blocks.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::Duration,
};

use treecast_proto::{Instant, carousel::block_hash};
use treecast_wire::{
    header::FileId,
    message::{BlockHashes, MAX_BLOCK_HASHES, Message, Signed, SignedWord},
};

/// The most pages that are remembered: 6 MB, which prove about 900 MB. The sender proves what is older.
pub(super) const MAX_PAGES: usize = 4_096;

/// A page that has come or left so lately is not sent again.
const FRESH: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Page {
    signed: Signed,
    /// The time at which it came or left last.
    fresh: Instant,
}

/// Signed pages by object and position.
#[derive(Debug, Default)]
pub(super) struct Pages {
    known: BTreeMap<(FileId, u64), Page>,
    /// The oldest first.
    order: VecDeque<(FileId, u64)>,
}

impl Pages {
    /// Takes note of a page whose signature is right. Of two with one beginning, the longer one stays.
    pub fn note(&mut self, now: Instant, file: FileId, signed: Signed) {
        let Some(hashes) = hashes(&signed) else { return };
        let at = (file, hashes.sequence());
        let known = self.known.entry(at).or_insert_with(|| {
            self.order.push_back(at);
            Page { signed: signed.clone(), fresh: now }
        });
        known.fresh = now;
        if self::hashes(&known.signed).is_none_or(|before| before.count() < hashes.count()) {
            known.signed = signed;
        }
        while self.order.len() > MAX_PAGES
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Forgets the pages of an object.
    pub fn forget(&mut self, file: FileId) {
        self.known.retain(|(of, _), _| *of != file);
        self.order.retain(|(of, _)| *of != file);
    }

    /// The runs of blocks in `bytes`, which begin at `position`, that a page proves, each behind the pages that have to leave
    /// before it. Other blocks are not sent: receivers would take this member for a liar.
    pub fn prove(
        &mut self,
        now: Instant,
        (file, position): (FileId, u64),
        bytes: &[u8],
        block_len: u16,
    ) -> Vec<Run> {
        let longest = MAX_BLOCK_HASHES as u64 * u64::from(block_len);
        let mut runs: Vec<Run> = Vec::new();
        for (block, start) in bytes.chunks(block_len.into()).zip((position..).step_by(block_len.into())) {
            let hash = block_hash(block);
            // No page that begins earlier reaches as far as this block.
            let first = start.saturating_sub(longest);
            let before = self.known.range_mut((file, first)..=(file, start)).rev();
            let mut pages = before.map(|(_, page)| page);
            let Some(page) = pages.find(|page| {
                hashes(&page.signed).and_then(|hashes| hashes.hash_of(start, block_len)) == Some(&hash)
            }) else {
                continue;
            };
            let is_stale = now >= page.fresh + FRESH;
            let packet = is_stale.then(|| Message::Signed(page.signed.clone()).to_packet(file));
            page.fresh = if is_stale { now } else { page.fresh };
            let end = start + block.len() as u64;
            match runs.last_mut() {
                Some(run) if run.range.end == start && packet.is_none() => run.range.end = end,
                _ => runs.push(Run { page: packet, range: start..end }),
            }
        }
        runs
    }
}

/// Blocks that are proved.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The packet that proves them, if it has not been in the group lately.
    pub page: Option<Vec<u8>>,
    pub range: Range<u64>,
}

fn hashes(signed: &Signed) -> Option<&BlockHashes> {
    match &signed.word {
        SignedWord::Blocks(hashes) if !hashes.are_symbols() => Some(hashes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    fn page(sequence: u64, blocks: &[&[u8]]) -> Signed {
        let hashes = blocks.iter().map(|block| block_hash(block)).collect();
        let word = SignedWord::Blocks(BlockHashes::new(false, sequence, hashes).unwrap());
        Signed { word, signature: [1; 64] }
    }

    #[test]
    fn a_proof_leaves_with_its_blocks_and_not_again_at_once() {
        let mut pages = Pages::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        pages.note(at(0), FILE, page(0, &[b"aa", b"bb"]));
        pages.note(at(0), FILE, page(4, &[b"cc", b"dd"]));
        pages.note(at(0), FILE, page(2, &[b"bb"]));
        let mut ranges = |millis, position, bytes: &[u8]| {
            let runs = pages.prove(at(millis), (FILE, position), bytes, 2);
            runs.into_iter().map(|run| (run.page.is_some(), run.range)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(100, 0, b"aabbccdd"), [(false, 0..8)], "the group has the proofs");
        assert_eq!(ranges(900, 0, b"aaxxccdd"), [(true, 0..2), (true, 4..8)], "one block is wrong");
        assert_eq!(ranges(1_000, 4, b"cc"), [(false, 4..6)]);
        assert_eq!(ranges(1_000, 8, b"ee"), [], "nothing proves it");
        pages.forget(FILE);
        assert!(pages.known.is_empty() && pages.order.is_empty());
    }

    #[test]
    fn many_short_pages_hide_no_long_one() {
        let mut pages = Pages::default();
        pages.note(Instant::ZERO, FILE, page(0, &[&b"aa"[..]; 128]));
        (1..120).for_each(|block| pages.note(Instant::ZERO, FILE, page(2 * block, &[b"xx"])));
        let runs = pages.prove(Instant::ZERO, (FILE, 254), b"aa", 2);
        assert_eq!(
            runs.into_iter().map(|run| (run.range.start, run.range.end)).collect::<Vec<_>>(),
            [(254, 256)]
        );
    }

    #[test]
    fn the_oldest_proofs_are_forgotten() {
        let mut pages = Pages::default();
        for sequence in 0..=MAX_PAGES as u64 {
            pages.note(Instant::ZERO, FILE, page(2 * sequence, &[b"aa"]));
        }
        assert_eq!((pages.known.len(), pages.order.len()), (MAX_PAGES, MAX_PAGES));
        assert!(!pages.known.contains_key(&(FILE, 0)));
    }
}
