//! The receivers of the traffic: sockets at all their nodes, which one thread reads.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    PORT, Stamp, Tally,
    socket::{Batch, Membership, StampedSocket},
};
use crate::site::{Site, enter};

/// The place where a receiver listens.
#[derive(Debug, Clone)]
pub struct Where {
    pub node: String,
    pub group: Option<Membership>,
}

/// All receivers of a run.
pub struct Sinks {
    sockets: Vec<StampedSocket>,
    run: u32,
    flows: usize,
    packets: u32,
    is_over: AtomicBool,
    has_come: AtomicU64,
    /// Nanoseconds since 1970.
    began: AtomicU64,
}

/// Time between two looks of the thread at all sockets. The kernel notes when each datagram came, so looking later
/// changes nothing that is measured, and one look takes all that came meanwhile. Nobody has to be woken for each of
/// 270,000 a second.
const LOOK: Duration = Duration::from_millis(20);

impl Sinks {
    /// Opens a socket at each node, for `flows` flows of `packets` packets each.
    pub fn open(site: &dyn Site, at: &[Where], run: u32, flows: usize, packets: u32) -> io::Result<Self> {
        let open = |at: &Where| enter(site, &at.node, || StampedSocket::open(PORT, at.group))?;
        let named = |at: &Where| {
            open(at).map_err(|error| io::Error::new(error.kind(), format!("listen in {}: {error}", at.node)))
        };
        Ok(Self {
            sockets: at.iter().map(named).collect::<io::Result<_>>()?,
            run,
            flows,
            packets,
            is_over: AtomicBool::new(false),
            has_come: AtomicU64::new(0),
            began: AtomicU64::new(super::now().as_nanos() as u64),
        })
    }

    /// Sets when the run began, as the time since 1970. Seconds of the run are counted from there.
    pub fn begin(&self, began: Duration) {
        self.began.store(began.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns how many packets all receivers have got together.
    pub fn has_come(&self) -> u64 {
        self.has_come.load(Ordering::Relaxed)
    }

    /// Makes [`Sinks::run`] return.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Reads all sockets until the end. Returns the counts of each receiver, in their order.
    pub fn run(&self) -> io::Result<Vec<Tally>> {
        go_first();
        let mut tallies = vec![Tally::new(self.flows); self.sockets.len()];
        let mut batch = Batch::default();
        let mut next = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            for index in 0..self.sockets.len() {
                while self.take(index, &mut tallies, &mut batch)? {}
            }
            next = (next + LOOK).max(Instant::now());
            thread::sleep(next - Instant::now());
        }
        Ok(tallies)
    }

    /// Reads what a socket has. Returns whether there may be more.
    fn take(&self, index: usize, tallies: &mut [Tally], batch: &mut Batch) -> io::Result<bool> {
        let began = Duration::from_nanos(self.began.load(Ordering::Relaxed));
        let tally = &mut tallies[index];
        let before = tally.packets;
        let may_have_more = self.sockets[index].take(batch, |data, at| {
            if let Some(stamp) = Stamp::read(data).filter(|stamp| stamp.run == self.run) {
                tally.note(&stamp, at, began, self.packets);
            }
        })?;
        self.has_come.fetch_add(tally.packets - before, Ordering::Relaxed);
        Ok(may_have_more)
    }
}

/// Makes the calling thread run before others where processors are short. What sinks are too late for is lost in
/// their sockets, and would be taken for the network's loss; a machine at its limit is told by other means.
fn go_first() {
    treecast_host::process::set_priority(-20);
}
