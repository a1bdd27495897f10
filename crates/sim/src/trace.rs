//! The trace of a run: a hash, to tell whether two runs are the same, and lines for people.

use std::fmt;

use treecast_proto::Instant;

/// An event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub now: Instant,
    pub node: Node,
    /// The action, or what happened to the node: "sends data", "stores", "fails".
    pub verb: &'static str,
    /// The index of the object.
    pub object: u32,
    /// The bytes of the object that the event is about, or other numbers that depend on the verb.
    pub start: u64,
    pub end: u64,
}

/// The node to which an event belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Sender,
    Receiver(usize),
}

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    entries: u64,
    /// The lines of the trace. `None` unless they are wanted.
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Creates an empty trace. `verbose` says whether it keeps lines.
    pub fn new(verbose: bool) -> Self {
        Self { hash: FNV_OFFSET, entries: 0, lines: verbose.then(Vec::new) }
    }

    pub fn add(&mut self, entry: Entry) {
        let node = match entry.node {
            Node::Sender => 0,
            Node::Receiver(receiver) => receiver as u64 + 1,
        };
        for number in [entry.now.as_nanos(), node, u64::from(entry.object), entry.start, entry.end] {
            self.mix(number);
        }
        entry.verb.bytes().for_each(|byte| self.mix(u64::from(byte)));
        self.entries += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(entry.to_string());
        }
    }

    /// The hash of all events and their times. Two runs with the same events at the same times have the same
    /// hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(FNV_PRIME);
        self.hash ^= self.hash >> 29;
    }
}

/// The start value and the factor of the Fowler-Noll-Vo hash with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, node, verb, object, start, end } = self;
        write!(f, "{now}  {node:<10}  {verb:<22} {object:>3}  {start}..{end}")
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender => f.pad("sender"),
            Self::Receiver(receiver) => f.pad(&format!("receiver {receiver}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(entries: &[(u64, &'static str)]) -> Trace {
        let mut trace = Trace::new(true);
        for (nanos, verb) in entries {
            let now = Instant::from_nanos(*nanos);
            trace.add(Entry { now, node: Node::Receiver(1), verb, object: 0, start: 1, end: 2 });
        }
        trace
    }

    #[test]
    fn the_hash_tells_what_and_when() {
        let hash = |entries| trace(entries).hash();
        assert_eq!(hash(&[(1, "a"), (2, "b")]), hash(&[(1, "a"), (2, "b")]));
        assert_ne!(hash(&[(1, "a"), (2, "b")]), hash(&[(2, "b"), (1, "a")]));
        assert_ne!(hash(&[(1, "a")]), hash(&[(1, "b")]));
    }

    #[test]
    fn lines_can_be_read() {
        let trace = trace(&[(1_500_000, "stores")]);
        assert_eq!(trace.lines(), ["0.001500s  receiver 1  stores                   0  1..2"]);
    }
}
