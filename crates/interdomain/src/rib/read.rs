//! Reads an MRT file with all cores: one thread finds records, the others read their routes.
//!
//! The file passes through memory once, in batches. Each thread keeps the distinct paths and routes that it has seen,
//! and these are put together at the end. So memory depends on the routing table, and not on the file's length.

use std::{
    collections::{BTreeSet, HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hasher},
    io::{self, Read},
    net::IpAddr,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use super::{
    Dump, DumpKind, Family, Prefix,
    dump::{PathCount, Peer, Route, sort_paths, sort_routes},
    fault::{Fault, Faults},
    mrt::{
        frame::{Batch, Framer},
        record::{self, PeerName, Sink},
        types::{BGP4MP, BGP4MP_ET, PEER_INDEX_TABLE, TABLE_DUMP_V2},
    },
    path::Path,
};

/// The number of batches that wait for each thread.
const WAITING: usize = 2;

/// The number of routes from which on a thread sorts its routes and adds up equal ones.
const SORT_AT: usize = 1 << 20;

/// A table of peers: their addresses and ASNs.
type PeerTable = Arc<Vec<(IpAddr, u32)>>;

/// Reads all records of `file`. `name` is the file's name in the result. `threads` read routes at the same time; 0 uses
/// as many as there are cores.
///
/// Fails only if the file cannot be read. What is wrong in it is counted in [`Dump::faults`].
pub fn read(file: impl Read, name: &str, threads: usize) -> io::Result<Dump> {
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let feed = |sender: &_| feed(file, sender);
    let (outline, found) = in_threads(threads, feed, |batches: &mut dyn Iterator<Item = (Batch, _)>| {
        let mut gathered = Gathered::default();
        batches.for_each(|(batch, table)| gathered.read(&batch, table));
        gathered.finish()
    });
    Ok(together(outline?, found, name))
}

/// Runs `feed` in this thread, and hands what it sends to `work` in several others. Returns what all of them return. If `work`
/// panics, so does this function.
fn in_threads<T: Send, R: Send, O>(
    threads: usize,
    feed: impl FnOnce(&mpsc::SyncSender<T>) -> O,
    work: impl Fn(&mut dyn Iterator<Item = T>) -> R + Sync,
) -> (O, Vec<R>) {
    let (sender, receiver) = mpsc::sync_channel(threads * WAITING);
    // The threads alone hold the receiver: if all of them panic, nobody sends to them any more.
    let receiver = Arc::new(Mutex::new(receiver));
    thread::scope(|scope| {
        let start = |_| {
            let (receiver, work) = (Arc::clone(&receiver), &work);
            scope.spawn(move || {
                // Locked only for the moment in which an item is taken.
                let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                work(&mut std::iter::from_fn(next))
            })
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        drop(receiver);
        let fed = feed(&sender);
        drop(sender);
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        (fed, workers.into_iter().map(join).collect())
    })
}

/// What the thread that finds records knows of a file.
#[derive(Debug, Default)]
struct Outline {
    view: String,
    time: Option<u32>,
    last_time: u32,
    out_of_order: u64,
    records: u64,
    updates: u64,
    bytes: u64,
    /// The peers of all tables of peers.
    peers: BTreeSet<(IpAddr, u32)>,
    faults: Faults,
}

fn feed(file: impl Read, sender: &mpsc::SyncSender<(Batch, PeerTable)>) -> io::Result<Outline> {
    let mut outline = Outline::default();
    let mut framer = Framer::new(file);
    let mut table = PeerTable::default();
    let mut before = 0;
    while let Some(mut batch) = framer.next_batch()? {
        outline.records += batch.records.len() as u64;
        let mut start = 0;
        for at in 0..batch.records.len() {
            let (header, body) = batch.records[at].clone();
            outline.time.get_or_insert(header.time);
            outline.last_time = outline.last_time.max(header.time);
            outline.out_of_order += u64::from(header.time < before);
            outline.updates += u64::from(matches!(header.kind, BGP4MP | BGP4MP_ET));
            before = header.time;
            if (header.kind, header.subtype) == (TABLE_DUMP_V2, PEER_INDEX_TABLE) {
                // The records before it belong to another table, if there is one.
                let earlier =
                    Batch { bytes: batch.bytes.clone(), records: batch.records[start..at].to_vec() };
                if !earlier.records.is_empty() {
                    _ = sender.send((earlier, Arc::clone(&table)));
                }
                start = at + 1;
                match record::peer_table(&batch.bytes[body]) {
                    Some((view, peers)) => {
                        outline.peers.extend(&peers);
                        (outline.view, table) = (view, Arc::new(peers));
                    }
                    None => outline.faults.add(Fault::RecordCutShort),
                }
            }
        }
        batch.records.drain(..start);
        // Nobody receives only if all threads have panicked. Joining them passes the panic on.
        _ = sender.send((batch, Arc::clone(&table)));
    }
    outline.bytes = framer.bytes;
    outline.faults.merge(&framer.faults);
    Ok(outline)
}

/// What an AS path means for a route that has it.
#[derive(Debug, Clone, Copy)]
struct Known {
    origin: u32,
    upstream: u32,
    entries: u64,
}

/// The distinct paths of a family.
type Paths = HashMap<Path, Known, Keyed>;

/// Makes hashes of paths that nobody can foresee, so that no file can be made to fill one place of a map. It is three
/// times as fast as the standard one for so few bytes.
#[derive(Clone)]
struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Keyed {
    type Hasher = PathHasher;

    fn build_hasher(&self) -> PathHasher {
        PathHasher { state: self.0, key: self.0 | 1 }
    }
}

/// Multiplies 8 bytes after the other with a key, and folds the 128 bits of each product.
struct PathHasher {
    state: u64,
    key: u64,
}

impl PathHasher {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.key ^ 0x9e37_79b9_7f4a_7c15);
        self.state = (product as u64) ^ ((product >> 64) as u64) ^ self.key;
    }
}

