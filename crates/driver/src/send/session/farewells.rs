//! Connections of receivers that are served no more, while the last word goes to them.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant as HostInstant},
};

use treecast_proto::{Instant, object::ReceiverId};

use crate::connection::{Connection, Parting};

/// How long the last word may take. A slow receiver has everything before it that was written, some hundred kilobytes.
const LIMIT: Duration = Duration::from_secs(10);

/// How long the end of a session waits for last words that are still on their way. A receiver that is stopped must not hold up its
/// sender.
const END_LIMIT: Duration = Duration::from_secs(3);

/// From look to look at connections that take nothing more.
const INTERVAL: Duration = Duration::from_millis(20);

/// The most connections that are kept for this.
const MOST: usize = 1_000;

/// The connections, by the numbers that their receivers had.
#[derive(Default)]
pub(super) struct Farewells {
    open: BTreeMap<ReceiverId, Farewell>,
    next_look: Instant,
}

struct Farewell {
    connection: Connection,
    until: Instant,
}

impl Farewells {
    /// Takes a connection in which the last word is queued.
    pub fn begin(&mut self, now: Instant, receiver: ReceiverId, mut connection: Connection) {
        if connection.part() == Parting::Gone {
            return;
        }
        self.next_look = now + INTERVAL;
        self.open.insert(receiver, Farewell { connection, until: now + LIMIT });
        if self.open.len() > MOST {
            self.open.pop_first();
        }
    }

    /// Discards what a receiver sends that is served no more.
    pub fn hear(&mut self, receiver: ReceiverId) {
        let farewell = self.open.get_mut(&receiver);
        if farewell.is_some_and(|farewell| farewell.connection.part() == Parting::Gone) {
            self.open.remove(&receiver);
        }
    }

    /// Goes on with all, if it is time, and closes those whose time is over.
    pub fn look(&mut self, now: Instant) {
        if self.open.is_empty() || now < self.next_look {
            return;
        }
        self.next_look = now + INTERVAL;
        self.open.retain(|_, farewell| now < farewell.until && farewell.connection.part() != Parting::Gone);
    }

    /// When [`Farewells::look`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.open.is_empty()).then_some(self.next_look)
    }

    /// Waits until the last word has arrived at each, for a few seconds at most.
    pub fn settle(&mut self) {
        settle(std::mem::take(&mut self.open).values_mut().map(|farewell| &mut farewell.connection));
    }
}

/// Waits until what is queued in these connections has arrived, for a few seconds at most.
pub(super) fn settle<'a>(connections: impl Iterator<Item = &'a mut Connection>) {
    let end = HostInstant::now() + END_LIMIT;
    let mut connections: Vec<_> = connections.collect();
    loop {
        connections.retain_mut(|connection| connection.part() == Parting::Speaking);
        if connections.is_empty() || HostInstant::now() >= end {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
