//! The thread that hashes objects which are not read in order: those of a carousel, whose loop may begin
//! anywhere, and those that an earlier sender has sent in part.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread::JoinHandle,
};

use treecast_host::wake::Waker;
use treecast_wire::{header::FileId, message::ChunkHashes};

use crate::{
    chunk_tree::{ChunkHasher, ChunkTree, Hashes},
    files::{Source, SourceError},
};

/// The most hashes that wait to be taken.
const AHEAD: usize = 64;

/// Hashes objects one by one. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Hashing {
    hashed: Option<Receiver<(FileId, Result<Hashes, SourceError>)>>,
    waker: Waker,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The chunk hashes of the objects whose hash is known and that are more than one chunk: 0.05 % of their size.
    trees: BTreeMap<FileId, ChunkTree>,
}

impl Hashing {
    /// Starts the thread with these objects.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(sources: Vec<(FileId, Source)>) -> io::Result<Self> {
        let (results, hashed) = mpsc::sync_channel(AHEAD);
        let (is_over, waker) = (Arc::new(AtomicBool::new(false)), Waker::new()?);
        let (over, wakes) = (Arc::clone(&is_over), waker.clone());
        let work = move || {
            for (file, mut source) in sources {
                let goes_on = || !over.load(Ordering::Relaxed);
                let mut hasher = ChunkHasher::new(source.size());
                let hashed = match source.read_all(goes_on, |run| hasher.update(run)) {
                    Ok(true) => Ok(hasher.finish()),
                    Ok(false) => return,
                    Err(error) => Err(error),
                };
                if results.send((file, hashed)).is_err() {
                    return;
                }
                wakes.wake();
            }
        };
        let thread = treecast_host::thread::spawn("hash", work)?;
        Ok(Self { hashed: Some(hashed), waker, is_over, thread: Some(thread), trees: BTreeMap::new() })
    }

    /// The waker, which is woken when a hash has become known.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The next object whose hash has become known, or that cannot be read.
    pub fn next(&mut self) -> Option<(FileId, Result<[u8; 32], SourceError>)> {
        let (file, hashed) = self.hashed.as_ref()?.try_recv().ok()?;
        let hash = hashed.map(|(hash, tree)| {
            self.trees.extend(tree.map(|tree| (file, tree)));
            hash
        });
        Some((file, hash))
    }

    /// A page of an object's chunk hashes, once they are known.
    pub fn page(&self, file: FileId, page: u32) -> Option<ChunkHashes> {
        self.trees.get(&file)?.page(page)
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.hashed = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::SessionId;

    use super::*;
    use crate::files::find_sources;

    #[test]
    fn hashes_come_one_by_one_and_with_their_chunks() {
        let folder = crate::scratch::scratch("hashing");
        let data = vec![vec![1; 700_000], vec![2; 10], Vec::new()];
        let paths: Vec<_> = (0..3).map(|index| folder.join(index.to_string())).collect();
        paths.iter().zip(&data).for_each(|(path, data)| std::fs::write(path, data).unwrap());
        let sources = find_sources(&paths).unwrap().sources;
        std::fs::write(&paths[1], [3; 11]).unwrap();
        let file = |index| FileId::new(SessionId(7), index);
        let sources = (0..).zip(sources).map(|(index, named)| (file(index), named.source)).collect();
        let mut hashing = Hashing::start(sources).unwrap();
        let mut hashes = Vec::new();
        while hashes.len() < 3 {
            match hashing.next() {
                Some((_, hash)) => hashes.push(hash.ok()),
                None => std::thread::yield_now(),
            }
        }
        let right = |data: &[u8]| Some(*blake3::hash(data).as_bytes());
        assert_eq!(hashes, [right(&data[0]), None, right(&[])], "the second has changed");
        assert!(hashing.page(file(0), 0).is_some() && hashing.page(file(0), 1).is_none());
        assert!(hashing.page(file(1), 0).is_none() && hashing.page(file(2), 0).is_none());
    }
}