impl Hasher for PathHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

/// What one thread has read.
#[derive(Default)]
struct Gathered {
    paths: [Paths; 2],
    routes: Vec<Route>,
    /// The number of routes at which they are sorted next, if it is above [`SORT_AT`].
    sort_at: usize,
    /// The routes of the prefix that is being read: origin, upstream and entries.
    current: Vec<(u32, u32, u64)>,
    prefix: Option<Prefix>,
    table: PeerTable,
    /// The entries of each peer of `table`.
    by_index: Vec<u64>,
    by_router: HashMap<(IpAddr, u32), u64>,
    withdrawals: u64,
    faults: Faults,
}

impl Gathered {
    fn read(&mut self, batch: &Batch, table: PeerTable) {
        if !Arc::ptr_eq(&table, &self.table) {
            self.count_peers();
            self.by_index = vec![0; table.len()];
            self.table = table;
        }
        for (header, body) in &batch.records {
            record::read(*header, &batch.bytes[body.clone()], self);
        }
    }

    /// Ends the prefix that is being read.
    fn flush(&mut self) {
        let Some(prefix) = self.prefix.take() else { return };
        let routes = self.current.drain(..);
        let routes = routes.map(|(origin, upstream, entries)| Route { prefix, origin, upstream, entries });
        self.routes.extend(routes);
        // Tables with a route a record, and updates, come back to the same prefix again and again.
        if self.routes.len() >= self.sort_at.max(SORT_AT) {
            sort_routes(&mut self.routes);
            self.sort_at = self.routes.len() * 2;
        }
    }

    /// Sorts what the thread has read.
    fn finish(mut self) -> Found {
        self.flush();
        self.count_peers();
        sort_routes(&mut self.routes);
        let mut paths = Vec::with_capacity(self.paths.iter().map(Paths::len).sum());
        for (family, known) in Family::ALL.into_iter().zip(self.paths) {
            let counts = known.into_iter();
            paths.extend(counts.map(|(path, known)| PathCount { family, path, entries: known.entries }));
        }
        sort_paths(&mut paths);
        Found {
            paths,
            routes: self.routes,
            peers: self.by_router,
            withdrawals: self.withdrawals,
            faults: self.faults,
        }
    }

