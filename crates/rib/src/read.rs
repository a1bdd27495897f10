//! Reads an MRT file with all cores: one thread finds records, the others read their routes.
//!
//! The file passes through memory once, in batches. Each thread keeps the distinct paths and routes that it has seen,
//! and these are put together at the end. So memory depends on the routing table, and not on the file's length. A file whose
//! contents would take more than its [`Budget`] is refused.

use std::{
    collections::{BTreeSet, HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hasher},
    io::{self, Read},
    net::IpAddr,
    panic::resume_unwind,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use super::{
    Dump, DumpKind, Family, Prefix,
    budget::Budget,
    dump::{PathCount, Peer, Route, sort_paths, sort_routes},
    fault::{Fault, Faults},
    mrt::{
        frame::{Batch, Framer},
        record::{self, PeerName, Sink},
        types::{self, PEER_INDEX_TABLE, TABLE_DUMP_V2},
    },
    path::Path,
};

/// The number of batches that wait for each thread.
const WAITING: usize = 2;

/// The number of routes from which on a thread sorts its routes and adds up equal ones.
const SORT_AT: usize = 1 << 20;

/// The number of different routes of one prefix that wait for equal ones. Each further route is compared with all of them,
/// so a prefix that has more is put down in several parts.
const MAX_CURRENT: usize = 64;

/// Memory, in bytes, of an address and ASN in a map of peers.
const PEER_BYTES: usize = 64;

/// A table of peers: their addresses and ASNs.
type PeerTable = Arc<Vec<(IpAddr, u32)>>;

/// Reads all records of `file`. `name` is the file's name in the result. `threads` read routes at the same time; 0 uses
/// as many as there are cores.
///
/// What is wrong in the file is counted in [`Dump::faults`].
///
/// # Errors
/// If the file cannot be read, or `OutOfMemory` when its contents would take more than half of the memory that is available.
pub fn read(file: impl Read, name: &str, threads: usize) -> io::Result<Dump> {
    read_within(file, name, threads, &Budget::of_table())
}

fn read_within(file: impl Read, name: &str, threads: usize, budget: &Budget) -> io::Result<Dump> {
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let spent = Spent::default();
    let feed = |sender: &_| feed(file, sender, budget, &spent);
    let (outline, found) = in_threads(threads, feed, |batches: &mut dyn Iterator<Item = (Batch, _)>| {
        let mut gathered = Gathered::new(budget);
        for (batch, table) in batches {
            // What comes behind the batch that is too much is taken off the channel, and let go of.
            if !spent.is_set()
                && let Err(error) = gathered.read(&batch, table)
            {
                spent.set(error);
                gathered = Gathered::new(budget);
            }
        }
        gathered.finish().unwrap_or_else(|error| {
            spent.set(error);
            Found::default()
        })
    });
    let outline = outline?;
    spent.into_result()?;
    Ok(together(outline, found, name))
}

/// The error of the first thread that found the budget spent. All threads stop then.
#[derive(Default)]
struct Spent(OnceLock<io::Error>);

impl Spent {
    fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    fn set(&self, error: io::Error) {
        _ = self.0.set(error);
    }

    fn into_result(self) -> io::Result<()> {
        self.0.into_inner().map_or(Ok(()), Err)
    }
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

/// The facts about a file that the thread which finds records knows.
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

fn feed(
    file: impl Read,
    sender: &mpsc::SyncSender<(Batch, PeerTable)>,
    budget: &Budget,
    spent: &Spent,
) -> io::Result<Outline> {
    let mut outline = Outline::default();
    let mut framer = Framer::new(file);
    let mut table = PeerTable::default();
    let mut before = 0;
    while !spent.is_set()
        && let Some(mut batch) = framer.next_batch()?
    {
        outline.records += batch.records.len() as u64;
        let mut start = 0;
        for at in 0..batch.records.len() {
            let (header, body) = batch.records[at].clone();
            outline.time.get_or_insert(header.time);
            outline.last_time = outline.last_time.max(header.time);
            outline.out_of_order += u64::from(header.time < before);
            outline.updates += u64::from(types::is_update(header.kind, header.subtype));
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
                        let before = outline.peers.len();
                        outline.peers.extend(&peers);
                        budget.take((outline.peers.len() - before) * PEER_BYTES)?;
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

/// The meaning of an AS path for a route that has it.
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

/// The content that one thread has read.
struct Gathered<'b> {
    budget: &'b Budget,
    /// The error that ended the keeping: the budget is spent.
    spent: Option<io::Error>,
    paths: [Paths; 2],
    routes: Vec<Route>,
    /// The number of routes at which they are sorted next: [`SORT_AT`], or more.
    sort_at: usize,
    /// Memory, in bytes, that was taken from the budget for routes.
    taken_for_routes: usize,
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

impl<'b> Gathered<'b> {
    fn new(budget: &'b Budget) -> Self {
        Self {
            budget,
            spent: None,
            paths: Default::default(),
            routes: Vec::new(),
            sort_at: SORT_AT,
            taken_for_routes: 0,
            current: Vec::new(),
            prefix: None,
            table: PeerTable::default(),
            by_index: Vec::new(),
            by_router: HashMap::new(),
            withdrawals: 0,
            faults: Faults::default(),
        }
    }

    /// Reads the records of a batch. Fails if the budget is spent.
    fn read(&mut self, batch: &Batch, table: PeerTable) -> io::Result<()> {
        if !Arc::ptr_eq(&table, &self.table) {
            self.count_peers();
            self.by_index = vec![0; table.len()];
            self.table = table;
        }
        for (header, body) in &batch.records {
            record::read(*header, &batch.bytes[body.clone()], self);
            if let Some(error) = self.spent.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) {
        if self.spent.is_none() {
            self.spent = self.budget.take(bytes).err();
        }
    }

    /// Puts down the routes of the prefix that is being read.
    fn flush(&mut self) {
        let Some(prefix) = self.prefix.take() else { return };
        let routes = self.current.drain(..);
        let routes = routes.map(|(origin, upstream, entries)| Route { prefix, origin, upstream, entries });
        self.routes.extend(routes);
        // Tables with a route a record, and updates, come back to the same prefix again and again.
        if self.routes.len() >= self.sort_at {
            self.add_up();
        }
    }

    /// Adds up equal routes, and takes memory for as many again, which may come before they are added up next.
    fn add_up(&mut self) {
        sort_routes(&mut self.routes);
        self.sort_at = (self.routes.len() * 2).max(SORT_AT);
        let needed = self.routes.len() * 2 * size_of::<Route>();
        self.take(needed.saturating_sub(self.taken_for_routes));
        self.taken_for_routes = self.taken_for_routes.max(needed);
    }

    /// Sorts what the thread has read.
    fn finish(mut self) -> io::Result<Found> {
        self.flush();
        self.count_peers();
        self.add_up();
        if let Some(error) = self.spent {
            return Err(error);
        }
        let mut paths = Vec::with_capacity(self.paths.iter().map(Paths::len).sum());
        for (family, known) in Family::ALL.into_iter().zip(self.paths) {
            let counts = known.into_iter();
            paths.extend(counts.map(|(path, known)| PathCount { family, path, entries: known.entries }));
        }
        sort_paths(&mut paths);
        Ok(Found {
            paths,
            routes: self.routes,
            peers: self.by_router,
            withdrawals: self.withdrawals,
            faults: self.faults,
        })
    }

    fn count_peers(&mut self) {
        for (peer, entries) in std::mem::take(&mut self.table).iter().zip(std::mem::take(&mut self.by_index))
        {
            self.count_router(*peer, entries);
        }
    }

    fn count_router(&mut self, router: (IpAddr, u32), entries: u64) {
        let before = self.by_router.len();
        *self.by_router.entry(router).or_default() += entries;
        self.take((self.by_router.len() - before) * PEER_BYTES);
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
        // The entry of the map, the place in the sorted list, and the octets.
        let bytes = 2 * size_of::<PathCount>() + path.to_wire().len().next_multiple_of(16);
        let before = paths.len();
        let known = paths.entry(path).or_insert_with_key(|path| {
            let hops = path.hops();
            Known { origin: hops.origin(), upstream: hops.upstream(), entries: 0 }
        });
        known.entries += 1;
        let ends = (known.origin, known.upstream);
        let added = paths.len() - before;
        self.take(added * bytes);
        Some(ends)
    }
}

impl Sink for Gathered<'_> {
    fn route(&mut self, peer: PeerName, prefix: Prefix, path: &[u8]) {
        let Some((origin, upstream)) = self.know(prefix.family(), path) else {
            return self.faults.add(Fault::PathMalformed);
        };
        match peer {
            PeerName::Index(index) => match self.by_index.get_mut(usize::from(index)) {
                Some(entries) => *entries += 1,
                None => self.faults.add(Fault::UnknownPeer),
            },
            PeerName::Router(address, asn) => self.count_router((address, asn), 1),
        }
        if self.prefix != Some(prefix) {
            self.flush();
            self.prefix = Some(prefix);
        }
        match self.current.iter_mut().find(|route| (route.0, route.1) == (origin, upstream)) {
            Some(route) => route.2 += 1,
            None => {
                if self.current.len() == MAX_CURRENT {
                    self.flush();
                    self.prefix = Some(prefix);
                }
                self.current.push((origin, upstream, 1));
            }
        }
    }

    fn withdrawal(&mut self, peer: PeerName, _prefix: Prefix) {
        self.withdrawals += 1;
        if let PeerName::Router(address, asn) = peer {
            self.count_router((address, asn), 0);
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }
}

/// The content that one thread has read, or all together. Paths and routes are sorted as in a [`Dump`].
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
    use crate::mrt::{HEADER_LENGTH, Header};

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

    /// The fields of a TABLE_DUMP record from the prefix on, with this path.
    fn dumped(third: u8, path: &[u8]) -> Vec<u8> {
        let attributes = [&[0x40, 1, 1, 0, 0x40, 2, path.len() as u8][..], path].concat();
        let mut fields = vec![192, 0, third, 0, 24, 1, 56, 122, 122, 24, 192, 0, 2, 2, 0, 7];
        fields.extend([0, attributes.len() as u8]);
        [fields, attributes].concat()
    }

    /// RIPE RIS wrote records like these in January 2000: several routes each, and a length that is 4 too small.
    #[test]
    fn records_with_several_routes_and_a_short_length_are_sound() {
        let path: &[u8] = &[2, 2, 0, 7, 0, 8];
        let entries: Vec<u8> = (0..3).flat_map(|third| dumped(third, path)).collect();
        for short in [4, 0] {
            let body = [&[0, 0, 0, 0][..], &entries].concat();
            let header = Header { time: 947_505_332, kind: 12, subtype: 1, length: body.len() - short };
            let record = [&header.to_wire()[..], &body].concat();
            for records in [1, 2, 5] {
                let dump = read(&record.repeat(records)[..], "x", 1).unwrap();
                let counts = (dump.records, dump.entries(), dump.routes.len(), dump.faults.errors());
                assert_eq!(counts, (records as u64, records as u64 * 3, 3, 0), "{short}: {:?}", dump.faults);
            }
        }
        // Octets behind the first route that are no routes belong to nothing.
        let header = Header { time: 1000, kind: 12, subtype: 1, length: 4 + dumped(0, path).len() + 9 };
        let record = [&header.to_wire()[..], &[0; 4], &dumped(0, path), &[7; 9]].concat();
        let dump = read(&record.repeat(2)[..], "x", 1).unwrap();
        assert_eq!((dump.entries(), dump.routes.len(), dump.faults.errors()), (2, 1, 0));
    }

    /// BIRD writes its own routes without an AS_PATH, into tables of both formats.
    #[test]
    fn a_table_s_route_without_a_path_is_the_router_s_own() {
        let own = record(2, &[0, 0, 0, 1, 24, 192, 0, 2, 0, 1, 0, 0, 0, 0, 3, 232, 0, 4, 0x40, 1, 1, 0]);
        let file = [table(1), own.repeat(3), prefix(3, &[&[2, 1, 0, 0, 0, 7]])].concat();
        let dump = read(&file[..], "x", 1).unwrap();
        assert_eq!((dump.entries(), dump.faults.errors(), dump.faults.count(Fault::EmptyPath)), (4, 0, 3));
        let mut body = [&[0; 4][..], &dumped(1, &[])].concat();
        body.truncate(body.len() - 3);
        *body.get_mut(21).unwrap() = 4;
        let header = Header { time: 1000, kind: 12, subtype: 1, length: body.len() };
        let dump = read(&[&header.to_wire()[..], &body].concat().repeat(2)[..], "x", 1).unwrap();
        assert_eq!((dump.entries(), dump.faults.errors(), dump.faults.count(Fault::EmptyPath)), (2, 0, 2));
    }

    /// OpenBGPD writes tables as BGP4MP_ENTRY (RFC 6396, appendix B.2.5).
    #[test]
    fn entries_of_bgp4mp_are_routes_of_a_table() {
        let entry = |third: u8, path: &[u8]| {
            let mut body = vec![0, 7, 0, 9, 0, 0, 0, 1, 192, 0, 2, 2, 192, 0, 2, 9];
            body.extend([0, 0, 0, 1, 56, 122, 122, 24, 0, 1, 1, 4, 192, 0, 2, 1, 24, 192, 0, third]);
            body.extend([0, 7 + path.len() as u8, 0x40, 1, 1, 0, 0x40, 2, path.len() as u8]);
            body.extend(path);
            let header = Header { time: 1000, kind: 16, subtype: 2, length: body.len() };
            [&header.to_wire()[..], &body].concat()
        };
        let file = [entry(1, &[2, 2, 0, 7, 0, 8]), entry(2, &[2, 1, 0, 7]), entry(3, &[])].concat();
        let dump = read(&file[..], "x", 1).unwrap();
        assert_eq!((dump.kind, dump.entries(), dump.faults.errors()), (DumpKind::Table, 3, 0));
        assert_eq!((dump.routes[0].origin, dump.routes[0].upstream), (8, 7));
        assert_eq!((dump.peers[0].asn, dump.peers[0].entries), (7, 3));
    }

    /// A prefix with many different routes takes time that grows with their number: no route is compared with more than
    /// [`MAX_CURRENT`] others, and equal ones that are put down apart are added up.
    #[test]
    fn many_routes_of_one_prefix_are_compared_with_few_others() {
        let budget = Budget::of_table();
        let mut gathered = Gathered::new(&budget);
        let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
        let peer = PeerName::Router("192.0.2.2".parse().unwrap(), 1);
        for _ in 0..3 {
            for origin in 1..=1000_u32 {
                let path = [&[2, 2][..], &7_u32.to_be_bytes(), &origin.to_be_bytes()].concat();
                gathered.route(peer, prefix, &path);
                assert!(gathered.current.len() <= MAX_CURRENT);
            }
        }
        let routes = gathered.finish().unwrap().routes;
        // The path `7 7` is one hop.
        assert_eq!(routes.len(), 1000);
        assert!(routes.iter().all(|route| route.prefix == prefix && route.entries == 3), "{routes:?}");
    }

    /// A table whose paths or prefixes do not fit is refused by any number of threads. Equal routes take no memory.
    #[test]
    fn contents_without_end_are_refused_within_the_budget() {
        let file = |paths: u32, prefixes: u32| {
            let routes = (0..60_000_u32).flat_map(|n| {
                let path = [&[2, 1][..], &(n % paths + 1).to_be_bytes()].concat();
                let address = (n % prefixes).to_be_bytes();
                let mut body = [&[0, 0, 0, 1, 32][..], &address, &[0, 1, 0, 0, 0, 0, 3, 232, 0, 9]].concat();
                body.extend([0x40, 2, 6]);
                body.extend(path);
                record(2, &body)
            });
            [table(1), routes.collect()].concat()
        };
        let read = |file: &[u8], threads| read_within(file, "x", threads, &Budget::new(1 << 20));
        for threads in [1, 3] {
            assert_eq!(read(&file(100, 100), threads).unwrap().entries(), 60_000);
            for (paths, prefixes) in [(60_000, 100), (100, 60_000)] {
                let error = read(&file(paths, prefixes), threads).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
            }
        }
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
