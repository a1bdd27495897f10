//! Connections of receivers that are served no more, while the last word goes to them.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant as HostInstant},
};

use treecast_proto::Instant;

use crate::connection::{Connection, Parting};

/// The time that the last word may take. A slow receiver has everything before it that was written, some hundred
/// kilobytes.
const LIMIT: Duration = Duration::from_secs(10);

/// The time for which the end of a session waits for last words that are still on their way. A receiver that is
/// stopped must not hold up its sender.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Time between two looks at connections that take nothing more.
const INTERVAL: Duration = Duration::from_millis(20);

/// The most connections that are kept for this.
const MOST: usize = 1_000;

/// The connections, the oldest first. The session's poller knows them no more: one that is shut for writing would wake it all the time.
#[derive(Default)]
pub(super) struct Farewells {
    open: VecDeque<Farewell>,
    next_look: Instant,
}

struct Farewell {
    connection: Connection,
    until: Instant,
}

impl Farewells {
    /// Takes a connection in which the last word is queued.
    pub fn begin(&mut self, now: Instant, mut connection: Connection) {
        if connection.part() == Parting::Gone {
            return;
        }
        self.next_look = now + INTERVAL;
        self.open.push_back(Farewell { connection, until: now + LIMIT });
        if self.open.len() > MOST {
            self.open.pop_front();
        }
    }

    /// Goes on with all, if it is time, and closes those whose time is over.
    pub fn look(&mut self, now: Instant) {
        if self.open.is_empty() || now < self.next_look {
            return;
        }
        self.next_look = now + INTERVAL;
        self.open.retain_mut(|farewell| now < farewell.until && farewell.connection.part() != Parting::Gone);
    }

    /// The time at which [`Farewells::look`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.open.is_empty()).then_some(self.next_look)
    }

    /// Waits until the last word has arrived at each, and at the ends of these connections, for a few seconds at most.
    pub fn settle<'a>(&mut self, others: impl Iterator<Item = &'a mut Connection>) {
        let end = HostInstant::now() + END_LIMIT;
        let mut begun = std::mem::take(&mut self.open);
        let mut connections: Vec<_> = begun.iter_mut().map(|farewell| &mut farewell.connection).collect();
        others.for_each(|other| connections.push(other));
        loop {
            connections.retain_mut(|connection| connection.part() == Parting::Speaking);
            if connections.is_empty() || HostInstant::now() >= end {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