    fn count_peers(&mut self) {
        for (peer, entries) in self.table.iter().zip(self.by_index.drain(..)) {
            *self.by_router.entry(*peer).or_default() += entries;
        }
    }

    /// The origin and upstream of a path. `None` if the path is malformed.
    fn know(&mut self, family: Family, path: &[u8]) -> Option<(u32, u32)> {
        let paths = &mut self.paths[usize::from(family == Family::V6)];
        if let Some(known) = paths.get_mut(path) {
            known.entries += 1;
            return Some((known.origin, known.upstream));
        }
        // The octets may be divided into segments in another way than those of the same path before.
        let path = Path::from_wire(path)?;
        let known = paths.entry(path).or_insert_with_key(|path| {
            let hops = path.hops();
            Known { origin: hops.origin(), upstream: hops.upstream(), entries: 0 }
        });
        known.entries += 1;
        Some((known.origin, known.upstream))
    }
}

impl Sink for Gathered {
    fn route(&mut self, peer: PeerName, prefix: Prefix, path: &[u8]) {
        let Some((origin, upstream)) = self.know(prefix.family(), path) else {
            return self.faults.add(Fault::PathMalformed);
        };
        match peer {
            PeerName::Index(index) => match self.by_index.get_mut(usize::from(index)) {
                Some(entries) => *entries += 1,
                None => self.faults.add(Fault::UnknownPeer),
            },
            PeerName::Router(address, asn) => *self.by_router.entry((address, asn)).or_default() += 1,
        }
        if self.prefix != Some(prefix) {
            self.flush();
            self.prefix = Some(prefix);
        }
        match self.current.iter_mut().find(|route| (route.0, route.1) == (origin, upstream)) {
            Some(route) => route.2 += 1,
            None => self.current.push((origin, upstream, 1)),
        }
    }

    fn withdrawal(&mut self, peer: PeerName, _prefix: Prefix) {
        self.withdrawals += 1;
        if let PeerName::Router(address, asn) = peer {
            self.by_router.entry((address, asn)).or_default();
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }
}

/// What one thread has read, or all together. Paths and routes are sorted as in a [`Dump`].
#[derive(Default)]
struct Found {
    paths: Vec<PathCount>,
    routes: Vec<Route>,
    peers: HashMap<(IpAddr, u32), u64>,
    withdrawals: u64,
    faults: Faults,
}

/// Puts the results of the threads together, sorted, so that they do not depend on which thread read what.
fn together(outline: Outline, found: Vec<Found>, name: &str) -> Dump {
    let mut all = Found { faults: outline.faults, ..Found::default() };
    for mut part in found {
        all.paths.append(&mut part.paths);
        all.routes.append(&mut part.routes);
        for (peer, entries) in part.peers {
            *all.peers.entry(peer).or_default() += entries;
        }
        all.withdrawals += part.withdrawals;
        all.faults.merge(&part.faults);
    }
    thread::scope(|scope| {
        scope.spawn(|| sort_routes(&mut all.routes));
        sort_paths(&mut all.paths);
    });
    let empty = all.paths.iter().filter(|path| path.path.to_wire().is_empty());
    all.faults.add_many(Fault::EmptyPath, empty.map(|path| path.entries).sum());
    for peer in outline.peers {
        all.peers.entry(peer).or_default();
    }
    let peers = all.peers.into_iter();
    let mut peers: Vec<Peer> =
        peers.map(|((address, asn), entries)| Peer { address, asn, entries }).collect();
    peers.sort();
    Dump {
        file: name.to_owned(),
        // A file with both is a table, because updates tell nothing that a table does not hold.
        kind: if outline.updates * 2 > outline.records { DumpKind::Updates } else { DumpKind::Table },
        view: outline.view,
        time: i64::from(outline.time.unwrap_or(0)),
        last_time: i64::from(outline.last_time),
        out_of_order: outline.out_of_order,
        records: outline.records,
        bytes: outline.bytes,
        withdrawals: all.withdrawals,
        peers,
        paths: all.paths,
        routes: all.routes,
        faults: all.faults,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::Ordering::SeqCst,
    };

    use super::*;
    use crate::rib::mrt::{HEADER_LENGTH, Header};

    /// A record of a peer index table with one peer, or of a prefix with the paths of some routes of that peer.
    fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
        let header = Header { time: 1000, kind: TABLE_DUMP_V2, subtype, length: body.len() };
        assert_eq!(header.to_wire().len(), HEADER_LENGTH);
        [&header.to_wire()[..], body].concat()
    }

