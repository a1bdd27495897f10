//! A unicast server with up to six clients, over UDP that loses, reorders and duplicates packets.

mod udp;

pub use udp::run_seed;

use std::{ops::Range, time::Duration};

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use treecast_proto::unicast::{ClientEvent, StorageReport, StorageTask};
use treecast_wire::unicast::FileHeader;

use crate::{
    judge::Judge,
    session::{
        Fault,
        scenario::{draw_fault, pick},
        storage::{Storage, hash_of},
    },
    trace::{Entry, Node, Trace},
    world::Agenda,
};

/// The time that hashing takes.
const HASHING: Duration = Duration::from_millis(2);

/// The file's place in a client's storage.
const INDEX: u32 = 0;

/// The largest number of events in a run. A run with more goes round in circles.
const MAX_EVENTS: u64 = 2_000_000;

/// The virtual time by which every run must have ended.
const DEADLINE: Duration = Duration::from_secs(300);

/// Time, future events, the trace, and the file.
struct Stage<E> {
    agenda: Agenda<Node, E>,
    trace: Trace,
    file: Vec<u8>,
    header: FileHeader,
}

impl<E> Stage<E> {
    fn new(file: Vec<u8>, agenda: Agenda<Node, E>, verbose: bool) -> Self {
        Self { agenda, trace: Trace::new(verbose), header: header(&file), file }
    }

    fn note(&mut self, node: Node, verb: &'static str, range: Range<u64>) {
        let now = self.agenda.now();
        self.trace.add(Entry { now, node, verb, object: INDEX, start: range.start, end: range.end });
    }

    /// Carries out a storage task of client `number`. The event `hashed` is scheduled when the hash is ready.
    fn store(
        &mut self,
        number: usize,
        copy: &mut Copy,
        task: StorageTask,
        hashed: E,
    ) -> Option<StorageReport> {
        let (verb, range) = verb(&task);
        self.note(Node::Receiver(number), verb, range);
        if task == StorageTask::Hash {
            self.agenda.at(self.agenda.now() + HASHING, hashed);
        }
        copy.carry_out(task, &self.file)
    }
}

/// Draws a file with random contents: often small, sometimes empty.
fn draw_file(random: &mut ChaCha8Rng, block_len: usize) -> Vec<u8> {
    let size = match random.random_range(0..8) {
        0 => 0,
        1 => block_len,
        2 => random.random_range(1..3 * block_len),
        _ => random.random_range(1..60_000),
    };
    let mut bytes = vec![0; size];
    random.fill_bytes(&mut bytes);
    bytes
}

fn header(file: &[u8]) -> FileHeader {
    FileHeader { file_size: file.len() as u64, hash: hash_of(INDEX, file) }
}

/// A client's storage, and how its file ended.
#[derive(Debug)]
struct Copy {
    planned: Option<Fault>,
    storage: Storage,
    end: Option<ClientEvent>,
}

impl Copy {
    fn draw(random: &mut ChaCha8Rng, size: usize) -> Self {
        let planned = draw_fault(random, size);
        Self { planned, storage: Storage::new(vec![planned]), end: None }
    }

    /// Carries out a storage task. Hashing takes time, so its answer comes later and `None` is returned.
    fn carry_out(&mut self, task: StorageTask, file: &[u8]) -> Option<StorageReport> {
        let result = match task {
            StorageTask::Announce { size } => {
                self.storage.announce(INDEX, size);
                return None;
            }
            StorageTask::Store { range } => {
                let content = &file[range.start as usize..range.end as usize];
                self.storage.store(INDEX, range, content).map(|()| None)
            }
            StorageTask::Hash => return None,
            StorageTask::Commit => self.storage.commit(INDEX).map(|()| Some(StorageReport::Committed)),
            StorageTask::Discard => {
                self.storage.discard(INDEX);
                return None;
            }
        };
        result.unwrap_or_else(|reason| Some(StorageReport::Failed { reason }))
    }

    /// The report of the hash, when its time is over. `None` if the copy was discarded meanwhile.
    fn hashed(&mut self) -> Option<StorageReport> {
        self.storage.hash(INDEX).map(|(hash, _)| StorageReport::Hashed { hash })
    }

    /// Judges how the client ended.
    fn judge(&self, judge: &mut Judge, number: usize, file: &[u8]) {
        judge.committed(number, self.storage.committed(), |_| file);
        judge.left(number, self.storage.leftovers());
        let is_there = self.storage.committed().contains_key(&INDEX);
        let planned = self.planned.is_some_and(|fault| fault != Fault::DamagedOnce);
        let is_right = match &self.end {
            Some(ClientEvent::Received { size }) => is_there && *size == file.len() as u64,
            Some(ClientEvent::Failed { .. }) => !is_there && planned,
            _ => false,
        };
        judge.require(is_right, || {
            format!("client {number} ended with {:?}, its file is there: {is_there}", self.end)
        });
    }
}

/// Draws one of a few rates, in bits a second.
fn draw_rate(random: &mut ChaCha8Rng) -> u64 {
    *pick(random, &[2_000_000, 20_000_000, 200_000_000])
}

/// The verb and the bytes of a task, for the trace.
fn verb(task: &StorageTask) -> (&'static str, Range<u64>) {
    match task {
        StorageTask::Announce { size } => ("learns the size", 0..*size),
        StorageTask::Store { range } => ("stores", range.clone()),
        StorageTask::Hash => ("hashes", 0..0),
        StorageTask::Commit => ("commits", 0..0),
        StorageTask::Discard => ("discards", 0..0),
    }
}
