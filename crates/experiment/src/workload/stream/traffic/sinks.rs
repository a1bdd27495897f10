//! The receivers of the traffic: sockets, which one thread reads.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    Clock, Stamp, Tally,
    socket::{Batch, StampedSocket},
};

/// The traffic that receivers count.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Expected {
    /// The number of the run, by which late packets of an earlier run are told apart.
    pub run: u32,
    pub flows: usize,
    /// The number of packets of each flow.
    pub packets: u32,
}

/// All receivers of a run.
pub struct Sinks {
    sockets: Vec<StampedSocket>,
    expected: Expected,
    clock: Clock,
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
    /// Takes the sockets of receivers on hosts with one clock.
    pub fn new(sockets: Vec<StampedSocket>, expected: Expected, clock: Clock) -> Self {
        Self {
            sockets,
            expected,
            clock,
            is_over: AtomicBool::new(false),
            has_come: AtomicU64::new(0),
            began: AtomicU64::new(clock.now().as_nanos() as u64),
        }
    }

    /// Sets when the run began, as the time since 1970 by the run's clock. Seconds of the run are counted from there.
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
        let mut tallies = vec![Tally::new(self.expected.flows); self.sockets.len()];
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
            if let Some(stamp) = Stamp::read(data).filter(|stamp| stamp.run == self.expected.run) {
                tally.note(&stamp, self.clock.of(at), began, self.expected.packets);
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