    fn table(asn: u8) -> Vec<u8> {
        record(1, &[192, 0, 2, 1, 0, 0, 0, 1, 0, 192, 0, 2, 2, 10, 0, 0, asn, 0, asn])
    }

    fn prefix(third: u8, paths: &[&[u8]]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 1, 24, 192, 0, third, 0, paths.len() as u8];
        for path in paths {
            body.extend([0, 0, 0, 0, 3, 232, 0, path.len() as u8 + 3, 0x40, 2, path.len() as u8]);
            body.extend(*path);
        }
        record(2, &body)
    }

    #[test]
    fn empty_paths_are_counted_as_routes_by_any_number_of_threads() {
        let file: Vec<u8> = (0..200).flat_map(|n| prefix(n, &[&[], &[2, 1, 0, 0, 0, 7]])).collect();
        let file = [table(1), file].concat();
        let one = read(&file[..], "x", 1).unwrap();
        assert_eq!(
            (one.entries(), one.faults.count(Fault::EmptyPath), one.peers[0].entries),
            (400, 200, 400)
        );
        for threads in [2, 7] {
            assert_eq!(read(&file[..], "x", threads).unwrap(), one);
        }
    }

    #[test]
    fn one_path_in_different_segments_is_one_path() {
        let whole = [2, 2, 0, 0, 0, 7, 0, 0, 0, 8];
        let divided = [2, 1, 0, 0, 0, 7, 2, 1, 0, 0, 0, 8];
        let file = [table(1), prefix(1, &[&whole, &divided, &divided])].concat();
        let dump = read(&file[..], "x", 1).unwrap();
        assert_eq!((dump.paths.len(), dump.paths[0].entries), (1, 3));
    }

    #[test]
    fn every_route_counts_for_the_table_of_peers_before_it() {
        let path: &[u8] = &[2, 1, 0, 0, 0, 7];
        let file =
            [table(1), prefix(1, &[path]), table(2), prefix(2, &[path, path]), prefix(3, &[path])].concat();
        let peers: Vec<_> =
            read(&file[..], "x", 2).unwrap().peers.iter().map(|peer| (peer.asn, peer.entries)).collect();
        assert_eq!(peers, [(1, 1), (2, 3)]);
    }

    /// A thread that panics is no silent gap, and nobody waits for threads that are gone.
    #[test]
    fn a_panic_of_any_thread_ends_reading() {
        for panics in [1, 2] {
            let left = std::sync::atomic::AtomicUsize::new(panics);
            let work = |items: &mut dyn Iterator<Item = u32>| {
                let is_one = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                assert!(!is_one, "a defect in a thread");
                items.count()
            };
            let feed = |sender: &mpsc::SyncSender<u32>| (0..1000).all(|item| sender.send(item).is_ok());
            let result = catch_unwind(AssertUnwindSafe(|| in_threads(2, feed, work)));
            assert!(result.is_err(), "{panics} of 2 threads");
        }
    }

    /// Thousands of tables of peers in one batch neither copy the batch each time nor lose a route.
    #[test]
    fn many_small_tables_of_peers_are_read() {
        let path: &[u8] = &[2, 1, 0, 0, 0, 7];
        let file: Vec<u8> = (0..5000).flat_map(|_| [table(1), prefix(1, &[path])].concat()).collect();
        let dump = read(&file[..], "x", 2).unwrap();
        assert_eq!((dump.entries(), dump.peers.len(), dump.peers[0].entries), (5000, 1, 5000));
    }
}
